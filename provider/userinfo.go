package provider

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// userinfo is the UserInfo endpoint (OpenID Connect Core section 5.3).
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return errMethod
	}
	token, dpop, err := presentedToken(w, r)
	if err == nil && token == "" {
		// RFC 6750 section 3.1: no error code for a request without authentication.
		w.Header().Set("WWW-Authenticate", `Bearer realm="userinfo"`)
		w.Header().Add("WWW-Authenticate", `DPoP realm="userinfo"`+dpopChallenge)
		noToken.note(r.Context())
		p.writeOAuth(w, r, http.StatusUnauthorized, map[string]any{
			"error": "invalid_token", "error_description": "An access token is needed.",
		})
		return nil
	}
	var claims map[string]any
	if err == nil {
		claims, err = p.userinfoClaims(w, r, token, &dpop)
	}
	if err != nil {
		return challenge(w, err, dpop)
	}
	p.writeOAuth(w, r, http.StatusOK, claims)
	return nil
}

// userinfoClaims checks the access token and returns the claims for its holder. dpop reports
// whether the token came with the scheme DPoP; if the token requires that scheme, userinfoClaims
// sets it.
func (p *Provider) userinfoClaims(
	w http.ResponseWriter, r *http.Request, token string, dpop *bool,
) (map[string]any, error) {
	ctx := r.Context()
	t, err := p.findToken(ctx, token)
	if err != nil {
		return nil, err
	}
	g := t.Grant
	// A refresh token is not a bearer token, and a client's own token (client_credentials) has no
	// user.
	elsewhere := len(t.Audience) > 0 && !slices.Contains(t.Audience, p.userinfoURI())
	if t.Refresh || g.Revoked || g.Sub == "" || p.clock().After(t.Expires) || elsewhere {
		return nil, errInvalidToken
	}
	c, err := p.client(ctx, g.ClientID)
	if err != nil {
		return nil, err
	}
	if err := p.proveTokenUse(w, r, c, t, token, *dpop); err != nil {
		*dpop = *dpop || t.JKT != ""
		return nil, err
	}
	if !slices.Contains(g.Scopes, "openid") {
		return nil, errInsufficientScope
	}
	u, err := p.activeUser(ctx, g, c)
	if err != nil {
		return nil, err
	}
	return userInfo(u, c, g), nil
}

func userInfo(u account.User, c *Client, g *Grant) map[string]any {
	requested := storedClaims(g.Claims, c).UserInfo
	claims := claimsOf(u, c, c.scopesLeft(g), requested)
	maps.Copy(claims, g.authenticationClaims(requested))
	c.addOwnClaims(claims, claimInUserInfo, u, g)
	claims["sub"] = u.Sub
	return claims
}

// presentedToken returns the token in the header or, for a POST, in the form; never from the URL,
// never from two places (RFC 6750 section 2). Without a token it returns "". dpop reports whether
// the scheme is DPoP (RFC 9449 section 7.1).
func presentedToken(w http.ResponseWriter, r *http.Request) (token string, dpop bool, err error) {
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") {
		return "", false, errInvalidRequest.about(inQuery, "access_token", "It must be in the Authorization header.")
	}
	twice := errInvalidRequest.about(authTwice, "access_token", "It is given more than once.")
	header := r.Header.Values("Authorization")
	if len(header) > 1 {
		return "", false, twice
	}
	if len(header) == 1 {
		scheme, rest, _ := strings.Cut(header[0], " ")
		dpop = strings.EqualFold(scheme, "DPoP")
		if !dpop && !strings.EqualFold(scheme, "Bearer") {
			return "", false, nil
		}
		token = strings.TrimLeft(rest, " ")
	}
	if r.Method == http.MethodPost {
		mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err == nil && mt == "application/x-www-form-urlencoded" {
			r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
			if err := r.ParseForm(); err != nil {
				return "", dpop, errInvalidRequest.because(badForm, "The body is not a form, or it is too large.")
			}
			inBody := r.PostForm["access_token"]
			if len(inBody) > 1 || len(inBody) == 1 && len(header) == 1 {
				return "", dpop, twice
			}
			if len(inBody) == 1 {
				token = inBody[0]
			}
		}
	}
	if len(token) > 8<<10 {
		return "", dpop, errInvalidRequest.about(tooLarge, "access_token", "It is too long.")
	}
	return token, dpop, nil
}

// challenge returns the error for the client, and sets the header of a 401 or 403 (RFC 6750 section
// 3). A failing database (503) is not an invalid token: clients drop their session after a 401.
func challenge(w http.ResponseWriter, err error, dpop bool) error {
	why := refusalReason(err)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrClientNotFound) || why != "" {
		err = errInvalidToken.because(cmp.Or(why, badToken), "")
	}
	e := oauthErrorOf(err)
	if e.status >= http.StatusInternalServerError {
		return err
	}
	if errors.Is(e, errInvalidProof) || errors.Is(e, errUseNonce) {
		e = e.with(http.StatusUnauthorized)
	}
	scheme, algorithms := "Bearer", ""
	if dpop {
		scheme, algorithms = "DPoP", dpopChallenge
	}
	header := fmt.Sprintf(`%s realm="userinfo", error=%q, error_description=%q%s`,
		scheme, e.code, e.description, algorithms)
	if errors.Is(e, errInsufficientScope) {
		header += `, scope="openid"`
	}
	w.Header().Set("WWW-Authenticate", header)
	return e
}
