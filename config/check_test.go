package config_test

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/config"
)

// with returns the defaults after one change.
func with(change func(*config.Settings)) config.Settings {
	s := config.Defaults()
	change(&s)
	return s
}

func TestTheDefaultsWork(t *testing.T) {
	c, err := config.Defaults().Check()
	if err != nil {
		t.Fatal(err)
	}
	if c.IssuerString != "http://localhost:4040" || c.Issuer.Host != "localhost:4040" || c.HTTPS || c.TLS != nil {
		t.Errorf("issuer %q, https %v, TLS %v", c.IssuerString, c.HTTPS, c.TLS)
	}
	if c.CookieName != "cairn_session" || c.LoginCookieName != "" || c.CookieDomain != "" {
		t.Errorf("cookies %q %q %q", c.CookieName, c.LoginCookieName, c.CookieDomain)
	}
	if c.LogLevel != slog.LevelInfo || c.LogFormat != "" || c.Listen != "127.0.0.1:4040" || c.Database != "cairn.db" {
		t.Errorf("%+v", c)
	}
	if c.StatusTTL != time.Minute {
		t.Errorf("status lists live %v", c.StatusTTL)
	}
	if diff := cmp.Diff(config.DefaultRateLimits(), c.RateLimits); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
}

// Each row is refused, with the flag, the variable and the words of the remedy.
func TestWhatCannotWorkIsNeverAccepted(t *testing.T) {
	type settings = config.Settings
	issuer := func(s string) settings { return with(func(c *settings) { c.Issuer = s }) }
	https := func(change func(*settings)) settings {
		return with(func(c *settings) { c.Issuer = "https://id.example.org"; change(c) })
	}
	domain := func(d string) settings { return https(func(c *settings) { c.CookieDomain = d }) }
	cookie := func(n string) settings { return https(func(c *settings) { c.CookieName = n }) }
	listen := func(l string) settings { return with(func(c *settings) { c.Listen = l }) }
	database := func(d string) settings { return with(func(c *settings) { c.Database = d }) }
	proxy := func(p string) settings {
		return with(func(c *settings) { c.TrustedProxies = []string{"10.0.0.0/8", p} })
	}
	origin := func(o string) settings { return https(func(c *settings) { c.AllowedOrigins = []string{o} }) }
	ttl := func(d string) settings { return with(func(c *settings) { c.StatusTTL = d }) }
	limit := func(l ...string) settings { return with(func(c *settings) { c.RateLimits = l }) }
	const (
		iss  = "--issuer (SERVICE_OIDC_ISSUER): "
		dom  = "--cookie-domain (SERVICE_COOKIE_DOMAIN): "
		name = "--cookie-name (SERVICE_COOKIE_NAME): "
		sttl = "--status-ttl (SERVICE_STATUS_TTL): "
		lis  = "--listen (SERVICE_LISTEN): "
		db   = "--database (SERVICE_DATABASE): "
		prox = "--trusted-proxy (SERVICE_TRUSTED_PROXIES): "
		orig = "--allowed-origin (SERVICE_ALLOWED_ORIGINS): "
		rate = "--rate-limit (SERVICE_RATE_LIMITS): "
	)
	for _, tt := range []struct {
		s     settings
		words []string
	}{
		{issuer(""), []string{iss, "not an http or https address", "https://id.example.org"}},
		{issuer("example.org"), []string{iss, "not an http or https address"}},
		{issuer("ftp://example.org"), []string{iss, "not an http or https"}},
		{issuer("HTTPS://example.org"), []string{iss, "write https://example.org"}},
		{issuer("https:example.org"), []string{iss, "not an http or https"}},
		{issuer("https://"), []string{iss, "neither a name nor"}},
		{issuer("https:///id"), []string{iss, "neither a name nor"}},
		{issuer("https://:443"), []string{iss, "neither a name nor"}},
		{issuer("https://example.org/"), []string{iss, "write https://example.org"}},
		{issuer("https://example.org/id/"), []string{iss, "write https://example.org/id"}},
		{issuer("https://example.org?x=1"), []string{iss, "write https://example.org"}},
		{issuer("https://example.org?"), []string{iss, "write https://example.org"}},
		{issuer("https://example.org#x"), []string{iss, "write https://example.org"}},
		{issuer("https://user:hunter2@example.org"), []string{iss, "user name"}},
		{issuer("https://example.org/a/../b"), []string{iss, "write https://example.org/b"}},
		{issuer("https://example.org/./b"), []string{iss, "write https://example.org/b"}},
		{issuer("https://example.org//b"), []string{iss, "write https://example.org/b"}},
		{issuer("https://example.org/a%2fb"), []string{iss, "characters in its path"}},
		{issuer("https://example.org/a b"), []string{iss, "characters in its path"}},
		{issuer(`https://example.org/a\b`), []string{iss, "characters in its path"}},
		{issuer("https://example.org\n.evil.example"), []string{iss, "not an http or https"}},
		{issuer("https://Example.org"), []string{iss, "write https://example.org"}},
		{issuer("https://exämple.org"), []string{iss, "xn--"}},
		{issuer("https://example.org."), []string{iss, "neither a name nor"}},
		{issuer("https://exa mple.org"), []string{iss}},
		{issuer("https://-example.org"), []string{iss, "neither a name nor"}},
		{issuer("https://127.1"), []string{iss, "neither a name nor"}},
		{issuer("https://0x7f000001"), []string{iss, "neither a name nor"}},
		{issuer("https://[::1%25eth0]"), []string{iss, "neither a name nor"}},
		{issuer("http://[::1"), []string{iss, "not an http or https"}},
		{issuer("http://[::ffff:127.0.0.1]"), []string{iss, "neither a name nor"}},
		{issuer("https://[0:0::1]"), []string{iss, "write https://[::1]"}},
		{issuer("https://example.org:"), []string{iss, "write https://example.org"}},
		{issuer("https://example.org:0"), []string{iss, "port"}},
		{issuer("https://example.org:70000"), []string{iss, "port"}},
		{issuer("https://example.org:08443"), []string{iss, "write https://example.org:8443"}},
		{issuer("https://example.org:443"), []string{iss, "write https://example.org"}},
		{issuer("http://localhost:80"), []string{iss, "write http://localhost"}},
		{issuer("http://example.org"), []string{iss, "not https", "write https://example.org", "localhost only"}},
		{issuer("http://192.168.1.7:4040"), []string{iss, "not https"}},
		{issuer("http://localhost.example.org"), []string{iss, "not https"}},
		{issuer("https://example.org/" + strings.Repeat("a", 256)), []string{iss, "longer than"}},

		{domain(".example.org"), []string{dom, "dot", "write example.org"}},
		{domain("Example.org"), []string{dom, "capital", "write example.org"}},
		{domain("org"), []string{dom, "public suffix"}},
		{domain("example.com"), []string{dom, "not a parent", `"id.example.org"`}},
		{domain("ample.org"), []string{dom, "not a parent"}},
		{domain("x.id.example.org"), []string{dom, "not a parent"}},
		{domain("exam ple.org"), []string{dom, "not a domain"}},
		{domain("example.org; Path=/"), []string{dom}},
		{https(func(c *settings) { c.Issuer, c.CookieDomain = "https://id.github.io", "github.io" }), []string{dom, "public suffix"}},
		{https(func(c *settings) { c.Issuer, c.CookieDomain = "https://id.example.co.uk", "co.uk" }), []string{dom, "public suffix"}},
		{https(func(c *settings) { c.Issuer, c.CookieDomain = "https://192.0.2.7", "192.0.2.7" }), []string{dom, "not a domain"}},
		{https(func(c *settings) { c.Issuer, c.CookieDomain = "https://192.0.2.7", "2.7" }), []string{dom, "not a domain"}},
		{https(func(c *settings) { c.Issuer, c.CookieDomain = "http://localhost:4040", "localhost" }), []string{dom, "single word"}},
		{https(func(c *settings) { c.Issuer, c.CookieDomain = "http://id.app.localhost", "app.localhost" }), []string{dom, "https"}},

		{cookie("__Host-cairn"), []string{name, "adds itself"}},
		{cookie("__secure-cairn"), []string{name, "adds itself"}},
		{cookie("a b"), []string{name, "characters"}},
		{cookie("a;b"), []string{name, "characters"}},
		{cookie("a=b"), []string{name, "characters"}},
		{cookie("ä"), []string{name, "characters"}},
		{cookie("cairn_login"), []string{name, "second cookie"}},
		{cookie(strings.Repeat("a", 65)), []string{name, "64"}},

		{ttl(""), []string{sttl, "not a duration", "60s"}},
		{ttl("60"), []string{sttl, "not a duration"}},
		{ttl("0s"), []string{sttl, "between 1s and 1h"}},
		{ttl("1500ms"), []string{sttl, "whole seconds"}},
		{ttl("61m"), []string{sttl, "between 1s and 1h"}},

		{listen(""), []string{lis, "host:port"}},
		{listen("4040"), []string{lis, "host:port"}},
		{listen("127.0.0.1"), []string{lis, "host:port"}},
		{listen("::1:4040"), []string{lis, "host:port"}},
		{listen("127.0.0.1:http"), []string{lis, "port"}},
		{listen("127.0.0.1:65536"), []string{lis, "port"}},
		{listen("127.0.0.1:"), []string{lis, "port"}},
		{listen("http://x:1"), []string{lis}},
		{listen("a/b:1"), []string{lis, "neither"}},

		{database(""), []string{db, "is empty", "cairn.db", "postgres://"}},
		{database("mysql://root:hunter2@h/d"), []string{db, "postgres://"}},
		{database("Postgres://u:hunter2@h/d"), []string{db, "postgres://"}},
		{database("postgres://u:hunter2/@h/d"), []string{db, "percent-encode"}},
		{database("postgres://u:hunter2%zz@h/d"), []string{db, "percent-encode"}},
		{database("postgres://u:hunter2#@h/d"), []string{db}},
		{database("postgres://h/d?password=hunter2%zz"), []string{db, "percent-encode"}},
		{database("postgres:u:hunter2@h"), []string{db, "neither a plain path"}},
		{database("host=h user=u password=hunter2"), []string{db, "neither a plain path"}},
		{database("file:cairn.db?mode=hunter2"), []string{db, "neither a plain path"}},
		{database(":memory:"), []string{db, "neither a plain path"}},
		{database("a.db?x=hunter2"), []string{db, "neither a plain path"}},
		{database("data/"), []string{db, "folder", "data/cairn.db"}},
		{database("a\nb"), []string{db, "control"}},

		{with(func(c *settings) { c.AdditionalKeyFiles = []string{"a.pem"} }), []string{"--additional-key-file (SERVICE_OIDC_ADDITIONAL_KEY_FILES): ", "set --private-key-file"}},
		{https(func(c *settings) { c.TLSCertFile = "c" }), []string{"--tls-key-file (SERVICE_TLS_KEY_FILE): ", "is missing", "or neither"}},
		{https(func(c *settings) { c.TLSKeyFile = "k" }), []string{"--tls-cert-file (SERVICE_TLS_CERT_FILE): ", "is missing", "or neither"}},
		{with(func(c *settings) { c.TLSCertFile, c.TLSKeyFile = "c", "k" }), []string{iss, "is http while TLS files", "https issuer"}},

		{proxy("proxy.example.org"), []string{prox, "neither a network nor", "10.0.0.0/8"}},
		{proxy("10.0.0.0/33"), []string{prox, "neither a network nor"}},
		{proxy("fe80::1%eth0"), []string{prox, "neither a network nor"}},
		{proxy("10.1.2.3/8"), []string{prox, "beyond its mask", "write 10.0.0.0/8"}},
		{proxy("0.0.0.0/0"), []string{prox, "every visitor"}},
		{proxy("::/0"), []string{prox, "every visitor"}},
		{proxy("::ffff:0:0/90"), []string{prox, "neither a network nor"}},

		{origin("*"), []string{orig, "wildcard", "list each"}},
		{origin("https://*.example.org"), []string{orig, "wildcard"}},
		{origin("null"), []string{orig, "not an http or https address", "https://app.example.org"}},
		{origin("app.example.org"), []string{orig, "not an http or https address"}},
		{origin("https://app.example.org/"), []string{orig, "write https://app.example.org"}},
		{origin("https://app.example.org/x"), []string{orig, "write https://app.example.org"}},
		{origin("https://app.example.org?x"), []string{orig, "write https://app.example.org"}},
		{origin("https://app.example.org#"), []string{orig, "write https://app.example.org"}},
		{origin("https://u:hunter2@app.example.org"), []string{orig, "user name"}},
		{origin("https://App.example.org"), []string{orig, "write https://app.example.org"}},
		{origin("https://app.example.org:443"), []string{orig, "write https://app.example.org"}},
		{origin("capacitor://localhost"), []string{orig, "not an http or https address"}},
		{origin("https://"), []string{orig, "neither a name nor"}},
		{origin("http://app.example.org"), []string{orig, "plain http", "write https://app.example.org"}},

		{limit("login"), []string{rate, "count", "login=10/15m"}},
		{limit("logins=1/1m"), []string{rate, `"logins" is not a limit`, "the names are activity, all, invite, login, login-account, register, reset, reset-account, token"}},
		{limit("login=5"), []string{rate, "window", "login=off"}},
		{limit("login=0/1m"), []string{rate, "count", "login=off"}},
		{limit("login=-1/1m"), []string{rate, "count"}},
		{limit("login=x/1m"), []string{rate, "count"}},
		{limit("login=9999999/1m"), []string{rate, "count"}},
		{limit("login=1/m"), []string{rate, "window"}},
		{limit("login=1/0s"), []string{rate, "window"}},
		{limit("login=1/1500ms"), []string{rate, "window"}},
		{limit("login=1/48h"), []string{rate, "window"}},
		{limit("login=OFF"), []string{rate}},
		{limit("login=1/1m", "login=2/1m"), []string{rate, "twice"}},

		{with(func(c *settings) { c.LogLevel = "INFO" }), []string{"--log-level (SERVICE_LOG_LEVEL): ", "debug, info, warn or error"}},
		{with(func(c *settings) { c.LogFormat = "xml" }), []string{"--log-format (SERVICE_LOG_FORMAT): ", "text or json"}},
	} {
		_, err := tt.s.Check()
		refused(t, err, tt.words...)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats a password: %v", err)
		}
	}
}

func TestWhatWorksIsAccepted(t *testing.T) {
	for _, issuer := range []string{
		"https://example.org", "https://example.org/id", "https://id.example.org:8443/a/b.c-d_e~f", "http://localhost", "http://localhost:4040/id",
		"http://127.0.0.1:4040", "http://127.8.8.8", "http://[::1]:4040", "http://id.localhost:4040", "https://192.0.2.7", "https://[2001:db8::1]",
		"https://xn--exmple-cua.org", "https://intranet", "https://example.org:80",
	} {
		c, err := with(func(s *config.Settings) { s.Issuer = issuer }).Check()
		if err != nil {
			t.Error(err)
			continue
		}
		if c.IssuerString != issuer || c.Issuer.String() != issuer || c.HTTPS != strings.HasPrefix(issuer, "https") {
			t.Errorf("%s became %s, %s, https %v", issuer, c.IssuerString, c.Issuer, c.HTTPS)
		}
	}
	for _, listen := range []string{":4040", "0.0.0.0:80", "[::1]:0", "[::]:4040", "localhost:4040", "db-1.internal:1"} {
		if _, err := with(func(s *config.Settings) { s.Listen = listen }).Check(); err != nil {
			t.Error(err)
		}
	}
	for in, label := range map[string]string{
		"cairn.db": "cairn.db", "/var/lib/cairn/cairn.db": "/var/lib/cairn/cairn.db", "with blank.db": "with blank.db",
		"postgres://u:hunter2@h:5432/d?sslmode=require&password=hunter2": "postgres://u@h:5432/d", "postgresql://h/d": "postgresql://h/d",
		"postgres:///d?host=/run/postgresql": "postgres:///d", "postgres://u:p%23%2F@h/d": "postgres://u@h/d",
	} {
		c, err := with(func(s *config.Settings) { s.Database = in }).Check()
		if err != nil {
			t.Error(err)
		}
		if c.Database != in || c.DatabaseLabel() != label {
			t.Errorf("database label %q, want %q", c.DatabaseLabel(), label)
		}
	}
	c, err := with(func(s *config.Settings) {
		s.Issuer, s.TLSCertFile, s.TLSKeyFile = "https://example.org", "c.pem", "k.pem"
		s.TrustedProxies = []string{" 10.0.0.0/8", "", "192.0.2.7", "2001:db8::/32", "::1", "::ffff:192.0.2.8", "::ffff:10.1.0.0/112"}
		s.AllowedOrigins = []string{"https://app.example.org", " https://app.example.org:8443", "http://localhost:3000", "https://[2001:db8::1]:1"}
		s.LogLevel, s.LogFormat = "debug", "json"
	}).Check()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&config.TLSFiles{CertFile: "c.pem", KeyFile: "k.pem"}, c.TLS); diff != "" {
		t.Error(diff)
	}
	var proxies []string
	for _, p := range c.TrustedProxies {
		proxies = append(proxies, p.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "::1/128", "192.0.2.8/32", "10.1.0.0/16"}, proxies); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !c.TrustedProxies[4].Contains(netip.MustParseAddr("::ffff:192.0.2.8").Unmap()) {
		t.Error("a mapped address does not match itself")
	}
	if diff := cmp.Diff([]string{"https://app.example.org", "https://app.example.org:8443", "http://localhost:3000", "https://[2001:db8::1]:1"}, c.AllowedOrigins); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if c.LogLevel != slog.LevelDebug || c.LogFormat != "json" {
		t.Errorf("log %v %v", c.LogLevel, c.LogFormat)
	}
}

func TestTheCookiePrefixNeverPromisesTooMuch(t *testing.T) {
	for _, tt := range []struct{ issuer, domain, name, wantName, wantLogin string }{
		{"http://localhost:4040", "", "cairn_session", "cairn_session", ""},
		{"http://localhost:4040", "", "", "cairn_session", ""},
		{"https://example.org", "", "cairn_session", "__Host-cairn_session", ""},
		{"https://example.org/id", "", "other", "__Host-other", ""},
		{"https://example.org", "example.org", "cairn_session", "__Secure-cairn_session", "__Host-cairn_login"},
		{"https://id.example.org", "example.org", "other", "__Secure-other", "__Host-cairn_login"},
		{"https://id.club.github.io", "club.github.io", "other", "__Secure-other", "__Host-cairn_login"},
		{"https://id.corp.internal", "corp.internal", "other", "__Secure-other", "__Host-cairn_login"},
	} {
		c, err := with(func(s *config.Settings) { s.Issuer, s.CookieDomain, s.CookieName = tt.issuer, tt.domain, tt.name }).Check()
		if err != nil {
			t.Error(err)
			continue
		}
		if c.CookieName != tt.wantName || c.LoginCookieName != tt.wantLogin || c.CookieDomain != tt.domain {
			t.Errorf("%+v: got %q %q %q", tt, c.CookieName, c.LoginCookieName, c.CookieDomain)
		}
	}
}

func TestALimitNeverChangesAnother(t *testing.T) {
	c, err := with(func(s *config.Settings) {
		s.RateLimits = []string{"login=3/1h", "login-account=4/30m", " token = off", "all=100000/10s", ""}
	}).Check()
	if err != nil {
		t.Fatal(err)
	}
	want := config.DefaultRateLimits()
	want["login"] = config.Limit{Count: 3, Window: time.Hour}
	want["login-account"] = config.Limit{Count: 4, Window: 30 * time.Minute}
	want["token"] = config.Limit{}
	want["all"] = config.Limit{Count: 100000, Window: 10 * time.Second}
	if diff := cmp.Diff(want, c.RateLimits); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	c, err = with(func(s *config.Settings) { s.RateLimits = []string{"login=off", "reset=off"} }).Check()
	if err != nil {
		t.Fatal(err)
	}
	want = config.DefaultRateLimits()
	want["login"], want["login-account"], want["reset"] = config.Limit{}, config.Limit{}, config.Limit{}
	if diff := cmp.Diff(want, c.RateLimits); diff != "" {
		t.Errorf("login=off: -want +got\n%s", diff)
	}
}

func TestQuestionableChoicesAreNamed(t *testing.T) {
	c, err := with(func(s *config.Settings) { s.Issuer = "https://192.0.2.7" }).Check()
	if err != nil {
		t.Fatal(err)
	}
	w := strings.Join(c.Warnings(), "\n")
	if !strings.Contains(w, "passkeys") || !strings.Contains(w, "--trusted-proxy") {
		t.Errorf("warnings: %s", w)
	}
}

// Whoever listens on another port than the issuer says is told at the start, and not by a browser that finds nothing.
func TestAListenAddressBesideTheIssuerIsNamed(t *testing.T) {
	for _, tt := range []struct {
		issuer, listen, proxy string
		want                  string
	}{
		{"http://localhost:4040", "127.0.0.1:5050", "", "write http://localhost:5050 in --issuer"},
		{"http://localhost:4040/id", ":5050", "", "write http://localhost:5050/id in --issuer"},
		{"http://[::1]", "[::1]:5050", "", "write http://[::1]:5050 in --issuer"},
		{"http://localhost:4040", ":4040", "", ""},
		{"http://localhost", "127.0.0.1:80", "", ""},
		{"http://localhost:4040", "127.0.0.1:0", "", ""},
		{"http://localhost:8080", "127.0.0.1:4040", "127.0.0.1", ""},
		{"https://id.example.org", "127.0.0.1:4040", "127.0.0.1", ""},
	} {
		c, err := with(func(s *config.Settings) {
			s.Issuer, s.Listen, s.TrustedProxies = tt.issuer, tt.listen, []string{tt.proxy}
		}).Check()
		if err != nil {
			t.Fatal(err)
		}
		w := strings.Join(c.Warnings(), "\n")
		if tt.want == "" && strings.Contains(w, "another port") || !strings.Contains(w, tt.want) {
			t.Errorf("%+v: %q", tt, w)
		}
	}
}

// An address for this machine alone and one for others do not go together, unless a proxy stands between them.
func TestALoopbackAddressBesideAPublicOneIsNamed(t *testing.T) {
	for _, tt := range []struct {
		issuer, listen, proxy string
		tls                   bool
		want                  string
	}{
		{"http://localhost:4040", ":4040", "", false, "127.0.0.1:4040 in --listen"},
		{"http://127.0.0.1:4040", "0.0.0.0:4040", "", false, "127.0.0.1:4040 in --listen"},
		{"http://localhost:4040", "192.0.2.7:4040", "", false, "127.0.0.1:4040 in --listen"},
		{"https://id.example.org", "127.0.0.1:443", "", true, "write :443 in --listen"},
		{"http://localhost:4040", ":4040", "172.17.0.1", false, ""},
		{"http://localhost:4040", "[::1]:4040", "", false, ""},
		{"http://[::1]:4040", "localhost:4040", "", false, ""},
		{"https://id.example.org", ":443", "", true, ""},
		{"https://id.example.org", "127.0.0.1:443", "127.0.0.1", true, ""},
	} {
		c, err := with(func(s *config.Settings) {
			s.Issuer, s.Listen, s.TrustedProxies = tt.issuer, tt.listen, []string{tt.proxy}
			if tt.tls {
				s.TLSCertFile, s.TLSKeyFile = "cert.pem", "key.pem"
			}
		}).Check()
		if err != nil {
			t.Fatal(err)
		}
		w := strings.Join(c.Warnings(), "\n")
		if tt.want == "" && strings.Contains(w, " in --listen") || !strings.Contains(w, tt.want) {
			t.Errorf("%+v: %q", tt, w)
		}
	}
}
