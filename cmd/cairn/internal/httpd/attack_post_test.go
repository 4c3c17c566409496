package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A form of another site arrives without the session cookie (SameSite=Lax). The
// request goes on by GET, where the cookie is: nobody who is signed in is sent
// to the sign-in page or told "login_required".
func TestPostedRequestNeverLosesTheSession(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	posted := func(change ...string) response {
		u, _ := url.Parse(rp.authURL(change...))
		return s.browser().postForm("/oauth2/authorize", u.Query(), "Origin", "https://app.example.org", "Sec-Fetch-Site", "cross-site")
	}
	for _, change := range [][]string{nil, {"prompt", "none"}, {"max_age", "1000"}, {"response_mode", "form_post"}} {
		got := posted(change...)
		continuationOf(t, got, "/oauth2/authorize")
		if _, answer := answerOf(t, b.get(got.Header.Get("Location"))); answer.Get("code") == "" || answer.Get("state") != rp.state {
			t.Errorf("%v: %v", change, answer)
		}
	}
	// The detour is no proof of a fresh sign-in, in the same second or later.
	for _, change := range [][]string{{"prompt", "login"}, {"max_age", "0"}, {"prompt", "select_account"}} {
		b.signIn("ada")
		got := posted(change...)
		for range 2 {
			login := b.get(got.Header.Get("Location"))
			sealed := continuationOf(t, login, "/login/")
			continuationOf(t, b.get("/oauth2/authorize?"+url.Values{"continue": {sealed}}.Encode()), "/login/")
		}
		if _, answer := answerOf(t, b.follow(b.get(got.Header.Get("Location")), "ada")); answer.Get("code") == "" {
			t.Errorf("%v: %v", change, answer)
		}
	}
	// Nobody signed in: the detour ends at the sign-in page, once, or in the error.
	fresh := s.browser()
	got := fresh.follow(posted(), "ada")
	if _, answer := answerOf(t, got); answer.Get("code") == "" {
		t.Errorf("signed in on the way: %v", answer)
	} else if got := s.tokenRequest("app", secret, rp.codeForm(answer.Get("code"))); got.StatusCode != http.StatusOK {
		t.Errorf("exchange: %d %s", got.StatusCode, got.Text)
	}
	if _, answer := answerOf(t, s.browser().follow(posted("prompt", "none"), "ada")); answer.Get("error") != "login_required" {
		t.Errorf("nobody, silently: %v", answer)
	}
	// What is wrong is told at once.
	if _, answer := answerOf(t, posted("response_type", "token")); answer.Get("error") != "unsupported_response_type" {
		t.Errorf("wrong request: %v", answer)
	}
}

// The longest request comes back from the sign-in page as it went.
func TestLongRequestNeverGetsLostOnTheWay(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	base := rp.authURL()
	query := base[strings.Index(base, "?")+1:]
	var more strings.Builder
	for i := 0; len(query)+more.Len() < 4080; i++ {
		more.WriteString("&" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + "=")
	}
	for name, u := range map[string]string{"many parameters": base + more.String(), "long state": rp.authURL("state", strings.Repeat("&", 1200))} {
		if _, answer := answerOf(t, s.browser().follow(s.browser().get(u), "ada")); answer.Get("code") == "" || answer.Get("state") == "" {
			t.Errorf("%s: %v", name, answer)
		}
	}
	wantPage(t, "too long", s.browser().get(base+"&x="+strings.Repeat("x", 4096)), http.StatusBadRequest)
}
