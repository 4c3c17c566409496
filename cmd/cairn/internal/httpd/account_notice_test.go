package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// "That was not me" ends what a thief's session has made: also what would outlive it (L7).
func TestNotMeEndsAllThatASessionHasMade(t *testing.T) {
	eachLife(t, true, func(t *testing.T, l *life) {
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
		needStatus(t, "thief", thief.login("ada", password), http.StatusOK)
		token := enter(thief)
		form := url.Values{"link": {linkIn(l.mail("sign-in", "ada@example.org"), "/not-me/", "link")}}
		wantStatus(t, "not me", l.visitor().postForm("/not-me/", form), http.StatusOK)
		wantStatus(t, "session", thief.me(), http.StatusUnauthorized)
		wantInvalidGrant(t, "refresh", app.refresh(token.RefreshToken))
		l.wantUserinfo("userinfo", token.AccessToken, http.StatusUnauthorized)
		wantStatus(t, "the owner's session", owner.me(), http.StatusOK)
		wantStatus(t, "the owner's application", app.refresh(kept.RefreshToken), http.StatusOK)

		// The address is none of the owner's any more: it shares the limit of the account with all others.
		for range 10 {
			wantStatus(t, "guess", l.visitor().login("ada", "not the password"), http.StatusUnauthorized)
		}
		wantProblem(t, "the thief's address", thief.login("ada", password), 429, "rate_limited")
		wantStatus(t, "the owner's address", owner.login("ada", password), http.StatusOK)
		// Nor is the browser.
		l.later(time.Hour)
		l.mails()
		needStatus(t, "once more", thief.login("ada", password), http.StatusOK)
		l.mail("the next sign-in of that browser", "ada@example.org")
	})
}

// Who has lost an account for an hour has to see what was left in it.
func TestPagesAfterALossShowWhatIsThere(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		owner := l.signedIn("ada")
		phone := l.addTOTP(owner)
		l.addPasskey(owner, "Blue key", nil)
		l.later(24 * time.Hour)
		l.mails()
		thief := l.signedInWith("ada", phone.recovery[0])
		sent := l.mails()["ada@example.org"] // of the sign-in, and of the recovery code
		link := ""
		for _, m := range sent {
			link += linkIn(m, "/not-me/", "link")
		}
		l.addPasskey(thief, "Red key", nil)
		needStatus(t, "address", thief.changeEmail("thief@example.net"), http.StatusOK)
		day := `datetime="` + l.now().Format(time.DateOnly)
		shows := func(what string, got response, texts ...string) {
			t.Helper()
			wantStatus(t, what, got, http.StatusOK)
			for _, text := range texts {
				if !strings.Contains(mainOf(got.Text), text) {
					t.Errorf("%s: the page does not show %q: %s", what, text, mainOf(got.Text))
				}
			}
		}
		got := l.visitor().postForm("/not-me/", url.Values{"link": {link}})
		shows("not me", got, "Red key", day, "t…@example.net", "/forgot-password/?handle=ada")
		if strings.Contains(got.Text, "Blue key") || strings.Contains(got.Text, "thief@example.net") {
			t.Errorf("not me: it shows what was there before, or a whole address: %s", mainOf(got.Text))
		}
		needStatus(t, "contact", l.admin("PUT", "/settings", map[string]string{"contact": "Kim at the boathouse"}), http.StatusOK)
		code := needStatus(t, "code", l.admin("POST", "/users/ada/reset-password-code", nil), http.StatusCreated).JSON(t)["code"].(string)
		form := url.Values{"handle": {"ada"}, "code": {code}, "password": {password + "!"}}
		shows("reset", l.visitor().postForm("/reset-password/", form), "Blue key", "Red key", day, "Kim at the boathouse")
	})
}

// Whatever an administrator does to an account is told to the address that was verified before (L5).
func TestMemberIsToldOfEachActOfAnAdministrator(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		nothing := func(*browser, string) {}
		for i, c := range []struct {
			name, method, path string
			body               any
			before             func(b *browser, handle string)
		}{
			{"flags", "PUT", "/flags", map[string]bool{account.FlagActivity: true}, nothing},
			{"admin given", "PUT", "/flags", map[string]bool{account.FlagAdmin: true}, nothing},
			{"admin taken", "PUT", "/flags", map[string]bool{account.FlagAdmin: false}, func(_ *browser, handle string) {
				needStatus(t, "admin", l.admin("PUT", "/users/"+handle+"/flags", map[string]bool{account.FlagAdmin: true}), http.StatusOK)
			}},
			{"address", "PATCH", "", map[string]any{"email": "new@example.org"}, nothing},
			{"address, verified", "PATCH", "", map[string]any{"email": "new2@example.org", "email_verified": true}, nothing},
			{"not verified", "PATCH", "", map[string]any{"email_verified": false}, nothing},
			{"factors", "POST", "/reset-factors", nil, func(b *browser, _ string) { l.addTOTP(b) }},
			{"reset code", "POST", "/reset-password-code", nil, nothing},
			{"a session", "DELETE", "/sessions/ID", nil, nothing},
			{"all sessions", "POST", "/sessions/end-all", nil, nothing},
			{"suspended", "POST", "/suspend", nil, nothing},
			{"unsuspended", "POST", "/unsuspend", nil, func(_ *browser, handle string) {
				needStatus(t, "suspend", l.admin("POST", "/users/"+handle+"/suspend", nil), http.StatusOK)
			}},
		} {
			handle := fmt.Sprintf("u%d", i)
			l.member(handle)
			b := l.signedIn(handle)
			id := b.sessionID()
			c.before(b, handle)
			l.mails()
			got := l.admin(c.method, "/users/"+handle+strings.ReplaceAll(c.path, "ID", id), c.body)
			sent := l.mails()
			if n := len(sent[handle+"@example.org"]); got.StatusCode/100 != 2 || n != 1 {
				t.Errorf("%s: %d, %d mails to the address verified before, want 1: %q", c.name, got.StatusCode, n, sent)
			}
		}
	})
}

// Reasons are for administrators, unless they say otherwise.
func TestReasonOfASuspensionIsToldWhereAsked(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		const reason = "Owes for two boats"
		for i, c := range []struct {
			name    string
			suspend func(handle string) response
			told    bool
		}{
			{"silent", func(handle string) response {
				return l.admin("POST", "/users/"+handle+"/suspend", map[string]any{"reason": reason})
			}, false},
			{"told", func(handle string) response {
				return l.admin("POST", "/users/"+handle+"/suspend", map[string]any{"reason": reason, "tell_reason": true})
			}, true},
			{"form, silent", func(handle string) response {
				return l.keeper.postForm("/admin/users/"+handle+"/suspend", url.Values{"reason": {reason}})
			}, false},
			{"form, told", func(handle string) response {
				path := "/admin/users/" + handle + "/suspend"
				f := formOn(t, l.keeper.get("/admin/users/"+handle).Text, path)
				if f == nil || len(f.boxes["tell_reason"]) != 1 {
					t.Errorf("no box tell_reason: %+v", f)
					return response{}
				}
				return l.keeper.postForm(path, url.Values{"reason": {reason}, "tell_reason": f.boxes["tell_reason"]})
			}, true},
		} {
			handle := fmt.Sprintf("u%d", i)
			l.member(handle)
			l.mails()
			if got := c.suspend(handle); got.Response == nil || got.StatusCode/100 > 3 {
				t.Errorf("%s: %.200s", c.name, got.Text)
				continue
			}
			m := l.mail(c.name, handle+"@example.org")
			if told := strings.Contains(m.Text, reason); told != c.told || strings.Contains(m.HTML, reason) != told {
				t.Errorf("%s: reason in the mail: %t, want %t", c.name, told, c.told)
			}
			if u := l.user(handle); u["suspend_reason"] != reason {
				t.Errorf("%s: reason %q", c.name, u["suspend_reason"])
			}
		}
	})
}

// The administration is no way round the proofs of one's own account.
func TestOwnAccountIsNotAdministered(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		for _, c := range []call{
			{"POST", "/users/keeper/reset-password-code", nil}, {"PATCH", "/users/keeper", map[string]any{"email_verified": false}},
			{"PATCH", "/users/keeper", map[string]any{"email": "new@example.org"}}, {"POST", "/users/keeper/reset-factors", nil},
		} {
			wantProblem(t, c.method+" "+c.path, l.admin(c.method, c.path, c.body), 409, "own_account")
		}
		if u := l.user("keeper"); u["email"] != "keeper@example.org" || u["email_verified"] != true {
			t.Errorf("changed: %v", u)
		}
		wantStatus(t, "name", l.admin("PATCH", "/users/keeper", map[string]any{"display_name": "Kim"}), http.StatusOK)
	})
}

// addAdmin adds an administrator who has no password yet, and returns the code to set one.
func (l *life) addAdmin(handle string) (code string) {
	l.t.Helper()
	in := map[string]any{"handle": handle, "flags": map[string]bool{account.FlagAdmin: true}}
	return needStatus(l.t, "add", l.admin("POST", "/users", in), http.StatusCreated).JSON(l.t)["code"].(string)
}

var demote = map[string]bool{account.FlagAdmin: false}

// Who has never set a password cannot take over an installation.
func TestLastAdministratorIsOneWhoCanSignIn(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		code := l.addAdmin("newcomer")
		wantProblem(t, "demote", l.admin("PUT", "/users/keeper/flags", demote), 409, "last_admin")
		wantProblem(t, "delete", l.keeper.api("DELETE", "/api/me", map[string]string{"password": password}), 409, "last_admin")
		needStatus(t, "first password", l.visitor().reset("newcomer", code, password), http.StatusOK)
		wantStatus(t, "demote", l.admin("PUT", "/users/keeper/flags", demote), http.StatusOK)
	})
}

func TestAdministratorsWhoDemoteEachOtherLeaveOne(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.addAdmin("newcomer")
		for round, handle := range []string{"ada", "bob", "kim"} {
			l.member(handle, account.FlagAdmin)
			b := l.signedIn(handle)
			got := inParallel(2, func(i int) int {
				if i == 0 {
					return b.api("PUT", "/api/admin/users/keeper/flags", demote).StatusCode
				}
				return l.keeper.api("PUT", "/api/admin/users/"+handle+"/flags", demote).StatusCode
			})
			left := slices.DeleteFunc(l.administrators(), func(h string) bool { return h == "newcomer" })
			if got[http.StatusOK] != 1 || len(left) != 1 {
				t.Fatalf("round %d: %v, administrators who can sign in: %v", round, got, left)
			}
			if left[0] == handle { // the keeper comes back for the next round
				needStatus(t, "back", b.api("PUT", "/api/admin/users/keeper/flags", map[string]bool{account.FlagAdmin: true}), http.StatusOK)
				needStatus(t, "alone", l.admin("PUT", "/users/"+handle+"/flags", demote), http.StatusOK)
			}
		}
	})
}

// Strangers who guess do not take the owner's way back (L4).
func TestWrongResetCodesDoNotRefuseTheRightOne(t *testing.T) {
	eachLife(t, true, func(t *testing.T, l *life) {
		l.member("ada")
		l.member("bob")
		here := l.visitor()
		guess := func(b *browser, handle string, i int) int {
			return b.reset(handle, fmt.Sprintf("%026d", i), password+"!").StatusCode
		}
		for _, handle := range []string{"ada", "bob"} {
			code := needStatus(t, "code", l.admin("POST", "/users/"+handle+"/reset-password-code", nil), http.StatusCreated).JSON(t)["code"].(string)
			got := map[int]int{}
			if handle == "ada" {
				for i := range 20 {
					got[guess(here, handle, i)]++
				}
				if got[http.StatusBadRequest] != 10 || got[http.StatusTooManyRequests] != 10 {
					t.Errorf("from one address: %v, want 10 of 400 and 10 of 429", got)
				}
			} else {
				for i := range 20 {
					got[guess(l.visitor(), handle, i)]++
				}
				if got[http.StatusBadRequest] != 20 {
					t.Errorf("from many addresses: %v, want 20 of 400", got)
				}
			}
			wantStatus(t, "the right code of "+handle, here.reset(handle, code, password+"!"), http.StatusOK)
		}
	})
}

// What is counted is what was typed: 429 would tell whose address it is (L8).
func TestLimitDoesNotTellWhoseAddressItIs(t *testing.T) {
	eachLife(t, true, func(t *testing.T, l *life) {
		for handle, typed := range map[string][2]string{"anna": {"anna", "anna@example.org"}, "bela": {"bela@example.org", "bela"}} {
			l.member(handle)
			for range 10 {
				wantStatus(t, typed[0], l.visitor().login(typed[0], "not the password"), http.StatusUnauthorized)
			}
			wantStatus(t, typed[0]+" once more", l.visitor().login(typed[0], "not the password"), http.StatusTooManyRequests)
			wantStatus(t, typed[1], l.visitor().login(typed[1], "not the password"), http.StatusUnauthorized)
		}
	})
}
