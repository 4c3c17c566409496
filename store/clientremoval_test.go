package store_test

import (
	"context"
	"testing"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// A client that is being removed is refused before its rows are gone, and what an
// interrupted removal has left goes with the sweep.
func TestRemovedClientIsUnknownAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, u := t.Context(), addTelling(t, s, "app"), addUser(t, s, "ada")
		n := signIn(t, s, u)
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon))
		g := newGrantStored(t, s, c, n)
		access, refresh := addTokens(t, s, g)
		own := addClientToken(t, s, c)
		ends, cancel := context.WithCancel(ctx)
		s.AfterStatement("UPDATE clients SET removed_at", cancel)
		if err := s.RemoveClient(ends, c.ID); err == nil {
			t.Fatal("the removal was not interrupted")
		}
		rows := func() int64 {
			n, err := s.Count("SELECT (SELECT count(*) FROM tokens) + (SELECT count(*) FROM grants) + (SELECT count(*) FROM consents) + (SELECT count(*) FROM client_tokens) + (SELECT count(*) FROM clients)")
			must(t, err)
			return n
		}
		if n := rows(); n != 6 {
			t.Fatalf("%d rows, want all: two tokens, one of the client, grant, consent, client", n)
		}
		_, err := s.Client(ctx, c.ID)
		want(t, err, provider.ErrClientNotFound)
		want(t, s.UpdateClient(ctx, c), provider.ErrClientNotFound)
		want(t, s.RotateClientSecret(ctx, c.ID, []byte("hash"), noon, noon), provider.ErrClientNotFound)
		want(t, s.RemoveClient(ctx, c.ID), provider.ErrClientNotFound)
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
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon))
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
			must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon))
			g := newGrantStored(t, s, c, n)
			must(t, spendCode(ctx, s, "sig-"+g.ID))
			_, refresh = addTokens(t, s, g)
		})
		must(t, s.RemoveClient(ctx, "app"))
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon))
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
