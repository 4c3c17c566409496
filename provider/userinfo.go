package provider

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// userinfo is the UserInfo endpoint (OpenID Connect Core section 5.3).
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, POST")
		p.oauthError(w, r, http.StatusMethodNotAllowed, "invalid_request")
		return
	}
	token, name := bearerToken(w, r)
	if name != "" {
		p.bearerError(w, r, http.StatusBadRequest, name)
		return
	}
	if token == "" {
		// RFC 6750 section 3.1: no error code for a request without authentication.
		w.Header().Set("WWW-Authenticate", `Bearer realm="userinfo"`)
		p.writeOAuth(w, r, http.StatusUnauthorized, map[string]any{"error": "invalid_token", "error_description": "An access token is needed."})
		return
	}
	ctx := r.Context()
	grant, err := p.storage.GetAccessTokenSession(ctx, p.tokens.AccessTokenSignature(ctx, token), nil)
	if err == nil {
		err = p.tokens.ValidateAccessToken(ctx, grant, token)
	}
	if err != nil {
		p.userinfoError(w, r, err)
		return
	}
	if grant.GetSession().GetSubject() == "" {
		// A client's own token (client_credentials): there is no user to tell of.
		p.bearerError(w, r, http.StatusUnauthorized, "invalid_token")
		return
	}
	if !grant.GetGrantedScopes().Has("openid") {
		p.bearerError(w, r, http.StatusForbidden, "insufficient_scope")
		return
	}
	u, err := p.accounts.ActiveUser(ctx, grant.GetSession().GetSubject())
	if err != nil {
		p.userinfoError(w, r, err)
		return
	}
	client, isClient := grant.GetClient().(*Client)
	session, isSession := grant.GetSession().(*GrantSession)
	if !isClient || !isSession {
		p.userinfoError(w, r, errors.New("the store returned a grant of another type"))
		return
	}
	if client.RequireFlag != "" && !u.Has(client.RequireFlag) {
		p.bearerError(w, r, http.StatusUnauthorized, "invalid_token")
		return
	}
	p.writeOAuth(w, r, http.StatusOK, userInfo(u, client, session, grant.GetGrantedScopes()))
}

// userInfo is what the endpoint tells of a user.
func userInfo(u account.User, c *Client, session *GrantSession, granted fosite.Arguments) map[string]any {
	claims := claimsOf(u, c, granted, storedClaims(session.Claims, c).UserInfo)
	claims["sub"] = u.Sub
	return claims
}

// bearerToken takes the token from the header or, for a POST, from the form
// body; never from the URL, never from two places (RFC 6750 section 2). name is an
// error name.
func bearerToken(w http.ResponseWriter, r *http.Request) (token, name string) {
	if r.URL.Query().Has("access_token") {
		return "", "invalid_request"
	}
	header := r.Header.Values("Authorization")
	if len(header) > 1 {
		return "", "invalid_request"
	}
	if len(header) == 1 {
		scheme, rest, ok := strings.Cut(header[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return "", ""
		}
		token = strings.TrimLeft(rest, " ")
	}
	if r.Method == http.MethodPost {
		mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err == nil && mt == "application/x-www-form-urlencoded" {
			r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
			if err := r.ParseForm(); err != nil {
				return "", "invalid_request"
			}
			inBody := r.PostForm["access_token"]
			if len(inBody) > 1 || len(inBody) == 1 && len(header) == 1 {
				return "", "invalid_request"
			}
			if len(inBody) == 1 {
				token = inBody[0]
			}
		}
	}
	if len(token) > 4096 {
		return "", "invalid_request"
	}
	return token, ""
}

// userinfoError tells a failing database (503) from a token that is not good
// (401): a client drops its session on the second.
func (p *Provider) userinfoError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case web.Abandoned(r, err):
		p.accounts.Fail(w, r, err)
	case errors.Is(err, account.ErrUnavailable):
		p.log.ErrorContext(r.Context(), "userinfo failed", "error", err, "request_id", web.RequestID(r.Context()))
		w.Header().Set("Retry-After", "2")
		p.oauthError(w, r, http.StatusServiceUnavailable, "temporarily_unavailable")
	case errors.Is(err, fosite.ErrNotFound), errors.Is(err, fosite.ErrInactiveToken), errors.Is(err, fosite.ErrTokenExpired),
		errors.Is(err, fosite.ErrInvalidTokenFormat), errors.Is(err, fosite.ErrTokenSignatureMismatch),
		errors.Is(err, account.ErrUserNotFound), errors.Is(err, account.ErrSuspended):
		p.bearerError(w, r, http.StatusUnauthorized, "invalid_token")
	default:
		p.log.ErrorContext(r.Context(), "userinfo failed", "error", err, "request_id", web.RequestID(r.Context()))
		p.oauthError(w, r, http.StatusInternalServerError, "server_error")
	}
}

// bearerError answers by RFC 6750 section 3.
func (p *Provider) bearerError(w http.ResponseWriter, r *http.Request, status int, name string) {
	challenge := fmt.Sprintf(`Bearer realm="userinfo", error=%q, error_description=%q`, name, descriptions[name])
	if name == "insufficient_scope" {
		challenge += `, scope="openid"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	web.Note(r.Context(), "userinfo_"+name)
	p.writeOAuth(w, r, status, map[string]any{"error": name, "error_description": descriptions[name]})
}
