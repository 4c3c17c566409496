package web

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Queue processes a table of the database that several instances share. Items are leased before
// they are processed, so that one instance has each, and items of an instance that ended are
// processed by another.
type Queue[T any] struct {
	Name     string        // for the log
	Poll     time.Duration // how often to look for what is due
	Parallel int
	Wake     <-chan struct{} // something is due now; nil: only Poll counts
	// Lease returns at most limit due items.
	Lease func(ctx context.Context, limit int) ([]T, error)
	Do    func(ctx context.Context, item T)
	Log   *slog.Logger
}

// Run processes due items until ctx ends. It returns when everything that was begun has ended.
func (q Queue[T]) Run(ctx context.Context) {
	slots := make(chan struct{}, q.Parallel)
	ended := make(chan struct{}, 1) // has a value when a slot was given back
	tick := time.NewTicker(q.Poll)
	defer tick.Stop()
	for {
		free := cap(slots) - len(slots)
		leased := 0
		if free > 0 {
			due, err := q.Lease(ctx, free)
			if err != nil && ctx.Err() == nil {
				q.Log.WarnContext(ctx, q.Name+" not read", "error", err)
			}
			leased = len(due)
			for _, item := range due {
				slots <- struct{}{}
				go func() {
					defer func() {
						// An item that always fails stops neither the others nor the service: it is
						// leased again later.
						if v := recover(); v != nil {
							q.Log.ErrorContext(ctx, "panic", "queue", q.Name, "panic", fmt.Sprint(v), "stack",
								string(debug.Stack()))
						}
						<-slots
						select {
						case ended <- struct{}{}:
						default:
						}
					}()
					q.Do(ctx, item)
				}()
			}
		}
		next := ended
		if leased == 0 && free > 0 {
			next = nil // none is left that may begin
		}
		select {
		case <-ctx.Done():
			for range cap(slots) { // until the last one has ended
				slots <- struct{}{}
			}
			return
		case <-tick.C:
		case <-q.Wake:
		case <-next:
		}
	}
}

// Backoff returns the pause before the next attempt: first, doubled for each earlier failure, at
// most an hour, and up to a quarter more, so that what failed together is not retried together.
func Backoff(first time.Duration, failures int) time.Duration {
	d := min(time.Hour, first<<min(failures, 20))
	return d + rand.N(d/4) //nolint:gosec // nobody gains by guessing it
}
