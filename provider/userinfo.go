package provider

import (
	"context"
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
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, POST")
		p.oauthError(w, r, errInvalidRequest.with(http.StatusMethodNotAllowed))
		return
	}
	token, err := bearerToken(w, r)
	if err == nil && token == "" {
		// RFC 6750 section 3.1: no error code for a request without authentication.
		w.Header().Set("WWW-Authenticate", `Bearer realm="userinfo"`)
		p.writeOAuth(w, r, http.StatusUnauthorized, map[string]any{"error": "invalid_token", "error_description": "An access token is needed."})
		return
	}
	var claims map[string]any
	if err == nil {
		claims, err = p.userinfoClaims(r.Context(), token)
	}
	if err != nil {
		p.userinfoError(w, r, err)
		return
	}
	p.writeOAuth(w, r, http.StatusOK, claims)
}

// userinfoClaims are what the endpoint tells the holder of an access token, which is
// looked at with every use.
func (p *Provider) userinfoClaims(ctx context.Context, token string) (map[string]any, error) {
	t, err := p.findToken(ctx, token)
	if err != nil {
		return nil, err
	}
	g := t.Grant
	// A refresh token is no bearer token, and of a client's own token (client_credentials)
	// there is no user to tell of.
	elsewhere := len(t.Audience) > 0 && !slices.Contains(t.Audience, p.userinfoURI())
	if t.Refresh || g.Revoked || g.Sub == "" || p.clock().After(t.Expires) || elsewhere {
		return nil, errInvalidToken
	}
	if !slices.Contains(g.Scopes, "openid") {
		return nil, errInsufficientScope
	}
	c, err := p.client(ctx, g.ClientID)
	if err != nil {
		return nil, err
	}
	u, err := p.activeUser(ctx, g, c)
	if err != nil {
		return nil, err
	}
	return userInfo(u, c, g), nil
}

// userInfo is what the endpoint tells of a user.
func userInfo(u account.User, c *Client, g *Grant) map[string]any {
	asked := storedClaims(g.Claims, c).UserInfo
	claims := claimsOf(u, c, g.Scopes, asked)
	maps.Copy(claims, g.authenticationClaims(asked))
	claims["sub"] = u.Sub
	return claims
}

// bearerToken takes the token from the header or, for a POST, from the form
// body; never from the URL, never from two places (RFC 6750 section 2). Empty for a
// request without one.
func bearerToken(w http.ResponseWriter, r *http.Request) (token string, err error) {
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") {
		return "", errInvalidRequest
	}
	header := r.Header.Values("Authorization")
	if len(header) > 1 {
		return "", errInvalidRequest
	}
	if len(header) == 1 {
		scheme, rest, ok := strings.Cut(header[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return "", nil
		}
		token = strings.TrimLeft(rest, " ")
	}
	if r.Method == http.MethodPost {
		mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err == nil && mt == "application/x-www-form-urlencoded" {
			r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
			if err := r.ParseForm(); err != nil {
				return "", errInvalidRequest
			}
			inBody := r.PostForm["access_token"]
			if len(inBody) > 1 || len(inBody) == 1 && len(header) == 1 {
				return "", errInvalidRequest
			}
			if len(inBody) == 1 {
				token = inBody[0]
			}
		}
	}
	if len(token) > 8<<10 {
		return "", errInvalidRequest
	}
	return token, nil
}

// userinfoError tells a failing database (503) from a token that is not good
// (401, RFC 6750 section 3): a client drops its session on the second.
func (p *Provider) userinfoError(w http.ResponseWriter, r *http.Request, err error) {
	if web.Abandoned(r, err) {
		p.accounts.Fail(w, r, err)
		return
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrClientNotFound) || isRefusal(err) {
		err = errInvalidToken
	}
	e := oauthErrorOf(err, false)
	if e.status >= http.StatusInternalServerError {
		p.logFailure(r, "userinfo failed", err)
	} else {
		challenge := fmt.Sprintf(`Bearer realm="userinfo", error=%q, error_description=%q`, e.code, e.description)
		if e == errInsufficientScope {
			challenge += `, scope="openid"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	p.oauthError(w, r, e)
}
