package httpd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Attacks 107 and 109: an invite works once, in any spelling, and a refusal
// leaves it as it was.
func TestRefusedRegistrationLeavesTheInvite(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		keeper := s.signedIn("keeper")
		code, b := keeper.invite(), s.visitor()
		for _, c := range []struct{ name, body, code string }{
			{"taken handle", `"handle":"keeper","password":"` + password + `"`, "handle_taken"},
			{"taken handle in capitals", `"handle":"KEEPER","password":"` + password + `"`, "handle_taken"},
			{"reserved handle", `"handle":"admin","password":"` + password + `"`, "invalid_handle"},
			{"odd handle", `"handle":"../ada","password":"` + password + `"`, "invalid_handle"},
			{"no handle", `"password":"` + password + `"`, "invalid_handle"},
			{"weak password", `"handle":"grace","password":"password1"`, "weak_password"},
			{"no password", `"handle":"grace"`, "weak_password"},
			{"handle in password", `"handle":"grace","password":"amazing grace"`, "weak_password"},
			{"long name", `"handle":"grace","password":"` + password + `","display_name":"` + strings.Repeat("n", 61) + `"`, "invalid_display_name"},
			{"control in name", `"handle":"grace","password":"` + password + `","display_name":"a\u0007b"`, "invalid_display_name"},
			{"bidi in name", `"handle":"grace","password":"` + password + `","display_name":"a\u202eb"`, "invalid_display_name"},
			{"email", `"handle":"grace","password":"` + password + `","email":"grace at example.org"`, "invalid_email"},
			// Attack 110.
			{"mass assignment", `"handle":"grace","password":"` + password + `","is_admin":true`, "invalid_request"},
			{"flags", `"handle":"grace","password":"` + password + `","flags":{"admin":true}`, "invalid_request"},
			{"sub", `"handle":"grace","password":"` + password + `","sub":"x"`, "invalid_request"},
			{"role", `"handle":"grace","password":"` + password + `","role":"admin"`, "invalid_request"},
			{"twice", `"handle":"grace","handle":"eve","password":"` + password + `"`, "invalid_request"},
		} {
			got := b.api("POST", "/api/register", `{"code":"`+code+`",`+c.body+`}`)
			want := http.StatusBadRequest
			if c.code == "handle_taken" {
				want = http.StatusConflict
			}
			wantProblem(t, c.name, got, want, c.code)
			if got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s: a refusal sets cookies", c.name)
			}
		}
		spelt := " " + strings.ToLower(strings.ReplaceAll(code, "-", " ")) + " "
		needStatus(t, "the same invite after all", b.register(spelt, "grace"), http.StatusCreated)
		if me := b.api("GET", "/api/me", nil).JSON(t); fmt.Sprint(me["flags"]) != "map[activity:true admin:false]" {
			t.Errorf("a new member has %v", me["flags"])
		}
		for _, again := range []string{code, strings.ToLower(code), strings.ReplaceAll(code, "-", ""), spelt, strings.ReplaceAll(strings.ReplaceAll(code, "0", "o"), "1", "l")} {
			wantProblem(t, "again", s.visitor().register(again, "heidi"), http.StatusBadRequest, "invalid_invite")
		}
		wantProblem(t, "delete a used one", keeper.api("DELETE", "/api/invites/"+code, nil), http.StatusConflict, "invite_used")
	})
}

// Attack 112: a handle that looks like another one is that one or none.
func TestLookalikeHandleIsRefused(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("paypal")
		keeper := s.signedIn("keeper")
		code := keeper.invite()
		for _, h := range []string{
			"pаypal" /* Cyrillic */, "paypal\u200b", "pay\u00adpal", "\u202epaypal", "paypal\x00", "ｐａｙｐａｌ", "PAYPAL", "páypal", "paypal\u0301", "pay pal", "pay/pal", "..", ".", "-paypal", "paypal_",
			"a--", "a@b", "ı", "ａｄｍｉｎ", "%70aypal", "paypal\n", "<b>", strings.Repeat("a", 31), "", "ﬁsh", "ada?x", "ada#x", "me", "API", "Admin",
		} {
			got := s.visitor().register(code, h)
			if got.StatusCode != http.StatusBadRequest && got.StatusCode != http.StatusConflict {
				t.Errorf("%q: %d %s", h, got.StatusCode, got.Text)
			}
		}
		list := keeper.api("GET", "/api/admin/users", nil).JSON(t)["users"].([]any)
		if len(list) != 2 {
			t.Errorf("%d users", len(list))
		}
	})
}

// Attacks 114 and 119.
func TestInvitesOfOthers(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		s.addUser("eve")
		keeper, ada, eve := s.signedIn("keeper"), s.signedIn("ada"), s.signedIn("eve")
		code := ada.invite()
		for name, b := range map[string]*browser{"eve": eve, "the administrator": keeper} {
			if got := b.api("GET", "/api/invites", nil); strings.Contains(got.Text, code) {
				t.Errorf("%s sees ada's invite", name)
			}
			wantProblem(t, name, b.api("DELETE", "/api/invites/"+code, nil), http.StatusNotFound, "invite_not_found")
		}
		for _, path := range []string{"/api/admin/invites/", "/API/invites/", "/admin/invites/", "/api//invites/x/"} {
			eve.api("DELETE", path+code, nil)
		}
		if log := s.log.String(); strings.Contains(log, code) || strings.Count(log, "/api/admin/invites/{code}") != 1 {
			t.Errorf("the log has the code, or lacks its path: %s", log)
		}
		keeper.api("POST", "/api/admin/users/ada/suspend", nil)
		wantProblem(t, "invite of a suspended member", s.visitor().register(code, "grace"), http.StatusBadRequest, "invalid_invite")
		keeper.api("POST", "/api/admin/users/ada/unsuspend", nil)
		wantProblem(t, "after the suspension", s.visitor().register(code, "grace"), http.StatusBadRequest, "invalid_invite")
		wantStatus(t, "a new one", s.visitor().register(s.signedIn("ada").invite(), "grace"), http.StatusCreated)
		used := keeper.api("GET", "/api/admin/users/grace", nil).JSON(t)
		if used["invited_by"] != "ada" {
			t.Errorf("invited by %v", used["invited_by"])
		}
	})
}

// Attacks 117 and 124: guessing ends soon, and tells nothing about handles.
func TestGuessesAtCodesEnd(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		code, b := keeper.invite(), s.visitor()
		for range 7 { // who looks for a free handle does not guess
			wantProblem(t, "taken", b.register(code, "keeper"), http.StatusConflict, "handle_taken")
		}
		for i := range 5 {
			wantProblem(t, "guess", b.register(fmt.Sprintf("%016d", i), []string{"keeper", "nobody"}[i%2]), http.StatusBadRequest, "invalid_invite")
		}
		wantProblem(t, "the 6th guess", b.register(fmt.Sprintf("%016d", 9), "x"), http.StatusTooManyRequests, "rate_limited")
		wantStatus(t, "a good one from there", b.register(code, "grace"), http.StatusCreated)
		guess := func(i int) string { return fmt.Sprintf("%026d", i) }
		for i := range 5 {
			wantProblem(t, "distributed guess", s.visitor().reset([]string{"ada", "ADA", " ada", "ａda", "adA"}[i], guess(i), password+"!"), http.StatusBadRequest, "invalid_reset_code")
		}
		wantProblem(t, "the 6th at one account", s.visitor().reset("ada", guess(9), password+"!"), http.StatusTooManyRequests, "rate_limited")
		one := s.visitor()
		for i := range 10 {
			wantProblem(t, "guess from one address", one.reset(fmt.Sprintf("user%d", i), guess(i), password+"!"), http.StatusBadRequest, "invalid_reset_code")
		}
		wantProblem(t, "the 11th from one address", one.reset("user11", guess(1), password+"!"), http.StatusTooManyRequests, "rate_limited")
	})
}

// The page that an invite's link opens says whether a code is known: a wrong one is
// a guess like any other.
func TestWrongInviteLinksAreGuesses(t *testing.T) {
	limitedInstances(t, func(t *testing.T, instances []*service) {
		keeper := instances[0]
		keeper.addUser("keeper", "admin")
		code := keeper.signedIn("keeper").invite()
		address, good := freshAddress(), freshAddress()
		look := func(i int, address, code string) int {
			return instances[i%len(instances)].visitorAt(address).get("/register/?code=" + code).StatusCode
		}
		if got := inParallel(30, func(i int) int { return look(i, good, code) }); got[http.StatusOK] != 30 {
			t.Errorf("a crowd with one good link: %v", got)
		}
		got := inParallel(100, func(i int) int { return look(i, address, fmt.Sprintf("%016d", i)) })
		if got[http.StatusBadRequest] != 5 || got[http.StatusOK] != 95 { // the page without a word about the code
			t.Errorf("wrong links: %v, want 5 of 400", got)
		}
		wantProblem(t, "a guess from there", instances[0].visitorAt(address).register("0123456789ABCDEF", "grace"), http.StatusTooManyRequests, "rate_limited")
		wantStatus(t, "a good one from there", instances[0].visitorAt(address).register(code, "grace"), http.StatusCreated)
	})
}

// Attacks 120, 123 and 127.
func TestResetCodeResetsOnePassword(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		s.addUser("bob")
		keeper, ada := s.signedIn("keeper"), s.signedIn("ada")
		old, code := keeper.resetCode("ada"), keeper.resetCode("ada")
		fresh := "quite another walk"
		wantProblem(t, "the code before", s.visitor().reset("ada", old, fresh), http.StatusBadRequest, "invalid_reset_code")
		wantProblem(t, "for somebody else", s.visitor().reset("bob", code, fresh), http.StatusBadRequest, "invalid_reset_code")
		wantProblem(t, "weak password", s.visitor().reset("ada", code, "password1"), http.StatusBadRequest, "weak_password")
		wantProblem(t, "handle as password", s.visitor().reset("ada", code, "ada ada ada ada"), http.StatusBadRequest, "weak_password")
		b := s.visitor()
		got := b.reset(" ADA ", strings.ToLower(code[:13])+"-"+code[13:], fresh)
		if got.StatusCode != http.StatusOK || strings.TrimSpace(got.Text) != `{"ok":true}` || !strings.HasPrefix(got.Header.Get("Set-Cookie"), "cairn_device=") || b.api("GET", "/api/me", nil).StatusCode != http.StatusUnauthorized {
			t.Errorf("reset: %d %s", got.StatusCode, got.Text)
		}
		wantProblem(t, "again", s.visitor().reset("ada", code, fresh+"!"), http.StatusBadRequest, "invalid_reset_code")
		wantProblem(t, "the session from before", ada.api("GET", "/api/me", nil), http.StatusUnauthorized, "not_authenticated")
		if s.visitor().login("ada", password).StatusCode != http.StatusUnauthorized || s.visitor().login("ada", fresh).StatusCode != http.StatusOK {
			t.Error("the old password, or not the new one, works")
		}
		keeper.api("POST", "/api/admin/users/bob/suspend", nil)
		code = keeper.resetCode("bob")
		if got := s.visitor().reset("bob", code, fresh); got.StatusCode >= 500 {
			t.Errorf("reset of a suspended user: %d", got.StatusCode)
		}
		wantProblem(t, "suspended after the reset", s.visitor().login("bob", fresh), http.StatusForbidden, "account_suspended")
		u, err := s.store.UserByHandle(t.Context(), "bob")
		if err != nil || !u.Suspended() {
			t.Errorf("the reset lifted the suspension: %v", err)
		}
		if left := time.Until(mustTime(t, keeper.api("POST", "/api/admin/users/ada/reset-password-code", nil).JSON(t)["expires_at"])); left < 23*time.Hour || left > 24*time.Hour {
			t.Errorf("a reset code lives %s", left)
		}
	})
}

// Attack 108: one invite, sixteen people at the same moment, eight times, all
// behind one address: the losers are no guessers, and nobody after them pays.
func TestInviteLetsOnePersonIn(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix+"keeper", "admin")
		keeper, address := s.signedIn(prefix+"keeper"), freshAddress()
		for round := range 8 {
			code := keeper.invite()
			got := inParallel(16, func(i int) int {
				return s.visitorAt(address).register(code, fmt.Sprintf("%s%d-%d", prefix, round, i)).StatusCode
			})
			if got[http.StatusCreated] != 1 || got[http.StatusBadRequest] != 15 {
				t.Errorf("round %d: %v", round, got)
			}
		}
		users, _, err := s.store.Users(t.Context(), userQuery(prefix))
		if err != nil || len(users) != 9 {
			t.Errorf("%d users after 8 invites: %v", len(users)-1, err)
		}
	})
}

// Attack 111: one handle, many invites.
func TestHandleIsGivenOnce(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix+"keeper", "admin")
		keeper := s.signedIn(prefix + "keeper")
		codes := make([]string, 12)
		for i := range codes {
			codes[i] = keeper.invite()
		}
		spellings := []string{prefix + "grace", " " + prefix + "GRACE", prefix + "Ｇｒａｃｅ"}
		got := inParallel(len(codes), func(i int) int { return s.visitor().register(codes[i], spellings[i%3]).StatusCode })
		if got[http.StatusCreated] != 1 || got[http.StatusConflict] != len(codes)-1 {
			t.Errorf("%v", got)
		}
		// Attack 109: the invites of the others are as good as before.
		open := 0
		for _, i := range keeper.api("GET", "/api/invites", nil).JSON(t)["invites"].([]any) {
			if i.(map[string]any)["used"] == false {
				open++
			}
		}
		if open != len(codes)-1 {
			t.Errorf("%d of %d invites are open", open, len(codes)-1)
		}
	})
}

// Attack 121.
func TestResetCodeIsSpentOnce(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix+"keeper", "admin")
		keeper := s.signedIn(prefix + "keeper")
		for round := range 3 {
			handle, address := fmt.Sprintf("%sada%d", prefix, round), freshAddress()
			s.addUser(handle)
			code, fresh := keeper.resetCode(handle), func(i int) string { return fmt.Sprintf("over %d of 8 hills", i) }
			got := inParallel(8, func(i int) int { return s.visitorAt(address).reset(handle, code, fresh(i)).StatusCode })
			if got[http.StatusOK] != 1 || got[http.StatusOK]+got[http.StatusBadRequest]+got[http.StatusTooManyRequests] != 8 {
				t.Errorf("round %d: %v", round, got)
			}
			works := 0
			for i := range 8 {
				if s.visitor().login(handle, fresh(i)).StatusCode == http.StatusOK {
					works++
				}
			}
			if works != 1 {
				t.Errorf("round %d: %d of the eight passwords work", round, works)
			}
		}
	})
}
