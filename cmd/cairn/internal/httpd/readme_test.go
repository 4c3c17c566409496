//go:build unix

package httpd

import (
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// newcomer does what the README says, in an empty folder. Only the ports are
// other ones, and the program is built already.
type newcomer struct {
	t    *testing.T
	dir  string
	port string // of the service
	app  string // port of the example application
}

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	n := &newcomer{t: t, dir: t.TempDir(), port: freePort(t), app: freePort(t)}
	if err := os.Symlink(programFile(), filepath.Join(n.dir, "cairn")); err != nil {
		t.Fatal(err)
	}
	return n
}

// readme is the README between two headings.
func (n *newcomer) readme(from, to string) string {
	n.t.Helper()
	_, text, found := strings.Cut(readme(n.t), "\n## "+from+"\n")
	text, _, ended := strings.Cut(text, "\n## "+to+"\n")
	if !found || !ended {
		n.t.Fatalf("the README has no part from %s to %s", from, to)
	}
	return strings.NewReplacer("localhost:4040", "localhost:"+n.port, "localhost:8000", "localhost:"+n.app).Replace(text)
}

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
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

func TestReadmeWorksAsItIsWritten(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		python = "python3"
	}
	needFiles(t, python)
	n := newNewcomer(t)
	text := n.readme("Install", "Behind nginx")
	code := blocks(text, "python")
	if len(code) != 1 {
		t.Fatalf("%d applications in Python", len(code))
	}
	if err := os.WriteFile(filepath.Join(n.dir, "hello.py"), []byte(code[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	outputs := n.follow(text)

	generated := regexp.MustCompile(`password +([A-Z2-7]{20})`).FindStringSubmatch(outputs["init"])
	if generated == nil {
		t.Fatalf("init printed %s", outputs["init"])
	}
	b := n.browser()
	if got := b.login("keeper", generated[1]); got.StatusCode != http.StatusOK {
		t.Fatalf("sign in: %d %s", got.StatusCode, got.Text)
	}
	// The one that the browser of the tests enters.
	if got := b.api("PUT", "/api/me/password", map[string]string{"current_password": generated[1], "new_password": password}); got.StatusCode != http.StatusOK {
		t.Fatalf("change the password: %d %s", got.StatusCode, got.Text)
	}
	trail := n.browser().visit("http://localhost:"+n.app+"/", "keeper")
	if last := trail[len(trail)-1]; last.StatusCode != http.StatusOK || !strings.HasPrefix(last.Text, "Hello keeper, known here as ") {
		t.Errorf("%s: %d %s", last.Request.URL, last.StatusCode, last.Text)
	}
	if got := outputs["explain"]; !strings.Contains(got, "Then a code goes to http://localhost:"+n.app+"/callback") {
		t.Errorf("explain printed %s", got)
	}
	// An answer that this browser did not ask for signs nobody in.
	if got := n.browser().get("http://localhost:" + n.app + "/callback?code=x&state=y"); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a foreign answer: %d %s", got.StatusCode, got.Text)
	}
}

func (n *newcomer) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		n.t.Fatal(err)
	}
	return &browser{t: n.t, base: "http://localhost:" + n.port, client: &http.Client{
		Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Behind a proxy the public address is the issuer, and the proxy's
// word about addresses counts.
func TestReadmeWorksBehindAProxy(t *testing.T) {
	n := newNewcomer(t)
	n.follow(n.readme("Behind nginx", "Read on"))
	b := n.browser()
	if got := b.get("/.well-known/openid-configuration"); got.StatusCode != http.StatusOK || got.JSON(t)["issuer"] != "https://id.example.org" {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
	for range 10 { // the limit of one address
		b.api("POST", "/api/auth/login", map[string]string{"handle": "nobody", "password": "x"}, "X-Forwarded-For", "192.0.2.1")
	}
	for address, status := range map[string]int{"192.0.2.1": http.StatusTooManyRequests, "192.0.2.2": http.StatusUnauthorized} {
		if got := b.api("POST", "/api/auth/login", map[string]string{"handle": "somebody", "password": "x"}, "X-Forwarded-For", address); got.StatusCode != status {
			t.Errorf("%s: %d %s", address, got.StatusCode, got.Text)
		}
	}
}

// readmeServer is the server block of the README for nginx, with the ports and
// files of a test.
func readmeServer(t *testing.T, front, back string) string {
	t.Helper()
	found := blocks(readme(t), "nginx")
	if len(found) != 1 {
		t.Fatalf("%d configurations of nginx in the README", len(found))
	}
	text := found[0]
	for old, now := range map[string]string{
		"listen 443 ssl": "listen 127.0.0.1:" + front + " ssl", "server_name id.example.org": "server_name localhost", "127.0.0.1:4040": "127.0.0.1:" + back,
		"/etc/ssl/id.example.org.pem": "cert.pem", "/etc/ssl/id.example.org.key": "key.pem",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("the README's configuration of nginx lacks %s", old)
		}
		text = strings.Replace(text, old, now, 1)
	}
	return text
}
