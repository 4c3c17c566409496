package httpd

import (
	"net/url"
	"strings"
	"testing"
)

// wantLanguage checks the language that an answer says it is in, and a text of it.
func wantLanguage(t *testing.T, what string, got response, tag, text string) {
	t.Helper()
	if got.Header.Get("Content-Language") != tag || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","), "Accept-Language") || !strings.Contains(got.Text, text) {
		t.Errorf("%s: language %q, vary %q, want %s with %q in %.1500s", what, got.Header.Get("Content-Language"), got.Header.Values("Vary"), tag, text, mainOf(got.Text))
	}
	if strings.Contains(got.Text, "<html") && !strings.Contains(got.Text, `<html lang="`+tag+`" dir="ltr">`) {
		t.Errorf("%s: %.100s", what, got.Text)
	}
}

func TestAnswersAreInTheLanguageOfTheBrowser(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	b := s.signedIn("ada")
	const de = "de-AT,de;q=0.9,en;q=0.8"
	wrong := map[string]string{"handle": "ada", "password": "wrong"}
	got := b.api("POST", "/api/auth/login", wrong)
	wantLanguage(t, "problem", got, "en", `"title":"Unauthorized","status":401,"detail":"The user name or password is incorrect.","code":"invalid_credentials"`)
	got = b.api("POST", "/api/auth/login", wrong, "Accept-Language", de)
	wantLanguage(t, "problem", got, "de", `"title":"Unauthorized","status":401,"detail":"Der Benutzername oder das Passwort stimmt nicht.","code":"invalid_credentials"`)
	got = b.api("PATCH", "/api/me", map[string]string{"nickname": strings.Repeat("x", 200), "zoneinfo": "Rome"}, "Accept-Language", de)
	wantLanguage(t, "faults of members", got, "de", `{"pointer":"/nickname","detail":"Gib höchstens 100 Zeichen ein, in einer Zeile und ohne Steuerzeichen."}`)
	got = b.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "x"}, "Accept-Language", de)
	wantLanguage(t, "number", got, "de", "Das Passwort braucht mindestens 10 Zeichen.")
	wantLanguage(t, "page", s.browser().get("/login/", "Accept-Language", de), "de", "<h1>Anmelden</h1>")
	wantLanguage(t, "unknown language", s.browser().get("/login/", "Accept-Language", "sv"), "en", "<h1>Sign in</h1>")
	wantLanguage(t, "refusal on a page", s.browser().postForm("/login/", url.Values{"handle": {"ada"}, "password": {"wrong"}}, "Accept-Language", de), "de", "Der Benutzername oder das Passwort stimmt nicht.")
	wantLanguage(t, "error page", s.browser().get("/nowhere", "Accept-Language", de), "de", "Unter dieser Adresse gibt es nichts.")
	wantLanguage(t, "error page of authorize", s.browser().get("/oauth2/authorize?client_id=x", "Accept-Language", de), "de", "ist bei diesem Dienst nicht registriert")
}

// ui_locales count before the member's choice, and this before the browser's.
func TestApplicationAndMemberChooseTheLanguage(t *testing.T) {
	s, rp := startApp(t, nil, "openid", "profile")
	const en, de = "en-GB,en;q=0.9", "de"
	b := s.browser()
	asked := rp.authURL("ui_locales", "sv de")
	login := b.get(b.get(asked, "Accept-Language", en).Header.Get("Location"), "Accept-Language", en)
	wantLanguage(t, "sign-in", login, "de", "Weiter zu:")
	f := pageForm(t, login.Text)
	next := url.QueryEscape(f.values.Get("continue"))
	wantLanguage(t, "registration", b.get("/register/?continue="+next, "Accept-Language", en), "de", "Einladungscode")
	wantLanguage(t, "reset", b.get("/reset-password/?continue="+next, "Accept-Language", en), "de", "Passwort zurücksetzen")
	f.values.Set("handle", "ada")
	f.values.Set("password", "wrong")
	wantLanguage(t, "wrong password", b.postForm(f.action, f.values, "Accept-Language", en), "de", "Der Benutzername oder das Passwort stimmt nicht.")

	b.signIn("ada")
	choose := func(locale string) {
		wantStatus(t, "choose "+locale, b.api("PATCH", "/api/me", map[string]string{"locale": locale}), 200)
	}
	choose("en-GB")
	wantLanguage(t, "consent", b.get(b.get(asked).Header.Get("Location"), "Accept-Language", de), "de", "Außerdem: Benutzername (ada)")
	wantLanguage(t, "sign-out", b.get("/oauth2/logout?ui_locales=de", "Accept-Language", en), "de", "Abmelden?")
	wantLanguage(t, "the member's choice", b.get("/account/profile", "Accept-Language", de), "en", "Profile")
	choose("de-CH")
	wantLanguage(t, "the member's choice", b.get("/account/profile", "Accept-Language", en), "de", "Profil")
	wantLanguage(t, "the member's choice in the API", b.api("PATCH", "/api/me", map[string]string{"zoneinfo": "Rome"}, "Accept-Language", en), "de", "Zeitzone")
	choose("sv")
	wantLanguage(t, "a choice that cannot be met", b.get("/account/profile", "Accept-Language", de), "de", "Profil")
	// What applications read stays as it is (RFC 6749 section 4.1.2.1: ASCII).
	denied := b.get(rp.authURL("ui_locales", "de", "prompt", "none", "response_type", "token"), "Accept-Language", de)
	same(t, "error_description", answered(t, denied).Get("error_description"), "response_type: Only code is supported.")
}
