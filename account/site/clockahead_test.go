package site_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// ahead does something while the clock is ahead, by mistake.
func ahead(w *accounttest.World, d time.Duration, do func()) {
	w.Clock.Advance(d)
	do()
	w.Clock.Advance(-d)
}

// forgotten is the code of a mailed reset of ada.
func forgotten(t *testing.T, w *accounttest.World, post *postbox) string {
	t.Helper()
	post.new()
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
	path, _ := link(t, post.one("ada@example.org"))
	code, _, _ := strings.Cut(path[strings.Index(path, "code=")+len("code="):], "&")
	return code
}

// What was told, done or made while the clock was a year ahead does not count for a year.
func TestClockThatWasAheadSilencesNothing(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{
		web.LimitSecondFactor: {Count: 3, Window: 24 * time.Hour}, web.LimitLogin: {Count: 6, Window: 15 * time.Minute}}))
	w.SaveSettings(openToRequests)
	addMember(w, "root", "root@example.org", account.FlagAdmin)
	addMember(w, "ada", "ada@example.org")
	addMember(w, "bob", "bob@example.org")
	addMember(w, "eve", "eve@example.org")
	a := enrol(w.SignedIn("ada"))
	guess := func() {
		for range 8 {
			w.BrowserAt("198.51.100.9").Login("bob", "wrong password here")
		}
	}
	resetBy := func(code string) *accounttest.Answer {
		return w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, newPassword))
	}
	join := func(id string) {
		row := account.JoinRequest{ID: id, Name: "Bo " + id, Email: id + "@example.net", Mailbox: id + "@example.net",
			AskedAt: w.Clock.Now(), ExpiresAt: w.Clock.Now().Add(24 * time.Hour)}
		must(t, w.Store.AddJoinRequest(t.Context(), row, []byte(id), 99, account.Audit{At: w.Clock.Now(), Proof: account.ProofCode}))
		must(t, w.Service.TellJoins(t.Context()))
	}
	stranger, code := w.BrowserAt("198.51.100.7"), ""
	post.new()
	ahead(w, 365*24*time.Hour, func() {
		join("one")
		post.one("root@example.org")
		resetBy(forgotten(t, w, post)).Is(200)
		code = forgotten(t, w, post)
		guess()
		stranger.Login("bob", password).Is(200)
		enrol(w.SignedIn("eve"))
	})
	recent, err := w.Store.RecentFactors(t.Context(), w.User("eve").Sub, "", w.Clock.Now())
	must(t, err)
	same(t, "what a mailbox can remove", len(recent), 0)
	resetBy(code).Is(400, "invalid_reset_code")
	w.Clock.Advance(2 * time.Hour)
	post.new()
	join("two")
	post.one("root@example.org")
	for range 4 {
		loginOTP(w.Browser(), "ada", newPassword, a.wrong())
	}
	loginOTP(w.Browser(), "ada", newPassword, a.fresh()).Is(429)
	resetBy(forgotten(t, w, post)).Is(200)
	loginOTP(w.Browser(), "ada", newPassword, a.fresh()).Is(200)
	guess()
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: account.LimitSignIns.Action, Limit: 10})
	must(t, err)
	rows = slices.DeleteFunc(rows, func(a account.Audit) bool { return a.Target != "bob" })
	same(t, "rows of the limit", len(rows), 2)
	// A browser that signed in then is no known one after the next remedy.
	w.Browser().Call("POST", "/api/auth/reset-password", reset("bob", w.ResetCode("bob"), newPassword)).Is(200)
	w.Clock.Advance(time.Hour)
	post.new()
	stranger.Login("bob", newPassword).Is(200)
	post.one("bob@example.org")
}

// A session of a clock that was ahead does not live before it began: what it made would be older than it.
func TestSessionOfAClockThatWasAheadWaits(t *testing.T) {
	w, _ := newMailWorld(t, func(o *accounttest.Options) { o.CookieDomain, o.LoginCookieName = "localhost", "cairn_login" })
	addMember(w, "ada", "ada@example.org")
	b := w.Browser()
	ahead(w, 2*time.Hour, func() { b.Login("ada", password).Is(200) })
	if b.IsSignedIn() {
		t.Error("it lives before it began")
	}
	if w.Clock.Advance(2 * time.Hour); !b.IsSignedIn() {
		t.Error("it has ended")
	}
}
