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
	must(t, err)
	if c.IssuerString != "http://localhost:4040" || c.Issuer.Host != "localhost:4040" || c.HTTPS || c.TLS != nil {
		t.Errorf("issuer %q, https %v, TLS %v", c.IssuerString, c.HTTPS, c.TLS)
	}
	if c.CookieName != "cairn_session" || c.LoginCookieName != "" || c.CookieDomain != "" {
		t.Errorf("cookies %q %q %q", c.CookieName, c.LoginCookieName, c.CookieDomain)
	}
	if c.LogLevel != slog.LevelInfo || c.LogFormat != "" || c.Listen != "127.0.0.1:4040" || c.Database != "cairn.db" {
		t.Errorf("%+v", c)
	}
	same(t, "status lists live", c.StatusTTL, time.Minute)
	equal(t, "-", c.RateLimits, config.DefaultRateLimits())
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
}

// Each row is refused, with the flag, the variable and the words of the remedy.
func TestWhatCannotWorkIsRefused(t *testing.T) {
	for _, tt := range []struct {
		flag, value string
		words       []string
	}{
		{"issuer", "", []string{"not an http or https address", "https://id.example.org"}},
		{"issuer", "example.org", []string{"not an http or https address"}},
		{"issuer", "ftp://example.org", []string{"not an http or https"}},
		{"issuer", "HTTPS://example.org", []string{"write https://example.org"}},
		{"issuer", "https:example.org", []string{"not an http or https"}},
		{"issuer", "https://", []string{"neither a name nor"}},
		{"issuer", "https:///id", []string{"neither a name nor"}},
		{"issuer", "https://:443", []string{"neither a name nor"}},
		{"issuer", "https://example.org/", []string{"write https://example.org"}},
		{"issuer", "https://example.org/id/", []string{"write https://example.org/id"}},
		{"issuer", "https://example.org?x=1", []string{"write https://example.org"}},
		{"issuer", "https://example.org?", []string{"write https://example.org"}},
		{"issuer", "https://example.org#x", []string{"write https://example.org"}},
		{"issuer", "https://user:hunter2@example.org", []string{"user name"}},
		{"issuer", "https://example.org/a/../b", []string{"write https://example.org/b"}},
		{"issuer", "https://example.org/./b", []string{"write https://example.org/b"}},
		{"issuer", "https://example.org//b", []string{"write https://example.org/b"}},
		{"issuer", "https://example.org/a%2fb", []string{"characters in its path"}},
		{"issuer", "https://example.org/a b", []string{"characters in its path"}},
		{"issuer", `https://example.org/a\b`, []string{"characters in its path"}},
		{"issuer", "https://example.org\n.evil.example", []string{"not an http or https"}},
		{"issuer", "https://Example.org", []string{"write https://example.org"}},
		{"issuer", "https://exämple.org", []string{"xn--"}},
		{"issuer", "https://example.org.", []string{"neither a name nor"}},
		{"issuer", "https://exa mple.org", nil},
		{"issuer", "https://-example.org", []string{"neither a name nor"}},
		{"issuer", "https://127.1", []string{"neither a name nor"}},
		{"issuer", "https://0x7f000001", []string{"neither a name nor"}},
		{"issuer", "https://[::1%25eth0]", []string{"neither a name nor"}},
		{"issuer", "http://[::1", []string{"not an http or https"}},
		{"issuer", "http://[::ffff:127.0.0.1]", []string{"neither a name nor"}},
		{"issuer", "https://[0:0::1]", []string{"write https://[::1]"}},
		{"issuer", "https://example.org:", []string{"write https://example.org"}},
		{"issuer", "https://example.org:0", []string{"port"}},
		{"issuer", "https://example.org:70000", []string{"port"}},
		{"issuer", "https://example.org:08443", []string{"write https://example.org:8443"}},
		{"issuer", "https://example.org:443", []string{"write https://example.org"}},
		{"issuer", "http://localhost:80", []string{"write http://localhost"}},
		{"issuer", "http://example.org", []string{"not https", "write https://example.org", "localhost only"}},
		{"issuer", "http://192.168.1.7:4040", []string{"not https"}},
		{"issuer", "http://localhost.example.org", []string{"not https"}},
		{"issuer", "https://example.org/" + strings.Repeat("a", 256), []string{"longer than"}},

		{"metrics-listen", "9464", []string{"not host:port"}},
		{"metrics-listen", "127.0.0.1:99999", []string{"port"}},
		{"metrics-listen", "127.0.0.1:4040", []string{"the address of --listen"}},
		{"pprof", "true", []string{"set --metrics-listen"}},

		{"cookie-domain", ".example.org", []string{"dot", "write example.org"}},
		{"cookie-domain", "Example.org", []string{"capital", "write example.org"}},
		{"cookie-domain", "org", []string{"public suffix"}},
		{"cookie-domain", "example.com", []string{"not a parent", `"id.example.org"`}},
		{"cookie-domain", "ample.org", []string{"not a parent"}},
		{"cookie-domain", "x.id.example.org", []string{"not a parent"}},
		{"cookie-domain", "exam ple.org", []string{"not a domain"}},
		{"cookie-domain", "example.org; Path=/", nil},

		{"passkey-host", "org", []string{"public suffix"}},
		{"passkey-host", "example.com", []string{"not a parent"}},
		{"passkey-host", "x.id.example.org", []string{"not a parent"}},
		{"passkey-origin", "https://*.example.org", []string{"wildcard"}},
		{"passkey-origin", "http://app.example.org", []string{"plain http"}},

		{"cookie-name", "__Host-cairn", []string{"adds itself"}},
		{"cookie-name", "__secure-cairn", []string{"adds itself"}},
		{"cookie-name", "a b", []string{"characters"}},
		{"cookie-name", "a;b", []string{"characters"}},
		{"cookie-name", "a=b", []string{"characters"}},
		{"cookie-name", "ä", []string{"characters"}},
		{"cookie-name", "cairn_login", []string{"second cookie"}},
		{"cookie-name", strings.Repeat("a", 65), []string{"64"}},

		{"shutdown-delay", "soon", []string{"not a duration", "5s"}},
		{"shutdown-delay", "-1s", []string{"between 0s and 60s"}},
		{"shutdown-delay", "61s", []string{"between 0s and 60s"}},
		{"backup-every", "59m59s", []string{"less than an hour", "1h to 744h"}},
		{"backup-every", "2h", []string{"give --backup-dir too"}},
		{"backup-keep", "3", []string{"give --backup-dir too"}},
		{"backup-recipient", "AGE-SECRET-KEY-1QQQ", []string{"not a recipient of age", "keys generate --type age"}},
		{"status-ttl", "", []string{"not a duration", "60s"}},
		{"status-ttl", "60", []string{"not a duration"}},
		{"status-ttl", "0s", []string{"between 1s and 1h"}},
		{"status-ttl", "1500ms", []string{"whole seconds"}},
		{"status-ttl", "61m", []string{"between 1s and 1h"}},

		{"listen", "", []string{"host:port"}},
		{"listen", "4040", []string{"host:port"}},
		{"listen", "127.0.0.1", []string{"host:port"}},
		{"listen", "::1:4040", []string{"host:port"}},
		{"listen", "127.0.0.1:http", []string{"port"}},
		{"listen", "127.0.0.1:65536", []string{"port"}},
		{"listen", "127.0.0.1:", []string{"port"}},
		{"listen", "http://x:1", nil},
		{"listen", "a/b:1", []string{"neither"}},

		{"database", "", []string{"is empty", "cairn.db", "postgres://"}},
		{"database", "mysql://root:hunter2@h/d", []string{"postgres://"}},
		{"database", "Postgres://u:hunter2@h/d", []string{"postgres://"}},
		{"database", "postgres://u:hunter2/@h/d", []string{"percent-encode"}},
		{"database", "postgres://u:hunter2%zz@h/d", []string{"percent-encode"}},
		{"database", "postgres://u:hunter2#@h/d", nil},
		{"database", "postgres://h/d?password=hunter2%zz", []string{"percent-encode"}},
		{"database", "postgres:u:hunter2@h", []string{"neither a plain path"}},
		{"database", "host=h user=u password=hunter2", []string{"neither a plain path"}},
		{"database", "file:cairn.db?mode=hunter2", []string{"neither a plain path"}},
		{"database", ":memory:", []string{"neither a plain path"}},
		{"database", "a.db?x=hunter2", []string{"neither a plain path"}},
		{"database", "data/", []string{"folder", "data/cairn.db"}},
		{"database", "a\nb", []string{"control"}},

		{"trusted-proxy", "proxy.example.org", []string{"neither a network nor", "10.0.0.0/8"}},
		{"trusted-proxy", "10.0.0.0/33", []string{"neither a network nor"}},
		{"trusted-proxy", "fe80::1%eth0", []string{"neither a network nor"}},
		{"trusted-proxy", "10.1.2.3/8", []string{"beyond its mask", "write 10.0.0.0/8"}},
		{"trusted-proxy", "0.0.0.0/0", []string{"every visitor"}},
		{"trusted-proxy", "::/0", []string{"every visitor"}},
		{"trusted-proxy", "::ffff:0:0/90", []string{"neither a network nor"}},

		{"allowed-origin", "*", []string{"wildcard", "list each"}},
		{"allowed-origin", "https://*.example.org", []string{"wildcard"}},
		{"allowed-origin", "null", []string{"not an http or https address", "https://app.example.org"}},
		{"allowed-origin", "app.example.org", []string{"not an http or https address"}},
		{"allowed-origin", "https://app.example.org/", []string{"write https://app.example.org"}},
		{"allowed-origin", "https://app.example.org/x", []string{"write https://app.example.org"}},
		{"allowed-origin", "https://app.example.org?x", []string{"write https://app.example.org"}},
		{"allowed-origin", "https://app.example.org#", []string{"write https://app.example.org"}},
		{"allowed-origin", "https://u:hunter2@app.example.org", []string{"user name"}},
		{"allowed-origin", "https://App.example.org", []string{"write https://app.example.org"}},
		{"allowed-origin", "https://app.example.org:443", []string{"write https://app.example.org"}},
		{"allowed-origin", "capacitor://localhost", []string{"not an http or https address"}},
		{"allowed-origin", "https://", []string{"neither a name nor"}},
		{"allowed-origin", "http://app.example.org", []string{"plain http", "write https://app.example.org"}},

		{"rate-limit", "login", []string{"count", "login=10/15m"}},
		{"rate-limit", "logins=1/1m", []string{`"logins" is not a limit`, "the names are activity, acts, all, device, forgot, invite, invite-mail, join, join-all, login, login-account, login-address, mail, register, reset, reset-account, second-factor, sign-in, token, verify"}},
		{"rate-limit", "login=5", []string{"window", "login=off"}},
		{"rate-limit", "login=0/1m", []string{"count", "login=off"}},
		{"rate-limit", "login=-1/1m", []string{"count"}},
		{"rate-limit", "login=x/1m", []string{"count"}},
		{"rate-limit", "login=9999999/1m", []string{"count"}},
		{"rate-limit", "login=1/m", []string{"window"}},
		{"rate-limit", "login=1/0s", []string{"window"}},
		{"rate-limit", "login=1/1500ms", []string{"window"}},
		{"rate-limit", "login=1/48h", []string{"window"}},
		{"rate-limit", "login=OFF", nil},
		{"rate-limit", "login=1/1m,login=2/1m", []string{"twice"}},

		{"issuer https://id.github.io cookie-domain", "github.io", []string{"public suffix"}},
		{"issuer https://id.example.co.uk cookie-domain", "co.uk", []string{"public suffix"}},
		{"issuer https://192.0.2.7 cookie-domain", "192.0.2.7", []string{"not a domain"}},
		{"issuer https://192.0.2.7 cookie-domain", "2.7", []string{"not a domain"}},
		{"issuer http://localhost:4040 cookie-domain", "localhost", []string{"single word"}},
		{"issuer http://id.app.localhost cookie-domain", "app.localhost", []string{"https"}},

		{"additional-key-file", "a.pem", []string{"set --private-key-file"}},
		{"signer", "openssl", []string{"auto or go"}},
		{"device-binding", "no", []string{"on or off"}},
		{"log-level", "INFO", []string{"debug, info, warn or error"}},
		{"log-format", "xml", []string{"text or json"}},
	} {
		words := strings.Fields(tt.flag) // flags and their values
		flag := words[len(words)-1]
		args := []string{"serve", "--issuer=https://id.example.org"}
		for i := 0; i+1 < len(words); i += 2 {
			args = append(args, "--"+words[i]+"="+words[i+1])
		}
		p, _, err := parse(t, nil, append(args, "--"+flag+"="+tt.value)...)
		must(t, err)
		_, err = p.Serve.Check()
		refused(t, err, append(tt.words, "--"+flag+" (SERVICE_")...)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats a password: %v", err)
		}
	}
	for _, tt := range []struct{ issuer, cert, key, want string }{
		{"https://id.example.org", "c", "", "--tls-key-file (SERVICE_TLS_KEY_FILE): is missing"},
		{"https://id.example.org", "", "k", "--tls-cert-file (SERVICE_TLS_CERT_FILE): is missing"},
		{"http://localhost", "c", "k", "--issuer (SERVICE_OIDC_ISSUER): is http while TLS files are set: write an https issuer"},
	} {
		_, err := with(func(s *config.Settings) {
			s.Issuer, s.TLSCertFile, s.TLSKeyFile = tt.issuer, tt.cert, tt.key
		}).Check()
		refused(t, err, tt.want)
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
	must(t, err)
	equal(t, "TLS", c.TLS, &config.TLSFiles{CertFile: "c.pem", KeyFile: "k.pem"})
	var proxies []string
	for _, p := range c.TrustedProxies {
		proxies = append(proxies, p.String())
	}
	equal(t, "-",
		proxies, []string{"10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "::1/128", "192.0.2.8/32", "10.1.0.0/16"})
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

func TestTheCookiePrefixPromisesWhatTheAttributesKeep(t *testing.T) {
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
		c, err := with(func(s *config.Settings) {
			s.Issuer, s.CookieDomain, s.CookieName = tt.issuer, tt.domain, tt.name
		}).Check()
		if err != nil {
			t.Error(err)
			continue
		}
		if c.CookieName != tt.wantName || c.LoginCookieName != tt.wantLogin || c.CookieDomain != tt.domain {
			t.Errorf("%+v: got %q %q %q", tt, c.CookieName, c.LoginCookieName, c.CookieDomain)
		}
	}
}

func TestALimitChangesOnlyItself(t *testing.T) {
	c, err := with(func(s *config.Settings) {
		s.RateLimits = []string{"login=3/1h", "login-account=4/30m", " token = off", "all=100000/10s", ""}
	}).Check()
	must(t, err)
	want := config.DefaultRateLimits()
	want["login"] = config.Limit{Count: 3, Window: time.Hour}
	want["login-account"] = config.Limit{Count: 4, Window: 30 * time.Minute}
	want["token"] = config.Limit{}
	want["all"] = config.Limit{Count: 100000, Window: 10 * time.Second}
	equal(t, "-", c.RateLimits, want)
	c, err = with(func(s *config.Settings) { s.RateLimits = []string{"login=off", "reset=off"} }).Check()
	must(t, err)
	want = config.DefaultRateLimits()
	for _, off := range []string{"login", "login-address", "login-account", "sign-in", "reset"} {
		want[off] = config.Limit{}
	}
	equal(t, "login=off: -", c.RateLimits, want)
}

// What works and may not be meant is told at the start, and not by a browser that finds nothing. Behind a proxy the two
// addresses differ rightly.
func TestQuestionableChoicesAreNamed(t *testing.T) {
	for _, tt := range []struct {
		issuer, listen, proxy string
		tls                   bool
		want                  string // "": nothing about --listen
	}{
		{"https://192.0.2.7", ":443", "", false, "passkeys"},
		{"https://id.example.org", ":443", "", false, "--trusted-proxy"},
		{"https://localhost:8443", "127.0.0.1:4040", "", false, ""}, // the port is the proxy's, which is to be named
		{"http://localhost:4040", "127.0.0.1:5050", "", false, "write http://localhost:5050 in --issuer"},
		{"http://localhost:4040/id", ":5050", "", false, "write http://localhost:5050/id in --issuer"},
		{"http://[::1]", "[::1]:5050", "", false, "write http://[::1]:5050 in --issuer"},
		{"http://localhost", "127.0.0.1:80", "", false, ""},
		{"http://localhost:4040", "127.0.0.1:0", "", false, ""},
		{"http://localhost:8080", "127.0.0.1:4040", "127.0.0.1", false, ""},
		{"https://id.example.org", "127.0.0.1:4040", "127.0.0.1", false, ""},
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
		must(t, err)
		w := strings.Join(c.Warnings(), "\n")
		if tt.want == "" && strings.Contains(w, "--listen") || !strings.Contains(w, tt.want) {
			t.Errorf("%+v: %q", tt, w)
		}
	}
}
