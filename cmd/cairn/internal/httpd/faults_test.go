package httpd

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/account"
	ua "github.com/cairn-id/cairn/account/web/browser"
)

// refusedFields returns the fields of a form that a page marks as wrong, each with the sentence that describes it, and
// what the others hold.
func refusedFields(t *testing.T, page, path string) (wrong map[string]string, typed url.Values) {
	t.Helper()
	wrong, typed = map[string]string{}, url.Values{}
	form := ua.Find(page, func(n *html.Node) bool {
		action, _, _ := strings.Cut(attribute(n, "action"), "#")
		action, _, _ = strings.Cut(action, "?as=")
		return n.Data == "form" && action == path && attribute(n, "method") == "post"
	})
	if form == nil {
		t.Fatalf("no form to %s: %s", path, mainOf(page))
	}
	for n := range form.Descendants() {
		name := attribute(n, "name")
		if n.Type != html.ElementNode || name == "" {
			continue
		}
		switch kind := attribute(n, "type"); {
		case n.Data == "textarea":
			typed.Add(name, strings.TrimPrefix(elementText(n), "\n"))
		case n.Data == "select":
			for o := range n.Descendants() {
				if hasAttribute(o, "selected") {
					typed.Add(name, attribute(o, "value"))
				}
			}
		case kind != "checkbox" || hasAttribute(n, "checked"):
			typed.Add(name, attribute(n, "value"))
		}
		if attribute(n, "aria-invalid") == "true" {
			for _, id := range strings.Fields(attribute(n, "aria-describedby")) {
				if e := elementByID(t, page, id); e != nil && (id == "error" || strings.HasSuffix(id, "-error")) {
					wrong[name] = strings.TrimSpace(elementText(e))
				}
			}
			if wrong[name] == "" {
				t.Errorf("%s: %s is marked without a sentence", path, name)
			}
		}
	}
	return wrong, typed
}

// Every form marks each wrong field with a sentence of its own, keeps what was typed, and changes nothing.
func TestRefusedFormMarksEveryWrongField(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada")
	ada, stranger := l.signedIn("ada"), l.visitor()
	_, key := l.addPasskey(ada, "Key", nil)
	code := l.keeper.invite()
	reset := l.keeper.resetCode("ada")
	needStatus(t, "flag", l.admin(`PUT /settings {"flags":["boats"]}`), 200)
	long := strings.Repeat("long ", 50) + "end"
	type fields = map[string]string
	for _, c := range []struct {
		b     *browser
		path  string
		right fields // typed too, and in order
		wrong fields // typed, by field
		dark  []string
	}{
		{stranger, "/register/", fields{"code": code}, fields{"handle": "No Handle", "display_name": long, "email": "nobody", "password": "short"}, nil},
		{stranger, "/register/", fields{"display_name": "Ada", "email": "a@example.org", "handle": "bo"}, fields{"code": "AAAA"}, nil},
		{stranger, "/reset-password/", nil, fields{"handle": "ada", "code": "AAAA", "password": "short"}, nil},
		{stranger, "/reset-password/", fields{"handle": "ada", "code": reset, "listed": "1"}, fields{"password": "short"}, nil},
		{stranger, "/login/", nil, fields{"handle": "ada", "password": "wrong password"}, nil},
		{stranger, "/recover/", nil, fields{"handle": "ada", "code": "AAAA"}, []string{"code"}},
		{stranger, "/device", nil, fields{"user_code": "BBBB-BBB"}, nil},
		{ada, "/account/profile", fields{"given_name": "Augusta", "address.locality": "Town"}, fields{
			"display_name": long, "email": "nobody", "zoneinfo": "Mars", "website": "ftp://x", "birthdate": "tomorrow", "address.country": strings.Repeat(long, 4),
		}, nil},
		{ada, "/account/invites", nil, fields{"note": long, "email": "nobody"}, nil},
		{ada, "/account/password", nil, fields{"current_password": "wrong password", "new_password": "short"}, nil},
		{ada, "/account/password", fields{"current_password": password}, fields{"new_password": "short"}, []string{"current_password"}},
		{ada, "/account/delete", nil, fields{"password": "wrong password"}, nil},
		{ada, "/account/passkeys/rename", fields{"id": key}, fields{"name": long}, nil},
		{ada, "/account/verify-email", nil, fields{"code": "000000"}, []string{"code"}},
		{l.keeper, "/admin/users/", fields{"flag": "boats"}, fields{"handle": "No Handle", "display_name": long, "email": "nobody"}, nil},
		{l.keeper, "/admin/users/", fields{"display_name": "A", "email": "a@example.org"}, fields{"handle": "ada"}, nil},
		{l.keeper, "/admin/users/ada/profile", fields{"email_verified": "true"}, fields{"display_name": long, "email": "nobody"}, nil},
		{l.keeper, "/admin/users/ada/suspend", fields{"tell_reason": "true"}, fields{"reason": long}, nil},
		{l.keeper, "/admin/users/ada/delete", nil, fields{"confirm": "bo"}, nil},
		{l.keeper, "/admin/settings/general", nil, fields{"instance_name": long, "accent_colour": "green", "contact": strings.Repeat(long, 9)}, nil},
		{l.keeper, "/admin/settings/joining", fields{"registration": "closed"}, fields{"max_users": "many", "invites_per_member": "-1"}, nil},
		{l.keeper, "/admin/settings/advanced", fields{"session_flags": "boats"}, fields{"attributes": "No Name!", "audit_days": "some"}, nil},
		{l.keeper, "/admin/settings/flags", fields{"remove": "boats"}, fields{
			"description.activity": strings.Repeat(long, 9), "description.admin": strings.Repeat(long, 9), "new_flag": "No Flag", "new_description": strings.Repeat(long, 9),
		}, nil},
		{l.keeper, "/admin/settings/security", fields{"second_factor": "boats", "offer_passkeys": "true"}, fields{"min_password_length": "7", "session_days": "31"}, nil},
	} {
		if c.path == "/account/verify-email" {
			needStatus(t, "new address", ada.changeEmail("new@example.org"), 200)
		}
		if c.b == l.keeper {
			needStatus(t, "keeper", l.keeper.confirm(password, ""), 200)
		}
		sent := url.Values{}
		for name, value := range c.right {
			sent.Set(name, value)
		}
		for name, value := range c.wrong {
			sent.Set(name, value)
		}
		got := c.b.postForm(c.path, sent)
		if got.StatusCode < 400 || got.StatusCode > 499 {
			t.Errorf("%s: %d to %q", c.path, got.StatusCode, got.Header.Get("Location"))
			continue
		}
		wrong, typed := refusedFields(t, got.Text, c.path)
		if !slices.Equal(slices.Sorted(maps.Keys(wrong)), slices.Sorted(maps.Keys(c.wrong))) {
			t.Errorf("%s: marked %v, want %v: %s", c.path, wrong, slices.Sorted(maps.Keys(c.wrong)), elementText(elementByID(t, got.Text, "error")))
		}
		for name := range sent {
			secret := strings.Contains(name, "password") && name != "min_password_length" || slices.Contains(c.dark, name)
			if secret && typed.Get(name) != "" {
				t.Errorf("%s: the secret %s is shown again", c.path, name)
			}
			if !secret && !slices.Contains(typed[name], sent.Get(name)) {
				t.Errorf("%s: %s holds %q, typed was %q", c.path, name, typed[name], sent.Get(name))
			}
		}
	}
	if u := l.user("ada"); u["display_name"] != "ada" || u["suspended"] != false {
		t.Errorf("changed: %v", u)
	}
	// What was ticked stays ticked, too.
	got := l.keeper.postForm("/admin/users/keeper/flags", url.Values{"known": {account.FlagAdmin, account.FlagActivity, "boats"}, "flag": {"boats", account.FlagActivity}})
	if _, typed := refusedFields(t, got.Text, "/admin/users/keeper/flags"); got.StatusCode < 400 || !slices.Equal(typed["flag"], []string{account.FlagActivity, "boats"}) {
		t.Errorf("access: %d, ticked %q", got.StatusCode, typed["flag"])
	}
}
