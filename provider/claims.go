package provider

import (
	"net/url"
	"slices"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// scopeClaims are the claims of a user by the scope that gives them (OpenID
// Connect Core section 5.4), in the order of discovery.
var scopeClaims = []struct {
	scope  string
	claims []string
}{
	{"profile", []string{
		"name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture", "website", "gender", "birthdate",
		"zoneinfo", "locale", "updated_at",
	}},
	{"email", []string{"email", "email_verified"}},
	{"address", []string{"address"}},
	{"phone", []string{"phone_number", "phone_number_verified"}},
	{"groups", []string{"groups"}},
}

// claimScope is the scope that a claim belongs to, empty for what is not a
// claim of a user.
func claimScope(name string) string {
	for _, s := range scopeClaims {
		if slices.Contains(s.claims, name) {
			return s.scope
		}
	}
	return ""
}

// claimsOf are the claims of a user for a client, without sub, that the granted
// scopes give and those that were asked for by name. Empty values are left out.
func claimsOf(u account.User, c *Client, scopes fosite.Arguments, asked []string) map[string]any {
	all, out := everyClaim(u, c), map[string]any{}
	for _, s := range scopeClaims {
		granted := scopes.Has(s.scope)
		for _, name := range s.claims {
			if v, there := all[name]; there && (granted || slices.Contains(asked, name)) {
				out[name] = v
			}
		}
	}
	return out
}

// everyClaim is all that the client can be told of a user.
func everyClaim(u account.User, client *Client) map[string]any {
	c := map[string]any{
		"name": u.DisplayName, "preferred_username": u.Handle, "groups": append([]string{}, client.GroupsOf(u)...),
	}
	if !u.UpdatedAt.IsZero() {
		c["updated_at"] = u.UpdatedAt.Unix()
	}
	if u.Email != "" {
		c["email"], c["email_verified"] = u.Email, u.EmailVerified
	}
	f := u.Profile
	for name, value := range map[string]string{
		"given_name": f.GivenName, "family_name": f.FamilyName, "middle_name": f.MiddleName, "nickname": f.Nickname, "profile": f.Page,
		"picture": f.Picture, "website": f.Website, "gender": f.Gender, "birthdate": f.Birthdate, "zoneinfo": f.Zoneinfo, "locale": f.Locale,
	} {
		if value != "" {
			c[name] = value
		}
	}
	if f.PhoneNumber != "" {
		c["phone_number"], c["phone_number_verified"] = f.PhoneNumber, f.PhoneNumberVerified
	}
	if f.Address != nil {
		c["address"] = *f.Address
	}
	return c
}

// claimsSupported is what discovery lists.
func claimsSupported() []string {
	names := []string{"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "acr", "at_hash", "jti", "sid"}
	for _, s := range scopeClaims {
		names = append(names, s.claims...)
	}
	return names
}

// knownScopes keeps those of the requested scopes that exist and that the
// client may have; others are ignored (OpenID Connect Core section 3.1.2.1).
func knownScopes(requested []string, c *Client) []string {
	var out []string
	for _, s := range requested {
		if slices.Contains(Scopes, s) && slices.Contains(c.Scopes, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// whatIsAsked is what a request asks for of what the client may have: scopes to
// grant, scopes to agree to (more, when claims are asked for by name) and the claims
// parameter, which counts in an OpenID Connect request only. ok is false when that cannot be read.
func whatIsAsked(f url.Values, c *Client) (granted, agreed []string, claims claimsRequest, ok bool) {
	granted = knownScopes(strings.Fields(f.Get("scope")), c)
	if raw := f.Get("claims"); raw != "" {
		parsed, err := parseClaims(raw)
		if err != nil {
			return nil, nil, claims, false
		}
		if slices.Contains(granted, "openid") {
			claims = parsed.only(c)
		}
	}
	return granted, knownScopes(slices.Concat(granted, claims.scopes()), c), claims, true
}
