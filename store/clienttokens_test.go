package store_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// ownRequest is the requester of a client_credentials grant.
func ownRequest(c *provider.Client, scopes ...string) *fosite.Request {
	return &fosite.Request{
		ID: uuid.NewString(), RequestedAt: noon, Client: c, RequestedScope: scopes, GrantedScope: scopes, Form: url.Values{},
		Session: &provider.GrantSession{AccessExpires: noon.Add(time.Hour), RefreshExpires: noon.Add(month)},
	}
}

func addOwnToken(t *testing.T, s *store.Store, r *fosite.Request) string {
	t.Helper()
	signature := "own-" + r.ID
	must(t, s.CreateAccessTokenSession(t.Context(), signature, r))
	return signature
}

func TestClientsOwnTokenIsNobodys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, other := t.Context(), addClient(t, s, "app"), addClient(t, s, "other")
		r := ownRequest(c, "profile", "groups")
		token := addOwnToken(t, s, r)
		got, err := s.GetAccessTokenSession(ctx, token, nil)
		must(t, err)
		expected := *r
		expected.RequestedAt = got.GetRequestedAt() // when it was issued
		expected.Session = &provider.GrantSession{AccessExpires: noon.Add(time.Hour)}
		expected.RequestedAudience, expected.GrantedAudience = fosite.Arguments{}, fosite.Arguments{}
		if diff := cmp.Diff(&expected, got, byValue, cmpopts.IgnoreFields(fosite.Request{}, "Lang")); diff != "" {
			t.Error(diff)
		}
		if time.Since(got.GetRequestedAt()) > time.Minute {
			t.Errorf("issued at %v", got.GetRequestedAt())
		}
		_, err = s.GetAccessTokenSession(asClient(ctx, other), token, nil)
		want(t, err, fosite.ErrNotFound)
		_, err = s.GetAccessTokenSession(asClient(ctx, c), token, nil)
		must(t, err)
		for _, table := range []string{"grants", "tokens"} {
			if n, err := s.Count("SELECT count(*) FROM " + table); err != nil || n != 0 {
				t.Errorf("%d rows in %s (%v)", n, table, err)
			}
		}
	})
}

func TestClientsOwnTokenIsNeverRefreshed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, r := t.Context(), ownRequest(addClient(t, s, "app"), "profile")
		token := addOwnToken(t, s, r)
		_, err := s.GetRefreshTokenSession(ctx, token, nil)
		want(t, err, fosite.ErrNotFound)
		want(t, s.RotateRefreshToken(ctx, r.ID, token), fosite.ErrInactiveToken)
		want(t, s.CreateRefreshTokenSession(ctx, "refresh", token, r), account.ErrUnavailable)
		_, err = s.GetRefreshTokenSession(ctx, "refresh", nil)
		want(t, err, fosite.ErrNotFound)
		soon := &provider.GrantSession{AccessExpires: noon}
		for _, bad := range []*fosite.Request{
			{ID: "1", Client: r.Client, Session: &provider.GrantSession{}}, // never expires
			{ID: "2", Client: r.Client},                                    // a mistake in the wiring
			{ID: "3", Session: soon},                                       // whose?
			{ID: "4", Client: &provider.Client{ID: "none"}, Session: soon},
			{ID: "5", Client: &provider.Client{ID: "\x00"}, Session: soon},
			{ID: "\xff", Client: r.Client, Session: soon},
			{ID: r.ID, Client: r.Client, Session: soon}, // twice
		} {
			want(t, s.CreateAccessTokenSession(ctx, "bad", bad), account.ErrUnavailable)
		}
	})
}

func TestRevokedTokenOfAClientNeverWorks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		for _, revoke := range []func(id string) error{
			func(id string) error { return s.RevokeAccessToken(ctx, id) },
			func(id string) error { return s.RevokeRefreshToken(ctx, id) },
			func(id string) error { return s.RevokeGrant(ctx, id, noon) },
		} {
			r, other := ownRequest(c, "profile"), ownRequest(c, "profile")
			token, bystander := addOwnToken(t, s, r), addOwnToken(t, s, other)
			must(t, revoke(r.ID))
			must(t, revoke(r.ID))
			got, err := s.GetAccessTokenSession(ctx, token, nil)
			want(t, err, fosite.ErrInactiveToken)
			if got == nil {
				t.Error("no requester")
			}
			_, err = s.GetAccessTokenSession(ctx, bystander, nil)
			must(t, err)
			must(t, s.DeleteAccessTokenSession(ctx, bystander))
			_, err = s.GetAccessTokenSession(ctx, bystander, nil)
			want(t, err, fosite.ErrNotFound)
		}
		last := addOwnToken(t, s, ownRequest(c, "profile"))
		must(t, s.RemoveClient(ctx, c.ID))
		_, err := s.GetAccessTokenSession(ctx, last, nil)
		want(t, err, fosite.ErrNotFound)
	})
}
