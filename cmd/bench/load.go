package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/store"
)

type loadCommand struct {
	Server   string   `default:"./cairn" placeholder:"FILE" help:"Program to measure (./cairn)."`
	Peer     []string `help:"Program to compare: cairn=FILE, or cairn for itself with an empty database. Repeatable."`
	Workers  int      `default:"8" help:"How many requests are under way at once, 1 to 256."`
	Seconds  float64  `default:"5" help:"How long each phase of each program takes, up to 60."`
	Phases   []string `placeholder:"PHASE" help:"Phases to measure; all if not given."`
	Sessions int      `placeholder:"COUNT" help:"How many users sign in before; four for each worker if not given."`
	Metrics  string   `placeholder:"ADDRESS" help:"Where the program serves profiles, for go tool pprof."`
	DSN      string   `name:"dsn" env:"BENCH_DSN" help:"PostgreSQL server (postgres://) for temporary databases."`
	Database string   `placeholder:"FILE" help:"Database of bench fill, SQLite file or URL. It is written to."`
	Filled   string   `placeholder:"FILE" help:"What bench fill -o json has printed of --database."`
	DataKey  string   `name:"data-key-file" env:"SERVICE_DATA_KEY_FILE" type:"path" help:"Data key of --database."`
	LogLevel string   `enum:"debug,info,warn,error" default:"warn" help:"Log level; info has a line for each request."`
	Output   string   `short:"o" enum:"table,json" default:"table" help:"table or json."`

	filled filled
}

// Validate implements kong.Validatable. Programs and folders become absolute: cairn runs in a folder of its own.
func (c *loadCommand) Validate() (err error) {
	if c.Sessions == 0 {
		c.Sessions = 4 * c.Workers
	}
	switch {
	case c.Workers < 1 || c.Workers > 256:
		return errors.New("--workers takes 1 to 256")
	case !(c.Seconds >= 0.05 && c.Seconds <= 60):
		return errors.New("--seconds takes 0.05 to 60")
	case c.Sessions < c.Workers || c.Sessions > 10_000:
		return errors.New("--sessions takes at least as many as --workers, up to 10,000")
	case (c.Database == "") != (c.Filled == ""):
		return errors.New("--database and --filled belong together: a database and the output of bench fill -o json")
	case c.Database != "" && c.DSN != "":
		return errors.New("--database and --dsn: give one of them")
	case c.DSN != "" && !store.IsPostgres(c.DSN):
		return errors.New("--dsn takes a postgres:// URL")
	}
	for _, name := range c.Phases {
		if !slices.ContainsFunc(phases, func(p phase) bool { return p.name == name }) {
			return fmt.Errorf("--phases: there is no phase %q: %s", name, strings.Join(phaseNames(), ", "))
		}
	}
	if c.Server, err = programAt(c.Server); err != nil {
		return fmt.Errorf("--server: %w: build it with .ci/build, or name its file", err)
	}
	for i, name := range c.Peer {
		kind, file, other := strings.Cut(name, "=")
		if kind != "cairn" {
			return fmt.Errorf("--peer: there is no %q: cairn=FILE or cairn", name)
		}
		c.Peer[i] = c.Server
		if other {
			if c.Peer[i], err = programAt(file); err != nil {
				return fmt.Errorf("--peer: %w", err)
			}
		}
	}
	if c.Filled == "" {
		return nil
	}
	b, err := os.ReadFile(c.Filled)
	if err == nil {
		err = json.Unmarshal(b, &c.filled)
	}
	if err == nil && c.filled.Users < c.Sessions {
		err = errors.New("not what bench fill -o json has printed, or fewer users than --sessions")
	}
	if err == nil && !store.IsPostgres(c.Database) {
		c.Database, err = filepath.Abs(c.Database)
	}
	return named("--filled", err)
}

// programAt finds a program that is run in another folder.
func programAt(name string) (string, error) {
	found, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

// sliceLength is how long a program is measured before it is another one's turn.
const sliceLength = time.Second

// Run implements load. The first wrong answer ends it: the error names the program, the phase and what was wrong.
func (c *loadCommand) Run(ctx context.Context) (failed error) {
	defer func() {
		if ctx.Err() != nil {
			failed = errors.New("interrupted before the end: run it again")
		}
	}()
	version, err := exec.CommandContext(ctx, c.Server, "version").Output()
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	folder, err := os.MkdirTemp("", "cairn-bench-")
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(folder)) }()
	r := result{
		Version: strings.TrimSpace(string(version)), Database: "SQLite", CPUs: runtime.NumCPU(),
		Workers: c.Workers, Seconds: c.Seconds, Sessions: c.Sessions,
	}
	if c.DSN != "" || store.IsPostgres(c.Database) {
		r.Database = "PostgreSQL"
	}
	var all []*driver
	for i, program := range append([]string{c.Server}, c.Peer...) {
		in := installation{program: program, name: "peer", logLevel: c.LogLevel, sessions: c.Sessions}
		if i == 0 {
			in.name, in.database, in.filled, in.metrics = "cairn", c.Database, c.filled, c.Metrics
			if c.Database != "" && c.DataKey != "" {
				in.env = []string{"SERVICE_DATA_KEY_FILE=" + c.DataKey}
			}
		}
		in.folder = filepath.Join(folder, fmt.Sprint(i))
		if err := os.Mkdir(in.folder, 0o700); err != nil {
			return err
		}
		if c.DSN != "" {
			database, drop, err := newDatabase(ctx, c.DSN)
			if err != nil {
				return fmt.Errorf("--dsn: %w", err)
			}
			defer func() { failed = errors.Join(failed, drop()) }()
			in.database = database
		}
		t, err := in.start(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		defer func() { failed = errors.Join(failed, t.stop()) }()
		d := newDriver(t, c.Workers)
		if err := d.begin(ctx); err != nil {
			return err
		}
		all = append(all, d)
		r.Servers = append(r.Servers, serverResult{Name: in.name})
	}
	for _, ph := range phases {
		if len(c.Phases) > 0 && !slices.Contains(c.Phases, ph.name) {
			continue
		}
		samples, err := c.measure(ctx, all, ph)
		if err != nil {
			return err
		}
		for i, d := range all {
			if samples[i].ops == 0 {
				continue
			}
			p, err := d.phaseResult(ph.name, &samples[i])
			if err != nil {
				return err
			}
			r.Servers[i].Phases = append(r.Servers[i].Phases, p)
			fmt.Fprintf(os.Stderr, "%-16s %-8s %9.0f per CPU second\n", p.Phase, d.name, p.PerCPUSecond)
		}
	}
	if c.Output == "json" {
		return printJSON(r)
	}
	return r.print(os.Stdout)
}

// measure takes a phase of all programs, in turn.
func (c *loadCommand) measure(ctx context.Context, all []*driver, ph phase) ([]sample, error) {
	samples := make([]sample, len(all))
	for left := time.Duration(c.Seconds * float64(time.Second)); left > 0; left -= sliceLength {
		for i, d := range all {
			if err := d.slice(ctx, ph, min(left, sliceLength), &samples[i]); err != nil {
				return nil, err
			}
		}
	}
	return samples, nil
}

// newDatabase makes a database on a PostgreSQL server, of which drop leaves nothing.
func newDatabase(ctx context.Context, server string) (address string, drop func() error, err error) {
	to, err := url.Parse(server)
	if err != nil {
		return "", nil, errors.New("not a URL") // the error would show its password
	}
	pool, err := sql.Open("pgx", server)
	if err != nil {
		return "", nil, err
	}
	name := "cairn_bench_" + strings.ToLower(rand.Text())
	if _, err := pool.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, errors.Join(err, pool.Close())
	}
	to.Path = "/" + name
	return to.String(), func() error {
		_, err := pool.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return errors.Join(err, pool.Close())
	}, nil
}
