package site_test

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
	"github.com/cairn-id/cairn/store/accounttest"
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
func ceremony(a *accounttest.Answer) (state any, options string) {
	a.T.Helper()
	body := a.Is(200).JSON()
	text, err := json.Marshal(body["publicKey"])
	if err != nil {
		a.T.Fatal(err)
	}
	return body["state"], string(text)
}

// create answers the challenge of a begin with a new passkey.
func (k *keyring) create(a *accounttest.Answer) map[string]any {
	a.T.Helper()
	state, text := ceremony(a)
	options, err := virtualwebauthn.ParseAttestationOptions(text)
	if err != nil {
		a.T.Fatal(err)
	}
	k.device.Options.UserHandle = []byte(options.UserID)
	return map[string]any{"state": state, "credential": json.RawMessage(virtualwebauthn.CreateAttestationResponse(k.party, k.device, k.key, *options))}
}

// get answers the challenge of a begin with the passkey.
func (k *keyring) get(a *accounttest.Answer) map[string]any {
	a.T.Helper()
	state, text := ceremony(a)
	options, err := virtualwebauthn.ParseAssertionOptions(text)
	if err != nil {
		a.T.Fatal(err)
	}
	k.key.Counter++
	return map[string]any{"state": state, "credential": json.RawMessage(virtualwebauthn.CreateAssertionResponse(k.party, k.device, k.key, *options))}
}

func begin(b *accounttest.Browser) *accounttest.Answer {
	return b.Call("POST", "/api/auth/passkey/begin", map[string]string{})
}

func finish(b *accounttest.Browser, body any) *accounttest.Answer {
	return b.Call("POST", "/api/auth/passkey/finish", body)
}

// addPasskey gives the signed-in user of the browser a passkey, and asks for a second step after the password.
func addPasskey(b *accounttest.Browser, name string, change ...func(*virtualwebauthn.AuthenticatorOptions)) *keyring {
	b.W.T.Helper()
	k := newKeyring(change...)
	body := k.create(b.Call("POST", "/api/me/passkeys/begin", nil))
	body["name"], body["second_step"] = name, true
	b.Call("POST", "/api/me/passkeys", body).Is(201)
	return k
}

func synced(o *virtualwebauthn.AuthenticatorOptions) { o.BackupEligible, o.BackupState = true, true }

// session is the session of the browser.
func session(b *accounttest.Browser) account.Session {
	b.W.T.Helper()
	id, _ := b.Call("GET", "/api/me", nil).Is(200).JSON()["session"].(map[string]any)["id"].(string)
	got, _, err := b.W.Store.Session(b.W.T.Context(), id)
	if err != nil {
		b.W.T.Fatal(err)
	}
	return got
}

func TestPasskeyIsTheOnlyStep(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	hard, soft := addPasskey(b, "Key"), addPasskey(b, "Manager", synced)
	for method, k := range map[string]*keyring{account.MethodHardwareKey: hard, account.MethodSoftwareKey: soft} {
		fresh := w.Browser()
		got := finish(fresh, k.get(begin(fresh))).Is(200).JSON()
		if got["handle"] != "ada" {
			t.Errorf("signed in as %v", got)
		}
		same(t, "methods", strings.Join(session(fresh).AMR, " "), method+" user mfa")
		name := map[*keyring]string{hard: "Key", soft: "Manager"}[k]
		b.Call("GET", "/api/me/sessions", nil).Is(200).Shows(`"amr":["`+method+`","user","mfa"],"passkey":"`+name+`"`, `"amr":["pwd",`)
		b.Page("/account/devices").Is(200).Shows(`<span class="badge">Passkey</span> <bdi>` + name)
		form := w.Browser()
		body := k.get(begin(form))
		form.Page("/login/", "state", body["state"].(string), "credential",
			string(body["credential"].(json.RawMessage)), "continue", "a.b").RedirectsTo("/oauth2/authorize?continue=a.b")
	}
	w.Browser().Login("ada", password).Is(401, "second_factor_required")
	keys, err := w.Store.Passkeys(t.Context(), w.User("ada").Sub)
	slices.SortFunc(keys, func(a, b account.Passkey) int { return strings.Compare(a.Name, b.Name) })
	if err != nil || len(keys) != 2 || keys[0].SignCount != 2 || keys[0].LastUsedAt.IsZero() ||
		keys[0].BackupEligible || !keys[1].BackupState {
		t.Errorf("%+v: %v", keys, err)
	}
}

// Everything that a thief of an assertion, or a site in between, could try: one answer,
// and no session.
func TestPasskeyOfAnotherCeremonyOpensNothing(t *testing.T) {
	w := accounttest.With(t, "ada", "bob")
	ada, bob := w.SignedIn("ada"), w.SignedIn("bob")
	k, other := addPasskey(ada, "Key"), addPasskey(bob, "Key")
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
		forge func(b *accounttest.Browser) map[string]any
	}{
		"other origin": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			phished := *k
			phished.party.Origin = "https://localhost:4040"
			return phished.get(begin(b))
		}},
		"other port": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			phished := *k
			phished.party.Origin = "http://localhost:4041"
			return phished.get(begin(b))
		}},
		"other relying party": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			phished := *k
			phished.party.ID = "cairn.example"
			return phished.get(begin(b))
		}},
		"no user verification": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			stolen := *k
			stolen.device.Options.UserNotVerified = true
			return stolen.get(begin(b))
		}},
		"user handle of another": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			forged := *k
			forged.device.Options.UserHandle = other.device.Options.UserHandle
			return forged.get(begin(b))
		}},
		"no user handle": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			edit(body, "", func(r map[string]any) { delete(r, "userHandle") })
			return body
		}},
		"credential id of another": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			forged := *k
			forged.key.ID = other.key.ID
			return forged.get(begin(b))
		}},
		"unknown credential": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			unknown := newKeyring()
			unknown.device.Options.UserHandle = k.device.Options.UserHandle
			return unknown.get(begin(b))
		}},
		"altered client data": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			edit(body, "clientDataJSON", func(d map[string]any) { d["extra"] = 1 })
			return body
		}},
		"registration as proof": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			edit(body, "clientDataJSON", func(d map[string]any) { d["type"] = "webauthn.create" })
			return body
		}},
		"backup flag changed": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			forged := *k
			forged.device.Options.BackupEligible = true
			return forged.get(begin(b))
		}},
		"challenge of another begin": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			body["state"] = begin(b).Is(200).JSON()["state"]
			return body
		}},
		"no credential": {"invalid_passkey", func(b *accounttest.Browser) map[string]any {
			return map[string]any{"state": begin(b).JSON()["state"], "credential": nil}
		}},
		"challenge of another browser": {"passkey_expired", func(b *accounttest.Browser) map[string]any {
			begin(b)
			return k.get(begin(w.Browser()))
		}},
		"browser without its cookie": {"passkey_expired", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			clear(b.Cookies)
			return body
		}},
		"challenge of another purpose": {"passkey_expired", func(b *accounttest.Browser) map[string]any {
			body := k.get(ada.Call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": "confirm"}))
			maps.Copy(b.Cookies, map[string]string{"cairn_passkey": strings.Repeat("A", 26)})
			return body
		}},
		"altered state": {"passkey_expired", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			body["state"] = "x" + body["state"].(string)
			return body
		}},
		"five minutes later": {"passkey_expired", func(b *accounttest.Browser) map[string]any {
			body := k.get(begin(b))
			w.Clock.Advance(5*time.Minute + time.Second)
			return body
		}},
	} {
		b := w.Browser()
		body := attack.forge(b)
		got := finish(b, body)
		if got.Status/100 != 4 || got.JSON()["code"] != attack.code || b.IsSignedIn() {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	b := w.Browser()
	finish(b, k.get(begin(b))).Is(200) // the passkey itself is as good as ever
}

// The assertion that was sent is seen again at the same instance, and at another one.
func TestPasskeyAssertionIsGoodOnce(t *testing.T) {
	w := accounttest.With(t, "ada")
	k := addPasskey(w.SignedIn("ada"), "Key")
	b := w.Browser()
	body := k.get(begin(b))
	finish(b, body).Is(200)
	finish(b, body).Is(400, "passkey_expired")
	w.Start()
	finish(b, body).Is(400, "passkey_expired")
	again := k.get(begin(b))
	counts := accounttest.Parallel(6, func(i int) int { return finish(b.Clone(), again).Status })
	if counts[200] != 1 || counts[400] != 5 {
		t.Errorf("the same assertion six times at once: %v", counts)
	}
}

func TestSignCountThatGoesBackIsToldNotLocked(t *testing.T) {
	var log strings.Builder
	w := accounttest.New(t, withLog(&log))
	u := w.AddUser("ada")
	if _, err := w.Store.ChangeUser(t.Context(), u.Sub, func(u *account.User) error { u.Email = "ada@example.org"; return nil }, w.Clock.Now(), nil); err != nil {
		t.Fatal(err)
	}
	k := addPasskey(w.SignedIn("ada"), "Key")
	k.key.Counter = 40
	b := w.Browser()
	finish(b, k.get(begin(b))).Is(200)
	lacks(t, "log", log.String(), "sign count")
	k.key.Counter = 7 // a copy that was used less
	finish(b, k.get(begin(b))).Is(200)
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "factor.counter", Limit: 5})
	if err != nil || len(rows) != 1 || rows[0].Detail != "passkey Key" || !strings.Contains(log.String(), "sign count of a passkey went back") {
		t.Errorf("%+v: %v; log %s", rows, err, log.String())
	}
	finish(b, k.get(begin(b))).Is(200)
	if rows, err = w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "factor.counter", Limit: 5}); err != nil || len(rows) != 1 {
		t.Errorf("told again: %+v, %v", rows, err)
	}
}

func TestSuspendedAndDeletedUsersOfPasskeys(t *testing.T) {
	limits := map[string]web.Rate{web.LimitLogin: {Count: 2, Window: time.Hour},
		web.LimitLoginAddress: {Count: 2, Window: time.Hour}}
	w := accounttest.New(t, withLimits(limits))
	w.AddUser("ada")
	w.AddUser("bob")
	ada, bob := w.SignedIn("ada"), w.SignedIn("bob")
	k, gone := addPasskey(ada, "Key"), addPasskey(bob, "Key")
	between := w.Browser() // the password and the passkey
	between.Login("ada", password).Is(401, "second_factor_required")
	w.Suspend("ada")
	beginFor(between, "second-factor").Is(403, "account_suspended")
	bob.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(204)
	b := w.BrowserAt("198.51.100.7")
	finish(b, k.get(begin(b))).Is(403, "account_suspended")
	same(t, "audit log", actions(audited(w, account.AuditQuery{Kind: account.RefuseSuspended.Action})), "ada>ada session.refused suspended")
	for range 3 { // they cannot be guessed, and count nowhere
		finish(b, gone.get(begin(b))).Is(401, "invalid_passkey")
	}
	b.Login("bob", "wrong").Is(401)
	if keys, err := w.Store.Passkeys(t.Context(), string(gone.device.Options.UserHandle)); err != nil ||
		len(keys) != 0 {
		t.Errorf("the deleted user has %d passkeys, %v", len(keys), err)
	}
}

// What a refused passkey lacks is in the log; on the page only what its owner can do about it.
func TestRefusedPasskeySaysWhyInTheLog(t *testing.T) {
	var log strings.Builder
	w := accounttest.New(t, withLog(&log))
	w.AddUser("ada")
	w.AddUser("bob")
	k, other := addPasskey(w.SignedIn("ada"), "Key"), addPasskey(w.SignedIn("bob"), "Key")
	b := w.Browser()
	for reason, change := range map[string]func(*keyring){
		"unknown here":              func(k *keyring) { k.key.ID = []byte("another") },
		"of another user":           func(k *keyring) { k.device.Options.UserHandle = other.device.Options.UserHandle },
		"answered on another site":  func(k *keyring) { k.party.Origin = "https://evil.example" },
		"made for another host":     func(k *keyring) { k.party.ID = "evil.example" },
		"without user verification": func(k *keyring) { k.device.Options.UserNotVerified = true },
		"wrong signature":           func(k *keyring) { k.key.Key = other.key.Key },
		"its kind changed":          func(k *keyring) { k.device.Options.BackupEligible = true },
	} {
		log.Reset()
		changed := *k
		change(&changed)
		a := finish(b, changed.get(begin(b))).Is(401, "invalid_passkey")
		if !strings.Contains(log.String(), `msg="passkey refused" reason="`+reason+`"`) {
			t.Errorf("%s: log %s", reason, log.String())
		}
		if told := strings.Contains(a.Body, "remove it, then add it again"); told != (reason == "its kind changed") {
			t.Errorf("%s: %s", reason, a.Body)
		}
	}
	finish(b, k.get(begin(b))).Is(200)
}

func TestOwnerManagesPasskeys(t *testing.T) {
	w := accounttest.With(t, "ada", "bob")
	b, bob := w.SignedIn("ada"), w.SignedIn("bob")
	k := newKeyring(synced)
	k.device.Aaguid = uuid.MustParse("fbfc3007-154e-4ecc-8c0b-6e020557d7bd")
	begun := b.Call("POST", "/api/me/passkeys/begin", nil)
	body := k.create(begun)
	bob.Call("POST", "/api/me/passkeys", body).Is(400, "passkey_expired") // another session's
	b.Call("POST", "/api/me/passkeys", map[string]any{"state": body["state"], "credential": body["credential"], "name": "a\nb"}).Is(400, "invalid_passkey_name")
	body["second_step"] = true
	added := b.Call("POST", "/api/me/passkeys", body).Is(201).JSON()
	if added["name"] != "iCloud Keychain" || added["backup_state"] != true {
		t.Errorf("%v", added)
	}
	b.Call("POST", "/api/me/passkeys", body).Is(400, "passkey_expired")
	_, options := ceremony(b.Call("POST", "/api/me/passkeys/begin", nil))
	has(t, "nothing is excluded", options, `"excludeCredentials":[{"id":"`+added["id"].(string))
	b.Call("POST", "/api/me/passkeys", k.create(b.Call("POST", "/api/me/passkeys/begin", nil))).Is(409, "passkey_exists")
	weak := newKeyring(func(o *virtualwebauthn.AuthenticatorOptions) { o.UserNotVerified = true })
	b.Call("POST", "/api/me/passkeys", weak.create(b.Call("POST", "/api/me/passkeys/begin", nil))).Is(401, "invalid_passkey")
	elsewhere := newKeyring()
	elsewhere.party.Origin = "https://evil.example"
	b.Call("POST", "/api/me/passkeys", elsewhere.create(b.Call("POST", "/api/me/passkeys/begin", nil))).Is(401, "invalid_passkey")

	path := "/api/me/passkeys/" + added["id"].(string)
	bob.Call("PATCH", path, map[string]string{"name": "Mine"}).Is(404, "passkey_not_found")
	bob.Call("DELETE", path, nil).Is(404, "passkey_not_found")
	b.Call("PATCH", path, map[string]string{"name": " My phone "}).Is(200)
	b.Page("/account/passkeys/rename", "id", added["id"].(string), "name", "").Is(400)
	list := b.Call("GET", "/api/me/passkeys", nil).Is(200).JSON()["passkeys"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["name"] != "My phone" || list[0].(map[string]any)["last_used_at"] != nil {
		t.Errorf("%v", list)
	}
	if !w.User("ada").SecondFactor {
		t.Error("a passkey is no second factor")
	}
	w.Clock.Advance(11 * time.Minute)
	b.Call("POST", "/api/me/passkeys/begin", nil).Is(403, "reauthentication_required")
	b.Call("POST", "/api/me/passkeys", body).Is(403, "reauthentication_required")
	b.Call("DELETE", path, nil).Is(403, "reauthentication_required")
	b.Call("PATCH", path, map[string]string{"name": "Mine"}).Is(403, "reauthentication_required")
	finish(b, k.get(begin(b))).Is(200)
	b.Call("DELETE", path, nil).Is(204)
	if w.User("ada").SecondFactor {
		t.Error("still a second factor after the last one was removed")
	}
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "factor", Limit: 5})
	if err != nil || len(rows) != 3 || rows[0].Action != "factor.remove" || rows[0].Detail != "passkey My phone" ||
		rows[1].Action != "factor.rename" || rows[2].Action != "factor.add" ||
		rows[2].Detail != "passkey iCloud Keychain" {
		t.Errorf("%+v: %v", rows, err)
	}
	fresh := w.Browser()
	finish(fresh, k.get(begin(fresh))).Is(401, "invalid_passkey")
	for i := range account.MaxPasskeys {
		_, err := w.Store.AddPasskey(t.Context(), account.Passkey{ID: []byte{byte(i)}, Sub: w.User("ada").Sub, PublicKey: []byte{1}, AAGUID: make([]byte, 16)}, account.MaxPasskeys, account.NewFactor{WayIn: true, Now: w.Clock.Now()})
		must(t, err)
	}
	b.Call("POST", "/api/me/passkeys/begin", nil).Is(409, "passkey_limit_reached") // before one is made in vain
}

func TestPasskeysNeedANameAndHTTPS(t *testing.T) {
	for issuer, says := range map[string]string{
		"http://localhost:4040": "", "http://id.localhost:4040": "", "https://id.example.org/sub": "", "https://nas": "incomplete",
		"https://192.0.2.7": "IP address", "http://127.0.0.1:4040": "IP address", "https://[2001:db8::1]": "IP address", "http://id.example.org": "does not use https",
	} {
		w := accounttest.New(t, func(o *accounttest.Options) { o.Issuer = issuer })
		b := w.Browser()
		begun, endpoints, login := begin(b), b.Call("GET", "/.well-known/passkey-endpoints", nil), b.Page("/login/")
		if says == "" {
			begun.Is(200)
			if got := endpoints.Is(200).JSON(); !strings.HasPrefix(got["enroll"].(string), issuer+"/account/") || got["manage"] != got["enroll"] {
				t.Errorf("%s: %v", issuer, got)
			}
			login.Shows("data-passkey")
			continue
		}
		endpoints.Is(404, "passkeys_unavailable")
		has(t, issuer, begun.Is(404, "passkeys_unavailable").JSON()["detail"].(string), says)
		login.Hides("data-passkey", "webauthn")
		w.AddUser("ada")
		w.SignedIn("ada").Page("/account/security").Shows(says).Hides("data-passkey")
		addPerson(w, "zoe", "")
		b.Page("/reset-password/?handle=zoe&code=" + w.ResetCode("zoe")).Is(200).Shows("Welcome").Hides("add a passkey")
		w.SignedIn("ada").Page("/account/profile?notice=profile-saved").Is(200).Hides("CurrentUserDetails")
		b.Page("/login/", "state", "x", "credential", `{"id":"AAAA"}`).Is(404).Shows(says)
		b.Page("/login/", "handle", "ada", "password", password).RedirectsTo("/account/")
		b.Page("/account/").Is(200).Hides("data-offer")
		answer, added := map[string]any{"state": "x", "credential": map[string]string{}}, map[string]any{"handle": "eve", "code": "x"}
		for door, body := range map[string]any{"me/passkeys": answer, "me/passkeys/begin": nil, "auth/passkey/finish": answer, "register/passkey/begin": added, "auth/reset-password/passkey/begin": added} {
			b.Call("POST", "/api/"+door, body).Is(404, "passkeys_unavailable")
		}
	}
}

func beginFor(b *accounttest.Browser, purpose string) *accounttest.Answer {
	return b.Call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": purpose})
}

func finishing(purpose string, body map[string]any) map[string]any {
	body["purpose"] = purpose
	return body
}

func TestPasskeyIsTheSecondStep(t *testing.T) {
	w := accounttest.With(t, "ada", "bob")
	ada, bob := w.SignedIn("ada"), w.SignedIn("bob")
	k, other := addPasskey(ada, "Key"), addPasskey(bob, "Key")
	b := w.Browser()
	beginFor(b, "second-factor").Is(401, "sign_in_expired") // nobody has given a password here
	if got := b.Login("ada", password).Is(401, "second_factor_required").JSON()["methods"].([]any); len(got) != 2 || got[0] != "passkey" || got[1] != "recovery_code" {
		t.Errorf("methods %v", got)
	}
	otp(b, "123456").Is(401, "invalid_otp") // of an app that is not set up
	begun := beginFor(b, "second-factor")
	if _, options := ceremony(begun); strings.Count(options, `"id":`) != 1 ||
		!strings.Contains(options, base64.RawURLEncoding.EncodeToString(k.key.ID)) ||
		!strings.Contains(options, `"userVerification":"required"`) {
		t.Errorf("options %s", options)
	}
	finish(b, finishing("second-factor", other.get(begun))).Is(401, "invalid_passkey") // of another user
	finish(b, other.get(begun)).Is(400, "passkey_expired")                             // nor as the only step
	elsewhere := w.Browser()
	elsewhere.Login("ada", password).Is(401, "second_factor_required")
	finish(elsewhere, finishing("second-factor", k.get(begun))).Is(400, "passkey_expired")
	finish(elsewhere, finishing("second-factor", k.get(begin(elsewhere)))).Is(400, "passkey_expired") // a challenge for a sign-in
	if b.IsSignedIn() || elsewhere.IsSignedIn() {
		t.Fatal("signed in")
	}
	body := finishing("second-factor", k.get(begun))
	finish(b, body).Is(200)
	same(t, "methods", strings.Join(session(b).AMR, " "), "pwd hwk user mfa")
	finish(b, body).Is(401, "sign_in_expired")

	page := w.Browser()
	page.Page("/login/", "handle", "ada", "password", password, "continue", "a.b").RedirectsTo("/login/second-factor/?continue=a.b")
	page.Page("/login/second-factor/?continue=a.b").Shows(`data-passkey="get"`, "&quot;purpose&quot;:&quot;second-factor&quot;")
	body = k.get(beginFor(page, "second-factor"))
	page.Page("/login/second-factor/", "state", body["state"].(string), "credential", "{}", "continue", "a.b").Is(401).Shows(`data-code="invalid_passkey"`)
	page.Page("/login/second-factor/", "state", body["state"].(string), "credential",
		string(body["credential"].(json.RawMessage)), "continue", "a.b").RedirectsTo("/oauth2/authorize?continue=a.b")

	// The password that was right is not the one any more.
	late := w.Browser()
	late.Login("ada", password).Is(401, "second_factor_required")
	body = finishing("second-factor", k.get(beginFor(late, "second-factor")))
	ada.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
	finish(late, body).Is(401, "sign_in_expired")
	beginFor(b, "third").Is(400, "invalid_request")
}

func TestPasskeyConfirmsWhoIsSignedIn(t *testing.T) {
	w := accounttest.With(t, "ada", "bob")
	b, bob := w.SignedIn("ada"), w.SignedIn("bob")
	beginFor(b, "confirm").Is(404, "passkey_not_found")
	beginFor(w.Browser(), "confirm").Is(401, "not_authenticated")
	k, other := addPasskey(b, "Key"), addPasskey(bob, "Key")
	w.Clock.Advance(9 * time.Minute)
	begunAdding := b.Call("POST", "/api/me/passkeys/begin", nil)
	w.Clock.Advance(2 * time.Minute)
	b.Call("POST", "/api/me/passkeys/begin", nil).Is(403, "reauthentication_required")
	begun := beginFor(b, "confirm")
	finish(bob, finishing("confirm", k.get(begun))).Is(400, "passkey_expired")
	finish(b, finishing("confirm", other.get(begun))).Is(401, "invalid_passkey")
	finish(b, finishing("confirm", k.get(begin(w.Browser())))).Is(400, "passkey_expired")
	// The challenge of another purpose, though sealed for the same session and user.
	forAdding := finishing("confirm", k.get(begunAdding))
	finish(b, forAdding).Is(400, "passkey_expired")
	finish(w.Browser(), finishing("confirm", k.get(begun))).Is(401, "not_authenticated")
	b.Call("POST", "/api/me/passkeys/begin", nil).Is(403, "reauthentication_required")
	body := finishing("confirm", k.get(begun))
	finish(b, body).Is(200)
	b.Call("POST", "/api/me/passkeys/begin", nil).Is(200)
	w.Clock.Advance(4 * time.Minute)
	finish(b, body).Is(400, "passkey_expired") // good once

	w.Clock.Advance(11 * time.Minute)
	b.Page("/account/confirm?next=/account/security").Shows(`data-passkey="get"`)
	body = k.get(beginFor(b, "confirm"))
	b.Page("/account/confirm", "confirm_state", body["state"].(string), "confirm_credential",
		string(body["credential"].(json.RawMessage)), "next", "/account/security").RedirectsTo("/account/security")
	b.Call("POST", "/api/me/passkeys/begin", nil).Is(200)
}

// The codes come with the first factor, in the page that the form leads to, and go with the last one.
func TestExportHasThePasskeysWithoutTheirKeys(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	addPasskey(b, "Blue key")
	keys, err := w.Store.Passkeys(t.Context(), w.User("ada").Sub)
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d passkeys, %v", len(keys), err)
	}
	b.Call("GET", "/api/me/export", nil).Is(200).Shows(`"name":"Blue key"`).Hides(base64.StdEncoding.EncodeToString(keys[0].PublicKey), "public_key")
}

func TestRecoveryCodesComeWithTheFirstPasskey(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	add := func() *accounttest.Answer {
		body := newKeyring().create(b.Call("POST", "/api/me/passkeys/begin", nil))
		return b.Page("/account/passkeys", "state", body["state"].(string), "credential", string(body["credential"].(json.RawMessage)), "second_step", "true")
	}
	first := add().Is(200).Shows(`id="recovery-codes"`)
	code := regexp.MustCompile(`<li><code>([^<]+)</code>`).FindAllStringSubmatch(first.Body, -1)
	if len(code) != 10 {
		t.Fatalf("%d codes: %s", len(code), first.Body)
	}
	const added = "/account/security?notice=passkey-added"
	add().RedirectsTo(added + "#passkeys")
	if page := b.Page(added).Is(200); strings.Count(page.Body, "<details open>") != 1 ||
		strings.LastIndex(page.Body, "<details open>") < strings.LastIndex(page.Body, "data-key=") {
		t.Error("the name of the new passkey, and of no other, is offered to be changed")
	}
	b.Page("/account/passkeys", "state", "x", "credential", "").Is(400).Shows(`data-code="passkey_expired"`)
	lost := w.Browser()
	lost.Login("ada", password).Is(401, "second_factor_required")
	lost.Call("POST", "/api/auth/login", map[string]string{"otp": code[3][1]}).Is(200)
	for _, k := range b.Call("GET", "/api/me/passkeys", nil).JSON()["passkeys"].([]any) {
		id := k.(map[string]any)["id"].(string)
		b.Page("/account/passkeys/remove", "id", id).Is(200).Shows(`name="sure" value="yes"`) // and nothing is removed
		b.Page("/account/passkeys/remove", "id", id, "sure", "yes").RedirectsTo("/account/security?notice=passkey-removed#passkeys")
	}
	w.Browser().Login("ada", password).Is(200)
	if f, err := w.Store.Factors(t.Context(), w.User("ada").Sub); err != nil || f.RecoveryCodes != 0 {
		t.Errorf("%+v: %v", f, err)
	}
}

// The script sends the form without an answer of the browser where the session is not fresh.
func TestNewPasskeyAfterTheConfirmation(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	w.Clock.Advance(11 * time.Minute)
	form := []string{"state", "", "credential", ""}
	b.Page("/account/passkeys", form...).Is(403).Shows(`data-page="confirm"`)
	b.Page("/account/passkeys", append(form, "confirm_password", password)...).Is(200).Shows(`id="passkey-submit"`)
}

// An issuer that lost its name leaves passkeys of no use: the pages say so, and the codes still work.
func TestPasskeysOfAnIssuerThatWasMoved(t *testing.T) {
	w := accounttest.With(t, "ada")
	addPasskey(w.SignedIn("ada"), "Key")
	w.Start(func(o *accounttest.Options) { o.Issuer = "http://127.0.0.1:4040" })
	b := w.Browser()
	if got := b.Login("ada", password).Is(401, "second_factor_required").JSON()["methods"].([]any); len(got) != 1 || got[0] != "recovery_code" {
		t.Errorf("methods %v", got)
	}
	b.Page("/login/second-factor/").Shows("IP address", "recovery_code").Hides("data-passkey")
	beginFor(b, "second-factor").Is(404, "passkeys_unavailable")
}

// at moves the authenticator's browser to another address of the service.
func (k keyring) at(issuer, rpID string) *keyring {
	k.party.Origin, k.party.ID = issuer, rpID
	return &k
}

// An installation moves to another host: what was made for the parent domain goes on, what was made
// for the former host is neither offered nor accepted nor deleted, and works after a move back.
func TestPasskeysAfterAMove(t *testing.T) {
	const from, to, parent = "https://id.example.org", "https://login.example.org", "example.org"
	issuer := func(url, host string) func(*accounttest.Options) {
		return func(o *accounttest.Options) {
			o.Issuer, o.PasskeyHost, o.CookieName = url, host, "__Host-cairn_session"
		}
	}
	w := accounttest.New(t, issuer(from, ""))
	b := w.Member("ada")
	old := newKeyring().at(from, "id.example.org")
	body := old.create(b.Call("POST", "/api/me/passkeys/begin", nil))
	body["second_step"] = true
	b.Call("POST", "/api/me/passkeys", body).Is(201)
	w.Start(issuer(from, parent))
	step := w.Browser()
	step.Login("ada", password).Is(401, "second_factor_required")
	beginFor(step, "second-factor").Is(200).Shows(`"rpId":"id.example.org"`)
	shared := newKeyring().at(from, parent)
	shared.device.Options.UserHandle = old.device.Options.UserHandle
	b.Call("POST", "/api/me/passkeys", shared.create(b.Call("POST", "/api/me/passkeys/begin", nil))).Is(201)
	signIn := func(k *keyring, older bool) *accounttest.Answer {
		fresh := w.Browser()
		return finish(fresh, k.get(fresh.Call("POST", "/api/auth/passkey/begin", map[string]any{"older": older})))
	}
	if _, options := ceremony(w.Browser().Call("POST", "/api/auth/passkey/begin", map[string]any{"older": true})); !strings.Contains(options, `"rpId":"id.example.org"`) {
		t.Errorf("older passkeys are asked for with %s", options)
	}
	w.Browser().Call("GET", "/login/", nil).Shows("passkey-older")
	signIn(old, true).Is(200)
	signIn(shared, false).Is(200)
	step.Page("/login/second-factor/").Is(200).Hides("passkeys-unavailable")

	w.Start(issuer(to, parent))
	if got, err := w.Passkeys.CheckPasskeys(t.Context()); err != nil || got.String() != "1 passkeys of 1 members belong to another host" {
		t.Errorf("%q, %v", got, err)
	}
	in := w.Browser()
	finish(in, shared.at(to, parent).get(begin(in))).Is(200)
	page := in.Page("/account/passkeys/rename", "id", base64.RawURLEncoding.EncodeToString(shared.key.ID), "name", "").Is(400).Shows("It is for id.example.org")
	same(t, "refused names", strings.Count(page.Body, `aria-invalid="true"`), 1)
	signIn(old.at(to, "id.example.org"), false).Is(401, "invalid_passkey")
	step = w.Browser()
	step.Login("ada", password).Is(401, "second_factor_required")
	_, options := ceremony(step.Call("POST", "/api/auth/passkey/begin", map[string]string{"purpose": "second-factor"}))
	if asked, err := virtualwebauthn.ParseAssertionOptions(options); err != nil || len(asked.AllowCredentials) != 1 ||
		asked.RelyingPartyID != parent {
		t.Errorf("offered %s: %v", options, err)
	}
	w.Start(issuer("https://other.example", ""))
	methods := w.Browser().Login("ada", password).Is(401, "second_factor_required").JSON()["methods"]
	if got, _ := json.Marshal(methods); string(got) != `["recovery_code"]` {
		t.Errorf("offered %s", got)
	}
	w.Start(issuer(from, ""))
	signIn(old, false).Is(200)
}

func TestRelatedOriginsAreListedAndAccepted(t *testing.T) {
	const app = "https://app.example.com"
	w := accounttest.New(t)
	w.Browser().Call("GET", "/.well-known/webauthn", nil).Is(404, "passkeys_unavailable")
	w.Start(func(o *accounttest.Options) { o.PasskeyOrigins = []string{app} })
	w.AddUser("ada")
	k := addPasskey(w.SignedIn("ada"), "Key")
	if got := w.Browser().Call("GET", "/.well-known/webauthn", nil).Is(200).JSON()["origins"]; len(got.([]any)) != 1 || got.([]any)[0] != app {
		t.Errorf("listed %v", got)
	}
	b := w.Browser()
	finish(b, k.at(app, "localhost").get(begin(b))).Is(200)
	finish(b, k.at("https://evil.example", "localhost").get(begin(b))).Is(401, "invalid_passkey")
}
