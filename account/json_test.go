package account_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/web"
)

func TestLooseJSONIsRefused(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	good := `{"handle":"ada","password":"` + password + `"}`
	w.browser().send("POST", "/api/auth/login", "application/json", good).is(200)
	w.browser().send("POST", "/api/auth/login", "application/json; charset=UTF-8", " \n"+good+"\n").is(200)
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[" + good + "]", "string": `"ada"`, "number": "1", "truncated": good[:len(good)-1],
		"two values": good + good, "trailing bracket": good + "]", "trailing text": good + "x", "BOM": "\ufeff" + good, "comment": "/**/" + good,
		"single quotes": strings.ReplaceAll(good, `"`, `'`), "trailing comma": strings.Replace(good, "}", ",}", 1),
		"repeated": `{"handle":"eve",` + good[1:], "repeated escaped": `{"h\u0061ndle":"eve",` + good[1:], "repeated in another case": `{"HANDLE":"eve",` + good[1:],
		"capital": strings.Replace(good, "handle", "Handle", 1), "folded s": strings.Replace(good, "password", "paſsword", 1),
		"folded repeat": `{"paſſword":"x",` + good[1:], "unknown": `{"is_admin":true,` + good[1:], "unknown empty": `{"":1,` + good[1:],
		"number handle": `{"handle":1,"password":"x"}`, "array handle": `{"handle":["ada"],"password":"x"}`, "object password": `{"handle":"ada","password":{"$ne":""}}`,
		"NUL": `{"handle":"ada\u0000","password":"x"}`, "lone high": `{"handle":"\ud800","password":"x"}`, "lone low": `{"handle":"\udc00","password":"x"}`,
		"wrong pair": `{"handle":"\ud800\u0041","password":"x"}`, "not UTF-8": "{\"handle\":\"\xff\",\"password\":\"x\"}", "control": "{\"handle\":\"a\x01\",\"password\":\"x\"}",
		"deep": `{"handle":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", "deep objects": strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"huge number": `{"handle":1e999999,"password":"x"}`, "UTF-16": "\xff\xfe{\x00}\x00",
	} {
		t.Run(name, func(t *testing.T) {
			a := w.browser().send("POST", "/api/auth/login", "application/json", body).is(400, "invalid_request")
			if a.header.Get("Content-Type") != "application/problem+json" || len(a.set) != 0 {
				t.Errorf("%v %v", a.header, a.set)
			}
			a.hides("json:", "Unmarshal", "account.")
		})
	}
	w.browser().send("POST", "/api/auth/login", "application/json", `{"handle":"\ud83d\ude00\\ud800","password":"x"}`).is(401) // a pair, and an escaped backslash
}

func TestWrongContentTypeChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	for _, ct := range []string{
		"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/json; charset=utf-16",
		"application/jsonp", "application/json,text/plain", "application/problem+json", "json", ";", "application/json; charset",
	} {
		b.send("PUT", "/api/me/prefs", ct, `{"a":"1"}`).is(415, "unsupported_media_type")
		// Where a body may be missing, one that is there is held to the same rule.
		b.send("POST", "/api/invites", ct, `{"note":"x"}`).is(415)
		b.send("POST", "/api/me/sessions/end-others", ct, `{}`).is(415)
	}
	b.send("PUT", "/api/me/prefs", "application/json", `{"a":"1"}`, "Content-Encoding", "gzip").is(415)
	if got := strings.TrimSpace(b.call("GET", "/api/me/prefs", nil).body); got != "{}" {
		t.Errorf("preferences %s", got)
	}
	b.page("/account/profile").is(405)
	b.send("POST", "/account/profile", "application/json", `{"display_name":"Eve"}`, "Accept", "text/html").is(415).shows(`data-page="error"`)
	b.send("POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=Eve&display_name=Mallory").is(400)
	b.send("POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=%00").is(400)
	b.send("POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=%zz").is(400)
	if got := w.user("ada").DisplayName; got != "Ada" {
		t.Errorf("display name %q", got)
	}
}

func TestEmptyBodiesNeedNoContentType(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	b.call("POST", "/api/me/sessions/end-others", nil).is(204)
	b.send("POST", "/api/me/sessions/end-others", "application/json", `{}`).is(204)
	b.send("POST", "/api/me/sessions/end-others", "application/json", `{"x":1}`).is(400)
	b.send("POST", "/api/me/sessions/end-others", "application/json", `[]`).is(400)
	b.call("POST", "/api/invites", nil).is(201)
}

func TestOversizeBodiesAreCutOff(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	big := `{"handle":"ada","password":"` + strings.Repeat("x", 1<<20) + `"}`
	b.send("POST", "/api/auth/login", "application/json", big).is(413, "too_large")
	b.send("POST", "/api/invites", "application/json", big).is(413, "too_large")
	b.send("POST", "/login/", "application/x-www-form-urlencoded", "password="+strings.Repeat("x", web.MaxBody)).is(413)
	exact := `{"handle":"ada","password":"` + strings.Repeat("x", web.MaxBody-30) + `"}`
	if len(exact) != web.MaxBody {
		t.Fatal(len(exact))
	}
	b.send("POST", "/api/auth/login", "application/json", exact).is(401)
	b.send("POST", "/api/auth/login", "application/json", exact+" ").is(413)
	// Without a length, as a chunked body is.
	r := newChunked(t, "POST", "/api/auth/login", "application/json", big)
	b.serve(r).is(413, "too_large")
}
