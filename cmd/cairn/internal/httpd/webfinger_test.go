package httpd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
)

// WebFinger names the issuer for every account of the domain alike, and for no other.
func TestWebFinger(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.Issuer = "https://id.club.example:8443/sso" }}, "ada")
	const issuer = `"links":[{"rel":"http://openid.net/specs/connect/1.0/issuer","href":"https://id.club.example:8443/sso"}]`
	root := strings.TrimSuffix(s.browser().base, "/sso")
	for _, c := range []struct {
		query  string
		status int
		want   string
	}{
		{"resource=acct:ada@club.example", 200, `{"subject":"acct:ada@club.example",` + issuer},
		{"resource=acct:nobody@club.example", 200, `{"subject":"acct:nobody@club.example",` + issuer},
		{"resource=mailto:ada@ID.club.example", 200, issuer}, {"resource=acct:ada@id.club.example:8443", 200, issuer}, {"resource=acct:ada@club.example&rel=http://openid.net/specs/connect/1.0/issuer", 200, issuer},
		{"resource=acct:ada@club.example&rel=avatar", 200, `"links":[]`}, {"resource=acct:ada@club.example&rel=avatar&rel=http://openid.net/specs/connect/1.0/issuer", 200, issuer},
		{"resource=acct:ada@example", 404, ""}, {"resource=acct:ada@other.example", 404, ""}, {"resource=acct:ada@notclub.example", 404, ""},
		{"resource=acct:ada@mail.club.example", 404, ""}, {"resource=acct:ada@d.club.example", 404, ""},
		{"resource=acct:@club.example", 404, ""}, {"resource=https://club.example/ada", 404, ""},
		{"", 400, ""}, {"resource=ada", 400, ""}, {"resource=acct:a@club.example&resource=acct:b@club.example", 400, ""},
		{"resource=acct:" + strings.Repeat("a", 600) + "@club.example", 400, ""},
	} {
		got := s.browser().get(root+"/.well-known/webfinger?"+c.query, "Origin", "https://app.example", "Accept", "application/json")
		if got.StatusCode != c.status || !strings.Contains(got.Text, c.want) || got.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%.80s: %d %s, %v", c.query, got.StatusCode, got.Text, got.Header)
		}
		if kind := got.Header.Get("Content-Type"); (c.status == 200) != (kind == "application/jrd+json") {
			t.Errorf("%s: %s", c.query, kind)
		}
	}
}

// prompt=create leads to the page on which people join, and from there back to the application.
func TestPromptCreateLeadsToRegistration(t *testing.T) {
	s, rp := startApp(t, nil)
	invite := s.signedIn("ada").invite()
	meta := s.browser().get("/.well-known/openid-configuration").JSON(t)
	if !slices.Contains(meta["prompt_values_supported"].([]any), any("create")) {
		t.Errorf("discovery: %v", meta["prompt_values_supported"])
	}
	wantAnswer(t, "with none", answered(t, s.browser().get(rp.authURL("prompt", "create none"))), "invalid_request")
	for name, b := range map[string]*browser{"signed out": s.browser(), "signed in": s.signedIn("ada")} {
		next := b.get(rp.authURL("prompt", "create")).Header.Get("Location")
		page := b.get(next)
		if !strings.HasPrefix(next, "/register/?continue=") || pageName(t, page.Text) != "register" {
			t.Fatalf("%s: %s, %s", name, next, page.Text)
		}
		if name == "signed in" {
			continue
		}
		sent := b.send(page, "code", invite, "handle", "eve", "password", password, "display_name", "Eve")
		got := answered(t, b.follow(sent, "eve"))
		wantAnswer(t, name, got, "code")
		token, err := rp.exchange(got.Get("code"))
		noError(t, err)
		if info := s.userinfo(token.AccessToken); info["preferred_username"] != "eve" {
			t.Errorf("%s: %v", name, info)
		}
	}
}

// Who has joined for a request is not asked to join again, however long its page waits.
func TestPromptCreateOfNewMemberMayWait(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	for handle, more := range map[string][]string{"bo": nil, "eve": {"max_age", "60"}} {
		invite, b := s.signedIn("ada").invite(), s.visitor()
		page := b.opened(rp.authURL(append(more, "prompt", "create", "scope", "openid profile")...), "register")
		later(30 * time.Second)
		joined := b.send(page, "code", invite, "handle", handle, "password", password)
		page = b.opened(joined.Header.Get("Location"), "consent")
		later(11 * time.Minute)
		got := b.get(b.send(page, "decision", "allow").Header.Get("Location"))
		if next := got.Header.Get("Location"); strings.HasPrefix(next, "/login/") != (more != nil) || strings.HasPrefix(next, "/register/") {
			t.Fatalf("%s: Allow after eleven minutes leads to %s", handle, next)
		}
		wantAnswer(t, handle, answered(t, b.follow(got, handle)), "code")
	}
	b := s.visitor()
	page := b.opened(rp.authURL("prompt", "create", "scope", "openid offline_access"), "register")
	later(30 * time.Second)
	page = b.opened(b.send(b.get(linkTo(t, page, "/login/")), "handle", "ada", "password", password).Header.Get("Location"), "consent")
	later(11 * time.Minute)
	if next := b.get(b.send(page, "decision", "allow").Header.Get("Location")).Header.Get("Location"); !strings.HasPrefix(next, "/login/") {
		t.Errorf("a member whose sign-in is no longer fresh is sent to %s", next)
	}
}

// linkTo is the address of the first link of a page that begins with the path.
func linkTo(t *testing.T, page response, path string) string {
	t.Helper()
	for n := range mustParse(t, page.Text).Descendants() {
		if href := attribute(n, "href"); n.Data == "a" && strings.HasPrefix(href, path) {
			return href
		}
	}
	t.Fatalf("no link to %s: %s", path, mainOf(page.Text))
	return ""
}

// Whoever has an account gets to the application from the page on which people join, also signed in, and
// the request is kept on the way of those who ask to join.
func TestPromptCreateOffersTheSignInToMembers(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada")
	rp := l.app("app", nil, "openid", "profile")
	for _, c := range []struct{ registration, page string }{{"invite", "register"}, {"request", "join"}, {"closed", "register"}} {
		needStatus(t, c.registration, l.admin(`PUT /settings {"registration":"`+c.registration+`"}`), 200)
		for name, b := range map[string]*browser{"signed in": l.signedIn("ada"), "signed out": l.visitor()} {
			page := b.opened(rp.authURL("prompt", "create"), c.page)
			signIn := b.get(linkTo(t, page, "/login/"))
			if signIn.StatusCode != 200 || pageName(t, signIn.Text) != "login" {
				t.Fatalf("%s, %s: the link to sign in: %d to %s", c.registration, name, signIn.StatusCode, signIn.Header.Get("Location"))
			}
			got := b.send(signIn, "handle", "ada", "password", password)
			wantAnswer(t, c.registration+", "+name, answered(t, b.follow(got, "ada")), "code")
		}
	}
	needStatus(t, "request", l.admin(`PUT /settings {"registration":"request"}`), 200)
	b := l.visitor()
	page := b.opened(rp.authURL("prompt", "create"), "join")
	page = needStatus(t, "no address", b.send(page, "name", "Eve", "reason", "Runs.", "email", "eve"), 400)
	joined := b.send(b.get(linkTo(t, page, "/register/")), "code", l.keeper.invite(), "handle", "eve", "password", password)
	wantAnswer(t, "joined by a code", answered(t, b.follow(joined, "nobody")), "code")
}
