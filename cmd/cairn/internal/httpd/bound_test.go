package httpd

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// boundLife is a service behind TLS at an https issuer.
type boundLife struct {
	*life
	issuer  *url.URL
	address string // of the listener, for any host
	ca      []byte // PEM
	roots   *x509.CertPool
	failing atomic.Bool             // every answer is 503
	seen    func(r *http.Request)   // of each request, unless nil
	sites   *http.ServeMux          // of hosts below example.net
	inner   atomic.Pointer[Handler] // after a restart
}

// startBound starts a service of https://id.example.com with this path.
func startBound(t *testing.T, path string, o serviceOptions) *boundLife {
	t.Helper()
	b := &boundLife{sites: http.NewServeMux()}
	change := o.Settings
	o.Settings = func(c *config.Settings) {
		c.Issuer = "https://id.example.com" + path
		if change != nil {
			change(c)
		}
	}
	o.BasePath = path
	b.life = startLife(t, o)
	b.issuer, _ = url.Parse("https://id.example.com" + path)
	b.URL = b.issuer.String()
	b.serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.seen != nil {
			b.seen(r)
		}
		if strings.HasSuffix(r.Host, ".example.net") || strings.HasPrefix(r.Host, "app.") {
			b.sites.ServeHTTP(w, r)
			return
		}
		if b.failing.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		if h := b.inner.Load(); h != nil {
			h.ServeHTTP(w, r)
			return
		}
		b.handler.ServeHTTP(w, r)
	}))
	return b
}

// serveTLS serves a handler with a certificate of a new CA for the hosts of example.com and example.net.
func (b *boundLife) serveTLS(t *testing.T, h http.Handler) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().
				Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	noError(t, err)
	ca, err = x509.ParseCertificate(der)
	noError(t, err)
	b.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	b.roots = x509.NewCertPool()
	b.roots.AddCert(ca)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "example"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, DNSNames: []string{"*.example.com", "*.example.net"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, own.Public(), key)
	noError(t, err)
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	b.address = server.Listener.Addr().String()
}

// boundBrowser plays a browser with Device Bound Session Credentials on the moved clock: it registers a key when it is
// asked, and proves it before a request when the bound cookie has ended.
type boundBrowser struct {
	*browser
	l       *boundLife
	jar     *cookiejar.Jar
	key     *ecdsa.PrivateKey
	asked   http.Header // the answer that asked for a registration
	id      string
	refresh string
	cookie  string // its name
	until   time.Time
	next    string // challenge
	skips   bool   // it proves nothing for now
	plain   bool   // it knows nothing of binding
	signed  int
}

func (l *boundLife) boundBrowser() *boundBrowser {
	l.t.Helper()
	b := &boundBrowser{browser: l.browser(), l: l}
	b.jar, _ = cookiejar.New(nil)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(l.t, err)
	b.key, b.client.Jar = key, b.jar
	b.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: l.roots}, DialContext: dialTo(l.address)}
	l.t.Cleanup(b.client.CloseIdleConnections)
	return b
}

// copied is another program, at another address, with all cookies of the browser.
func (b *boundBrowser) copied() *boundBrowser {
	c := b.l.boundBrowser()
	c.plain = true
	c.jar.SetCookies(b.l.issuer, b.cookies())
	return c
}

func (b *boundBrowser) cookies() []*http.Cookie {
	all := b.jar.Cookies(b.l.issuer)
	for _, c := range all {
		c.Secure, c.Path = true, "/"
	}
	return all
}

// proof is a JWT of the browser's key.
func (b *boundBrowser) proof(claims map[string]any, header map[jose.HeaderKey]any) string {
	b.signed++
	return deviceProof(b.t, jose.ES256, b.key, claims, header)
}

func deviceProof(
	t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any, header map[jose.HeaderKey]any,
) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithType("dbsc+jwt")
	for name, value := range header {
		o = o.WithHeader(name, value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	noError(t, err)
	body, _ := json.Marshal(claims)
	signed, err := signer.Sign(body)
	noError(t, err)
	text, err := signed.CompactSerialize()
	noError(t, err)
	return text
}

var registrationForm = regexp.MustCompile(`^\(ES256\);path="([^"]+)";challenge="([^"]+)";authorization="([^"]+)"$`)

// register answers a registration as the browser does.
func (b *boundBrowser) register() response {
	b.t.Helper()
	m := registrationForm.FindStringSubmatch(b.asked.Get("Secure-Session-Registration"))
	if m == nil {
		b.t.Fatalf("asked to register by %q", b.asked.Get("Secure-Session-Registration"))
	}
	jwk := jose.JSONWebKey{Key: b.key.Public()}
	got := b.browser.do("POST", m[1], "", "", "Secure-Session-Response", b.proof(map[string]any{"jti": m[2], "authorization": m[3]}, map[jose.HeaderKey]any{"jwk": jwk}))
	if got.StatusCode == http.StatusOK {
		b.instruct(got)
	}
	return got
}

var challengeHeader = regexp.MustCompile(`^"([^"]+)";id="([^"]+)"$`)

// instruct reads the session instructions.
func (b *boundBrowser) instruct(got response) {
	b.t.Helper()
	var in struct {
		ID       string `json:"session_identifier"`
		Continue *bool
		Refresh  string `json:"refresh_url"`
		Scope    struct {
			Origin string
			Site   bool `json:"include_site"`
		}
		Credentials []struct{ Name string }
	}
	noError(b.t, json.Unmarshal([]byte(got.Text), &in))
	if in.Continue != nil && !*in.Continue {
		b.id = ""
		if len(got.Cookies()) > 0 {
			b.t.Errorf("the end of a binding sets %v", got.Cookies())
		}
		return
	}
	if b.id != "" && in.ID != b.id {
		b.t.Errorf("the session is called %q after %q", in.ID, b.id)
	}
	if in.Scope.Origin != "https://id.example.com" || in.Scope.Site || !strings.HasPrefix(in.Refresh, b.l.issuer.Path+"/auth/device/") {
		b.t.Errorf("instructions: %s", got.Text)
	}
	b.id, b.refresh, b.cookie = in.ID, in.Refresh, in.Credentials[0].Name
	i := slices.IndexFunc(got.Cookies(), func(c *http.Cookie) bool { return c.Name == b.cookie })
	c := got.Cookies()[i]
	if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
		b.t.Errorf("the bound cookie is %s", c)
	}
	b.until = b.l.now().Add(time.Duration(c.MaxAge) * time.Second)
	b.next = ""
}

func (b *boundBrowser) keepChallenge(got response) {
	m := challengeHeader.FindStringSubmatch(got.Header.Get("Secure-Session-Challenge"))
	if m == nil || m[2] != b.id {
		b.t.Fatalf("challenge %q", got.Header.Get("Secure-Session-Challenge"))
	}
	b.next = m[1]
}

// prove refreshes the bound cookie as the browser does, and reports whether it has one.
func (b *boundBrowser) prove() bool {
	b.t.Helper()
	for range 2 {
		header := []string{"Sec-Secure-Session-Id", b.id}
		if b.next != "" {
			header = append(header, "Secure-Session-Response", b.proof(map[string]any{"jti": b.next}, nil))
		}
		got := b.browser.do("POST", b.refresh, "", "", header...)
		switch {
		case got.StatusCode == http.StatusOK:
			b.instruct(got)
			return b.id != ""
		case got.StatusCode == http.StatusForbidden:
			b.keepChallenge(got)
		case got.StatusCode >= 500:
			return false
		default:
			b.id = ""
			return false
		}
	}
	return false
}

// do sends a request after the proof that it needs, and registers if the answer asks.
func (b *boundBrowser) do(method, path string, form url.Values, header ...string) response {
	b.t.Helper()
	if b.id != "" && !b.l.now().Before(b.until) {
		b.jar.SetCookies(b.l.issuer, []*http.Cookie{{Name: b.cookie, MaxAge: -1, Path: "/", Secure: true}})
		if !b.skips {
			b.prove()
		}
	}
	kind, body := "", ""
	if form != nil {
		kind, body = "application/x-www-form-urlencoded", form.Encode()
	}
	got := b.browser.do(method, path, kind, body, header...)
	if got.Header.Get("Secure-Session-Registration") != "" {
		if b.asked = got.Header; !b.plain {
			if r := b.register(); r.StatusCode != http.StatusOK {
				b.t.Fatalf("register: %d %s", r.StatusCode, r.Text)
			}
		}
	}
	return got
}

// page opens a page as a person does, following redirects and reloads.
func (b *boundBrowser) page(path string) response {
	b.t.Helper()
	for range 8 {
		got := b.do("GET", path, nil, "Accept", "text/html")
		switch to := got.Header.Get("Location"); {
		case got.StatusCode == http.StatusSeeOther:
			if u, _ := url.Parse(to); u.Host != "" && u.Host != "id.example.com" {
				return got
			}
			path = to
		case got.Header.Get("Refresh") != "":
		default:
			return got
		}
	}
	b.t.Fatalf("%s leads nowhere", path)
	return response{}
}

func (b *boundBrowser) signIn(handle string) response {
	b.t.Helper()
	got := b.do("POST", "/login/", url.Values{"handle": {handle}, "password": {password}}, "Accept", "text/html", "Origin", "https://id.example.com")
	if got.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("sign in: %d %.300s", got.StatusCode, mainOf(got.Text))
	}
	return got
}

// bind signs in and proves the key.
func (l *boundLife) bind(handle string) *boundBrowser {
	l.t.Helper()
	b := l.boundBrowser()
	b.signIn(handle)
	l.later(11 * time.Second)
	if got := b.page("/account/devices"); pageName(l.t, got.Text) != "account-devices" || !strings.Contains(got.Text, "Bound to the device") {
		l.t.Fatalf("not bound: %.2000s", mainOf(got.Text))
	}
	return b
}

const boundAuthorize = "/oauth2/authorize?client_id=app&response_type=code&scope=openid&state=s&redirect_uri=https%3A%2F%2Fapp.example.org%2Fcallback&code_challenge_method=S256&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

// opens is what a browser can do with its cookies.
func (b *boundBrowser) opens() (open []string) {
	b.t.Helper()
	for range 3 { // a person's browser loads a page again
		open = nil
		if got := b.do("GET", boundAuthorize, nil, "Accept", "text/html"); strings.Contains(got.Header.Get("Location"), "code=") {
			open = append(open, "authorize")
		}
		if got := b.do("GET", boundAuthorize+"&prompt=none", nil, "Accept", "text/html", "Sec-Fetch-Dest",
			"iframe"); strings.Contains(got.Header.Get("Location"), "code=") {
			open = append(open, "silent")
		}
		for _, path := range []string{"/account/", "/account/security", "/admin/", "/admin/users/", "/oauth2/consent"} {
			if got := b.do("GET", path, nil, "Accept", "text/html"); got.StatusCode == http.StatusOK {
				open = append(open, path)
			}
		}
		for _, path := range []string{"/api/me", "/api/me/sessions", "/api/admin/users", "/api/me/factors"} {
			switch got := b.do("GET", path, nil); {
			case got.StatusCode == http.StatusOK:
				open = append(open, path)
			case got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.Text, `"device_proof_required"`):
				b.t.Errorf("%s: %d %s", path, got.StatusCode, got.Text)
			}
		}
		for _, path := range []string{"/api/auth/confirm", "/api/me/passkeys/begin", "/api/invites"} {
			if got := b.api("POST", path, map[string]any{}); got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.Text, `"device_proof_required"`) {
				open = append(open, "POST "+path)
			}
		}
	}
	return open
}

func (l *boundLife) app() {
	l.addClient("app", func(c *provider.Client) { c.Trusted, c.RequirePKCE = true, true })
}

// All cookies of a bound browser, copied at each moment, open nothing six minutes later; the owner notices nothing.
func TestCopiedCookiesOfBoundSessionOpenNothing(t *testing.T) {
	l := startBound(t, "", serviceOptions{})
	l.app()
	owner := l.boundBrowser()
	owner.plain = true
	owner.signIn("keeper")
	before := owner.copied()
	if len(before.opens()) == 0 {
		t.Fatal("a session that is not bound yet opens nothing")
	}
	if r := owner.register(); r.StatusCode != http.StatusOK {
		t.Fatalf("register: %d %s", r.StatusCode, r.Text)
	}
	registered := owner.copied()
	l.later(11 * time.Second)
	owner.page("/account/")
	proven := owner.copied()
	l.later(4 * time.Minute)
	owner.page("/account/")
	for name, thief := range map[string]*boundBrowser{"before the registration": before, "before the first proof": registered} {
		if open := thief.opens(); len(open) > 0 && name != "before the first proof" {
			t.Errorf("copied %s: %v", name, open)
		}
	}
	if len(proven.opens()) == 0 {
		t.Error("the cookie of a proof does not live four minutes")
	}
	l.later(2*time.Minute + time.Second)
	for name, thief := range map[string]*boundBrowser{"before the registration": before, "before the first proof": registered, "after it": proven} {
		if open := thief.opens(); len(open) > 0 {
			t.Errorf("copied %s, six minutes later: %v", name, open)
		}
	}
	same(t, "the owner sees", pageName(t, owner.page("/account/").Text), "account")
	if got := owner.do("GET", boundAuthorize, nil, "Accept", "text/html"); !strings.Contains(got.Header.Get("Location"), "code=") {
		t.Errorf("the owner is sent to %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	l.mails()
	for range 20 {
		proven.do("GET", "/api/me", nil, "Secure-Session-Skipped", "unreachable")
	}
	sent := l.mails()
	if len(sent) > 0 {
		t.Errorf("the owner at the same address is told: %v", slices.Collect(maps.Keys(sent)))
	}
	for _, path := range []string{"/oauth2/logout", "/logout/"} { // whoever lacks the proof can still leave
		has(t, "without the proof", proven.do("GET", path, nil, "Accept", "text/html").Text, "<bdi>keeper")
	}
	same(t, "without the proof", pageName(t, proven.browser.send(proven.page("/oauth2/logout")).Text), "signed-out")
}

// What is not a proof of the session's own key gets no bound cookie.
func TestForeignProofsAreRefused(t *testing.T) {
	l := startBound(t, "/id", serviceOptions{})
	owner, other := l.bind("keeper"), l.bind("keeper")
	l.later(6 * time.Minute)
	refresh := func(b *boundBrowser, proof string) response {
		return b.browser.do("POST", owner.refresh, "", "", "Sec-Secure-Session-Id", owner.id, "Secure-Session-Response", proof)
	}
	challenge := func() string {
		got := refresh(owner, "")
		if got.StatusCode != http.StatusForbidden {
			t.Fatalf("without a proof: %d", got.StatusCode)
		}
		owner.keepChallenge(got)
		return owner.next
	}
	theirs := other.browser.do("POST", other.refresh, "", "", "Sec-Secure-Session-Id", other.id)
	other.keepChallenge(theirs)
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	noError(t, err)
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	noError(t, err)
	thumb, err := (&jose.JSONWebKey{Key: owner.key.Public()}).Thumbprint(crypto.SHA256)
	noError(t, err)
	for name, proof := range map[string]string{
		"another key":                 other.proof(map[string]any{"jti": challenge()}, nil),
		"another key in its header":   other.proof(map[string]any{"jti": challenge()}, map[jose.HeaderKey]any{"jwk": jose.JSONWebKey{Key: other.key.Public()}}),
		"RS256":                       deviceProof(t, jose.RS256, strange, map[string]any{"jti": challenge()}, nil),
		"HS256 with the public key":   deviceProof(t, jose.HS256, thumb, map[string]any{"jti": challenge()}, nil),
		"ES384":                       deviceProof(t, jose.ES384, wide, map[string]any{"jti": challenge()}, nil),
		"none":                        encode64([]byte(`{"alg":"none","typ":"dbsc+jwt"}`)) + "." + encode64([]byte(`{"jti":"`+challenge()+`"}`)) + ".",
		"another type":                owner.proof(map[string]any{"jti": challenge()}, map[jose.HeaderKey]any{"typ": "JWT"}),
		"the challenge of another":    owner.proof(map[string]any{"jti": other.next}, nil),
		"no challenge":                owner.proof(map[string]any{"jti": ""}, nil),
		"a challenge with other text": owner.proof(map[string]any{"jti": challenge() + "A"}, nil),
		"no token":                    "x",
		"a long one":                  owner.proof(map[string]any{"jti": challenge(), "x": strings.Repeat("x", 4000)}, nil),
	} {
		if got := refresh(owner, proof); got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 || !strings.Contains(got.Text, `"invalid_device_proof"`) {
			t.Errorf("%s: %d %v %s", name, got.StatusCode, got.Cookies(), got.Text)
		}
	}
	good := owner.proof(map[string]any{"jti": challenge()}, nil)
	if got := refresh(owner, `"`+good+`"`); got.StatusCode != http.StatusOK ||
		got.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" ||
		got.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a proof as a string: %d %s", got.StatusCode, got.Text)
	}
	same(t, "the same proof again", refresh(owner, good).StatusCode, http.StatusForbidden)
	old := owner.proof(map[string]any{"jti": challenge()}, nil)
	l.later(2*time.Minute + time.Second)
	same(t, "an old challenge", refresh(owner, old).StatusCode, http.StatusForbidden)
	ahead := owner.proof(map[string]any{"jti": challenge()}, nil) // of an instance whose clock is
	l.later(-61 * time.Second)
	same(t, "a challenge of the future", refresh(owner, ahead).StatusCode, http.StatusForbidden)
	l.later(time.Minute)
	same(t, "a challenge of a clock that is a little ahead", refresh(owner, ahead).StatusCode, http.StatusOK)
	l.later(time.Second)
	for name, id := range map[string]string{"none": "", "another's": strings.Replace(owner.id, owner.id[:8], other.id[:8], 1), "cut": owner.id[:len(owner.id)-1]} {
		if got := owner.browser.do("POST", owner.refresh, "", "", "Sec-Secure-Session-Id", id,
			"Secure-Session-Response", good); got.StatusCode != http.StatusBadRequest || len(got.Cookies()) > 0 {
			t.Errorf("session id, %s: %d", name, got.StatusCode)
		}
	}
	// From any page, with any type: the proof is the check, and no answer is refused for its address.
	if got := owner.browser.do("POST", owner.refresh, "text/plain", "x", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Secure-Session-Id", owner.id, "Secure-Session-Response", owner.proof(map[string]any{"jti": challenge()}, nil)); got.StatusCode != http.StatusOK {
		t.Errorf("from elsewhere: %d %s", got.StatusCode, got.Text)
	}
	// Nobody keeps the service busy with proofs of their own; those of other keys use up nothing.
	proven := func() int { return refresh(owner, owner.proof(map[string]any{"jti": challenge()}, nil)).StatusCode }
	taken := 0
	for taken < 60 && proven() == http.StatusOK {
		taken++
		refresh(owner, other.proof(map[string]any{"jti": challenge()}, nil))
	}
	if got := proven(); taken < 50 || got != http.StatusServiceUnavailable {
		t.Errorf("after %d proofs: %d", taken, got)
	}
	if !other.prove() {
		t.Error("another session is kept out")
	}
	if l.later(10 * time.Minute); proven() != http.StatusOK {
		t.Error("kept out for longer")
	}
}

// Only the browser that has signed in, once and at once, can bind the session.
func TestForeignRegistrationsAreRefused(t *testing.T) {
	l := startBound(t, "", serviceOptions{})
	l.app()
	start := func() (owner, thief *boundBrowser) {
		owner = l.boundBrowser()
		owner.plain = true
		owner.signIn("keeper")
		return owner, owner.copied()
	}
	parts := func(b *boundBrowser) (challenge, authorization string) {
		m := registrationForm.FindStringSubmatch(b.asked.Get("Secure-Session-Registration"))
		return m[2], m[3]
	}
	send := func(b *boundBrowser, challenge, authorization string, key *ecdsa.PrivateKey) response {
		alg := jose.ES256
		if key.Curve != elliptic.P256() {
			alg = jose.ES384
		}
		return b.browser.do("POST", "/auth/device/register", "", "", "Secure-Session-Response", deviceProof(t, alg, key, map[string]any{"jti": challenge, "authorization": authorization}, map[jose.HeaderKey]any{"jwk": jose.JSONWebKey{Key: key.Public()}}))
	}
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	noError(t, err)
	owner, thief := start()
	challenge, authorization := parts(owner)
	member, _ := start() // the thief's own session
	ownChallenge, ownAuthorization := parts(member)
	for name, try := range map[string][2]string{
		"no authorization":                 {challenge, ""},
		"the session's id alone":           {challenge, authorization[:36]},
		"that of another session":          {challenge, ownAuthorization},
		"that of another, with our name":   {challenge, authorization[:37] + ownAuthorization[37:]},
		"the challenge of another session": {ownChallenge, authorization},
		"no challenge":                     {"", authorization},
	} {
		if got := send(thief, try[0], try[1], thief.key); got.StatusCode != http.StatusForbidden ||
			len(got.Cookies()) > 0 {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Text)
		}
	}
	same(t, "P-384", send(owner, challenge, authorization, wide).StatusCode, http.StatusForbidden)
	same(t, "no key", owner.browser.do("POST", "/auth/device/register", "", "", "Secure-Session-Response",
		owner.proof(map[string]any{"jti": challenge, "authorization": authorization}, nil)).StatusCode, http.StatusForbidden)
	if got := owner.register(); got.StatusCode != http.StatusOK {
		t.Fatalf("the owner: %d %s", got.StatusCode, got.Text)
	}
	same(t, "again, by another key", send(thief, challenge, authorization, thief.key).StatusCode, http.StatusForbidden)
	l.later(2*time.Minute + time.Second)
	same(t, "two minutes after the sign-in", member.register().StatusCode, http.StatusForbidden)
	// Neither the API nor a confirmation asks for a registration: whoever has the password alone has no session of the owner.
	api := l.boundBrowser()
	if got := api.api("POST", "/api/auth/login", map[string]string{"handle": "keeper", "password": password}); got.StatusCode != http.StatusOK || got.Header.Get("Secure-Session-Registration") != "" {
		t.Errorf("the API: %d %v", got.StatusCode, got.Header)
	}
	if got := member.api("POST", "/api/auth/confirm", map[string]string{"password": password}); got.StatusCode != http.StatusOK || got.Header.Get("Secure-Session-Registration") != "" {
		t.Errorf("a confirmation: %d %v", got.StatusCode, got.Header)
	}
}

// A week of a browser that is used, skips, sleeps, goes offline and loses its keys: its owner signs in where the key is
// gone or the session has ended, and nowhere else.
func TestOwnerOfBoundSessionIsNeverSignedOut(t *testing.T) {
	l := startBound(t, "", serviceOptions{})
	l.app()
	old := l.boundBrowser() // of before
	old.plain = true
	old.signIn("keeper")
	b := l.bind("keeper")
	asked := 0
	visit := func(what string) {
		t.Helper()
		for _, path := range []string{"/account/", boundAuthorize, "/account/apps"} {
			got := b.page(path)
			if !strings.Contains(got.Header.Get("Location"), "code=") && (got.StatusCode != http.StatusOK || pageName(t, got.Text) == "login") {
				asked++
				t.Errorf("%s: %s is %d %s", what, path, got.StatusCode, pageName(t, got.Text))
			}
		}
		if got := b.do("GET", "/api/me", nil); got.StatusCode != http.StatusOK {
			asked++
			t.Errorf("%s: /api/me is %d %s", what, got.StatusCode, got.Text)
		}
	}
	for day := range 7 {
		step := 46 // of 13 visits, 1 to 13 minutes after the one before
		if day == 0 {
			step = 7
		}
		for minutes := 0; minutes < 10*60; minutes += step {
			visit(fmt.Sprintf("day %d, minute %d", day, minutes))
			l.later(time.Duration(1+minutes%13) * time.Minute)
		}
		if day == 2 { // a skipped proof: the page comes automatically once the browser proves again
			l.later(6 * time.Minute)
			b.skips = true
			for _, dest := range []string{"", "document"} {
				if got := b.do("GET", "/account/", nil, "Accept", "text/html", "Sec-Fetch-Dest", dest, "Secure-Session-Skipped",
					"quota_exceeded"); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Refresh") == "" ||
					!strings.Contains(got.Text, "One moment") {
					t.Errorf("skipped: %d %s", got.StatusCode, got.Text)
				}
			}
			b.skips = false
		}
		if day == 4 { // the service is down for an hour
			l.failing.Store(true)
			same(t, "down",
				b.do("GET", "/account/", nil, "Accept", "text/html").StatusCode, http.StatusServiceUnavailable)
			l.failing.Store(false)
			l.later(time.Hour)
		}
		visit("in the evening")
		l.later(14 * time.Hour)
	}
	visit("after the week")
	same(t, "a session that is not bound", pageName(t, old.page("/account/").Text), "account")
	if asked > 0 {
		t.Errorf("the owner was asked %d times in a week", asked)
	}
	t.Logf("%d signatures in a week", b.signed)
	// A new profile with the cookies of before: the key is gone.
	lost := b.copied()
	l.later(7 * time.Minute)
	if got := lost.page("/account/devices"); pageName(t, got.Text) != "login" ||
		!strings.Contains(got.Text, "could not show that it is still the one") ||
		!strings.Contains(got.Text, `value="keeper"`) {
		t.Errorf("without its key: %.800s", mainOf(got.Text))
	}
	lost.plain = false
	if got := lost.signIn("keeper"); lost.id == "" || !strings.HasPrefix(got.Header.Get("Location"), "/account/") {
		t.Errorf("signed in again: %s, bound %q", got.Header.Get("Location"), lost.id)
	}
	// The session before has ended with that, and its binding too.
	if got := b.page("/account/"); pageName(t, got.Text) != "login" || b.id != "" {
		t.Errorf("the session before: %s, bound %q", pageName(t, got.Text), b.id)
	}
	l.later(time.Minute)
	b = lost
	visit("in the new profile")
	l.later(40 * 24 * time.Hour)
	same(t, "after 40 days", pageName(t, b.page("/account/").Text), "login")
}

// What a sign-in, a confirmation, a sign-out and the setting do to a binding.
func TestBindingFollowsTheSession(t *testing.T) {
	l := startBound(t, "", serviceOptions{})
	l.app()
	l.addUser("bob")
	b := l.bind("keeper")
	id := b.id
	if got := b.do("POST", "/api/auth/confirm", nil); got.StatusCode == http.StatusOK {
		t.Error("confirmed by nothing")
	}
	if got := b.api("POST", "/api/auth/confirm", map[string]string{"password": password}); got.StatusCode != http.StatusOK {
		t.Fatalf("confirm: %d %s", got.StatusCode, got.Text)
	}
	stolen := b.copied()
	l.later(7 * time.Minute)
	if open := stolen.opens(); len(open) > 0 {
		t.Errorf("copied after a confirmation: %v", open)
	}
	if got := b.page("/account/"); pageName(t, got.Text) != "account" || b.id != id {
		t.Errorf("after a confirmation: %s, %q", pageName(t, got.Text), b.id)
	}
	// The same person signs in again over the session: it keeps its name and its key.
	if got := b.signIn("keeper"); got.Header.Get("Secure-Session-Registration") != "" || b.id != id {
		t.Errorf("asked to register again: %v", got.Header)
	}
	stolen = b.copied()
	l.later(7 * time.Minute)
	if open := stolen.opens(); len(open) > 0 {
		t.Errorf("copied after another sign-in: %v", open)
	}
	b.page("/account/")
	// Somebody else signs in over it: the former binding ends, the new cookie stays.
	before := *b
	b.id = ""
	b.signIn("bob")
	if l.later(time.Minute); pageName(t, b.page("/account/").Text) != "account" || b.id == "" {
		t.Error("bob is not bound")
	}
	if before.until = l.now(); before.prove() || before.id != "" {
		t.Error("the binding of the session before has not ended")
	}
	same(t, "after the end of the former binding bob sees", pageName(t, b.page("/account/").Text), "account")
	if got := b.do("POST", "/logout/", url.Values{}, "Accept", "text/html", "Origin", "https://id.example.com"); pageName(t, got.Text) != "signed-out" {
		t.Errorf("sign out: %s", pageName(t, got.Text))
	}
	if l.later(6 * time.Minute); b.prove() || b.id != "" {
		t.Error("the binding of a signed-out session has not ended")
	}
	same(t, "signed out", pageName(t, b.page("/account/").Text), "login")
	// The session list shows it, and the export.
	c := l.bind("keeper")
	has(t, "sessions", c.do("GET", "/api/me/sessions", nil).Text, `"device_bound":true`)
	if got := c.api("POST", "/api/me/export", map[string]any{}); !strings.Contains(got.Text, `"device_bound":true`) {
		t.Errorf("export: %d %.300s", got.StatusCode, got.Text)
	}
}

// Somebody who uses the cookies elsewhere is told about to the owner, once a day, with the way to end everything.
func TestOwnerIsToldOfACopiedSession(t *testing.T) {
	m := metrics.New(metrics.Build{})
	l := startBound(t, "", serviceOptions{Metrics: m})
	owner := l.bind("keeper")
	l.mails()
	thief := owner.copied()
	l.later(7 * time.Minute)
	thief.client.Transport.(*http.Transport).DialContext = dialFrom("127.0.0.9", l.address)
	thief.client.CloseIdleConnections()
	for range 10 {
		thief.do("GET", "/api/me", nil)
	}
	if sent := l.mails(); len(sent) > 0 {
		t.Errorf("told after ten: %v", sent)
	}
	for range 20 {
		thief.do("GET", "/account/", nil, "Accept", "text/html")
	}
	told := l.mail("the eleventh", "keeper@example.org")
	if !strings.Contains(told.Text, "/not-me/?link=") || !strings.Contains(told.Text, "127.0.0.9") {
		t.Errorf("the mail says: %s", told.Text)
	}
	if _, got := scrape(t, m); got["cairn_device_proofs_required_total"] != 30 {
		t.Errorf("%v requests without a proof were counted", got["cairn_device_proofs_required_total"])
	}
	for action, n := range map[string]int{"session.bind": 1, "session.copied": 1} {
		rows, err := l.store.AuditLog(t.Context(), account.AuditQuery{Kind: action, Limit: 10})
		noError(t, err)
		if len(rows) != n || rows[0].Target != "keeper" {
			t.Errorf("%s in the audit log: %+v", action, rows)
		}
	}
	l.later(2 * time.Hour)
	for range 30 {
		thief.do("GET", "/api/me", nil)
	}
	if sent := l.mails(); len(sent) > 0 {
		t.Errorf("told again within the day: %v", sent)
	}
	same(t, "the owner sees", pageName(t, owner.page("/account/").Text), "account")
}

// Two instances that share a database answer by turns.
func TestInstancesShareABinding(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		database := func(c *config.Settings) { c.Database = dsn }
		l := startBound(t, "", serviceOptions{Store: storetest.Open(t, dsn), Settings: database})
		l.app()
		other := startService(t,
			serviceOptions{Store: storetest.Open(t, dsn), Now: l.now, Settings: func(c *config.Settings) {
				database(c)
				c.Issuer = l.URL
			}})
		turns, proof := 0, ""
		l.seen = func(r *http.Request) {
			proof = cmp.Or(r.Header.Get("Secure-Session-Response"), proof)
			if turns++; turns%2 == 0 {
				l.inner.Store(nil)
			} else {
				l.inner.Store(other.handler)
			}
		}
		b := l.bind("keeper")
		thief := b.copied()
		thief.asked = b.asked
		for range 2 { // one instance has not seen the challenge
			if got := thief.register(); got.StatusCode != http.StatusForbidden {
				t.Errorf("bound again: %d %s", got.StatusCode, got.Text)
			}
		}
		for range 20 {
			l.later(7 * time.Minute)
			for _, path := range []string{"/account/", "/account/apps"} {
				if got := b.page(path); got.StatusCode != http.StatusOK || pageName(t, got.Text) == "login" {
					t.Errorf("%s is %d %s", path, got.StatusCode, pageName(t, got.Text))
				}
			}
		}
		if open := thief.opens(); len(open) > 0 {
			t.Errorf("copied: %v", open)
		}
		for range 2 {
			got := thief.browser.do("POST", b.refresh, "", "", "Sec-Secure-Session-Id", b.id, "Secure-Session-Response", proof)
			wantStatus(t, "a copied proof", got, http.StatusForbidden)
		}
	})
}

// With the setting off all sessions count as unbound at once, and with it on again nobody signs in.
func TestDeviceBindingCanBeSwitchedOff(t *testing.T) {
	l := startBound(t, "", serviceOptions{})
	l.app()
	b := l.bind("keeper")
	thief := b.copied()
	l.later(7 * time.Minute)
	off := startService(t, serviceOptions{Store: l.store, Now: l.now, Settings: func(c *config.Settings) { c.Issuer, c.DeviceBinding = l.URL, "off" }})
	l.inner.Store(off.handler)
	if got := thief.do("GET", "/api/me", nil); got.StatusCode != http.StatusOK {
		t.Errorf("off: %d %s", got.StatusCode, got.Text)
	}
	fresh := l.boundBrowser()
	same(t, "off, and it asks for a registration", fresh.signIn("keeper").Header.Get("Secure-Session-Registration"), "")
	if got := b.page("/account/"); pageName(t, got.Text) != "account" || b.id == "" {
		t.Errorf("off: %s, bound %q", pageName(t, got.Text), b.id)
	}
	l.inner.Store(nil)
	if open := thief.opens(); len(open) > 0 {
		t.Errorf("on again: %v", open)
	}
	same(t, "on again", pageName(t, b.page("/account/").Text), "account")
}

// dialTo connects to one address, whatever the host.
func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return dialFrom("127.0.0.1", address)
}

// dialFrom is dialTo from an address of this machine.
func dialFrom(from, address string) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}
