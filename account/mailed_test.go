package account_test

import (
	"context"
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
)

// postbox is the mail server of a world: it keeps what was sent.
type postbox struct {
	w    *world
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
func newMailWorld(t *testing.T, change ...func(*account.Options)) (*world, *postbox) {
	t.Helper()
	p := &postbox{}
	p.w = newWorld(t, append(change, func(o *account.Options) { o.Mail = p })...)
	return p.w, p
}

// new delivers what waits, and returns what came since it was last called.
func (p *postbox) new() []mail.Message {
	p.w.t.Helper()
	if err := p.w.service.DeliverMails(p.w.t.Context()); err != nil {
		p.w.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

// one is the only new mail, which is to that address.
func (p *postbox) one(to string) mail.Message {
	p.w.t.Helper()
	got := p.new()
	if len(got) != 1 || got[0].To != to {
		p.w.t.Fatalf("mails %+v, want one to %s", got, to)
	}
	return got[0]
}

func (p *postbox) none() {
	p.w.t.Helper()
	if got := p.new(); len(got) != 0 {
		p.w.t.Fatalf("mails %+v, want none", got)
	}
}

var (
	linkForm = regexp.MustCompile(`(?m)^http://localhost:4040(/\S+)$`)
	codeForm = regexp.MustCompile(`(?m)^ +(\d{6})$`)
)

// link is the path of the link of a mail, and the fields of its button.
func link(t *testing.T, m mail.Message) (path string, fields []string) {
	t.Helper()
	found := linkForm.FindStringSubmatch(m.Text)
	if found == nil {
		t.Fatalf("no link in %q", m.Text)
	}
	u, err := url.Parse(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return found[1], []string{"link", u.Query().Get("link")}
}

// addMember makes a member with a verified address who has signed in before.
func (w *world) addMember(handle, email string) account.User {
	w.t.Helper()
	u := w.addUser(handle)
	w.signedIn(handle)
	w.setEmail(handle, email, true)
	return u
}

func (w *world) setEmail(handle, email string, verified bool) {
	w.t.Helper()
	_, err := w.store.ChangeUser(w.t.Context(), w.user(handle).Sub, func(u *account.User) error {
		u.Email, u.EmailVerified = email, verified
		return nil
	}, w.clock.Now(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

func (b *browser) changeEmail(email string) {
	b.w.t.Helper()
	b.call("PATCH", "/api/me", map[string]string{"email": email}).is(200)
}

func TestLinkOfAMailIsSpentByItsButtonAlone(t *testing.T) {
	w, post := newMailWorld(t)
	w.addUser("ada")
	w.addUser("bob")
	ada, bob := w.signedIn("ada"), w.signedIn("bob")
	ada.changeEmail("ada@example.org")
	path, button := link(t, post.one("ada@example.org"))
	for _, method := range []string{"HEAD", "GET"} {
		w.browser().send(method, path, "", "", "Accept", "text/html").is(200)
	}
	w.browser().page(path).shows("a…@example.org", "the account @ada").hides("ada@example") // for whom it would be
	ada.page(path).shows("@ada", "ada@example.org")
	bob.page("/verify-email/", button...).is(403).shows("a different account")
	w.browser().page("/verify-email/", "link", button[1][1:]).is(400)
	if w.user("ada").EmailVerified {
		t.Fatal("verified without the button")
	}
	w.browser().page("/verify-email/", button...).is(200).shows(`id="done"`).hides("@ada")
	if !w.user("ada").EmailVerified || w.user("bob").EmailVerified {
		t.Fatal("not verified, or another's")
	}
	// Spent: what it was for is as it was, or not again.
	w.setEmail("ada", "ada@example.org", false)
	w.browser().page("/verify-email/", button...).is(400)
	if w.user("ada").EmailVerified {
		t.Fatal("verified twice")
	}
}

func TestMailVerifiesTheAddressItWentToForADay(t *testing.T) {
	w, post := newMailWorld(t)
	w.addUser("ada")
	ada := w.signedIn("ada")
	ada.changeEmail("ada@example.org")
	first := post.one("ada@example.org")
	_, button := link(t, first)
	code := codeForm.FindStringSubmatch(first.Text)[1]
	ada.changeEmail("eve@example.org")
	_, late := link(t, post.one("eve@example.org"))
	w.browser().page("/verify-email/", button...).is(400)
	ada.call("POST", "/api/me/email/verify", map[string]string{"code": code}).is(400, "invalid_email_code")
	w.clock.Advance(account.VerificationLifetime)
	w.browser().page("/verify-email/", late...).is(400)
	// Waiting in the outbox, it is no longer about the address of the account.
	ada.call("POST", "/api/me/email/send-verification", nil).is(204)
	w.setEmail("ada", "other@example.org", false)
	post.none()
	if w.user("ada").EmailVerified {
		t.Fatal("verified")
	}
}

func TestCodeOfAMailVerifiesAndGuessesEnd(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitVerify: {Count: 3, Window: 24 * time.Hour}, web.LimitMail: {Count: 3, Window: time.Hour}}))
	w.addUser("ada")
	w.addUser("bob")
	ada, bob := w.signedIn("ada"), w.signedIn("bob")
	ada.changeEmail("ada@example.org")
	code := codeForm.FindStringSubmatch(post.one("ada@example.org").Text)[1]
	ada.call("POST", "/api/me/email/send-verification", nil).is(204)
	if again := codeForm.FindStringSubmatch(post.one("ada@example.org").Text)[1]; again != code {
		t.Errorf("the code changed from %s to %s", code, again)
	}
	ada.page("/account/").shows(`id="verify-submit"`)
	ada.page("/account/verify-email", "code", " "+code[:3]+" "+code[3:]).redirectsTo("/account/?notice=email-verified#verify-email")
	if !w.user("ada").EmailVerified {
		t.Fatal("not verified")
	}
	ada.call("POST", "/api/me/email/send-verification", nil).is(409, "no_email_to_verify")

	bob.changeEmail("bob@example.org")
	code = codeForm.FindStringSubmatch(post.one("bob@example.org").Text)[1]
	wrong := map[string]string{"code": "000000"}
	if code == "000000" {
		wrong["code"] = "000001"
	}
	for range 3 {
		bob.call("POST", "/api/me/email/verify", wrong).is(400, "invalid_email_code")
	}
	bob.call("POST", "/api/me/email/verify", map[string]string{"code": code}).is(429)
	for range 2 {
		bob.call("POST", "/api/me/email/send-verification", nil).is(204)
	}
	bob.call("POST", "/api/me/email/send-verification", nil).is(429)
	bob.changeEmail("victim@example.org") // no way round it
	for _, m := range post.new() {
		if m.To != "bob@example.org" {
			t.Errorf("mail to %s", m.To)
		}
	}
}

func TestOwnerOfTheFormerAddressUndoesItsChange(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	thief := w.signedIn("ada")
	post.new()
	thief.changeEmail("thief@example.net")
	var path string
	var button []string
	for _, m := range post.new() {
		switch m.To {
		case "ada@example.org":
			path, button = link(t, m)
			if strings.Contains(m.Text, "thief") {
				t.Errorf("the former address learns the new one: %s", m.Text)
			}
		case "thief@example.net":
			_, verify := link(t, m)
			thief.page("/verify-email/", verify...).is(200)
		}
	}
	thief.changeEmail("thief2@example.net")
	var counter []string
	for _, m := range post.new() {
		if m.To == "thief@example.net" {
			_, counter = link(t, m)
		}
	}
	code := w.resetCode("ada")
	w.browser().send("HEAD", path, "", "", "Accept", "text/html").is(200)
	w.browser().page(path).is(200).hides("ada@example.org", "@ada")
	if w.user("ada").Email != "thief2@example.net" {
		t.Fatal("undone without the button")
	}
	w.browser().page("/undo-email/", button...).is(200).shows(`id="done"`)
	if u := w.user("ada"); u.Email != "ada@example.org" || !u.EmailVerified {
		t.Fatalf("%s, verified %v", u.Email, u.EmailVerified)
	}
	if thief.isSignedIn() {
		t.Error("the thief is signed in")
	}
	w.browser().call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": code, "password": newPassword}).is(400)
	w.browser().page("/undo-email/", button...).is(400)
	w.browser().page("/undo-email/", counter...).is(400) // the thief was the owner of the address between
	if w.user("ada").Email != "ada@example.org" {
		t.Error("undone twice, or by the thief")
	}
	post.none() // to the new address above all
}

// The mailbox of the former address may be what was stolen.
func TestMailedResetCodeEndsWithItsAddress(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	ada := w.signedIn("ada")
	post.new()
	given := w.resetCode("ada")
	w.browser().call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).is(200)
	path, _ := link(t, post.one("ada@example.org"))
	u, _ := url.Parse(path)
	ada.changeEmail("ada@example.net")
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", u.Query().Get("code"), newPassword)).is(400, "invalid_reset_code")
	w.browser().call("POST", "/api/auth/reset-password", reset("ada", given, newPassword)).is(200)
}

func TestUndoneChangeIsToldToTheAddressThatItBrought(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	ada := w.signedIn("ada")
	post.new()
	ada.changeEmail("ada@example.net")
	var button []string
	for _, m := range post.new() {
		if m.To == "ada@example.org" {
			_, button = link(t, m)
		}
	}
	w.setEmail("ada", "ada@example.net", true)
	w.browser().page("/undo-email/", button...).is(200)
	m := post.one("ada@example.net")
	if !strings.Contains(m.Text, "undid the change") || linkForm.MatchString(m.Text) || strings.Contains(m.Text, "example.org") {
		t.Error(m.Text)
	}
}

func TestRepeatedNoticesFillNoMailbox(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitMail: {Count: 3, Window: time.Hour}}))
	w.addMember("ada", "ada@example.org")
	var b *browser
	for range 5 { // a script without a cookie, or somebody who knows the password
		b = w.browser()
		b.login("ada", password).is(200)
	}
	if got := len(post.new()); got != 3 {
		t.Errorf("%d mails of sign-ins", got)
	}
	for range 5 {
		b.call("GET", "/api/me/export", nil).is(200)
	}
	if got := len(post.new()); got != 3 {
		t.Errorf("%d mails of exports", got)
	}
}

func TestChangeOfAddressCannotBeUndoneForEver(t *testing.T) {
	for name, after := range map[string]func(w *world, ada *browser){
		"seven days": func(w *world, _ *browser) { w.clock.Advance(account.UndoLifetime) },
		"deleted": func(_ *world, ada *browser) {
			ada.call("DELETE", "/api/me", map[string]string{"password": password}).is(204)
		},
		"set by an administrator": func(w *world, _ *browser) {
			if _, err := w.service.Administration().Amend(w.t.Context(), account.Operator(), w.user("ada"), account.UserChange{"email": "fixed@example.org"}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, post := newMailWorld(t)
			w.addUser("root", account.FlagAdmin)
			w.addMember("ada", "ada@example.org")
			ada := w.signedIn("ada")
			post.new()
			ada.changeEmail("")
			path, button := link(t, post.one("ada@example.org"))
			after(w, ada)
			w.browser().page(path).is(400)
			w.browser().page("/undo-email/", button...).is(400)
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

func (c *calls) KnownAddress(ctx context.Context, sub, address string) (bool, error) {
	c.note("address")
	return c.Store.KnownAddress(ctx, sub, address)
}

func (c *calls) QueueMail(ctx context.Context, m account.Mail, now time.Time) error {
	c.note("queue")
	return c.Store.QueueMail(ctx, m, now)
}

func TestNobodyLearnsWhoHasAnAccount(t *testing.T) {
	counted := &calls{}
	w, post := newMailWorld(t, func(o *account.Options) { counted.Store, o.Store = o.Store, counted })
	w.addMember("ada", "ada@example.org")
	w.addMember("sam", "sam@example.org")
	w.suspend("sam")
	w.addUser("bob")
	w.addUser("eve")
	w.setEmail("eve", "eve@example.org", false)
	post.new()
	names := []string{"ada", "nobody", "sam", "bob", "eve", "@Ada", "ada@example.org", "ADA@Example.org", "nobody@example.org", "sam@example.org", "eve@example.org"}
	ask := func(path string, body map[string]string) {
		t.Helper()
		var first, firstCalls string
		for i, name := range names {
			counted.take()
			body["handle"] = name
			a := w.browser().call("POST", path, body)
			made := counted.take()
			if i == 0 {
				first, firstCalls = a.body, made
			}
			if a.body != first || made != firstCalls {
				t.Errorf("%s of %s: %d %s (store: %s), of the first: %s (store: %s)", path, name, a.status, a.body, made, first, firstCalls)
			}
		}
	}
	ask("/api/auth/forgot-password", map[string]string{})
	var to []string
	for _, m := range post.new() {
		to = append(to, m.To)
	}
	if want := []string{"ada@example.org", "ada@example.org", "ada@example.org", "ada@example.org"}; !slices.Equal(to, want) {
		t.Errorf("mails to %q, want %q", to, want)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name[1:], "@") })
	ask("/api/auth/login", map[string]string{"password": newPassword})
	ask("/api/auth/reset-password", map[string]string{"password": newPassword, "code": account.NewCode(account.ResetCodeLength)})
}

func TestForgottenPasswordIsSetAnewByMail(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitMail: {Count: 3, Window: time.Hour}, web.LimitForgot: {Count: 6, Window: time.Hour}}))
	w.addMember("ada", "ada@example.org")
	stolen := w.signedIn("ada")
	post.new()
	given := w.resetCode("ada")
	w.browser().page("/login/").shows(`href="/forgot-password/"`)
	for range 5 { // a stranger fills nobody's mailbox, nor voids what an administrator has given out
		w.browser().page("/forgot-password/", "handle", "@ada").is(200).shows(`id="sent"`)
	}
	mails := post.new()
	if len(mails) != 3 {
		t.Fatalf("%d mails, want 3", len(mails))
	}
	w.browser().page("/forgot-password/", "handle", "ada@example.org").is(200)
	w.browser().page("/forgot-password/", "handle", "ada").is(429)
	post.none()
	path, _ := link(t, mails[2])
	w.browser().page(path).is(200).shows(`value="ada"`, "works once, for an hour").hides("administrator", "24 hours", `id="reset-forgot"`)
	w.browser().page("/reset-password/?handle=ada&code="+given).shows("once, for 24 hours").hides("for an hour", `id="reset-forgot"`)
	w.browser().page("/reset-password/").shows("administrator", `id="reset-forgot"`)
	q, _ := url.Parse(path)
	old, _ := link(t, mails[0])
	before, _ := url.Parse(old)
	typed := []string{"handle", "ada", "code", before.Query().Get("code"), "mailed", "1", "password"}
	w.browser().page("/reset-password/", append(typed, "short")...).is(400).shows(`id="reset-forgot"`, "administrator")
	reset := func(code string) *answer {
		return w.browser().call("POST", "/api/auth/reset-password", map[string]string{"handle": "ADA@example.org", "code": code, "password": newPassword})
	}
	reset(before.Query().Get("code")).is(400, "invalid_reset_code")
	reset(q.Query().Get("code")).is(200)
	if stolen.isSignedIn() {
		t.Error("a session outlived the reset")
	}
	reset(q.Query().Get("code")).is(400, "invalid_reset_code")
	reset(given).is(400, "invalid_reset_code") // voided by the reset
	if m := post.one("ada@example.org"); m.Subject != "Your password was changed" {
		t.Errorf("subject %q", m.Subject)
	}
}

func TestMailedResetCodeLastsAnHourAndLeavesTheGivenOne(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	given := w.resetCode("ada")
	w.browser().call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).is(200)
	path, _ := link(t, post.one("ada@example.org"))
	u, _ := url.Parse(path)
	w.clock.Advance(account.MailedResetLifetime)
	reset := map[string]string{"handle": "ada", "code": u.Query().Get("code"), "password": newPassword}
	w.browser().call("POST", "/api/auth/reset-password", reset).is(400, "invalid_reset_code")
	reset["code"] = given
	w.browser().call("POST", "/api/auth/reset-password", reset).is(200)
}

func TestAddedPersonChoosesAPasswordByMail(t *testing.T) {
	w, post := newMailWorld(t)
	add := func(handle, email string) (account.User, account.ResetCode) {
		u, c, err := w.service.Administration().Add(t.Context(), account.Operator(), account.NewUser{Handle: handle, Email: email})
		if err != nil {
			t.Fatal(err)
		}
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
	w.clock.Advance(account.ResetCodeLifetime - time.Minute)
	reset := map[string]string{"handle": "ada", "code": u.Query().Get("code"), "password": newPassword}
	w.browser().call("POST", "/api/auth/reset-password", reset).is(200)
	w.browser().call("POST", "/api/auth/login", map[string]string{"handle": "ada@example.org", "password": newPassword}).is(200)
}

func TestWithoutMailAnAdministratorIsAsked(t *testing.T) {
	w := newWorld(t)
	w.addMember("ada", "ada@example.org")
	w.browser().page("/forgot-password/").is(200).hides("<form").shows("administrator")
	w.browser().page("/login/").hides("/forgot-password/")
	w.browser().call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).is(409, "mail_off")
	ada := w.signedIn("ada")
	ada.changeEmail("new@example.org")
	ada.call("POST", "/api/me/email/send-verification", nil).is(409, "mail_off")
	ada.call("POST", "/api/invites", map[string]string{"email": "friend@example.org"}).is(409, "mail_off")
	waiting, err := w.store.DueMails(t.Context(), w.clock.Now(), time.Minute, 10)
	if err != nil || len(waiting) != 0 {
		t.Errorf("%v %v", waiting, err)
	}
}

func TestVerifiedAddressSignsIn(t *testing.T) {
	w, _ := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitLoginAccount: {Count: 3, Window: time.Hour}}))
	w.addMember("ada", "Ada@example.org")
	w.addMember("bob", "club@example.org")
	w.addUser("sam")
	w.setEmail("sam", "sam@example.org", false)
	w.browser().login("ada@EXAMPLE.org", password).is(200)
	for _, name := range []string{"sam@example.org", "a%@example.org", "nobody@example.org"} {
		w.browser().login(name, password).is(401, "invalid_credentials")
	}
	// What was typed counts, in any case: a limit must not tell whose address it is.
	for i, name := range []string{"ada", "ADA", "@ada"} {
		w.browserAt(address(i)).login(name, newPassword).is(401)
	}
	w.browserAt(address(5)).login("ada", password).is(429)
	for i, name := range []string{"ada@example.org", "ADA@example.org", "ada@Example.org"} {
		w.browserAt(address(i+6)).login(name, newPassword).is(401)
	}
	w.browserAt(address(9)).login("ada@example.org", password).is(429)
}

func TestSignInFromANewDeviceIsToldOnce(t *testing.T) {
	w, post := newMailWorld(t)
	w.addUser("ada")
	w.setEmail("ada", "ada@example.org", true)
	laptop := w.signedIn("ada")
	post.none() // the first of all
	laptop.call("POST", "/api/auth/logout", nil)
	laptop.login("ada", password).is(200)
	laptop.login("ada", password).is(200)
	post.none()
	w.addUser("bob")
	w.setEmail("bob", "bob@example.org", true)
	w.signedIn("bob")
	laptop.login("bob", password).is(200)
	post.one("bob@example.org") // the mark is of ada
	laptop.login("ada", password).is(200)
	post.none()

	thief := w.browserAt("203.0.113.9")
	thief.send("POST", "/api/auth/login", "application/json", `{"handle":"ada","password":"`+password+`"}`,
		"User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nBcc: x@example.org").is(200)
	m := post.one("ada@example.org")
	if !strings.Contains(m.Text, "203.0.113.9") || !strings.Contains(m.Text, "Firefox") || strings.Contains(m.Text, "Bcc") {
		t.Errorf("notice %s", m.Text)
	}
	thief.login("ada", password).is(200) // again, in the same session
	post.none()
	path, button := link(t, m)
	reader := w.browser()
	reader.send("HEAD", path, "", "", "Accept", "text/html").is(200)
	reader.page(path).is(200)
	if !thief.isSignedIn() {
		t.Fatal("ended without the button")
	}
	for range 2 {
		reader.page("/not-me/", button...).is(200).shows(`href="/forgot-password/?handle=ada"`, `id="nothing-added"`)
	}
	if thief.isSignedIn() || reader.isSignedIn() || !laptop.isSignedIn() {
		t.Errorf("signed in: thief %v, reader %v, laptop %v", thief.isSignedIn(), reader.isSignedIn(), laptop.isSignedIn())
	}
	if len(reader.cookies) != 0 {
		t.Errorf("the reader has got %v", reader.cookies)
	}
	reader.page("/forgot-password/?handle=ada").shows(`value="ada"`)
	w.clock.Advance(7*24*time.Hour + time.Second)
	reader.page("/not-me/", button...).is(400)
}

func TestMarkOfADeviceIsOfThisServiceAndBounded(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	post.new()
	b := w.browser()
	b.cookies["cairn_device"] = strings.Repeat("A", 20) + "." + strings.Repeat("B", 20) + strings.Repeat("."+strings.Repeat("C", 20), 30)
	b.login("ada", password).is(200)
	post.one("ada@example.org")
	if marks := strings.Split(b.cookies["cairn_device"], "."); len(marks) != 10 || marks[1] != strings.Repeat("A", 20) {
		t.Errorf("marks %q", marks)
	}
}

func TestInvitesAreMailedWithinBounds(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitInviteMail: {Count: 5, Window: 24 * time.Hour}, web.LimitMail: {Count: 3, Window: time.Hour}}))
	w.addUser("ada")
	w.addUser("root", account.FlagAdmin)
	ada, root := w.signedIn("ada"), w.signedIn("root")
	invite := func(b *browser, email string) *answer {
		return b.call("POST", "/api/invites", map[string]string{"email": email})
	}
	for _, email := range []string{"friend", "a@example.org\r\nBcc: b@example.org", "a@example.org, b@example.org", "A <a@example.org>"} {
		invite(ada, email).is(400, "invalid_email")
	}
	made := invite(ada, "friend@example.org").is(201).json()
	m := post.one("friend@example.org")
	if path, _ := link(t, m); !strings.HasSuffix(made["url"].(string), path) || !strings.Contains(m.Subject, "@ada") {
		t.Errorf("%s: %s", m.Subject, path)
	}
	for range 2 { // deleted ones count, and are not sent
		code := invite(ada, "friend@example.org").is(201).json()["code"].(string)
		ada.call("DELETE", "/api/invites/"+code, nil).is(204)
	}
	post.none()
	invite(ada, "other@example.org").is(429)
	invite(root, "Friend@example.org").is(429) // by whomever
	note := []string{"email", "a@example.org", "note", "Tuesday at 18:30. See http://evil.example/x"}
	root.page("/account/invites", note...).redirectsTo("/account/invites?notice=invite-mailed#invites")
	root.page("/account/invites?notice=invite-mailed").shows(`id="notice"`, "by mail")
	m = post.one("a@example.org")
	if !strings.HasPrefix(m.Text, "@root invites you to become a member of Cairn.") ||
		!strings.Contains(m.Text, "\n\n“Tuesday at 18:30. See http evil. example x”\n\nAccept") || !strings.Contains(m.Subject, "Cairn") {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
	for i := range 3 {
		invite(root, string(rune('b'+i))+"@example.org").is(201)
	}
	invite(root, "e@example.org").is(429)
}

func TestNoticesGoToTheVerifiedAddressInTheReadersLanguage(t *testing.T) {
	w, post := newMailWorld(t)
	w.addMember("ada", "ada@example.org")
	ada := w.signedIn("ada")
	ada.call("PATCH", "/api/me", map[string]string{"locale": "de-AT"}).is(200)
	post.new()
	ada.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(200)
	if m := post.one("ada@example.org"); m.Subject != "Dein Passwort wurde geändert" || !strings.Contains(m.Text, "@ada") || strings.Contains(m.HTML, newPassword) {
		t.Errorf("%s: %s", m.Subject, m.Text)
	}
	w.suspend("ada")
	if m := post.one("ada@example.org"); strings.Contains(m.Text, "Grund") {
		t.Errorf("a reason that nobody gave: %s", m.Text)
	}
	a := w.service.Administration()
	if err := a.Unsuspend(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	post.one("ada@example.org")
	if err := a.Delete(t.Context(), account.Operator(), w.user("ada")); err != nil {
		t.Fatal(err)
	}
	post.one("ada@example.org") // of somebody who is no more

	w.addUser("bob")
	w.setEmail("bob", "mistyped@example.org", false)
	bob := w.signedIn("bob")
	bob.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(200)
	post.none()
	for kind := range account.NoticeKinds {
		m := account.Mail{Kind: kind, Sub: w.user("bob").Sub, Address: "x@example.org", Data: map[string]string{"handle": "bob", "at": "1", "factor": "totp", "name": "my\r\nkey.example", "reason": "spam"}}
		if err := w.store.QueueMail(t.Context(), m, w.clock.Now()); err != nil {
			t.Fatal(err)
		}
		if m := post.one("x@example.org"); m.Subject == "" || !strings.Contains(m.Text, "1 Jan 1970") {
			t.Errorf("%s: %+v", kind, m)
		}
	}
	for factor, wants := range map[string][2]string{
		"totp": {"authenticator app was added", "authenticator app was removed"}, "passkey": {"passkey “my key” was added", "passkey “my key” was removed"},
		"": {"recovery codes were made", "removed"},
	} {
		for i, kind := range []string{account.MailFactorAdded, account.MailFactorRemoved} {
			m := account.Mail{Kind: kind, Address: "x@example.org", Data: map[string]string{"handle": "bob", "at": "1", "factor": factor, "name": "my key"}}
			if err := w.store.QueueMail(t.Context(), m, w.clock.Now()); err != nil {
				t.Fatal(err)
			}
			if m := post.one("x@example.org"); !strings.Contains(m.Text, wants[i]) || strings.Contains(m.Text, "A passkey, an") {
				t.Errorf("%s of %q: %s", kind, factor, m.Text)
			}
		}
	}
}

func TestChangeOfAddressNeedsAFreshProof(t *testing.T) {
	w, post := newMailWorld(t)
	w.addUser("ada")
	ada := w.signedIn("ada")
	w.clock.Advance(11 * time.Minute)
	ada.call("PATCH", "/api/me", map[string]string{"email": "thief@example.net"}).is(http.StatusForbidden, "reauthentication_required")
	post.none()
}
