package provider

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// person is the user, or one whom the request fits.
func (e *explaining) person(ctx context.Context, q *question) (account.User, error) {
	flag := q.client.RequireFlag
	if e.by.User == nil {
		u := account.User{Sub: q.hintSub}
		if flag != "" {
			u.Flags = []string{flag}
			e.note("client_id", "Only users with the flag "+flag+" are let in.")
		}
		if u.Sub == "" && len(q.claims.subs) > 0 && len(q.claims.subs[0]) > 0 {
			u.Sub = q.claims.subs[0][0]
		}
		if slices.Contains(q.prompts, "none") {
			q.consented = q.scopes
			e.note("prompt", "Without a page it works only for a user who has agreed before; --user HANDLE tells whether one has.")
		}
		return u, nil
	}
	u := *e.by.User
	var err error
	if q.consented, err = e.by.Storage.ConsentedScopes(ctx, u.Sub, q.client.ID); err != nil {
		return u, fmt.Errorf("read consent: %w", err)
	}
	e.User = &ExplainedUser{Handle: u.Handle, RequiredFlag: flag, HasFlag: flag == "" || u.Has(flag), Consented: append([]string{}, q.consented...)}
	if u.Suspended() {
		e.Answer, e.Why = AnswerPage, u.Handle+" is suspended and cannot sign in: the browser stays at the sign-in page."
	}
	return u, nil
}

// identity is the person with a sign-in of this moment.
func (e *explaining) identity(u account.User, at time.Time) *account.Identity {
	return &account.Identity{User: u, Session: account.Session{ID: "(id of the browser's session)", Sub: u.Sub, TokenHash: []byte("fresh"), AuthTime: at}}
}

// whenToSignIn asks decide about somebody who signed in a moment before the
// request came.
func (e *explaining) whenToSignIn(q question, u account.User) string {
	q.identity, q.returned, q.proofSeen = e.identity(u, q.arrived), false, ""
	switch v, _ := decide(q); {
	case v == login:
		return ", also for a browser that is signed in"
	case q.maxAge > 0:
		return fmt.Sprintf(", unless the browser signed in during the last %s", q.maxAge)
	}
	return ", unless the browser is signed in"
}

// tokens shows what the application would read about the user.
func (e *explaining) tokens(ctx context.Context, q question) error {
	if e.by.User == nil {
		return nil
	}
	id := e.identity(*e.by.User, q.arrived)
	session, err := newGrantSession(e.req, id, q)
	if err != nil {
		return err
	}
	if !slices.Contains(q.granted, "openid") {
		return nil
	}
	e.User.UserInfo = userInfo(*e.by.User, q.client, session, q.granted)
	// The product's own generator, with a key that nobody has: only the claims
	// are of interest.
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key}, nil)
	if err != nil {
		return fmt.Errorf("claims of the ID token: %w", err)
	}
	session.atHash.AccessTokenHash = "(hash of the access token)"
	grant := &fosite.Request{Client: q.client, Session: session, Form: e.req.form, GrantedScope: q.granted}
	s := &idTokenSigner{issuer: e.by.Issuer, signer: signer, now: e.by.Now}
	token, err := s.GenerateIDToken(withActiveUser(ctx, *e.by.User), IDTokenLifetime, grant)
	if err != nil {
		return fmt.Errorf("claims of the ID token: %w", err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(payload, &e.User.IDToken)
	}
	if err != nil {
		return fmt.Errorf("claims of the ID token: %w", err)
	}
	return nil
}
