package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		sent.ID = "none"
		want(t, s.UpdateClient(t.Context(), &sent), provider.ErrClientNotFound)
	})
}

// The rules stand behind every way to write a client.
func TestClientThatBreaksARuleIsNeverWritten(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c := addClient(t, s, "app")
		for member, change := range map[string]func(*provider.Client){
			"client_id":     func(c *provider.Client) { c.ID = "Activity" },
			"redirect_uris": func(c *provider.Client) { c.ID, c.RedirectURIs = "new", []string{"http://app.example.org/cb"} },
		} {
			bad := *c
			change(&bad)
			for _, err := range []error{s.CreateClient(t.Context(), &bad), s.UpdateClient(t.Context(), &bad)} {
				var broken *provider.RegistrationError
				if !errors.As(err, &broken) || broken.Member != member {
					t.Errorf("%s: %v", member, err)
				}
			}
		}
		all, err := s.Clients(t.Context())
		must(t, err)
		if diff := cmp.Diff([]*provider.Client{c}, all); diff != "" {
			t.Error(diff)
		}
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
		_, err := useToken(ctx, s, h.access)
		must(t, err)
		must(t, s.RemoveClient(ctx, "ada-app"))
		want(t, s.RemoveClient(ctx, "ada-app"), provider.ErrClientNotFound)
		_, err = useToken(ctx, s, h.access)
		want(t, err, provider.ErrNotFound)
		_, err = useToken(ctx, s, h.refresh)
		want(t, err, provider.ErrNotFound)
		_, err = useCode(ctx, s, h.code)
		want(t, err, provider.ErrNotFound)
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
