package account_test

import (
	"compress/zlib"
	"context"
	"encoding/base64"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

// statusBit follows the status claim of a session token to its bit.
func statusBit(w *world, token string) int {
	w.t.Helper()
	ref := claimsOf(w.t, token)["status"].(map[string]any)["status_list"].(map[string]any)
	u, err := url.Parse(ref["uri"].(string))
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.browser().send("GET", u.Path, "", "").is(200)
	if a.header.Get("Content-Type") != "application/statuslist+jwt" || len(a.set) != 0 {
		w.t.Errorf("%v", a.header)
	}
	list := claimsOf(w.t, a.body)
	if list["sub"] != ref["uri"] {
		w.t.Errorf("sub %v, want %v", list["sub"], ref["uri"])
	}
	packed, err := base64.RawURLEncoding.DecodeString(list["status_list"].(map[string]any)["lst"].(string))
	if err != nil {
		w.t.Fatal(err)
	}
	z, err := zlib.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		w.t.Fatal(err)
	}
	bits, err := io.ReadAll(z)
	if err != nil {
		w.t.Fatal(err)
	}
	i := int(ref["idx"].(float64))
	return int(bits[i/8]>>(i%8)) & 1
}

func TestApplicationsLearnThatASessionEnded(t *testing.T) {
	for name, change := range map[string]func(*account.Options){"HS256": func(*account.Options) {}, "RS256": withKey} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.addUser("ada")
			w.addUser("bob")
			out, stays, suspended := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("bob")
			tokens := []string{out.cookies["cairn_session"], stays.cookies["cairn_session"], suspended.cookies["cairn_session"]}
			out.call("POST", "/api/auth/logout", nil).is(200)
			w.suspend("bob")
			for i, want := range []int{1, 0, 1} {
				if got := statusBit(w, tokens[i]); got != want {
					t.Errorf("token %d: status %d, want %d", i, got, want)
				}
			}
		})
	}
}

// The flags that other applications read in the cookie are those of the sign-in.
func TestFlagLossRevokesTheCookieWhenTheOptionIsOn(t *testing.T) {
	for on, bit := range map[bool]int{false: 0, true: 1} {
		w := newWorld(t)
		w.saveSettings(func(v *account.Settings) { v.SignOutOnFlagLoss = on })
		w.addUser("ada", account.FlagActivity)
		b := w.signedIn("ada")
		administration := w.service.Administration()
		if _, err := administration.SetFlags(t.Context(), account.Operator(), w.user("ada"), map[string]bool{account.FlagAdmin: true}); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, b.cookies["cairn_session"]); got != 0 {
			t.Errorf("option %t: a flag that was given ends the session", on)
		}
		if _, err := administration.SetFlags(t.Context(), account.Operator(), w.user("ada"), map[string]bool{account.FlagActivity: false}); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, b.cookies["cairn_session"]); got != bit || b.isSignedIn() != (bit == 0) {
			t.Errorf("option %t: bit %d, signed in %t", on, got, b.isSignedIn())
		}
	}
}

// Signing in again in the same browser replaces the token: a copy of the
// earlier one must not go on at other applications.
func TestReplacedTokenIsInTheList(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	stolen := b.cookies["cairn_session"]
	b.login("ada", password).is(200)
	if got := statusBit(w, stolen); got != 1 {
		t.Error("the earlier token is not marked")
	}
	if got := statusBit(w, b.cookies["cairn_session"]); got != 0 || !b.isSignedIn() {
		t.Error("the new one is")
	}
}

func TestHS256TokenIsRefusedAfterTheEndDate(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	old := w.signedIn("ada")
	if _, _, err := w.store.HS256Sessions(t.Context(), w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	setUntil := func(d time.Duration) {
		t.Helper()
		if err := w.store.SetHS256Until(t.Context(), w.clock.Now().Add(d), account.Audit{At: w.clock.Now(), Action: "keys.migrate"}); err != nil {
			t.Fatal(err)
		}
	}
	setUntil(time.Hour)
	w.start() // still without a key: the date is for later
	w.clock.Advance(2 * time.Hour)
	if !old.isSignedIn() {
		t.Error("without a key nobody could sign in after the date")
	}
	setUntil(time.Hour)
	w.start(withKey)
	now := w.signedIn("ada")
	if !old.isSignedIn() {
		t.Error("refused before the date")
	}
	w.clock.Advance(time.Hour)
	if old.isSignedIn() || !now.isSignedIn() {
		t.Errorf("after the date: HS256 %t, RS256 %t", old.isSignedIn(), now.isSignedIn())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.service.RetireHS256(ctx); close(ended) }()
	for statusBit(w, old.cookies["cairn_session"]) == 0 { // the test's deadline ends it
	}
	cancel()
	<-ended
	if statusBit(w, now.cookies["cairn_session"]) != 0 {
		t.Error("an RS256 session was ended")
	}
	if live, _, err := w.store.HS256Sessions(t.Context(), w.clock.Now()); err != nil || live != 0 {
		t.Errorf("%d HS256 sessions, %v", live, err)
	}
}
