package templates_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/store/storetest/racetest"
	"github.com/cairn-id/cairn/templates"
)

var payloads = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' autofocus onfocus='alert(1)`,
	`" style="position:fixed" onmouseover="alert(1)`,
	`javascript:alert(1)`,
	"java\nscript:alert(1)",
	`data:text/html,<script>alert(1)</script>`,
	`</title></textarea></style><svg onload=alert(1)>`,
	`{{.}}{{template "layout"}}${alert(1)}`,
	`//evil.example/`,
	`/\evil.example/`,
	`https://evil.example/`,
	"a\r\nSet-Cookie: x=1",
	`-->]]><!--`,
	"\u202egnp.exe \xff",
}

// poison fills every string, slice and map of a page with the payload. FormPost's target stays: Render refuses all but a
// checked one, which has a test of its own.
func poison(v reflect.Value, payload string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(payload)
	case reflect.Bool:
		// left as it is: the callers choose the state
	case reflect.Int:
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		} else {
			v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		}
		for i := range v.Len() {
			poison(v.Index(i), payload)
		}
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		m.SetMapIndex(reflect.ValueOf(payload), reflect.ValueOf(payload))
		v.Set(m)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; {
			case v.Type() == reflect.TypeFor[templates.FormPost]() && name == "RedirectURI",
				v.Type() == reflect.TypeFor[templates.LinkPage]() && name == "Name": // of the template
				continue
			}
			poison(v.Field(i), payload)
		}
	}
}

func poisoned(page templates.Page, payload string) templates.Page {
	p := reflect.New(reflect.TypeOf(page)).Elem()
	p.Set(reflect.ValueOf(page))
	poison(p, payload)
	return p.Interface().(templates.Page)
}

// shape is the page's elements with the names of their attributes, in order: what a payload must not change.
func shape(doc *html.Node) []string {
	var out []string
	walk(doc, func(n *html.Node) {
		line := n.Data
		for _, a := range n.Attr {
			line += " " + a.Key
		}
		out = append(out, line)
	})
	return out
}

func TestNoValueBecomesMarkup(t *testing.T) {
	racetest.Skip(t)
	r := newRenderer(t, templates.Options{})
	// The harmless twin of each payload decides the page's shape: it takes the same branches.
	for name, page := range allPages() {
		harmless := []templates.Page{poisoned(page, "word"), poisoned(page, "/word")}
		for _, payload := range payloads {
			r.SetInstanceName(func() string { return payload })
			doc := parse(t, render(t, r, poisoned(page, payload)).Body.String())
			r.SetInstanceName(func() string { return "word" })
			got := shape(doc)
			var wants [][]string
			for _, h := range harmless {
				wants = append(wants, shape(parse(t, render(t, r, h).Body.String())))
			}
			wants = append(wants, shape(parse(t, render(t, r, poisoned(page, "https://word.example/")).Body.String())))
			if !slices.ContainsFunc(wants, func(w []string) bool { return slices.Equal(w, got) }) {
				t.Errorf("%s: %q changes the page", name, payload)
			}
			checkAddresses(t, name, payload, doc)
		}
	}
}

// checkAddresses refuses what a payload must not reach: an address that runs code or a link to another origin.
func checkAddresses(t *testing.T, name, payload string, doc *html.Node) {
	t.Helper()
	walk(doc, func(n *html.Node) {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" {
				t.Errorf("%s: %q makes attribute %s", name, payload, a.Key)
			}
			if a.Key != "href" && a.Key != "src" && a.Key != "action" {
				continue
			}
			switch {
			case strings.HasPrefix(a.Val, "#"), strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") && !strings.HasPrefix(a.Val, `/\`):
			case attr(n, "id") == "form-post": // the target was not replaced
			case slices.Contains([]string{"signed-out-back", "logout-back", "client-back", "go-back"}, attr(n, "id")) && strings.HasPrefix(a.Val, "https://"): // an application's registered address
			case slices.Contains([]string{"name", "tile"}, attr(n, "class")) && strings.HasPrefix(a.Val, "https://"): // registered too
			default:
				t.Errorf("%s: %q makes <%s %s=%q>", name, payload, n.Data, a.Key, a.Val)
			}
		}
	})
}

func TestPagesHoldNoInlineScriptOrStyle(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range allPages() {
		doc := parse(t, render(t, r, page).Body.String())
		walk(doc, func(n *html.Node) {
			switch n.Data {
			case "script":
				if attr(n, "src") == "" || strings.TrimSpace(text(n)) != "" {
					t.Errorf("%s: inline script", name)
				}
			case "style", "iframe", "object", "embed", "base":
				t.Errorf("%s: <%s>", name, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("%s: <%s %s>", name, n.Data, a.Key)
				}
			}
		})
	}
}

func TestFormPostReachesEveryRegisteredTargetAndNoOther(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for _, target := range []string{
		"https://app.example/cb?x=1&y=2", "http://127.0.0.1:8080/cb", "app.example:/cb", "app.immich:///oauth-callback", "kitchenowl:/signin/redirect", "oc://x",
	} {
		doc := parse(t, render(t, r, templates.FormPost{RedirectURI: target}).Body.String())
		equal(t, fmt.Sprintf("target %q became", target), attr(one(t, doc, "form"), "action"), target)
	}
	for _, target := range []string{
		"", "/local", "//evil.example", "javascript:alert(1)", "JavaScript:alert(1)", "java\tscript:alert(1)", " javascript:alert(1)", "data:text/html,x",
		"vbscript:x", "blob:https://x/1", "file:///etc/passwd", "view-source:https://x", "about:blank", "https://x/\r\n",
	} {
		w := newRecorder()
		if err := r.Render(w, getRequest(), 200, templates.FormPost{RedirectURI: target}); err == nil {
			t.Errorf("target %q was accepted", target)
		} else if target != "" && strings.Contains(err.Error(), "alert") {
			t.Errorf("the error repeats the target: %v", err)
		}
	}
}

func TestUnencryptedTargetIsSaid(t *testing.T) {
	for _, c := range []struct {
		https  bool
		target string
		want   int
	}{
		{true, "http://nas.lan/cb", 1},
		{true, "http://127.0.0.1:9/cb", 0},
		{true, "http://localhost/cb", 0},
		{true, "https://app.example/cb", 0},
		{true, "app.example:/cb", 0},
		{false, "http://nas.lan/cb", 0},
	} {
		r := newRenderer(t, templates.Options{HTTPS: c.https})
		doc := parse(t, render(t, r, templates.FormPost{RedirectURI: c.target}).Body.String())
		if got := len(all(doc, "div[class=box warning]")); got != c.want {
			t.Errorf("https %t, %s: %d warnings, want %d", c.https, c.target, got, c.want)
		}
	}
}
