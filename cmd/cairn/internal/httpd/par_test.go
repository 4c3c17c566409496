package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

const requestURIPrefix = "urn:ietf:params:oauth:request_uri:"

// pushed is the authorization request of rp as it is pushed.
func (rp *relyingParty) pushed(more ...string) url.Values {
	u, err := url.Parse(rp.authURL(more...))
	noError(rp.t, err)
	return u.Query()
}

// push returns the request_uri of a request that must be accepted.
func (s *service) push(id, secret string, form url.Values) string {
	s.t.Helper()
	got := s.clientPost("par", id, secret, form)
	if got.StatusCode != http.StatusCreated || got.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("push: %d %s", got.StatusCode, got.Text)
	}
	answer := got.JSON(s.t)
	uri, _ := answer["request_uri"].(string)
	if random, ok := strings.CutPrefix(uri, requestURIPrefix); !ok || len(random) < 43 || answer["expires_in"] != float64(60) {
		s.t.Fatalf("push: %v", answer)
	}
	return uri
}

func (s *service) pushedURL(id, requestURI string) string {
	return s.URL + "/oauth2/authorize?" + url.Values{"client_id": {id}, "request_uri": {requestURI}}.Encode()
}

func TestPushedRequest(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	secret := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	for _, c := range []struct{ id, secret string }{{"app", secret}, {"phone", ""}} {
		rp := s.relyingParty(c.id, c.secret)
		b := s.browser()
		// Through sign-in and consent, then at once; by GET and by POST.
		for round := range 3 {
			uri := s.push(c.id, c.secret, rp.pushed())
			var got response
			if round == 2 {
				got = b.postForm("/oauth2/authorize", url.Values{"client_id": {c.id}, "request_uri": {uri}})
			} else {
				got = b.get(s.pushedURL(c.id, uri))
			}
			target, answer := answerOf(t, b.follow(got, "ada"))
			if target != callbackOf(c.id) || answer.Get("state") != rp.state || answer.Get("iss") != s.URL {
				t.Fatalf("%s: %s %v", c.id, target, answer)
			}
			token, err := rp.exchange(answer.Get("code"))
			if err != nil {
				t.Fatalf("%s: %v", c.id, err)
			}
			if id := rp.idToken(token); id.Nonce != rp.nonce {
				t.Errorf("%s: nonce %q", c.id, id.Nonce)
			}
		}
		for _, mode := range []string{"form_post", "fragment"} {
			uri := s.push(c.id, c.secret, rp.pushed("prompt", "none", "response_mode", mode))
			target, answer := answerOf(t, s.browser().get(s.pushedURL(c.id, uri)))
			if target != callbackOf(c.id) || answer.Get("error") != "login_required" || answer.Get("state") != rp.state {
				t.Errorf("%s: prompt=none: %s %v", c.id, target, answer)
			}
		}
	}
}

func TestPushedRequestIsUsedOnceInTimeByItsClient(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	secret := s.addClient("app", nil)
	s.addClient("evil", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	uri := s.push("app", secret, rp.pushed())
	for name, u := range map[string]string{
		"another client": s.pushedURL("evil", uri), "unknown client": s.pushedURL("nobody", uri), "no client": s.URL + "/oauth2/authorize?request_uri=" + url.QueryEscape(uri),
		"unknown": s.pushedURL("app", requestURIPrefix+"x"), "empty": s.pushedURL("app", requestURIPrefix), "longer": s.pushedURL("app", uri+"A"), "shorter": s.pushedURL("app", uri[:len(uri)-1]), "other case": s.pushedURL("app", strings.ToUpper(uri)),
		"huge": s.pushedURL("app", requestURIPrefix+strings.Repeat("A", 3000)), "NUL": s.pushedURL("app", uri+"\x00"), "twice": s.pushedURL("app", uri) + "&request_uri=" + url.QueryEscape(uri), "two clients": s.pushedURL("app", uri) + "&client_id=evil",
	} {
		wantPage(t, name, b.get(u), http.StatusBadRequest)
	}
	// What stands beside it does not count, whatever it is.
	beside := s.push("app", secret, rp.pushed())
	got := b.get(rp.authURL("request_uri", beside, "redirect_uri", "https://evil.example/", "prompt", "none login", "scope", "admin", "state", "another-state"))
	if to := got.Header.Get("Location"); !strings.HasPrefix(to, callbackOf("app")+"?") || !strings.Contains(to, "code=") || !strings.Contains(to, "state="+rp.state) {
		t.Errorf("beside other parameters: %d to %q", got.StatusCode, to)
	}
	// Until it is answered it can be opened again: a page is loaded twice, or somebody goes back.
	for range 2 {
		again := s.browser().get(s.pushedURL("app", uri))
		if to := again.Header.Get("Location"); again.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/login/") {
			t.Errorf("opened before it is answered: %d to %q", again.StatusCode, to)
		}
	}
	second := s.browser().get(s.pushedURL("app", uri))
	if got := inParallel(16, func(int) int { return b.get(s.pushedURL("app", uri)).StatusCode }); got[http.StatusSeeOther] != 1 {
		t.Errorf("one pushed request, 16 times: %v", got)
	}
	wantPage(t, "used", b.get(s.pushedURL("app", uri)), http.StatusBadRequest)
	sealed, err := url.Parse(second.Header.Get("Location"))
	noError(t, err)
	for _, when := range []string{"answered meanwhile", "ten minutes ago"} {
		wantPage(t, when, b.get("/oauth2/authorize?"+url.Values{"continue": sealed.Query()["continue"]}.Encode()), http.StatusBadRequest)
		db.exec("UPDATE client_assertions SET expires_at = expires_at - 600")
	}
	uri = s.push("app", secret, rp.pushed())
	db.exec("UPDATE pushed_requests SET expires_at = expires_at - 60")
	wantPage(t, "late", b.get(s.pushedURL("app", uri)), http.StatusBadRequest)
}

func TestPushedRequestKeepsItsParametersAlone(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	rp := s.app("app", func(c *provider.Client) { c.AuthMethod = provider.AuthPost })
	secret := rp.config.ClientSecret
	form := rp.pushed("client_secret", secret, "continue", "x", "decision", "allow", "extra", "value")
	got := s.clientPost("par", "", "", form)
	if got.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", got.StatusCode, got.Text)
	}
	var query string
	noError(t, db.db.QueryRowContext(t.Context(), "SELECT query FROM pushed_requests").Scan(&query))
	kept, err := url.ParseQuery(query)
	noError(t, err)
	names := make([]string, 0, len(kept))
	for name := range kept {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"client_id", "code_challenge", "code_challenge_method", "nonce", "redirect_uri", "response_type", "scope", "state"}; !slices.Equal(names, want) {
		t.Errorf("kept %v, want %v", names, want)
	}
	if strings.Contains(query, secret) || strings.Contains(s.log.String(), secret) {
		t.Error("the secret was kept")
	}
	// The reference stands in no column.
	random := strings.TrimPrefix(got.JSON(t)["request_uri"].(string), requestURIPrefix)
	if n := db.count("SELECT count(*) FROM pushed_requests WHERE hash = ? OR query LIKE ?", []byte(random), "%"+random+"%"); n != 0 {
		t.Error("the request_uri can be read in the database")
	}
}

func TestWrongRequestIsNotPushed(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	secret := s.addClient("app", nil)
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	other := s.addClient("other", nil)
	rp, public := s.relyingParty("app", secret), s.relyingParty("phone", "")
	for name, c := range map[string]struct {
		change []string
		want   string
	}{
		"redirect_uri": {[]string{"redirect_uri", "https://evil.example/"}, "invalid_request"}, "no redirect_uri": {[]string{"redirect_uri", ""}, "invalid_request"}, "redirect_uri with more": {[]string{"redirect_uri", callbackOf("app") + "?x"}, "invalid_request"},
		"request_uri": {[]string{"request_uri", requestURIPrefix + "x"}, "invalid_request"}, "request": {[]string{"request", "a.b.c"}, "invalid_request"}, "registration": {[]string{"registration", "{}"}, "invalid_request"},
		"response_type": {[]string{"response_type", "token"}, "unsupported_response_type"}, "no response_type": {[]string{"response_type", ""}, "invalid_request"}, "response_mode": {[]string{"response_mode", "web_message"}, "unsupported_response_mode"},
		"plain": {[]string{"code_challenge_method", "plain"}, "invalid_request"}, "no method": {[]string{"code_challenge_method", ""}, "invalid_request"}, "short challenge": {[]string{"code_challenge", "x"}, "invalid_request"},
		"prompt": {[]string{"prompt", "odd"}, "invalid_request"}, "max_age": {[]string{"max_age", "x"}, "invalid_request"}, "claims": {[]string{"claims", "{"}, "invalid_request"}, "too long": {[]string{"state", strings.Repeat("a", 5000)}, "invalid_request"},
	} {
		wantOAuthError(t, name, s.clientPost("par", "app", secret, rp.pushed(c.change...)), http.StatusBadRequest, c.want)
	}
	wantOAuthError(t, "public client without a challenge",
		s.clientPost("par", "phone", "", public.pushed("code_challenge", "", "code_challenge_method",
			"")), http.StatusBadRequest, "invalid_request")
	wantOAuthError(t, "another client's request", s.clientPost("par", "other", other, rp.pushed()), http.StatusUnauthorized, "invalid_client")
	wantOAuthError(t, "another client's redirect_uri", s.clientPost("par", "other", other, rp.pushed("client_id", "other")), http.StatusBadRequest, "invalid_request")
	wantOAuthError(t, "repeated", s.browser().postForm("/oauth2/par", url.Values{"client_id": {"phone"}, "nonce": {"a", "b"}}), http.StatusBadRequest, "invalid_request")
	same(t, "requests were kept", db.count("SELECT count(*) FROM pushed_requests"), 0)
	mend := db.breaks("INSERT ON pushed_requests")
	wantUnavailable(t, "push", s.clientPost("par", "app", secret, rp.pushed()))
	mend()
	uri := s.push("app", secret, rp.pushed())
	s.addUser("ada")
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	mend = db.breaks("INSERT ON client_assertions")
	wantPage(t, "authorize", b.get(s.pushedURL("app", uri)), http.StatusServiceUnavailable)
	mend()
	if answered(t, b.get(s.pushedURL("app", uri))).Get("code") == "" {
		t.Error("no code afterwards")
	}
}
