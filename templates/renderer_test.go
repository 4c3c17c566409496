package templates_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/templates"
)

func newRenderer(t *testing.T, opts templates.Options) *templates.Renderer {
	t.Helper()
	r, err := templates.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func render(t *testing.T, r *templates.Renderer, page templates.Page) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := r.Render(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusOK, page); err != nil {
		t.Fatalf("render %T: %v", page, err)
	}
	return w
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// fullPages are all pages in the states that show the most.
func fullPages() map[string]templates.Page {
	sessions := []templates.SessionRow{
		{ID: "s1", Device: "Firefox on Linux", Address: "192.0.2.7", CreatedAt: noon, LastSeenAt: noon, ExpiresAt: noon.AddDate(0, 1, 0), Current: true},
		{ID: "s2", Device: "Safari on iPhone", Address: "2001:db8::7", CreatedAt: noon, ExpiresAt: noon},
	}
	apps := []templates.AppRow{{ClientID: "c1", Name: "Club Calendar", Scopes: []string{"openid", "profile"}, GrantedAt: noon}}
	user := templates.AdminUserRow{
		Sub: "01hz", Handle: "ada", DisplayName: "Ada L.", Email: "ada@example.org", Flags: []string{"activity"},
		CreatedAt: noon, LastLoginAt: noon, InvitedBy: "bo",
	}
	return map[string]templates.Page{
		"login": templates.Login{
			Continue: "eyJ0IjoxfQ.c2VhbA", ClientName: "Club Calendar", Handle: "ada", Error: "Handle or password is wrong.",
			ErrorCode: "invalid_credentials", SignedInAs: "bo", RegisterOpen: true, Fresh: "choose", Ended: "Your session was ended.",
		},
		"register": templates.Register{
			Code: "ABCD-EFGH-JKMN-PQRS", InvitedBy: "bo", Note: "Welcome!", Handle: "ada", DisplayName: "Ada", Error: "Please check the form.",
			ErrorCode: "handle_taken", FieldErrors: map[string]string{"handle": "Taken.", "password": "Too short.", "code": "Used.", "display_name": "Too long."},
			MinPassword: 12, Continue: "eyJ0IjoxfQ.c2VhbA",
		},
		"reset-password": templates.ResetPassword{Handle: "ada", Code: "ABC", Error: "That code does not work.", ErrorCode: "invalid_reset_code", MinPassword: 10, Continue: "eyJ0IjoxfQ.c2VhbA"},
		"consent": templates.Consent{
			ClientName: "Club Calendar", ClientID: "c1", Handle: "ada", Scopes: []templates.ScopeItem{{Name: "profile", Sentence: "Your handle and name"}},
			Continue: "eyJ0IjoxfQ.c2VhbA", Token: "t0k", RedirectHost: "calendar.example",
		},
		"form-post":  templates.FormPost{RedirectURI: "https://calendar.example/cb", Parameters: map[string]string{"code": "c0de", "state": "s"}},
		"logout":     templates.Logout{Handle: "ada", Hidden: map[string]string{"state": "s"}, SignedIn: true},
		"signed-out": templates.SignedOut{BackURL: "https://calendar.example/", BackName: "Club Calendar"},
		"error":      templates.Error{Status: 404, Title: "Not here", Detail: "Check the link.", RequestID: "req-1", BackURL: "/account/"},
		"account": templates.Account{
			Handle: "ada", DisplayName: "Ada", Email: "ada@example.org", EmailVerified: true, Admin: true, Flags: []string{"activity", "admin"},
			Answer: templates.Answer{Section: "data", Error: "The password is too short.", ErrorCode: "weak_password"}, ErrorField: "password", Sessions: sessions,
			Invites: []templates.InviteRow{
				{Code: "AAAA-BBBB-CCCC-DDDD", URL: "https://id.example/register/?code=AAAA", Note: "for Bo", CreatedAt: noon, ExpiresAt: noon},
				{Code: "EEEE-BBBB-CCCC-DDDD", CreatedAt: noon, ExpiresAt: noon, Used: true, UsedBy: "bo"},
				{Code: "FFFF-BBBB-CCCC-DDDD", CreatedAt: noon, ExpiresAt: noon, Expired: true},
			},
			InvitesRemaining: 2, Apps: apps, MinPassword: 12,
		},
		"admin": templates.AdminUsers{Query: "a", Users: []templates.AdminUserRow{user}, NextCursor: "n3xt", Answer: templates.Answer{Notice: "Done."}},
		"admin-user": templates.AdminUser{
			User: user, KnownFlags: []string{"activity", "admin"}, ResetCode: "R3SE-T", ResetURL: "https://id.example/reset-password/?code=R3SET",
			Sessions: sessions, Apps: apps, Answer: templates.Answer{Section: "profile", Error: "No."}, ErrorField: "email",
			Profile: templates.AdminProfile{DisplayName: "Ada L.", Email: "ada@example", EmailVerified: true},
		},
	}
}

// oddPages are further states whose markup differs.
func oddPages() map[string]templates.Page {
	return map[string]templates.Page{
		"login, empty":         templates.Login{},
		"login, fixed handle":  templates.Login{Handle: "ada", HandleFixed: true, SignedInAs: "ada"},
		"register, empty":      templates.Register{},
		"register, closed":     templates.Register{Closed: true},
		"reset, empty":         templates.ResetPassword{},
		"reset, done":          templates.ResetPassword{Done: true},
		"consent, new":         templates.Consent{ClientID: "c1", NewOnly: true},
		"logout, signed out":   templates.Logout{},
		"logout, handed on":    templates.Logout{Hidden: map[string]string{"state": "s"}},
		"signed out, alone":    templates.SignedOut{},
		"error, bare":          templates.Error{Status: 503},
		"error, unknown":       templates.Error{},
		"account, empty":       templates.Account{Handle: "ada"},
		"account, no limit":    templates.Account{Handle: "ada", InvitesRemaining: -1},
		"admin, nobody":        templates.AdminUsers{Query: "zz"},
		"admin user, own":      templates.AdminUser{User: templates.AdminUserRow{Handle: "ada"}, Self: true},
		"admin user, no entry": templates.AdminUser{User: templates.AdminUserRow{Handle: "ada", Suspended: true}},
		"form post, native":    templates.FormPost{RedirectURI: "app.example:/cb"},
	}
}

func allPages() map[string]templates.Page {
	all := fullPages()
	for name, page := range oddPages() {
		all[name] = page
	}
	return all
}

func TestEveryPageCarriesItsNameAndHeaders(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range fullPages() {
		w := render(t, r, page)
		for header, want := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s = %q, want %q", name, header, got, want)
			}
		}
		doc := parse(t, w.Body.String())
		if got := attr(one(t, doc, "body"), "data-page"); got != name {
			t.Errorf("page %T: data-page = %q, want %q", page, got, name)
		}
	}
}

// A redirect after one of these pages' forms ends at the application; form-action would block it in Chromium.
func TestFormActionAllowsTheWayBackToAnApplication(t *testing.T) {
	const common = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
	leaves := map[string]bool{"login": true, "register": true, "consent": true, "form-post": true, "logout": true}
	r := newRenderer(t, templates.Options{})
	pages := fullPages()
	pages["register, not from an application"] = templates.Register{}
	for name, page := range pages {
		want := common + "; form-action 'self'"
		if leaves[name] {
			want = common
		}
		if got := render(t, r, page).Header().Get("Content-Security-Policy"); got != want {
			t.Errorf("%s: policy %q, want %q", name, got, want)
		}
	}
	if got := render(t, r, &templates.Login{}).Header().Get("Content-Security-Policy"); got != common {
		t.Errorf("pointer to a page: policy %q, want %q", got, common)
	}
}

// broken has the name of a page and none of its fields: its template fails half way.
type broken struct{ templates.Page }

func TestFailingTemplateWritesNothing(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range map[string]templates.Page{
		"no fields": broken{templates.Account{}}, "nil": nil, "target that runs code": templates.FormPost{RedirectURI: "javascript:alert(1)"},
	} {
		w := httptest.NewRecorder()
		w.Code = 0
		if err := r.Render(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusOK, page); err == nil {
			t.Errorf("%s: no error", name)
		}
		if w.Code != 0 || w.Body.Len() != 0 || len(w.Header()) != 0 {
			t.Errorf("%s: something was written: status %d, headers %v, body %q", name, w.Code, w.Header(), w.Body)
		}
	}
}

func TestHeadHasTheHeadersAndNoBody(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	get := render(t, r, templates.Login{})
	w := httptest.NewRecorder()
	if err := r.Render(w, httptest.NewRequest(http.MethodHead, "/", nil), http.StatusUnauthorized, templates.Login{}); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusUnauthorized || w.Body.Len() != 0 {
		t.Errorf("status %d with %d bytes, want 401 with none", w.Code, w.Body.Len())
	}
	if got, want := w.Header().Get("Content-Length"), get.Header().Get("Content-Length"); got != want || got == "" {
		t.Errorf("length %q, want that of GET, %q", got, want)
	}
}

func TestInstanceNameIsAskedAtEveryPage(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	name := ""
	title := func() string {
		return strings.TrimSpace(text(one(t, parse(t, render(t, r, templates.Login{}).Body.String()), "title")))
	}
	if got := title(); got != "Sign in · Cairn" {
		t.Errorf("without a name: %q", got)
	}
	r.SetInstanceName(func() string { return name })
	if got := title(); got != "Sign in · Cairn" {
		t.Errorf("with an empty name: %q", got)
	}
	name = "Trail <Runners>"
	if got := title(); got != "Sign in · Trail <Runners>" {
		t.Errorf("with a name: %q", got)
	}
}

func TestBasePathThatIsNoPathIsRefused(t *testing.T) {
	for _, base := range []string{"/", "id", "/id/", "//evil.example", "https://id.example", "/id?x", "/id#x", `/\evil`, "/i\nd"} {
		if _, err := templates.New(templates.Options{BasePath: base}); err == nil {
			t.Errorf("base path %q was accepted", base)
		}
	}
}

func TestEveryAddressOfAPageStaysBelowTheBasePath(t *testing.T) {
	r := newRenderer(t, templates.Options{BasePath: "/id"})
	foreign := map[string]bool{ // given by the caller, who includes the base path
		"https://calendar.example/cb": true, "https://calendar.example/": true, "app.example:/cb": true, "/account/": true,
	}
	for name, page := range allPages() {
		doc := parse(t, render(t, r, page).Body.String())
		walk(doc, func(n *html.Node) {
			for _, key := range []string{"href", "src", "action"} {
				v := attr(n, key)
				if v == "" || foreign[v] || strings.HasPrefix(v, "#") {
					continue
				}
				if !strings.HasPrefix(v, "/id/") || strings.Contains(v, "//") {
					t.Errorf("%s: <%s %s=%q> leaves the base path", name, n.Data, key, v)
				}
			}
		})
	}
}
