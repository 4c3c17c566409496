package httpd

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// emptyFolder is where somebody runs the built program without a single
// environment variable.
type emptyFolder struct {
	t   *testing.T
	dir string
}

// shell pastes a line into a shell.
func (n emptyFolder) shell(line string) *exec.Cmd {
	c := exec.CommandContext(n.t.Context(), "/bin/sh", "-c", "exec "+line)
	c.Dir, c.Env = n.dir, []string{}
	return c
}

func (n emptyFolder) run(line string) string {
	n.t.Helper()
	var out, errs bytes.Buffer
	c := n.shell(line)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil || errs.Len() != 0 {
		n.t.Fatalf("%s: %v: %s", line, err, errs.String())
	}
	return out.String()
}

// serve runs a line until the test ends and waits until the service listens.
func (n emptyFolder) serve(line string) {
	n.t.Helper()
	c := n.shell(line)
	log, err := c.StderrPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"level":"WARN"`) {
			n.t.Errorf("%s warns: %s", line, lines.Text())
		}
		if strings.Contains(lines.Text(), `"msg":"started"`) {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return
		}
	}
	n.t.Fatalf("%s does not start", line)
}

// find takes from what a command printed.
func (n emptyFolder) find(pattern, text string) string {
	n.t.Helper()
	found := regexp.MustCompile(`(?m)^` + pattern + `$`).FindStringSubmatch(text)
	if found == nil {
		n.t.Fatalf("no %s in:\n%s", pattern, text)
	}
	return found[1]
}

// What a new user does, with nothing but what the commands print: build, init, serve,
// client add, sign in with a browser, and the application has its token.
func TestNewcomerSignsInWithinTenSeconds(t *testing.T) {
	if testing.Short() || os.Getenv("TEST_DATABASE") == "postgres" {
		t.Skip("a newcomer begins with SQLite")
	}
	n := emptyFolder{t, t.TempDir()}
	if err := os.Symlink(programFile(), filepath.Join(n.dir, "cairn")); err != nil {
		t.Fatal(err)
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
	made := n.run("./cairn init --handle keeper --generate-password --generate-key key.pem --listen " + "127.0.0.1:" + freePort(t))
	n.serve(n.find(`next +(\S.*)`, made))
	client := n.run("./cairn client add 'Photo album' --redirect-uri " + app.URL + "/callback -o env")
	issuer := n.find(`OIDC_ISSUER=(\S+)`, client)
	if want := n.find(`then +sign in at (\S+)`, made); issuer != want || !strings.Contains(n.run("./cairn invite add"), issuer+"/register/?code=") {
		t.Errorf("client add has the issuer %s, init %s", issuer, want)
	}
	provider, err := oidc.NewProvider(t.Context(), issuer)
	if err != nil {
		t.Fatal(err)
	}
	rp := oauth2.Config{
		ClientID: n.find(`OIDC_CLIENT_ID=(\S+)`, client), ClientSecret: n.find(`OIDC_CLIENT_SECRET=(\S+)`, client), Endpoint: provider.Endpoint(),
		RedirectURL: n.find(`OIDC_REDIRECT_URI=(\S+)`, client), Scopes: strings.Fields(n.find(`OIDC_SCOPES="(.+)"`, client)),
	}
	verifier := oauth2.GenerateVerifier()
	mustDo(t, tab, "sign in and allow", chromedp.Navigate(rp.AuthCodeURL("state-0123456789", oauth2.S256ChallengeOption(verifier))), chromedp.WaitVisible(page("login")),
		chromedp.SendKeys(field("handle"), n.find(`administrator +(\S+)`, made)), chromedp.SendKeys(field("password"), n.find(`password +(\S+) +\(shown only now\)`, made)),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("consent")), chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("done")))
	token, err := rp.Exchange(t.Context(), <-answers, oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	info, err := provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
	var claims struct {
		Handle string `json:"preferred_username"`
	}
	if err != nil || info.Claims(&claims) != nil || claims.Handle != "keeper" {
		t.Errorf("userinfo: %v %+v", err, claims)
	}
	took := time.Since(begin)
	t.Logf("from init to the token: %s", took.Round(time.Millisecond))
	// Only .ci/run gives this test the machine for itself.
	if os.Getenv("CAIRN_NEWCOMER_ALONE") != "" && took > 10*time.Second {
		t.Errorf("it took %s, more than ten seconds", took)
	}
}
