package httpd

import (
	"context"
	"crypto/hmac"
	"database/sql"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/store/storetest"
)

func hmacWith(newHash func() hash.Hash, key []byte) func([]byte) []byte {
	return func(input []byte) []byte {
		m := hmac.New(newHash, key)
		m.Write(input)
		return m.Sum(nil)
	}
}

func changed(claims map[string]any, pairs ...any) map[string]any {
	c := maps.Clone(claims)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			delete(c, pairs[i].(string))
			continue
		}
		c[pairs[i].(string)] = pairs[i+1]
	}
	return c
}

// as asks who a cookie is.
func (s *service) as(token string) response {
	return s.visitor().do("GET", "/api/me", "", "", "Cookie", "cairn_session="+token)
}

// revoked reports whether the status list says that a session token is revoked: what
// applications that verify cookies on their own go by.
func (s *service) revoked(token string) bool {
	s.t.Helper()
	bit, answer := statusBit(s.t, s.visitor(), token)
	if bit < 0 {
		s.t.Fatalf("status list: %d %s", answer.StatusCode, answer.Text)
	}
	return bit == 1
}

// Attacks 73 to 75: whatever takes an account's standing takes all its open
// sessions with it, here and on the status list, at once, and nothing gives
// them back.
func TestEndedSessionStaysEnded(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	keeper := s.joined("keeper", "admin")
	for i, c := range []struct {
		name string
		end  func(b *browser, handle string) response
		own  bool // the browser that asks stays signed in
	}{
		{"suspension", func(_ *browser, h string) response { return keeper.api("POST", "/api/admin/users/"+h+"/suspend", nil) }, false},
		{"deletion", func(_ *browser, h string) response { return keeper.api("DELETE", "/api/admin/users/"+h, nil) }, false},
		{"own deletion", func(b *browser, _ string) response {
			return b.api("DELETE", "/api/me", map[string]string{"password": password})
		}, false},
		{"reset", func(_ *browser, h string) response {
			return s.visitor().reset(h, keeper.resetCode(h), password+" reset")
		}, false},
		{"password change", func(b *browser, _ string) response {
			return b.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": password + " changed"})
		}, true},
		{"end others", func(b *browser, _ string) response { return b.api("POST", "/api/me/sessions/end-others", nil) }, true},
	} {
		handle := fmt.Sprintf("user%d", i)
		s.addUser(handle)
		own, other := s.signedIn(handle), s.signedIn(handle)
		ownToken, otherToken := own.cookie("cairn_session"), other.cookie("cairn_session")
		if s.revoked(ownToken) || s.revoked(otherToken) {
			t.Fatalf("%s: revoked before", c.name)
		}
		if got := c.end(own, handle); got.StatusCode/100 != 2 {
			t.Fatalf("%s: %d %s", c.name, got.StatusCode, got.Text)
		}
		if c.own {
			ownToken = own.cookie("cairn_session") // a new password brings a new one
		}
		if c.name == "suspension" {
			needStatus(t, "unsuspend", keeper.api("POST", "/api/admin/users/"+handle+"/unsuspend", nil), http.StatusOK)
		}
		wantProblem(t, c.name+", other session", s.as(otherToken), http.StatusUnauthorized, "not_authenticated")
		if !s.revoked(otherToken) || s.revoked(ownToken) == c.own ||
			(s.as(ownToken).StatusCode == http.StatusOK) != c.own {
			t.Errorf("%s: own session %d, on the list: own %v, other %v", c.name, s.as(ownToken).StatusCode, s.revoked(ownToken), s.revoked(otherToken))
		}
	}
	if s.revoked(keeper.cookie("cairn_session")) {
		t.Error("a bystander's session is on the list")
	}
}

// A user has at most 100 live sessions: the sign-in that would make one more ends the
// oldest, here and on the status list. Lists of them come in pages.
func TestOldestOfTooManySessionsEnds(t *testing.T) {
	var later atomic.Int64 // each sign-in is one second after the one before
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Second) }
	s := startService(t, serviceOptions{Now: now}, "ada")
	keeper := s.joined("keeper", account.FlagAdmin)
	browsers := make([]*browser, 102)
	for i := range browsers {
		later.Add(1)
		browsers[i] = s.browser()
		browsers[i].signIn("ada")
	}
	for i, want := range map[int]int{0: 401, 1: 401, 2: 200, 101: 200} {
		same(t, fmt.Sprintf("session %d", i), browsers[i].api("GET", "/api/me", nil).StatusCode, want)
	}
	for i, want := range []bool{true, true, false} {
		same(t, fmt.Sprintf("session %d on the status list", i), s.revoked(browsers[i].cookie("cairn_session")), want)
	}

	asker := browsers[50]
	list := needStatus(t, "sessions", asker.api("GET", "/api/me/sessions", nil), http.StatusOK).JSON(t)["sessions"].([]any)
	seen, last := map[string]bool{}, "9999"
	for _, e := range list {
		m := e.(map[string]any)
		if at := m["created_at"].(string); at > last {
			t.Errorf("%s comes after %s", at, last)
		} else {
			last = at
		}
		seen[m["id"].(string)] = true
	}
	same(t, "sessions", len(seen), 100)

	rows := func(b *browser, path string) (n int, text string) {
		text = b.get(path).Text
		return strings.Count(text, `data-session="`), text
	}
	for name, c := range map[string]struct {
		b      *browser
		path   string
		latest int
	}{
		"the account page":  {asker, "/account/devices", 21}, // its own, which is older, too
		"one of the latest": {browsers[101], "/account/devices", 20}, "the administrator's page": {keeper, "/admin/users/ada", 20},
	} {
		n, text := rows(c.b, c.path)
		if all := fmt.Sprintf(`href="%s?sessions=all#sessions"`, c.path); n != c.latest || !strings.Contains(text, all) {
			t.Errorf("%s: %d sessions, want %d and a link to all", name, n, c.latest)
		}
		if n, text = rows(c.b, c.path+"?sessions=all"); n != 100 || strings.Contains(text, "sessions=all") {
			t.Errorf("%s, all of them: %d", name, n)
		}
	}
	same(t, "the administrator is told of sessions",
		len(keeper.api("GET", "/api/admin/users/ada", nil).JSON(t)["sessions"].([]any)), 100)
	same(t, "the export has, sessions", len(asker.api("GET", "/api/me/export", nil).JSON(t)["sessions"].([]any)), 100)
}

func TestSessionEndOfTheOperator(t *testing.T) {
	database := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, database)}, "ada", "bob")
	browsers := []*browser{s.browser(), s.browser(), s.browser()}
	for _, b := range browsers {
		b.signIn("ada")
	}
	cairn := func(want int, args ...string) string {
		t.Helper()
		out, errs := cairn(t, want, append(args, "--database", database)...)
		return out + errs
	}
	alive := func(want ...bool) {
		t.Helper()
		for i, b := range browsers {
			same(t, fmt.Sprintf("browser %d: signed in", i),
				b.api("GET", "/api/me", nil).StatusCode == http.StatusOK, want[i])
		}
	}
	id := func(b *browser) string { return jwtPayload(t, b.cookie("cairn_session"))["sid"].(string) }
	ids := strings.Fields(cairn(exitDone, "session", "list", "ada", "-q"))
	if len(ids) != 3 || !slices.Contains(ids, id(browsers[0])) {
		t.Fatalf("%q", ids)
	}
	bound, _, err := s.store.Session(t.Context(), ids[0])
	noError(t, err)
	bound.DeviceKey = []byte{4}
	noError(t, s.store.BindDevice(t.Context(), bound, operator(account.BindDevice, "ada", "")))
	noError(t, s.store.ProveDevice(t.Context(), bound, time.Now()))
	same(t, "bound", strings.Count(cairn(exitDone, "session", "list", "ada"), "to its device"), 1)
	const unknown = "6a0e9b7e-0000-4000-8000-000000000000"
	for _, wrong := range [][]string{{"ada", id(browsers[0]), unknown}, {"ada", id(browsers[0]), "x"}, {"bob", id(browsers[0])}} {
		has(t, wrong, cairn(exitFailed, append([]string{"session", "end"}, wrong...)...), "nothing was changed")
	}
	alive(true, true, true)
	has(t, "printed", cairn(exitDone, "session", "end", "ada", id(browsers[0]), id(browsers[1]), id(browsers[0])), "2")
	alive(false, false, true)
}

// Another process that holds the database (a backup, a command) keeps nobody
// waiting who only reads: that a session was seen is written beside the requests, and
// at the latest when the service stops.
func TestVisitsAreWrittenBesideTheRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	st := storetest.Open(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=20000")
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	t.Run("service", func(t *testing.T) { // which has stopped when it returns
		s := startService(t, serviceOptions{Store: st}, "ada")
		b := s.signedIn("ada")
		other, err := db.Conn(t.Context())
		noError(t, err)
		for _, query := range []string{"UPDATE sessions SET last_seen_at = last_seen_at - 7200", "BEGIN IMMEDIATE"} {
			if _, err := other.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		b.client.Timeout = 9 * time.Second // less than a write waits for the lock
		for range 3 {
			wantStatus(t, "while the database is held", b.api("GET", "/api/me", nil), http.StatusOK)
		}
		// What is not written yet is shown.
		seen, err := time.Parse(time.RFC3339, b.api("GET", "/api/me/sessions", nil).JSON(t)["sessions"].([]any)[0].(map[string]any)["last_seen_at"].(string))
		if err != nil || time.Since(seen) > time.Hour {
			t.Errorf("last seen %v (%v)", seen, err)
		}
		if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil { // held until here
			t.Fatal(err)
		}
		if log := s.log.String(); strings.Contains(log, `"level":"WARN"`) && strings.Contains(log, "visit") {
			t.Errorf("a visit was not written: %s", log)
		}
	})
	var fresh int
	err = db.QueryRowContext(context.Background(), "SELECT count(*) FROM sessions WHERE last_seen_at > ?", time.Now().Add(-time.Hour).Unix()).Scan(&fresh)
	if err != nil || fresh != 1 {
		t.Errorf("%d visits are written after the stop (%v)", fresh, err)
	}
}

// What a relying application does with the cookie, in both schemes, and across
// the change from one to the other.
func TestSessionCookieIsVerifiableByOtherApplications(t *testing.T) {
	old := startService(t, serviceOptions{HS256: true})
	u := old.addUser("ada", account.FlagActivity)
	b := old.browser()
	b.signIn("ada")
	hs := b.cookie("cairn_session")
	check := func(v *session.Verifier, token, alg string) {
		t.Helper()
		got, err := v.Verify(t.Context(), token)
		if err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		if got.Subject != u.Sub || got.Handle != "ada" || got.Name != "Ada" || !slices.Equal(got.Groups, []string{"activity"}) || got.Status == nil {
			t.Errorf("%s: claims %+v", alg, got)
		}
		same(t, fmt.Sprintf("%s: lives", alg), got.ExpiresAt.Sub(got.IssuedAt), 30*24*time.Hour)
		if len(token) > 4000 || jwtHeader(t, token)["alg"] != alg {
			t.Errorf("%s: %d bytes, header %v", alg, len(token), jwtHeader(t, token))
		}
	}
	check(&session.Verifier{Issuer: old.URL, Secret: old.secret}, hs, "HS256")

	// The same installation, now with a key.
	rs := startService(t, serviceOptions{Store: old.store})
	fresh := rs.browser()
	fresh.signIn("ada")
	keys := session.NewRemoteKeySet(rs.URL+"/.well-known/jwks.json", session.RemoteOptions{})
	check(&session.Verifier{Issuer: rs.URL, Keys: keys}, fresh.cookie("cairn_session"), "RS256")
	both := &session.Verifier{Issuer: old.URL, Secret: old.secret, Keys: keys}
	check(both, hs, "HS256")
}

// A copy of the cookie from before a proof is worth nothing after it: here, and to the applications that
// verify it on their own.
func TestProofMakesANewTokenAndEndsTheOneBefore(t *testing.T) {
	l := startLife(t, serviceOptions{})
	for _, handle := range []string{"ada", "bob", "kim", "lea"} {
		l.member(handle)
	}
	ada, bob, kim, lea := l.signedIn("ada"), l.signedIn("bob"), l.signedIn("kim"), l.signedIn("lea")
	phone := l.addTOTP(bob)
	key, _ := l.addPasskey(kim, "Key", nil)
	l.later(stale)
	for _, c := range []struct {
		name  string
		b     *browser
		prove func(b *browser) response
	}{
		{"password", ada, func(b *browser) response { return b.confirm(password, "") }},
		{"password and code", bob, func(b *browser) response { return b.confirm(password, phone.code()) }},
		{"passkey", kim, func(b *browser) response { return key.prove(b, "confirm") }},
		{"new password", lea, func(b *browser) response { return b.changePassword(password, "another of 3 hills") }},
		{"new password of an account with a second factor", bob, func(b *browser) response {
			return b.changePassword(password, "another of 3 hills")
		}},
	} {
		before := c.b.cookie("cairn_session")
		got := needStatus(t, c.name, c.prove(c.b), 200)
		after := c.b.cookie("cairn_session")
		if got.JSON(t)["ok"] != true || after == before {
			t.Errorf("%s: %s, new cookie: %t", c.name, got.Text, after != before)
		}
		wantStatus(t, c.name+", the token before", l.as(before), 401)
		if !l.revoked(before) {
			t.Errorf("%s: the token before is not on the status list", c.name)
		}
		if after != before && l.revoked(after) {
			t.Errorf("%s: the new token is on the status list", c.name)
		}
		wantStatus(t, c.name+", the session", c.b.me(), 200)
	}
	wantProblem(t, "a new password is no proof", lea.call("GET /api/me/export"), 403, "reauthentication_required")
	form := url.Values{"current_password": {"another of 3 hills"}, "new_password": {"a third of 3 hills"}}
	before := lea.cookie("cairn_session")
	wantStatus(t, "the form", lea.postForm("/account/password", form), 303)
	wantStatus(t, "the form, the token before", l.as(before), 401)
	wantStatus(t, "the form, the session", lea.me(), 200)
}
