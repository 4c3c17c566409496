package store

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	postgresConnections    = 16
	maxPostgresConnections = 1000
	connectTimeout         = 5 * time.Second
	// hostTimeout is connectTimeout with several hosts: one that is switched off does not answer,
	// and a request waits for all hosts before the right one.
	hostTimeout = 2 * time.Second
	// pingAfter is how long an idle connection is trusted without a ping.
	pingAfter = time.Second
)

// postgresLimits are settings of each connection, unless the URL sets them: no statement and no
// lock may hang forever.
var postgresLimits = map[string]string{
	"application_name": "cairn", "statement_timeout": "15s", "lock_timeout": "10s",
	"idle_in_transaction_session_timeout": "30s",
}

// keepAlive detects within 9 seconds that the host of an idle connection is gone, before a request
// waits for it. Requests that wait already have deadlines.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: 2 * time.Second, Count: 3}

// poolSize is pgxpool's parameter for the maximum number of connections.
const poolSize = "pool_max_conns"

var errPoolSize = fmt.Errorf("open PostgreSQL database: %s is not a number from 2 to %d: correct it in the URL",
	poolSize, maxPostgresConnections)

// postgresConfig parses a URL. connections is how many may be open at once.
func postgresConfig(dsn string) (config *pgx.ConnConfig, connections int, err error) {
	config, err = pgx.ParseConfig(dsn)
	if err != nil {
		// The parser's own error may repeat the URL with its password.
		return nil, 0, errors.New("open PostgreSQL database: the URL cannot be used: check user, host, port, " +
			"database and parameters such as sslmode, and percent-encode special characters in the password")
	}
	connections = postgresConnections
	if size, given := config.RuntimeParams[poolSize]; given {
		// One is not enough: a batch needs one, and reads its progress on another.
		connections, err = strconv.Atoi(size)
		if err != nil || connections < 2 || connections > maxPostgresConnections {
			return nil, 0, errPoolSize
		}
		delete(config.RuntimeParams, poolSize)
	}
	for name, value := range postgresLimits {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	config.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	several := len(hostsOf(config)) > 1
	if several && config.ValidateConnect == nil && !hasParameter(dsn, "target_session_attrs") {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	switch {
	case config.ConnectTimeout != 0:
	case several:
		config.ConnectTimeout = hostTimeout
	default:
		config.ConnectTimeout = connectTimeout
	}
	return config, connections, nil
}

func hasParameter(dsn, name string) bool {
	u, err := url.Parse(dsn)
	return err == nil && u.Query().Has(name)
}

// hostsOf returns a configuration for each host. The parser lists the ways to reach one host, with
// and without TLS, one after the other.
func hostsOf(config *pgx.ConnConfig) (hosts []*pgx.ConnConfig) {
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...)
	for i, way := range all {
		if i > 0 && way.Host == all[i-1].Host && way.Port == all[i-1].Port {
			last := hosts[len(hosts)-1]
			last.Fallbacks = append(last.Fallbacks, way)
			continue
		}
		one := config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		hosts = append(hosts, one)
	}
	return hosts
}

// servers connects to the one of several hosts that accepts writes. It starts with the last one
// that did, because the others may be switched off, which takes a while to find out.
type servers struct {
	hosts   []driver.Connector
	primary atomic.Int64 // index of the host of the newest connection
	next    atomic.Int64 // index of the host to start with
	// generation counts the known changes of the primary. A connection of an earlier generation is
	// not used again: it may lead to a server that accepts no writes, or nowhere.
	generation atomic.Int64
}

const generationKey = "cairn.generation"

// newPool returns a pool and opens no connection yet.
func newPool(config *pgx.ConnConfig, connections int) *sql.DB {
	s := &servers{}
	for _, host := range hostsOf(config) {
		host.OnPgError = s.keepConnection
		s.hosts = append(s.hosts,
			stdlib.GetConnector(*host, stdlib.OptionShouldPing(s.checkIdle), stdlib.OptionResetSession(s.reset)))
	}
	pool := sql.OpenDB(s)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	return pool
}

// Connect implements driver.Connector.
func (s *servers) Connect(ctx context.Context) (driver.Conn, error) {
	first, generation := s.next.Load(), s.generation.Load()
	var errs []error
	for i := range int64(len(s.hosts)) {
		host := (first + i) % int64(len(s.hosts))
		c, err := s.hosts[host].Connect(ctx)
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil { // no time for the others: the next caller starts with them
				s.next.CompareAndSwap(first, (host+1)%int64(len(s.hosts)))
				break
			}
			continue
		}
		s.next.Store(host)
		if s.primary.Swap(host) != host {
			generation = s.generation.Add(1)
		}
		of := c.(*stdlib.Conn)
		of.Conn().PgConn().CustomData()[generationKey] = generation
		return pooled{of, s}, nil
	}
	return nil, errors.Join(errs...)
}

// pooled lets database/sql drop an unusable connection when it is returned, not when another caller
// takes it: that caller would get several of them, and an error after the third. A caller that
// gives up in a transaction leaves an unusable one.
type pooled struct {
	*stdlib.Conn
	of *servers
}

// IsValid implements driver.Validator.
func (c pooled) IsValid() bool { return c.of.usable(c.Conn.Conn()) }

// Driver implements driver.Connector.
func (s *servers) Driver() driver.Driver { return s.hosts[0].Driver() }

// primaryLost lists the errors after which no connection is worth keeping: the server accepts no
// writes any longer (read_only_sql_transaction), or it stops (admin_shutdown, crash_shutdown). The
// statement that met one of them had no effect.
var primaryLost = []string{"25006", "57P01", "57P02"}

// keepConnection reports whether a connection can be used after an error of the server.
func (s *servers) keepConnection(c *pgconn.PgConn, e *pgconn.PgError) bool {
	if slices.Contains(primaryLost, e.Code) {
		s.end(c)
		return false
	}
	return cmp.Or(e.SeverityUnlocalized, e.Severity) != "FATAL"
}

// end ends the generation of a connection.
func (s *servers) end(c *pgconn.PgConn) {
	if generation, ok := c.CustomData()[generationKey].(int64); ok {
		s.generation.CompareAndSwap(generation, generation+1)
	}
}

// checkIdle pings a connection that was idle, no longer than connecting takes: the caller may have
// time for another one. It pings itself, because the driver would wait as long as the caller does,
// for one connection after the other.
func (s *servers) checkIdle(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration > pingAfter && s.current(p.Conn) {
		ping, cancel := context.WithTimeout(ctx, hostTimeout)
		defer cancel()
		err := p.Conn.PgConn().Ping(ping) // reset sees whether it was closed
		if err != nil && ping.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) {
			s.end(p.Conn.PgConn()) // its server hangs
		}
	}
	return false
}

// reset lets database/sql reuse a connection or drop it.
func (s *servers) reset(_ context.Context, c *pgx.Conn) error {
	if !s.usable(c) {
		return driver.ErrBadConn
	}
	return nil
}

func (s *servers) usable(c *pgx.Conn) bool { return !c.IsClosed() && s.current(c) }

func (s *servers) current(c *pgx.Conn) bool {
	return c.PgConn().CustomData()[generationKey] == s.generation.Load()
}
