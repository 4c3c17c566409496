package httpd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// Attacks 78 to 81 and 89: what a page of another site can make a browser send.
func TestForeignPageChangesNothing(t *testing.T) {
	s := startService(t, serviceOptions{}, "bob")
	s.addUser("ada", "admin")
	b := s.signedIn("ada")
	foreign := map[string][]string{
		"cross-site":       {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		"sibling host":     {"Sec-Fetch-Site", "same-site", "Origin", "http://app.localhost"},
		"old browser":      {"Origin", "https://evil.example"},
		"null origin":      {"Origin", "null"},
		"suffix lookalike": {"Origin", s.URL + ".evil.example"},
		"prefix lookalike": {"Origin", "http://evil" + strings.TrimPrefix(s.URL, "http://")},
	}
	for name, header := range foreign {
		for _, c := range []struct{ method, path, kind, body string }{
			{"POST", "/api/admin/users/bob/suspend", "application/json", "{}"},
			{"POST", "/api/admin/users/bob/suspend", "text/plain", "{}"},
			{"POST", "/api/admin/users/bob/suspend", "", ""},
			{"DELETE", "/api/admin/users/bob", "", ""},
			{"PUT", "/api/admin/users/bob/flags", "application/json", `{"admin":true}`},
			{"POST", "/api/invites", "application/json", "{}"},
			{"POST", "/api/auth/logout", "", ""},
			{"POST", "/logout/", "application/x-www-form-urlencoded", ""},
			{"POST", "/login/", "application/x-www-form-urlencoded", "handle=bob&password=" + url.QueryEscape(password)},
			{"POST", "/api/auth/login", "application/json", `{"handle":"bob","password":"` + password + `"}`},
			{"POST", "/account/profile", "application/x-www-form-urlencoded", "display_name=x"},
		} {
			got := b.do(c.method, c.path, c.kind, c.body, header...)
			if got.StatusCode != http.StatusForbidden || got.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s: %s %s: %d", name, c.method, c.path, got.StatusCode)
			}
		}
	}
	same(t, "still signed in as", b.api("GET", "/api/me", nil).JSON(t)["handle"], "ada")
	u, err := s.store.UserByHandle(t.Context(), "bob")
	if err != nil || u.Suspended() || u.Has("admin") {
		t.Errorf("bob: %+v %v", u, err)
	}
}

// Attacks 84 and 85.
func TestCORSOpensToListedOrigins(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AllowedOrigins = []string{"https://app.example.org"} }})
	b := s.browser()
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.org.evil.example", "https://evilapp.example.org", "http://app.example.org", "https://app.example.org:8443"} {
		got := b.do("GET", "/api/me", "", "", "Origin", origin)
		if got.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(got.Header.Get("Vary"), "Origin") {
			t.Errorf("%s: %v", origin, got.Header)
		}
		pre := b.do("OPTIONS", "/api/me", "", "", "Origin", origin, "Access-Control-Request-Method", "PATCH")
		same(t, fmt.Sprintf("preflight of %s: %v", origin, pre.Header),
			pre.Header.Get("Access-Control-Allow-Origin"), "")
	}
	got := b.do("OPTIONS", "/api/me", "", "", "Origin", "https://app.example.org", "Access-Control-Request-Method",
		"PATCH", "Access-Control-Request-Headers", "content-type")
	if got.Header.Get("Access-Control-Allow-Origin") != "https://app.example.org" ||
		got.Header.Get("Access-Control-Allow-Credentials") != "true" ||
		got.Header.Get("Access-Control-Allow-Methods") != "PATCH" {
		t.Errorf("preflight of the allowed origin: %d %v", got.StatusCode, got.Header)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json", "/oauth2/userinfo", "/schemas/activity-1.0.json", "/.well-known/webfinger"} {
		got := b.do("GET", path, "", "", "Origin", "https://any.example")
		same(t, path+" for a cache, without Origin", b.get(path).Header.Get("Access-Control-Allow-Origin"), "*")
		same(t, path+" lets a page read", got.Header.Get("Access-Control-Expose-Headers"), "Dpop-Nonce,Etag,Preference-Applied,Retry-After,Www-Authenticate")
		if got.Header.Get("Access-Control-Allow-Origin") != "*" || got.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	// Libraries add headers of their own; none of them brings the cookie along. The API stays with what it knows.
	for path, method := range map[string]string{
		"/oauth2/token": "POST", "/oauth2/userinfo": "GET", "/oauth2/revoke": "POST", "/oauth2/introspect": "POST", "/oauth2/par": "POST", "/oauth2/device_authorization": "POST", "/.well-known/openid-configuration": "GET",
		"/.well-known/jwks.json": "GET", "/api/me": "GET",
	} {
		const asked = "authorization,content-type,dpop,x-requested-with"
		h := b.do("OPTIONS", path, "", "", "Origin", "https://app.example.org", "Access-Control-Request-Method", method, "Access-Control-Request-Headers", asked).Header
		if public := path != "/api/me"; public != (h.Get("Access-Control-Allow-Headers") == asked) || public &&
			(h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "") {
			t.Errorf("preflight of %s: %v", path, h)
		}
	}
	if got := b.do("GET", "/login/", "", "", "Origin", "https://app.example.org"); got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("a page is readable from elsewhere")
	}
	without := startService(t, serviceOptions{})
	got = without.browser().do("GET", "/api/me", "", "", "Origin", "https://app.example.org")
	if got.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(got.Header.Get("Vary"), "Origin") {
		t.Errorf("without a list: %v", got.Header)
	}
}

// Attacks 86 to 88.
func TestSecurityHeaders(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	// A popup keeps its opener on the way of an authorization, and on no other page.
	toLogin := s.browser().get(rp.authURL())
	for path, want := range map[string]string{
		rp.authURL(): "unsafe-none", toLogin.Header.Get("Location") + "&fresh=confirm": "unsafe-none", b.get(rp.authURL()).Header.Get("Location"): "unsafe-none",
		"/login/?fresh=confirm": "same-origin", "/login/?fresh=confirm&continue=a.b": "same-origin", "/account/": "same-origin", "/account/security": "same-origin", "/logout/": "same-origin",
		"/register/": "same-origin", "/oauth2/logout": "same-origin",
	} {
		same(t, fmt.Sprintf("%.60s: Cross-Origin-Opener-Policy", path),
			b.get(path).Header.Get("Cross-Origin-Opener-Policy"), want)
	}
	login := s.browser().get(toLogin.Header.Get("Location"))
	for _, pass := range []string{"not this one", password} {
		same(t, "the answer to the sign-in form: Cross-Origin-Opener-Policy",
			s.browser().send(login, "handle", "ada", "password", pass).Header.Get("Cross-Origin-Opener-Policy"), "unsafe-none")
	}
	for _, path := range []string{"/login/", "/account/", "/api/me", "/nowhere", "/oauth2/authorize", "/.well-known/jwks.json", "/register/", "/api/auth/login"} {
		got := b.get(path)
		h := got.Header
		csp := h.Get("Content-Security-Policy")
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "same-origin" ||
			!strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") ||
			strings.Contains(csp, "unsafe") || h.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.HasPrefix(path, "/a") && h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: Cache-Control %q", path, h.Get("Cache-Control"))
		}
	}
	same(t, "HSTS on plain http", b.get("/login/").Header.Get("Strict-Transport-Security"), "")
	secure := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.Issuer = "https://id.example.org" }})
	same(t, "HSTS on https",
		secure.browser().get("/login/").Header.Get("Strict-Transport-Security"), "max-age=31536000")
}

// Attacks 82, 83, 144 and 145.
func TestUnexpectedMethodsAndPaths(t *testing.T) {
	s := startService(t, serviceOptions{}, "bob")
	s.addUser("ada", "admin")
	b := s.signedIn("ada")
	for _, path := range []string{"/api/admin/users/bob/suspend", "/api/auth/logout", "/api/admin/users/bob/reset-password-code", "/api/me/sessions/end-others"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "TRACE", "PROPFIND"} {
			if got := b.do(method, path, "", "", "X-HTTP-Method-Override", "POST"); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
				t.Errorf("%s %s: %d, Allow %q", method, path, got.StatusCode, got.Header.Get("Allow"))
			}
		}
	}
	for _, path := range []string{"//evil.example/..", "//evil.example/%2e%2e", "/\\evil.example", "/../etc/passwd", "/.git/config", "/debug/pprof/", "/api//admin/users", "/api/admin/users/", "/api/admin/users//suspend", "/metrics", "/static/", "/static/../main.go",
		"/account/security%2f"} {
		got := exchangeBytes(t, s, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 404") && !strings.HasPrefix(got, "HTTP/1.1 400") || strings.Contains(got, "\r\nLocation:") {
			t.Errorf("%s: %.120q", path, got)
		}
	}
	for path, want := range map[string]string{"/account/security/": "/account/security", "/login?a=b": "/login/?a=b", "/admin/settings/": "/admin/settings", "/logout": "/logout/"} {
		if got := b.get(path); got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", path, got.StatusCode, got.Header.Get("Location"), want)
		}
	}
	if got := b.get("/logout/"); got.StatusCode != http.StatusOK || b.api("GET", "/api/me", nil).StatusCode != http.StatusOK {
		t.Error("GET /logout/ signed out")
	}
	notFound := b.do("GET", "/nowhere", "", "")
	if notFound.Header.Get("Content-Type") != "application/problem+json" || notFound.JSON(t)["code"] != "not_found" ||
		notFound.JSON(t)["request_id"] != notFound.Header.Get("X-Request-Id") {
		t.Errorf("404: %s", notFound.Text)
	}
}

// An origin that may call the API may not post the forms of the pages: not even one of
// the same site, whose requests bring the cookie along.
func TestAllowedOriginsCallTheAPIAlone(t *testing.T) {
	const neighbour = "http://localhost:3999" // of the same site as the service
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AllowedOrigins = []string{neighbour} }}, "ada")
	b := s.signedIn("ada")
	from := []string{"Origin", neighbour, "Sec-Fetch-Site", "same-site"}
	for _, path := range []string{"/account/profile", "/account/sessions/end-others", "/account/delete", "/logout/", "/login/"} {
		got := b.postForm(path, url.Values{"display_name": {"Mallory"}, "password": {password}, "handle": {"ada"}}, from...)
		same(t, path, got.StatusCode, http.StatusForbidden)
	}
	wantStatus(t, "the API", b.api("PATCH", "/api/me", map[string]string{"display_name": "Ada of the neighbour"}, from...), http.StatusOK)
	me := b.api("GET", "/api/me", nil).JSON(t)
	same(t, me, me["display_name"], "Ada of the neighbour")
}

// The limit of the token endpoint is that of its sisters too; each answers in its own protocol.
func TestLimitsOfRequests(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.RateLimits = []string{"all=30/1m", "token=5/1m"} }})
	b := s.browser()
	for i := range 5 {
		wantStatus(t, fmt.Sprint("token request ", i), b.postForm("/oauth2/token", url.Values{"grant_type": {"x"}}), http.StatusBadRequest)
	}
	for _, endpoint := range []string{"token", "revoke", "introspect", "par"} {
		got := s.clientPost(endpoint, "app", "x", url.Values{"token": {"x"}, "grant_type": {"x"}})
		wantOAuthError(t, endpoint, got, http.StatusTooManyRequests, "slow_down")
		if got.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", endpoint)
		}
	}
	for range 21 {
		b.get("/login/")
	}
	got := b.do("GET", "/api/me", "", "")
	if got.StatusCode != http.StatusTooManyRequests || got.JSON(t)["code"] != "rate_limited" || got.Header.Get("Retry-After") == "" {
		t.Errorf("all: %d %s", got.StatusCode, got.Text)
	}
	wantStatus(t, "health check", b.get("/healthz"), http.StatusOK)
}

// What bounds the requests as a whole costs no statement: each instance counts for
// itself, also while the database is away.
func TestRequestLimitsNeedNoDatabase(t *testing.T) {
	dsn := storetest.PostgresDSN(t) // on SQLite one instance alone counts anyway
	now := time.Now()
	s := startService(t, serviceOptions{Now: func() time.Time { return now }, Store: storetest.Open(t, dsn),
		Settings: func(c *config.Settings) {
			c.Database, c.RateLimits = dsn, []string{"all=10/1h", "token=4/1h"}
		}})
	noError(t, s.store.Close())
	b := s.visitor()
	token := inParallel(8, func(int) int {
		return b.postForm("/oauth2/token", url.Values{"grant_type": {"x"}}).StatusCode
	})
	same(t, fmt.Sprintf("8 requests at the token endpoint: %v, 4 of 429", token), token[http.StatusTooManyRequests], 4)
	all := inParallel(8, func(int) int { return b.get("/static/cairn.css").StatusCode })
	same(t, fmt.Sprintf("8 requests after 8: %v, 6 of 429", all), all[http.StatusTooManyRequests], 6)
}

func TestMetadataAloneIsCompressed(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.signedIn("ada")
	for path, want := range map[string]string{
		"/.well-known/openid-configuration": "gzip", "/.well-known/jwks.json": "gzip", "/schemas/activity-1.0.json": "gzip", "/account/": "", "/api/me": "", "/login/": "",
	} {
		same(t, fmt.Sprintf("%s: Content-Encoding", path),
			b.get(path, "Accept-Encoding", "gzip").Header.Get("Content-Encoding"), want)
	}
}

const (
	jsonHead = "Host: localhost\r\nContent-Type: application/json\r\n"
	formHead = "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
)

// Attack 138: an oversize body is refused while it comes, whatever it claims
// about its length, also where nobody reads it.
func TestOversizeBodyIsRefusedEarly(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, path := range []string{"/api/auth/login", "/api/register", "/api/auth/reset-password", "/api/me", "/api/admin/settings", "/login/", "/register/", "/reset-password/", "/logout/", "/oauth2/token", "/oauth2/userinfo", "/nowhere", "/healthz"} {
		for length, line := range map[string]string{"announced": "Content-Length: 104857600\r\n", "chunked": "Transfer-Encoding: chunked\r\n"} {
			head := jsonHead
			if !strings.HasPrefix(path, "/api/") {
				head = formHead
			}
			c := s.dial()
			wg.Go(func() {
				_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\n"+head+line+"\r\n")
				block, sent := bytes.Repeat([]byte("a"), 64<<10), 0
				for sent < 100<<20 {
					var err error
					if length == "chunked" {
						_, err = fmt.Fprintf(c, "%x\r\n%s\r\n", len(block), block)
					} else {
						_, err = c.Write(block)
					}
					if err != nil {
						break
					}
					sent += len(block)
				}
				if sent > 16<<20 { // most of what was sent waits in the kernel
					t.Errorf("%s %s: %d MB were taken", path, length, sent>>20)
				}
				answer := make([]byte, 12)
				if _, err := io.ReadFull(c, answer); err != nil || answer[9] != '4' {
					t.Errorf("%s %s: %q %v", path, length, answer, err)
				}
			})
		}
	}
}

// Attack 139: a packed body is not unpacked.
func TestPackedBodyIsRefused(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 40<<20))
	_ = z.Close()
	for _, encoding := range []string{"gzip", "deflate", "br", "GZIP", "identity, gzip", "x"} {
		for path, kind := range map[string]string{"/api/auth/login": "application/json", "/api/register": "application/json", "/login/": "application/x-www-form-urlencoded"} {
			got := s.visitor().do("POST", path, kind, bomb.String(), "Content-Encoding", encoding)
			wantProblem(t, path+" "+encoding, got, http.StatusUnsupportedMediaType, "unsupported_media_type")
		}
		if got := s.visitor().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", bomb.String(), "Content-Encoding", encoding); got.StatusCode/100 != 4 {
			t.Errorf("token endpoint with %s: %d", encoding, got.StatusCode)
		}
	}
}

// Attack 140.
func TestHeaderBombIsRefused(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "X-%d: a\r\n", i)
	}
	for name, request := range map[string]string{
		"one of 1 MB": "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "5,000": "GET / HTTP/1.1\r\nHost: localhost\r\n" + many.String() + "\r\n",
		"path of 1 MB": "GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "cookie of 100 kB": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nCookie: cairn_session=" + strings.Repeat("a", 100_000) + "\r\n\r\n",
	} {
		if got := exchangeBytes(t, s, request); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
			t.Errorf("%s: %.60q", name, got)
		}
	}
}

// What two readers could cut in different places is refused, or at least ends the
// connection: nothing hidden behind it is ever answered (security.md 143).
func TestAmbiguousRequestHidesNoOther(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	hidden := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	body := `{"handle":"nobody","password":"not the password"}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	post := "POST /api/auth/login HTTP/1.1\r\n" + jsonHead
	for name, request := range map[string]string{
		"CL before TE": post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, "TE before CL": post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"empty chunks and CL": "POST /api/auth/logout HTTP/1.1\r\n" + jsonHead + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":         post + "Content-Length: 0\r\nContent-Length: 60\r\n\r\n", "+0": post + "Content-Length: +0\r\n\r\n", "bad chunk": post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"two codings": post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked, "blank before colon": post + "Transfer-Encoding : chunked\r\n\r\n" + chunked,
		"two hosts": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "NUL in a header": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
	} {
		answer := exchangeBytes(t, s, request+hidden)
		if n := strings.Count(answer, "HTTP/1.1 "); n != 1 || strings.Contains(answer, `"status":"ok"`) {
			t.Errorf("%s: %d answers: %.200q", name, n, answer)
		}
		if !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 501") && !strings.Contains(name, "empty") {
			t.Errorf("%s: %.60q", name, answer)
		}
	}
}

// Who sends slowly loses the connection (security.md 141, 142 and 146), and is told that
// the request never came: the product's limits, a hundred times shorter.
func TestSlowClientLosesItsConnection(t *testing.T) {
	s := startService(t, serviceOptions{})
	srv := NewServer(s.server.Config.Handler, slog.New(slog.DiscardHandler))
	if srv.ReadHeaderTimeout <= 0 || srv.ReadHeaderTimeout > 10*time.Second || srv.ReadTimeout <= 0 ||
		srv.ReadTimeout > 30*time.Second || srv.WriteTimeout <= 0 || srv.WriteTimeout > time.Minute ||
		srv.IdleTimeout <= 0 || srv.IdleTimeout > 3*time.Minute || srv.MaxHeaderBytes > 64<<10 {
		t.Fatalf("limits of the server: %+v", srv)
	}
	srv.ReadHeaderTimeout, srv.ReadTimeout = srv.ReadHeaderTimeout/100, srv.ReadTimeout/100
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	slow := &service{t: t, URL: "http://" + l.Addr().String()}
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n":                                          "",
		"POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: 5000\r\n\r\n{": "HTTP/1.1 400",
		"POST /login/ HTTP/1.1\r\n" + formHead + "Content-Length: 5000\r\n\r\na":         "HTTP/1.1 400",
		"POST /api/invites HTTP/1.1\r\n" + jsonHead + "Content-Length: 5000\r\n\r\n":     "HTTP/1.1 401",
	} {
		if answer := exchangeBytes(t, slow, request); !strings.HasPrefix(answer, want) {
			t.Errorf("%.40q: %.60q", request, answer)
		}
	}
}

// full is a listener that accepts one connection, and then has only errors for others.
type full struct {
	net.Listener
	accepted bool
	again    chan error
}

func (f *full) Accept() (net.Conn, error) {
	if !f.accepted {
		f.accepted = true
		return f.Listener.Accept()
	}
	if err, more := <-f.again; more {
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return nil, net.ErrClosed
}

// Who holds all connections open keeps nobody out unseen, nor for long.
func TestServerWithoutFilesWarnsAndClosesIdleConnections(t *testing.T) {
	var log logBuffer
	srv := NewServer(http.NotFoundHandler(), slog.New(slog.NewTextHandler(&log, nil)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	again, served, idle := make(chan error, 2), make(chan error), make(chan bool, 1)
	srv.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			idle <- true
		}
	}
	go func() { served <- srv.Serve(&full{Listener: l, again: again}) }()
	t.Cleanup(func() { _ = srv.Close() })
	c := (&service{t: t, URL: "http://" + l.Addr().String()}).dial()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	noError(t, err)
	_, err = http.ReadResponse(bufio.NewReader(c), nil)
	noError(t, err)
	<-idle
	again <- syscall.EMFILE
	again <- syscall.EMFILE
	if _, err = c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	close(again)
	<-served
	same(t, "warnings: "+log.String(), strings.Count(log.String(), "level=WARN msg=\"http: Accept error: accept: too many open files"), 1)
	same(t, "lines", strings.Count(log.String(), "\n"), 1)
}

// An id in the log is that of a trusted proxy, in its form, or the service's own.
func TestRequestIDIsOfTheProxyOrTheServicesOwn(t *testing.T) {
	const chosen = "0123456789abcdef"
	for name, c := range map[string]struct {
		proxies []string
		id      string
		kept    bool
	}{
		"a stranger's": {nil, chosen, false}, "the proxy's": {[]string{"127.0.0.0/8", "::1"}, chosen, true},
		"the proxy's, in another form": {[]string{"127.0.0.0/8", "::1"}, `x" level=ERROR msg="`, false},
	} {
		s := startService(t, serviceOptions{Settings: func(s *config.Settings) { s.TrustedProxies = c.proxies }})
		got := s.visitor().get("/api/me", "X-Request-Id", c.id, "X-Forwarded-For", "203.0.113.9").Header.Get("X-Request-Id")
		if got == "" || (got == c.id) != c.kept {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Attack 148.
func TestHostileHeaders(t *testing.T) {
	s := startService(t, serviceOptions{})
	for _, path := range []string{"/.well-known/jwks.json", "/schemas/activity-1.0.json", "/login/", "/healthz", "/.well-known/openid-configuration"} {
		plain := s.visitor().get(path, "Accept-Encoding", "identity").Text
		for name, value := range map[string][]string{
			"encodings": {"Accept-Encoding", strings.Repeat("gzip, ", 1000)}, "no gzip": {"Accept-Encoding", "gzip;q=0, *;q=0"}, "unknown": {"Accept-Encoding", "zstd, br, ;;=,"},
			"ranges": {"Range", "bytes=" + strings.Repeat("0-0,", 2000) + "0-0"}, "range": {"Range", "bytes=-1"}, "bad range": {"Range", "lines=0-"}, "far range": {"Range", "bytes=99999999999999999999-"},
			"upgrade": {"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "x"}, "h2c": {"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABk"},
			"if": {"If-Modified-Since", "never", "If-None-Match", "\"", "If-Range", "x"}, "expect": {"Expect", "200-ok"}, "accept": {"Accept", strings.Repeat("text/html;q=0.1,", 1500)},
		} {
			header := value
			if !strings.Contains(name, "encod") && name != "no gzip" && name != "unknown" {
				header = append([]string{"Accept-Encoding", "identity"}, value...)
			}
			got := s.visitor().do("GET", path, "", "", header...)
			if got.StatusCode != http.StatusOK && got.StatusCode/100 != 4 || got.StatusCode == http.StatusOK &&
				got.Header.Get("Content-Encoding") == "" && got.Text != plain {
				t.Errorf("%s with %s: %d, %d bytes of %d", path, name, got.StatusCode, len(got.Text), len(plain))
			}
		}
	}
	for _, request := range []string{"OPTIONS * HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1", "GET http://evil.example/login HTTP/1.1", "TRACE / HTTP/1.1"} {
		got := exchangeBytes(t, s, request+"\r\nHost: evil.example\r\nX-Secret: abc\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, "X-Request-Id: ") || strings.Contains(got, "evil.example") || strings.Contains(got, "abc") {
			t.Errorf("%s: %.300q", request, got)
		}
	}
}

// Attacks 3 and 4, with and without a trusted proxy in front.
func TestSpoofedHost(t *testing.T) {
	for name, proxies := range map[string][]string{"no proxy": nil, "proxy": {"127.0.0.1", "::1"}} {
		s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.TrustedProxies = proxies }}, "ada")
		rp := s.app("app", nil)
		query := strings.TrimPrefix(rp.authURL(), s.URL)
		for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json", query, "/oauth2/userinfo", "/login/", "/"} {
			got := exchangeBytes(t, s, "GET "+path+" HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Server: evil.example\r\nX-Forwarded-Proto: https\r\n"+
				"X-Forwarded-Prefix: /evil.example\r\nForwarded: host=evil.example;proto=https\r\nX-Original-URL: /evil.example\r\nX-Rewrite-URL: /evil.example\r\nConnection: close\r\n\r\n")
			if strings.Contains(got, "evil.example") || !strings.HasPrefix(got, "HTTP/1.1 ") {
				t.Errorf("%s: %.40s: %.300s", name, path, got)
			}
			if strings.HasPrefix(path, "/.well-known/") && (strings.Contains(got, "Set-Cookie") ||
				strings.Contains(got, "Allow-Credentials") || !strings.HasPrefix(got, "HTTP/1.1 200")) {
				t.Errorf("%s: %s: %.300s", name, path, got)
			}
		}
	}
}

// 16 clients at once through sign-in, code, token and userinfo on SQLite: not
// one 5xx, not one "database is locked". A second in the ordinary run;
// CAIRN_LOAD_SECONDS lengthens it.
func TestLoadNeverAnswers5xx(t *testing.T) {
	seconds := 1
	if v, err := strconv.Atoi(os.Getenv("CAIRN_LOAD_SECONDS")); err == nil {
		seconds = v
	}
	s := startService(t, serviceOptions{})
	secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
	var rounds, failures atomic.Int64
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	var wg sync.WaitGroup
	for i := range 16 {
		handle := "user-" + strconv.Itoa(i)
		s.addUser(handle)
		rp := s.relyingParty("app", secret)
		wg.Go(func() {
			for time.Now().Before(end) {
				b := s.browser()
				login := b.api("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password})
				answer := b.get(rp.authURL())
				_, code, _ := strings.Cut(answer.Header.Get("Location"), "code=")
				code, _, _ = strings.Cut(code, "&")
				token := s.tokenRequest("app", secret, rp.codeForm(code))
				status := []int{login.StatusCode, answer.StatusCode, token.StatusCode, 0}
				if token.StatusCode == 200 {
					status[3] = s.userinfoStatus(token.JSON(t)["access_token"].(string))
				}
				rounds.Add(1)
				if status[0] != 200 || status[1] != 303 || status[2] != 200 || status[3] != 200 {
					failures.Add(1)
					t.Errorf("statuses %v", status)
					return
				}
			}
		})
	}
	wg.Wait()
	if failures.Load() > 0 || rounds.Load() == 0 {
		t.Errorf("%d of %d rounds failed", failures.Load(), rounds.Load())
	}
	if log := s.log.String(); strings.Contains(log, "database is locked") || strings.Contains(log, `"level":"ERROR"`) {
		t.Error("the log has errors")
	}
	t.Logf("%d rounds in %d s", rounds.Load(), seconds)
}

// What is not the one JSON object of a request, what no list can be searched for and what no
// setting can be is refused on each database, also where one of them would take it (a NUL,
// broken UTF-8, a number beyond its integers), and changes nothing.
func TestMalformedValuesAreRefused(t *testing.T) {
	login := `{"handle":"ada","password":"` + password + `"}`
	bodies := map[string]string{
		"empty": "", "null": "null", "string": `"ada"`, "array": "[" + login + "]", "cut off": login[:len(login)-1], "two": login + login, "trailing": login + "x",
		"BOM": "\ufeff" + login, "comment": "/**/" + login, "repeated": `{"handle":"eve",` + login[1:], "capital": strings.Replace(login, "handle", "Handle", 1),
		"long s": strings.Replace(login, "password", "paſſword", 1), "unknown": `{"admin":true,` + login[1:], "types": `{"handle":["ada"],"password":{"$ne":1}}`,
		"NUL": `{"handle":"ada\u0000","password":"x"}`, "lone surrogate": `{"handle":"ada","password":"\ud800"}`, "not UTF-8": "{\"handle\":\"ada\",\"password\":\"\xff\"}",
		"NaN": `{"handle":NaN}`, "deep": `{"handle":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + "}", "form": "handle=ada&password=" + password,
	}
	searches := map[string]string{
		"users?query=%00": "invalid_request", "users?query=%ff": "invalid_request", "users?query=a%0Ab": "invalid_request", "users?query=%zz": "invalid_request", "users?query=a&query=b": "invalid_request",
		"users?flag=A%00": "invalid_request", "users?sort=password_hash": "invalid_request", "users?suspended=yes": "invalid_request",
		"users?limit=0": "invalid_request", "users?limit=99999999999999999999": "invalid_request", "users?limit=1e2": "invalid_request",
		"users?cursor=!": "invalid_cursor", "users?cursor=AA": "invalid_cursor", "users?cursor=_w": "invalid_cursor",
		"audit?person=a%00": "invalid_request", "audit?kind=%25": "invalid_request", "audit?from=2026-02-30": "invalid_request", "audit?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5": "invalid_cursor",
	}
	settings := map[string]string{
		`{"instance_name":"a\u0000b"}`: "invalid_request", `{"instance_name":"a\nb"}`: "invalid_settings", `{"max_users":-1}`: "invalid_settings", `{"max_users":99999999999999999999}`: "invalid_request",
		`{"max_users":1.5}`: "invalid_request", `{"flags":["a b"]}`: "invalid_settings", `{"default_flags":["unknown"]}`: "invalid_settings", `{"privacy_url":"javascript:alert(1)"}`: "invalid_settings",
		`{"max_users":5,"min_password_length":7}`: "invalid_settings", `{"secret":"x"}`: "invalid_request",
	}
	bothInstallations(t, func(t *testing.T, s *service) {
		ada := s.joined("ada", "admin")
		before := ada.api("GET", "/api/admin/settings", nil).Text
		for name, body := range bodies {
			b := s.visitor()
			wantProblem(t, name, b.do("POST", "/api/auth/login", "application/json", body), http.StatusBadRequest, "invalid_request")
			same(t, fmt.Sprintf("%s: signed in", name), b.cookie("cairn_session"), "")
		}
		for query, code := range searches {
			wantProblem(t, query, ada.get("/api/admin/"+query), http.StatusBadRequest, code)
		}
		for body, code := range settings {
			wantProblem(t, body, ada.do("PUT", "/api/admin/settings", "application/json", body), http.StatusBadRequest, code)
		}
		for _, pattern := range []string{"%25", "_", "%25da", "zz%25", "'", "%5C"} { // good to search for, and no pattern
			got := ada.get("/api/admin/users?query=" + pattern)
			if wantStatus(t, pattern, got, http.StatusOK); strings.Contains(got.Text, `"ada"`) {
				t.Errorf("%s found ada: %s", pattern, got.Text)
			}
		}
		same(t, "settings: before", ada.api("GET", "/api/admin/settings", nil).Text, before)
		lacks(t, "the log calls what a stranger sent an error of the service", s.log.String(), `"level":"ERROR"`)
	})
}
