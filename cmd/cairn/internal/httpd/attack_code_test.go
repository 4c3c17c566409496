package httpd

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// Attack 45: a code lives a minute, an access token an hour, a refresh token
// thirty days; after that they are nothing.
func TestExpiredCodeOrTokenIsNeverGood(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	now := time.Now().Unix()
	if n := db.count("SELECT count(*) FROM grants WHERE code_expires_at > ? OR code_expires_at < ?", now+60, now+50); n != 0 {
		t.Errorf("%d codes live longer than a minute", n)
	}
	if n := db.count("SELECT count(*) FROM tokens WHERE kind = 'a' AND (expires_at > ? OR expires_at < ?)", now+3601, now+3590); n != 0 {
		t.Errorf("%d access tokens live longer than an hour", n)
	}
	if n := db.count("SELECT count(*) FROM tokens WHERE kind = 'r' AND (expires_at > ? OR expires_at < ?)", now+30*86400+1, now+30*86400-10); n != 0 {
		t.Errorf("%d refresh tokens live longer than 30 days", n)
	}
	db.exec("UPDATE grants SET code_expires_at = code_expires_at - 61, created_at = created_at - 61")
	wantOAuthError(t, "code after a minute", s.tokenRequest("app", secret, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
	db.exec("UPDATE tokens SET expires_at = expires_at - 3601 WHERE kind = 'a'")
	if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
		t.Errorf("access token after an hour: %d", got)
	}
	db.exec("UPDATE tokens SET expires_at = expires_at - 30*86400 - 1 WHERE kind = 'r'")
	wantOAuthError(t, "refresh token after 30 days", s.refreshRequest("app", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
	if n := db.count("SELECT count(*) FROM tokens WHERE issued_at > ?", now+30); n != 0 {
		t.Errorf("%d tokens came of expired ones", n)
	}
}

// Attacks 46 and 47, and everything else that ends what a person holds.
func TestPersonWhoIsGoneNeverGetsTokens(t *testing.T) {
	s := startService(t, serviceOptions{})
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	ctx := t.Context()
	for name, c := range map[string]struct {
		deed func(b *browser, u account.User) error
		want string // of authorize without a page; login_required when empty
	}{
		"suspended": {deed: func(_ *browser, u account.User) error {
			return s.store.Suspend(ctx, u.Sub, "", time.Now(), operator("x", u.Handle, ""))
		}},
		"deleted": {deed: func(_ *browser, u account.User) error {
			return s.store.DeleteUser(ctx, u.Sub, time.Now(), operator("x", u.Handle, ""))
		}},
		"deleted by herself": {deed: func(b *browser, u account.User) error {
			return statusOf(b.api("DELETE", "/api/me", map[string]string{"password": password}), http.StatusNoContent)
		}},
		"application removed": {want: "consent_required", deed: func(b *browser, u account.User) error {
			return statusOf(b.api("DELETE", "/api/me/apps/app", nil), http.StatusNoContent)
		}},
		"password changed here": {want: "none", deed: func(b *browser, u account.User) error {
			return statusOf(b.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "another long password 7"}), http.StatusOK)
		}},
		"password changed elsewhere": {deed: func(_ *browser, u account.User) error {
			other := s.browser()
			other.signIn(u.Handle)
			return statusOf(other.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "another long password 7"}), http.StatusOK)
		}},
		"password reset": {deed: func(_ *browser, u account.User) error {
			admin := s.browser()
			admin.signIn("root1")
			code, _ := admin.api("POST", "/api/admin/users/"+u.Handle+"/reset-password-code", nil).JSON(t)["code"].(string)
			return statusOf(s.browser().api("POST", "/api/auth/reset-password", map[string]string{"handle": u.Handle, "code": code, "password": "another long password 7"}), http.StatusOK)
		}},
	} {
		if name == "password reset" {
			s.addUser("root1", account.FlagAdmin)
		}
		u := s.addUser(strings.ReplaceAll(name, " ", "-"))
		b, token := s.signedInTokens(rp, u.Handle)
		code := b.authorize(rp.authURL(), u.Handle).Get("code")
		if err := c.deed(b, u); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantOAuthError(t, name+": code", s.tokenRequest("app", secret, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
		wantOAuthError(t, name+": refresh", s.refreshRequest("app", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("%s: userinfo %d", name, got)
		}
		_, got := answerOf(t, b.get(rp.authURL("prompt", "none")))
		if cmp.Or(got.Get("error"), "none") != cmp.Or(c.want, "login_required") {
			t.Errorf("%s: authorize: %v", name, got)
		}
	}
}

func statusOf(got response, want int) error {
	if got.StatusCode != want {
		return fmt.Errorf("%s: %d %s", got.Request.URL.Path, got.StatusCode, got.Text)
	}
	return nil
}

// Attacks 29 and 30 with two instances of the service on one database.
func TestCodeIsNeverSpentTwiceByTwoInstances(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		one := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		two := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		one.addUser("ada")
		secret := one.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := one.relyingParty("app", secret)
		b := one.browser()
		b.signIn("ada")
		for range 5 {
			_, answer := answerOf(t, b.get(rp.authURL()))
			first := race(t, 16, func(i int) response {
				return []*service{one, two}[i%2].tokenRequest("app", secret, rp.codeForm(answer.Get("code")))
			})
			if len(first) != 1 {
				t.Fatalf("%d of 16 exchanges won", len(first))
			}
			second := race(t, 16, func(i int) response {
				return []*service{one, two}[i%2].refreshRequest("app", secret, first[0].JSON(t)["refresh_token"].(string))
			})
			if len(second) > 1 {
				t.Fatalf("%d of 16 refreshes won", len(second))
			}
		}
	})
}

// race runs n requests at once and returns those that succeeded; the others
// must be invalid_grant.
func race(t *testing.T, n int, do func(i int) response) (won []response) {
	t.Helper()
	answers := make([]response, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { <-start; answers[i] = do(i) })
	}
	close(start)
	wg.Wait()
	for _, a := range answers {
		if a.StatusCode == http.StatusOK {
			won = append(won, a)
			continue
		}
		wantOAuthError(t, "loser", a, http.StatusBadRequest, "invalid_grant")
	}
	return won
}

// Pitfall 7 and fact S4: a copy of the database holds no code, token or secret
// that could be used.
func TestDatabaseNeverHoldsAUsableCodeOrToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, path)})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	idToken, _ := token.Extra("id_token").(string)
	held := fileTexts(t, path, path+"-wal")
	for name, value := range map[string]string{"code": code, "access token": token.AccessToken, "refresh token": token.RefreshToken, "ID token": idToken, "client secret": secret, "verifier": rp.verifier, "cookie": b.cookie("cairn_session")} {
		key, _, _ := strings.Cut(value, ".")
		if name == "ID token" || name == "cookie" {
			key = value[strings.LastIndex(value, ".")+1:]
		}
		if key == "" || strings.Contains(held, key) || strings.Contains(held, value) {
			t.Errorf("the database holds the %s", name)
		}
	}
	_, sig, _ := strings.Cut(code, ".")
	if !strings.Contains(held, sig) {
		t.Fatal("the test looks in the wrong place")
	}
	for _, guess := range []string{"." + sig, sig, sig + "." + sig, "AAAA." + sig} {
		wantOAuthError(t, "signature alone", s.tokenRequest("app", secret, rp.codeForm(guess)), http.StatusBadRequest, "invalid_grant")
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {sig}}
	wantOAuthError(t, "signature as refresh token", s.tokenRequest("app", secret, form), http.StatusBadRequest, "invalid_grant")
	if got := s.tokenRequest("app", secret, rp.codeForm(code)); got.StatusCode != http.StatusOK {
		t.Errorf("the genuine code: %d", got.StatusCode)
	}
}
