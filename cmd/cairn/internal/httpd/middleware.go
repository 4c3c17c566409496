package httpd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/felixge/httpsnoop"
	"github.com/gorilla/handlers"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/templates"
)

// middleware wraps every request.
type middleware struct {
	config   config.Checked
	base     string // path of the issuer
	accounts *account.Service
	limits   *web.Limits
	log      *slog.Logger
	metrics  *metrics.Metrics // nil: nothing is counted
}

// wrap puts the layers around h. From the outside in:
func (m *middleware) wrap(h http.Handler) http.Handler {
	for _, layer := range []func(http.Handler) http.Handler{
		m.compress,     // innermost: only what is public and has no secret (BREACH)
		m.crossOrigin,  // before any handler changes something for a foreign page
		m.cors,         // before crossOrigin: a preflight is answered here
		m.limitAll,     // before any work
		m.headers,      // on every answer, also on refusals of the layers below
		m.recoverPanic, // inside the log line, so that it shows the 500
		m.identify,     // outermost: the request's id, address and log line
	} {
		h = layer(h)
	}
	return h
}

// requestIDForm is the form of an id that a trusted proxy may give.
var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// identify gives the request an id and its client's address, and writes one
// log line when it is done: the path without its query, never a header, a code or a token.
func (m *middleware) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := &web.RequestInfo{ID: rand.Text()[:20]}
		if m.metrics != nil {
			info.Observer = m.metrics
			m.metrics.RequestBegun()
		}
		info.Address, info.Proxied = clientAddress(r, m.config.TrustedProxies)
		if id := r.Header.Get("X-Request-Id"); info.Proxied && requestIDForm.MatchString(id) {
			info.ID = id
		}
		w.Header().Set("X-Request-Id", info.ID)
		ctx := templates.WithLanguage(r.Context(), templates.PickLanguage(r.Header.Get("Accept-Language")))
		r = r.WithContext(web.WithRequestInfo(ctx, info))
		got := httpsnoop.Metrics{Code: http.StatusOK}
		defer func() { m.ended(r, info, got) }() // also where http.ErrAbortHandler breaks the answer off
		got.CaptureMetrics(w, func(w http.ResponseWriter) { next.ServeHTTP(w, r) })
	})
}

func (m *middleware) ended(r *http.Request, info *web.RequestInfo, got httpsnoop.Metrics) {
	if m.metrics != nil {
		m.metrics.RequestEnded(info.Route(), r.Method, got.Code, got.Duration)
	}
	user, event := info.Summary()
	level := slog.LevelInfo
	switch {
	case got.Code >= web.StatusClientGone && errors.Is(r.Context().Err(), context.Canceled):
		level = slog.LevelDebug // given up because the client hung up: not the service's failure
	case got.Code >= http.StatusInternalServerError && got.Code != http.StatusNotImplemented: // that, anybody can ask for
		level = slog.LevelError
	case got.Code == http.StatusOK && m.isHealthCheck(r):
		level = slog.LevelDebug // every few seconds, from each that watches the service
	}
	m.log.LogAttrs(r.Context(), level, "request",
		slog.String("request_id", info.ID), slog.String("method", cutText(r.Method, 16)), slog.String("path", loggedPath(r.URL.Path)),
		slog.Int("status", got.Code), slog.Int64("bytes", got.Written), slog.Float64("ms", float64(got.Duration.Microseconds())/1000),
		slog.String("address", info.Address.String()), slog.String("user", user), slog.String("event", event))
}

// loggedPath is the path for the log. What comes after /api/invites/ is an
// invite's code.
func loggedPath(path string) string {
	if i := strings.Index(path, "/api/invites/"); i >= 0 {
		path = path[:i] + "/api/invites/{code}"
	}
	return cutText(path, 256)
}

func cutText(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// recoverPanic turns a panic into a 500; the stack stays in the log.
func (m *middleware) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wrote := false
		watched := httpsnoop.Wrap(w, httpsnoop.Hooks{WriteHeader: func(f httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) { wrote = true; f(code) }
		}})
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			m.log.ErrorContext(r.Context(), "panic", "request_id", web.RequestID(r.Context()), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if !wrote {
				m.accounts.Fail(w, r, fmt.Errorf("panic in a handler"))
			}
		}()
		next.ServeHTTP(watched, r)
	})
}

// headers are the ones that are the same for every answer; pages add their
// own Content-Security-Policy over this one.
func (m *middleware) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		// Not no-referrer: Chromium then posts forms with Origin: null.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		if m.config.HTTPS {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		// net/http takes a body with both Transfer-Encoding and Content-Length
		// and hides the latter; a proxy that goes by the length would see another
		// request in the rest. RFC 9112 section 6.3: the connection must end.
		r.Header.Del("Range") // no answer is long enough for it, and many ranges would multiply it
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			h.Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// limitAll bounds requests per address. Health checks do not count; /api/verify, which a proxy
// asks at each request of other applications, counts by itself.
func (m *middleware) limitAll(next http.Handler) http.Handler {
	return m.accounts.Do(func(w http.ResponseWriter, r *http.Request) error {
		if !m.isHealthCheck(r) && strings.TrimPrefix(r.URL.Path, m.base) != "/api/verify" {
			wait, err := m.limits.Take(r.Context(), web.LimitAll, web.ClientAddress(r))
			if err == nil && wait > 0 {
				err = web.RateLimited(wait)
			}
			if err != nil {
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

// compress compresses what is public and the same for all users, not answers with
// secrets or with what a stranger could put into them.
func (m *middleware) compress(next http.Handler) http.Handler {
	packed := handlers.CompressHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, m.base)
		public := path == "/.well-known/openid-configuration" || path == "/.well-known/oauth-authorization-server" || path == "/.well-known/jwks.json" ||
			path == "/openapi.yaml" || strings.HasPrefix(path, "/static/") || strings.HasPrefix(path, "/schemas/")
		if public && r.Method == http.MethodGet && r.Header.Get("If-None-Match") == "" {
			packed.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
