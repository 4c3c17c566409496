package httpd

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// "That wasn’t me" ends what a thief's session has made: also what would outlive it (L7).
func TestNotMeEndsAllThatASessionHasMade(t *testing.T) {
	l := startLife(t, serviceOptions{Limits: true})
	l.member("ada")
	app := l.app("app", func(c *provider.Client) { c.Trusted = true })
	owner, thief := l.signedIn("ada"), l.visitor()
	enter := func(b *browser) *oauth2.Token {
		token, err := app.exchange(answered(t, b.get(app.authURL())).Get("code"))
		noError(t, err)
		return token
	}
	kept := enter(owner)
	l.mails()
	needStatus(t, "thief", thief.login("ada", password), 200)
	token := enter(thief)
	form := url.Values{"link": {linkIn(l.mail("sign-in", "ada@example.org"), "/not-me/", "link")}}
	second := l.visitor()
	needStatus(t, "a second one of the thief", second.login("ada", password), 200)
	invite := second.invite()
	page := needStatus(t, "not me", l.visitor().postForm("/not-me/", form), 200)
	wantStatus(t, "session", thief.me(), 401)
	wantStatus(t, "the second session", second.me(), 401)
	wantProblem(t, "the invite", l.visitor().register(invite, "mallory"), 400, "invalid_invite")
	wantInvalidGrant(t, "refresh", app.refresh(token.RefreshToken))
	l.wantUserinfo("userinfo", token.AccessToken, 401)
	wantStatus(t, "the owner's session", owner.me(), 401)
	wantInvalidGrant(t, "the owner's application", app.refresh(kept.RefreshToken))
	wantProblem(t, "the old password", l.visitor().login("ada", password), 403, "password_disowned")
	reset := url.Values{"handle": {"ada"}, "code": {valueOf(t, page.Text, "code")}, "password": {"another of 3 hills"}}
	wantStatus(t, "new password", l.visitor().postForm("/reset-password/", reset), 200)
	needStatus(t, "the owner", owner.login("ada", "another of 3 hills"), 200)

	// The address no longer belongs to the owner: it shares the limit of the account with all others.
	for range 10 {
		wantStatus(t, "guess", l.visitor().login("ada", "not the password"), 401)
	}
	wantProblem(t, "the thief's address", thief.login("ada", "another of 3 hills"), 429, "rate_limited")
	wantStatus(t, "the owner's address", owner.login("ada", "another of 3 hills"), 200)
	// Nor is the browser. The mails of an hour count in the next one too.
	l.later(2 * time.Hour)
	l.mails()
	needStatus(t, "once more", thief.login("ada", "another of 3 hills"), 200)
	l.mail("the next sign-in of that browser", "ada@example.org")
}

// A copy of the owner's cookie does not make the browser of a thief who knows the password a known one.
func TestCopiedCookieDoesNotSilenceASignIn(t *testing.T) {
	l := startLife(t, serviceOptions{})
	for path, in := range map[string]object{
		"/api/auth/login": {"password": password}, "/api/auth/confirm": {"password": password},
	} {
		handle := path[len("/api/auth/"):]
		l.member(handle)
		if in["handle"] = handle; handle == "confirm" {
			delete(in, "handle")
		}
		owner, thief := l.signedIn(handle), l.visitor()
		needStatus(t, path, owner.confirm(password, ""), 200)
		if sent := l.mails(); len(sent) > 0 {
			t.Errorf("%s: mails to the owner in the owner's browser: %q", path, sent)
		}
		copied := "cairn_session=" + owner.cookie("cairn_session")
		needStatus(t, path, thief.api("POST", path, in, "Cookie", copied), 200)
		link := linkIn(l.mail(path, handle+"@example.org"), "/not-me/", "link")
		wantStatus(t, path, l.visitor().postForm("/not-me/", url.Values{"link": {link}}), 200)
		wantStatus(t, path+": the thief", thief.me(), 401)
		l.mail(path+": all ended", handle+"@example.org")
	}
}

// Whoever changed the address knows the password, which opens nothing once the owner has undone that.
func TestUndoDisownsThePassword(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.member("ada")
	l.signedIn("ada")
	thief := l.signedIn("ada")
	l.mails()
	told := l.moveEmail(thief, "thief@example.net")["ada@example.org"]
	form := url.Values{"link": {linkIn(told[0], "/undo-email/", "link")}}
	wantStatus(t, "undo", l.visitor().postForm("/undo-email/", form), 200)
	l.later(3 * time.Hour)
	l.mails()
	wantProblem(t, "the thief again", thief.login("ada", password), 403, "password_disowned")
}

// Who has lost an account for an hour has to see what was left in it.
func TestPagesAfterALossShowWhatIsThere(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.member("ada")
	owner := l.signedIn("ada")
	l.addTOTP(owner)
	l.addPasskey(owner, "Blue key", nil)
	codes := needStatus(t, "codes", owner.call("POST /api/me/recovery-codes"), 200).JSON(t)["recovery_codes"].([]any)
	l.later(24 * time.Hour)
	l.mails()
	thief := l.signedInWith("ada", codes[0].(string))
	link := ""
	for _, m := range l.mails()["ada@example.org"] { // of the sign-in, and of the recovery code
		link += linkIn(m, "/not-me/", "link")
	}
	l.addPasskey(thief, "Red key", nil)
	l.moveEmail(thief, "thief@example.net")
	day := `datetime="` + l.now().Format(time.DateOnly)
	shows := func(what string, got response, texts ...string) {
		t.Helper()
		wantStatus(t, what, got, 200)
		for _, text := range texts {
			if !strings.Contains(mainOf(got.Text), text) {
				t.Errorf("%s: the page does not show %q: %s", what, text, mainOf(got.Text))
			}
		}
	}
	got := l.visitor().postForm("/not-me/", url.Values{"link": {link}})
	shows("not me", got, "Red key", day, "t…@example.net", `id="reset-submit"`)
	if strings.Contains(got.Text, "Blue key") || strings.Contains(got.Text, "thief@example.net") {
		t.Errorf("not me: it shows what was there before, or a whole address: %s", mainOf(got.Text))
	}
	needStatus(t, "contact", l.admin(`PUT /settings {"contact":"Kim at the boathouse"}`), 200)
	code := needStatus(t, "code", l.admin("POST /users/ada/reset-password-code"), 201).text(t, "code")
	form := url.Values{"handle": {"ada"}, "code": {code}, "password": {password + "!"}, "listed": {"1"}}
	after := l.visitor().postForm("/reset-password/", form)
	shows("reset", after, "Blue key", day, "Kim at the boathouse")
	if strings.Contains(after.Text, "Red key") {
		t.Error("what was added in the disowned session is still there")
	}
}

// Who takes an account by its address first, and verifies it, cannot do the rest silently (L5).
func TestVerifiedNewAddressDoesNotSilenceTheOneBefore(t *testing.T) {
	l := startLife(t, serviceOptions{})
	l.member("ada")
	thief := l.signedIn("ada")
	l.mails()
	const owner, other = "ada@example.org", "thief@example.net"
	l.moveEmail(thief, other)
	told := func(what string, to ...string) {
		t.Helper()
		sent := l.mails()
		if len(sent) != len(to) {
			t.Errorf("%s: mails to %d addresses, want %d: %q", what, len(sent), len(to), sent)
		}
		for _, address := range to {
			only(t, what, sent, address)
		}
	}
	l.addPasskey(thief, "Red key", nil)
	told("passkey", owner, other)
	needStatus(t, "password", thief.changePassword(password, "another of 3 hills"), 200)
	told("password", owner, other)
	needStatus(t, "suspend", l.admin("POST /users/ada/suspend"), 200)
	told("suspension", owner, other)
	needStatus(t, "unsuspend", l.admin("POST /users/ada/unsuspend"), 200)
	told("the end of it", owner, other)
	l.later(account.UndoLifetime)
	needStatus(t, "suspend", l.admin("POST /users/ada/suspend"), 200)
	told("when the change can no longer be undone", other)
}

// Reasons are for administrators, unless they say otherwise.
func TestReasonOfASuspensionIsToldWhereAsked(t *testing.T) {
	l := startLife(t, serviceOptions{})
	const reason = "Owes for two boats"
	l.member("probe")
	f := formOn(t, l.keeper.get("/admin/users/probe").Text, "/admin/users/probe/suspend")
	if f == nil || !f.fields.Has("tell_reason") {
		t.Fatalf("no box tell_reason: %+v", f)
	}
	for handle, c := range map[string]struct{ api, told bool }{
		"ada": {true, false}, "bob": {true, true}, "eve": {false, false}, "kim": {false, true},
	} {
		l.member(handle)
		l.mails()
		path, in, form := "/users/"+handle+"/suspend", object{"reason": reason}, url.Values{"reason": {reason}, "sure": {"yes"}}
		if c.told {
			in["tell_reason"], form["tell_reason"] = true, f.fields["tell_reason"]
		}
		if c.api {
			wantStatus(t, handle, l.admin("POST "+path+" "+mustJSON(t, in)), 200)
		} else {
			wantStatus(t, handle, l.keeper.postForm("/admin"+path, form), 303)
		}
		m := l.mail(handle, handle+"@example.org")
		if got := strings.Contains(m.Text, reason); got != c.told || strings.Contains(m.HTML, reason) != got {
			t.Errorf("%s, %+v: reason in the mail: %t", handle, c, got)
		}
		same(t, handle+": reason", l.user(handle)["suspend_reason"], reason)
	}
}

// Strangers who guess do not take the owner's way back (L4).
func TestWrongResetCodesDoNotRefuseTheRightOne(t *testing.T) {
	l := startLife(t, serviceOptions{Limits: true})
	l.member("ada")
	l.member("bob")
	here := l.visitor()
	for handle, from := range map[string]func() *browser{"ada": func() *browser { return here }, "bob": l.visitor} {
		code := needStatus(t, "code", l.admin("POST /users/"+handle+"/reset-password-code"), 201)
		got := map[int]int{}
		for i := range 20 {
			got[from().reset(handle, fmt.Sprintf("%026d", i), password+"!").StatusCode]++
		}
		if got[400] != 5 || got[429] != 15 { // the limit of an account
			t.Errorf("%s: %v, want 15 of 429", handle, got)
		}
		right := code.text(t, "code")
		wantStatus(t, "the right code of "+handle, here.reset(handle, right, password+"!"), 200)
	}
}

// valueOf returns the value of a hidden field of a page.
func valueOf(t *testing.T, page, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `name="`+name+`" value="`)
	value, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("no field %s in %s", name, mainOf(page))
	}
	return html.UnescapeString(value)
}
