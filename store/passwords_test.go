package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestNewPasswordEndsAllButTheSessionThatSetIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		kept := signIn(t, s, h.user)
		app := addClient(t, s, "kept")
		keptAccess, keptRefresh := addTokens(t, s, newGrantStored(t, s, app, kept))
		want(t, s.ChangePassword(ctx, h.user.Sub, "wrong", "new", &kept, noon, act("password.change")), account.ErrInvalidCredentials)
		want(t, s.ChangePassword(ctx, "nobody", h.user.PasswordHash, "new", &kept, noon, act("password.change")), account.ErrInvalidCredentials)
		former := kept.StatusIndex
		must(t, s.ChangePassword(ctx, h.user.Sub, h.user.PasswordHash, "new", &kept, noon, act("password.change")))
		checkTaken(t, s, h, former)
		checkWorks(t, s, bystander)
		if !live(t, s, kept.ID) {
			t.Error("the session that changed the password ended")
		}
		_, err := useToken(ctx, s, keptAccess)
		want(t, err, provider.ErrSpent)
		if active(t, s, keptRefresh) {
			t.Error("a grant of the session that changed the password lives")
		}
		addCode(t, s, newGrant(app, kept, "openid")) // what it grants from now on does
		want(t, s.CreateSession(ctx, newSession(h.user.Sub), h.user.PasswordHash, act("session.create")), account.ErrInvalidCredentials)
	})
}

// A grant with offline_access outlives the sign-out of its session, and nothing
// else that ends access.
func TestOfflineGrantEndsWithThePasswordAndAtSuspension(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for what, end := range map[string]func(u account.User) error{
			"password change": func(u account.User) error {
				return s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", nil, noon, act("password.change"))
			},
			"reset": func(u account.User) error {
				must(t, s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("user.reset_code")))
				return s.ResetPassword(ctx, u.Handle, []byte("code"), "new", noon, act("password.reset"))
			},
			"suspension": func(u account.User) error { return s.Suspend(ctx, u.Sub, "", noon, act("user.suspend")) },
			"end of all access": func(u account.User) error {
				_, err := s.EndSessions(ctx, u.Sub, noon, act("user.end_sessions"))
				must(t, err)
				rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "user.end_sessions"})
				same(t, "the end of a grant without a session has, rows in the audit log", len(rows), 1)
				return err
			},
		} {
			u := addUser(t, s, what)
			n := signIn(t, s, u)
			g := newGrant(addClient(t, s, strings.ReplaceAll(what, " ", "-")), n, "openid", "offline_access")
			must(t, spendCode(ctx, s, addCode(t, s, g)))
			_, refresh := addTokens(t, s, g)
			must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
			if !active(t, s, refresh) {
				t.Fatalf("%s: the grant ended with its session", what)
			}
			must(t, end(u))
			if active(t, s, refresh) {
				t.Errorf("the grant outlived the %s", what)
			}
		}
	})
}

// A code on its way in the session that stays is revoked, or made after the change.
func TestPasswordChangeEndsEarlierCodes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		g := newGrant(addClient(t, s, "app"), n, "openid")
		in, end, err := s.Begin(ctx)
		must(t, err)
		must(t, in.CreateGrant(ctx, g))
		changed := make(chan error, 1)
		go func() {
			changed <- s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", &n, noon, act("password.change"))
		}()
		if s.Dialect() == store.Postgres {
			for waiting := int64(0); waiting == 0; {
				waiting, err = s.Count("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE NOT l.granted AND a.query LIKE 'SELECT status_list%'")
				must(t, err)
				select {
				case err := <-changed:
					t.Fatalf("the change did not wait for the code: %v", err)
				default:
				}
			}
		}
		must(t, end(true))
		must(t, <-changed)
		want(t, spendCode(ctx, s, "sig-"+g.ID), provider.ErrSpent)
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
			want(t, s.ResetPassword(ctx, wrong.handle, []byte(wrong.code), "new", wrong.at, act("password.reset")), account.ErrInvalidResetCode)
			valid, err := s.ResetCodeValid(ctx, wrong.handle, []byte(wrong.code), wrong.at)
			must(t, err)
			if valid {
				t.Errorf("%+v is valid", wrong)
			}
		}
		checkWorks(t, s, h) // a refused reset changes nothing
		must(t, s.ResetPassword(ctx, "ada", []byte("reset ada"), "new", noon, act("password.reset")))
		checkTaken(t, s, h)
		checkWorks(t, s, bystander)
		u, err := s.UserBySub(ctx, h.user.Sub)
		must(t, err)
		same(t, "hash", u.PasswordHash, "new")
	})
}

func TestResetCodeIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		for round := range 20 {
			code := []byte(name("code ", round))
			must(t, s.CreateResetCode(ctx, u.Sub, code, noon.Add(time.Hour), noon, act("user.reset_code")))
			errs := race(16, func(i int) error {
				return s.ResetPassword(ctx, "ada", code, name("hash ", round, i), noon, act("password.reset"))
			})
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
		want(t, s.ResetPassword(ctx, "ada", []byte("old"), "x", noon, act("password.reset")), account.ErrInvalidResetCode)
		must(t, s.ResetPassword(ctx, "ada", []byte("new"), "x", noon, act("password.reset")))
		want(t, s.CreateResetCode(ctx, "nobody", []byte("x"), noon.Add(time.Hour), noon, act("x")), account.ErrUserNotFound)
	})
}

func TestResetKeepsASuspension(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		must(t, s.Suspend(ctx, u.Sub, "", noon, act("user.suspend")))
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("user.reset_code")))
		must(t, s.ResetPassword(ctx, "ada", []byte("code"), "new", noon, act("password.reset")))
		want(t, s.CreateSession(ctx, newSession(u.Sub), "new", act("session.create")), account.ErrSuspended)
	})
}

// A code that is on its way while the password is reset is either revoked or
// never made.
func TestNoCodeIsIssuedAfterAReset(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		for round := range 20 {
			hash := name("hash ", round)
			if round > 0 {
				u.PasswordHash = name("hash ", round-1)
			}
			n := signIn(t, s, u)
			must(t, s.CreateResetCode(ctx, u.Sub, []byte(hash), noon.Add(time.Hour), noon, act("user.reset_code")))
			grants := make([]*provider.Grant, 8)
			for i := range grants {
				grants[i] = newGrant(c, n, "openid")
			}
			errs := race(9, func(i int) error {
				if i == 8 {
					return s.ResetPassword(ctx, "ada", []byte(hash), hash, noon, act("password.reset"))
				}
				return s.CreateGrant(ctx, grants[i])
			})
			must(t, errs[8])
			wins(t, errs, account.ErrSessionNotFound)
			for _, g := range grants {
				if _, err := useCode(ctx, s, "sig-"+g.ID); err == nil {
					t.Fatalf("round %d: a code works after the reset", round)
				}
			}
		}
	})
}

// A passkey that was made for another host opens nothing here: it is no way in.
func TestPasskeyOfAnotherHostIsNoWayIn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := passkeyMember(t, s, "ada", "old.example.net")
		remove := func(hosts ...string) error {
			return s.RemovePassword(t.Context(), u.Sub, u.PasswordHash, hosts, account.NewFactor{Now: noon, Audit: act("password.remove")})
		}
		want(t, remove("id.example.org", "example.org"), account.ErrLastWayIn)
		must(t, remove("old.example.net"))
	})
}
