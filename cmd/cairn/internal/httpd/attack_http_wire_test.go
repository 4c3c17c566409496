package httpd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	jsonHead = "Host: localhost\r\nContent-Type: application/json\r\n"
	formHead = "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
)

// Attack 138: an oversize body is refused while it comes, whatever it claims
// about its length, also where nobody reads it.
func TestOversizeBodyIsNeverSwallowed(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, path := range []string{"/api/auth/login", "/api/register", "/api/auth/reset-password", "/api/me", "/api/admin/settings", "/login/", "/register/", "/reset-password/", "/logout/", "/oauth2/token", "/oauth2/userinfo", "/nowhere", "/healthz"} {
		for length, line := range map[string]string{"announced": "Content-Length: 104857600\r\n", "chunked": "Transfer-Encoding: chunked\r\n"} {
			head := jsonHead
			if !strings.HasPrefix(path, "/api/") {
				head = formHead
			}
			c := s.dial()
			wg.Go(func() {
				_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\n"+head+line+"\r\n")
				block, sent := bytes.Repeat([]byte("a"), 64<<10), 0
				for sent < 100<<20 {
					var err error
					if length == "chunked" {
						_, err = fmt.Fprintf(c, "%x\r\n%s\r\n", len(block), block)
					} else {
						_, err = c.Write(block)
					}
					if err != nil {
						break
					}
					sent += len(block)
				}
				if sent > 16<<20 { // most of what was sent waits in the kernel
					t.Errorf("%s %s: %d MB were taken", path, length, sent>>20)
				}
				answer := make([]byte, 12)
				if _, err := io.ReadFull(c, answer); err != nil || answer[9] != '4' {
					t.Errorf("%s %s: %q %v", path, length, answer, err)
				}
			})
		}
	}
}

// Attack 139: a packed body is not unpacked.
func TestPackedBodyIsNeverUnpacked(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 40<<20))
	_ = z.Close()
	for _, encoding := range []string{"gzip", "deflate", "br", "GZIP", "identity, gzip", "x"} {
		for path, kind := range map[string]string{"/api/auth/login": "application/json", "/api/register": "application/json", "/login/": "application/x-www-form-urlencoded"} {
			got := s.visitor().do("POST", path, kind, bomb.String(), "Content-Encoding", encoding)
			wantProblem(t, path+" "+encoding, got, http.StatusUnsupportedMediaType, "unsupported_media_type")
		}
		if got := s.visitor().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", bomb.String(), "Content-Encoding", encoding); got.StatusCode/100 != 4 {
			t.Errorf("token endpoint with %s: %d", encoding, got.StatusCode)
		}
	}
}

// Attack 140.
func TestHeaderBombIsNeverRead(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "X-%d: a\r\n", i)
	}
	for name, request := range map[string]string{
		"one of 1 MB": "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "5,000": "GET / HTTP/1.1\r\nHost: localhost\r\n" + many.String() + "\r\n",
		"path of 1 MB": "GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "cookie of 100 kB": "GET /api/me HTTP/1.1\r\nHost: localhost\r\nCookie: cairn_session=" + strings.Repeat("a", 100_000) + "\r\n\r\n",
	} {
		if got := exchangeBytes(t, s, request); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
			t.Errorf("%s: %.60q", name, got)
		}
	}
}

// Attack 143: what two readers could cut in different places is refused, or at
// least ends the connection: nothing hidden behind it is ever answered.
func TestAmbiguousRequestNeverHidesAnother(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	hidden := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	body := `{"handle":"nobody","password":"not the password"}`
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for name, request := range map[string]string{
		"CL before TE":        "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"TE before CL":        "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"empty chunks and CL": "POST /api/auth/logout HTTP/1.1\r\n" + jsonHead + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":         "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: 0\r\nContent-Length: 60\r\n\r\n",
		"list of lengths":     "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: 0, 60\r\n\r\n",
		"+0":                  "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: +0\r\n\r\n",
		"negative":            "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: -1\r\n\r\n",
		"bad chunk":           "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"chunk with sign":     "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
		"long chunk line":     "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\n\r\n0;" + strings.Repeat("a", 9000) + "\r\n\r\n",
		"other coding":        "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: xchunked\r\n\r\n" + chunked,
		"two codings":         "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunked,
		"blank before colon":  "POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding : chunked\r\n\r\n" + chunked,
		"two hosts":           "GET /api/me HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
		"no host":             "GET /api/me HTTP/1.1\r\n\r\n",
		"NUL in a header":     "GET /api/me HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
		"line feed in line":   "GET /api/me HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
	} {
		answer := exchangeBytes(t, s, request+hidden)
		if n := strings.Count(answer, "HTTP/1.1 "); n != 1 || strings.Contains(answer, `"status":"ok"`) {
			t.Errorf("%s: %d answers: %.200q", name, n, answer)
		}
		if !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 501") && !strings.Contains(name, "empty") {
			t.Errorf("%s: %.60q", name, answer)
		}
	}
}

// Attacks 141, 142 and 146: who sends slowly loses the connection, and those
// who only keep one open are in nobody's way. The product's limits, fifty times
// shorter.
func TestSlowClientNeverKeepsAConnection(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	srv := NewServer(s.server.Config.Handler, slog.New(slog.DiscardHandler))
	if srv.ReadHeaderTimeout <= 0 || srv.ReadHeaderTimeout > 10*time.Second || srv.ReadTimeout <= 0 || srv.ReadTimeout > 30*time.Second || srv.WriteTimeout <= 0 || srv.WriteTimeout > time.Minute ||
		srv.IdleTimeout <= 0 || srv.IdleTimeout > 3*time.Minute || srv.MaxHeaderBytes > 64<<10 {
		t.Fatalf("limits of the server: %+v", srv)
	}
	srv.ReadHeaderTimeout, srv.ReadTimeout, srv.IdleTimeout = srv.ReadHeaderTimeout/50, srv.ReadTimeout/50, srv.IdleTimeout/50
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	slow := &service{t: t, URL: "http://" + l.Addr().String()}
	idle := make([]net.Conn, 1000)
	for i := range idle {
		idle[i] = slow.dial()
	}
	var wg sync.WaitGroup
	for name, c := range map[string]struct{ start, drip, want string }{
		"nothing at all": {"", "", ""}, "half a line": {"GET / HT", "", ""}, "slow headers": {"GET / HTTP/1.1\r\nHost: localhost\r\n", "X: a\r\n", ""},
		"slow body":      {"POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: 5000\r\n\r\n{", " ", "HTTP/1.1 400"},
		"slow chunks":    {"POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", "HTTP/1.1 400"},
		"slow form":      {"POST /login/ HTTP/1.1\r\n" + formHead + "Content-Length: 5000\r\n\r\n", "a", "HTTP/1.1 400"},
		"refused body":   {"POST /api/invites HTTP/1.1\r\n" + jsonHead + "Content-Length: 5000\r\n\r\n", "a", "HTTP/1.1 401"},
		"no body at all": {"POST /api/auth/login HTTP/1.1\r\n" + jsonHead + "Content-Length: 10\r\n\r\n", "", "HTTP/1.1 400"},
	} {
		conn := slow.dial()
		wg.Go(func() {
			_, _ = io.WriteString(conn, c.start)
			if c.drip != "" {
				go func() {
					for tick := time.NewTicker(30 * time.Millisecond); ; <-tick.C {
						if _, err := io.WriteString(conn, c.drip); err != nil {
							tick.Stop()
							return
						}
					}
				}()
			}
			start := time.Now()
			answer, _ := io.ReadAll(conn)
			if took := time.Since(start); took > 5*time.Second || !strings.HasPrefix(string(answer), c.want) || c.want == "" && len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("%s: %.60q after %s", name, answer, took)
			}
		})
	}
	if got := slow.visitor().login("ada", password); got.StatusCode != http.StatusOK {
		t.Errorf("everybody else: %d", got.StatusCode)
	}
	wg.Wait()
	for _, c := range idle {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("an idle connection is still open: %v", err)
		}
	}
}

// Attack 148.
func TestHostileHeadersNeverBreakAnAnswer(t *testing.T) {
	s := startService(t, serviceOptions{})
	for _, path := range []string{"/.well-known/jwks.json", "/schemas/activity-1.0.json", "/login/", "/healthz", "/.well-known/openid-configuration"} {
		plain := s.visitor().get(path, "Accept-Encoding", "identity").Text
		for name, value := range map[string][]string{
			"encodings": {"Accept-Encoding", strings.Repeat("gzip, ", 1000)}, "no gzip": {"Accept-Encoding", "gzip;q=0, *;q=0"}, "unknown": {"Accept-Encoding", "zstd, br, ;;=,"},
			"ranges": {"Range", "bytes=" + strings.Repeat("0-0,", 2000) + "0-0"}, "range": {"Range", "bytes=-1"}, "bad range": {"Range", "lines=0-"}, "far range": {"Range", "bytes=99999999999999999999-"},
			"upgrade": {"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "x"}, "h2c": {"Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABk"},
			"if": {"If-Modified-Since", "never", "If-None-Match", "\"", "If-Range", "x"}, "expect": {"Expect", "200-ok"}, "accept": {"Accept", strings.Repeat("text/html;q=0.1,", 1500)},
		} {
			header := value
			if !strings.Contains(name, "encod") && name != "no gzip" && name != "unknown" {
				header = append([]string{"Accept-Encoding", "identity"}, value...)
			}
			got := s.visitor().do("GET", path, "", "", header...)
			if got.StatusCode != http.StatusOK && got.StatusCode/100 != 4 || got.StatusCode == http.StatusOK && got.Header.Get("Content-Encoding") == "" && got.Text != plain {
				t.Errorf("%s with %s: %d, %d bytes of %d", path, name, got.StatusCode, len(got.Text), len(plain))
			}
		}
	}
	for _, request := range []string{"OPTIONS * HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1", "GET http://evil.example/login HTTP/1.1", "TRACE / HTTP/1.1"} {
		got := exchangeBytes(t, s, request+"\r\nHost: evil.example\r\nX-Secret: abc\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, "X-Request-Id: ") || strings.Contains(got, "evil.example") || strings.Contains(got, "abc") {
			t.Errorf("%s: %.300q", request, got)
		}
	}
}
