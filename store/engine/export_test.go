package engine

import (
	"context"
	"errors"
)

// StatementTimeouts are those of PostgreSQL for the service and for migrations.
func StatementTimeouts(ctx context.Context, d *DB) (service, migrations string, err error) {
	pool, err := openMigrations(d.dsn)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = pool.Close() }()
	err = d.db.Raw("SHOW statement_timeout").Find(&service).Error
	return service, migrations, errors.Join(err, pool.QueryRowContext(ctx, "SHOW statement_timeout").Scan(&migrations))
}
