//go:build linux

package cluster

import (
	"bytes"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// database is a PostgreSQL server in a folder of its own.
type database struct {
	t         *testing.T
	dir, port string
	cmd       *exec.Cmd
	ended     <-chan error
	log       bytes.Buffer
	db        *sql.DB // a way in beside the instances
}

// newDatabases are a primary and a standby that has every write before it is acknowledged.
func newDatabases(t *testing.T) (primary, standby *database) {
	t.Helper()
	primary, standby = &database{t: t, port: freePort(t)}, &database{t: t, port: freePort(t)}
	for _, d := range []*database{primary, standby} {
		var err error
		// Not t.TempDir: the user postgres may not enter it.
		d.dir, err = os.MkdirTemp("", "cairn-cluster-")
		must(t, err)
		d.db, err = sql.Open("pgx", "postgres://postgres@127.0.0.1:"+d.port+"/postgres?sslmode=disable")
		must(t, err)
		t.Cleanup(func() { _ = d.db.Close() })
		t.Cleanup(func() { _ = os.RemoveAll(d.dir) })
	}
	primary.run("initdb", "-D", primary.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	primary.start("-c", "synchronous_standby_names=standby", "-c", "synchronous_commit=on")
	standby.run("pg_basebackup", "-D", standby.data(), "-h", "127.0.0.1", "-p", primary.port, "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "--no-sync")
	standby.start("-c", "cluster_name=standby") // also its name in synchronous_standby_names
	eventually(t, time.Minute, "the standby is synchronous", func() error {
		var state string
		err := primary.db.QueryRow("SELECT sync_state FROM pg_stat_replication").Scan(&state)
		if err == nil && state != "sync" {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	return primary, standby
}

func (d *database) data() string { return filepath.Join(d.dir, "data") }

// run runs one of PostgreSQL's programs to its end.
func (d *database) run(program string, args ...string) {
	d.t.Helper()
	cmd, err := storetest.Command(d.dir, program, args...)
	must(d.t, err)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v: %s", program, err, out)
	}
}

func (d *database) start(args ...string) {
	d.t.Helper()
	var err error
	d.cmd, err = storetest.Command(d.dir, "postgres", append([]string{"-D", d.data(), "-k", d.dir, "-p", d.port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=100"}, args...)...)
	must(d.t, err)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.ended, err = storetest.Start(d.cmd)
	must(d.t, err)
	d.t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGQUIT)
		<-d.ended
	})
	eventually(d.t, time.Minute, "postgres answers", func() error { return d.db.Ping() })
}

// kill is the end of the machine that it runs on: no connection is closed, and none of
// its processes lives on to acknowledge a write.
func (d *database) kill() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
	<-d.ended
}

// hang leaves connections open that no process serves.
func (d *database) hang() {
	d.t.Helper()
	d.signal(syscall.SIGSTOP)
	d.t.Cleanup(func() { d.signal(syscall.SIGKILL) }) // before that of start, which waits
}

// signal goes to all its processes.
func (d *database) signal(s syscall.Signal) {
	d.t.Helper()
	pid := d.cmd.Process.Pid
	must(d.t, syscall.Kill(pid, syscall.SIGSTOP)) // it starts no other
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	must(d.t, err)
	must(d.t, syscall.Kill(pid, s))
	for child := range strings.FieldsSeq(string(children)) {
		n, err := strconv.Atoi(child)
		must(d.t, err)
		_ = syscall.Kill(n, s) // it may have ended automatically
	}
}

func (d *database) promote() {
	d.t.Helper()
	d.run("pg_ctl", "promote", "-D", d.data(), "-w")
}

func (d *database) exec(query string) {
	d.t.Helper()
	if _, err := d.db.Exec(query); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
}

func (d *database) count(query string) (n int) {
	d.t.Helper()
	must(d.t, d.db.QueryRow(query).Scan(&n))
	return n
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// eventually waits for what has to come.
func eventually(t *testing.T, within time.Duration, what string, ok func() error) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s: %v", within, what, err)
		}
	}
}

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
