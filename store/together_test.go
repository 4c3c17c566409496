package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// A failure of the last write undoes those before it, of every kind, with their audit rows.
func TestTogetherIsAllOrNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		initialize(t, s)
		addClient(t, s, "old")
		u := addUser(t, s, "ada")
		must(t, s.SaveConsent(ctx, u.Sub, "old", []string{"openid"}, noon, act("app.allow")))
		count := func() string {
			t.Helper()
			clients, err := s.Clients(ctx)
			must(t, err)
			apis, err := s.APIs(ctx)
			must(t, err)
			rows, err := s.AuditLog(ctx, account.AuditQuery{Limit: 100})
			must(t, err)
			v, err := s.Settings(ctx)
			must(t, err)
			return fmt.Sprint(len(clients), len(apis), len(rows), v.MaxUsers)
		}
		before := count()
		last := errors.New("the last write")
		all := func(end error) error {
			return s.Together(ctx, "test", func(tx *store.Store) error {
				c := &provider.Client{
					ID: "new", Name: "New", RedirectURIs: []string{"https://a.example.org/cb"}, AuthMethod: provider.AuthNone,
					CreatedAt: noon, Managed: true,
				}
				must(t, tx.CreateClient(ctx, c, act("client.create")))
				a, _ := provider.NewAPI("https://api.example.org", "API", noon)
				a.Clients, a.Scopes = []string{"nobody"}, []provider.APIScope{{Name: "trails", Sentence: "Trails"}}
				if err := tx.CreateAPI(ctx, a, act("api.create")); err == nil {
					t.Error("a client that there is not is accepted")
				}
				a.Clients, a.Managed = []string{"new"}, true // what the refused one had written is gone
				must(t, tx.CreateAPI(ctx, a, act("api.create")))
				_, err := tx.AmendSettings(ctx, func(v *account.Settings) (string, error) {
					v.MaxUsers = 7
					return "max_users", nil
				}, act("settings.update"))
				must(t, err)
				must(t, tx.RemoveClient(ctx, "old", act("client.remove")))
				return end
			})
		}
		if err := all(last); !errors.Is(err, last) {
			t.Fatalf("error %v", err)
		}
		same(t, "after a failure there is, before it was", count(), before)
		must(t, all(nil))
		if after := count(); after == before {
			t.Error("nothing was written")
		}
		c, err := s.Client(ctx, "new")
		must(t, err)
		apis, err := s.APIs(ctx)
		must(t, err)
		if !c.Managed || len(apis) != 1 || !apis[0].Managed {
			t.Errorf("client %+v, APIs %+v: not managed", c, apis)
		}
		if apps, err := s.Apps(ctx, u.Sub, noon); err != nil || len(apps) != 0 {
			t.Errorf("the consents of the removed client are left: %v %v", apps, err)
		}
	})
}

// Calls of several instances follow one another: each sees what those before it have written.
func TestTogetherExcludesOthers(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		initialize(t, instances[0])
		var created atomic.Int32
		for _, err := range race(6, func(i int) error {
			s := instances[i%2]
			return s.Together(t.Context(), "test", func(tx *store.Store) error {
				if _, err := tx.Client(t.Context(), "app"); !errors.Is(err, provider.ErrClientNotFound) {
					return err
				}
				c := &provider.Client{
					ID: "app", Name: "App", RedirectURIs: []string{"https://a.example.org/cb"}, AuthMethod: provider.AuthNone, CreatedAt: noon,
				}
				created.Add(1)
				return tx.CreateClient(t.Context(), c, act("client.create"))
			})
		}) {
			must(t, err)
		}
		same(t, "created it", created.Load(), 1)
	})
}

func TestTogetherEndsWithItsContext(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		initialize(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Together(ctx, "test", func(tx *store.Store) error {
			c := &provider.Client{
				ID: "app", Name: "App", RedirectURIs: []string{"https://a.example.org/cb"}, AuthMethod: provider.AuthNone, CreatedAt: noon,
			}
			must(t, tx.CreateClient(ctx, c, act("client.create")))
			cancel()
			return nil
		})
		if err == nil {
			t.Error("it commits after its caller has gone")
		}
		_, err = s.Client(t.Context(), "app")
		want(t, err, provider.ErrClientNotFound)
	})
}
