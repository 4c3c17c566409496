package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func oddGrantKeys(t *testing.T, s *store.Store, key string) {
	t.Helper()
	ctx := t.Context()
	_, err := s.GrantOfCode(ctx, key)
	want(t, err, provider.ErrNotFound)
	_, err = s.Token(ctx, key)
	want(t, err, provider.ErrNotFound)
	_, err = s.Client(ctx, key)
	want(t, err, provider.ErrClientNotFound)
	if s.SpendCode(ctx, key, nil) == nil || s.RotateRefreshToken(ctx, key, key, nil) == nil {
		t.Errorf("key %q spent something", key)
	}
	must(t, s.RevokeGrant(ctx, key, noon))
	scopes, err := s.ConsentedScopes(ctx, key, key)
	must(t, err)
	if scopes != nil {
		t.Errorf("key %q has consent", key)
	}
}

// What is compared later (redirect_uri, challenge, nonce) must come back to the byte: a
// lost one is a check that no longer happens.
func TestGrantComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		u := addUser(t, s, "ada", "activity", "beta")
		u.Profile = account.Profile{GivenName: "Ada", Address: &account.Address{Country: "Norway"}}
		u, err := s.ChangeUser(ctx, u.Sub, func(stored *account.User) error {
			stored.Profile, stored.EmailVerified = u.Profile, true
			return nil
		}, noon, nil)
		must(t, err)
		n := signIn(t, s, u)
		// What claims are made of.
		giver := &account.User{Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email,
			EmailVerified: true, Profile: u.Profile, Flags: u.Flags, UpdatedAt: u.UpdatedAt}
		bare := newGrant(c, n, "profile")
		bare.CodeChallenge, bare.Nonce, bare.ACR, bare.Claims = "", "", "", ""
		for _, g := range []*provider.Grant{newGrant(c, n, "openid", "profile", "offline_access"), bare} {
			code := addCode(t, s, g)
			g.User, g.SessionToken = giver, nil // which is not stored
			got, err := s.GrantOfCode(ctx, code)
			must(t, err)
			equal(t, "g", got, g)
			access, refresh := addTokens(t, s, g)
			for _, expected := range []provider.Token{accessToken(access), refreshToken(refresh)} {
				granted := *g // what only the code's exchange compares stays with it
				granted.CodeSignature, granted.CodeExpires, granted.RedirectURI, granted.CodeChallenge, granted.Nonce = "", time.Time{}, "", "", ""
				expected.Grant = &granted
				got, err := s.Token(ctx, expected.Signature)
				must(t, err)
				expected.Issued = got.Issued // by the clock of the store
				equal(t, "expected", got, &expected)
			}
		}
	})
}

func TestRevokedGrantHasNoUsableTokens(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, n := t.Context(), addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		g, other := newGrantStored(t, s, c, n), newGrantStored(t, s, c, n)
		access, refresh := addTokens(t, s, g)
		bystander, _ := addTokens(t, s, other)
		for range 2 {
			must(t, s.RevokeGrant(ctx, g.ID, noon))
		}
		must(t, s.RevokeGrant(ctx, "no such grant", noon))
		for _, token := range []string{access, refresh} {
			_, err := useToken(ctx, s, token)
			want(t, err, provider.ErrGrantRevoked)
		}
		for _, err := range []error{s.RotateRefreshToken(ctx, g.ID, refresh, nil), s.SpendCode(ctx, g.ID, nil)} {
			want(t, err, provider.ErrSpent)
			want(t, err, provider.ErrGrantRevoked) // and not used a second time
		}
		_, err := useToken(ctx, s, bystander)
		must(t, err)
	})
}

func TestEndedSessionGetsNoCode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u, c := addUser(t, s, "ada"), addClient(t, s, "app")
		n := signIn(t, s, u)
		must(t, s.EndSession(t.Context(), u.Sub, n.ID, noon, act("session.end")))
		for _, g := range []*provider.Grant{newGrant(c, n, "openid"), newGrant(c, account.Session{ID: "none", Sub: u.Sub}, "openid"), newGrant(c, account.Session{}, "openid")} {
			want(t, s.CreateGrant(t.Context(), g), account.ErrSessionNotFound)
		}
	})
}

// A request that was read before a new password, and is answered after it, has the token of the former one.
func TestReplacedTokenGetsNoCode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u, c := addUser(t, s, "ada"), addClient(t, s, "app")
		former := signIn(t, s, u)
		renewed := former
		renewed.TokenHash = account.HashSecret("renewed")
		must(t, s.ChangePassword(t.Context(), u.Sub, u.PasswordHash, "another hash", &renewed, noon, act("password.change")))
		want(t, s.CreateGrant(t.Context(), newGrant(c, former, "openid")), provider.ErrSessionRenewed)
		must(t, s.CreateGrant(t.Context(), newGrant(c, renewed, "openid")))
	})
}

func TestCodeIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, n := t.Context(), addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for round := range 20 {
			g := newGrantStored(t, s, c, n)
			access := func(i int) string { return name(g.ID, i) }
			errs := race(16, func(i int) error {
				return s.SpendCode(ctx, g.ID, []provider.Token{accessToken(access(i)), refreshToken("refresh-" + access(i))})
			})
			if n := wins(t, errs, provider.ErrSpent); n != 1 {
				t.Fatalf("round %d: one code gave %d token sets", round, n)
			}
			tokens, err := s.Count("SELECT count(*) FROM tokens WHERE grant_id = ?", g.ID)
			must(t, err)
			if tokens != 2 {
				t.Fatalf("round %d: %d tokens of one code", round, tokens)
			}
			revoked := 0
			for i, err := range errs {
				if err == nil {
					_, err := useToken(ctx, s, access(i))
					want(t, err, provider.ErrGrantRevoked) // by the first of fifteen second uses
				} else if !errors.Is(err, provider.ErrGrantRevoked) {
					revoked++
				}
			}
			if revoked != 1 {
				t.Fatalf("round %d: the grant was revoked %d times", round, revoked)
			}
		}
		// A device polls again while the answer is on its way: nobody else has its code, and the tokens stay.
		g, user := newGrant(c, n, "openid"), []byte("user code")
		must(t, s.CreateDevice(ctx, &provider.DeviceRequest{
			CodeSignature: g.CodeSignature, UserHash: user, ClientID: c.ID, CreatedAt: noon, ExpiresAt: noon.Add(time.Minute),
		}))
		must(t, s.AllowDevice(ctx, user, g, noon))
		must(t, s.SpendCode(ctx, g.ID, []provider.Token{accessToken("of the device")}))
		want(t, s.SpendCode(ctx, g.ID, nil), provider.ErrSpent)
		_, err := useToken(ctx, s, "of the device")
		must(t, err)
	})
}

func TestRefreshTokenIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, n := t.Context(), addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for round := range 20 {
			g := newGrantStored(t, s, c, n)
			_, refresh := addTokens(t, s, g)
			next := "refresh-" + uuid.NewString()
			errs := race(16, func(int) error {
				return s.RotateRefreshToken(ctx, g.ID, refresh,
					[]provider.Token{refreshToken(next)})
			})
			if n := wins(t, errs, provider.ErrSpent); n != 1 {
				t.Fatalf("round %d: %d successors", round, n)
			}
			for _, token := range []string{refresh, next} {
				_, err := useToken(ctx, s, token)
				want(t, err, provider.ErrGrantRevoked)
			}
		}
		g := newGrantStored(t, s, c, n)
		access, refresh := addTokens(t, s, g)
		for _, wrong := range []error{s.RotateRefreshToken(ctx, "another grant", refresh, nil), s.RotateRefreshToken(ctx, g.ID, access, nil)} {
			want(t, wrong, provider.ErrSpent)
		}
		_, err := useToken(ctx, s, refresh)
		must(t, err)
	})
}

// What cannot be stored leaves the code unspent.
func TestFailedExchangeLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		g := newGrantStored(t, s, addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada")))
		want(t, s.SpendCode(ctx, g.ID, []provider.Token{accessToken("access"), {Signature: "never expires"}}), account.ErrUnavailable)
		_, err := s.Token(ctx, "access")
		want(t, err, provider.ErrNotFound)
		must(t, s.SpendCode(ctx, g.ID, []provider.Token{accessToken("access"), refreshToken("refresh")}))
		want(t, s.RotateRefreshToken(ctx, g.ID, "refresh", []provider.Token{accessToken("access")}), account.ErrUnavailable) // twice
		_, err = useToken(ctx, s, "refresh")
		must(t, err)
	})
}

// The loser comes while the winner has spent the code and not committed yet: it
// waits, for the row or for the writer. If the winner goes back it has won itself.
func TestSecondUseBeforeTheFirstIsCommittedRevokes(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		ctx, s, other := t.Context(), storetest.Open(t, dsn), storetest.Open(t, dsn)
		c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for _, commits := range []bool{true, false} {
			type spend = func(in *store.Store, g *provider.Grant, refresh string, issued ...provider.Token) error
			for what, spend := range map[string]spend{
				"code": func(in *store.Store, g *provider.Grant, _ string, issued ...provider.Token) error {
					return in.SpendCode(ctx, g.ID, issued)
				},
				"refresh token": func(in *store.Store, g *provider.Grant, refresh string, issued ...provider.Token) error {
					return in.RotateRefreshToken(ctx, g.ID, refresh, issued)
				},
			} {
				g := newGrantStored(t, s, c, n)
				_, refresh := addTokens(t, s, g)
				access := "access-" + uuid.NewString()
				winner, end, err := s.Begin(ctx)
				must(t, err)
				must(t, spend(winner, g, refresh, accessToken(access)))
				lost := make(chan error, 1)
				go func() { lost <- spend(other, g, refresh) }()
				time.Sleep(20 * time.Millisecond) // until it waits
				must(t, end(commits))
				if !commits {
					must(t, <-lost)
					continue
				}
				if err := <-lost; !errors.Is(err, provider.ErrSpent) || errors.Is(err, provider.ErrGrantRevoked) {
					t.Errorf("%s: the second use got %v", what, err)
				}
				_, err = useToken(ctx, s, access)
				want(t, err, provider.ErrGrantRevoked)
			}
		}
	})
}

func newClientToken(c *provider.Client, scopes ...string) provider.Token {
	id := uuid.NewString()
	return provider.Token{Signature: "own-" + id, Expires: noon.Add(time.Hour), Grant: &provider.Grant{ID: id, ClientID: c.ID, Scopes: scopes}}
}

func addClientToken(t *testing.T, s *store.Store, c *provider.Client) string {
	t.Helper()
	token := newClientToken(c, "profile")
	must(t, s.CreateClientToken(t.Context(), &token))
	return token.Signature
}

func TestClientsOwnTokenHasNoUser(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, token := t.Context(), newClientToken(addClient(t, s, "app"), "profile", "groups")
		must(t, s.CreateClientToken(ctx, &token))
		got, err := s.Token(ctx, token.Signature)
		must(t, err)
		if time.Since(got.Issued) > time.Minute || got.Issued != got.Grant.CreatedAt {
			t.Errorf("issued at %v", got.Issued)
		}
		got.Issued, got.Grant.CreatedAt = time.Time{}, time.Time{}
		equal(t, "token", got, &token)
		for _, table := range []string{"grants", "tokens"} {
			if n, err := s.Count("SELECT count(*) FROM " + table); err != nil || n != 0 {
				t.Errorf("%d rows in %s (%v)", n, table, err)
			}
		}
		want(t, s.RotateRefreshToken(ctx, token.Grant.ID, token.Signature, nil), provider.ErrSpent)
		for _, bad := range []provider.Token{
			{Signature: "1", Grant: newClientToken(addClient(t, s, "y")).Grant},                               // never expires
			{Signature: "2", Expires: noon, Grant: &provider.Grant{ID: "2"}},                                  // whose?
			{Signature: "3", Expires: noon, Refresh: true, Grant: newClientToken(addClient(t, s, "x")).Grant}, // RFC 6749 section 4.4.3
			{Signature: "4", Expires: noon, Grant: &provider.Grant{ID: "4", ClientID: "none"}},
			{Signature: "5", Expires: noon, Grant: &provider.Grant{ID: "5", ClientID: "\x00"}},
			{Signature: "6", Expires: noon, Grant: &provider.Grant{ID: "\xff", ClientID: "app"}},
			{Signature: "7", Expires: noon, Grant: token.Grant}, // twice
		} {
			want(t, s.CreateClientToken(ctx, &bad), account.ErrUnavailable)
		}
	})
}

func TestRevokedClientTokenIsInvalid(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		token, bystander := newClientToken(c, "profile"), newClientToken(c, "profile")
		must(t, s.CreateClientToken(ctx, &token))
		must(t, s.CreateClientToken(ctx, &bystander))
		for range 2 {
			must(t, s.RevokeGrant(ctx, token.Grant.ID, noon))
		}
		_, err := useToken(ctx, s, token.Signature)
		want(t, err, provider.ErrGrantRevoked)
		_, err = useToken(ctx, s, bystander.Signature)
		must(t, err)
		must(t, s.RemoveClient(ctx, c.ID, act("client.remove")))
		_, err = s.Token(ctx, bystander.Signature)
		want(t, err, provider.ErrNotFound)
	})
}

const grace = 30 * time.Second

func addGraceful(t *testing.T, s *store.Store, id string) *provider.Client {
	t.Helper()
	c := *addClient(t, s, id)
	c.RefreshGrace = grace
	must(t, s.UpdateClient(t.Context(), &c, act("client.update")))
	return &c
}

// later lets time pass for the rotated tokens.
func later(t *testing.T, s *store.Store, d time.Duration) {
	t.Helper()
	must(t, s.Exec("UPDATE tokens SET used_at = used_at - ? WHERE used_at > 0", int64(d/time.Second)))
}

func refresh(ctx context.Context, s *store.Store, g *provider.Grant, token, next string) error {
	return s.RotateRefreshToken(ctx, g.ID, token, []provider.Token{refreshToken(next)})
}

func TestRotatedTokenIsSpentAfterTheGrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, n := t.Context(), addGraceful(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		g := newGrantStored(t, s, c, n)
		_, token := addTokens(t, s, g)
		first, second := uuid.NewString(), uuid.NewString()
		must(t, refresh(ctx, s, g, token, first))
		later(t, s, grace-10*time.Second)
		must(t, refresh(ctx, s, g, token, second))
		// The grace began with the first rotation: using it does not prolong it.
		later(t, s, 11*time.Second)
		for _, successor := range []string{first, second} {
			_, err := useToken(ctx, s, successor)
			must(t, err)
		}
		want(t, refresh(ctx, s, g, token, "third"), provider.ErrSpent)
		for _, successor := range []string{first, second} {
			_, err := useToken(ctx, s, successor)
			want(t, err, provider.ErrGrantRevoked)
		}
	})
}

func TestGraceIsItsClientsAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		c, strict, n := addGraceful(t, s, "app"), addClient(t, s, "strict"), signIn(t, s, addUser(t, s, "ada"))
		g := newGrantStored(t, s, c, n)
		_, token := addTokens(t, s, g)
		must(t, refresh(ctx, s, g, token, "next"))
		for _, ahead := range []time.Duration{0, 5 * time.Second} {
			other := newGrantStored(t, s, strict, n)
			_, strictToken := addTokens(t, s, other)
			must(t, refresh(ctx, s, other, strictToken, uuid.NewString()))
			// A clock that runs ahead elsewhere: "rotated in the future" is not young.
			later(t, s, -ahead)
			want(t, refresh(ctx, s, other, strictToken, uuid.NewString()), provider.ErrSpent)
		}
		// Once the operator has ended the grace, it has ended.
		c.RefreshGrace = 0
		must(t, s.UpdateClient(ctx, c, act("client.update")))
		want(t, refresh(ctx, s, g, token, "last"), provider.ErrSpent)
	})
}

func TestSixteenRefreshesAtOnce(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		ctx, s := t.Context(), instances[0]
		n := signIn(t, s, addUser(t, s, "ada"))
		for c, expected := range map[*provider.Client]int{addGraceful(t, s, "parallel"): 16, addClient(t, s, "strict"): 1} {
			for round := range 6 {
				g := newGrantStored(t, s, c, n)
				_, token := addTokens(t, s, g)
				next := func(i int) string { return name(c.ID, "-", round, "-", i) }
				errs := race(16, func(i int) error { return refresh(ctx, instances[i%2], g, token, next(i)) })
				if n := wins(t, errs, provider.ErrSpent); n != expected {
					t.Fatalf("%s: one token has %d successors, want %d", c.ID, n, expected)
				}
				for i := range errs {
					if expected == 16 { // the others end what a strict client's winner got
						_, err := useToken(ctx, s, next(i))
						must(t, err)
					}
				}
			}
		}
	})
}

func TestRevokedGrantHasNoGrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, n := t.Context(), addGraceful(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for round := range 10 {
			g := newGrantStored(t, s, c, n)
			_, token := addTokens(t, s, g)
			next := func(i int) string { return name("next-", round, "-", i) }
			errs := race(16, func(i int) error {
				if i == 15 {
					return s.RevokeGrant(ctx, g.ID, noon)
				}
				return refresh(ctx, s, g, token, next(i))
			})
			must(t, errs[15])
			wins(t, errs, provider.ErrSpent)
			for i, err := range errs[:15] {
				if err == nil {
					_, err := useToken(ctx, s, next(i))
					want(t, err, provider.ErrGrantRevoked)
				}
			}
			want(t, refresh(ctx, s, g, token, "late"), provider.ErrSpent)
		}
	})
}
