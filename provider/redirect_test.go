package provider

import (
	"net/url"
	"strings"
	"testing"
)

func TestDangerousRedirectURIIsRefused(t *testing.T) {
	for _, raw := range []string{
		"", "/callback", "app.example.org/callback", "https://", "https:///cb", "https:app.example.org", "//app.example.org/cb",
		"https://app.example.org/cb#", "https://app.example.org/cb#x", "https://rp@evil.example/cb", "https://u:p@app.example.org/cb", "https://@app.example.org/cb",
		"https://*.example.org/cb", "https://app.example.org/*", "https://app.example.org/a b", "https://app.example.org/cäb", "https://app.example.org/\ncb", "https://app.example.org/c\\b",
		"https://app.exämple.org/cb", "HTTPS://app.example.org/cb", "https://App.Example.org/cb", "https://app.example.org/../cb", "https://app.example.org/a/./b",
		"https://app.example.org:0/cb", "https://app.example.org:99999/cb", "https://app.example.org:/cb", "https://app.example.org:080/cb",
		"http://app.example.org/cb", "http://192.168.1.5/cb", "http://127.0.0.2/cb", "http://0.0.0.0/cb", "http://[::ffff:127.0.0.1]/cb", "http://localhost.evil.example/cb",
		"https://127.0.0.1/cb", "https://[::1]/cb", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "blob:https://x/y", "about:blank",
		"ftp://example.org/cb", "intent://x", "myapp://cb", "https://" + strings.Repeat("a", 2000),
	} {
		if CheckRedirectURI(raw, false) == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
	for _, raw := range []string{"javascript:alert(1)", "data:text/html,x", "https://u@app.example.org/", "https://app.example.org/#x", "file:///x"} {
		if CheckRedirectURI(raw, true) == nil {
			t.Errorf("%q was accepted with allow-insecure-redirect", raw)
		}
	}
}

func TestOperatorLearnsWhereALocaleStands(t *testing.T) {
	if err := checkPostLogoutURI("https://app.example.org/{locale}", false); err == nil || !strings.Contains(err.Error(), "stands once") {
		t.Error(err)
	}
}

func TestCommonRedirectURIsAreAccepted(t *testing.T) {
	for _, raw := range []string{
		"https://app.example.org/callback", "https://app.example.org", "https://app.example.org:8443/cb?tenant=1", "http://localhost:3000/cb", "http://localhost/cb",
		"http://127.0.0.1/cb", "http://127.0.0.1:5000/cb", "http://[::1]:5000/cb", "https://192.168.1.5/cb", "app.immich:///oauth-callback", "org.example.app:/callback",
	} {
		if err := CheckRedirectURI(raw, false); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for _, raw := range []string{"http://192.168.1.5/cb", "http://nas.lan/cb", "audiobookshelf://oauth"} {
		if err := CheckRedirectURI(raw, true); err != nil {
			t.Errorf("%q with allow-insecure-redirect: %v", raw, err)
		}
	}
}

func TestRedirectURIMatchesNothingButItself(t *testing.T) {
	c := &Client{AuthMethod: AuthNone, RedirectURIs: []string{"https://rp.example.org/cb", "http://127.0.0.1/cb", "http://[::1]:7000/cb?x=1", "http://localhost:3000/cb", "http://[::1]?x"}}
	for _, ok := range []string{"http://[::1]:1?x", "https://rp.example.org/cb", "http://127.0.0.1/cb", "http://127.0.0.1:50000/cb", "http://[::1]:50000/cb?x=1", "http://localhost:3000/cb"} {
		if !c.matchRedirect(ok) {
			t.Errorf("%q was refused", ok)
		}
	}
	for _, bad := range []string{
		"", "https://rp.example.org/cb/", "https://rp.example.org/cb?x", "https://rp.example.org/cb#", "https://rp.example.org/CB", "https://RP.example.org/cb",
		"https://rp.example.org:443/cb", "http://rp.example.org/cb", "https://rp.example.org/cb/../x", "https://rp.example.org/%63b", "https://rp.example.org.evil.example/cb",
		"https://rp.example.org@evil.example/cb", "https://evil.example\\@rp.example.org/cb", "https://rp.example.org/cb ", "https://rp.example.org/cb\t",
		"http://127.0.0.1:0/cb", "http://127.0.0.1:99999/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:80x/cb", "http://127.0.0.1/cb?x", "http://127.0.0.1/cb/",
		"http://evil@127.0.0.1:50000/cb", "http://127.0.0.1:50000@evil.example/cb", "http://127.0.0.1:1@127.0.0.1/cb", "https://127.0.0.1:50000/cb", "http://127.0.0.2/cb", "http://0.0.0.0/cb",
		"http://2130706433/cb", "http://0177.0.0.1/cb", "http://[::ffff:127.0.0.1]/cb", "http://localhost:3001/cb", "http://localhost/cb", "http://127.0.0.1.evil.example/cb",
		"http://[::1]:7000/cb", "http://[::1]/cb", "http://127.0.0.1:50000/cb#x", "http://127.0.0.1\\@evil.example/cb",
	} {
		if c.matchRedirect(bad) {
			t.Errorf("%q matched", bad)
		}
	}
	for uri, want := range map[string]string{
		"https://rp.example.org/cb": "rp.example.org", "http://127.0.0.1:5000/cb": "127.0.0.1:5000", "app://rp.example.org/cb": "app:", "app:/cb": "app:", "": "",
	} {
		if got := redirectHost(uri); got != want {
			t.Errorf("%q goes to %q, want %q", uri, got, want)
		}
	}
}

// RFC 8252 section 7.3 speaks of the IP literals; native applications register
// the name as well.
func TestLocalhostWithoutAPortMatchesAnyPortOfAPublicClient(t *testing.T) {
	for _, c := range []struct {
		method, registered, requested string
		want                          bool
	}{
		{AuthNone, "http://localhost/cb", "http://localhost:53412/cb", true},
		{AuthNone, "http://localhost/cb?x=1", "http://localhost:1/cb?x=1", true},
		{AuthNone, "http://localhost", "http://localhost:8080", true},
		{AuthNone, "http://localhost/cb", "http://localhost/cb", true},
		{AuthAny, "http://localhost/cb", "http://localhost:53412/cb", false},
		{AuthNone, "http://localhost:3000/cb", "http://localhost:53412/cb", false},
		{AuthNone, "http://localhost:3000/cb", "http://localhost/cb", false},
		{AuthNone, "http://localhost/cb", "http://localhost:53412/other", false},
		{AuthNone, "http://localhost/cb", "http://localhost:0/cb", false},
		{AuthNone, "http://localhost/cb", "http://localhost:1@evil.example/cb", false},
		{AuthNone, "http://localhost/cb", "http://localhost.evil.example:1/cb", false},
		{AuthNone, "http://localhost/cb", "http://127.0.0.1:1/cb", false},
		{AuthNone, "https://localhost/cb", "https://localhost:1/cb", false},
		{AuthNone, "https://localhost/cb", "http://localhost:1/cb", false},
	} {
		client := &Client{AuthMethod: c.method, RedirectURIs: []string{c.registered}}
		if client.matchRedirect(c.requested) != c.want {
			t.Errorf("%s, registered %s, requested %s: want %v", c.method, c.registered, c.requested, c.want)
		}
	}
}

func FuzzMatchedRedirectAlwaysHasARegisteredHost(f *testing.F) {
	c := &Client{AuthMethod: AuthNone, RedirectURIs: []string{"https://rp.example.org/cb", "http://127.0.0.1/cb", "http://localhost/cb"}}
	for _, s := range []string{"https://rp.example.org/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:1@evil/cb", "http://127.0.0.1/cb", "http://localhost:1/cb", "http://localhost:1@evil/cb", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !c.matchRedirect(s) {
			return
		}
		u, err := url.Parse(s)
		if err != nil {
			t.Fatalf("%q matched and does not parse", s)
		}
		if h := u.Hostname(); u.User != nil || u.Fragment != "" || h != "rp.example.org" && h != "127.0.0.1" && h != "localhost" || u.Path != "/cb" {
			t.Errorf("%q matched: host %q path %q", s, h, u.Path)
		}
	})
}
