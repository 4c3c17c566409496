package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestUpdateNeverTouchesSecretsOrOthers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, other := addClient(t, s, "app"), addClient(t, s, "other")
		change := *c
		change.Name, change.RedirectURIs, change.Scopes, change.AuthMethod = "Renamed", []string{"https://new.example.org/cb"}, []string{"openid"}, provider.AuthPost
		change.RequirePKCE, change.RequireFlag, change.Trusted, change.IDTokenClaims, change.AllowInsecureRedirect = true, "beta", true, true, true
		sent := change
		sent.Secrets, sent.CreatedAt = nil, noon.Add(time.Hour)
		must(t, s.UpdateClient(t.Context(), &sent))
		for _, expected := range []*provider.Client{&change, other} {
			got, err := s.Client(t.Context(), expected.ID)
			must(t, err)
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Error(diff)
			}
		}
		sent.Trusted, sent.RequireFlag = false, "" // zero values are written too
		must(t, s.UpdateClient(t.Context(), &sent))
		got, err := s.Client(t.Context(), "app")
		must(t, err)
		if got.Trusted || got.RequireFlag != "" {
			t.Errorf("%+v", got)
		}
		want(t, s.UpdateClient(t.Context(), &provider.Client{ID: "none"}), provider.ErrClientNotFound)
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
		first := string(provider.HashSecret("secret of app"))
		must(t, s.RotateClientSecret(ctx, "app", []byte("second"), now, now.Add(time.Hour)))
		if diff := cmp.Diff([]string{"second", first}, hashes()); diff != "" {
			t.Error(diff)
		}
		must(t, s.RotateClientSecret(ctx, "app", []byte("third"), now, time.Time{}))
		if diff := cmp.Diff([]string{"third"}, hashes()); diff != "" {
			t.Errorf("the earlier ones should have ended at once: %s", diff)
		}
		want(t, s.RotateClientSecret(ctx, "none", []byte("x"), now, now), provider.ErrClientNotFound)
	})
}

func TestRemovedClientLeavesNothingThatWorks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		_, err := s.GetAccessTokenSession(ctx, h.access, nil) // the client is remembered now
		must(t, err)
		must(t, s.RemoveClient(ctx, "ada-app"))
		want(t, s.RemoveClient(ctx, "ada-app"), provider.ErrClientNotFound)
		_, err = s.GetAccessTokenSession(ctx, h.access, nil)
		want(t, err, fosite.ErrNotFound)
		_, err = s.GetRefreshTokenSession(ctx, h.refresh, nil)
		want(t, err, fosite.ErrNotFound)
		_, err = s.GetAuthorizeCodeSession(ctx, h.code, nil)
		want(t, err, fosite.ErrNotFound)
		for _, table := range []string{"client_secrets", "consents", "grants"} {
			if n, err := s.Count("SELECT count(*) FROM " + table + " WHERE client_id = 'ada-app'"); err != nil || n != 0 {
				t.Errorf("%d rows are left in %s (%v)", n, table, err)
			}
		}
		if !live(t, s, h.session.ID) {
			t.Error("the session ended")
		}
		checkWorks(t, s, bystander)
	})
}
