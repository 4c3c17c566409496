package httpd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/templates"
)

// middleware wraps every request.
type middleware struct {
	config   config.Checked
	base     string // path of the issuer
	accounts *site.Site
	limits   *web.Limits
	log      *slog.Logger
	metrics  *metrics.Metrics // nil: nothing is counted
	refused  *refused
	now      func() time.Time
}

// wrap puts the layers around h, the innermost first.
func (m *middleware) wrap(h http.Handler) http.Handler {
	for _, layer := range []func(http.Handler) http.Handler{
		m.crossOrigin,  // before any handler changes something for a page of another site
		m.cors,         // before crossOrigin: it answers preflights
		m.limitAll,     // before any work
		m.headers,      // on every answer, even refusals of the layers inside
		m.recoverPanic, // inside the log line, so that it shows the 500
		m.identify,     // outermost: the request's id, address and log line
	} {
		h = layer(h)
	}
	return h
}

// requestIDForm matches the ids that a trusted proxy may give.
var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// identify gives the request an id and its client's address, and writes one log line when it is
// done. The line has the path without its query, and never a header, a code or a token.
func (m *middleware) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{begun: m.now(), answer: answer{ResponseWriter: w}}
		info := &x.info
		info.ID = rand.Text()[:20]
		if m.metrics != nil {
			info.Observer = m.metrics
			m.metrics.RequestBegun()
		}
		info.Address, info.Proxied = clientAddress(r, m.config.TrustedProxies)
		if id := r.Header.Get("X-Request-Id"); info.Proxied && requestIDForm.MatchString(id) {
			info.ID = id
		}
		x.id[0] = info.ID
		w.Header()["X-Request-Id"] = x.id[:]
		ctx := templates.WithAcceptLanguage(r.Context(), r.Header.Get("Accept-Language"))
		r = r.WithContext(web.WithRequestInfo(ctx, info))
		defer m.ended(r, x) // even if http.ErrAbortHandler aborts the answer
		next.ServeHTTP(&x.answer, r)
	})
}

// exchange is the state of a request until its log line.
type exchange struct {
	info   web.RequestInfo
	answer answer
	begun  time.Time
	id     [1]string // of the header
}

// answer records the status and the length of an answer for the log. http.ResponseController
// reaches the other methods of the server's writer by Unwrap.
type answer struct {
	http.ResponseWriter
	code  int // 0 while nothing is written
	bytes int64
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 && code >= http.StatusOK { // 1xx precede the answer
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.code = cmp.Or(a.code, http.StatusOK)
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (m *middleware) ended(r *http.Request, x *exchange) {
	now, info := m.now(), &x.info
	took, code := now.Sub(x.begun), cmp.Or(x.answer.code, http.StatusOK)
	if m.metrics != nil {
		m.metrics.RequestEnded(info.Route(), r.Method, code, took)
	}
	noted := info.Summary()
	m.refused.note(provider.RefusedSignIn{ClientID: noted.Client, RequestID: info.ID, Reason: noted.Reason,
		SignedIn: noted.User != "", RefusedAt: now})
	level := slog.LevelInfo
	switch {
	case code >= web.StatusClientGone && errors.Is(r.Context().Err(), context.Canceled):
		level = slog.LevelDebug // the client hung up: not the service's failure
	case code >= http.StatusInternalServerError && code != http.StatusNotImplemented: // anybody can cause 501
		level = slog.LevelError
	case code == http.StatusOK && m.isHealthCheck(r):
		level = slog.LevelDebug // every few seconds, from each monitor
	}
	if !m.log.Enabled(r.Context(), level) {
		return
	}
	line := slog.NewRecord(now, level, "request", 0) // Logger.LogAttrs would look up the program counter
	line.AddAttrs(
		slog.String("request_id", info.ID), slog.String("method", templates.Shortened(r.Method, 16)),
		slog.String("path", loggedPath(r.URL.Path)), slog.Int("status", code),
		slog.Int64("bytes", x.answer.bytes), slog.Float64("ms", float64(took.Microseconds())/1000),
		slog.String("address", info.AddressText()), slog.String("user", noted.User), slog.String("event", noted.Event))
	if noted.User != "" {
		noted.Account = "" // who is in, is not somebody who tries to get in
	}
	for _, more := range [...][2]string{
		{"client", noted.Client}, {"reason", noted.Reason}, {"limit", noted.Limit}, {"account", noted.Account},
	} {
		if more[1] != "" {
			line.AddAttrs(slog.String(more[0], more[1]))
		}
	}
	_ = m.log.Handler().Handle(r.Context(), line)
}

// inviteInPath matches an invite's code with what precedes it, even in mistyped paths.
var inviteInPath = regexp.MustCompile(`(?i)(/invites/).+`)

// loggedPath returns the path for the log, without an invite's code.
func loggedPath(path string) string {
	if !strings.HasSuffix(path, "/invites/revoke") && !strings.HasSuffix(path, "/invites/delete") {
		path = inviteInPath.ReplaceAllString(path, "${1}{code}")
	}
	return templates.Shortened(path, 256)
}

// recoverPanic turns a panic into a 500; the stack stays in the log.
func (m *middleware) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			m.log.ErrorContext(r.Context(), "panic", "request_id", web.RequestID(r.Context()),
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if got, ok := w.(*answer); ok && got.code == 0 {
				m.accounts.Fail(w, r, fmt.Errorf("panic in a handler"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// Values of headers that all answers share.
var (
	emptyPolicy = []string{"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"}
	noSniff     = []string{"nosniff"}
	deny        = []string{"DENY"}
	sameOrigin  = []string{"same-origin"}
	transport   = []string{"max-age=31536000"}
)

// headers sets the headers that every answer has. Pages replace the Content-Security-Policy by their own.
func (m *middleware) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Content-Security-Policy"] = emptyPolicy
		h["X-Content-Type-Options"] = noSniff
		h["X-Frame-Options"] = deny
		// With no-referrer, Chromium would post forms with Origin: null.
		h["Referrer-Policy"] = sameOrigin
		h["Cross-Origin-Opener-Policy"] = sameOrigin
		if m.config.HTTPS {
			h["Strict-Transport-Security"] = transport
		}
		delete(r.Header, "Range") // no answer is long enough for it, and many ranges would multiply it
		// net/http accepts a body with both Transfer-Encoding and Content-Length and hides the
		// latter. A proxy that uses the length would see another request in the rest, so the
		// connection must be closed (RFC 9112 section 6.3).
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			h.Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// limitAll limits the requests of an address. Health checks do not count, nor do proofs of bound sessions: a browser
// takes a refusal for the end of the binding. /api/verify, which a proxy calls for each request to other applications,
// has its own limit.
func (m *middleware) limitAll(next http.Handler) http.Handler {
	return m.accounts.Do(func(w http.ResponseWriter, r *http.Request) error {
		if !m.isHealthCheck(r) && !m.isVerify(r) && r.URL.Path != m.base+site.RefreshDevicePath {
			address := web.LimitKey{Name: web.LimitAll, Key: web.ClientAddress(r)}
			if err := m.limits.Count(r.Context(), address); err != nil {
				return err
			}
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

func (m *middleware) isHealthCheck(r *http.Request) bool {
	path := strings.TrimPrefix(r.URL.Path, m.base)
	return path == "/healthz" || path == "/readyz"
}

func (m *middleware) isVerify(r *http.Request) bool {
	return strings.TrimPrefix(r.URL.Path, m.base) == "/api/verify" &&
		(r.Method == http.MethodGet || r.Method == http.MethodHead)
}
