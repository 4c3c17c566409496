package engine

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Pooled reports whether a failure is one of prepared statements that another client of a pooler has made, or lacks:
// see SharesConnections.
func Pooled(err error) bool {
	pg, is := errors.AsType[*pgconn.PgError](err)
	return is && (pg.Code == "42P05" || pg.Code == "26000") // duplicate_prepared_statement, invalid_sql_statement_name
}

// pooledTries is how often SharesConnections looks: others may take the connection meanwhile.
const pooledTries = 5

// SharesConnections reports whether something before PostgreSQL gives the server's connection of one client to
// another as soon as a transaction has ended, as PgBouncer does in transaction mode: then two clients that are
// connected at once have the same server process. It is false on SQLite.
func (d *DB) SharesConnections(ctx context.Context) (shared bool, err error) {
	if d.dialect != Postgres {
		return false, nil
	}
	for range pooledTries {
		process, err := d.serverProcesses(ctx)
		if err != nil || process[0] == process[1] {
			return err == nil, d.fail("compare connections", err)
		}
	}
	return false, nil
}

// serverProcesses returns the server processes of two clients that are connected at once.
func (d *DB) serverProcesses(ctx context.Context) (process [2]int64, err error) {
	for i := range process {
		conn, connErr := d.pool.Conn(ctx)
		if connErr != nil {
			return process, errors.Join(err, connErr)
		}
		defer func() { _ = conn.Close() }()
		const query, unprepared = "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol
		err = errors.Join(err, conn.QueryRowContext(ctx, query, unprepared).Scan(&process[i]))
	}
	return process, err
}
