package httpd

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// Attack 14: the port of a loopback address is free, nothing else is.
func TestLoopbackRedirectNeverOpensMoreThanThePort(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	s.addClient("native", func(c *provider.Client) {
		c.AuthMethod = provider.AuthNone
		c.RedirectURIs = []string{"http://127.0.0.1:9911/cb", "http://[::1]/cb?fixed=1", "http://localhost:7000/cb", "org.example.native:/callback"}
	})
	rp := s.relyingParty("native", "")
	b := s.browser()
	b.signIn("ada")
	for _, uri := range []string{"http://127.0.0.1:9911/cb", "http://127.0.0.1:51004/cb", "http://127.0.0.1/cb", "http://[::1]:51004/cb?fixed=1", "http://localhost:7000/cb", "org.example.native:/callback"} {
		got := b.follow(b.get(rp.authURL("redirect_uri", uri)), "ada")
		location := got.Header.Get("Location")
		if !strings.HasPrefix(location, uri) || !strings.Contains(location, "code=") {
			t.Errorf("%s: %d %s", uri, got.StatusCode, location)
			continue
		}
		u, err := url.Parse(location)
		if err != nil {
			t.Fatal(err)
		}
		form := rp.codeForm(u.Query().Get("code"))
		form.Set("redirect_uri", uri)
		if got := s.tokenRequest("native", "", form); got.StatusCode != http.StatusOK {
			t.Errorf("%s: exchange: %d %s", uri, got.StatusCode, got.Text)
		}
	}
	for _, uri := range []string{
		"http://localhost:51004/cb", "http://localhost/cb", "http://[::1]:9911/cb", "http://127.0.0.2:9911/cb", "http://0.0.0.0:9911/cb", "http://2130706433:9911/cb", "http://0177.0.0.1:9911/cb",
		"http://127.1:9911/cb", "http://[::ffff:127.0.0.1]:9911/cb", "http://[0:0:0:0:0:0:0:1]:80/cb?fixed=1", "http://[::1%25lo]:80/cb?fixed=1", "http://evil@127.0.0.1:51004/cb", "http://127.0.0.1:51004@evil.example/cb",
		"http://127.0.0.1:51004/cb/", "http://127.0.0.1:51004/other", "http://127.0.0.1:51004/cb?x=1", "http://127.0.0.1:51004/cb#", "http://127.0.0.1:51004/%63b", "https://127.0.0.1:9911/cb",
		"http://127.0.0.1.evil.example:9911/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:+1/cb", "http://127.0.0.1:51004\\@evil.example/cb",
		"http://127.0.0.1:51004", "HTTP://127.0.0.1:9911/cb", "http://[::1]:51004/cb", "http://[::1]:51004/cb?fixed=2", "http://[::1]:51004/cb?fixed=1&x=1", "org.example.native:/other", "org.example.native://callback", "org.example.native:callback",
	} {
		wantPage(t, uri, b.get(rp.authURL("redirect_uri", uri)), http.StatusBadRequest)
	}
}

// Attacks 5 to 13 by POST, where a browser arrives with the form of any site.
func TestPostedRequestNeverEscapesTheProofOfItsRedirectURI(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	good, _ := url.Parse(rp.authURL())
	for name, change := range map[string]func(url.Values){
		"other address":    func(v url.Values) { v.Set("redirect_uri", "https://evil.example/") },
		"none":             func(v url.Values) { v.Del("redirect_uri") },
		"two":              func(v url.Values) { v.Add("redirect_uri", "https://evil.example/") },
		"two, other order": func(v url.Values) { v["redirect_uri"] = []string{"https://evil.example/", callbackOf("app")} },
		"the same twice":   func(v url.Values) { v.Add("redirect_uri", callbackOf("app")) },
		"two clients":      func(v url.Values) { v.Add("client_id", "evil") },
		"array":            func(v url.Values) { v["redirect_uri[]"] = v["redirect_uri"]; v.Del("redirect_uri") },
		"unknown client":   func(v url.Values) { v.Set("client_id", "APP") },
	} {
		form, _ := url.ParseQuery(good.RawQuery)
		change(form)
		wantPage(t, name, b.postForm("/oauth2/authorize", form), http.StatusBadRequest)
		wantPage(t, name+" by GET", b.get("/oauth2/authorize?"+form.Encode()), http.StatusBadRequest)
	}
	// Parameters in two places: neither counts.
	wantPage(t, "query and body", b.postForm("/oauth2/authorize?redirect_uri=https://evil.example/", good.Query()), http.StatusBadRequest)
	for name, query := range map[string]string{"semicolon": good.RawQuery + ";redirect_uri=https://evil.example/", "broken escape": good.RawQuery + "&x=%zz"} {
		wantPage(t, name, b.get("/oauth2/authorize?"+query), http.StatusBadRequest)
	}
	got := b.do("POST", "/oauth2/authorize", "application/x-www-form-urlencoded", strings.Repeat("a", 100<<10), "Accept", "text/html")
	if got.StatusCode < 400 || got.StatusCode > 499 || got.Header.Get("Location") != "" {
		t.Errorf("100 KiB: %d", got.StatusCode)
	}
}

// Attacks 20 and 25: every answer names its issuer and is neither cached nor
// posted on, with the registered query kept.
func TestAnswerNeverLacksItsIssuer(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	const uri = "https://app.example.org/cb?tenant=7&x=%20y"
	rp := s.relyingParty("app", s.addClient("app", func(c *provider.Client) { c.RedirectURIs = []string{uri} }))
	rp.config.RedirectURL = uri
	b := s.browser()
	for name, change := range map[string][]string{
		"success": nil, "success without state": {"state", ""}, "nobody": {"prompt", "none", "client_id", "app"}, "bad request": {"response_type", "token"}, "bad request without state": {"response_type", "token", "state", ""},
		"form_post": {"response_mode", "form_post"}, "form_post error": {"response_mode", "form_post", "max_age", "x"},
	} {
		if name == "nobody" {
			b = s.browser()
		}
		got := b.follow(b.get(rp.authURL(change...)), "ada")
		target, answer := answerOf(t, got)
		form := strings.HasPrefix(name, "form_post")
		if answer.Get("iss") != s.URL || got.Header.Get("Cache-Control") != "no-store" || len(answer["iss"]) != 1 {
			t.Errorf("%s: %v, Cache-Control %q", name, answer, got.Header.Get("Cache-Control"))
		}
		if form && (target != uri || got.Header.Get("Location") != "") || !form && (got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), uri+"&")) {
			t.Errorf("%s: %d to %s", name, got.StatusCode, got.Header.Get("Location"))
		}
		if strings.Contains(name, "without state") == answer.Has("state") {
			t.Errorf("%s: state %q", name, answer["state"])
		}
		for key := range answer {
			if !strings.Contains(" tenant x iss state code error error_description ", " "+key+" ") {
				t.Errorf("%s: unexpected parameter %s", name, key)
			}
		}
	}
}
