package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// An application may be for people with a verified address alone: others read what to do, and go on afterwards.
func TestClientRequiresAVerifiedEmail(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.RequireVerifiedEmail = true })
	b := s.browser()
	b.signIn("ada")
	db.exec("UPDATE users SET email = 'ada@example.org', email_verified = 0")
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("prompt", "none"))), "access_denied")
	page := b.get(rp.authURL())
	text := mainOf(page.Text)
	if page.StatusCode != http.StatusForbidden || !strings.Contains(text, "only for people with a verified email address") ||
		!strings.Contains(text, "An administrator can verify it.") {
		t.Fatalf("%d %s", page.StatusCode, text)
	}
	link := func(id string) string {
		t.Helper()
		return attribute(elementByID(t, page.Text, id), "href")
	}
	again := link("access-denied-again")
	wantAnswer(t, "back", answered(t, b.get(link("access-denied-back"))), "access_denied")
	if got := b.get(again); got.StatusCode != http.StatusForbidden {
		t.Errorf("again: %d to %s", got.StatusCode, got.Header.Get("Location"))
	}
	db.exec("UPDATE users SET email_verified = 1")
	answer := answered(t, b.follow(b.get(again), "ada"))
	wantAnswer(t, "verified meanwhile", answer, "code")
	token, err := rp.exchange(answer.Get("code"))
	noError(t, err)
	db.exec("UPDATE users SET email_verified = 0")
	if got := rp.refresh(token.RefreshToken); got.StatusCode != http.StatusBadRequest {
		t.Errorf("refreshed without the address: %d %s", got.StatusCode, got.Text)
	}
}

// The consent page says what the application will find out: no address, or one that nobody has verified.
func TestConsentSaysThatAnAddressIsNotVerified(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	b := s.browser()
	b.signIn("ada")
	for sql, want := range map[string]string{
		"email = '', email_verified = 0":                "You have no email address here.",
		"email = 'ada@example.org', email_verified = 0": "Your email address is not verified.",
		"email = 'ada@example.org', email_verified = 1": "",
	} {
		db.exec("UPDATE users SET " + sql)
		note := elementByID(t, b.consentPage(rp.authURL("scope", "openid email")).Text, "consent-email")
		if want == "" != (note == nil) || note != nil && !strings.HasPrefix(strings.TrimSpace(elementText(note)), want) {
			t.Errorf("%s: not %q", sql, want)
		}
		if note := elementByID(t, b.consentPage(rp.authURL("scope", "openid profile")).Text, "consent-email"); note != nil {
			t.Errorf("%s: told without a request for it", sql)
		}
	}
}
