package httpd

import (
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/provider"
)

// "That wasn’t me" ends what a thief's session has made: also what would outlive it (L7).
func TestNotMeEndsAllThatASessionHasMade(t *testing.T) {
	l := startLife(t, serviceOptions{Limits: true}, "ada")
	app := l.app("app", func(c *provider.Client) { c.Trusted = true })
	owner, thief := l.signedIn("ada"), l.visitor()
	enter := func(b *browser) *oauth2.Token {
		token, err := app.exchange(answered(t, b.get(app.authURL())).Get("code"))
		noError(t, err)
		return token
	}
	kept := enter(owner)
	l.mails()
	needStatus(t, "thief", thief.login("ada", password), 200)
	token, asking := enter(thief), l.app("asking", func(*provider.Client) {})
	form := url.Values{"link": {linkIn(l.mail("sign-in", "ada@example.org"), "/not-me/", "link")}}
	thief.authorize(asking.authURL(), "ada")
	second := l.visitor()
	needStatus(t, "a second one of the thief", second.login("ada", password), 200)
	invite := second.invite()
	page := needStatus(t, "not me", l.visitor().postForm("/not-me/", form), 200)
	wantStatus(t, "session", thief.me(), 401)
	wantStatus(t, "the second session", second.me(), 401)
	wantProblem(t, "the invite", l.visitor().register(invite, "mallory"), 400, "invalid_invite")
	wantInvalidGrant(t, "refresh", app.refresh(token.RefreshToken))
	l.wantUserinfo("userinfo", token.AccessToken, 401)
	wantStatus(t, "the owner's session", owner.me(), 401)
	wantInvalidGrant(t, "the owner's application", app.refresh(kept.RefreshToken))
	wantProblem(t, "the old password", l.visitor().login("ada", password), 403, "password_disowned")
	reset := url.Values{"handle": {"ada"}, "code": {valueOf(t, page.Text, "code")}, "password": {"another of 3 hills"}}
	wantStatus(t, "new password", l.visitor().postForm("/reset-password/", reset), 200)
	needStatus(t, "the owner", owner.login("ada", "another of 3 hills"), 200)
	owner.consentPage(asking.authURL()) // what the thief allowed is asked again

	// The address no longer belongs to the owner: it shares the limit of the account with all others.
	for range 10 {
		wantStatus(t, "guess", l.visitor().login("ada", "not the password"), 401)
	}
	wantProblem(t, "the thief's address", thief.login("ada", "another of 3 hills"), 429, "rate_limited")
	wantStatus(t, "the owner's address", owner.login("ada", "another of 3 hills"), 200)
	// Nor is the browser. The mails of an hour count in the next one too.
	l.later(2 * time.Hour)
	l.mails()
	needStatus(t, "once more", thief.login("ada", "another of 3 hills"), 200)
	l.mail("the next sign-in of that browser", "ada@example.org")
}

// valueOf returns the value of a hidden field of a page.
func valueOf(t *testing.T, page, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, `name="`+name+`" value="`)
	value, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("no field %s in %s", name, mainOf(page))
	}
	return html.UnescapeString(value)
}
