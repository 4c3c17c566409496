package httpd

import (
	"net/url"
	"testing"
)

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
