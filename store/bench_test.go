package store_test

import (
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// eachBench runs f on each database.
func eachBench(b *testing.B, f func(b *testing.B, s *store.Store)) {
	b.Run(store.SQLite, func(b *testing.B) { f(b, storetest.Open(b, filepath.Join(b.TempDir(), "cairn.db"))) })
	b.Run(store.Postgres, func(b *testing.B) { f(b, storetest.NewPostgres(b)) })
}

func prepare(b *testing.B, s *store.Store) (*provider.Client, account.Session) {
	b.Helper()
	id := uuid.NewString()
	return addClient(b, s, "app-"+id), signIn(b, s, addUser(b, s, "ada-"+id, "activity"))
}

// atOnce measures n calls by so many workers. The CPU time of this process is reported beside
// the wall time, which goes by the disk: on PostgreSQL it is that of the client alone.
func atOnce(b *testing.B, workers int, call func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	var next atomic.Int64
	var all sync.WaitGroup
	before := cpuTime(b)
	b.ResetTimer()
	for range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// eachWorkers runs f alone, and beside others, on each database.
func eachWorkers(b *testing.B, f func(b *testing.B, s *store.Store, workers int)) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		for _, workers := range []int{1, 8, 32} {
			b.Run(strconv.Itoa(workers), func(b *testing.B) { f(b, s, workers) })
		}
	})
}

// makeGrants stores grants with their codes.
func makeGrants(b *testing.B, s *store.Store, n int) []*provider.Grant {
	b.Helper()
	c, session := prepare(b, s)
	grants := make([]*provider.Grant, n)
	for i := range grants {
		grants[i] = newGrant(c, session, "openid", "offline_access")
	}
	var next atomic.Int64
	wins(b, race(32, func(int) error {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			if err := s.CreateGrant(b.Context(), grants[i]); err != nil {
				return err
			}
		}
		return nil
	}))
	return grants
}

// What an exchange of a code writes.
func BenchmarkCodeExchange(b *testing.B) {
	eachWorkers(b, func(b *testing.B, s *store.Store, workers int) {
		grants := makeGrants(b, s, b.N)
		atOnce(b, workers, func(i int) error {
			id := grants[i].ID
			return s.SpendCode(b.Context(), id, []provider.Token{accessToken("a" + id), refreshToken("r" + id)})
		})
	})
}

func BenchmarkRefresh(b *testing.B) {
	eachWorkers(b, func(b *testing.B, s *store.Store, workers int) {
		grants := makeGrants(b, s, workers)
		for _, g := range grants {
			must(b, s.SpendCode(b.Context(), g.ID, []provider.Token{refreshToken(g.ID + " 0")}))
		}
		rounds := make([]int, workers)
		free := make(chan int, workers)
		for i := range workers {
			free <- i
		}
		atOnce(b, workers, func(int) error {
			w := <-free
			defer func() { free <- w }()
			id, n := grants[w].ID, rounds[w]
			rounds[w]++
			return s.RotateRefreshToken(b.Context(), id, name(id, " ", n), []provider.Token{accessToken(name("a", id, " ", n)), refreshToken(name(id, " ", n+1))})
		})
	})
}

func BenchmarkAuthorize(b *testing.B) {
	eachWorkers(b, func(b *testing.B, s *store.Store, workers int) {
		c, session := prepare(b, s)
		atOnce(b, workers, func(int) error { return s.CreateGrant(b.Context(), newGrant(c, session, "openid")) })
	})
}

func BenchmarkSignIn(b *testing.B) {
	eachWorkers(b, func(b *testing.B, s *store.Store, workers int) {
		users := make(chan account.User, workers)
		for i := range workers {
			users <- addUser(b, s, name("user", workers, "x", b.N, "x", i))
		}
		atOnce(b, workers, func(int) error {
			u := <-users
			defer func() { users <- u }()
			return s.CreateSession(b.Context(), newSession(u.Sub), u.PasswordHash, act("session.create"))
		})
	})
}

func BenchmarkSessionLookup(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		_, n := prepare(b, s)
		for b.Loop() {
			_, _, err := s.Session(b.Context(), n.ID)
			must(b, err)
		}
	})
}

func BenchmarkAccessTokenLookup(b *testing.B) {
	eachBench(b, func(b *testing.B, s *store.Store) {
		c, n := prepare(b, s)
		access, _ := addTokens(b, s, newGrantStored(b, s, c, n))
		for b.Loop() {
			_, err := useToken(b.Context(), s, access)
			must(b, err)
		}
	})
}
