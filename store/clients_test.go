package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestExpiredSecretIsNotReturned(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c := &provider.Client{ID: "app", Name: "App", RedirectURIs: []string{"https://app.example.org/cb"}, AuthMethod: provider.AuthAny, CreatedAt: noon, Secrets: []provider.ClientSecret{
			{Hash: []byte("new"), CreatedAt: noon}, {Hash: []byte("old"), CreatedAt: noon, ExpiresAt: time.Now().Add(-time.Second)},
		}}
		must(t, s.CreateClient(t.Context(), c, act("client.create")))
		one, err := s.Client(t.Context(), "app")
		must(t, err)
		all, err := s.Clients(t.Context())
		must(t, err)
		for _, got := range append(all, one) {
			if len(got.Secrets) != 1 || string(got.Secrets[0].Hash) != "new" {
				t.Errorf("secrets %v", got.Secrets)
			}
		}
	})
}

func TestConsentIsAddedAndRemovedWhole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		addClient(t, s, "other")
		none, err := s.ConsentedScopes(ctx, u.Sub, c.ID)
		must(t, err)
		if none != nil {
			t.Errorf("consent %v of nothing", none)
		}
		wins(t, race(8, func(i int) error {
			return s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", []string{"email", "profile"}[i%2]}, noon.Add(time.Hour), act("app.allow"))
		}))
		must(t, s.SaveConsent(ctx, u.Sub, "other", []string{"openid"}, noon, act("app.allow")))
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, nil, noon, act("app.allow")))
		g := newGrantStored(t, s, c, signIn(t, s, u))
		access, _ := addTokens(t, s, g)
		apps, err := s.Apps(ctx, u.Sub, noon)
		must(t, err)
		if len(apps) != 2 || apps[0].LastUsedAt.IsZero() || !apps[1].LastUsedAt.IsZero() {
			t.Fatalf("applications %+v", apps)
		}
		apps[0].LastUsedAt = time.Time{}
		if diff := cmp.Diff(account.App{ClientID: "app", ClientName: c.Name, Scopes: []string{"email", "offline_access", "openid", "profile"}, GrantedAt: noon}, apps[0]); diff != "" {
			t.Error(diff)
		}
		must(t, s.RemoveApp(ctx, u.Sub, c.ID, noon, act("app.remove")))
		want(t, s.RemoveApp(ctx, u.Sub, c.ID, noon, act("app.remove")), account.ErrAppNotFound)
		_, err = useToken(ctx, s, access)
		want(t, err, provider.ErrSpent)
		left, err := s.ConsentedScopes(ctx, u.Sub, "other")
		must(t, err)
		equal(t, "left", left, []string{"openid"})
	})
}

func TestApplicationThatWasRemovedMeanwhileGetsNoCode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		n := signIn(t, s, u)
		grant := func() *provider.Grant {
			g := newGrant(c, n, "openid", "email")
			g.Consented = []string{"openid", "email"}
			return g
		}
		want(t, s.CreateGrant(ctx, grant()), provider.ErrConsentRemoved)
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", "email"}, noon, act("app.allow")))
		must(t, s.CreateGrant(ctx, grant()))
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon, act("app.allow"), "email"))
		want(t, s.CreateGrant(ctx, grant()), provider.ErrConsentRemoved)
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"email"}, noon, act("app.allow")))
		// Whichever comes first, nothing is left when both have ended.
		for range 20 {
			race(2, func(i int) error {
				if i == 0 {
					return s.CreateGrant(ctx, grant())
				}
				return s.RemoveApp(ctx, u.Sub, c.ID, noon, act("app.remove"))
			})
			living, err := s.LivingGrants(ctx, u.Sub, grant().SessionID, c.ID, noon)
			must(t, err)
			if len(living) > 0 {
				t.Fatalf("a removed application has %+v", living)
			}
			must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", "email"}, noon, act("app.allow")))
		}
	})
}

func TestEveryFieldOfAClientComesBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		full := &provider.Client{
			ID: "full", Name: "Full", RedirectURIs: []string{"https://a.example.org/cb"}, Scopes: []string{"openid"}, AuthMethod: provider.AuthJWT,
			RequirePKCE: true, RequireFlags: []string{"activity"}, Trusted: true, IDTokenAlg: "EdDSA", IDTokenClaims: true, AllowInsecureRedirect: true, ClientCredentials: true,
			JWKS: []byte(`{"keys":[{"kty":"EC","crv":"P-256","x-note":"€ü","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`), RefreshGrace: 45 * time.Second, AccessLifetime: 5 * time.Minute, RefreshLifetime: 90 * 24 * time.Hour, RefreshMaxLifetime: 365 * 24 * time.Hour,
			Claims: []string{"role=a b if coach", "role=x={handle}"}, ClaimIn: []string{"userinfo", "access_token"}, RequireAll: true,
			PostLogoutRedirectURIs: []string{"https://a.example.org/bye?x=1", "com.example.app:/bye"}, BackchannelLogoutURI: "https://10.0.0.1/logout",
			BackchannelPrivate: true, Groups: []string{"activity", "admin"}, CreatedAt: noon,
		}
		bare := &provider.Client{ID: "bare", Name: "Bare", RedirectURIs: []string{"https://b.example.org/cb"}, Scopes: []string{"openid"}, AuthMethod: provider.AuthNone, CreatedAt: noon}
		check := func(expected *provider.Client) {
			t.Helper()
			one, err := s.Client(ctx, expected.ID)
			must(t, err)
			equal(t, "expected", one, expected)
			all, err := s.Clients(ctx)
			must(t, err)
			for _, c := range all {
				if c.ID == expected.ID && cmp.Diff(one, c) != "" {
					t.Error("the list says something else")
				}
			}
		}
		must(t, s.CreateClient(ctx, full, act("client.create")))
		must(t, s.CreateClient(ctx, bare, act("client.create")))
		want(t, s.CreateClient(ctx, full, act("client.create")), provider.ErrClientExists)
		_, err := s.Client(ctx, "none")
		want(t, err, provider.ErrClientNotFound)
		check(full)
		check(bare)
		// Each becomes the other, but for what never changes.
		for id, from := range map[string]*provider.Client{"full": bare, "bare": full} {
			change := *from
			change.ID = id
			must(t, s.UpdateClient(ctx, &change, act("client.update")))
			check(&change)
		}
	})
}

// A client that is rotated, changed and removed while it is in use: no request
// waits in a circle, and nothing of it is left.
func TestClientIsRemovedInTheMiddleOfItsUse(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		ctx, s := t.Context(), instances[0]
		for round := range 5 {
			c := addTelling(t, s, name("app", round))
			var people [16]held
			var grants [16]*provider.Grant
			var tokens [16]string
			for i := range people {
				people[i].user = addUser(t, s, name("user", round, "-", i))
				people[i].session = signIn(t, s, people[i].user)
				must(t, s.SaveConsent(ctx, people[i].user.Sub, c.ID, []string{"openid"}, noon, act("app.allow")))
				grants[i] = useClient(t, s, c, people[i].session, "openid", "offline_access")
				_, tokens[i] = addTokens(t, s, grants[i])
			}
			errs := race(16, func(i int) error {
				s, p := instances[i%2], people[i]
				switch {
				case i == 0:
					return s.RemoveClient(ctx, c.ID, act("client.remove"))
				case i == 1:
					return s.UpdateClient(ctx, c, act("client.update"))
				case i == 2:
					return s.RotateClientSecret(ctx, c.ID, []byte("new"), noon, noon, act("client.rotate_secret"))
				case i%3 == 0:
					return s.RemoveApp(ctx, p.user.Sub, c.ID, noon, act("app.remove"))
				case i%3 == 1:
					return refresh(ctx, s, grants[i], tokens[i], "next-"+tokens[i])
				}
				return s.EndSession(ctx, p.user.Sub, p.session.ID, noon, act("session.end"))
			})
			must(t, errs[0])
			wins(t, errs, provider.ErrClientNotFound, account.ErrAppNotFound, provider.ErrNotFound, provider.ErrSpent)
			for _, table := range []string{"client_secrets", "consents", "grants", "client_tokens", "pushed_requests"} {
				if n, err := s.Count("SELECT count(*) FROM "+table+" WHERE client_id = ?", c.ID); err != nil || n != 0 {
					t.Fatalf("%d rows are left in %s (%v)", n, table, err)
				}
			}
		}
	})
}

func TestUpdateKeepsSecretsAndOtherClients(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, other := addClient(t, s, "app"), addClient(t, s, "other")
		change := *c
		change.Name, change.RedirectURIs, change.Scopes, change.AuthMethod = "Renamed", []string{"https://new.example.org/cb"}, []string{"openid"}, provider.AuthPost
		change.RequirePKCE, change.RequireFlags, change.Trusted, change.IDTokenClaims, change.AllowInsecureRedirect = true, []string{"beta", "coach"}, true, true, true
		sent := change
		sent.Secrets, sent.CreatedAt = nil, noon.Add(time.Hour)
		must(t, s.UpdateClient(t.Context(), &sent, act("client.update")))
		for _, expected := range []*provider.Client{&change, other} {
			got, err := s.Client(t.Context(), expected.ID)
			must(t, err)
			equal(t, "expected", got, expected)
		}
		sent.Trusted, sent.RequireFlags = false, nil // zero values are written too
		must(t, s.UpdateClient(t.Context(), &sent, act("client.update")))
		got, err := s.Client(t.Context(), "app")
		must(t, err)
		if got.Trusted || got.RequireFlags != nil {
			t.Errorf("%+v", got)
		}
		// a secret of before opens nothing afterwards
		for _, method := range []string{provider.AuthNone, provider.AuthPost} {
			sent.AuthMethod = method
			must(t, s.UpdateClient(t.Context(), &sent, act("client.update")))
		}
		if got, err = s.Client(t.Context(), "app"); err != nil || len(got.Secrets) > 0 {
			t.Errorf("the client still has a secret: %+v, %v", got, err)
		}
		if got, err = s.Client(t.Context(), other.ID); err != nil || len(got.Secrets) != 1 {
			t.Errorf("the secret of another client: %+v, %v", got, err)
		}
		sent.ID = "none"
		want(t, s.UpdateClient(t.Context(), &sent, act("client.update")), provider.ErrClientNotFound)
	})
}

// The rules stand behind every way to write a client.
func TestInvalidClientIsNotWritten(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c := addClient(t, s, "app")
		for member, change := range map[string]func(*provider.Client){
			"client_id":     func(c *provider.Client) { c.ID = "Activity" },
			"redirect_uris": func(c *provider.Client) { c.ID, c.RedirectURIs = "new", []string{"http://app.example.org/cb"} },
		} {
			bad := *c
			change(&bad)
			for _, err := range []error{s.CreateClient(t.Context(), &bad, act("client.create")), s.UpdateClient(t.Context(), &bad, act("client.update"))} {
				var broken *provider.RegistrationError
				if !errors.As(err, &broken) || broken.Member != member {
					t.Errorf("%s: %v", member, err)
				}
			}
		}
		all, err := s.Clients(t.Context())
		must(t, err)
		equal(t, "all", all, []*provider.Client{c})
	})
}

func TestRotatedSecretEndsInTime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Second)
		addClient(t, s, "app")
		hashes := func() (out []string) {
			c, err := s.Client(ctx, "app")
			must(t, err)
			for _, x := range c.Secrets {
				out = append(out, string(x.Hash))
			}
			return out
		}
		first := string(account.HashSecret("secret of app"))
		must(t, s.RotateClientSecret(ctx, "app", []byte("second"), now, now.Add(time.Hour), act("client.rotate_secret")))
		equal(t, "hashes", hashes(), []string{"second", first})
		must(t, s.RotateClientSecret(ctx, "app", []byte("third"), now, time.Time{}, act("client.rotate_secret")))
		same(t, "the earlier ones should have ended at once", cmp.Diff([]string{"third"}, hashes()), "")
		want(t, s.RotateClientSecret(ctx, "none", []byte("x"), now, now, act("client.rotate_secret")), provider.ErrClientNotFound)
	})
}

// A client that is being removed is refused before its rows are gone, and what an
// interrupted removal has left goes with the sweep.
func TestRemovedClientIsUnknownAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, u := t.Context(), addTelling(t, s, "app"), addUser(t, s, "ada")
		n := signIn(t, s, u)
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon, act("app.allow")))
		g := newGrantStored(t, s, c, n)
		access, refresh := addTokens(t, s, g)
		own := addClientToken(t, s, c)
		must(t, s.SpendCode(ctx, g.ID, nil)) // the client would be told of the end of the session
		ends, cancel := context.WithCancel(ctx)
		s.AfterStatement("UPDATE clients SET removed_at", cancel)
		if err := s.RemoveClient(ends, c.ID, act("client.remove")); err == nil {
			t.Fatal("the removal was not interrupted")
		}
		rows := func() int64 {
			n, err := s.Count("SELECT (SELECT count(*) FROM tokens) + (SELECT count(*) FROM grants) + (SELECT count(*) FROM consents) + (SELECT count(*) FROM client_tokens) + (SELECT count(*) FROM clients)")
			must(t, err)
			return n
		}
		if n := rows(); n != 5 {
			t.Fatalf("%d rows, want two tokens, their grant, the client and its own token", n)
		}
		_, err := s.Client(ctx, c.ID)
		want(t, err, provider.ErrClientNotFound)
		want(t, s.UpdateClient(ctx, c, act("client.update")), provider.ErrClientNotFound)
		for _, id := range []string{c.ID, "", "\x00", "\xff"} {
			want(t, s.RotateClientSecret(ctx, id, []byte("hash"), noon, noon, act("client.rotate_secret")), provider.ErrClientNotFound)
			want(t, s.RemoveClient(ctx, id, act("client.remove")), provider.ErrClientNotFound)
		}
		for _, token := range []string{access, own} {
			_, err = useToken(ctx, s, token)
			want(t, err, provider.ErrNotFound)
		}
		_, err = useToken(ctx, s, refresh)
		want(t, err, provider.ErrNotFound)
		apps, err := s.Apps(ctx, u.Sub, noon)
		must(t, err)
		if clients, err := s.Clients(ctx); err != nil || len(clients)+len(apps) > 0 {
			t.Errorf("%d clients and %d applications are listed (%v)", len(clients), len(apps), err)
		}
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
		if told := notices(t, s, u.Sub); len(told) > 0 {
			t.Errorf("notices %q", told)
		}
		got, err := s.Sweep(ctx, noon)
		must(t, err)
		if n := rows(); n != 0 || got.Clients != 1 {
			t.Errorf("%d rows are left: %+v", n, got)
		}
		addClient(t, s, c.ID)
	})
}

// While one process deletes what is left of a removed client, another may finish that
// and register the id again: what the new one has stays.
func TestRemovalLeavesTheNextClientOfThatID(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		addClient(t, s, "app")
		n := signIn(t, s, u)
		var refresh string
		s.AfterStatement("DELETE FROM client_secrets", func() {
			c := addTelling(t, s, "app")
			must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon, act("app.allow")))
			g := newGrantStored(t, s, c, n)
			must(t, spendCode(ctx, s, "sig-"+g.ID))
			_, refresh = addTokens(t, s, g)
		})
		must(t, s.RemoveClient(ctx, "app", act("client.remove")))
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
		if scopes, err := s.ConsentedScopes(ctx, u.Sub, "app"); err != nil || len(scopes) != 1 {
			t.Errorf("consent %q, %v", scopes, err)
		}
		if _, err := useToken(ctx, s, refresh); err != nil {
			t.Errorf("token: %v", err)
		}
		if told := notices(t, s, u.Sub); len(told) != 1 {
			t.Errorf("notices %q", told)
		}
	})
}
