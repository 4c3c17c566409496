package site_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/accounttest"
)

// withThief is an account of a month in which somebody else who knows the password has signed in.
func withThief(t *testing.T) (w *accounttest.World, post *postbox, thief *accounttest.Browser) {
	t.Helper()
	w, post = mailWorldOf(t, "ada")
	w.Clock.Advance(30 * 24 * time.Hour)
	thief = w.BrowserAt("198.51.100.7")
	thief.Login("ada", password).Is(200)
	return w, post, thief
}

// mailAbout is the mail with a subject that begins so.
func mailAbout(t *testing.T, sent []mail.Message, subject string) mail.Message {
	t.Helper()
	i := slices.IndexFunc(sent, func(m mail.Message) bool { return strings.HasPrefix(m.Subject, subject) })
	if i < 0 {
		t.Fatalf("no mail %q in %+v", subject, sent)
	}
	return sent[i]
}

const (
	signInMail = "New sign-in"
	addedMail  = "A way to sign in was added"
)

// signsIn reports whether the passkey opens a session.
func signsIn(b *accounttest.Browser, k *keyring) bool {
	return finish(b, k.get(begin(b))).Status == 200
}

// disownedBy presses the button of a link and sets a new password on the page that follows.
func disownedBy(t *testing.T, b *accounttest.Browser, m mail.Message) *accounttest.Answer {
	t.Helper()
	path, button := link(t, m)
	page, _, _ := strings.Cut(path, "?")
	done := b.Page(page, button...).Is(200)
	code := codeField.FindStringSubmatch(done.Body)
	if code == nil {
		t.Fatalf("no form for a password in %s", done.Body)
	}
	b.Page("/reset-password/", "handle", "ada", "code", code[1], "password", newPassword).Is(200)
	return done
}

// Somebody else has the password of an account without a second factor, or a copy of a fresh cookie, and makes a way in.
func TestWayInOfAThiefFallsWithTheirSession(t *testing.T) {
	type thing struct {
		open    func(b *accounttest.Browser) bool // the thief's way in
		removed string                            // on the page
		told    string                            // in the mail
	}
	passkey := func(b *accounttest.Browser) thing {
		k := addPasskey(b, "evil")
		return thing{func(b *accounttest.Browser) bool { return signsIn(b, k) }, `data-factor="passkey"`, "Removed: Passkey “evil”"}
	}
	alone := func(b *accounttest.Browser) thing {
		made := passkey(b)
		b.Call("DELETE", "/api/me/password", nil).Is(204)
		return made
	}
	app := func(b *accounttest.Browser) thing {
		a := enrol(b)
		return thing{func(b *accounttest.Browser) bool {
			return loginOTP(b, "ada", newPassword, a.fresh()).Status == 200 && !b.IsSignedIn()
		}, `data-factor="totp"`, "Removed: Authenticator app"}
	}
	for name, c := range map[string]struct {
		make   func(b *accounttest.Browser) thing
		copied bool   // a cookie, instead of a sign-in by the password
		from   string // the mail with the link
	}{
		"passkey, notice of the sign-in": {passkey, false, signInMail},
		"passkey, notice of the passkey": {passkey, false, addedMail},
		"app":                            {app, false, signInMail},
		"passkey by a copied cookie":     {passkey, true, addedMail},
		"app by a copied cookie":         {app, true, addedMail},
		"passkey, instead of a password": {alone, true, "Your password was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			w, post := mailWorldOf(t, "ada")
			w.Clock.Advance(30 * 24 * time.Hour)
			owner := w.SignedIn("ada")
			post.new()
			thief := w.BrowserAt("198.51.100.7")
			if c.copied {
				thief = owner.Clone()
			} else {
				thief.Login("ada", password).Is(200)
			}
			made := c.make(thief)
			thief.Call("POST", "/api/me/sessions/end-others", nil)
			done := disownedBy(t, w.BrowserAt("203.0.113.9"), mailAbout(t, post.new(), c.from))
			done.Shows(`id="removed"`, made.removed, "add it again")
			has(t, "Text", mailAbout(t, post.new(), "Your account was signed out everywhere").Text, made.told)
			if made.open(w.BrowserAt("198.51.100.7")) || thief.IsSignedIn() {
				t.Error("the thief's way in lives")
			}
			w.BrowserAt("203.0.113.9").Login("ada", newPassword).Is(200)
			rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Person: "ada", Kind: account.DisownSession.Action, Limit: 1})
			if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Detail, strings.Split(made.removed, `"`)[1]) {
				t.Errorf("audit log %+v, %v", rows, err)
			}
		})
	}
}

// Recovery codes that somebody else drew fall, and those that they replaced live again, also where no passkey is left.
func TestRecoveryCodesOfAThiefFallAndTheOwnersLive(t *testing.T) {
	for _, taken := range []bool{false, true} {
		w, post := newMailWorld(t)
		owner, key, codes := joinByPasskey(w, "ada")
		setEmail(w, "ada", "ada@example.org", true)
		w.Clock.Advance(30 * 24 * time.Hour)
		finish(owner, key.get(begin(owner))).Is(200)
		post.new()
		thief := owner.Clone() // a copy of the fresh cookie
		var drawn []string
		for range 2 {
			drawn = nil
			for _, c := range thief.Call("POST", "/api/me/recovery-codes", nil).Is(200).JSON()["recovery_codes"].([]any) {
				drawn = append(drawn, c.(string))
			}
			w.Clock.Advance(time.Second)
		}
		recoverBy(w.Browser(), "ada", codes[0]).Is(401)
		path, button := link(t, mailAbout(t, post.new(), addedMail))
		if taken {
			addPasskey(thief, "evil")
			thief.Call("DELETE", "/api/me/passkeys/"+passkeyIDOf(w, "Passkey"), nil).Is(204)
		}
		w.Browser().Page(path).Shows("Someone else used the account @ada")
		w.Browser().Page("/not-me/", button...).Is(200).Shows(`id="removed"`, `data-factor="recovery_code"`, `id="not-me-login"`).Hides(`id="closed"`)
		recoverBy(w.Browser(), "ada", drawn[0]).Is(401)
		recoverBy(w.Browser(), "ada", codes[0]).Is(200)
		if signsIn(w.Browser(), key) == taken {
			t.Errorf("removed %t: the owner's passkey, made at joining, fell or lives", taken)
		}
	}
}

// Only a link removes, and only what is three days old.
func TestOldWayInStaysAndThePageSaysWhoHelps(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(func(s *account.Settings) { s.Contact = "Ada Admin, office" })
	addMember(w, "ada", "ada@example.org")
	w.Clock.Advance(30 * 24 * time.Hour)
	thief := w.BrowserAt("198.51.100.7")
	thief.Login("ada", password).Is(200)
	key := addPasskey(thief, "evil")
	sent := post.new()
	w.Clock.Advance(account.FactorUndo + time.Second)
	disownedBy(t, w.Browser(), mailAbout(t, sent, signInMail)).Hides(`id="removed"`, `id="own-acts"`).Shows(`id="added"`, "evil", "Ada Admin, office")
	if !signsIn(thief, key) {
		t.Error("the mailbox removed a factor that is older than three days")
	}
	thief.Call("DELETE", "/api/me/password", nil).Is(204)
	sent = post.new()
	w.Clock.Advance(account.FactorUndo + time.Second)
	press(t, w.Browser(), links(mailAbout(t, sent, "Your password was removed"))[0]).Is(200).Shows(`id="not-me-login"`)
}

// Whoever undoes a change of address gets back what was before the session that changed it.
func TestUndoOfAnAddressRemovesTheThiefsWayIn(t *testing.T) {
	w, post, thief := withThief(t)
	key := addPasskey(thief, "evil")
	w.Clock.Advance(time.Minute)
	post.new()
	done := disownedBy(t, w.Browser(), moveEmail(post, thief, "eve@example.org")["ada@example.org"])
	done.Shows("a…@example.org", `id="removed"`, "evil")
	if signsIn(w.Browser(), key) {
		t.Error("the thief's passkey lives")
	}
	w.Browser().Login("ada", newPassword).Is(200)
}

// A new password leaves the address as it is, so the page names one that was changed: whoever reads its mails can set
// another password.
func TestPageAfterANewPasswordNamesTheAddressOfAThief(t *testing.T) {
	w, post := newMailWorld(t)
	addMember(w, "ada", "ada@example.org")
	owner := w.SignedIn("ada")
	change := func(from, to string) *accounttest.Answer {
		t.Helper()
		return owner.Page("/account/password", "current_password", from, "new_password", to).Is(303)
	}
	change(password, newPassword)
	owner.Page("/account/security?notice=password-changed").Is(200).Hides(`id="own-address"`)
	thief := w.BrowserAt("198.51.100.7")
	thief.Login("ada", newPassword).Is(200)
	post.new()
	moveEmail(post, thief, "eve@example.org")
	owner.Login("ada", newPassword).Is(200)
	change(newPassword, password)
	owner.Page("/account/security?notice=password-changed").Is(200).Shows(`id="own-address"`, "e…@example.org")
	changeEmail(owner, "")
	owner.Page("/account/security?notice=password-changed").Is(200).Hides(`id="own-address"`)
}

// A mailbox that somebody chose recently gets no code after an administrator has taken the account out of wrong hands.
func TestMailboxOfAThiefGetsNoCodeAfterAnAdministratorsRemedy(t *testing.T) {
	for name, remedy := range map[string]func(a *roster.Administration, u account.User) error{
		"end all": func(a *roster.Administration, u account.User) error {
			_, err := a.EndSessions(t.Context(), account.Operator(), u, account.Keep{})
			return err
		},
		"reset of factors": func(a *roster.Administration, u account.User) error {
			return a.ResetFactors(t.Context(), account.Operator(), u)
		},
	} {
		w, post, thief := withThief(t)
		post.new()
		moveEmail(post, thief, "eve@example.net")
		must(t, remedy(w.Administration(), w.User("ada")))
		post.new()
		w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
		if sent := post.new(); len(sent) != 0 || w.User("ada").EmailVerified {
			t.Errorf("%s: mails %+v", name, sent)
		}
	}
}

// The notices that came to the mailbox of a thief, while the address was theirs, prove nothing after the undo.
func TestLinkInTheMailboxOfAThiefIsVoidAfterTheUndo(t *testing.T) {
	w, post, thief := withThief(t)
	post.new()
	undo := moveEmail(post, thief, "eve@example.org")["ada@example.org"]
	w.BrowserAt("198.51.100.8").Login("ada", password).Is(200)
	sent := post.new()
	evil := sent[slices.IndexFunc(sent, func(m mail.Message) bool { return m.To == "eve@example.org" })]
	disownedBy(t, w.Browser(), undo)
	_, button := link(t, evil)
	w.Browser().Page("/not-me/", button...).Is(400).Shows(`data-code="invalid_link"`, "ask an administrator").Hides(`name="code"`)
	owner := w.Browser()
	owner.Login("ada", newPassword).Is(200)
	// Nor does one that does not say where it went.
	session, _ := owner.SessionIDs()
	anywhere, err := w.Service.NotMeURL(account.Mail{Sub: w.User("ada").Sub, Data: map[string]string{"session": session}}, false)
	must(t, err)
	_, button = link(t, mail.Message{Text: anywhere})
	w.Browser().Page("/not-me/", button...).Is(400).Shows(`data-code="invalid_link"`).Hides(`name="code"`)
	if !owner.IsSignedIn() {
		t.Error("refused, and done")
	}
}

// The notice of a later sign-in reaches no factor of the sign-in before; the form with the new password does.
func TestLinkOfALaterSignInRemovesWhatIsTicked(t *testing.T) {
	w, post, thief := withThief(t)
	key := addPasskey(thief, "evil")
	w.Clock.Advance(time.Minute)
	post.new()
	later := w.BrowserAt("198.51.100.9")
	finish(later, key.get(begin(later))).Is(200)
	path, button := link(t, mailAbout(t, post.new(), signInMail))
	w.Browser().Page(path).Shows("with a passkey")
	stepBy(w.BrowserAt("198.51.100.10"), "ada", key).Is(200)
	path, _ = link(t, mailAbout(t, post.new(), signInMail))
	w.Browser().Page(path).Shows("so they know the password")
	w.Clock.Advance(time.Minute)
	done := w.Browser().Page("/not-me/", button...).Is(200).Hides(`id="removed"`).Shows(`id="recent-factors"`, `id="added"`, "evil")
	code, id := codeField.FindStringSubmatch(done.Body)[1], regexp.MustCompile(`name="remove_factor" value="([^"]+)"`).FindStringSubmatch(done.Body)[1]
	w.Browser().Page("/reset-password/", "handle", "ada", "code", code, "password", newPassword, "linked", "1", "listed", "1",
		"remove_factor", id).Is(200)
	if signsIn(w.Browser(), key) {
		t.Error("the thief's passkey lives")
	}
	w.Browser().Login("ada", newPassword).Is(200)
}

// The notice of a later sign-in reaches what the same hand made in the three days before, and not the owner's home.
func TestEarlierSignInOfTheSameHandFalls(t *testing.T) {
	for name, c := range map[string]struct {
		first, later string // addresses
		days         int    // that the account is old
		marked       bool   // the browser is the same
		falls        bool
	}{
		"at one address":   {"198.51.100.7", "198.51.100.7", 30, false, true},
		"in one network":   {"2001:db8:0:100::1", "2001:db8:0:1ff::1", 30, false, true},
		"in one browser":   {"198.51.100.7", "198.51.100.9", 30, true, true},
		"at the home":      {"192.0.2.1", "192.0.2.1", 30, false, false},
		"of a new account": {"198.51.100.7", "198.51.100.7", 2, false, false},
		"by somebody else": {"198.51.100.7", "198.51.100.9", 30, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, post := mailWorldOf(t, "ada")
			w.Clock.Advance(time.Duration(c.days) * 24 * time.Hour)
			first, later := w.BrowserAt(c.first), w.BrowserAt(c.later)
			first.Login("ada", password).Is(200)
			key := addPasskey(first, "first")
			w.Clock.Advance(30 * time.Minute)
			if c.marked {
				later.Cookies["cairn_device"] = first.Cookies["cairn_device"]
			}
			finish(later, key.get(begin(later))).Is(200)
			post.new()
			addPasskey(later, "later")
			disownedBy(t, w.Browser(), mailAbout(t, post.new(), addedMail))
			if signsIn(w.Browser(), key) == c.falls {
				t.Errorf("the first passkey falls: %t", !c.falls)
			}
		})
	}
}

// The link in an older notice leaves a password that the owner has set by a link since, unless it was changed later.
func TestOlderLinkLeavesThePasswordOfALink(t *testing.T) {
	const third = "another of 3 hills"
	for name, c := range map[string]struct {
		since func(w *accounttest.World, post *postbox, thief *accounttest.Browser, newer mail.Message)
		word  string
		want  int
	}{
		"by a link": {func(w *accounttest.World, _ *postbox, _ *accounttest.Browser, newer mail.Message) {
			disownedBy(t, w.Browser(), newer)
		}, newPassword, 200},
		"changed since": {func(w *accounttest.World, _ *postbox, thief *accounttest.Browser, newer mail.Message) {
			disownedBy(t, w.Browser(), newer)
			thief.Login("ada", newPassword).Is(200)
			thief.Call("PUT", "/api/me/password", map[string]string{"current_password": newPassword, "new_password": third}).Is(200)
		}, third, 403},
		"by a clock that was ahead": {func(w *accounttest.World, _ *postbox, _ *accounttest.Browser, newer mail.Message) {
			w.Clock.Advance(24 * time.Hour)
			disownedBy(t, w.Browser(), newer)
			w.Clock.Advance(-24 * time.Hour)
		}, newPassword, 403},
		"by a mail to the thief": {func(w *accounttest.World, post *postbox, thief *accounttest.Browser, _ mail.Message) {
			moveEmail(post, thief, "eve@example.net")
			w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
			path, _ := link(t, post.one("eve@example.net"))
			code := codeField.FindStringSubmatch(w.Browser().Page(path).Body)[1]
			w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, third)).Is(200)
		}, third, 403},
	} {
		t.Run(name, func(t *testing.T) {
			w, post, thief := withThief(t)
			older := mailAbout(t, post.new(), signInMail)
			w.BrowserAt("198.51.100.8").Login("ada", password).Is(200)
			w.Clock.Advance(time.Minute)
			c.since(w, post, thief, mailAbout(t, post.new(), signInMail))
			press(t, w.Browser(), links(older)[0]).Is(200)
			w.Browser().Login("ada", c.word).Is(c.want)
		})
	}
}

// What the owner made who came back since stays, whichever link is pressed then; what the thief made falls.
func TestOwnerWhoCameBackKeepsWhatTheyMade(t *testing.T) {
	const third = "another of 3 hills"
	type scene struct {
		*accounttest.World
		post         *postbox
		owner, thief *accounttest.Browser
		older, newer mail.Message // the notices of two sign-ins of a thief
	}
	again := func(s scene, b *accounttest.Browser, word string) *keyring {
		b.Call("POST", "/api/auth/logout", nil)
		b.Login("ada", word).Is(200)
		s.Clock.Advance(time.Minute)
		return addPasskey(b, "new")
	}
	mailed := func(s scene, to, word string) {
		s.post.new()
		s.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
		path, _ := link(t, s.post.one(to))
		code := codeField.FindStringSubmatch(s.Browser().Page(path).Body)[1]
		s.Browser().Call("POST", "/api/auth/reset-password", reset("ada", code, word)).Is(200)
	}
	resetFactors := func(s scene) {
		must(t, s.Administration().ResetFactors(t.Context(), account.Operator(), s.User("ada")))
	}
	for name, c := range map[string]struct {
		since func(s scene) (*keyring, mail.Message)
		stays bool
	}{
		"by a mailed code": {func(s scene) (*keyring, mail.Message) {
			mailed(s, "ada@example.org", newPassword)
			return again(s, s.Browser(), newPassword), s.older
		}, true},
		"by the link of another notice": {func(s scene) (*keyring, mail.Message) {
			disownedBy(t, s.Browser(), s.older)
			return again(s, s.Browser(), newPassword), s.newer
		}, true},
		"without a password since": {func(s scene) (*keyring, mail.Message) {
			disownedBy(t, s.Browser(), s.older)
			b := s.Browser()
			key := again(s, b, newPassword)
			finish(b, key.get(begin(b))).Is(200) // in place of the password
			b.Call("DELETE", "/api/me/password", nil).Is(204)
			b = s.Browser() // a session of the new passkey
			finish(b, key.get(begin(b))).Is(200)
			return addPasskey(b, "last"), s.newer
		}, true},
		"in the own browser": {func(s scene) (*keyring, mail.Message) { return again(s, s.owner, password), s.older }, true},
		"at home, after a reset of factors": {func(s scene) (*keyring, mail.Message) {
			resetFactors(s)
			return again(s, s.Browser(), password), s.older
		}, true},
		"by the page of a notice, before the undo": {func(s scene) (*keyring, mail.Message) {
			undo := moveEmail(s.post, s.thief, "eve@example.net")["ada@example.org"]
			s.Clock.Advance(time.Minute)
			disownedBy(t, s.Browser(), s.older)
			return again(s, s.Browser(), newPassword), undo
		}, true},
		"before a thief in another mailbox that they chose": {func(s scene) (*keyring, mail.Message) {
			undo := moveEmail(s.post, s.thief, "eve@example.net")["ada@example.org"]
			addWayIn(s.thief, "evil")
			_, evil := link(t, s.post.byAddress()["eve@example.net"])
			moveEmail(s.post, s.thief, "eve@example.org")
			s.Clock.Advance(time.Minute)
			code := codeField.FindStringSubmatch(press(t, s.Browser(), links(s.older)[0]).Is(200).Body)
			s.thief.Page("/not-me/", evil...).Is(400).Hides(`name="code"`)
			s.Browser().Page("/reset-password/", "handle", "ada", "code", code[1], "password", newPassword).Is(200)
			return again(s, s.Browser(), newPassword), undo
		}, true},
		"the thief elsewhere, after a reset of factors": {func(s scene) (*keyring, mail.Message) {
			resetFactors(s)
			return again(s, s.thief, password), s.older
		}, false},
		"the thief by a passkey, after a mailed code": {func(s scene) (*keyring, mail.Message) {
			key := addPasskey(s.thief, "evil")
			mailed(s, "ada@example.org", newPassword)
			finish(s.thief, key.get(begin(s.thief))).Is(200)
			return addPasskey(s.thief, "new"), s.older
		}, false},
		"the thief by a code of their mailbox": {func(s scene) (*keyring, mail.Message) {
			undo := moveEmail(s.post, s.thief, "eve@example.net")["ada@example.org"]
			s.Clock.Advance(time.Minute)
			mailed(s, "eve@example.net", third)
			return again(s, s.thief, third), undo
		}, false},
		"the thief by a notice of their mailbox": {func(s scene) (*keyring, mail.Message) {
			undo := moveEmail(s.post, s.thief, "eve@example.net")["ada@example.org"]
			addWayIn(s.thief, "evil")
			disownedBy(t, s.thief, s.post.byAddress()["eve@example.net"])
			return again(s, s.thief, newPassword), undo
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, post := mailWorldOf(t, "ada")
			s := scene{World: w, post: post, owner: w.SignedIn("ada")}
			w.Clock.Advance(5 * 24 * time.Hour)
			s.thief = w.BrowserAt("198.51.100.7")
			post.new()
			s.thief.Login("ada", password).Is(200)
			s.older = mailAbout(t, post.new(), signInMail)
			w.Clock.Advance(time.Minute)
			w.BrowserAt("198.51.100.8").Login("ada", password).Is(200)
			s.newer = mailAbout(t, post.new(), signInMail)
			w.Clock.Advance(time.Minute)
			key, last := c.since(s)
			without := w.User("ada").Passwordless()
			w.Clock.Advance(time.Minute)
			press(t, w.Browser(), links(last)[0]).Is(200)
			u := w.User("ada")
			if signsIn(w.Browser(), key) != c.stays || c.stays && (!u.SecondFactor || u.Passwordless() != without) {
				t.Errorf("the passkey stays: %t; a second step: %t", !c.stays, u.SecondFactor)
			}
		})
	}
}

// A paper with recovery codes by which somebody signed in opens nothing any more, whoever drew new ones.
func TestPaperOfAThiefStaysVoid(t *testing.T) {
	for name, c := range map[string]struct{ undo, byThief bool }{
		"not me": {false, false}, "undo": {true, false}, "not me, drawn by the thief": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, post := newMailWorld(t)
			owner, key, codes := joinByPasskey(w, "ada")
			setEmail(w, "ada", "ada@example.org", true)
			w.Clock.Advance(5 * 24 * time.Hour)
			thief := w.BrowserAt("198.51.100.7")
			post.new()
			recoverBy(thief, "ada", codes[0]).Is(200)
			notice := mailAbout(t, post.new(), signInMail)
			if c.undo {
				notice = moveEmail(post, thief, "eve@example.net")["ada@example.org"]
			}
			w.Clock.Advance(time.Hour)
			owner.Call("POST", "/api/auth/logout", nil)
			finish(owner, key.get(begin(owner))).Is(200)
			by, want := owner, 200
			if c.byThief {
				by, want = thief, 401
				recoverBy(thief, "ada", codes[1]).Is(200)
			}
			drawn := by.Call("POST", "/api/me/recovery-codes", nil).Is(200).JSON()["recovery_codes"].([]any)
			press(t, w.Browser(), links(notice)[0]).Is(200)
			recoverBy(w.Browser(), "ada", codes[2]).Is(401)
			recoverBy(w.Browser(), "ada", drawn[0].(string)).Is(want)
		})
	}
}

// The page of a link keeps an address that the owner moved to before the sign-in, if the link was mailed to it.
func TestLinkKeepsTheAddressThatItWasMailedTo(t *testing.T) {
	for to, want := range map[string]bool{"new@example.org": true, "ada@example.org": false} {
		w, post := mailWorldOf(t, "ada")
		owner := w.SignedIn("ada")
		post.new()
		moveEmail(post, owner, "new@example.org")
		w.Clock.Advance(24 * time.Hour)
		w.BrowserAt("198.51.100.7").Login("ada", password).Is(200)
		disownedBy(t, w.Browser(), post.byAddress()[to])
		if got := w.User("ada").EmailVerified; got != want {
			t.Errorf("a link mailed to %s: the address is verified: %t", to, got)
		}
	}
}

// A thief who has removed the passkey of joining leaves an account without a way in where no recovery code is left,
// which an administrator opens.
func TestAccountWithoutAWayInIsClosed(t *testing.T) {
	w, post := newMailWorld(t)
	thief, _, codes := joinByPasskey(w, "ada")
	setEmail(w, "ada", "ada@example.org", true)
	for _, c := range codes {
		recoverBy(w.Browser(), "ada", c).Is(200)
	}
	key := addPasskey(thief, "evil")
	thief.Call("DELETE", "/api/me/passkeys/"+passkeyIDOf(w, "Passkey"), nil).Is(204)
	_, button := link(t, mailAbout(t, post.new(), addedMail))
	w.Browser().Page("/not-me/", button...).Is(200).Shows(`id="closed"`).Hides(`id="not-me-login"`, `name="code"`)
	if signsIn(w.Browser(), key) {
		t.Error("the thief's passkey lives")
	}
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", w.ResetCode("ada"), newPassword)).Is(200)
	w.Browser().Login("ada", newPassword).Is(200)
}

// A browser is new again when its session was ended elsewhere, and the one that ended it stays known.
func TestBrowserOfAnEndedSessionIsNewAgain(t *testing.T) {
	for name, end := range map[string]func(w *accounttest.World, owner *accounttest.Browser, id string){
		"all others": func(_ *accounttest.World, owner *accounttest.Browser, _ string) {
			owner.Call("POST", "/api/me/sessions/end-others", nil).Is(204)
		},
		"that one": func(_ *accounttest.World, owner *accounttest.Browser, id string) {
			owner.Call("DELETE", "/api/me/sessions/"+id, nil).Is(204)
		},
		"by an administrator": func(w *accounttest.World, _ *accounttest.Browser, id string) {
			must(t, w.Administration().EndSession(t.Context(), account.Operator(), w.User("ada"), id))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, post, thief := withThief(t)
			again := func(b *accounttest.Browser) {
				w.Clock.Advance(time.Minute)
				b.Call("POST", "/api/auth/logout", nil).Is(200)
				b.Login("ada", password).Is(200)
			}
			again(thief)
			w.Clock.Advance(time.Minute)
			owner := w.SignedIn("ada")
			id, _ := thief.SessionIDs()
			end(w, owner, id)
			post.new()
			again(thief)
			post.one("ada@example.org")
			again(thief)
			again(owner)
			post.none()
		})
	}
}

// An account that has expired gets a new password as a suspended one does, and stays closed.
func TestRemediesOfAnExpiredAccount(t *testing.T) {
	w, post, _ := withThief(t)
	must(t, w.Administration().SetEnd(t.Context(), account.Operator(), w.User("ada"), w.Clock.Now().Add(time.Minute)))
	w.Clock.Advance(time.Hour)
	disownedBy(t, w.Browser(), mailAbout(t, post.new(), signInMail))
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", w.ResetCode("ada"), newPassword)).Is(200)
	w.Browser().Login("ada", newPassword).Is(403, "account_suspended")
}

// A box shuts nobody out of their own account. An administrator's may take the last passkey; the recovery codes stay.
func TestRemovalByABoxLeavesAWayIn(t *testing.T) {
	w, first := accounttest.SignedIn(t, "ada")
	one, two := addPasskey(first, "one"), addPasskey(first, "two")
	codes := first.Call("POST", "/api/me/recovery-codes", nil).Is(200).JSON()["recovery_codes"].([]any)
	first.Call("DELETE", "/api/me/password", nil).Is(204)
	oneID, twoID := account.PasskeyIDPrefix+passkeyIDOf(w, "one"), account.PasskeyIDPrefix+passkeyIDOf(w, "two")
	owner := w.Browser()
	finish(owner, one.get(begin(owner))).Is(200)
	owner.Call("POST", "/api/me/sessions/end-others", map[string]any{"remove_factors": []string{oneID, twoID}}).Is(400, "invalid_request")
	if !first.IsSignedIn() || !signsIn(w.Browser(), two) {
		t.Error("refused, and done")
	}
	owner.Call("POST", "/api/me/sessions/end-others", map[string]any{"remove_factors": []string{twoID}}).Is(204)
	if first.IsSignedIn() || signsIn(w.Browser(), two) || !signsIn(w.Browser(), one) {
		t.Error("not removed, or another fell")
	}
	_, err := w.Administration().EndSessions(t.Context(), account.Operator(), w.User("ada"), account.Keep{Remove: []string{oneID}})
	must(t, err)
	if signsIn(w.Browser(), one) {
		t.Error("the administrator's removal left it")
	}
	owner = w.Browser()
	recoverBy(owner, "ada", codes[0].(string)).Is(200)
	body := newKeyring().create(owner.Call("POST", "/api/me/passkeys/begin", nil))
	owner.Call("POST", "/api/me/passkeys", body).Is(201).Shows(`"recovery_codes":["`) // as when the password went
	recoverBy(w.Browser(), "ada", codes[1].(string)).Is(401)
}

// A reset removes what its page lists and the owner ticks, before the second step is asked.
func TestResetRemovesTheWaysInThatAreTicked(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	w.Clock.Advance(30 * 24 * time.Hour)
	old := addPasskey(w.SignedIn("ada"), "old")
	w.Clock.Advance(account.FactorUndo + time.Second)
	thief := w.Browser()
	finish(thief, old.get(begin(thief))).Is(200)
	evil := addPasskey(thief, "evil")
	codes := thief.Call("POST", "/api/me/recovery-codes", nil).Is(200).JSON()["recovery_codes"].([]any)
	post.new()
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
	path, _ := link(t, post.one("ada@example.org"))
	page := w.Browser().Page(path).Is(200).Shows(`id="recent-factors"`, "evil", `value="recovery_codes"`).Hides(">old<")
	code := codeField.FindStringSubmatch(page.Body)[1]
	listed := w.Browser().Call("POST", "/api/auth/reset-password/factors", map[string]string{"handle": "ada", "code": code}).Is(200).JSON()["recent_factors"].([]any)
	var ids []string
	for _, f := range listed {
		ids = append(ids, f.(map[string]any)["id"].(string))
	}
	if len(ids) != 2 {
		t.Fatalf("listed %v", listed)
	}
	w.Browser().Call("POST", "/api/auth/reset-password/factors", map[string]string{"handle": "ada", "code": code[1:]}).Is(400, "invalid_reset_code")
	// A code that was typed: the list comes first.
	typed := []string{"handle", "ada", "code", code, "password", newPassword}
	w.Browser().Page("/reset-password/", typed...).Is(200).Shows(`id="recent-factors"`)
	oldID := account.PasskeyIDPrefix + passkeyIDOf(w, "old")
	w.Browser().Page("/reset-password/", append(typed, "listed", "1", "remove_factor", oldID)...).Is(400)
	w.Browser().Page("/reset-password/", append(typed, "listed", "1", "remove_factor", ids[0], "remove_factor", ids[1])...).Is(200).Shows("Password changed")
	has(t, "Text", mailAbout(t, post.new(), "Your password was changed").Text, "Removed: Recovery codes")
	if signsIn(w.Browser(), evil) || !signsIn(w.Browser(), old) {
		t.Error("the new passkey lives, or the old one fell")
	}
	loginOTP(w.Browser(), "ada", newPassword, codes[0].(string)).Is(401)
}

func passkeyIDOf(w *accounttest.World, name string) string {
	keys, _ := w.Store.Passkeys(w.T.Context(), w.User("ada").Sub)
	for _, k := range keys {
		if k.Name == name {
			return k.ShownID()
		}
	}
	w.T.Fatal("no passkey " + name)
	return ""
}

// Where other sessions end, the page lists what they added, with a box each and none ticked.
func TestEndingOthersRemovesTheWaysInThatAreTicked(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		fields []string
		api    func(b *accounttest.Browser, remove []string) *accounttest.Answer
	}{
		"end others": {"/account/sessions/end-others", []string{"x", ""}, func(b *accounttest.Browser, remove []string) *accounttest.Answer {
			return b.Call("POST", "/api/me/sessions/end-others", map[string]any{"remove_factors": remove})
		}},
		"new password": {"/account/password", []string{"current_password", password, "new_password", newPassword}, func(b *accounttest.Browser, remove []string) *accounttest.Answer {
			return b.Call("PUT", "/api/me/password", map[string]any{"current_password": password, "new_password": newPassword, "remove_factors": remove})
		}},
	} {
		for _, page := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				w, post, thief := withThief(t)
				first := addPasskey(thief, "first")
				w.Clock.Advance(time.Second)
				owner := w.BrowserAt("203.0.113.9") // with the first passkey
				finish(owner, first.get(begin(owner))).Is(200)
				mine, evil := addPasskey(owner, "mine"), addPasskey(thief, "evil")
				post.new()
				id := account.PasskeyIDPrefix + passkeyIDOf(w, "evil")
				c.api(owner, []string{account.PasskeyIDPrefix + passkeyIDOf(w, "mine")}).Is(400, "invalid_request")
				if page {
					asked := []string{c.path, "x", ""} // the question of the act
					if name == "new password" {
						asked = []string{"/account/security"}
					}
					owner.Page(asked[0], asked[1:]...).Shows(`value="`+id+`"`, ">evil<").Hides("checked", ">mine<·")
					owner.Page(c.path, append(c.fields, "remove_factor", id, "sure", "yes")...).Is(303)
				} else {
					c.api(owner, []string{id})
				}
				if sent := post.new(); len(sent) != 1 || !strings.Contains(sent[0].Text, "Removed: Passkey “evil”") {
					t.Errorf("mails %+v", sent)
				}
				if signsIn(w.Browser(), evil) || !signsIn(w.Browser(), mine) || !signsIn(w.Browser(), first) {
					t.Error("it lives, or another fell")
				}
			})
		}
	}
}

// A copy of the owner's cookie does not make the browser of a thief who knows the password a known one.
func TestCopiedCookieDoesNotSilenceASignIn(t *testing.T) {
	for path, in := range map[string]map[string]string{
		"/api/auth/login": {"handle": "ada", "password": password}, "/api/auth/confirm": {"password": password},
	} {
		w, post := mailWorldOf(t, "ada")
		owner := w.SignedIn("ada")
		post.new()
		owner.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200)
		post.none()
		thief := w.Browser()
		thief.Cookies["cairn_session"] = owner.Cookies["cairn_session"]
		thief.Call("POST", path, in).Is(200)
		press(t, w.Browser(), links(post.one("ada@example.org"))[0]).Is(200)
		if thief.IsSignedIn() {
			t.Errorf("%s: the thief is signed in", path)
		}
		post.one("ada@example.org") // all ended
	}
}

// Who has lost an account for an hour has to see what was left in it.
func TestPagesAfterALossShowWhatIsThere(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(func(s *account.Settings) { s.Contact = "Kim at the boathouse" })
	addMember(w, "ada", "ada@example.org", account.FlagAdmin)
	owner := w.SignedIn("ada")
	app := enrol(owner)
	addPasskey(owner, "Blue key")
	w.Clock.Advance(24 * time.Hour)
	post.new()
	thief := w.Browser()
	loginOTP(thief, "ada", password, app.codes[0]).Is(200)
	notice := mailAbout(t, post.new(), signInMail)
	addPasskey(thief, "Red key")
	between := w.Browser() // has given the password, and not the code
	between.Login("ada", password).Is(401, "second_factor_required")
	post.new()
	moveEmail(post, thief, "thief@example.net")
	day := `datetime="` + w.Clock.Now().Format(time.DateOnly)
	// What was there before has a box, as what is young; it is in neither list. No address is whole.
	shown := press(t, w.Browser(), links(notice)[0]).Is(200).Hides("thief@example.net")
	otp(between, app.codes[1]).Is(401, "sign_in_expired")
	shown.Shows("Red key", day, `href="/admin/audit?person=ada"`, "t…@example.net", `id="reset-submit"`, `<label for="remove_factor-0">Passkey <bdi>Blue key</bdi>`)
	if strings.Count(shown.Body, "Blue key") != 1 {
		t.Errorf("the passkey from before is listed: %s", shown.Body)
	}
	w.Browser().Page("/reset-password/", "handle", "ada", "code", w.ResetCode("ada"), "password", newPassword, "listed", "1").Is(200).
		Shows("Blue key", day, "Kim at the boathouse", `data-factor="totp"`, `data-factor="recovery_code"`).Hides("Red key")

	w = accounttest.With(t, "ada") // without mail an address counts at once
	changeEmail(w.SignedIn("ada"), "thief@example.net")
	w.Browser().Page("/reset-password/", "handle", "ada", "code", w.ResetCode("ada"), "password", newPassword, "listed", "1").Is(200).
		Shows("t…@example.net")
}

// The row of a session on a shared computer stays as long as the links about it.
func TestRemediesReachASessionOfASharedComputer(t *testing.T) {
	for name, undo := range map[string]bool{"not me": false, "undo": true} {
		t.Run(name, func(t *testing.T) {
			w, post := mailWorldOf(t, "ada")
			w.Clock.Advance(30 * 24 * time.Hour)
			mine := addWayIn(w.SignedIn("ada"), "mine")
			w.Clock.Advance(24 * time.Hour)
			post.new()
			thief := w.BrowserAt("198.51.100.7")
			login := map[string]any{"handle": "ada", "password": password, "shared_computer": true}
			thief.Call("POST", "/api/auth/login", login).Is(200)
			notice := mailAbout(t, post.new(), signInMail)
			evil := addWayIn(thief, "evil")
			w.Clock.Advance(time.Minute)
			post.new()
			if undo {
				notice = moveEmail(post, thief, "eve@example.net")["ada@example.org"]
			}
			w.Clock.Advance(20 * time.Hour)
			_, err := w.Store.(*store.Store).Sweep(t.Context(), w.Clock.Now())
			must(t, err)
			press(t, w.Browser(), links(notice)[0]).Is(200)
			if signsIn(w.Browser(), evil) || !signsIn(w.Browser(), mine) {
				t.Error("the thief's passkey lives, or the owner's fell")
			}
		})
	}
}

// A mailbox clears the guesses at the second factor once a day, by a reset and by the page of a link alike.
func TestLinksClearGuessesAtTheSecondFactorOnceADay(t *testing.T) {
	w, post := newMailWorld(t, withLimits(map[string]web.Rate{web.LimitSecondFactor: {Count: 3, Window: 24 * time.Hour}}))
	addMember(w, "ada", "ada@example.org")
	a := enrol(w.SignedIn("ada"))
	w.Clock.Advance(5 * 24 * time.Hour)
	word := password
	for i, want := range []int{401, 429} {
		post.new()
		loginOTP(w.BrowserAt(address(i)), "ada", word, a.fresh()).Is(200)
		notice := mailAbout(t, post.new(), signInMail)
		for range 4 {
			loginOTP(w.BrowserAt("198.51.100.99"), "ada", word, a.wrong())
		}
		disownedBy(t, w.Browser(), notice)
		loginOTP(w.BrowserAt("198.51.100.98"), "ada", newPassword, a.wrong()).Is(want)
		word = newPassword
		w.Clock.Advance(time.Hour)
	}
}

// Who asked for a mailbox that an administrator has replaced since has no say about the next one.
func TestCancelLinkOfAReplacedMailbox(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada := w.SignedIn("ada")
	post.new()
	changeEmail(ada, "b@example.org")
	old := links(post.byAddress()["ada@example.org"])[0]
	_, err := w.Administration().Amend(t.Context(), account.Operator(), w.User("ada"),
		account.UserChange{"email": "c@example.org", "email_verified": "true"})
	must(t, err)
	ada.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200)
	changeEmail(ada, "d@example.org")
	pressAt(w.Browser(), old).Is(400)
	same(t, "waiting", w.User("ada").Pending.Email, "d@example.org")
}

// Mails to administrators are notices: whoever moves the address of one does not silence them.
func TestNewAdministratorIsToldAtTheFormerAddress(t *testing.T) {
	w, post := newMailWorld(t)
	addMember(w, "root", "root@example.org", account.FlagAdmin)
	w.AddUser("mole")
	thief := w.SignedIn("root")
	post.new()
	moveEmail(post, thief, "eve@example.net")
	post.new()
	_, err := w.Administration().SetFlags(t.Context(), account.Operator(), w.User("mole"), account.FlagChange{"admin": {On: true}})
	must(t, err)
	if !slices.ContainsFunc(post.new(), func(m mail.Message) bool {
		return m.To == "root@example.org" && strings.Contains(m.Subject, "administrator")
	}) {
		t.Error("only the new address is told")
	}
}
