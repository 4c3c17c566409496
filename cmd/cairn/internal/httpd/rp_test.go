//go:build unix

package httpd

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// The relying parties of testdata/rp are programs of others, run as their
// documentation says. What they refuse, real applications refuse.

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

// needFiles skips the test where the relying parties are not installed. In CI
// nothing may be missing.
func needFiles(t *testing.T, files ...string) {
	t.Helper()
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
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return []string{node, filepath.Join(dir, script)}
}

// copyFile fills in the words between @ that a configuration file has.
func copyFile(t *testing.T, from, to string, words map[string]string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for word, value := range words {
		text = strings.ReplaceAll(text, "@"+word+"@", value)
	}
	if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freePort is a port of 127.0.0.1 for a program that cannot choose one itself:
// its redirect URI is registered before it starts.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startProgram runs a program until the test ends, in a process group of its
// own, and returns its output when it listens on the port. It is shown when the
// test fails.
func startProgram(t *testing.T, port string, command []string, env ...string) *logBuffer {
	t.Helper()
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
	deadline := time.After(30 * time.Second)
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

// environment is what the scripts of testdata/rp read.
func (a registeredApp) environment(issuer string) []string {
	return []string{"ISSUER=" + issuer, "CLIENT_ID=" + a.ID, "CLIENT_SECRET=" + a.Secret, "BASE=" + a.URL}
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
			switch name := pageName(b.t, got.Text); name {
			case "login":
				f.values.Set("handle", handle)
				f.values.Set("password", password)
			case "consent":
				f.values.Set("decision", "allow")
			default:
				b.t.Fatalf("unexpected page %q: %.600s", name, got.Text)
			}
			action, err := here.Parse(f.action)
			if err != nil {
				b.t.Fatal(err)
			}
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

// applicationSaw is what the scripts answer after sign-in, userinfo, refresh
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

// addUserWithEmail makes a user of whom there is more to show than a name.
func (s *service) addUserWithEmail(handle string) account.User {
	s.t.Helper()
	u, err := account.NewAdministration(s.store, nil).Amend(s.t.Context(), account.Operator(), s.addUser(handle), account.UserChange{"email": handle + "@example.org"})
	if err != nil {
		s.t.Fatal(err)
	}
	return u
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
