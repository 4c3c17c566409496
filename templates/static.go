package templates

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// contentTypes has the types of the static files. The program does not start with a file of another
// type, because guessing one is a risk.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// cssSpace matches the space around punctuation of a style sheet, which means nothing there. Strings in the
// style sheets have none of it.
var cssSpace = regexp.MustCompile(`\s*([{};,])\s*`)

// jsSpace matches what means nothing in a script: lines of comments, and indentation. No string spans lines.
var jsSpace = regexp.MustCompile(`(?m)^\s*//.*\n|^[ \t]+`)

// forGood is the Cache-Control of a file whose name has the hash of its content.
const forGood = "public, max-age=31536000, immutable"

func (r *Renderer) loadStatic() error {
	r.static, r.hashed = make(map[string]http.Handler), make(map[string]string)
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return fmt.Errorf("list static files: %w", err)
	}
	for _, e := range entries {
		body, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			return fmt.Errorf("read static file %q: %w", e.Name(), err)
		}
		switch path.Ext(e.Name()) {
		case ".css":
			body = cssSpace.ReplaceAll(body, []byte("$1"))
		case ".js":
			body = jsSpace.ReplaceAll(body, nil)
		}
		if err := r.addStatic(e.Name(), body); err != nil {
			return err
		}
	}
	if r.program.Size() == 0 {
		return nil
	}
	name := "publish." + hex.EncodeToString(r.program.trailer()) + ".wasm"
	r.hashed["publish.wasm"], r.static[name] = name, r.program
	return r.addStatic("wasm_exec.js", r.program.Exec)
}

func (r *Renderer) addStatic(name string, body []byte) error {
	ext := path.Ext(name)
	contentType, ok := contentTypes[ext]
	if !ok {
		return fmt.Errorf("static file %q: no content type for %q", name, ext)
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:8])
	hashed := strings.TrimSuffix(name, ext) + "." + hash + ext
	r.hashed[name] = hashed
	r.static[hashed] = NewDocument(contentType, forGood, `"`+hash+`"`, body, nil)
	return nil
}

// StaticURL returns the path of a static file such as "cairn.css", with base path and content hash,
// or "" if there is no such file.
func (r *Renderer) StaticURL(name string) string {
	hashed, ok := r.hashed[name]
	if !ok {
		return ""
	}
	return r.base + "/static/" + hashed
}

// staticPath is StaticURL for the templates, where a wrong name must be an error.
func (r *Renderer) staticPath(name string) (string, error) {
	if u := r.StaticURL(name); u != "" {
		return u, nil
	}
	return "", fmt.Errorf("no static file %q", name)
}

// Static serves the static files under {base}/static/; mount it there without stripping the prefix.
// A name has the hash of its content, so browsers may cache the file for ever; any other name is
// 404. Methods are GET and HEAD.
func (r *Renderer) Static() http.Handler {
	prefix := r.base + "/static/"
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, below := strings.CutPrefix(req.URL.Path, prefix)
		file, ok := r.static[name]
		if !below || !ok {
			http.NotFound(w, req)
			return
		}
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		// An SVG opened on its own is a document: it must not load or run anything either.
		policy := "default-src 'none'; frame-ancestors 'none'"
		if name == r.hashed[publishWorker] { // a worker has the policy of its script
			policy += "; script-src 'self' 'wasm-unsafe-eval'"
		}
		h.Set("Content-Security-Policy", policy)
		file.ServeHTTP(w, req)
	})
}
