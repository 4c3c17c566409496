package store_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// machine is a machine with a wall clock that is set and a monotonic one that only passes.
type machine struct{ wall, up atomic.Int64 }

func (m *machine) pass(d time.Duration) { m.wall.Add(int64(d)); m.up.Add(int64(d)) }

// jump sets the wall clock.
func (m *machine) jump(d time.Duration) { m.wall.Add(int64(d)) }

// start opens the database at dsn as a process that starts now.
func (m *machine) start(t *testing.T, dsn string, log *bytes.Buffer) *store.Store {
	t.Helper()
	return storetest.OpenOn(t, dsn, store.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return noon.Add(time.Duration(m.wall.Load())) },
		Monotonic: func() time.Time { return time.Time{}.Add(time.Duration(m.up.Load())) },
	})
}

// What cannot be undone waits an hour after a jump of the clock, also in a process that starts meanwhile, and
// goes on then.
func TestAClockThatJumpsIsWaitedFor(t *testing.T) {
	const day = 24 * time.Hour
	settled := func(t *testing.T, s *store.Store, want bool, when string) {
		t.Helper()
		if got, err := s.ClockSettled(t.Context()); err != nil || got != want {
			t.Fatalf("%s: settled %t, %v", when, got, err)
		}
	}
	for name, jump := range map[string]time.Duration{"ahead": 700 * day, "back": -2 * day} {
		t.Run(name, func(t *testing.T) {
			storetest.EachDSN(t, func(t *testing.T, dsn string) {
				var m machine
				var log bytes.Buffer
				s := m.start(t, dsn, &log)
				_, err := s.Initialize(t.Context(), account.DefaultSettings(), nil)
				must(t, err)
				settled(t, s, true, "first look")
				m.pass(40 * day) // a sleep of the process is none of the clock
				settled(t, s, true, "after 40 days")
				m.jump(day)
				settled(t, s, true, "after a jump of a day")
				if until, _, err := s.ClockWait(t.Context()); err != nil || !until.IsZero() {
					t.Fatalf("waits until %v, %v", until, err)
				}
				m.jump(jump)
				settled(t, s, false, "after the jump")
				until, why, err := s.ClockWait(t.Context())
				if err != nil || !until.Equal(noon.Add(41*day+jump+time.Hour)) || !strings.HasPrefix(why, "the clock jumped by "+jump.String()+" to ") {
					t.Errorf("waits until %v: %q, %v", until, why, err)
				}
				if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, why) {
					t.Errorf("log: %s", text)
				}
				m.pass(time.Hour - time.Second)
				settled(t, s, false, "within the hour")
				again := m.start(t, dsn, &log)
				settled(t, again, false, "at a start within the hour")
				m.pass(time.Second)
				settled(t, s, true, "after the hour")
				settled(t, again, true, "after the hour, started within")
				for range 2 { // the second time that clock was ahead
					if until, _, err := s.ClockWait(t.Context()); err != nil || !until.IsZero() {
						t.Errorf("waits until %v, %v", until, err)
					}
					m.jump(-2 * day)
				}
			})
		})
	}
}

// A start long after the last row waits; rows of the future are of a clock that was ahead.
func TestAStartAfterALongSilenceIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		silent time.Duration
		future bool
		want   bool
	}{
		"30 days":                       {30 * 24 * time.Hour, false, true},
		"longer":                        {30*24*time.Hour + time.Second, false, false},
		"longer, with rows of the year": {30*24*time.Hour + time.Second, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.EachDSN(t, func(t *testing.T, dsn string) {
				var m machine
				var log bytes.Buffer
				s := m.start(t, dsn, &log)
				_, err := s.Initialize(t.Context(), account.DefaultSettings(), nil)
				must(t, err)
				must(t, s.NoteDone(t.Context(), store.TurnSweep, noon, ""))
				if c.future {
					must(t, s.NoteDone(t.Context(), store.TurnBackup, noon.AddDate(1, 0, 0), ""))
				}
				m.jump(c.silent)
				s = m.start(t, dsn, &log)
				if got, err := s.ClockSettled(t.Context()); err != nil || got != c.want {
					t.Errorf("settled %t, %v", got, err)
				}
				if _, why, err := s.ClockWait(t.Context()); err != nil || (why == "") != c.want || !c.want &&
					!strings.Contains(why, "nothing was written since "+noon.Format(time.RFC3339)) {
					t.Errorf("%q, %v", why, err)
				}
			})
		})
	}
}

// Work that was noted by a clock that was ahead, and a turn that was taken by it, is done at once, with a warning.
func TestATurnOfTheFutureIsNotDone(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		var m machine
		var log bytes.Buffer
		s := m.start(t, dsn, &log)
		ctx, done := t.Context(), 0
		work := func() {
			must(t, s.InTurn(ctx, "sweep", time.Hour, func(context.Context, time.Time) (string, error) { done++; return "", nil }))
		}
		m.jump(700 * 24 * time.Hour)
		work()
		_, _, err := s.TakeTurn(ctx, "killed", s.Time(), time.Hour, time.Minute) // and its process was killed
		must(t, err)
		m.jump(-700 * 24 * time.Hour)
		work()
		if _, ok, err := s.TakeTurn(ctx, "killed", s.Time(), time.Hour, time.Minute); err != nil || !ok {
			t.Errorf("a turn of the future is kept: %v", err)
		}
		if text := log.String(); done != 2 || strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "work=sweep noted=") {
			t.Errorf("done %d times: %s", done, text)
		}
		work()
		m.jump(-4 * time.Minute) // as clocks of instances differ
		work()
		same(t, "done, times", done, 2)
	})
}

// A right clock gives back what a clock that was ahead has ended, but for sessions and grants; the end comes
// in its time, once more.
func TestAClockThatWasAheadEndsNothingForGood(t *testing.T) {
	eachAt(t, func(t *testing.T, s *store.Store, pass func(time.Duration)) {
		ctx := t.Context()
		const ahead = 700 * 24 * time.Hour
		root := addUser(t, s, "root", account.FlagAdmin)
		h := equip(t, s, "ada")
		sub, ends := h.user.Sub, noon.Add(month)
		invite := addInvite(t, s, sub)
		n := signIn(t, s, root)
		_, err := s.SetFlags(ctx, root.Sub, coach(ends), noon, act("user.flags"))
		must(t, err)
		must(t, s.SetEnd(ctx, sub, ends, noon, act("user.end")))
		_, err = s.SetFlags(ctx, sub, coach(ends), noon, act("user.flags"))
		must(t, err)
		before, err := s.UserBySub(ctx, sub)
		must(t, err)
		pass(ahead)
		endDue(t, s)
		checkTaken(t, s, h)
		if u, err := s.UserBySub(ctx, sub); err != nil || !u.Ended() || u.Has("coach") {
			t.Errorf("%+v has not ended, %v", u, err)
		}
		pass(-ahead)
		if next := endDue(t, s); !next.Equal(ends) {
			t.Errorf("the next end is %v", next)
		}
		u, err := s.UserBySub(ctx, sub)
		must(t, err)
		if u.Suspended() || !u.Has("coach") || !u.EndsAt.Equal(ends) || !u.FlagEnds["coach"].Equal(ends) || !u.DevicesVoidedAt.Equal(before.DevicesVoidedAt) {
			t.Errorf("%+v, before %+v", u, before)
		}
		_, err = s.Invite(ctx, invite.Code)
		must(t, err)
		if live(t, s, n.ID) {
			_, of, err := s.Session(ctx, n.ID)
			if err != nil || !of.Has("coach") {
				t.Errorf("flags %v, %v", of.Flags, err)
			}
		}
		again := signIn(t, s, u)
		pass(month)
		endDue(t, s)
		if live(t, s, again.ID) {
			t.Error("a session outlives the end that a clock had carried out early")
		}
		rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "user.ended"})
		must(t, err)
		same(t, "rows of an end", len(rows), 2)
		// Whoever lets them in again ends the rest.
		must(t, s.SetEnd(ctx, sub, noon.Add(3*month), noon.Add(month), act("user.end")))
		_, err = s.Invite(ctx, invite.Code)
		want(t, err, account.ErrInviteNotFound)
		if u, err = s.UserBySub(ctx, sub); err != nil || u.Suspended() ||
			u.DevicesVoidedAt.Equal(before.DevicesVoidedAt) {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// A message that a clock that was ahead put off holds up neither itself nor others to the same address.
func TestMessagesOfTheFutureAreSent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		must(t, s.Exec("INSERT INTO mail_outbox (kind, sub, address, language, data, created_at, next_at) VALUES ('x', ?, 'ada@example.org', 'en', '{}', ?, ?)",
			u.Sub, noon.Add(24*month).Unix(), noon.Add(24*month).Unix()))
		must(t, s.Exec("INSERT INTO mail_outbox (kind, sub, address, language, data, created_at, next_at, leased_until) VALUES ('x', ?, 'b@example.org', 'en', '{}', ?, ?, ?)",
			u.Sub, noon.Unix(), noon.Unix(), noon.Add(24*month).Unix()))
		due := func() int {
			mails, err := s.DueMails(t.Context(), noon, time.Minute, 10)
			must(t, err)
			return len(mails)
		}
		if n := due(); n != 0 {
			t.Fatalf("%d mails are due", n)
		}
		_, err := s.Sweep(t.Context(), noon)
		must(t, err)
		same(t, "mails are due", due(), 2)
	})
}
