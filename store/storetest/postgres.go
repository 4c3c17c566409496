package storetest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/cairn-id/cairn/store"
)

// address names the variable with the URL of a PostgreSQL server, whose user may create schemas.
const address = "TEST_POSTGRES_DSN"

// server is the server that this test binary has started, if any.
var server struct {
	sync.Mutex
	main    bool // Main runs and will stop it
	tried   bool
	dsn     string
	why     error
	stop    func()
	schemas atomic.Int64
	unused  []string // migrated and empty
	empty   string   // the statements that empty one
}

// Main is m.Run for packages that use Each. It stops the PostgreSQL server that was started for
// them. Nothing in a test's folder has to survive, and a test is over before much memory could be
// collected: the folders are in memory, where $TMPDIR does not say otherwise, and $GOGC is 400. Many
// tests wait for a process, so there are at least four at once, where -parallel does not say otherwise.
func Main(m interface{ Run() int }) int {
	_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	if dir := memory(); dir != "" && os.Getenv("TMPDIR") == "" {
		_ = os.Setenv("TMPDIR", dir)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
		_ = os.Setenv("GOGC", "400") // of the programs that tests start
	}
	server.Lock()
	server.main = true
	server.Unlock()
	code := m.Run()
	server.Lock()
	defer server.Unlock()
	if server.stop != nil {
		server.stop()
		return code
	}
	for _, name := range server.unused {
		if err := execute(context.Background(), os.Getenv(address), dropSchema(name)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// postgresDSN returns the URL of the given server, or of one that the first call starts.
func postgresDSN() (string, error) {
	if dsn := os.Getenv(address); dsn != "" {
		return dsn, nil
	}
	server.Lock()
	defer server.Unlock()
	if !server.tried && !server.main {
		return "", fmt.Errorf("TestMain does not call storetest.Main, which would stop a server")
	}
	if !server.tried {
		server.tried = true
		server.dsn, server.stop, server.why = startPostgres()
	}
	return server.dsn, server.why
}

// schemaURL returns the server's URL with a schema.
func schemaURL(server, schema string) string {
	sep := "?"
	if strings.Contains(server, "?") {
		sep = "&"
	}
	return server + sep + url.Values{"search_path": {schema}}.Encode()
}

// serverURL is postgresDSN for a test. Without a server it skips the test, or fails it with
// CI=true, where everything has to be tested.
func serverURL(t testing.TB) string {
	t.Helper()
	dsn, err := postgresDSN()
	if err != nil {
		message := fmt.Sprintf("no PostgreSQL to test on: %v (set %s=postgres://... or install one)", err, address)
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return dsn
}

// createSchema creates a schema and returns its name.
func createSchema(t testing.TB, dsn string) string {
	t.Helper()
	name := fmt.Sprintf("cairn_test_%d_%d", os.Getpid(), server.schemas.Add(1))
	must(t, execute(t.Context(), dsn, "CREATE SCHEMA "+name))
	return name
}

func dropSchema(name string) string { return "DROP SCHEMA " + name + " CASCADE" }

// emptySchema returns the URL of a new schema, which is dropped after the test.
func emptySchema(t testing.TB) string {
	t.Helper()
	dsn := serverURL(t)
	name := createSchema(t, dsn)
	t.Cleanup(func() { must(t, execute(context.Background(), dsn, dropSchema(name))) })
	return schemaURL(dsn, name)
}

// migratedSchema returns the URL of a migrated schema without other rows. After the test it is
// emptied for the next one, or dropped if the test has changed its tables.
func migratedSchema(t testing.TB) string {
	t.Helper()
	dsn := serverURL(t)
	name := unusedSchema()
	if name == "" {
		name = createSchema(t, dsn)
		must(t, open(t, schemaURL(dsn, name), store.Options{}).Close())
		must(t, noteRows(t.Context(), schemaURL(dsn, name)))
	}
	t.Cleanup(func() {
		server.Lock()
		defer server.Unlock()
		if server.main && execute(context.Background(), schemaURL(dsn, name), server.empty) == nil {
			server.unused = append(server.unused, name)
			return
		}
		must(t, execute(context.Background(), dsn, dropSchema(name)))
	})
	return schemaURL(dsn, name)
}

func unusedSchema() (name string) {
	server.Lock()
	defer server.Unlock()
	if n := len(server.unused); n > 0 {
		name, server.unused = server.unused[n-1], server.unused[:n-1]
	}
	return name
}

// noteRows sets server.empty from a schema that was just migrated.
func noteRows(ctx context.Context, dsn string) error {
	server.Lock()
	defer server.Unlock()
	db, err := sql.Open("pgx", dsn)
	if err != nil || server.empty != "" {
		return err
	}
	defer func() { _ = db.Close() }()
	var names string
	err = db.QueryRowContext(ctx, `SELECT string_agg(tablename, ' ') FROM pg_tables
		WHERE schemaname = current_schema()`).Scan(&names)
	if err != nil {
		return err
	}
	var deletes, inserts []string
	for _, table := range strings.Fields(names) {
		deletes = append(deletes, table+"_ AS (DELETE FROM "+table+")")
		var insert sql.NullString
		query := "SELECT format('; INSERT INTO " + table + " OVERRIDING SYSTEM VALUE SELECT * FROM " +
			"json_populate_recordset(NULL::" + table + ", %L)', json_agg(x)) FROM " + table + " x HAVING count(*) > 0"
		err := db.QueryRowContext(ctx, query).Scan(&insert)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		inserts = append(inserts, insert.String)
	}
	// One statement deletes everything, because references are checked at its end.
	server.empty = "WITH " + strings.Join(deletes, ", ") + " SELECT 1" + strings.Join(inserts, "")
	return nil
}

func execute(ctx context.Context, dsn, statement string) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
