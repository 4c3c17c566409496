package site_test

import (
	"io"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestLooseJSONIsRefused(t *testing.T) {
	w := accounttest.With(t, "ada")
	good := `{"handle":"ada","password":"` + password + `"}`
	w.Browser().Send("POST", "/api/auth/login", "application/json", good).Is(200)
	w.Browser().Send("POST", "/api/auth/login", "application/json; charset=UTF-8", " \n"+good+"\n").Is(200)
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[" + good + "]", "string": `"ada"`, "number": "1", "truncated": good[:len(good)-1],
		"two values": good + good, "trailing bracket": good + "]", "trailing text": good + "x", "BOM": "\ufeff" + good, "comment": "/**/" + good,
		"single quotes": strings.ReplaceAll(good, `"`, `'`), "trailing comma": strings.Replace(good, "}", ",}", 1),
		"repeated": `{"handle":"eve",` + good[1:], "repeated escaped": `{"h\u0061ndle":"eve",` + good[1:], "repeated in another case": `{"HANDLE":"eve",` + good[1:],
		"capital": strings.Replace(good, "handle", "Handle", 1), "folded s": strings.Replace(good, "password", "paſsword", 1),
		"folded repeat": `{"paſſword":"x",` + good[1:], "unknown": `{"is_admin":true,` + good[1:], "unknown empty": `{"":1,` + good[1:], "unknown and long": `{"` + strings.Repeat("x", 200) + `":1,` + good[1:],
		"number handle": `{"handle":1,"password":"x"}`, "array handle": `{"handle":["ada"],"password":"x"}`, "object password": `{"handle":"ada","password":{"$ne":""}}`,
		"NUL": `{"handle":"ada\u0000","password":"x"}`, "lone high": `{"handle":"\ud800","password":"x"}`, "lone low": `{"handle":"\udc00","password":"x"}`,
		"wrong pair": `{"handle":"\ud800\u0041","password":"x"}`, "not UTF-8": "{\"handle\":\"\xff\",\"password\":\"x\"}", "control": "{\"handle\":\"a\x01\",\"password\":\"x\"}",
		"deep": `{"handle":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", "deep objects": strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"huge number": `{"handle":1e999999,"password":"x"}`, "UTF-16": "\xff\xfe{\x00}\x00",
	} {
		t.Run(name, func(t *testing.T) {
			a := w.Browser().Send("POST", "/api/auth/login", "application/json", body).Is(400, "invalid_request")
			if a.Header.Get("Content-Type") != "application/problem+json" || len(a.SetCookies) != 0 {
				t.Errorf("%v %v", a.Header, a.SetCookies)
			}
			a.Hides("json:", "Unmarshal", "account.", strings.Repeat("x", 129))
		})
	}
	w.Browser().Send("POST", "/api/auth/login", "application/json", `{"handle":"\ud83d\ude00\\ud800","password":"x"}`).Is(401) // a pair, and an escaped backslash
}

func TestWrongContentTypeChangesNothing(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	for _, ct := range []string{
		"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/json; charset=utf-16",
		"application/jsonp", "application/json,text/plain", "application/problem+json", "json", ";", "application/json; charset",
	} {
		b.Send("PUT", "/api/me/prefs", ct, `{"a":"1"}`).Is(415, "unsupported_media_type")
		// Where a body may be missing, one that is there is held to the same rule.
		b.Send("POST", "/api/invites", ct, `{"note":"x"}`).Is(415)
		b.Send("POST", "/api/me/sessions/end-others", ct, `{}`).Is(415)
	}
	b.Send("PUT", "/api/me/prefs", "application/json", `{"a":"1"}`, "Content-Encoding", "gzip").Is(415)
	same(t, "preferences", strings.TrimSpace(b.Call("GET", "/api/me/prefs", nil).Body), "{}")
	b.Page("/account/picture").Is(405)
	b.Send("POST", "/account/picture", "text/plain", "x", "Accept", "text/html").Is(415)
	b.Send("POST", "/account/profile", "application/json", `{"display_name":"Eve"}`, "Accept", "text/html").Is(415).Shows(`data-page="error"`)
	b.Send("POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=Eve&display_name=Mallory").Is(400)
	b.Send("POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=%00").Is(400)
	b.Send("POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=%zz").Is(400)
	same(t, "display name", w.User("ada").DisplayName, "Ada")
}

func TestEmptyBodiesNeedNoContentType(t *testing.T) {
	_, b := accounttest.SignedIn(t, "ada")
	b.Call("POST", "/api/me/sessions/end-others", nil).Is(204)
	b.Send("POST", "/api/me/sessions/end-others", "application/json", `{}`, "Content-Encoding", "identity").Is(204)
	b.Stream("POST", "/api/auth/passkey/begin", "", io.MultiReader()).Is(200)
	b.Send("POST", "/api/me/sessions/end-others", "application/json", `{"x":1}`).Is(400)
	b.Send("POST", "/api/me/sessions/end-others", "application/json", `[]`).Is(400)
	b.Call("POST", "/api/invites", nil).Is(201)
}

func TestOversizeBodiesAreCutOff(t *testing.T) {
	_, b := accounttest.SignedIn(t, "ada")
	big := `{"handle":"ada","password":"` + strings.Repeat("x", 1<<20) + `"}`
	b.Send("POST", "/api/auth/login", "application/json", big).Is(413, "too_large")
	b.Send("POST", "/api/invites", "application/json", big).Is(413, "too_large")
	b.Send("POST", "/login/", "application/x-www-form-urlencoded", "password="+strings.Repeat("x", web.MaxBody)).Is(413)
	exact := `{"handle":"ada","password":"` + strings.Repeat("x", web.MaxBody-30) + `"}`
	if len(exact) != web.MaxBody {
		t.Fatal(len(exact))
	}
	b.Send("POST", "/api/auth/login", "application/json", exact).Is(401)
	b.Send("POST", "/api/auth/login", "application/json", exact+" ").Is(413)
	// Without a length, as a chunked body is.
	b.Stream("POST", "/api/auth/login", "application/json", io.MultiReader(strings.NewReader(big))).Is(413, "too_large")
}
