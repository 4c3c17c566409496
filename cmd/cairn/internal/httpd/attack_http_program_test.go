package httpd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// installed is the real program, run as a command in a folder of its own.
type installed struct {
	*service
	dir  string
	cmd  *exec.Cmd
	env  []string
	stop func() // as an operator does, and waits; also at the end of the test
}

// newInstalled is an initialized installation with the administrator keeper, on
// the database at dsn (empty: cairn.db in its folder).
func newInstalled(t *testing.T, hs256 bool, dsn string) *installed {
	t.Helper()
	p := &installed{service: &service{t: t, log: &logBuffer{}}, dir: t.TempDir(), env: []string{programPath()}}
	if isPostgres(dsn) {
		p.env = append(p.env, "SERVICE_DATABASE="+dsn)
	}
	p.write("password", password+"\n")
	args := []string{"init", "--handle", "keeper", "--password-file", "password"}
	if !hs256 {
		args = append(args, "--generate-key", "key.pem")
		p.env = append(p.env, "SERVICE_OIDC_PRIVATE_KEY_FILE=key.pem")
	}
	p.run(args...)
	return p
}

func (p *installed) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *installed) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), programFile(), args...) // a test's own context ends before its clean-up
	c.Dir, c.Env = p.dir, p.env
	return c
}

// run runs a command and returns what it printed.
func (p *installed) run(args ...string) string {
	p.t.Helper()
	var complaint bytes.Buffer
	c := p.command(args...)
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("cairn %s: %v: %s", args[0], err, complaint.String())
	}
	return string(out)
}

// serve starts the service and waits until it listens.
func (p *installed) serve() {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		p.t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	p.URL = fmt.Sprintf("http://localhost:%d", address.Port)
	p.cmd = p.command("serve", "--listen", address.String(), "--issuer", p.URL)
	p.cmd.Stdout = p.log
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	started, ended := make(chan struct{}), make(chan struct{})
	p.stop = sync.OnceFunc(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := p.cmd.Wait(); err != nil {
			p.t.Errorf("serve ended with %v", err)
		}
	})
	p.t.Cleanup(p.stop)
	go func() {
		defer close(ended)
		once := sync.OnceFunc(func() { close(started) })
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			_, _ = p.log.Write(append(lines.Bytes(), '\n'))
			if strings.Contains(lines.Text(), `"msg":"started"`) {
				once()
			}
		}
	}()
	select {
	case <-started:
	case <-ended:
		p.t.Fatalf("serve: %s", p.log)
	case <-time.After(10 * time.Second):
		p.t.Fatal("serve does not start")
	}
}

// startInstalled serves a fresh installation.
func startInstalled(t *testing.T, hs256 bool, dsn string) *installed {
	t.Helper()
	p := newInstalled(t, hs256, dsn)
	p.serve()
	return p
}

// jsonOf decodes what a command printed with -o json.
func jsonOf(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	return v
}
