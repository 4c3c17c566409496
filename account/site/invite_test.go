package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestInvitesTellExactlyWhatTheContractSays(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	b := w.SignedIn("ada")
	if got, want := strings.TrimSpace(b.Call("GET", "/api/invites", nil).Is(200).Body), `{"invites":[],"remaining":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a := b.Call("POST", "/api/invites", map[string]string{"note": "for Bob"}).Is(201).JSON()
	code, _ := a["code"].(string)
	if len(a) != 4 || a["ok"] != true || len(code) != 19 || strings.Count(code, "-") != 3 || a["url"] != "http://localhost:4040/register/?code="+code ||
		a["expires_at"] != w.Clock.Now().Add(14*24*time.Hour).Format(time.RFC3339) {
		t.Errorf("created %v", a)
	}
	w.Browser().Call("POST", "/api/register", registration(code, "bob")).Is(201)
	list := b.Call("GET", "/api/invites", nil).Is(200).JSON()
	now := w.Clock.Now().Format(time.RFC3339)
	i := list["invites"].([]any)[0].(map[string]any)
	if list["remaining"] != 2.0 || len(i) != 8 || i["mailed_to"] != nil || i["code"] != code || i["created_at"] != now || i["used"] != true || i["used_by"] != "bob" || i["used_at"] != now {
		t.Errorf("list %v", list)
	}
	b.Call("DELETE", "/api/invites/"+code, nil).Is(409, "invite_used")
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(403, "invite_limit_reached")
}

func TestAnInviteIsItsOwnersAlone(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	w.AddUser("eve")
	ada, eve := w.SignedIn("ada"), w.SignedIn("eve")
	code := ada.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	eve.Call("GET", "/api/invites", nil).Is(200).Hides(code)
	eve.Call("DELETE", "/api/invites/"+code, nil).Is(404, "invite_not_found")
	w.Browser().Call("GET", "/api/invites", nil).Is(401, "not_authenticated")
	w.Browser().Call("POST", "/api/invites", nil).Is(401, "not_authenticated")
	w.Browser().Call("DELETE", "/api/invites/"+code, nil).Is(401, "not_authenticated")
	for _, invalid := range []string{"0000-0000-0000-0000", "%25", "%00", "x", "%27%20OR%201=1", "%F0%9F%98%80", code[:18]} {
		ada.Call("DELETE", "/api/invites/"+invalid, nil).Is(404, "invite_not_found")
	}
	if a := ada.Call("DELETE", "/api/invites/", nil); a.Status != 404 {
		t.Errorf("blank code: %d", a.Status)
	}
	ada.Call("DELETE", "/api/invites/"+strings.ToLower(strings.ReplaceAll(code, "-", "")), nil).Is(204)
	ada.Call("DELETE", "/api/invites/"+code, nil).Is(404, "invite_not_found")
	w.Browser().Call("POST", "/api/register", registration(code, "bob")).Is(400, "invalid_invite")
}

func TestTheInviteLimitHoldsInARace(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	b := w.SignedIn("ada")
	got := accounttest.Parallel(12, func(int) int { return b.Clone().Call("POST", "/api/invites", nil).Status })
	if got[201] != 3 || got[403] != 9 {
		t.Fatalf("%v", got)
	}
	// Expired and deleted invites no longer count.
	w.Clock.Advance(account.InviteLifetime)
	if got := b.Call("GET", "/api/invites", nil).JSON()["remaining"]; got != 3.0 {
		t.Errorf("remaining %v", got)
	}
	b.Call("POST", "/api/invites", nil).Is(201)
}

func TestAdministratorsInviteWithoutLimit(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("root1", account.FlagAdmin)
	b := w.SignedIn("root1")
	for range 5 {
		b.Call("POST", "/api/invites", nil).Is(201)
	}
	b.Call("GET", "/api/invites", nil).Is(200).Shows(`"remaining":null`)
}

func TestInvitingIsRateLimited(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitInvite: {Count: 2, Window: time.Hour}}))
	w.AddUser("root1", account.FlagAdmin)
	b := w.SignedIn("root1")
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(429, "rate_limited")
}

func TestNotesAreBounded(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada")
	b := w.SignedIn("ada")
	for _, note := range []string{strings.Repeat("x", 201), "a\nb", "a\u202eb"} {
		b.Call("POST", "/api/invites", map[string]string{"note": note}).Is(400, "invalid_text")
	}
	b.Call("POST", "/api/invites", map[string]string{"note": strings.Repeat("ü", 200)}).Is(201)
}
