// Package templates owns what a browser shows of the service: the HTML pages, their typed data, the
// style sheet, the scripts and the icon. All of it is embedded; pages are parsed on first use.
//
// Other packages decide who may see a page, what goes into it and where a form's values go. This
// package reads only the method and the language of a request, keeps no state and knows no account.
// Security headers that are the same for every response (HSTS, Referrer-Policy, COOP) belong to the
// program's middleware; those that depend on the page are set here.
package templates

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed html/*.html
var htmlFiles embed.FS

// DefaultInstanceName is the name of an instance without a name.
const DefaultInstanceName = "Cairn"

// Page is the data of one page. Only the structs of this package implement it, by value.
type Page interface {
	// page returns the template's name, which is also the value of the body's data-page attribute.
	// leavesOrigin reports whether the response to one of the page's forms can redirect to another
	// origin. Such a page needs a policy without form-action: Chromium applies it to the redirect
	// too, and would block the end of the sign-in.
	page() (name string, leavesOrigin bool)
}

// Options are fixed for the life of a Renderer.
type Options struct {
	// BasePath is the path of the issuer without a trailing slash: "" or, for example, "/id".
	BasePath string
	// HTTPS reports whether browsers reach the service over https. Pages then warn before they send
	// their visitor to an application without encryption.
	HTTPS bool
	// Now is the clock for relative times on pages; nil means time.Now.
	Now func() time.Time
	// Program is for AccountPublish; the zero Program means the one that was built in, if any.
	Program Program
}

// Renderer fills the pages. It is safe for concurrent use.
type Renderer struct {
	base     string
	https    bool
	now      func() time.Time
	pages    map[string]func() (*template.Template, error) // by language tag, a slash and the section
	static   map[string]http.Handler                       // by hashed name
	hashed   map[string]string
	program  Program
	instance atomic.Pointer[func() string]
	look     atomic.Pointer[func() Look]
	forms    *regexp.Regexp // finds those of account and administration, up to the path
	waiting  atomic.Pointer[func() int]
}

// Look is the appearance that an installation has chosen for its pages.
type Look struct {
	Accent string // colour such as #1f5e58; empty for the default
	Logo   string // hash of the picture at {base}/logo/HASH.png; empty for the default
	// DarkLogo is one for the dark scheme, shown where Logo is; empty for none.
	DarkLogo string
	// Imprint and Privacy are https addresses, linked on every page and in every mail; empty for none.
	Imprint, Privacy string
	Zone             string // time zone of whoever has chosen none; empty: UTC
}

// view is the data of the layout: the page's data as .P, and what every page shows.
type view struct {
	Name     string
	Instance string
	Lang     string // BCP 47
	Theme    string // path of the style sheet of the accent colour, or empty
	Dir      string // direction of the script, "ltr" or "rtl"
	Look     Look
	Waiting  int // requests to join, on the pages of administrators
	P        Page
}

// PageOf is the parameter, in the addresses of the forms of account and administration, with the user name of the
// member whose page it is.
const PageOf = "as"

// samples holds one page of each kind. Pages are parsed on first use, since all of them together
// take 4 MB in each language; a test fills each in every language. FormPost has no useful zero value:
// it needs a target.
var samples = []Page{
	Login{}, Register{}, ResetPassword{}, Consent{}, Device{}, FormPost{RedirectURI: "https://app.invalid/"},
	AccessDenied{}, ForgotPassword{}, Recover{}, Join{}, LinkPage{Name: "verify-email"}, LinkPage{Name: "undo-email"},
	LinkPage{Name: "not-me"}, LinkPage{Name: "confirm-join"}, LinkPage{Name: "cancel-email"}, SecondFactor{}, Confirm{},
	TOTP{}, RecoveryCodes{}, Logout{}, SignedOut{}, GoBack{}, Error{},
	AccountHome{}, AccountProfile{}, AccountSecurity{}, AccountDevices{}, AccountApps{}, AccountInvites{},
	AccountInviteSlip{}, AccountData{}, AccountPublish{}, AccountWelcome{},
	AdminOverview{}, AdminUsers{}, AdminUser{}, AdminSelected{}, AdminPaste{}, AdminInvites{}, AdminApplications{},
	AdminSettings{}, AdminAudit{},
}

// New returns a Renderer. The error names the invalid option.
func New(opts Options) (*Renderer, error) {
	if err := checkBasePath(opts.BasePath); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	r := &Renderer{base: opts.BasePath, https: opts.HTTPS, now: opts.Now}
	r.forms = regexp.MustCompile(`<form method="post" action="` + regexp.QuoteMeta(r.base) +
		`/(?:account|admin)/[^"#]*`)
	r.pages = make(map[string]func() (*template.Template, error))
	if r.program = opts.Program; r.program.Size() == 0 {
		r.program = built()
	}
	if err := r.loadStatic(); err != nil {
		return nil, err
	}
	names := map[string][]string{} // by section
	for _, sample := range samples {
		name, _ := sample.page()
		names[section(name)] = append(names[section(name)], name)
	}
	for _, l := range languages().languages {
		for of, names := range names {
			r.pages[l.tag+"/"+of] = sync.OnceValues(func() (*template.Template, error) { return r.parse(l, names) })
		}
	}
	return r, nil
}

// section returns the section of the pages that are parsed together with a page: account, admin, or the others.
func section(name string) string {
	if first, _, _ := strings.Cut(name, "-"); first == "account" || first == "admin" {
		return first
	}
	return ""
}

// ofPage finds the templates that each page has for itself: the layout, and what the layout calls.
var ofPage = regexp.MustCompile(`(\{\{(?:define|block|template) "(?:layout|title|script|nav|menu-of-page|content))"`)

// parse parses pages in a language as one set, in which they share the parts; sets for each page would take 137 MB in
// all languages. It adds " of " and the page's name to the names of what is the page's own. html/template escapes a
// part where it is first called, and takes it for granted that every part ends in the context in which it begins.
func (r *Renderer) parse(l *Language, names []string) (*template.Template, error) {
	set := template.New("").Funcs(r.funcs()).Funcs(marks).Funcs(l.wording(r.now))
	set, err := set.ParseFS(htmlFiles, "html/part*.html")
	if err != nil {
		return nil, fmt.Errorf("parse parts of pages: %w", err)
	}
	for _, name := range names {
		for _, file := range []string{"layout", name} {
			text, err := htmlFiles.ReadFile("html/" + file + ".html")
			if err == nil {
				_, err = set.Parse(ofPage.ReplaceAllString(string(text), `$1 of `+name+`"`))
			}
			if err != nil {
				return nil, fmt.Errorf("parse page %q: %w", name, err)
			}
		}
	}
	return set, nil
}

// checkBasePath accepts "" and paths such as "/a/b", which make a local path with "/login/" appended.
func checkBasePath(base string) error {
	if base == "" {
		return nil
	}
	if !isLocal(base) || strings.HasSuffix(base, "/") || strings.ContainsAny(base, "?#") {
		return fmt.Errorf("base path %q: want an absolute path without trailing slash, query or fragment", base)
	}
	return nil
}

// SetInstanceName sets the source of the name in header and title. Every page calls it, so it must
// be quick and safe for concurrent use. An empty name shows DefaultInstanceName.
func (r *Renderer) SetInstanceName(name func() string) { r.instance.Store(&name) }

func (r *Renderer) instanceName() string {
	if name := r.instance.Load(); name != nil && *name != nil {
		if s := strings.TrimSpace((*name)()); s != "" {
			return s
		}
	}
	return DefaultInstanceName
}

// SetLook sets the source of the look. It is called like that of SetInstanceName.
func (r *Renderer) SetLook(look func() Look) { r.look.Store(&look) }

// SetWaiting sets the source of the number of requests to join that wait, which the pages of administrators show.
func (r *Renderer) SetWaiting(waiting func() int) { r.waiting.Store(&waiting) }

func (r *Renderer) currentLook() Look {
	if look := r.look.Load(); look != nil && *look != nil {
		return (*look)()
	}
	return Look{}
}

// Render answers with a page. It renders into memory first: if it returns an error, nothing has been
// written and no header set, so the caller can still answer with something else. A closed connection
// is not an error. For HEAD it writes the headers only.
func (r *Renderer) Render(w http.ResponseWriter, req *http.Request, status int, page Page) error {
	if page == nil {
		return errors.New("render page: no page given")
	}
	body, err := r.fill(req.Context(), page)
	if err != nil {
		return err
	}
	// Allow only what the service itself serves: no inline script or style, no frame around the page.
	name, leavesOrigin := page.page()
	script := "script-src 'self'"
	if name == publishPage {
		script += " 'wasm-unsafe-eval'" // for browsers that give a worker the policy of its page
	}
	policy := "default-src 'none'; " + script + "; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
	if !leavesOrigin {
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
		_, _ = w.Write(body) // the status is sent: a failure can no longer be reported
	}
	return nil
}

func (r *Renderer) fill(ctx context.Context, page Page) ([]byte, error) {
	l := LanguageOf(ctx)
	name, _ := page.page()
	set, err := r.pages[l.Tag()+"/"+section(name)]()
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	look := r.currentLook()
	v := view{Name: name, Instance: r.instanceName(), Lang: l.Tag(), Dir: l.dir(), P: page, Look: look}
	v.Theme = r.ThemeURL(look.Accent)
	if waiting := r.waiting.Load(); waiting != nil && *waiting != nil && strings.HasPrefix(name, "admin") {
		v.Waiting = (*waiting)()
	}
	if err := set.ExecuteTemplate(&buf, "layout of "+name, v); err != nil {
		return nil, fmt.Errorf("render page %q: %w", name, err)
	}
	handle, zone := memberOf(ctx)
	body := l.clocks(buf.Bytes(), zone, look.Zone)
	if handle != "" {
		body = r.forms.ReplaceAll(body, []byte("${0}?"+PageOf+"="+url.QueryEscape(handle)))
	}
	return body, nil
}
