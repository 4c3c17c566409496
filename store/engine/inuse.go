package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrInUse means that the service is running on the database, or the database is being replaced.
var ErrInUse = errors.New("the database is in use")

// useLock is the base of the advisory locks that mark a database as in use. The schema is mixed in,
// because installations may share a database.
const useLock int64 = 0x636169726e << 16

// migrationLock is the base of the advisory locks of LockMigration.
const migrationLock = useLock + 1<<40

// reconnectPause is the pause between attempts to lock again after the connection was lost.
const reconnectPause = time.Second

// lockFile returns the path of the lock file, next to the SQLite file: closing a second handle of
// the SQLite file itself would drop SQLite's own locks. It is never removed, or two processes could
// lock two files of that name. A link is resolved first, as SQLite does for its own files.
func lockFile(database string) string {
	if file, err := filepath.EvalSymlinks(database); err == nil {
		database = file
	}
	return database + ".lock"
}

// IsPostgres reports whether dsn names a PostgreSQL database. Otherwise it is the path of a SQLite
// file.
func IsPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// Use marks the database at dsn, which need not exist, as in use until release is called or the
// process ends in any way. alone excludes all other users. ErrInUse, or
// an error that wraps unavailable if the server does not answer.
func Use(ctx context.Context, dsn string, alone bool, unavailable error) (release func(), err error) {
	if !IsPostgres(dsn) {
		release, err := lockPath(lockFile(dsn), alone)
		if err != nil {
			return nil, fmt.Errorf("lock the database: %w", err)
		}
		return release, nil
	}
	conn, err := lockPostgres(ctx, dsn, alone, unavailable)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, _ = conn.WaitForNotification(ctx) // none comes: it returns when the connection is lost
			unlock(context.WithoutCancel(ctx), conn)
			for conn = nil; conn == nil && ctx.Err() == nil; {
				var err error
				if conn, err = lockPostgres(ctx, dsn, alone, unavailable); err != nil {
					sleep(ctx, reconnectPause)
				}
			}
			if conn == nil {
				return
			}
		}
	}()
	return func() { cancel(); <-ended }, nil
}

// unlock closes a connection. It gives up the locks first, because the server may notice the closed
// connection late.
func unlock(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(ctx, reconnectPause)
	defer cancel()
	_, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()") // fails where the connection was lost
	_ = conn.Close(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// LockMigration waits until no other process backs up and migrates the database at dsn, and keeps
// them waiting until release is called. It is for instances on PostgreSQL that start at once. On
// SQLite it does nothing: there the process that migrates uses the database alone.
func LockMigration(ctx context.Context, dsn string, unavailable error) (release func(), err error) {
	if !IsPostgres(dsn) {
		return func() {}, nil
	}
	conn, key, err := connectToLock(ctx, dsn, migrationLock, unavailable)
	if err != nil {
		return nil, fmt.Errorf("lock the migration: %w", err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", key); err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("lock the migration: %w", err)
	}
	return func() { unlock(context.WithoutCancel(ctx), conn) }, nil
}

func lockPostgres(ctx context.Context, dsn string, alone bool, unavailable error) (*pgx.Conn, error) {
	conn, key, err := connectToLock(ctx, dsn, useLock, unavailable)
	if err != nil {
		return nil, err
	}
	function := "pg_try_advisory_lock_shared"
	if alone {
		function = "pg_try_advisory_lock"
	}
	var got bool
	err = conn.QueryRow(ctx, "SELECT "+function+"($1)", key).Scan(&got)
	if err == nil && !got {
		err = ErrInUse
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// connectToLock returns a connection of its own and the key of an advisory lock in its schema.
func connectToLock(
	ctx context.Context, dsn string, base int64, unavailable error,
) (conn *pgx.Conn, key int64, err error) {
	config, _, err := postgresConfig(dsn)
	if err != nil {
		return nil, 0, err
	}
	if conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, 0, openError(Postgres, err, unavailable)
	}
	var schema string
	if err := conn.QueryRow(ctx, "SELECT coalesce(current_schema(), '')").Scan(&schema); err != nil {
		_ = conn.Close(ctx)
		return nil, 0, err
	}
	return conn, base ^ int64(crc32.ChecksumIEEE([]byte(schema))), nil
}
