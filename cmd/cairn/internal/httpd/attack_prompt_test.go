package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// continuation is the sealed request in the address of our own page.
func continuationOf(t *testing.T, got response, path string) string {
	t.Helper()
	next, err := url.Parse(got.Header.Get("Location"))
	if err != nil || got.StatusCode != http.StatusSeeOther || next.Path != path || next.Host != "" {
		t.Fatalf("%d to %q, want %s", got.StatusCode, got.Header.Get("Location"), path)
	}
	return next.Query().Get("continue")
}

// Attack 21: silence means silence, whatever is missing.
func TestSilentRequestNeverEndsOnOurPages(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	for _, mode := range []string{"query", "form_post"} {
		b := s.browser()
		silent := func(change ...string) url.Values {
			_, answer := answerOf(t, b.get(rp.authURL(append([]string{"prompt", "none", "response_mode", mode}, change...)...)))
			return answer
		}
		if got := silent(); got.Get("error") != "login_required" {
			t.Errorf("nobody: %v", got)
		}
		if got := silent("id_token_hint", "a.b.c"); got.Get("error") == "" {
			t.Errorf("nobody, bad hint: %v", got)
		}
		b.signIn("ada")
		if mode == "query" {
			if got := silent(); got.Get("error") != "consent_required" {
				t.Errorf("no consent: %v", got)
			}
			b.authorize(rp.authURL("scope", "openid"), "ada")
		}
		if got := silent("scope", "openid"); got.Get("code") == "" {
			t.Errorf("all is there: %v", got)
		}
		if got := silent("scope", "openid address phone"); got.Get("error") != "consent_required" {
			t.Errorf("more scopes than allowed: %v", got)
		}
		if got := silent("max_age", "0"); got.Get("error") != "login_required" {
			t.Errorf("max_age=0: %v", got)
		}
		for _, prompts := range []string{"none login", "none consent", "none none", "none bogus", "NONE"} {
			if got := silent("prompt", prompts); got.Get("error") != "invalid_request" {
				t.Errorf("prompt=%s: %v", prompts, got)
			}
		}
	}
}

// Attack 22: nothing a request can say stands for a sign-in.
func TestForgedProofOfSignInNeverCounts(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addUser("eve")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	for _, more := range []string{"&reauthenticated=1", "&login=done", "&auth_time=9999999999", "&a=0&p=x", "&returned=true", "&decision=allow", "&p="} {
		if c := continuationOf(t, b.get(rp.authURL("prompt", "login")+more), "/login/"); c == "" {
			t.Errorf("%s: no continuation", more)
		}
	}
	sealed := continuationOf(t, b.get(rp.authURL("prompt", "login")), "/login/")
	body, mac, _ := strings.Cut(sealed, ".")
	plain := continuationOf(t, b.get(rp.authURL("prompt", "login", "state", "another")), "/login/")
	plainBody, plainMAC, _ := strings.Cut(plain, ".")
	for name, forged := range map[string]string{
		"no seal": body + ".", "other seal": body + "." + plainMAC, "other body": plainBody + "." + mac, "changed": "f" + sealed[1:], "cut": sealed[:len(sealed)-1], "longer": sealed + "A",
		"two": sealed + "." + mac, "newline": body + "\n." + mac, "padding": sealed + "=", "empty": ".", "huge": strings.Repeat("A", 13<<10) + "." + mac,
	} {
		wantPage(t, name, b.get("/oauth2/authorize?"+url.Values{"continue": {forged}}.Encode()), http.StatusBadRequest)
		wantPage(t, name+" at consent", b.get("/oauth2/consent?"+url.Values{"continue": {forged}}.Encode()), http.StatusBadRequest)
	}
	// The sealed request itself, with parameters beside it: they do not count.
	if c := continuationOf(t, b.get("/oauth2/authorize?"+url.Values{"continue": {sealed}, "prompt": {"none"}, "redirect_uri": {"https://evil.example"}}.Encode()), "/login/"); c != sealed {
		t.Error("parameters beside the continuation changed it")
	}
	// A decision on one request does not serve another, nor a sign-in.
	page := pageForm(t, b.get(b.get(rp.authURL("prompt", "consent")).Header.Get("Location")).Text)
	page.values.Set("decision", "allow")
	next, _ := url.Parse(b.postForm(page.action, page.values).Header.Get("Location"))
	got := b.get("/oauth2/authorize?" + url.Values{"continue": {sealed}, "decision": {next.Query().Get("decision")}}.Encode())
	continuationOf(t, got, "/login/")
	// Another person's sign-in in this browser is one: the code is hers.
	if answer := b.authorize("/oauth2/authorize?"+url.Values{"continue": {sealed}}.Encode(), "eve"); answer.Get("code") == "" {
		t.Errorf("signed in as another: %v", answer)
	}
}

// max_age and prompt=login by the clock: the ID token tells the new time.
func TestOldSignInNeverSatisfiesMaxAge(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	db.exec("UPDATE sessions SET auth_time = auth_time - 100, created_at = created_at - 100")
	authTime := func(change ...string) int64 {
		token, err := rp.exchange(b.authorize(rp.authURL(change...), "ada").Get("code"))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := token.Extra("id_token").(string)
		at, ok := jwtPayload(t, raw)["auth_time"].(float64)
		if !ok {
			t.Fatal("no auth_time")
		}
		return int64(at)
	}
	old := authTime()
	if got := authTime("max_age", "10000"); got != old || got > time.Now().Unix()-99 {
		t.Errorf("max_age with room: auth_time %d, session of %d", got, old)
	}
	continuationOf(t, b.get(rp.authURL("max_age", "99")), "/login/")
	if _, got := answerOf(t, b.get(rp.authURL("max_age", "99", "prompt", "none"))); got.Get("error") != "login_required" {
		t.Errorf("silently: %v", got)
	}
	if got := authTime("max_age", "99"); got < old+100 {
		t.Errorf("auth_time %d after the new sign-in, %d before", got, old)
	}
}

// Attack 26: what the sign-in page is given leads nowhere but back to authorize.
func TestContinuationNeverLeadsElsewhere(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	for _, value := range []string{
		"https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "https://evil.example/.x", "evil.example", "a.b", "..", "/oauth2/authorize?x=.", "a.b.c", "%2f%2fevil.example", "\t//evil.example", "a.b\r\nLocation: //evil.example",
	} {
		b := s.browser()
		for _, name := range []string{"continue", "next", "redirect", "return_to", "url", "rd"} {
			page := b.get("/login/?" + url.Values{name: {value}}.Encode())
			f := pageForm(t, page.Text)
			if f.action != "/login/" || strings.Contains(page.Text, `href="https://evil`) || strings.Contains(page.Text, `href="//evil`) || strings.Contains(page.Text, `href="javascript:`) {
				t.Errorf("%s=%q: the page leads to %s", name, value, f.action)
			}
		}
		got := b.postForm("/login/", url.Values{"handle": {"ada"}, "password": {password}, "continue": {value}, "next": {value}})
		next := got.Header.Get("Location")
		if next != "/account/" && !strings.HasPrefix(next, "/oauth2/authorize?continue=") {
			t.Errorf("%q: after the sign-in to %q", value, next)
		}
		if strings.HasPrefix(next, "/oauth2/") {
			wantPage(t, value, b.get(next), http.StatusBadRequest)
		}
	}
}
