package admin_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestPagingListsEveryUserOnce(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	for i := range 7 {
		w.AddUser(fmt.Sprintf("user-%d", i))
	}
	b := w.SignedIn("root1")
	var seen []string
	path := "/api/admin/users?limit=3"
	for range 10 {
		m := b.Call("GET", path, nil).Is(200).JSON()
		for _, u := range m["users"].([]any) {
			seen = append(seen, u.(map[string]any)["handle"].(string))
		}
		next, ok := m["next_cursor"].(string)
		if !ok {
			break
		}
		path = "/api/admin/users?limit=3&cursor=" + url.QueryEscape(next)
	}
	same(t, "seen", strings.Join(seen, " "), "root1 user-0 user-1 user-2 user-3 user-4 user-5 user-6")
	if a := b.Call("GET", "/api/admin/users?limit=8", nil).JSON(); a["next_cursor"] != nil || len(a["users"].([]any)) != 8 {
		t.Errorf("%v", a)
	}
	page := b.Page("/admin/users/").Is(200).Shows(`data-page="admin-users"`, `data-user="user-6"`).Hides("next-page")
	_ = page
}

// The handle is in addresses as it is shown: a.b and ab are one name, but what follows may delete the account.
func TestHandleWithDots(t *testing.T) {
	_, b := administered(t, "ada.lovelace.json")
	b.Page("/admin/users/?query=love").Is(200).Shows(`data-user="ada.lovelace.json"`, `/admin/users/ada.lovelace.json"`)
	b.Page("/admin/users/ada.lovelace.json").Is(200).Shows("@ada.lovelace.json")
	b.Call("GET", "/api/admin/users/ada.lovelace.json", nil).Is(200)
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "adalovelacejson"}).Is(409, "handle_taken")
	b.Call("DELETE", "/api/admin/users/adalovelace.json", nil).Is(404, "user_not_found").Shows("Did you mean ada.lovelace.json?")
	b.Page("/admin/users/ada.lovelace.json/delete", "confirm", "adalovelacejson").Is(400).Shows("Enter the user name of the account")
	b.Call("GET", "/api/admin/audit?person=adalovelacejson", nil).Is(200).Shows(`"target":"ada.lovelace.json"`)
	b.Page("/admin/users/ada.lovelace.json/delete", "confirm", "Ada.Lovelace.json").RedirectsTo("/id/admin/users/?notice=deleted")
}

// Some characters stand for a whole word (㌖ for キロメートル): a name of them is found by
// what it reads as, which is many times as long.
func TestPagingGoesOnAfterALongWord(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	name, address := strings.Repeat("㌖", 60), strings.Repeat("㌖", 80)+"@example.org"
	for i := range 4 {
		u := w.AddUser(fmt.Sprintf("user-%d", i))
		change := func(u *account.User) error { u.DisplayName, u.Email = name, address; return nil }
		_, err := w.Store.ChangeUser(t.Context(), u.Sub, change, w.Began, nil)
		must(t, err)
	}
	b := w.SignedIn("root1")
	var seen []string
	for path := "/api/admin/users?limit=1&query=" + url.QueryEscape("キロ"); len(seen) < 10; {
		m := b.Call("GET", path, nil).Is(200).JSON()
		for _, u := range m["users"].([]any) {
			seen = append(seen, u.(map[string]any)["handle"].(string))
		}
		next, ok := m["next_cursor"].(string)
		if !ok {
			break
		}
		path = "/api/admin/users?limit=1&query=" + url.QueryEscape("キロ") + "&cursor=" + url.QueryEscape(next)
	}
	same(t, "seen", strings.Join(seen, " "), "user-0 user-1 user-2 user-3")
}

func TestSearchKnowsNoWildcards(t *testing.T) {
	_, b := administered(t, "ada_l", "adaxl")
	for query, want := range map[string]int{"": 3, "ada": 2, "ADA": 2, "ada_l": 1, "%": 0, "_": 0, "' OR '1'='1": 0, "\\": 0, "zzz": 0, strings.Repeat("ü", 100): 0} {
		got := b.Call("GET", "/api/admin/users?query="+url.QueryEscape(query), nil).Is(200).JSON()["users"].([]any)
		same(t, fmt.Sprintf("%q: users", query), len(got), want)
	}
	b.Page("/admin/users/?query=%3Cscript%3E").Is(200).Shows("&lt;script&gt;").Hides("<script>alert", "“<script>")
}

func TestOddListParametersAreRefused(t *testing.T) {
	_, b := administered(t)
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, q := range []string{
		"limit=0", "limit=-1", "limit=201", "limit=x", "limit=", "limit=1e2", "limit=+5", "limit=05", "limit=99999999999999999999", "limit=5&limit=6",
		"query=%00", "query=%ff", "query=" + strings.Repeat("x", 101), "query=a&query=b", "cursor=&cursor=", "query=%zz", "query=a;b",
	} {
		b.Call("GET", "/api/admin/users?"+q, nil).Is(400, "invalid_request")
	}
	for _, c := range []string{"!", "x", raw("-"), raw("A"), raw("a' OR 1=1"), raw("a\x00"), base64.URLEncoding.EncodeToString([]byte("a")), raw(strings.Repeat("a", 31)), raw("bob") + "\n"} {
		b.Call("GET", "/api/admin/users?cursor="+url.QueryEscape(c), nil).Is(400, "invalid_cursor")
	}
	b.Page("/admin/users/?cursor=!").Is(400).Shows(`data-page="error"`)
	for _, c := range []string{"!", raw("0"), raw("-1"), raw("x"), raw("1 OR 1=1"), raw("01"), raw("99999999999999999999")} {
		b.Call("GET", "/api/admin/audit?cursor="+url.QueryEscape(c), nil).Is(400, "invalid_cursor")
	}
	b.Call("GET", "/api/admin/users?limit=200&cursor=", nil).Is(200)
}
