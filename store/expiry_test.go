package store_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// eachAt runs f on a store of each database at noon, whose clock f moves.
func eachAt(t *testing.T, f func(t *testing.T, s *store.Store, pass func(time.Duration))) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		var passed atomic.Int64
		s := storetest.OpenAt(t, dsn, func() time.Time { return noon.Add(time.Duration(passed.Load())) })
		_, err := s.Initialize(t.Context(), account.DefaultSettings(), nil)
		must(t, err)
		f(t, s, func(d time.Duration) { passed.Add(int64(d)) })
	})
}

func endDue(t *testing.T, s *store.Store) time.Time {
	t.Helper()
	next, err := s.EndDue(t.Context())
	must(t, err)
	return next
}

func coach(ends time.Time) account.FlagChange {
	return account.FlagChange{"coach": {On: true, SetEnd: true, EndsAt: ends}}
}

// Nothing of an account opens anything from the second of its end on, whether or not EndDue has run.
func TestEndedAccountIsASuspendedOne(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		sub := h.user.Sub
		must(t, s.Exec("UPDATE users SET email_verified = (1 = 1)"))
		invite := addInvite(t, s, sub)
		ends := noon.Add(20 * time.Second)
		must(t, s.SetEnd(ctx, sub, ends, noon, act("user.end")))
		if next := endDue(t, s); !next.Equal(ends) {
			t.Errorf("the next end is %v, not %v", next, ends)
		}
		pass(20*time.Second - time.Nanosecond)
		checkWorks(t, s, h)
		_, err := s.Invite(ctx, invite.Code)
		must(t, err)
		pass(time.Nanosecond)
		ended := func(after string) {
			t.Helper()
			_, ofSession, err := s.Session(ctx, h.session.ID)
			must(t, err)
			ofCode, err := s.GrantOfCode(ctx, h.code)
			must(t, err)
			ofRefresh, err := s.Token(ctx, h.refresh)
			must(t, err)
			byHandle, err := s.UserByHandle(ctx, "ada")
			must(t, err)
			listed, _, err := s.Users(ctx, account.UserQuery{Suspended: true})
			must(t, err)
			if len(listed) != 1 {
				t.Fatalf("%s: %d suspended users are listed", after, len(listed))
			}
			for i, u := range []account.User{ofSession, *ofCode.User, *ofRefresh.Grant.User, byHandle, listed[0]} {
				if !u.Suspended() || !u.Ended() || !u.SuspendedAt.Equal(ends) {
					t.Errorf("%s, read %d: %+v has not ended", after, i, u)
				}
			}
			want(t, s.CreateSession(ctx, newSession(sub), h.user.PasswordHash, act("session.create")), account.ErrSuspended)
			_, err = s.Invite(ctx, invite.Code)
			want(t, err, account.ErrInviteNotFound)
			want(t, s.Register(ctx, invite.Code, newUser("eve"), nil, nil, 0, noon, act("user.register")), account.ErrInvalidInvite)
			want(t, s.CreateMailedResetCode(ctx, 0, sub, h.user.Email, []byte("x"), noon.Add(time.Hour), noon), account.ErrUserNotFound)
		}
		ended("before EndDue")
		if next := endDue(t, s); !next.IsZero() {
			t.Errorf("something ends at %v", next)
		}
		endDue(t, s)
		ended("after EndDue")
		checkTaken(t, s, h)
		rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "user.ended"})
		must(t, err)
		if len(rows) != 1 || rows[0].Actor != "" || rows[0].Target != "ada" || !rows[0].At.Equal(ends) {
			t.Errorf("audit %+v, want one row of nobody", rows)
		}
		must(t, s.SetEnd(ctx, sub, ends.Add(month), ends, act("user.end")))
		checkTaken(t, s, h) // what was ended stays ended
		signIn(t, s, h.user)
		checkWorks(t, s, bystander)
	})
}

// Whoever changes the end of an account before EndDue has come to it revives no session.
func TestRevivedAccountHasNoOldSession(t *testing.T) {
	for name, revive := range map[string]func(s *store.Store, sub string, now time.Time) error{
		"extended": func(s *store.Store, sub string, now time.Time) error {
			return s.SetEnd(t.Context(), sub, now.Add(month), now, act("user.end"))
		},
		"unsuspended": func(s *store.Store, sub string, now time.Time) error {
			return s.Unsuspend(t.Context(), sub, now, act("user.unsuspend"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
				h := equip(t, s, "ada")
				must(t, s.SetEnd(t.Context(), h.user.Sub, noon.Add(time.Second), noon, act("user.end")))
				pass(time.Minute)
				must(t, revive(s, h.user.Sub, noon.Add(time.Minute)))
				checkTaken(t, s, h)
				signIn(t, s, h.user)
				endDue(t, s)
				if u, err := s.UserBySub(t.Context(), h.user.Sub); err != nil || u.Suspended() {
					t.Errorf("suspended since %v again, %v", u.SuspendedAt, err)
				}
			})
		})
	}
}

// A suspension is one thing, the end of a membership another.
func TestUnsuspendingKeepsAComingEnd(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, _ func(time.Duration)) {
		ctx, u, ends := t.Context(), addUser(t, s, "ada"), noon.Add(month)
		must(t, s.SetEnd(ctx, u.Sub, ends, noon, act("user.end")))
		must(t, s.Suspend(ctx, u.Sub, "", noon, act("user.suspend")))
		must(t, s.Unsuspend(ctx, u.Sub, noon, act("user.unsuspend")))
		if read, err := s.UserBySub(ctx, u.Sub); err != nil || read.Suspended() || !read.EndsAt.Equal(ends) {
			t.Errorf("%+v, %v", read, err)
		}
	})
}

func TestEndedFlagIsLost(t *testing.T) {
	for name, signsOut := range map[string]bool{"stays": false, "signs out": true} {
		t.Run(name, func(t *testing.T) {
			eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
				ctx := t.Context()
				_, err := s.AmendSettings(ctx, func(v *account.Settings) (string, error) {
					v.SignOutOnFlagLoss = signsOut
					return "sign_out_on_flag_loss", nil
				}, act("settings.update"))
				must(t, err)
				u := addUser(t, s, "ada", "activity")
				n := signIn(t, s, u)
				g := newGrantStored(t, s, addClient(t, s, "app"), n)
				ends := noon.Add(time.Hour)
				on, err := s.SetFlags(ctx, u.Sub, coach(ends), noon, act("user.flags"))
				must(t, err)
				if !slices.Equal(on, []string{"activity", "coach"}) {
					t.Fatalf("flags %v", on)
				}
				if _, read, err := s.Session(ctx, n.ID); err != nil || !read.FlagEnds["coach"].Equal(ends) || len(read.FlagEnds) != 1 {
					t.Errorf("ends %v, %v", read.FlagEnds, err)
				}
				// On again without a word of its end, it keeps that.
				_, err = s.SetFlags(ctx, u.Sub, account.FlagChange{"coach": {On: true}}, noon, act("user.flags"))
				must(t, err)
				pass(time.Hour)
				for range 2 {
					_, ofSession, err := s.Session(ctx, n.ID)
					must(t, err)
					ofCode, err := s.GrantOfCode(ctx, g.CodeSignature)
					must(t, err)
					for _, read := range []account.User{ofSession, *ofCode.User} {
						if !slices.Equal(read.Flags, []string{"activity"}) || len(read.FlagEnds) > 0 {
							t.Errorf("flags %v until %v", read.Flags, read.FlagEnds)
						}
					}
					if with, _, err := s.Users(ctx, account.UserQuery{Flag: "coach"}); err != nil || len(with) > 0 {
						t.Errorf("%d have the flag, %v", len(with), err)
					}
					if !live(t, s, n.ID) {
						break
					}
					endDue(t, s)
				}
				if live(t, s, n.ID) == signsOut {
					t.Errorf("the session lives: %t, and sign_out_on_flag_loss is %t", !signsOut, signsOut)
				}
				rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "user.flags_ended"})
				must(t, err)
				if len(rows) != 1 || rows[0].Actor != "" || rows[0].Target != "ada" {
					t.Errorf("audit %+v", rows)
				}
				// Given again, it has no end.
				_, err = s.SetFlags(ctx, u.Sub, account.FlagChange{"coach": {On: true}}, noon.Add(time.Hour), act("user.flags"))
				must(t, err)
				if u, err = s.UserBySub(ctx, u.Sub); err != nil || !u.Has("coach") || u.FlagEnds != nil {
					t.Errorf("flags %v until %v, %v", u.Flags, u.FlagEnds, err)
				}
			})
		})
	}
}

// A flag that is given again before EndDue has come to its end has lost what that ends.
func TestOpenInvitesEndWithTheFlagOfAdministrators(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
		ctx := t.Context()
		addUser(t, s, "root", account.FlagAdmin)
		u := addUser(t, s, "ada")
		admin := account.FlagChange{account.FlagAdmin: {On: true, SetEnd: true, EndsAt: noon.Add(time.Minute)}}
		_, err := s.SetFlags(ctx, u.Sub, admin, noon, act("user.flags"))
		must(t, err)
		i, err := account.NewInvite(u.Sub, "", noon)
		must(t, err)
		i.ByAdmin = true
		must(t, s.CreateInvite(ctx, i, -1, act("invite.create")))
		admin[account.FlagAdmin] = account.FlagState{On: true, SetEnd: true, EndsAt: noon.Add(time.Second)}
		_, err = s.SetFlags(ctx, u.Sub, admin, noon, act("user.flags"))
		must(t, err)
		_, err = s.Invite(ctx, i.Code)
		must(t, err)
		pass(time.Second)
		_, err = s.Invite(ctx, i.Code)
		want(t, err, account.ErrInviteNotFound)
		_, err = s.SetFlags(ctx, u.Sub, account.FlagChange{account.FlagAdmin: {On: true}}, noon.Add(time.Minute), act("user.flags"))
		must(t, err)
		_, err = s.Invite(ctx, i.Code)
		want(t, err, account.ErrInviteNotFound)
	})
}

// There is always an administrator without an end: of two, only one may get one, and then the other can
// neither be suspended nor deleted nor lose the flag.
func TestAnAdministratorWithoutAnEndIsKept(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, _ func(time.Duration)) {
		ctx := t.Context()
		flag := func(f account.FlagState) account.FlagChange { return account.FlagChange{account.FlagAdmin: f} }
		for round := range 4 {
			admins := []account.User{addUser(t, s, name("one", round), account.FlagAdmin), addUser(t, s, name("two", round), account.FlagAdmin)}
			errs := race(8, func(i int) (err error) {
				sub := admins[i%2].Sub
				if (i/2+round)%2 == 0 {
					return s.SetEnd(ctx, sub, noon.Add(month), noon, act("user.end"))
				}
				_, err = s.SetFlags(ctx, sub, flag(account.FlagState{On: true, SetEnd: true, EndsAt: noon.Add(month)}), noon, act("user.flags"))
				return err
			})
			kept := -1
			for i, u := range admins {
				read, err := s.UserBySub(ctx, u.Sub)
				must(t, err)
				if read.EndsAt.IsZero() && read.FlagEnds == nil {
					kept = i
				}
			}
			if kept < 0 {
				t.Fatalf("round %d: every administrator has an end: %v", round, errs)
			}
			sub := admins[kept].Sub
			want(t, s.Suspend(ctx, sub, "", noon, act("user.suspend")), account.ErrLastAdmin)
			want(t, s.DeleteUser(ctx, sub, noon, act("user.delete")), account.ErrLastAdmin)
			_, err := s.SetFlags(ctx, sub, flag(account.FlagState{}), noon, act("user.flags"))
			want(t, err, account.ErrLastAdmin)
			// What the last one gave the other is no end where somebody else takes the power from the last one.
			for action, detail := range map[string]string{"user.end": "", "user.flags": "admin=on@2099-12-25T00:00:00Z"} {
				given := act(action)
				given.Actor, given.Target, given.Detail = admins[kept].Handle, admins[1-kept].Handle, detail
				must(t, s.Record(ctx, given, 0))
			}
			third := addUser(t, s, name("three", round), account.FlagAdmin) // with whom the end stays
			must(t, s.Suspend(ctx, sub, "", noon, act("user.suspend")))
			if read, err := s.UserBySub(ctx, admins[1-kept].Sub); err != nil || read.EndsAt.IsZero() && read.FlagEnds == nil {
				t.Errorf("has no end beside one who stays: %+v, %v", read, err)
			}
			must(t, s.Unsuspend(ctx, sub, noon, act("user.unsuspend")))
			must(t, s.DeleteUser(ctx, third.Sub, noon, act("user.delete")))
			must(t, s.Suspend(ctx, sub, "", noon, act("user.suspend")))
			if read, err := s.UserBySub(ctx, admins[1-kept].Sub); err != nil || !read.EndsAt.IsZero() ||
				read.FlagEnds != nil {
				t.Errorf("the one that is left has an end: %+v, %v", read, err)
			}
			must(t, s.Exec("DELETE FROM user_flags WHERE sub IN (?, ?)", sub, admins[1-kept].Sub))
		}
	})
}

// The users are told 14 days and 1 day before, once each, and again if the end is put off.
func TestEndIsToldOnceInTime(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
		ctx, day := t.Context(), 24*time.Hour
		told := func() (out []string) {
			t.Helper()
			due, err := s.EndsToTell(ctx, 10)
			must(t, err)
			for _, e := range due {
				word := e.User.Handle + " " + time.Duration(e.Days*24*int(time.Hour)).String()
				for _, f := range e.Flags {
					word += " " + f
				}
				out = append(out, word)
				mails := []account.Mail{{Kind: account.MailEnds, Sub: e.User.Sub, Address: e.User.Email}}
				must(t, s.EndTold(ctx, e, mails))
				must(t, s.EndTold(ctx, e, mails)) // by another instance at the same time
			}
			return out
		}
		check := func(want ...string) {
			t.Helper()
			same(t, "told", cmp.Diff(want, told()), "")
		}
		ada, bob, eve := addUser(t, s, "ada"), addUser(t, s, "bob"), addUser(t, s, "eve")
		must(t, s.SetEnd(ctx, ada.Sub, noon.Add(15*day), noon, act("user.end")))
		must(t, s.SetEnd(ctx, bob.Sub, noon.Add(13*day), noon, act("user.end")))
		for _, f := range []string{"coach", "board"} {
			change := account.FlagChange{f: {On: true, SetEnd: true, EndsAt: noon.Add(15 * day)}}
			_, err := s.SetFlags(ctx, eve.Sub, change, noon, act("user.flags"))
			must(t, err)
		}
		check()
		pass(day - time.Second)
		check()
		pass(time.Second)
		slicesOf := []string{"ada 336h0m0s", "eve 336h0m0s board coach"}
		due, err := s.EndsToTell(ctx, 10)
		must(t, err)
		if len(due) != 2 {
			t.Fatalf("due: %+v", due)
		}
		got := told()
		slices.Sort(got)
		same(t, "told", cmp.Diff(slicesOf, got), "")
		check()
		pass(11 * day)
		check("bob 24h0m0s")
		must(t, s.SetEnd(ctx, ada.Sub, noon.Add(26*day+time.Hour), noon.Add(12*day), act("user.end")))
		check()
		pass(time.Hour)
		check("ada 336h0m0s")
		must(t, s.Suspend(ctx, eve.Sub, "", noon, act("user.suspend")))
		pass(2 * day)
		check() // eve is suspended
		mails := 0
		for range 2 { // one at a time to an address
			due, err := s.DueMails(ctx, noon.Add(month), time.Minute, 100)
			must(t, err)
			for _, m := range due {
				must(t, s.MailDone(ctx, m.ID, nil))
			}
			mails += len(due)
		}
		same(t, "mails", mails, 4)
		if by, _, err := s.Users(ctx, account.UserQuery{EndingBy: noon.Add(30 * day)}); err != nil || len(by) != 1 || by[0].Handle != "ada" {
			t.Errorf("ending: %v, %v", handlesOf(by), err)
		}
		kim := addUser(t, s, "kim")
		for f, days := range map[string]time.Duration{"coach": 40, "board": 41, "press": 42} {
			change := account.FlagChange{f: {On: true, SetEnd: true, EndsAt: noon.Add(days * day)}}
			_, err := s.SetFlags(ctx, kim.Sub, change, noon, act("user.flags"))
			must(t, err)
		}
		pass(25 * day) // of nobody who was told in time
		check("kim 336h0m0s board", "kim 336h0m0s press", "kim 24h0m0s coach")
	})
}

// Many members end at the same second.
func TestSeasonEndsForAll(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
		for i := range 100 {
			u := newUser(name("member", i))
			u.EndsAt = noon.Add(time.Second)
			must(t, s.CreateUser(t.Context(), u, act("user.create")))
		}
		pass(time.Second)
		begin := time.Now()
		endDue(t, s)
		t.Logf("100 accounts ended in %v", time.Since(begin))
		rows, err := s.AuditLog(t.Context(), account.AuditQuery{Kind: "user.ended", Limit: 200})
		must(t, err)
		same(t, "rows", len(rows), 100)
	})
}

// Two administrators, or two clicks, do an act to the same people at once.
func TestWhatIsSoAlreadyIsNotTold(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		told := func(action string) account.Audit {
			a := act(action)
			a.Mails = []account.Mail{{Kind: "x", Sub: u.Sub, Address: "ada@example.org"}}
			return a
		}
		for _, err := range race(2, func(int) error { return s.SetEnd(ctx, u.Sub, noon.AddDate(99, 0, 0), noon, told("user.end")) }) {
			must(t, err)
		}
		coach := account.FlagChange{"coach": {On: true}}
		for _, err := range race(2, func(int) error { _, err := s.SetFlags(ctx, u.Sub, coach, noon, told("user.flags")); return err }) {
			must(t, err)
		}
		if state, err := s.MailState(ctx); err != nil || state.Waiting != 2 {
			t.Errorf("%+v %v, want a mail for each act", state, err)
		}
		if rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "user.end"}); err != nil || len(rows) != 1 {
			t.Errorf("%+v %v", rows, err)
		}
	})
}
