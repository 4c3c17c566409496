package httpd

import (
	"net/http"
	"strings"
	"testing"
)

// What is not the one JSON object of a request, what no list can be searched for and what no
// setting can be is refused on each database, also where one of them would take it (a NUL,
// broken UTF-8, a number beyond its integers), and changes nothing.
func TestMalformedValuesAreRefused(t *testing.T) {
	login := `{"handle":"ada","password":"` + password + `"}`
	bodies := map[string]string{
		"empty": "", "null": "null", "string": `"ada"`, "array": "[" + login + "]", "cut off": login[:len(login)-1], "two": login + login, "trailing": login + "x",
		"BOM": "\ufeff" + login, "comment": "/**/" + login, "repeated": `{"handle":"eve",` + login[1:], "capital": strings.Replace(login, "handle", "Handle", 1),
		"long s": strings.Replace(login, "password", "paſſword", 1), "unknown": `{"admin":true,` + login[1:], "types": `{"handle":["ada"],"password":{"$ne":1}}`,
		"NUL": `{"handle":"ada\u0000","password":"x"}`, "lone surrogate": `{"handle":"ada","password":"\ud800"}`, "not UTF-8": "{\"handle\":\"ada\",\"password\":\"\xff\"}",
		"NaN": `{"handle":NaN}`, "deep": `{"handle":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + "}", "form": "handle=ada&password=" + password,
	}
	searches := map[string]string{
		"users?query=%00": "invalid_request", "users?query=%ff": "invalid_request", "users?query=a%0Ab": "invalid_request", "users?query=%zz": "invalid_request", "users?query=a&query=b": "invalid_request",
		"users?flag=A%00": "invalid_request", "users?sort=password_hash": "invalid_request", "users?suspended=yes": "invalid_request",
		"users?limit=0": "invalid_request", "users?limit=99999999999999999999": "invalid_request", "users?limit=1e2": "invalid_request",
		"users?cursor=!": "invalid_cursor", "users?cursor=AA": "invalid_cursor", "users?cursor=_w": "invalid_cursor",
		"audit?person=a%00": "invalid_request", "audit?kind=%25": "invalid_request", "audit?from=2026-02-30": "invalid_request", "audit?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5": "invalid_cursor",
	}
	settings := map[string]string{
		`{"instance_name":"a\u0000b"}`: "invalid_request", `{"instance_name":"a\nb"}`: "invalid_settings", `{"max_users":-1}`: "invalid_settings", `{"max_users":99999999999999999999}`: "invalid_request",
		`{"max_users":1.5}`: "invalid_request", `{"flags":["a b"]}`: "invalid_settings", `{"default_flags":["unknown"]}`: "invalid_settings", `{"privacy_url":"javascript:alert(1)"}`: "invalid_settings",
		`{"max_users":5,"min_password_length":7}`: "invalid_settings", `{"secret":"x"}`: "invalid_request",
	}
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada", "admin")
		ada := s.signedIn("ada")
		before := ada.api("GET", "/api/admin/settings", nil).Text
		for name, body := range bodies {
			b := s.visitor()
			wantProblem(t, name, b.do("POST", "/api/auth/login", "application/json", body), http.StatusBadRequest, "invalid_request")
			if b.cookie("cairn_session") != "" {
				t.Errorf("%s signed in", name)
			}
		}
		for query, code := range searches {
			wantProblem(t, query, ada.get("/api/admin/"+query), http.StatusBadRequest, code)
		}
		for body, code := range settings {
			wantProblem(t, body, ada.do("PUT", "/api/admin/settings", "application/json", body), http.StatusBadRequest, code)
		}
		for _, pattern := range []string{"%25", "_", "%25da", "zz%25", "'", "%5C"} { // good to search for, and no pattern
			got := ada.get("/api/admin/users?query=" + pattern)
			if wantStatus(t, pattern, got, http.StatusOK); strings.Contains(got.Text, `"ada"`) {
				t.Errorf("%s found ada: %s", pattern, got.Text)
			}
		}
		if after := ada.api("GET", "/api/admin/settings", nil).Text; after != before {
			t.Errorf("settings: %s, before: %s", after, before)
		}
		if strings.Contains(s.log.String(), `"level":"ERROR"`) {
			t.Error("the log calls what a stranger sent an error of the service")
		}
	})
}
