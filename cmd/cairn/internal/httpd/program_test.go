//go:build unix

package httpd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// busyRun uses the real program as people do and returns the secrets that went
// through it, by what they are.
func busyRun(t *testing.T, p *installed) map[string]string {
	t.Helper()
	var client map[string]any
	if p.hasKey() {
		client = jsonOf(t, p.run("client", "add", "App", "--id", "app", "--redirect-uri", callbackOf("app"), "-o", "json"))
	}
	p.serve()
	keeper, ada := p.signedIn("keeper"), p.visitor()
	needStatus(t, "register", ada.register(keeper.invite(), "ada"), http.StatusCreated)
	deleted, spent, reset := keeper.invite(), keeper.resetCode("ada"), keeper.resetCode("ada")
	l := map[string]string{
		"password": password, "wrong password": "a wrong-password 1", "new password": "quite another-password 2", "password as handle": "my-password-typed-as-handle", "password in an address": "password-in-an-address", "deleted invite": deleted,
		"reset code": reset, "voided reset code": spent, "cookie": ada.cookie("cairn_session"), "administrator's cookie": keeper.cookie("cairn_session"), "bearer": "bearer-of-a-stranger-0123456789", "broken": "password-in-broken-json",
	}
	l["jti"], _ = jwtPayload(t, l["cookie"])["jti"].(string)
	p.visitor().login("ada", l["wrong password"])
	p.visitor().login(l["password as handle"], "x")
	p.visitor().postForm("/login/", url.Values{"handle": {l["password as handle"]}, "password": {l["wrong password"]}})
	for _, path := range []string{"/login/?password=" + l["password in an address"], "/reset-password/?handle=ada&code=" + reset, "/register/?code=" + deleted} {
		p.visitor().get(path)
	}
	p.visitor().do("GET", "/api/me", "", "", "Authorization", "Bearer "+l["bearer"], "Cookie", "cairn_session="+l["bearer"])
	p.visitor().api("POST", "/api/auth/login", `{"handle":"ada","password":"`+l["broken"]+`"`)
	p.visitor().api("POST", "/api/auth/login", `{"handle":"ada","`+l["broken"]+`":1}`)
	if client != nil {
		l["client secret"], _ = client["client_secret"].(string)
		rp := p.relyingParty("app", l["client secret"])
		code := ada.authorize(rp.authURL(), "ada").Get("code")
		token, err := rp.exchange(code)
		noError(t, err)
		l["code"], l["access token"], l["refresh token"], l["verifier"], l["ID token"], l["nonce"], l["state"] = code, token.AccessToken, token.RefreshToken, rp.verifier, rawIDToken(token), rp.nonce, rp.state
		p.visitor().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
		p.visitor().get("/oauth2/userinfo?access_token=" + token.AccessToken)
	}
	needStatus(t, "reset", p.visitor().reset("ada", reset, l["new password"]), http.StatusOK)
	needStatus(t, "sign in after the reset", p.visitor().login("ada", l["new password"]), http.StatusOK)
	l["open reset code"] = keeper.resetCode("ada")
	keeper.api("DELETE", "/api/invites/"+deleted, nil)
	keeper.api("POST", "/api/auth/logout", nil)
	for name, value := range l {
		if len(value) < 10 {
			t.Fatalf("the run had no %s: %q", name, value)
		}
	}
	return l
}

// holds reports whether a text has a secret in any of its spellings.
func holds(text, secret string) bool {
	for _, spelling := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(secret, "-", "")} {
		if strings.Contains(text, spelling) {
			return true
		}
	}
	return false
}

// Attacks 154 to 157 and 160, on a machine that others use too: ps, the log, the
// database's files. A line of the log has what an operator looks for.
func TestOtherUsersOfTheMachineSeeNoSecret(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc and permission bits")
	}
	for _, scheme := range []string{"HS256", "RS256"} {
		t.Run(scheme, func(t *testing.T) {
			p := newInstalled(t, scheme == "HS256", "")
			secrets := busyRun(t, p)
			secrets["shared secret"] = strings.TrimSpace(p.run("show-secret"))
			files := []string{"cairn.db", "cairn.db-wal", "cairn.db-shm"}
			if scheme == "RS256" {
				files = append(files, "key.pem")
				secrets["private key"] = strings.Split(fileTexts(t, filepath.Join(p.dir, "key.pem")), "\n")[2]
			}
			for _, name := range files {
				if info, err := os.Stat(filepath.Join(p.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v %v", name, info.Mode(), err)
				}
			}
			ps := fileTexts(t, fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
			within(t, "the last lines are in the log", func() bool {
				return strings.Contains(p.log.String(), `"password_reset"`) && strings.Contains(p.log.String(), `"logout"`)
			})
			database, log := fileTexts(t, filepath.Join(p.dir, "cairn.db"), filepath.Join(p.dir, "cairn.db-wal")), p.log.String()
			for name, secret := range secrets {
				// A nonce is kept readable: it is sent again.
				kept := name == "nonce"
				if ps == "" || holds(ps, secret) || holds(log, secret) || !kept && holds(database, secret) {
					t.Errorf("the %s is in ps: %t, in the log: %t, in the database: %t", name, holds(ps, secret), holds(log, secret), holds(database, secret))
				}
			}
			if !strings.Contains(log, `"login_failed"`) || !strings.Contains(log, `"password_reset"`) || !strings.Contains(database, "$argon2id$") {
				t.Error("this is not the log or the database of the run")
			}
			for line := range strings.Lines(log) {
				entry := jsonOf(t, line)
				for _, field := range []string{"request_id", "method", "path", "status", "ms", "address"} {
					if entry["msg"] == "request" && entry[field] == nil {
						t.Errorf("a log line has no %s: %s", field, line)
					}
				}
			}
		})
	}
}

// Attack 154 again: the umask and the modes that somebody has left.
func TestFilesAreClosedInSpiteOfTheUmask(t *testing.T) {
	p := newInstalled(t, true, "")
	shell := func(line string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-c", "umask 0; "+line)
		c.Dir, c.Env = p.dir, p.env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	shell("cairn init --config open.yaml --database open.db --handle keeper --generate-password --generate-key open.pem")
	shell("cairn keys generate other.pem")
	shell("chmod 666 cairn.db && cairn user reset-code keeper -q")
	for _, name := range []string{"open.db", "open.pem", "open.yaml", "other.pem", "cairn.db"} {
		if info, err := os.Stat(filepath.Join(p.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	// Attack 160: the secret and a line break, nothing else, and nothing on
	// standard error.
	var out, errs bytes.Buffer
	c := p.command("show-secret")
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil || len(out.String()) != 65 || strings.Count(out.String(), "\n") != 1 || errs.Len() != 0 {
		t.Errorf("show-secret: %v, %d bytes, %q", err, out.Len(), errs.String())
	}
}

// What cannot be safe does not start and is not registered, with one line that names the
// setting and never the secret (security.md 158 and 159); the tests of config and provider
// have the rules.
func TestUnsafeInstallationDoesNotStart(t *testing.T) {
	p := newInstalled(t, false, "")
	p.write("junk.pem", "junk\n")
	p.write("secret-file", "0123456789\n")
	p.env = append(p.env, "SERVICE_DATABASE="+filepath.Join(p.dir, "cairn.db"))
	refused := func(want, secret, env string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // should one of them start
		defer cancel()
		c := exec.CommandContext(ctx, programFile(), args...)
		c.Dir, c.Env = p.dir, append(slices.Clone(p.env), env)
		out, _ := c.CombinedOutput()
		text := strings.TrimSpace(string(out))
		if c.ProcessState.ExitCode() <= exitDone || strings.Contains(text, "\n") || !strings.Contains(text, want) || secret != "" && strings.Contains(text, secret) {
			t.Errorf("%s %v: %d: %s", env, args, c.ProcessState.ExitCode(), text)
		}
	}
	short := strings.Repeat("k", 31)
	for env, want := range map[string]string{
		"SERVICE_AUTH_JWT_SECRET=" + short: "SERVICE_AUTH_JWT_SECRET", "SERVICE_AUTH_JWT_SECRET_FILE=secret-file": "SERVICE_AUTH_JWT_SECRET_FILE", "SERVICE_OIDC_PRIVATE_KEY_FILE=junk.pem": "SERVICE_OIDC_PRIVATE_KEY_FILE",
		"SERVICE_OIDC_PRIVATE_KEY_FILE=missing.pem": "SERVICE_OIDC_PRIVATE_KEY_FILE", "SERVICE_OIDC_ISSUER=http://id.example.org": "SERVICE_OIDC_ISSUER", "SERVICE_OIDC_ISSUER=https://u:p@id.example.org": "SERVICE_OIDC_ISSUER",
	} {
		refused(want, short, env, "serve", "--listen", "127.0.0.1:0")
	}
	refused("--redirect-uri", "", "", "client", "add", "X", "--redirect-uri", "https://a.example/cb#f")
	refused("--id", "", "", "client", "add", "X", "--redirect-uri", "https://a.example/cb", "--id", "ACTIVITY")
	refused("name", "", "", "client", "add", "a\u202eb", "--redirect-uri", "https://a.example/cb")
	refused("--password", "hunter2-hunter2", "", "user", "add", "eve", "--password=hunter2-hunter2")
	left := p.run("client", "list", "-q")
	same(t, fmt.Sprintf("clients were added: %s", left), strings.TrimSpace(left), "")
}

// The operator's way from HS256 to RS256, with a service that runs.
func TestMigrationFromHS256(t *testing.T) {
	database := filepath.Join(t.TempDir(), "cairn.db")
	hs := startService(t, serviceOptions{HS256: true, Store: storetest.Open(t, database)}, "ada")
	old := hs.browser()
	old.signIn("ada")
	migrate := func(want int, args ...string) string {
		t.Helper()
		all := append([]string{"keys", "migrate", "--database", database, "--issuer", hs.URL, "--private-key-file", sharedKey()}, args...)
		out, errs := cairn(t, want, all...)
		return out + errs
	}
	has(t, "the service has no key", migrate(exitFailed, "--until", "now"), "without one it answers 404")
	hs.server.Close()
	if got := migrate(exitFailed, "--until", "now"); !strings.Contains(got, "cannot be read") || !strings.Contains(got, "nothing was changed") {
		t.Errorf("the service is down: %s", got)
	}

	rs := restartAt(t, hs, hs.URL)
	other := filepath.Join(t.TempDir(), "other.pem")
	_, err := config.GenerateKey(other, 2048)
	noError(t, err)
	has(t, "another key", migrate(exitFailed, "--until", "now", "--private-key-file", other), "does not have the key")
	has(t, "no key", migrate(exitFailed, "--until", "now", "--private-key-file", ""), "cairn keys generate")
	for _, when := range []string{"soon", "2020-01-01", "2020-01-01T00:00:00Z", "-1d", "d", "3651d", "99999d", "1w", "2101-01-01", "9999-12-31T23:59:59-14:00"} {
		has(t, when, migrate(exitUsage, "--until", when), "--until: ")
	}
	type hs256State struct {
		Kid      string     `json:"kid"`
		Sessions int        `json:"hs256_sessions"`
		Ended    int        `json:"ended"`
		Last     *time.Time `json:"last_expires_at"`
		Until    *time.Time `json:"hs256_until"`
	}
	state := func(args ...string) (s hs256State) {
		t.Helper()
		noError(t, json.Unmarshal([]byte(migrate(exitDone, append(args, "-o", "json")...)), &s))
		return s
	}
	if got := state(); got.Sessions != 1 || got.Last == nil || got.Until != nil || got.Kid == "" {
		t.Errorf("at first: %+v", got)
	}
	fresh := rs.browser()
	fresh.signIn("ada")
	if got := state("--until", "14d"); got.Sessions != 1 || got.Until == nil || time.Until(*got.Until) < 13*24*time.Hour {
		t.Errorf("with a date to come: %+v", got)
	}
	wantStatus(t, "before the date", old.api("GET", "/api/me", nil), http.StatusOK)
	last := state("--until", "3650d").Last
	has(t, "no cookie lives until then", migrate(exitDone), "application after "+last.Format(time.RFC3339))
	if got := state("--until", "never"); got.Until != nil || got.Ended != 0 {
		t.Errorf("never: %+v", got)
	}
	uri, etag := listOf(t, fresh)
	if got := migrate(exitDone, "--until", "now"); !strings.Contains(got, "refused from 2") || !strings.Contains(got, rs.URL+"/.well-known/jwks.json") {
		t.Errorf("at the end: %s", got)
	}
	wantStatus(t, "other applications do not hear of it", fresh.get(uri, "If-None-Match", etag), http.StatusOK)
	if got := state("--until", "now"); got.Sessions != 0 || got.Ended != 0 {
		t.Errorf("again: %+v", got)
	}
	// The running service reads its settings every other second.
	for tick := time.NewTicker(100 * time.Millisecond); old.api("GET", "/api/me", nil).StatusCode != http.StatusUnauthorized; <-tick.C {
		if t.Context().Err() != nil {
			t.Fatal("the HS256 cookie is still accepted")
		}
	}
	wantStatus(t, "the RS256 cookie", fresh.api("GET", "/api/me", nil), http.StatusOK)
	// Whoever holds the shared secret can sign the claims of a newer token with it.
	// A start reads the settings at once.
	rs.server.Close()
	rs = restartAt(t, rs, rs.URL)
	genuine := fresh.cookie("cairn_session")
	parts := strings.Split(genuine, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + parts[1]
	forged += "." + base64.RawURLEncoding.EncodeToString(hmacWith(sha256.New, rs.secret)([]byte(forged)))
	for cookies, want := range map[string]int{"cairn_session=" + forged: http.StatusUnauthorized, "cairn_session=" + forged + "; cairn_session=" + genuine: http.StatusOK} {
		wantStatus(t, "an RS256 session's token signed with HS256", rs.browser().api("GET", "/api/me", nil, "Cookie", cookies), want)
	}
	old.signIn("ada")
	if got := old.api("GET", "/api/me", nil); got.StatusCode != http.StatusOK || jwtHeader(t, old.cookie("cairn_session"))["alg"] != "RS256" {
		t.Errorf("signed in again: %d", got.StatusCode)
	}
}

// newcomer does what the README and the pages after it say, in an empty folder. Only the ports are
// other ones, and the program is built already.
type newcomer struct {
	t    *testing.T
	dir  string
	port string // of the service
	app  string // port of the example application
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	foreign(t)
	n := &newcomer{t: t, dir: t.TempDir(), port: freePort(t), app: freePort(t)}
	noError(t, os.Symlink(programFile(), filepath.Join(n.dir, "cairn")))
	return n
}

// page is a document of the project with the ports of the test.
func (n *newcomer) page(name string) string {
	n.t.Helper()
	return strings.NewReplacer("localhost:4040", "localhost:"+n.port, "localhost:8000", "localhost:"+n.app).Replace(projectText(n.t, name))
}

// install is what the README says from its installation on, but for the recipe of an application that nobody runs here.
func (n *newcomer) install() string {
	n.t.Helper()
	_, text, found := strings.Cut(n.page("README.md"), "\n## Install\n")
	text, _, ended := strings.Cut(text, "\n## The first application\n")
	if !found || !ended {
		n.t.Fatal("the README has no installation")
	}
	return text
}

func projectText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../../../" + name)
	noError(t, err)
	return string(b)
}

var fence = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

// blocks are the contents of a text's blocks in a language, in their order.
func blocks(text, language string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

// shell runs a line in the folder, with nothing in the environment, and returns
// its output.
func (n *newcomer) shell(line string) string {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = n.dir, []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// start runs a line that does not end.
func (n *newcomer) start(line, port string) {
	n.t.Helper()
	startProgram(n.t, port, []string{"sh", "-c", "cd '" + n.dir + "' && " + line})
}

// follow types the lines of a text one after the other and returns the outputs
// of those that end, by the command's name.
func (n *newcomer) follow(text string) map[string]string {
	n.t.Helper()
	outputs := map[string]string{}
	for line := range strings.Lines(strings.Join(blocks(text, "sh"), "")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "go build "):
		case strings.HasPrefix(line, "./cairn init "): // the port is the one thing that it would not choose itself
			outputs["init"] = n.shell(line + " --listen 127.0.0.1:" + n.port)
		case line == "./cairn serve":
			n.start("exec "+line, n.port)
		case strings.Contains(line, "python3 "):
			n.start(line, n.app)
		default:
			outputs[strings.Fields(line)[1]] = n.shell(line)
		}
	}
	return outputs
}

func TestReadmeAndFirstApplicationWorkAsTheyAreWritten(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		python = "python3"
	}
	needFiles(t, python)
	n := newNewcomer(t)
	text := n.install() + n.page("docs/first-application.md")
	code := blocks(text, "python")
	if len(code) != 1 {
		t.Fatalf("%d applications in Python", len(code))
	}
	noError(t, os.WriteFile(filepath.Join(n.dir, "hello.py"), []byte(code[0]), 0o600))
	outputs := n.follow(text)
	if info, err := os.Stat(filepath.Join(n.dir, "hello.env")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read the secret of the application: %v %v", info.Mode(), err)
	}

	generated := regexp.MustCompile(`password +([A-Z2-7]{20})`).FindStringSubmatch(outputs["init"])
	if generated == nil {
		t.Fatalf("init printed %s", outputs["init"])
	}
	b := n.browser()
	needStatus(t, "sign in", b.login("keeper", generated[1]), http.StatusOK)
	// The one that the browser of the tests enters.
	needStatus(t, "change the password", b.api("PUT", "/api/me/password", map[string]string{"current_password": generated[1], "new_password": password}), http.StatusOK)
	trail := n.browser().visit("http://localhost:"+n.app+"/", "keeper")
	if last := trail[len(trail)-1]; last.StatusCode != http.StatusOK || !strings.HasPrefix(last.Text, "Hello keeper, known here as ") {
		t.Errorf("%s: %d %s", last.Request.URL, last.StatusCode, last.Text)
	}
	has(t, "explain printed", outputs["explain"], "Then a code goes to http://localhost:"+n.app+"/callback")
	// An answer that this browser did not ask for signs nobody in.
	wantStatus(t, "a foreign answer", n.browser().get("http://localhost:"+n.app+"/callback?code=x&state=y"), http.StatusBadRequest)
}

func (n *newcomer) browser() *browser {
	return newBrowser(n.t, "http://localhost:"+n.port, &http.Transport{})
}

// Behind a proxy the public address is the issuer, and the proxy's
// word about addresses counts.
func TestPageOfTheProxyWorksAsItIsWritten(t *testing.T) {
	n := newNewcomer(t)
	n.follow(n.page("docs/proxy.md"))
	b := n.browser()
	if got := b.get("/.well-known/openid-configuration"); got.StatusCode != http.StatusOK || got.JSON(t)["issuer"] != "https://id.example.org" {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
	for i := range 60 { // the limit of one address
		b.api("POST", "/api/auth/login", map[string]string{"handle": fmt.Sprint("nobody", i), "password": "x"}, "X-Forwarded-For", "192.0.2.1")
	}
	for address, status := range map[string]int{"192.0.2.1": http.StatusTooManyRequests, "192.0.2.2": http.StatusUnauthorized} {
		wantStatus(t, address, b.api("POST", "/api/auth/login", map[string]string{"handle": "somebody", "password": "x"}, "X-Forwarded-For", address), status)
	}
}

// nginxServer is the server block of docs/proxy.md for nginx, with the ports and
// files of a test.
func nginxServer(t *testing.T, front, back string) string {
	t.Helper()
	found := blocks(projectText(t, "docs/proxy.md"), "nginx")
	if len(found) != 1 {
		t.Fatalf("%d configurations of nginx in docs/proxy.md", len(found))
	}
	text := found[0]
	for old, now := range map[string]string{
		"listen 443 ssl": "listen 127.0.0.1:" + front + " ssl", "server_name id.example.org": "server_name localhost", "127.0.0.1:4040": "127.0.0.1:" + back,
		"/etc/ssl/id.example.org.pem": "cert.pem", "/etc/ssl/id.example.org.key": "key.pem",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("the configuration of nginx in docs/proxy.md lacks %s", old)
		}
		text = strings.Replace(text, old, now, 1)
	}
	return text
}

// What a new user does, with nothing but what the commands print: init, serve, client
// add, sign in with a browser, and the application has its token.
func TestNewcomerSignsInWithinTenSeconds(t *testing.T) {
	alone := os.Getenv("CAIRN_NEWCOMER_ALONE") != ""
	if os.Getenv("CI") == "true" && !alone || os.Getenv("TEST_DATABASE") == "postgres" {
		t.Skip("a newcomer begins with SQLite, and in CI in a step of its own")
	}
	n := newNewcomer(t)
	find := func(pattern, text string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + pattern + `$`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in:\n%s", pattern, text)
		}
		return found[1]
	}
	tab := chromium(t)
	answers := make(chan string, 1)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); r.URL.Path == "/callback" && code != "" {
			answers <- code
		}
		_, _ = io.WriteString(w, `<p id="done">signed in</p>`)
	}))
	t.Cleanup(app.Close)

	begin := time.Now()
	made := n.shell("./cairn init --handle keeper --generate-password --generate-key key.pem --listen 127.0.0.1:" + n.port)
	n.start("exec "+find(`next +(\S.*)`, made), n.port)
	client := n.shell("./cairn client add 'Photo album' --redirect-uri " + app.URL + "/callback -o env")
	issuer := find(`OIDC_ISSUER=(\S+)`, client)
	if want := find(`then +sign in at (\S+)`, made); issuer != want || !strings.Contains(n.shell("./cairn invite add"), issuer+"/register/?code=") {
		t.Errorf("client add has the issuer %s, init %s", issuer, want)
	}
	provider, err := oidc.NewProvider(t.Context(), issuer)
	noError(t, err)
	rp := oauth2.Config{
		ClientID: find(`OIDC_CLIENT_ID=(\S+)`, client), ClientSecret: find(`OIDC_CLIENT_SECRET=(\S+)`, client), Endpoint: provider.Endpoint(),
		RedirectURL: find(`OIDC_REDIRECT_URI=(\S+)`, client), Scopes: strings.Fields(find(`OIDC_SCOPES="(.+)"`, client)),
	}
	verifier := oauth2.GenerateVerifier()
	mustDo(t, tab, "to the sign-in page", chromedp.Navigate(rp.AuthCodeURL("state-0123456789", oauth2.S256ChallengeOption(verifier))), chromedp.WaitVisible(page("login")))
	signInAs(t, tab, find(`administrator +(\S+)`, made), find(`password +(\S+) +\(shown only now\)`, made), "consent")
	mustDo(t, tab, "allow", chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("done")))
	token, err := rp.Exchange(t.Context(), <-answers, oauth2.VerifierOption(verifier))
	noError(t, err)
	info, err := provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
	var claims struct {
		Handle string `json:"preferred_username"`
	}
	if err != nil || info.Claims(&claims) != nil || claims.Handle != "keeper" {
		t.Errorf("userinfo: %v %+v", err, claims)
	}
	took := time.Since(begin)
	t.Logf("from init to the token: %s", took.Round(time.Millisecond))
	// Only .ci/run has everything else give way to this test.
	if alone && took > 10*time.Second {
		t.Errorf("it took %s, more than ten seconds", took)
	}
}
