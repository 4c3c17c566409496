package admin_test

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/store/accounttest"
)

// letters is the mail server of a world: it keeps what was sent, by recipient.
type letters struct {
	mu   sync.Mutex
	sent map[string][]mail.Message
}

func (l *letters) Send(_ context.Context, m mail.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[m.To] = append(l.sent[m.To], m)
	return nil
}

// newMailWorld is a world whose mails are kept.
func newMailWorld(t *testing.T) (*world, *letters) {
	l := &letters{sent: map[string][]mail.Message{}}
	return newWorld(t, func(o *accounttest.Options) { o.Mail = l }), l
}

func (w *world) deliver(t *testing.T) {
	t.Helper()
	must(t, w.Post.DeliverMails(t.Context()))
}

// given is what an administrator gave others: a code, an account with a code, one with a link, one whose mail
// waits, and an accepted request to join.
type given struct {
	w     *world
	mails *letters
	codes map[string]string // by name: see account.Given
	link  string            // of the accepted request
	waits string            // the address to which the mail waits
}

var linkForm = regexp.MustCompile(`(?m)^http://localhost:4040/id(/\S+)$`)

var codeInLink = regexp.MustCompile(`code=([0-9A-Z-]+)`)

// give gives everything from a browser of an administrator, to people whose names begin with prefix.
func give(t *testing.T, w *world, mails *letters, from *accounttest.Browser, prefix string) *given {
	t.Helper()
	g := &given{w: w, mails: mails, codes: map[string]string{}, waits: prefix + "wait@example.org"}
	w.AddUser(prefix + "bob")
	code := from.Call("POST", "/api/admin/users/"+prefix+"bob/reset-password-code", nil).Is(201).JSON()["code"]
	g.codes[prefix+"bob"] = code.(string)
	code = from.Call("POST", "/api/admin/users", map[string]any{"handle": prefix + "new"}).Is(201).JSON()["code"]
	g.codes[prefix+"new"] = code.(string)
	from.Call("POST", "/api/admin/users", map[string]any{"handle": prefix + "post", "email": prefix + "post@example.org"}).Is(201)
	w.SaveSettings(func(v *account.Settings) { v.Registration = account.RegistrationRequest })
	row := account.JoinRequest{ID: prefix + "join", Name: "Bo", Email: prefix + "join@example.org", Reason: "x",
		AskedAt: w.Clock.Now(), ExpiresAt: w.Clock.Now().Add(time.Hour)}
	must(t, w.Store.AddJoinRequest(t.Context(), row, []byte(prefix), 99,
		account.Audit{At: w.Clock.Now(), Proof: account.ProofCode}))
	from.Call("POST", "/api/admin/join-requests/"+prefix+"join/accept", nil).Is(204)
	w.deliver(t)
	g.codes[prefix+"post"] = codeInLink.FindStringSubmatch(mails.sent[prefix+"post@example.org"][0].Text)[1]
	g.link = linkForm.FindStringSubmatch(mails.sent[prefix+"join@example.org"][0].Text)[1]
	from.Call("POST", "/api/admin/users", map[string]any{"handle": prefix + "wait", "email": g.waits}).Is(201)
	return g
}

// works checks which of what was given still opens an account: it returns the names.
func (g *given) works(t *testing.T) []string {
	t.Helper()
	g.w.deliver(t)
	if sent := g.mails.sent[g.waits]; len(sent) > 0 {
		handle, _, _ := strings.Cut(g.waits, "@")
		g.codes[handle] = codeInLink.FindStringSubmatch(sent[0].Text)[1]
	}
	var good []string
	for name, code := range g.codes {
		got := g.w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": name, "code": code, "password": "twelve quiet lanterns"})
		if got.Status == 200 {
			good = append(good, name)
		} else {
			got.Is(400, "invalid_reset_code")
		}
	}
	if page := g.w.Browser().Page(g.link); page.Status == 200 && strings.Contains(page.Body, `name="password"`) {
		good = append(good, "join")
	}
	return good
}

// What an administrator gave others falls with their account, or when somebody else ends their power, and at no other act.
func TestWhatAnAdministratorGaveFallsWithThem(t *testing.T) {
	password := func(thief *accounttest.Browser, more map[string]any) {
		more["current_password"], more["new_password"] = accounttest.Password, "eleven quiet lanterns"
		thief.Call("PUT", "/api/me/password", more).Is(200)
	}
	for name, c := range map[string]struct {
		act func(w *world, root, thief *accounttest.Browser)
		all bool // is void
	}{
		"suspended": {func(_ *world, root, _ *accounttest.Browser) {
			root.Call("POST", "/api/admin/users/thief/suspend", map[string]string{"reason": "x"}).Is(200)
		}, true},
		"suspended among others": {func(_ *world, root, _ *accounttest.Browser) {
			root.Page("/admin/users/selected", "who", "thief", "do", "suspend", "reason", "x", "sure", "yes").Is(200)
		}, true},
		"deleted": {func(_ *world, root, _ *accounttest.Browser) {
			root.Call("DELETE", "/api/admin/users/thief", nil).Is(204)
		}, true},
		"deleted by themselves": {func(_ *world, _, thief *accounttest.Browser) {
			thief.Call("DELETE", "/api/me", map[string]string{"password": accounttest.Password}).Is(204)
		}, true},
		"no longer an administrator": {func(_ *world, root, _ *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/thief/flags", map[string]bool{"admin": false}).Is(200)
		}, true},
		"without another flag": {func(_ *world, root, _ *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/thief/flags", map[string]bool{"activity": false}).Is(200)
		}, false},
		"all their sessions ended": {func(_ *world, root, _ *accounttest.Browser) {
			root.Call("POST", "/api/admin/users/thief/sessions/end-all", nil).Is(200)
		}, false},
		"ended by date": {func(w *world, root, _ *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/thief/end", map[string]any{"ends": w.Clock.Now().Add(time.Minute).Format(time.RFC3339)}).Is(200)
			w.Clock.Advance(2 * time.Minute)
		}, false},
		"with a new password of their own": {func(_ *world, _, thief *accounttest.Browser) {
			password(thief, map[string]any{})
		}, false},
		"signed out elsewhere": {func(_ *world, _, thief *accounttest.Browser) {
			thief.Call("POST", "/api/me/sessions/end-others", nil).Is(204)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, mails := newMailWorld(t)
			w.AddUser("root1", account.FlagAdmin)
			thief := w.Member("thief", account.FlagAdmin, account.FlagActivity)
			g := give(t, w, mails, thief, "a-")
			c.act(w, w.SignedIn("root1"), thief)
			if got := g.works(t); c.all && len(got) > 0 || !c.all && len(got) != 5 {
				t.Errorf("still works: %q", got)
			}
		})
	}
}

// verified gives a user a verified address, and a language.
func (w *world) verified(u account.User, email, language string) {
	w.T.Helper()
	_, err := w.Store.ChangeUser(w.T.Context(), u.Sub, func(u *account.User) error {
		u.Email, u.EmailVerified, u.Profile.Locale = email, true, language
		return nil
	}, w.Clock.Now(), nil)
	must(w.T, err)
}

// formOf returns the fields of the link of a mail, for the form behind it.
func formOf(t *testing.T, m mail.Message) (path string, form []string) {
	t.Helper()
	found := linkForm.FindStringSubmatch(m.Text)
	if found == nil {
		t.Fatal(m.Text)
	}
	u, err := url.Parse(found[1])
	must(t, err)
	for name, values := range u.Query() {
		form = append(form, name, values[0])
	}
	return u.Path, form
}

// An owner who disowns a session, or undoes its change of the address, voids what it gave, and keeps what they gave
// before.
func TestDisowningVoidsWhatThatSessionGave(t *testing.T) {
	for _, undo := range []bool{false, true} {
		w, mails := newMailWorld(t)
		w.AddUser("root1", account.FlagAdmin)
		u := w.AddUser("ada", account.FlagAdmin)
		w.SignedIn("ada")
		w.verified(u, "ada@example.org", "")
		press := func(to string) {
			w.deliver(t)
			all := mails.sent[to]
			path, form := formOf(t, all[len(all)-1])
			w.Browser().Page(path, form...).Is(200)
		}
		own := give(t, w, mails, w.SignedIn("ada"), "a-")
		w.Clock.Advance(time.Hour)
		thief := w.BrowserAt("203.0.113.9")
		thief.Login("ada", accounttest.Password).Is(200)
		stolen := give(t, w, mails, thief, "b-")
		if undo {
			w.Clock.Advance(time.Minute)
			thief.Call("PATCH", "/api/me", map[string]string{"email": "eve@example.net"}).Is(200)
			press("eve@example.net")
		}
		press("ada@example.org")
		made, err := w.Store.MadeByOthers(t.Context(), u.Sub, "later", w.Clock.Now()) // not the code of that link
		must(t, err)
		sameList(t, "given", account.GivenNames(made.Given), []string{"a-bob", "a-join@example.org", "a-new", "a-post", "a-wait"})
		if got := stolen.works(t); len(got) != 0 {
			t.Errorf("undo %t: what the thief gave works: %q", undo, got)
		}
		if got := own.works(t); len(got) != 5 {
			t.Errorf("undo %t: what the owner gave works: %q", undo, got)
		}
	}
}

// What other sessions gave is listed where they end, and void where it is named.
func TestWhatOtherSessionsGaveIsListed(t *testing.T) {
	w, mails := newMailWorld(t)
	w.AddUser("ada", account.FlagAdmin)
	there, here := w.SignedIn("ada"), w.SignedIn("ada")
	g := give(t, w, mails, there, "a-")
	own := give(t, w, mails, here, "b-")
	boxes := []string{`value="a-bob"`, `value="a-new"`, `value="a-post"`, `value="a-wait"`, `value="a-join@example.org"`}
	here.Page("/account/security").Is(200).Shows(boxes...).Hides(`value="b-bob"`, `value="b-join@example.org"`)
	here.Page("/account/sessions/end-others", "sure", "").Is(200).Shows(boxes...)
	here.Page("/account/sessions/end-others", "sure", "yes", "void_given", "a-bob", "void_given", "a-join@example.org").Is(303)
	there = w.SignedIn("ada")
	there.Call("PUT", "/api/me/password", map[string]any{"current_password": accounttest.Password, "new_password": "eleven quiet lanterns",
		"void_given": []string{"a-wait", "a-new", "b-bob"}}).Is(200)
	w.AddUser("root1", account.FlagAdmin)
	root := w.SignedIn("root1")
	root.Page("/admin/users/ada").Is(200).Shows(`value="a-post"`, `value="b-new"`).Hides(`value="b-bob"`, "that you gave")
	root.Page("/admin/users/ada/end-sessions", "void_given", "b-new").Is(303)
	root.Call("POST", "/api/admin/users/ada/sessions/end-all", map[string]any{"void_given": []string{"b-wait"}}).Is(200)
	same(t, "audit rows", len(w.audited(account.EndUserSessions)), 2)
	if got := g.works(t); len(got) != 1 { // a-post
		t.Errorf("works: %q", got)
	}
	if got := own.works(t); len(got) != 2 { // b-post, and the request
		t.Errorf("works: %q", got)
	}
}

// The mail of an accepted request goes out, also where the account of who accepted it has ended by date since.
func TestMailOfAnAcceptedRequestOutlivesAnEnd(t *testing.T) {
	w, mails := newMailWorld(t)
	root, sec := w.Member("root1", account.FlagAdmin), w.Member("sec", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) { v.Registration = account.RegistrationRequest })
	row := account.JoinRequest{ID: "join", Name: "Bo", Email: "join@example.org", Reason: "x",
		AskedAt: w.Clock.Now(), ExpiresAt: w.Clock.Now().Add(24 * time.Hour)}
	must(t, w.Store.AddJoinRequest(t.Context(), row, []byte("join"), 99, account.Audit{At: w.Clock.Now(), Proof: account.ProofCode}))
	sec.Call("POST", "/api/admin/join-requests/join/accept", nil).Is(204)
	root.Call("PUT", "/api/admin/users/sec/end", map[string]any{"ends": w.Clock.Now().Add(time.Minute).Format(time.RFC3339)}).Is(200)
	w.Clock.Advance(2 * time.Minute)
	if w.deliver(t); len(mails.sent["join@example.org"]) != 1 {
		t.Error("nobody is told that the request was accepted")
	}
}
