package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// newGrantStored is a grant with offline_access whose code is stored.
func newGrantStored(t testing.TB, s *store.Store, c *provider.Client, n account.Session) *fosite.Request {
	t.Helper()
	g := newGrant(c, n, "openid", "offline_access")
	addCode(t, s, g)
	return g
}

func oddGrantKeys(t *testing.T, s *store.Store, key string) {
	t.Helper()
	ctx := t.Context()
	_, err := s.GetAuthorizeCodeSession(ctx, key, nil)
	want(t, err, fosite.ErrNotFound)
	_, err = s.GetPKCERequestSession(ctx, key, nil)
	want(t, err, fosite.ErrNotFound)
	_, err = s.GetOpenIDConnectSession(ctx, key, nil)
	want(t, err, fosite.ErrNotFound)
	_, err = s.GetOpenIDConnectSession(ctx, "half."+key, nil)
	want(t, err, fosite.ErrNotFound)
	_, err = s.GetAccessTokenSession(ctx, key, nil)
	want(t, err, fosite.ErrNotFound)
	_, err = s.GetRefreshTokenSession(ctx, key, nil)
	want(t, err, fosite.ErrNotFound)
	_, err = s.GetClient(ctx, key)
	want(t, err, fosite.ErrNotFound)
	if s.InvalidateAuthorizeCodeSession(ctx, key) == nil || s.RotateRefreshToken(ctx, key, key) == nil {
		t.Errorf("key %q spent something", key)
	}
	must(t, s.RevokeGrant(ctx, key, noon))
	must(t, s.DeleteAccessTokenSession(ctx, key))
	must(t, s.DeleteRefreshTokenSession(ctx, key))
	scopes, err := s.ConsentedScopes(ctx, key, key)
	must(t, err)
	if scopes != nil {
		t.Errorf("key %q has consent", key)
	}
}

var byValue = cmpopts.IgnoreUnexported(provider.GrantSession{})

// What fosite compares later (redirect_uri, challenge, nonce) must come back to
// the byte: a lost one is a check that no longer happens.
func TestGrantComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		n := signIn(t, s, addUser(t, s, "ada"))
		g := newGrant(c, n, "openid", "profile", "offline_access")
		code := addCode(t, s, g)
		session := *g.Session.(*provider.GrantSession)
		check := func(got fosite.Requester, err error, access, refresh time.Time) {
			t.Helper()
			must(t, err)
			expected := *g
			kept := session
			kept.AccessExpires, kept.RefreshExpires = access, refresh
			expected.Session, expected.RequestedAudience, expected.GrantedAudience = &kept, fosite.Arguments{}, fosite.Arguments{}
			if diff := cmp.Diff(&expected, got, byValue, cmpopts.IgnoreFields(fosite.Request{}, "Lang")); diff != "" {
				t.Error(diff)
			}
		}
		got, err := s.GetAuthorizeCodeSession(ctx, code, nil)
		check(got, err, time.Time{}, time.Time{})
		got, err = s.GetPKCERequestSession(ctx, code, nil)
		check(got, err, time.Time{}, time.Time{})
		got, err = s.GetOpenIDConnectSession(ctx, "key half."+code, nil)
		check(got, err, time.Time{}, time.Time{})
		access, refresh := addTokens(t, s, g)
		got, err = s.GetAccessTokenSession(ctx, access, nil)
		check(got, err, session.AccessExpires, time.Time{})
		got, err = s.GetRefreshTokenSession(ctx, refresh, nil)
		check(got, err, time.Time{}, session.RefreshExpires)
		// A token of one kind is not one of the other.
		_, err = s.GetAccessTokenSession(ctx, refresh, nil)
		want(t, err, fosite.ErrNotFound)
		_, err = s.GetRefreshTokenSession(ctx, access, nil)
		want(t, err, fosite.ErrNotFound)
	})
}

func TestNoChallengeAndNoOpenIDAreNotFound(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		g := newGrant(addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada")), "profile")
		delete(g.Form, "code_challenge")
		delete(g.Form, "code_challenge_method")
		delete(g.Form, "nonce")
		code := addCode(t, s, g)
		_, err := s.GetPKCERequestSession(t.Context(), code, nil)
		want(t, err, fosite.ErrNotFound)
		_, err = s.GetOpenIDConnectSession(t.Context(), "x."+code, nil)
		want(t, err, fosite.ErrNotFound)
		got, err := s.GetAuthorizeCodeSession(t.Context(), code, nil)
		must(t, err)
		if form := got.GetRequestForm(); form.Has("nonce") || form.Has("code_challenge") {
			t.Errorf("form %v", form)
		}
	})
}

func TestChallengeSurvivesAFailedTry(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		code := addCode(t, s, newGrant(addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada")), "openid"))
		must(t, s.DeletePKCERequestSession(t.Context(), code))
		must(t, s.DeleteOpenIDConnectSession(t.Context(), "x."+code))
		_, err := s.GetPKCERequestSession(t.Context(), code, nil)
		must(t, err)
	})
}

func TestForeignClientNeverEndsTheOwnersGrant(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		owner, thief := addClient(t, s, "owner"), addClient(t, s, "thief")
		g := newGrantStored(t, s, owner, signIn(t, s, addUser(t, s, "ada")))
		code := "sig-" + g.ID
		access, refresh := addTokens(t, s, g)
		for _, spent := range []bool{false, true} {
			if spent {
				must(t, s.InvalidateAuthorizeCodeSession(t.Context(), code))
				must(t, s.RotateRefreshToken(t.Context(), g.ID, refresh))
			}
			ctx := asClient(t.Context(), thief)
			_, err := s.GetAuthorizeCodeSession(ctx, code, nil)
			want(t, err, fosite.ErrNotFound)
			_, err = s.GetPKCERequestSession(ctx, code, nil)
			want(t, err, fosite.ErrNotFound)
			_, err = s.GetOpenIDConnectSession(ctx, "x."+code, nil)
			want(t, err, fosite.ErrNotFound)
			_, err = s.GetRefreshTokenSession(ctx, refresh, nil)
			want(t, err, fosite.ErrNotFound)
			_, err = s.GetAccessTokenSession(ctx, access, nil)
			want(t, err, fosite.ErrNotFound)
			ctx = asClient(t.Context(), owner)
			_, err = s.GetAuthorizeCodeSession(ctx, code, nil)
			if spent {
				want(t, err, fosite.ErrInvalidatedAuthorizeCode)
			} else {
				must(t, err)
			}
		}
		_, err := s.GetAccessTokenSession(t.Context(), access, nil)
		must(t, err)
	})
}

func TestRevokedGrantHasNoUsableTokens(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
		for _, revoke := range []func(id string) error{
			func(id string) error { return s.RevokeGrant(t.Context(), id, noon) },
			func(id string) error { return s.RevokeAccessToken(t.Context(), id) },
			func(id string) error { return s.RevokeRefreshToken(t.Context(), id) },
		} {
			g, other := newGrantStored(t, s, c, n), newGrantStored(t, s, c, n)
			access, refresh := addTokens(t, s, g)
			bystander, _ := addTokens(t, s, other)
			must(t, revoke(g.ID))
			must(t, revoke(g.ID))
			must(t, revoke("no such grant"))
			_, err := s.GetAccessTokenSession(t.Context(), access, nil)
			want(t, err, fosite.ErrInactiveToken)
			r, err := s.GetRefreshTokenSession(t.Context(), refresh, nil)
			want(t, err, fosite.ErrInactiveToken)
			want(t, err, provider.ErrGrantRevoked) // and not used a second time
			if r == nil {
				t.Error("no requester")
			}
			r, err = s.GetAuthorizeCodeSession(t.Context(), "sig-"+g.ID, nil)
			want(t, err, fosite.ErrInvalidatedAuthorizeCode)
			want(t, err, provider.ErrGrantRevoked)
			if r == nil {
				t.Error("no requester of the code")
			}
			want(t, s.RotateRefreshToken(t.Context(), g.ID, refresh), fosite.ErrInactiveToken)
			want(t, s.InvalidateAuthorizeCodeSession(t.Context(), "sig-"+g.ID), fosite.ErrInvalidatedAuthorizeCode)
			_, err = s.GetAccessTokenSession(t.Context(), bystander, nil)
			must(t, err)
		}
	})
}

func TestCodeOfAnEndedSessionIsNeverMade(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u, c := addUser(t, s, "ada"), addClient(t, s, "app")
		n := signIn(t, s, u)
		must(t, s.EndSession(t.Context(), u.Sub, n.ID, noon))
		for _, g := range []*fosite.Request{newGrant(c, n, "openid"), newGrant(c, account.Session{ID: "none", Sub: u.Sub}, "openid"), newGrant(c, account.Session{}, "openid")} {
			want(t, s.CreateAuthorizeCodeSession(t.Context(), "sig-"+g.ID, g), account.ErrSessionNotFound)
		}
	})
}

func TestOneTokenRequestReadsTheCodeOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c := addClient(t, s, "app")
		g := newGrantStored(t, s, c, signIn(t, s, addUser(t, s, "ada")))
		code := "sig-" + g.ID
		ctx := asClient(provider.WithRequestCache(t.Context()), c)
		first, err := s.GetAuthorizeCodeSession(ctx, code, nil)
		must(t, err)
		must(t, s.Exec("UPDATE grants SET nonce = NULL")) // unseen by this request
		for _, get := range []func() (fosite.Requester, error){
			func() (fosite.Requester, error) { return s.GetPKCERequestSession(ctx, code, nil) },
			func() (fosite.Requester, error) { return s.GetAuthorizeCodeSession(ctx, code, nil) },
			func() (fosite.Requester, error) { return s.GetOpenIDConnectSession(ctx, "x."+code, nil) },
		} {
			r, err := get()
			must(t, err)
			if r.GetSession() != first.GetSession() || r.GetRequestForm().Get("nonce") == "" || r.GetClient() != fosite.Client(c) {
				t.Error("the code was read again")
			}
		}
		must(t, s.InvalidateAuthorizeCodeSession(ctx, code))
		_, err = s.GetAuthorizeCodeSession(ctx, code, nil)
		want(t, err, fosite.ErrInvalidatedAuthorizeCode)
		_, err = s.GetOpenIDConnectSession(ctx, "x."+code, nil)
		must(t, err)
		_, err = s.GetAuthorizeCodeSession(ctx, "another", nil)
		want(t, err, fosite.ErrNotFound)
	})
}
