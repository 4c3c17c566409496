package store_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// However many count at once, over two instances, no more get in than fit.
func TestCounterHoldsItsLimit(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []web.Counters{storetest.Open(t, dsn).Counters(), storetest.Open(t, dsn).Counters()}
		c := web.Counter{Name: "reset", Key: "odd \x00\xff key", Rate: web.Rate{Count: 10, Window: time.Minute}}
		taken := make([]int, 64)
		wins(t, race(len(taken), func(i int) error {
			ok, err := instances[i%2].Take(t.Context(), c, noon, true)
			if ok {
				taken[i] = 1
			}
			return err
		}))
		sum := 0
		for _, n := range taken {
			sum += n
		}
		same(t, "sum", sum, 10)
		// An instance that crashes settles nothing: what it has taken counts.
		late, err := instances[1].Counts(t.Context(), c, noon.Add(web.UndecidedTime))
		must(t, err)
		equal(t, "late", late, web.Counts{Current: web.Tally{Events: 10}})
		wins(t, race(sum, func(i int) error { return instances[i%2].Settle(t.Context(), c, noon, i < 3) }))
		got, err := instances[0].Counts(t.Context(), c, noon)
		must(t, err)
		equal(t, "got", got, web.Counts{Current: web.Tally{Events: 3}})
	})
}

// The database counts as the memory does: the same verdicts and the same counts over
// any sequence of events, settlements and times, settled or not.
func TestCountersInDatabaseAndMemoryAgree(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		random := rand.New(rand.NewPCG(1, 2))
		for _, limit := range []web.Rate{{Count: 1, Window: time.Second}, {Count: 3, Window: 45 * time.Second},
			{Count: 10, Window: 15 * time.Minute}} {
			database, memory := s.Counters(), web.NewMemoryCounters()
			now, open := noon, []time.Time{}
			c := web.Counter{Name: limit.Window.String(), Key: "k", Rate: limit}
			for step := range 200 {
				pause := time.Duration(random.Int64N(int64(limit.Window) / int64(limit.Count)))
				now = now.Add(pause).Truncate(time.Millisecond)
				if len(open) > 0 && random.IntN(3) == 0 {
					counts := random.IntN(2) == 0
					must(t, database.Settle(t.Context(), c, open[0], counts))
					must(t, memory.Settle(t.Context(), c, open[0], counts))
					open = open[1:]
				}
				undecided := random.IntN(2) == 0
				here, err := database.Take(t.Context(), c, now, undecided)
				must(t, err)
				there, err := memory.Take(t.Context(), c, now, undecided)
				must(t, err)
				if here && undecided {
					open = append(open, now)
				}
				found, err := database.Counts(t.Context(), c, now)
				must(t, err)
				expected, err := memory.Counts(t.Context(), c, now)
				must(t, err)
				if diff := cmp.Diff(expected, found); here != there || diff != "" {
					t.Fatalf("%+v, step %d: %t in the database and %t in memory\n%s", limit, step, here, there, diff)
				}
			}
		}
	})
}
