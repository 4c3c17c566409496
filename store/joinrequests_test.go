package store_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestRequestsToJoinAreBoundedAndDecidedOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, root := t.Context(), addUser(t, s, "root", account.FlagAdmin)
		ask := func(id, email, link string, at time.Time) error {
			r := account.JoinRequest{ID: id, Email: email, Name: "Bo", Reason: "Runs.", Language: "de", Mailbox: email, AskedAt: at, ExpiresAt: at.Add(time.Hour)}
			return s.AddJoinRequest(ctx, r, []byte(link), 5, act("join.ask"))
		}
		errs := race(16, func(n int) error {
			return ask(name("r", n), name("r", n)+"@"+name("d", n)+".example", name("link", n), noon)
		})
		if n := wins(t, errs, account.ErrJoinFull); n != 5 {
			t.Fatalf("%d requests, at most 5", n)
		}
		list, err := s.JoinRequests(ctx, noon)
		must(t, err)
		if len(list) != 5 || list[0].Language != "de" || !list[0].AskedAt.Equal(noon) {
			t.Fatalf("%+v", list)
		}
		first := list[0]
		want(t, ask("again", first.Email, "link"+first.ID[1:], noon), account.ErrInvalidLink)
		must(t, ask("again", first.Email, "another", noon)) // which replaces the row, under its id

		i, err := account.NewInvite(root.Sub, "", noon)
		must(t, err)
		i.Domain, i.MailedTo = first.Email, first.Email
		errs = race(8, func(n int) error {
			if n%2 == 0 {
				return s.DecideJoinRequest(ctx, first.ID, nil, act("join.refuse"))
			}
			return s.DecideJoinRequest(ctx, first.ID, &i, act("join.accept"))
		})
		same(t, "decided, times", wins(t, errs, account.ErrJoinNotFound), 1)
		_, err = s.JoinRequest(ctx, first.ID, noon)
		want(t, err, account.ErrJoinNotFound)

		want(t, s.DecideJoinRequest(ctx, list[1].ID, &account.Invite{Code: "X", CreatedBy: "nobody"}, act("join.accept")), account.ErrUserNotFound)
		_, err = s.JoinRequest(ctx, list[1].ID, noon) // it still waits
		must(t, err)
		_, err = s.JoinRequest(ctx, list[1].ID, noon.Add(time.Hour))
		want(t, err, account.ErrJoinNotFound)
		for _, invite := range []*account.Invite{nil, &i} {
			late := act("join.accept")
			late.At = noon.Add(time.Hour)
			want(t, s.DecideJoinRequest(ctx, list[1].ID, invite, late), account.ErrJoinNotFound)
		}
		must(t, ask("late", "late@example.org", "late", noon.Add(time.Hour))) // the expired ones no longer count
		swept, err := s.Sweep(ctx, noon.Add(2*time.Hour))
		must(t, err)
		same(t, "swept", swept.JoinRequests, 4)
	})
}

// However many instances look, one tells, and what comes meanwhile is told the next time.
func TestRequestsToJoinAreToldOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ask := func(id string, most int) error {
			r := account.JoinRequest{ID: id, Email: id + "@example.org", Mailbox: id, AskedAt: noon, ExpiresAt: noon.Add(time.Hour)}
			return s.AddJoinRequest(ctx, r, []byte(id), most, act("join.ask"))
		}
		untold := func(want bool, told time.Time) {
			t.Helper()
			if some, at, err := s.JoinsUntold(ctx); err != nil || some != want || !at.Equal(told) {
				t.Errorf("untold %t since %v: %v", some, at, err)
			}
		}
		untold(false, time.Time{})
		want(t, ask("full", 0), account.ErrJoinFull)
		untold(false, time.Time{})
		must(t, ask("bo", 5))
		untold(true, time.Time{})
		mails := []account.Mail{{Kind: account.MailJoinsAsked, Address: "root@example.org"}}
		tell := func(before, now time.Time, waiting int) {
			t.Helper()
			for _, err := range race(4, func(int) error { return s.TellJoins(ctx, before, now, mails) }) {
				must(t, err)
			}
			untold(false, now)
			if state, err := s.MailState(ctx); err != nil || state.Waiting != waiting {
				t.Errorf("%+v %v", state, err)
			}
		}
		tell(time.Time{}, noon, 1)
		must(t, ask("cy", 5))
		untold(true, noon)
		tell(noon, noon.Add(time.Hour), 2)
	})
}

// As many mails as the rate leave at once, the others at its pace, and a clock that was ahead keeps none back.
func TestMailsOfRequestsToJoinLeaveAtTheirPace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		rate, atOnce := web.Rate{Count: 4, Window: time.Hour}, atomic.Int32{}
		for _, err := range race(8, func(int) error {
			at, err := s.JoinMailAt(t.Context(), rate, noon)
			if at.Equal(noon) {
				atOnce.Add(1)
			}
			return err
		}) {
			must(t, err)
		}
		at := func(now time.Time) time.Time {
			t.Helper()
			at, err := s.JoinMailAt(t.Context(), rate, now)
			must(t, err)
			return at
		}
		if n, ninth := atOnce.Load(), at(noon); n != 4 || !ninth.Equal(noon.Add(75*time.Minute)) {
			t.Errorf("%d at once, the ninth at %v", n, ninth)
		}
		at(noon.AddDate(1, 0, 0))
		if got := at(noon); !got.Equal(noon) {
			t.Errorf("after a clock that was ahead: %v", got)
		}
	})
}
