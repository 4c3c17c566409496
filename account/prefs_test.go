package account_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestPreferencesMergeAndNullDeletes(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	b := w.signedIn("ada")
	for _, step := range []struct{ in, want string }{
		{`{}`, `{}`}, {`{"a":"1","Map.Style/x~y":"Ä\n2"}`, `{"Map.Style/x~y":"Ä\n2","a":"1"}`}, {`{"a":"","A":"2"}`, `{"A":"2","Map.Style/x~y":"Ä\n2","a":""}`},
		{`{"a":null,"nothing":null}`, `{"A":"2","Map.Style/x~y":"Ä\n2"}`},
	} {
		if got := strings.TrimSpace(b.send("PUT", "/api/me/prefs", "application/json", step.in).is(200).body); got != step.want {
			t.Errorf("%s: got %s, want %s", step.in, got, step.want)
		}
		if got := strings.TrimSpace(b.call("GET", "/api/me/prefs", nil).is(200).body); got != step.want {
			t.Errorf("%s: stored %s", step.in, got)
		}
	}
	if got := strings.TrimSpace(w.signedIn("eve").call("GET", "/api/me/prefs", nil).body); got != "{}" {
		t.Errorf("another user sees %s", got)
	}
	w.browser().call("GET", "/api/me/prefs", nil).is(401, "not_authenticated")
}

func TestPreferencesBeyondTheirBoundsChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	long := strings.Repeat("k", 64)
	b.call("PUT", "/api/me/prefs", map[string]string{long: strings.Repeat("v", 4096)}).is(200)
	for name, body := range map[string]string{
		"long key": `{"good":"1","` + long + `x":"1"}`, "long key in bytes": `{"` + strings.Repeat("ü", 33) + `":"1"}`, "blank key": `{"":"1"}`,
		"long value": `{"good":"1","a":"` + strings.Repeat("v", 4097) + `"}`, "long value in bytes": `{"a":"` + strings.Repeat("ü", 2049) + `"}`,
		"number": `{"a":1}`, "bool": `{"a":true}`, "object": `{"a":{"b":"c"}}`, "array": `{"a":["b"]}`, "control key": `{"a\u0001":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.send("PUT", "/api/me/prefs", "application/json", body).is(400, "invalid_preference")
		})
	}
	p := b.send("PUT", "/api/me/prefs", "application/json", `{"a/b~c":1}`).is(400).json()
	if p["errors"].([]any)[0].(map[string]any)["pointer"] != "/a~1b~0c" {
		t.Errorf("%v", p)
	}
	b.send("PUT", "/api/me/prefs", "application/json", `{"a":"1","a":"2"}`).is(400, "invalid_request")
	many := map[string]string{}
	for i := range 99 {
		many[fmt.Sprint("key", i)] = "v"
	}
	b.call("PUT", "/api/me/prefs", many).is(200) // with the long one: 100
	b.call("PUT", "/api/me/prefs", map[string]any{"one more": "v"}).is(400, "invalid_preference")
	b.call("PUT", "/api/me/prefs", map[string]any{"one more": "v", "key0": nil}).is(200)
	if n := len(b.call("GET", "/api/me/prefs", nil).json()); n != 100 {
		t.Errorf("%d preferences", n)
	}
}
