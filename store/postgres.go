package store

import (
	"database/sql"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

const (
	postgresConnections = 16
	connectTimeout      = 5 * time.Second
)

// postgresLimits are settings of each connection, unless the URL has them: no
// statement and no lock may hang for ever.
var postgresLimits = map[string]string{
	"application_name": "cairn", "statement_timeout": "15s", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "30s",
}

// keepAlive finds a dead connection that nobody waits for, before somebody does, in
// half a minute; the deadlines are for those who wait.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func openPostgres(dsn string) (*sql.DB, gorm.Dialector, error) {
	config, err := postgresConfig(dsn)
	if err != nil {
		return nil, nil, err
	}
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(postgresConnections)
	pool.SetMaxIdleConns(postgresConnections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	return pool, postgres.New(postgres.Config{Conn: pool}), nil
}

// openMigrations opens connections of which a statement may take as long as it
// does: the index of a large table.
func openMigrations(dsn string) (*sql.DB, error) {
	config, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["statement_timeout"] = "0"
	return stdlib.OpenDB(*config), nil
}

func postgresConfig(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// The parser's own text may repeat the URL with its password.
		return nil, errors.New("open PostgreSQL database: the URL cannot be used: check user, host, port, database and parameters such as sslmode, and percent-encode special characters in the password")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	for name, value := range postgresLimits {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	config.DialFunc = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	return config, nil
}
