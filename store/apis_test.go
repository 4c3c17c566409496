package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func addAPI(t *testing.T, s *store.Store, uri string, change func(*provider.API)) *provider.API {
	t.Helper()
	a, _ := provider.NewAPI(uri, "API", noon)
	if change != nil {
		change(a)
	}
	must(t, s.CreateAPI(t.Context(), a, act("api.create")))
	return a
}

// Sign-ins, grants for APIs and clients' own tokens take their places in the lists side by side, while others are
// revoked: no place is given twice, and none is revoked but those that were asked for.
func TestPlacesInTheStatusListsAreGivenOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, u := t.Context(), addClient(t, s, "app"), addUser(t, s, "ada")
		n := signIn(t, s, u)
		var all sync.WaitGroup
		var mu sync.Mutex
		places, revoked := map[string]int{}, 0
		place := func(list, index int) {
			mu.Lock()
			defer mu.Unlock()
			if list == 0 {
				t.Error("no place")
			}
			places[fmt.Sprint(list, "/", index)]++
		}
		for i := range 16 {
			all.Go(func() {
				g := newGrant(c, n, "openid")
				g.Resources = []string{"https://api.example.org"}
				if err := s.CreateGrant(ctx, g); err != nil {
					t.Error(err)
					return
				}
				place(g.StatusList, g.StatusIndex)
				if i%2 == 0 {
					if err := s.RevokeGrant(ctx, g.ID, time.Now()); err != nil {
						t.Error(err)
					}
				}
			})
			all.Go(func() {
				token := newClientToken(c, "profile")
				token.Audience = []string{"https://api.example.org"}
				if err := s.CreateClientToken(ctx, &token); err != nil {
					t.Error(err)
					return
				}
				place(token.Grant.StatusList, token.Grant.StatusIndex)
			})
			all.Go(func() {
				other := signIn(t, s, addUser(t, s, fmt.Sprint("user", i)))
				place(other.StatusList, other.StatusIndex)
			})
		}
		all.Wait()
		same(t, "places of 48 are different", len(places), 48)
		for list := range mustVersions(t, s) {
			set, err := s.RevokedIndices(ctx, list)
			must(t, err)
			revoked += len(set)
		}
		same(t, "revoked", revoked, 8)
	})
}

func mustVersions(t *testing.T, s *store.Store) map[int]int64 {
	t.Helper()
	versions, err := s.StatusVersions(t.Context())
	must(t, err)
	return versions
}

// A revoked place is free again only when no token of it can live; a list stays while one is taken.
func TestPlaceOfAGrantIsFreeWhenItsTokensHaveExpired(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		n := signIn(t, s, addUser(t, s, "ada"))
		g := newGrant(c, n, "openid")
		g.Resources = []string{"https://api.example.org"}
		must(t, s.CreateGrant(ctx, g))
		now := time.Now()
		must(t, s.RevokeGrant(ctx, g.ID, now))
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{time.Hour, 1}, {provider.MaxAPILifetime - time.Hour, 1}, {provider.MaxAPILifetime + 25*time.Hour, 0}} {
			_, err := s.Sweep(ctx, now.Add(step.after))
			must(t, err)
			set, err := s.RevokedIndices(ctx, g.StatusList)
			must(t, err)
			same(t, fmt.Sprintf("after %s: bits", step.after), len(set), step.want)
		}
	})
}

// A demand ends what does not fit it, and nothing else.
func TestDemandEndsTheGrantsThatDoNotFit(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c, u := t.Context(), addClient(t, s, "app"), addUser(t, s, "ada", "coach", "beta")
		_, err := s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		for _, amr := range []string{"pwd", "pwd otp mfa", "hwk user mfa"} {
			g := newGrant(c, signIn(t, s, u), "openid")
			g.AMR, g.Resources = strings.Fields(amr), []string{"https://api.example.org"}
			must(t, s.CreateGrant(ctx, g))
		}
		must(t, s.Exec("UPDATE users SET email_verified = ?, second_factor = ?", true, true))
		update := func() error { return s.UpdateClient(ctx, c, act("client.update")) }
		for i, step := range []struct {
			do   func() error
			want int
		}{
			{func() error {
				c.RequireFlags, c.RequireAll, c.RequireVerifiedEmail = []string{"beta", "coach"}, true, true
				return update()
			}, 0},
			{func() error { c.RequireFlags, c.RequireAll = []string{"beta", "bet"}, false; return update() }, 0},
			{func() error {
				_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{"coach": {}}, noon, act("user.flags").Keeping(account.Keep{Sessions: true}))
				return err
			}, 0},
			{func() error {
				_, err := s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.SecondFactorFlags = []string{"beta"}; return "x", nil }, act("settings.set"))
				return err
			}, 1},
			{func() error { c.RequireACR = "2"; return update() }, 1},
			{func() error { c.RequireACR = "phr"; return update() }, 2},
			{func() error { c.RequireFlags = []string{"bet"}; return update() }, 3},
		} {
			must(t, step.do())
			set, err := s.RevokedIndices(ctx, 1)
			must(t, err)
			same(t, fmt.Sprint("revoked after step ", i), len(set), step.want)
		}
	})
}

func TestAPIComesBackAsRegistered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		addClient(t, s, "app")
		a := addAPI(t, s, "https://api.example.org", func(a *provider.API) {
			a.Opaque, a.Algorithm, a.Clients, a.Lifetime = true, "ES256", []string{"app"}, 5*time.Minute
			a.Claims = []string{"role=a b if coach", "role=x"}
			a.Scopes = []provider.APIScope{{Name: "b", Sentence: "B"}, {Name: "a", Sentence: "A"}}
		})
		want := func() {
			t.Helper()
			all, err := s.APIs(ctx)
			must(t, err)
			equal(t, "all", all, []*provider.API{a})
		}
		want()
		a.Opaque, a.Algorithm, a.Clients, a.AllClients, a.Scopes, a.Name = false, "", nil, true, a.Scopes[:1], "Other"
		must(t, s.UpdateAPI(ctx, a, act("api.update")))
		want()
		bad := *a
		for _, id := range []string{"nobody", "app\x00", "\xff"} {
			bad.Name, bad.AllClients, bad.Clients = "Bad", false, []string{id}
			var none *provider.RegistrationError
			if err := s.UpdateAPI(ctx, &bad, act("api.update")); !errors.As(err, &none) || none.Member != "clients" {
				t.Errorf("the client %q that there is not: %v", id, err)
			}
		}
		want()
	})
}
