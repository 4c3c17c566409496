package site_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// joinByPasskey makes a member without a password.
func joinByPasskey(w *accounttest.World, handle string) (b *accounttest.Browser, k *keyring, codes []string) {
	w.T.Helper()
	b, k = w.Browser(), newKeyring()
	start := map[string]any{"code": w.Invite().Code, "handle": handle}
	body := k.create(b.Call("POST", "/api/register/passkey/begin", start))
	body["code"], body["handle"] = start["code"], start["handle"]
	for _, c := range b.Call("POST", "/api/register", body).Is(201).JSON()["recovery_codes"].([]any) {
		codes = append(codes, c.(string))
	}
	return b, k, codes
}

func recoverBy(b *accounttest.Browser, handle, code string) *accounttest.Answer {
	return b.Call("POST", "/api/auth/recover", map[string]string{"handle": handle, "code": code})
}

// What an invite starts with a passkey alone, no password opens; and all of its life goes on without.
func TestMemberWithoutAPassword(t *testing.T) {
	w := accounttest.New(t)
	b, k, codes := joinByPasskey(w, "ada")
	if u := w.User("ada"); !u.Passwordless() || !u.SecondFactor || len(codes) != 10 || strings.Join(session(b).AMR, " ") != "hwk user mfa" {
		t.Fatalf("%+v, %d codes, %v", u, len(codes), session(b).AMR)
	}
	if got := b.Call("GET", "/api/me/factors", nil).Is(200).JSON(); got["password"] != false || got["recovery_codes"] != 10.0 || got["passkeys"] != 1.0 {
		t.Errorf("%v", got)
	}
	for _, tried := range []string{"", "!", password, account.NoPassword + " ", codes[0]} {
		w.Browser().Login("ada", tried).Is(401, "invalid_credentials")
		w.Browser().Page("/login/", "handle", "ada", "password", tried).Is(401)
		b.Call("POST", "/api/auth/confirm", map[string]string{"password": tried, "otp": codes[0]}).Is(401, "invalid_credentials")
	}
	setStep(b, false).Is(409, "no_second_step")
	again := w.Browser()
	finish(again, k.get(begin(again))).Is(200)
	b.Page("/account/security").Is(200).Shows(`id="passwordless"`, "Set a password").Hides("current_password", "password-remove")
	b.Page("/account/data").Is(200).Hides("delete-password")
	key := b.Call("GET", "/api/me/passkeys", nil).JSON()["passkeys"].([]any)[0].(map[string]any)["id"].(string)
	b.Call("DELETE", "/api/me/passkeys/"+key, nil).Is(409, "last_way_in")

	w.Clock.Advance(11 * time.Minute)
	b.Call("DELETE", "/api/me", map[string]string{"password": "", "otp": codes[0]}).Is(403, "reauthentication_required")
	b.Call("PUT", "/api/me/password", map[string]string{"new_password": newPassword}).Is(403, "reauthentication_required")
	b.Page("/account/passkeys/remove", "id", key, "sure", "yes").Is(403).Shows(`id="passkey-form"`, "/recover/").Hides("confirm_password")
	confirm := func() {
		t.Helper()
		body := k.get(b.Call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": "confirm"}))
		body["purpose"] = "confirm"
		finish(b, body).Is(200)
	}
	confirm()
	b.Call("PUT", "/api/me/password", map[string]string{"new_password": newPassword}).Is(200)
	w.Browser().Login("ada", newPassword).Is(401, "second_factor_required")
	b.Call("DELETE", "/api/me/password", nil).Is(204)
	w.Browser().Login("ada", newPassword).Is(401, "invalid_credentials")
	finish(again, k.get(begin(again))).Is(200)
	if b.Call("DELETE", "/api/me/password", nil).Is(204); !again.IsSignedIn() {
		t.Error("a password that is not there was removed")
	}
	b.Call("DELETE", "/api/me", map[string]string{}).Is(204)
	finish(again, k.get(begin(again))).Is(401, "invalid_passkey")
}

// Without a passkey of this address the password stays. Who has no recovery codes gets some when it goes.
func TestPasswordStaysWhereItIsTheLastWayIn(t *testing.T) {
	w := accounttest.New(t)
	a := addProtected(w, "ada")
	b := w.Browser()
	loginOTP(b, "ada", password, a.fresh()).Is(200)
	b.Call("DELETE", "/api/me/password", nil).Is(409, "last_way_in") // a code needs it
	addPasskey(b, "Key")
	for _, c := range a.codes {
		loginOTP(w.Browser(), "ada", password, c).Is(200)
	}
	b.Page("/account/security").Is(200).Shows("password-remove")
	other := w.Browser()
	loginOTP(other, "ada", password, a.fresh()).Is(200)
	b.Page("/account/password/remove").Is(405)
	b.Page("/account/password/remove", "x", "y").Is(200).Shows("Remove your password?")
	b.Page("/account/password/remove", "sure", "yes").Is(200).Shows(`id="recovery-codes"`) // none were left
	f, err := w.Store.Factors(t.Context(), w.User("ada").Sub)
	if other.IsSignedIn() || !b.IsSignedIn() || err != nil || f.RecoveryCodes == 0 {
		t.Error("the other session lives on, this one has ended, or the codes are not stored:", err)
	}
	w.AddUser("eve")
	w.SignedIn("eve").Call("DELETE", "/api/me/password", nil).Is(409, "last_way_in")
}

// The device is lost: a code from paper, then a new passkey. It is one factor, and applications are told so.
func TestRecoveryWithoutAPassword(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{
		web.LimitLogin: {Count: 40, Window: 15 * time.Minute}, web.LimitSecondFactor: {Count: 20, Window: 24 * time.Hour},
	}))
	_, lost, codes := joinByPasskey(w, "ada")
	w.AddUser("bob")
	bob := enrol(w.SignedIn("bob"))
	for handle, code := range map[string]string{"bob": bob.codes[0], "nobody": codes[0], "ada": bob.codes[1], "": "", "ada ": "AAAA"} {
		recoverBy(w.Browser(), handle, code).Is(401, "invalid_recovery_code")
	}
	loginOTP(w.Browser(), "bob", password, bob.codes[0]).Is(200) // not spent above
	for i := range 30 {                                          // strangers lock out themselves alone
		recoverBy(w.BrowserAt(address(i)), "ada", "0000 0000 0000 0000").Is(401)
	}
	b := w.Browser()
	b.Page("/recover/?handle=ada").Is(200).Shows(`value="ada"`)
	b.Page("/recover/", "handle", "ada", "code", "wrong").Is(401).Shows(`aria-invalid="true"`)
	b.Page("/recover/", "handle", "ada", "code", strings.ToLower(codes[0])).RedirectsTo("/account/security?notice=recovery-used#recovery")
	if s := session(b); account.ACR(s.AMR) != account.ACRPassword || strings.Join(account.ShownMethods(s.AMR), " ") != "otp" {
		t.Errorf("%v is %s", s.AMR, account.ACR(s.AMR))
	}
	recoverBy(w.Browser(), "ada", codes[0]).Is(401, "invalid_recovery_code")
	old := b.Call("GET", "/api/me/passkeys", nil).JSON()["passkeys"].([]any)[0].(map[string]any)["id"].(string)
	fresh := addPasskey(b, "New phone")
	b.Call("DELETE", "/api/me/passkeys/"+old, nil).Is(204)
	again := w.Browser()
	finish(again, fresh.get(begin(again))).Is(200)
	finish(w.Browser(), lost.get(begin(w.Browser()))).Is(400)
	if s := session(again); account.ACR(s.AMR) != account.ACRPhishingResistant {
		t.Errorf("%v", s.AMR)
	}
	for range 20 {
		recoverBy(w.BrowserAt(address(99)), "ada", codes[1][:4]+strings.Repeat("0", 12)).Is(401)
	}
	recoverBy(w.BrowserAt(address(98)), "ada", codes[1]).Is(429, "rate_limited") // somebody knew its name
	w.Clock.Advance(49 * time.Hour)
	w.Suspend("ada")
	for range 2 { // a refusal spends no code
		recoverBy(w.Browser(), "ada", codes[1]).Is(403, "account_suspended")
	}
	same(t, "audit log", actions(audited(w, account.AuditQuery{Kind: account.RefuseSuspended.Action})),
		"ada>ada session.refused suspended")
}

// What others there get wrong does not refuse the code of who is known, by the browser or the address; and the
// answer to a wrong one does not tell who that is.
func TestRecoveryKnowsItsFaces(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{
		web.LimitLogin: {Count: 3, Window: 15 * time.Minute}, web.LimitLoginAddress: {Count: 6, Window: 15 * time.Minute},
	}))
	const club, hotel, wrong = "203.0.113.5", "203.0.113.6", "0000 0000 0000 0000"
	browser, k, codes := joinByPasskey(w, "ada")
	there := w.BrowserAt(club)
	finish(there, k.get(begin(there))).Is(200)
	_, _, others := joinByPasskey(w, "bob")
	for _, place := range []string{club, hotel} {
		for i := range 8 {
			recoverBy(w.BrowserAt(place), fmt.Sprint("guest", i), wrong)
		}
	}
	recoverBy(w.BrowserAt(club), "ada", wrong).Is(429, "rate_limited")
	recoverBy(w.BrowserAt(club), "bob", wrong).Is(429, "rate_limited")
	recoverBy(w.BrowserAt(club), "bob", others[0]).Is(429, "rate_limited") // never seen there
	recoverBy(w.BrowserAt(club), "ada", codes[0]).Is(200)
	browser.Address = hotel
	recoverBy(w.BrowserAt(hotel), "ada", codes[1]).Is(429, "rate_limited")
	recoverBy(browser, "ada", codes[1]).Is(200)
	for range 3 {
		recoverBy(browser, "ada", wrong)
	}
	recoverBy(browser, "ada", codes[2]).Is(429, "rate_limited") // its own
	must(t, w.Administration().Unlock(t.Context(), account.Operator(), w.User("ada")))
	recoverBy(browser, "ada", codes[2]).Is(200)
}

// An administrator helps who has lost everything: the code sets a password, and removed factors let it in.
func TestAdministratorHelpsWithoutAPassword(t *testing.T) {
	w := accounttest.New(t)
	_, _, codes := joinByPasskey(w, "ada")
	begun := map[string]string{"handle": "ada", "code": w.ResetCode("ada")} // a passkey is for who was added
	w.Browser().Call("POST", "/api/auth/reset-password/passkey/begin", begun).Is(400, "invalid_reset_code")
	w.Browser().Call("POST", "/api/auth/reset-password", reset("ada", begun["code"], newPassword)).Is(200)
	w.Browser().Login("ada", newPassword).Is(401, "second_factor_required") // the passkey is still asked for
	joinByPasskey(w, "bob")
	must(t, w.Administration().ResetFactors(t.Context(), account.Operator(), w.User("bob")))
	if u := w.User("bob"); !u.Passwordless() || u.SecondFactor {
		t.Errorf("%+v", u)
	}
	for _, tried := range []string{"", "!"} {
		w.Browser().Login("bob", tried).Is(401, "invalid_credentials")
	}
	recoverBy(w.Browser(), "bob", codes[0]).Is(401)
	w.Browser().Call("POST", "/api/auth/reset-password", reset("bob", w.ResetCode("bob"), newPassword)).Is(200)
	w.Browser().Login("bob", newPassword).Is(200)
}

// A registration that would be refused makes no passkey, and one that was made for another challenge,
// browser or person opens nothing.
func TestJoiningByPasskeyIsRefusedBeforeThePasskey(t *testing.T) {
	w := accounttest.With(t, "ada")
	b, code := w.Browser(), w.Invite().Code
	start := func(code, handle string) *accounttest.Answer {
		return b.Call("POST", "/api/register/passkey/begin", map[string]string{"code": code, "handle": handle})
	}
	start(strings.Repeat("0", 16), "ada").Is(400, "invalid_invite")
	start(code, "ada").Is(409, "handle_taken")
	start(code, "-").Is(400, "invalid_handle")
	register := func(b *accounttest.Browser, body map[string]any) *accounttest.Answer {
		body["code"], body["handle"] = code, "bob"
		return b.Call("POST", "/api/register", body)
	}
	register(b, map[string]any{}).Is(400, "weak_password")
	register(w.Browser(), newKeyring().create(start(code, "bob"))).Is(400, "passkey_expired")
	mallory := w.SignedIn("ada")
	register(b, newKeyring().create(mallory.Call("POST", "/api/me/passkeys/begin", nil))).Is(400, "passkey_expired")
	k := addPasskey(mallory, "Key")
	stolen := newKeyring()
	stolen.key = k.key
	register(b, stolen.create(start(code, "bob"))).Is(409, "passkey_exists")
	w.Browser().Page("/register/?code="+code).Is(200).Shows("data-fields", "passkey-submit")
	body := newKeyring().create(start(code, "bob"))
	register(b, body).Is(201)
	register(b, body).Is(400)
}

// A forgotten password that does not exist: the mail says so, and its link asks for a recovery code.
func TestForgottenPasswordThatDoesNotExist(t *testing.T) {
	w, post := newMailWorld(t)
	_, _, codes := joinByPasskey(w, "ada")
	forget := func() { w.Browser().Page("/forgot-password/", "handle", "ada").Is(200) }
	change := func(verified bool) {
		t.Helper()
		_, err := w.Store.ChangeUser(t.Context(), w.User("ada").Sub, func(u *account.User) error {
			u.Email, u.EmailVerified = "ada@example.org", verified
			return nil
		}, w.Clock.Now(), nil)
		must(t, err)
	}
	change(false)
	forget()
	post.none() // an address that was typed in is not theirs yet
	change(true)
	forget()
	m := post.one("ada@example.org")
	path, _ := link(t, m)
	if !strings.Contains(m.Text, "It has no password") || path != "/recover/?handle=ada" {
		t.Errorf("%s leads to %s", m.Text, path)
	}
	w.Browser().Page(path).Is(200).Shows(`value="ada"`, "administrator")
	w.Browser().Page("/recover/", "handle", "ada", "code", codes[0]).RedirectsTo("/account/security?notice=recovery-used#recovery")
	var told []string
	for _, m := range post.new() {
		told = append(told, m.Subject)
		if m.Subject == "A recovery code was used" && !strings.Contains(m.Text, "You have 9 recovery codes left.") {
			t.Error(m.Text)
		}
	}
	if !slices.Contains(told, "A recovery code was used") {
		t.Errorf("told of %q", told)
	}
}

// "That wasn’t me" of an account without a password ends everything, and gives whoever reads the mailbox
// no password: the way on is a passkey, a recovery code or an administrator.
func TestNotMeGivesNoPasswordWhereThereIsNone(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(func(v *account.Settings) { v.Contact = "board@example.org" })
	ada, k, codes := joinByPasskey(w, "ada")
	setEmail(w, "ada", "ada@example.org", true)
	ada.Call("PUT", "/api/me/password", map[string]string{"new_password": newPassword}).Is(200)
	ada.Call("DELETE", "/api/me/password", nil).Is(204) // she did that herself
	post.new()
	w.Clock.Advance(time.Hour)
	thief := w.Browser()
	finish(thief, k.get(begin(thief))).Is(200)
	path, button := link(t, post.one("ada@example.org"))
	thief.Call("POST", "/api/me/recovery-codes", nil).Is(200)
	recoverBy(w.Browser(), "ada", codes[0]).Is(401)
	invite := thief.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	reader := w.Browser()
	reader.Page(path).Is(200).Hides("password").Shows("ada")
	reader.Page("/not-me/", button...).Is(200).Hides("type=\"password\"", `name="code"`, "old password").
		Shows(`data-factor="passkey"`, `data-factor="recovery_code"`, `id="not-me-login"`, "/recover/?handle=ada", "board@example.org")
	if ada.IsSignedIn() || thief.IsSignedIn() || reader.IsSignedIn() {
		t.Error("a session lives on")
	}
	w.Browser().Call("POST", "/api/register", map[string]string{"code": invite, "handle": "eve", "password": newPassword}).Is(400, "invalid_invite")
	if u := w.User("ada"); !u.Passwordless() || !u.PasswordDisownedAt.IsZero() {
		t.Errorf("%+v", u)
	}
	if n := len(post.new()); n != 2 { // of the recovery codes and the link
		t.Errorf("%d mails", n)
	}
	reader.Page("/not-me/", button...).Is(400).Hides("type=\"password\"")
	finish(reader, k.get(begin(reader))).Is(200) // the owner's own passkey
	for _, c := range reader.Call("POST", "/api/me/recovery-codes", nil).Is(200).JSON()["recovery_codes"].([]any) {
		recoverBy(w.Browser(), "ada", c.(string)).Is(200)
	}
	post.new()
	w.Clock.Advance(time.Minute)
	finish(thief, k.get(begin(thief))).Is(200) // a passkey is a way in without codes
	press(t, reader, links(post.one("ada@example.org"))[0]).Is(200).Shows(`id="not-me-login"`).Hides(`id="closed"`)
}

// A device forgets a passkey that is not stored, and never one that is, whatever else was refused.
func TestOnlyUnknownPasskeysAreForgotten(t *testing.T) {
	w := accounttest.New(t)
	const signal = "UnknownCredential"
	signIn := func(k *keyring) *accounttest.Answer {
		b := w.Browser()
		body := k.get(begin(b))
		return b.Page("/login/", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)))
	}
	code, b, k := w.Invite().Code, w.Browser(), newKeyring()
	body := k.create(b.Call("POST", "/api/register/passkey/begin", map[string]string{"code": code, "handle": "ada"}))
	join := []string{"code", code, "handle", "ada", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage))}
	b.Page("/register/", append(join, "display_name", strings.Repeat("x", 61))...).Is(400).Shows(signal)
	b.Page("/register/", join...).Is(200).Shows("recovery-codes", "Your account is ready")
	b.Page("/register/", join...).Is(400).Hides(signal) // sent twice
	forged := *k
	forged.device.Options.UserNotVerified = true
	signIn(&forged).Is(401).Hides(signal)
	unknown := newKeyring()
	unknown.device.Options.UserHandle = k.device.Options.UserHandle
	signIn(unknown).Is(401).Shows(signal)
	b.Page("/account/security").Is(200).Shows("AllAcceptedCredentials")
	b.Page("/account/profile").Is(200).Hides("CurrentUserDetails")
	b.Page("/account/profile?notice=profile-saved").Is(200).Shows("CurrentUserDetails")
}

// What a browser makes automatically after a sign-in with a password changes nothing but that it signs in: the
// password alone still does, here and elsewhere, until the member adds a second step on purpose.
func TestOfferedPasskeyKeepsNobodyOut(t *testing.T) {
	w := accounttest.With(t, "ada")
	b := w.Browser()
	b.Page("/login/", "handle", "ada", "password", password).RedirectsTo("/account/")
	b.Page("/account/").Is(200).Shows("data-offer")
	b.Page("/account/").Is(200).Hides("data-offer") // once
	offer := func(b *accounttest.Browser) *accounttest.Answer {
		return b.Call("POST", "/api/me/passkeys/begin", map[string]any{"offered": true})
	}
	k := newKeyring(func(o *virtualwebauthn.AuthenticatorOptions) { o.UserNotVerified = true }) // nobody was asked
	body := k.create(offer(b))
	b.Call("POST", "/api/me/passkeys", body).Is(400, "passkey_expired") // not as one that was added on purpose
	body = k.create(offer(b))
	body["offered"], body["second_step"] = true, true // which is for a passkey that was added on purpose
	if got := b.Call("POST", "/api/me/passkeys", body).Is(201).JSON(); got["recovery_codes"] != nil {
		t.Errorf("%v", got)
	}
	if got := amr(b, "ada"); len(got) != 1 {
		t.Errorf("the session has proven %q", got)
	}
	offer(b).Is(404, "passkeys_unavailable") // there is one
	w.Browser().Login("ada", password).Is(200)
	fresh := w.Browser()
	finish(fresh, k.get(begin(fresh))).Is(401, "invalid_passkey") // a use asks for the person
	k.device.Options.UserNotVerified = false
	finish(fresh, k.get(begin(fresh))).Is(200)
	if s := session(fresh); account.ACR(s.AMR) != account.ACRPhishingResistant || w.User("ada").SecondFactor {
		t.Errorf("%v", s.AMR)
	}
	fresh.Page("/account/security").Is(200).Shows(`id="second-step-none"`, "password-remove").Hides(`id="recovery"`)
	second := w.SignedIn("ada")
	second.Call("DELETE", "/api/me/password", nil).Is(401, "second_factor_required") // whoever removes it shows the passkey
	id := second.Call("GET", "/api/me/passkeys", nil).JSON()["passkeys"].([]any)[0].(map[string]any)["id"].(string)
	pending := w.Browser()
	proof := k.get(begin(pending))
	second.Call("DELETE", "/api/me/passkeys/"+id, nil).Is(204)
	if fresh.IsSignedIn() {
		t.Error("a session of the removed passkey lives on")
	}
	finish(pending, proof).Is(401, "invalid_passkey")
	third := w.SignedIn("ada")
	body = newKeyring().create(offer(third))
	body["offered"] = true
	third.Call("POST", "/api/me/passkeys", body).Is(201)
	a := enrol(third) // on purpose: from now on there is a second step, with recovery codes
	same(t, "codes", len(a.codes), 10)
	w.Browser().Login("ada", password).Is(401, "second_factor_required")
	w.SaveSettings(func(v *account.Settings) { v.OfferPasskeys = false })
	w.AddUser("bob")
	off := w.Browser()
	off.Page("/login/", "handle", "bob", "password", password).RedirectsTo("/account/")
	off.Page("/account/").Is(200).Hides("data-offer")
	offer(off).Is(404, "passkeys_unavailable")
	w.SaveSettings(func(v *account.Settings) {
		v.OfferPasskeys, v.SecondFactorFlags = true, []string{account.FlagAdmin}
	})
	root := w.Member("root", account.FlagAdmin)
	offer(root).Is(404, "passkeys_unavailable") // set up on purpose
	enrol(root)
	offer(root).Is(200)
}
