package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestClientComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		old := provider.ClientSecret{Hash: []byte("old"), CreatedAt: noon, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second)}
		full := &provider.Client{
			ID: "full", Name: "B %_'\"", Secrets: []provider.ClientSecret{{Hash: []byte("new"), CreatedAt: noon}, old},
			RedirectURIs: []string{"https://a.example.org/cb?x=1", "com.example.app:/cb"}, Scopes: []string{"openid", "groups"}, AuthMethod: provider.AuthBasic,
			RequirePKCE: true, RequireFlag: "activity", Trusted: true, IDTokenClaims: true, AllowInsecureRedirect: true, CreatedAt: noon,
		}
		public := &provider.Client{ID: "public", Name: "A", RedirectURIs: []string{"https://b.example.org/cb"}, AuthMethod: provider.AuthNone, CreatedAt: noon}
		must(t, s.CreateClient(ctx, full))
		must(t, s.CreateClient(ctx, public))
		want(t, s.CreateClient(ctx, full), provider.ErrClientExists)
		got, err := s.Client(ctx, "full")
		must(t, err)
		if diff := cmp.Diff(full, got); diff != "" {
			t.Error(diff)
		}
		list, err := s.Clients(ctx)
		must(t, err)
		if diff := cmp.Diff([]*provider.Client{public, full}, list, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		_, err = s.Client(ctx, "none")
		want(t, err, provider.ErrClientNotFound)
	})
}

func TestExpiredSecretIsNeverGiven(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c := &provider.Client{ID: "app", Name: "App", RedirectURIs: []string{"https://app.example.org/cb"}, AuthMethod: provider.AuthAny, CreatedAt: noon, Secrets: []provider.ClientSecret{
			{Hash: []byte("new"), CreatedAt: noon}, {Hash: []byte("old"), CreatedAt: noon, ExpiresAt: time.Now().Add(-time.Second)},
		}}
		must(t, s.CreateClient(t.Context(), c))
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

func TestConsentIsAddedAndTakenBackWhole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		addClient(t, s, "other")
		none, err := s.ConsentedScopes(ctx, u.Sub, c.ID)
		must(t, err)
		if none != nil {
			t.Errorf("consent %v of nothing", none)
		}
		wins(t, race(8, func(i int) error {
			return s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", []string{"email", "profile"}[i%2]}, noon.Add(time.Hour))
		}))
		must(t, s.SaveConsent(ctx, u.Sub, "other", []string{"openid"}, noon))
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, nil, noon))
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
		must(t, s.RemoveApp(ctx, u.Sub, c.ID, noon))
		want(t, s.RemoveApp(ctx, u.Sub, c.ID, noon), account.ErrAppNotFound)
		_, err = useToken(ctx, s, access)
		want(t, err, provider.ErrSpent)
		left, err := s.ConsentedScopes(ctx, u.Sub, "other")
		must(t, err)
		if diff := cmp.Diff([]string{"openid"}, left); diff != "" {
			t.Error(diff)
		}
	})
}
