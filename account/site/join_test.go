package site_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

func openToRequests(v *account.Settings) { v.Registration = account.RegistrationRequest }

func request(email string) []string {
	return []string{"name", "Bo Berg", "email", email, "reason", "I run on Sundays."}
}

// pending returns the requests that wait, after the links of all new mails were followed.
func pending(t *testing.T, w *accounttest.World, post *postbox) []account.JoinRequest {
	t.Helper()
	for _, m := range post.new() {
		_, form := link(t, m)
		w.Browser().Page("/confirm-join/", form...).Is(200).Shows(`id="done"`)
	}
	list, err := w.Administration().JoinRequests(t.Context())
	must(t, err)
	return list
}

func TestAskingToJoin(t *testing.T) {
	w, post := newMailWorld(t)
	a, ctx, by := w.Administration(), t.Context(), account.Operator()
	w.Browser().Page("/join/", request("bo@example.org")...).Is(403) // only where it is allowed
	w.SaveSettings(openToRequests)
	w.Browser().Page("/register/").Is(200).Shows(`action="/join/"`, `name="reason"`).Hides(`name="password"`)
	w.Browser().Page("/register/?code=").Is(200).Shows(`name="code"`)
	w.Browser().Page("/join/", "name", "", "email", "x", "reason", strings.Repeat("x", 301)).Is(400).
		Shows(`id="name-error"`, `id="email-error"`, `id="reason-error"`, "<p>3 fields need you.</p>")
	w.Browser().Page("/join/", "name", "Bo", "email", "bo@example.org", "reason", " ").Is(400).Shows(`id="reason-error"`)
	post.none()

	w.Browser().Page("/join/", request("bo@example.org")...).Is(200).Shows(`id="sent"`)
	m := post.one("bo@example.org")
	path, form := link(t, m)
	page, _, _ := strings.Cut(path, "?")
	w.Browser().Page(path).Is(200).Shows("bo@example.org") // opening it changes nothing
	if list, err := a.JoinRequests(ctx); err != nil || len(list) != 0 {
		t.Fatalf("%v %v", list, err)
	}
	w.Browser().Page(page, "link", form[1]+"x").Is(400).Shows(`data-code="invalid_link"`)
	w.Browser().Page(page, form...).Is(200).Shows(`id="done"`)
	w.Browser().Page(page, form...).Is(400) // once
	list, err := a.JoinRequests(ctx)
	if err != nil || len(list) != 1 || list[0].Name != "Bo Berg" || list[0].Email != "bo@example.org" || list[0].Reason != "I run on Sundays." {
		t.Fatalf("%+v %v", list, err)
	}

	// Welcome: a link for this address alone.
	must(t, a.AcceptJoin(ctx, by, list[0].ID, "See you on Sunday", nil))
	m = post.one("bo@example.org")
	if !strings.Contains(m.Text, "was accepted") || !strings.Contains(m.Text, "“See you on Sunday”") ||
		!strings.Contains(m.Text, "because you asked to join.") {
		t.Error(m.Text)
	}
	path, _ = link(t, m)
	code, mailed, _ := strings.Cut(strings.TrimPrefix(path, "/register/?code="), "&mailed=")
	w.Browser().Page(path).Is(200).Shows(`value="`+list[0].Name+`"`, `value="`+account.HandleOf(list[0].Name)+`"`)
	w.Browser().Page("/register/?code="+code).Is(200).Hides("bo@example.org", `name="password"`)
	w.Browser().Page("/register/address", "code", code, "email", "eve@example.org").Is(400).Hides("bo@example.org")
	join := map[string]string{"code": code, "handle": "bo", "password": password}
	w.Browser().Call("POST", "/api/register", join).Is(400, "address_not_proven")
	join["mailed"] = mailed
	w.Browser().Call("POST", "/api/register", join).Is(201)
	if u := w.User("bo"); !u.EmailVerified || u.Email != "bo@example.org" || u.InvitedBy != "" {
		t.Errorf("%+v", u)
	}
	if err := a.AcceptJoin(ctx, by, list[0].ID, "", nil); err == nil {
		t.Error("decided twice")
	}

	// No, thanks: by mail, and nothing of it stays.
	w.Browser().Page("/join/", request("cy@example.org")...).Is(200)
	list = pending(t, w, post)
	must(t, a.RefuseJoin(ctx, by, list[0].ID, "We are full"))
	if m := post.one("cy@example.org"); !strings.Contains(m.Text, "was declined") || !strings.Contains(m.Text, "“We are full”") {
		t.Error(m.Text)
	}
	// One that nobody decides ends.
	w.Browser().Page("/join/", request("dee@example.org")...).Is(200)
	if list = pending(t, w, post); len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	w.Clock.Advance(account.JoinRequestLifetime)
	if list = pending(t, w, post); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// What a request to join leads to is kept until the mail that answers it, which may be opened in another browser.
func TestRequestLeadsToItsApplication(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(openToRequests)
	none, other := "", "tours"
	for want, app := range map[string]*string{"&app=forum": nil, "": &none, "&app=tours": &other} {
		b := w.Browser()
		b.Page("/register/?app=forum").Is(200)
		b.Page("/join/", request("bo@example.org")...).Is(200)
		list := pending(t, w, post)
		if len(list) != 1 || list[0].App != "forum" {
			t.Fatalf("%+v", list)
		}
		must(t, w.Administration().AcceptJoin(t.Context(), account.Operator(), list[0].ID, "", app))
		_, leads, _ := strings.Cut(links(post.one("bo@example.org"))[0], "&mailed=")
		if _, leads, _ = strings.Cut(leads, "&"); strings.TrimPrefix(want, "&") != leads {
			t.Errorf("the link leads to %q, not %q", leads, want)
		}
		w.Clock.Advance(time.Hour) // another request of the mailbox is mailed again
	}
}

const sharedSays = "Another account has verified this address."

// A family has one address: the first child has verified it, the second asks with it, and joins with it unverified.
func TestSecondChildOfAFamilyJoins(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(openToRequests)
	addMember(w, "ada", "family@example.org")
	root := w.SignedIn("ada")
	post.new()
	w.Browser().Page("/join/", request("family@example.org")...).Is(200)
	asked := post.one("family@example.org")
	if !strings.Contains(asked.Text, "You already have an account: @ada") || !strings.Contains(asked.Text, "such as your child") {
		t.Fatal(asked.Text)
	}
	press(t, w.Browser(), links(asked)[1]).Is(200)
	waiting, err := w.Administration().JoinRequests(t.Context())
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%+v, %v", waiting, err)
	}
	must(t, w.Administration().AcceptJoin(t.Context(), account.Operator(), waiting[0].ID, "", nil))
	accepted := links(post.one("family@example.org"))[0]
	root.Page("/account/invites", "email", "family@example.org", "app", "x&y").RedirectsTo("/account/invites?notice=invite-mailed#invites")
	invited, toApp := strings.CutSuffix(links(post.one("family@example.org"))[0], "&app=x%26y")
	if !toApp {
		t.Errorf("%s leads to no application", invited)
	}
	for handle, path := range map[string]string{"bo": accepted, "cy": invited} {
		code, mailed, _ := strings.Cut(strings.TrimPrefix(path, "/register/?code="), "&mailed=")
		w.Browser().Page(path).Is(200).Shows(`id="shared-address"`, `value="family@example.org"`).Hides("already verified")
		form := []string{"code", code, "mailed", mailed, "handle", handle, "email", "family@example.org", "shared_address", "1"}
		w.Browser().Page("/register/", append(form, "password", "short")...).Is(400).Shows(`id="shared-address"`)
		w.Browser().Page("/register/", append(form, "password", password)...).RedirectsTo("/account/welcome")
		if u := w.User(handle); u.Email != "family@example.org" || u.EmailVerified {
			t.Errorf("%s: %q, verified %t", handle, u.Email, u.EmailVerified)
		}
		post.none() // there is nothing to verify
		child := w.SignedIn(handle)
		child.Page("/account/welcome").Is(200).Shows(`data-step="passkey"`, "Next steps").Hides(`data-step="address"`)
		child.Page("/account/profile").Is(200).Shows(sharedSays).Hides(`id="verify-email"`)
		w.Browser().Login(handle, password).Is(200)
		w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": handle}).Is(200)
		post.none() // neither of the sign-in nor a link that sets a password: the address is another's
	}
	// The parent, who reads the mails, is told of what is done to it, without a link.
	w.Suspend("bo")
	child := w.SignedIn("cy")
	child.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	enrol(child)
	if told := post.new(); len(told) != 3 || len(links(told[0]))+len(links(told[1]))+len(links(told[2])) != 0 || !strings.Contains(told[0].Text, "@bo") ||
		told[1].Subject != "Your password was changed" || told[2].Subject != "A way to sign in was added" {
		t.Errorf("%+v", told)
	}
	// An own address is verified as anybody's; of one that was typed, a profile does not tell whose it is.
	child.Call("PATCH", "/api/me", map[string]string{"email": "cy@example.org"}).Is(200)
	child.Page("/account/welcome").Is(200).Shows(`data-step="address"`, "Three steps")
	child.Call("PATCH", "/api/me", map[string]string{"email": "family@example.org"}).Is(200)
	child.Page("/account/profile").Is(200).Hides(sharedSays).Shows(`id="verify-send"`)
	if u := w.User("ada"); !u.EmailVerified {
		t.Error("the first has lost the address")
	}
	w.Browser().Login("family@example.org", password).Is(200).Shows(`"handle":"ada"`)
	// Where it was the child's own a short time ago, one mail goes to it, without a link.
	setEmail(w, "ada", "ada@example.org", true)
	setEmail(w, "cy", "family@example.org", true)
	changeEmail(child, "")
	setEmail(w, "ada", "family@example.org", true)
	changeEmail(child, "family@example.org")
	post.new()
	child.Call("PUT", "/api/me/password", map[string]string{"current_password": newPassword, "new_password": password}).Is(200)
	if told := post.one("family@example.org"); len(links(told)) != 0 {
		t.Errorf("%+v", told)
	}
}

// An administrator who closes the door meets neither links that are under way nor one who waits behind it.
func TestRequestsToJoinEndWithTheSetting(t *testing.T) {
	w, post := newMailWorld(t)
	a, ctx, by := w.Administration(), t.Context(), account.Operator()
	w.SaveSettings(openToRequests)
	w.Browser().Page("/join/", request("bo@example.org")...).Is(200)
	waiting := pending(t, w, post)
	w.Browser().Page("/join/", request("cy@example.org")...).Is(200)
	path, form := link(t, post.one("cy@example.org"))
	before := w.Service.WaitingRequests()
	w.SaveSettings(func(v *account.Settings) { v.Registration = account.RegistrationClosed })
	same(t, "they wait, as shown, before and after", fmt.Sprint(before, w.Service.WaitingRequests()), "1 0")
	page, _, _ := strings.Cut(path, "?")
	w.Browser().Page(path).Is(403).Shows(`data-code="registration_full"`)
	w.Browser().Page(page, form...).Is(403)
	fails(t, "accepted", a.AcceptJoin(ctx, by, waiting[0].ID, "", nil), account.ErrRegistrationFull)
	post.none()
	w.SaveSettings(openToRequests)
	w.Browser().Page(page, form...).Is(200) // it was not spent
	if err := a.AcceptJoin(ctx, by, waiting[0].ID, "", nil); err != nil {
		t.Error(err)
	}
}

// Neither the answer nor what it writes says whether an address is known: only its own mailbox does.
func TestAskingToJoinTellsNothingOfMembers(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitMail: {Count: 2, Window: time.Hour}}))
	w.SaveSettings(openToRequests)
	addMember(w, "ada", "ada@example.org")
	post.new()
	for range 4 { // also where the limit of the mailbox is reached
		known := w.Browser().Page("/join/", request("ada@example.org")...).Is(200).Body
		unknown := w.Browser().Page("/join/", request("bob@example.org")...).Is(200).Body
		same(t, fmt.Sprintf("known: %s unknown", known), strings.ReplaceAll(known, "ada@", "bob@"), unknown)
		api := map[string]string{"name": "Ada", "email": "ada@example.org", "reason": "Runs."}
		w.Browser().Call("POST", "/api/join", api).Is(202).Shows(`{"ok":true}`)
	}
	to := map[string]int{}
	for _, m := range post.new() {
		if to[m.To]++; strings.Contains(m.Text, "You already have an account: @ada") != (m.To == "ada@example.org") {
			t.Errorf("%s: %s", m.To, m.Text)
		}
	}
	if to["ada@example.org"] != 2 || to["bob@example.org"] != 2 {
		t.Errorf("mails %v", to)
	}
	// A suspended member is told so, and nothing that does not help.
	addMember(w, "sue", "sue@example.org")
	w.SignedIn("sue").Call("PATCH", "/api/me", map[string]string{"locale": "de"}).Is(200) // whatever that of who asks
	w.Suspend("sue")
	addMember(w, "ed", "ed@example.org")
	must(t, w.Administration().SetEnd(t.Context(), account.Operator(), w.User("ed"), w.Clock.Now().Add(time.Second)))
	w.Clock.Advance(time.Second)
	post.new()
	for handle, says := range map[string]string{"sue": "Dieses Konto ist gesperrt.", "ed": "This account has expired."} {
		w.Browser().Page("/join/", request(handle+"@example.org")...).Is(200)
		if m := post.one(handle + "@example.org"); !strings.Contains(m.Text, says) || strings.Contains(m.Text, "Forgot") || strings.Contains(m.Text, "/login/") {
			t.Errorf("%s: %s", handle, m.Text)
		}
	}
}

// A flood: nothing is stored before a link is opened, few mails go out, and the requests of those who open theirs end at
// the limit. Sign-ins go on.
func TestRequestsToJoinAreCountedByMailbox(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitMail: {Count: 2, Window: time.Hour}}))
	w.SaveSettings(openToRequests)
	for _, c := range []struct {
		emails []string
		mails  int
	}{
		{[]string{"vic+1@example.org", "vic+2@example.org", "vic@example.org", "VIC+x+y@example.org"}, 2},
		{[]string{"v.i.c@gmail.com", "vic@googlemail.com", "vic+1@gmail.com"}, 2},
		{[]string{"a.b@example.org", "ab@example.org", "ab@example.net", "+1@example.org", "+2@example.org"}, 5},
	} {
		for _, email := range c.emails {
			w.Browser().Page("/join/", request(email)...).Is(200).Shows("We have sent an email to")
		}
		same(t, fmt.Sprintf("mails to %v", c.emails), len(post.new()), c.mails)
	}
	for _, name := range []string{"\u200d", "Ada\u202e", " "} { // as a display name
		w.Browser().Call("POST", "/api/join", map[string]string{"name": name, "email": "bob@example.org", "reason": "Runs."}).Is(400, "invalid_join_request")
	}
	w.Browser().Call("POST", "/api/join", map[string]string{"name": "Bob", "email": "bob@example.org", "reason": "Runs\u202e."}).
		Is(400, "invalid_join_request").Shows(`"pointer":"/reason"`)
	for _, email := range []string{" ", "a@-e.test"} {
		w.Browser().Call("POST", "/api/join", map[string]string{"name": "Bob", "email": email, "reason": "Runs."}).Is(400, "invalid_email")
	}
	post.none()
}

func TestFloodOfRequestsToJoin(t *testing.T) {
	limits := map[string]web.Rate{web.LimitJoin: {Count: 5, Window: time.Hour},
		web.LimitJoinAll: {Count: 100, Window: time.Hour}}
	w, post := newMailWorld(t, withLimits(limits))
	w.SaveSettings(openToRequests)
	w.AddUser("ada")
	addMember(w, "root1", "root1@example.org", account.FlagAdmin)
	post.new()
	began, got := w.Clock.Now(), map[int]int{}
	for i := range 10_000 {
		b := w.BrowserAt(fmt.Sprintf("2001:db8:%x::%x", i%150, i)) // 150 networks, each with a turn
		got[b.Call("POST", "/api/join", map[string]string{"name": "x", "email": fmt.Sprintf("x%d@x%d.example", i, i%7), "reason": "x"}).Status]++
	}
	if got[202] != 150 || got[429] != 9_850 {
		t.Errorf("%v", got)
	}
	w.Browser().Login("ada", password).Is(200)
	for _, left := range []int{100, 125, 150} {
		if list := pending(t, w, post); len(list) != left {
			t.Errorf("after %v %d requests wait", w.Clock.Now().Sub(began), len(list))
		}
		w.Clock.Advance(15 * time.Minute)
	}
	tell(t, w)
	has(t, "Text", post.one("root1@example.org").Text, "150 people are waiting to join")
	for hour := range 2 {
		w.Clock.Advance(2 * time.Hour)
		for i := range 100 {
			b := w.BrowserAt(fmt.Sprintf("2001:db8:%x::1", i))
			b.Call("POST", "/api/join", map[string]string{"name": "x", "email": fmt.Sprintf("y%d-%d@y%d.example", hour, i, i%7), "reason": "x"}).Is(202)
		}
		full := 0
		for _, m := range post.new() {
			_, form := link(t, m)
			if w.Browser().Page("/confirm-join/", form...).Status == 409 {
				full++
			}
		}
		same(t, fmt.Sprintf("hour %d: were told that too many wait", hour), full, 50+hour*50)
	}
	if list, err := w.Administration().JoinRequests(t.Context()); err != nil || len(list) != account.MaxJoinRequests {
		t.Errorf("%d requests wait: %v", len(list), err)
	}
}

// Five hundred networks get as many mails an hour as the limit says, and a mail that waits holds up nothing else.
func TestMailsOfRequestsToJoinArePaced(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitJoinAll: {Count: 10, Window: time.Hour}, web.LimitMail: {Count: 1, Window: time.Hour}}))
	w.SaveSettings(openToRequests)
	addMember(w, "ada", "ada@example.org")
	n := 0
	ask := func(address string) int {
		n++
		in := map[string]string{"name": "x", "email": address, "reason": "x"}
		return w.BrowserAt(fmt.Sprintf("2001:db8:%x::1", n)).Call("POST", "/api/join", in).Status
	}
	got := map[int]int{}
	for i := range 499 {
		got[ask(fmt.Sprintf("x%d@x%d.example", i, i))]++
	}
	if got[202] != 250 || got[429] != 249 { // ten at once, and those of a day
		t.Errorf("%v", got)
	}
	for hour := range 25 {
		same(t, fmt.Sprintf("hour %d: mails", hour), len(post.new()), 10)
		if hour == 1 {
			for range 2 { // the answer is the same where no second mail is sent
				n++
				w.BrowserAt(fmt.Sprintf("2001:db8:%x::1", n)).Page("/join/", request("ada@example.org")...).
					Is(200).Shows("The email to ada@example.org may take up to a day.")
			}
			w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
			has(t, "Text", post.one("ada@example.org").Text, "password")
		}
		w.Clock.Advance(time.Hour)
	}
}

// One household does not use up the turns of everybody else.
func TestNetworksTakeTurnsToAskToJoin(t *testing.T) {
	limits := map[string]web.Rate{web.LimitJoin: {Count: 5, Window: time.Hour},
		web.LimitJoinAll: {Count: 100, Window: time.Hour}}
	w, _ := newMailWorld(t, withLimits(limits))
	w.SaveSettings(openToRequests)
	n := 0
	ask := func(address string, status int) {
		t.Helper()
		n++
		w.BrowserAt(address).Call("POST", "/api/join", map[string]string{"name": "x", "email": fmt.Sprintf("x%d@x.example", n), "reason": "x"}).Is(status)
	}
	for i := range 100 {
		ask(fmt.Sprintf("2001:db8:1:%x::1", i%20), 202)
	}
	ask("2001:db8:1:20::1", 429) // of the household
	for range 2 {
		ask("2001:db8:1:120::1", 429) // of a neighbour's, whose network has had more than its share
	}
	for _, stranger := range []string{"2001:db8:2:1::1", "2001:db8:2:101::1", "192.0.2.1", "192.0.2.2", "198.51.100.1"} {
		ask(stranger, 202)
		ask(stranger, 429) // others first
	}
	ask("192.0.2.3", 429)
	w.Clock.Advance(2 * time.Hour)
	ask("2001:db8:1:20::1", 202)
}

// A family asks for its children; nobody fills the list from one mailbox, however its address is written.
func TestFewRequestsOfOneMailboxWait(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(openToRequests)
	ask := func(name, email string) int {
		t.Helper()
		w.Clock.Advance(time.Second)
		w.Browser().Call("POST", "/api/join", map[string]string{"name": name, "email": email, "reason": "Runs."}).Is(202)
		_, form := link(t, post.one(email))
		return w.Browser().Page("/confirm-join/", form...).Status
	}
	for i, c := range []struct {
		name, email string
		status      int
	}{
		{"Ada", "family@example.org", 200}, {"Bo", "family@example.org", 200},
		{"Bo", "family@example.org", 200}, // again: one request
		{"Cy", "family+cy@example.org", 200}, {"Dee", "family+1@example.org", 200}, {"Eve", "family@example.org", 200},
		{"Flo", "family+flo@example.org", 409}, {"Gus", "f.amily@example.org", 200},
		{"Gil", "gil@gmail.com", 200}, {"Gil", "g.i.l@gmail.com", 200},
	} {
		same(t, fmt.Sprintf("%d: %s %s", i, c.name, c.email), ask(c.name, c.email), c.status)
	}
	list, err := w.Administration().JoinRequests(t.Context())
	if err != nil || len(list) != 8 {
		t.Fatalf("%d wait: %v", len(list), err)
	}
	for _, r := range list[:2] {
		must(t, w.Administration().AcceptJoin(t.Context(), account.Operator(), r.ID, "", nil))
	}
	same(t, "mails for two children", len(post.new()), 2)
}

func tell(t *testing.T, w *accounttest.World) {
	t.Helper()
	for range 2 { // the second finds nothing left
		must(t, w.Service.TellJoins(t.Context()))
	}
}

// One mail an hour at most, in the language of each administrator, without what strangers wrote.
func TestAdministratorsAreToldOfRequestsToJoin(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(openToRequests)
	for _, handle := range []string{"root1", "root2", "root3"} {
		addMember(w, handle, handle+"@example.org", account.FlagAdmin)
	}
	addMember(w, "ada", "ada@example.org")
	w.AddUser("root4", account.FlagAdmin) // has no address
	w.Suspend("root3")
	_, err := w.Store.ChangeUser(t.Context(), w.User("root2").Sub, func(u *account.User) error { u.Profile.Locale = "de"; return nil }, w.Clock.Now(), nil)
	must(t, err)
	post.new()
	tell(t, w)
	post.none()
	ask := func(email string) {
		t.Helper()
		w.Browser().Page("/join/", request(email)...).Is(200)
		pending(t, w, post)
	}
	told := func(english, german string) {
		t.Helper()
		tell(t, w)
		got := map[string]string{}
		for _, m := range post.new() {
			got[m.To] = m.Text
		}
		if len(got) != 2 || !strings.Contains(got["root1@example.org"], english) || !strings.Contains(got["root2@example.org"], german) ||
			!strings.Contains(got["root1@example.org"], "/admin/invites#requests") || strings.Contains(got["root1@example.org"], "Berg") {
			t.Errorf("%v", got)
		}
	}
	ask("bo@example.org")
	w.Start()
	tell(t, w) // without mail nobody is told
	w.Start(func(o *accounttest.Options) { o.Mail = post })
	post.none()
	told("1 person is waiting to join", "1 Person möchte beitreten")
	ask("cy@example.org")
	ask("dee@example.org")
	tell(t, w)
	post.none() // within the hour
	w.Clock.Advance(time.Hour)
	told("3 people are waiting to join", "3 Personen möchten beitreten")
	w.Clock.Advance(2 * time.Hour)
	tell(t, w)
	post.none() // of the same requests nobody is told twice
	// Told is who is an administrator when the mail goes, where they can be reached then.
	ask("flo@example.org")
	tell(t, w)
	change := account.UserChange{"email": "moved@example.org", "email_verified": "true"}
	if _, err := w.Administration().WithMail(false).Amend(t.Context(), account.Operator(), w.User("root1"), change); err != nil {
		t.Fatal(err)
	}
	demoted := account.FlagChange{account.FlagAdmin: {}}
	if _, err := w.Administration().WithMail(false).SetFlags(t.Context(), account.Operator(), w.User("root2"), demoted); err != nil {
		t.Fatal(err)
	}
	post.none()
	w.Clock.Advance(2 * time.Hour)
	// What was decided before the mail goes is not told.
	ask("eve@example.org")
	list, err := w.Administration().JoinRequests(t.Context())
	tell(t, w)
	for _, r := range list {
		must(t, w.Administration().RefuseJoin(t.Context(), account.Operator(), r.ID, ""))
	}
	for _, m := range post.new() {
		if strings.HasPrefix(m.To, "root") {
			t.Errorf("%+v", m)
		}
	}
	if err != nil || len(list) != 5 {
		t.Errorf("%d requests: %v", len(list), err)
	}
}
