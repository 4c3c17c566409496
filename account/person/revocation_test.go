package person_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/store/accounttest"
)

// statusBit follows the status claim of a session token to its bit.
func statusBit(w *accounttest.World, token string) int {
	w.T.Helper()
	ref := browser.ClaimsOf(token).Status.List
	u, err := url.Parse(ref.URI)
	must(w.T, err)
	a := w.Browser().Send("GET", u.Path, "", "").Is(200)
	if a.Header.Get("Content-Type") != "application/statuslist+jwt" || len(a.SetCookies) != 0 {
		w.T.Errorf("%v", a.Header)
	}
	same(w.T, "sub", claimsOf(w.T, a.Body)["sub"], any(ref.URI))
	bit, err := browser.Bit(a.Body, ref.Index)
	must(w.T, err)
	return bit
}

// The flags that other applications read in the cookie are those of the sign-in.
func TestFlagLossRevokesTheCookieWhenTheOptionIsOn(t *testing.T) {
	for on, bit := range map[bool]int{false: 0, true: 1} {
		w := accounttest.New(t)
		w.SaveSettings(func(v *account.Settings) { v.SignOutOnFlagLoss = on })
		b := w.Member("ada", account.FlagActivity)
		administration := w.Administration()
		if _, err := administration.SetFlags(t.Context(), account.Operator(), w.User("ada"), account.FlagChange{account.FlagAdmin: {On: true}}); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, b.Cookies["cairn_session"]); got != 0 {
			t.Errorf("option %t: a flag that was given ends the session", on)
		}
		if _, err := administration.SetFlags(t.Context(), account.Operator(), w.User("ada"), account.FlagChange{account.FlagActivity: {On: false}}); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, b.Cookies["cairn_session"]); got != bit || b.IsSignedIn() != (bit == 0) {
			t.Errorf("option %t: bit %d, signed in %t", on, got, b.IsSignedIn())
		}
	}
}

// Signing in again in the same browser replaces the token: a copy of the
// earlier one must not go on at other applications.
func TestReplacedTokenIsInTheList(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	stolen := b.Cookies["cairn_session"]
	b.Login("ada", password).Is(200)
	same(t, "the earlier token is not marked", statusBit(w, stolen), 1)
	if got := statusBit(w, b.Cookies["cairn_session"]); got != 0 || !b.IsSignedIn() {
		t.Error("the new one is")
	}
}

func TestHS256TokenIsRefusedAfterTheEndDate(t *testing.T) {
	w, old := accounttest.SignedIn(t, "ada")
	if _, _, err := w.Store.HS256Sessions(t.Context(), w.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	setUntil := func(d time.Duration) {
		t.Helper()
		must(t, w.Store.SetHS256Until(t.Context(), w.Clock.Now().Add(d), account.Audit{At: w.Clock.Now(), Action: "keys.migrate"}))
	}
	lives := func(when string) {
		t.Helper()
		if _, err := w.Service.RetireOnce(t.Context()); err != nil || !old.IsSignedIn() {
			t.Errorf("%s: signed in %t, %v", when, old.IsSignedIn(), err)
		}
		same(t, when, statusBit(w, old.Cookies["cairn_session"]), 0)
	}
	w.Start(withKey)
	lives("without a date")
	setUntil(time.Hour)
	w.Start() // still without a key: the date is for later
	w.Clock.Advance(2 * time.Hour)
	atOnce, cancel := context.WithTimeout(t.Context(), time.Minute)
	if w.Service.RetireHS256(atOnce); atOnce.Err() != nil || !old.IsSignedIn() {
		t.Error("without a key nobody could sign in after the date")
	}
	cancel()
	setUntil(time.Hour)
	w.Start(withKey)
	now := w.SignedIn("ada")
	lives("before the date")
	w.Clock.Advance(time.Hour)
	if old.IsSignedIn() || !now.IsSignedIn() {
		t.Errorf("after the date: HS256 %t, RS256 %t", old.IsSignedIn(), now.IsSignedIn())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Service.RetireHS256(ctx); close(ended) }()
	for statusBit(w, old.Cookies["cairn_session"]) == 0 { // the test's deadline ends it
	}
	cancel()
	<-ended
	same(t, "an RS256 session was ended", statusBit(w, now.Cookies["cairn_session"]), 0)
	if live, _, err := w.Store.HS256Sessions(t.Context(), w.Clock.Now()); err != nil || live != 0 {
		t.Errorf("%d HS256 sessions, %v", live, err)
	}
}
