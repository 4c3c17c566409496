package account_test

import (
	"testing"
	"time"
)

func sessionIDs(b *browser) (current string, others []string) {
	b.w.t.Helper()
	for _, s := range b.call("GET", "/api/me/sessions", nil).is(200).json()["sessions"].([]any) {
		m := s.(map[string]any)
		if m["current"] == true {
			current = m["id"].(string)
		} else {
			others = append(others, m["id"].(string))
		}
	}
	return current, others
}

func TestSessionsAreEndedByTheirOwnerAlone(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	here, there, eve := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("eve")
	current, others := sessionIDs(here)
	if current == "" || len(others) != 1 {
		t.Fatalf("%q %v", current, others)
	}
	here.call("GET", "/api/me/sessions", nil).hides(here.cookies["cairn_session"])
	for _, id := range []string{current, others[0]} {
		eve.call("DELETE", "/api/me/sessions/"+id, nil).is(404, "session_not_found")
		w.browser().call("DELETE", "/api/me/sessions/"+id, nil).is(401, "not_authenticated")
	}
	for _, odd := range []string{"x", "%00", "%25", "00000000-0000-4000-8000-000000000000", "%7B" + others[0] + "%7D", "urn:uuid:" + others[0]} {
		here.call("DELETE", "/api/me/sessions/"+odd, nil).is(404, "session_not_found")
	}
	if !there.isSignedIn() || !here.isSignedIn() {
		t.Fatal("a refused request ended a session")
	}
	a := here.call("DELETE", "/api/me/sessions/"+others[0], nil).is(204)
	if there.isSignedIn() || !here.isSignedIn() || len(a.set) != 0 {
		t.Error("the wrong session ended")
	}
	here.call("DELETE", "/api/me/sessions/"+others[0], nil).is(404)
	copied := here.clone()
	if a := here.call("DELETE", "/api/me/sessions/"+current, nil).is(204); len(a.set) != 1 || a.set[0].MaxAge >= 0 {
		t.Errorf("cookies %v", a.set)
	}
	if copied.isSignedIn() {
		t.Error("the ended session still works")
	}
}

func TestEndOthersKeepsThisOne(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	here, there, eve := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("eve")
	here.call("POST", "/api/me/sessions/end-others", nil).is(204)
	if !here.isSignedIn() || there.isSignedIn() || !eve.isSignedIn() {
		t.Errorf("%v %v %v", here.isSignedIn(), there.isSignedIn(), eve.isSignedIn())
	}
	w.browser().call("POST", "/api/me/sessions/end-others", nil).is(401)
}

func TestSessionsAreToldApart(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.browserAt("2001:db8:1:2:3:4:5:6")
	b.send("POST", "/api/auth/login", "application/json", `{"handle":"ada","password":"`+password+`"}`,
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0").is(200)
	w.clock.Advance(2 * time.Minute)
	s := b.call("GET", "/api/me/sessions", nil).json()["sessions"].([]any)[0].(map[string]any)
	if s["device"] != "Firefox on Linux" || s["current"] != true {
		t.Errorf("%v", s)
	}
	if s["last_seen_at"] != w.clock.Now().Format(time.RFC3339) {
		t.Errorf("last seen %v, now %v", s["last_seen_at"], w.clock.Now())
	}
}
