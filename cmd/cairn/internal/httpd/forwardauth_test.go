package httpd

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/config"
)

// protectedApp is an application behind a proxy that asks /api/verify. It notes the
// headers that reach it.
type protectedApp struct {
	*httptest.Server
	mu   sync.Mutex
	seen []http.Header
}

func newProtectedApp(t *testing.T) *protectedApp {
	a := &protectedApp{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.seen = append(a.seen, r.Header.Clone())
		a.mu.Unlock()
		if r.Header.Get("Upgrade") == "echo" {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			line, _ := rw.ReadString('\n')
			_, _ = io.WriteString(c, "echo "+line)
			return
		}
		_, _ = fmt.Fprintf(w, "app %s", r.URL.RequestURI())
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *protectedApp) last() http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[len(a.seen)-1]
}

func (a *protectedApp) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	noError(t, err)
	return u.Port()
}

// writeDomainPair is a certificate for all hosts of a domain.
func writeDomainPair(t *testing.T, dir, domain string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"*." + domain}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	noError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	noError(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// proxyOf starts a proxy with its example configuration in a folder with the certificate.
type proxyOf func(t *testing.T, dir, front, cairn, app string)

// example is a file of deploy/forward-auth with the ports of the test.
func example(t *testing.T, name string, words ...string) string {
	t.Helper()
	b, err := os.ReadFile("../../../../deploy/forward-auth/" + name)
	noError(t, err)
	text := string(b)
	for i := 0; i < len(words); i += 2 {
		if !strings.Contains(text, words[i]) {
			t.Fatalf("deploy/forward-auth/%s lacks %q", name, words[i])
		}
		text = strings.ReplaceAll(text, words[i], words[i+1])
	}
	return text
}

func runNginx(t *testing.T, dir, front, cairn, app string) {
	needFiles(t, nginxFile)
	text := example(t, "nginx.conf", "listen 443 ssl", "listen 127.0.0.1:"+front+" ssl", "127.0.0.1:4040",
		"127.0.0.1:"+cairn, "127.0.0.1:8080", "127.0.0.1:"+app, "example.org", "example.test")
	copyFile(t, "testdata/rp/nginx.conf", filepath.Join(dir, "nginx.conf"), map[string]string{"SERVER": text})
	startProgram(t, front, []string{nginxFile, "-p", dir, "-c", "nginx.conf", "-e", "stderr"})
}

const caddyFile = "/usr/bin/caddy"

func runCaddy(t *testing.T, dir, front, cairn, app string) {
	needFiles(t, caddyFile)
	tlsLine := " {\n\ttls " + filepath.Join(dir, "cert.pem") + " " + filepath.Join(dir, "key.pem")
	text := example(t, "Caddyfile", "example.org {", "example.test:"+front+tlsLine, "127.0.0.1:4040", "127.0.0.1:"+cairn, "127.0.0.1:8080", "127.0.0.1:"+app)
	noError(t, os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte("{\n\tadmin off\n\tauto_https disable_redirects\n}\n"+text), 0o600))
	startProgram(t, front, []string{caddyFile, "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile"}, "HOME="+dir)
}

// forward is a service behind a proxy, with an application that the proxy protects.
type forward struct {
	*service
	app   *protectedApp
	front string
	dir   string
	id    string // addresses
	url   string
	later atomic.Int64
}

func startForward(t *testing.T, run proxyOf) *forward {
	f := &forward{app: newProtectedApp(t), front: freePort(t), dir: t.TempDir()}
	f.id, f.url = "https://id.example.test:"+f.front, "https://app.example.test:"+f.front
	now := func() time.Time { return time.Now().Add(time.Duration(f.later.Load())) }
	f.service = startService(t, serviceOptions{Now: now, Settings: func(c *config.Settings) {
		c.Issuer, c.CookieDomain, c.TrustedProxies = f.id, "example.test", []string{"127.0.0.1"}
	}})
	writeDomainPair(t, f.dir, "example.test")
	run(t, f.dir, f.front, portOf(t, f.service.server.URL), portOf(t, f.app.URL))
	f.addUser("ada", "activity")
	f.addUser("bob")
	return f
}

// visitor has the names of the hosts for the proxy.
func (f *forward) visitor() *browser {
	b := browserFrom(f.t, f.id, filepath.Join(f.dir, "cert.pem"), "127.0.0.3")
	tr := b.client.Transport.(*http.Transport)
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, "127.0.0.1:"+f.front)
	}
	return b
}

// signInThrough follows the way from the application to the sign-in page and back.
func (f *forward) signInThrough(b *browser, path, handle string) response {
	f.t.Helper()
	sent := b.get(f.url + path)
	wantStatus(f.t, "signed out", sent, http.StatusSeeOther)
	at := sent.Header.Get("Location")
	if !strings.HasPrefix(at, f.id+"/login/?continue=") {
		f.t.Fatalf("sent to %s", at)
	}
	page := b.get(at)
	wantStatus(f.t, "sign-in page", page, http.StatusOK)
	if !strings.Contains(page.Text, "app.example.test") {
		f.t.Error("the sign-in page does not say for which application")
	}
	u, _ := url.Parse(at)
	back := b.postForm(f.id+"/login/", url.Values{"handle": {handle}, "password": {password}, "continue": {u.Query().Get("continue")}})
	if back.StatusCode != http.StatusSeeOther || back.Header.Get("Location") != f.url+path {
		f.t.Fatalf("after the sign-in: %d %s", back.StatusCode, back.Header.Get("Location"))
	}
	return b.get(back.Header.Get("Location"))
}

func TestForwardAuthentication(t *testing.T) {
	for name, run := range map[string]proxyOf{"nginx": runNginx, "Caddy": runCaddy} {
		t.Run(name, func(t *testing.T) { journeyThrough(t, startForward(t, run)) })
	}
}

func journeyThrough(t *testing.T, f *forward) {
	b := f.visitor()
	forged := []string{"Remote-User", "keeper", "Remote_User", "keeper", "remote-groups", "admin", "REMOTE_GROUPS", "admin", "Remote-Email", "keeper@example.org", "Remote-Sub", "x", "Remote_Email", "k@example.org"}
	got := b.get(f.url+"/private", append(forged, "X-Forwarded-Uri", "/public", "X-Original-URL", "https://evil.example/")...)
	wantStatus(t, "forged headers without a session", got, http.StatusSeeOther)
	u, err := url.Parse(got.Header.Get("Location"))
	noError(t, err)
	if to, ok := f.openReturn(u.Query().Get("continue")); !ok || to != f.url+"/private" {
		t.Errorf("the way back is %q: a header of the client is believed", to)
	}
	wantStatus(t, "a program without a session", b.do("GET", f.url+"/api/x", "", "", "Accept", "application/json"), http.StatusUnauthorized)
	wantStatus(t, "a form without a session", b.do("POST", f.url+"/", "text/plain", "x", "Accept", "application/json"), http.StatusUnauthorized)
	if f.app.requests() > 0 {
		t.Fatalf("the application got %d requests without a session", f.app.requests())
	}

	back := f.signInThrough(b, "/private?a=1&b=%2F%26", "ada")
	if back.StatusCode != http.StatusOK || back.Text != "app /private?a=1&b=%2F%26" {
		t.Fatalf("%d %s", back.StatusCode, back.Text)
	}
	// Named in Connection, a header would end at the proxy (RFC 9110 section 7.6.1).
	wantStatus(t, "forged headers with a session",
		b.get(f.url+"/x", append(forged, "Connection",
			"remote-user, Remote-Groups, Remote-Sub, X-Forwarded-For")...), http.StatusOK)
	ada, err := f.store.UserByHandle(t.Context(), "ada")
	noError(t, err)
	want := map[string]string{"Remote-User": "ada", "Remote-Name": "Ada", "Remote-Email": "", "Remote-Groups": "activity", "Remote-Sub": ada.Sub}
	for name, values := range f.app.last() {
		normal := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if strings.HasPrefix(normal, "remote-") && (strings.Contains(name, "_") || strings.Join(values, "|") != want[name]) {
			t.Errorf("the application got %s: %q", name, values)
		}
	}
	for name, value := range want {
		same(t, name, f.app.last().Get(name), value)
	}
	f.upgrades(b)

	// Only a verified address is told, as the user of whom an application may rely on it.
	admin := roster.NewAdministration(f.store, nil)
	for _, verified := range []string{"", "true"} {
		_, err = admin.Amend(t.Context(), account.Operator(), ada, account.UserChange{"email": "ada@example.org", "email_verified": verified})
		noError(t, err)
		wantStatus(t, "with an address", b.get(f.url+"/"), http.StatusOK)
		if got := f.app.last().Get("Remote-Email"); (got == "ada@example.org") != (verified == "true") {
			t.Errorf("verified %q: %q", verified, got)
		}
	}

	// The shared cookie is for applications: it opens nothing of the service itself.
	thief := f.visitor()
	shared, err := url.Parse(f.url)
	noError(t, err)
	thief.client.Jar.SetCookies(shared, []*http.Cookie{{Name: "__Secure-cairn_session", Value: b.cookieAt(f.url), Domain: "example.test", Path: "/", Secure: true}})
	wantStatus(t, "the application with the shared cookie alone", thief.get(f.url+"/"), http.StatusOK)
	wantStatus(t, "the account with the shared cookie alone", thief.api("GET", "/api/me", nil), http.StatusUnauthorized)

	// Without it the browser is asked to confirm, and does not go round in circles.
	b.client.Jar.SetCookies(shared, []*http.Cookie{{Name: "__Secure-cairn_session", Value: "", Domain: "example.test", Path: "/", MaxAge: -1}})
	f.signInThrough(b, "/again", "ada")

	_, err = admin.ChangeSettings(t.Context(), account.Operator(), account.SettingsChange{"second_factor_flags": []string{"activity"}})
	noError(t, err)
	f.later.Store(int64(3 * time.Second)) // the settings are read again
	same(t, "without the factor that is demanded", b.get(f.url+"/").Header.Get("Location"), f.id+"/account/security")
	wantStatus(t, "a program without it", b.do("GET", f.url+"/", "", "", "Accept", "text/plain"), http.StatusForbidden)

	noError(t, admin.Suspend(t.Context(), account.Operator(), ada, "", true))
	wantStatus(t, "suspended", b.get(f.url+"/"), http.StatusSeeOther)
	wantStatus(t, "suspended, by the stolen cookie", thief.get(f.url+"/"), http.StatusSeeOther)
}

// upgrades checks that a WebSocket passes.
func (f *forward) upgrades(b *browser) {
	t := f.t
	t.Helper()
	roots := b.client.Transport.(*http.Transport).TLSClientConfig.RootCAs
	c, err := tls.Dial("tcp", "127.0.0.1:"+f.front, &tls.Config{ServerName: "app.example.test", RootCAs: roots, MinVersion: tls.VersionTLS12})
	noError(t, err)
	defer func() { _ = c.Close() }()
	noError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: app.example.test:%s\r\nConnection: Upgrade\r\nUpgrade: echo\r\nCookie: __Secure-cairn_session=%s\r\n\r\n", f.front, b.cookieAt(f.url))
	noError(t, err)
	r := bufio.NewReader(c)
	got, err := http.ReadResponse(r, nil)
	noError(t, err)
	if got.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %s", got.Status)
	}
	_, err = io.WriteString(c, "hello\n")
	noError(t, err)
	if line, err := r.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// cookieAt is the shared session cookie that the browser sends to an address.
func (b *browser) cookieAt(address string) string {
	return ua.CookieOf(b.client, address, "__Secure-cairn_session")
}

// openReturn is where the service leads with a continuation, as the sign-in page shows to
// who is signed in.
func (f *forward) openReturn(continuation string) (string, bool) {
	b := f.visitor()
	b.signIn("bob")
	got := b.get(f.id + "/login/?" + url.Values{"continue": {continuation}}.Encode())
	return got.Header.Get("Location"), got.StatusCode == http.StatusSeeOther
}

// startVerify is a service whose proxies are those that ask it directly.
func startVerify(t *testing.T, o serviceOptions) *service {
	o.Limits = true
	change := o.Settings
	o.Settings = func(c *config.Settings) {
		c.TrustedProxies = []string{"127.0.0.0/8"}
		change(c)
	}
	return startService(t, o)
}

// verify asks as a proxy does.
func (b *browser) verify(query string, header ...string) response {
	b.t.Helper()
	return b.do("GET", "/api/verify"+query, "", "", header...)
}

func TestVerifyLeadsBackToOwnHostsAlone(t *testing.T) {
	s := startVerify(t, serviceOptions{Settings: func(c *config.Settings) { c.Issuer, c.CookieDomain = "https://id.example.test", "example.test" }})
	b := s.visitor()
	for to, good := range map[string]bool{
		"https://app.example.test/x?y=z": true, "https://example.test/": true, "https://APP.example.test:8443/a//b": true,
		"http://app.example.test/": false, "https://evil.example/": false, "https://evilexample.test/": false, "https://example.test.evil.example/": false, "https://app.example.test@evil.example/": false,
		"https://evil.example\\.example.test/": false, "https://evil.example/.example.test/": false, "https://evil.example#.example.test/": false, "//app.example.test/": false, "javascript:alert(1)//app.example.test": false,
		"https://app.example.test/\u00e9": false, "https://app.example.test/a b": false, `https://app.example.test/"><script>`: false, "https://app.example.test./": false, "https:app.example.test/": false, "https://[::1]/": false, "https://app.example.test/#f": false,
		"https://app.example.test/, https://evil.example/": false, "https://app.example.test:99999999/": false, "": false, "https://app.example.test/" + strings.Repeat("a", 3000): false,
	} {
		got := b.verify("", "X-Original-URL", to, "Accept", "text/html")
		wantStatus(t, to, got, http.StatusUnauthorized)
		if at := got.Header.Get("Location"); strings.HasPrefix(at, "https://id.example.test/login/?continue=") != good || !good && at != "https://id.example.test/login/" {
			t.Errorf("%s: %s", to, at)
		}
		u, err := url.Parse(to)
		if err != nil || u.Host == "" {
			continue
		}
		split := b.verify("", "X-Forwarded-Proto", u.Scheme, "X-Forwarded-Host", u.Host, "X-Forwarded-Uri", u.RequestURI())
		if strings.Contains(split.Header.Get("Location"), "continue=") && !good && u.Fragment == "" && u.User == nil && !strings.ContainsAny(to, "\u00e9 <") {
			t.Errorf("in three headers %s: %s", to, split.Header.Get("Location"))
		}
	}
	for _, twice := range [][]string{
		{"X-Original-URL", "https://app.example.test/", "X-Original-URL", "https://app.example.test/b"},
		{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example.test, evil.example", "X-Forwarded-Uri", "/"},
		{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example.test", "X-Forwarded-Uri", "@evil.example/"},
	} {
		same(t, twice, b.verify("", twice...).Header.Get("Location"), "https://id.example.test/login/")
	}
	for method, want := range map[string]int{"": http.StatusSeeOther, "GET": http.StatusSeeOther, "HEAD": http.StatusSeeOther, "POST": http.StatusUnauthorized} {
		wantStatus(t, method+" with redirect=1", b.verify("?redirect=1", "Accept", "text/html", "X-Forwarded-Method", method), want)
	}
	wantStatus(t, "redirect=1 for a program", b.verify("?redirect=1"), http.StatusUnauthorized)

	// An address that no trusted proxy has said leads nowhere.
	direct := startVerify(t, serviceOptions{Settings: func(c *config.Settings) {
		c.Issuer, c.CookieDomain, c.TrustedProxies = "https://id.example.test", "example.test", nil
	}})
	if at := direct.visitor().verify("", "X-Original-URL", "https://app.example.test/").Header.Get("Location"); at != "https://id.example.test/login/" {
		t.Errorf("without a trusted proxy: %s", at)
	}
}

func TestVerifyWantsFlagsAndFactors(t *testing.T) {
	var later atomic.Int64
	s := startVerify(t, serviceOptions{
		Now:      func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
		Settings: func(c *config.Settings) { c.RateLimits = []string{"all=20/1m"} },
	})
	s.addUser("ada", "activity")
	s.addUser("root1", "activity", "admin")
	b := s.signedIn("ada")
	if got := b.verify(""); got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" || len(got.Cookies()) != 0 || got.Text != "" {
		t.Fatalf("%d %v %q", got.StatusCode, got.Header, got.Text)
	}
	for query, want := range map[string]int{"?flag=activity": 200, "?flag=admin": 403, "?flag=activity&flag=admin": 403, "?flag=nothing": 403, "?flags=activity": 400, "?redirect=2": 400, "?x=1": 400, "?x=percent": 400, "?flag=%zz": 400, "?flag=%zz&flag=activity": 400, "?flag=": 403} {
		wantStatus(t, query, b.verify(query), want)
	}
	german := b.verify("?flag=admin&redirect=1", "Accept", "text/html", "Accept-Language", "de")
	if !strings.HasPrefix(german.Header.Get("Content-Type"), "text/plain") || !strings.Contains(german.Text, "Dein Konto darf diese Anwendung nicht benutzen") {
		t.Errorf("%s %s", german.Header.Get("Content-Type"), german.Text)
	}
	wantStatus(t, "HEAD", b.do("HEAD", "/api/verify", "", ""), http.StatusOK)
	wantStatus(t, "POST", b.do("POST", "/api/verify", "text/plain", ""), http.StatusMethodNotAllowed)
	for range 40 { // members of one address do not use up its limit
		wantStatus(t, "a member", b.verify("?flag=activity"), http.StatusOK)
	}
	stranger, codes := s.visitor(), []int{}
	for range 30 {
		codes = append(codes, stranger.verify("").StatusCode)
	}
	if !slices.Contains(codes, http.StatusTooManyRequests) || codes[0] != http.StatusUnauthorized {
		t.Errorf("30 requests without a session: %v", codes)
	}
	// Then no signature is verified there, be it genuine; one that was a moment ago is good.
	fresh := stranger.api("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": password}) // "all" holds there, too
	wantStatus(t, "a sign-in at the address", fresh, http.StatusTooManyRequests)
	other := s.signedIn("root1").cookie("cairn_session")
	wantStatus(t, "a new token", stranger.verify("", "Cookie", "cairn_session="+other), http.StatusTooManyRequests)
	wantStatus(t, "a member of before", stranger.verify("", "Cookie", "cairn_session="+b.cookie("cairn_session")), http.StatusOK)
	// A host below the domain that sets a cookie for the application's path does not lock anybody out there.
	ahead := "cairn_session=" + strings.Repeat("x", 20) + "; cairn_session=" + other
	wantStatus(t, "the second cookie of a name", s.visitor().verify("", "Cookie", ahead), http.StatusOK)

	_, err := roster.NewAdministration(s.store, nil).ChangeSettings(t.Context(), account.Operator(), account.SettingsChange{"second_factor_flags": []string{"admin"}})
	noError(t, err)
	later.Store(int64(3 * time.Second)) // the settings are read again
	got := s.signedIn("root1").verify("")
	wantStatus(t, "without the factor that is demanded", got, http.StatusForbidden)
	same(t, "sent to", got.Header.Get("Location"), s.URL+"/account/security")
	wantStatus(t, "who needs none", b.verify(""), http.StatusOK)
}

func TestRefusedVerifyCountsToo(t *testing.T) {
	s := startVerify(t, serviceOptions{Settings: func(c *config.Settings) { c.RateLimits = []string{"all=20/1m"} }})
	b := s.visitor()
	for what, ask := range map[string]func() response{
		"unknown parameter": func() response { return b.verify("?x=1") },
		"method":            func() response { return b.do("POST", "/api/verify", "text/plain", "") },
	} {
		limited := false
		for range 50 {
			limited = limited || ask().StatusCode == http.StatusTooManyRequests
		}
		if !limited {
			t.Errorf("%s: 50 requests of a stranger were answered, limit 20", what)
		}
	}
}
