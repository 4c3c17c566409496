//go:build unix

package httpd

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// deployed is a file of deploy/ with the words of a test, each of which it has just so often.
func deployed(t *testing.T, name string, words ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../../deploy", name))
	noError(t, err)
	text := string(b)
	for pair := range slices.Chunk(words, 2) {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("deploy/%s lacks %s", name, pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// The configurations that deploy/ has for proxies, in front of the program as an operator runs it.
func TestDeployedProxies(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, dir, front, back string){
		"nginx": func(t *testing.T, dir, front, back string) {
			needFiles(t, nginxFile)
			plain := freePort(t)
			server := deployed(t, "nginx.conf", "listen 80", "listen 127.0.0.1:"+plain, "listen 443", "listen 127.0.0.1:"+front, "id.example.org;", "localhost;",
				"127.0.0.1:4040", "127.0.0.1:"+back, "/etc/ssl/id.example.org.pem", "cert.pem", "/etc/ssl/id.example.org.key", "tls.pem")
			copyFile(t, "testdata/rp/nginx.conf", filepath.Join(dir, "nginx.conf"), map[string]string{"SERVER": server})
			startProgram(t, front, []string{nginxFile, "-p", dir, "-c", "nginx.conf", "-e", "stderr"})
		},
		"caddy": func(t *testing.T, dir, front, back string) {
			needFiles(t, caddyFile)
			// Its own port and certificate, and nothing of this machine.
			global := "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\tstorage file_system " + filepath.Join(dir, "caddy") + "\n}\n"
			site := deployed(t, "Caddyfile", "\nid.example.org {\n", "\nhttps://localhost:"+front+" {\n\tbind 127.0.0.1\n\ttls cert.pem tls.pem\n", "127.0.0.1:4040", "127.0.0.1:"+back)
			noError(t, os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(global+site), 0o600))
			startProgram(t, front, []string{"sh", "-c", "cd '" + dir + "' && exec caddy run --adapter caddyfile --config Caddyfile"}, "HOME="+dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newInstalled(t, true, "")
			front, back := freePort(t), freePort(t)
			issuer := "https://localhost:" + front
			log := startProgram(t, back, []string{"sh", "-c", "cd '" + p.dir + "' && exec '" + programFile() + "' serve"}, append(p.env,
				"SERVICE_LISTEN=127.0.0.1:"+back, "SERVICE_OIDC_ISSUER="+issuer, "SERVICE_TRUSTED_PROXIES=127.0.0.1", "SERVICE_LOG_FORMAT=json")...)
			cert := filepath.Join(p.dir, "cert.pem")
			writePair(t, cert, filepath.Join(p.dir, "tls.pem"))
			start(t, p.dir, front, back)

			b := browserFrom(t, issuer, cert, "127.0.0.2")
			needStatus(t, "sign in", b.login("keeper", password), http.StatusOK)
			me := b.get("/api/me", "X-Forwarded-For", "203.0.113.9", "X-Forwarded-Proto", "http", "X-Request-Id", "chosen-by-the-visitor")
			needStatus(t, "the session cookie over https", me, http.StatusOK)
			for _, header := range []string{"Strict-Transport-Security", "Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "X-Request-Id"} {
				if values := me.Header.Values(header); len(values) != 1 {
					t.Errorf("%s: %q", header, values)
				}
			}
			if id := me.Header.Get("X-Request-Id"); id == "chosen-by-the-visitor" || id == "" {
				t.Errorf("request id %q", id)
			}
			var addresses []string // the answer comes before its line in the log
			for deadline := time.Now().Add(10 * time.Second); len(addresses) == 0 &&
				time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
				addresses = loggedAddresses(t, log.String(), "/api/me")
			}
			sameList(t, "addresses in the log", addresses, []string{"127.0.0.2"})

			// A long authorization request and an activity file at the limit arrive; a larger one is refused.
			application := browserFrom(t, issuer, cert, "127.0.0.3")
			wantStatus(t, "a long address", application.get("/login/?next="+strings.Repeat("a", 20<<10)), http.StatusOK)
			for size, status := range map[int]int{7 << 20: http.StatusOK, 10 << 20: http.StatusRequestEntityTooLarge} {
				body := `{"x":"` + strings.Repeat("a", size) + `"}`
				if got := b.do("POST", "/api/activity/validate", "application/json", body, "Origin", issuer); got.StatusCode != status {
					t.Errorf("%d bytes: %d, want %d: %.200s", size, got.StatusCode, status, got.Text)
				}
			}

			// Requests for the status list are held, and answered when a session ends.
			ref := jwtPayload(t, b.cookie("__Host-cairn_session"))["status"].(map[string]any)["status_list"].(map[string]any)
			uri := ref["uri"].(string)
			etag := application.get(uri).Header.Get("ETag")
			begin := time.Now()
			held := application.get(uri, "If-None-Match", etag, "Prefer", "wait=2")
			if took := time.Since(begin); held.StatusCode != http.StatusNotModified || held.Header.Get("Preference-Applied") != "wait=2" || took < 2*time.Second {
				t.Errorf("held for %s: %d %v", took, held.StatusCode, held.Header)
			}
			answers := make(chan response, 1)
			go func() { answers <- application.get(uri, "If-None-Match", etag, "Prefer", "wait=25") }()
			needStatus(t, "sign out", b.api("POST", "/api/auth/logout", nil), http.StatusOK)
			if got := <-answers; got.StatusCode != http.StatusOK || got.Header.Get("ETag") == etag {
				t.Errorf("after the sign-out: %d", got.StatusCode)
			}
		})
	}
}
