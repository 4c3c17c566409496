package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func TestInvitesTellExactlyWhatTheContractSays(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	if got, want := strings.TrimSpace(b.call("GET", "/api/invites", nil).is(200).body), `{"invites":[],"remaining":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a := b.call("POST", "/api/invites", map[string]string{"note": "for Bob"}).is(201).json()
	code, _ := a["code"].(string)
	if len(a) != 4 || a["ok"] != true || len(code) != 19 || strings.Count(code, "-") != 3 || a["url"] != "http://localhost:4040/register/?code="+code ||
		a["expires_at"] != w.clock.Now().Add(14*24*time.Hour).Format(time.RFC3339) {
		t.Errorf("created %v", a)
	}
	w.browser().call("POST", "/api/register", registration(code, "bob")).is(201)
	list := b.call("GET", "/api/invites", nil).is(200).json()
	now := w.clock.Now().Format(time.RFC3339)
	i := list["invites"].([]any)[0].(map[string]any)
	if list["remaining"] != 2.0 || len(i) != 7 || i["code"] != code || i["created_at"] != now || i["used"] != true || i["used_by"] != "bob" || i["used_at"] != now {
		t.Errorf("list %v", list)
	}
	b.call("DELETE", "/api/invites/"+code, nil).is(409, "invite_used")
	b.call("POST", "/api/invites", nil).is(201)
	b.call("POST", "/api/invites", nil).is(201)
	b.call("POST", "/api/invites", nil).is(403, "invite_limit_reached")
}

func TestAnInviteIsItsOwnersAlone(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("eve")
	ada, eve := w.signedIn("ada"), w.signedIn("eve")
	code := ada.call("POST", "/api/invites", nil).is(201).json()["code"].(string)
	eve.call("GET", "/api/invites", nil).is(200).hides(code)
	eve.call("DELETE", "/api/invites/"+code, nil).is(404, "invite_not_found")
	w.browser().call("GET", "/api/invites", nil).is(401, "not_authenticated")
	w.browser().call("POST", "/api/invites", nil).is(401, "not_authenticated")
	w.browser().call("DELETE", "/api/invites/"+code, nil).is(401, "not_authenticated")
	for _, invalid := range []string{"0000-0000-0000-0000", "%25", "%00", "x", "%27%20OR%201=1", "%F0%9F%98%80", code[:18]} {
		ada.call("DELETE", "/api/invites/"+invalid, nil).is(404, "invite_not_found")
	}
	if a := ada.call("DELETE", "/api/invites/", nil); a.status != 404 {
		t.Errorf("blank code: %d", a.status)
	}
	ada.call("DELETE", "/api/invites/"+strings.ToLower(strings.ReplaceAll(code, "-", "")), nil).is(204)
	ada.call("DELETE", "/api/invites/"+code, nil).is(404, "invite_not_found")
	w.browser().call("POST", "/api/register", registration(code, "bob")).is(400, "invalid_invite")
}

func TestTheInviteLimitHoldsInARace(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	got := parallel(12, func(int) int { return b.clone().call("POST", "/api/invites", nil).status })
	if got[201] != 3 || got[403] != 9 {
		t.Fatalf("%v", got)
	}
	// Expired and deleted invites count no more.
	w.clock.Advance(account.InviteLifetime)
	if got := b.call("GET", "/api/invites", nil).json()["remaining"]; got != 3.0 {
		t.Errorf("remaining %v", got)
	}
	b.call("POST", "/api/invites", nil).is(201)
}

func TestAdministratorsInviteWithoutLimit(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	for range 5 {
		b.call("POST", "/api/invites", nil).is(201)
	}
	b.call("GET", "/api/invites", nil).is(200).shows(`"remaining":null`)
}

func TestInvitingIsRateLimited(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitInvite: {Count: 2, Window: time.Hour}}))
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	b.call("POST", "/api/invites", nil).is(201)
	b.call("POST", "/api/invites", nil).is(201)
	b.call("POST", "/api/invites", nil).is(429, "rate_limited")
}

func TestNotesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	for _, note := range []string{strings.Repeat("x", 201), "a\nb", "a\u202eb"} {
		b.call("POST", "/api/invites", map[string]string{"note": note}).is(400, "invalid_text")
	}
	b.call("POST", "/api/invites", map[string]string{"note": strings.Repeat("ü", 200)}).is(201)
}
