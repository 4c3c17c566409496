// Package templates owns what a browser shows of the service: the HTML pages, their typed data, the style sheet, two
// small scripts and the icon. All of it is embedded, and every page is parsed and checked once, in New.
//
// The package leaves to others who may see a page, what goes into it and where a form's values go: it reads no request
// beyond its method, keeps no state and knows no account. Security headers that are the same for every answer (HSTS,
// Referrer-Policy, COOP) belong to the program's middleware; the ones that depend on the page are set here.
package templates

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

//go:embed html/*.html
var htmlFiles embed.FS

// DefaultInstanceName is shown until SetInstanceName gives a better one.
const DefaultInstanceName = "Cairn"

// Page is the data of one page. Only the structs of this package implement it, by value; each names the template it
// fills and says whether its forms may end at another origin.
type Page interface {
	// page is the template's name, which is also the value of the body's data-page attribute. leavesOrigin says that the
	// answer to one of the page's forms can redirect to another origin: Chromium applies form-action to such a redirect
	// too, so these pages must go without it or the sign-in ends on a blocked page.
	page() (name string, leavesOrigin bool)
}

// Options are fixed for the life of a Renderer.
type Options struct {
	// BasePath is the path of the issuer without a trailing slash: "" or, for example, "/id".
	BasePath string
	// HTTPS says that browsers reach the service by https. A page that hands its visitor to an unencrypted
	// application then says so.
	HTTPS bool
	// Now is the clock from which pages say how long ago something was; nil means time.Now.
	Now func() time.Time
}

// Renderer fills the pages. It is safe for concurrent use.
type Renderer struct {
	base     string
	https    bool
	now      func() time.Time
	pages    map[string]*template.Template
	static   map[string]asset // by hashed name
	hashed   map[string]string
	instance atomic.Pointer[func() string]
}

// view is what a template sees: the page's data as .P, and what every page shows.
type view struct {
	Name     string
	Instance string
	P        Page
}

// samples holds one page of each kind; New fills each once, so that a template that html/template refuses stops the
// program at its start and not at the first visitor. FormPost has no useful zero value: it needs a target.
var samples = []Page{
	Login{}, Register{}, ResetPassword{}, Consent{}, FormPost{RedirectURI: "https://app.invalid/"},
	Logout{}, SignedOut{}, Error{}, Account{}, AdminUsers{}, AdminUser{},
}

// New parses every page and prepares the static files. The error names the page or option at fault.
func New(opts Options) (*Renderer, error) {
	if err := checkBasePath(opts.BasePath); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Renderer{base: opts.BasePath, https: opts.HTTPS, now: opts.Now, pages: make(map[string]*template.Template, len(samples))}
	if err := r.loadStatic(); err != nil {
		return nil, err
	}
	common, err := template.New("layout").Funcs(r.funcs()).ParseFS(htmlFiles, "html/layout.html", "html/parts.html")
	if err != nil {
		return nil, fmt.Errorf("parse page layout: %w", err)
	}
	for _, sample := range samples {
		name, _ := sample.page()
		set, err := common.Clone()
		if err != nil {
			return nil, fmt.Errorf("clone layout for page %q: %w", name, err)
		}
		if _, err := set.ParseFS(htmlFiles, "html/"+name+".html"); err != nil {
			return nil, fmt.Errorf("parse page %q: %w", name, err)
		}
		r.pages[name] = set
		if _, err := r.fill(sample); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkBasePath accepts "" and "/a/b": what can precede "/login/" and make a local path.
func checkBasePath(base string) error {
	if base == "" {
		return nil
	}
	if !isLocal(base) || strings.HasSuffix(base, "/") || strings.ContainsAny(base, "?#") {
		return fmt.Errorf("base path %q: want an absolute path without trailing slash, query or fragment", base)
	}
	return nil
}

// SetInstanceName sets where the name in header and title comes from; it is asked at every page, so it must be quick and
// safe for concurrent use. An empty name shows DefaultInstanceName.
func (r *Renderer) SetInstanceName(name func() string) { r.instance.Store(&name) }

func (r *Renderer) instanceName() string {
	if name := r.instance.Load(); name != nil && *name != nil {
		if s := strings.TrimSpace((*name)()); s != "" {
			return s
		}
	}
	return DefaultInstanceName
}

// Render answers with a page. It fills the page into memory first: when it returns an error, nothing has been written and
// no header set, so the caller can still answer with something else. A client that hung up is not an error. For HEAD
// only the headers are written.
func (r *Renderer) Render(w http.ResponseWriter, req *http.Request, status int, page Page) error {
	if page == nil {
		return errors.New("render page: no page given")
	}
	body, err := r.fill(page)
	if err != nil {
		return err
	}
	// Only what the service itself serves: no inline script or style, no frame around the page.
	policy := "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
	if _, leavesOrigin := page.page(); !leavesOrigin {
		policy += "; form-action 'self'"
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if req.Method != http.MethodHead {
		_, _ = w.Write(body) // the answer has begun: a failure here can no longer be reported
	}
	return nil
}

func (r *Renderer) fill(page Page) ([]byte, error) {
	name, _ := page.page()
	set, ok := r.pages[name]
	if !ok {
		return nil, fmt.Errorf("render page %q: no such template", name)
	}
	var buf bytes.Buffer
	if err := set.ExecuteTemplate(&buf, "layout", view{Name: name, Instance: r.instanceName(), P: page}); err != nil {
		return nil, fmt.Errorf("render page %q: %w", name, err)
	}
	return buf.Bytes(), nil
}
