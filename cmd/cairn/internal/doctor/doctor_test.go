package doctor_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/cmd/cairn/internal/doctor"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// ofTheMachine are the findings about the machine that runs the test: judge_test.go has their rules.
var ofTheMachine = []string{"disk-space", "disk-growth", "password-hashing"}

// notOK are the findings that are not ok, as "level name".
func notOK(findings map[string]doctor.Finding) []string {
	list := []string{}
	for _, name := range doctor.Names() {
		if f := findings[name]; f.Level != doctor.OK && !slices.Contains(ofTheMachine, name) {
			list = append(list, string(f.Level)+" "+name)
		}
	}
	return list
}

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs several addresses of loopback, and permission bits")
	}
}

// A healthy installation behind a proxy with TLS has nothing but ok. PostgreSQL is judged by what the server of the test
// says of itself, which may be one that survives no power cut.
func TestHealthyInstallationHasNothingButOK(t *testing.T) {
	onLinux(t)
	t.Run("sqlite", func(t *testing.T) {
		findings := newDeployment(t, "").start().findings()
		equal(t, findings, notOK(findings), []string{})
		for _, name := range ofTheMachine {
			if f := findings[name]; f.Level == doctor.Skipped || f.Level == doctor.Problem {
				t.Errorf("%+v", f)
			}
		}
	})
	t.Run("cookie domain", func(t *testing.T) {
		d := newDeployment(t, "")
		d.settings.CookieDomain = "example.org"
		if findings := d.start().findings(); len(notOK(findings)) > 0 {
			t.Error(notOK(findings), findings["session-cookie"])
		}
	})
	t.Run("postgres", func(t *testing.T) {
		onPostgres(t, func(t *testing.T, dsn string) {
			d := newDeployment(t, dsn)
			durable := true
			for _, name := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
				var value string
				must(t, d.row(&value, "SHOW "+name))
				durable = durable && value == "on"
			}
			want := []string{"skipped database-file", "skipped database-filesystem", "skipped database-integrity"}
			if !durable {
				want = slices.Insert(want, 2, "problem database-durability")
			}
			equal(t, "notOK", notOK(d.start().findings()), want)
		})
	})
}

// onPostgres is the half of storetest.EachDSN.
func onPostgres(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		if strings.HasPrefix(dsn, "postgres") {
			f(t, dsn)
		}
	})
}

// Each fault is made for real, and is all that is found.
func TestFaultInFrontOfTheService(t *testing.T) {
	onLinux(t)
	answers := func(change func(http.Header)) func(*deployment) {
		return func(d *deployment) { d.rewrite = func(res *http.Response) { change(res.Header) } }
	}
	cookie := func(old, replacement string) func(*deployment) {
		return answers(func(h http.Header) {
			for i, c := range h["Set-Cookie"] {
				h["Set-Cookie"][i] = strings.Replace(c, old, replacement, 1)
			}
		})
	}
	unseen := []string{"skipped open-files", "skipped cache", "skipped answer-headers", "skipped programs", "skipped authorization", "skipped issuer", "skipped clock", "skipped hsts", "skipped security-headers", "skipped pages", "skipped session-cookie", "skipped device-binding", "skipped visitor-address", "skipped forwarded-headers", "skipped key-set", "skipped status-list"}
	withTLS := func(rest ...string) []string { return append(rest, unseen...) }
	for name, c := range map[string]struct {
		change func(*deployment)
		want   []string
		says   string // of the first
	}{
		"certificate ends in 10 days": {func(d *deployment) { d.certificate.days = 10 }, []string{"warning tls-certificate"}, "10 days"},
		"certificate ends in 2 days":  {func(d *deployment) { d.certificate.days = 2 }, []string{"problem tls-certificate"}, "2 days"},
		"certificate has ended":       {func(d *deployment) { d.certificate.days = -2 }, withTLS("problem tls-certificate", "problem public-address"), "expired"},
		"certificate of another name": {func(d *deployment) { d.certificate.name = "other.example.org" }, withTLS("problem tls-certificate", "problem public-address"), "other.example.org"},
		"unknown authority":           {func(d *deployment) { d.certificate.unknown = true }, withTLS("problem tls-certificate", "problem public-address"), "unknown authority"},
		"intermediate is missing":     {func(d *deployment) { d.certificate.alone = true }, withTLS("problem tls-certificate", "problem public-address"), "unknown authority"},
		"another installation answers": {func(d *deployment) {
			d.otherStore = storetest.Open(d.t, filepath.Join(d.t.TempDir(), "other.db"))
			d.initialize(d.otherStore)
		}, withTLS("problem public-address"), "not from this installation"},
		"service with an earlier issuer": {func(d *deployment) {
			d.serveSettings = func(s *config.Settings) { s.Issuer = "https://login.example.org" }
		}, []string{"problem issuer"}, "https://login.example.org"},
		"clock runs some minutes late": {answers(func(h http.Header) { h.Set("Date", time.Now().Add(150*time.Second).UTC().Format(http.TimeFormat)) }),
			[]string{"warning clock"}, "differ by 2m"},
		"clock runs an hour early": {answers(func(h http.Header) { h.Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)) }),
			[]string{"problem clock"}, "differ by 1h"},
		"plain http is served": {func(d *deployment) {
			d.plain = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
		}, []string{"warning https-redirect"}, "200 OK"},
		"plain http leads elsewhere": {func(d *deployment) {
			d.plain = http.RedirectHandler("https://evil.example/", http.StatusMovedPermanently).ServeHTTP
		}, []string{"warning https-redirect"}, "301"},
		"nothing on port 80":        {func(d *deployment) { d.plain = nil }, []string{}, ""},
		"no HSTS":                   {answers(func(h http.Header) { h.Del("Strict-Transport-Security") }), []string{"warning hsts"}, `""`},
		"HSTS for a day":            {answers(func(h http.Header) { h.Set("Strict-Transport-Security", "max-age=86400") }), []string{"warning hsts"}, "86400"},
		"cookie without Secure":     {cookie("; Secure", ""), []string{"problem session-cookie"}, "Secure"},
		"cookie without HttpOnly":   {cookie("; HttpOnly", ""), []string{"problem session-cookie"}, "HttpOnly"},
		"cookie without SameSite":   {cookie("; SameSite=Lax", ""), []string{"problem session-cookie"}, "SameSite"},
		"cookie of another path":    {cookie("Path=/", "Path=/id"), []string{"problem session-cookie"}, `"/id"`},
		"cookie of another domain":  {cookie("Path=/", "Path=/; Domain=example.org"), []string{"problem session-cookie"}, "example.org"},
		"cookie of a public suffix": {cookie("Path=/", "Path=/; Domain=co.uk"), []string{"problem session-cookie"}, "public suffix"},
		"cookie of another name":    {cookie("__Host-", ""), []string{"problem session-cookie"}, "does not arrive"},
		"device headers are dropped": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("Secure-Session-Response") })
		}, []string{"warning device-binding"}, "Secure-Session-Response"},
		"device binding is off":         {func(d *deployment) { d.settings.DeviceBinding = "off" }, []string{"advice device-binding"}, "off"},
		"device challenges are dropped": {answers(func(h http.Header) { h.Del("Secure-Session-Challenge") }), []string{"warning device-binding"}, "Secure-Session-Challenge"},
		"no ETag":                       {answers(func(h http.Header) { h.Del("ETag") }), []string{"warning key-set", "warning status-list"}, "no ETag"},
		"no Cache-Control": {answers(func(h http.Header) {
			if h.Get("Cache-Control") != "no-store" {
				h.Del("Cache-Control")
			}
		}), []string{"warning key-set", "warning status-list"}, "max-age"},
		"If-None-Match is dropped": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("If-None-Match") })
		},
			[]string{"warning key-set", "warning status-list"}, "If-None-Match"},
		"Prefer is dropped": {func(d *deployment) { d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("Prefer") }) }, []string{"warning status-list"}, "Prefer"},
		"service has another key": {func(d *deployment) {
			other := filepath.Join(d.t.TempDir(), "other.pem")
			_, err := config.GenerateKey(other, config.MinKeyBits)
			must(d.t, err)
			d.settings.AdditionalKeyFiles = []string{other}
			d.serveSettings = func(s *config.Settings) { s.AdditionalKeyFiles = nil }
		}, []string{"problem key-set"}, "does not have the key"},
		"key set from a cache": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				if res.Request.URL.Path == "/.well-known/jwks.json" {
					res.Body, res.ContentLength = io.NopCloser(strings.NewReader(`{"keys":[]}`)), 11
					res.Header.Del("Content-Length")
					res.Header.Del("Content-Encoding")
				}
			}
		}, []string{"problem key-set"}, "not what the service answers at --listen"},
		"everything from a cache": {func(d *deployment) {
			d.settings.TrustedProxies = []string{"127.0.0.2", "127.0.0.3"}
			d.between = cacheAll
		}, []string{"problem cache", "skipped answer-headers", "skipped authorization", "skipped clock", "skipped security-headers", "skipped device-binding", "skipped visitor-address", "warning key-set", "warning status-list"}, "from a cache"},
		"proxy blocks /doctor": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) {
				if p.Out.URL.Path == "/doctor" {
					p.Out.URL.Path = "/forbidden"
				}
			})
		}, withTLS("problem public-address"), "the proxy does not pass /doctor on"},
		"proxy has its own /oauth2": {inFront(func(r *http.Request) int {
			if strings.HasPrefix(r.URL.Path, "/oauth2/token") {
				return http.StatusNotFound
			}
			return 0
		}), []string{"problem public-address"}, "answers these itself: /oauth2/token (404 Not Found)"},
		"proxy has its own /.well-known": {inFront(func(r *http.Request) int {
			if strings.HasPrefix(r.URL.Path, "/.well-known/") {
				return http.StatusNotFound
			}
			return 0
		}), []string{"problem issuer", "problem key-set"}, "document cannot be read: 404 Not Found. -> Let the proxy pass on requests below /.well-known/"},
		"proxy refuses large bodies": {inFront(func(r *http.Request) int {
			if r.ContentLength > 1<<20 {
				return http.StatusRequestEntityTooLarge
			}
			return 0
		}), []string{"warning public-address"}, "-> Let the proxy take bodies of 8 MiB"},
		"proxy refuses long addresses": {inFront(func(r *http.Request) int {
			if len(r.RequestURI) > 4<<10 {
				return http.StatusRequestURITooLong
			}
			return 0
		}), []string{"problem public-address"}, "414 Request URI Too Long. -> Let the proxy take request headers of 32 KiB: large_client_header_buffers"},
		"proxy demands a password": {inFront(func(*http.Request) int { return http.StatusUnauthorized }), withTLS("problem public-address"), "password of its own"},
		"proxy redirects for ever": {inFront(func(*http.Request) int { return http.StatusMovedPermanently }), withTLS("problem public-address"), "let that one connect with https"},
		"proxy removes the path": {func(d *deployment) {
			d.settings.Issuer = "https://" + publicHost + "/auth"
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.URL.Path = strings.TrimPrefix(p.Out.URL.Path, "/auth") })
		}, withTLS("problem public-address"), "the proxy removes it"},
		"proxy drops Authorization": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("Authorization") })
		}, []string{"problem authorization"}, "the proxy drops Authorization, so no client can authenticate and no token is accepted. -> Let the proxy pass Authorization on"},
		"proxy drops DPoP": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("DPoP") })
		}, []string{"warning authorization"}, "The proxy drops DPoP: applications cannot bind tokens"},
		"proxy hides nonces": {answers(func(h http.Header) { h.Del("DPoP-Nonce") }), []string{"warning authorization"}, "drops DPoP-Nonce"},
		"proxy has a password for the service": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Set("Authorization", "Basic eDp5") })
		}, []string{"problem authorization"}, "drops Authorization"},
		"proxy drops cookies": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("Cookie") })
		}, []string{"problem session-cookie"}, "Cookies of browsers do not arrive at the service: nobody can sign in. -> Let the proxy pass Cookie on"},
		"proxy takes GET and POST alone": {inFront(func(r *http.Request) int {
			if r.Method == http.MethodDelete {
				return http.StatusForbidden
			}
			return 0
		}), []string{"problem public-address"}, "answers these itself: DELETE /api/doctor (403 Forbidden)"},
		"pages as plain text": {answers(func(h http.Header) {
			h.Set("Content-Type", strings.Replace(h.Get("Content-Type"), "text/html", "text/plain", 1))
		}), []string{"warning pages"}, "is not the page"},
		"proxy hides the encoding": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Set("Accept-Encoding", "gzip") })
			d.rewrite = func(res *http.Response) {
				if strings.HasPrefix(res.Request.URL.Path, "/.well-known/") {
					res.Header.Del("Content-Encoding")
				}
			}
		}, []string{"problem issuer", "problem key-set"}, "pass on requests below /.well-known/, and Content-Encoding back"},
		"the account from a cache": {func(d *deployment) {
			d.twoProxies("127.0.0.2", "127.0.0.3")
			d.between = func(next http.Handler) http.Handler {
				cached := cacheAll(next)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/account/") {
						cached.ServeHTTP(w, r)
					} else {
						next.ServeHTTP(w, r)
					}
				})
			}
		}, []string{"problem cache", "skipped answer-headers", "skipped authorization", "skipped clock", "skipped security-headers"}, "/account/ is answered from a cache"},
		"proxy adds slashes": {inFront(func(r *http.Request) int {
			if !strings.HasSuffix(r.URL.Path, "/") && !strings.Contains(r.URL.Path, ".") {
				return http.StatusMovedPermanently
			}
			return 0
		}), withTLS("problem public-address"), "instead of redirecting them"},
		"proxy lets caches keep the account": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				if strings.HasPrefix(res.Request.URL.Path, "/account/") {
					res.Header.Set("Cache-Control", "public, max-age=86400")
				}
			}
		}, []string{"problem security-headers"}, "removes no-store from Cache-Control in the answer to GET /account/"},
		"proxy drops Sec-Fetch-Site": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("Sec-Fetch-Site") })
		}, []string{"problem security-headers"}, "drops Sec-Fetch-Site: the service does not see"},
		"proxy drops the policy of openers": {answers(func(h http.Header) { h.Del("Cross-Origin-Opener-Policy") }), []string{"warning security-headers"},
			"changes or repeats Cross-Origin-Opener-Policy."},
		"proxy lets every page read": {answers(func(h http.Header) { h.Set("Access-Control-Allow-Origin", "*") }), []string{"problem security-headers"},
			"repeats Access-Control-Allow-Origin in the answer to GET /login/: pages of others"},
		"proxy lets pages read the API": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				if strings.HasPrefix(res.Request.URL.Path, "/api/") {
					res.Header.Set("Access-Control-Allow-Credentials", "true")
				}
			}
		}, []string{"problem security-headers"}, "Access-Control-Allow-Credentials in the answer to GET /api/me"},
		"proxy repeats what the service allows": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				if strings.HasPrefix(res.Request.URL.Path, "/.well-known/") {
					res.Header.Add("Access-Control-Allow-Origin", "*")
				}
			}
		}, []string{"problem security-headers"}, "Access-Control-Allow-Origin in the answer to GET /.well-known/openid-configuration"},
		"proxy answers preflights": {inFront(func(r *http.Request) int {
			if r.Method == http.MethodOptions {
				return http.StatusNoContent
			}
			return 0
		}), []string{"problem security-headers"}, "in the answer to OPTIONS /oauth2/token"},
		"host rewritten in discovery": {rewriting("application/json", "https://"+publicHost, "http://backend:4040"), []string{"problem issuer"}, `names the issuer "http://backend:4040"`},
		"http for https in discovery": {rewriting("application/json", "https://"+publicHost+"/oauth2/token", "http://"+publicHost+"/oauth2/token"), []string{"problem issuer"}, "which is not below the issuer"},
		"lists rewritten in discovery": {rewriting("application/json", "code", "c0de"), []string{"warning issuer"},
			"is not what the service answers at --listen. -> Let no proxy rewrite answers"},
		"host rewritten in HTML": {rewriting("text/html", "https://"+publicHost, "http://backend:4040"), []string{"warning pages"}, "is not the page"},
		"https for http in HTML": {rewriting("text/html", "http://", "https://"), []string{"warning pages"}, "is not the page"},
		"proxy adds a policy": {answers(func(h http.Header) { h.Add("Content-Security-Policy", "form-action 'self'") }),
			[]string{"warning security-headers"}, "changes or repeats Content-Security-Policy."},
		"clock was wrong before": {func(d *deployment) { d.sql("UPDATE audit SET at = at + 3 * 86400") }, []string{"warning clock"}, "72h0m0s ahead"},
		"certificate of tomorrow": {func(d *deployment) { d.certificate.begin = time.Now().AddDate(0, 0, 1) }, withTLS("problem tls-certificate", "problem public-address"),
			"-> Set the clock of this machine"},
		"people may ask to join, without mail": {func(d *deployment) {
			d.settings.SMTPURL, d.settings.MailFrom = "", ""
			d.sql(`UPDATE settings SET value = replace(value, '"registration":"invite"', '"registration":"request"')`)
		}, []string{"warning mail-server"}, "-> Set a mail server"},
		"proxy gives up on held requests": {func(d *deployment) {
			d.between = func(next http.Handler) http.Handler {
				impatient := http.TimeoutHandler(next, 600*time.Millisecond, "")
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Prefer") != "" { // others may take as long on a busy machine
						impatient.ServeHTTP(w, r)
					} else {
						next.ServeHTTP(w, r)
					}
				})
			}
			d.settings.TrustedProxies = append(d.settings.TrustedProxies, "127.0.0.3")
		}, []string{"warning status-list"}, "00ms, so applications learn of revoked sessions later. -> Let the proxy wait"}, // after 600, or more on a busy machine
		"proxy with a small buffer for headers": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				var headers bytes.Buffer
				if _ = res.Header.Write(&headers); headers.Len() > 2<<10 {
					res.StatusCode, res.Header = http.StatusBadGateway, http.Header{}
				}
			}
		}, []string{"problem answer-headers"}, "502 Bad Gateway. -> Give the proxy a larger buffer"},
		"proxy that adds a script": {rewriting("text/html", "</body>", "<script src=/speed.js></script></body>"), []string{"warning pages"}, "is not the page that the service answers at --listen. -> Let the proxy or content delivery network pass the query on, and change no HTML"},
		"two instances with different keys": {func(d *deployment) {
			var asked atomic.Int64
			d.rewrite = func(res *http.Response) {
				if res.Request.URL.Path == "/.well-known/jwks.json" && asked.Add(1)%2 == 0 {
					res.Body, res.ContentLength = io.NopCloser(strings.NewReader(`{"keys":[]}`)), 11
					res.Header.Del("Content-Length")
					res.Header.Del("Content-Encoding")
				}
			}
		}, []string{"problem key-set"}, "instances with different keys are behind this name. -> Give every instance the same private-key-file"},
		"key set that is kept for a day": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				if res.Request.URL.Path == "/.well-known/jwks.json" {
					res.Header.Set("Cache-Control", "public, max-age=86400")
				}
			}
		}, []string{"warning key-set"}, "max-age=86400 lets caches keep it for more than an hour"},
		"bot protection": {inFront(func(*http.Request) int { return http.StatusForbidden }), withTLS("problem public-address"), "answers 403 Forbidden to a program. -> Let the bot protection"},
		"bot protection against libraries": {inFront(func(r *http.Request) int {
			if strings.HasPrefix(r.UserAgent(), "python-requests") {
				return http.StatusForbidden
			}
			return 0
		}), []string{"problem programs"}, `answers 403 Forbidden to a program that calls itself "python-requests/2.32.3"`},
		"two services": {func(d *deployment) {
			must(d.t, os.WriteFile(d.dsn+".lock", nil, 0o600))
			for _, want := range []bool{true, false} {
				first, release, err := store.FirstServer(d.dsn)
				if must(d.t, err); first != want {
					d.t.Errorf("first is %v", first)
				}
				d.t.Cleanup(release)
			}
		}, []string{"warning service"}, "2 cairn serve have"},
		"proxy makes addresses of X-Forwarded-Host": {func(d *deployment) {
			d.rewrite = func(res *http.Response) {
				if to := res.Header.Get("Location"); to != "" {
					res.Header.Set("Location", "https://"+res.Request.Header.Get("X-Forwarded-Host")+to)
				}
			}
			d.forwardToo(func(p *httputil.ProxyRequest) {
				if host := p.In.Header.Get("X-Forwarded-Host"); host != "" {
					p.Out.Header.Set("X-Forwarded-Host", host)
				}
			})
		}, []string{"problem forwarded-headers"}, "doctor.invalid"},
		"proxy is not trusted": {func(d *deployment) { d.settings.TrustedProxies = []string{"127.0.0.9"} }, []string{"problem visitor-address"}, "address of the proxy"},
		"no proxy is named":    {func(d *deployment) { d.settings.TrustedProxies = nil }, []string{"warning settings-conflicts", "problem visitor-address"}, "--trusted-proxy"},
		"proxy passes no address on": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("X-Forwarded-For") })
		},
			[]string{"problem visitor-address"}, "passes no address on"},
		"proxy passes on what a visitor writes": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"] })
		}, []string{"problem visitor-address"}, "every visitor chooses"},
		"proxy overwrites the address": {func(d *deployment) {
			d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Set("X-Forwarded-For", "127.0.0.1") })
		}, []string{}, ""},
		"this machine is trusted":                 {func(d *deployment) { d.settings.TrustedProxies = []string{"127.0.0.0/8"} }, []string{}, ""},
		"two proxies":                             {func(d *deployment) { d.twoProxies("127.0.0.2", "127.0.0.3") }, []string{}, ""},
		"the first of two proxies is not trusted": {func(d *deployment) { d.twoProxies("127.0.0.2") }, []string{"warning visitor-address"}, "the one after it is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, want := newDeployment(t, ""), c.want
			c.change(d)
			if !strings.Contains(fmt.Sprint(want), "status-list") { // it is waited for a second
				d.sql("DELETE FROM sessions", "DELETE FROM status_lists")
				want = append(slices.Clone(want), "skipped status-list")
			}
			findings := d.start().findings()
			if diff := cmp.Diff(want, notOK(findings)); diff != "" {
				t.Errorf("%s\n%v", diff, findings)
			} else if len(c.want) > 0 {
				_, first, _ := strings.Cut(c.want[0], " ")
				has(t, "what is found", findings[first].Found+" -> "+findings[first].Do, c.says)
			}
		})
	}
	t.Run("port of another server", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t, "").start()
		other := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(other.Close)
		d.settings.Listen = other.Listener.Addr().String()
		findings := d.findings()
		if diff := cmp.Diff([]string{"problem service", "skipped security-headers", "skipped pages"}, notOK(findings)); diff != "" || !strings.Contains(findings["service"].Found, "another program has this port") {
			t.Error(diff, findings["service"])
		}
	})
	t.Run("limit that refuses the doctor", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t, "")
		d.serveSettings = func(s *config.Settings) { s.RateLimits = []string{"all=5/1m"} }
		if f := d.start().findings()["issuer"]; f.Level != doctor.Problem || !strings.Contains(f.Do, "rate-limit") {
			t.Error(f)
		}
	})
	t.Run("service cannot start", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t, "").start()
		d.settings.Listen = "192.0.2.1:4040" // RFC 5737
		if f := d.findings()["service"]; !strings.Contains(f.Found, "this machine does not have the address") {
			t.Error(f)
		}
	})
	t.Run("service is down", func(t *testing.T) {
		t.Parallel()
		d := newDeployment(t, "").start()
		d.service.Close()
		equal(t, "withTLS", notOK(d.findings()), withTLS("problem service", "problem public-address"))
	})
}

// rewriting makes the proxy write something else in bodies of a type, as nginx does with sub_filter.
func rewriting(media, old, replacement string) func(*deployment) {
	return func(d *deployment) {
		d.forwardToo(func(p *httputil.ProxyRequest) { p.Out.Header.Del("Accept-Encoding") })
		d.rewrite = func(res *http.Response) {
			if strings.HasPrefix(res.Header.Get("Content-Type"), media) {
				body, err := io.ReadAll(res.Body)
				must(d.t, err)
				body = bytes.ReplaceAll(body, []byte(old), []byte(replacement))
				res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				res.Header.Set("Content-Length", strconv.Itoa(len(body)))
			}
		}
	}
}

// inFront puts a proxy in front that answers itself where own returns a status.
func inFront(own func(*http.Request) int) func(*deployment) {
	return func(d *deployment) {
		d.twoProxies("127.0.0.2", "127.0.0.3")
		d.between = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if status := own(r); status != 0 {
					w.WriteHeader(status)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
}

// cacheAll is a cache that keeps the first answer of each address, whatever its headers say.
func cacheAll(next http.Handler) http.Handler {
	var mu sync.Mutex
	kept := map[string]*httptest.ResponseRecorder{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		answer := kept[r.URL.Path]
		if answer == nil || r.Method != http.MethodGet {
			answer = httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			kept[r.URL.Path] = answer
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

func (d *deployment) forwardToo(more func(*httputil.ProxyRequest)) {
	forward := d.forward
	d.forward = func(p *httputil.ProxyRequest) { forward(p); more(p) }
}

// twoProxies puts a second one in front of the proxy.
func (d *deployment) twoProxies(trusted ...string) {
	d.settings.TrustedProxies = trusted
	d.between = func(next http.Handler) http.Handler { return next }
}

// What is wrong in files, settings and database is found without a connection, and nothing is changed.
func TestFaultOfTheInstallation(t *testing.T) {
	onLinux(t)
	stored := func(statement string) func(*deployment) { return func(d *deployment) { d.sql(statement) } }
	undone := []string{"database-text", "database-version", "database-durability", "database-size", "database-integrity", "disk-growth", "backup", "background-work", "data-key", "key-age", "client-algorithms", "own-claims", "allowed-clients", "sign-outs", "shared-secret", "shared-secret-source", "hs256-sessions", "second-factor",
		"second-factor-optional", "passkey-host"}
	without := func(rest ...string) []string {
		for _, name := range undone {
			if !slices.Contains(ofTheMachine, name) {
				rest = append(rest, "skipped "+name)
			}
		}
		return rest
	}
	problemAt := func(name string, list []string) []string {
		list[slices.Index(list, "skipped "+name)] = "problem " + name
		return list
	}
	secret := func(value string) func(*deployment) {
		return func(d *deployment) {
			d.env["SERVICE_AUTH_JWT_SECRET"] = value
			d.secrets = append(d.secrets, value)
		}
	}
	weak := func(value string) func(*deployment) {
		return func(d *deployment) { secret(value)(d) }
	}
	const (
		allowed = "INSERT INTO client_allowances (url, scopes, apis, created_at) VALUES ('https://agents.example.org/*', 'openid', '', 0)"
		client  = `INSERT INTO clients (id, name, redirect_uris, scopes, auth_method, require_pkce, require_flag, trusted, id_token_claims,
			allow_insecure_redirect, created_at, id_token_alg)
			VALUES ('photos', 'Photos', 'https://p.example.org/cb', 'openid', 'any', false, '', false, false, false, 0, '')`
	)
	for name, c := range map[string]struct {
		change func(*deployment)
		want   []string
		says   string
	}{
		"healthy":                       {func(*deployment) {}, nil, ""},
		"key that others can read":      {func(d *deployment) { must(d.t, os.Chmod(d.settings.PrivateKeyFile, 0o644)) }, []string{"problem signing-key", "skipped key-age", "skipped signer", "skipped client-algorithms", "skipped hs256-sessions"}, "mode 0644"},
		"data key that others can read": {func(d *deployment) { must(d.t, os.Chmod(d.settings.DataKeyFile, 0o644)) }, problemAt("data-key", without("problem database")), "chmod 600"},
		"another data key": {func(d *deployment) {
			must(d.t, os.Remove(d.settings.DataKeyFile))
			must(d.t, config.GenerateDataKey(d.settings.DataKeyFile))
		}, without("problem database"), "--new-data-key"},
		"secrets that are not sealed": {func(d *deployment) {
			d.sql("DELETE FROM secrets WHERE name = 'data-key'", "UPDATE totp SET secret = 'JBSWY3DPEHPK3PXP'")
			d.sql("UPDATE secrets SET value = CAST('" + strings.Repeat("a secret which is not sealed; ", 2) + "' || name AS BLOB)")
			d.settings.DataKeyFile = ""
			must(d.t, os.Remove(filepath.Join(filepath.Dir(d.dsn), "data.key")))
		}, []string{"warning data-key"}, "3 secrets"},
		"no key": {func(d *deployment) { d.settings.PrivateKeyFile = "" }, []string{"problem signing-key", "skipped key-age", "skipped signer", "skipped client-algorithms", "skipped hs256-sessions"}, "has issued tokens"},
		"no key from the start": {func(d *deployment) {
			d.settings.PrivateKeyFile = ""
			d.sql("UPDATE sessions SET algorithm = 'HS256'")
		}, []string{"advice signing-key", "skipped key-age", "skipped signer", "skipped client-algorithms", "skipped hs256-sessions"}, "HS256"},
		"old key": {func(d *deployment) {
			old := time.Now().AddDate(0, 0, -400).Add(-time.Hour)
			must(d.t, os.Chtimes(d.settings.PrivateKeyFile, old, old))
		}, []string{"warning key-age"}, "400 days"},
		"database that others can read": {func(d *deployment) { must(d.t, os.Chmod(d.dsn, 0o640)) }, []string{"problem database-file"}, "mode 0640"},
		"database and its log that others can read": {func(d *deployment) {
			must(d.t, errors.Join(d.store.Close(), os.WriteFile(d.dsn+"-wal", nil, 0o600)))
			for _, name := range []string{d.dsn, d.dsn + "-wal"} {
				must(d.t, os.Chmod(name, 0o644))
			}
		}, []string{"problem database-file"}, "cairn.db-wal; if"},
		"folder that others can write": {func(d *deployment) { must(d.t, os.Chmod(filepath.Dir(d.dsn), 0o777)) }, []string{"problem database-file"}, "mode 0777"},
		"folder for the files of all": {func(d *deployment) { must(d.t, os.Chmod(filepath.Dir(d.dsn), 0o777|os.ModeSticky)) }, []string{"problem database-file"},
			"(mode 1777), and put files in the place of its own. -> Move the database to a folder of the service's user."},
		"database of root": {func(d *deployment) {
			if os.Geteuid() == 0 {
				must(d.t, os.Chown(filepath.Dir(d.dsn), 65534, 65534))
				return
			}
			must(d.t, os.Chmod(d.dsn, 0o400))
		}, []string{"problem database-file"}, "cairn.db"},
		"no database": {func(d *deployment) { d.settings.Database = filepath.Join(d.t.TempDir(), "none.db") }, without("skipped database-file", "problem database", "skipped database-writes", "skipped database-pool", "skipped migrations"), "-> Run cairn doctor in the folder of cairn.yaml"},
		"no database in a folder that others can write": {func(d *deployment) {
			d.settings.Database = filepath.Join(d.t.TempDir(), "none.db")
			must(d.t, os.Chmod(filepath.Dir(d.settings.Database), 0o777))
		}, without("skipped database-file", "problem database", "skipped database-writes", "skipped database-pool", "skipped migrations"), "-> Run cairn doctor in the folder of cairn.yaml"},
		"file is no database": {func(d *deployment) {
			must(d.t, d.store.Close())
			must(d.t, os.WriteFile(d.dsn, []byte(strings.Repeat("junk", 1000)), 0o600))
		}, without("problem database", "skipped database-writes", "skipped database-pool", "skipped migrations"), "file is damaged"},
		"file is no database, and open to others": {func(d *deployment) {
			must(d.t, d.store.Close())
			must(d.t, os.WriteFile(d.dsn, []byte(strings.Repeat("junk", 1000)), 0o600))
			must(d.t, os.Chmod(d.dsn, 0o644))
		}, without("problem database-file", "problem database", "skipped database-writes", "skipped database-pool", "skipped migrations"), "restore a backup: file is not a database. -> Do what the message says"},
		"database is a folder":       {func(d *deployment) { d.settings.Database = d.t.TempDir() }, without("problem database-file", "problem database", "skipped database-writes", "skipped database-pool", "skipped migrations"), "is a folder. -> Name the file in it"},
		"database not initialized":   {func(d *deployment) { d.sql("DELETE FROM secrets") }, without("problem database"), "not initialized"},
		"migration is pending":       {func(d *deployment) { d.undoTurns() }, without("warning migrations"), "pending"},
		"newer program has migrated": {stored("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"), without("problem migrations"), "newer"},
		"file that ends early": {func(d *deployment) {
			must(d.t, d.store.Close())
			must(d.t, os.Truncate(d.dsn, 200_000))
		}, without("problem database", "skipped database-writes", "skipped database-pool", "skipped migrations"), "restore a backup: database disk image is malformed. -> Do what"},
		"sign-outs that wait": {stored("INSERT INTO logout_outbox (client_id, sub, sid, created_at, next_at) VALUES ('wiki', 'x', 'x', 1, 1)"),
			[]string{"warning sign-outs"}, "1 sign-outs wait since 1970"},
		"backup that is damaged": {func(d *deployment) {
			d.settings.BackupDir = d.t.TempDir()
			file := filepath.Join(d.settings.BackupDir, "cairn-1.tar.gz")
			must(d.t, os.WriteFile(file, []byte("backup"), 0o600))
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnScheduledBackup, time.Now(), file))
			d.options.CheckBackup = func(context.Context, string) error { return errors.New("it ends early") }
		}, []string{"problem backup"}, "cannot be restored: it ends early"},
		"journal is not WAL": {func(d *deployment) {
			must(d.t, d.store.Close())
			d.sql("PRAGMA journal_mode = DELETE")
		}, []string{"warning database-durability"}, "journal_mode is delete"},
		"index that lacks rows": {stored("PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, '(at, id)', '(id, at)') WHERE name = 'audit_at'"), []string{"problem database-integrity"}, "missing from index audit_at"},
		"damaged page":          {func(d *deployment) { d.damage("invites_created") }, []string{"problem database-integrity"}, "damaged"},
		"damaged page of what is read": {func(d *deployment) { d.damage("audit_at") },
			[]string{"problem database", "skipped database-text", "skipped database-version", "skipped database-durability", "skipped database-size", "problem database-integrity"}, "malformed. -> Stop the service, keep the file, and restore the last backup."},
		"no backup": {stored("DELETE FROM turns"), []string{"advice backup"}, "There is no backup yet"},
		"no backup in a week of use": {func(d *deployment) {
			d.sql("DELETE FROM turns", "INSERT INTO counters (name, value) VALUES ('signins:"+time.Now().UTC().AddDate(0, 0, -9).Format(time.DateOnly)+"', 1)")
		}, []string{"warning backup"}, "There is no backup yet"},
		"backup of ten days ago": {func(d *deployment) { d.backup(d.store, time.Now().AddDate(0, 0, -10)) }, []string{"warning backup"}, "10 days"},
		"backup of the future":   {func(d *deployment) { d.backup(d.store, time.Now().AddDate(2, 0, 0)) }, []string{"warning backup"}, "which is in the future: the clock was wrong"},
		"sweep of the future": {func(d *deployment) {
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnSweep, time.Now().AddDate(1, 0, 0), ""))
		}, []string{"warning background-work"}, "The last sweep is noted for"},
		"clock that jumped": {func(d *deployment) {
			must(d.t, d.store.NoteDone(d.t.Context(), "clock", time.Now().Add(time.Hour/2), "the clock jumped by 48h0m0s"))
		}, []string{"warning background-work"}, "the clock jumped by 48h0m0s. -> Compare date -u"},
		"backup-dir that is missing":   {func(d *deployment) { d.settings.BackupDir = filepath.Join(d.t.TempDir(), "none") }, []string{"problem backup"}, "no such file"},
		"backup-dir that is no folder": {func(d *deployment) { d.settings.BackupDir = d.settings.PrivateKeyFile }, []string{"problem backup"}, "not a directory"},
		"backup-dir that everybody can write": {func(d *deployment) {
			d.settings.BackupDir = d.t.TempDir()
			must(d.t, os.Chmod(d.settings.BackupDir, 0o777))
		}, []string{"warning backup"}, "(mode 0777), and put another file in the place of a backup. -> Run chmod o-w "},
		"backup-dir that was emptied": {func(d *deployment) {
			d.settings.BackupDir = d.t.TempDir()
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnScheduledBackup, time.Now(), filepath.Join(d.settings.BackupDir, "cairn-1.tar.gz")))
		}, []string{"warning backup"}, "cairn-1.tar.gz, is missing or empty"},
		"backup-dir with the last backup, another one elsewhere": {func(d *deployment) {
			d.settings.BackupDir, d.settings.BackupCommand = d.t.TempDir(), "true"
			file := filepath.Join(d.settings.BackupDir, "cairn-1.tar.gz")
			must(d.t, os.WriteFile(file, []byte("backup"), 0o600))
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnScheduledBackup, time.Now(), file))
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnBackup, time.Now(), "/mnt/by-hand.tar.gz"))
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnBackupCommand, time.Now(), ""))
		}, []string{"advice backup"}, "true carries backups off that are not encrypted"},
		"backup-command that failed": {func(d *deployment) {
			d.settings.BackupCommand = "/bin/false"
			must(d.t, d.store.NoteDone(d.t.Context(), store.TurnBackupCommand, time.Now(), "exit status 1"))
		}, []string{"warning backup"}, "The command after the last backup failed: exit status 1"},
		"client of an algorithm without a key": {stored(strings.Replace(client, "'')", "'EdDSA')", 1)),
			[]string{"problem client-algorithms"}, "photos (EdDSA)"},
		"client of FAPI 2.0 without a key": {stored("INSERT INTO clients (id, name, redirect_uris, scopes, auth_method, require_pkce, require_flag, trusted, id_token_claims, allow_insecure_redirect, created_at, id_token_alg, profile) VALUES ('bank', 'Bank', 'https://p.example.org/cb', 'openid', 'any', false, '', false, false, false, 0, 'ES256', 'fapi2')"),
			[]string{"problem client-algorithms"}, "bank (ES256, profile fapi2: it does not allow RS256)"},
		"client whose members choose who they are": {func(d *deployment) { d.sql(client, "UPDATE clients SET claims = 'upn={name}'") },
			[]string{"warning own-claims"}, "cairn client update photos --claim \"upn={name}\": members choose their name"},
		"allowance that nobody uses": {stored(allowed), []string{"advice allowed-clients"}, "https://agents.example.org/*"},
		"allowance whose client is used": {func(d *deployment) {
			d.sql(allowed, strings.Replace(client, "'photos'", "'https://agents.example.org/a.json'", 1), "UPDATE clients SET document = true")
			d.sql(fmt.Sprint("INSERT INTO consents (sub, client_id, scope, granted_at, last_used_at) SELECT u.sub, c.id, 'openid', 0, ",
				time.Now().AddDate(0, 0, -80).Unix(), " FROM users u, clients c"))
		}, nil, ""},
		"HS256 session": {stored("UPDATE sessions SET algorithm = 'HS256'"), []string{"warning hs256-sessions"}, "1 session is"},
		"HS256 session with an end": {func(d *deployment) {
			d.sql("UPDATE sessions SET algorithm = 'HS256'", "UPDATE settings SET hs256_until = 4102444800")
		}, nil, ""},
		"administrator without a factor": {stored("UPDATE users SET second_factor = false"), []string{"advice second-factor"}, "1 administrator"},
		"passkeys of another host": {stored(`INSERT INTO passkeys (id, sub, rp_id, name, public_key, aaguid, transports, attachment, sign_count, backup_eligible, backup_state, created_at)
			SELECT x'01', sub, 'old.example.net', 'Key', x'01', x'01', '', '', 0, 0, 0, 1 FROM users LIMIT 1`), []string{"warning passkey-host"}, "1 passkeys of 1 members"},
		"nobody has to have a factor":       {stored(`UPDATE settings SET value = replace(value, '"second_factor_flags":["admin"]', '"second_factor_flags":[]')`), []string{"advice second-factor-optional"}, "Nobody"},
		"secret of a short period":          {weak(strings.Repeat("hunter2 ", 8)), []string{"problem shared-secret", "warning shared-secret-source"}, "repeats after"},
		"secret of few values":              {weak("aaaaaaabaaaaaaaaacaaaaaaaadaaaaaaaaaaaaea"), []string{"problem shared-secret", "warning shared-secret-source"}, "few different bytes (5): whoever guesses it can make session cookies. -> Unset it here"},
		"secret that is short":              {weak("kQ8zt3Ywp0Vd"), []string{"problem shared-secret", "skipped shared-secret-source"}, "12 bytes"},
		"another secret in the environment": {secret("Zm9vYmFyYmF6cXV4IG5vdCBhIHNlY3JldCBvZiBhbnkgaW5zdGFsbGF0aW9u"), []string{"warning shared-secret-source"}, "is not the stored secret"},
		"the stored secret once more":       {func(d *deployment) { d.env["SERVICE_AUTH_JWT_SECRET"] = d.secrets[len(d.secrets)-1] }, nil, ""},
		"file of --apply that is refused": {func(d *deployment) {
			d.settings.Apply = "clients.yaml"
			d.options.CheckApply = func(path string) error { return fmt.Errorf("%s:3: there is no key x", path) }
		}, []string{"problem settings-conflicts"}, "--apply (SERVICE_APPLY): clients.yaml:3: there is no key x. -> Do what the message says"},
		"certificate that is missing": {func(d *deployment) { d.settings.TLSCertFile, d.settings.TLSKeyFile = "gone.pem", "key.pem" },
			[]string{"problem settings-conflicts"}, "tls-cert-file"},
		"settings with which it cannot start": {func(d *deployment) { d.settings.Issuer = "http://id.example.org" }, []string{"problem settings"}, "--issuer"},
		"password in the mail server's URL":   {func(d *deployment) { d.settings.SMTPURL = "smtp://club:hunter2@mail.example.org" }, []string{"problem settings"}, "holds a password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, "")
			c.change(d)
			d.stop()
			d.options.Offline = true
			before := d.files()
			findings := d.findings()
			equal(t, "the doctor has changed a file", d.files(), before)
			want := append(slices.Clone(c.want), "skipped mail-server", "skipped service", "skipped tls-certificate",
				"skipped public-address", "skipped open-files", "skipped cache", "skipped answer-headers", "skipped programs", "skipped authorization", "skipped issuer", "skipped clock", "skipped https-redirect",
				"skipped hsts", "skipped security-headers", "skipped pages", "skipped session-cookie", "skipped device-binding", "skipped visitor-address", "skipped forwarded-headers", "skipped key-set", "skipped status-list")
			if findings["settings"].Level == doctor.Problem { // and nothing else is looked at
				want = []string{"problem settings"}
				for _, name := range doctor.Names()[1:] {
					if !slices.Contains(ofTheMachine, name) {
						want = append(want, "skipped "+name)
					}
				}
			}
			equal(t, findings, notOK(findings), want)
			if len(c.want) > 0 {
				said := ""
				for _, want := range c.want {
					if _, name, _ := strings.Cut(want, " "); !strings.HasPrefix(want, "skipped") {
						said += findings[name].Found + " -> " + findings[name].Do + "\n"
					}
				}
				has(t, "what is said", said, c.says)
			}
		})
	}
}

// A description is fetched as the service would, and not with --offline.
func TestDescriptionThatCannotBeUsed(t *testing.T) {
	onLinux(t)
	agents := httptest.NewTLSServer(http.NotFoundHandler())
	defer agents.Close()
	d := newDeployment(t, "").start()
	d.options.RootCAs.AddCert(agents.Certificate())
	d.sql(fmt.Sprintf("INSERT INTO client_allowances (url, scopes, apis, created_at) VALUES ('%s/a.json', 'openid', '', %d)", agents.URL, time.Now().Unix()))
	if f := d.findings()["allowed-clients"]; f.Level != doctor.Warning || !strings.Contains(f.Found, agents.URL+"/a.json") || !strings.Contains(f.Found, "answers 404") {
		t.Errorf("%+v", f)
	}
	d.options.Offline = true
	if f := d.findings()["allowed-clients"]; f.Level != doctor.OK {
		t.Errorf("%+v", f)
	}
}

// files are the hashes of all that matters in the folder of the database.
func (d *deployment) files() map[string]string {
	all := map[string]string{}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(d.dsn), "*"))
	must(d.t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(d.t, err)
		info, err := os.Stat(name)
		must(d.t, err)
		if strings.HasSuffix(name, "-shm") || len(text) == 0 { // SQLite makes these to read a database in WAL mode
			continue
		}
		all[name] = fmt.Sprintf("%x %v", sha256.Sum256(text), info.Mode())
	}
	return all
}

// undoTurns takes the last migration back, as a database that an earlier version has left.
func (d *deployment) undoTurns() {
	d.sql("DROP TABLE turns", "ALTER TABLE invites DROP COLUMN sealed_code", "DELETE FROM goose_db_version WHERE version_id >= 12")
}

// damage overwrites the first page of an index in the file.
func (d *deployment) damage(index string) {
	var page, size int64
	must(d.t, d.row(&page, "SELECT rootpage FROM sqlite_master WHERE name = '"+index+"'"))
	must(d.t, d.row(&size, "PRAGMA page_size"))
	d.sql("PRAGMA wal_checkpoint(TRUNCATE)")
	must(d.t, d.store.Close())
	f, err := os.OpenFile(d.dsn, os.O_RDWR, 0)
	must(d.t, err)
	_, err = f.WriteAt([]byte(strings.Repeat("\xff", int(size))), (page-1)*size)
	must(d.t, errors.Join(err, f.Close()))
	d.store = storetest.Open(d.t, filepath.Join(d.t.TempDir(), "spare.db"))
}

// The same with PostgreSQL: a database of an earlier version stays as it is, and what its server does to writes is found.
func TestFaultOfPostgreSQL(t *testing.T) {
	onPostgres(t, func(t *testing.T, dsn string) {
		d := newDeployment(t, dsn)
		d.options.Offline = true
		d.settings.Database = dsn + "&synchronous_commit=off"
		if f := d.findings()["database-durability"]; f.Level != doctor.Problem || !strings.Contains(f.Found, "synchronous_commit is off") {
			t.Errorf("%+v", f)
		}
		d.settings.Database = strings.Replace(dsn, "://", "://cairn:hunter2@127.0.0.1:1/nothing?connect_timeout=1&x=", 1)
		if f := d.findings()["database"]; f.Level != doctor.Problem {
			t.Errorf("%+v", f)
		}
	})
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		if !strings.HasPrefix(dsn, "postgres") {
			return
		}
		d := newDeployment(t, dsn)
		d.options.Offline = true
		d.undoTurns()
		count := func() (version, tables int64) {
			must(t, d.row(&version, "SELECT max(version_id) FROM goose_db_version"))
			must(t, d.row(&tables, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"))
			return version, tables
		}
		version, tables := count()
		f := d.findings()
		if f["migrations"].Level != doctor.Warning || f["backup"].Level != doctor.Skipped {
			t.Errorf("%+v %+v", f["migrations"], f["backup"])
		}
		if v, n := count(); v != version || v != 11 || n != tables {
			t.Errorf("version %d with %d tables, before %d with %d", v, n, version, tables)
		}
	})
}

func TestFaultOfTheMailServer(t *testing.T) {
	d := newDeployment(t, "").start()
	server := mailtest.New(t, mailtest.Options{})
	for name, c := range map[string]struct {
		change func(*mail.Server)
		rows   string
		level  doctor.Level
		says   string
	}{
		"wrong password": {func(s *mail.Server) { s.Password = "hunter2" }, "", doctor.Problem, "refuses user and password"},
		"nothing there":  {func(s *mail.Server) { s.Address = "127.0.0.1:1" }, "", doctor.Problem, "connect"},
		"mails wait": {func(*mail.Server) {}, "INSERT INTO mail_outbox (kind, sub, address, language, data, created_at, next_at, attempts, failure) VALUES ('x', 'x', 'x', '', '{}', 1, 1, 3, 'connect: refused')",
			doctor.Warning, "1 email could not be sent yet: connect: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rows != "" {
				d.sql(c.rows)
			}
			settings := server.Settings
			c.change(&settings)
			d.options.Mail = func(config.Checked) (*mail.SMTP, error) { return mail.NewSMTP(settings), nil }
			if f := d.findings()["mail-server"]; f.Level != c.level || !strings.Contains(f.Found, c.says) {
				t.Errorf("%+v", f)
			}
		})
	}
	picky := mailtest.New(t, mailtest.Options{Mail: func(int) error { return errors.New("550 5.7.1 not your address") }})
	d.options.Mail = func(config.Checked) (*mail.SMTP, error) { return mail.NewSMTP(picky.Settings), nil }
	if f := d.findings()["mail-server"]; f.Level != doctor.Problem || !strings.Contains(f.Found, "sender: ") || !strings.Contains(f.Do, "--mail-from") {
		t.Errorf("%+v", f)
	}
	d.options.Mail = func(config.Checked) (*mail.SMTP, error) {
		return nil, errors.New("--smtp-password-file: cannot be read")
	}
	if f := d.findings()["mail-server"]; f.Level != doctor.Problem || len(server.Mails()) > 0 {
		t.Errorf("%+v, %d mails were sent", f, len(server.Mails()))
	}
}
