package account_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// keyring is an authenticator with a passkey of one user, and the browser it is used in.
type keyring struct {
	party  virtualwebauthn.RelyingParty
	device virtualwebauthn.Authenticator
	key    virtualwebauthn.Credential
}

func newKeyring(change ...func(*virtualwebauthn.AuthenticatorOptions)) *keyring {
	o := virtualwebauthn.AuthenticatorOptions{}
	for _, c := range change {
		c(&o)
	}
	k := &keyring{party: virtualwebauthn.RelyingParty{ID: "localhost", Origin: "http://localhost:4040"}, device: virtualwebauthn.NewAuthenticatorWithOptions(o)}
	for {
		k.key = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		private, _ := x509.ParsePKCS8PrivateKey(k.key.Key.Data)
		point, _ := private.(*ecdsa.PrivateKey).PublicKey.Bytes() // 4, then two coordinates of 32 bytes
		// The library writes coordinates without leading zeros, which no authenticator does.
		if point[1] != 0 && point[33] != 0 {
			return k
		}
	}
}

// ceremony is what begin answers: the state, and the options as JSON.
func ceremony(a *answer) (state any, options string) {
	a.t.Helper()
	body := a.is(200).json()
	text, err := json.Marshal(body["publicKey"])
	if err != nil {
		a.t.Fatal(err)
	}
	return body["state"], string(text)
}

// create answers the challenge of a begin with a new passkey.
func (k *keyring) create(a *answer) map[string]any {
	a.t.Helper()
	state, text := ceremony(a)
	options, err := virtualwebauthn.ParseAttestationOptions(text)
	if err != nil {
		a.t.Fatal(err)
	}
	k.device.Options.UserHandle = []byte(options.UserID)
	return map[string]any{"state": state, "credential": json.RawMessage(virtualwebauthn.CreateAttestationResponse(k.party, k.device, k.key, *options))}
}

// get answers the challenge of a begin with the passkey.
func (k *keyring) get(a *answer) map[string]any {
	a.t.Helper()
	state, text := ceremony(a)
	options, err := virtualwebauthn.ParseAssertionOptions(text)
	if err != nil {
		a.t.Fatal(err)
	}
	k.key.Counter++
	return map[string]any{"state": state, "credential": json.RawMessage(virtualwebauthn.CreateAssertionResponse(k.party, k.device, k.key, *options))}
}

func (b *browser) begin() *answer {
	return b.call("POST", "/api/auth/passkey/begin", map[string]string{})
}

func (b *browser) finish(body any) *answer { return b.call("POST", "/api/auth/passkey/finish", body) }

// addPasskey gives the signed-in user of the browser a passkey.
func (b *browser) addPasskey(name string, change ...func(*virtualwebauthn.AuthenticatorOptions)) *keyring {
	b.w.t.Helper()
	k := newKeyring(change...)
	body := k.create(b.call("POST", "/api/me/passkeys/begin", nil))
	body["name"] = name
	b.call("POST", "/api/me/passkeys", body).is(201)
	return k
}

func synced(o *virtualwebauthn.AuthenticatorOptions) { o.BackupEligible, o.BackupState = true, true }

// session is the session of the browser.
func (b *browser) session() account.Session {
	b.w.t.Helper()
	id, _ := b.call("GET", "/api/me", nil).is(200).json()["session"].(map[string]any)["id"].(string)
	got, _, err := b.w.store.Session(b.w.t.Context(), id)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return got
}

func TestPasskeyIsTheOnlyStep(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	hard, soft := b.addPasskey("Key"), b.addPasskey("Manager", synced)
	for method, k := range map[string]*keyring{account.MethodHardwareKey: hard, account.MethodSoftwareKey: soft} {
		fresh := w.browser()
		got := fresh.finish(k.get(fresh.begin())).is(200).json()
		if got["handle"] != "ada" {
			t.Errorf("signed in as %v", got)
		}
		if amr := strings.Join(fresh.session().AMR, " "); amr != method+" user mfa" {
			t.Errorf("methods %q", amr)
		}
		form := w.browser()
		body := k.get(form.begin())
		form.page("/login/", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)), "continue", "a.b").redirectsTo("/oauth2/authorize?continue=a.b")
	}
	w.browser().login("ada", password).is(401, "second_factor_required")
	keys, err := w.store.Passkeys(t.Context(), w.user("ada").Sub)
	slices.SortFunc(keys, func(a, b account.Passkey) int { return strings.Compare(a.Name, b.Name) })
	if err != nil || len(keys) != 2 || keys[0].SignCount != 2 || keys[0].LastUsedAt.IsZero() || keys[0].BackupEligible || !keys[1].BackupState {
		t.Errorf("%+v: %v", keys, err)
	}
}

// Everything that a thief of an assertion, or a site in between, could try: one answer,
// and no session.
func TestPasskeyOfAnotherCeremonyOpensNothing(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("bob")
	ada, bob := w.signedIn("ada"), w.signedIn("bob")
	k, other := ada.addPasskey("Key"), bob.addPasskey("Key")
	edit := func(body map[string]any, member string, change func(map[string]any)) {
		var c map[string]any
		_ = json.Unmarshal(body["credential"].(json.RawMessage), &c)
		response := c["response"].(map[string]any)
		if member == "clientDataJSON" {
			raw, _ := base64.RawURLEncoding.DecodeString(response[member].(string))
			var data map[string]any
			_ = json.Unmarshal(raw, &data)
			change(data)
			raw, _ = json.Marshal(data)
			response[member] = base64.RawURLEncoding.EncodeToString(raw)
		} else {
			change(response)
		}
		raw, _ := json.Marshal(c)
		body["credential"] = json.RawMessage(raw)
	}
	for name, attack := range map[string]struct {
		code  string
		forge func(b *browser) map[string]any
	}{
		"other origin": {"invalid_passkey", func(b *browser) map[string]any {
			phished := *k
			phished.party.Origin = "https://localhost:4040"
			return phished.get(b.begin())
		}},
		"other port": {"invalid_passkey", func(b *browser) map[string]any {
			phished := *k
			phished.party.Origin = "http://localhost:4041"
			return phished.get(b.begin())
		}},
		"other relying party": {"invalid_passkey", func(b *browser) map[string]any {
			phished := *k
			phished.party.ID = "cairn.example"
			return phished.get(b.begin())
		}},
		"no user verification": {"invalid_passkey", func(b *browser) map[string]any {
			stolen := *k
			stolen.device.Options.UserNotVerified = true
			return stolen.get(b.begin())
		}},
		"user handle of another": {"invalid_passkey", func(b *browser) map[string]any {
			forged := *k
			forged.device.Options.UserHandle = other.device.Options.UserHandle
			return forged.get(b.begin())
		}},
		"no user handle": {"invalid_passkey", func(b *browser) map[string]any {
			body := k.get(b.begin())
			edit(body, "", func(r map[string]any) { delete(r, "userHandle") })
			return body
		}},
		"credential id of another": {"invalid_passkey", func(b *browser) map[string]any {
			forged := *k
			forged.key.ID = other.key.ID
			return forged.get(b.begin())
		}},
		"unknown credential": {"invalid_passkey", func(b *browser) map[string]any {
			unknown := newKeyring()
			unknown.device.Options.UserHandle = k.device.Options.UserHandle
			return unknown.get(b.begin())
		}},
		"altered client data": {"invalid_passkey", func(b *browser) map[string]any {
			body := k.get(b.begin())
			edit(body, "clientDataJSON", func(d map[string]any) { d["extra"] = 1 })
			return body
		}},
		"registration as proof": {"invalid_passkey", func(b *browser) map[string]any {
			body := k.get(b.begin())
			edit(body, "clientDataJSON", func(d map[string]any) { d["type"] = "webauthn.create" })
			return body
		}},
		"backup flag changed": {"invalid_passkey", func(b *browser) map[string]any {
			forged := *k
			forged.device.Options.BackupEligible = true
			return forged.get(b.begin())
		}},
		"challenge of another begin": {"invalid_passkey", func(b *browser) map[string]any {
			body := k.get(b.begin())
			body["state"] = b.begin().is(200).json()["state"]
			return body
		}},
		"no credential": {"invalid_passkey", func(b *browser) map[string]any {
			return map[string]any{"state": b.begin().json()["state"], "credential": nil}
		}},
		"challenge of another browser": {"passkey_expired", func(b *browser) map[string]any {
			b.begin()
			return k.get(w.browser().begin())
		}},
		"browser without its cookie": {"passkey_expired", func(b *browser) map[string]any {
			body := k.get(b.begin())
			clear(b.cookies)
			return body
		}},
		"challenge of another purpose": {"passkey_expired", func(b *browser) map[string]any {
			body := k.get(ada.call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": "confirm"}))
			maps.Copy(b.cookies, map[string]string{"cairn_passkey": strings.Repeat("A", 26)})
			return body
		}},
		"altered state": {"passkey_expired", func(b *browser) map[string]any {
			body := k.get(b.begin())
			body["state"] = "x" + body["state"].(string)
			return body
		}},
		"five minutes later": {"passkey_expired", func(b *browser) map[string]any {
			body := k.get(b.begin())
			w.clock.Advance(5*time.Minute + time.Second)
			return body
		}},
	} {
		b := w.browser()
		body := attack.forge(b)
		got := b.finish(body)
		if got.status/100 != 4 || got.json()["code"] != attack.code || b.isSignedIn() {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	b := w.browser()
	b.finish(k.get(b.begin())).is(200) // the passkey itself is as good as ever
}

// The assertion that was sent is seen again at the same instance, and at another one.
func TestPasskeyAssertionIsGoodOnce(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	k := w.signedIn("ada").addPasskey("Key")
	b := w.browser()
	body := k.get(b.begin())
	b.finish(body).is(200)
	b.finish(body).is(400, "passkey_expired")
	w.start()
	b.finish(body).is(400, "passkey_expired")
	again := k.get(b.begin())
	counts := parallel(6, func(i int) int { return b.clone().finish(again).status })
	if counts[200] != 1 || counts[400] != 5 {
		t.Errorf("the same assertion six times at once: %v", counts)
	}
}

func TestSignCountThatGoesBackIsToldNotLocked(t *testing.T) {
	var log strings.Builder
	w := newWorld(t, withLog(&log))
	u := w.addUser("ada")
	if _, err := w.store.ChangeUser(t.Context(), u.Sub, func(u *account.User) error { u.Email = "ada@example.org"; return nil }, w.clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	k := w.signedIn("ada").addPasskey("Key")
	k.key.Counter = 40
	b := w.browser()
	b.finish(k.get(b.begin())).is(200)
	if strings.Contains(log.String(), "sign count") {
		t.Error(log.String())
	}
	k.key.Counter = 7 // a copy that was used less
	b.finish(k.get(b.begin())).is(200)
	rows, err := w.store.AuditLog(t.Context(), account.AuditQuery{Kind: "factor.counter", Limit: 5})
	if err != nil || len(rows) != 1 || rows[0].Detail != "passkey Key" || !strings.Contains(log.String(), "sign count of a passkey went back") {
		t.Errorf("%+v: %v; log %s", rows, err, log.String())
	}
	b.finish(k.get(b.begin())).is(200)
	if rows, err = w.store.AuditLog(t.Context(), account.AuditQuery{Kind: "factor.counter", Limit: 5}); err != nil || len(rows) != 1 {
		t.Errorf("told again: %+v, %v", rows, err)
	}
}

func TestSuspendedAndDeletedUsersOfPasskeys(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{web.LimitLogin: {Count: 2, Window: time.Hour}}))
	w.addUser("ada")
	w.addUser("bob")
	ada, bob := w.signedIn("ada"), w.signedIn("bob")
	k, gone := ada.addPasskey("Key"), bob.addPasskey("Key")
	w.suspend("ada")
	bob.call("DELETE", "/api/me", map[string]string{"password": password}).is(204)
	b := w.browserAt("198.51.100.7")
	b.finish(k.get(b.begin())).is(403, "account_suspended")
	for range 2 {
		b.finish(gone.get(b.begin())).is(401, "invalid_passkey")
	}
	b.finish(gone.get(b.begin())).is(429, "rate_limited") // failures count for the address
	if keys, err := w.store.Passkeys(t.Context(), string(gone.device.Options.UserHandle)); err != nil || len(keys) != 0 {
		t.Errorf("the deleted user has %d passkeys, %v", len(keys), err)
	}
}

func TestOwnerManagesPasskeys(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("bob")
	b, bob := w.signedIn("ada"), w.signedIn("bob")
	k := newKeyring(synced)
	k.device.Aaguid = uuid.MustParse("fbfc3007-154e-4ecc-8c0b-6e020557d7bd")
	begun := b.call("POST", "/api/me/passkeys/begin", nil)
	body := k.create(begun)
	bob.call("POST", "/api/me/passkeys", body).is(400, "passkey_expired") // another session's
	b.call("POST", "/api/me/passkeys", map[string]any{"state": body["state"], "credential": body["credential"], "name": "a\nb"}).is(400, "invalid_passkey_name")
	added := b.call("POST", "/api/me/passkeys", body).is(201).json()
	if added["name"] != "iCloud Keychain" || added["backup_state"] != true {
		t.Errorf("%v", added)
	}
	b.call("POST", "/api/me/passkeys", body).is(400, "passkey_expired")
	if _, options := ceremony(b.call("POST", "/api/me/passkeys/begin", nil)); !strings.Contains(options, `"excludeCredentials":[{"id":"`+added["id"].(string)) {
		t.Errorf("nothing is excluded: %s", options)
	}
	b.call("POST", "/api/me/passkeys", k.create(b.call("POST", "/api/me/passkeys/begin", nil))).is(409, "passkey_exists")
	weak := newKeyring(func(o *virtualwebauthn.AuthenticatorOptions) { o.UserNotVerified = true })
	b.call("POST", "/api/me/passkeys", weak.create(b.call("POST", "/api/me/passkeys/begin", nil))).is(401, "invalid_passkey")
	elsewhere := newKeyring()
	elsewhere.party.Origin = "https://evil.example"
	b.call("POST", "/api/me/passkeys", elsewhere.create(b.call("POST", "/api/me/passkeys/begin", nil))).is(401, "invalid_passkey")

	path := "/api/me/passkeys/" + added["id"].(string)
	bob.call("PATCH", path, map[string]string{"name": "Mine"}).is(404, "passkey_not_found")
	bob.call("DELETE", path, nil).is(404, "passkey_not_found")
	b.call("PATCH", path, map[string]string{"name": " My phone "}).is(200)
	b.page("/account/passkeys/rename", "id", added["id"].(string), "name", "").is(400)
	list := b.call("GET", "/api/me/passkeys", nil).is(200).json()["passkeys"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["name"] != "My phone" || list[0].(map[string]any)["last_used_at"] != nil {
		t.Errorf("%v", list)
	}
	if !w.user("ada").SecondFactor {
		t.Error("a passkey is no second factor")
	}
	w.clock.Advance(11 * time.Minute)
	b.call("POST", "/api/me/passkeys/begin", nil).is(403, "reauthentication_required")
	b.call("POST", "/api/me/passkeys", body).is(403, "reauthentication_required")
	b.call("DELETE", path, nil).is(403, "reauthentication_required")
	b.finish(k.get(b.begin())).is(200)
	b.call("DELETE", path, nil).is(204)
	if w.user("ada").SecondFactor {
		t.Error("still a second factor after the last one was removed")
	}
	rows, err := w.store.AuditLog(t.Context(), account.AuditQuery{Kind: "factor", Limit: 5})
	if err != nil || len(rows) != 3 || rows[0].Action != "factor.remove" || rows[0].Detail != "passkey My phone" || rows[1].Action != "factor.rename" || rows[2].Action != "factor.add" || rows[2].Detail != "passkey iCloud Keychain" {
		t.Errorf("%+v: %v", rows, err)
	}
	fresh := w.browser()
	fresh.finish(k.get(fresh.begin())).is(401, "invalid_passkey")
}

func TestPasskeysNeedANameAndHTTPS(t *testing.T) {
	for issuer, says := range map[string]string{
		"http://localhost:4040": "", "http://id.localhost:4040": "", "https://id.example.org/sub": "", "https://nas": "whole",
		"https://192.0.2.7": "IP address", "http://127.0.0.1:4040": "IP address", "https://[2001:db8::1]": "IP address", "http://id.example.org": "plain http",
	} {
		w := newWorld(t, func(o *account.Options) { o.Issuer = issuer })
		b := w.browser()
		begun, endpoints, login := b.begin(), b.call("GET", "/.well-known/passkey-endpoints", nil), b.page("/login/")
		if says == "" {
			begun.is(200)
			if got := endpoints.is(200).json(); !strings.HasPrefix(got["enroll"].(string), issuer+"/account/") || got["manage"] != got["enroll"] {
				t.Errorf("%s: %v", issuer, got)
			}
			login.shows("data-passkey")
			continue
		}
		endpoints.is(404, "passkeys_unavailable")
		if detail := begun.is(404, "passkeys_unavailable").json()["detail"].(string); !strings.Contains(detail, says) {
			t.Errorf("%s: %s", issuer, detail)
		}
		login.hides("data-passkey", "webauthn")
		w.addUser("ada")
		w.signedIn("ada").page("/account/security").shows(says).hides("data-passkey")
	}
}

func (b *browser) beginFor(purpose string) *answer {
	return b.call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": purpose})
}

func finishing(purpose string, body map[string]any) map[string]any {
	body["purpose"] = purpose
	return body
}

func TestPasskeyIsTheSecondStep(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("bob")
	ada, bob := w.signedIn("ada"), w.signedIn("bob")
	k, other := ada.addPasskey("Key"), bob.addPasskey("Key")
	b := w.browser()
	b.beginFor("second-factor").is(401, "sign_in_expired") // nobody has given a password here
	if got := b.login("ada", password).is(401, "second_factor_required").json()["methods"].([]any); len(got) != 2 || got[0] != "passkey" || got[1] != "recovery_code" {
		t.Errorf("methods %v", got)
	}
	begun := b.beginFor("second-factor")
	if _, options := ceremony(begun); strings.Count(options, `"id":`) != 1 || !strings.Contains(options, base64.RawURLEncoding.EncodeToString(k.key.ID)) || !strings.Contains(options, `"userVerification":"required"`) {
		t.Errorf("options %s", options)
	}
	b.finish(finishing("second-factor", other.get(begun))).is(401, "invalid_passkey") // of another user
	b.finish(other.get(begun)).is(400, "passkey_expired")                             // nor as the only step
	elsewhere := w.browser()
	elsewhere.login("ada", password).is(401, "second_factor_required")
	elsewhere.finish(finishing("second-factor", k.get(begun))).is(400, "passkey_expired")
	elsewhere.finish(finishing("second-factor", k.get(elsewhere.begin()))).is(400, "passkey_expired") // a challenge for a sign-in
	if b.isSignedIn() || elsewhere.isSignedIn() {
		t.Fatal("signed in")
	}
	body := finishing("second-factor", k.get(begun))
	b.finish(body).is(200)
	if amr := strings.Join(b.session().AMR, " "); amr != "pwd hwk user mfa" {
		t.Errorf("methods %q", amr)
	}
	b.finish(body).is(401, "sign_in_expired")

	page := w.browser()
	page.page("/login/", "handle", "ada", "password", password, "continue", "a.b").redirectsTo("/login/second-factor/?continue=a.b")
	page.page("/login/second-factor/?continue=a.b").shows(`data-passkey="get"`, "&quot;purpose&quot;:&quot;second-factor&quot;")
	body = k.get(page.beginFor("second-factor"))
	page.page("/login/second-factor/", "state", body["state"].(string), "credential", "{}", "continue", "a.b").is(401).shows(`data-code="invalid_passkey"`)
	page.page("/login/second-factor/", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)), "continue", "a.b").redirectsTo("/oauth2/authorize?continue=a.b")

	// The password that was right is not the one any more.
	late := w.browser()
	late.login("ada", password).is(401, "second_factor_required")
	body = finishing("second-factor", k.get(late.beginFor("second-factor")))
	ada.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).is(200)
	late.finish(body).is(401, "sign_in_expired")
	b.beginFor("third").is(400, "invalid_request")
}

func TestPasskeyConfirmsWhoIsSignedIn(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.addUser("bob")
	b, bob := w.signedIn("ada"), w.signedIn("bob")
	k, other := b.addPasskey("Key"), bob.addPasskey("Key")
	w.clock.Advance(9 * time.Minute)
	begunAdding := b.call("POST", "/api/me/passkeys/begin", nil)
	w.clock.Advance(2 * time.Minute)
	b.call("POST", "/api/me/passkeys/begin", nil).is(403, "reauthentication_required")
	begun := b.beginFor("confirm")
	bob.finish(finishing("confirm", k.get(begun))).is(400, "passkey_expired")
	b.finish(finishing("confirm", other.get(begun))).is(401, "invalid_passkey")
	b.finish(finishing("confirm", k.get(w.browser().begin()))).is(400, "passkey_expired")
	// The challenge of another purpose, though sealed for the same session and user.
	forAdding := finishing("confirm", k.get(begunAdding))
	b.finish(forAdding).is(400, "passkey_expired")
	w.browser().finish(finishing("confirm", k.get(begun))).is(401, "not_authenticated")
	b.call("POST", "/api/me/passkeys/begin", nil).is(403, "reauthentication_required")
	body := finishing("confirm", k.get(begun))
	b.finish(body).is(200)
	b.call("POST", "/api/me/passkeys/begin", nil).is(200)
	w.clock.Advance(4 * time.Minute)
	b.finish(body).is(400, "passkey_expired") // good once

	w.clock.Advance(11 * time.Minute)
	b.page("/account/confirm?next=/account/security").shows(`data-passkey="get"`)
	body = k.get(b.beginFor("confirm"))
	b.page("/account/confirm", "confirm_state", body["state"].(string), "confirm_credential", string(body["credential"].(json.RawMessage)), "next", "/account/security").redirectsTo("/account/security")
	b.call("POST", "/api/me/passkeys/begin", nil).is(200)
}

// The codes come with the first factor, in the page that the form leads to, and go with the last one.
func TestExportHasThePasskeysWithoutTheirKeys(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	b.addPasskey("Blue key")
	keys, err := w.store.Passkeys(t.Context(), w.user("ada").Sub)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d passkeys, %v", len(keys), err)
	}
	b.call("GET", "/api/me/export", nil).is(200).shows(`"name":"Blue key"`).hides(base64.StdEncoding.EncodeToString(keys[0].PublicKey), "public_key")
}

func TestRecoveryCodesComeWithTheFirstPasskey(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	add := func() *answer {
		body := newKeyring().create(b.call("POST", "/api/me/passkeys/begin", nil))
		return b.page("/account/passkeys", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)), "name", "Phone")
	}
	first := add().is(200).shows(`id="recovery-codes"`)
	code := regexp.MustCompile(`<li><code>([^<]+)</code>`).FindAllStringSubmatch(first.body, -1)
	if len(code) != 10 {
		t.Fatalf("%d codes: %s", len(code), first.body)
	}
	add().redirectsTo("/account/security?notice=passkey-added#passkeys")
	b.page("/account/passkeys", "state", "x", "credential", "", "name", "Phone").is(400).shows(`data-code="passkey_expired"`)
	lost := w.browser()
	lost.login("ada", password).is(401, "second_factor_required")
	lost.call("POST", "/api/auth/login", map[string]string{"otp": code[3][1]}).is(200)
	for _, k := range b.call("GET", "/api/me/passkeys", nil).json()["passkeys"].([]any) {
		b.page("/account/passkeys/remove", "id", k.(map[string]any)["id"].(string), "sure", "yes").redirectsTo("/account/security?notice=passkey-removed#passkeys")
	}
	w.browser().login("ada", password).is(200)
	if f, err := w.store.Factors(t.Context(), w.user("ada").Sub); err != nil || f.RecoveryCodes != 0 {
		t.Errorf("%+v: %v", f, err)
	}
}

// The script sends the form without an answer of the browser where the session is not fresh.
func TestNameOfANewPasskeySurvivesTheConfirmation(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	w.clock.Advance(11 * time.Minute)
	form := []string{"state", "", "credential", "", "name", "My <key>"}
	b.page("/account/passkeys", form...).is(403).shows(`data-page="confirm"`, `name="name" value="My &lt;key&gt;"`)
	b.page("/account/passkeys", append(form, "confirm_password", password)...).is(200).shows(`id="passkey-submit"`, `value="My &lt;key&gt;"`)
}

// An issuer that lost its name leaves passkeys of no use: the pages say so, and the codes still work.
func TestPasskeysOfAnIssuerThatWasMoved(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.signedIn("ada").addPasskey("Key")
	w.start(func(o *account.Options) { o.Issuer = "http://127.0.0.1:4040" })
	b := w.browser()
	if got := b.login("ada", password).is(401, "second_factor_required").json()["methods"].([]any); len(got) != 1 || got[0] != "recovery_code" {
		t.Errorf("methods %v", got)
	}
	b.page("/login/second-factor/").shows("IP address", "recovery_code").hides("data-passkey")
	b.beginFor("second-factor").is(404, "passkeys_unavailable")
}
