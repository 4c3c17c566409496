package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestWorkIsDoneByOneInstanceAtATime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		take := func(now time.Time) (engine.Turn, bool) {
			t.Helper()
			turn, ok, err := s.TakeTurn(ctx, "sweep", now, 10*time.Minute, time.Minute)
			must(t, err)
			return turn, ok
		}
		// Eight ask at once: one gets it.
		var got atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, ok, err := s.TakeTurn(ctx, "race", noon, time.Hour, time.Minute); err != nil {
					t.Error(err)
				} else if ok {
					got.Add(1)
				}
			})
		}
		if all.Wait(); got.Load() != 1 {
			t.Errorf("%d have the turn", got.Load())
		}

		lost, ok := take(noon)
		if !ok {
			t.Fatal("the first did not get it")
		}
		if _, ok := take(noon.Add(59 * time.Second)); ok {
			t.Error("two at once")
		}
		// Its instance was killed: the lease ends, and what it says later does not count.
		second, ok := take(noon.Add(time.Minute))
		if !ok {
			t.Fatal("kept for ever by one that ended")
		}
		must(t, s.EndTurn(ctx, lost, noon, "late"))
		if done, detail, err := s.LastTurn(ctx, "sweep"); err != nil || !done.IsZero() || detail != "" {
			t.Errorf("%v %q, %v", done, detail, err)
		}
		// Not done: the next may try at once. Done: not before its time.
		must(t, s.EndTurn(ctx, second, time.Time{}, ""))
		third, ok := take(noon.Add(2 * time.Minute))
		if !ok {
			t.Fatal("work that failed is not tried again")
		}
		at := noon.Add(2 * time.Minute)
		must(t, s.EndTurn(ctx, third, at, "3 rows"))
		if _, ok := take(at.Add(10*time.Minute - time.Second)); ok {
			t.Error("done too often")
		}
		if done, detail, err := s.LastTurn(ctx, "sweep"); err != nil || !done.Equal(at) || detail != "3 rows" {
			t.Errorf("%v %q, %v", done, detail, err)
		}
		if _, ok := take(at.Add(10 * time.Minute)); !ok {
			t.Error("not done again")
		}
	})
}

// Work may take longer than a lease. What a killed process has left ends within seconds, and who has
// lost the turn stops.
func TestTurnIsRenewedWhileItsWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dsn := filepath.Join(t.TempDir(), "cairn.db")
		s, other, ctx := storetest.Open(t, dsn), storetest.Open(t, dsn), t.Context()
		tried := func(in *store.Store) (done bool) {
			t.Helper()
			must(t, in.InTurn(ctx, "sweep", time.Hour, func(context.Context, time.Time) (string, error) {
				done = true
				return "", nil
			}))
			return done
		}
		must(t, s.InTurn(ctx, "sweep", time.Hour, func(ctx context.Context, _ time.Time) (string, error) {
			for range 60 {
				time.Sleep(5 * time.Second)
				if ctx.Err() != nil || tried(other) {
					t.Fatal("it has lost the turn")
				}
			}
			return "long", nil
		}))
		if _, detail, err := s.LastTurn(ctx, "sweep"); err != nil || detail != "long" || tried(other) {
			t.Errorf("detail %q: %v", detail, err)
		}
		time.Sleep(time.Hour)
		err := s.InTurn(ctx, "sweep", time.Hour, func(ctx context.Context, _ time.Time) (string, error) {
			must(t, engine.Conn(t.Context(), s.DB).Exec("UPDATE turns SET leased_until = leased_until + 7").Error) // another has it
			<-ctx.Done()
			return "", ctx.Err()
		})
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("lost: %v", err)
		}
		if time.Sleep(time.Minute); !tried(other) { // as after a kill: nobody renews that
			t.Error("kept by nobody")
		}
	})
}
