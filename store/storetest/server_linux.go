package storetest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// memory returns a folder in memory with room for the temporary files of tests, or "".
func memory() string {
	const dir, room = "/dev/shm", 2 << 30
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || fs.Flags&unix.ST_NOEXEC != 0 ||
		unix.Access(dir, unix.W_OK) != nil || fs.Bavail*uint64(fs.Bsize) < room { // #nosec G115 -- a size of blocks
		return ""
	}
	return dir
}

// startPostgres runs a server on a socket in a temporary folder, without durability. PostgreSQL
// refuses to run as root, so root runs it as the user postgres.
func startPostgres() (dsn string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "cairn-postgres-")
	if err != nil {
		return "", nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	data := filepath.Join(dir, "data")
	initdb, err := Command(dir, "initdb", "-D", data, "-U", "cairn", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync", "--no-instructions")
	if err != nil {
		remove()
		return "", nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	var log bytes.Buffer
	cmd, err := Command(dir, "postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=200",
		"-c", "logging_collector=off", "-c", "jit=off", "-c", "autovacuum=off")
	var ended <-chan error
	if err == nil {
		cmd.Stderr, cmd.Stdout = &log, &log
		ended, err = Start(cmd)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // at once: nothing has to survive
		<-ended
		remove()
	}
	dsn = "postgres://cairn@/postgres?" + url.Values{"host": {dir}}.Encode()
	if err := waitForPostgres(dsn, ended); err != nil {
		if !errors.Is(err, errEnded) {
			stop()
		} else {
			remove()
		}
		return "", nil, fmt.Errorf("start postgres: %w: %s", err, log.Bytes())
	}
	return dsn, stop, nil
}

// Command returns a command for a program of the newest installed PostgreSQL, to be run in a
// folder. The folder is given to the user that it runs as.
func Command(dir, program string, args ...string) (*exec.Cmd, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(bin, program), args...)
	cmd.Dir = dir
	cmd.SysProcAttr, err = postgresUser(dir)
	return cmd, err
}

// Start starts a program that dies with this one. ended receives the error with which it ends.
func Start(cmd *exec.Cmd) (ended <-chan error, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	started, end := make(chan error, 1), make(chan error, 1)
	go func() {
		// The death signal comes when the thread that started the process ends.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			end <- cmd.Wait()
			close(end)
		}
	}()
	return end, <-started
}

// postgresPrograms returns the folder of the newest installed server.
func postgresPrograms() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("no programs in /usr/lib/postgresql")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// postgresUser gives the folder to the user as whom the server runs.
func postgresUser(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("postgres does not run as root: %w", err)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, uid, gid)); err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} // #nosec G115 -- ids of the system
	return attributes, nil
}

var errEnded = errors.New("it ended")

func waitForPostgres(dsn string, ended <-chan error) error {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
