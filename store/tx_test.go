package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestDatabaseFailureIsNotAnAnswer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		ended, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer end()
		gone := storetest.New(t)
		must(t, gone.Exec("DROP TABLE sessions"))
		must(t, gone.Exec("DROP TABLE tokens"))
		for _, x := range []struct {
			s   *store.Store
			ctx context.Context
		}{{s, ended}, {gone, t.Context()}} {
			_, _, err := x.s.Session(x.ctx, "some id")
			want(t, err, account.ErrUnavailable)
			_, err = useToken(x.ctx, x.s, "some signature")
			want(t, err, account.ErrUnavailable)
			want(t, x.s.EndSession(ended, u.Sub, "some id", noon, act("session.end")), account.ErrUnavailable)
		}
		_, err := s.UserByHandle(ended, "ada")
		want(t, err, account.ErrUnavailable)
		want(t, err, context.DeadlineExceeded)
		_, err = s.Client(ended, "app")
		want(t, err, account.ErrUnavailable)
		want(t, s.CreateUser(ended, newUser("bob"), act("user.create")), account.ErrUnavailable)
		_, err = s.UserByHandle(t.Context(), "bob")
		want(t, err, account.ErrUserNotFound)
	})
}

// A caller that gives up has not found the database failing: not while the statement
// waits for another writer, nor before it.
func TestCanceledCallIsNoFailureOfTheDatabase(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s, other := storetest.Open(t, dsn), storetest.Open(t, dsn)
		if s.Dialect() == store.SQLite {
			other = s // SQLite does not cancel a wait for another process
		}
		u := addUser(t, s, "ada")
		n := signIn(t, s, u)
		g := newGrantStored(t, s, addClient(t, s, "app"), n)
		holder, end, err := other.Begin(t.Context())
		must(t, err)
		must(t, holder.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, "held"))
		must(t, holder.SpendCode(t.Context(), g.ID, nil))
		before, cancel := context.WithCancel(t.Context())
		cancel()
		for what, call := range map[string]func(ctx context.Context) error{
			"read":        func(ctx context.Context) error { _, err := s.UserByHandle(ctx, "ada"); return err },
			"statement":   func(ctx context.Context) error { return s.UpgradeHash(ctx, u.Sub, u.PasswordHash, "new") },
			"transaction": func(ctx context.Context) error { return s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")) },
			"exchange":    func(ctx context.Context) error { return s.SpendCode(ctx, g.ID, nil) },
		} {
			for when, ctx := range map[string]context.Context{"before": before, "during": nil} {
				if ctx == nil {
					if what == "read" {
						continue // waits for no lock
					}
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(50*time.Millisecond, cancel)
				}
				err := call(ctx)
				want(t, err, context.Canceled)
				if errors.Is(err, account.ErrUnavailable) {
					t.Errorf("%s, canceled %s: %v", what, when, err)
				}
			}
		}
		must(t, end(false))
	})
}

// silentProxy is between the store and PostgreSQL. While it is silent it takes
// what it is sent and answers nothing, as a network that has lost the way: the
// connections of that time are never closed, and never answer again.
type silentProxy struct {
	mu     sync.Mutex
	silent bool
	all    []net.Conn
}

// startProxy returns the address of the database at dsn behind the proxy.
func startProxy(t *testing.T, dsn string) (*silentProxy, string) {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	must(t, err)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &silentProxy{}
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.all {
			_ = c.Close()
		}
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.all = append(p.all, client, server)
			p.mu.Unlock()
			go p.pass(client, server)
			go p.pass(server, client)
		}
	}()
	u, err := url.Parse(dsn)
	must(t, err)
	q := u.Query()
	q.Del("host")
	u.Host, u.RawQuery = l.Addr().String(), q.Encode()
	return p, u.String()
}

func (p *silentProxy) pass(from, to net.Conn) {
	b := make([]byte, 4096)
	for lost := false; ; {
		n, err := from.Read(b)
		p.mu.Lock()
		lost = lost || p.silent
		p.mu.Unlock()
		if err == nil && !lost {
			_, err = to.Write(b[:n])
		}
		if err != nil {
			if !lost {
				_ = to.Close()
			}
			return
		}
	}
}

func (p *silentProxy) beSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

// A connection that is dead without a word (a pulled cable, a firewall that forgot
// it) blocks no caller: reads, writes and transactions end by themselves, with contexts
// that never do, and afterwards all is well without a restart.
func TestNoCallWaitsForAConnectionThatIsSilent(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		if !strings.HasPrefix(dsn, "postgres") {
			t.Skip("a file has no connection")
		}
		direct := storetest.Open(t, dsn)
		u := addUser(t, direct, "ada")
		n := signIn(t, direct, u)
		addClient(t, direct, "app")
		_, err := direct.Initialize(t.Context(), account.DefaultSettings(), nil)
		must(t, err)
		proxy, behind := startProxy(t, dsn)
		s, err := store.Open(t.Context(), behind,
			store.Options{Log: slog.New(slog.DiscardHandler), Timeout: 2 * time.Second})
		must(t, err)
		defer func() { _ = s.Close() }()
		ctx := context.Background()
		calls := map[string]func() error{
			"settings":  func() error { _, err := s.Settings(ctx); return err },
			"user":      func() error { _, err := s.UserByHandle(ctx, "ada"); return err },
			"client":    func() error { _, err := s.Client(ctx, "app"); return err },
			"session":   func() error { _, _, err := s.Session(ctx, n.ID); return err },
			"schema":    func() error { return s.Ping(ctx) },
			"statement": func() error { return s.UpgradeHash(ctx, u.Sub, "no", "new") },
			"revoke":    func() error { return s.RevokeGrant(ctx, "no grant", noon) },
			"write": func() error {
				_, err := s.EndSessions(ctx, u.Sub, noon, during(n.ID, act("session.end_others")))
				return err
			},
			"transaction": func() error { return s.SaveConsent(ctx, u.Sub, "app", []string{"openid"}, noon, act("app.allow")) },
		}
		var warm []func(bool) error // each call is to find a connection of before the silence
		for range calls {
			_, end, err := s.Begin(ctx)
			must(t, err)
			warm = append(warm, end)
		}
		for _, end := range warm {
			must(t, end(false))
		}
		proxy.beSilent(true)
		type ended struct {
			what string
			err  error
		}
		all := make(chan ended, len(calls))
		for what, call := range calls {
			go func() { all <- ended{what, call()} }()
		}
		late := time.After(time.Minute)
		for range calls {
			select {
			case got := <-all:
				fails(t, got.what, got.err, account.ErrUnavailable)
			case <-late:
				t.Fatal("a call waits for a connection that is silent")
			}
		}
		proxy.beSilent(false)
		for what, call := range calls {
			for range 20 { // at most what the pool has of dead connections
				if err = call(); err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("%s afterwards: %v", what, err)
			}
		}
	})
}

// openHasty opens a store whose statements have so little time. On a busy machine it may take several attempts.
func openHasty(t *testing.T, dsn string, timeout time.Duration) (s *store.Store) {
	t.Helper()
	var err error
	for range 100 {
		s, err = store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler), Timeout: timeout})
		if !errors.Is(err, account.ErrUnavailable) {
			break
		}
	}
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A statement that does not come to an end is ended, on either database.
func TestEveryStatementHasADeadline(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := openHasty(t, dsn, 200*time.Millisecond)
		_, err := s.Count("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n")
		want(t, err, context.DeadlineExceeded)
	})
}

// Nor does one that finds all connections in use wait for ever, and a caller who gives up
// is not told that the database failed.
func TestWaitForAConnectionHasADeadline(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		n := signIn(t, storetest.Open(t, dsn), addUser(t, storetest.Open(t, dsn), "ada"))
		s := openHasty(t, dsn, 100*time.Millisecond)
		free, err := s.HoldConnections(t.Context())
		must(t, err)
		_, _, err = s.Session(context.Background(), n.ID)
		want(t, err, account.ErrUnavailable)
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, err = s.Session(gone, n.ID)
		want(t, err, context.Canceled)
		must(t, free())
		for range 100 { // 100 ms are little on a busy machine
			if _, _, err = s.Session(context.Background(), n.ID); err == nil {
				break
			}
		}
		must(t, err)
	})
}

// Callers that give up in the midst of a transaction leave connections that are closed: those
// who wait for one get another.
func TestCallersThatGiveUpDoNotFailOthers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const callers = 32
		users := make([]account.User, callers)
		for i := range users {
			users[i] = addUser(t, s, name("user", i))
		}
		errs := race(callers, func(i int) error {
			for range 5 {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := s.ChangeUser(ctx, users[i].Sub, func(*account.User) error {
					if i%2 == 0 {
						cancel()
					}
					return nil
				}, noon, nil)
				cancel()
				if i%2 == 0 {
					if !errors.Is(err, context.Canceled) {
						return fmt.Errorf("a call that was given up: %w", err)
					}
				} else if err != nil {
					return err
				}
			}
			return nil
		})
		wins(t, errs)
	})
}

// An operation whose statements go through gorm does not keep the request that it was done for.
func TestOperationLetsItsRequestGo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		c, u := addClient(t, s, "app"), addUser(t, s, "ada")
		n := signIn(t, s, u)
		for name, do := range map[string]func(context.Context) error{
			"grant for an API": func(ctx context.Context) error {
				g := newGrant(c, n, "openid")
				g.Resources = []string{"urn:api"}
				return s.CreateGrant(ctx, g)
			},
			"request of a device": func(ctx context.Context) error {
				return s.CreateDevice(ctx, &provider.DeviceRequest{
					CodeSignature: rand.Text(), UserHash: []byte(rand.Text()), ClientID: c.ID, CreatedAt: noon, ExpiresAt: noon.Add(time.Minute),
				})
			},
		} {
			var requests []weak.Pointer[[1 << 10]byte]
			for range 20 {
				func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					request := new([1 << 10]byte)
					must(t, do(context.WithValue(ctx, requestKey{}, request)))
					requests = append(requests, weak.Make(request))
				}()
			}
			// Goroutines of database/sql may still be ending. What kept requests did so for 10 s.
			for end := time.Now().Add(4 * time.Second); len(requests) > 10 && time.Now().Before(end); {
				runtime.GC()
				requests = slices.DeleteFunc(requests,
					func(p weak.Pointer[[1 << 10]byte]) bool { return p.Value() == nil })
			}
			// A pool of connections may hold the last request of each.
			if len(requests) > 10 {
				t.Errorf("%s: %d of 20 are still there", name, len(requests))
			}
		}
	})
}

type requestKey struct{}
