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

// contentTypes has the types of the static files. The program does not start with a file of another
// type, because guessing one is a risk.
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
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		file.ServeHTTP(w, req)
	})
}
