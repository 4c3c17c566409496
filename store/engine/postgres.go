package engine

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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

const (
	postgresConnections    = 16
	maxPostgresConnections = 1000
	connectTimeout         = 5 * time.Second
	// hostTimeout is connectTimeout with several hosts: one that is switched off does not answer,
	// and a request waits for all hosts before the right one. A check of readiness has two seconds.
	hostTimeout = time.Second
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
	several := slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != config.Host || f.Port != config.Port // else the same host without TLS
	})
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
	config.OnPgError = keepConnection
	return config, connections, nil
}

func hasParameter(dsn, name string) bool {
	u, err := url.Parse(dsn)
	return err == nil && u.Query().Has(name)
}

// primaryLost lists the errors after which a connection is not worth keeping: the server accepts no
// writes any longer (read_only_sql_transaction), or it stops (admin_shutdown, crash_shutdown). The
// statement that met one of them had no effect.
var primaryLost = []string{"25006", "57P01", "57P02"}

// keepConnection reports whether a connection can be used after an error of the server.
func keepConnection(_ *pgconn.PgConn, e *pgconn.PgError) bool {
	return !slices.Contains(primaryLost, e.Code) && cmp.Or(e.SeverityUnlocalized, e.Severity) != "FATAL"
}

// newPool returns a pool and opens no connection yet.
func newPool(config *pgx.ConnConfig, connections int) *sql.DB {
	pool := sql.OpenDB(connector{stdlib.GetConnector(*config, stdlib.OptionShouldPing(pingIdle))})
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	return pool
}

// pingIdle pings a connection that was idle, no longer than connecting takes: the caller may have
// time for another one. It pings itself, because the driver would wait as long as the caller does.
// A connection that does not answer is closed by that, and database/sql takes another.
func pingIdle(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration > pingAfter {
		ctx, cancel := context.WithTimeout(ctx, hostTimeout)
		defer cancel()
		return p.Conn.PgConn().Ping(ctx) != nil // the driver's own ping fails at once
	}
	return false
}

// connector opens connections that say whether they can be used.
type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return pooled{conn.(*stdlib.Conn)}, nil
}

// pooled lets database/sql drop a closed connection when it is returned, not when another caller
// takes it: that caller would get several of them, and an error after the third. A caller that
// gives up in a transaction leaves a closed one.
type pooled struct{ *stdlib.Conn }

// IsValid implements driver.Validator.
func (c pooled) IsValid() bool { return !c.Conn.Conn().IsClosed() }

func openPostgres(dsn string, readOnly bool) (*sql.DB, gorm.Dialector, error) {
	config, connections, err := postgresConfig(dsn)
	if err != nil {
		return nil, nil, err
	}
	if readOnly { // only now: of several hosts, the one whose sessions may write is chosen
		config.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
			return c.Exec(ctx, "SET default_transaction_read_only = on").Close()
		}
	}
	pool := newPool(config, connections)
	return pool, postgres.New(postgres.Config{Conn: pool}), nil
}

// openMigrations opens connections without a time limit on statements: indexing a large table takes
// long.
func openMigrations(dsn string) (*sql.DB, error) {
	config, connections, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["statement_timeout"] = "0"
	return newPool(config, connections), nil
}
