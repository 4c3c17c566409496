package provider

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// introspect is the introspection endpoint (RFC 7662), for confidential
// clients and about their own tokens only: it never says why a token is not active.
func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) {
	if !p.readClientRequest(w, r) {
		return
	}
	c := p.authenticated(w, r)
	if c == nil {
		return
	}
	if c.IsPublic() {
		// Whoever knows its id could ask.
		p.tokenError(w, r, fosite.ErrInvalidClient)
		return
	}
	token := r.PostForm.Get("token")
	if token == "" {
		p.oauthError(w, r, http.StatusBadRequest, "invalid_request")
		return
	}
	t, err := p.findToken(r.Context(), c, token, r.PostForm.Get("token_type_hint"))
	if err != nil {
		p.tokenError(w, r, err)
		return
	}
	answer, err := p.describe(r.Context(), c, t)
	if err != nil {
		p.tokenError(w, r, err)
		return
	}
	if answer == nil {
		web.Note(r.Context(), "introspect_inactive")
		p.writeOAuth(w, r, http.StatusOK, map[string]any{"active": false})
		return
	}
	web.Note(r.Context(), "introspect_active")
	p.writeOAuth(w, r, http.StatusOK, answer)
}

// describe is the answer about a token (RFC 7662 section 2.2), nil when it is
// not active. Only an access token has a token_type: a refresh token must never
// pass for a bearer token.
func (p *Provider) describe(ctx context.Context, c *Client, t *heldToken) (map[string]any, error) {
	if t == nil || t.revoked {
		return nil, nil
	}
	expires, lifetime := t.session.AccessExpires, AccessTokenLifetime
	if t.refresh {
		expires, lifetime = t.session.RefreshExpires, RefreshTokenLifetime
	}
	if !p.clock().Before(expires) {
		return nil, nil
	}
	answer := map[string]any{
		"active": true, "client_id": c.ID, "iss": p.issuer, "scope": strings.Join(t.grant.GetGrantedScopes(), " "),
		"exp": expires.Unix(), "iat": expires.Add(-lifetime).Unix(),
	}
	if !t.refresh {
		answer["token_type"] = "Bearer"
	}
	if !t.ofUser() {
		return answer, nil
	}
	u, err := p.accounts.ActiveUser(ctx, t.session.Subject)
	if errors.Is(err, account.ErrUserNotFound) || errors.Is(err, account.ErrSuspended) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if c.RequireFlag != "" && !u.Has(c.RequireFlag) {
		return nil, nil
	}
	answer["sub"], answer["username"] = u.Sub, u.Handle
	return answer, nil
}
