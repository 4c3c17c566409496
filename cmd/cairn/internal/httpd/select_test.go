package httpd

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/config"
)

// prompt=select_account is answered by one button for who is signed in, and by nothing else: no sign-in is renewed,
// and no other prompt is answered with it.
func TestSelectAccountGoesOnWithWhoIsSignedIn(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	s.addUser("eve")
	b := s.browser()
	b.authorize(rp.authURL(), "ada") // signed in, with consent
	age := func() { db.exec("UPDATE sessions SET auth_time = auth_time - 100, created_at = created_at - 100") }
	age()
	// choice returns what the page's button sends, nil without a button.
	choice := func(b *browser, change ...string) url.Values {
		t.Helper()
		got, _ := b.signInPage(t, rp.authURL(change...))
		_, form, there := strings.Cut(got.Text, `action="/oauth2/select-account" id="select"`)
		if !there {
			return nil
		}
		return pageForm(t, `<form method="post" action="x"`+form).values
	}
	press := func(b *browser, sent url.Values) response {
		t.Helper()
		got := b.postForm("/oauth2/select-account", sent)
		if got.StatusCode != http.StatusSeeOther {
			t.Fatalf("%d %.200s", got.StatusCode, mainOf(got.Text))
		}
		return b.get(got.Header.Get("Location"))
	}
	page, _ := b.signInPage(t, rp.authURL("prompt", "select_account"))
	if text := mainOf(page.Text); !strings.Contains(text, `id="login-continue"`) || !strings.Contains(text, "Continue as <bdi>Ada") {
		t.Errorf("no button: %s", text)
	}
	answer := answered(t, press(b, choice(b, "prompt", "select_account")))
	token, err := rp.exchange(answer.Get("code"))
	noError(t, err)
	old, _ := jwtPayload(t, rawIDToken(token))["auth_time"].(float64)
	if plain, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code")); err != nil || jwtPayload(t, rawIDToken(plain))["auth_time"] != old {
		t.Errorf("auth_time %v changed: %v", old, err)
	}
	// With consent, that page follows; the choice is not asked for again after it.
	got := press(b, choice(b, "prompt", "select_account consent"))
	if !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("select_account consent: to %s", got.Header.Get("Location"))
	}
	wantAnswer(t, "select_account consent", answered(t, b.follow(got, "nobody")), "code")
	// Where something else is asked for too, there is no button, and one from elsewhere helps nothing.
	for name, change := range map[string][]string{
		"login":   {"prompt", "login select_account"},
		"max_age": {"prompt", "select_account", "max_age", "50"},
		"now":     {"prompt", "select_account", "max_age", "0"},
		"only":    {"prompt", "login"},
		"another": {"prompt", "select_account", "claims", `{"id_token":{"sub":{"value":"x"}}}`},
	} {
		if form := choice(b, change...); form != nil {
			t.Errorf("%s: a button", name)
		}
		stolen := choice(b, "prompt", "select_account")
		_, q := b.signInPage(t, rp.authURL(change...))
		stolen.Set("continue", q.Get("continue"))
		if got := press(b, stolen); !strings.HasPrefix(got.Header.Get("Location"), "/login/?") {
			t.Errorf("%s, with the button of another request: to %s", name, got.Header.Get("Location"))
		}
	}
	// Where the session is too old for what lasts, the page after the choice is another one.
	s.addClient("fresh", nil)
	db.exec("UPDATE sessions SET auth_time = auth_time - 600, confirmed_at = confirmed_at - 700")
	got = press(b, choice(b, "prompt", "select_account", "client_id", "fresh", "redirect_uri", callbackOf("fresh")))
	has(t, "after the choice", got.Header.Get("Location"), "fresh=choose")
	// The button is for one request, session and account.
	eve := s.browser()
	eve.signIn("eve")
	age()
	hers, _ := eve.signInPage(t, rp.authURL("prompt", "select_account"))
	sealed := pageForm(t, hers.Text).values.Get("continue")
	for name, sent := range map[string]url.Values{
		"another's": choice(b, "prompt", "select_account"), "no token": {"continue": {sealed}},
		"no session": choice(b, "prompt", "select_account"),
	} {
		presser := eve
		if name == "no session" {
			presser = s.browser()
		}
		if got := press(presser, sent); !strings.HasPrefix(got.Header.Get("Location"), "/login/?") {
			t.Errorf("%s: to %s", name, got.Header.Get("Location"))
		}
	}
	// It ends with the session: the next one in this browser chooses again.
	got = b.postForm("/oauth2/select-account", choice(b, "prompt", "select_account"))
	b.signIn("eve")
	if got := b.get(got.Header.Get("Location")); !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("a sign-in since the request is a choice: to %s", got.Header.Get("Location"))
	}
	left := b.postForm("/oauth2/select-account", choice(b, "prompt", "select_account"))
	other := s.browser()
	other.signIn("eve")
	age()
	if got := other.get(left.Header.Get("Location")); !strings.HasPrefix(got.Header.Get("Location"), "/login/?") {
		t.Errorf("the choice of another session: to %s", got.Header.Get("Location"))
	}
}

// signedBy makes a JWT with a private key file, under the key's kid or another.
func signedBy(t *testing.T, keyFile, kid string, claims map[string]any) string {
	t.Helper()
	return signedAs(t, keyFile, kid, "JWT", claims)
}

func signedAs(t *testing.T, keyFile, kid string, typ jose.ContentType, claims map[string]any) string {
	t.Helper()
	keys, err := config.LoadSigningKeys(keyFile, nil)
	noError(t, err)
	key := keys[0]
	key.KeyID = cmp.Or(kid, key.KeyID)
	return serialize(t, jose.SigningKey{Algorithm: jose.RS256, Key: key}, typ, claims)
}

// symmetricJWT is a JWT with an HMAC key.
func symmetricJWT(t *testing.T, key []byte, claims map[string]any) string {
	t.Helper()
	return serialize(t, jose.SigningKey{Algorithm: jose.HS256, Key: key}, "JWT", claims)
}

func serialize(t *testing.T, key jose.SigningKey, typ jose.ContentType, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(typ))
	noError(t, err)
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	noError(t, err)
	return token
}

// Attack 23.
func TestForgedHintGetsNoCode(t *testing.T) {
	s, rp := startApp(t, nil)
	b, token := s.signedInTokens(rp, "ada")
	genuine := rawIDToken(token)
	other := s.app("other", nil)
	otherToken, err := other.exchange(b.authorize(other.authURL(), "ada").Get("code"))
	noError(t, err)
	kid := jwtHeader(t, genuine)["kid"].(string)
	attacker := t.TempDir() + "/key.pem"
	if _, err := config.GenerateKey(attacker, 2048); err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{"iss": s.URL, "aud": "app", "sub": jwtPayload(t, genuine)["sub"], "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	with := func(name string, value any) string { return signedBy(t, s.key, "", changed(claims, name, value)) }
	header, payload, _ := strings.Cut(genuine, ".")
	for name, hint := range map[string]string{
		"alg none": unsigned(genuine), "HS256 with the client secret": symmetricJWT(t, []byte(rp.config.ClientSecret), claims), "HS256 with the shared secret": symmetricJWT(t, s.secret, claims),
		"attacker's key": signedBy(t, attacker, "", claims), "attacker's key under our kid": signedBy(t, attacker, kid, claims),
		"session cookie": b.cookie("cairn_session"), "other client's ID token": rawIDToken(otherToken), "access token": token.AccessToken, "refresh token": token.RefreshToken,
		"audience of the cookie": with("aud", "activity"), "two audiences": with("aud", []string{"app", "other"}), "no audience": with("aud", nil), "other issuer": with("iss", s.URL+"/"), "no subject": with("sub", nil), "kid of nobody": signedBy(t, s.key, "nobody", claims),
		"signature cut off": genuine[:strings.LastIndex(genuine, ".")+1], "changed payload": header + "." + "A" + payload[1:], "garbage": "x", "dots": "..", "many dots": strings.Repeat(".", 3000),
		"JSON serialization": `{"payload":"x","signatures":[]}`, "four parts": genuine + ".x", "NUL": "\x00.\x00.\x00",
	} {
		for _, prompt := range []string{"", "none"} {
			got := b.get(rp.authURL("id_token_hint", hint, "prompt", prompt))
			wantAnswer(t, name+", prompt "+prompt, answered(t, got), "invalid_request")
			if len(hint) > 20 && strings.Contains(got.Header.Get("Location"), url.QueryEscape(hint)) {
				t.Errorf("%s is sent back", name)
			}
		}
	}
	for name, hint := range map[string]string{"genuine": genuine, "expired": with("exp", time.Now().Add(-48*time.Hour).Unix())} {
		wantAnswer(t, name+" hint", answered(t, b.get(rp.authURL("id_token_hint", hint, "prompt", "none"))), "code")
	}
}

// A hint about somebody else: no code for who happens to be signed in.
func TestHintOfAnotherPersonGetsNoCode(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada", "eve")
	rp := s.app("app", nil)
	_, token := s.signedInTokens(rp, "eve")
	hint := rawIDToken(token)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	wantAnswer(t, "silently", b.authorize(rp.authURL("id_token_hint", hint, "prompt", "none"), "ada"), "login_required")
	wantAnswer(t, "signed in again as the wrong person", b.authorize(rp.authURL("id_token_hint", hint), "ada"), "login_required")
	wantAnswer(t, "signed in as the right one", b.authorize(rp.authURL("id_token_hint", hint), "eve"), "code")
}

// After a rotation the new key signs and the old one is still published (of the plan
// oidcc-test-plan: oidcc-server-rotate-keys); a hint by it is genuine as long as it is.
func TestOPRotatedKeys(t *testing.T) {
	s, rp := startApp(t, nil)
	fresh := t.TempDir() + "/key.pem"
	_, err := config.GenerateKey(fresh, 2048)
	noError(t, err)
	kids := func(s *service) (out []any) {
		for _, k := range s.browser().get("/.well-known/jwks.json").JSON(t)["keys"].([]any) {
			out = append(out, k.(map[string]any)["kid"])
		}
		return out
	}
	rotated := startService(t, serviceOptions{Store: s.store, Key: fresh,
		Settings: func(c *config.Settings) { c.AdditionalKeyFiles = []string{s.key} }})
	before, after := kids(s), kids(rotated)
	if len(before) != 1 || len(after) != 2 || after[0] == before[0] || after[1] != before[0] {
		t.Errorf("kids %v, then %v", before, after)
	}
	rp = rotated.relyingParty("app", rp.config.ClientSecret)
	b, token := rotated.signedInTokens(rp, "ada")
	for name, signed := range map[string]string{"ID token": rawIDToken(token), "session token": b.cookie("cairn_session")} {
		same(t, fmt.Sprintf("%s signed by of %v", name, after), jwtHeader(t, signed)["kid"], after[0])
	}
	hint := signedBy(t, s.key, "", map[string]any{"iss": rotated.URL, "aud": "app", "sub": jwtPayload(t, rawIDToken(token))["sub"], "iat": 1, "exp": 2})
	wantAnswer(t, "hint by the retired key", b.authorize(rp.authURL("id_token_hint", hint, "prompt", "none"), "ada"), "code")
}

// A hint may be an address, which fills the field as a handle does and is no reason to choose
// another account.
func TestLoginHintMayBeAnAddress(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	db.exec("UPDATE users SET email = 'Ada@Example.ORG', email_verified = 1 WHERE handle = 'ada'")
	b := s.browser()
	shown := func(hint string) string {
		t.Helper()
		got := b.get(b.get(rp.authURL("prompt", "login", "login_hint", hint)).Header.Get("Location"))
		return attribute(elementByID(t, got.Text, "handle"), "value") + attribute(elementByID(t, got.Text, "handle"), "readonly")
	}
	for hint, want := range map[string]string{"Ada@example.org": "ada@example.org", "Ada": "ada", "not an address": "", "<b>@x": ""} {
		same(t, fmt.Sprintf("%q fills the field with", hint), shown(hint), want)
	}
	// Signed in, the page wants a proof of the same account, not another one.
	token, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code"))
	noError(t, err)
	same(t, "the owner's address: the field has", shown("ada@EXAMPLE.org"), "ada")
	same(t, "another address: the field has", shown("eve@example.org"), "eve@example.org")
	// An address that was stored with capitals has none in its domain.
	same(t, "the claim email is", s.userinfo(token.AccessToken)["email"], "Ada@example.org")
	b.login("ada", password)
	b.api("PATCH", "/api/me", map[string]string{"email": "Ada.L@Example.ORG"})
	u, _ := s.store.UserByHandle(t.Context(), "ada")
	same(t, "stored from now on", u.Email, "ada.l@example.org")
}
