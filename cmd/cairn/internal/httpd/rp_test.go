//go:build unix

package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/provider"
)

// relyingPartyHome is where testdata/rp/install puts the npm packages.
func relyingPartyHome() string {
	if home := os.Getenv("RP_HOME"); home != "" {
		return home
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "rp-home-unknown"
	}
	return filepath.Join(cache, "cairn-rp")
}

// needFiles skips a test with software of others where that is not asked for or not installed. In
// CI nothing may be missing.
func needFiles(t *testing.T, files ...string) {
	t.Helper()
	thirdParty(t)
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			continue
		}
		missing := fmt.Sprintf("%s is missing: run cmd/cairn/internal/httpd/testdata/rp/install", file)
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

// nodeScript is the command that runs a script of testdata/rp beside the
// installed packages: Node.js looks for them next to the script.
func nodeScript(t *testing.T, script string, packages ...string) []string {
	t.Helper()
	modules := filepath.Join(relyingPartyHome(), "node_modules")
	var need []string
	for _, p := range packages {
		need = append(need, filepath.Join(modules, p, "package.json"))
	}
	needFiles(t, need...)
	node, err := exec.LookPath("node")
	if err != nil {
		needFiles(t, "node")
	}
	dir := t.TempDir()
	copyFile(t, filepath.Join("testdata", "rp", script), filepath.Join(dir, script), nil)
	noError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	return []string{node, filepath.Join(dir, script)}
}

// copyFile fills in the words between @ that a configuration file has.
func copyFile(t *testing.T, from, to string, words map[string]string) {
	t.Helper()
	b, err := os.ReadFile(from)
	noError(t, err)
	text := string(b)
	for word, value := range words {
		text = strings.ReplaceAll(text, "@"+word+"@", value)
	}
	noError(t, os.WriteFile(to, []byte(text), 0o600))
}

// freePort is a port for a program that cannot choose one itself, on which nothing listens: below those that the system takes for connections and for tests that
// listen on any: none of them takes it before it is used.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(12_000 + mathrand.IntN(20_000))
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// startProgram runs a program until the test ends, in a process group of its
// own, and returns its output when it listens on the port. It is shown when the
// test fails.
func startProgram(t *testing.T, port string, command []string, env ...string) *logBuffer {
	t.Helper()
	foreign(t)
	output := &logBuffer{}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command[0], err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			t.Errorf("%s did not stop", command[0])
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
		if t.Failed() {
			t.Logf("output of %s:\n%s", strings.Join(command, " "), output)
		}
	})
	waitForPort(t, port, exited)
	return output
}

// waitForPort returns when something listens on the port of 127.0.0.1.
func waitForPort(t *testing.T, port string, exited <-chan struct{}) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-exited:
			t.Fatal("the program ended before it listened")
		case <-deadline:
			t.Fatalf("nothing listens: %v", err)
		case <-again.C:
		}
	}
}

// registeredApp is a relying party that runs, as its registration sees it.
type registeredApp struct {
	ID     string
	Secret string
	URL    string // http://localhost:PORT
	Port   string
}

// registerApplication makes the client of a program that will listen on a port
// of this machine and take its answers at the path.
func (s *service) registerApplication(id, path string, change func(*provider.Client)) registeredApp {
	s.t.Helper()
	a := registeredApp{ID: id, Port: freePort(s.t)}
	a.URL = "http://localhost:" + a.Port
	a.Secret = s.addClient(id, func(c *provider.Client) {
		c.RedirectURIs = []string{a.URL + path}
		if change != nil {
			change(c)
		}
	})
	return a
}

// environment returns the variables that the scripts of testdata/rp read.
func (a registeredApp) environment(issuer string) []string {
	return []string{"ISSUER=" + issuer, "CLIENT_ID=" + a.ID, "CLIENT_SECRET=" + a.Secret, "OIDC_CLIENT_SECRET=" + a.Secret, "BASE=" + a.URL}
}

// visit plays the person at an application: it follows redirects between both
// sides, signs in and allows, until the application shows something. All answers on the way come back, the last one last.
func (b *browser) visit(start, handle string) []response {
	b.t.Helper()
	trail := []response{b.get(start)}
	for range 20 {
		got := trail[len(trail)-1]
		here := got.Request.URL
		switch {
		case got.StatusCode == http.StatusFound || got.StatusCode == http.StatusSeeOther:
			next, err := here.Parse(got.Header.Get("Location"))
			if err != nil {
				b.t.Fatalf("%s redirects nowhere: %v", here.Path, err)
			}
			got = b.get(next.String())
		case !strings.HasPrefix(here.String(), b.base+"/"):
			return trail
		case got.StatusCode != http.StatusOK:
			b.t.Fatalf("%s: %d %.400s", here.Path, got.StatusCode, got.Text)
		default:
			f := pageForm(b.t, got.Text)
			if name := pageName(b.t, got.Text); !answersOf(handle, "allow")(name, &ua.Form{Values: f.values}) {
				b.t.Fatalf("unexpected page %q: %.600s", name, got.Text)
			}
			action, err := here.Parse(f.action)
			noError(b.t, err)
			// What browsers say about a form of the page's own site.
			got = b.postForm(action.String(), f.values, "Origin", here.Scheme+"://"+here.Host, "Sec-Fetch-Site", "same-origin")
		}
		trail = append(trail, got)
	}
	b.t.Fatal("the way to the application never ended")
	return nil
}

// authorizationRequest is the query that the application sent on the way.
func authorizationRequest(t *testing.T, trail []response) url.Values {
	t.Helper()
	for _, got := range trail {
		if strings.HasSuffix(got.Request.URL.Path, "/oauth2/authorize") {
			return got.Request.URL.Query()
		}
	}
	t.Fatal("no authorization request on the way")
	return nil
}

// applicationSaw is the answer of the scripts after sign-in, userinfo, refresh
// and userinfo again.
type applicationSaw struct {
	Sub           string `json:"sub"`
	Name          string `json:"name"`
	Email         string `json:"email"`
	Handle        string `json:"handle"`
	RefreshedSub  string `json:"refreshed_sub"`
	RefreshedName string `json:"refreshed_name"`
	Rotated       bool   `json:"rotated"`
}

// seen checks that the trail ends at the application and reads its answer.
func (a registeredApp) seen(t *testing.T, trail []response) applicationSaw {
	t.Helper()
	last := trail[len(trail)-1]
	if last.StatusCode != http.StatusOK || !strings.HasPrefix(last.Request.URL.String(), a.URL+"/") {
		t.Fatalf("ended at %s%s with %d: %.600s", last.Request.URL.Host, last.Request.URL.Path, last.StatusCode, last.Text)
	}
	var saw applicationSaw
	if err := json.Unmarshal([]byte(last.Text), &saw); err != nil {
		t.Fatalf("%s: %v: %.600s", last.Request.URL.Path, err, last.Text)
	}
	return saw
}

// A Go application that does not say how it authenticates: x/oauth2 tries basic first, and
// after a refusal sends the same code again with the secret in the body.
func TestGoApplicationDetectsTheAuthenticationMethod(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUser("ada")
	for _, method := range []string{provider.AuthAny, provider.AuthBasic, provider.AuthPost, provider.AuthNone} {
		rp := s.app("go-"+method, func(c *provider.Client) { c.AuthMethod = method })
		rp.config.Endpoint.AuthStyle = oauth2.AuthStyleAutoDetect
		_, token := s.signedInTokens(rp, "ada")
		refreshed, err := rp.config.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
		if err != nil || rp.idToken(token).Subject != u.Sub || rp.idToken(refreshed).Subject != u.Sub ||
			refreshed.RefreshToken == token.RefreshToken {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// rpPrograms are applications in the way of their libraries' documentation.
var rpPrograms = map[string]struct {
	command func(t *testing.T) []string
	shape   func(q url.Values) bool // of the request that the test is for
	tokens  bool                    // asks userinfo and refreshes, too
}{
	// openid-client sends no state when PKCE is there, and refuses an answer that brings
	// one all the same.
	"openid-client": {func(t *testing.T) []string { return nodeScript(t, "openid_client.mjs", "openid-client") },
		func(q url.Values) bool {
			return !q.Has("state") && !q.Has("nonce") && q.Get("code_challenge_method") == "S256"
		}, true},
	"authlib": {func(t *testing.T) []string {
		packages := "/usr/lib/python3/dist-packages/"
		needFiles(t, "/usr/bin/python3", packages+"authlib", packages+"flask", packages+"requests")
		return []string{"/usr/bin/python3", "-I", "-B", "testdata/rp/authlib_app.py"}
	}, func(q url.Values) bool { return q.Has("state") && q.Has("nonce") && q.Has("code_challenge") }, true},
	"django": {func(t *testing.T) []string {
		python := filepath.Join(relyingPartyHome(), "python/bin/python3")
		needFiles(t, python)
		return []string{python, "-I", "-B"}
	}, func(q url.Values) bool { return q.Has("state") && q.Has("nonce") && q.Has("code_challenge") }, false},
	// These read the ID token alone.
	"passport": {func(t *testing.T) []string {
		return nodeScript(t, "passport_openidconnect.mjs", "passport-openidconnect", "passport", "express-session", "express")
	}, isPlainRequest, false},
	// It asks userinfo for the rest, by the profile function of the application.
	"passport-oauth2": {func(t *testing.T) []string {
		return nodeScript(t, "passport_oauth2.mjs", "passport-oauth2", "passport", "express-session", "express")
	}, func(q url.Values) bool {
		return isPlainRequest(q) && q.Has("state") && !q.Has("nonce") && q.Get("code_challenge_method") == "S256"
	}, false},
	"express": {func(t *testing.T) []string {
		return nodeScript(t, "express_openid_connect.mjs", "express-openid-connect", "express")
	}, isPlainRequest, false},
}

func isPlainRequest(q url.Values) bool {
	return q.Get("response_type") == "code" && q.Get("scope") == "openid profile email"
}

func TestApplicationsSignIn(t *testing.T) {
	for name, c := range rpPrograms {
		t.Run(name, func(t *testing.T) {
			if name != "openid-client" {
				another(t)
			}
			command := c.command(t)
			s := startService(t, serviceOptions{Limits: true})
			u := s.addUserWithEmail("ada")
			app := s.registerApplication(name, "/callback", nil)
			if name == "django" {
				page := appBlocks(t, "Django", "python", "https://id.example.org", s.URL, `"site"`, `"django"`, "club.oidc", "__main__")
				script := filepath.Join(t.TempDir(), "site.py")
				copyFile(t, "testdata/rp/django_app.py", script, map[string]string{"SETTINGS": page[0], "BACKEND": page[1]})
				command = append(command, script, filepath.Join(t.TempDir(), "django.db"))
			}
			startProgram(t, app.Port, command, app.environment(s.URL)...)
			trail := s.browser().visit(app.URL+"/", "ada")
			if asked := authorizationRequest(t, trail); !c.shape(asked) {
				t.Errorf("the request has another shape than this test is for: %v", asked)
			}
			want := applicationSaw{Sub: u.Sub, Name: "Ada", Handle: "ada", Email: u.Email}
			if c.tokens {
				want = applicationSaw{Sub: u.Sub, Name: "Ada", Handle: "ada", RefreshedSub: u.Sub, RefreshedName: "Ada", Rotated: true}
			}
			equal(t, "seen", app.seen(t, trail), want)
		})
	}
}

// registerByRecipe registers an application that listens on a port of this machine as client add --app does, and returns what it prints:
// the client, and the application's own settings in a language, with the secret in its place.
func (p *installed) registerByRecipe(name, language string) (a registeredApp, settings string) {
	p.t.Helper()
	a = registeredApp{Port: freePort(p.t)}
	a.URL = "http://localhost:" + a.Port
	printed := p.run("client", "add", "--app", name, "--url", a.URL, "--issuer", p.URL)
	fields := regexp.MustCompile(`(?m)^client (id|secret) +(\S+)`).FindAllStringSubmatch(printed, -1)
	found := blocks(printed, language)
	if len(fields) != 2 || len(found) != 1 {
		p.t.Fatalf("client add --app %s printed %s", name, printed)
	}
	a.ID, a.Secret = fields[0][2], fields[1][2]
	return a, strings.ReplaceAll(found[0], "…", a.Secret)
}

// The application's own code of Paperless-ngx is its settings; django-allauth signs people in.
func TestRecipeOfPaperlessSignsIn(t *testing.T) {
	python := filepath.Join(relyingPartyHome(), "python/bin/python3")
	needFiles(t, python)
	script, err := filepath.Abs("testdata/rp/paperless_app.py")
	noError(t, err)
	p := newInstalled(t, false, "")
	p.serve()
	p.run("user", "update", "keeper", "--email", "keeper@example.org")
	app, settings := p.registerByRecipe("paperless-ngx", "sh")
	p.write("paperless.env", settings)
	startProgram(t, app.Port, []string{"sh", "-ec", `cd "$DIR"; set -a; . ./paperless.env; exec "$@"`, "sh", python, "-I", "-B", script, "paperless.db"},
		"DIR="+p.dir, "BASE="+app.URL, "PAPERLESS_ACCOUNT_DEFAULT_HTTP_PROTOCOL=http")
	b := p.browser()
	start := app.URL + "/accounts/oidc/cairn/login/"
	token := regexp.MustCompile(`name="csrfmiddlewaretoken" value="(\w+)"`).FindStringSubmatch(b.get(start).Text)
	if token == nil {
		t.Fatal("Paperless has no form that leads here")
	}
	begun := b.postForm(start, url.Values{"csrfmiddlewaretoken": token[1:]})
	trail := b.visit(needStatus(t, "button of Paperless", begun, http.StatusFound).Header.Get("Location"), "keeper")
	if asked := authorizationRequest(t, trail); !asked.Has("state") || asked.Get("code_challenge_method") != "S256" {
		t.Errorf("the request has another shape than this test is for: %v", asked)
	}
	sub, _ := jsonOf(t, p.run("user", "show", "keeper", "-o", "json"))["sub"].(string)
	want := applicationSaw{Sub: sub, Name: "keeper", Handle: "keeper", Email: "keeper@example.org"}
	if diff := cmp.Diff(want, app.seen(t, trail)); diff != "" || sub == "" {
		t.Error(diff)
	}
	left := needStatus(t, "logout of Paperless", b.get(app.URL+"/accounts/logout/"), http.StatusFound)
	has(t, "no way back to Paperless", b.send(b.get(left.Header.Get("Location"))).Text, `href="`+app.URL+`/"`)
	wantStatus(t, "session at the service", b.api("GET", "/api/me", nil), http.StatusUnauthorized)
}

// Auth.js checks PKCE alone unless told otherwise, and never asks userinfo: what
// it knows of a user is in the ID token, unless the client is registered without claims there.
func TestAuthJSShowsNameAndEmailWithItsDefaults(t *testing.T) {
	another(t)
	script := nodeScript(t, "authjs.mjs", "@auth/express", "express")
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUserWithEmail("ada")
	for id, c := range map[string]struct {
		claims bool
		want   applicationSaw
	}{"default": {true, applicationSaw{Name: "Ada", Email: u.Email}}, "without-claims": {false, applicationSaw{}}} {
		t.Run(id, func(t *testing.T) {
			app := s.registerApplication(id, "/auth/callback/cairn", func(n *provider.Client) { n.IDTokenClaims = n.IDTokenClaims && c.claims })
			page := appBlocks(t, "Auth.js", "js", "https://id.example.org", s.URL, "'web'", "'"+id+"'")[0]
			copyFile(t, "testdata/rp/authjs.mjs", script[1], map[string]string{"PAGE": page})
			startProgram(t, app.Port, script, append(app.environment(s.URL), "AUTH_SECRET=only for this test: 0123456789abcdef")...)
			b := s.browser()
			f := pageForm(t, b.get(app.URL+"/auth/signin").Text)
			f.values.Set("callbackUrl", app.URL+"/")
			signIn := b.postForm(f.action, f.values)
			if signIn.StatusCode != http.StatusFound {
				t.Fatalf("sign-in of the application: %d %.600s", signIn.StatusCode, signIn.Text)
			}
			trail := b.visit(signIn.Header.Get("Location"), "ada")
			if asked := authorizationRequest(t, trail); asked.Has("state") || asked.Get("code_challenge_method") != "S256" {
				t.Errorf("the request has another shape than this test is for: %v", asked)
			}
			equal(t, "c.want", app.seen(t, trail), c.want)
		})
	}
}

const (
	apacheFile = "/usr/sbin/apache2"
	apacheOIDC = "/usr/lib/apache2/modules/mod_auth_openidc.so"
)

// startApache runs Apache with mod_auth_openidc in front of an application
// that knows nothing of OpenID Connect: it answers with the headers it got. names are further changes of the page's.
func (s *service) startApache(app registeredApp, names ...string) {
	s.t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_ = r.Header.Write(w)
	}))
	s.t.Cleanup(backend.Close)
	at, err := url.Parse(backend.URL)
	noError(s.t, err)
	config, err := filepath.Abs("testdata/rp/httpd.conf")
	noError(s.t, err)
	dir := s.t.TempDir()
	names = append(names, "https://id.example.org", s.URL, "https://www.example.org", app.URL, "/etc/apache2", dir)
	for name, text := range map[string]string{"page.conf": appBlocks(s.t, "mod_auth_openidc", "apache", names...)[0], "passphrase": "0123456789abcdef0123456789abcdef\n"} {
		noError(s.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	startProgram(s.t, app.Port, []string{apacheFile, "-f", config, "-DFOREGROUND"}, "OIDC_CLIENT_SECRET="+app.Secret, "DIR="+dir, "PORT="+app.Port, "BACKEND="+at.Port())
}

// forwarded are the headers that the application behind Apache got.
func (a registeredApp) forwarded(t *testing.T, trail []response) http.Header {
	t.Helper()
	last := trail[len(trail)-1]
	if last.StatusCode != http.StatusOK || !strings.HasPrefix(last.Request.URL.String(), a.URL+"/members/") {
		t.Fatalf("ended at %s%s with %d: %.600s", last.Request.URL.Host, last.Request.URL.Path, last.StatusCode, last.Text)
	}
	got := http.Header{}
	for line := range strings.Lines(last.Text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			got.Add(name, value)
		}
	}
	return got
}

func TestModAuthOpenIDC(t *testing.T) {
	needFiles(t, apacheFile, apacheOIDC)
	s := startService(t, serviceOptions{Limits: true})
	u := s.addUser("ada", "activity")
	s.addUser("bob")
	app := s.registerApplication("pages", "/members/redirect_uri", nil)
	s.startApache(app, `email groups"`, `email groups offline_access"`)
	without := s.browser().visit(app.URL+"/members/page", "bob")
	wantStatus(t, "a member without the flag", without[len(without)-1], http.StatusUnauthorized)
	b := s.browser()
	trail := b.visit(app.URL+"/members/page", "ada")
	if asked := authorizationRequest(t, trail); !asked.Has("state") || !asked.Has("nonce") || asked.Get("code_challenge_method") != "S256" {
		t.Errorf("the request has another shape than this test is for: %v", asked)
	}
	got := app.forwarded(t, trail)
	if got.Get("X-Remote-User") != "ada" || got.Get("OIDC_CLAIM_sub") != u.Sub || got.Get("OIDC_CLAIM_name") != "Ada" {
		t.Errorf("Apache forwarded %v", got)
	}
	// The session of Apache holds on its own: no way back to the service.
	if again := b.visit(app.URL+"/members/page", "ada"); len(again) != 1 || app.forwarded(t, again).Get("X-Remote-User") != "ada" {
		t.Errorf("the second visit took %d requests", len(again))
	}
	// Its refresh hook: the old access token names the session, a new one comes.
	old := got.Get("OIDC_access_token")
	refresh := app.URL + "/members/redirect_uri?" + url.Values{"refresh": {app.URL + "/members/page"}, "access_token": {old}}.Encode()
	trail = b.visit(refresh, "ada")
	if fresh := app.forwarded(t, trail).Get("OIDC_access_token"); old == "" || fresh == "" || fresh == old {
		t.Errorf("the access token was not refreshed: %s", trail[len(trail)-1].Request.URL)
	}
}

// apacheWithLogout is Apache with a person signed in on two browsers.
func apacheWithLogout(t *testing.T) (s *service, app registeredApp, here, elsewhere *browser) {
	t.Helper()
	needFiles(t, apacheFile, apacheOIDC)
	s = startService(t, serviceOptions{Limits: true})
	s.addUser("ada", "activity")
	app = s.registerApplication("pages", "/members/redirect_uri", func(c *provider.Client) {
		c.BackchannelPrivate = true
		c.BackchannelLogoutURI = c.RedirectURIs[0] + "?logout=backchannel"
		c.PostLogoutRedirectURIs = []string{s.URL + "/healthz"}
	})
	s.startApache(app)
	here, elsewhere = s.browser(), s.browser()
	for _, b := range []*browser{here, elsewhere} {
		if got := app.forwarded(t, b.visit(app.URL+"/members/page", "ada")); got.Get("X-Remote-User") != "ada" {
			t.Fatalf("Apache forwarded %v", got)
		}
	}
	return s, app, here, elsewhere
}

// waitForEnd returns when Apache no longer knows the browser: it then sends it
// to the service instead of to the page.
func (a registeredApp) waitForEnd(t *testing.T, b *browser) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(10 * time.Second); ; {
		if got := b.get(a.URL + "/members/page"); got.StatusCode == http.StatusFound {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the session at the application outlived the session at the service")
		case <-again.C:
		}
	}
}

// Whatever ends the session at the service ends it at the application, where
// nobody has come by, and leaves the same person's other browser alone.
func TestSignOutReachesModAuthOpenIDC(t *testing.T) {
	s, app, here, elsewhere := apacheWithLogout(t)
	needStatus(t, "sign-out", here.api("POST", "/api/auth/logout", nil), http.StatusOK)
	app.waitForEnd(t, here)
	wantStatus(t, "the other browser was signed out too", elsewhere.get(app.URL+"/members/page"), http.StatusOK)
	admin := s.browser()
	s.addUser("keeper", account.FlagAdmin)
	admin.signIn("keeper")
	needStatus(t, "suspend", admin.api("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": "test"}), http.StatusOK)
	app.waitForEnd(t, elsewhere)
	// Apache ends its session before it asks who may see the redirect URI.
	s.log.wait(t, "logout delivered")
	if log := s.log.String(); strings.Contains(log, "logout not delivered") || strings.Contains(log, "logout refused") {
		t.Error("Apache answered a logout token with an error")
	}
}

// The sign-out that begins at the application: Apache sends id_token_hint and
// post_logout_redirect_uri to the end_session_endpoint.
func TestSignOutAtModAuthOpenIDC(t *testing.T) {
	s, app, here, _ := apacheWithLogout(t)
	after := s.URL + "/healthz"
	got := here.get(app.URL + "/members/redirect_uri?logout=" + after)
	for range 5 {
		if got.StatusCode != http.StatusFound && got.StatusCode != http.StatusSeeOther {
			break
		}
		got = here.get(got.Header.Get("Location"))
	}
	if got.StatusCode != http.StatusOK || got.Request.URL.String() != after {
		t.Fatalf("ended at %s with %d: %.600s", got.Request.URL.Path, got.StatusCode, got.Text)
	}
	wantStatus(t, "session at the service", here.api("GET", "/api/me", nil), http.StatusUnauthorized)
	app.waitForEnd(t, here)
}

const nginxFile = "/usr/sbin/nginx"

// The program as an operator runs it: commands, environment, plain http on
// loopback, and nginx with the certificate in front.
func TestServiceBehindNginx(t *testing.T) {
	script := nodeScript(t, "openid_client.mjs", "openid-client")
	needFiles(t, nginxFile)
	p := newInstalled(t, false, "")
	front, back := freePort(t), freePort(t)
	issuer := "https://localhost:" + front
	app := registeredApp{ID: "openid-client", Port: freePort(t)}
	app.URL = "http://localhost:" + app.Port
	added := jsonOf(t, p.run("client", "add", "Application", "--id", app.ID, "--redirect-uri", app.URL+"/callback", "-o", "json"))
	app.Secret, _ = added["client_secret"].(string)
	log := startProgram(t, back, []string{"sh", "-c", "cd '" + p.dir + "' && exec '" + programFile() + "' serve"}, append(p.env,
		"SERVICE_LISTEN=127.0.0.1:"+back, "SERVICE_OIDC_ISSUER="+issuer, "SERVICE_TRUSTED_PROXIES=127.0.0.1", "SERVICE_LOG_FORMAT=json")...)
	cert := filepath.Join(p.dir, "cert.pem")
	writePair(t, cert, filepath.Join(p.dir, "tls.pem"))
	server := strings.Replace(nginxServer(t, front, back), "key.pem", "tls.pem", 1)
	copyFile(t, "testdata/rp/nginx.conf", filepath.Join(p.dir, "nginx.conf"), map[string]string{"SERVER": server})
	startProgram(t, front, []string{nginxFile, "-p", p.dir, "-c", "nginx.conf", "-e", "stderr"})
	startProgram(t, app.Port, script, append(app.environment(issuer), "NODE_EXTRA_CA_CERTS="+cert)...)

	b := browserFrom(t, issuer, cert, "127.0.0.2")
	trail := b.visit(app.URL+"/", "keeper")
	saw := app.seen(t, trail)
	want := applicationSaw{Sub: saw.Sub, Name: saw.Name, Handle: "keeper", RefreshedSub: saw.Sub, RefreshedName: saw.Name, Rotated: true}
	if diff := cmp.Diff(want, saw); diff != "" || saw.Sub == "" {
		t.Error(diff)
	}
	var session *http.Cookie
	for _, got := range trail {
		for _, c := range got.Cookies() {
			if strings.Contains(c.Name, "cairn_session") {
				session = c
			}
		}
	}
	if session == nil || session.Name != "__Host-cairn_session" || !session.Secure || !session.HttpOnly || session.Path != "/" || session.Domain != "" {
		t.Errorf("session cookie: %v", session)
	}
	// What a stranger writes into X-Forwarded-For is not an address.
	wantStatus(t, "session over https", b.get("/api/me", "X-Forwarded-For", "203.0.113.9"), http.StatusOK)
	// The answer comes before its line in the log.
	var addresses []string
	for deadline := time.Now().Add(10 * time.Second); len(addresses) == 0 &&
		time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		addresses = loggedAddresses(t, log.String(), "/api/me")
	}
	if len(addresses) != 1 || addresses[0] != "127.0.0.2" {
		t.Errorf("addresses in the log: %v", addresses)
	}
}

// writePair writes a certificate for localhost and its key.
func writePair(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	noError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	noError(t, err)
	for file, block := range map[string]*pem.Block{keyFile: {Type: "PRIVATE KEY", Bytes: private}, certFile: {Type: "CERTIFICATE", Bytes: cert}} {
		noError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

// browserFrom is a browser on another address than the proxy's that trusts
// the certificate.
func browserFrom(t *testing.T, base, cert, address string) *browser {
	t.Helper()
	trusted, err := os.ReadFile(cert)
	noError(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted) {
		t.Fatal("no certificate in the file")
	}
	return newBrowser(t, base, &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext,
	})
}

// loggedAddresses are the addresses that asked for a path.
func loggedAddresses(t *testing.T, log, path string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Path, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "request" && entry.Path == path {
			out = append(out, entry.Address)
		}
	}
	return out
}
