package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

func TestMain(m *testing.M) {
	storetest.Parallel = true
	store.RecordStatements()
	os.Exit(storetest.Main(thenPlans{m}))
}

// thenPlans runs a test after all others: of the statements that they have run.
type thenPlans struct{ *testing.M }

func (m thenPlans) Run() int {
	code := m.M.Run()
	if !testing.RunTests(regexp.MatchString, []testing.InternalTest{{Name: "TestStatementsGoByAnIndex", F: checkPlans}}) {
		return 1
	}
	return code
}

// noon is when the tests happen, where a method takes the time.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const month = 30 * 24 * time.Hour

// want fails unless err is target (nil: none).
func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func act(action string) account.Audit {
	a := account.Audit{At: noon, Actor: "operator", Action: action, Target: "target"}
	for _, act := range account.Acts {
		if act.Action == action {
			a.Ends = act.Ends
		}
	}
	return a
}

// during is the row of an act in a session.
func during(session string, a account.Audit) account.Audit {
	a.Session = session
	return a
}

// keeping is the row of an act that ends nothing.
func keeping(a account.Audit) account.Audit {
	a.Ends = account.Ending{}
	return a
}

// newUser is a user who is not stored yet.
func newUser(handle string, flags ...string) account.User {
	return account.User{
		Sub: uuid.NewString(), Handle: handle, DisplayName: "The " + handle, Email: handle + "@example.org", PasswordHash: "hash of " + handle,
		Flags: flags, CreatedAt: noon, UpdatedAt: noon,
	}
}

func addUser(t testing.TB, s *store.Store, handle string, flags ...string) account.User {
	t.Helper()
	u := newUser(handle, flags...)
	must(t, s.CreateUser(t.Context(), u, act("user.create")))
	return u
}

func newSession(sub string) *account.Session {
	id := uuid.NewString()
	return &account.Session{
		ID: id, Sub: sub, TokenHash: []byte("token " + id), LoginHash: []byte("login " + id), CreatedAt: noon, AuthTime: noon, LastSeenAt: noon,
		ExpiresAt: noon.Add(month), Address: "192.0.2.1", UserAgent: "Browser/1.0", AMR: []string{account.MethodPassword}, ConfirmedAt: noon,
	}
}

func signIn(t testing.TB, s *store.Store, u account.User) account.Session {
	t.Helper()
	n := newSession(u.Sub)
	must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
	return *n
}

// live reports whether the session still counts.
func live(t testing.TB, s *store.Store, id string) bool {
	t.Helper()
	n, _, err := s.Session(t.Context(), id)
	if errors.Is(err, account.ErrSessionNotFound) {
		return false
	}
	must(t, err)
	return n.Live(noon)
}

func addInvite(t testing.TB, s *store.Store, creator string) account.Invite {
	t.Helper()
	i, err := account.NewInvite(creator, "for a friend", noon)
	must(t, err)
	must(t, s.CreateInvite(t.Context(), i, -1, act("invite.create")))
	return i
}

func addClient(t testing.TB, s *store.Store, id string) *provider.Client {
	t.Helper()
	c := &provider.Client{
		ID: id, Name: "Application " + id, RedirectURIs: []string{"https://" + id + ".example.org/cb", "http://127.0.0.1/cb"},
		Scopes: []string{"openid", "profile", "offline_access"}, AuthMethod: provider.AuthAny, CreatedAt: noon,
		Secrets: []provider.ClientSecret{{Hash: account.HashSecret("secret of " + id), CreatedAt: noon}},
	}
	must(t, s.CreateClient(t.Context(), c, act("client.create")))
	return c
}

// newGrant is a grant as the authorization endpoint makes it.
func newGrant(c *provider.Client, n account.Session, scopes ...string) *provider.Grant {
	id := uuid.NewString()
	return &provider.Grant{
		ID: id, ClientID: c.ID, Sub: n.Sub, SessionID: n.ID, SessionToken: n.TokenHash, Scopes: scopes, CodeSignature: "sig-" + id, CodeExpires: noon.Add(time.Minute),
		RedirectURI: c.RedirectURIs[0], CodeChallenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", Nonce: "n\x00 \xff€", ACR: "1",
		Claims:   `{"userinfo":{"given_name":null},"id_token":["email","€"]}`,
		AuthTime: noon.Add(-time.Minute), CreatedAt: noon,
	}
}

// addCode stores a grant with its code and returns the signature of that.
func addCode(t testing.TB, s *store.Store, g *provider.Grant) string {
	t.Helper()
	must(t, s.CreateGrant(t.Context(), g))
	return g.CodeSignature
}

// newGrantStored is a grant with offline_access whose code is stored.
func newGrantStored(t testing.TB, s *store.Store, c *provider.Client, n account.Session) *provider.Grant {
	t.Helper()
	g := newGrant(c, n, "openid", "offline_access")
	addCode(t, s, g)
	return g
}

func accessToken(signature string) provider.Token {
	return provider.Token{Signature: signature, Expires: noon.Add(time.Hour)}
}

func refreshToken(signature string) provider.Token {
	return provider.Token{Signature: signature, Refresh: true, Expires: noon.Add(month)}
}

// addTokens stores an access and a refresh token of a grant and returns their
// signatures.
func addTokens(t testing.TB, s *store.Store, g *provider.Grant) (access, refresh string) {
	t.Helper()
	access, refresh = "access-"+uuid.NewString(), "refresh-"+uuid.NewString()
	must(t, s.AddTokens(t.Context(), g.ID, accessToken(access), refreshToken(refresh)))
	return access, refresh
}

// spendCode spends a code for the tokens.
func spendCode(ctx context.Context, s *store.Store, signature string, issued ...provider.Token) error {
	g, err := s.GrantOfCode(ctx, signature)
	if err != nil {
		return err
	}
	return s.SpendCode(ctx, g.ID, issued)
}

var errUseless = fmt.Errorf("%w: %w", provider.ErrSpent, provider.ErrGrantRevoked)

// useToken reads a presented token as the provider does: errUseless of a revoked
// grant, provider.ErrSpent of a rotated one.
func useToken(ctx context.Context, s *store.Store, signature string) (*provider.Token, error) {
	t, err := s.Token(ctx, signature)
	switch {
	case err != nil:
		return nil, err
	case t.Grant.Revoked:
		return t, errUseless
	case !t.Rotated.IsZero():
		return t, provider.ErrSpent
	}
	return t, nil
}

// active reports whether a token works.
func active(t testing.TB, s *store.Store, signature string) bool {
	t.Helper()
	_, err := useToken(t.Context(), s, signature)
	if !errors.Is(err, provider.ErrSpent) {
		must(t, err)
	}
	return err == nil
}

// useCode is useToken for a code.
func useCode(ctx context.Context, s *store.Store, signature string) (*provider.Grant, error) {
	g, err := s.GrantOfCode(ctx, signature)
	switch {
	case err != nil:
		return nil, err
	case g.Revoked:
		return g, errUseless
	case g.CodeUsed:
		return g, provider.ErrSpent
	}
	return g, nil
}

// race starts n calls at once and returns their errors.
func race(n int, f func(i int) error) []error {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	errs := make([]error, n)
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			errs[i] = f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	return errs
}

// wins counts the calls that succeeded; every other must have ended with one of
// the allowed refusals.
func wins(t testing.TB, errs []error, refusals ...error) (n int) {
	t.Helper()
	for _, err := range errs {
		if err == nil {
			n++
			continue
		}
		allowed := false
		for _, r := range refusals {
			allowed = allowed || errors.Is(err, r)
		}
		if !allowed {
			t.Fatalf("unexpected failure: %v", err)
		}
	}
	return n
}

func name(parts ...any) string { return fmt.Sprint(parts...) }

var equal, fails, lacks, must = assert.Equal, assert.Fails, assert.Lacks, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
