package bench

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"net/url"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
)

// NewDatabase makes a database on a PostgreSQL server, of which drop leaves nothing.
func NewDatabase(ctx context.Context, server string) (address string, drop func() error, err error) {
	to, err := url.Parse(server)
	if err != nil {
		return "", nil, errors.New("not a URL") // the error would show its password
	}
	pool, err := sql.Open("pgx", server)
	if err != nil {
		return "", nil, err
	}
	name := "cairn_bench_" + hex.EncodeToString(random(6))
	if _, err := pool.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, errors.Join(err, pool.Close())
	}
	to.Path = "/" + name
	return to.String(), func() error {
		_, err := pool.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return errors.Join(err, pool.Close())
	}, nil
}
