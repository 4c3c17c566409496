package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store"
)

// Conditions of readiness.
const (
	checkDatabase   = "database"
	checkMigrations = "migrations"
	checkKey        = "key"
	checkDisk       = "disk"
	checkStop       = "stop"
)

// readyTimeout limits the check of all conditions together: monitors repeat it every few seconds.
const readyTimeout = 2 * time.Second

// leastSpace is the minimum free space beside the file of SQLite, in bytes. With less the next
// writes fail, and a checkpoint of its log has no room.
const leastSpace = 32 << 20

// readiness checks whether this instance can do its work.
type readiness struct {
	stopping   func() bool // after AnnounceStop
	store      *store.Store
	hasKey     bool // a signing key is configured
	mayLackKey bool
	// freeSpace returns the bytes that this user may still write in a folder.
	freeSpace func(folder string) (int64, error)
	file      os.FileInfo // of the SQLite file at the start
	replaced  sync.Once   // logs that it is another one
	log       *slog.Logger
}

// faults returns the error of each condition, nil if it is met. The text of an error has no
// address, path or user.
func (r *readiness) faults(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	faults := map[string]error{checkDatabase: nil, checkMigrations: nil, checkKey: nil, checkDisk: nil}
	switch err := r.store.CheckSchema(ctx); {
	case errors.Is(err, store.ErrNewerSchema):
		// A newer instance has migrated. Migrations keep what this one needs until it is replaced too.
	case errors.Is(err, store.ErrNotMigrated):
		faults[checkMigrations] = err
	case err != nil:
		faults[checkDatabase] = errDatabaseSilent
		faults[checkMigrations] = errNotKnown
		if errors.Is(ctx.Err(), context.Canceled) {
			faults[checkDatabase] = context.Canceled // the client has hung up
		} else {
			r.log.WarnContext(ctx, "not ready", "check", checkDatabase, "error", err)
		}
	}
	if faults[checkDatabase] == nil {
		// Any other error is one of the connection, which the next check finds.
		if err := r.store.CheckWrites(ctx); errors.Is(err, store.ErrTakesNoWrites) {
			faults[checkDatabase] = err
		}
	}
	if !r.hasKey && !r.mayLackKey {
		switch issued, err := r.store.IssuedRS256(ctx); {
		case err != nil:
			faults[checkKey] = errNotKnown
		case issued:
			faults[checkKey] = errNoKey
		}
	}
	if file := r.store.File(); file != "" {
		if now, err := os.Stat(file); r.file != nil && (err != nil || !os.SameFile(r.file, now)) &&
			faults[checkDatabase] == nil {
			faults[checkDatabase] = errFileReplaced
			r.replaced.Do(func() {
				r.log.ErrorContext(ctx, "not ready", "check", checkDatabase, "error", errFileReplaced)
			})
		}
		switch left, err := r.freeSpace(filepath.Dir(file)); {
		case err != nil:
			faults[checkDisk] = errNotKnown
		case left < leastSpace:
			faults[checkDisk] = errDiskFull
		}
	}
	return faults
}

var (
	errStopping       = errors.New("the service is about to stop: use another instance")
	errNotKnown       = errors.New("this could not be checked")
	errDatabaseSilent = errors.New("the database does not answer: the log says why")
	errFileReplaced   = errors.New("the database file was removed or replaced while the service runs, and what is " +
		"written since is lost when it ends: restart the service to use the file that is there, or restore the last " +
		"backup; until then /proc/PID/fd has the former file")
	errNoKey = errors.New("tokens are signed with a private key elsewhere, and this instance has none: " +
		"set --private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) and restart it")
	errDiskFull = errors.New("less than 32 MB are free where the database is: make room, or writes will fail")
)

// states returns the conditions for the metrics, true if met.
func (r *readiness) states(ctx context.Context) map[string]bool {
	met := map[string]bool{}
	for check, fault := range r.faults(ctx) {
		met[check] = fault == nil
	}
	return met
}

// readyAnswer is the body of /readyz. Only the operator gets Checks.
type readyAnswer struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

// serve answers 200, or 503 with Retry-After. Only requests from this machine learn what is wrong.
func (r *readiness) serve(w http.ResponseWriter, req *http.Request) error {
	answer, status := readyAnswer{Status: "ready"}, http.StatusOK
	checks := map[string]string{}
	faults := map[string]error{checkStop: errStopping}
	if !r.stopping() {
		faults = r.faults(req.Context())
	}
	for check, fault := range faults {
		if errors.Is(fault, context.Canceled) {
			return fault
		}
		checks[check] = "ok"
		if fault != nil {
			checks[check] = fault.Error()
			answer.Status, status = "not ready", http.StatusServiceUnavailable
		}
	}
	if status != http.StatusOK {
		w.Header().Set("Retry-After", "5")
		web.Note(req.Context(), "not_ready")
	}
	if fromThisMachine(req) {
		answer.Checks = checks
	}
	return web.WriteJSON(w, status, answer)
}

// fromThisMachine reports whether a request comes from this machine itself. A request that a local
// proxy forwards has a header that says so.
func fromThisMachine(r *http.Request) bool {
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(header)) > 0 {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
