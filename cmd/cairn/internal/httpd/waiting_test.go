package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/provider"
)

// startWaiting starts a service with a client, whose time moves when it is told to.
func startWaiting(t *testing.T, change func(*provider.Client)) (*service, *relyingParty, func(time.Duration)) {
	t.Helper()
	begin, ahead := time.Now().UTC().Truncate(time.Second), new(atomic.Int64)
	s := startService(t, serviceOptions{Now: func() time.Time { return begin.Add(time.Duration(ahead.Load())) }}, "ada")
	return s, s.app("app", change), func(d time.Duration) { ahead.Add(int64(d)) }
}

// opened is the page that a request leads to.
func (b *browser) opened(address, page string) response {
	b.t.Helper()
	got := b.get(b.get(address).Header.Get("Location"))
	if pageName(b.t, got.Text) != page {
		b.t.Fatalf("%s: %d, page %q, want %q", address, got.StatusCode, pageName(b.t, got.Text), page)
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
			got := b.fill(12, b.send(page, "handle", "ada", "password", password), answersOf("", ""))
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

// A sign-in in another tab is as old as it is when the page goes on.
func TestMaxAgeIsCountedWhenAWaitingPageGoesOn(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	b := s.visitor()
	page := b.opened(rp.authURL("max_age", "300", "scope", "openid"), "login")
	b.signIn("ada")
	later(11 * time.Minute)
	continuationOf(t, b.get("/oauth2/authorize?continue="+pageForm(t, page.Text).values.Get("continue")), "/login/")
}

// A password manager opens the address that it has saved for ever.
func TestSavedAddressOfSignInPageSignsInForEver(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	b := s.visitor()
	saved := b.get(rp.authURL()).Header.Get("Location")
	open := b.get(saved)
	later(31 * 24 * time.Hour)
	for what, page := range map[string]response{"left open": open, "opened": b.get(saved)} {
		if got := s.visitor().send(page, "handle", "ada", "password", password); got.Header.Get("Location") != "/account/" {
			t.Errorf("%s: %d to %q", what, got.StatusCode, got.Header.Get("Location"))
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

// The sign-in for a request that waited counts for its way back, too.
func TestWayBackOfWaitingRequestAsksForNoSignIn(t *testing.T) {
	s, rp, later := startWaiting(t, func(c *provider.Client) { c.RequireFlags = []string{account.FlagActivity} })
	b := s.visitor()
	page := b.opened(rp.authURL("prompt", "login"), "login")
	later(11 * time.Minute)
	denied := b.get(b.send(page, "handle", "ada", "password", password).Header.Get("Location"))
	back := elementByID(t, denied.Text, "access-denied-back")
	if denied.StatusCode != http.StatusForbidden || back == nil {
		t.Fatalf("%d %s", denied.StatusCode, mainOf(denied.Text))
	}
	wantAnswer(t, "back", answered(t, b.get(attribute(back, "href"))), "access_denied")
}

func TestAllowIsAskedAgainAfterTenMinutes(t *testing.T) {
	s, rp, later := startWaiting(t, nil)
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL("scope", "openid profile"))
	later(11 * time.Minute)
	got := b.fill(12, b.send(page, "decision", "allow"), answersOf("", ""))
	if got.StatusCode != http.StatusOK || pageName(t, got.Text) != "consent" {
		t.Fatalf("old Allow: %d %s", got.StatusCode, mainOf(got.Text))
	}
	again(t, "Allow after eleven minutes", got, "open for more than ten minutes")
	wantAnswer(t, "Allow", answered(t, b.get(b.send(got, "decision", "allow").Header.Get("Location"))), "code")
	// The reloaded page, too.
	reloaded := b.consentPage(rp.authURL("scope", "openid profile", "prompt", "consent"))
	address := reloaded.Request.URL.RequestURI()
	later(11 * time.Minute)
	wantAnswer(t, "reloaded", answered(t, b.follow(b.get(address), "ada")), "code")
}

// again checks why a consent page says that it asks again.
func again(t *testing.T, what string, page response, why string) {
	t.Helper()
	said := ""
	if n := elementByID(t, page.Text, "consent-again"); n != nil {
		said = elementText(n)
	}
	if (why == "") != (said == "") || !strings.Contains(said, why) {
		t.Errorf("%s: it says %q, want %q", what, said, why)
	}
}

func TestConsentPageSaysWhyItAsksAgain(t *testing.T) {
	s, rp, _ := startWaiting(t, nil)
	b := s.signedIn("ada")
	allow := func(what, why string, more ...string) response {
		t.Helper()
		page := b.consentPage(rp.authURL(more...))
		again(t, what, page, why)
		wantAnswer(t, what, answered(t, b.get(b.decide(page, "allow"))), "code")
		return page
	}
	lacks(t, "the first page", allow("first", "", "scope", "openid profile").Text, "Now it asks for more")
	allow("prompt=consent", "Confirm that you want to continue", "scope", "openid profile", "prompt", "consent")
	if page := allow("more scopes", "", "scope", "openid profile email"); !strings.Contains(page.Text, "Now it asks for more") {
		t.Errorf("more scopes: %s", mainOf(page.Text))
	}
	needStatus(t, "ended", b.call("DELETE /api/me/apps/app"), http.StatusNoContent)
	allow("ended", "Its access has ended since", "scope", "openid profile")
	other, rp2 := s.signedIn("ada"), s.app("app2", nil)
	again(t, "another application", other.consentPage(rp2.authURL()), "")
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
		signedOut := s.visitor().get("/oauth2/authorize?continue=" + pageForm(t, page.Text).values.Get("continue"))
		has(t, "signed out", signedOut.Header.Get("Location"), "/login/?")
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
		noError(t, s.store.RemoveClient(t.Context(), "app", operator(account.RemoveClient, "app", "")))
		later(time.Minute)
		wantStatus(t, "the page, without the application", s.visitor().get(page.Request.URL.RequestURI()), http.StatusOK)
	}
}

func TestExpiredPushedRequestNamesItsApplication(t *testing.T) {
	s, _, later := startWaiting(t, nil)
	secret := s.addClient("wiki", func(c *provider.Client) { c.Name, c.HomeURI = "Wiki", "https://wiki.example.org/" })
	rp := s.relyingParty("wiki", secret)
	named := func(what string, got response) {
		t.Helper()
		link := elementByID(t, got.Text, "client-back")
		if got.StatusCode != http.StatusBadRequest || link == nil ||
			attribute(link, "href") != "https://wiki.example.org/" || !strings.Contains(elementText(link), "Wiki") {
			t.Errorf("%s: %d %s", what, got.StatusCode, mainOf(got.Text))
		}
	}
	b := s.visitor()
	address := s.pushedURL("wiki", s.push("wiki", secret, rp.pushed()))
	page := b.opened(address, "login")
	later(11 * time.Minute)
	named("page left open", b.get(b.send(page, "handle", "ada", "password", password).Header.Get("Location")))
	named("reference opened late", b.get(address))
	// The page of an answered request does not make a new one of it.
	consent := b.consentPage(s.pushedURL("wiki", s.push("wiki", secret, rp.pushed())))
	wantAnswer(t, "in time", answered(t, b.get(b.decide(consent, "allow"))), "code")
	later(2 * time.Hour)
	named("Allow again", b.send(consent, "decision", "allow"))
	named("page reloaded", b.get(consent.Request.URL.RequestURI()))
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

// Attack 150: the way back is sealed, and leads to a page of this service only.
func TestSignInLeadsToThePageThatWasAskedFor(t *testing.T) {
	s, _, later := startWaiting(t, nil)
	s.addUser("root1", account.FlagAdmin)
	for _, path := range []string{"/account/invites", "/account/security/totp", "/admin/users/?query=a%26b", "/account/invites/slip?code=ABCD"} {
		b := s.visitor()
		page := b.opened(path, "login")
		later(11 * time.Minute)
		if got := b.send(page, "handle", "root1", "password", password); got.Header.Get("Location") != path {
			t.Errorf("%s: %d to %q", path, got.StatusCode, got.Header.Get("Location"))
		}
	}
	for _, path := range []string{"//evil.example", "https://evil.example/", "/\\evil.example", "/account/", "x.y"} {
		form := url.Values{"handle": {"ada"}, "password": {password}, "next": {path}, "continue": {path}}
		got := s.visitor().postForm("/login/", form)
		same(t, path, got.Header.Get("Location"), "/account/")
	}
	// A form that was sent signed out is not repeated by a GET of its address.
	lacks(t, "a form",
		s.visitor().postForm("/account/invites/delete", url.Values{"code": {"x"}}).Header.Get("Location"), "continue")
}

func TestAllowForPrivateSchemeLeavesPageWithTheWayBack(t *testing.T) {
	const uri = "org.example.phone:/cb"
	s, rp, _ := startWaiting(t, func(c *provider.Client) {
		c.Name, c.AuthMethod, c.RedirectURIs = "Phone", provider.AuthNone, []string{uri}
	})
	rp.config.RedirectURL, rp.config.ClientSecret = uri, ""
	b := s.signedIn("ada")
	got := b.get(b.decide(b.consentPage(rp.authURL()), "allow"))
	link := elementByID(t, got.Text, "go-back")
	if got.StatusCode != http.StatusOK || pageName(t, got.Text) != "go-back" || link == nil || !strings.Contains(elementText(link), "Phone") {
		t.Fatalf("%d %s", got.StatusCode, mainOf(got.Text))
	}
	if got.Header.Get("Refresh") != "0;url="+attribute(link, "href") || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", got.Header)
	}
	query, ok := strings.CutPrefix(attribute(link, "href"), uri+"?")
	answer, err := url.ParseQuery(query)
	if !ok || err != nil || answer.Get("state") != rp.state {
		t.Fatalf("link %q", attribute(link, "href"))
	}
	if _, err := rp.exchange(answer.Get("code")); err != nil {
		t.Error(err)
	}
	// Without a question in between there is no page either.
	if got := b.get(rp.authURL("scope", "openid")); got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), uri) {
		t.Errorf("allowed before: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
}

func TestForgottenPasswordLeadsBackToTheApplication(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada")
	rp := l.app("wiki", func(c *provider.Client) { c.Name, c.DeviceGrant = "Wiki", true })
	b := l.visitor()
	sealed := pageForm(t, b.opened(rp.authURL(), "login").Text).values.Get("continue")
	needStatus(t, "asked", b.send(b.get("/forgot-password/?continue="+sealed), "handle", "ada"), http.StatusOK)
	m := l.mail("forgotten", "ada@example.org")
	l.log.wait(t, "nothing is left to tell: the mail with the link is queued")
	phone := l.visitor()
	page := phone.get("/reset-password/?" + linkQuery(t, m.Text))
	done := needStatus(t, "reset", phone.send(page, "password", "another long password"), http.StatusOK)
	link := elementByID(t, done.Text, "reset-login")
	if link == nil || elementText(link) != "Back to Wiki" {
		t.Fatalf("last page: %s", mainOf(done.Text))
	}
	got := phone.send(phone.get(attribute(link, "href")), "handle", "ada", "password", "another long password")
	wantAnswer(t, "after the sign-in", answered(t, phone.follow(got, "ada")), "code")

	// Another person's device waits for this one: its mail is a plain one.
	begun := l.clientPost("device_authorization", "wiki", rp.config.ClientSecret, url.Values{"scope": {"openid"}})
	user, _ := begun.JSON(t)["user_code"].(string)
	eve := l.visitor()
	waiting := eve.postForm("/device", url.Values{"user_code": {user}})
	sealed = continuationOf(t, eve.get(waiting.Header.Get("Location")), "/login/")
	l.mails()
	needStatus(t, "asked", eve.send(eve.get("/forgot-password/?continue="+sealed), "handle", "ada"), http.StatusOK)
	lacks(t, "the mail leads to the device", l.mail("forgotten again", "ada@example.org").Text, "continue=")
}

// linkQuery is the query of the link in a mail.
func linkQuery(t *testing.T, text string) string {
	t.Helper()
	_, query, ok := strings.Cut(text, "/reset-password/?")
	if !ok {
		t.Fatalf("no link: %s", text)
	}
	return strings.Fields(query)[0]
}

func TestProfileOfOlderTabKeepsWhatTheOtherSaved(t *testing.T) {
	s, _, _ := startWaiting(t, nil)
	b := s.signedIn("ada")
	older, newer := ua.FormOf(b.get("/account/profile").Text, "/account/profile"), ua.FormOf(b.get("/account/profile").Text, "/account/profile")
	newer.Values.Set("nickname", "Countess")
	needStatus(t, "newer tab", b.sendForm(newer), http.StatusSeeOther)
	older.Values.Set("given_name", "Augusta")
	older.Values.Set("gender", strings.Repeat("x", 400))
	refused := needStatus(t, "older tab, refused", b.sendForm(older), http.StatusBadRequest)
	older = ua.FormOf(refused.Text, "/account/profile")
	older.Values.Set("gender", "")
	needStatus(t, "older tab", b.sendForm(older), http.StatusSeeOther)
	if me := b.me().JSON(t); me["nickname"] != "Countess" || me["given_name"] != "Augusta" {
		t.Errorf("nickname %v, given name %v", me["nickname"], me["given_name"])
	}
	// On a shared computer, the page is still open when somebody else has signed in.
	s.addUser("bob")
	bob := s.signedIn("bob")
	photo := ua.FormOf(b.get("/account/profile").Text, "/account/picture")
	for _, f := range []*ua.Form{older, photo} {
		got := needStatus(t, "page of another account", bob.sendForm(f), http.StatusConflict)
		has(t, "page of another account", got.Text, "You are signed in as bob. This page was out of date, so nothing was changed.")
	}
}

func TestSpentLinkSaysSoWhenItIsOpened(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada")
	needStatus(t, "forgot", l.visitor().call(`POST /api/auth/forgot-password {"handle":"ada"}`), 200)
	address := "/reset-password/?" + linkQuery(t, l.mail("forgotten", "ada@example.org").Text)
	b := l.visitor()
	page := needStatus(t, "opened", b.get(address), http.StatusOK)
	for _, id := range []string{"handle", "code"} {
		if elementByID(t, page.Text, id) != nil {
			t.Errorf("the page of the link has the field %s", id)
		}
	}
	weak := needStatus(t, "weak", b.send(page, "password", "ada"), http.StatusBadRequest)
	if elementByID(t, weak.Text, "code") != nil {
		t.Error("a refused password brings the fields back")
	}
	needStatus(t, "set", b.send(weak, "password", "another of 3 hills"), http.StatusOK)
	l.mails()
	spent := needStatus(t, "opened again", b.get(address), account.ErrInvalidResetCode.Status)
	if elementByID(t, spent.Text, "spent") == nil || elementByID(t, spent.Text, "password") != nil {
		t.Fatalf("%s", mainOf(spent.Text))
	}
	needStatus(t, "renewed", b.send(spent), http.StatusOK)
	linkQuery(t, l.mail("a new link", "ada@example.org").Text)

	// An invite is made by a member alone, and an undone change needs no other link.
	ada, code := l.visitor(), l.keeper.invite()
	needStatus(t, "sign in", ada.login("ada", "another of 3 hills"), http.StatusOK)
	needStatus(t, "settings", l.keeper.call(`PUT /api/admin/settings {"contact":"Kim at the harbour"}`), http.StatusOK)
	needStatus(t, "joined", l.visitor().register(code, "bo"), http.StatusCreated)
	l.mails()
	told := l.moveEmail(ada, "new@example.org")["ada@example.org"]
	undo := "/undo-email/?" + url.Values{"link": {linkIn(told[0], "/undo-email/", "link")}}.Encode()
	needStatus(t, "undo", b.send(needStatus(t, "undo", b.get(undo), http.StatusOK)), http.StatusOK)
	for path, c := range map[string]struct {
		b   *browser
		ids []string
	}{
		"/register/?code=" + code: {b, []string{"spent", "contact", "register-code"}},
		"/register/?code=AAAA":    {l.keeper, []string{"spent", "register-renew"}},
		undo:                      {b, []string{"error", "contact", "link-renew", "link-password"}},
		"/verify-email/?link=x":   {b, []string{"error", "link-renew"}},
		"/cancel-email/?link=x":   {b, []string{"error", "contact", "link-renew"}},
		"/not-me/?link=x":         {b, []string{"error", "link-renew"}},
	} {
		got := needStatus(t, path, c.b.get(path), http.StatusBadRequest)
		for _, id := range c.ids {
			if elementByID(t, got.Text, id) == nil {
				t.Errorf("%s lacks %s: %s", path, id, mainOf(got.Text))
			}
		}
		for _, id := range []string{"handle", "code", "password", "link-submit", "register"} {
			if elementByID(t, got.Text, id) != nil {
				t.Errorf("%s has %s", path, id)
			}
		}
	}
}
