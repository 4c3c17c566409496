package store

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
// process ends in any way. alone excludes all other users. ErrInUse.
func Use(ctx context.Context, dsn string, alone bool) (release func(), err error) {
	if !IsPostgres(dsn) {
		release, err := lockPath(lockFile(dsn), alone)
		if err != nil {
			return nil, fmt.Errorf("lock the database: %w", err)
		}
		return release, nil
	}
	conn, err := lockPostgres(ctx, dsn, alone)
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
				if conn, err = lockPostgres(ctx, dsn, alone); err != nil {
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

func lockPostgres(ctx context.Context, dsn string, alone bool) (*pgx.Conn, error) {
	config, _, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, openError(Postgres, err)
	}
	function := "pg_try_advisory_lock_shared"
	if alone {
		function = "pg_try_advisory_lock"
	}
	var schema string
	var got bool
	if err = conn.QueryRow(ctx, "SELECT coalesce(current_schema(), '')").Scan(&schema); err == nil {
		lock := useLock ^ int64(crc32.ChecksumIEEE([]byte(schema)))
		err = conn.QueryRow(ctx, "SELECT "+function+"($1)", lock).Scan(&got)
	}
	if err == nil && !got {
		err = ErrInUse
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}
