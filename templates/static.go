package templates

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// contentTypes of the static files. A file of another kind does not start the program: a guessed type is a risk.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

func (r *Renderer) loadStatic() error {
	r.static, r.hashed = make(map[string]*Document), make(map[string]string)
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return fmt.Errorf("list static files: %w", err)
	}
	for _, e := range entries {
		body, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			return fmt.Errorf("read static file %q: %w", e.Name(), err)
		}
		ext := path.Ext(e.Name())
		contentType, ok := contentTypes[ext]
		if !ok {
			return fmt.Errorf("static file %q: no content type for %q", e.Name(), ext)
		}
		sum := sha256.Sum256(body)
		hash := hex.EncodeToString(sum[:8])
		hashed := strings.TrimSuffix(e.Name(), ext) + "." + hash + ext
		r.hashed[e.Name()] = hashed
		r.static[hashed] = NewDocument(contentType, "public, max-age=31536000, immutable", `"`+hash+`"`, body, nil)
	}
	return nil
}

// StaticURL is the path of a static file ("cairn.css", "cairn.js", "form-post.js", "favicon.svg") with base path and content hash; "" for
// a name that is not there.
func (r *Renderer) StaticURL(name string) string {
	hashed, ok := r.hashed[name]
	if !ok {
		return ""
	}
	return r.base + "/static/" + hashed
}

// staticPath is StaticURL for the templates, where a wrong name has to fail.
func (r *Renderer) staticPath(name string) (string, error) {
	if u := r.StaticURL(name); u != "" {
		return u, nil
	}
	return "", fmt.Errorf("no static file %q", name)
}

// Static serves the static files below {base}/static/; mount it there without stripping the prefix. A name holds the hash
// of its content, so browsers keep the file for good; any other name is 404. Methods are GET and HEAD.
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
		// An SVG opened on its own is a document: it gets no rights either.
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		file.ServeHTTP(w, req)
	})
}
