package httpd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Attacks 102, 103 and 110: what is not the one JSON object of the request is
// refused, and changes nothing.
func TestMalformedBodyNeverDoesAnything(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		ada := s.signedIn("ada")
		for name, body := range map[string]string{
			"empty": "", "blank": " ", "null": "null", "text": `"x"`, "list": "[]", "number": "1", "cut off": `{"handle":"ada","password":"x"`, "two": `{"handle":"ada","password":"` + password + `"}{}`,
			"two on lines": "{\"handle\":\"ada\",\"password\":\"" + password + "\"}\n{}", "rubbish behind": `{"handle":"ada","password":"` + password + `"}x`, "BOM": "\ufeff" + `{"handle":"ada","password":"` + password + `"}`,
			"UTF-16": "{\x00\"\x00", "bad UTF-8": "{\"handle\":\"ada\",\"password\":\"\xff\"}", "lone surrogate": `{"handle":"ada","password":"\ud800"}`, "low surrogate": `{"handle":"ada","password":"\udc00x"}`, "NUL": `{"handle":"ada\u0000","password":"x"}`,
			"wrong types": `{"handle":["ada"],"password":{"$ne":1}}`, "number as handle": `{"handle":1,"password":2}`, "unknown": `{"handle":"ada","password":"` + password + `","admin":true}`, "capitals": `{"HANDLE":"ada","Password":"` + password + `"}`,
			"long s": `{"handle":"ada","paſſword":"` + password + `"}`, "twice": `{"handle":"eve","handle":"ada","password":"` + password + `"}`, "comment": `{/**/"handle":"ada"}`, "single quotes": `{'handle':'ada'}`, "trailing comma": `{"handle":"ada",}`,
			"NaN": `{"handle":NaN}`, "prototype": `{"__proto__":{"admin":true},"handle":"ada","password":"` + password + `"}`, "deep": strings.Repeat(`{"a":`, 3000) + "1" + strings.Repeat("}", 3000), "deep list": `{"handle":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + "}",
			"many members": "{" + strings.Repeat(`"a":1,`, 8000) + `"b":1}`, "form": "handle=ada&password=" + password, "XML": `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>`,
		} {
			b := s.visitor()
			got := b.do("POST", "/api/auth/login", "application/json", body)
			wantProblem(t, name, got, http.StatusBadRequest, "invalid_request")
			if b.cookie("cairn_session") != "" {
				t.Errorf("%s signed in", name)
			}
		}
		for name, value := range map[string]string{"quote": `' OR '1'='1`, "union": `x' UNION SELECT * FROM users --`, "like": "a%", "underscore": "ad_", "star": "*", "comment": "ada'--", "semicolon": "ada; DROP TABLE users", "json": `{"$gt":""}`, "template": "{{.}}", "format": "%s%n"} {
			for _, c := range [][2]string{{value, password}, {"ada", value}} {
				if got := s.visitor().login(c[0], c[1]); got.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s: %d", name, got.StatusCode)
				}
			}
		}
		for name, body := range map[string]string{
			"number": `{"a":1}`, "object": `{"a":{}}`, "list": `{"a":["x"]}`, "long key": `{"` + strings.Repeat("k", 65) + `":"x"}`, "no key": `{"":"x"}`, "long value": `{"a":"` + strings.Repeat("v", 4097) + `"}`, "control": `{"a\u0007":"x"}`,
			"one good, one bad": `{"good":"x","bad":1}`, "101 keys": manyKeys(101),
		} {
			if got := ada.do("PUT", "/api/me/prefs", "application/json", body); got.StatusCode != http.StatusBadRequest {
				t.Errorf("preferences, %s: %d", name, got.StatusCode)
			}
		}
		if got := strings.TrimSpace(ada.api("GET", "/api/me/prefs", nil).Text); got != "{}" {
			t.Errorf("preferences: %.100s", got)
		}
		if got := ada.do("PUT", "/api/me/prefs", "application/json", manyKeys(100)); got.StatusCode != http.StatusOK {
			t.Errorf("100 keys: %d %.100s", got.StatusCode, got.Text)
		}
		wantProblem(t, "the 101st", ada.do("PUT", "/api/me/prefs", "application/json", `{"one-more":"x"}`), http.StatusBadRequest, "invalid_preference")
	})
}

func manyKeys(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":"v"`, i)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// Attack 149: members and the operator write at the same time, from two
// processes: no answer is a server error, and no command fails.
func TestMixedWritesNeverLockTheDatabase(t *testing.T) {
	p := newInstalled(t, false, "")
	p.serve()
	handles := []string{"ada", "bob", "carol", "dave"}
	p.members(handles...)
	browsers := make([]*browser, len(handles))
	for i, h := range handles {
		browsers[i] = p.signedIn(h)
	}
	commands := make(chan error, 1)
	go func() {
		for range 4 {
			if out, err := p.command("invite", "add", "-q").CombinedOutput(); err != nil {
				commands <- fmt.Errorf("%w: %s", err, out)
				return
			}
		}
		commands <- nil
	}()
	got := inParallel(len(handles)*12, func(i int) int {
		b := browsers[i%len(handles)]
		switch i / len(handles) % 4 {
		case 0:
			return b.api("PATCH", "/api/me", map[string]string{"display_name": fmt.Sprint("name ", i)}).StatusCode
		case 1:
			return b.do("PUT", "/api/me/prefs", "application/json", fmt.Sprintf(`{"k%d":"v"}`, i)).StatusCode
		case 2:
			return b.api("POST", "/api/invites", nil).StatusCode
		}
		return p.visitor().login(handles[i%len(handles)], password).StatusCode
	})
	for status, n := range got {
		if status >= 500 || status == http.StatusUnauthorized {
			t.Errorf("%d answers of %d", n, status)
		}
	}
	if err := <-commands; err != nil {
		t.Errorf("invite add beside the service: %v", err)
	}
	if strings.Contains(p.log.String(), "locked") || strings.Contains(p.log.String(), `"level":"ERROR"`) {
		t.Error("the log has errors")
	}
}
