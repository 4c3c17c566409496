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
	"regexp"
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
	end   context.CancelFunc
	ended chan struct{}
	err   error // once it has ended
}

// installation is a cairn that is made, run and removed.
type installation struct {
	program, name, folder, logLevel string
	sessions                        int
	database                        string   // file or URL; empty: a new file
	filled                          filled   // of the database; zero: it is new
	metrics                         string   // address for metrics and profiles; empty: none
	env                             []string // further settings
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
	other := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SERVICE_") })
	if in.database == "" {
		in.database = filepath.Join(in.folder, "cairn.db")
	}
	config := filepath.Join(in.folder, "cairn.yaml")
	in.env = append(append(other, in.env...), "SERVICE_CONFIG="+config, "SERVICE_DATABASE="+in.database)
	if in.filled.Users > 0 {
		for n := range in.sessions {
			t.handles = append(t.handles, generated.Handle(n*in.filled.Users/in.sessions, in.filled.Users))
		}
		if err = os.WriteFile(config, nil, 0o600); err == nil {
			err = in.run(ctx, nil, "keys", "generate", "key.pem")
		}
	} else {
		// --config is empty because init wants to create that file.
		err = in.run(ctx, nil, "init", "--config", "", "--handle", "keeper", "--generate-password",
			"--generate-key", "key.pem", "--listen", address)
		if err == nil {
			err = in.addUsers(ctx, t)
		}
	}
	if err != nil {
		return nil, err
	}
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	err = in.run(ctx, &client, "client", "add", "Bench", "--redirect-uri", redirectURI, "--require-pkce", "--trusted")
	if err != nil {
		return nil, err
	}
	t.clientID, t.clientSecret = client.ID, client.Secret
	args := []string{"--listen", address, "--issuer", t.issuer, "--private-key-file", "key.pem"}
	args = append(args, "--log-level", in.logLevel)
	for _, name := range []string{"login", "login-address", "login-account", "token", "all"} {
		args = append(args, "--rate-limit", name+"=1000000/1s")
	}
	if in.metrics != "" {
		args = append(args, "--metrics-listen", in.metrics)
	}
	api := "urn:bench:" + t.clientID
	err = in.run(ctx, nil, "keys", "generate", "ec.pem", "--type", "es256")
	if err == nil {
		args = append(args, "--additional-key-file", "ec.pem")
		err = in.run(ctx, nil, "api", "add", api, "--name", "Bench", "--client="+t.clientID)
	}
	switch {
	case err == nil:
		t.api = api
	case !unknownCommand.MatchString(err.Error()):
		return nil, err
	}
	return t, t.serve(ctx, in, args)
}

// unknownCommand is the error of a version that knows neither APIs nor their keys.
var unknownCommand = regexp.MustCompile("unexpected argument api|unknown flag --type")

// run runs a command of the program in the folder, and reads what it prints.
func (in installation) run(ctx context.Context, into any, args ...string) error {
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, in.program, append(args, "-o", "json")...)
	cmd.Dir, cmd.Env, cmd.Stderr = in.folder, in.env, &complaint
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", in.program, strings.Join(args[:2], " "), err, complaint.String())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(out, into)
}

// addUsers registers those who sign in.
func (in installation) addUsers(ctx context.Context, t *target) error {
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
	return in.run(ctx, nil, "user", "import", "users.json")
}

// freeAddress is one of this machine that was free a moment ago: an issuer has to be known before the server starts.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// serve starts the service, which runs until stop, and returns when it answers.
func (t *target) serve(ctx context.Context, in installation, args []string) (err error) {
	t.log, err = os.OpenFile(filepath.Join(in.folder, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	ctx, t.end = context.WithCancel(ctx)
	t.cmd, t.ended = exec.CommandContext(ctx, in.program, append([]string{"serve"}, args...)...), make(chan struct{})
	t.cmd.Dir, t.cmd.Env, t.cmd.Stdout, t.cmd.Stderr = in.folder, in.env, t.log, t.log
	t.cmd.Cancel = func() error { return t.cmd.Process.Signal(syscall.SIGTERM) }
	t.cmd.WaitDelay = 20 * time.Second // then it is killed
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

// stop ends it. It is an error if it has ended before: it says the end of the log, which has no secrets in it.
func (p *process) stop() error {
	defer func() { _ = p.log.Close() }()
	select {
	case <-p.ended:
		b := make([]byte, 1000)
		end, _ := p.log.Seek(0, io.SeekEnd)
		n, _ := p.log.ReadAt(b, max(0, end-int64(len(b))))
		return fmt.Errorf("the server has ended (%v): %s", p.err, bytes.TrimSpace(b[:n]))
	default:
	}
	p.end()
	<-p.ended
	return nil
}

// trim keeps the log of many requests from filling the disk.
func (p *process) trim() {
	if info, err := p.log.Stat(); err == nil && info.Size() > 16<<20 {
		_ = p.log.Truncate(0)
	}
}
