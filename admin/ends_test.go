package admin_test

import (
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web/browser"
)

func TestEndsAreSetOnThePageOfAPerson(t *testing.T) {
	w, b := administered(t, "bob")
	b.Call("PUT", "/api/admin/settings", map[string]any{"flags": []string{"activity", "coach"}}).Is(200)
	last := w.Clock.Now().AddDate(0, 0, 20).Format(time.DateOnly)
	b.Page("/admin/users/bob/end", "ends", last).RedirectsTo("/id/admin/users/bob?notice=end-saved#ends")
	b.Page("/admin/users/bob/flags", "known", "activity", "known", "admin", "flag", "activity", "ends.activity", last).
		RedirectsTo("/id/admin/users/bob?notice=flags-saved#access")
	u := w.User("bob")
	if got := account.LastDay(u.EndsAt, time.UTC); got != last || account.LastDay(u.FlagEnds["activity"], time.UTC) != last {
		t.Errorf("ends after %s and %v, want %s", got, u.FlagEnds, last)
	}
	page := b.Send("GET", "/admin/users/bob?notice=end-saved", "", "", "Accept", "text/html").Is(200)
	page.Shows(`id="ends-on" name="ends" type="date" value="`+last+`"`, `name="ends.activity" type="date" value="`+last+`"`,
		"The expiry date is saved.")
	b.Send("GET", "/admin/audit?person=bob", "", "", "Accept", "text/html").Is(200).Shows("the expiry date of bob’s account: "+last+"<", "activity → "+last+"<")
	b.Send("GET", "/admin/users/?ending=30d", "", "", "Accept", "text/html").Is(200).Shows(`data-user="bob"`, "expires ").Hides(`data-user="root1"`)
	b.Send("GET", "/admin/users/?ending=10d", "", "", "Accept", "text/html").Is(200).Hides(`data-user="bob"`)
	b.Send("GET", "/admin/users/?ending=1d", "", "", "Accept", "text/html").Is(200).Shows("Expires within 1 day<")
	b.Send("GET", "/admin/users/?ending=soon", "", "", "Accept", "text/html").Is(400)
	// What is refused changes nothing, and the page has what was typed.
	for typed, why := range map[string]string{"2001-02-03": "suspend it", "soon": "the last day", "2030-02-30": "the last day"} {
		b.Page("/admin/users/bob/end", "ends", typed).Is(400).Shows(`id="ends-error"`, why, `value="`+typed+`"`)
		b.Page("/admin/users/bob/flags", "known", "activity", "flag", "activity", "ends.activity", typed).Is(400).
			Shows(why, `value="`+typed+`"`, `name="ends" type="date" value="`+last+`"`) // of the account, as it is
	}
	b.Page("/admin/users/root1/end", "ends", last).Is(409).Shows("your own account")
	if u := w.User("bob"); account.LastDay(u.EndsAt, time.UTC) != last {
		t.Errorf("ends at %v", u.EndsAt)
	}
	// Saved as shown, the end stays; without a date there is none.
	b.Page("/admin/users/bob/flags", "known", "activity", "flag", "activity", "ends.activity", last).Is(303)
	b.Page("/admin/users/bob/flags", "known", "activity", "flag", "activity").Is(303)
	if u := w.User("bob"); u.FlagEnds == nil {
		t.Error("the end of the flag is gone")
	}
	soon := w.Clock.Now().AddDate(0, 0, 5).Format(time.DateOnly)
	b.Page("/admin/users/bob/flags", "known", "activity", "flag", "activity", "ends.activity", soon).Is(303)
	b.Page("/admin/users/").Is(200).Shows(`<time datetime="` + soon)
	b.Page("/admin/users/bob/end", "ends", "").Is(303)
	b.Page("/admin/users/").Is(200).Shows(`<time datetime="` + soon)
	b.Page("/admin/users/bob/flags", "known", "activity", "flag", "activity", "ends.activity", "").Is(303)
	if u := w.User("bob"); !u.EndsAt.IsZero() || u.FlagEnds != nil || !u.Has("activity") {
		t.Errorf("%v %v", u.EndsAt, u.FlagEnds)
	}
	// A page that was open meanwhile changes only what was changed on it.
	page = b.Page("/admin/users/bob")
	whole, access := browser.FormOf(page.Body, "/id/admin/users/bob/end"), browser.FormOf(page.Body, "/id/admin/users/bob/flags")
	b.Send("PUT", "/api/admin/users/bob/end", "application/json", `{"ends": "`+last+`"}`).Is(200)
	b.Send("PUT", "/api/admin/users/bob/flags", "application/json", `{"activity": false, "coach": "`+last+`"}`).Is(200)
	b.Post(whole).Is(303)
	access.Values.Add("flag", "admin")
	b.Post(access).Is(303)
	if u := w.User("bob"); u.EndsAt.IsZero() || u.Has("activity") || !u.Has("coach") || u.FlagEnds["coach"].IsZero() || !u.Has("admin") {
		t.Errorf("%v %v %v", u.Flags, u.EndsAt, u.FlagEnds)
	}
	// Those that an invite gives are listed with it.
	b.Call("POST", "/api/invites", map[string]any{"flags": []string{"activity@" + last}, "account_ends": last}).Is(201)
	b.Send("GET", "/admin/invites", "", "", "Accept", "text/html").Is(200).Shows("activity expires <time", "The account expires <time")
}

func TestEndsOfTheAPI(t *testing.T) {
	w, b := administered(t, "bob")
	w.AddUser("root2", account.FlagAdmin)
	put := func(path, body string) func(status int, code ...string) map[string]any {
		a := b.Send("PUT", "/api/admin/users/"+path, "application/json", body)
		return func(status int, code ...string) map[string]any { return a.Is(status, code...).JSON() }
	}
	same(t, "ends at", put("bob/end", `{"ends": "2099-12-24"}`)(200)["ends_at"], "2099-12-25T00:00:00Z")
	on := put("bob/flags", `{"activity": "2099-06-30T12:00:00Z"}`)(200)["flags"].(map[string]any)
	same(t, "permission", on["activity"], true)
	put("bob/flags", `{"activity": true}`)(200)
	got := b.Call("GET", "/api/admin/users/bob", nil).Is(200).JSON()
	if ends := got["flag_ends"].(map[string]any); ends["activity"] != "2099-06-30T12:00:00Z" || len(ends) != 1 {
		t.Errorf("%v", ends)
	}
	put("bob/end", `{"ends": "2001-01-01"}`)(400, "end_past")
	put("bob/end", `{"ends": "tomorrow"}`)(400, "invalid_end")
	put("bob/end", `{"ends": "9999-12-31"}`)(400, "invalid_end") // which JSON could not have
	put("bob/end", `{"ends": "9999-12-31T23:59:59-12:00"}`)(400, "invalid_end")
	put("bob/end", `{"ends": "1969-12-31T00:00:00Z"}`)(400, "invalid_end") // rather than one that is past
	put("bob/flags", `{"activity": "2001-01-01"}`)(400, "end_past")
	put("bob/flags", `{"activity": "tomorrow"}`)(400, "invalid_end")
	put("bob/flags", `{"activity": null}`)(400)
	if got := put("bob/end", `{"ends": null}`)(200)["ends_at"]; got != nil {
		t.Errorf("ends at %v", got)
	}
	// Of two administrators one may get an end, and then the other is the last.
	put("root1/end", `{"ends": "2099-12-24"}`)(409, "own_account")
	put("root2/flags", `{"admin": "2099-12-24"}`)(200)
	put("root1/flags", `{"admin": "2099-12-24"}`)(409, "last_admin")
	put("root1/flags", `{"admin": false}`)(409, "last_admin")
	if err := w.Administration().SetEnd(t.Context(), account.Operator(), w.User("root1"), w.Clock.Now().AddDate(1, 0, 0)); err == nil {
		t.Error("the last administrator has an end")
	}
}

// Whoever extends the season must not let in again whom somebody has suspended since.
func TestSuspensionOfAnEndedAccountStays(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	b, a, ctx := w.SignedIn("root1"), w.Administration(), t.Context()
	var rows []roster.ImportRow
	for _, h := range []string{"bob", "cy"} {
		rows = append(rows, roster.ImportRow{Members: map[string]string{"handle": h, "suspended": "true", "ends": "2001-02-03"}})
	}
	ended, err := a.CheckImport(ctx, nil, rows, roster.ImportOptions{})
	if err == nil {
		err = a.Import(ctx, account.Operator(), ended, "")
	}
	must(t, err)
	w.AddUser("dee") // who is suspended in the very second of the end
	must(t, a.SetEnd(ctx, account.Operator(), w.User("dee"), w.Clock.Now().Add(time.Second)))
	w.Clock.Advance(time.Second)
	b.Page("/admin/users/bob").Is(200).Shows(`id="suspend-submit"`, `id="unsuspend-submit"`)
	b.Page("/admin/users/bob/suspend", "reason", "theft").Is(200).Shows("Yes, continue")
	b.Page("/admin/users/bob/suspend", "reason", "theft", "sure", "yes").Is(303)
	b.Page("/admin/users/bob").Is(200).Shows("theft").Hides(`id="suspend-submit"`)
	b.Page("/admin/users/selected", "who", "cy dee", "do", "suspend", "sure", "yes").Is(200)
	b.Page("/admin/users/selected", "who", "bob cy dee", "do", "end", "ends", "2099-06-30", "sure", "yes").Is(200)
	for _, h := range []string{"bob", "cy", "dee"} {
		if u := w.User(h); !u.Suspended() || u.Ended() || len(w.audited(account.Suspend)) != 3 {
			t.Errorf("%s may sign in again: %+v, audit %v", h, u, w.audited(account.Suspend))
		}
	}
}
