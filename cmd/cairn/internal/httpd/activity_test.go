package httpd

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/config"
)

const validatePath = "/api/activity/validate"

// corpus holds the documents with which package activityschema is tested.
const corpus = "../../../../activityschema/testdata"

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	noError(t, err)
	noError(t, z.Close())
	return b.String()
}

func TestServiceAgreesWithTheCommand(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.browser()
	b.signIn("ada")
	var files []string
	for _, kind := range []string{"valid", "invalid", "lint"} {
		found, err := filepath.Glob(filepath.Join(corpus, kind, "*.json"))
		if err != nil || len(found) < 15 {
			t.Fatalf("%d documents that are %s: %v", len(found), kind, err)
		}
		files = append(files, found...)
	}
	out, _ := cairn(t, exitFailed, append([]string{"activity", "validate", "-o", "json"}, files...)...)
	var reports []map[string]any
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != len(files) {
		t.Fatalf("%d reports: %v", len(reports), err)
	}
	for _, want := range reports {
		file, _ := want["file"].(string)
		delete(want, "file")
		data, err := os.ReadFile(file)
		noError(t, err)
		got := b.do("POST", validatePath, "application/json", string(data))
		if diff := cmp.Diff(want, got.JSON(t)); diff != "" || got.StatusCode != http.StatusOK {
			t.Errorf("%s: %d (-command +service):\n%s", file, got.StatusCode, diff)
		}
	}
	if log := s.log.String(); strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, "bas_version") || strings.Contains(log, "latlng") {
		t.Error("the log has errors, or what is in the documents")
	}
}

func TestValidatorNeedsASession(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.browser()
	if got := b.do("POST", validatePath, "application/json", "{}"); got.StatusCode != http.StatusUnauthorized || got.JSON(t)["code"] != "not_authenticated" {
		t.Errorf("a stranger: %d %s", got.StatusCode, got.Text)
	}
	b.signIn("ada")
	for name, header := range map[string][]string{"fetch": {"Sec-Fetch-Site", "cross-site"}, "origin": {"Origin", "https://evil.example"}} {
		if got := b.do("POST", validatePath, "application/json", "{}", header...); got.StatusCode != http.StatusForbidden || got.JSON(t)["code"] != "cross_origin" {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Text)
		}
	}
	if got := b.get(validatePath); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d %s", got.StatusCode, got.Header.Get("Allow"))
	}
}

func TestUploadLimits(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.browser()
	b.signIn("ada")
	document := `{"bas_version":"1.0","id":"a","title":"Ride","sport":"cycling","started_at":"2026-05-17T06:30:00Z","privacy":"public",` +
		`"laps":[],"timeseries":{"t":[0,1,2],"hr_bpm":[120,121,122]},"custom":{}}`
	padded := func(size int) string { return document + strings.Repeat(" ", size-len(document)) }
	for _, c := range []struct {
		name, media, body, code string
		status                  int
		header                  []string
	}{
		{"as large as may be", "application/json", padded(maxUpload), "", 200, nil},
		{"with a charset", "application/json; charset=UTF-8", document, "", 200, nil},
		{"no document", "application/json", "", "", 200, nil},
		{"a byte more", "application/json", padded(maxUpload + 1), "too_large", 413, nil},
		{"a form", "application/x-www-form-urlencoded", document, "unsupported_media_type", 415, nil},
		{"text", "text/plain", document, "unsupported_media_type", 415, nil},
		{"no type", "", document, "unsupported_media_type", 415, nil},
		{"another charset", "application/json; charset=utf-16", document, "unsupported_media_type", 415, nil},
		{"packed", "application/gzip", zipped(t, document), "unsupported_media_type", 415, nil},
		{"packed in transit", "application/json", zipped(t, document), "", 200, []string{"Content-Encoding", "gzip"}},
		{"a bomb", "application/json", zipped(t, padded(maxUpload+1)), "too_large", 413, []string{"Content-Encoding", "gzip"}},
		{"cut while packed", "application/json", zipped(t, document)[:100], "invalid_request", 400, []string{"Content-Encoding", "gzip"}},
		{"packed otherwise", "application/json", document, "unsupported_media_type", 415, []string{"Content-Encoding", "br"}},
	} {
		got := b.do("POST", validatePath, c.media, c.body, c.header...)
		v := got.JSON(t)
		if code, _ := v["code"].(string); got.StatusCode != c.status || code != c.code {
			t.Errorf("%s: %d %.300s", c.name, got.StatusCode, got.Text)
		}
		if c.status == 200 && v["valid"] != (c.body != "") {
			t.Errorf("%s: %.300s", c.name, got.Text)
		}
	}
	// Of a free-form part each value costs a hundred times its size.
	many := strings.Replace(document, `"custom":{}`, `"custom":{"a":[`+strings.Repeat(`{"":0},`, 100_000)+`0]}`, 1)
	if got := b.do("POST", validatePath, "application/json", many); !strings.Contains(got.Text, "custom has too many members") {
		t.Errorf("many members: %d %.300s", got.StatusCode, got.Text)
	}
	// Refused by its length: the body is never sent, and not waited for.
	c, err := net.Dial("tcp", s.server.Listener.Addr().String())
	noError(t, err)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nCookie: cairn_session=%s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		validatePath, b.cookie("cairn_session"), 1<<40)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 413 ") {
		t.Errorf("a terabyte: %q %v", line, err)
	}
	// Without a length in advance.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.absolute(validatePath),
		struct{ *strings.Reader }{strings.NewReader(padded(maxUpload + 1))})
	noError(t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := b.client.Do(r)
	noError(t, err)
	defer func() { _ = got.Body.Close() }()
	same(t, "chunked", got.StatusCode, http.StatusRequestEntityTooLarge)
}

// Documents in memory are bounded: of one person there is one, from before it is read until it is answered.
func TestOneDocumentOfAPersonIsUnderWay(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada", "bob")
	ada, bob := s.browser(), s.browser()
	ada.signIn("ada")
	bob.signIn("bob")
	c, err := net.Dial("tcp", s.server.Listener.Addr().String())
	noError(t, err)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nCookie: cairn_session=%s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
		validatePath, ada.cookie("cairn_session"))
	answers := bufio.NewReader(c)
	status := func() string {
		line, err := answers.ReadString('\n')
		noError(t, err)
		return strings.TrimSpace(line)
	}
	same(t, "the first, which is being read", status(), "HTTP/1.1 100 Continue")
	got := ada.do("POST", validatePath, "application/json", "{}")
	if got.StatusCode != http.StatusTooManyRequests || got.JSON(t)["code"] != "rate_limited" || got.Header.Get("Retry-After") != "2" {
		t.Errorf("another one: %d, Retry-After %q: %s", got.StatusCode, got.Header.Get("Retry-After"), got.Text)
	}
	same(t, "the other user", bob.do("POST", validatePath, "application/json", "{}").StatusCode, http.StatusOK)
	fmt.Fprint(c, "{}")
	same(t, "after the first line", status(), "")
	same(t, "the first", status(), "HTTP/1.1 200 OK")
	same(t, "the next", ada.do("POST", validatePath, "application/json", "{}").StatusCode, http.StatusOK)
}

// By user and not by address; the answer says how long to wait.
func TestValidatorHasALimit(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.RateLimits = nil }, Limits: true}, "ada", "bob")
	ada, bob := s.browser(), s.browser()
	ada.signIn("ada")
	bob.signIn("bob")
	limited := 0
	for range 2 * config.DefaultRateLimits()["activity"].Count {
		got := ada.do("POST", validatePath, "application/json", "{}")
		switch {
		case got.StatusCode == http.StatusTooManyRequests && got.Header.Get("Retry-After") != "" && got.JSON(t)["code"] == "rate_limited":
			limited++
		case got.StatusCode != http.StatusOK || limited > 0 && limited < 10:
			t.Fatalf("%d %s", got.StatusCode, got.Text)
		}
	}
	if limited == 0 {
		t.Error("never limited")
	}
	same(t, "the other user", bob.do("POST", validatePath, "application/json", "{}").StatusCode, http.StatusOK)
}

// Who has the schema already is told so.
func TestSchemaIsSentOnce(t *testing.T) {
	s := startService(t, serviceOptions{})
	b := s.browser()
	const path = "/schemas/activity-1.0.json"
	first := b.get(path)
	etag := first.Header.Get("ETag")
	if first.StatusCode != http.StatusOK || etag == "" || first.Header.Get("Content-Type") != "application/schema+json" || !strings.Contains(first.Text, "2020-12") {
		t.Fatalf("%d, ETag %q", first.StatusCode, etag)
	}
	for match, want := range map[string]int{etag: 304, `"other", ` + etag: 304, strings.TrimPrefix(etag, "W/"): 304, "*": 304, `"other"`: 200, "": 200} {
		got := b.do("GET", path, "", "", "If-None-Match", match)
		if got.StatusCode != want || got.Header.Get("ETag") != etag || (got.Text == "") != (want == 304) {
			t.Errorf("If-None-Match %s: %d, ETag %q", match, got.StatusCode, got.Header.Get("ETag"))
		}
	}
}
