package httpd

import (
	"net/url"
	"testing"

	"github.com/cairn-id/cairn/account"
)

// A copy of the cookie from before a proof is worth nothing after it: here, and to the applications that
// verify it on their own.
func TestProofMakesANewTokenAndEndsTheOneBefore(t *testing.T) {
	oneLife(t, false, func(t *testing.T, l *life) {
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
	})
}

// What a thief of a session and of the password cannot do to an account with a second factor (L1).
func TestPasswordAloneIsNoProofOfAnAccountWithAFactor(t *testing.T) {
	oneLife(t, false, func(t *testing.T, l *life) {
		l.member("ada", account.FlagAdmin)
		l.member("bob")
		ada := l.signedIn("ada")
		phone := l.addTOTP(ada)
		_, key := l.addPasskey(ada, "Key", nil)
		other := l.signedInWith("ada", phone.code())
		acts := []string{
			`PATCH /api/me {"email":"eve@example.net"}`, `POST /api/me/totp`, `DELETE /api/me/totp`,
			`POST /api/me/passkeys/begin`, `POST /api/me/passkeys {"state":"x","credential":{}}`,
			`DELETE /api/me/passkeys/` + key, `POST /api/me/recovery-codes`, `GET /api/me/export`,
			`DELETE /api/me/sessions/` + other.sessionID(), `POST /api/me/sessions/end-others`,
			`PUT /api/me/password {"current_password":"` + password + `","new_password":"another of 3 hills"}`,
			`DELETE /api/me {"password":"` + password + `"}`, `POST /api/admin/users {"handle":"eve"}`,
			`PUT /api/admin/settings {"max_users":9}`, `POST /api/admin/invites/revoke {"handle":"bob"}`,
			`DELETE /api/admin/invites/0123456789ABCDEF`,
		}
		for _, u := range []string{"bob", "ada"} {
			u = "/api/admin/users/" + u
			acts = append(acts, `PATCH `+u+` {"email_verified":false}`, `POST `+u+`/suspend`, `POST `+u+`/unsuspend`,
				`PUT `+u+`/flags {"activity":true}`, `POST `+u+`/reset-password-code`, `POST `+u+`/reset-factors`,
				`POST `+u+`/sessions/end-all`, `DELETE `+u+`/sessions/`+other.sessionID(), `DELETE `+u)
		}
		refused := func(when string) {
			t.Helper()
			for _, line := range acts {
				wantProblem(t, when+": "+line, ada.call(line), 403, "reauthentication_required")
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
		wantProblem(t, "a wrong password", ada.confirm("not the password", phone.code()), 401, "invalid_credentials")
		refused("the code alone")
		wantStatus(t, "what needs no proof", ada.call(`PATCH /api/me {"display_name":"Ada L"}`), 200)
		wantStatus(t, "one's own session", other.call("DELETE /api/me/sessions/"+other.sessionID()), 204)
		proof := object{"password": password, "otp": phone.code()}
		wantStatus(t, "delete", ada.api("DELETE", "/api/me", proof), 204)
	})
}

// A session that was kept when the first factor came is as it was opened: with the password alone. It does
// not end what it began before either.
func TestSessionFromBeforeTheFactorIsNotFresh(t *testing.T) {
	oneLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		old, here := l.signedIn("ada"), l.signedIn("ada")
		phone, key := l.drawTOTP(old), l.keyring()
		begun := key.create(old, "Key of a thief")
		l.addPasskey(here, "Key", object{"keep_other_sessions": true})
		needStatus(t, "the session that was kept", old.me(), 200)
		wantProblem(t, "an app", phone.confirmTOTP(old, nil), 403, "reauthentication_required")
		wantProblem(t, "a passkey", old.api("POST", "/api/me/passkeys", begun), 403, "reauthentication_required")
		for _, line := range []string{
			`POST /api/me/recovery-codes`, `GET /api/me/export`, `PATCH /api/me {"email":"eve@example.net"}`,
		} {
			wantProblem(t, line, old.call(line), 403, "reauthentication_required")
		}
		if n := here.factors(); n != 1 {
			t.Errorf("%d factors, want 1", n)
		}
	})
}
