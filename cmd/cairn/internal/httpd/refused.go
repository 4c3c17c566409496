package httpd

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/templates"
)

const (
	refusedInterval = 2 * time.Second
	// refusedTimeout limits a write, so that a stop does not wait for a database that is down.
	refusedTimeout = 5 * time.Second
	// maxRefused limits those that wait to be written: of people who are signed in, and of others.
	maxRefused = 100
)

// refused collects refused sign-ins and stores them behind the answers, a batch at a time: anybody can cause them,
// and none may cost a write of its own.
type refused struct {
	store *store.Store
	log   *slog.Logger

	mu      sync.Mutex
	waiting map[bool][]provider.RefusedSignIn // by SignedIn
}

// note adds the request of a log line if it is a refused sign-in.
func (f *refused) note(n provider.RefusedSignIn) {
	if !templates.ExplainsRefusal(n.Reason) || n.ClientID == "" && n.Reason != "client_unknown" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting == nil {
		f.waiting = map[bool][]provider.RefusedSignIn{}
	}
	if len(f.waiting[n.SignedIn]) < maxRefused {
		f.waiting[n.SignedIn] = append(f.waiting[n.SignedIn], n)
	}
}

// write stores what waits.
func (f *refused) write(ctx context.Context) {
	f.mu.Lock()
	batch := append(f.waiting[true], f.waiting[false]...)
	f.waiting = nil
	f.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	if err := f.store.AddRefusedSignIns(ctx, batch); err != nil {
		f.log.WarnContext(ctx, "refused sign-ins not stored", "count", len(batch), "error", err)
	}
}

// run stores them until ctx ends, the last ones then.
func (f *refused) run(ctx context.Context) {
	tick := time.NewTicker(refusedInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusedTimeout)
		f.write(last)
		cancel()
	}
}

// list returns them, newest first.
func (f *refused) list(ctx context.Context) (rows []templates.RefusedRow, err error) {
	f.write(ctx)
	list, err := f.store.RefusedSignIns(ctx)
	for _, n := range list {
		rows = append(rows, templates.RefusedRow(n))
	}
	return rows, err
}
