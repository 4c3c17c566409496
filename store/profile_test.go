package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func fullProfile() account.Profile {
	return account.Profile{
		GivenName: "Ada \"€\"", FamilyName: "Lovelace", MiddleName: "K.", Nickname: "ada", Page: "https://example.org/ada", Picture: "https://example.org/ada.png",
		Website: "https://ada.example.org", Gender: "female", Birthdate: "1815-12-10", Zoneinfo: "Europe/London", Locale: "en-GB",
		PhoneNumber: "+441234567890", PhoneNumberVerified: true,
		Address: &account.Address{Formatted: "1 Street\nLondon", StreetAddress: "1 Street", Locality: "London", Region: "Greater London", PostalCode: "W1", Country: "UK"},
	}
}

func set(p account.Profile) func(*account.Profile) error {
	return func(to *account.Profile) error { *to = p; return nil }
}

func setProfile(s *store.Store, ctx context.Context, sub string, change func(*account.Profile) error, at time.Time) (account.User, error) {
	return s.ChangeUser(ctx, sub, func(u *account.User) error { return change(&u.Profile) }, at, nil)
}

func TestProfileComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		full, at := fullProfile(), noon.Add(time.Hour)
		got, err := setProfile(s, ctx, u.Sub, set(full), at)
		must(t, err)
		u.Profile, u.UpdatedAt, u.LastLoginAt, u.Flags = full, at, noon, []string{}
		check := func(got account.User, err error) {
			t.Helper()
			must(t, err)
			if diff := cmp.Diff(u, got); diff != "" {
				t.Error(diff)
			}
		}
		check(got, nil)
		got, err = s.UserBySub(ctx, u.Sub)
		check(got, err)
		got, err = s.UserByHandle(ctx, "ada")
		check(got, err)
		_, got, err = s.Session(ctx, n.ID)
		check(got, err)
		list, _, err := s.Users(ctx, account.UserQuery{})
		must(t, err)
		check(list[0], nil)
		display := "Somebody" // the rest of the user and the profile do not touch one another
		u.DisplayName = display
		got, err = s.ChangeUser(ctx, u.Sub, func(u *account.User) error { u.DisplayName = display; return nil }, at, nil)
		check(got, err)
		got, err = s.UserBySub(ctx, u.Sub)
		check(got, err)
		u.Profile = account.Profile{}
		got, err = setProfile(s, ctx, u.Sub, set(account.Profile{}), at)
		check(got, err)
		got, err = s.UserBySub(ctx, u.Sub)
		check(got, err)

		born := newUser("bob")
		born.Profile = full
		must(t, s.CreateUser(ctx, born, act("user.create")))
		got, err = s.UserByHandle(ctx, "bob")
		must(t, err)
		if diff := cmp.Diff(full, got.Profile); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRefusedProfileChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, refusal := t.Context(), addUser(t, s, "ada"), errors.New("no such language")
		_, err := setProfile(s, ctx, u.Sub, set(fullProfile()), noon)
		must(t, err)
		_, err = setProfile(s, ctx, u.Sub, func(p *account.Profile) error {
			p.Nickname, p.Address.Country = "other", "other"
			return refusal
		}, noon.Add(time.Hour))
		want(t, err, refusal)
		if errors.Is(err, account.ErrUnavailable) {
			t.Errorf("a refusal looks like a failure of the database: %v", err)
		}
		got, err := s.UserBySub(ctx, u.Sub)
		must(t, err)
		if diff := cmp.Diff(fullProfile(), got.Profile); diff != "" || !got.UpdatedAt.Equal(noon) {
			t.Errorf("at %v: %s", got.UpdatedAt, diff)
		}
		for _, sub := range []string{"nobody", "", "\x00"} {
			_, err = setProfile(s, ctx, sub, func(*account.Profile) error { t.Error("asked for nobody"); return nil }, noon)
			want(t, err, account.ErrUserNotFound)
		}
		// What cannot be read is a failure, never an empty profile that the next
		// change would store.
		must(t, s.Exec("UPDATE users SET profile = '{' WHERE sub = ?", u.Sub))
		_, err = s.UserBySub(ctx, u.Sub)
		want(t, err, account.ErrUnavailable)
		_, err = setProfile(s, ctx, u.Sub, set(account.Profile{}), noon)
		want(t, err, account.ErrUnavailable)
	})
}

func TestChangesOfAProfileAreNeverLost(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		u := addUser(t, instances[0], "ada")
		wins(t, race(16, func(i int) error {
			_, err := setProfile(instances[i%2], t.Context(), u.Sub, func(p *account.Profile) error { p.Nickname += "x"; return nil }, noon)
			return err
		}))
		got, err := instances[0].UserBySub(t.Context(), u.Sub)
		must(t, err)
		if len(got.Profile.Nickname) != 16 {
			t.Errorf("%d of 16 changes are left", len(got.Profile.Nickname))
		}
	})
}

func TestRequestedClaimsStayWithTheGrant(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		n := signIn(t, s, addUser(t, s, "ada"))
		claims := `{"userinfo":{"given_name":null},"id_token":["email","€"]}`
		with, without := newGrant(c, n, "openid", "offline_access"), newGrant(c, n, "openid", "offline_access")
		with.Claims = claims
		for g, expected := range map[string]string{addCode(t, s, with): claims, addCode(t, s, without): ""} {
			r, err := useCode(ctx, s, g)
			must(t, err)
			access, refresh := addTokens(t, s, with)
			if expected == "" {
				access, refresh = addTokens(t, s, without)
			}
			a, err := useToken(ctx, s, access)
			must(t, err)
			f, err := useToken(ctx, s, refresh)
			must(t, err)
			for _, g := range []*provider.Grant{r, a.Grant, f.Grant} {
				if g.Claims != expected {
					t.Errorf("claims %q, want %q", g.Claims, expected)
				}
			}
		}
	})
}
