package httpd

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// ledger is every secret of a run, by what it is.
type ledger map[string]string

// busyRun uses the real program as people do and returns the secrets that went
// through it.
func busyRun(t *testing.T, p *installed) ledger {
	t.Helper()
	var client map[string]any
	if p.hasKey() {
		client = jsonOf(t, p.run("client", "add", "App", "--id", "app", "--redirect-uri", callbackOf("app"), "-o", "json"))
	}
	p.serve()
	keeper := p.signedIn("keeper")
	invite := keeper.invite()
	ada := p.visitor()
	if got := ada.register(invite, "ada"); got.StatusCode != http.StatusCreated {
		t.Fatalf("register: %d %s", got.StatusCode, got.Text)
	}
	second := keeper.invite()
	reset, spent := keeper.resetCode("ada"), ""
	spent, reset = reset, keeper.resetCode("ada")
	l := ledger{
		"password": password, "wrong password": "a wrong-password 1", "new password": "quite another-password 2", "password as handle": "my-password-typed-as-handle", "password in an address": "password-in-an-address",
		"reset code": reset, "voided reset code": spent, "cookie": ada.cookie("cairn_session"), "administrator's cookie": keeper.cookie("cairn_session"), "bearer": "bearer-of-a-stranger-0123456789", "broken": "password-in-broken-json",
	}
	l["jti"], _ = jwtPayload(t, l["cookie"])["jti"].(string)
	p.visitor().login("ada", l["wrong password"])
	p.visitor().login(l["password as handle"], "x")
	p.visitor().postForm("/login/", url.Values{"handle": {l["password as handle"]}, "password": {l["wrong password"]}})
	p.visitor().get("/login/?password=" + l["password in an address"])
	p.visitor().get("/reset-password/?handle=ada&code=" + reset)
	p.visitor().get("/register/?code=" + second)
	p.visitor().do("GET", "/api/me", "", "", "Authorization", "Bearer "+l["bearer"], "Cookie", "cairn_session="+l["bearer"])
	p.visitor().api("POST", "/api/auth/login", `{"handle":"ada","password":"`+l["broken"]+`"`)
	p.visitor().api("POST", "/api/auth/login", `{"handle":"ada","`+l["broken"]+`":1}`)
	if client != nil {
		l["client secret"], _ = client["client_secret"].(string)
		rp := p.relyingParty("app", l["client secret"])
		code := ada.authorize(rp.authURL(), "ada").Get("code")
		token, err := rp.exchange(code)
		if err != nil {
			t.Fatalf("exchange: %v", err)
		}
		l["code"], l["access token"], l["refresh token"], l["verifier"] = code, token.AccessToken, token.RefreshToken, rp.verifier
		l["ID token"], _ = token.Extra("id_token").(string)
		p.visitor().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken)
		p.visitor().get("/oauth2/userinfo?access_token=" + token.AccessToken)
	}
	if got := p.visitor().reset("ada", reset, l["new password"]); got.StatusCode != http.StatusOK {
		t.Fatalf("reset: %d %s", got.StatusCode, got.Text)
	}
	if got := p.visitor().login("ada", l["new password"]); got.StatusCode != http.StatusOK {
		t.Fatalf("sign in after the reset: %d", got.StatusCode)
	}
	l["open reset code"] = keeper.resetCode("ada")
	keeper.api("DELETE", "/api/invites/"+second, nil)
	keeper.api("POST", "/api/auth/logout", nil)
	l["deleted invite"] = second
	for name, value := range l {
		if len(value) < 10 {
			t.Fatalf("the run had no %s: %q", name, value)
		}
	}
	return l
}

func (p *installed) hasKey() bool { return strings.Contains(strings.Join(p.env, " "), "PRIVATE_KEY") }

// holds tells whether a text has a secret in any of its spellings.
func holds(text, secret string) bool {
	for _, spelling := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(secret, "-", "")} {
		if strings.Contains(text, spelling) {
			return true
		}
	}
	return false
}

// Attacks 154 to 157 and 160, on a machine that others use too: a careless
// umask, ps, the log, the database's files.
func TestOtherUsersOfTheMachineNeverSeeASecret(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc and permission bits")
	}
	for _, scheme := range []string{"HS256", "RS256"} {
		t.Run(scheme, func(t *testing.T) {
			p := newInstalled(t, scheme == "HS256", "")
			secrets := busyRun(t, p)
			secrets["shared secret"] = strings.TrimSpace(p.run("show-secret"))
			key, _ := os.ReadFile(filepath.Join(p.dir, "key.pem"))
			if lines := strings.Split(string(key), "\n"); len(lines) > 3 {
				secrets["private key"] = lines[2]
			}
			// 154: all files, while the service runs.
			for _, name := range []string{"cairn.db", "cairn.db-wal", "cairn.db-shm", "key.pem"} {
				info, err := os.Stat(filepath.Join(p.dir, name))
				if name == "key.pem" && scheme == "HS256" {
					continue
				}
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v %v", name, info.Mode(), err)
				}
			}
			// 155: the command line.
			ps, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
			if err != nil || len(ps) == 0 {
				t.Fatal(err)
			}
			// 156: the log of the whole run; 157: what a copy of the database holds.
			var database bytes.Buffer
			for _, name := range []string{"cairn.db", "cairn.db-wal"} {
				b, err := os.ReadFile(filepath.Join(p.dir, name))
				if err != nil {
					t.Fatal(err)
				}
				database.Write(b)
			}
			log := p.log.String()
			for name, secret := range secrets {
				if holds(string(ps), secret) {
					t.Errorf("ps shows the %s", name)
				}
				if holds(log, secret) {
					t.Errorf("the log holds the %s", name)
				}
				// The shared secret and invites are kept readable: they are shown again.
				if name != "shared secret" && name != "deleted invite" && holds(database.String(), secret) {
					t.Errorf("the database holds the %s", name)
				}
			}
			if !strings.Contains(log, `"login_failed"`) || !strings.Contains(log, `"password_reset"`) || !bytes.Contains(database.Bytes(), []byte("$argon2id$")) {
				t.Error("this is not the log or the database of the run")
			}
		})
	}
}

// Attack 154 again: the umask and the modes that somebody has left.
func TestCarelessUmaskNeverOpensAFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	p := newInstalled(t, true, "")
	shell := func(line string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "sh", "-c", "umask 0; "+line)
		c.Dir, c.Env = p.dir, p.env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	shell("cairn init --database open.db --handle keeper --generate-password --generate-key open.pem")
	shell("cairn keys generate other.pem")
	shell("chmod 666 cairn.db && cairn user reset-code keeper -q")
	for _, name := range []string{"open.db", "open.pem", "other.pem", "cairn.db"} {
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

// Attacks 158 and 159: what cannot be safe does not start, with one line that
// names the setting and never the secret.
func TestUnsafeInstallationNeverStarts(t *testing.T) {
	p := newInstalled(t, false, "")
	p.write("junk.pem", "junk\n")
	p.write("empty.pem", "")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p.write("short.pem", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(short)})))
	p.write("secret-file", "0123456789\n")
	p.env = append(p.env, "SERVICE_DATABASE="+filepath.Join(p.dir, "cairn.db"))
	refused := func(name, want, secret string, env []string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // should one of them start
		defer cancel()
		c := exec.CommandContext(ctx, programFile(), args...)
		c.Dir, c.Env = p.dir, slices.Concat(p.env, env)
		out, _ := c.CombinedOutput()
		code, text := c.ProcessState.ExitCode(), strings.TrimSpace(string(out))
		if code <= exitDone || strings.Contains(text, "\n") || !strings.Contains(text, want) || secret != "" && strings.Contains(text, secret) || strings.Contains(text, "panic") {
			t.Errorf("%s: %d: %s", name, code, text)
		}
	}
	serve := []string{"serve", "--listen", "127.0.0.1:0"}
	for _, secret := range []string{"abcde", strings.Repeat("k", 31), ""} {
		refused(fmt.Sprintf("secret of %d bytes", len(secret)), "SERVICE_AUTH_JWT_SECRET", secret, []string{"SERVICE_AUTH_JWT_SECRET=" + secret}, serve...)
	}
	refused("short secret in a file", "SERVICE_AUTH_JWT_SECRET_FILE", "0123456789", []string{"SERVICE_AUTH_JWT_SECRET_FILE=secret-file"}, serve...)
	for _, file := range []string{"junk.pem", "empty.pem", "short.pem", "missing.pem", ".", "cairn.db"} {
		refused("key "+file, "SERVICE_OIDC_PRIVATE_KEY_FILE", "", []string{"SERVICE_OIDC_PRIVATE_KEY_FILE=" + file}, serve...)
	}
	for _, issuer := range []string{"http://id.example.org", "https://id.example.org?x=1", "https://id.example.org#x", "https://id.example.org/", "id.example.org", "https://u:p@id.example.org", "javascript:1", "https://", "https://id.example.org/a/../b", "https://id.example.org\n"} {
		refused("issuer "+issuer, "SERVICE_OIDC_ISSUER", "", []string{"SERVICE_OIDC_ISSUER=" + issuer}, serve...)
	}
	for name, uri := range map[string]string{
		"fragment": "https://a.example/cb#f", "empty fragment": "https://a.example/cb#", "wildcard": "https://*.example/cb", "wildcard in path": "https://a.example/*", "http": "http://a.example/cb", "user": "https://u@a.example/", "password": "https://u:p@a.example/",
		"newline": "https://a.example/\ncb", "blank": "https://a.example/ ", "relative": "//a.example/cb", "no host": "https:///cb", "script": "javascript:alert(1)", "data": "data:text/html,x", "file": "file:///etc/passwd", "dots": "https://a.example/../cb", "nothing": "",
		"loopback lookalike": "http://127.0.0.1.example/cb", "decimal": "http://2130706433/cb", "all interfaces": "http://0.0.0.0/cb", "backslash": `https://a.example\@evil.example/`, "not ASCII": "https://ä.example/cb",
	} {
		refused(name, "--redirect-uri", "", nil, "client", "add", "X", "--redirect-uri", uri)
	}
	for _, id := range []string{"activity", "ACTIVITY", "a b", "a\nb", "../a", strings.Repeat("a", 65)} {
		refused("id "+id, "--id", "", nil, "client", "add", "X", "--redirect-uri", "https://a.example/cb", "--id", id)
	}
	for _, name := range []string{"", " ", "a\nb", "a\x1b[31mb", "a\u202eb", strings.Repeat("n", 61)} {
		refused("name "+name, "name", "", nil, "client", "add", name, "--redirect-uri", "https://a.example/cb")
	}
	if left := p.run("client", "list", "-q"); strings.TrimSpace(left) != "" {
		t.Errorf("clients were added: %s", left)
	}
	for _, flag := range []string{"--password", "--secret", "--client-secret"} {
		refused("a secret as a flag", flag, "hunter2-hunter2", nil, "user", "add", "eve", flag+"=hunter2-hunter2")
	}
}
