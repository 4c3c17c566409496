package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestEveryFieldOfAClientComesBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		full := &provider.Client{
			ID: "full", Name: "Full", RedirectURIs: []string{"https://a.example.org/cb"}, Scopes: []string{"openid"}, AuthMethod: provider.AuthJWT,
			RequirePKCE: true, RequireFlag: "activity", Trusted: true, IDTokenClaims: true, AllowInsecureRedirect: true, ClientCredentials: true,
			JWKS: []byte(`{"keys":[{"kty":"EC","crv":"P-256","x-note":"€ü","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`), RefreshGrace: 45 * time.Second,
			PostLogoutRedirectURIs: []string{"https://a.example.org/bye?x=1", "com.example.app:/bye"}, BackchannelLogoutURI: "https://10.0.0.1/logout",
			BackchannelPrivate: true, Groups: []string{"activity", "admin"}, CreatedAt: noon,
		}
		bare := &provider.Client{ID: "bare", Name: "Bare", RedirectURIs: []string{"https://b.example.org/cb"}, Scopes: []string{"openid"}, AuthMethod: provider.AuthNone, CreatedAt: noon}
		check := func(expected *provider.Client) {
			t.Helper()
			one, err := s.Client(ctx, expected.ID)
			must(t, err)
			if diff := cmp.Diff(expected, one); diff != "" {
				t.Error(diff)
			}
			all, err := s.Clients(ctx)
			must(t, err)
			for _, c := range all {
				if c.ID == expected.ID && cmp.Diff(one, c) != "" {
					t.Error("the list says something else")
				}
			}
		}
		must(t, s.CreateClient(ctx, full))
		must(t, s.CreateClient(ctx, bare))
		check(full)
		check(bare)
		// Each becomes the other, but for what never changes.
		for id, from := range map[string]*provider.Client{"full": bare, "bare": full} {
			change := *from
			change.ID = id
			must(t, s.UpdateClient(ctx, &change))
			check(&change)
		}
	})
}

// A client that is rotated, changed and removed while people use it: nobody
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
				must(t, s.SaveConsent(ctx, people[i].user.Sub, c.ID, []string{"openid"}, noon))
				grants[i] = useClient(t, s, c, people[i].session, "openid", "offline_access")
				_, tokens[i] = addTokens(t, s, grants[i])
			}
			errs := race(16, func(i int) error {
				s, p := instances[i%2], people[i]
				switch {
				case i == 0:
					return s.RemoveClient(ctx, c.ID)
				case i == 1:
					return s.UpdateClient(ctx, c)
				case i == 2:
					return s.RotateClientSecret(ctx, c.ID, []byte("new"), noon, noon)
				case i%3 == 0:
					return s.RemoveApp(ctx, p.user.Sub, c.ID, noon)
				case i%3 == 1:
					return refresh(ctx, s, grants[i], tokens[i], "next-"+tokens[i])
				}
				return s.EndSession(ctx, p.user.Sub, p.session.ID, noon)
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
