package web

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Queue works through a table of the database that several instances share. What is in
// it is leased before it is done, so that each item is one instance's, and what an
// instance leaves behind when it ends is done by the next.
type Queue[T any] struct {
	Name     string        // for the log
	Poll     time.Duration // how often to look for what is due
	Parallel int
	Wake     <-chan struct{} // something is due now; nil: Poll alone tells
	// Lease returns at most limit items that are due.
	Lease func(ctx context.Context, limit int) ([]T, error)
	Do    func(ctx context.Context, item T)
	Log   *slog.Logger
}

// Run does what is due until the context ends, and returns when all that was begun has ended.
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
						// An item that nobody can do stops neither the others nor the service: it
						// is leased again later.
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
		if leased < free {
			next = nil // there is no more
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
