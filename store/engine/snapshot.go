package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/mattn/go-sqlite3"
	"gorm.io/driver/sqlite"
)

// A snapshot is a SQLite file for both dialects: one format can be checked (integrity_check),
// migrated to a later schema, and restored into either.

// Contents summarizes a database or a snapshot.
type Contents struct {
	Schema int64            // number of the last migration
	Rows   map[string]int64 // by table
	Users  int64            // accounts; a deleted one keeps its row
	// Changed is the time of the newest row of the audit log.
	Changed time.Time
}

// versionTable is goose's. Migrating writes its rows; they are never copied.
const versionTable = "goose_db_version"

// LongTimeout is the timeout of a DB whose statements may touch every row.
const LongTimeout = 6 * time.Hour

// Snapshot writes a consistent copy of the database into a new SQLite file, which is on the disk
// when it returns. It blocks no writer. Whoever can read the file can read every secret in it: the
// caller chooses a place that only the owner can open.
func (d *DB) Snapshot(ctx context.Context, path string) (c Contents, err error) {
	if d.dialect == SQLite {
		c, err = d.snapshotPages(ctx, path)
	} else {
		c, err = d.snapshotRows(ctx, path)
	}
	return c, d.fail("copy the database", canceled(ctx, err))
}

// Snapshots are written without a journal: an unfinished one is deleted anyway.
const (
	snapshotParameters = "?_journal_mode=OFF&_synchronous=OFF&_foreign_keys=off&_busy_timeout=10000"
	readOnlyParameters = "?mode=ro&_busy_timeout=10000"
)

func openSnapshot(path, parameters string) (*sql.DB, error) {
	db, err := sql.Open(sqlite.DriverName, "file:"+(&url.URL{Path: path}).EscapedPath()+parameters)
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

const (
	snapshotStep = 256     // pages, 1 MiB
	snapshotSync = 8 << 20 // unsynced bytes; syncing all at once would delay the fsync of others
)

// snapshotPages copies the file page by page. A step of SQLite's online backup starts again after
// each write of another process, unless its connection is in a transaction: then all steps see the
// same state, and in WAL mode it blocks no writer.
func (d *DB) snapshotPages(ctx context.Context, path string) (c Contents, err error) {
	source, err := d.pool.Conn(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if _, err := source.ExecContext(ctx, "BEGIN DEFERRED"); err != nil { // BeginTx would take the write lock
		return c, err
	}
	defer func() { _, _ = source.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") }()
	var tables int
	// The first read fixes the state that the transaction sees.
	if err := source.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return c, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	copied, err := openSnapshot(path, "?_synchronous=OFF")
	if err != nil {
		return c, err
	}
	target, err := copied.Conn(ctx)
	if err != nil {
		return c, errors.Join(err, copied.Close())
	}
	err = target.Raw(func(to any) error {
		return source.Raw(func(from any) error {
			return copyPages(ctx, to.(*sqlite3.SQLiteConn), from.(*sqlite3.SQLiteConn), file)
		})
	})
	if err = errors.Join(err, target.Close(), copied.Close()); err != nil {
		return c, err
	}
	// Counting reads in random order: from memory, now that the whole file was read.
	if c, err = contentsOfSQLite(ctx, source); err != nil {
		return c, err
	}
	// The header of the copy names a WAL. Without one it is a single file.
	if copied, err = openSnapshot(path, "?_journal_mode=DELETE&_synchronous=OFF"); err == nil {
		err = errors.Join(copied.PingContext(ctx), copied.Close())
	}
	return c, errors.Join(err, file.Sync())
}

func copyPages(ctx context.Context, to, from *sqlite3.SQLiteConn, file *os.File) error {
	b, err := to.Backup("main", from, "main")
	if err != nil {
		return err
	}
	const pageSize = 4096
	for done, unsynced := false, 0; !done && err == nil; {
		if done, err = b.Step(snapshotStep); err == nil {
			err = ctx.Err()
		}
		if unsynced += snapshotStep * pageSize; err == nil && unsynced >= snapshotSync {
			unsynced, err = 0, file.Sync()
		}
	}
	return errors.Join(err, b.Finish())
}

// column of a table, as SQLite describes it.
type column struct {
	name string
	text bool
	key  int // position in the primary key from 1; 0: not in it
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tablesOf returns the tables of a SQLite database with their columns.
func tablesOf(ctx context.Context, q querier) (map[string][]column, error) {
	rows, err := q.QueryContext(ctx, `SELECT t.name, c.name, c.type = 'TEXT', c.pk FROM sqlite_master t
		JOIN pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND t.name <> ? ORDER BY t.name, c.cid`,
		versionTable)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	tables := map[string][]column{}
	for rows.Next() {
		var table string
		var c column
		if err := rows.Scan(&table, &c.name, &c.text, &c.key); err != nil {
			return nil, err
		}
		tables[table] = append(tables[table], c)
	}
	return tables, rows.Err()
}

func names(columns []column) (list []string) {
	for _, c := range columns {
		list = append(list, c.name)
	}
	return list
}

// inOrder returns an ORDER BY of the primary key in byte order: such rows are appended to its
// index.
func inOrder(columns []column, bytewise string) string {
	keys := slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.key == 0 })
	slices.SortFunc(keys, func(a, b column) int { return a.key - b.key })
	var list []string
	for _, c := range keys {
		name := c.name
		if c.text {
			name += bytewise
		}
		list = append(list, name)
	}
	if list == nil {
		return ""
	}
	return " ORDER BY " + strings.Join(list, ", ")
}

func contentsOfSQLite(ctx context.Context, q querier) (c Contents, err error) {
	tables, err := tablesOf(ctx, q)
	if err != nil {
		return c, err
	}
	one := func(query string) (n int64, err error) {
		err = q.QueryRowContext(ctx, query).Scan(&n)
		return n, err
	}
	return contentsOf(tables, one)
}

// contentsOf counts rows; one returns the number that a query selects.
func contentsOf(tables map[string][]column, one func(query string) (int64, error)) (c Contents, err error) {
	c.Rows = make(map[string]int64, len(tables))
	if c.Schema, err = one("SELECT max(version_id) FROM " + versionTable); err != nil {
		return c, err
	}
	for table := range tables {
		if c.Rows[table], err = one("SELECT count(*) FROM " + table); err != nil {
			return c, err
		}
	}
	if c.Users, err = one("SELECT count(*) FROM users WHERE deleted_at = 0"); err != nil {
		return c, err
	}
	changed, err := one("SELECT coalesce(max(at), 0) FROM audit")
	c.Changed = FromUnix(changed)
	return c, err
}

// SQLiteContents returns the contents of this SQLite database.
func (d *DB) SQLiteContents(ctx context.Context) (Contents, error) {
	c, err := contentsOfSQLite(ctx, d.pool)
	return c, d.fail("read the database", err)
}

// ReadSnapshot reads a whole snapshot and checks that SQLite finds it sound and that every
// reference leads to a row.
func ReadSnapshot(ctx context.Context, path string) (c Contents, err error) {
	db, err := openSnapshot(path, readOnlyParameters)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return c, fmt.Errorf("check the copy of the database: %w", err)
	}
	if verdict != "ok" {
		return c, fmt.Errorf("check the copy of the database: it is damaged: %s", verdict)
	}
	var table string
	switch err := db.QueryRowContext(ctx, `SELECT "table" FROM pragma_foreign_key_check LIMIT 1`).Scan(&table); {
	case err == nil:
		return c, fmt.Errorf("check the copy of the database: a row of %s refers to a missing row", table)
	case !errors.Is(err, sql.ErrNoRows):
		return c, fmt.Errorf("check the copy of the database: %w", err)
	}
	return contentsOfSQLite(ctx, db)
}

// snapshotRows copies PostgreSQL row by row, as one transaction sees it.
func (d *DB) snapshotRows(ctx context.Context, path string) (c Contents, err error) {
	schema, err := d.SchemaVersion(ctx)
	if err != nil {
		return c, err
	}
	if err := d.createSnapshot(ctx, path, schema); err != nil {
		return c, err
	}
	target, err := openSnapshot(path, snapshotParameters)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, target.Close(), syncFile(path)) }()
	tables, err := tablesOf(ctx, target)
	if err != nil {
		return c, err
	}
	readOnly := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = d.onPostgres(ctx, readOnly, func(tx pgx.Tx) error {
		if c, err = contentsOf(tables, oneOf(ctx, tx)); err != nil {
			return err
		}
		if c.Schema != schema {
			return errors.New("the database was migrated meanwhile: start again")
		}
		return withoutIndexes(ctx, target, func() error {
			for table, columns := range tables {
				if err := fillSQLite(ctx, target, tx, table, columns); err != nil {
					return fmt.Errorf("table %s: %w", table, err)
				}
			}
			return nil
		})
	})
	return c, err
}

// createSnapshot makes an empty SQLite database with a schema and no rows.
func (d *DB) createSnapshot(ctx context.Context, path string, schema int64) error {
	o := Options{Log: slog.New(slog.DiscardHandler), Unavailable: d.unavailable, Migrations: d.migrations}
	s, err := Open(ctx, path, o)
	if err != nil {
		return err
	}
	return errors.Join(MigrateTo(ctx, s, schema), s.Close())
}

// onPostgres runs a transaction without time limits on its statements, on a connection of its own.
func (d *DB) onPostgres(ctx context.Context, o pgx.TxOptions, do func(tx pgx.Tx) error) error {
	config, _, err := postgresConfig(d.dsn)
	if err != nil {
		return err
	}
	config.RuntimeParams["statement_timeout"], config.RuntimeParams["idle_in_transaction_session_timeout"] = "0", "0"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginTxFunc(ctx, conn, o, do)
}

// oneOf returns a function that returns the number a query selects in a transaction.
func oneOf(ctx context.Context, tx pgx.Tx) func(query string) (int64, error) {
	return func(query string) (n int64, err error) {
		err = tx.QueryRow(ctx, query).Scan(&n)
		return n, err
	}
}

// withoutIndexes drops the indexes of a snapshot and creates them again after do, which is faster.
func withoutIndexes(ctx context.Context, db *sql.DB, do func() error) error {
	rows, err := db.QueryContext(ctx, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var drop, create []string
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return err
		}
		drop, create = append(drop, "DROP INDEX "+name), append(create, statement)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, statement := range drop {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	for _, statement := range create {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// insertParameters is about how many parameters one INSERT has.
const insertParameters = 500

func fillSQLite(ctx context.Context, db *sql.DB, from pgx.Tx, table string, columns []column) error {
	to, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = to.Rollback() }()
	if _, err := to.ExecContext(ctx, "DELETE FROM "+table); err != nil { // rows of the migrations
		return err
	}
	list := strings.Join(names(columns), ", ")
	one := "(" + Repeated("?", len(columns)) + ")"
	most := max(insertParameters/len(columns), 1)
	insert := func(rows int) string {
		return "INSERT INTO " + table + " (" + list + ") VALUES " + Repeated(one, rows)
	}
	full, err := to.PrepareContext(ctx, insert(most))
	if err != nil {
		return err
	}
	defer func() { _ = full.Close() }()
	rows, err := from.Query(ctx, "SELECT "+list+" FROM "+table+inOrder(columns, ` COLLATE "C"`))
	if err != nil {
		return err
	}
	defer rows.Close()
	args := make([]any, 0, most*len(columns))
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		if args = append(args, values...); len(args) < most*len(columns) {
			continue
		}
		if _, err := full.ExecContext(ctx, args...); err != nil {
			return err
		}
		args = args[:0]
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(args) > 0 {
		if _, err := to.ExecContext(ctx, insert(len(args)/len(columns)), args...); err != nil {
			return err
		}
	}
	// The copy does not reuse a number either.
	var sequence *string
	const findSequence = `SELECT max(pg_get_serial_sequence(attrelid::regclass::text, attname))
		FROM pg_attribute WHERE attrelid = $1::regclass AND attidentity <> ''`
	err = from.QueryRow(ctx, findSequence, table).Scan(&sequence)
	if err != nil {
		return err
	}
	if sequence != nil {
		var last int64
		const lastOf = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM "
		err := from.QueryRow(ctx, lastOf+*sequence).Scan(&last)
		if err != nil {
			return err
		}
		if _, err := to.ExecContext(ctx, "DELETE FROM sqlite_sequence WHERE name = ?", table); err != nil {
			return err
		}
		_, err = to.ExecContext(ctx, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table, last)
		if err != nil {
			return err
		}
	}
	return to.Commit()
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// LoadSnapshot fills this PostgreSQL database, which is migrated and has no installation, with the
// rows of a snapshot of the same schema, in one transaction.
func (d *DB) LoadSnapshot(ctx context.Context, path string) error {
	return d.fail("fill the database", d.loadSnapshot(ctx, path))
}

func (d *DB) loadSnapshot(ctx context.Context, path string) (err error) {
	if d.dialect != Postgres {
		return errors.New("a snapshot is a SQLite database already")
	}
	source, err := openSnapshot(path, readOnlyParameters)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	tables, err := tablesOf(ctx, source)
	if err != nil {
		return err
	}
	has, err := contentsOfSQLite(ctx, source)
	if err != nil {
		return err
	}
	err = d.onPostgres(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		one := oneOf(ctx, tx)
		if n, err := one("SELECT count(*) FROM settings"); err != nil || n > 0 {
			return errors.Join(err, errors.New("there is an installation already"))
		}
		restore, err := dropIndexes(ctx, tx, tables)
		if err != nil {
			return err
		}
		for table, columns := range tables {
			if err := fillPostgres(ctx, tx, source, table, columns); err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
		}
		for _, statement := range restore {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		now, err := contentsOf(tables, one)
		if err != nil {
			return err
		}
		return has.Compare(now)
	})
	if err != nil {
		return err
	}
	// The first statements need statistics for their plans.
	return d.onPostgres(ctx, pgx.TxOptions{}, func(tx pgx.Tx) error {
		for table := range tables {
			if _, err := tx.Exec(ctx, "ANALYZE "+table); err != nil {
				return err
			}
		}
		return nil
	})
}

// Compare returns an error if other differs in schema, tables or numbers of rows.
func (c Contents) Compare(other Contents) error {
	if c.Schema != other.Schema {
		return fmt.Errorf("the copy has schema %d instead of %d", other.Schema, c.Schema)
	}
	if len(c.Rows) != len(other.Rows) {
		return fmt.Errorf("the copy has %d tables instead of %d", len(other.Rows), len(c.Rows))
	}
	for table, n := range c.Rows {
		if other.Rows[table] != n {
			return fmt.Errorf("the copy has %d rows in %s instead of %d", other.Rows[table], table, n)
		}
	}
	return nil
}

// dropIndexes drops the indexes and the references of tables, which are created faster once the
// rows are there, and returns the statements that create them.
func dropIndexes(ctx context.Context, tx pgx.Tx, tables map[string][]column) (restore []string, err error) {
	var ours []string
	for table := range tables {
		ours = append(ours, table)
	}
	rows, err := tx.Query(ctx, `SELECT
			'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(conname),
			'ALTER TABLE ' || conrelid::regclass || ' ADD CONSTRAINT ' || quote_ident(conname) || ' '
				|| pg_get_constraintdef(oid),
			(contype = 'f')::int * 2 AS place
		FROM pg_constraint WHERE conrelid = ANY($1::text[]::regclass[]) AND contype IN ('f', 'u')
		UNION ALL SELECT 'DROP INDEX ' || indexrelid::regclass, pg_get_indexdef(indexrelid), 1
		FROM pg_index WHERE indrelid = ANY($1::text[]::regclass[])
			AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
		ORDER BY place`, ours)
	if err != nil {
		return nil, err
	}
	var drop []string
	var d, r string
	var place int
	if _, err := pgx.ForEachRow(rows, []any{&d, &r, &place}, func() error {
		drop, restore = append(drop, d), append(restore, r)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, statement := range slices.Backward(drop) {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return restore, nil
}

func fillPostgres(ctx context.Context, to pgx.Tx, db *sql.DB, table string, columns []column) (err error) {
	if _, err := to.Exec(ctx, "DELETE FROM "+table); err != nil { // rows of the migrations
		return err
	}
	booleans := map[string]bool{}
	described, err := to.Query(ctx, `SELECT attname FROM pg_attribute
		WHERE attrelid = $1::regclass AND atttypid = 'boolean'::regtype`, table)
	if err != nil {
		return err
	}
	var name string
	_, err = pgx.ForEachRow(described, []any{&name}, func() error { booleans[name] = true; return nil })
	if err != nil {
		return err
	}
	list := strings.Join(names(columns), ", ")
	rows, err := db.QueryContext(ctx, "SELECT "+list+" FROM "+table+inOrder(columns, ""))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values, places := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		places[i] = &values[i]
	}
	_, err = to.CopyFrom(ctx, pgx.Identifier{table}, names(columns), pgx.CopyFromFunc(func() ([]any, error) {
		if !rows.Next() {
			return nil, rows.Err()
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		for i, c := range columns {
			if booleans[c.name] {
				values[i] = values[i] != int64(0)
			}
		}
		return values, nil
	}))
	if err != nil {
		return err
	}
	var last int64
	switch err := db.QueryRowContext(ctx, "SELECT seq FROM sqlite_sequence WHERE name = ?", table).Scan(&last); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	_, err = to.Exec(ctx,
		"SELECT setval(pg_get_serial_sequence($1, 'id'), greatest($2::bigint, 1), $2::bigint > 0)", table, last)
	return err
}

// SingleFile merges a database into a single file and syncs it to the disk. Its header names a WAL, as that of a
// database in service does.
func SingleFile(ctx context.Context, path string) error {
	db, err := openSnapshot(path, "?_journal_mode=DELETE")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return syncFile(path)
}
