package templates_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/templates"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
func getRequest() *http.Request               { return httptest.NewRequest(http.MethodGet, "/", nil) }

func TestStaticFilesAreKeptForGoodUnderTheirHash(t *testing.T) {
	r := newRenderer(t, templates.Options{BasePath: "/id"})
	h := r.Static()
	for name, contentType := range map[string]string{
		"cairn.css": "text/css; charset=utf-8", "cairn.js": "text/javascript; charset=utf-8", "form-post.js": "text/javascript; charset=utf-8",
		"favicon.svg": "image/svg+xml",
	} {
		u := r.StaticURL(name)
		stem, ext, _ := strings.Cut(name, ".")
		if !regexp.MustCompile(`^/id/static/` + stem + `\.[0-9a-f]{16}\.` + ext + `$`).MatchString(u) {
			t.Errorf("%s is at %q", name, u)
		}
		w := newRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, u, nil))
		if w.Code != http.StatusOK || w.Body.Len() == 0 || w.Header().Get("Content-Type") != contentType ||
			!strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: status %d, %d bytes, headers %v", name, w.Code, w.Body.Len(), w.Header())
		}
		again := httptest.NewRequest(http.MethodGet, u, nil)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		w = newRecorder()
		h.ServeHTTP(w, again)
		if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
			t.Errorf("%s with its ETag: status %d, %d bytes, want 304 and none", name, w.Code, w.Body.Len())
		}
		w = newRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, u, nil))
		if w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("HEAD %s: status %d, %d bytes", name, w.Code, w.Body.Len())
		}
		w = newRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, u, nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: status %d, Allow %q", name, w.Code, w.Header().Get("Allow"))
		}
	}
}

// programText is what the tests have for the program of AccountPublish.
const programText = "\x00asm, says a test"

func packedProgram(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(programText)); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	return b.Bytes()
}

// The program is sent as it is stored. A client that cannot unpack gets the whole of it too, and nobody else may
// compile WebAssembly: the policy of a worker is that of its script.
func TestProgramIsSentPacked(t *testing.T) {
	r := newRenderer(t, templates.Options{BasePath: "/id"})
	get := func(name string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		w, req := newRecorder(), httptest.NewRequest(http.MethodGet, r.StaticURL(name), nil)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		r.Static().ServeHTTP(w, req)
		return w
	}
	packed := get("publish.wasm", "Accept-Encoding", "br, gzip")
	if h := packed.Header(); packed.Code != 200 || h.Get("Content-Encoding") != "gzip" || h.Get("Content-Type") != "application/wasm" ||
		h.Get("Vary") != "Accept-Encoding" || !strings.Contains(h.Get("Cache-Control"), "immutable") || !bytes.Equal(packed.Body.Bytes(), packedProgram(t)) {
		t.Errorf("packed: %d %v", packed.Code, h)
	}
	if plain := get("publish.wasm"); plain.Header().Get("Content-Encoding") != "" || plain.Body.String() != programText {
		t.Errorf("plain: %v %q", plain.Header(), plain.Body)
	}
	if again := get("publish.wasm", "If-None-Match", packed.Header().Get("Etag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("with its ETag: %d", again.Code)
	}
	if got := get("wasm_exec.js"); got.Body.String() != "// wasm_exec.js" {
		t.Errorf("wasm_exec.js: %d %q", got.Code, got.Body)
	}
	const nothing = "default-src 'none'; frame-ancestors 'none'"
	for name, want := range map[string]string{
		"publish-worker.js": nothing + "; script-src 'self' 'wasm-unsafe-eval'", "publish.js": nothing, "wasm_exec.js": nothing, "cairn.js": nothing,
	} {
		equal(t, name+": policy", get(name).Header().Get("Content-Security-Policy"), want)
	}
	without, err := templates.New(templates.Options{})
	must(t, err)
	page := render(t, without, templates.AccountPublish{}).Body.String()
	if !strings.Contains(page, `id="publish-missing"`) || !strings.Contains(page, ".ci/build") ||
		strings.Contains(page, "publish.js") || without.StaticURL("publish.wasm") != "" {
		t.Error("a build without the program does not say how to get it")
	}
}

func TestNothingElseIsServed(t *testing.T) {
	r := newRenderer(t, templates.Options{BasePath: "/id"})
	for _, path := range []string{
		"/id/static/", "/id/static/cairn.css", "/id/static/../html/layout.html", "/id/static/html/layout.html",
		strings.TrimPrefix(r.StaticURL("cairn.css"), "/id"), "/id/static/cairn.0000000000000000.css", "/static.go",
	} {
		w := newRecorder()
		req := getRequest()
		req.URL.Path = path
		r.Static().ServeHTTP(w, req)
		if w.Code != http.StatusNotFound || w.Header().Get("ETag") != "" || strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: status %d, headers %v", path, w.Code, w.Header())
		}
	}
	equal(t, "unknown name has the address", r.StaticURL("nothing.css"), "")
}

// Styles and scripts must work under the pages' policy: nothing from elsewhere, nothing that needs inline code.
func TestStaticFilesAskForNothingElse(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for _, name := range []string{"cairn.css", "cairn.js", "form-post.js", "favicon.svg"} {
		w := newRecorder()
		r.Static().ServeHTTP(w, httptest.NewRequest(http.MethodGet, r.StaticURL(name), nil))
		body := strings.ReplaceAll(w.Body.String(), `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, bad := range []string{"http:", "https:", "//cdn", "url(", "@import", "data:", "eval(", "innerHTML", "fetch(", "<script", "<style", ".style."} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
}

// WCAG 2.2: 4.5 to 1 for text (1.4.3), 3 to 1 for the edges of fields and buttons and for the focus ring (1.4.11).
func TestColoursAreReadableInBothThemes(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	w := newRecorder()
	r.Static().ServeHTTP(w, httptest.NewRequest(http.MethodGet, r.StaticURL("cairn.css"), nil))
	light, dark, found := strings.Cut(w.Body.String(), "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("no dark theme")
	}
	colour := regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`)
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		luminance := map[string]float64{}
		for _, m := range colour.FindAllStringSubmatch(css, -1) {
			luminance[m[1]] = relativeLuminance(t, m[2])
		}
		for _, c := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "ground", 4.5},
			{"ink", "paper", 4.5},
			{"ink", "bad-wash", 4.5},
			{"ink", "wash", 4.5},
			{"ink", "warm-wash", 4.5},
			{"soft", "ground", 4.5},
			{"soft", "paper", 4.5},
			{"soft", "wash", 4.5},
			{"accent", "ground", 4.5},
			{"accent", "paper", 4.5},
			{"accent", "wash", 4.5},
			{"accent-hover", "wash", 4.5},
			{"on-accent", "accent", 4.5},
			{"on-accent", "accent-hover", 4.5},
			{"bad", "paper", 4.5},
			{"bad", "bad-wash", 4.5},
			{"edge", "paper", 3},
			{"edge", "ground", 3},
		} {
			front, back := luminance[c.front], luminance[c.back]
			ratio := (math.Max(front, back) + 0.05) / (math.Min(front, back) + 0.05)
			if ratio < c.least {
				t.Errorf("%s: %s on %s is %.2f to 1, want %.1f", theme, c.front, c.back, ratio, c.least)
			}
		}
	}
}

// relativeLuminance is WCAG's, of a colour rrggbb: 0 for black, 1 for white.
func relativeLuminance(t *testing.T, hex string) float64 {
	t.Helper()
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		must(t, err)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
