// Package templates owns what a browser shows of the service: the HTML pages, their typed data, the style sheet, two
// small scripts and the icon. All of it is embedded; a page is parsed when it is first asked for.
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
	"sync"
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
	pages    map[string]func() (*template.Template, error) // by language tag, a slash and the name of the page
	static   map[string]*Document                          // by hashed name
	hashed   map[string]string
	instance atomic.Pointer[func() string]
	look     atomic.Pointer[func() Look]
}

// Look is what an installation has made of the pages.
type Look struct {
	Accent string // colour, as #1f5e58; empty: the usual one
	Logo   string // hash of the picture at {base}/logo/HASH.png; empty: the usual one
}

// view is what a template sees: the page's data as .P, and what every page shows.
type view struct {
	Name     string
	Instance string
	Lang     string // BCP 47
	Theme    string // path of the style sheet of the accent colour, or empty
	Logo     string // path of the picture, or empty
	Dir      string // of the script, "ltr" or "rtl"
	P        Page
}

// samples holds one page of each kind; a test fills each in every language, for a page is read when it is first asked
// for: all of them take 13 MB. FormPost has no useful zero value: it needs a target.
var samples = []Page{
	Login{}, Register{}, ResetPassword{}, Consent{}, Device{}, FormPost{RedirectURI: "https://app.invalid/"},
	ForgotPassword{}, LinkPage{Name: "verify-email"}, LinkPage{Name: "undo-email"}, LinkPage{Name: "not-me"},
	SecondFactor{}, Confirm{}, TOTP{}, RecoveryCodes{},
	Logout{}, SignedOut{}, Error{}, Account{}, AccountSecurity{}, AccountDevices{}, AccountApps{}, AccountInvites{}, AccountInviteSlip{}, AccountData{},
	AdminOverview{}, AdminUsers{}, AdminUser{}, AdminInvites{}, AdminApplications{}, AdminSettings{}, AdminAudit{},
}

// New prepares the static files. The error names the option at fault.
func New(opts Options) (*Renderer, error) {
	if err := checkBasePath(opts.BasePath); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Renderer{base: opts.BasePath, https: opts.HTTPS, now: opts.Now, pages: map[string]func() (*template.Template, error){}}
	if err := r.loadStatic(); err != nil {
		return nil, err
	}
	for _, sample := range samples {
		for _, l := range languages().languages {
			name, _ := sample.page()
			r.pages[l.tag+"/"+name] = sync.OnceValues(func() (*template.Template, error) { return r.parse(l, name) })
		}
	}
	return r, nil
}

// parse reads a page with its layout, in a language.
func (r *Renderer) parse(l *Language, name string) (*template.Template, error) {
	set, err := template.New("layout").Funcs(r.funcs()).Funcs(marks).Funcs(l.wording(r.now)).ParseFS(htmlFiles, "html/layout.html", "html/part*.html", "html/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("parse page %q: %w", name, err)
	}
	return set, nil
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

// SetLook sets where the look comes from; it is asked as the name is.
func (r *Renderer) SetLook(look func() Look) { r.look.Store(&look) }

func (r *Renderer) currentLook() Look {
	if look := r.look.Load(); look != nil && *look != nil {
		return (*look)()
	}
	return Look{}
}

// Render answers with a page. It fills the page into memory first: when it returns an error, nothing has been written and
// no header set, so the caller can still answer with something else. A client that hung up is not an error. For HEAD
// only the headers are written.
func (r *Renderer) Render(w http.ResponseWriter, req *http.Request, status int, page Page) error {
	if page == nil {
		return errors.New("render page: no page given")
	}
	body, err := r.fill(LanguageOf(req.Context()), page)
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
	SetLanguageHeaders(h, LanguageOf(req.Context()))
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

func (r *Renderer) fill(l *Language, page Page) ([]byte, error) {
	name, _ := page.page()
	parsed, ok := r.pages[l.Tag()+"/"+name]
	if !ok {
		return nil, fmt.Errorf("render page %q: no such template", name)
	}
	set, err := parsed()
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	look := r.currentLook()
	v := view{Name: name, Instance: r.instanceName(), Lang: l.Tag(), Dir: l.dir(), Theme: r.ThemeURL(look.Accent), P: page}
	if look.Logo != "" {
		v.Logo = r.base + "/logo/" + look.Logo + ".png"
	}
	if err := set.ExecuteTemplate(&buf, "layout", v); err != nil {
		return nil, fmt.Errorf("render page %q: %w", name, err)
	}
	return buf.Bytes(), nil
}
