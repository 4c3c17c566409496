package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
)

// SQLiteVersion is that of the SQLite that is part of the program.
func SQLiteVersion() string {
	number, _, _ := sqlite3.Version()
	return number
}

// sqliteConnections is enough for readers beside the one writer.
const sqliteConnections = 8

// sqliteParameters: WAL lets readers and the writer go on side by side; FULL
// makes an acknowledged write survive a power cut; immediate takes the write
// lock when a transaction begins, because taking it later can fail at once
// whatever the timeout (SQLITE_BUSY_SNAPSHOT); secure_delete overwrites what is
// deleted, so that the data of somebody who left is not in the file any more.
const sqliteParameters = "?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate&_busy_timeout=10000&_foreign_keys=on&_stmt_cache_size=128&_secure_delete=fast"

func openSQLite(ctx context.Context, path string) (*sql.DB, gorm.Dialector, error) {
	empty, err := protectFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open SQLite database: %w", err)
	}
	// The path as a URI, in which ?, # and % would mean something.
	file := "file:" + (&url.URL{Path: path}).EscapedPath()
	if empty {
		if err := arrange(ctx, file); err != nil {
			return nil, nil, fmt.Errorf("open SQLite database: %w", err)
		}
	}
	pool, err := sql.Open(sqlite.DriverName, file+sqliteParameters)
	if err != nil {
		return nil, nil, fmt.Errorf("open SQLite database: %w", err)
	}
	pool.SetMaxOpenConns(sqliteConnections)
	pool.SetMaxIdleConns(sqliteConnections)
	return pool, sqlite.New(sqlite.Config{Conn: pool}), nil
}

// arrange lets giveBackSpace make a file smaller, which has to be said before it has
// tables.
func arrange(ctx context.Context, file string) error {
	db, err := sql.Open(sqlite.DriverName, file+"?_auto_vacuum=incremental&_busy_timeout=10000")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "VACUUM")
	return errors.Join(err, db.Close())
}

// protectFile creates the file before SQLite would, and takes it and the two
// beside it from everybody but the owner: SQLite would leave it to the umask. It tells
// whether there is nothing in the file yet.
func protectFile(path string) (empty bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, 0o600)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		if name == path && info != nil {
			empty = info.Size() == 0
		}
	}
	return empty, nil
}
