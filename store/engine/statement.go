package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Query is a statement that bypasses GORM, in both dialects: applications and browsers cause
// thousands of them a second. GORM builds and reflects each anew, which took four times as long as
// SQLite itself. Both drivers keep a statement prepared by its text. ReadRow runs those that read
// one row by its keys, Statements.Exec those of an operation. Everything else goes by GORM.
type Query struct {
	SQLite, Postgres string
	reads            string // the table for the Observer, "" for a statement that writes
}

// NewQuery takes a statement with ? as placeholder, and a suffix for PostgreSQL.
func NewQuery(text, suffix string) Query {
	return Query{SQLite: text, Postgres: numbered(text) + suffix}
}

// NewRead takes the table of the keys, and a statement with ? as placeholder that reads one row.
func NewRead(table, text string) Query {
	q := NewQuery(text, "")
	q.reads = table
	return q
}

func (q Query) text(dialect string) string {
	if dialect == Postgres {
		return q.Postgres
	}
	return q.SQLite
}

// numbered replaces each ? by PostgreSQL's placeholders $1, $2 and so on.
func numbered(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// traced logs a statement as GORM would, without its values, if it failed or was slow.
func (d *DB) traced(ctx context.Context, text string, begin time.Time, rows int64, err error, args ...any) {
	if err != nil || d.clock().Sub(begin) > slowStatement {
		d.db.Logger.Trace(ctx, begin, func() (string, int64) { return text, rows }, err)
	}
	if d.Ran != nil {
		d.Ran(text, args...)
	}
}

// Exec runs a statement and returns the number of affected rows.
func (w *Statements) Exec(q Query, args ...any) (n int64, err error) {
	text, begin := q.text(w.d.dialect), w.d.clock()
	res, err := w.on.ExecContext(w.ctx, text, args...)
	if err == nil {
		n, err = res.RowsAffected()
	}
	w.d.traced(w.ctx, text, begin, n, canceled(w.ctx, err), args...)
	return n, err
}

// ReadRow reads the row of keys. Without such a row it returns the error none.
func ReadRow(ctx context.Context, d *DB, q Query, none error, keys ...any) (*Columns, error) {
	text, begin := q.text(d.dialect), d.clock()
	c := &Columns{}
	found, err := d.queryRow(ctx, text, keys, c)
	err = canceled(ctx, err)
	d.traced(ctx, text, begin, 1, err, keys...)
	if d.observer != nil {
		d.observer.Operation("read "+q.reads, d.clock().Sub(begin), err != nil && !errors.Is(err, context.Canceled))
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
func (d *DB) queryRow(ctx context.Context, statement string, keys []any, c *Columns) (found bool, err error) {
	pool, ok := d.db.Statement.ConnPool.(*sql.DB) // else a transaction
	if d.dialect == Postgres || !ok {
		return d.queryRowByContext(ctx, statement, keys, c)
	}
	if use := pool.Stats(); use.InUse >= use.MaxOpenConnections {
		limited, cancel := context.WithTimeout(ctx, d.timeout)
		defer cancel()
		ctx = limited
	}
	conn, err := pool.Conn(ctx)
	if err != nil {
		return false, err
	}
	err = conn.Raw(func(d any) error {
		args := make([]driver.NamedValue, len(keys))
		for i, key := range keys {
			args[i] = driver.NamedValue{Ordinal: i + 1, Value: key}
		}
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
func (d *DB) queryRowByContext(
	ctx context.Context, statement string, keys []any, c *Columns,
) (found bool, err error) {
	if _, has := ctx.Deadline(); !has {
		limited, cancel := context.WithTimeout(ctx, d.timeout)
		defer cancel()
		ctx = limited
	}
	rows, err := d.db.Statement.ConnPool.QueryContext(ctx, statement, keys...)
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

// Columns holds the values of a row, taken from left to right. NULL is the zero value. A value of
// another type sets Err, which the caller checks after taking all.
type Columns struct {
	values []driver.Value
	Err    error
}

func take[T any](c *Columns) (v T) {
	if len(c.values) == 0 {
		c.Err = errors.New("the row has too few columns")
		return v
	}
	value := c.values[0]
	c.values = c.values[1:]
	v, ok := value.(T)
	if !ok && value != nil {
		c.Err = fmt.Errorf("a column is a %T, not a %T", value, v)
	}
	return v
}

// Text takes a TEXT.
func (c *Columns) Text() string { return take[string](c) }

// Bytes takes a BLOB.
func (c *Columns) Bytes() []byte { return take[[]byte](c) }

// Number takes an INTEGER.
func (c *Columns) Number() int64 { return take[int64](c) }

// Time takes Unix seconds.
func (c *Columns) Time() time.Time { return FromUnix(c.Number()) }

// Flag takes a BOOLEAN, which SQLite stores as a number.
func (c *Columns) Flag() bool {
	if len(c.values) > 0 {
		if b, ok := c.values[0].(bool); ok {
			c.values = c.values[1:]
			return b
		}
	}
	return c.Number() != 0
}
