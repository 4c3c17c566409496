package httpd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/store"
)

// observe makes the packages report to the metrics, and gives the metrics the sources that they
// read at a scrape.
func observe(o Options, accounts *site.Site, ready *readiness) error {
	if err := o.Store.Observe(o.Metrics); err != nil {
		return err
	}
	o.Hasher.Observer = o.Metrics
	var limits []string
	for name, l := range o.Config.RateLimits {
		if l.Count > 0 {
			limits = append(limits, name)
		}
	}
	o.Metrics.Limits(slices.Sorted(slices.Values(limits)))
	work := func(name string) func(context.Context) (time.Time, error) {
		return func(ctx context.Context) (time.Time, error) {
			done, _, err := o.Store.LastTurn(ctx, name)
			return done, err
		}
	}
	sources := metrics.Sources{
		Now: o.Now, HeldStatus: accounts.StatusLists.Held, HashQueue: o.Hasher.Queue, Pool: o.Store.PoolStats,
		Ready: ready.states,
		Outboxes: map[string]func(context.Context) (int, time.Time, error){
			"mails": func(ctx context.Context) (int, time.Time, error) {
				state, err := o.Store.MailState(ctx)
				return state.Waiting, state.Oldest, err
			},
			"logout_notices": o.Store.LogoutState,
		},
		Work: map[string]func(context.Context) (time.Time, error){
			"sweep": work(store.TurnSweep), "backup": work(store.TurnBackup),
		},
		ClockWait: o.Store.ClockWait,
	}
	if file := o.Store.File(); file != "" {
		sources.Files = func() (database, wal, free int64, err error) {
			for name, size := range map[string]*int64{file: &database, file + "-wal": &wal} {
				if info, err := os.Stat(name); err == nil {
					*size = info.Size()
				} else if !os.IsNotExist(err) {
					return 0, 0, 0, err
				}
			}
			free, err = ready.freeSpace(filepath.Dir(file))
			return database, wal, free, err
		}
	}
	if o.KeyFile != "" && len(o.Keys) > 0 {
		sources.Key = func() (string, time.Time, error) {
			created, err := keyCreated(o.KeyFile)
			return o.Keys[0].KeyID, created, err
		}
	}
	if files := o.Config.TLS; files != nil {
		sources.CertificateEnd = func() (time.Time, error) {
			certificate, err := files.Load()
			if err != nil {
				return time.Time{}, err
			}
			return certificate.Leaf.NotAfter, nil
		}
	}
	o.Metrics.Read(sources)
	return nil
}
