package store_test

import (
	"testing"
	"time"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestNewPasswordEndsAllButTheSessionThatSetIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		kept := signIn(t, s, h.user)
		keptAccess, _ := addTokens(t, s, newGrantStored(t, s, addClient(t, s, "kept"), kept))
		want(t, s.ChangePassword(ctx, h.user.Sub, "wrong", "new", kept.ID, noon), account.ErrInvalidCredentials)
		want(t, s.ChangePassword(ctx, "nobody", h.user.PasswordHash, "new", kept.ID, noon), account.ErrInvalidCredentials)
		must(t, s.ChangePassword(ctx, h.user.Sub, h.user.PasswordHash, "new", kept.ID, noon))
		checkTaken(t, s, h)
		checkWorks(t, s, bystander)
		if !live(t, s, kept.ID) {
			t.Error("the session that changed the password ended")
		}
		_, err := s.GetAccessTokenSession(ctx, keptAccess, nil)
		must(t, err)
		want(t, s.CreateSession(ctx, newSession(h.user.Sub), h.user.PasswordHash), account.ErrInvalidCredentials)
	})
}

func TestPasswordResetEndsEverything(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		valid, err := s.ResetCodeValid(ctx, "ada", []byte("reset ada"), noon)
		must(t, err)
		if !valid {
			t.Fatal("a good code is not valid")
		}
		for _, wrong := range []struct {
			handle, code string
			at           time.Time
		}{{"bob", "reset ada", noon}, {"nobody", "reset ada", noon}, {"ada", "reset bob", noon}, {"ada", "reset ada", noon.Add(time.Hour)}} {
			want(t, s.ResetPassword(ctx, wrong.handle, []byte(wrong.code), "new", wrong.at), account.ErrInvalidResetCode)
			valid, err := s.ResetCodeValid(ctx, wrong.handle, []byte(wrong.code), wrong.at)
			must(t, err)
			if valid {
				t.Errorf("%+v is valid", wrong)
			}
		}
		checkWorks(t, s, h) // a refused reset changes nothing
		must(t, s.ResetPassword(ctx, "ada", []byte("reset ada"), "new", noon))
		checkTaken(t, s, h)
		checkWorks(t, s, bystander)
		u, err := s.UserBySub(ctx, h.user.Sub)
		must(t, err)
		if u.PasswordHash != "new" {
			t.Errorf("hash %q", u.PasswordHash)
		}
	})
}

func TestResetCodeIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		for round := range 20 {
			code := []byte(name("code ", round))
			must(t, s.CreateResetCode(ctx, u.Sub, code, noon.Add(time.Hour), noon, act("user.reset_code")))
			errs := race(16, func(i int) error { return s.ResetPassword(ctx, "ada", code, name("hash ", round, i), noon) })
			if n := wins(t, errs, account.ErrInvalidResetCode); n != 1 {
				t.Fatalf("round %d: one code set %d passwords", round, n)
			}
		}
	})
}

func TestNewResetCodeVoidsTheOld(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("old"), noon.Add(time.Hour), noon, act("user.reset_code")))
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("new"), noon.Add(time.Hour), noon, act("user.reset_code")))
		want(t, s.ResetPassword(ctx, "ada", []byte("old"), "x", noon), account.ErrInvalidResetCode)
		must(t, s.ResetPassword(ctx, "ada", []byte("new"), "x", noon))
		want(t, s.CreateResetCode(ctx, "nobody", []byte("x"), noon.Add(time.Hour), noon, act("x")), account.ErrUserNotFound)
	})
}

func TestResetNeverLiftsASuspension(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		must(t, s.Suspend(ctx, u.Sub, "", noon, act("user.suspend")))
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("user.reset_code")))
		must(t, s.ResetPassword(ctx, "ada", []byte("code"), "new", noon))
		want(t, s.CreateSession(ctx, newSession(u.Sub), "new"), account.ErrSuspended)
	})
}

// A code that is on its way while the password is reset is either revoked or
// never made.
func TestCodeIsNeverBornAfterAReset(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		for round := range 20 {
			hash := name("hash ", round)
			if round > 0 {
				u.PasswordHash = name("hash ", round-1)
			}
			n := signIn(t, s, u)
			must(t, s.CreateResetCode(ctx, u.Sub, []byte(hash), noon.Add(time.Hour), noon, act("user.reset_code")))
			grants := make([]*fosite.Request, 8)
			for i := range grants {
				grants[i] = newGrant(c, n, "openid")
			}
			errs := race(9, func(i int) error {
				if i == 8 {
					return s.ResetPassword(ctx, "ada", []byte(hash), hash, noon)
				}
				return s.CreateAuthorizeCodeSession(ctx, "sig-"+grants[i].ID, grants[i])
			})
			must(t, errs[8])
			wins(t, errs, account.ErrSessionNotFound)
			for _, g := range grants {
				if _, err := s.GetAuthorizeCodeSession(ctx, "sig-"+g.ID, nil); err == nil {
					t.Fatalf("round %d: a code works after the reset", round)
				}
			}
		}
	})
}
