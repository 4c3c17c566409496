package site_test

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// postbox is the mail server of a world: it keeps what was sent.
type postbox struct {
	w    *accounttest.World
	mu   sync.Mutex
	sent []mail.Message
}

func (p *postbox) Send(_ context.Context, m mail.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m)
	return nil
}

// newMailWorld is newWorld with mail.
func newMailWorld(t *testing.T, change ...func(*accounttest.Options)) (*accounttest.World, *postbox) {
	t.Helper()
	p := &postbox{}
	p.w = accounttest.New(t, append(change, func(o *accounttest.Options) { o.Mail = p })...)
	return p.w, p
}

// mailWorldOf is newMailWorld with members, whose addresses at example.org are verified.
func mailWorldOf(t *testing.T, handles ...string) (*accounttest.World, *postbox) {
	t.Helper()
	w, post := newMailWorld(t)
	for _, handle := range handles {
		addMember(w, handle, handle+"@example.org")
	}
	return w, post
}

// new delivers what waits, and returns what came since it was last called.
func (p *postbox) new() []mail.Message {
	p.w.T.Helper()
	if err := p.w.Post.DeliverMails(p.w.T.Context()); err != nil {
		p.w.T.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

// one is the only new mail, which is to that address.
func (p *postbox) one(to string) mail.Message {
	p.w.T.Helper()
	got := p.new()
	if len(got) != 1 || got[0].To != to {
		p.w.T.Fatalf("mails %+v, want one to %s", got, to)
	}
	return got[0]
}

func (p *postbox) none() {
	p.w.T.Helper()
	if got := p.new(); len(got) != 0 {
		p.w.T.Fatalf("mails %+v, want none", got)
	}
}

var (
	linkForm = regexp.MustCompile(`(?m)^http://localhost:4040(/\S+)$`)
	codeForm = regexp.MustCompile(`(?m)^ +(\d{6})$`)
)

// link is the path of the link of a mail, and the fields of its button.
func link(t testing.TB, m mail.Message) (path string, fields []string) {
	t.Helper()
	found := linkForm.FindStringSubmatch(m.Text)
	if found == nil {
		t.Fatalf("no link in %q", m.Text)
	}
	u, err := url.Parse(found[1])
	must(t, err)
	return found[1], []string{"link", u.Query().Get("link")}
}

var codeField = regexp.MustCompile(`name="code" value="([^"]+)"`)

// addMember makes a member with a verified address who has signed in before.
func addMember(w *accounttest.World, handle, email string, flags ...string) account.User {
	w.T.Helper()
	u := w.AddUser(handle, flags...)
	w.SignedIn(handle)
	setEmail(w, handle, email, true)
	return u
}

func setEmail(w *accounttest.World, handle, email string, verified bool) {
	w.T.Helper()
	_, err := w.Store.ChangeUser(w.T.Context(), w.User(handle).Sub, func(u *account.User) error {
		u.Email, u.EmailVerified = email, verified
		return nil
	}, w.Clock.Now(), nil)
	if err != nil {
		w.T.Fatal(err)
	}
}

func changeEmail(b *accounttest.Browser, email string) {
	b.W.T.Helper()
	b.Call("PATCH", "/api/me", map[string]string{"email": email}).Is(200)
}

func TestLinkOfAMailIsSpentByItsButtonAlone(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	w.AddUser("bob")
	ada, bob := w.SignedIn("ada"), w.SignedIn("bob")
	changeEmail(ada, "ada@example.org")
	path, button := link(t, post.one("ada@example.org"))
	for _, method := range []string{"HEAD", "GET"} {
		w.Browser().Send(method, path, "", "", "Accept", "text/html").Is(200)
	}
	w.Browser().Page(path).Shows("a…@example.org", "the account @ada").Hides("ada@example", "other devices") // for whom it would be
	w.Browser().Page(path + "%20.>").Is(200).Shows(`value="` + button[1] + `"`)                              // as a reader of mails ends it
	w.Browser().Page(strings.Replace(path, "=", "=3D", 1)).Is(200).Shows(`value="` + button[1] + `"`)
	ada.Page(path).Shows("@ada", "ada@example.org")
	bob.Page("/verify-email/", button...).Is(403).Shows("a different account")
	w.Browser().Page("/verify-email/", "link", button[1][1:]).Is(400)
	if w.User("ada").EmailVerified {
		t.Fatal("verified without the button")
	}
	w.Browser().Page("/verify-email/", button...).Is(200).Shows(`id="done"`).Hides("@ada")
	if !w.User("ada").EmailVerified || w.User("bob").EmailVerified {
		t.Fatal("not verified, or another's")
	}
	w.Browser().Page(path).Is(200).Shows(`id="done"`) // it says so again
	w.Browser().Page("/verify-email/", button...).Is(200).Shows(`id="done"`)
	// Spent: what it was for is as it was, or not again.
	setEmail(w, "ada", "ada@example.org", false)
	w.Browser().Page("/verify-email/", button...).Is(400)
	if w.User("ada").EmailVerified {
		t.Fatal("verified twice")
	}
}

func TestMailVerifiesTheAddressItWentToForADay(t *testing.T) {
	w, post := newMailWorld(t)
	ada := w.Member("ada")
	changeEmail(ada, "ada@example.org")
	before, _ := link(t, post.one("ada@example.org"))
	w.Clock.Advance(time.Hour)
	ada.Login("ada", password).Is(200)
	ada.Call("POST", "/api/me/email/send-verification", nil).Is(204)
	w.Browser().Page(before).Is(400) // the mails of an hour are one
	first := post.one("ada@example.org")
	_, button := link(t, first)
	code := codeForm.FindStringSubmatch(first.Text)[1]
	changeEmail(ada, "eve@example.org")
	second := post.one("eve@example.org")
	path, late := link(t, second)
	w.Browser().Page("/verify-email/", button...).Is(400)
	ada.Call("POST", "/api/me/email/verify", map[string]string{"code": code}).Is(400, "invalid_email_code")
	w.Clock.Advance(account.VerificationLifetime)
	w.Browser().Page(path).Is(400)
	w.Browser().Page("/verify-email/", late...).Is(400)
	code = codeForm.FindStringSubmatch(second.Text)[1]
	ada.Call("POST", "/api/me/email/verify", map[string]string{"code": code}).Is(400, "invalid_email_code")
	// Waiting in the outbox, it is no longer about the address of the account.
	ada.Call("POST", "/api/me/email/send-verification", nil).Is(204)
	setEmail(w, "ada", "other@example.org", false)
	post.none()
	if w.User("ada").EmailVerified {
		t.Fatal("verified")
	}
	ada.Login("ada", password).Is(200)
	changeEmail(ada, "ada@example.org")
	path, _ = link(t, post.one("ada@example.org"))
	must(t, w.Administration().Delete(t.Context(), account.Operator(), w.User("ada")))
	w.Browser().Page(path).Is(400).Shows(`data-code="invalid_link"`)
}

func TestCodeOfAMailVerifiesAndGuessesEnd(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitVerify: {Count: 3, Window: 24 * time.Hour},
		web.LimitMail: {Count: 3, Window: time.Hour}}))
	w.AddUser("ada")
	w.AddUser("bob")
	ada, bob := w.SignedIn("ada"), w.SignedIn("bob")
	changeEmail(ada, "ada@example.org")
	code := codeForm.FindStringSubmatch(post.one("ada@example.org").Text)[1]
	ada.Call("POST", "/api/me/email/send-verification", nil).Is(204)
	same(t, "the code changed", codeForm.FindStringSubmatch(post.one("ada@example.org").Text)[1], code)
	ada.Page("/account/profile").Shows(`id="verify-submit"`)
	ada.Page("/account/verify-email", "code", " "+code[:3]+" "+code[3:]).RedirectsTo("/account/profile?notice=email-verified#verify-email")
	if !w.User("ada").EmailVerified {
		t.Fatal("not verified")
	}
	ada.Call("POST", "/api/me/email/send-verification", nil).Is(409, "no_email_to_verify")
	ada.Call("POST", "/api/me/email/verify", map[string]string{"code": code}).Is(409, "no_email_to_verify")

	changeEmail(bob, "bob@example.org")
	code = codeForm.FindStringSubmatch(post.one("bob@example.org").Text)[1]
	wrong := map[string]string{"code": "000000"}
	if code == "000000" {
		wrong["code"] = "000001"
	}
	for range 3 {
		bob.Call("POST", "/api/me/email/verify", wrong).Is(400, "invalid_email_code")
	}
	bob.Call("POST", "/api/me/email/verify", map[string]string{"code": code}).Is(429)
	for range 2 {
		bob.Call("POST", "/api/me/email/send-verification", nil).Is(204)
	}
	bob.Call("POST", "/api/me/email/send-verification", nil).Is(429)
	changeEmail(bob, "victim@example.org") // no way round it
	for _, m := range post.new() {
		same(t, "mail", m.To, "bob@example.org")
	}
}

func TestOwnerOfTheFormerAddressUndoesItsChange(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	thief := w.SignedIn("ada")
	post.new()
	told := moveEmail(post, thief, "thief@example.net")["ada@example.org"]
	path, button := link(t, told)
	lacks(t, "the former address learns the new one", told.Text, "thief")
	has(t, "address that is no longer used", told.Text, "because your address belonged to the account @ada.")
	thief.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	changed := post.byAddress() // a new password is mailed to the present address
	has(t, "present address", changed["thief@example.net"].Text, "/forgot-password/")
	lacks(t, "former address", changed["ada@example.org"].Text, "/forgot-password/")
	has(t, "former address", changed["ada@example.org"].Text, "belonged to")
	thief.Call("POST", "/api/auth/confirm", map[string]string{"password": newPassword}).Is(200)
	_, counter := link(t, moveEmail(post, thief, "thief2@example.net")["thief@example.net"])
	code := w.ResetCode("ada")
	w.Browser().Send("HEAD", path, "", "", "Accept", "text/html").Is(200)
	w.Browser().Page(path).Is(200).Hides("ada@example.org", "@ada")
	if w.User("ada").Email != "thief2@example.net" {
		t.Fatal("undone without the button")
	}
	w.Browser().Page("/undo-email/", button...).Is(200).Shows(`id="done"`)
	if u := w.User("ada"); u.Email != "ada@example.org" || !u.EmailVerified {
		t.Fatalf("%s, verified %v", u.Email, u.EmailVerified)
	}
	if thief.IsSignedIn() {
		t.Error("the thief is signed in")
	}
	w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": code, "password": newPassword}).Is(400)
	w.Browser().Page("/undo-email/", button...).Is(400)
	w.Browser().Page("/undo-email/", counter...).Is(400) // the thief was the owner of the address between
	same(t, "undone twice, or by the thief", w.User("ada").Email, "ada@example.org")
	if m := post.one("thief2@example.net"); linkForm.MatchString(m.Text) || !strings.Contains(m.Text, "belonged to") {
		t.Errorf("the thief gets a link, or is still the owner: %s", m.Text)
	}
}

// So does the code behind a link in a mail, however the address loses the administrator's trust; what was given stays.
func TestCodeOfALinkEndsWithItsAddress(t *testing.T) {
	for name, change := range map[string]account.UserChange{
		"moved": {"email": "ada@example.net", "email_verified": "true"}, "unverified": {"email_verified": "false"},
	} {
		w, post, _ := withThief(t)
		codes := []string{codeField.FindStringSubmatch(press(t, w.Browser(), links(post.one("ada@example.org"))[0]).Is(200).Body)[1]}
		for i, status := range []int{400, 200} {
			_, err := w.Administration().Amend(t.Context(), account.Operator(), w.User("ada"), change)
			must(t, err)
			if got := w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", codes[i], newPassword)); got.Status != status {
				t.Errorf("%s: code %d: %s", name, i, got.Body)
			}
			setEmail(w, "ada", "ada@example.org", true)
			codes = append(codes, w.ResetCode("ada"))
		}
	}
}

// The mailbox of the former address may be what was stolen; an administrator takes the mark away because somebody
// else reads the mails.
func TestMailedResetCodeEndsWithItsAddress(t *testing.T) {
	w, post := mailWorldOf(t, "ada", "bob")
	ada := w.SignedIn("ada")
	given := w.ResetCode("ada")
	for handle, change := range map[string]func(){
		"ada": func() { moveEmail(post, ada, "ada@example.net") },
		"bob": func() {
			unverified := account.UserChange{"email_verified": "false"}
			_, err := w.Administration().Amend(t.Context(), account.Operator(), w.User("bob"), unverified)
			must(t, err)
		},
	} {
		post.new()
		w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": handle}).Is(200)
		path, _ := link(t, post.one(handle+"@example.org"))
		u, _ := url.Parse(path)
		change()
		w.Browser().Call("POST", "/api/auth/reset-password", reset(handle, u.Query().Get("code"), newPassword)).Is(400, "invalid_reset_code")
		if u := w.User(handle); u.EmailVerified && u.Email == handle+"@example.org" {
			t.Errorf("%s: the address is verified", handle)
		}
	}
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", given, newPassword)).Is(400, "invalid_reset_code")
}

func TestUndoneChangeIsToldToTheAddressThatItBrought(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada := w.SignedIn("ada")
	post.new()
	_, button := link(t, moveEmail(post, ada, "ada@example.net")["ada@example.org"])
	w.Browser().Page("/undo-email/", button...).Is(200)
	m := post.one("ada@example.net")
	if !strings.Contains(m.Text, "earlier address restored it") || linkForm.MatchString(m.Text) || strings.Contains(m.Text, "example.org") {
		t.Error(m.Text)
	}
}

func TestRepeatedNoticesFillNoMailbox(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitMail: {Count: 3, Window: time.Hour}}))
	addMember(w, "ada", "ada@example.org")
	var b *accounttest.Browser
	for range 5 { // a script without a cookie, or somebody who knows the password
		b = w.Browser()
		b.Login("ada", password).Is(200)
	}
	same(t, "mails of sign-ins", len(post.new()), 3)
	for range 5 {
		b.Call("GET", "/api/me/export", nil).Is(200)
	}
	same(t, "mails of exports", len(post.new()), 3)
}

func TestChangeOfAddressCannotBeUndoneForEver(t *testing.T) {
	amended := func(c account.UserChange) func(w *accounttest.World, _ *accounttest.Browser) {
		return func(w *accounttest.World, _ *accounttest.Browser) {
			_, err := w.Administration().Amend(w.T.Context(), account.Operator(), w.User("ada"), c)
			must(w.T, err)
		}
	}
	for name, after := range map[string]func(w *accounttest.World, ada *accounttest.Browser){
		"seven days": func(w *accounttest.World, _ *accounttest.Browser) { w.Clock.Advance(account.UndoLifetime) },
		"deleted": func(_ *accounttest.World, ada *accounttest.Browser) {
			ada.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(204)
		},
		"set by an administrator":                 amended(account.UserChange{"email": "fixed@example.org"}),
		"no longer verified, by an administrator": amended(account.UserChange{"email_verified": "false"}),
	} {
		t.Run(name, func(t *testing.T) {
			w, post := newMailWorld(t)
			w.AddUser("root", account.FlagAdmin)
			addMember(w, "ada", "ada@example.org")
			ada := w.SignedIn("ada")
			post.new()
			path, button := link(t, moveEmail(post, ada, "new@example.org")["ada@example.org"])
			after(w, ada)
			w.Browser().Page(path).Is(400)
			w.Browser().Page("/undo-email/", button...).Is(400)
		})
	}
}

// calls notes which methods of the store a request needs.
type calls struct {
	account.Store
	mu   sync.Mutex
	made []string
}

func (c *calls) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, name)
}

func (c *calls) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := strings.Join(c.made, " ")
	c.made = nil
	return made
}

func (c *calls) UserByHandle(ctx context.Context, handle string) (account.User, error) {
	c.note("user")
	return c.Store.UserByHandle(ctx, handle)
}

func (c *calls) UserByEmail(ctx context.Context, email string) (account.User, error) {
	c.note("user")
	return c.Store.UserByEmail(ctx, email)
}

func (c *calls) UserBySub(ctx context.Context, sub string) (account.User, error) {
	c.note("user by sub")
	return c.Store.UserBySub(ctx, sub)
}

func (c *calls) ResetCodeValid(ctx context.Context, handle string, hash []byte, now time.Time) (bool, error) {
	c.note("code")
	return c.Store.ResetCodeValid(ctx, handle, hash, now)
}

func (c *calls) KnownAddress(ctx context.Context, sub, address string, since time.Time) (bool, error) {
	c.note("address")
	return c.Store.KnownAddress(ctx, sub, address, since)
}

func (c *calls) QueueMail(ctx context.Context, m account.Mail, now time.Time) error {
	c.note("queue")
	return c.Store.QueueMail(ctx, m, now)
}

func TestNobodyLearnsWhoHasAnAccount(t *testing.T) {
	counted := &calls{}
	w, post := newMailWorld(t, func(o *accounttest.Options) { counted.Store, o.Store = o.Store, counted })
	addMember(w, "ada", "ada@example.org")
	addMember(w, "sam", "sam@example.org")
	w.Suspend("sam")
	w.AddUser("bob")
	w.AddUser("eve")
	setEmail(w, "eve", "eve@example.org", false)
	post.new()
	names := []string{"ada", "nobody", "sam", "bob", "eve", "@Ada", "ada@example.org", "ADA@Example.org", "nobody@example.org", "sam@example.org", "eve@example.org"}
	ask := func(path string, body map[string]string) {
		t.Helper()
		var first, firstCalls string
		for i, name := range names {
			counted.take()
			body["handle"] = name
			a := w.Browser().Call("POST", path, body)
			made := counted.take()
			if i == 0 {
				first, firstCalls = a.Body, made
			}
			if a.Body != first || made != firstCalls {
				t.Errorf("%s of %s: %d %s (store: %s), of the first: %s (store: %s)", path, name, a.Status, a.Body, made, first, firstCalls)
			}
		}
	}
	ask("/api/auth/forgot-password", map[string]string{})
	for _, typed := range []string{"", "a typed pass phrase"} {
		w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": typed}).Is(200)
		same(t, "a text that can name nobody is stored: "+typed, counted.take(), "")
	}
	var to []string
	for _, m := range post.new() {
		to = append(to, m.To)
	}
	sameList(t, "mails", to, []string{"ada@example.org", "ada@example.org", "ada@example.org", "ada@example.org"})
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name[1:], "@") })
	ask("/api/auth/login", map[string]string{"password": newPassword})
	ask("/api/auth/reset-password", map[string]string{"password": newPassword, "code": strings.Repeat("0", account.ResetCodeLength)})
}

func TestForgottenPasswordIsSetAnewByMail(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitMail: {Count: 3, Window: time.Hour},
		web.LimitForgot: {Count: 6, Window: time.Hour}}))
	addMember(w, "ada", "ada@example.org")
	stolen := w.SignedIn("ada")
	post.new()
	given := w.ResetCode("ada")
	w.Browser().Page("/login/").Shows(`href="/forgot-password/"`)
	long := strings.Repeat("A", 1500) + ".B"
	for range 5 { // a stranger fills nobody's mailbox, nor voids what an administrator has given out
		w.Browser().Page("/forgot-password/", "handle", "@ada", "continue", long).Is(200).Shows(`id="sent"`, long)
	}
	mails := post.new()
	if len(mails) != 3 {
		t.Fatalf("%d mails, want 3", len(mails))
	}
	w.Browser().Page("/forgot-password/", "handle", "ada@example.org").Is(200)
	w.Browser().Page("/forgot-password/", "handle", "ada").Is(429)
	post.none()
	path, _ := link(t, mails[2])
	w.Browser().Page(path).Is(200).Shows(`value="ada"`, "works once, within an hour").Hides("administrator", "24 hours", `id="reset-forgot"`, long)
	for _, broken := range []string{"handle=ada&amp;code=" + given, "handle=3Dada&code=3D" + given, "handle=3Dada&amp;code=3D" + given} {
		w.Browser().Page("/reset-password/?"+broken).Is(200).Shows(`value="ada"`, `value="`+given+`"`).Hides("link-spent")
	}
	i, err := account.NewInvite(w.User("ada").Sub, "", w.Clock.Now())
	if i.Code = "3DABCDEFGHJKMNPQ"; err == nil { // which begins so
		err = w.Store.CreateInvite(t.Context(), i, 3, account.Operator().Audit(w.Clock.Now(), account.CreateInvite, "", ""))
	}
	must(t, err)
	for _, broken := range []string{"", "3D"} {
		w.Browser().Page("/register/?code=" + broken + i.Shown()).Is(200).Shows(`value="` + i.Shown() + `"`)
	}
	w.Browser().Page("/reset-password/?handle=ada&code="+given).Shows("once, within 24 hours").Hides("within an hour", `id="reset-forgot"`)
	w.Browser().Page("/reset-password/").Shows("administrator", `id="reset-forgot"`)
	q, _ := url.Parse(path)
	old, _ := link(t, mails[0])
	before, _ := url.Parse(old)
	typed := []string{"handle", "ada", "code", before.Query().Get("code"), "mailed", "1", "password"}
	w.Browser().Page("/reset-password/", append(typed, "short")...).Is(400).Shows(`id="reset-forgot"`, "administrator")
	reset := func(code string) *accounttest.Answer {
		return w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": "ADA@example.org", "code": code, "password": newPassword})
	}
	reset(before.Query().Get("code")).Is(400, "invalid_reset_code")
	reset(q.Query().Get("code")).Is(200)
	if stolen.IsSignedIn() {
		t.Error("a session outlived the reset")
	}
	reset(q.Query().Get("code")).Is(400, "invalid_reset_code")
	reset(given).Is(400, "invalid_reset_code") // voided by the reset
	same(t, "subject", post.one("ada@example.org").Subject, "Your password was changed")
}

func TestMailedResetCodeLastsAnHourAndLeavesTheGivenOne(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	given := w.ResetCode("ada")
	w.Browser().Page("/forgot-password/", "handle", "ada", "continue", "eyJ9.c2Vh").Is(200)
	path, _ := link(t, post.one("ada@example.org"))
	u, _ := url.Parse(path)
	same(t, "the link leads back to", u.Query().Get("continue"), "eyJ9.c2Vh")
	w.Clock.Advance(account.MailedResetLifetime)
	reset := map[string]string{"handle": "ada", "code": u.Query().Get("code"), "password": newPassword}
	w.Browser().Call("POST", "/api/auth/reset-password", reset).Is(400, "invalid_reset_code")
	reset["code"] = given
	w.Browser().Call("POST", "/api/auth/reset-password", reset).Is(200)
}

func TestAddedPersonChoosesAPasswordByMail(t *testing.T) {
	w, post := newMailWorld(t)
	add := func(handle, email string) (account.User, account.ResetCode) {
		u, c, err := w.Administration().Add(t.Context(), account.Operator(),
			account.NewUser{Handle: handle, Email: email})
		must(t, err)
		return u, c
	}
	if _, c := add("bob", ""); c.Hash == nil {
		t.Error("without an address there is no code to pass on")
	}
	post.none()
	if u, c := add("ada", "ada@example.org"); c.Hash != nil || u.EmailVerified {
		t.Errorf("code %v, verified %v: the mail alone has a code", c.Hash != nil, u.EmailVerified)
	}
	path, _ := link(t, post.one("ada@example.org"))
	u, _ := url.Parse(path)
	w.Clock.Advance(account.WelcomeLifetime - time.Minute)
	reset := map[string]string{"handle": "ada", "code": u.Query().Get("code"), "password": newPassword}
	b := w.Browser()
	if b.Call("POST", "/api/auth/reset-password", reset).Is(200); b.IsSignedIn() {
		t.Error("signed in without the page")
	}
	b.Call("POST", "/api/auth/login", map[string]string{"handle": "ada@example.org", "password": newPassword}).Is(200)
}

func TestWithoutMailAnAdministratorIsAsked(t *testing.T) {
	w := accounttest.New(t)
	addMember(w, "ada", "ada@example.org")
	w.Browser().Page("/forgot-password/").Is(200).Hides("<form").Shows("administrator")
	w.Browser().Page("/login/").Hides("/forgot-password/")
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(409, "mail_off")
	in := map[string]string{"code": w.Invite().Code, "email": "x@example.org"}
	w.Browser().Call("POST", "/api/register/address", in).Is(409, "mail_off")
	w.SaveSettings(openToRequests)
	w.Browser().Page("/register/").Is(200).Shows(`data-page="register"`)
	w.Browser().Call("POST", "/api/join", map[string]string{"name": "Bo", "email": "bo@example.org", "reason": "Runs."}).Is(409, "mail_off")
	ada := w.SignedIn("ada")
	changeEmail(ada, "new@example.org")
	ada.Call("POST", "/api/me/email/send-verification", nil).Is(409, "mail_off")
	ada.Call("POST", "/api/invites", map[string]string{"email": "friend@example.org"}).Is(409, "mail_off")
	addMember(w, "cy", "cy@example.org", account.FlagAdmin)
	promoted := account.FlagChange{account.FlagAdmin: {On: true}}
	_, err := w.Administration().SetFlags(t.Context(), account.Operator(), w.User("ada"), promoted)
	must(t, err)
	bo, in := w.Browser(), registration(w.Invite().Code, "bo")
	in["email"] = "bo@example.org"
	bo.Call("POST", "/api/register", in).Is(201)
	changeEmail(bo, "cy@example.org")
	bo.Page("/account/profile").Is(200).Shows("An administrator can verify it.") // and not that it is of another account
	same(t, "a mail was asked for", w.User("bo").EmailAskedAt, time.Time{})
	waiting, err := w.Store.DueMails(t.Context(), w.Clock.Now(), time.Minute, 10)
	if err != nil || len(waiting) != 0 {
		t.Errorf("%v %v", waiting, err)
	}
}

func TestVerifiedAddressSignsIn(t *testing.T) {
	w, _ := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitLoginAccount: {Count: 3, Window: time.Hour}}))
	addMember(w, "ada", "Ada@example.org")
	addMember(w, "bob", "club@example.org")
	w.AddUser("sam")
	setEmail(w, "sam", "sam@example.org", false)
	w.Browser().Login("ada@EXAMPLE.org", password).Is(200)
	for _, name := range []string{"sam@example.org", "a%@example.org", "nobody@example.org"} {
		w.Browser().Login(name, password).Is(401, "invalid_credentials")
	}
	// What was typed counts, in any case: a limit must not tell whose address it is.
	for i, name := range []string{"ada", "ADA", "@ada"} {
		w.BrowserAt(address(i)).Login(name, newPassword).Is(401)
	}
	w.BrowserAt(address(5)).Login("ada", password).Is(429)
	for i, name := range []string{"ada@example.org", "ADA@example.org", "ada@Example.org"} {
		w.BrowserAt(address(i+6)).Login(name, newPassword).Is(401)
	}
	w.BrowserAt(address(9)).Login("ada@example.org", password).Is(429)
}

func TestSignInFromANewDeviceIsToldOnce(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	setEmail(w, "ada", "ada@example.org", true)
	laptop := w.SignedIn("ada")
	post.one("ada@example.org") // the password was there before, as of who was imported
	laptop.Call("POST", "/api/auth/logout", nil)
	laptop.Login("ada", password).Is(200)
	laptop.Login("ada", password).Is(200)
	post.none()
	addMember(w, "bob", "bob@example.org")
	laptop.Login("bob", password).Is(200)
	post.one("bob@example.org") // the mark is of ada
	laptop.Login("ada", password).Is(200)
	post.none()

	thief := w.BrowserAt("203.0.113.9")
	thief.Send("POST", "/api/auth/login", "application/json", `{"handle":"ada","password":"`+password+`"}`,
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nBcc: x@example.org").Is(200)
	m := post.one("ada@example.org")
	if !strings.Contains(m.Text, "203.0.113.9") || !strings.Contains(m.Text, "Firefox") || strings.Contains(m.Text, "Bcc") {
		t.Errorf("notice %s", m.Text)
	}
	has(t, "audit log", actions(audited(w, account.AuditQuery{Person: "ada"})), "session.create pwd, Firefox on Linux")
	thief.Login("ada", password).Is(200) // again, in the same session
	post.none()
	path, button := link(t, m)
	reader := w.Browser()
	reader.Send("HEAD", path, "", "", "Accept", "text/html").Is(200)
	reader.Page(path).Is(200)
	if !thief.IsSignedIn() {
		t.Fatal("ended without the button")
	}
	var form []string
	for range 2 {
		page := reader.Page("/not-me/", button...).Is(200).Shows(`id="nothing-added"`)
		found := codeField.FindStringSubmatch(page.Body)
		if found == nil {
			t.Fatalf("no form for a password in %s", page.Body)
		}
		form = []string{"handle", "ada", "code", found[1], "mailed", "1"}
	}
	post.one("ada@example.org") // that it was done, once
	if thief.IsSignedIn() || reader.IsSignedIn() || laptop.IsSignedIn() {
		t.Errorf("signed in: thief %v, reader %v, laptop %v", thief.IsSignedIn(), reader.IsSignedIn(), laptop.IsSignedIn())
	}
	laptop.Login("ada", password).Is(403, "password_disowned")
	reader.Page("/reset-password/", append(form, "password", newPassword)...).Is(200).Shows("Password changed")
	post.one("ada@example.org")
	laptop.Login("ada", newPassword).Is(200)
	post.one("ada@example.org")                                           // its mark is void
	if delete(reader.Cookies, "cairn_device"); len(reader.Cookies) != 0 { // it is known, and not signed in
		t.Errorf("the reader has got %v", reader.Cookies)
	}
	reader.Page("/forgot-password/?handle=ada").Shows(`value="ada"`)
	laptop.Call("PUT", "/api/me/password", map[string]string{"current_password": newPassword, "new_password": password}).Is(200)
	post.one("ada@example.org")
	laptop.Call("POST", "/api/auth/logout", nil).Is(200)
	laptop.Login("ada", password).Is(200)
	post.none() // a new password leaves the browser that sets it known
	gone := account.Mail{Sub: w.User("ada").Sub, Address: "ada@example.org",
		Data: map[string]string{"session": "00000000-0000-4000-8000-000000000000"}}
	address, err := w.Service.NotMeURL(gone, false)
	must(t, err)
	reader.Page(strings.TrimPrefix(address, "http://localhost:4040")).Is(200).Shows("so they know the password")
	w.Clock.Advance(7*24*time.Hour + time.Second)
	reader.Page("/not-me/", button...).Is(400)
}

func TestMarkOfADeviceIsOfThisServiceAndBounded(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	post.new()
	b := w.Browser()
	b.Cookies["cairn_device"] = "short." + strings.Repeat("!", 20) + "." + strings.Repeat("A", 20) + "." + strings.Repeat("B", 20) + strings.Repeat("."+strings.Repeat("C", 20), 30)
	b.Login("ada", password).Is(200)
	post.one("ada@example.org")
	if marks := strings.Split(b.Cookies["cairn_device"], "."); len(marks) != 10 || marks[1] != strings.Repeat("A", 20) {
		t.Errorf("marks %q", marks)
	}
	// Of the version before, without a time: as old as can be.
	key, err := hkdf.Key(sha256.New, accounttest.Secret, nil, "cairn device", 32)
	must(t, err)
	m := hmac.New(sha256.New, key)
	m.Write([]byte(w.User("ada").Sub))
	b.Cookies = map[string]string{"cairn_device": base64.RawURLEncoding.EncodeToString(m.Sum(nil))[:20]}
	old := b.Clone()
	b.Login("ada", password).Is(200)
	post.none()
	b.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	post.new()
	old.Login("ada", newPassword).Is(200)
	post.one("ada@example.org") // that voided it
}

func TestInvitesAreMailedWithinBounds(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitInviteMail: {Count: 5, Window: 24 * time.Hour},
		web.LimitMail: {Count: 3, Window: time.Hour}}))
	w.AddUser("ada")
	w.AddUser("root", account.FlagAdmin)
	ada, root := w.SignedIn("ada"), w.SignedIn("root")
	invite := func(b *accounttest.Browser, email string) *accounttest.Answer {
		return b.Call("POST", "/api/invites", map[string]string{"email": email})
	}
	for _, email := range []string{"friend", "a@example.org\r\nBcc: b@example.org", "a@example.org, b@example.org", "A <a@example.org>"} {
		invite(ada, email).Is(400, "invalid_email")
	}
	made := invite(ada, "friend@example.org").Is(201).JSON()
	m := post.one("friend@example.org")
	if path, _ := link(t, m); !strings.HasPrefix("http://localhost:4040"+path, made["url"].(string)+"&mailed=") || !strings.Contains(m.Subject, "@ada") {
		t.Errorf("%s: %s", m.Subject, path)
	}
	for range 2 { // deleted ones count, and are not sent
		code := invite(ada, "friend@example.org").Is(201).JSON()["code"].(string)
		ada.Call("DELETE", "/api/invites/"+code, nil).Is(204)
	}
	post.none()
	invite(ada, "other@example.org").Is(429)
	invite(root, "Friend@example.org").Is(429) // by whomever
	note := []string{"email", "a@example.org", "note", "Tuesday at 18:30. See http://evil.example/x"}
	root.Page("/account/invites", note...).RedirectsTo("/account/invites?notice=invite-mailed#invites")
	root.Page("/account/invites?notice=invite-mailed").Shows(`id="notice"`, "We have emailed the invite.")
	m = post.one("a@example.org")
	if !strings.HasPrefix(m.Text, "@root invites you to join “Cairn”.") ||
		!strings.Contains(m.Text, "\n\n“Tuesday at 18:30. See http evil. example x”\n\nAccept") || !strings.Contains(m.Subject, "Cairn") {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
	for i := range 3 {
		invite(root, string(rune('b'+i))+"@example.org").Is(201)
	}
	invite(root, "e@example.org").Is(429)
	w.SaveSettings(func(v *account.Settings) { v.InvitesPerMember = 0 })
	invite(ada, "f@example.org").Is(403, "invite_limit_reached")
}

// A second click on the button sends the same form: there is one invite and one mail. What was typed anew is another
// invite, and so is what is sent again later.
func TestInviteFormThatIsSentTwiceMailsOnce(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	w.AddUser("root", account.FlagAdmin)
	ada, root := w.SignedIn("ada"), w.SignedIn("root")
	form := func(b *accounttest.Browser, email string) []string {
		once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(b.Page("/account/invites").Is(200).Body)
		if once == nil {
			t.Fatal("the form has no value of its own")
		}
		return []string{"email", email, "once", once[1]}
	}
	sent := "/account/invites?notice=invite-mailed#invites"
	first := form(ada, "friend@example.org")
	for range 4 { // more often than ada may invite
		ada.Page("/account/invites", first...).RedirectsTo(sent)
	}
	post.one("friend@example.org")
	ada.Call("GET", "/api/invites", nil).Is(200).Shows(`"remaining":2`)
	other := slices.Replace(slices.Clone(first), 1, 2, "other@example.org")
	ada.Page("/account/invites", other...).RedirectsTo(sent)
	post.one("other@example.org")
	root.Page("/account/invites", first...).RedirectsTo(sent) // whose form is another one
	post.one("friend@example.org")
	again := form(root, "third@example.org")
	if got := accounttest.Parallel(4, func(int) int { return root.Clone().Page("/account/invites", again...).Status }); got[303] != 4 {
		t.Errorf("at once: %v", got)
	}
	post.one("third@example.org")
	w.Clock.Advance(2 * time.Minute)
	ada.Page("/account/invites", first...).RedirectsTo(sent)
	post.one("friend@example.org")
}

func TestNoticesGoToTheVerifiedAddressInTheReadersLanguage(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada := w.SignedIn("ada")
	ada.Call("PATCH", "/api/me", map[string]string{"locale": "de-AT"}).Is(200)
	post.new()
	ada.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	if m := post.one("ada@example.org"); m.Subject != "Dein Passwort wurde geändert" || !strings.Contains(m.Text, "@ada") || strings.Contains(m.HTML, newPassword) {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
	w.Suspend("ada")
	suspended := post.one("ada@example.org").Text
	lacks(t, "a reason that nobody gave", suspended, "Grund")
	lacks(t, "a link that leads nowhere", suspended, "http")
	a := w.Administration()
	must(t, a.Unsuspend(t.Context(), account.Operator(), w.User("ada")))
	post.one("ada@example.org")
	must(t, a.Delete(t.Context(), account.Operator(), w.User("ada")))
	post.one("ada@example.org") // of an account that is deleted

	w.AddUser("bob")
	setEmail(w, "bob", "mistyped@example.org", false)
	bob := w.SignedIn("bob")
	bob.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	post.none()
	for _, act := range account.Acts {
		kind := act.Told
		if kind == "" || kind == account.MailEmailChanged || kind == account.MailNewDevice {
			continue // these two have tests of their own
		}
		m := account.Mail{Kind: kind, Sub: w.User("bob").Sub, Address: "x@example.org", Data: map[string]string{"handle": "bob", "at": "1", "factor": "totp", "name": "my\r\nkey.example", "reason": "spam"}}
		must(t, w.Store.QueueMail(t.Context(), m, w.Clock.Now()))
		if m := post.one("x@example.org"); m.Subject == "" || !strings.Contains(m.Text, "1 Jan 1970") {
			t.Errorf("%s: %+v", kind, m)
		}
	}
	for factor, wants := range map[string][2]string{
		"totp": {"authenticator app was added", "authenticator app was removed"}, "passkey": {"passkey “my key” was added", "passkey “my key” was removed"},
		"": {"recovery codes were created", "removed"},
	} {
		for i, kind := range []string{account.MailFactorAdded, account.MailFactorRemoved} {
			m := account.Mail{Kind: kind, Address: "x@example.org", Data: map[string]string{"handle": "bob", "at": "1", "factor": factor, "name": "my key"}}
			must(t, w.Store.QueueMail(t.Context(), m, w.Clock.Now()))
			if m := post.one("x@example.org"); !strings.Contains(m.Text, wants[i]) || strings.Contains(m.Text, "A passkey, an") {
				t.Errorf("%s of %q: %s", kind, factor, m.Text)
			}
		}
	}
}

func TestChangeOfAddressNeedsAFreshProof(t *testing.T) {
	w, post := newMailWorld(t)
	ada := w.Member("ada")
	w.Clock.Advance(11 * time.Minute)
	ada.Call("PATCH", "/api/me", map[string]string{"email": "thief@example.net"}).Is(http.StatusForbidden, "reauthentication_required")
	post.none()
}

func TestNewRecoveryCodesAreTold(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	b := w.SignedIn("ada")
	a := enrol(b)
	post.new()
	code := b.Call("POST", "/api/me/recovery-codes", nil).Is(200).JSON()["recovery_codes"].([]any)[0].(string)
	if m := post.one("ada@example.org"); !strings.Contains(m.Text, "recovery codes were created") || strings.Contains(m.Text+m.HTML, code) {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
	loginOTP(w.Browser(), "ada", password, a.codes[0]).Is(401, "invalid_otp")
	loginOTP(w.Browser(), "ada", password, code).Is(200)
}

// The mailbox of an address that was set a short time ago may be a thief's.
func TestResetByAGivenCodeDoesNotTrustARecentAddress(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	thief := w.SignedIn("ada")
	post.new()
	changeEmail(thief, "thief@example.net")
	for _, m := range post.new() {
		if m.To == "thief@example.net" {
			_, button := link(t, m)
			thief.Page("/verify-email/", button...).Is(200)
		}
	}
	if u := w.User("ada"); !u.EmailVerified || u.Email != "thief@example.net" {
		t.Fatalf("the address is %s, verified %t", u.Email, u.EmailVerified)
	}
	invite := thief.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	w.Browser().Page("/reset-password/", "handle", "ada", "code", w.ResetCode("ada"), "password", newPassword).Is(200).Shows(`id="unverified"`, "t…@example.net")
	post.new()
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
	post.none()
	w.Browser().Call("POST", "/api/register", map[string]string{"code": invite, "handle": "mallory", "password": newPassword}).Is(400, "invalid_invite")
	thief.Login("ada", newPassword).Is(200) // whoever it is, the browser is a new one
	if u := w.User("ada"); u.EmailVerified {
		t.Error("verified by a sign-in")
	}

	// Nor does "That wasn’t me" leave it to whoever has set it since.
	addMember(w, "eve", "eve@example.org")
	post.new()
	thief = w.Browser()
	thief.Login("eve", password).Is(200)
	_, button := link(t, post.one("eve@example.org"))
	w.Clock.Advance(time.Minute)
	changeEmail(thief, "thief@example.com")
	for _, m := range post.new() {
		if m.To == "thief@example.com" {
			_, verify := link(t, m)
			thief.Page("/verify-email/", verify...).Is(200)
		}
	}
	w.Browser().Page("/not-me/", button...).Is(200).Shows("t…@example.com")
	post.new()
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "eve"}).Is(200)
	post.none()

	// An address that an administrator set counts.
	addMember(w, "bob", "bob@example.org")
	w.Browser().Page("/reset-password/", "handle", "bob", "code", w.ResetCode("bob"), "password", newPassword).Is(200).Hides(`id="unverified"`)
	if u := w.User("bob"); !u.EmailVerified {
		t.Error("an address that the owner did not change is unverified")
	}
}

// A mail says what its reader needs: the time of their zone, whom to ask, which club it is, and how
// many recovery codes are left.
func TestMailsSayWhatTheirReaderNeeds(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(func(v *account.Settings) { v.InstanceName, v.Contact = "Trail Club", "board@example.org" })
	addMember(w, "ada", "ada@example.org")
	ada := w.SignedIn("ada")
	ada.Call("PATCH", "/api/me", map[string]string{"zoneinfo": "Asia/Kolkata"}).Is(200)
	a := enrol(ada)
	post.new()
	zone, err := time.LoadLocation("Asia/Kolkata")
	must(t, err)
	loginOTP(w.Browser(), "ada", password, a.codes[0]).Is(200)
	used := post.new()
	i := slices.IndexFunc(used, func(m mail.Message) bool { return m.Subject == "A recovery code was used" })
	if i < 0 {
		t.Fatalf("mails %+v", used)
	}
	for _, want := range []string{
		w.Clock.Now().In(zone).Format("2 Jan 2006, 15:04") + " (Asia/Kolkata)",
		"You have 9 recovery codes left.", "tell an administrator.", "Contact: board@example.org",
	} {
		if strings.Count(used[i].Text, want) != 1 {
			t.Errorf("the mail has %q not once: %s", want, used[i].Text)
		}
	}
	changeEmail(ada, "")
	moved := account.UserChange{"email": "ada@example.net", "email_verified": "true"}
	_, err = w.Administration().Amend(t.Context(), account.Operator(), w.User("ada"), moved)
	must(t, err)
	told := post.new()
	if len(told) != 2 || !strings.Contains(told[0].Text, "You can no longer undo this here.") ||
		!strings.Contains(told[1].Text, "An administrator changed the email address of your account @ada") {
		t.Errorf("of a change, and another before the mail was sent: %+v", told)
	}
	w.Suspend("ada")
	has(t, "suspended", post.one("ada@example.net").Text, "Contact: board@example.org")
	bob := account.NewUser{Handle: "bob", Email: "Bob@Example.org"}
	if _, _, err := w.Administration().Add(t.Context(), account.Operator(), bob); err != nil {
		t.Fatal(err)
	}
	m := post.one("bob@example.org")
	if m.Subject != "Welcome: Trail Club" || !strings.Contains(m.Text, "Welcome to “Trail Club”. You are @bob.") || !strings.Contains(m.Text, " UTC.") {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
}

// Whoever joins by the link of a mailed invite has proven its address; the code, which the inviter
// sees, and the link of another invite prove nothing.
func TestMailedInviteProvesItsAddress(t *testing.T) {
	w, post := newMailWorld(t)
	ada := w.Member("ada")
	invite := func(email string) (code, token string) {
		t.Helper()
		code, _ = ada.Call("POST", "/api/invites", map[string]string{"email": email}).Is(201).JSON()["code"].(string)
		path, _ := link(t, post.one(email))
		u, err := url.Parse(path)
		must(t, err)
		w.Browser().Page(path).Is(200).Shows(`value="`+email+`"`, "it is already verified")
		return code, u.Query().Get("mailed")
	}
	code, token := invite("friend@example.org")
	other, otherToken := invite("other@example.org")
	third, _ := invite("third@example.org")
	ada.Page("/account/invites").Is(200).Shows("<dt>Mailed to</dt><dd><bdi>friend@example.org</bdi>")
	w.Browser().Page("/register/?code="+code+"&mailed="+otherToken).Is(200).Hides("example.org", "already verified")
	join := func(handle, code, email, token string, verified bool) {
		t.Helper()
		w.Browser().Page("/register/", "code", code, "handle", handle, "password", password, "email", email, "mailed", token).Is(303)
		if u := w.User(handle); u.EmailVerified != verified || u.Email != email {
			t.Errorf("%s: %q, verified %v", handle, u.Email, u.EmailVerified)
		}
		if mails := post.new(); (len(mails) == 0) != verified {
			t.Errorf("%s: mails %+v", handle, mails)
		}
	}
	join("friend", code, "friend@example.org", token, true)
	join("liar", other, "keeper@example.org", otherToken, false)
	join("inviter", third, "third@example.org", token, false)
	ada.Call("GET", "/api/invites", nil).Is(200).Shows(`"mailed_to":"friend@example.org"`)
}
