package httpd

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/provider"
)

var keepOthers = object{"keep_other_sessions": true}

func removeTOTP(b *browser, body any) response { return b.api("DELETE", "/api/me/totp", body) }

func removePasskey(b *browser, id string, body any) response {
	return b.api("DELETE", "/api/me/passkeys/"+id, body)
}

// demandFactors makes the settings demand a second factor of everybody with the flag activity.
func (l *life) demandFactors() {
	l.t.Helper()
	needStatus(l.t, "demand", l.admin(`PUT /settings {"second_factor_flags":["activity"]}`), 200)
}

func (l *life) setActivity(handle string, on bool) {
	l.t.Helper()
	needStatus(l.t, "flag", l.admin(fmt.Sprintf(`PUT /users/%s/flags {"activity":%t}`, handle, on)), 200)
}

// The settings and the applications demand a factor of the person, not of one session: the last one stays
// for as long as somebody demands it.
func TestLastFactorStaysWhileItIsDemanded(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.demandFactors()
	demands := func(acr string) *relyingParty {
		return l.app("app-"+acr, func(c *provider.Client) { c.Trusted, c.RequireACR = true, acr })
	}
	apps := map[string]*relyingParty{"2": demands("2"), "phr": demands("phr")}
	for i, c := range []struct {
		by            string // who demands: the settings, or a client by its class
		totp, passkey bool
		kept          int // factors after all was removed that can be
	}{
		{"settings", true, false, 1}, {"settings", false, true, 1}, {"settings", true, true, 1},
		{"2", true, false, 1}, {"2", true, true, 1}, {"phr", true, true, 1}, {"nobody", true, true, 0},
	} {
		name, handle := fmt.Sprintf("%s, TOTP %t, passkey %t", c.by, c.totp, c.passkey), fmt.Sprintf("u%d", i)
		l.member(handle)
		b := l.signedIn(handle)
		id, next := "", l.visitor()
		if c.totp {
			phone := l.addTOTP(b)
			next = l.signedInWith(handle, phone.code())
		}
		if c.passkey {
			var key *keyring
			key, id = l.addPasskey(b, "Key", nil)
			needStatus(t, name, key.prove(next, "sign-in"), 200)
		}
		b = next
		if app := apps[c.by]; app != nil {
			_, err := app.exchange(answered(t, b.get(app.authURL())).Get("code"))
			noError(t, err)
		} else if c.by == "settings" {
			l.setActivity(handle, true)
		}
		remove := func() (last response) {
			if c.totp {
				last = removeTOTP(b, nil)
			}
			if c.passkey {
				last = removePasskey(b, id, nil)
			}
			return last
		}
		last := remove()
		if n := b.factors(); n != c.kept {
			t.Errorf("%s: %d factors are left, want %d", name, n, c.kept)
		}
		if c.kept == 0 {
			continue
		}
		wantProblem(t, name, last, 409, "second_factor_demanded")
		if c.by == "settings" {
			l.setActivity(handle, false)
		} else {
			needStatus(t, name, b.call("DELETE /api/me/apps/app-"+c.by), 204)
		}
		wantStatus(t, name+", no longer demanded", remove(), 204)
	}
}

func TestTwoRemovalsAtOnceLeaveADemandedFactor(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.demandFactors()
		for round := range 3 {
			handle := fmt.Sprintf("u%d", round)
			l.member(handle, account.FlagActivity)
			phone := l.addTOTP(l.signedIn(handle))
			b := l.signedInWith(handle, phone.code())
			_, id := l.addPasskey(b, "Key", nil)
			got := inParallel(2, func(i int) int {
				if i == 0 {
					return removeTOTP(b, nil).StatusCode
				}
				return removePasskey(b, id, nil).StatusCode
			})
			if n := b.factors(); got[204] != 1 || got[409] != 1 || n != 1 {
				t.Errorf("round %d: %v, %d factors are left", round, got, n)
			}
		}
	})
}

// What a session once proved is worth nothing where the person has no factor any more (L6).
func TestSessionOfAFactorThatIsGoneHasToSetOneUp(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.member("ada")
	ada := l.signedIn("ada")
	phone := l.addTOTP(ada)
	ada = l.signedInWith("ada", phone.code())
	needStatus(t, "remove", removeTOTP(ada, nil), 204)
	l.demandFactors()
	l.setActivity("ada", true)
	l.later(5 * time.Second) // past what an instance remembers
	app := l.app("app", func(c *provider.Client) { c.Trusted = true })
	for _, path := range []string{"/api/me/sessions", "/api/me/export"} {
		wantProblem(t, path, ada.call("GET "+path), 403, "second_factor_setup_required")
	}
	wantAnswer(t, "an application", answered(t, ada.get(app.authURL("prompt", "none"))), "interaction_required")
	l.addTOTP(ada)
	wantStatus(t, "with a new one", ada.call("GET /api/me/sessions"), 200)
}

// Who sets up an authenticator app has just shown its code: nothing asks for it again.
func TestEnrolmentRaisesTheSession(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.member("ada")
	app := l.app("app", func(c *provider.Client) { c.Trusted, c.RequireACR = true, "2" })
	ada := l.signedIn("ada")
	before := ada.cookie("cairn_session")
	wantAnswer(t, "before", answered(t, ada.get(app.authURL("prompt", "none"))), "interaction_required")
	l.addTOTP(ada)
	after := ada.cookie("cairn_session")
	claims := jwtPayload(t, after)
	amr := mustJSON(t, claims["amr"])
	if after == before || claims["acr"] != "2" || !strings.Contains(amr, `"otp"`) || !strings.Contains(amr, `"mfa"`) {
		t.Errorf("new cookie: %t, acr %v, amr %s", after != before, claims["acr"], amr)
	}
	wantStatus(t, "the token before", l.as(before), 401)
	wantAnswer(t, "after", answered(t, ada.get(app.authURL("prompt", "none"))), "code")
}

// What ends the sessions in other browsers, and what does not.
func TestWhatEndsTheOtherSessions(t *testing.T) {
	const ends, keeps = 401, 200
	const newPassword = `PUT /api/me/password {"current_password":"` + password + `","new_password":"another of 3 hills"}`
	l := startLife(t, serviceOptions{})
	type act func(b *browser, passkey string) response
	line := func(text string) act { return func(b *browser, _ string) response { return b.call(text) } }
	addTOTP := func(more object) act {
		return func(b *browser, _ string) response { return l.drawTOTP(b).confirmTOTP(b, more) }
	}
	newEmail := func(asked string) act {
		return func(b *browser, id string) response {
			needStatus(t, "ask", line(asked)(b, id), 200)
			return b.verifyEmail(l.verification(strings.Split(asked, `"`)[3]))
		}
	}
	addPasskey := func(more object) act {
		return func(b *browser, _ string) response {
			in := l.keyring().create(b, "Another")
			maps.Copy(in, more)
			return b.api("POST", "/api/me/passkeys", in)
		}
	}
	dropTOTP := func(body any) act { return func(b *browser, _ string) response { return removeTOTP(b, body) } }
	dropPasskey := func(body any) act {
		return func(b *browser, id string) response { return removePasskey(b, id, body) }
	}
	for i, c := range []struct {
		name          string
		totp, passkey bool // what there is before
		act           act
		other, byKey  int // GET /api/me of another session, and of one that the passkey opened
	}{
		{"password", false, false, line(newPassword), ends, 0},
		{"name", false, false, line(`PATCH /api/me {"display_name":"Ada"}`), keeps, 0},
		{"email, waiting", false, false, line(`PATCH /api/me {"email":"a@example.org"}`), keeps, 0},
		{"email", false, false, newEmail(`PATCH /api/me {"email":"new@example.org"}`), ends, 0},
		{"email, kept", false, false, newEmail(`PATCH /api/me {"email":"b@example.org","keep_other_sessions":true}`), keeps, 0},
		{"first app", false, false, addTOTP(nil), ends, 0},
		{"first app, kept", false, false, addTOTP(keepOthers), keeps, 0},
		{"first passkey", false, false, addPasskey(nil), keeps, 0},
		{"first passkey with a second step", false, false, addPasskey(object{"second_step": true}), ends, 0},
		{"first passkey with a second step, kept", false, false, addPasskey(object{"second_step": true, "keep_other_sessions": true}), keeps, 0},
		{"app after a passkey", false, true, addTOTP(nil), ends, ends},
		{"passkey after an app", true, false, addPasskey(nil), keeps, 0},
		{"second passkey", false, true, addPasskey(nil), keeps, keeps},
		{"app removed", true, true, dropTOTP(nil), ends, ends},
		{"app removed, kept", true, true, dropTOTP(keepOthers), keeps, keeps},
		{"passkey removed", true, true, dropPasskey(nil), ends, ends},
		{"passkey removed, kept", true, true, dropPasskey(keepOthers), keeps, ends},
	} {
		handle := fmt.Sprintf("u%d", i)
		l.member(handle)
		here := l.signedIn(handle)
		var phone *phone
		if c.totp {
			phone = l.addTOTP(here)
		}
		id, byKey := "", l.visitor()
		other := byKey
		if c.passkey {
			var key *keyring
			key, id = l.addPasskey(here, "Key", nil)
			needStatus(t, c.name, key.prove(byKey, "sign-in"), 200)
			needStatus(t, c.name, key.prove(here, "confirm"), 200)
		}
		switch {
		case phone != nil:
			other = l.signedInWith(handle, phone.code())
		case !c.passkey:
			other = l.signedIn(handle)
		}
		got := c.act(here, id)
		if got.StatusCode/100 != 2 {
			t.Errorf("%s: %d %.200s", c.name, got.StatusCode, got.Text)
			continue
		}
		wantStatus(t, c.name+", here", here.me(), 200)
		wantStatus(t, c.name+", elsewhere", other.me(), c.other)
		if c.byKey != 0 {
			wantStatus(t, c.name+", opened by the passkey", byKey.me(), c.byKey)
		}
	}
}

// The owner of the address before gets it back, whatever a thief does after the first change, and when; and what is not
// verified is cancelled by the first link (L2).
func TestUndoOfAnAddressOutlivesLaterChanges(t *testing.T) {
	l := startLife(t, serviceOptions{})
	for i, gap := range []time.Duration{0, time.Second, 2 * time.Minute} {
		for _, verified := range []bool{false, true} {
			handle := fmt.Sprintf("u%d%t", i, verified)
			name, owner := fmt.Sprintf("%s apart, verified %t", gap, verified), handle+"@example.org"
			l.member(handle)
			thief := l.signedIn(handle)
			l.mails()
			undo, later := "", []string{} // of the first change, and of the ones after it
			for n := range 3 {
				to, before := fmt.Sprintf("%s-%d@example.net", handle, n), fmt.Sprintf("%s-%d@example.net", handle, n-1)
				var all map[string][]mail.Message
				page := "/undo-email/"
				if verified {
					all = l.moveEmail(thief, to)
				} else {
					needStatus(t, name, thief.changeEmail(to), 200)
					page, all = "/cancel-email/", l.mails()
				}
				if n == 0 {
					undo = page + "?" + url.Values{"link": {linkIn(only(t, name, all, owner), page, "link")}}.Encode()
				}
				if len(all[owner]) != 1 {
					t.Errorf("%s: %d mails to the owner of the address before at change %d, want 1", name, len(all[owner]), n+1)
				}
				for _, m := range all[before] {
					later = append(later, linkIn(m, page, "link"))
				}
				l.later(gap)
			}
			press := func(link string) response {
				return l.visitor().postForm("/undo-email/", url.Values{"link": {link}})
			}
			for _, link := range later[min(1, len(later)):] {
				press(link) // the thief's: whatever it does, the owner's works after it
			}
			page, link, _ := strings.Cut(undo, "?link=")
			link, _ = url.QueryUnescape(link)
			wantStatus(t, name, l.visitor().postForm(page, url.Values{"link": {link}}), 200)
			for _, link := range later {
				wantStatus(t, name+", a later link", press(link), 400)
			}
			if verified {
				wantStatus(t, name+", the thief", thief.me(), 401)
			} else if got := thief.me().JSON(t)["email_pending"]; got != "" {
				t.Errorf("%s: %v waits", name, got)
			}
			if u := l.user(handle); u["email"] != owner || u["email_verified"] != true {
				t.Errorf("%s: the address is %v, verified %v", name, u["email"], u["email_verified"])
			}
		}
	}
}

// An owner who takes the address back on the page of the account, and not by the link, is as safe (L2).
func TestOwnersWayBackIsNotUndone(t *testing.T) {
	l := startLife(t, serviceOptions{})
	const owner, other, third = "ada@example.org", "thief@example.net", "thief3@example.net"
	l.member("ada")
	ada := l.signedIn("ada")
	change := func(to string) (undo string) {
		t.Helper()
		needStatus(t, to, ada.confirm(password, ""), 200)
		l.mails()
		before := l.user("ada")["email"].(string)
		return linkIn(only(t, to, l.moveEmail(ada, to), before), "/undo-email/", "link")
	}
	press := func(link string) response { return l.visitor().postForm("/undo-email/", url.Values{"link": {link}}) }
	first := change(other)
	later := []string{change(third)}
	l.later(24 * time.Hour)
	later = append(later, change(owner))
	for _, link := range later {
		wantStatus(t, "a thief's link", press(link), 400)
	}
	if u := l.user("ada"); u["email"] != owner || u["email_verified"] != true {
		t.Errorf("the address is %v, verified %v", u["email"], u["email_verified"])
	}
	wantStatus(t, "the session", ada.me(), 200)
	last := change(other)
	undone := press(last)
	wantStatus(t, "the owner's latest link", undone, 200)
	form := url.Values{"handle": {"ada"}, "code": {valueOf(t, undone.Text, "code")}, "password": {password}, "listed": {"1"}}
	needStatus(t, "new password", l.visitor().postForm("/reset-password/", form), 200)
	ada = l.signedIn("ada")
	change(other)
	wantStatus(t, "the owner's first link", press(first), 200)
	if u := l.user("ada"); u["email"] != owner || u["email_verified"] != true {
		t.Errorf("the address is %v, verified %v", u["email"], u["email_verified"])
	}
}

func TestUndoAndAFurtherChangeAtOnce(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		for round := range 6 {
			handle := fmt.Sprintf("u%d", round)
			owner := handle + "@example.org"
			l.member(handle)
			thief, stranger := l.signedIn(handle), l.visitor()
			l.mails()
			told := l.moveEmail(thief, fmt.Sprintf("thief%d@example.net", round))
			form := url.Values{"link": {linkIn(only(t, "change", told, owner), "/undo-email/", "link")}}
			atOnce(func() { stranger.postForm("/undo-email/", form) }, func() { thief.changeEmail("other@example.net") },
				func() { thief.changeEmail("third@example.net") })
			if l.user(handle)["email"] != owner {
				wantStatus(t, "undo again", stranger.postForm("/undo-email/", form), 200)
			}
			if u := l.user(handle); u["email"] != owner || u["email_verified"] != true {
				t.Errorf("round %d: the address is %v, verified %v", round, u["email"], u["email_verified"])
			}
			if u, err := l.store.UserByHandle(t.Context(), handle); err != nil || u.Pending.Email != "" {
				t.Errorf("round %d: %s waits, %v", round, u.Pending.Email, err)
			}
		}
	})
}

func TestVerifiedAddressIsThatOfOneAccount(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		for handle, address := range map[string]string{"bob": "ada@example.org", "kim": "ADA@Example.Org"} {
			l.member(handle)
			bob := l.signedIn(handle)
			l.mails()
			needStatus(t, address, bob.changeEmail(address), 200)
			m := l.mail(address, address)
			wantProblem(t, address+", code", bob.verifyEmail(m), 409, "email_taken")
			form := url.Values{"link": {linkIn(m, "/verify-email/", "link")}}
			wantStatus(t, address+", link", bob.postForm("/verify-email/", form), 409)
			byAdmin := l.admin("PATCH /users/" + handle + ` {"email_verified":true,"email":"` + address + `"}`)
			wantProblem(t, address+", administrator", byAdmin, 409, "email_taken")
			if l.user(handle)["email"] != handle+"@example.org" {
				t.Errorf("%s: verified twice", address)
			}
		}
		for round := range 3 {
			var both []*browser
			var sent []mail.Message
			for i, address := range []string{fmt.Sprintf("kim%d@example.org", round), fmt.Sprintf("KIM%d@example.org", round)} {
				handle := fmt.Sprintf("u%d-%d", round, i)
				l.member(handle)
				b := l.signedIn(handle)
				l.mails()
				needStatus(t, address, b.changeEmail(address), 200)
				both, sent = append(both, b), append(sent, l.mail(address, address))
			}
			got := inParallel(2, func(i int) int { return both[i].verifyEmail(sent[i]).StatusCode })
			n := 0
			for _, b := range both {
				if b.me().JSON(t)["email"] == fmt.Sprintf("kim%d@example.org", round) {
					n++
				}
			}
			if got[200] != 1 || got[409] != 1 || n != 1 {
				t.Errorf("round %d: %v, verified for %d accounts", round, got, n)
			}
		}
	})
}

// An administrator who ends all sessions of an account that is in wrong hands ends what they have made.
func TestAdministratorEndsOfflineAccessToo(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.member("ada")
	app := l.app("app", func(c *provider.Client) { c.Trusted = true })
	ada, token := l.signedInTokens(app, "ada")
	needStatus(t, "end all", l.admin("POST /users/ada/sessions/end-all"), 200)
	wantStatus(t, "session", ada.me(), 401)
	wantInvalidGrant(t, "refresh", app.refresh(token.RefreshToken))
	l.wantUserinfo("userinfo", token.AccessToken, 401)
}
