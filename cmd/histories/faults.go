package main

import (
	"bytes"
	"context"
	_ "embed" // testdata/synced.c
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/store/storetest"
)

// faults are what happens to the processes while histories are made.
var faults = []string{"", "kill", "stop", "restart", "power", "database", "cut", "failover"}

// disturb injects a fault again and again until the context ends, and mends what it broke.
func (w *world) disturb(ctx context.Context, fault string, r *rand.Rand) error {
	pause := func(least, most int) {
		t := time.NewTimer(time.Duration(least+r.IntN(most-least)) * time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil && fault != "" {
		if pause(100, 1500); ctx.Err() != nil {
			break
		}
		i := one(r, w.each)
		var err error
		switch fault {
		case "kill":
			i.stop(syscall.SIGKILL)
			err = i.start()
		case "power": // SQLite's file alone: PostgreSQL's is written to no disk
			for _, i := range w.each {
				i.stop(syscall.SIGKILL)
			}
			err = w.loseUnsynced()
			for _, i := range w.each {
				err = errors.Join(err, i.start())
			}
			w.keptSession(ctx)
		case "restart": // as another version
			i.stop(syscall.SIGTERM)
			err = i.start()
		case "stop":
			i.signal(syscall.SIGSTOP)
			pause(100, 2500)
			i.signal(syscall.SIGCONT)
		case "database":
			err = w.postgres.crash()
		case "failover":
			err = w.failover(ctx, pause)
		case "cut":
			i.link.atCommit.Store(true)
			pause(100, 1500)
			i.link.cut(true)
			i.link.atCommit.Store(false)
			pause(100, 1500)
			i.link.cut(false)
		default:
			err = fmt.Errorf("no fault %q", fault)
		}
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// postgres is a server with a standby that may take its place.
type postgres struct {
	dir     string
	log     *os.File
	folders int
	now     atomic.Pointer[server]
}

// server is a process of PostgreSQL.
type server struct {
	data, port string
	cmd        *exec.Cmd
	ended      <-chan error
}

func newPostgres(dir string) (p *postgres, err error) {
	p = &postgres{dir: dir}
	if p.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	s := p.folder()
	if _, err := p.run("initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync", "--no-instructions"); err != nil {
		return nil, err
	}
	p.now.Store(s)
	return p, p.start(s)
}

func (p *postgres) folder() *server {
	p.folders++
	return &server{data: filepath.Join(p.dir, fmt.Sprint("data", p.folders))}
}

// run runs one of PostgreSQL's programs to its end.
func (p *postgres) run(program string, args ...string) (string, error) {
	cmd, err := storetest.Command(p.dir, program, args...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (p *postgres) start(s *server) (err error) {
	if s.port == "" {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		_, s.port, _ = net.SplitHostPort(address)
	}
	// The machine goes on: what was written before a crash of the server is there without fsync.
	s.cmd, err = storetest.Command(p.dir, "postgres", "-D", s.data, "-k", p.dir, "-p", s.port, "-c",
		"cluster_name=standby", "-c", "max_wal_size=128MB",
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off")
	if err != nil {
		return err
	}
	s.cmd.Stdout, s.cmd.Stderr = p.log, p.log
	if s.ended, err = storetest.Start(s.cmd); err != nil {
		return err
	}
	for range 600 {
		if _, err = p.run("pg_isready", "-h", "127.0.0.1", "-p", s.port); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(p.log.Name())
	return fmt.Errorf("PostgreSQL does not start: %w: %s", err, text[max(0, len(text)-2000):])
}

// stop ends the server at once, in the middle of its transactions.
func (s *server) stop() {
	if s != nil && s.ended != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.ended
	}
}

func (p *postgres) crash() error {
	p.now.Load().stop()
	return p.start(p.now.Load())
}

// failover loses the server of PostgreSQL. Sessions that end meanwhile, with an answer, have to be ended afterwards.
func (w *world) failover(ctx context.Context, pause func(least, most int)) error {
	ctx = context.WithoutCancel(ctx) // what stays pushes out the administrator's session, as the oldest of too many
	var tokens []string
	for range 24 {
		if r := w.login(ctx, w.any(), "keeper", password); r.Cookie(browser.SessionCookie) != "" {
			tokens = append(tokens, r.Cookie(browser.SessionCookie))
		}
	}
	ended, all := make([]bool, len(tokens)), sync.WaitGroup{}
	err := w.postgres.failover(pause, func() {
		for i, token := range tokens {
			all.Go(func() {
				o, _ := w.api(ctx, i, "POST", "/api/auth/logout", token, nil).result()
				ended[i] = o == accepted
			})
		}
	})
	all.Wait()
	for i, token := range tokens {
		me := func(at int) reply { return w.get(ctx, at, "/api/me", token) }
		if err == nil && ended[i] && w.retry(ctx, me).Status == http.StatusOK {
			w.registry.fault("no order of these requests explains that a failover has undone an acknowledged sign-out")
		}
		w.retry(ctx, func(at int) reply { return w.api(ctx, at, "POST", "/api/auth/logout", token, nil) })
	}
	return err
}

// failover loses the server, and goes on with a standby that had every write before it was acknowledged.
func (p *postgres) failover(pause func(least, most int), alone func()) error {
	lost, standby := p.now.Load(), p.folder()
	_, err := p.run("pg_basebackup", "-D", standby.data, "-h", "127.0.0.1", "-p", lost.port, "-U", "postgres", "-R",
		"-X", "stream", "-c", "fast", "--no-sync")
	if err == nil {
		err = p.start(standby)
	}
	ask := func(s *server, query string) (string, error) {
		return p.run("psql", "-h", "127.0.0.1", "-p", s.port, "-U", "postgres", "-qAtc", query)
	}
	for _, query := range []string{
		"ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()",
		// behind all writes before
		"SELECT sync_state FROM pg_stat_replication", "SELECT pg_logical_emit_message(true, '', '')",
	} {
		for try := 0; err == nil; try++ {
			var out string
			out, err = ask(lost, query)
			if !strings.Contains(query, "sync_state") || out == "sync" {
				break
			}
			if pause(50, 100); try > 200 {
				err = fmt.Errorf("the standby is not synchronous but %q", out)
			}
		}
	}
	if err != nil {
		standby.stop()
		return err
	}
	pause(300, 1500)
	// The network between the two is lost before: what is committed now is not to be acknowledged.
	for _, query := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if _, err := ask(standby, query); err != nil {
			return err
		}
	}
	alone()
	pause(100, 700)
	lost.stop()
	_, err = p.run("pg_ctl", "promote", "-D", standby.data, "-w")
	p.now.Store(standby)
	return errors.Join(err, os.RemoveAll(lost.data))
}

func (p *postgres) close() {
	p.now.Load().stop()
	_ = p.log.Close()
}

//go:embed testdata/synced.c
var syncedSource string

// noteSyncs returns a library for LD_PRELOAD that notes what is on the disk: see loseUnsynced.
func (w *world) noteSyncs() (library string, err error) {
	library = filepath.Join(w.dir, "synced.so")
	cc := exec.Command("cc", "-shared", "-fPIC", "-o", library, "-xc", "-", "-ldl")
	cc.Stdin = strings.NewReader(syncedSource)
	if out, err := cc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w: %s", err, out)
	}
	return library, os.WriteFile(filepath.Join(w.disk, "cairn.db-wal.synced"), nil, 0o600)
}

// loseUnsynced loses what was added to the write-ahead log of SQLite since it was written to the disk.
func (w *world) loseUnsynced() error {
	w.commands.Lock() // none runs meanwhile
	defer w.commands.Unlock()
	log := filepath.Join(w.disk, "cairn.db-wal")
	is, err := os.Stat(log)
	on, missing := os.Stat(log + ".synced")
	if err != nil || missing != nil || is.Size() <= on.Size() {
		return missing
	}
	return os.Truncate(log, on.Size())
}

// keptSession notes it as wrong if the administrator has lost their session, and with it much else.
func (w *world) keptSession(ctx context.Context) {
	token, err := w.admin.session(ctx, w)
	if r := w.retry(ctx, func(at int) reply { return w.api(ctx, at, "GET", "/api/me", token, nil) }); err == nil &&
		r.Status == http.StatusUnauthorized {
		w.admin.mu.Lock()
		w.admin.token = ""
		w.admin.mu.Unlock()
		w.registry.fault("no order of these requests explains that a power cut has ended a session")
	}
}

// link is the network between an instance and PostgreSQL.
type link struct {
	address  string
	to       *postgres
	listener net.Listener
	mu       sync.Mutex
	isCut    bool
	open     map[net.Conn]bool
	// atCommit: some connections are lost between a commit and its answer.
	atCommit atomic.Bool
}

func newLink(to *postgres) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{address: l.Addr().String(), to: to, listener: l, open: map[net.Conn]bool{}}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go k.carry(from)
		}
	}()
	return k, nil
}

func (k *link) carry(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", "127.0.0.1:"+k.to.now.Load().port)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	k.mu.Lock()
	if k.isCut {
		k.mu.Unlock()
		return
	}
	k.open[from], k.open[to] = true, true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.open, from)
		delete(k.open, to)
	}()
	done := make(chan struct{})
	go func() { _, _ = io.Copy(to, commits{from, k}); _ = to.Close(); close(done) }()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
}

// commits is what an instance sends.
type commits struct {
	net.Conn
	k *link
}

func (c commits) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if bytes.Contains(bytes.ToLower(b[:n]), []byte("commit\x00")) && c.k.atCommit.Load() && rand.IntN(2) == 0 {
		_ = c.Conn.Close() // what was read is carried on
	}
	return n, err
}

// cut ends every connection and refuses new ones.
func (k *link) cut(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isCut = on; on {
		for c := range k.open {
			_ = c.Close()
		}
	}
}

func (k *link) close() {
	_ = k.listener.Close()
	k.cut(true)
}
