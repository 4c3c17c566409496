package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

// signInPage follows an authorization request to the sign-in page.
func (b *browser) signInPage(t *testing.T, authURL string) (response, url.Values) {
	t.Helper()
	got := b.get(authURL)
	next, err := url.Parse(got.Header.Get("Location"))
	if err != nil || got.StatusCode != http.StatusSeeOther || next.Path != "/login/" {
		t.Fatalf("%d to %q, want the sign-in page", got.StatusCode, got.Header.Get("Location"))
	}
	return b.get(next.String()), next.Query()
}

// The page says for whom the sign-in is and, to who is signed in, why again.
func TestSignInPageSaysWhatItIsFor(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addUser("eve")
	rp := s.relyingParty("app", s.addClient("app", nil))
	if page, _ := s.browser().signInPage(t, rp.authURL()); !strings.Contains(page.Text, "Sign in to continue to <bdi>App app</bdi>") {
		t.Errorf("the application is not named: %s", mainOf(page.Text))
	}
	if page := s.browser().get("/login/?continue=" + url.QueryEscape("eyJ0IjoxfQ.c2VhbA_-")); page.StatusCode != http.StatusOK || strings.Contains(page.Text, "continue to") {
		t.Errorf("a continuation that nobody sealed: %d %s", page.StatusCode, mainOf(page.Text))
	}
	b, tokens := s.signedInTokens(rp, "ada")
	hint, _ := tokens.Extra("id_token").(string)
	for name, again := range map[string][]string{
		"prompt=login": {"prompt", "login"}, "max_age": {"max_age", "0"}, "its own hint": {"prompt", "login", "id_token_hint", hint, "login_hint", "ada"},
	} {
		page, _ := b.signInPage(t, rp.authURL(again...))
		handle := elementByID(t, page.Text, "handle")
		if !strings.Contains(page.Text, "Confirm it’s you") || !strings.Contains(page.Text, "App app") || attribute(handle, "value") != "ada" ||
			!strings.Contains(page.Text, " readonly") || attribute(handle, "autocomplete") != "username" {
			t.Errorf("%s: %s", name, mainOf(page.Text))
		}
		// A wrong password leaves the page what it is.
		f := pageForm(t, page.Text)
		f.values.Set("password", "wrong")
		if again := b.postForm(f.action, f.values); again.StatusCode != http.StatusUnauthorized || !strings.Contains(again.Text, "Confirm it’s you") || !strings.Contains(again.Text, " readonly") || !strings.Contains(again.Text, "The password is not right.") {
			t.Errorf("%s, wrong password: %d %s", name, again.StatusCode, mainOf(again.Text))
		}
	}
	// Where another account may be used, the handle can be changed.
	_, eves := s.signedInTokens(rp, "eve")
	other, _ := eves.Extra("id_token").(string)
	for name, change := range map[string][]string{
		"select_account": {"prompt", "select_account"}, "another's hint": {"id_token_hint", other}, "another's login_hint": {"prompt", "login", "login_hint", "eve"},
	} {
		if page, _ := b.signInPage(t, rp.authURL(change...)); strings.Contains(page.Text, " readonly") || !strings.Contains(page.Text, "You are signed in as <strong><bdi>ada") {
			t.Errorf("%s: %s", name, mainOf(page.Text))
		}
	}
	if got := b.authorize(rp.authURL("id_token_hint", other), "eve"); got.Get("code") == "" {
		t.Errorf("signed in as the other: %v", got)
	}
}

// Who is signed in has nothing to do on the sign-in page: the way goes on.
func TestSignInPageSendsOnWhoIsSignedIn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity)
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	_, q := b.signInPage(t, rp.authURL())
	b.signIn("ada") // in another window
	if got := b.get("/login/"); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "/account/" {
		t.Errorf("/login/: %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	got := b.get("/login/?" + q.Encode())
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/authorize?continue=") {
		t.Errorf("with a request: %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	if answer := b.authorize(got.Header.Get("Location"), "ada"); answer.Get("code") == "" {
		t.Errorf("the way does not go on: %v", answer)
	}
}
