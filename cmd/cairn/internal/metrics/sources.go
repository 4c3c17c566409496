package metrics

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources are read at each scrape. All but Key, Files and CertificateEnd are required.
type Sources struct {
	Now        func() time.Time
	HeldStatus func() int // requests that wait for a change of a status list
	HashQueue  func() (waiting, busy int)
	Pool       func() sql.DBStats
	// Files returns the sizes of the database's files and the free space beside them, in bytes; nil
	// if the database has no file.
	Files func() (database, wal, free int64, err error)
	// Outboxes return by name how many messages wait to be sent and since when; zero: none wait.
	Outboxes map[string]func(context.Context) (waiting int, oldest time.Time, err error)
	// Work returns by name when background work was last done; zero: not yet.
	Work map[string]func(context.Context) (time.Time, error)
	// ClockWait returns until when sweep and ends wait because the clock jumped; zero: they do not.
	ClockWait func(context.Context) (until time.Time, why string, err error)
	// Ready returns the conditions of readiness, true if met.
	Ready func(context.Context) map[string]bool
	// Key returns the signing key's id and when it was created; nil: there is no key.
	Key func() (kid string, created time.Time, err error)
	// CertificateEnd returns until when the certificate of the service is valid; nil: it has none.
	CertificateEnd func() (time.Time, error)
}

// scrapeTimeout limits all database reads of a scrape: a database that hangs must not hold up the other
// series.
const scrapeTimeout = 2 * time.Second

var (
	held        = gauge("cairn_status_requests_held", "Requests that wait for a change of a status list.")
	hashWaiting = gauge("cairn_password_hashes_waiting", "Requests that wait for the password hasher.")
	hashBusy    = gauge("cairn_password_hashes_busy",
		"Busy slots of the password hasher; it has one less than processors, at least one.")
	connections = gauge("cairn_database_connections", "Connections to the database.", "state")
	maximum     = gauge("cairn_database_connections_max", "Maximum number of connections to the database.")
	waits       = gauge("cairn_database_connection_waits_total", "Waits for a connection to the database.")
	waited      = gauge("cairn_database_connection_wait_seconds_total",
		"Time of the waits for a connection to the database.")
	fileBytes = gauge("cairn_database_file_bytes", "Size of the files of SQLite.", "file")
	free      = gauge("cairn_database_free_bytes", "Free space where the file of SQLite is.")
	waiting   = gauge("cairn_outbox_waiting", "Messages that wait to be sent.", "outbox")
	age       = gauge("cairn_outbox_oldest_age_seconds",
		"Age of the oldest waiting message, 0 if none waits.", "outbox")
	lastDone = gauge("cairn_work_last_done_timestamp_seconds",
		"When any instance last did background work, 0 if not yet.", "work")
	clockWaits = gauge("cairn_clock_wait",
		"1 while the deletion of expired rows and ends of memberships wait because the clock jumped.")
	ready      = gauge("cairn_ready", "1 if a condition of /readyz is met.", "check")
	keyCreated = gauge("cairn_signing_key_created_timestamp_seconds",
		"When the file of the signing key was last changed.", "kid")
	certificateEnd = gauge("cairn_tls_certificate_end_timestamp_seconds",
		"Until when the file of the TLS certificate is valid.")
	unread = gauge("cairn_metrics_read_errors_total", "Series that could not be read at a scrape.")
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Read adds the series of sources. Call it once.
func (m *Metrics) Read(s Sources) { m.registry.MustRegister(&reader{Sources: s}) }

// reader implements prometheus.Collector.
type reader struct {
	Sources
	failed atomic.Int64
}

// Describe implements prometheus.Collector.
func (r *reader) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		held, hashWaiting, hashBusy, connections, maximum, waits, waited, fileBytes, free, waiting, age,
		lastDone, clockWaits, ready, keyCreated, certificateEnd, unread,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It omits and counts the series that it cannot read.
func (r *reader) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	succeeded := func(err error) bool {
		if err != nil {
			r.failed.Add(1)
		}
		return err == nil
	}
	put(held, float64(r.HeldStatus()))
	inQueue, busy := r.HashQueue()
	put(hashWaiting, float64(inQueue))
	put(hashBusy, float64(busy))
	pool := r.Pool()
	put(connections, float64(pool.InUse), "in_use")
	put(connections, float64(pool.Idle), "idle")
	put(maximum, float64(pool.MaxOpenConnections))
	count(waits, float64(pool.WaitCount))
	count(waited, pool.WaitDuration.Seconds())
	if r.Files != nil {
		if database, wal, left, err := r.Files(); succeeded(err) {
			put(fileBytes, float64(database), "database")
			put(fileBytes, float64(wal), "wal")
			put(free, float64(left))
		}
	}
	if r.Key != nil {
		if kid, created, err := r.Key(); succeeded(err) {
			put(keyCreated, float64(created.Unix()), kid)
		}
	}
	if r.CertificateEnd != nil {
		if end, err := r.CertificateEnd(); succeeded(err) {
			put(certificateEnd, float64(end.Unix()))
		}
	}
	for check, met := range r.Ready(ctx) {
		v := 0.0
		if met {
			v = 1
		}
		put(ready, v, check)
	}
	for name, state := range r.Outboxes {
		if n, oldest, err := state(ctx); succeeded(err) {
			put(waiting, float64(n), name)
			seconds := 0.0
			if !oldest.IsZero() {
				seconds = max(0, r.Now().Sub(oldest).Seconds())
			}
			put(age, seconds, name)
		}
	}
	for name, last := range r.Work {
		if done, err := last(ctx); succeeded(err) {
			v := 0.0
			if !done.IsZero() {
				v = float64(done.Unix())
			}
			put(lastDone, v, name)
		}
	}
	if until, _, err := r.ClockWait(ctx); succeeded(err) {
		v := 0.0
		if !until.IsZero() {
			v = 1
		}
		put(clockWaits, v)
	}
	count(unread, float64(r.failed.Load()))
}
