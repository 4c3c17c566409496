package provider

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// signInClaims describe the sign-in, not the user. userinfo has them only if requested by name.
var signInClaims = []string{"acr", "amr", "auth_time"}

// claimsOf returns a user's claims for a client, without sub: the claims of the granted scopes
// and those requested by name. Empty values are omitted.
func claimsOf(u account.User, c *Client, granted, requested []string) map[string]any {
	out := make(map[string]any, 12)
	for _, s := range scopes {
		whole := slices.Contains(granted, s.name)
		if !whole && len(requested) == 0 {
			continue
		}
		for _, name := range s.claims {
			if !whole && !slices.Contains(requested, name) {
				continue
			}
			if v := claimValue(&u, c, name); v != nil {
				out[name] = v
			}
		}
	}
	return out
}

// claimValue returns a user's claim as a client gets it, or nil if it is empty.
func claimValue(u *account.User, client *Client, name string) any {
	f, text := &u.Profile, ""
	switch name {
	case "name":
		return u.DisplayName
	case "preferred_username":
		return u.Handle
	case "groups":
		return append([]string{}, client.groupsOf(*u)...)
	case "updated_at":
		if !u.UpdatedAt.IsZero() {
			return u.UpdatedAt.Unix()
		}
	case "email":
		text = u.EmailClaim()
	case "email_verified":
		if u.Email != "" {
			return u.EmailVerified
		}
	case "phone_number_verified":
		if f.PhoneNumber != "" {
			return f.PhoneNumberVerified
		}
	case "address":
		if f.Address != nil {
			return *f.Address
		}
	default:
		text = f.Text(name)
	}
	if text == "" {
		return nil
	}
	return text
}

func claimsSupported() []string {
	names := []string{"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "at_hash", "jti", "sid"}
	for _, s := range scopes {
		names = append(names, s.claims...)
	}
	return names
}

// access is the part of a request that its client may have.
type access struct {
	granted   []string // scopes of the grant
	named     []string // URIs in resource
	resources []string // URIs of the requested APIs
	// agreed lists what the user has to agree to: granted, the scopes of claims requested by
	// name, resources, and those of told that no scope covers.
	agreed []string
	claims claimsRequest // only in OpenID Connect requests
	told   []string      // what own claims need consent for: see ownclaims.go
}

var errUnknownResource = errors.New("no API of the client has this URI")

// access reads scope, resource and claims. The error is errClaims or errUnknownResource.
func (req *authorization) access() (a access, err error) {
	a.granted = req.knownScopes(strings.Fields(req.form.Get("scope")))
	for _, uri := range req.form["resource"] {
		if req.apis.find(uri) == nil {
			return a, errUnknownResource
		}
	}
	a.named = req.form["resource"]
	a.resources = req.apis.uses(a.named, a.granted)
	if raw := req.form.Get("claims"); raw != "" {
		parsed, err := parseClaims(raw)
		if err != nil {
			return a, err
		}
		if slices.Contains(a.granted, "openid") {
			a.claims = parsed.only(req.client)
		}
	}
	a.agreed = append(req.knownScopes(slices.Concat(a.granted, a.claims.scopes())), a.resources...)
	if slices.Contains(a.granted, "openid") || len(a.resources) > 0 {
		a.told = claimEntries(req.client, req.apis, a.resources)
	}
	scopes := a.agreed
	for _, entry := range a.told {
		if !covers(req.client, scopes, entry) {
			a.agreed = append(a.agreed, entry)
		}
	}
	return a, nil
}

// maxClaims bounds the claims parameter, in bytes. The whole request has at most 4 KiB.
const maxClaims = 3 << 10

// claimsRequest is the supported part of the claims parameter (OpenID Connect Core section 5.5):
// sorted names of user claims. Grants store its JSON.
type claimsRequest struct {
	UserInfo []string `json:"u,omitempty"`
	IDToken  []string `json:"i,omitempty"`
	Told     []string `json:"t,omitempty"` // what own claims may tell: see ownclaims.go

	subs [][]string // each list must contain the sub
	acr  acrRequest // of the ID token
}

// claimOptions is the value of one member of a claims request.
type claimOptions struct {
	Essential bool              `json:"essential"`
	Value     json.RawMessage   `json:"value"`
	Values    []json.RawMessage `json:"values"`
}

var errClaims = errors.New("not a claims request")

// parseClaims parses the parameter strictly. Unknown claims are ignored, as section 5.5 requires;
// a malformed value is errClaims.
func parseClaims(raw string) (claimsRequest, error) {
	var c claimsRequest
	var top map[string]json.RawMessage
	if len(raw) > maxClaims || web.DecodeJSON([]byte(raw), &top) != nil {
		return c, errClaims
	}
	var err error
	if c.UserInfo, err = c.section(top["userinfo"], false); err != nil {
		return claimsRequest{}, err
	}
	if c.IDToken, err = c.section(top["id_token"], true); err != nil {
		return claimsRequest{}, err
	}
	return c, nil
}

// section reads one of the two members. null is the same as absent.
func (c *claimsRequest) section(raw json.RawMessage, idToken bool) ([]string, error) {
	var members map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &members) != nil {
		return nil, errClaims
	}
	var names []string
	for name, member := range members {
		// null requests the claim without options.
		var options *claimOptions
		if err := json.Unmarshal(member, &options); err != nil {
			return nil, errClaims
		}
		switch {
		case name == "sub" && options != nil:
			if err := c.addSub(append(slices.Clip(options.Values), options.Value)); err != nil {
				return nil, err
			}
		case name == "acr" && idToken:
			if options == nil {
				options = new(claimOptions)
			}
			values := append([]json.RawMessage{options.Value}, options.Values...)
			if err := c.addACR(options.Essential, values); err != nil {
				return nil, err
			}
		case idToken && slices.Contains(signInClaims, name): // always included
		case claimScope(name) != "":
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (c *claimsRequest) addSub(values []json.RawMessage) error {
	var subs []string
	for _, v := range values {
		if len(v) == 0 || string(v) == "null" {
			continue
		}
		var sub string
		if json.Unmarshal(v, &sub) != nil {
			return errClaims
		}
		subs = append(subs, sub)
	}
	if subs != nil {
		c.subs = append(c.subs, subs)
	}
	return nil
}

// admits reports whether the client expects this user (section 5.5.1).
func (c claimsRequest) admits(sub string) bool {
	return !slices.ContainsFunc(c.subs, func(list []string) bool { return !slices.Contains(list, sub) })
}

// scopes returns the scopes of the claims requested by name. The client must be registered for
// them and the user must agree to them.
func (c claimsRequest) scopes() []string {
	var out []string
	for _, name := range slices.Concat(c.UserInfo, c.IDToken) {
		if s := claimScope(name); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// only returns the request with only the claims that the client may have.
func (c claimsRequest) only(client *Client) claimsRequest {
	notAllowed := func(name string) bool { return !slices.Contains(client.Scopes, claimScope(name)) }
	c.UserInfo = slices.DeleteFunc(slices.Clone(c.UserInfo), notAllowed)
	c.IDToken = slices.DeleteFunc(slices.Clone(c.IDToken), notAllowed)
	return c
}

// stored returns the form for Grant.Claims, "" if nothing is requested.
func (c claimsRequest) stored() string {
	if len(c.UserInfo)+len(c.IDToken)+len(c.Told) == 0 {
		return ""
	}
	b, _ := json.Marshal(c) // strings only: cannot fail
	return string(b)
}

// storedClaims decodes the result of stored for the client of the grant, which may have lost
// scopes since.
func storedClaims(stored string, client *Client) claimsRequest {
	var c claimsRequest
	_ = json.Unmarshal([]byte(stored), &c) // "": nothing is requested
	return c.only(client)
}
