package provider

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func checkGrantType(form url.Values) error {
	switch form.Get("grant_type") {
	case "authorization_code", "refresh_token", "client_credentials", grantTypeDevice:
		return nil
	case "":
		return errInvalidRequest.about(missingParameter, "grant_type", "It is missing.")
	}
	return errUnsupportedGrantType
}

// token is the token endpoint (RFC 6749 section 3.2). Checks are in this order: size, form,
// duplicates, grant type, client, grant, user, scope.
func (p *Provider) token(w http.ResponseWriter, r *http.Request, c *Client) error {
	grantType, issue := r.PostForm.Get("grant_type"), p.exchange
	switch grantType {
	case "client_credentials":
		issue = p.clientCredentials
	case grantTypeDevice:
		grantType, issue = "device_code", p.pollDevice
	}
	jkt, err := p.proveTokenRequest(w, r, c)
	if err != nil {
		return err
	}
	answer, err := issue(r, &exchange{client: c, jkt: jkt})
	if err != nil {
		return err
	}
	web.Note(r.Context(), "token_"+grantType)
	web.Observe(r.Context(), func(o web.Observer) { o.Tokens(grantType, c.ID) })
	p.writeOAuth(w, r, http.StatusOK, answer)
	return nil
}

// exchange issues tokens for a code or a refresh token. The log line names a second use, so that
// operators can watch for it: it means a thief or a broken client.
func (p *Provider) exchange(r *http.Request, x *exchange) (map[string]any, error) {
	refresh := r.PostForm.Get("grant_type") == "refresh_token"
	answer, err := p.exchangeToken(r, x, func(g *Grant) error {
		var err error
		if x.user, err = p.userOf(r, g, x.client); err != nil {
			return err
		}
		if !x.holdsKey(g) {
			return errOtherKey
		}
		// fosite ignores scope at a refresh (RFC 6749 section 6: never more than granted).
		notGranted := func(s string) bool { return !slices.Contains(g.Scopes, s) }
		if refresh && slices.ContainsFunc(strings.Fields(r.PostForm.Get("scope")), notGranted) {
			return errInvalidScope
		}
		if slices.Contains(g.Scopes, "openid") { // before the code is spent
			if _, err = p.idTokens.of(x.client); err != nil {
				return err
			}
		}
		x.target, err = p.target(r.Context(), r.PostForm, x, g)
		return err
	})
	switch {
	case x.reused && refresh:
		web.Note(r.Context(), "refresh_reuse")
	case x.reused:
		web.Note(r.Context(), "code_replay")
	}
	return answer, err
}

// userOf checks the user of a grant, at every use. If the user was suspended or deleted, it
// revokes the grant.
func (p *Provider) userOf(r *http.Request, g *Grant, c *Client) (account.User, error) {
	u, err := p.activeUser(r.Context(), g, c)
	if errors.Is(err, account.ErrUserNotFound) || errors.Is(err, account.ErrSuspended) {
		if err := p.storage.RevokeGrant(r.Context(), g.ID, p.now()); err != nil {
			return u, fmt.Errorf("revoke grant: %w", err)
		}
	}
	if why := refusalReason(err); why != "" {
		return u, errInvalidGrant.because(why, "The user may no longer use this client, or has to sign in again.")
	}
	return u, err
}

// clientCredentials issues a confidential client that is registered for it an access token for
// itself (RFC 6749 section 4.4). It does not use fosite, which checks the scope before it answers
// unauthorized_client. Without a scope parameter no scope is granted.
func (p *Provider) clientCredentials(r *http.Request, x *exchange) (map[string]any, error) {
	c := x.client
	if !slices.Contains(c.grantTypes(), "client_credentials") {
		return nil, errUnauthorizedClient
	}
	g, now := &Grant{ID: uuid.NewString(), ClientID: c.ID}, p.now()
	req := &authorization{form: r.PostForm, client: c}
	var err error
	if req.apis, err = p.apisOf(r.Context(), c); err != nil {
		return nil, err
	}
	a, err := req.access()
	if err != nil {
		return nil, errInvalidTarget
	}
	for _, s := range strings.Fields(r.PostForm.Get("scope")) {
		// These two scopes need a user.
		if s == "openid" || s == "offline_access" || !slices.Contains(a.granted, s) {
			return nil, errInvalidScope
		}
	}
	t := &accessTarget{scopes: a.granted, lifetime: c.accessLifetime(), jkt: x.jkt}
	for _, uri := range a.resources {
		t.apis = append(t.apis, req.apis.find(uri))
	}
	if err := p.setAudience(t, c); err != nil {
		return nil, err
	}
	token, signature := "", rand.Text()
	if t.opaque() {
		if token, signature, err = p.tokens.GenerateAccessToken(r.Context(), nil); err != nil {
			return nil, err
		}
	}
	kept := t.stored(signature, now)
	g.Scopes, kept.Grant = t.scopes, g
	if err := p.storage.CreateClientToken(r.Context(), &kept); err != nil {
		return nil, err
	}
	if !t.opaque() { // CreateClientToken has set the status index
		if token, err = p.accessTokens.sign(t, g, c, account.User{}, signature, now); err != nil {
			return nil, err
		}
	}
	answer := map[string]any{
		"access_token": token, "token_type": tokenType(kept.JKT), "expires_in": int(t.lifetime / time.Second),
	}
	if len(g.Scopes) > 0 {
		answer["scope"] = strings.Join(g.Scopes, " ")
	}
	return answer, nil
}
