package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"
)

// keyRead is a statement that reads one row by a key, written for both databases. Requests
// of applications and their users run some thousands of them a second; there GORM, which
// builds, reflects and copies anew for each, took four times as long as the database. Both
// drivers keep such a statement prepared, by its text.
type keyRead struct {
	text map[string]string // by dialect
	name string            // for the Observer
}

// newKeyRead takes a statement with placeholders as SQLite has them.
func newKeyRead(query string) keyRead {
	return keyRead{text: map[string]string{SQLite: query, Postgres: numbered(query)}, name: "read " + firstTable(query)}
}

// readRow reads the row of a key into the variables of to, in the order of the columns; none is the error where there is no row. It
// logs and tells the observer what GORM would: no values.
func (s *Store) readRow(ctx context.Context, q keyRead, none error, key any, to ...[]any) error {
	statement, begin, observed := q.text[s.dialect], time.Now(), time.Time{}
	if s.observer != nil {
		observed = s.clock()
	}
	err := s.queryRow(ctx, statement, key, slices.Concat(to...))
	if errors.Is(err, sql.ErrNoRows) {
		err = none
		s.db.Logger.Trace(ctx, begin, func() (string, int64) { return statement, 0 }, nil)
	} else {
		err = canceled(ctx, err)
		s.db.Logger.Trace(ctx, begin, func() (string, int64) { return statement, 1 }, err)
	}
	if s.observer != nil {
		s.observer.Operation(q.name, s.clock().Sub(observed), err != nil && !errors.Is(err, none) && !errors.Is(err, context.Canceled))
	}
	if s.ran != nil {
		s.ran(statement, key)
	}
	return err
}

// queryRow gives the statement the time of every other one, by what that costs.
//
// A context that can end costs a goroutine in database/sql and a timer for each statement, half as
// much as the statement itself. What reads one row by a key on SQLite cannot wait for
// anything but its connection: only that wait ends with the context. It has a limit where
// all connections are in use; one that another caller takes in between comes back by that
// caller's own limit.
func (s *Store) queryRow(ctx context.Context, statement string, key any, to []any) error {
	pool, whole := s.db.Statement.ConnPool.(*sql.DB) // else a transaction
	if s.dialect == SQLite && whole {
		if use := pool.Stats(); use.InUse >= use.MaxOpenConnections {
			limited, cancel := context.WithTimeout(ctx, s.timeout)
			defer cancel()
			ctx = limited
		}
		c, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		err = c.QueryRowContext(context.WithoutCancel(ctx), statement, key).Scan(to...)
		return errors.Join(err, c.Close())
	}
	if _, has := ctx.Deadline(); !has {
		limited, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		ctx = limited
	}
	return s.db.Statement.ConnPool.QueryRowContext(ctx, statement, key).Scan(to...)
}
