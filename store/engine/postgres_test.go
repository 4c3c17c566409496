package engine_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/storetest"
)

// hostsURL is the URL of an empty database with other hosts before the server's own;
// parameters are pairs.
func hostsURL(t *testing.T) func(hosts, ports string, parameters ...string) string {
	t.Helper()
	t.Parallel()
	config, err := pgx.ParseConfig(storetest.PostgresDSN(t))
	must(t, err)
	return func(hosts, ports string, parameters ...string) string {
		q := url.Values{"host": {hosts + config.Host}, "port": {ports + fmt.Sprint(config.Port)},
			"search_path": {config.RuntimeParams["search_path"]}, "sslmode": {"disable"}}
		for i := 0; i < len(parameters); i += 2 {
			q.Set(parameters[i], parameters[i+1])
		}
		return "postgres://" + config.User + "@/" + config.Database + "?" + q.Encode()
	}
}

// A host that refuses and one that hangs are passed over.
func TestHostThatHangsIsPassedOver(t *testing.T) {
	dsn := hostsURL(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	var asked atomic.Int64
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	_, port, err := net.SplitHostPort(silent.Addr().String())
	must(t, err)
	// Nothing listens on port 1.
	s := open(t, dsn("127.0.0.1,127.0.0.1,", "1,"+port+","))
	must(t, write(t, s))
	if asked.Load() == 0 {
		t.Error("the silent host was not asked")
	}
}

// A connection to a server that takes no writes is not used again.
func TestConnectionThatTakesNoWritesIsDropped(t *testing.T) {
	dsn := hostsURL(t)
	_, err := store.Open(t.Context(), dsn("127.0.0.1,", "1,", "default_transaction_read_only", "on"), store.Options{})
	want(t, err, account.ErrUnavailable)
	s := open(t, dsn("127.0.0.1,", "1,", "default_transaction_read_only", "on", "target_session_attrs", "any", "pool_max_conns", "2"))
	backends := func() (pids [2]int64) {
		t.Helper()
		// Two at once: the connections of the pool.
		undone := errors.New("undone")
		err := engine.Together(t.Context(), s.DB, "look", time.Minute, func(tx *engine.Tx, in *engine.DB) {
			for i, each := range []*engine.DB{in, s.DB} {
				must(t, engine.Conn(t.Context(), each).Raw("SELECT pg_backend_pid()").Find(&pids[i]).Error)
			}
			tx.Refuse(undone)
		})
		want(t, err, undone)
		return pids
	}
	before := backends()
	want(t, write(t, s), account.ErrUnavailable)
	want(t, write(t, s), account.ErrUnavailable)
	for _, pid := range backends() {
		if pid == before[0] || pid == before[1] {
			t.Errorf("of the connections %v one is used after it was found to take no writes", before)
		}
	}
}

func TestPoolSizeIsInTheURL(t *testing.T) {
	dsn := hostsURL(t)
	for size, want := range map[string]int{"": 16, "2": 2, "100": 100, "1": 0, "many": 0} {
		url := dsn("", "")
		if size != "" {
			url = dsn("", "", "pool_max_conns", size)
		}
		s, err := store.Open(t.Context(), url, store.Options{})
		if want == 0 {
			if err == nil || !strings.Contains(err.Error(), "pool_max_conns") {
				t.Errorf("%s: %v", size, err)
			}
			continue
		}
		must(t, err)
		same(t, fmt.Sprintf("%q: connections", size), s.PoolStats().MaxOpenConnections, want)
		must(t, s.Close())
	}
}

// A role that owns nothing in the database: since PostgreSQL 15 it may not make tables, and what it may read
// is not enough.
func TestRoleThatMayNotWriteIsToldSo(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		if !store.IsPostgres(dsn) {
			return
		}
		db, err := sql.Open("pgx", dsn)
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		var schema string
		must(t, db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
		role := "reader_" + strings.ToLower(rand.Text())
		do := func(statement string) {
			_, err := db.ExecContext(context.WithoutCancel(t.Context()), statement)
			must(t, err)
		}
		do("CREATE ROLE " + role)
		t.Cleanup(func() { do("DROP OWNED BY " + role); do("DROP ROLE " + role) })
		do("GRANT USAGE ON SCHEMA " + schema + " TO " + role)
		s, err := store.Open(t.Context(), dsn+"&role="+role, store.Options{Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "may not create tables") {
			t.Error(err)
		}
		must(t, storetest.Open(t, dsn).Migrate(t.Context()))
		if _, err := s.SchemaVersion(t.Context()); !store.Denied(err) {
			t.Error(err)
		}
		do("GRANT SELECT ON ALL TABLES IN SCHEMA " + schema + " TO " + role)
		if err := s.CheckWrites(t.Context()); !errors.Is(err, store.ErrTakesNoWrites) || !strings.Contains(err.Error(), "owner of the tables") {
			t.Error(err)
		}
	})
}

// startPooler is what PgBouncer is in transaction mode: clients take turns on one connection to the server. It returns
// its port.
func startPooler(t *testing.T, dsn string) (port string) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), dsn)
	must(t, err)
	server, err := conn.Hijack()
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _, _ = listener.Close(), server.Conn.Close() })
	var turn sync.Mutex
	serve := func(c net.Conn) {
		client, held := pgproto3.NewBackend(c, c), false
		if _, err := client.ReceiveStartupMessage(); err != nil {
			return
		}
		client.Send(&pgproto3.AuthenticationOk{})
		for name, value := range server.ParameterStatuses {
			client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
		}
		client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		for client.Flush() == nil {
			asked, err := client.Receive()
			if _, ends := asked.(*pgproto3.Terminate); err != nil || ends {
				return
			}
			if !held {
				turn.Lock()
				held = true
			}
			server.Frontend.Send(asked)
			switch asked.(type) {
			case *pgproto3.Query, *pgproto3.Sync:
			default: // more follows before the answers
				continue
			}
			_ = server.Frontend.Flush()
			for ready := false; !ready; {
				answer, err := server.Frontend.Receive()
				if err != nil {
					return
				}
				client.Send(answer)
				if r, is := answer.(*pgproto3.ReadyForQuery); is {
					ready, held = true, r.TxStatus != 'I'
				}
			}
			if !held {
				turn.Unlock()
			}
		}
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go serve(c)
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}

func TestPoolerByTransactionIsFound(t *testing.T) {
	dsn := hostsURL(t)
	port := startPooler(t, dsn("", ""))
	pooled := open(t, dsn("127.0.0.1,", port+","))
	for name, s := range map[string]*store.Store{"pooler": pooled, "server": open(t, dsn("", ""))} {
		if shared, err := s.SharesConnections(t.Context()); err != nil || shared != (name == "pooler") {
			t.Errorf("%s: shared %t, %v", name, shared, err)
		}
	}
}
