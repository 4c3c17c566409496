package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// administrators counts those who can act.
func administrators(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	users, _, err := s.Users(t.Context(), account.UserQuery{})
	must(t, err)
	for _, u := range users {
		if u.Has(account.FlagAdmin) && !u.Suspended() {
			n++
		}
	}
	return n
}

func TestLastAdministratorIsNeverLost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for round := range 12 {
			admins := []account.User{addUser(t, s, name("one", round), account.FlagAdmin), addUser(t, s, name("two", round), account.FlagAdmin)}
			addUser(t, s, name("sleeper", round), account.FlagAdmin)
			sleeper, err := s.UserByHandle(ctx, name("sleeper", round))
			must(t, err)
			must(t, s.Suspend(ctx, sleeper.Sub, "", noon, act("user.suspend")))
			errs := race(16, func(i int) error {
				sub := admins[i%2].Sub
				switch (i/2 + round) % 3 {
				case 0:
					return s.Suspend(ctx, sub, "", noon, act("user.suspend"))
				case 1:
					return s.DeleteUser(ctx, sub, noon, act("user.delete"))
				}
				_, err := s.SetFlags(ctx, sub, map[string]bool{account.FlagAdmin: false}, false, noon, act("user.flags"))
				return err
			})
			wins(t, errs, account.ErrLastAdmin, account.ErrUserNotFound)
			if n := administrators(t, s); n != 1 {
				t.Fatalf("round %d: %d administrators are left", round, n)
			}
			for _, u := range admins { // the next round begins without this one's
				_, err := s.SetFlags(ctx, u.Sub, map[string]bool{account.FlagAdmin: true}, false, noon, act("user.flags"))
				if err != nil {
					want(t, err, account.ErrUserNotFound)
				}
			}
			next := addUser(t, s, name("spare", round), account.FlagAdmin)
			for _, u := range append(admins, sleeper) {
				if err := s.DeleteUser(ctx, u.Sub, noon, act("user.delete")); err != nil {
					want(t, err, account.ErrUserNotFound)
				}
			}
			want(t, s.DeleteUser(ctx, next.Sub, noon, act("user.delete")), account.ErrLastAdmin)
			must(t, s.Exec("DELETE FROM user_flags WHERE sub = ?", next.Sub))
		}
	})
}

// held is what a person has at hand.
type held struct {
	user                  account.User
	session               account.Session
	code, access, refresh string
}

func equip(t *testing.T, s *store.Store, handle string) held {
	t.Helper()
	h := held{user: addUser(t, s, handle)}
	h.session = signIn(t, s, h.user)
	c := addClient(t, s, handle+"-app")
	h.code = addCode(t, s, newGrant(c, h.session, "openid", "offline_access"))
	h.access, h.refresh = addTokens(t, s, newGrantStored(t, s, c, h.session))
	must(t, s.CreateResetCode(t.Context(), h.user.Sub, []byte("reset "+handle), noon.Add(time.Hour), noon, act("user.reset_code")))
	must(t, s.SaveConsent(t.Context(), h.user.Sub, c.ID, []string{"openid"}, noon))
	return h
}

// checkTaken fails when anything that h has still works.
func checkTaken(t *testing.T, s *store.Store, h held) {
	t.Helper()
	ctx := t.Context()
	if live(t, s, h.session.ID) {
		t.Error("the session lives")
	}
	if _, err := useCode(ctx, s, h.code); !errors.Is(err, provider.ErrSpent) {
		t.Errorf("the code: %v", err)
	}
	want(t, spendCode(ctx, s, h.code), provider.ErrSpent)
	_, err := useToken(ctx, s, h.access)
	want(t, err, provider.ErrSpent)
	_, err = useToken(ctx, s, h.refresh)
	want(t, err, provider.ErrSpent)
	want(t, s.ResetPassword(ctx, h.user.Handle, []byte("reset "+h.user.Handle), "new", noon), account.ErrInvalidResetCode)
	revoked, err := s.RevokedIndices(ctx, h.session.StatusList)
	must(t, err)
	if diff := cmp.Diff([]int{h.session.StatusIndex}, revoked); diff != "" {
		t.Errorf("status list: %s", diff)
	}
}

// checkWorks fails when something that h has was taken.
func checkWorks(t *testing.T, s *store.Store, h held) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if !live(t, s, h.session.ID) {
		t.Error("the session ended")
	}
	_, err := useCode(ctx, s, h.code)
	must(t, err)
	_, err = useToken(ctx, s, h.access)
	must(t, err)
	_, err = useToken(ctx, s, h.refresh)
	must(t, err)
}

func TestSuspensionLeavesNothingThatWorks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		invite := addInvite(t, s, h.user.Sub)
		must(t, s.Suspend(ctx, h.user.Sub, "spam", noon, act("user.suspend")))
		must(t, s.Suspend(ctx, h.user.Sub, "again", noon.Add(time.Hour), act("user.suspend")))
		checkTaken(t, s, h)
		u, err := s.UserBySub(ctx, h.user.Sub)
		must(t, err)
		if !u.SuspendedAt.Equal(noon) || u.SuspendReason != "spam" {
			t.Errorf("suspending twice changed it: %+v", u)
		}
		_, err = s.Invite(ctx, invite.Code)
		want(t, err, account.ErrInviteNotFound)
		want(t, s.Register(ctx, invite.Code, newUser("eve"), nil, 0, noon), account.ErrInvalidInvite)
		want(t, s.CreateInvite(ctx, account.Invite{Code: "X", CreatedBy: u.Sub, CreatedAt: noon, ExpiresAt: noon.Add(time.Hour)}, -1), account.ErrSuspended)
		must(t, s.Unsuspend(ctx, h.user.Sub, noon, act("user.unsuspend")))
		checkTaken(t, s, h) // what was ended stays ended
		signIn(t, s, h.user)
		checkWorks(t, s, bystander)
		rows, err := s.Audit(ctx, 0, 2)
		must(t, err)
		if len(rows) != 2 || rows[0].Action != "user.unsuspend" || rows[1].Action != "user.suspend" {
			t.Errorf("audit %+v, want one row an act", rows)
		}
		want(t, s.Unsuspend(ctx, "nobody", noon, act("x")), account.ErrUserNotFound)
	})
}

func TestDeletionLeavesNothingPersonal(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		used, unused := addInvite(t, s, h.user.Sub), addInvite(t, s, h.user.Sub)
		must(t, s.Register(ctx, used.Code, newUser("guest"), nil, 0, noon))
		v := "value"
		_, err := s.MergePreferences(ctx, h.user.Sub, map[string]*string{"k": &v}, 5)
		must(t, err)
		must(t, s.DeleteUser(ctx, h.user.Sub, noon, act("user.delete")))
		want(t, s.DeleteUser(ctx, h.user.Sub, noon, act("user.delete")), account.ErrUserNotFound)
		checkTaken(t, s, h)
		checkWorks(t, s, bystander)
		_, _, err = s.Session(ctx, h.session.ID)
		want(t, err, account.ErrSessionNotFound)
		_, _, err = s.SessionByLoginHash(ctx, h.session.LoginHash)
		want(t, err, account.ErrSessionNotFound)
		want(t, s.CreateSession(ctx, newSession(h.user.Sub), h.user.PasswordHash), account.ErrUserNotFound)
		want(t, s.SaveConsent(ctx, h.user.Sub, "ada-app", []string{"openid"}, noon), account.ErrUserNotFound)
		_, err = s.Invite(ctx, unused.Code)
		want(t, err, account.ErrInviteNotFound)
		guest, err := s.UserByHandle(ctx, "guest")
		must(t, err)
		if guest.InvitedBy != "" {
			t.Errorf("the guest still names %q", guest.InvitedBy)
		}
		for query, rows := range map[string]int64{
			"SELECT count(*) FROM sessions WHERE sub = ?":                       1, // its status list index
			"SELECT count(*) FROM preferences WHERE sub = ?":                    0,
			"SELECT count(*) FROM consents WHERE sub = ?":                       0,
			"SELECT count(*) FROM reset_codes WHERE sub = ?":                    0,
			"SELECT count(*) FROM invites WHERE created_by = ? AND note <> ''":  0,
			"SELECT count(*) FROM invites WHERE created_by = ? AND used_at = 0": 0,
		} {
			if n, err := s.Count(query, h.user.Sub); err != nil || n != rows {
				t.Errorf("%s: %d, want %d (%v)", query, n, rows, err)
			}
		}
	})
}

// Of the rows that stay, each column is empty afterwards but those named here: also one
// that a later migration adds.
func TestDeletionEmptiesEveryColumn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		signIn(t, s, u)
		kept := map[string][]string{
			"users":    {"sub", "handle", "created_at", "updated_at", "deleted_at"},
			"sessions": {"id", "sub", "expires_at", "ended_at", "status_list", "status_index", "algorithm"},
		}
		emptied := map[string][]string{}
		for table, names := range kept {
			query := "SELECT name FROM pragma_table_info(?)"
			if s.Dialect() == store.Postgres {
				query = "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?"
			}
			columns, err := s.Texts(query, table)
			must(t, err)
			for _, c := range columns {
				if slices.Contains(names, c) {
					continue
				}
				emptied[table] = append(emptied[table], c)
				var filled error
				for _, value := range []any{addUser(t, s, table+c).Sub, true, 7, []byte("x")} { // of which one fits
					if filled = s.Exec("UPDATE "+table+" SET "+c+" = ? WHERE sub = ?", value, u.Sub); filled == nil {
						break
					}
				}
				must(t, filled)
			}
		}
		must(t, s.Exec("UPDATE users SET profile = ? WHERE sub = ?", `{"nickname":"x"}`, u.Sub))
		must(t, s.DeleteUser(t.Context(), u.Sub, noon, act("user.delete")))
		for table, columns := range emptied {
			for _, c := range columns {
				left, err := s.Texts("SELECT coalesce(CAST("+c+" AS TEXT), '') FROM "+table+" WHERE sub = ?", u.Sub)
				must(t, err)
				if len(left) != 1 || !slices.Contains([]string{"", "0", "false", "{}"}, left[0]) {
					t.Errorf("%s.%s: %q", table, c, left)
				}
			}
		}
	})
}

func TestOnlyNamedFlagsChange(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada", "activity", "beta")
		addUser(t, s, "root", account.FlagAdmin)
		got, err := s.SetFlags(t.Context(), u.Sub, map[string]bool{"admin": true, "beta": false, "activity": true, "none": false}, false, noon, act("user.flags"))
		must(t, err)
		stored, err := s.UserBySub(t.Context(), u.Sub)
		must(t, err)
		for _, flags := range [][]string{got, stored.Flags} {
			if diff := cmp.Diff([]string{"activity", "admin"}, flags); diff != "" {
				t.Error(diff)
			}
		}
		_, err = s.SetFlags(t.Context(), "nobody", map[string]bool{"beta": true}, false, noon, act("user.flags"))
		want(t, err, account.ErrUserNotFound)
		_, err = s.SetFlags(t.Context(), u.Sub, map[string]bool{"admin": false}, false, noon, act("user.flags"))
		must(t, err)
		root, err := s.UserByHandle(t.Context(), "root")
		must(t, err)
		_, err = s.SetFlags(t.Context(), root.Sub, map[string]bool{"admin": false}, false, noon, act("user.flags"))
		want(t, err, account.ErrLastAdmin)
	})
}
