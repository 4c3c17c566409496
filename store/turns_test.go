package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestWorkIsDoneByOneInstanceAtATime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		take := func(now time.Time) (store.Turn, bool) {
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
