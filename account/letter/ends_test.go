package letter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/store/accounttest"
)

const day = 24 * time.Hour

func setEnd(w *accounttest.World, handle string, ends time.Time) {
	w.T.Helper()
	err := w.Administration().WithMail(false).SetEnd(w.T.Context(), account.Operator(), w.User(handle), ends)
	if err != nil {
		w.T.Fatal(err)
	}
}

// A mail to the member 14 days and 1 day before in their language and zone, and one list for the administrators.
func TestEndsAreToldByMail(t *testing.T) {
	w, server, _ := withMail(t, mailtest.Options{})
	verified := func(handle, locale, zone string) {
		_, err := w.Store.ChangeUser(t.Context(), w.User(handle).Sub, func(u *account.User) error {
			u.Email, u.EmailVerified = handle+"@example.net", true
			u.Profile.Locale, u.Profile.Zoneinfo = locale, zone
			return nil
		}, w.Clock.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada")
	w.AddUser("bob")
	verified("root1", "en", "")
	verified("ada", "de", "Europe/Rome")
	begin := time.Date(w.Clock.Now().Year()+1, 6, 1, 22, 0, 0, 0, time.UTC)
	w.Clock.Advance(begin.Sub(w.Clock.Now()))
	setEnd(w, "ada", begin.Add(20*day))
	setEnd(w, "bob", begin.Add(20*day)) // has no address: only the administrator reads of it
	seen := 0
	tell := func() []mailtest.Received {
		t.Helper()
		for range 2 { // the second finds nothing left
			if err := w.Service.TellEnds(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := w.Post.DeliverMails(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all := server.Mails()
		fresh := all[seen:]
		seen = len(all)
		return fresh
	}
	if got := tell(); len(got) != 0 {
		t.Fatalf("20 days before: %v", recipients(got))
	}
	for i := 1; i <= 20; i++ {
		w.Clock.Advance(day)
		got := recipients(tell())
		want := map[int]map[string]int{5: {"root1@example.net": 1}, 6: {"ada@example.net": 1}, 18: {"root1@example.net": 1}, 19: {"ada@example.net": 1}}[i]
		if len(got) != len(want) || got["ada@example.net"] != want["ada@example.net"] || got["root1@example.net"] != want["root1@example.net"] {
			t.Errorf("day %d: mails to %v, want %v", i, got, want)
		}
	}
	for _, m := range server.Mails() {
		wants := []string{"@ada", "@bob", "22 Jun " + begin.Format("2006")}
		wants[2] = "22:00 UTC"
		if m.To == "ada@example.net" {
			wants = []string{"endet", "22. Juni " + begin.Format("2006"), "Europe/Rome"}
			wants[1] = "00:00"
		}
		for _, text := range wants {
			if !strings.Contains(m.Text, text) {
				t.Errorf("the mail to %s lacks %q:\n%s", m.To, text, m.Text)
			}
		}
	}
}

// A season ends for more people than a mail lists.
func TestListOfEndsCountsThoseItLeavesOut(t *testing.T) {
	w, server, _ := withMail(t, mailtest.Options{})
	root := w.AddUser("root1", account.FlagAdmin)
	_, err := w.Store.ChangeUser(t.Context(), root.Sub, func(u *account.User) error {
		u.Email, u.EmailVerified = "root1@example.net", true
		return nil
	}, w.Clock.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := w.Clock.Now().Add(14*day + time.Hour)
	for i := range 205 {
		setEnd(w, w.AddUser(fmt.Sprint("m", i)).Handle, ends)
	}
	if err := w.Service.TellEnds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Post.DeliverMails(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := server.Mails(); len(all) != 1 || strings.Count(all[0].Text, "@m") != 200 || !strings.Contains(all[0].Text, "5 more") {
		t.Errorf("%+v", all)
	}
}
