package site_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func TestInvitesTellExactlyWhatTheContractSays(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	same(t, "Body", strings.TrimSpace(b.Call("GET", "/api/invites", nil).Is(200).Body), `{"invites":[],"remaining":3}`)
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
	if list["remaining"] != 2.0 || len(i) != 14 || i["account_ends_at"] != nil || i["uses"] != 1.0 ||
		i["joined"].([]any)[0] != "bob" || i["mailed_to"] != nil || i["code"] != code || i["created_at"] != now ||
		i["used"] != true || i["used_by"] != "bob" || i["used_at"] != now {
		t.Errorf("list %v", list)
	}
	b.Call("DELETE", "/api/invites/"+code, nil).Is(409, "invite_used")
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(403, "invite_limit_reached").Hides("/uses")
	w.Browser().Call("POST", "/api/register", registration(code, "cy")).Is(400, "invalid_invite").Hides("have joined")
}

func TestAnInviteIsItsOwnersAlone(t *testing.T) {
	w := accounttest.With(t, "ada", "eve")
	ada, eve := w.SignedIn("ada"), w.SignedIn("eve")
	code := ada.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	w.AddUser("root", account.FlagAdmin)
	for _, other := range []*accounttest.Browser{eve, w.SignedIn("root")} {
		other.Call("GET", "/api/invites", nil).Is(200).Hides(code)
		other.Call("DELETE", "/api/invites/"+code, nil).Is(404, "invite_not_found")
	}
	w.Browser().Call("GET", "/api/invites", nil).Is(401, "not_authenticated")
	w.Browser().Call("POST", "/api/invites", nil).Is(401, "not_authenticated")
	w.Browser().Call("DELETE", "/api/invites/"+code, nil).Is(401, "not_authenticated")
	for _, invalid := range []string{"0000-0000-0000-0000", "%25", "%00", "x", "%27%20OR%201=1", "%F0%9F%98%80", code[:18]} {
		ada.Call("DELETE", "/api/invites/"+invalid, nil).Is(404, "invite_not_found")
	}
	same(t, "blank code", ada.Call("DELETE", "/api/invites/", nil).Status, 404)
	ada.Call("DELETE", "/api/invites/"+strings.ToLower(strings.ReplaceAll(code, "-", "")), nil).Is(204)
	ada.Call("DELETE", "/api/invites/"+code, nil).Is(404, "invite_not_found")
	w.Browser().Call("POST", "/api/register", registration(code, "bob")).Is(400, "invalid_invite")
}

func TestTheInviteLimitHoldsInARace(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	got := accounttest.Parallel(12, func(int) int { return b.Clone().Call("POST", "/api/invites", nil).Status })
	if got[201] != 3 || got[403] != 9 {
		t.Fatalf("%v", got)
	}
	// Expired and deleted invites no longer count.
	w.Clock.Advance(account.InviteLifetime)
	same(t, "remaining", b.Call("GET", "/api/invites", nil).JSON()["remaining"], 3.0)
	b.Call("POST", "/api/invites", nil).Is(201)
}

func TestAdministratorsInviteWithoutLimit(t *testing.T) {
	_, b := accounttest.SignedIn(t, "root1", account.FlagAdmin)
	for range 5 {
		b.Call("POST", "/api/invites", nil).Is(201)
	}
	b.Call("GET", "/api/invites", nil).Is(200).Shows(`"remaining":null`)
}

func TestInvitingIsRateLimited(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitInvite: {Count: 2, Window: time.Hour}}))
	b := w.Member("root1", account.FlagAdmin)
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Call("POST", "/api/invites", nil).Is(429, "rate_limited")
}

func TestNotesAreBounded(t *testing.T) {
	_, b := accounttest.SignedIn(t, "ada")
	for _, note := range []string{strings.Repeat("x", 201), "a\nb", "a\u202eb"} {
		b.Call("POST", "/api/invites", map[string]string{"note": note}).Is(400, "invalid_text")
	}
	b.Call("POST", "/api/invites", map[string]string{"note": strings.Repeat("ü", 200)}).Is(201)
}

func TestPageOfInvitesSaysForHowManyDays(t *testing.T) {
	w := accounttest.With(t, "ada")
	w.AddUser("root1", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) { v.InviteMaxDays = 7 })
	w.SignedIn("ada").Page("/account/invites").Is(200).Shows("within 7 days, unless")
	w.SignedIn("root1").Page("/account/invites").Is(200).Shows("within 7 days, unless")
}

// An administrator who asks for nothing unusual makes the invite of a member, without a fresh proof.
func TestPlainInviteOfAnAdministratorIsNotWide(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("root1", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) { v.InviteMaxDays = 7 })
	b := w.SignedIn("root1")
	w.Clock.Advance(time.Hour)
	if ends := b.Call("POST", "/api/invites", nil).Is(201).JSON()["expires_at"]; ends != w.Clock.Now().AddDate(0, 0, 7).Format(time.RFC3339) {
		t.Errorf("it ends at %v", ends)
	}
	for _, wide := range []map[string]int{{"days": 8}, {"uses": 400}} { // each alone, and the other as usual
		b.Call("POST", "/api/invites", wide).Is(403, "reauthentication_required")
	}
}

func TestInvitesKeepWithinWhatTheInviterMay(t *testing.T) {
	w := accounttest.With(t, "ada")
	w.AddUser("root1", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) {
		v.Flags, v.InviteFlags = append(v.Flags, "coach", "player"), []string{"player"}
		v.InviteMaxUses, v.InviteMaxDays, v.InvitesPerMember = 5, 20, 6
	})
	ada, root := w.SignedIn("ada"), w.SignedIn("root1")
	type terms = map[string]any
	refused := func(b *accounttest.Browser, in terms, field string) {
		t.Helper()
		b.Call("POST", "/api/invites", in).Is(400, "invalid_invite_terms").Shows(`"pointer":"/` + field + `"`)
		left := b.Call("GET", "/api/invites", nil).JSON()["invites"].([]any)
		same(t, fmt.Sprintf("%v: made %v", in, left), len(left), 0)
	}
	for _, flag := range []string{"coach", "admin", "nobody", "x y"} {
		refused(ada, terms{"flags": []string{flag}}, "flags")
	}
	for _, uses := range []int{-1, 0, 6, 501} {
		refused(ada, terms{"uses": uses}, "uses")
	}
	ada.Call("POST", "/api/invites", terms{"uses": 6}).Is(400).Shows(`"1 to 5"`)
	for _, days := range []int{-1, 0, 21, 91} {
		refused(ada, terms{"days": days}, "days")
	}
	for _, domain := range []string{"*.example.org", "localhost", "a@example.org", "example..org"} { // whose addresses nobody has
		refused(root, terms{"domain": domain}, "domain")
	}
	refused(root, terms{"uses": 501}, "uses")
	refused(root, terms{"days": 91}, "days")
	refused(root, terms{"flags": []string{"nobody"}}, "flags")
	refused(root, terms{"domain": "a b"}, "domain")
	root.Call("POST", "/api/invites", terms{"domain": "example.org"}).Is(409, "mail_off")
	ada.Page("/account/invites", "uses", "many", "days", "91", "flag", "coach").Is(400).
		Shows(`id="uses-error"`, `id="days-error"`, `id="flags-error"`, `value="many"`, `value="91"`, "<details class=\"extra\" open>")

	made := ada.Call("POST", "/api/invites", terms{"uses": 4, "days": 20, "flags": []string{"player"}}).Is(201).JSON()
	if made["expires_at"] != w.Clock.Now().Add(20*24*time.Hour).Format(time.RFC3339) {
		t.Errorf("%v", made)
	}
	ada.Call("GET", "/api/invites", nil).Is(200).Shows(`"remaining":2`)
	ada.Call("POST", "/api/invites", terms{"uses": 3}).Is(403, "invite_limit_reached").Shows(`"pointer":"/uses"`)
	join := func(code any, handle string) []string {
		t.Helper()
		w.Browser().Call("POST", "/api/register", registration(code.(string), handle)).Is(201)
		return w.User(handle).Flags
	}
	sameList(t, "flags", join(made["code"], "bo"), []string{"activity", "player"})
	ada.Page("/account/invites").Is(200).Shows("1 of 4 have joined", "@bo")
	two := ada.Call("POST", "/api/invites", terms{"uses": 2}).Is(201).JSON()["code"]
	join(two, "gil")
	join(two, "hal")
	w.Browser().Call("POST", "/api/register", registration(two.(string), "ida")).Is(400, "invalid_invite").Shows("Ask @ada")

	// Beyond what members may: a fresh proof, and only while the maker is an administrator.
	w.Clock.Advance(account.FreshFor + time.Second)
	wide := terms{"uses": 6, "flags": []string{"admin", "coach"}}
	root.Call("POST", "/api/invites", wide).Is(403, "reauthentication_required")
	root.Call("POST", "/api/invites", terms{"uses": 5}).Is(201)
	root.Call("POST", "/api/auth/confirm", map[string]string{"password": accounttest.Password}).Is(200)
	code := root.Call("POST", "/api/invites", wide).Is(201).JSON()["code"]
	sameList(t, "flags", join(code, "cy"), []string{"activity", "admin", "coach"})
	// Those that nobody may give any more are not given.
	w.SaveSettings(func(v *account.Settings) { v.Flags = []string{"activity", "player"} })
	sameList(t, "flags", join(made["code"], "dee"), []string{"activity"})
	sameList(t, "flags", join(code, "eli"), []string{"activity", "admin"})
	w.Clock.Advance(20 * 24 * time.Hour) // two of four have joined
	w.Browser().Call("POST", "/api/register", registration(made["code"].(string), "fay")).Is(400, "invalid_invite").Hides("people have joined")
}

// What an invite ends is chosen on the form, and shown wherever the invite is.
func TestInviteFormHasEnds(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("root1", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) { v.Flags = append(v.Flags, "coach", "player") })
	root := w.SignedIn("root1")
	in := func(days int) string { return w.Clock.Now().AddDate(0, 0, days).Format(time.DateOnly) }
	root.Page("/account/invites", "account_ends", in(-1), "flag", "coach", "ends.coach", in(-1)).Is(400).
		Shows(`id="account_ends-error"`, `id="flags-error"`, `<details class="extra" open>`, `name="account_ends" type="date" value="`+in(-1)+`"`,
			`name="ends.coach" type="date" value="`+in(-1)+`"`)
	root.Page("/account/invites", "account_ends", in(300), "flag", "coach", "flag", "player", "ends.coach", in(100), "ends.activity", in(50)).Is(303)
	i := root.Call("GET", "/api/invites", nil).Is(200).JSON()["invites"].([]any)[0].(map[string]any)
	ends, err := account.ParseEnd(in(300), w.Clock.Now().Location())
	if err != nil || i["account_ends_at"] != ends.Format(time.RFC3339) || len(i["flags"].([]any)) != 2 || len(i["flag_ends"].(map[string]any)) != 1 {
		t.Fatalf("%v, want an end at %v: %v", i, ends, err)
	}
	code := i["code"].(string)
	last := w.Clock.Now().AddDate(0, 0, 300).Format("2 Jan 2006")
	root.Page("/account/invites").Is(200).Shows("The account expires <time", "coach expires <time", `title="`+last+", 23:59")
	root.Page("/account/invites/slip?code=" + code).Is(200).Shows("Last day of the account: " + last)
	w.Browser().Call("POST", "/api/register", registration(code, "bo")).Is(201)
	if u := w.User("bo"); !u.EndsAt.Equal(ends) || len(u.FlagEnds) != 1 || !u.FlagEnds["coach"].Before(ends) {
		t.Errorf("joined with ends %v, %v", u.EndsAt, u.FlagEnds)
	}
	// A permission that has ended, or that the settings no longer have, is left out; a code may come within its link.
	given := root.Call("POST", "/api/invites", map[string]any{"uses": 2, "days": 5, "flags": []string{"coach@" + in(1), "player@" + in(100)}}).Is(201).JSON()
	w.Clock.Advance(3 * 24 * time.Hour)
	w.Browser().Call("POST", "/api/register", registration(given["url"].(string)+"&mailed=x", "cy")).Is(201)
	w.SaveSettings(func(v *account.Settings) { v.Flags = []string{"activity"} })
	w.Browser().Call("POST", "/api/register", registration(given["code"].(string), "dee")).Is(201)
	cy, dee := w.User("cy"), w.User("dee")
	if cy.Has("coach") || !cy.Has("player") || len(cy.FlagEnds) != 1 || dee.Has("player") || dee.FlagEnds != nil {
		t.Errorf("joined with %v until %v, and %v until %v", cy.Flags, cy.FlagEnds, dee.Flags, dee.FlagEnds)
	}
}

// A class that joins in one room has one address.
func TestWholeClassGetsItsLinksAtOneAddress(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitForgot: {Count: 10, Window: time.Hour},
		web.LimitInviteMail: {Count: 2, Window: time.Hour}, // more than the 30 of the invite
		web.LimitMail:       {Count: 2, Window: time.Hour}}))
	addMember(w, "ada", "ada@example.org", "admin")
	ada := w.SignedIn("ada")
	post.new()
	code := ada.Call("POST", "/api/invites", map[string]any{"uses": 30, "domain": "school.example", "flags": []string{"activity", "admin"}}).Is(201).JSON()["code"].(string)
	same(t, "flags that the mail tells of", strings.Count(post.one("ada@example.org").Text, "Added: A"), 2)
	for range 3 { // whoever has the code fills nobody's mailbox
		post.new()
		w.Browser().Page("/register/address", "code", code, "email", "pupil0@school.example")
	}
	post.none()
	for i := 3; i < 30; i++ {
		email := fmt.Sprintf("pupil%d@school.example", i)
		w.Browser().Page("/register/address", "code", code, "email", email).Is(200).Shows(`id="sent"`)
		m := post.one(email)
		has(t, "reason", m.Text, "because someone entered your address.")
		has(t, "for whom it is", m.Text, "The invite is for 30 people, until ")
	}
	for i := 30; i < 42; i++ {
		w.Browser().Page("/register/address", "code", code, "email", fmt.Sprintf("pupil%d@school.example", i)).Is(200)
	}
	w.Browser().Page("/register/address", "code", code, "email", "another@school.example").Is(429)
}

// Whoever has a code must not have mails sent to whom they like.
func TestOnlyAnInviteForCertainAddressesIsMailedToWhoAsks(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	code := w.SignedIn("ada").Call("POST", "/api/invites", map[string]any{"note": "Buy here"}).Is(201).JSON()["code"].(string)
	w.Browser().Call("POST", "/api/register/address", map[string]string{"code": code, "email": "victim@example.org"}).
		Is(400, "invalid_invite").Shows("does not need a verified address")
	w.Browser().Page("/register/address", "code", code, "email", "victim@example.org").Is(400)
	w.Browser().Call("POST", "/api/register", registration(code, "bo")).Is(201)
	post.none() // who has no address is asked to verify none
	same(t, "a mail was asked for", w.User("bo").EmailAskedAt, time.Time{})
}

// The code is known to everybody in the team: only the mail shows whose address it is.
func TestInviteForADomainNeedsAProvenAddress(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	w.SaveSettings(func(v *account.Settings) { v.InviteMaxUses, v.InvitesPerMember = 30, 30 })
	ada := w.SignedIn("ada")
	ada.Call("POST", "/api/invites", map[string]any{"domain": "school.example", "email": "bo@other.example"}).
		Is(400, "invalid_invite_terms").Shows(`"pointer":"/email"`)
	code := ada.Call("POST", "/api/invites", map[string]any{"uses": 5, "domain": "@School.example"}).Is(201).JSON()["code"].(string)
	w.Browser().Page("/register/?code="+code).Is(200).Shows(`action="/register/address"`, `name="email"`).Hides(`name="password"`)
	with := func(handle, email, mailed string) map[string]string {
		r := registration(code, handle)
		r["email"], r["mailed"] = email, mailed
		return r
	}
	for _, email := range []string{"", "zoe@school.example"} {
		w.Browser().Call("POST", "/api/register", with("zoe", email, "")).Is(400, "address_not_proven")
	}
	for _, email := range []string{"", "zoe@other.example", "zoe@notschool.example", "zoe@school.example.org", "school.example",
		// What a mail server may pass on to another host, or read as another address.
		"zoe%other.example@school.example", "other.example!zoe@school.example", "=?utf-8?q?zoe=40other.example=3e?=@school.example",
		"zoé@school.example", ".zoe@school.example", "zo..e@school.example", `zo(e)@school.example`,
	} {
		w.Browser().Call("POST", "/api/register/address", map[string]string{"code": code, "email": email}).Is(400, "invalid_email")
	}
	for _, email := range []string{"zoe+club@school.example", "o'zoe_1.b-c=x@school.example"} {
		w.Browser().Page("/register/address", "code", code, "email", email).Is(200).Shows(`id="sent"`)
		post.one(email)
	}
	w.Browser().Call("POST", "/api/register/address", map[string]string{"code": "0000-0000-0000-0000", "email": "zoe@school.example"}).Is(400, "invalid_invite")
	w.Browser().Page("/register/address", "code", code, "email", "Zoe@School.example").Is(200).Shows(`id="sent"`)
	path, _ := link(t, post.one("zoe@school.example"))
	w.Browser().Page(path).Is(200).Shows(`value="zoe@school.example" readonly`, `name="password"`)
	_, mailed, _ := strings.Cut(path, "&mailed=")
	w.Browser().Call("POST", "/api/register", with("zoe", "other@school.example", mailed)).Is(400, "address_not_proven")
	w.Browser().Call("POST", "/api/register", with("zoe", "", mailed)).Is(201)
	if u := w.User("zoe"); !u.EmailVerified || u.Email != "zoe@school.example" || u.InvitedBy != "ada" {
		t.Errorf("%+v", u)
	}
	w.Browser().Call("POST", "/api/register", with("zoe2", "", mailed)).Is(409, "email_taken")
	// Whoever has an account reads so; the answer is the same.
	w.Browser().Page("/register/address", "code", code, "email", "zoe@school.example").Is(200).Shows(`id="sent"`)
	has(t, "Text", post.one("zoe@school.example").Text, "You already have an account: @zoe")
	// That of the operator names nobody.
	operators, err := w.Administration().NewOperatorInvite(t.Context(), account.Operator(), account.InviteTerms{Domain: "school.example"})
	must(t, err)
	w.Browser().Page("/register/address", "code", operators.Code, "email", "max@school.example").Is(200)
	m := post.one("max@school.example")
	same(t, "subject", m.Subject, "You are invited: Cairn")
	has(t, "Text", m.Text, "You are invited to join “Cairn”.")
}

// An invite knows its session, and whether that was fresh; how long ago is recent is a week.
func TestInvitesEndWithTheSessionThatMadeThemStale(t *testing.T) {
	w := accounttest.New(t)
	w.SaveSettings(func(v *account.Settings) { v.InvitesPerMember = 9 })
	w.AddUser("ada")
	make := func(b *accounttest.Browser) string {
		return account.CanonicalCode(b.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string), 16)
	}
	open := func(code string) bool {
		_, err := w.Store.Invite(t.Context(), code)
		if err != nil && !errors.Is(err, account.ErrInviteNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	here, there := w.SignedIn("ada"), w.SignedIn("ada")
	fresh := make(here)
	w.Clock.Advance(account.FreshFor + time.Minute)
	stale, others := make(here), make(there)
	id, _ := here.SessionIDs()
	must(t, w.Administration().EndSession(t.Context(), account.Operator(), w.User("ada"), id))
	if !open(fresh) || open(stale) || !open(others) {
		t.Errorf("after the end of the session: fresh %t, stale %t, of another session %t", open(fresh), open(stale), open(others))
	}
	w.Clock.Advance(8 * 24 * time.Hour)
	recent := make(w.SignedIn("ada"))
	if _, err := w.Administration().EndSessions(t.Context(), account.Operator(), w.User("ada"), account.Keep{}); err != nil {
		t.Fatal(err)
	}
	if !open(fresh) || open(recent) {
		t.Errorf("after the end of all sessions: of last week %t, of today %t", open(fresh), open(recent))
	}
}
