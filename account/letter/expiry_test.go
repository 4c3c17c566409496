package letter_test

import (
	"context"
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
	w.AddUser("cy")
	w.AddUser("dee")
	verified("root1", "en", "")
	verified("dee", "en", "")
	family := account.UserChange{"email": "root1@example.net"}
	quiet := w.Administration().WithMail(false)
	_, err := quiet.Amend(t.Context(), account.Operator(), w.User("cy"), family)
	must(t, err)
	verified("ada", "de", "Europe/Rome")
	begin := time.Date(w.Clock.Now().Year()+1, 6, 1, 22, 0, 0, 0, time.UTC)
	w.Clock.Advance(begin.Sub(w.Clock.Now()))
	setEnd(w, "ada", begin.Add(20*day))
	setEnd(w, "bob", begin.Add(20*day)) // has no address
	ends := account.FlagChange{account.FlagActivity: {On: true, SetEnd: true, EndsAt: begin.Add(20 * day)}}
	_, err = quiet.SetFlags(t.Context(), account.Operator(), w.User("cy"), ends)
	must(t, err)
	seen, look := 0, w.Service.TellEnds
	tell := func() []mailtest.Received {
		t.Helper()
		for range 2 { // the second finds nothing left
			must(t, look(t.Context()))
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
		if len(got) != 2*want || got["ada@example.net"] != want || got["root1@example.net"] != want {
			t.Errorf("day %d: mails to %v, want %v", i, got, want)
		}
	}
	for _, m := range server.Mails() {
		want := "läuft am 21. Juni " + begin.Format("2006") + " ab"
		if strings.Contains(m.Text, "@cy") {
			want = "loses these permissions: Activities"
		}
		if !strings.Contains(m.Text, want) {
			t.Errorf("the mail to %s lacks %q:\n%s", m.To, want, m.Text)
		}
	}
	look = func(ctx context.Context) error { _, err := w.Service.LookForEnds(ctx); return err }
	for i, ahead := range []time.Duration{time.Minute, 2 * day} { // a clock that jumps is not believed
		setEnd(w, "dee", w.Clock.Now().Add(account.EndNotice(14)+time.Second))
		w.Clock.Advance(ahead)
		if got := recipients(tell()); got["dee@example.net"] != 1-i {
			t.Errorf("%s ahead: mails to %v", ahead, got)
		}
	}
}
