package store

import (
	"database/sql"
	"errors"
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

func openPostgres(dsn string) (*sql.DB, gorm.Dialector, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		// The parser's own text may repeat the URL with its password.
		return nil, nil, errors.New("open PostgreSQL database: the URL cannot be used: check user, host, port, database and parameters such as sslmode, and percent-encode special characters in the password")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	for name, value := range postgresLimits {
		if _, given := config.RuntimeParams[name]; !given {
			config.RuntimeParams[name] = value
		}
	}
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(postgresConnections)
	pool.SetMaxIdleConns(postgresConnections)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	pool.SetConnMaxLifetime(time.Hour)
	return pool, postgres.New(postgres.Config{Conn: pool}), nil
}
