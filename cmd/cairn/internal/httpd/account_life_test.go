package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

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
		same(t, fmt.Sprintf("%s: factors are left", name), b.factors(), c.kept)
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

// What a session once proved is worth nothing where the person has no factor any more (L6).
func TestSessionOfAFactorThatIsGoneHasToSetOneUp(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada")
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
	l := startLife(t, serviceOptions{}, "ada")
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

// An administrator who ends all sessions of an account that is in wrong hands ends what they have made.
func TestAdministratorEndsOfflineAccessToo(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada")
	app := l.app("app", func(c *provider.Client) { c.Trusted = true })
	ada, token := l.signedInTokens(app, "ada")
	needStatus(t, "end all", l.admin("POST /users/ada/sessions/end-all"), 200)
	wantStatus(t, "session", ada.me(), 401)
	wantInvalidGrant(t, "refresh", app.refresh(token.RefreshToken))
	l.wantUserinfo("userinfo", token.AccessToken, 401)
}

// An account that ends is over at the next second at every instance, before any of them has noticed, and is ended once.
func TestAccountEndsAtEveryInstance(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		var ahead atomic.Int64 // seconds
		begin := time.Now().UTC().Truncate(time.Second)
		now := func() time.Time { return begin.Add(time.Duration(ahead.Load()) * time.Second) }
		stores := []*store.Store{storetest.OpenAt(t, dsn, now), storetest.OpenAt(t, dsn, now)}
		one := startService(t, serviceOptions{Store: stores[0], Now: now})
		two := startService(t, serviceOptions{Store: stores[1], Now: now})
		ada := one.addUser("ada")
		rp := one.app("app", nil)
		b, token := one.signedInTokens(rp, "ada")
		code := b.authorize(rp.authURL(), "ada").Get("code")
		ends := now().Add(20 * time.Second)
		noError(t, stores[0].SetEndOfAll(t.Context(), ends, now(), map[string]account.Audit{ada.Sub: operator(account.SetEnd, "ada", "")}))

		ahead.Add(19)
		wantStatus(t, "session in the last second", b.api("GET", "/api/me", nil), http.StatusOK)
		one.wantUserinfo("token in the last second", token.AccessToken, http.StatusOK)
		two.wantUserinfo("token in the last second, at the other", token.AccessToken, http.StatusOK)

		ahead.Add(1)
		wantProblem(t, "session", b.api("GET", "/api/me", nil), http.StatusUnauthorized, "not_authenticated")
		for i, s := range []*service{two, one} {
			wantProblem(t, "sign-in", s.visitor().login("ada", password), http.StatusForbidden, "account_suspended")
			wantInvalidGrant(t, "code", s.tokenRequest("app", rp.config.ClientSecret, rp.codeForm(code)))
			wantInvalidGrant(t, "refresh", s.refreshRequest("app", rp.config.ClientSecret, token.RefreshToken))
			s.wantUserinfo("token", token.AccessToken, http.StatusUnauthorized)
			if i == 0 { // it is the same with what EndDue has written
				together(2, func(i int) error {
					_, err := stores[i].EndDue(t.Context())
					noError(t, err)
					return err
				})
			}
		}
		rows, err := stores[0].AuditLog(t.Context(), account.AuditQuery{Kind: account.EndAccount.Action})
		noError(t, err)
		if len(rows) != 1 || rows[0].Target != "ada" {
			t.Errorf("audit log: %+v", rows)
		}
	})
}

// Sign-ins are answered while an administrator suspends 500 people, in one transaction.
func TestSignInsGoOnDuringAnActOnMany(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		var who []string
		for i := range roster.MaxAtOnce {
			who = append(who, fmt.Sprint("p", i))
			l.member(who[i])
		}
		needStatus(t, "keeper", l.keeper.confirm(password, ""), 200)
		suspended := make(chan response, 1)
		go func() {
			suspended <- l.keeper.postForm("/admin/users/selected", url.Values{"who": {strings.Join(who, " ")}, "do": {"suspend"}, "sure": {"yes"}})
		}()
		n := 0
		for ; len(suspended) == 0; n++ {
			wantStatus(t, "sign-in meanwhile", l.visitor().login("ada", password), http.StatusOK)
		}
		needStatus(t, "suspend", <-suspended, 200)
		if got := l.user("p499"); got["suspended"] != true || n == 0 {
			t.Errorf("after %d sign-ins: %v", n, got)
		}
	})
}
