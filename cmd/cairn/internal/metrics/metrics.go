// Package metrics counts what the service does, for Prometheus. It implements the observers of packages
// account/password, account/web and store. No other package uses the Prometheus library.
//
// Every label is a name of this program or one that the operator has chosen, such as a client's id.
// It is never text from a stranger, which could create any number of series, and never a secret, a
// handle or an address.
package metrics

import (
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Build describes the build of the program.
type Build struct{ Version, Commit, Go, SQLite string }

// Metrics holds the time series of one service, in its own registry. Its methods are safe for
// concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	requests      *prometheus.CounterVec
	durations     *prometheus.HistogramVec
	inFlight      prometheus.Gauge
	signIns       *prometheus.CounterVec
	tokens        *prometheus.CounterVec
	limits        *prometheus.CounterVec
	unproven      prometheus.Counter
	hashes        prometheus.Histogram
	hashesRefused prometheus.Counter
	operations    *prometheus.HistogramVec
	failures      *prometheus.CounterVec
	revoked       *prometheus.CounterVec
}

// duration returns the options of a histogram of seconds. It is a native histogram, with a few
// buckets for a Prometheus that does not store native ones.
func duration(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.2, NativeHistogramMaxBucketNumber: 80,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// New returns the series of a service.
func New(b Build) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("cairn_http_requests_total",
			"Requests by path template, or none if no path matched.", "route", "method", "code"),
		durations: prometheus.NewHistogramVec(duration("cairn_http_request_duration_seconds",
			"Duration of requests. Those for a status list may be held on purpose.",
			.01, .05, .25, 1, 5), []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cairn_http_requests_in_flight", Help: "Requests in progress.",
		}),
		signIns: counter("cairn_sign_ins_total", "Sign-ins by outcome and factor.", "outcome", "factor"),
		tokens: counter("cairn_tokens_issued_total",
			"Answers of the token endpoint with tokens.", "grant_type", "client"),
		limits: counter("cairn_limits_hit_total", "Requests that a rate limit has refused.", "limit"),
		unproven: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_device_proofs_required_total",
			Help: "Requests of sessions bound to their devices that lacked the bound cookie.",
		}),
		hashes: prometheus.NewHistogram(duration("cairn_password_hash_duration_seconds",
			"Time for which a slot of the password hasher was busy.", .025, .1, .5)),
		hashesRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_password_hashes_refused_total",
			Help: "Requests that were refused because too many waited for the password hasher.",
		}),
		operations: prometheus.NewHistogramVec(duration("cairn_database_operation_duration_seconds",
			"Database operations: reads by table, writes by name with the wait for other writers and the commit.",
			.001, .01, .1, 1), []string{"operation"}),
		failures: counter("cairn_database_errors_total", "Database operations that failed.", "operation"),
		revoked:  counter("cairn_revocations_total", "Sessions, grants and tokens ended by this process.", "kind"),
	}
	labels := prometheus.Labels{"version": b.Version, "commit": b.Commit, "go_version": b.Go, "sqlite": b.SQLite}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_build_info", Help: "1.", ConstLabels: labels})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		m.requests, m.durations, m.inFlight, m.signIns, m.tokens, m.limits,
		m.unproven, m.hashes, m.hashesRefused, m.operations, m.failures, m.revoked)
	// A rate needs its series to exist before the first event.
	for _, outcome := range []string{"success", "failed", "suspended"} {
		for _, factor := range []string{"password", "passkey"} {
			m.signIns.WithLabelValues(outcome, factor)
		}
	}
	for _, kind := range []string{"session", "grant", "token"} {
		m.revoked.WithLabelValues(kind)
	}
	return m
}

// Limits creates the series of the limits with these names.
func (m *Metrics) Limits(names []string) {
	for _, name := range names {
		m.limits.WithLabelValues(name)
	}
}

// methods are the methods that have series of their own: a stranger may send any word.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// RequestBegun counts a request until RequestEnded.
func (m *Metrics) RequestBegun() { m.inFlight.Inc() }

// RequestEnded counts a request; route is a template, or "" if no path matched.
func (m *Metrics) RequestEnded(route, method string, code int, took time.Duration) {
	m.inFlight.Dec()
	if route == "" {
		route = "none"
	}
	if !slices.Contains(methods, method) {
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(code)).Inc()
	m.durations.WithLabelValues(route, method).Observe(took.Seconds())
}

// SignIn implements web.Observer.
func (m *Metrics) SignIn(outcome, factor string) { m.signIns.WithLabelValues(outcome, factor).Inc() }

// Tokens implements web.Observer.
func (m *Metrics) Tokens(grantType, clientID string) {
	m.tokens.WithLabelValues(grantType, clientID).Inc()
}

// Limited implements web.Observer.
func (m *Metrics) Limited(limit string) { m.limits.WithLabelValues(limit).Inc() }

// Unproven implements web.Observer.
func (m *Metrics) Unproven() { m.unproven.Inc() }

// HashBegun implements password.Observer.
func (m *Metrics) HashBegun() (ended func()) {
	begin := time.Now()
	return func() { m.hashes.Observe(time.Since(begin).Seconds()) }
}

// HashRefused implements password.Observer.
func (m *Metrics) HashRefused() { m.hashesRefused.Inc() }

// Operation implements store.Observer.
func (m *Metrics) Operation(name string, took time.Duration, failed bool) {
	m.operations.WithLabelValues(name).Observe(took.Seconds())
	if failed {
		m.failures.WithLabelValues(name).Inc()
	}
}

// Revoked implements store.Observer.
func (m *Metrics) Revoked(kind string, n int) { m.revoked.WithLabelValues(kind).Add(float64(n)) }

// Handler serves /metrics, and with profiles also /debug/pprof/, which reveals the memory of the
// process. It does not serve the command line, which may hold the password of the database.
func (m *Metrics) Handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 10 * time.Second, ErrorHandling: promhttp.ContinueOnError,
	}))
	if profiles {
		mux.HandleFunc("/debug/pprof/", onlyLocal(pprof.Index))
		mux.HandleFunc("/debug/pprof/profile", onlyLocal(pprof.Profile))
		mux.HandleFunc("/debug/pprof/symbol", onlyLocal(pprof.Symbol))
		mux.HandleFunc("/debug/pprof/trace", onlyLocal(pprof.Trace))
	}
	return mux
}

// onlyLocal refuses host names other than localhost. A page of another site can make its own name
// resolve to this machine and then read the answers (DNS rebinding).
func onlyLocal(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		address, err := netip.ParseAddr(host)
		if !strings.EqualFold(host, "localhost") && (err != nil || !address.IsLoopback()) {
			const text = "Use localhost or a loopback address, through a tunnel from elsewhere."
			http.Error(w, text, http.StatusMisdirectedRequest)
			return
		}
		h(w, r)
	}
}
