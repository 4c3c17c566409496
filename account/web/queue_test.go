package web_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

func TestItemThatPanicsStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		var done atomic.Int32
		items := []int{0, 1, 0, 2}
		web.Queue[int]{
			Name: "things", Poll: time.Second, Parallel: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Lease: func(_ context.Context, limit int) ([]int, error) {
				if len(items) == 0 {
					cancel()
					return nil, nil
				}
				next := items[:limit]
				items = items[limit:]
				return next, nil
			},
			Do: func(_ context.Context, item int) {
				if item == 0 {
					panic("poison")
				}
				done.Add(1)
			},
		}.Run(ctx)
		if done.Load() != 2 || strings.Count(log.String(), "poison") < 2 {
			t.Errorf("%d done, log %s", done.Load(), &log)
		}
	})
}

// Fewer than there are slots may begin at once, and the next as soon as one has ended.
func TestItemsThatWaitForOthersBeginWhenTheseEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		var busy atomic.Bool
		left := 3
		web.Queue[int]{
			Name: "things", Poll: time.Hour, Parallel: 16, Log: slog.New(slog.DiscardHandler),
			Lease: func(context.Context, int) ([]int, error) {
				if left == 0 {
					cancel()
				}
				if left == 0 || busy.Swap(true) {
					return nil, nil
				}
				left--
				return []int{left}, nil
			},
			Do: func(context.Context, int) {
				time.Sleep(time.Second)
				busy.Store(false)
			},
		}.Run(ctx)
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("three items of a second took %s", took)
		}
	})
}
