package admin_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestUserListHasNoSecrets(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	bob := w.addUser("bob", account.FlagActivity)
	b := w.signedIn("root1")
	code := b.call("POST", "/api/admin/users/bob/reset-password-code", nil).is(201).json()["code"].(string)
	w.signedIn("bob").call("POST", "/api/invites", nil).is(201)
	list := b.call("GET", "/api/admin/users", nil).is(200).hides("argon2", bob.PasswordHash, code, "password")
	users := list.json()["users"].([]any)
	u := users[0].(map[string]any)
	if len(users) != 2 || len(u) != 9 || list.json()["next_cursor"] != nil || u["handle"] != "bob" || u["sub"] != bob.Sub || u["suspended"] != false || u["invited_by"] != nil ||
		fmt.Sprint(u["flags"]) != "map[activity:true admin:false]" || u["last_login_at"] == nil {
		t.Errorf("%s", list.body)
	}
	one := b.call("GET", "/api/admin/users/BOB", nil).is(200).hides("argon2", code)
	if m := one.json(); m["handle"] != "bob" || len(m["sessions"].([]any)) != 1 || len(m["apps"].([]any)) != 0 {
		t.Errorf("%s", one.body)
	}
}

func TestPagingListsEveryUserOnce(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	for i := range 7 {
		w.addUser(fmt.Sprintf("user-%d", i))
	}
	b := w.signedIn("root1")
	var seen []string
	path := "/api/admin/users?limit=3"
	for range 10 {
		m := b.call("GET", path, nil).is(200).json()
		for _, u := range m["users"].([]any) {
			seen = append(seen, u.(map[string]any)["handle"].(string))
		}
		next, ok := m["next_cursor"].(string)
		if !ok {
			break
		}
		path = "/api/admin/users?limit=3&cursor=" + url.QueryEscape(next)
	}
	if got := strings.Join(seen, " "); got != "root1 user-0 user-1 user-2 user-3 user-4 user-5 user-6" {
		t.Error(got)
	}
	if a := b.call("GET", "/api/admin/users?limit=8", nil).json(); a["next_cursor"] != nil || len(a["users"].([]any)) != 8 {
		t.Errorf("%v", a)
	}
	page := b.page("/admin/users/").is(200).shows(`data-page="admin-users"`, `data-user="user-6"`).hides("next-page")
	_ = page
}

// Some characters stand for a whole word (㌖ for キロメートル): a name of them is found by
// what it reads as, which is many times as long.
func TestPagingGoesOnAfterALongWord(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	name, address := strings.Repeat("㌖", 60), strings.Repeat("㌖", 80)+"@example.org"
	for i := range 4 {
		u := w.addUser(fmt.Sprintf("user-%d", i))
		change := func(u *account.User) error { u.DisplayName, u.Email = name, address; return nil }
		if _, err := w.store.ChangeUser(t.Context(), u.Sub, change, start, nil); err != nil {
			t.Fatal(err)
		}
	}
	b := w.signedIn("root1")
	var seen []string
	for path := "/api/admin/users?limit=1&query=" + url.QueryEscape("キロ"); len(seen) < 10; {
		m := b.call("GET", path, nil).is(200).json()
		for _, u := range m["users"].([]any) {
			seen = append(seen, u.(map[string]any)["handle"].(string))
		}
		next, ok := m["next_cursor"].(string)
		if !ok {
			break
		}
		path = "/api/admin/users?limit=1&query=" + url.QueryEscape("キロ") + "&cursor=" + url.QueryEscape(next)
	}
	if got := strings.Join(seen, " "); got != "user-0 user-1 user-2 user-3" {
		t.Error(got)
	}
}

func TestSearchKnowsNoWildcards(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("ada_l")
	w.addUser("adaxl")
	b := w.signedIn("root1")
	for query, want := range map[string]int{"": 3, "ada": 2, "ADA": 2, "ada_l": 1, "%": 0, "_": 0, "' OR '1'='1": 0, "NAME OF ADA": 2, "\\": 0, "zzz": 0, strings.Repeat("ü", 100): 0} {
		got := b.call("GET", "/api/admin/users?query="+url.QueryEscape(query), nil).is(200).json()["users"].([]any)
		if len(got) != want {
			t.Errorf("%q: %d users, want %d", query, len(got), want)
		}
	}
	b.page("/admin/users/?query=%3Cscript%3E").is(200).shows("&lt;script&gt;").hides("<script>alert", "“<script>")
}

func TestOddListParametersAreRefused(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, q := range []string{
		"limit=0", "limit=-1", "limit=201", "limit=x", "limit=", "limit=1e2", "limit=+5", "limit=05", "limit=99999999999999999999", "limit=5&limit=6",
		"query=%00", "query=%ff", "query=" + strings.Repeat("x", 101), "query=a&query=b", "query=%zz", "query=a;b",
	} {
		b.call("GET", "/api/admin/users?"+q, nil).is(400, "invalid_request")
	}
	for _, c := range []string{"!", "x", raw("-"), raw("A"), raw("a' OR 1=1"), raw("a\x00"), base64.URLEncoding.EncodeToString([]byte("a")), raw(strings.Repeat("a", 31)), raw("bob") + "\n"} {
		b.call("GET", "/api/admin/users?cursor="+url.QueryEscape(c), nil).is(400, "invalid_cursor")
	}
	b.page("/admin/users/?cursor=!").is(400).shows(`data-page="error"`)
	for _, c := range []string{"!", raw("0"), raw("-1"), raw("x"), raw("1 OR 1=1"), raw("01"), raw("99999999999999999999")} {
		b.call("GET", "/api/admin/audit?cursor="+url.QueryEscape(c), nil).is(400, "invalid_cursor")
	}
	b.call("GET", "/api/admin/users?limit=200&cursor=", nil).is(200)
}

func TestInvalidHandlesAreNotFound(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	for _, h := range []string{"nobody", "%25", "*", "_", "%00", "%20", "b%00b", "%27%20OR%201=1", "..%2fbob", "%ff", strings.Repeat("a", 300), "b%CC%81ob"} {
		for _, e := range []struct{ method, suffix string }{
			{"GET", ""}, {"DELETE", ""}, {"POST", "/suspend"}, {"POST", "/unsuspend"}, {"POST", "/reset-password-code"},
		} {
			if a := b.call(e.method, "/api/admin/users/"+h+e.suffix, nil); a.status != 404 && !(strings.Contains(h, "%2f") && a.status/100 == 3) {
				t.Errorf("%s %s%s: %d %s", e.method, h, e.suffix, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/api/admin/users/", "/api/admin/users//", "/api/admin/users"} {
		if a := b.call("DELETE", path, nil); a.status/100 == 2 {
			t.Errorf("DELETE %s: %d", path, a.status)
		}
	}
	if n := len(b.call("GET", "/api/admin/users", nil).json()["users"].([]any)); n != 2 {
		t.Errorf("%d users are left", n)
	}
}
