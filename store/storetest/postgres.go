package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// address of a PostgreSQL server for tests: a URL whose user may create schemas.
const address = "TEST_POSTGRES_DSN"

// server is the one this test binary has started, if any.
var server struct {
	sync.Mutex
	main    bool // Main runs and will stop it
	tried   bool
	dsn     string
	why     error
	stop    func()
	schemas atomic.Int64
}

// Main is m.Run for packages that use Each; it stops the PostgreSQL server that
// was started for them.
func Main(m interface{ Run() int }) int {
	server.Lock()
	server.main = true
	server.Unlock()
	code := m.Run()
	server.Lock()
	defer server.Unlock()
	if server.stop != nil {
		server.stop()
	}
	return code
}

// postgresDSN is the address of a server: the given one, or one that is started
// at the first call.
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

// postgresSchema is a URL of a schema that is dropped after the test. Without a
// server the test is skipped, but not where everything has to be tested (CI=true).
func postgresSchema(t testing.TB) string {
	t.Helper()
	dsn, err := postgresDSN()
	if err != nil {
		message := fmt.Sprintf("no PostgreSQL to test on: %v (set %s=postgres://... or install a server)", err, address)
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	name := fmt.Sprintf("cairn_test_%d_%d", os.Getpid(), server.schemas.Add(1))
	execute(t, dsn, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, dsn, "DROP SCHEMA "+name+" CASCADE") })
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + url.Values{"search_path": {name}}.Encode()
}

func execute(t testing.TB, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatal(err)
	}
}
