package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"
)

// keyRead is a statement that reads one row by a key, in both dialects. Applications and browsers
// cause thousands of them a second. GORM builds and reflects each anew, which took four times as
// long as SQLite itself. Both drivers keep a statement prepared by its text.
type keyRead struct {
	query
	name string // for the Observer
}

// newKeyRead takes the table of the key and a statement with the placeholder ?.
func newKeyRead(table, text string) keyRead {
	return keyRead{newQuery(text, ""), "read " + table}
}

// readRow reads the row of a key. Without such a row it returns the error none. It logs and
// observes as GORM would, and never logs a value.
func (s *Store) readRow(ctx context.Context, q keyRead, key driver.Value, none error) (*columns, error) {
	statement, begin := q.text(s.dialect), s.clock()
	c := &columns{}
	found, err := s.queryRow(ctx, statement, key, c)
	err = canceled(ctx, err)
	if err != nil || s.clock().Sub(begin) > slowStatement {
		s.db.Logger.Trace(ctx, begin, func() (string, int64) { return statement, 1 }, err)
	}
	if s.observer != nil {
		s.observer.Operation(q.name, s.clock().Sub(begin), err != nil && !errors.Is(err, context.Canceled))
	}
	if s.ran != nil {
		s.ran(statement, key)
	}
	if err == nil && !found {
		err = none
	}
	return c, err
}

// queryRow fills c with the row, if there is one.
//
// A context that can end costs a goroutine and a timer for each statement, half as much again. On
// SQLite a read of one row waits for nothing but its connection, so only that wait ends with the
// context. It has a limit if all connections are in use; a connection that another caller takes in
// between comes back by the limit of that caller. The driver is asked directly: database/sql would
// convert each value once more.
func (s *Store) queryRow(ctx context.Context, statement string, key driver.Value, c *columns) (found bool, err error) {
	pool, ok := s.db.Statement.ConnPool.(*sql.DB) // else a transaction
	if s.dialect == Postgres || !ok {
		return s.queryRowByContext(ctx, statement, key, c)
	}
	if use := pool.Stats(); use.InUse >= use.MaxOpenConnections {
		limited, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		ctx = limited
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	err = conn.Raw(func(d any) error {
		args := []driver.NamedValue{{Ordinal: 1, Value: key}}
		rows, err := d.(driver.QueryerContext).QueryContext(context.WithoutCancel(ctx), statement, args)
		if err != nil {
			return err
		}
		c.values = make([]driver.Value, len(rows.Columns()))
		if err = rows.Next(c.values); errors.Is(err, io.EOF) {
			return rows.Close()
		}
		found = err == nil
		return errors.Join(err, rows.Close())
	})
	return found, errors.Join(err, conn.Close())
}

// queryRowByContext is queryRow for PostgreSQL, where the network takes most of the time and may
// never answer, and for transactions.
func (s *Store) queryRowByContext(
	ctx context.Context, statement string, key driver.Value, c *columns,
) (found bool, err error) {
	if _, has := ctx.Deadline(); !has {
		limited, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		ctx = limited
	}
	rows, err := s.db.Statement.ConnPool.QueryContext(ctx, statement, key)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		return false, rows.Err()
	}
	names, err := rows.Columns()
	if err != nil {
		return false, err
	}
	values, to := make([]any, len(names)), make([]any, len(names))
	for i := range to {
		to[i] = &values[i]
	}
	err = rows.Scan(to...)
	for _, v := range values {
		c.values = append(c.values, v)
	}
	return true, errors.Join(err, rows.Close())
}

// columns holds the values of a row, taken from left to right. NULL is the zero value. A value of
// another type sets err, which the caller checks after taking all.
type columns struct {
	values []driver.Value
	err    error
}

func take[T any](c *columns) (v T) {
	if len(c.values) == 0 {
		c.err = errors.New("the row has too few columns")
		return v
	}
	value := c.values[0]
	c.values = c.values[1:]
	v, ok := value.(T)
	if !ok && value != nil {
		c.err = fmt.Errorf("a column is a %T, not a %T", value, v)
	}
	return v
}

func (c *columns) text() string    { return take[string](c) }
func (c *columns) bytes() []byte   { return take[[]byte](c) }
func (c *columns) number() int64   { return take[int64](c) }
func (c *columns) time() time.Time { return fromUnix(c.number()) }

// flag takes a BOOLEAN, which SQLite stores as a number.
func (c *columns) flag() bool {
	if len(c.values) > 0 {
		if b, ok := c.values[0].(bool); ok {
			c.values = c.values[1:]
			return b
		}
	}
	return c.number() != 0
}
