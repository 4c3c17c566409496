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
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// Exec lets a test age or damage what no exported method can, and fill tables for as
// long as that takes.
func (s *Store) Exec(query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	return s.ofTest().WithContext(ctx).Exec(query, args...).Error
}

const testMark = "cairn:test"

// ofTest is the database for statements that are no part of the program.
func (s *Store) ofTest() *gorm.DB { return s.conn(context.Background()).Set(testMark, true) }

// Count is the single number that a query returns.
func (s *Store) Count(query string, args ...any) (n int64, err error) {
	err = s.ofTest().Raw(query, args...).Find(&n).Error
	return n, err
}

func (s *Store) pool() *sql.DB {
	pool, err := s.conn(context.Background()).DB()
	if err != nil {
		panic(err)
	}
	return pool
}

// MaxConnections is the size of the pool.
func (s *Store) MaxConnections() int { return s.PoolStats().MaxOpenConnections }

// HoldConnections takes all of the pool until free is called.
func (s *Store) HoldConnections(ctx context.Context) (free func() error, err error) {
	var held []*sql.Conn
	free = func() (err error) {
		for _, c := range held {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	for range s.MaxConnections() {
		c, err := s.pool().Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, free())
		}
		held = append(held, c)
	}
	return free, nil
}

// ListCapacity is how many indices of a status list are given out.
const ListCapacity = listCapacity

// AddTokens stores tokens of a grant without a code being spent for them.
func (s *Store) AddTokens(ctx context.Context, grantID string, issued ...provider.Token) error {
	values, err := tokenValues(grantID, issued, s.Now())
	if err != nil {
		return err
	}
	return s.write(ctx, "add tokens", func(tx *engine.Tx) {
		tx.Exec("INSERT INTO tokens "+tokenColumns+" VALUES "+repeated("(?, ?, ?, ?, ?, ?, ?, ?)", len(issued)), values...)
	})
}

// Begin opens a transaction that stays open: what is done in the returned store is
// undone unless end commits it. Nothing else in this process writes during it on SQLite.
func (s *Store) Begin(ctx context.Context) (in *Store, end func(commit bool) error, err error) {
	begun, commit, ended := make(chan *engine.DB), make(chan bool), make(chan error, 1)
	errUndone := errors.New("undone")
	go func() {
		ended <- engine.Together(ctx, s.DB, "begin", time.Hour, func(tx *engine.Tx, in *engine.DB) {
			begun <- in
			if !<-commit {
				tx.Refuse(errUndone)
			}
		})
	}()
	select {
	case db := <-begun:
		return &Store{DB: db, within: true}, func(keep bool) error {
			commit <- keep
			if err := <-ended; keep || !errors.Is(err, errUndone) {
				return err
			}
			return nil
		}, nil
	case err := <-ended:
		return nil, nil, err
	}
}

// Waiting is how many operations wait for the writer of SQLite.
func (s *Store) Waiting() int { return engine.Waiting(s.DB) }

// OnWriter runs a statement on the connection of the writer of SQLite.
func (s *Store) OnWriter(query string) error {
	return s.writeOne(context.Background(), "pragma", func(db *gorm.DB) error { return db.Exec(query).Error })
}

// IndexUsers is a step of Sweep.
func (s *Store) IndexUsers(ctx context.Context) error { return s.indexUsers(ctx) }

// MigrateTo brings an empty database to an earlier version's schema.
func (s *Store) MigrateTo(ctx context.Context, version int64) error {
	return engine.MigrateTo(ctx, s.DB, version)
}

// Texts is the single column that a query returns.
func (s *Store) Texts(query string, args ...any) (out []string, err error) {
	err = s.ofTest().Raw(query, args...).Find(&out).Error
	return out, err
}

// Series is a table n(i) of the numbers from 0.
func (s *Store) Series(length string) string {
	if s.Dialect() == Postgres {
		return fmt.Sprintf("(SELECT generate_series(0, CAST(%s AS BIGINT) - 1) AS i) AS n", length)
	}
	const numbers = "WITH RECURSIVE c (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c LIMIT %s) SELECT i FROM c"
	return fmt.Sprintf("("+numbers+") AS n", length)
}

// AuditPlan is how the database would read the audit log.
func (s *Store) AuditPlan(q account.AuditQuery) (string, error) {
	query, args := s.auditQuery(q)
	if s.Dialect() == Postgres {
		lines, err := s.Texts("EXPLAIN "+query, args)
		return strings.Join(lines, "\n"), err
	}
	var rows []struct{ Detail string }
	err := s.ofTest().Raw("EXPLAIN QUERY PLAN "+query, args).Find(&rows).Error
	return strings.Join(each(rows, func(r struct{ Detail string }) string { return r.Detail }), "\n"), err
}

// AfterStatement calls do once, before the statement that follows the first one that
// begins so.
func (s *Store) AfterStatement(begin string, do func()) {
	const name = "after statement"
	seen := false
	see := func(db *gorm.DB) {
		if seen {
			_ = s.conn(context.Background()).Callback().Query().Remove(name)
			_ = s.conn(context.Background()).Callback().Row().Remove(name)
			do()
		}
	}
	_ = s.conn(context.Background()).Callback().Raw().After("gorm:raw").Register(name, func(db *gorm.DB) {
		seen = seen || strings.HasPrefix(db.Statement.SQL.String(), begin)
	})
	_ = s.conn(context.Background()).Callback().Query().Before("gorm:query").Register(name, see)
	_ = s.conn(context.Background()).Callback().Row().Before("gorm:row").Register(name, see)
}

// EachQuery calls do each time when a query that begins so has been answered.
func (s *Store) EachQuery(begin string, do func()) {
	_ = s.conn(context.Background()).Callback().Query().After("gorm:query").Register("each query", func(db *gorm.DB) {
		if strings.HasPrefix(db.Statement.SQL.String(), begin) {
			do()
		}
	})
}

// Suspend is SuspendAll for one user.
func (s *Store) Suspend(ctx context.Context, sub, reason string, now time.Time, a account.Audit) error {
	return s.SuspendAll(ctx, reason, now, map[string]account.Audit{sub: a})
}

// SetEnd is SetEndOfAll for one user.
func (s *Store) SetEnd(ctx context.Context, sub string, ends, now time.Time, a account.Audit) error {
	return s.SetEndOfAll(ctx, ends, now, map[string]account.Audit{sub: a})
}

// SetFlags is SetFlagsOfAll for one user.
func (s *Store) SetFlags(
	ctx context.Context, sub string, change account.FlagChange, now time.Time, a account.Audit,
) ([]string, error) {
	after, err := s.SetFlagsOfAll(ctx, change, now, map[string]account.Audit{sub: a})
	return after[sub], err
}

// RecordUnchecked is a function of the store that forgets who acts.
func (s *Store) RecordUnchecked(ctx context.Context, a account.Audit) error {
	return s.write(ctx, "record unchecked", func(tx *engine.Tx) { insertAudit(tx, a) })
}
