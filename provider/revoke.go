package provider

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// findToken returns a genuine access or refresh token, even if it has expired, was rotated or is
// revoked. Otherwise it returns ErrNotFound.
func (p *Provider) findToken(ctx context.Context, token string) (*Token, error) {
	signature := p.tokens.signature(ctx, token)
	if signature == "" {
		signature = p.accessTokens.id(token)
	}
	return p.storage.Token(ctx, signature)
}

var errTokenMissing = errInvalidRequest.about(missingParameter, "token", "It is missing.")

// ownToken returns the token in the form, or nil if it is unknown or another client's. It does
// not need token_type_hint.
func (p *Provider) ownToken(r *http.Request, c *Client) (*Token, error) {
	token := r.PostForm.Get("token")
	if token == "" {
		return nil, errTokenMissing
	}
	t, err := p.findToken(r.Context(), token)
	if errors.Is(err, ErrNotFound) || err == nil && t.Grant.ClientID != c.ID {
		return nil, nil
	}
	return t, err
}

// revoke is the revocation endpoint (RFC 7009). Either token of a grant ends the grant. Unknown
// tokens and those of other clients get the same response as revoked ones.
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request, c *Client) error {
	t, err := p.ownToken(r, c)
	if err != nil {
		return err
	}
	event := "revoke_unknown"
	if t != nil {
		event = "revoked"
		if err := p.storage.RevokeGrant(r.Context(), t.Grant.ID, p.now()); err != nil {
			return err
		}
	}
	web.Note(r.Context(), event)
	p.writeOAuth(w, r, http.StatusOK, map[string]any{}) // some clients parse every answer as JSON
	return nil
}

// introspect is the introspection endpoint (RFC 7662), for confidential clients about their own
// tokens and for APIs about tokens for themselves. It never says why a token is inactive.
func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) error {
	a, err := p.introspector(r)
	if err != nil {
		return err
	}
	if a != nil {
		return p.introspectAs(w, r, a)
	}
	c, err := p.authenticateClient(r, r.PostForm)
	if err == nil && c.IsPublic() {
		err = errInvalidClient.because(clientPublic, "") // anyone who knows its id could ask
	}
	if err != nil {
		return err
	}
	t, err := p.ownToken(r, c)
	if err != nil {
		return err
	}
	return p.answerIntrospection(w, r, c, t, nil)
}

// introspectAs answers an API about access tokens for that API, of any client that may use it.
func (p *Provider) introspectAs(w http.ResponseWriter, r *http.Request, a *API) error {
	token := r.PostForm.Get("token")
	if token == "" {
		return errTokenMissing
	}
	t, err := p.findToken(r.Context(), token)
	if errors.Is(err, ErrNotFound) || err == nil && !slices.Contains(t.Audience, a.URI) { // so no refresh token
		return p.answerIntrospection(w, r, nil, nil, nil)
	}
	if err != nil {
		return err
	}
	c, err := p.client(r.Context(), t.Grant.ClientID)
	if errors.Is(err, ErrClientNotFound) || err == nil && !a.Admits(c) {
		t, err = nil, nil
	}
	if err != nil {
		return err
	}
	return p.answerIntrospection(w, r, c, t, a)
}

// answerIntrospection describes a token of c to the caller.
func (p *Provider) answerIntrospection(w http.ResponseWriter, r *http.Request, c *Client, t *Token, a *API) error {
	answer, err := p.introspection(r.Context(), c, t, a)
	if err != nil {
		return err
	}
	event := "introspect_active"
	if answer == nil {
		event, answer = "introspect_inactive", map[string]any{"active": false}
	}
	web.Note(r.Context(), event)
	p.writeOAuth(w, r, http.StatusOK, answer)
	return nil
}

// introspection returns the description of a token (RFC 7662 section 2.2), or nil if it is
// inactive. Only access tokens have a token_type: a refresh token must never pass for a bearer
// token.
func (p *Provider) introspection(ctx context.Context, c *Client, t *Token, a *API) (map[string]any, error) {
	if t == nil || t.Grant.Revoked {
		return nil, nil
	}
	if t.Refresh { // by what the client may today, as at the token endpoint
		t.Expires = c.refreshUntil(t.Expires, t.Grant)
	}
	if !p.clock().Before(t.Expires) {
		return nil, nil
	}
	if !t.Rotated.IsZero() && !c.inGrace(t.Rotated, p.now()) {
		return nil, nil
	}
	answer := map[string]any{
		"active": true, "client_id": c.ID, "iss": p.issuer, "scope": strings.Join(c.scopesLeft(t.Grant), " "),
		"exp": t.Expires.Unix(),
	}
	issued, own := t.Issued, c.AccessLifetime+c.RefreshLifetime+c.RefreshMaxLifetime > 0
	switch {
	case own || len(t.Audience) > 0:
	case t.Refresh: // FAPI's live on: see KeepRefreshToken
		issued = t.Expires.Add(-refreshTokenLifetime)
	default:
		issued = t.Expires.Add(-AccessTokenLifetime)
	}
	if issued.After(p.now().Add(time.Minute)) { // its lifetime is one that the client had before
		issued = t.Issued
	}
	answer["iat"] = issued.Unix()
	if !t.Refresh {
		answer["token_type"] = tokenType(t.JKT)
	}
	if len(t.Audience) > 0 {
		answer["aud"] = t.Audience
	}
	if t.JKT != "" {
		answer["cnf"] = confirmation(t.JKT)
	}
	if t.Grant.Sub == "" {
		if len(t.Audience) > 0 {
			answer["sub"] = c.ID // RFC 9068 section 2.2
		}
		return answer, nil // a client's own token
	}
	u, err := p.activeUser(ctx, t.Grant, c)
	if isRefusal(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	answer["sub"], answer["username"] = u.Sub, u.Handle
	if a != nil {
		overrule(answer, apis{a}.claimRules(c), apis{a}.ownClaims(u, c, t.Grant))
	}
	maps.Copy(answer, t.Grant.authenticationClaims(signInClaims)) // RFC 9470 section 6.2
	return answer, nil
}

var (
	// errFlagMissing means that the user of a grant has lost the flag that its client requires.
	errFlagMissing = errors.New("the user lacks the flag that the client requires")
	// errEmailLost means the same of the verified address.
	errEmailLost = errors.New("the user has no verified email address, which the client requires")
	// errWeakSignIn means that the client, or the settings for the user, now require a higher
	// class than the sign-in had.
	errWeakSignIn = errors.New("the sign-in is weaker than what is required")
)

// activeUser returns the user of a grant that was just read, if the user may still use the
// client. For a user who may not, isRefusal(err) is true.
func (p *Provider) activeUser(ctx context.Context, g *Grant, c *Client) (u account.User, err error) {
	switch {
	case g.User == nil:
		return u, account.ErrUserNotFound
	case g.User.Suspended():
		return u, account.ErrSuspended
	case !c.admits(*g.User):
		return u, errFlagMissing
	case c.lacksEmail(*g.User):
		return u, errEmailLost
	}
	u = *g.User
	q := authzState{client: c}
	q.needsFactor, err = p.accounts.NeedsSecondFactor(ctx, u)
	class, required, has := account.ACR(g.AMR), q.requiredACR(), u.SecondFactor
	if err == nil && !has && required != "" {
		has, err = p.storage.HasPasskey(ctx, u.Sub, account.PasskeyHosts(p.issuer))
	}
	if !has {
		class = account.ACRPassword
	}
	if err == nil && !account.SatisfiesACR(class, required) {
		err = errWeakSignIn
	}
	return u, err
}

func isRefusal(err error) bool { return refusalReason(err) != "" }

// refusalReason returns why activeUser refused the user, or "".
func refusalReason(err error) reason {
	switch {
	case errors.Is(err, account.ErrUserNotFound), errors.Is(err, account.ErrSuspended):
		return accountEnded
	case errors.Is(err, errFlagMissing):
		return flagMissing
	case errors.Is(err, errEmailLost):
		return emailUnverified
	case errors.Is(err, errWeakSignIn):
		return weakSignIn
	}
	return ""
}
