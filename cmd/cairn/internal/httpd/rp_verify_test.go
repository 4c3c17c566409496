//go:build unix

package httpd

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// docs/verify has what applications in Python and in Node.js copy to verify the
// session cookie. Both files run here as they are, behind a small program that
// reads questions; the program in Go runs as it is.

// A visitor is known while the session lasts, and not a second longer.
func TestRPVerifyGoProgramKnowsWhoIsSignedIn(t *testing.T) {
	program := filepath.Join(t.TempDir(), "verify")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../../../docs/verify").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	port := freePort(t)
	startProgram(t, port, []string{program, "-issuer", s.URL, "-listen", "127.0.0.1:" + port})
	b := s.signedIn("ada")
	cookie := "cairn_session=" + b.cookie("cairn_session")
	visit := func(header ...string) response { return s.browser().get("http://127.0.0.1:"+port+"/", header...) }
	if got := visit(); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a cookie: %d %s", got.StatusCode, got.Text)
	}
	if got := visit("Cookie", cookie); got.StatusCode != http.StatusOK || got.Text != "Hello "+u.DisplayName+" ("+u.Sub+")\n" {
		t.Fatalf("%d %s", got.StatusCode, got.Text)
	}
	b.api("POST", "/api/auth/logout", nil)
	for end := time.Now().Add(20 * time.Second); visit("Cookie", cookie).StatusCode != http.StatusUnauthorized; {
		if time.Now().After(end) {
			t.Fatal("signed out, and known for 20 seconds more")
		}
	}
}

// verifierSettings are what an application gives to its Verifier.
type verifierSettings struct {
	Issuer   string  `json:"issuer"`
	Secret   *string `json:"secret"`
	RS256    bool    `json:"rs256"`
	FailOpen bool    `json:"fail_open"`
}

// verdict is what became of one cookie; one of the fields is set.
type verdict struct {
	Claims      map[string]any `json:"claims"`
	Refused     *string        `json:"refused"`
	Unavailable *string        `json:"unavailable"`
	Setting     *string        `json:"setting"` // the verifier was not even made
}

func (v verdict) String() string {
	switch {
	case v.Refused != nil:
		return "refused"
	case v.Unavailable != nil:
		return "unavailable"
	case v.Setting != nil:
		return "no verifier: " + *v.Setting
	case v.Claims != nil:
		return "accepted"
	}
	return "nothing"
}

// verifierProgram is a program that runs as long as its test, with as many
// verifiers as there are names.
type verifierProgram struct {
	in      *json.Encoder
	answers chan []verdict // closed when the program ends
}

// verifier is one Verifier in the program.
type verifier struct {
	t        *testing.T
	program  *verifierProgram
	name     string
	settings verifierSettings
}

// eachVerifierProgram runs a test once a language.
func eachVerifierProgram(t *testing.T, test func(t *testing.T, p *verifierProgram)) {
	t.Run("Python", func(t *testing.T) {
		packages := "/usr/lib/python3/dist-packages/"
		needFiles(t, "/usr/bin/python3", packages+"jwt", packages+"cryptography")
		// -E -s: nothing of the developer's own; not -I, which finds no file beside the script.
		script := filepath.Join(t.TempDir(), "ask_verifier.py")
		copyFile(t, "testdata/rp/ask_verifier.py", script, nil)
		copyFile(t, "../../../../docs/verify/verify_cookie.py", filepath.Join(filepath.Dir(script), "verify_cookie.py"), nil)
		test(t, startVerifierProgram(t, "/usr/bin/python3", "-E", "-s", "-B", script))
	})
	t.Run("Node", func(t *testing.T) {
		command := nodeScript(t, "ask_verifier.mjs", "jose")
		copyFile(t, "../../../../docs/verify/verify_cookie.mjs", filepath.Join(filepath.Dir(command[1]), "verify_cookie.mjs"), nil)
		test(t, startVerifierProgram(t, command...))
	})
}

func startVerifierProgram(t *testing.T, command ...string) *verifierProgram {
	t.Helper()
	errors := &logBuffer{}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stderr = errors
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command[0], err)
	}
	p := &verifierProgram{in: json.NewEncoder(in), answers: make(chan []verdict, 1)}
	go p.read(out)
	t.Cleanup(func() {
		_ = in.Close() // asks it to end
		deadline := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer deadline.Stop()
		for range p.answers { // Wait closes the pipe, so everything is read before
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v", command[0], err)
		}
		if t.Failed() {
			t.Logf("errors of %s:\n%s", strings.Join(command, " "), errors)
		}
	})
	return p
}

// read hands out the answers, and what is no answer as an empty one.
func (p *verifierProgram) read(out io.Reader) {
	defer close(p.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer []verdict
		if json.Unmarshal(lines.Bytes(), &answer) != nil {
			answer = nil
		}
		p.answers <- answer
	}
}

// verifier gives the Verifier of that name; the program makes it with the
// settings when it is first asked.
func (p *verifierProgram) verifier(t *testing.T, name string, settings verifierSettings) *verifier {
	return &verifier{t: t, program: p, name: name, settings: settings}
}

// at puts cookies before the verifier, all at once, at a time that stands still
// until it has decided.
func (v *verifier) at(now time.Time, cookies ...string) []verdict {
	v.t.Helper()
	question := map[string]any{"name": v.name, "settings": v.settings, "now": float64(now.UnixMilli()) / 1000, "cookies": cookies}
	if err := v.program.in.Encode(question); err != nil {
		v.t.Fatalf("ask %s: %v", v.name, err)
	}
	select {
	case answer := <-v.program.answers:
		if len(answer) == 1 && answer[0].Setting != nil || len(answer) == len(cookies) {
			return answer
		}
		v.t.Fatalf("%s answered %v for %d cookies", v.name, answer, len(cookies))
	case <-time.After(time.Minute):
		v.t.Fatalf("%s does not answer", v.name)
	}
	return nil
}

// want checks what becomes of one cookie: accepted, refused or unavailable.
func (v *verifier) want(what, outcome string, now time.Time, cookie string) verdict {
	v.t.Helper()
	got := v.at(now, cookie)[0]
	if got.String() != outcome {
		v.t.Errorf("%s, %s: %s, want %s (%s)", v.name, what, got, outcome, got.reason())
	}
	return got
}

func (v verdict) reason() string {
	for _, text := range []*string{v.Refused, v.Unavailable, v.Setting} {
		if text != nil {
			return *text
		}
	}
	return "no reason"
}
