//go:build linux

// Package cluster has the tests of several instances: real programs behind a real HAProxy,
// on a PostgreSQL with a synchronous standby.
package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/store/storetest"
)

const instances = 3

// installation is instances of the program behind a proxy.
type installation struct {
	t                *testing.T
	dir              string
	URL              string // the issuer: the proxy
	program          string // what the next start runs
	secret           string // of the application
	stats            string // socket of the proxy
	primary, standby *database
	each             [instances]*instance
}

type instance struct {
	URL, port string
	cmd       *exec.Cmd
	ended     <-chan error
	log       logFile
}

// logFile holds what a program has printed so far.
type logFile struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *logFile) text() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

// need skips where a program is not installed; in CI nothing may be missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if found, _ := filepath.Glob(program); len(found) == 0 {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%s is missing", program)
			}
			t.Skipf("%s is missing", program)
		}
	}
}

// newInstallation makes what init makes; nothing runs but the databases.
func newInstallation(t *testing.T, program string) *installation {
	t.Helper()
	need(t, "/usr/sbin/haproxy", "/usr/lib/postgresql/*/bin/pg_basebackup")
	c := &installation{t: t, dir: t.TempDir(), program: program}
	c.primary, c.standby = newDatabases(t)
	front := freePort(t)
	c.URL = "http://localhost:" + front
	for i := range c.each {
		port := freePort(t)
		c.each[i] = &instance{port: port, URL: "http://127.0.0.1:" + port}
	}
	must(t, os.WriteFile(filepath.Join(c.dir, "password"), []byte(password), 0o600))
	c.cairn("init", "--handle", "keeper", "--password-file", "password", "--generate-key", "key.pem")
	c.proxy(front)
	return c
}

// environment of every command. The first host of the URL is the one that will be lost.
func (c *installation) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "SERVICE_OIDC_ISSUER=" + c.URL, "SERVICE_SHUTDOWN_DELAY=3s",
		"SERVICE_TRUSTED_PROXIES=127.0.0.1", "SERVICE_LOG_LEVEL=info", "SERVICE_LOG_FORMAT=json", "SERVICE_RATE_LIMITS=all=off,token=off,invite=off",
		fmt.Sprintf("SERVICE_DATABASE=postgres://postgres@127.0.0.1:%s,127.0.0.1:%s/postgres?sslmode=disable", c.primary.port, c.standby.port),
	}
}

func (c *installation) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.program, args...)
	cmd.Dir, cmd.Env = c.dir, c.environment()
	return cmd
}

// cairn runs a command of the program and returns what it prints.
func (c *installation) cairn(args ...string) string {
	c.t.Helper()
	out, err := c.command(args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		c.t.Fatalf("cairn %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	must(c.t, err)
	return strings.TrimSpace(string(out))
}

// proxy runs HAProxy with the configuration that people are given.
func (c *installation) proxy(port string) {
	c.t.Helper()
	b, err := os.ReadFile("../../../../deploy/haproxy.cfg")
	must(c.t, err)
	c.stats = filepath.Join(c.dir, "stats")
	change := map[string]string{"maxconn 20000": "stats socket " + c.stats, "bind :443 ssl crt /etc/haproxy/id.example.org.pem alpn h2,http/1.1": "bind 127.0.0.1:" + port}
	for i, each := range c.each {
		change[fmt.Sprintf("192.0.2.1%d:4040", i+1)] = "127.0.0.1:" + each.port
	}
	if check := os.Getenv("CAIRN_CLUSTER_CHECK"); check != "" { // another path to check, for programs before
		change["GET /readyz"] = "GET " + check
	}
	text := string(b)
	for old, now := range change {
		if strings.Count(text, old) != 1 {
			c.t.Fatalf("deploy/haproxy.cfg lacks %q", old)
		}
		text = strings.Replace(text, old, now, 1)
	}
	file := filepath.Join(c.dir, "haproxy.cfg")
	must(c.t, os.WriteFile(file, []byte(text), 0o600))
	var log logFile
	cmd := exec.Command("/usr/sbin/haproxy", "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = &log, &log
	ended, err := storetest.Start(cmd)
	must(c.t, err)
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if c.t.Failed() {
			c.t.Logf("HAProxy: %s", log.text())
		}
	})
}

// start starts an instance and waits until the proxy may send it requests.
func (c *installation) start(i int) {
	c.t.Helper()
	n := c.each[i]
	n.cmd = c.command("serve", "--listen", "127.0.0.1:"+n.port)
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	var err error
	n.ended, err = storetest.Start(n.cmd)
	must(c.t, err)
	c.t.Cleanup(func() { c.stop(i) })
	eventually(c.t, time.Minute, "an instance is ready", func() error {
		got, err := http.Get(n.URL + "/readyz")
		if err == nil {
			_ = got.Body.Close()
			if got.StatusCode != http.StatusOK {
				err = errors.New(got.Status)
			}
		}
		return err
	})
	eventually(c.t, time.Minute, "the proxy sends requests to an instance", func() error {
		socket, err := net.Dial("unix", c.stats)
		if err != nil {
			return err
		}
		defer func() { _ = socket.Close() }()
		_, _ = io.WriteString(socket, "show servers state cairn\n")
		state, err := io.ReadAll(socket)
		// Name, address, operational state: 2 is running.
		if err != nil || !strings.Contains(string(state), " "+[]string{"one", "two", "three"}[i]+" 127.0.0.1 2 ") {
			return fmt.Errorf("%v %s: %s", err, state, n.log.text())
		}
		return nil
	})
}

// stop is that of a service manager.
func (c *installation) stop(i int) {
	c.t.Helper()
	n := c.each[i]
	if n.cmd == nil {
		return
	}
	must(c.t, n.cmd.Process.Signal(syscall.SIGTERM))
	if err := <-n.ended; err != nil {
		c.t.Errorf("instance %d ended with %v: %s", i, err, n.log.text())
	}
	n.cmd = nil
}

func (c *installation) startAll() {
	c.t.Helper()
	for i := range c.each {
		c.start(i)
	}
}

// restartAll replaces one instance after the other.
func (c *installation) restartAll(program string) {
	c.t.Helper()
	before := c.program
	c.program = program
	for i := range c.each {
		c.stop(i)
		c.start(i)
		if before != program {
			time.Sleep(4 * time.Second) // the versions side by side
		}
	}
}
