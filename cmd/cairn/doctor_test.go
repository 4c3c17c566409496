package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/doctor"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// A healthy new installation has advice and no fault. What is printed as JSON has the names that programs read.
func TestDoctorFailsForFaultsAlone(t *testing.T) {
	racetest.Skip(t)
	database := initializedDatabase(t)
	key := filepath.Join(filepath.Dir(database), "key.pem")
	_, err := config.GenerateKey(key, config.MinKeyBits)
	fatalIf(t, err)
	args := []string{"--database", database, "--private-key-file", key}
	p := startProcess(t, args...)
	args = append(args, "--listen", p.address, "--issuer", "http://localhost:"+portOf(t, p.address))
	p.stop()
	<-p.code
	p = startProcess(t, args...)
	examine := func(more ...string) (int, string) {
		var out, errs bytes.Buffer
		code := Run(t.Context(), slices.Concat([]string{"doctor"}, args, more), nil, strings.NewReader(""), &out, &errs)
		if errs.Len() > 0 {
			t.Error(errs.String())
		}
		return code, out.String()
	}
	if code, out := examine("-q"); code != cli.ExitDone || out != "" {
		t.Errorf("%d %s", code, out)
	}
	if code, out := examine(); code != cli.ExitDone || !regexp.MustCompile(`(?m)^advice +backup +There is no backup yet.\n +-> Make one .*FILE$`).MatchString(out) ||
		!strings.Contains(out, "0 problems, 0 warnings, 3 with advice, ") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := examine("--issuer", "http://localhost:"+portOf(t, p.address)+"/id"); code != cli.ExitFailed || strings.Contains(out, "Start cairn serve") ||
		!regexp.MustCompile(`(?m)^problem +service .*another path: correct --issuer`).MatchString(out) {
		t.Errorf("%d %s", code, out)
	}
	fatalIf(t, os.Chmod(key, 0o644))
	if code, out := examine("-q"); code != cli.ExitFailed || out != "signing-key\n" {
		t.Errorf("%d %s", code, out)
	}
	fatalIf(t, os.Chmod(key, 0o600))
	code, out := examine("-o", "json")
	var d struct {
		Level    string
		Findings []map[string]any
	}
	fatalIf(t, json.Unmarshal([]byte(out), &d))
	want := map[string]any{"name": "backup", "level": "advice", "found": "There is no backup yet.", "do": "Make one " +
		"every night on the server. Run: cairn backup FILE"}
	at := slices.IndexFunc(d.Findings, func(f map[string]any) bool { return f["name"] == "backup" })
	if diff := cmp.Diff(want, d.Findings[max(at, 0)]); diff != "" || code != cli.ExitDone || d.Level != "advice" {
		t.Errorf("%d %s %s", code, d.Level, diff)
	}
	names := slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`"\w+":`).FindAllString(out, -1))))
	equal(t, "names", names, []string{`"do":`, `"findings":`, `"found":`, `"level":`, `"name":`})
	// What could not be looked at is never ok.
	p.stop()
	<-p.code
	code, out = examine("--offline")
	if code != cli.ExitDone || !regexp.MustCompile(`(?m)^skipped +issuer`).MatchString(out) ||
		regexp.MustCompile(`(?m)^ok +(issuer|service|clock|key-set)`).MatchString(out) {
		t.Errorf("%d %s", code, out)
	}
	if code, out = examine("-q"); code != cli.ExitFailed || !strings.HasPrefix(out, "service\npublic-address\n") {
		t.Errorf("%d %s", code, out)
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	fatalIf(t, err)
	return port
}

// A container has no shell, no certificates of authorities and no name for the service.
func TestHealthcheckAsksTheServiceWhereItListens(t *testing.T) {
	check := func(args ...string) (code int, text string) {
		var out bytes.Buffer
		code = Run(t.Context(), append([]string{"healthcheck"}, args...), nil, strings.NewReader(""), &out, &out)
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("not one line: %q", out.String())
		}
		return code, out.String()
	}
	database := initializedDatabase(t)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	writePair(t, cert, key, 1)
	for _, c := range []struct {
		prefix string
		args   []string
	}{
		{"http://127.0.0.1:", []string{"--issuer", "http://localhost:4040/id"}},
		{"https://127.0.0.1:", []string{"--issuer", "https://id.example.org", "--tls-cert-file", cert, "--tls-key-file", key}},
	} {
		p := startProcess(t, append(c.args, "--database", database)...)
		for _, listen := range []string{p.address, ":" + portOf(t, p.address), "0.0.0.0:" + portOf(t, p.address)} {
			if code, text := check(append(c.args, "--listen", listen)...); code != cli.ExitDone ||
				!strings.HasPrefix(text, c.prefix) || !strings.HasSuffix(text, "/readyz is ready\n") {
				t.Errorf("--listen %s: %d %s", listen, code, text)
			}
		}
		if c.prefix[:5] == "https" { // only loopback is trusted without a certificate
			if code, text := check(append(c.args, "--listen", "localhost.localdomain.invalid:"+portOf(t, p.address))...); code != cli.ExitFailed {
				t.Errorf("%d %s", code, text)
			}
		} else if code, text := check("--listen", p.address, "--issuer", "http://localhost:4040/other"); code != cli.ExitFailed || !strings.Contains(text, "404") {
			t.Errorf("%d %s", code, text)
		}
		p.stop()
		<-p.code
		if code, text := check(append(c.args, "--listen", p.address)...); code != cli.ExitFailed || !strings.Contains(text, "does not answer") {
			t.Errorf("%d %s", code, text)
		}
	}
	if code, text := check("--listen", "127.0.0.1:0"); code != cli.ExitFailed || !strings.Contains(text, "no fixed port") {
		t.Errorf("%d %s", code, text)
	}
	if code := Run(t.Context(), []string{"healthcheck", "--nonsense"}, nil, strings.NewReader(""), io.Discard, io.Discard); code != cli.ExitUsage {
		t.Errorf("exit code %d", code)
	}
}

func TestEveryFindingOfTheDoctorIsDocumented(t *testing.T) {
	text := documents(t)["docs/doctor.md"]
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|").FindAllStringSubmatch(text, -1) {
		documented = append(documented, m[1])
	}
	equal(t, "Names", documented, doctor.Names())
}

// Only the level at the start of a line is colored, after the columns were aligned.
func TestLevelsAreColored(t *testing.T) {
	const plain = "ok       clock  All problem free.\nproblem  hsts   None.\n                -> Do it.\n"
	const want = "\x1b[32mok\x1b[0m       clock  All problem free.\n\x1b[1;31mproblem\x1b[0m  hsts   None.\n                -> Do it.\n"
	same(t, "string(levels.Paint([]byte(plain)))", string(levels.Paint([]byte(plain))), want)
	lacks(t, "printed", printed(t, "doctor", "--offline", "--help"), "\x1b")
}

// A program that reads the findings finds JSON, whatever is wrong and before what.
func TestDoctorForProgramsIsJSONInEveryCase(t *testing.T) {
	t.Chdir(t.TempDir())
	fatalIf(t, os.WriteFile("broken.yaml", []byte("listen: [\n"), 0o600))
	fatalIf(t, os.WriteFile("unknown.yaml", []byte("listne: x\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no installation":            {[]string{"doctor", "--offline", "-o", "json"}, "There is no file"},
		"quiet":                      {[]string{"doctor", "--offline", "-q", "-ojson"}, "There is no file"},
		"a file that cannot be read": {[]string{"doctor", "--config", "broken.yaml", "-o", "json"}, "broken.yaml"},
		"a file that is missing":     {[]string{"--config", "none.yaml", "doctor", "--output", "json"}, "none.yaml"},
		"an unknown key":             {[]string{"doctor", "--config", "unknown.yaml", "--output=json"}, "listne"},
		"a setting that is refused":  {[]string{"doctor", "--issuer", "ftp://x", "-ojson"}, "ftp://x"},
		"an unknown flag":            {[]string{"doctor", "-o", "json", "--no-such-flag"}, "no-such-flag"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), c.args, nil, strings.NewReader(""), &out, &errs)
		var d diagnosis
		if err := json.Unmarshal(out.Bytes(), &d); err != nil || code == cli.ExitDone || d.Level != "problem" || len(d.Findings) == 0 ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %d, %v: %s %s", name, code, err, out.String(), errs.String())
		}
	}
}
