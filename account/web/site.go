package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/templates"
)

// Site is the address of the service. It answers with pages to browsers and with JSON to programs.
type Site struct {
	issuer   string // exactly as configured, without a trailing slash
	basePath string // path of the issuer, "" or "/id"
	pages    *templates.Renderer
	log      *slog.Logger
}

// NewSite returns a Site. The issuer must be an absolute URL.
func NewSite(issuer string, pages *templates.Renderer, log *slog.Logger) (*Site, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	return &Site{issuer: issuer, basePath: strings.TrimSuffix(u.EscapedPath(), "/"), pages: pages, log: log}, nil
}

// URL returns the absolute URL of a path of this service ("/register/").
func (s *Site) URL(path string) string { return s.issuer + path }

// Path returns the local path of this service as a browser sees it.
func (s *Site) Path(path string) string { return s.basePath + path }

// KeepOpener keeps window.opener for the application that opened a popup for its authorization. Use
// it only for pages between the authorization request and the redirect URI: every other page cuts
// the connection.
func KeepOpener(w http.ResponseWriter) { w.Header().Set("Cross-Origin-Opener-Policy", "unsafe-none") }

// Methods are the handlers of a path by method. HEAD is served by GET; other methods get 405 with
// Allow.
type Methods map[string]http.HandlerFunc

// Handle registers a path with its methods on the router.
func (s *Site) Handle(m *mux.Router, path string, methods Methods) {
	allow := make([]string, 0, len(methods)+1)
	for k := range methods {
		allow = append(allow, k)
	}
	if methods[http.MethodGet] != nil {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	m.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h := methods[method]
		if h == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.WriteProblem(w, r,
				NewProblem(http.StatusMethodNotAllowed, "method_not_allowed",
					"This address does not support the method of the request."))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		h(w, r)
	})
}

// Handler is a handler that returns its error to the caller: see Do.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Do runs h and answers its error with Fail.
func (s *Site) Do(h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.Fail(w, r, err)
		}
	}
}

// Redirect redirects the browser to a local path, with GET.
func (s *Site) Redirect(w http.ResponseWriter, r *http.Request, path string) error {
	http.Redirect(w, r, s.Path(path), http.StatusSeeOther)
	return nil
}

// Refusal returns the problem that a page shows beside its form, in the language of the request and
// with the headers set. Errors that no form can help with are returned.
func Refusal(w http.ResponseWriter, r *http.Request, cause error) (*Problem, error) {
	p, known := ProblemOf(cause)
	if !known || p.interrupts || p.Status == http.StatusServiceUnavailable {
		return nil, cause
	}
	NoteDefault(r.Context(), p.Code)
	p.SetRetryAfter(w)
	return p.In(templates.LanguageOf(r.Context())), nil
}

// Show renders a page. A failure is logged, and the response is a 500.
func (s *Site) Show(w http.ResponseWriter, r *http.Request, status int, page templates.Page) {
	if err := s.pages.Render(w, r, status, page); err != nil {
		s.log.ErrorContext(r.Context(), "page not rendered", "error", err, "request_id", RequestID(r.Context()))
		http.Error(w, "Something went wrong.", http.StatusInternalServerError)
	}
}

// StatusClientGone is only for the log (nginx uses this number).
const StatusClientGone = 499

// Abandoned reports whether err is the result of a request whose client has hung up. Nobody reads
// the response and nothing is wrong here, so strangers who hang up must not fill the log with
// failures.
func Abandoned(r *http.Request, err error) bool {
	return errors.Is(r.Context().Err(), context.Canceled) &&
		(errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable))
}

// Fail answers with the problem of err: as HTML to a browser that asked for a page, otherwise as
// problem+json. Only the log has the text of unknown errors.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, err error) {
	p, known := ProblemOf(err)
	if Abandoned(r, err) || p.Status >= http.StatusInternalServerError &&
		errors.Is(r.Context().Err(), context.Canceled) {
		p = NewProblem(StatusClientGone, "client_gone", "The client closed the connection.")
		p.Title = "Client Closed Request"
		s.WriteProblem(w, r, p)
		return
	}
	if !known || errors.Is(err, ErrUnavailable) {
		s.log.ErrorContext(r.Context(), "request failed", "error", err, "request_id", RequestID(r.Context()))
	}
	s.WriteProblem(w, r, p)
}

// WriteProblem writes a problem in the form and the language that the request wants.
func (s *Site) WriteProblem(w http.ResponseWriter, r *http.Request, ready *Problem) {
	p := ready.In(templates.LanguageOf(r.Context()))
	p.RequestID = RequestID(r.Context())
	NoteDefault(r.Context(), p.Code)
	p.SetRetryAfter(w)
	if s.WantsPage(r) {
		err := s.pages.Render(w, r, p.Status, templates.Error{
			Status: p.Status, Detail: p.Detail, RequestID: p.RequestID, BackURL: s.Path("/account/"),
		})
		if err != nil {
			s.log.ErrorContext(r.Context(), "error page", "error", err)
		}
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	templates.SetLanguageHeaders(h, templates.LanguageOf(r.Context()))
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers only: cannot happen
		body = []byte(`{"type":"about:blank","status":500,"code":"internal_error"}`)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// WantsPage reports whether a person's browser, not a program, sent the request.
func (s *Site) WantsPage(r *http.Request) bool {
	path := strings.TrimPrefix(r.URL.Path, s.basePath)
	return !strings.HasPrefix(path, "/api/") && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// LocalPath returns path if it is a path of this service to which a browser may be redirected, and
// that of the account otherwise.
func LocalPath(path string) string {
	control := func(c rune) bool { return c < ' ' || c == '\\' }
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || len(path) > 512 ||
		strings.ContainsFunc(path, control) {
		return "/account/"
	}
	return path
}

// HostOf returns the host of an address, for people.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
