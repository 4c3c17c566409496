package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
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
	// The button is for one request, session and account.
	eve := s.browser()
	eve.signIn("eve")
	age()
	hers, _ := eve.signInPage(t, rp.authURL("prompt", "select_account"))
	sealed := pageForm(t, hers.Text).values.Get("continue")
	for name, sent := range map[string]url.Values{
		"another's": choice(b, "prompt", "select_account"), "no token": {"continue": {sealed}},
		"no session": choice(s.browser(), "prompt", "select_account"),
	} {
		if sent == nil {
			continue // nobody is signed in: no button
		}
		if got := press(eve, sent); !strings.HasPrefix(got.Header.Get("Location"), "/login/?") {
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
