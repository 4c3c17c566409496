package bench

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
	"strings"
	"syscall"
	"time"
)

// process is a server under test: a program of its own, so that its processor time is its own.
type process struct {
	cmd     *exec.Cmd
	log     *os.File
	address string
	watched string // where its profiles are; empty: nowhere
	ended   chan struct{}
	err     error // once it has ended
}

// environment is ours without the settings of an installation.
func environment(more ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SERVICE_") {
			env = append(env, v)
		}
	}
	return append(env, more...)
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

// issuerAt is what a server at an address calls itself.
func issuerAt(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "http://localhost:" + port
}

// start runs a server in a folder until stop, and returns when it answers.
func start(ctx context.Context, folder, address string, env []string, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program, args...), log: log, address: address, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = folder, env, log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 20 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	limit, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for again := time.NewTicker(20 * time.Millisecond); ; {
		c := connection{address: address, host: strings.TrimPrefix(issuerAt(address), "http://")}
		a, err := c.do(limit, metadataPath, "")
		c.close()
		if err == nil && a.status == http.StatusOK {
			return p, nil
		}
		select {
		case <-p.ended:
			return nil, p.stop()
		case <-limit.Done():
			return nil, errors.Join(errors.New("it does not answer"), p.stop())
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

// profile saves what the processor did for so long, and what was allocated, beside whatever
// runs meanwhile.
func (p *process) profile(ctx context.Context, dir, name string, seconds int) func() error {
	kinds := map[string]string{"profile": "cpu", "allocs": "allocs"}
	done := make(chan error, len(kinds))
	for kind, ending := range kinds {
		go func() {
			done <- func() error {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", p.watched, kind, seconds), nil)
				if err != nil {
					return err
				}
				got, err := http.DefaultClient.Do(r)
				if err != nil {
					return err
				}
				defer func() { _ = got.Body.Close() }()
				b, err := io.ReadAll(got.Body)
				if err == nil && got.StatusCode != http.StatusOK {
					err = fmt.Errorf("profile: status %d: %.200s", got.StatusCode, b)
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name+"."+ending+".pb.gz"), b, 0o600)
				}
				return err
			}()
		}()
	}
	return func() (err error) {
		for range kinds {
			err = errors.Join(err, <-done)
		}
		return err
	}
}

// Cairn is the service as it is measured.
type Cairn struct {
	Program  string
	LogLevel string
	Profile  bool
	Database string                    // a file or URL; empty: a new file
	Filled   *Filled                   // what bench fill has printed of it; nil: it is empty
	Handle   func(n, users int) string // of a generated user
}

// Filled is what bench fill -o json has printed.
type Filled struct {
	Last     string `json:"last_handle"`
	Password string `json:"password"`
}

// install makes an installation with so many sessions and starts it.
func (c Cairn) install(ctx context.Context, folder string, sessions int) (*Target, *process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	env := environment("SERVICE_CONFIG=" + filepath.Join(folder, "cairn.yaml"))
	run := func(into any, args ...string) error {
		var complaint bytes.Buffer
		cmd := exec.CommandContext(ctx, c.Program, args...)
		cmd.Dir, cmd.Env, cmd.Stderr = folder, env, &complaint
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", filepath.Base(c.Program), strings.Join(args[:2], " "), err, strings.TrimSpace(complaint.String()))
		}
		return json.Unmarshal(out, into)
	}
	database, users := c.Database, sessions
	if database == "" {
		database = filepath.Join(folder, "cairn.db")
	}
	env = append(env, "SERVICE_DATABASE="+database)
	var ignored any
	if c.Filled == nil {
		c.Filled = &Filled{}
		// The config file has to be new.
		if err := run(&ignored, "init", "--config", "", "--handle", "keeper", "--generate-password", "--generate-key", "key.pem", "--listen", address, "-o", "json"); err != nil {
			return nil, nil, err
		}
		if err := run(c.Filled, "bench", "fill", "--users", fmt.Sprint(sessions), "--tokens", "0", "-o", "json"); err != nil {
			return nil, nil, err
		}
	} else {
		if err := os.WriteFile(filepath.Join(folder, "cairn.yaml"), nil, 0o600); err != nil {
			return nil, nil, err
		}
		if err := run(&ignored, "keys", "generate", "key.pem", "-o", "json"); err != nil {
			return nil, nil, err
		}
		digits := strings.TrimLeft(c.Filled.Last, "abcdefghijklmnopqrstuvwxyz")
		if _, err := fmt.Sscanf(strings.TrimLeft(digits, "0"), "%d", &users); err != nil {
			return nil, nil, errors.New("--filled: the file is not what cairn bench fill -o json has printed")
		}
		users++
	}
	t := &Target{Name: "cairn", address: address, form: true, Setup: Setup{Issuer: issuerAt(address), RedirectURI: redirectURI, Password: c.Filled.Password}}
	var client struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := run(&client, "client", "add", "Bench", "--redirect-uri", redirectURI, "--require-pkce", "--trusted", "-o", "json"); err != nil {
		return nil, nil, err
	}
	t.ClientID, t.ClientSecret = client.ID, client.Secret
	for n := range sessions {
		t.Handles = append(t.Handles, c.Handle(n*users/sessions, users))
	}
	args := []string{"serve", "--listen", address, "--issuer", t.Issuer, "--private-key-file", "key.pem", "--log-level", c.LogLevel}
	for _, name := range []string{"login", "login-account", "token", "all"} {
		args = append(args, "--rate-limit", name+"=1000000/1s")
	}
	api := "urn:bench:" + t.ClientID
	err = run(&ignored, "keys", "generate", "ec.pem", "--type", "es256", "-o", "json")
	if err == nil {
		args = append(args, "--additional-key-file", "ec.pem")
		err = run(&ignored, "api", "add", api, "--name", "Bench", "--client="+t.ClientID, "-o", "json")
	}
	switch {
	case err == nil:
		t.api = api
	case !strings.Contains(err.Error(), "unexpected argument api") && !strings.Contains(err.Error(), "unknown flag --type"):
		return nil, nil, err // else it is a version that has neither
	}
	watched := ""
	if c.Profile {
		if watched, err = freeAddress(); err != nil {
			return nil, nil, err
		}
		args = append(args, "--metrics-listen", watched)
	}
	p, err := start(ctx, folder, address, env, c.Program, args...)
	if err != nil {
		return nil, nil, err
	}
	p.watched = watched
	return t, p, nil
}

// floorName is the bare provider's.
const floorName = "floor"

// installPeer starts a peer, which signs in the same users where it is not Cairn.
func (o Options) installPeer(ctx context.Context, name, folder string, users []string) (*Target, *process, error) {
	kind, where, named := strings.Cut(name, "=")
	if kind == "cairn" {
		peer := Cairn{Program: o.Cairn.Program, LogLevel: o.Cairn.LogLevel, Handle: o.Cairn.Handle}
		if named {
			peer.Program = where
		}
		t, p, err := peer.install(ctx, folder, o.Sessions)
		if err == nil {
			t.Name = "peer"
		}
		return t, p, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	t := &Target{Name: kind, address: address, form: kind == floorName, Setup: Setup{
		Issuer: issuerAt(address), ClientID: "bench", ClientSecret: text(random(32)), RedirectURI: redirectURI, Handles: users, Password: text(random(16)),
	}}
	// In a file: arguments are seen by every user of the machine.
	b, err := json.Marshal(t.Setup)
	setup := filepath.Join(folder, "setup.json")
	if err == nil {
		err = os.WriteFile(setup, b, 0o600)
	}
	if err != nil {
		return nil, nil, err
	}
	var p *process
	switch {
	case kind == floorName:
		p, err = start(ctx, folder, address, environment(), o.Self, "bench", "floor", "--listen", address, "--setup", setup, "--database", filepath.Join(folder, "floor.db"))
	case kind == "node" && where != "":
		if where, err = filepath.Abs(where); err == nil {
			p, err = start(ctx, folder, address, environment("NODE_ENV=production"), "node", filepath.Join(where, "server.js"), address, setup)
		}
	default:
		err = errors.New("there is no such peer: floor, node=FOLDER or cairn=FILE")
	}
	return t, p, err
}
