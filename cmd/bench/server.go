package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/store/generated"
)

// process is a server under test: a program of its own, so that its processor time is its own.
type process struct {
	cmd   *exec.Cmd
	log   *os.File
	ended chan struct{}
	err   error // once it has ended
}

// installation is a cairn that is made, run and removed.
type installation struct {
	program, name, folder, logLevel string
	sessions                        int
	database                        string // file or URL; empty: a new file
	filled                          filled // of the database; zero: it is new
	metrics                         string // address for metrics and profiles; empty: none
}

// redirectURI leads nowhere: no one follows it.
const redirectURI = "http://127.0.0.1:9/callback"

// start installs cairn and starts it.
func (in installation) start(ctx context.Context) (*target, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	t := &target{name: in.name, address: address, issuer: "http://localhost:" + port, password: in.filled.Password}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SERVICE_") })
	if in.database == "" {
		in.database = filepath.Join(in.folder, "cairn.db")
	}
	env = append(env, "SERVICE_CONFIG="+filepath.Join(in.folder, "cairn.yaml"), "SERVICE_DATABASE="+in.database)
	run := func(into any, args ...string) error {
		var complaint bytes.Buffer
		cmd := exec.CommandContext(ctx, in.program, append(args, "-o", "json")...)
		cmd.Dir, cmd.Env, cmd.Stderr = in.folder, env, &complaint
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", in.program, strings.Join(args[:2], " "), err, bytes.TrimSpace(complaint.Bytes()))
		}
		return json.Unmarshal(out, into)
	}
	var ignored any
	if in.filled.Users > 0 {
		for n := range in.sessions {
			t.handles = append(t.handles, generated.Handle(n*in.filled.Users/in.sessions, in.filled.Users))
		}
		if err := os.WriteFile(filepath.Join(in.folder, "cairn.yaml"), nil, 0o600); err != nil {
			return nil, err
		}
		if err := run(&ignored, "keys", "generate", "key.pem"); err != nil {
			return nil, err
		}
	} else {
		// The config file has to be new.
		err := run(&ignored, "init", "--config", "", "--handle", "keeper", "--generate-password", "--generate-key", "key.pem", "--listen", address)
		if err == nil {
			err = t.addUsers(ctx, in, run)
		}
		if err != nil {
			return nil, err
		}
	}
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := run(&client, "client", "add", "Bench", "--redirect-uri", redirectURI, "--require-pkce", "--trusted"); err != nil {
		return nil, err
	}
	t.clientID, t.clientSecret = client.ID, client.Secret
	args := []string{"serve", "--listen", address, "--issuer", t.issuer, "--private-key-file", "key.pem", "--log-level", in.logLevel}
	for _, name := range []string{"login", "login-account", "token", "all"} {
		args = append(args, "--rate-limit", name+"=1000000/1s")
	}
	api := "urn:bench:" + t.clientID
	err = run(&ignored, "keys", "generate", "ec.pem", "--type", "es256")
	if err == nil {
		args = append(args, "--additional-key-file", "ec.pem")
		err = run(&ignored, "api", "add", api, "--name", "Bench", "--client="+t.clientID)
	}
	switch {
	case err == nil:
		t.api = api
	case !strings.Contains(err.Error(), "unexpected argument api") && !strings.Contains(err.Error(), "unknown flag --type"):
		return nil, err // else it is a version that has neither
	}
	if in.metrics != "" {
		args = append(args, "--metrics-listen", in.metrics)
	}
	return t, t.serve(ctx, in, env, args)
}

// addUsers registers those who sign in, as an operator does.
func (t *target) addUsers(ctx context.Context, in installation, run func(into any, args ...string) error) error {
	t.password = password.Generate(0)
	hasher, err := password.NewHasher()
	if err != nil {
		return err
	}
	hash, err := hasher.Hash(ctx, t.password)
	if err != nil {
		return err
	}
	rows := []map[string]string{}
	for n := range in.sessions {
		t.handles = append(t.handles, generated.Handle(n, in.sessions))
		rows = append(rows, map[string]string{"handle": t.handles[n], "password_hash": hash})
	}
	b, err := json.Marshal(rows)
	if err == nil {
		err = os.WriteFile(filepath.Join(in.folder, "users.json"), b, 0o600)
	}
	if err != nil {
		return err
	}
	var ignored any
	return run(&ignored, "user", "import", "users.json")
}

// freeAddress is one of this machine that was free a moment ago: an issuer has to be known
// before the server starts.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// serve starts the service, which runs until stop, and returns when it answers.
func (t *target) serve(ctx context.Context, in installation, env, args []string) (err error) {
	if t.log, err = os.OpenFile(filepath.Join(in.folder, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return err
	}
	t.cmd, t.ended = exec.CommandContext(ctx, in.program, args...), make(chan struct{})
	t.cmd.Dir, t.cmd.Env, t.cmd.Stdout, t.cmd.Stderr = in.folder, env, t.log, t.log
	t.cmd.Cancel = func() error { return t.cmd.Process.Signal(syscall.SIGTERM) }
	t.cmd.WaitDelay = 20 * time.Second
	if err := t.cmd.Start(); err != nil {
		return errors.Join(err, t.log.Close())
	}
	go func() {
		t.err = t.cmd.Wait()
		close(t.ended)
	}()
	limit, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	client := newClient()
	defer client.CloseIdleConnections()
	for again := time.NewTicker(20 * time.Millisecond); ; {
		if _, err := t.ask(limit, client, http.StatusOK, metadataPath, nil); err == nil {
			return nil
		}
		select {
		case <-t.ended:
			return t.stop()
		case <-limit.Done():
			return errors.Join(errors.New("it does not answer"), t.stop())
		case <-again.C:
		}
	}
}

// stop ends it, and says why it has ended before.
func (p *process) stop() error {
	defer func() { _ = p.log.Close() }()
	select {
	case <-p.ended:
		return fmt.Errorf("the server has ended (%v): %s", p.err, p.lastWords())
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return nil
}

// lastWords are the end of its log, which has no secrets in it.
func (p *process) lastWords() string {
	b := make([]byte, 1000)
	end, _ := p.log.Seek(0, io.SeekEnd)
	n, _ := p.log.ReadAt(b, max(0, end-int64(len(b))))
	return string(bytes.TrimSpace(b[:n]))
}

// trim keeps the log of many requests from filling the disk.
func (p *process) trim() {
	if info, err := p.log.Stat(); err == nil && info.Size() > 16<<20 {
		_ = p.log.Truncate(0)
	}
}
