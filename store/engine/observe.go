package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
)

// Observer watches the operations of a Store. Its methods are called after each operation and must
// be safe for concurrent use.
type Observer interface {
	// Operation reports a write by its name ("create session"), with the wait for other writers and
	// the commit, or a read by its table ("read sessions"). failed means that the database could
	// not do it; a refusal is not a failure.
	Operation(name string, took time.Duration, failed bool)
	// Revoked reports what was revoked, by its kind.
	Revoked(kind string, n int)
}

// Observe makes the store report each operation to o. Call it once, before several goroutines use
// the store; it cannot be undone.
func (d *DB) Observe(o Observer) error {
	d.observer = o
	for _, kind := range []struct {
		get     func(string) func(*gorm.DB)
		replace func(string, func(*gorm.DB)) error
		name    string
	}{
		{d.db.Callback().Query().Get, d.db.Callback().Query().Replace, "gorm:query"},
		{d.db.Callback().Raw().Get, d.db.Callback().Raw().Replace, "gorm:raw"},
	} {
		run := kind.get(kind.name)
		err := kind.replace(kind.name, func(db *gorm.DB) {
			begin := d.clock()
			run(db)
			statement := db.Statement.SQL.String()
			if db.Statement.Context.Value(writing{}) != nil {
				return // part of a write, which reports itself
			}
			err := canceled(db.Statement.Context, db.Error)
			failed := err != nil && !errors.Is(err, gorm.ErrRecordNotFound) && !errors.Is(err, context.Canceled)
			d.observer.Operation("read "+firstTable(statement), d.clock().Sub(begin), failed)
		})
		if err != nil {
			return fmt.Errorf("observe the database: %w", err)
		}
	}
	return nil
}

// observed runs try and reports to the observer.
func (d *DB) observed(ctx context.Context, op Operation) error {
	begin := d.clock()
	err := d.try(context.WithValue(ctx, writing{}, true), op)
	d.observer.Operation(op.Doing, d.clock().Sub(begin), d.unavailable != nil && errors.Is(err, d.unavailable))
	if err == nil && op.report != nil {
		for kind, n := range op.report.revoked {
			d.observer.Revoked(kind, int(n))
		}
	}
	return err
}

// writing is the context key that marks the statements of a write.
type writing struct{}

// firstTable returns the first table that a statement reads.
func firstTable(statement string) string {
	for rest := statement; ; {
		_, after, found := strings.Cut(rest, "FROM ")
		if !found {
			return "other"
		}
		end := strings.IndexFunc(after, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
		switch {
		case end < 0:
			return after
		case end > 0:
			return after[:end]
		}
		rest = after // a query in brackets
	}
}

// PoolStats returns the statistics of the connection pool.
func (d *DB) PoolStats() sql.DBStats { return d.pool.Stats() }

// File returns the path of the SQLite file, "" on PostgreSQL.
func (d *DB) File() string { return d.file }
