package httpd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Attacks 106 and 122: what is no code opens nothing, whatever its type.
func TestOddCodeNeverOpensAnything(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		invite, reset := keeper.invite(), keeper.resetCode("ada")
		odd := []string{
			`""`, `null`, `" "`, `"----"`, `"%"`, `"________________"`, `"****************"`, `"' OR ''='"`, `"\u0000"`, `0`, `1e400`, `true`, `[]`, `{}`, `{"$ne":""}`,
			`["` + invite + `"]`, `["` + reset + `"]`, `{"code":"` + invite + `"}`, `"` + invite[:len(invite)-1] + `"`, `"` + reset[:25] + `"`, `"` + reset[:16] + `"`,
			`"` + invite + `0"`, `"` + reset + `0"`, `"` + strings.Repeat("0", 16) + `"`, `"` + strings.Repeat("0", 26) + `"`, `"` + strings.Repeat(" ", 60_000) + `"`,
			`"\ud800"`, `"` + strings.Repeat("A", 60_000) + `"`,
		}
		for _, code := range odd {
			b := s.visitor()
			got := b.api("POST", "/api/register", `{"code":`+code+`,"handle":"mallory","password":"`+password+`"}`)
			if got.StatusCode != http.StatusBadRequest || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("register with %.40s: %d %.100s", code, got.StatusCode, got.Text)
			}
			for _, handle := range []string{`"ada"`, `""`, `null`, `["ada"]`, `" "`} {
				got = s.visitor().api("POST", "/api/auth/reset-password", `{"code":`+code+`,"handle":`+handle+`,"password":"`+password+` again"}`)
				if got.StatusCode != http.StatusBadRequest && got.StatusCode != http.StatusTooManyRequests {
					t.Errorf("reset of %s with %.40s: %d %.100s", handle, code, got.StatusCode, got.Text)
				}
			}
		}
		for name, body := range map[string]string{"no code": `{"handle":"mallory","password":"` + password + `"}`, "nothing": `{}`} {
			if got := s.visitor().api("POST", "/api/register", body); got.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d", name, got.StatusCode)
			}
		}
		if got := s.visitor().login("ada", password); got.StatusCode != http.StatusOK {
			t.Errorf("ada's password was changed: %d", got.StatusCode)
		}
		wantProblem(t, "mallory", keeper.api("GET", "/api/admin/users/mallory", nil), http.StatusNotFound, "user_not_found")
	})
}

// Attacks 107 and 109: an invite works once, in any spelling, and a refusal
// leaves it as it was.
func TestRefusedRegistrationNeverBurnsTheInvite(t *testing.T) {
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
		}
		spelt := " " + strings.ToLower(strings.ReplaceAll(code, "-", " ")) + " "
		if got := b.register(spelt, "grace"); got.StatusCode != http.StatusCreated {
			t.Fatalf("the same invite after all: %d %s", got.StatusCode, got.Text)
		}
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
func TestLookalikeHandleIsNeverANewOne(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("paypal")
		keeper := s.signedIn("keeper")
		code := keeper.invite()
		for _, h := range []string{
			"pаypal" /* Cyrillic */, "paypal\u200b", "pay\u00adpal", "\u202epaypal", "paypal\x00", "ｐａｙｐａｌ", "PAYPAL", "páypal", "paypal\u0301", "pay pal", "pay/pal", "..", ".", "-paypal", "paypal_",
			"a--", "%70aypal", "paypal\n", "<b>", strings.Repeat("a", 31), "", "ﬁsh", "ada?x", "ada#x", "me", "API", "Admin",
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
func TestInvitesOfOthersAreNeverSeenOrDeleted(t *testing.T) {
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
		anonymous := s.visitor()
		for _, got := range []response{anonymous.api("GET", "/api/invites", nil), anonymous.api("POST", "/api/invites", nil), anonymous.api("DELETE", "/api/invites/"+code, nil)} {
			wantProblem(t, "anonymous", got, http.StatusUnauthorized, "not_authenticated")
		}
		keeper.api("POST", "/api/admin/users/ada/suspend", nil)
		wantProblem(t, "invite of a suspended member", s.visitor().register(code, "grace"), http.StatusBadRequest, "invalid_invite")
		keeper.api("POST", "/api/admin/users/ada/unsuspend", nil)
		if got := s.visitor().register(code, "grace"); got.StatusCode != http.StatusCreated {
			t.Errorf("after the suspension: %d %s", got.StatusCode, got.Text)
		}
		used := keeper.api("GET", "/api/admin/users/grace", nil).JSON(t)
		if used["invited_by"] != "ada" {
			t.Errorf("invited by %v", used["invited_by"])
		}
	})
}

// Attacks 117 and 124: guessing ends soon, and tells nothing about handles.
func TestGuessingCodesNeverGoesOn(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		code, b := keeper.invite(), s.visitor()
		for i := range 5 {
			wantProblem(t, "guess", b.register(fmt.Sprintf("%016d", i), []string{"keeper", "nobody"}[i%2]), http.StatusBadRequest, "invalid_invite")
		}
		wantProblem(t, "the 6th guess", b.register(fmt.Sprintf("%016d", 9), "x"), http.StatusTooManyRequests, "rate_limited")
		wantProblem(t, "a good one from there", b.register(code, "grace"), http.StatusTooManyRequests, "rate_limited")
		if got := b.get("/register/?code=" + code); strings.Contains(got.Text, "keeper") {
			t.Error("the page still tells a guesser who invites")
		}
		if got := s.visitor().register(code, "grace"); got.StatusCode != http.StatusCreated {
			t.Errorf("the next address: %d", got.StatusCode)
		}
		guess := func(i int) string { return fmt.Sprintf("%026d", i) }
		for i := range 5 {
			wantProblem(t, "distributed guess", s.visitor().reset([]string{"ada", "ADA"}[i%2], guess(i), password+"!"), http.StatusBadRequest, "invalid_reset_code")
		}
		wantProblem(t, "the 6th at one account", s.visitor().reset("ada", guess(9), password+"!"), http.StatusTooManyRequests, "rate_limited")
		one := s.visitor()
		for i := range 10 {
			wantProblem(t, "guess from one address", one.reset(fmt.Sprintf("user%d", i), guess(i), password+"!"), http.StatusBadRequest, "invalid_reset_code")
		}
		wantProblem(t, "the 11th from one address", one.reset("user11", guess(1), password+"!"), http.StatusTooManyRequests, "rate_limited")
	})
}

// Attacks 116 and 128: 80 and 130 bits, never the same.
func TestCodesAreNeverShortOrRepeated(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("keeper", "admin")
	s.addUser("ada")
	keeper, seen, symbols := s.signedIn("keeper"), map[string]bool{}, map[string]map[rune]bool{"invite": {}, "reset": {}}
	for range 40 {
		for kind, code := range map[string]string{"invite": keeper.invite(), "reset": keeper.resetCode("ada")} {
			bare := strings.ReplaceAll(code, "-", "")
			if want := map[string]int{"invite": 16, "reset": 26}[kind]; len(bare) != want || seen[bare] || strings.Trim(bare, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
				t.Errorf("%s code %q", kind, code)
			}
			seen[bare] = true
			for _, r := range bare {
				symbols[kind][r] = true
			}
		}
	}
	if len(symbols["invite"]) != 32 || len(symbols["reset"]) != 32 {
		t.Errorf("%d and %d of 32 symbols are used", len(symbols["invite"]), len(symbols["reset"]))
	}
}

// Attacks 120, 123 and 127.
func TestResetCodeNeverDoesMoreThanOneReset(t *testing.T) {
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
		if got.StatusCode != http.StatusOK || strings.TrimSpace(got.Text) != `{"ok":true}` || got.Header.Get("Set-Cookie") != "" || b.api("GET", "/api/me", nil).StatusCode != http.StatusUnauthorized {
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

func mustTime(t *testing.T, v any) time.Time {
	t.Helper()
	text, _ := v.(string)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Location() != time.UTC {
		t.Errorf("%v is not a UTC time: %v", v, err)
	}
	return at
}
