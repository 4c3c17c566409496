package letter_test

import (
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

// A mail to the member 14 days and 1 day before, in their language and zone, and to nobody else.
func TestEndsAreToldByMail(t *testing.T) {
	w, server, _ := withMail(t, mailtest.Options{})
	verified := func(handle, locale, zone string) {
		_, err := w.Store.ChangeUser(t.Context(), w.User(handle).Sub, func(u *account.User) error {
			u.Email, u.EmailVerified = handle+"@example.net", true
			u.Profile.Locale, u.Profile.Zoneinfo = locale, zone
			return nil
		}, w.Clock.Now(), nil)
		must(t, err)
	}
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada")
	w.AddUser("bob")
	verified("root1", "en", "")
	verified("ada", "de", "Europe/Rome")
	begin := time.Date(w.Clock.Now().Year()+1, 6, 1, 22, 0, 0, 0, time.UTC)
	w.Clock.Advance(begin.Sub(w.Clock.Now()))
	setEnd(w, "ada", begin.Add(20*day))
	setEnd(w, "bob", begin.Add(20*day)) // has no address
	seen := 0
	tell := func() []mailtest.Received {
		t.Helper()
		for range 2 { // the second finds nothing left
			must(t, w.Service.TellEnds(t.Context()))
			must(t, w.Post.DeliverMails(t.Context()))
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
		want := map[int]int{6: 1, 19: 1}[i]
		if len(got) != want || got["ada@example.net"] != want {
			t.Errorf("day %d: mails to %v, want %v", i, got, want)
		}
	}
	for _, m := range server.Mails() {
		if want := "läuft am 21. Juni " + begin.Format("2006") + " ab"; !strings.Contains(m.Text, want) {
			t.Errorf("the mail to %s lacks %q:\n%s", m.To, want, m.Text)
		}
	}
}
