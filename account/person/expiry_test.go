package person_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/store/accounttest"
)

func setEnd(w *accounttest.World, handle string, ends time.Time) {
	w.T.Helper()
	err := w.Administration().WithMail(false).SetEnd(w.T.Context(), account.Operator(), w.User(handle), ends)
	must(w.T, err)
}

// EndDue has not run: nobody needs to have watched.
func TestEndedAccountHasNoSessionAndReadsWhomToAsk(t *testing.T) {
	w := accounttest.New(t)
	w.SaveSettings(func(v *account.Settings) { v.Contact = "https://club.example/board" })
	b := w.Member("ada")
	setEnd(w, "ada", w.Clock.Now().Add(time.Minute))
	w.Clock.Advance(time.Minute - time.Second)
	if !b.IsSignedIn() {
		t.Fatal("the session ended early")
	}
	w.Clock.Advance(time.Second)
	if b.IsSignedIn() {
		t.Error("the session lives after the end")
	}
	w.Browser().Login("ada", accounttest.Password).Is(403, "account_suspended").Shows("This account has expired.", "https://club.example/board")
	w.Browser().Login("ada", "a wrong password").Is(401, "invalid_credentials")
	if next, err := w.Store.EndDue(t.Context()); err != nil || !next.IsZero() {
		t.Fatalf("%v, %v", next, err)
	}
	same(t, "status bit", statusBit(w, b.Cookies["cairn_session"]), 1)
	setEnd(w, "ada", time.Time{})
	same(t, "the watch is told of other ends", len(w.Store.AccessChanged()), 1)
	w.Browser().Login("ada", accounttest.Password).Is(200)
	if b.IsSignedIn() {
		t.Error("the old session came back")
	}
}

// Sessions live, so that nobody is signed out by a clock that is set right within the hour; nobody is told either.
func TestNothingEndsWhileTheClockIsNotTrusted(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	look := func() {
		t.Helper()
		_, err := w.Service.LookForEnds(t.Context())
		must(t, err)
	}
	look()
	bob := w.Member("bob")
	w.AddUser("cy")
	setEnd(w, "cy", w.Clock.Now().Add(account.EndNotice(14)+time.Second))
	setEnd(w, "bob", w.Clock.Now().Add(time.Minute))
	setEnd(w, "ada", w.Clock.Now().Add(time.Hour))
	w.Clock.Advance(time.Minute)
	look()
	same(t, "bit of an account that has ended", statusBit(w, bob.Cookies["cairn_session"]), 1)
	if due, err := w.Store.EndsToTell(t.Context(), 9); err != nil || len(due) != 1 { // which waits for mail
		t.Errorf("to tell: %v, %v", due, err)
	}
	w.Clock.Advance(25 * time.Hour) // and the process has not run as long
	look()
	w.Clock.Advance(-25 * time.Hour)
	if !b.IsSignedIn() {
		t.Error("a clock that was ahead has ended the session")
	}
}

func TestEndedFlagIsInNoCookieAndNoAccess(t *testing.T) {
	w := accounttest.With(t, "ada")
	admin := account.FlagChange{account.FlagAdmin: {On: true, SetEnd: true, EndsAt: w.Clock.Now().Add(time.Minute)}}
	w.AddUser("root1", account.FlagAdmin)
	_, err := w.Administration().SetFlags(t.Context(), account.Operator(), w.User("ada"), admin)
	must(t, err)
	groups := func(b *accounttest.Browser) []any {
		all, _ := claimsOf(t, b.Cookies["cairn_session"])["groups"].([]any)
		return all
	}
	if got := groups(w.SignedIn("ada")); !slices.Contains(got, any(account.FlagAdmin)) {
		t.Fatalf("groups %v", got)
	}
	w.Clock.Advance(time.Minute)
	if got := groups(w.SignedIn("ada")); slices.Contains(got, any(account.FlagAdmin)) {
		t.Errorf("groups %v", got)
	}
}

// In some zones the clocks go forward at midnight, so that the day begins at one.
func TestLastDayBeginsWithoutMidnight(t *testing.T) {
	for _, c := range []struct{ day, next, name string }{
		{"2026-03-29", "2026-03-30T00:00", "Atlantic/Azores"}, {"2026-09-06", "2026-09-07T00:00", "America/Santiago"}, {"2026-03-08", "2026-03-09T00:00", "America/Havana"},
		{"2027-03-27", "2027-03-28T01:00", "Atlantic/Azores"}, {"2027-09-04", "2027-09-05T01:00", "America/Santiago"}, {"2027-03-13", "2027-03-14T01:00", "America/Havana"},
	} {
		day := c.day
		zone, err := time.LoadLocation(c.name)
		must(t, err)
		if at, err := account.ParseEnd(day, zone); err != nil || account.LastDay(at, zone) != day || at.In(zone).Format("2006-01-02T15:04") != c.next {
			t.Errorf("%s in %s: %v, %v", day, c.name, at.In(zone), err)
		}
	}
}

// The audit log has ends as the forms have them: a day of the service, and a time where an end is within a day.
func TestAuditRowsHaveLastDays(t *testing.T) {
	zone := time.FixedZone("", -9*3600)
	for detail, want := range map[string]string{
		"2099-07-01T09:00:00Z": "2099-06-30", "coach=on@2099-07-01T09:00:00Z player=on": "coach=on@2099-06-30 player=on",
		"2099-07-01T00:00:00Z": "2099-07-01T00:00:00Z", "": "",
	} {
		if got := (account.Audit{Action: account.SetEnd.Action, Detail: detail}).Row(zone).Detail; got != want {
			t.Errorf("%q is shown as %q, want %q", detail, got, want)
		}
	}
	if got := (account.Audit{Action: account.Suspend.Action, Detail: "2099-07-01T09:00:00Z"}).Row(zone).Detail; got != "2099-07-01T09:00:00Z" {
		t.Errorf("the reason of a suspension is shown as %q", got)
	}
}

// A date is the last day of an invite, today as well, and the 90th day is the last possible one.
func TestInviteEndsAfterItsLastDay(t *testing.T) {
	w := accounttest.New(t)
	zone := time.FixedZone("", -9*3600)
	users := roster.NewAdministration(w.Store, func() time.Time { return w.Clock.Now().In(zone) })
	y, m, d := users.Now().In(zone).Date()
	for days, accepted := range map[int]bool{-1: false, 0: true, 90: true, 91: false} {
		until, err := account.ParseEnd(time.Date(y, m, d+days, 0, 0, 0, 0, zone).Format(time.DateOnly), zone)
		must(t, err)
		i, err := users.NewOperatorInvite(t.Context(), account.Operator(), account.InviteTerms{Until: until})
		if (err == nil) != accepted || accepted && !i.ExpiresAt.Equal(time.Date(y, m, d+days+1, 0, 0, 0, 0, zone)) {
			t.Errorf("in %d days: until %v, %v", days, i.ExpiresAt.In(zone), err)
		}
	}
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Limit: 1})
	if err != nil || !strings.Contains(rows[0].Detail, "until=") {
		t.Errorf("the audit log has %+v, %v", rows, err)
	}
}

func TestWhoJoinsWithAnInviteHasItsEnds(t *testing.T) {
	w := accounttest.New(t)
	w.SaveSettings(func(v *account.Settings) { v.Flags = append(v.Flags, "coach") })
	terms := account.InviteTerms{Flags: []string{"coach@2099-06-30"}, AccountEnds: "2099-12-24"}
	i, err := w.Administration().NewOperatorInvite(t.Context(), account.Operator(), terms)
	must(t, err)
	w.Browser().Call("POST", "/api/register", map[string]string{"code": i.Code, "handle": "ada", "password": accounttest.Password}).Is(201)
	u := w.User("ada")
	if account.LastDay(u.EndsAt, time.UTC) != "2099-12-24" || account.LastDay(u.FlagEnds["coach"], time.UTC) != "2099-06-30" || len(u.FlagEnds) != 1 {
		t.Errorf("ends at %v, flags %v", u.EndsAt, u.FlagEnds)
	}
	terms.AccountEnds = w.Clock.Now().AddDate(0, 0, 2).Format(time.DateOnly)
	i, err = w.Administration().NewOperatorInvite(t.Context(), account.Operator(), terms)
	if err != nil || !i.ExpiresAt.Equal(i.AccountEnds) {
		t.Errorf("the invite outlives what it gives: %v, %v", i.ExpiresAt, err)
	}
	for _, wrong := range []account.InviteTerms{{AccountEnds: "2001-01-01"}, {AccountEnds: "x"}, {Flags: []string{"coach@2001-01-01"}}, {Flags: []string{"coach@"}}} {
		if _, err := w.Administration().NewOperatorInvite(t.Context(), account.Operator(), wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}
