package store_test

import (
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestPushedRequestIsItsClientsAloneUntilItExpires(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, other, hash := t.Context(), addClient(t, s, "app"), addClient(t, s, "other"), []byte("hash")
		another := []byte("another")
		must(t, s.SavePushedRequest(ctx, hash, c.ID, "scope=openid", noon.Add(time.Minute)))
		for _, x := range []struct {
			hash   []byte
			client string
			at     time.Time
		}{
			{hash, other.ID, noon}, {hash, "", noon}, {hash, "\x00", noon}, {nil, c.ID, noon}, {[]byte{}, c.ID, noon}, {[]byte("HASH"), c.ID, noon},
			{hash, c.ID, noon.Add(time.Minute)}, {hash, c.ID, noon.Add(time.Hour)},
		} {
			got, err := s.PushedRequest(ctx, x.hash, x.client, x.at)
			want(t, err, provider.ErrNotFound)
			same(t, "refused, and yet", got, "")
		}
		got, err := s.PushedRequest(ctx, hash, c.ID, noon.Add(59*time.Second)) // nobody has spent it for the owner
		must(t, err)
		same(t, "query", got, "scope=openid")
		for _, bad := range []struct {
			hash          []byte
			client, query string
		}{{nil, c.ID, "q"}, {another, "", "q"}, {another, "none", "q"}, {another, c.ID, ""}, {another, c.ID, "\x00"}, {another, c.ID, "\xff"}, {hash, c.ID, "q"}} {
			want(t, s.SavePushedRequest(ctx, bad.hash, bad.client, bad.query, noon.Add(time.Minute)),
				account.ErrUnavailable)
		}
		must(t, s.RemoveClient(ctx, c.ID, act("client.remove")))
		_, err = s.PushedRequest(ctx, hash, c.ID, noon)
		want(t, err, provider.ErrNotFound)
	})
}

func TestAssertionIsSpentOnceAClient(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		ctx, s, jti := t.Context(), instances[0], "odd \x00\xff id"
		for _, client := range []string{"one", "two"} { // the same id of another client is another
			for range 3 {
				n := wins(t, race(16, func(i int) error {
					return instances[i%2].SpendAssertion(ctx, client, jti, time.Now().Add(time.Minute))
				}), provider.ErrSpent)
				if n != 1 {
					t.Fatalf("%s: used %d times", client, n)
				}
				must(t, s.Exec("UPDATE client_assertions SET expires_at = 1 WHERE client_id = ?", client)) // and then again
			}
		}
		must(t, s.SpendAssertion(ctx, "three", jti, time.Now().Add(time.Minute)))
		want(t, s.SpendAssertion(ctx, "", "another", time.Now().Add(time.Minute)), account.ErrUnavailable)
	})
}
