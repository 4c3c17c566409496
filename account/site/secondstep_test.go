package site_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
)

// addWayIn gives the signed-in user of the browser a passkey, and changes nothing else.
func addWayIn(b *accounttest.Browser, name string) *keyring {
	b.W.T.Helper()
	k := newKeyring()
	body := k.create(b.Call("POST", "/api/me/passkeys/begin", nil))
	body["name"] = name
	if codes := b.Call("POST", "/api/me/passkeys", body).Is(201).JSON()["recovery_codes"]; codes != nil {
		b.W.T.Errorf("recovery codes %v", codes)
	}
	return k
}

func setStep(b *accounttest.Browser, on bool) *accounttest.Answer {
	return b.Call("PUT", "/api/me/second-step", map[string]bool{"on": on})
}

// confirmBy confirms the session by the passkey.
func confirmBy(b *accounttest.Browser, k *keyring) *accounttest.Answer {
	body := k.get(b.Call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": "confirm"}))
	body["purpose"] = "confirm"
	return finish(b, body)
}

// stepBy signs in by the password, which is not enough, and the passkey.
func stepBy(b *accounttest.Browser, handle string, k *keyring) *accounttest.Answer {
	b.W.T.Helper()
	methods := b.Login(handle, password).Is(401, "second_factor_required").JSON()["methods"]
	if got, _ := json.Marshal(methods); !strings.Contains(string(got), `"passkey"`) {
		b.W.T.Errorf("methods %s", got)
	}
	body := k.get(b.Call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": "second-factor"}))
	body["purpose"] = "second-factor"
	return finish(b, body)
}

// The first passkey locks nobody out: other devices stay signed in, and the password is enough there.
func TestPasskeyIsAWayInNotALock(t *testing.T) {
	w := accounttest.With(t, "ada")
	computer, phone := w.SignedIn("ada"), w.SignedIn("ada")
	k := addWayIn(phone, "Phone")
	if !computer.IsSignedIn() || w.User("ada").SecondFactor || !signsIn(w.Browser(), k) {
		t.Error("a session ended, a second step is asked, or the passkey does not sign in")
	}
	w.Browser().Login("ada", password).Is(200)
	if s := session(phone); account.ACR(s.AMR) != account.ACRPhishingResistant {
		t.Errorf("the session that made it has proven %v", s.AMR)
	}
	body := newKeyring().create(computer.Call("POST", "/api/me/passkeys/begin", nil))
	computer.Page("/account/passkeys", "state", body["state"].(string), "credential",
		string(body["credential"].(json.RawMessage)), "name", "Laptop").RedirectsTo("/account/security?notice=passkey-added#passkeys")
	if !phone.IsSignedIn() {
		t.Error("the phone is signed out")
	}
	phone.Page("/account/security").Is(200).Shows(`id="second-step-none"`, `name="end_other_sessions"`, `id="second_step"`).Hides(`id="second_step" name="second_step" value="true" aria-describedby="second_step-hint" checked`)
	phone.Page("/account/security/second-step", "x", "y").Is(200).Shows(`id="recovery-codes"`)
	if !computer.IsSignedIn() || !w.User("ada").SecondFactor {
		t.Error("devices were signed out unasked, or there is no second step")
	}
	phone.Page("/account/security").Is(200).Hides(`name="second_step"`)
	body = newKeyring().create(computer.Call("POST", "/api/me/passkeys/begin", nil))
	computer.Page("/account/passkeys", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)),
		"name", "Tablet", "end_other_sessions", "true").RedirectsTo("/account/security?notice=passkey-added#passkeys")
	if phone.IsSignedIn() || !computer.IsSignedIn() {
		t.Error("the box left the phone signed in, or signed out who ticked it")
	}
}

// A session has proven what it adds, beside what it proved by factors that there are. The mail tells of a second step
// when it is new, and what is named as somebody else's goes.
func TestSessionHasProvenWhatItAdds(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	b := w.SignedIn("ada")
	post.new()
	is := func(b *accounttest.Browser, methods string, byPasskey, asks bool) {
		t.Helper()
		s, m := session(b), mailAbout(t, post.new(), addedMail)
		if got := strings.Join(s.AMR, " "); got != methods || (s.Passkey != nil) != byPasskey {
			t.Errorf("methods %q, want %q; passkey %x", got, methods, s.Passkey)
		}
		if strings.Contains(m.Text, "The password alone is no longer enough") != asks {
			t.Error(m.Text)
		}
	}
	id := func(k *keyring) string { return base64.RawURLEncoding.EncodeToString(k.key.ID) }
	enrol(b)
	is(b, "pwd otp mfa", false, true)
	key := addPasskey(b, "Key")
	is(b, "pwd otp mfa hwk user", false, false)
	b.Call("DELETE", "/api/me/totp", nil).Is(204)
	b.Call("DELETE", "/api/me/passkeys/"+id(key), nil).Is(204)
	post.new()
	k, other := addWayIn(b, "Phone"), w.Browser()
	is(b, "pwd hwk mfa user", true, false)
	finish(other, k.get(begin(other))).Is(200)
	opened, cookie := session(other), other.Cookies["cairn_session"]
	laptop := addWayIn(other, "Laptop")
	is(other, "hwk user mfa", true, false)
	if !bytes.Equal(session(other).Passkey, opened.Passkey) || other.Cookies["cairn_session"] != cookie {
		t.Error("the session that a passkey opened is another one with the next passkey")
	}
	in := newKeyring(synced).create(b.Call("POST", "/api/me/passkeys/begin", nil))
	in["keep_other_sessions"], in["remove_factors"] = true, []string{"passkey:" + id(laptop)}
	b.Call("POST", "/api/me/passkeys", in).Is(201)
	b.Call("GET", "/api/me/passkeys", nil).Is(200).Hides("Laptop")
	is(b, "pwd hwk mfa user swk", true, false)
	if !bytes.Equal(session(b).Passkey, opened.Passkey) {
		t.Error("the session is of the passkey that came last")
	}
	enrol(other)
	is(other, "hwk user mfa otp", true, true)
}

// Who switches the second step on or off has shown the factor; the password alone does neither.
func TestSecondStepIsAChoice(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	setStep(b, true).Is(409, "no_second_step")
	b.Call("PUT", "/api/me/second-step", map[string]any{}).Is(400)
	k := addWayIn(b, "Key")
	thief, other := w.SignedIn("ada"), w.SignedIn("ada")
	setStep(thief, true).Is(401, "second_factor_required").Shows(`"methods":["passkey"]`)
	thief.Page("/account/security/second-step", "x", "y").Is(403).Shows(`id="passkey-form"`).Hides("confirm_password")
	confirmBy(other, k).Is(200)
	codes, _ := setStep(other, true).Is(200).JSON()["recovery_codes"].([]any)
	if len(codes) != 10 || b.IsSignedIn() || thief.IsSignedIn() || !other.IsSignedIn() {
		t.Errorf("%d codes, or other sessions live", len(codes))
	}
	if again := setStep(other, true).Is(200).JSON(); again["recovery_codes"] != nil {
		t.Errorf("%v", again)
	}
	other.Page("/account/security/second-step", "x", "y").RedirectsTo("/account/security?notice=second-step-on#second-step")
	stepBy(thief, "ada", k).Is(200)
	w.Clock.Advance(11 * time.Minute)
	setStep(thief, false).Is(403, "reauthentication_required")
	thief.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(401, "second_factor_required")
	confirmBy(thief, k).Is(200)
	enrol(thief)
	setStep(thief, false).Is(409, "second_step_of_app")
	thief.Call("DELETE", "/api/me/totp", nil).Is(204)
	if !w.User("ada").SecondFactor {
		t.Error("it went with the app, though a passkey is left")
	}
	thief.Page("/account/security/second-step/off", "x", "y").Is(200).Shows("Remove the second step after your password?").Hides(`id="ends"`)
	thief.Page("/account/security/second-step/off", "sure", "yes").RedirectsTo("/account/security?notice=second-step-off#second-step")
	w.Browser().Login("ada", password).Is(200)
	if f := thief.Call("GET", "/api/me/factors", nil).JSON(); f["second_step"] != false || f["recovery_codes"] != 0.0 || f["passkeys"] != 1.0 {
		t.Errorf("%v", f)
	}
}

// Where the settings demand a second factor, a passkey that exists is asked for, and whoever knows the password sets up
// none of their own. Only who has none sets one up.
func TestDemandedSecondStepAsksForThePasskeyThatExists(t *testing.T) {
	w := accounttest.New(t)
	w.AddUser("ada", account.FlagActivity)
	w.AddUser("bob", account.FlagActivity)
	before := w.SignedIn("ada")
	k := addWayIn(before, "Key")
	thief, bob := w.SignedIn("ada"), w.SignedIn("bob")
	w.SaveSettings(func(v *account.Settings) { v.SecondFactorFlags = []string{account.FlagActivity} })
	for _, path := range []string{"/api/me/totp", "/api/me/passkeys/begin", "/api/me/recovery-codes"} {
		thief.Call("POST", path, nil).Is(401, "second_factor_required")
	}
	thief.Call("GET", "/api/me/sessions", nil).Is(401, "second_factor_required")
	thief.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(401, "second_factor_required")
	before.Call("GET", "/api/me/sessions", nil).Is(200) // it has shown the passkey
	fresh := w.Browser()
	stepBy(fresh, "ada", k).Is(200)
	fresh.Call("GET", "/api/me/sessions", nil).Is(200)
	setStep(fresh, true).Is(200)
	setStep(fresh, false).Is(409, "second_factor_demanded")
	uses(w, "ada", "") // an application that demands nothing takes nothing back
	key := base64.RawURLEncoding.EncodeToString(k.key.ID)
	fresh.Call("DELETE", "/api/me/passkeys/"+key, nil).Is(409, "second_factor_demanded")
	fresh.Page("/account/passkeys/remove", "id", key, "sure", "yes").Is(409).Hides(`aria-invalid="true"`)
	bob.Call("GET", "/api/me/sessions", nil).Is(403, "second_factor_setup_required")
	body := newKeyring().create(bob.Call("POST", "/api/me/passkeys/begin", nil))
	codes, _ := bob.Call("POST", "/api/me/passkeys", body).Is(201).JSON()["recovery_codes"].([]any)
	same(t, "codes", len(codes), 10)
	users, _, err := w.Store.Users(t.Context(),
		account.UserQuery{NoSecondFactor: true, Demanding: account.FlagActivity})
	if err != nil || slices.ContainsFunc(users, func(u account.User) bool { return u.Handle == "ada" || u.Handle == "bob" }) {
		t.Errorf("without a second step: %v, %v", users, err)
	}
}

// uses gives an application that demands the class access to the account.
func uses(w *accounttest.World, handle, acr string) {
	w.T.Helper()
	op := account.Operator()
	c := &provider.Client{ID: "bank", Name: "Bank", RedirectURIs: []string{"https://bank.example.org/cb"}, AuthMethod: provider.AuthNone, RequireACR: acr, CreatedAt: w.Clock.Now()}
	err := w.Store.(clients).CreateClient(w.T.Context(), c, op.Audit(w.Clock.Now(), account.RegisterClient, "", ""))
	if err == nil {
		err = w.Store.(clients).SaveConsent(w.T.Context(), w.User(handle).Sub, c.ID, []string{"openid"}, w.Clock.Now(), op.Audit(w.Clock.Now(), account.AllowApp, "", ""))
	}
	must(w.T, err)
}

// The owner uses an application that demands a second factor: whoever knows the password alone neither adds a factor of
// their own for it nor removes the owner's.
func TestApplicationInUseKeepsFactorsFromThePasswordAlone(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	k := addWayIn(b, "Key")
	uses(w, "ada", account.ACRTwoFactors)
	thief := w.SignedIn("ada")
	for _, path := range []string{"/api/me/totp", "/api/me/passkeys/begin"} {
		thief.Call("POST", path, nil).Is(401, "second_factor_required")
	}
	thief.Page("/account/security/totp").RedirectsTo("/account/confirm?next=%2Faccount%2Fsecurity%2Ftotp&second_step=1")
	thief.Page("/account/confirm?next=%2Faccount%2Fsecurity%2Ftotp&second_step=1").Is(200).Shows(`id="passkey-form"`).Hides("confirm_password")
	id := b.Call("GET", "/api/me/passkeys", nil).JSON()["passkeys"].([]any)[0].(map[string]any)["id"].(string)
	thief.Call("DELETE", "/api/me/passkeys/"+id, nil).Is(401, "second_factor_required")
	b.Call("POST", "/api/me/totp", nil).Is(200)
	confirmBy(thief, k).Is(200)
	thief.Call("POST", "/api/me/totp", nil).Is(200)
}

// An account without a password asks for a second step. Setting one asks whether it still does.
func TestSettingAPasswordAsksForTheSecondStep(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string
		step   bool
	}{"kept": {[]string{"asks_second_step", "1", "second_step", "true"}, true}, "not asked": {nil, true}, "off": {[]string{"asks_second_step", "1"}, false}, "by the API": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			w := accounttest.New(t)
			b, k, _ := joinByPasskey(w, "ada")
			b.Page("/account/security").Is(200).Shows(`name="asks_second_step"`, `id="password-second_step" name="second_step" value="true" checked`)
			confirmBy(b, k).Is(200)
			setStep(b, false).Is(409, "no_second_step")
			off := map[string]any{"current_password": newPassword, "new_password": newPassword, "second_step": false}
			if !c.step {
				ada, flags := w.User("ada"), account.FlagChange{account.FlagActivity: {On: true}}
				_, err := w.Administration().SetFlags(t.Context(), account.Operator(), ada, flags)
				must(t, err)
				w.SaveSettings(func(v *account.Settings) { v.SecondFactorFlags = []string{account.FlagActivity} })
				b.Call("PUT", "/api/me/password", off).Is(409, "second_factor_demanded")
				w.SaveSettings(func(*account.Settings) {})
			}
			if name == "by the API" {
				b.Call("PUT", "/api/me/password", map[string]any{"new_password": newPassword, "second_step": true}).Is(200)
			} else {
				b.Page("/account/password", append([]string{"new_password", newPassword}, c.fields...)...).RedirectsTo("/account/security?notice=password-changed#password")
			}
			if got := w.Browser().Login("ada", newPassword).Status == 401; got != c.step || w.User("ada").SecondFactor != c.step {
				t.Errorf("a second step is asked: %t", got)
			}
			b.Call("PUT", "/api/me/password", off).Is(200) // of who has one, it changes nothing else
			same(t, "then a second step is asked", w.User("ada").SecondFactor, c.step)
			if f := b.Call("GET", "/api/me/factors", nil).JSON(); (f["recovery_codes"] == 0.0) == c.step {
				t.Errorf("%v", f)
			}
		})
	}
}

// A thief knows the password of somebody with a passkey. What they add and switch falls with their session; the owner's
// passkey and choice are as before.
func TestSecondStepOfAThiefFallsWithTheirSession(t *testing.T) {
	for name, chosen := range map[string]bool{"the owner had none": false, "the owner had one": true} {
		t.Run(name, func(t *testing.T) {
			w, post := mailWorldOf(t, "ada")
			w.Clock.Advance(30 * 24 * time.Hour)
			owner := w.SignedIn("ada")
			k := addWayIn(owner, "Mine")
			if chosen {
				setStep(owner, true).Is(200)
			}
			w.Clock.Advance(10 * 24 * time.Hour)
			post.new()
			var thief *accounttest.Browser
			if chosen {
				stepBy(owner, "ada", k).Is(200)
				post.new()
				thief = owner.Clone() // a copy of the fresh cookie
				setStep(thief, false).Is(200).Hides(`"recovery_codes":[`)
				setStep(thief, true).Is(200)
				setStep(thief, false).Is(200)
			} else {
				thief = w.BrowserAt("198.51.100.7")
				thief.Login("ada", password).Is(200)
				addPasskey(thief, "evil")
				w.BrowserAt("203.0.113.9").Login("ada", password).Is(401, "second_factor_required")
			}
			subject := "How you sign in was changed"
			if !chosen {
				subject = addedMail
			}
			disownedBy(t, w.BrowserAt("203.0.113.9"), mailAbout(t, post.new(), subject)).Shows(`data-factor="second_step"`)
			told := mailAbout(t, post.new(), "Your account was signed out everywhere").Text
			has(t, "Text", told, "Removed: The last change of the second step")
			if w.User("ada").SecondFactor != chosen || !signsIn(w.Browser(), k) || thief.IsSignedIn() {
				t.Error("the choice or the passkey of the owner changed, or the thief is there")
			}
			if f, err := w.Store.Factors(t.Context(), w.User("ada").Sub); err != nil || f.Passkeys != 1 || (f.RecoveryCodes > 0) != chosen {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// The password goes: recovery codes come with its loss, and a thief who knows it cannot remove it.
func TestPasswordGoesWithThePasskeyThatStays(t *testing.T) {
	w, post := mailWorldOf(t, "ada")
	b := w.SignedIn("ada")
	k := addWayIn(b, "Key")
	thief := w.SignedIn("ada")
	thief.Call("DELETE", "/api/me/password", nil).Is(401, "second_factor_required")
	codes, _ := b.Call("DELETE", "/api/me/password", nil).Is(200).JSON()["recovery_codes"].([]any)
	if u := w.User("ada"); len(codes) != 10 || !u.Passwordless() || !u.SecondFactor || !signsIn(w.Browser(), k) {
		t.Errorf("%d codes of %+v", len(codes), u)
	}
	recoverBy(w.Browser(), "ada", codes[0].(string)).Is(200)
	path, _ := link(t, mailAbout(t, post.new(), "Your password was removed"))
	has(t, "who has not drawn the codes", path, "/not-me/?link=")
}

// Whatever ends the other sessions ends a copy of this one's cookie.
func TestChangedFactorsEndACopyOfTheCookie(t *testing.T) {
	id := func(b *accounttest.Browser) string {
		return b.Call("GET", "/api/me/passkeys", nil).JSON()["passkeys"].([]any)[0].(map[string]any)["id"].(string)
	}
	for name, act := range map[string]func(b *accounttest.Browser) *accounttest.Answer{
		"passkey": func(b *accounttest.Browser) *accounttest.Answer {
			return b.Page("/account/passkeys/remove", "id", id(b), "sure", "yes")
		},
		"passkey by the API": func(b *accounttest.Browser) *accounttest.Answer {
			return b.Call("DELETE", "/api/me/passkeys/"+id(b), map[string]bool{"keep_other_sessions": true})
		},
		"app": func(b *accounttest.Browser) *accounttest.Answer {
			return b.Page("/account/security/totp/remove", "sure", "yes")
		},
		"second step": func(b *accounttest.Browser) *accounttest.Answer {
			return b.Page("/account/security/second-step", "x", "y")
		},
		"second step, by the API": func(b *accounttest.Browser) *accounttest.Answer { return setStep(b, true) },
		"password": func(b *accounttest.Browser) *accounttest.Answer {
			return b.Page("/account/password/remove", "sure", "yes")
		},
		"password removed by the API": func(b *accounttest.Browser) *accounttest.Answer { return b.Call("DELETE", "/api/me/password", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			_, b := accounttest.SignedIn(t, "ada")
			if addWayIn(b, "Key"); name == "app" {
				enrol(b)
			}
			copied := b.Clone()
			if got := act(b).Status; got >= 400 || !b.IsSignedIn() || copied.IsSignedIn() {
				t.Errorf("status %d, a copy is signed in: %t", got, copied.IsSignedIn())
			}
		})
	}
}

// What is named to be removed is removed with the sessions that it opened, or refused where nothing ends.
func TestNamedPasskeyIsRemovedOrRefused(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		body         map[string]any
		status       int
	}{
		"address":          {"PATCH", "/api/me", map[string]any{"email": "x@example.org", "keep_other_sessions": true}, 200},
		"second step":      {"PUT", "/api/me/second-step", map[string]any{"on": true, "keep_other_sessions": true}, 200},
		"nickname":         {"PATCH", "/api/me", map[string]any{"nickname": "Ada"}, 400},
		"second step, off": {"PUT", "/api/me/second-step", map[string]any{"on": false}, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w, owner := accounttest.SignedIn(t, "ada")
			addWayIn(owner, "mine")
			w.Clock.Advance(time.Second)
			thief := w.SignedIn("ada")
			k := newKeyring()
			in := k.create(thief.Call("POST", "/api/me/passkeys/begin", nil))
			in["name"] = "evil"
			thief.Call("POST", "/api/me/passkeys", in).Is(201)
			opened := w.BrowserAt("198.51.100.8")
			finish(opened, k.get(begin(opened))).Is(200)
			c.body["remove_factors"] = []string{account.PasskeyIDPrefix + passkeyIDOf(w, "evil")}
			owner.Call(c.method, c.path, c.body).Is(c.status)
			if gone := c.status == 200; opened.IsSignedIn() == gone || signsIn(w.Browser(), k) == gone {
				t.Errorf("its session lives: %t", opened.IsSignedIn())
			}
			if c.status == 400 && c.path != "/api/me" {
				setStep(owner, true).Is(200)
				owner.Call(c.method, c.path, c.body).Is(400)
			}
		})
	}
}
