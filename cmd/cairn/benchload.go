package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/bench"
	"github.com/cairn-id/cairn/store"
)

type loadCommand struct {
	Server   string   `placeholder:"FILE" help:"Program to measure, another version of cairn; this one if not given."`
	Workers  int      `default:"8" help:"How many requests are under way at once, 1 to 256."`
	Seconds  float64  `default:"5" help:"How long each phase of each server takes, up to 600."`
	Phases   []string `placeholder:"PHASE" help:"Phases to measure; all if not given."`
	Peer     []string `placeholder:"PEER" help:"Server to measure beside it: floor, a bare provider; node=FOLDER, node-oidc-provider as cmd/cairn/internal/bench/testdata/node/install installs it; cairn=FILE, another version; cairn, an empty installation. Repeatable."`
	Vs       string   `placeholder:"FILE" help:"What -o json has printed before: ratios to it."`
	Save     string   `placeholder:"FILE" help:"Also write what -o json prints to a file."`
	Pprof    string   `placeholder:"FOLDER" help:"Save a profile of the processor and one of the allocations for each phase of cairn."`
	Sessions int      `placeholder:"COUNT" help:"How many users sign in before; four for each worker if not given."`
	DSN      string   `name:"dsn" env:"BENCH_DSN" placeholder:"URL" help:"PostgreSQL server (postgres://) to make a database on, which is dropped in the end, in place of a new SQLite file."`
	Database string   `placeholder:"FILE" help:"Database that bench fill has filled, SQLite file or postgres:// URL. It is written to."`
	Filled   string   `placeholder:"FILE" help:"What bench fill -o json has printed of --database."`
	LogLevel string   `enum:"debug,info,warn,error" default:"warn" help:"Log level of cairn; info writes a line for each request."`
	Format   string   `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
}

// Run measures the program by its own commands, in a folder that goes away.
func (c *loadCommand) Run(p *program) (err error) {
	o, err := c.options()
	if err != nil {
		return err
	}
	o.Progress = p.stderr
	var earlier *bench.Result
	if c.Vs != "" {
		if earlier, err = bench.Read(c.Vs); err != nil {
			return fmt.Errorf("--vs: %w", err)
		}
	}
	version, err := exec.CommandContext(p.ctx, o.Cairn.Program, "version").Output()
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	if c.DSN != "" {
		drop := func() error { return nil }
		if o.Cairn.Database, drop, err = bench.NewDatabase(p.ctx, c.DSN); err != nil {
			return fmt.Errorf("--dsn: %w", err)
		}
		defer func() { err = errors.Join(err, drop()) }()
	}
	result, err := bench.Run(p.ctx, o)
	if p.ctx.Err() != nil {
		return errors.New("interrupted before the end: run it again")
	}
	if err != nil {
		return err
	}
	result.Version = strings.TrimSpace(string(version))
	result.Database = "SQLite"
	if store.IsPostgres(o.Cairn.Database) {
		result.Database = "PostgreSQL"
	}
	if c.Save != "" {
		b, err := encodeJSON(result, "")
		if err == nil {
			err = os.WriteFile(c.Save, b, 0o600)
		}
		if err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	if c.Format == "json" {
		return writeJSON(p.stdout, result)
	}
	return result.Print(p.stdout, earlier)
}

// options checks what is given.
func (c *loadCommand) options() (o bench.Options, err error) {
	o = bench.Options{Peers: c.Peer, Workers: c.Workers, Seconds: c.Seconds, Sessions: c.Sessions, Phases: c.Phases, ProfileDir: c.Pprof}
	o.Cairn = bench.Cairn{Program: c.Server, LogLevel: c.LogLevel, Profile: c.Pprof != "", Database: c.Database, Handle: store.FilledHandle}
	if o.Sessions == 0 {
		o.Sessions = 4 * o.Workers
	}
	switch {
	case c.Workers < 1 || c.Workers > 256:
		return o, usageError{"--workers takes 1 to 256"}
	case !(c.Seconds >= 0.05 && c.Seconds <= 600):
		return o, usageError{"--seconds takes 0.05 to 600"}
	case o.Sessions < o.Workers || o.Sessions > 10_000:
		return o, usageError{"--sessions takes at least as many as --workers, up to 10,000"}
	case (c.Database == "") != (c.Filled == ""):
		return o, usageError{"--database and --filled belong together: a database that cairn bench fill -o json has filled, and what it printed"}
	case c.Database != "" && c.DSN != "":
		return o, usageError{"--database and --dsn: give one of them"}
	case c.DSN != "" && !store.IsPostgres(c.DSN):
		return o, usageError{"--dsn takes a postgres:// URL"}
	}
	for _, name := range c.Phases {
		if !slices.Contains(bench.PhaseNames(), name) {
			return o, usageError{fmt.Sprintf("--phases: there is no phase %q: %s", name, strings.Join(bench.PhaseNames(), ", "))}
		}
	}
	for i, name := range c.Peer {
		kind, where, named := strings.Cut(name, "=")
		switch {
		case name == "floor", name == "cairn", kind == "node" && where != "":
		case kind == "cairn" && named:
			if where, err = programAt(where); err != nil {
				return o, fmt.Errorf("--peer: %w", err)
			}
			o.Peers[i] = kind + "=" + where
		default:
			return o, usageError{fmt.Sprintf("--peer: there is no %q: floor, node=FOLDER, cairn=FILE or cairn", name)}
		}
	}
	if c.Filled != "" {
		b, err := os.ReadFile(c.Filled)
		if err == nil {
			err = json.Unmarshal(b, &o.Cairn.Filled)
		}
		if err != nil {
			return o, fmt.Errorf("--filled: %w", err)
		}
		if !store.IsPostgres(c.Database) {
			if o.Cairn.Database, err = filepath.Abs(c.Database); err != nil {
				return o, err
			}
		}
	}
	if c.Pprof != "" {
		if err := os.MkdirAll(c.Pprof, 0o700); err != nil {
			return o, fmt.Errorf("--pprof: %w", err)
		}
		if o.ProfileDir, err = filepath.Abs(c.Pprof); err != nil {
			return o, err
		}
	}
	if o.Self, err = os.Executable(); err != nil {
		return o, err
	}
	if c.Server == "" {
		o.Cairn.Program = o.Self
		return o, nil
	}
	if o.Cairn.Program, err = programAt(c.Server); err != nil {
		return o, fmt.Errorf("--server: %w", err)
	}
	return o, nil
}

// programAt finds a program that is run in another folder.
func programAt(name string) (string, error) {
	found, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

type floorCommand struct {
	Listen   string `required:"" help:"Address of this machine, as 127.0.0.1:4050."`
	Setup    string `required:"" placeholder:"FILE" help:"File with the issuer, the client and the users, as JSON."`
	Database string `required:"" placeholder:"FILE" help:"New SQLite file."`
}

// Run serves the floor until SIGTERM or SIGINT.
func (c *floorCommand) Run(p *program) (err error) {
	if err := bench.Loopback(c.Listen); err != nil {
		return usageError{"--listen: " + err.Error()}
	}
	var setup bench.Setup
	b, err := os.ReadFile(c.Setup)
	if err == nil {
		err = json.Unmarshal(b, &setup)
	}
	if err != nil {
		return fmt.Errorf("--setup: %w", err)
	}
	if exists(c.Database) {
		return fmt.Errorf("--database: %s exists: name a new file", c.Database)
	}
	floor, err := bench.NewFloor(p.ctx, c.Database, setup, nil)
	if err != nil {
		return fmt.Errorf("--database: %w", err)
	}
	defer func() { err = errors.Join(err, floor.Close()) }()
	l, err := listenOn(p.ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	return serveUntil(p.ctx, &http.Server{Handler: floor}, l)
}
