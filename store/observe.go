package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// Observer watches the operations of a Store. Its methods are called after each operation and must
// be safe for concurrent use.
type Observer interface {
	// Operation reports a write by its name ("create session"), with the wait for other writers and
	// the commit, or a read by its table ("read sessions"). failed means that the database could
	// not do it; a refusal is not a failure.
	Operation(name string, took time.Duration, failed bool)
	// Revoked reports revoked sessions, grants, or tokens that clients got for themselves.
	Revoked(kind string, n int)
}

// Observe makes the store report each operation to o. Call it once, before several goroutines use
// the store; it cannot be undone.
func (s *Store) Observe(o Observer) error {
	s.observer = o
	for _, kind := range []struct {
		get     func(string) func(*gorm.DB)
		replace func(string, func(*gorm.DB)) error
		name    string
	}{
		{s.db.Callback().Query().Get, s.db.Callback().Query().Replace, "gorm:query"},
		{s.db.Callback().Raw().Get, s.db.Callback().Raw().Replace, "gorm:raw"},
	} {
		run := kind.get(kind.name)
		err := kind.replace(kind.name, func(db *gorm.DB) {
			begin := s.clock()
			run(db)
			statement := db.Statement.SQL.String()
			if db.Statement.Context.Value(writing{}) != nil {
				return // part of a write, which reports itself
			}
			err := canceled(db.Statement.Context, db.Error)
			failed := err != nil && !errors.Is(err, gorm.ErrRecordNotFound) && !errors.Is(err, context.Canceled)
			s.observer.Operation("read "+firstTable(statement), s.clock().Sub(begin), failed)
		})
		if err != nil {
			return fmt.Errorf("observe the database: %w", err)
		}
	}
	return nil
}

// observed runs try and reports to the observer.
func (s *Store) observed(ctx context.Context, op operation) error {
	begin := s.clock()
	err := s.try(context.WithValue(ctx, writing{}, true), op)
	s.observer.Operation(op.doing, s.clock().Sub(begin), errors.Is(err, account.ErrUnavailable))
	if err == nil && op.report != nil {
		for kind, n := range op.report.revoked {
			s.observer.Revoked(kind, int(n))
		}
	}
	return err
}

// writing is the context key that marks the statements of a write.
type writing struct{}

// Kinds of Observer.Revoked.
const (
	revokedSession = "session"
	revokedGrant   = "grant"
	revokedToken   = "token"
)

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
func (s *Store) PoolStats() sql.DBStats { return s.pool.Stats() }

// File returns the path of the SQLite file, "" on PostgreSQL.
func (s *Store) File() string { return s.file }

// LogoutState returns how many logout notices wait and since when the oldest does, the zero time if
// none waits.
func (s *Store) LogoutState(ctx context.Context) (waiting int, oldest time.Time, err error) {
	var row struct {
		Waiting int
		Oldest  int64
	}
	err = s.conn(ctx).Raw(`SELECT count(*) AS waiting, coalesce(min(created_at), 0) AS oldest
		FROM logout_outbox`).Find(&row).Error
	return row.Waiting, fromUnix(row.Oldest), fail("state of the logout notices", err)
}
