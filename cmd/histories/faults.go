package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/store/storetest"
)

// faults are what happens to the processes while histories are made.
var faults = []string{"", "kill", "stop", "restart", "skew", "database", "cut"}

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
	if fault == "skew" {
		for n := range w.each {
			if err := w.setClock(n, int(w.moved.Load())+3*n); err != nil {
				return err
			}
		}
		<-ctx.Done()
		for n := range w.each {
			if err := w.setClock(n, int(w.moved.Load())); err != nil {
				return err
			}
		}
		return nil
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
		case "restart":
			i.stop(syscall.SIGTERM)
			err = i.start()
		case "stop":
			i.signal(syscall.SIGSTOP)
			pause(100, 2500)
			i.signal(syscall.SIGCONT)
		case "database":
			if w.postgres != nil {
				err = w.postgres.crash()
			}
		case "cut":
			if i.link != nil {
				i.link.cut(true)
				pause(100, 2500)
				i.link.cut(false)
			}
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

// postgres is a server in a folder of its own.
type postgres struct {
	dir, address string
	cmd          *exec.Cmd
	ended        <-chan error
	log          bytes.Buffer
}

func newPostgres() (p *postgres, err error) {
	p = &postgres{}
	if p.dir, err = os.MkdirTemp("", "cairn-histories-pg-"); err != nil {
		return nil, err
	}
	if p.address, err = freeAddress(); err != nil {
		return nil, err
	}
	initdb, err := storetest.Command(p.dir, "initdb", "-D", filepath.Join(p.dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if err != nil {
		return nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return p, p.start()
}

func (p *postgres) start() error {
	_, port, _ := net.SplitHostPort(p.address)
	var err error
	// The machine goes on: what was written before a crash of the server is there without fsync.
	p.cmd, err = storetest.Command(p.dir, "postgres", "-D", filepath.Join(p.dir, "data"), "-k", p.dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "fsync=off")
	if err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if p.ended, err = storetest.Start(p.cmd); err != nil {
		return err
	}
	for range 600 {
		ready, err := storetest.Command(p.dir, "pg_isready", "-h", "127.0.0.1", "-p", port)
		if err != nil {
			return err
		}
		if ready.Run() == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("PostgreSQL does not start: %s", p.log.Bytes())
}

// crash ends the server at once, in the middle of its transactions, and starts it again.
func (p *postgres) crash() error {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.ended
	return p.start()
}

func (p *postgres) close() {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.ended
	}
	_ = os.RemoveAll(p.dir)
}

// link is the network between an instance and PostgreSQL.
type link struct {
	address, to string
	listener    net.Listener
	mu          sync.Mutex
	isCut       bool
	open        map[net.Conn]bool
}

func newLink(to string) (*link, error) {
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
	to, err := net.Dial("tcp", k.to)
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
	go func() { _, _ = io.Copy(to, from); _ = to.Close(); close(done) }()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
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

// mailbox is a mail server that keeps what it gets.
type mailbox struct {
	address  string
	listener net.Listener
	mu       sync.Mutex
	mails    map[string][]string // by recipient
}

func newMailbox() (*mailbox, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mailbox{address: l.Addr().String(), listener: l, mails: map[string][]string{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(c)
		}
	}()
	return m, nil
}

// serve is a session of SMTP (RFC 5321).
func (m *mailbox) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in, to := bufio.NewReader(c), ""
	say := func(s string) { _, _ = io.WriteString(c, s+"\r\n") }
	say("220 mailbox")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.ToUpper(word) {
		case "RCPT":
			_, rest, _ = strings.Cut(rest, "<")
			to, _, _ = strings.Cut(rest, ">")
			say("250 ok")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			m.mu.Lock()
			m.mails[to] = append(m.mails[to], text.String())
			m.mu.Unlock()
			say("250 ok")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// of returns the mails to an address.
func (m *mailbox) of(to string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mails[to])
}

// wait waits for a mail that fits.
func (m *mailbox) wait(ctx context.Context, to string, within time.Duration, fits func(string) bool) (string, error) {
	for end := time.Now().Add(within); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		for _, text := range m.of(to) {
			if fits(text) {
				return text, nil
			}
		}
	}
	return "", errors.New("no such mail to " + to)
}

func (m *mailbox) close() { _ = m.listener.Close() }
