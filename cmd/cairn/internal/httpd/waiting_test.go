package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

// startWaiting starts a service with a client, whose time moves when it is told to.
func startWaiting(t *testing.T, change func(*provider.Client)) (*service, *relyingParty, func(time.Duration)) {
	t.Helper()
	begin, ahead := time.Now().UTC().Truncate(time.Second), new(atomic.Int64)
	s := startService(t, serviceOptions{Now: func() time.Time { return begin.Add(time.Duration(ahead.Load())) }})
	s.addUser("ada")
	return s, s.app("app", change), func(d time.Duration) { ahead.Add(int64(d)) }
}

// opened is the page that a request leads to.
func (b *browser) opened(address, page string) response {
	b.t.Helper()
	got := b.get(b.get(address).Header.Get("Location"))
	if pageName(b.t, got.Text) != page {
		b.t.Fatalf("%d, page %q, want %q", got.StatusCode, pageName(b.t, got.Text), page)
	}
	return got
}

// send submits the form of a page with the values.
func (b *browser) send(page response, more ...string) response {
	b.t.Helper()
	f := pageForm(b.t, page.Text)
	for i := 0; i+1 < len(more); i += 2 {
		f.values.Set(more[i], more[i+1])
	}
	return b.postForm(f.action, f.values)
}

func TestSignInPageMayBeLeftOpen(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	for _, wait := range []time.Duration{11 * time.Minute, 72 * time.Hour} {
		for _, more := range [][]string{nil, {"prompt", "login"}, {"max_age", "60"}, {"max_age", "0"}} {
			b := s.visitor()
			page := b.opened(rp.authURL(more...), "login")
			later(wait)
			// One sign-in is enough: the page of a second one would end here.
			got := b.send(page, "handle", "ada", "password", password)
			for got.StatusCode == http.StatusSeeOther && strings.HasPrefix(got.Header.Get("Location"), "/") {
				got = b.get(got.Header.Get("Location"))
			}
			if got.StatusCode == http.StatusOK {
				if pageName(t, got.Text) != "consent" {
					t.Fatalf("%v %v: page %q: %s", wait, more, pageName(t, got.Text), mainOf(got.Text))
				}
				got = b.follow(b.send(got, "decision", "allow"), "nobody")
			}
			answer := answered(t, got)
			wantAnswer(t, wait.String(), answer, "code")
			token, err := rp.exchange(answer.Get("code"))
			noError(t, err)
			if id := rp.idToken(token); id.Nonce != rp.nonce {
				t.Errorf("%v: nonce %q", wait, id.Nonce)
			}
		}
	}
}

// A sign-in during the first wait does not count for prompt=login after the next.
func TestWaitingRequestAsksForFreshSignIn(t *testing.T) {
	s, rp, later := startWaiting(t, func(c *provider.Client) { c.Trusted = true })
	b := s.visitor()
	page := b.opened(rp.authURL("prompt", "login"), "login")
	later(time.Minute)
	b.signIn("ada")
	later(20 * time.Minute)
	got := b.get("/oauth2/authorize?continue=" + pageForm(t, page.Text).values.Get("continue"))
	if next := got.Header.Get("Location"); !strings.HasPrefix(next, "/login/") {
		t.Fatalf("a sign-in of 20 minutes ago: %d %s", got.StatusCode, next)
	}
	wantAnswer(t, "after a sign-in", answered(t, b.follow(got, "ada")), "code")
}

func TestAllowIsAskedAgainAfterTenMinutes(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	later(11 * time.Minute)
	got := b.send(page, "decision", "allow")
	for got.StatusCode == http.StatusSeeOther && strings.HasPrefix(got.Header.Get("Location"), "/") {
		got = b.get(got.Header.Get("Location"))
	}
	if got.StatusCode != http.StatusOK || pageName(t, got.Text) != "consent" {
		t.Fatalf("old Allow: %d %s", got.StatusCode, mainOf(got.Text))
	}
	wantAnswer(t, "Allow", answered(t, b.get(b.send(got, "decision", "allow").Header.Get("Location"))), "code")
	// The reloaded page, too.
	reloaded := b.consentPage(rp.authURL("prompt", "consent"))
	address := reloaded.Request.URL.RequestURI()
	later(11 * time.Minute)
	if got := b.follow(b.get(address), "ada"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("reloaded: %d %s", got.StatusCode, mainOf(got.Text))
	}
}

func TestNewMemberOfWaitingRequestReachesTheApplication(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	code := s.signedIn("ada").invite()
	b := s.visitor()
	sealed := pageForm(t, b.opened(rp.authURL(), "login").Text).values.Get("continue")
	page := b.get("/register/?code=" + code + "&continue=" + sealed)
	later(11 * time.Minute)
	got := b.follow(b.send(page, "handle", "bo", "password", password), "nobody")
	wantAnswer(t, "registered", answered(t, got), "code")
}

func TestApplicationThatForgotItsRequestIsStartedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*provider.Client)
		back   string
	}{
		"home page":          {func(c *provider.Client) { c.HomeURI = "https://app.example.org/" }, "https://app.example.org/"},
		"initiate_login_uri": {func(c *provider.Client) { c.InitiateLoginURI = "https://app.example.org/login?x=1" }, "https://app.example.org/login?x=1&iss="},
	} {
		s, rp, later := startWaiting(t, c.change)
		b := s.visitor()
		page := b.opened(rp.authURL(), "login")
		later(11 * time.Minute)
		again := b.get("/oauth2/authorize?continue=" + pageForm(t, page.Text).values.Get("continue")) // sealed anew
		page = b.get(again.Header.Get("Location"))
		later(50 * time.Minute)
		got := b.get(b.send(page, "handle", "ada", "password", password).Header.Get("Location"))
		if got.StatusCode != http.StatusOK || pageName(t, got.Text) != "go-back" {
			t.Fatalf("%s: %d %s", name, got.StatusCode, mainOf(got.Text))
		}
		want := c.back
		if strings.HasSuffix(want, "iss=") {
			want += url.QueryEscape(s.URL)
		}
		if link := elementByID(t, got.Text, "go-back"); link == nil || attribute(link, "href") != want {
			t.Errorf("%s: %s, want a link to %s", name, mainOf(got.Text), want)
		}
		if got := b.me(); got.StatusCode != http.StatusOK {
			t.Errorf("%s: not signed in: %d", name, got.StatusCode)
		}
	}
}

func TestExpiredPushedRequestNamesItsApplication(t *testing.T) {
	s, _, later := startWaiting(t, nil)
	secret := s.addClient("wiki", func(c *provider.Client) { c.Name, c.HomeURI = "Wiki", "https://wiki.example.org/" })
	rp := s.relyingParty("wiki", secret)
	named := func(what string, got response) {
		t.Helper()
		link := elementByID(t, got.Text, "client-back")
		if got.StatusCode != http.StatusBadRequest || link == nil || attribute(link, "href") != "https://wiki.example.org/" || !strings.Contains(elementText(link), "Wiki") {
			t.Errorf("%s: %d %s", what, got.StatusCode, mainOf(got.Text))
		}
	}
	b := s.visitor()
	address := s.pushedURL("wiki", s.push("wiki", secret, rp.pushed()))
	page := b.opened(address, "login")
	later(11 * time.Minute)
	named("page left open", b.get(b.send(page, "handle", "ada", "password", password).Header.Get("Location")))
	named("reference opened late", b.get(address))
}

func TestSignOutPageMayBeLeftOpen(t *testing.T) {
	s, _, later := startWaiting(t, nil)
	b, other := s.signedIn("ada"), s.signedIn("ada")
	page := b.get("/oauth2/logout")
	later(11 * time.Minute)
	wantStatus(t, "form of another session", b.postForm("/oauth2/logout", pageForm(t, other.get("/oauth2/logout").Text).values), http.StatusForbidden)
	if got := b.send(page); got.StatusCode != http.StatusOK || pageName(t, got.Text) != "signed-out" {
		t.Fatalf("%d %s", got.StatusCode, mainOf(got.Text))
	}
	wantStatus(t, "afterwards", b.me(), http.StatusUnauthorized)
}
