package httpd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// browser is a person's browser: a cookie jar, no automatic redirects.
type browser struct {
	t      *testing.T
	client *http.Client
	base   string
}

func (s *service) browser() *browser { return newBrowser(s.t, s.URL, &http.Transport{}) }

// newBrowser is a browser without cookies, whose connections end with the test.
func newBrowser(t *testing.T, base string, transport *http.Transport) *browser {
	b := &browser{t: t, base: base, client: ua.NewClient(30*time.Second, transport)}
	b.client.Jar, _ = cookiejar.New(nil)
	t.Cleanup(transport.CloseIdleConnections)
	return b
}

// response is an answer, read.
type response struct {
	*http.Response
	Text string
}

func (r response) answer() ua.Answer {
	return ua.Answer{Status: r.StatusCode, Header: r.Header, Body: r.Text}
}

// JSON decodes the body as an object.
func (r response) JSON(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.Text), &v); err != nil {
		t.Fatalf("%s: not a JSON object: %v: %.200s", r.Request.URL.Path, err, r.Text)
	}
	return v
}

// do sends a request; path is relative to the issuer or absolute.
func (b *browser) do(method, path, contentType, body string, header ...string) response {
	b.t.Helper()
	if contentType != "" {
		header = append([]string{"Content-Type", contentType}, header...)
	}
	r, err := ua.Request(context.Background(), method, b.absolute(path), "", "", body, header...)
	noError(b.t, err)
	a := ua.Send(b.client, r)
	if a.Err != nil {
		b.t.Fatalf("%s %s: %v", method, path, a.Err)
	}
	return response{a.Response, a.Body}
}

func (b *browser) absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		u, _ := url.Parse(b.base)
		if u.Path != "" && strings.HasPrefix(path, u.Path+"/") {
			return u.Scheme + "://" + u.Host + path
		}
		return b.base + path
	}
	return path
}

func (b *browser) get(path string, header ...string) response {
	b.t.Helper()
	return b.do(http.MethodGet, path, "", "", append([]string{"Accept", "text/html"}, header...)...)
}

func (b *browser) postForm(path string, form url.Values, header ...string) response {
	b.t.Helper()
	return b.do(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode(), append([]string{"Accept", "text/html"}, header...)...)
}

func (b *browser) api(method, path string, body any, header ...string) response {
	b.t.Helper()
	kind, text := ua.JSON(body)
	return b.do(method, path, kind, text, header...)
}

// signIn signs the browser in through the API.
func (b *browser) signIn(handle string) {
	b.t.Helper()
	if got := b.login(handle, password); got.StatusCode != http.StatusOK {
		b.t.Fatalf("sign in as %s: %d %s", handle, got.StatusCode, got.Text)
	}
}

// cookie returns the value of a cookie that the browser holds for the service.
func (b *browser) cookie(name string) string { return ua.CookieOf(b.client, b.base, name) }

var visitors atomic.Uint32

// visitor is a browser at an address that nobody else has.
func (s *service) visitor() *browser { return s.visitorAt(freshAddress()) }

func freshAddress() string {
	n := visitors.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 1+n>>14&0x7f, n>>7&0x7f, 1+n&0x7f)
}

func (s *service) visitorAt(address string) *browser {
	b := s.browser()
	u, err := url.Parse(s.URL)
	noError(s.t, err)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	b.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+u.Port())
	}
	return b
}

// signedIn is a visitor who has signed in.
func (s *service) signedIn(handle string) *browser {
	s.t.Helper()
	b := s.visitor()
	b.signIn(handle)
	return b
}

// joined is signedIn as a new member.
func (s *service) joined(handle string, flags ...string) *browser {
	s.t.Helper()
	s.addUser(handle, flags...)
	return s.signedIn(handle)
}

func (b *browser) login(handle, password string) response {
	b.t.Helper()
	return b.api("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password})
}

// invite makes an invite of the signed-in browser.
func (b *browser) invite() string {
	b.t.Helper()
	got := b.api("POST", "/api/invites", nil)
	if got.StatusCode != http.StatusCreated {
		b.t.Fatalf("create invite: %d %s", got.StatusCode, got.Text)
	}
	return got.JSON(b.t)["code"].(string)
}

// resetCode issues a reset code for a user; the browser is an administrator's.
func (b *browser) resetCode(handle string) string {
	b.t.Helper()
	got := b.api("POST", "/api/admin/users/"+handle+"/reset-password-code", nil)
	if got.StatusCode != http.StatusCreated {
		b.t.Fatalf("issue reset code: %d %s", got.StatusCode, got.Text)
	}
	return got.JSON(b.t)["code"].(string)
}

func (b *browser) register(code, handle string) response {
	b.t.Helper()
	return b.api("POST", "/api/register", map[string]string{"code": code, "handle": handle, "password": password})
}

func (b *browser) reset(handle, code, password string) response {
	b.t.Helper()
	return b.api("POST", "/api/auth/reset-password", map[string]string{"handle": handle, "code": code, "password": password})
}

// wantStatus and needStatus check the status of an answer; the test ends with needStatus.
func wantStatus(t *testing.T, what string, got response, status int) {
	t.Helper()
	same(t, fmt.Sprintf("%s: %s %s: %.300s", what, got.Request.Method, got.Request.URL.Path, got.Text),
		got.StatusCode, status)
}

func needStatus(t *testing.T, what string, got response, status int) response {
	t.Helper()
	if wantStatus(t, what, got, status); t.Failed() && got.StatusCode != status {
		t.FailNow()
	}
	return got
}

// wantProblem holds an answer to the form of a problem, its status and code.
func wantProblem(t *testing.T, what string, got response, status int, code string) {
	t.Helper()
	if got.StatusCode != status || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %d %s, want %d: %.200s", what, got.StatusCode, got.Header.Get("Content-Type"), status, got.Text)
		return
	}
	p := got.JSON(t)
	if p["code"] != code || p["status"] != float64(status) || p["type"] == "" || p["title"] == "" ||
		p["detail"] == "" || p["request_id"] != got.Header.Get("X-Request-Id") {
		t.Errorf("%s: %s, want the code %s", what, got.Text, code)
	}
	if status == http.StatusTooManyRequests && got.Header.Get("Retry-After") == "" {
		t.Errorf("%s: no Retry-After", what)
	}
}

// wantPage checks that the browser got a page of ours and nothing was sent on.
func wantPage(t *testing.T, what string, got response, status int) {
	t.Helper()
	if got.StatusCode != status || got.Header.Get("Location") != "" || pageName(t, got.Text) != "error" {
		t.Errorf("%s: %d, Location %q, %.200s; want a page with %d", what, got.StatusCode, got.Header.Get("Location"), got.Text, status)
	}
}

// atOnce runs the operations at the same moment and waits for all.
func atOnce(operations ...func()) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for _, operation := range operations {
		wg.Go(func() { <-start; operation() })
	}
	close(start)
	wg.Wait()
}

// together returns the results of n concurrent calls of f.
func together[T any](n int, f func(i int) T) []T {
	out, operations := make([]T, n), make([]func(), n)
	for i := range n {
		operations[i] = func() { out[i] = f(i) }
	}
	atOnce(operations...)
	return out
}

// dial opens a connection from a fresh address that ends with the test.
func (s *service) dial() net.Conn {
	s.t.Helper()
	u, err := url.Parse(s.URL)
	noError(s.t, err)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(freshAddress())}}
	c, err := d.DialContext(s.t.Context(), "tcp", "127.0.0.1:"+u.Port())
	noError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

// exchangeBytes sends text over a connection of its own and returns all that
// comes back before the service closes it.
func exchangeBytes(t *testing.T, s *service, text string) string {
	t.Helper()
	c := s.dial()
	go func() { _, _ = io.WriteString(c, text) }() // the answer may come before all is sent
	answer, err := io.ReadAll(c)
	if err != nil && len(answer) == 0 {
		t.Errorf("%.60q: %v", text, err)
	}
	return string(answer)
}

// form is the first form of a page that has fields, as a browser sends it untouched.
type form struct {
	action string
	values url.Values
}

func pageForm(t *testing.T, page string) form {
	t.Helper()
	f := ua.FormOf(page, "")
	if f == nil || f.Action == "" {
		t.Fatalf("no form on the page: %.600s", page)
	}
	return form{f.Action, f.Values}
}

// pageName is the data-page of the body.
func pageName(_ *testing.T, page string) string { return ua.Name(page) }

// mainOf is the part of a page that is not the same on all.
func mainOf(page string) string {
	_, rest, _ := strings.Cut(page, "<main")
	return rest
}

// elementByID is nil when the page has no such element.
func elementByID(_ *testing.T, page, id string) *html.Node { return ua.ByID(page, id) }

func attribute(n *html.Node, name string) string { return ua.Attributes(n)[name] }

func hasAttribute(n *html.Node, name string) bool {
	_, has := ua.Attributes(n)[name]
	return has
}

func mustParse(t *testing.T, page string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	noError(t, err)
	return doc
}

func elementText(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

var update = flag.Bool("update", false, "accept the present wire formats as the golden files")

// golden compares a wire format with its file in testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		noError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden file: %v (run with -update to write it)", err)
	}
	equal(t, fmt.Sprintf("%s differs", name), got, string(want))
}

// shape is a payload with its values replaced by their JSON types.
func shape(t *testing.T, payload map[string]any) string {
	t.Helper()
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				out[k] = walk(e)
			}
			return out
		case []any:
			return []any{"array"}
		case string:
			return "string"
		case float64:
			return "number"
		case bool:
			return "boolean"
		}
		return "null"
	}
	return indent(t, walk(payload))
}

func indent(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	noError(t, err)
	return string(b) + "\n"
}

func jwtHeader(t *testing.T, token string) map[string]any { return jwtPart(t, token, 0) }

func jwtPayload(t *testing.T, token string) map[string]any { return jwtPart(t, token, 1) }

func jwtPart(t *testing.T, token string, i int) (part map[string]any) {
	t.Helper()
	noError(t, ua.Part(token, i, &part))
	return part
}

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	noError(t, err)
	return string(b)
}

// inParallel counts the statuses of n answers at the same moment.
var inParallel = accounttest.Parallel

var equal, fails, has, lacks, noError = assert.Equal, assert.Fails, assert.Has, assert.Lacks, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }
