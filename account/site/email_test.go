package site_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/store/accounttest"
)

// moveEmail changes a verified address and opens the link to the new one. It returns the mails that came since.
func moveEmail(p *postbox, b *accounttest.Browser, email string) map[string]mail.Message {
	p.w.T.Helper()
	changeEmail(b, email)
	sent := p.byAddress()
	_, button := link(p.w.T, sent[email])
	p.w.Browser().Page("/verify-email/", button...).Is(200)
	return p.byAddress()
}

// byAddress is new, by address: one mail to each.
func (p *postbox) byAddress() map[string]mail.Message {
	p.w.T.Helper()
	all := map[string]mail.Message{}
	for _, m := range p.new() {
		if _, twice := all[m.To]; twice {
			p.w.T.Fatalf("two mails to %s", m.To)
		}
		all[m.To] = m
	}
	return all
}

// links are the addresses of the links of a mail.
func links(m mail.Message) (all []string) {
	for _, found := range linkForm.FindAllStringSubmatch(m.Text, -1) {
		all = append(all, found[1])
	}
	return all
}

// press presses the button of the page of a link.
func press(t testing.TB, b *accounttest.Browser, address string) *accounttest.Answer {
	t.Helper()
	page, sealed, _ := strings.Cut(address, "?link=")
	b.Page(address).Is(200).Shows(`id="link-submit"`)
	return b.Page(page, "link", sealed)
}

func TestNewAddressWaitsUntilItsLinkIsOpened(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada, other := w.SignedIn("ada"), w.SignedIn("ada")
	other.Call("POST", "/api/invites", nil).Is(201)
	post.new()
	ada.Call("PATCH", "/api/me", map[string]string{"email": "new@example.org", "nickname": "A"}).Is(200).
		Shows(`"email":"ada@example.org"`, `"email_verified":true`, `"email_pending":"new@example.org"`, `"nickname":"A"`)
	asked := post.byAddress()
	if len(asked) != 2 || len(links(asked["ada@example.org"])) != 2 || strings.Contains(asked["ada@example.org"].Text, "new@") {
		t.Fatalf("the owner is told %q", asked["ada@example.org"].Text)
	}
	// Until then the old one counts, for whatever it is good for, and nothing has ended.
	w.Browser().Login("ada@example.org", password).Is(200)
	w.Browser().Login("new@example.org", password).Is(401)
	post.new()
	for name, to := range map[string]string{"ada": "ada@example.org", "ada@example.org": "ada@example.org"} {
		w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": name}).Is(200)
		post.one(to)
	}
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "new@example.org"}).Is(200)
	post.none()
	other.Call("GET", "/api/me", nil).Is(200).Shows(`"email_pending":"new@example.org"`)
	ada.Page("/account/profile").Is(200).Shows(`value="ada@example.org"`, `id="email-waits"`, "Waiting for you to open the link: new@example.org",
		`id="verify-send"`, `id="verify-cancel"`)
	ada.Page("/account/send-verification", "x", "y").RedirectsTo("/account/profile?notice=verification-sent#verify-email")
	again := post.one("new@example.org")
	has(t, "again.Text", again.Text, "wants to use this address for the account @ada")
	w.Clock.Advance(time.Hour)
	press(t, w.Browser(), links(again)[0]).Is(200).Shows(`id="done"`)
	if u := w.User("ada"); u.Email != "new@example.org" || !u.EmailVerified || u.Pending.Email != "" {
		t.Fatalf("%s, verified %t, waits %q", u.Email, u.EmailVerified, u.Pending.Email)
	}
	undo := post.byAddress()["ada@example.org"]
	ada.Call("GET", "/api/me", nil).Is(200).Shows(`"email_pending":""`)
	if !ada.IsSignedIn() || other.IsSignedIn() {
		t.Errorf("signed in: who asked %t, the other %t", ada.IsSignedIn(), other.IsSignedIn())
	}
	ada.Call("GET", "/api/invites", nil).Is(200).Hides(`"used":0`)
	w.Browser().Login("ada@example.org", password).Is(401)
	w.Browser().Login("new@example.org", password).Is(200)
	// The undo runs from then, and ends what was made since it was asked.
	w.Clock.Advance(account.UndoLifetime - time.Minute)
	press(t, w.Browser(), links(undo)[0]).Is(200).Shows(`id="done"`)
	if u := w.User("ada"); u.Email != "ada@example.org" || !u.EmailVerified || ada.IsSignedIn() {
		t.Errorf("%s, verified %t, signed in %t", u.Email, u.EmailVerified, ada.IsSignedIn())
	}
}

// The owner's link cancels whatever waits, also what was asked for after it was sent.
func TestWaitingAddressIsCancelled(t *testing.T) {
	for name, cancel := range map[string]func(w *accounttest.World, b *accounttest.Browser, told mail.Message){
		"by the page": func(w *accounttest.World, b *accounttest.Browser, _ mail.Message) {
			w.Clock.Advance(11 * time.Minute)
			b.Page("/account/cancel-email", "x", "y").Is(403).Shows(`data-page="confirm"`)
			b.Page("/account/cancel-email", "x", "y", "confirm_password", password).RedirectsTo("/account/profile?notice=email-cancelled#verify-email")
			b.Page("/account/profile?notice=email-cancelled").Shows("The change of address is cancelled")
			b.Page("/account/profile").Hides("verify-cancel", "email-waits")
		},
		"by the API": func(_ *accounttest.World, b *accounttest.Browser, _ mail.Message) {
			b.Call("DELETE", "/api/me/email/pending", nil).Is(204)
			b.Call("DELETE", "/api/me/email/pending", nil).Is(409, "no_email_to_verify")
		},
		"by the link": func(w *accounttest.World, b *accounttest.Browser, told mail.Message) {
			address := links(told)[0]
			w.Browser().Send("HEAD", address, "", "", "Accept", "text/html").Is(200)
			w.Browser().Page(address).Shows("t…@example.com").Hides("thief2", "@ada")
			press(w.T, w.Browser(), address).Is(200).Shows(`id="done"`)
			w.Browser().Page(address).Is(400)
			if !b.IsSignedIn() {
				w.T.Error("signed out")
			}
		},
		"That wasn’t me": func(w *accounttest.World, b *accounttest.Browser, told mail.Message) {
			press(w.T, w.Browser(), links(told)[1]).Is(200).Shows(`id="reset-submit"`)
			if b.IsSignedIn() {
				w.T.Error("signed in")
			}
		},
		"by an administrator’s address": func(w *accounttest.World, _ *accounttest.Browser, _ mail.Message) {
			if _, err := w.Administration().Amend(w.T.Context(), account.Operator(), w.User("ada"), account.UserChange{"email": "ada@example.net", "email_verified": "true"}); err != nil {
				w.T.Fatal(err)
			}
			setEmail(w, "ada", "ada@example.org", true)
		},
		"by an administrator’s doubt": func(w *accounttest.World, _ *accounttest.Browser, _ mail.Message) {
			if _, err := w.Administration().Amend(w.T.Context(), account.Operator(), w.User("ada"), account.UserChange{"email_verified": "false"}); err != nil {
				w.T.Fatal(err)
			}
			setEmail(w, "ada", "ada@example.org", true)
		},
		"by a new password in the session that asked": func(_ *accounttest.World, b *accounttest.Browser, _ mail.Message) {
			b.Clone().Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
		},
		"by signing out everywhere else there": func(_ *accounttest.World, b *accounttest.Browser, _ mail.Message) {
			b.Clone().Call("POST", "/api/me/sessions/end-others", nil).Is(204)
		},
		"by removing the address": func(w *accounttest.World, b *accounttest.Browser, _ mail.Message) {
			changeEmail(b, "")
			setEmail(w, "ada", "ada@example.org", true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, post := mailWorldOf(t, "ada")
			thief := w.SignedIn("ada")
			post.new()
			changeEmail(thief, "thief@example.net")
			told := post.byAddress()["ada@example.org"]
			w.Clock.Advance(time.Minute)
			changeEmail(thief, "thief2@example.com")
			verify := links(post.byAddress()["thief2@example.com"])[0]
			cancel(w, thief, told)
			w.Browser().Page(verify).Is(400)
			if u := w.User("ada"); u.Email != "ada@example.org" || !u.EmailVerified || u.Pending.Email != "" {
				t.Errorf("%s, verified %t, waits %q", u.Email, u.EmailVerified, u.Pending.Email)
			}
		})
	}
}

func TestLinkThatCancelsIsGoodForAWeek(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada := w.SignedIn("ada")
	post.new()
	changeEmail(ada, "new@example.org")
	told := post.byAddress()["ada@example.org"]
	w.Browser().Page(links(told)[0]).Is(200)
	w.Clock.Advance(account.UndoLifetime + time.Second)
	w.Browser().Page(links(told)[0]).Is(400).Shows(`id="link-renew"`)
}

// What the person chose at the question holds when the address counts.
func TestWhatANewAddressKeepsIsKeptWhenItCounts(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada, other := w.SignedIn("ada"), w.SignedIn("ada")
	post.new()
	ada.Call("PATCH", "/api/me", map[string]any{"email": "new@example.org", "keep_other_sessions": true}).Is(200)
	verify := links(post.byAddress()["new@example.org"])[0]
	w.Browser().Page(verify).Hides("other devices")
	press(t, w.Browser(), verify).Is(200)
	if w.User("ada").Email != "new@example.org" || !ada.IsSignedIn() || !other.IsSignedIn() {
		t.Errorf("%s, signed in: %t, the other %t", w.User("ada").Email, ada.IsSignedIn(), other.IsSignedIn())
	}
	post.new()
	changeEmail(ada, "next@example.org")
	verify = links(post.byAddress()["next@example.org"])[0]
	w.Browser().Page(verify).Shows("other devices")
	// A factor that is named as somebody else's goes at once.
	w.Clock.Advance(time.Minute)
	k := newKeyring()
	body := k.create(other.Call("POST", "/api/me/passkeys/begin", map[string]bool{"offered": true}))
	body["name"], body["offered"] = "Red key", true
	other.Call("POST", "/api/me/passkeys", body).Is(201)
	key := ada.Call("GET", "/api/me/passkeys", nil).Is(200).JSON()["passkeys"].([]any)[0].(map[string]any)["id"].(string)
	ada.Call("PATCH", "/api/me", map[string]any{"email": "third@example.org", "remove_factors": []string{"passkey:" + key}}).Is(200)
	if f, err := w.Store.Factors(t.Context(), w.User("ada").Sub); err != nil || f.Passkeys != 0 {
		t.Errorf("%d passkeys, %v", f.Passkeys, err)
	}
	for _, m := range post.new() {
		if m.To == "ada@example.org" && strings.Contains(m.Text, "asked on") && !strings.Contains(m.Text, "Red key") {
			t.Error(m.Text)
		}
	}
}

// Somebody else proves the address first: it is theirs, and the change goes on waiting.
func TestWaitingAddressThatAnotherVerifies(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	ada := w.SignedIn("ada")
	post.new()
	changeEmail(ada, "club@example.org")
	m := post.byAddress()["club@example.org"]
	addMember(w, "bob", "CLUB@example.org")
	press(t, w.Browser(), links(m)[0]).Is(409)
	code := codeForm.FindStringSubmatch(m.Text)[1]
	ada.Call("POST", "/api/me/email/verify", map[string]string{"code": code}).Is(409, "email_taken")
	if u := w.User("ada"); u.Email != "ada@example.org" || !u.EmailVerified {
		t.Errorf("%s, verified %t", u.Email, u.EmailVerified)
	}
}

// pressAt is press where the page may have no button.
func pressAt(b *accounttest.Browser, address string) *accounttest.Answer {
	page, sealed, _ := strings.Cut(address, "?link=")
	return b.Page(page, "link", sealed)
}

// isOwners fails the test unless ada has the address of her own, verified.
func isOwners(w *accounttest.World) {
	w.T.Helper()
	if u := w.User("ada"); u.Email != "ada@example.org" || !u.EmailVerified {
		w.T.Errorf("the address is %s, verified %t", u.Email, u.EmailVerified)
	}
}

// The owner of the address before gets it back, whatever a thief does after the first change, and when; and what is
// not verified is cancelled by the first link.
func TestUndoOfAnAddressOutlivesLaterChanges(t *testing.T) {
	for _, gap := range []time.Duration{0, time.Second, 2 * time.Minute} {
		for _, verified := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s apart, verified %t", gap, verified), func(t *testing.T) {
				w, post := mailWorldOf(t, "ada")
				thief := w.SignedIn("ada")
				post.new()
				undo, later := "", []string{} // of the first change, and of the ones after it
				for n := range 3 {
					var all map[string]mail.Message
					to := fmt.Sprintf("thief%d@example.net", n)
					if verified {
						all = moveEmail(post, thief, to)
					} else {
						changeEmail(thief, to)
						all = post.byAddress()
					}
					if told := links(all["ada@example.org"]); n == 0 {
						undo = told[0]
					} else if len(all["ada@example.org"].Text) == 0 {
						t.Errorf("the owner of the address before is not told of change %d", n+1)
					}
					later = append(later, links(all[fmt.Sprintf("thief%d@example.net", n-1)])...)
					w.Clock.Advance(gap)
				}
				for _, link := range later[min(1, len(later)):] {
					pressAt(w.Browser(), link) // the thief's: whatever it does, the owner's works after it
				}
				press(t, w.Browser(), undo).Is(200)
				for _, link := range later {
					pressAt(w.Browser(), link).Is(400)
				}
				if u := w.User("ada"); verified == thief.IsSignedIn() || u.Pending.Email != "" {
					t.Errorf("the thief is signed in: %t; %s waits", thief.IsSignedIn(), u.Pending.Email)
				}
				isOwners(w)
				if verified { // by a browser that knows the password
					w.Clock.Advance(3 * time.Hour)
					thief.Login("ada", password).Is(403, "password_disowned")
				}
			})
		}
	}
}

// An owner who takes the address back on the page of the account, and not by the link, is as safe.
func TestOwnersWayBackIsNotUndone(t *testing.T) {
	w, post := newMailWorld(t)
	const owner, other = "ada@example.org", "thief@example.net"
	addMember(w, "ada", owner)
	ada := w.SignedIn("ada")
	change := func(to string) (undo string) {
		t.Helper()
		ada.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200)
		before := w.User("ada").Email
		changeEmail(ada, to)
		for _, m := range post.new() { // a former owner is told as well
			if link := strings.Join(links(m), ""); m.To == to && strings.HasPrefix(link, "/verify-email/") {
				press(t, w.Browser(), link).Is(200)
			}
		}
		for _, m := range post.new() {
			if m.To == before {
				if undo != "" {
					t.Errorf("%s is told twice", before)
				}
				undo = strings.Join(links(m), "")
			} else if m.To == to {
				t.Errorf("%s is told that it was taken: %s", to, m.Text)
			}
		}
		return undo
	}
	first := change(other)
	later := change("thief3@example.net")
	w.Clock.Advance(24 * time.Hour)
	same(t, "a thief may undo the way back", change(owner), "")
	pressAt(w.Browser(), later).Is(400)
	isOwners(w)
	if !ada.IsSignedIn() {
		t.Error("the owner is signed out")
	}
	undone := press(t, w.Browser(), change(other)).Is(200)
	post.one(other)
	code := codeField.FindStringSubmatch(undone.Body)[1]
	w.Browser().Page("/reset-password/", "handle", "ada", "code", code, "password", password, "listed", "1").Is(200)
	ada = w.SignedIn("ada")
	change(other)
	press(t, w.Browser(), first).Is(200)
	isOwners(w)
	post.one(other)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", w.ResetCode("ada"), password)).Is(200)
	ada = w.SignedIn("ada")
	last := change(other)
	change(owner)
	press(t, w.Browser(), last).Is(200)
	post.none() // to whom it belongs already
}

// Who takes an account by its address first, and verifies it, cannot do the rest silently.
func TestVerifiedNewAddressDoesNotSilenceTheOneBefore(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	thief := w.SignedIn("ada")
	post.new()
	const owner, other = "ada@example.org", "thief@example.net"
	moveEmail(post, thief, other)
	told := func(what string, to ...string) {
		t.Helper()
		sameList(t, fmt.Sprintf("%s: mails", what), slices.Sorted(maps.Keys(post.byAddress())), to)
	}
	addPasskey(thief, "Red key")
	told("passkey", owner, other)
	thief.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	told("password", owner, other)
	w.Suspend("ada")
	told("suspension", owner, other)
	must(t, w.Administration().Unsuspend(t.Context(), account.Operator(), w.User("ada")))
	told("the end of it", owner, other)
	w.Clock.Advance(account.UndoLifetime)
	w.Suspend("ada")
	told("when the change can no longer be undone", other)
}

// A domain with an umlaut is reached by every mail server, signs in as it is typed, and is shown as people write it.
func TestInternationalDomain(t *testing.T) {
	w, post := newMailWorld(t)
	w.AddUser("ada")
	ada := w.SignedIn("ada")
	changeEmail(ada, "ada@müller.example")
	m := post.one("ada@xn--mller-kva.example")
	path, button := link(t, m)
	ada.Page(path).Is(200).Shows("ada@müller.example")
	ada.Page("/verify-email/", button...).Is(200)
	ada.Page("/account/profile").Is(200).Shows(`value="ada@xn--mller-kva.example"`) // which a browser shows as it is written
	for _, typed := range []string{"ada@müller.example", "ADA@MÜLLER.example", "ada@xn--mller-kva.example"} {
		w.Browser().Login(typed, password).Is(200).Shows(`"handle":"ada"`)
	}
	ada.Call("PATCH", "/api/me", map[string]string{"email": "ada@a\u200db.example"}).Is(400, "invalid_email")
	const impossible = "ada@[127.0.0.1]" // which was stored by an earlier version
	ada.Page("/account/profile", "display_name", "Ada", "email", impossible).Is(400).Shows(`data-code="invalid_email"`)
	setEmail(w, "ada", impossible, true)
	ada.Page("/account/profile", "display_name", "Ada", "email", impossible).Is(303)
	w.Browser().Login(impossible, password).Is(200)
	post.new()
	w.Browser().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": impossible}).Is(200)
	post.one(impossible)
}
