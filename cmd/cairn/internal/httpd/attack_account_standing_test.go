package httpd

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// revoked tells whether the status list takes a session token back: what
// applications that verify cookies on their own go by.
func (s *service) revoked(token string) bool {
	s.t.Helper()
	ref := jwtPayload(s.t, token)["status"].(map[string]any)["status_list"].(map[string]any)
	got := s.visitor().do("GET", ref["uri"].(string), "", "", "Accept", "application/statuslist+jwt")
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/statuslist+jwt" {
		s.t.Fatalf("status list %v: %d %s", ref["uri"], got.StatusCode, got.Text)
	}
	list := jwtPayload(s.t, got.Text)["status_list"].(map[string]any)["lst"].(string)
	packed, err := base64.RawURLEncoding.DecodeString(list)
	if err != nil {
		s.t.Fatal(err)
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		s.t.Fatal(err)
	}
	bits, err := io.ReadAll(z)
	if err != nil {
		s.t.Fatal(err)
	}
	i := int(ref["idx"].(float64))
	return bits[i/8]>>(i%8)&1 == 1
}

// Attacks 73 to 75: whatever takes an account's standing takes all its open
// sessions with it, here and on the status list, at once, and nothing gives
// them back.
func TestEndedSessionNeverComesBack(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		p := s.prefix()
		s.addUser(p+"keeper", "admin")
		keeper := s.signedIn(p + "keeper")
		for i, c := range []struct {
			name string
			end  func(b *browser, handle string) response
			own  bool // the browser that asks stays signed in
		}{
			{"suspension", func(_ *browser, h string) response { return keeper.api("POST", "/api/admin/users/"+h+"/suspend", nil) }, false},
			{"deletion", func(_ *browser, h string) response { return keeper.api("DELETE", "/api/admin/users/"+h, nil) }, false},
			{"own deletion", func(b *browser, _ string) response {
				return b.api("DELETE", "/api/me", map[string]string{"password": password})
			}, false},
			{"reset", func(_ *browser, h string) response {
				return s.visitor().reset(h, keeper.resetCode(h), password+" reset")
			}, false},
			{"password change", func(b *browser, _ string) response {
				return b.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": password + " changed"})
			}, true},
			{"end others", func(b *browser, _ string) response { return b.api("POST", "/api/me/sessions/end-others", nil) }, true},
		} {
			handle := fmt.Sprintf("%suser%d", p, i)
			s.addUser(handle)
			own, other := s.signedIn(handle), s.signedIn(handle)
			ownToken, otherToken := own.cookie("cairn_session"), other.cookie("cairn_session")
			if s.revoked(ownToken) || s.revoked(otherToken) {
				t.Fatalf("%s: revoked before", c.name)
			}
			if got := c.end(own, handle); got.StatusCode/100 != 2 {
				t.Fatalf("%s: %d %s", c.name, got.StatusCode, got.Text)
			}
			if c.name == "suspension" {
				if got := keeper.api("POST", "/api/admin/users/"+handle+"/unsuspend", nil); got.StatusCode != http.StatusOK {
					t.Fatalf("unsuspend: %d", got.StatusCode)
				}
			}
			wantProblem(t, c.name+", other session", s.as(otherToken), http.StatusUnauthorized, "not_authenticated")
			if !s.revoked(otherToken) || s.revoked(ownToken) == c.own || (s.as(ownToken).StatusCode == http.StatusOK) != c.own {
				t.Errorf("%s: own session %d, on the list: own %v, other %v", c.name, s.as(ownToken).StatusCode, s.revoked(ownToken), s.revoked(otherToken))
			}
		}
		if s.revoked(keeper.cookie("cairn_session")) {
			t.Error("a bystander's session is on the list")
		}
	})
}

// Attack 74: what a suspended member has given out is worth nothing, but for
// the time after.
func TestSuspensionNeverLeavesADoorOpen(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada", "activity")
		keeper, ada := s.signedIn("keeper"), s.signedIn("ada")
		invite, reset := ada.invite(), keeper.resetCode("ada")
		if got := keeper.api("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": "a word with you"}); got.StatusCode != http.StatusOK {
			t.Fatalf("suspend: %d", got.StatusCode)
		}
		wantProblem(t, "the reset code from before", s.visitor().reset("ada", reset, password+"!"), http.StatusBadRequest, "invalid_reset_code")
		wantProblem(t, "the invite from before", s.visitor().register(invite, "grace"), http.StatusBadRequest, "invalid_invite")
		got := s.visitor().login("ada", password)
		wantProblem(t, "sign-in", got, http.StatusForbidden, "account_suspended")
		if strings.Contains(got.Text, "a word") || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("sign-in: %s", got.Text)
		}
		if page := s.visitor().postForm("/login/", map[string][]string{"handle": {"ada"}, "password": {password}}); page.StatusCode != http.StatusForbidden || page.Header.Get("Set-Cookie") != "" {
			t.Errorf("sign-in page: %d", page.StatusCode)
		}
		if page := ada.get("/account/"); page.StatusCode != http.StatusSeeOther || page.Header.Get("Location") != "/login/" {
			t.Errorf("account page: %d", page.StatusCode)
		}
		detail := keeper.api("GET", "/api/admin/users/ada", nil).JSON(t)
		if detail["suspended"] != true || detail["suspend_reason"] != "a word with you" || len(detail["sessions"].([]any)) != 0 {
			t.Errorf("ada: %v", detail)
		}
		keeper.api("POST", "/api/admin/users/ada/unsuspend", nil)
		if got := s.visitor().login("ada", password); got.StatusCode != http.StatusOK {
			t.Errorf("after the suspension: %d", got.StatusCode)
		}
	})
}

// Attacks 58 and 75: who is deleted is gone from every list, and nobody else
// ever gets the handle or the sub.
func TestDeletedMemberNeverComesBack(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		sub := s.addUser("ada").Sub
		keeper, ada := s.signedIn("keeper"), s.signedIn("ada")
		ada.api("PATCH", "/api/me", map[string]string{"display_name": "Ada Lovelace", "email": "ada@example.org"})
		invite := ada.invite()
		wantProblem(t, "with a wrong password", ada.api("DELETE", "/api/me", map[string]string{"password": "wrong"}), http.StatusUnauthorized, "invalid_credentials")
		if got := ada.api("DELETE", "/api/me", map[string]string{"password": password}); got.StatusCode != http.StatusNoContent || got.Text != "" || ada.cookie("cairn_session") != "" {
			t.Errorf("delete: %d %q", got.StatusCode, got.Text)
		}
		for _, path := range []string{"/api/admin/users", "/api/admin/users?query=lovelace", "/api/admin/users?query=ada@example", "/admin/"} {
			if text := keeper.get(path).Text; strings.Contains(text, "Lovelace") || strings.Contains(text, "ada@") || strings.Contains(text, sub) {
				t.Errorf("%s still shows her", path)
			}
		}
		if audit := keeper.get("/api/admin/audit").Text; strings.Contains(audit, "Lovelace") || strings.Contains(audit, "ada@") {
			t.Error("the audit log has her name or address")
		}
		wantProblem(t, "her page", keeper.api("GET", "/api/admin/users/ada", nil), http.StatusNotFound, "user_not_found")
		wantProblem(t, "her invite", s.visitor().register(invite, "grace"), http.StatusBadRequest, "invalid_invite")
		wantProblem(t, "her handle", s.visitor().register(keeper.invite(), "ADA"), http.StatusConflict, "handle_taken")
		wantProblem(t, "her sign-in", s.visitor().login("ada", password), http.StatusUnauthorized, "invalid_credentials")
		wantProblem(t, "again", ada.api("DELETE", "/api/me", map[string]string{"password": password}), http.StatusUnauthorized, "not_authenticated")
	})
}

// Attack 113: names that would hide or reorder text, and what is too long.
func TestDisplayNameNeverDisturbs(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		ada := s.signedIn("ada")
		for _, name := range []string{"", " ", "\u200b", "\u200d\u200d", strings.Repeat("n", 61), strings.Repeat("é", 61), "a\nb", "a\tb", "a\x00b", "a\u202eb", "a\u2066b", "a\u2028b", "\ufeff", "a\ue000", "\u3164", "\u2800", "\x1b[31m", "a\ufffdb"} {
			got := ada.api("PATCH", "/api/me", map[string]string{"display_name": name})
			if got.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %d %s", name, got.StatusCode, got.Text)
			}
		}
		for _, name := range []string{"x", strings.Repeat("é", 60), "<b>Ada</b> & \"co\"", "عائشة", "李小龍", "👩‍👩‍👧", "O'Neil; DROP TABLE users"} {
			got := ada.api("PATCH", "/api/me", map[string]string{"display_name": name})
			if got.StatusCode != http.StatusOK || got.JSON(t)["display_name"] != name {
				t.Errorf("%q: %d %s", name, got.StatusCode, got.Text)
			}
		}
		for _, email := range []string{"ada", "ada@", "@example.org", "Ada <ada@example.org>", "ada@example.org\nBcc: x", "a b@example.org", "ada@example.org, eve@example.org", strings.Repeat("a", 250) + "@example.org", "ada@exa\u202emple.org"} {
			wantProblem(t, email, ada.api("PATCH", "/api/me", map[string]string{"email": email}), http.StatusBadRequest, "invalid_email")
		}
		both := ada.api("PATCH", "/api/me", map[string]string{"email": "x", "display_name": "\n"})
		if fields, _ := both.JSON(t)["errors"].([]any); both.StatusCode != http.StatusBadRequest || len(fields) != 2 {
			t.Errorf("two faults: %s", both.Text)
		}
	})
}
