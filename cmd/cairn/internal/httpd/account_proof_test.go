package httpd

import (
	"net/http"
	"testing"

	"github.com/cairn-id/cairn/account"
)

type call struct {
	method, path string
	body         any
}

// A copy of the cookie from before a proof is worth nothing after it: here, and to the applications that
// verify it on their own.
func TestProofMakesANewTokenAndEndsTheOneBefore(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		for _, handle := range []string{"ada", "bob", "kim"} {
			l.member(handle)
		}
		ada, bob, kim := l.signedIn("ada"), l.signedIn("bob"), l.signedIn("kim")
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
		} {
			before := c.b.cookie("cairn_session")
			got := needStatus(t, c.name, c.prove(c.b), http.StatusOK)
			after := c.b.cookie("cairn_session")
			if got.JSON(t)["ok"] != true || after == before {
				t.Errorf("%s: %s, new cookie: %t", c.name, got.Text, after != before)
			}
			wantStatus(t, c.name+", the token before", l.as(before), http.StatusUnauthorized)
			if !l.revoked(before) {
				t.Errorf("%s: the token before is not on the status list", c.name)
			}
			if after != before && l.revoked(after) {
				t.Errorf("%s: the new token is on the status list", c.name)
			}
			wantStatus(t, c.name+", the session", c.b.me(), http.StatusOK)
		}
	})
}

// What a thief of a session and of the password cannot do to an account with a second factor (L1).
func TestPasswordAloneIsNoProofOfAnAccountWithAFactor(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada", account.FlagAdmin)
		l.member("bob")
		ada := l.signedIn("ada")
		phone := l.addTOTP(ada)
		_, key := l.addPasskey(ada, "Key", nil)
		other := l.signedInWith("ada", phone.code())
		acts := []call{
			{"PATCH", "/api/me", map[string]string{"email": "eve@example.net"}}, {"POST", "/api/me/totp", nil}, {"DELETE", "/api/me/totp", nil},
			{"POST", "/api/me/passkeys/begin", nil}, {"POST", "/api/me/passkeys", map[string]any{"state": "x", "credential": map[string]any{}}},
			{"DELETE", "/api/me/passkeys/" + key, nil}, {"POST", "/api/me/recovery-codes", nil}, {"GET", "/api/me/export", nil},
			{"DELETE", "/api/me/sessions/" + other.sessionID(), nil}, {"POST", "/api/me/sessions/end-others", nil},
			{"PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": password + "!"}},
			{"DELETE", "/api/me", map[string]string{"password": password}},
			{"POST", "/api/admin/users", map[string]string{"handle": "eve"}}, {"PUT", "/api/admin/settings", map[string]int{"max_users": 9}},
			{"POST", "/api/admin/invites/revoke", map[string]string{"handle": "bob"}}, {"DELETE", "/api/admin/invites/0123456789ABCDEF", nil},
		}
		for _, h := range []string{"bob", "ada"} {
			at := "/api/admin/users/" + h
			acts = append(acts, call{"PATCH", at, map[string]any{"email_verified": false}}, call{"DELETE", at, nil}, call{"POST", at + "/suspend", nil},
				call{"POST", at + "/unsuspend", nil}, call{"PUT", at + "/flags", map[string]bool{"activity": true}}, call{"POST", at + "/reset-password-code", nil},
				call{"POST", at + "/reset-factors", nil}, call{"POST", at + "/sessions/end-all", nil}, call{"DELETE", at + "/sessions/" + other.sessionID(), nil})
		}
		refused := func(when string) {
			t.Helper()
			for _, c := range acts {
				wantProblem(t, when+": "+c.method+" "+c.path, ada.api(c.method, c.path, c.body), 403, "reauthentication_required")
			}
		}
		l.later(stale)
		got := ada.confirm(password, "")
		wantProblem(t, "the password alone", got, 401, "second_factor_required")
		if methods, _ := got.JSON(t)["methods"].([]any); len(methods) != 3 {
			t.Errorf("methods: %s", got.Text)
		}
		refused("the password alone")
		wantProblem(t, "the code alone", ada.confirm("", phone.code()), 401, "invalid_credentials")
		wantProblem(t, "the code and a wrong password", ada.confirm("not the password", phone.code()), 401, "invalid_credentials")
		refused("the code alone")
		wantStatus(t, "what needs no proof", ada.api("PATCH", "/api/me", map[string]string{"display_name": "Ada L"}), http.StatusOK)
		wantStatus(t, "one's own session", other.api("DELETE", "/api/me/sessions/"+other.sessionID(), nil), http.StatusNoContent)
		wantStatus(t, "delete", ada.api("DELETE", "/api/me", map[string]string{"password": password, "otp": phone.code()}), http.StatusNoContent)
	})
}

// Without a second factor the password is the whole proof, where it is asked for.
func TestStaleSessionWithoutAFactor(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		ada := l.signedIn("ada")
		l.later(stale)
		for _, c := range []call{
			{"PATCH", "/api/me", map[string]string{"email": "eve@example.net"}}, {"GET", "/api/me/export", nil}, {"POST", "/api/me/sessions/end-others", nil},
		} {
			wantProblem(t, c.method+" "+c.path, ada.api(c.method, c.path, c.body), 403, "reauthentication_required")
		}
		const better = "another of 3 hills"
		change := map[string]string{"current_password": "not the password", "new_password": better}
		wantProblem(t, "wrong password", ada.api("PUT", "/api/me/password", change), 401, "invalid_credentials")
		change["current_password"] = password
		wantStatus(t, "right password", ada.api("PUT", "/api/me/password", change), http.StatusOK)
		wantStatus(t, "confirm", ada.confirm(better, ""), http.StatusOK)
		wantStatus(t, "export", ada.api("GET", "/api/me/export", nil), http.StatusOK)
		l.later(stale)
		wantStatus(t, "delete", ada.api("DELETE", "/api/me", map[string]string{"password": better}), http.StatusNoContent)
	})
}

// A session that was kept when the first factor came is as it was opened: with the password alone. It does
// not end what it began before either.
func TestSessionFromBeforeTheFactorIsNotFresh(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		old, here := l.signedIn("ada"), l.signedIn("ada")
		phone, key := l.drawTOTP(old), l.keyring()
		begun := key.create(old, "Key of a thief")
		l.addPasskey(here, "Key", map[string]any{"keep_other_sessions": true})
		needStatus(t, "the session that was kept", old.me(), http.StatusOK)
		wantProblem(t, "an app", phone.confirmTOTP(old, nil), 403, "reauthentication_required")
		for _, c := range []call{
			{"POST", "/api/me/passkeys", begun}, {"POST", "/api/me/recovery-codes", nil}, {"GET", "/api/me/export", nil},
			{"PATCH", "/api/me", map[string]string{"email": "eve@example.net"}},
		} {
			wantProblem(t, c.method+" "+c.path, old.api(c.method, c.path, c.body), 403, "reauthentication_required")
		}
		if n := here.factors(); n != 1 {
			t.Errorf("%d factors, want 1", n)
		}
	})
}
