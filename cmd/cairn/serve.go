package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/term"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type serveCommand struct {
	config.Settings
}

// Run serves until SIGTERM or SIGINT.
func (c *serveCommand) Run(p *program) error {
	return c.serve(p, func(net.Addr) {})
}

// serve runs the service; ready is called with the address once it listens.
func (c *serveCommand) serve(p *program, ready func(net.Addr)) error {
	checked, err := c.Check()
	if err != nil {
		return err
	}
	if err := activityschema.Ready(); err != nil {
		return fmt.Errorf("the embedded activity schema: %w: this program is damaged, install it again", err)
	}
	log := newLog(p.stderr, checked)
	keys, err := config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles)
	if err != nil {
		return err
	}
	st, err := openExisting(p.ctx, checked, log)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	secret, note, err := sharedSecret(p.ctx, p.env, st)
	if err != nil {
		return err
	}
	handler, err := newHandler(p.ctx, parts{Config: checked, Store: st, Secret: secret, Keys: keys, Log: log})
	if err != nil {
		return err
	}
	srv := newServer(handler, log)
	srv.RegisterOnShutdown(handler.beforeStop)
	if checked.TLS != nil {
		certs, err := newCertificates(*checked.TLS, log)
		if err != nil {
			return err
		}
		srv.TLSConfig = certs.config()
	}
	l, err := (&net.ListenConfig{}).Listen(p.ctx, "tcp", checked.Listen)
	if err != nil {
		return fmt.Errorf("--listen (SERVICE_LISTEN): %w: choose another address or stop what uses it", err)
	}
	version, err := st.SchemaVersion(p.ctx)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	scheme, kid := "HS256", ""
	if len(keys) > 0 {
		scheme, kid = "RS256", keys[0].KeyID
	}
	log.Info("started", "version", programVersion(), "listen", l.Addr().String(), "issuer", checked.IssuerString, "database", checked.DatabaseLabel(),
		"schema", version, "sessions", scheme, "kid", kid, "published_keys", len(keys), "https", checked.HTTPS)
	for _, w := range append(checked.Warnings(), notes(note, len(keys))...) {
		log.Warn(w)
	}
	ready(l.Addr())
	// What the start needed (tables of libraries, a password hash at init) goes
	// back to the system: an idle service on a small machine stays small.
	debug.FreeOSMemory()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	handler.background = append(handler.background, func(ctx context.Context) { sweepUntil(ctx, st, log) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		handler.run(ctx)
	}()
	err = serveUntil(ctx, srv, l)
	cancel()
	<-ended
	log.Info("stopped")
	return err
}

func notes(secretNote string, keys int) []string {
	var out []string
	if secretNote != "" {
		out = append(out, secretNote)
	}
	if keys == 0 {
		out = append(out, "no private key: sessions are HS256 and OpenID Connect is off; cairn keys generate FILE and SERVICE_OIDC_PRIVATE_KEY_FILE=FILE turn it on")
	}
	return out
}

// newLog writes text to a terminal and JSON elsewhere, unless told otherwise.
func newLog(w io.Writer, c config.Checked) *slog.Logger {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	f, isFile := w.(*os.File)
	if c.LogFormat == "text" || c.LogFormat == "" && isFile && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// sweepInterval is how often what has expired is deleted. Nothing depends on
// it: expired rows are refused whether they are still there or not.
const sweepInterval = 10 * time.Minute

func sweepUntil(ctx context.Context, st *store.Store, log *slog.Logger) {
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for {
		if _, err := st.Sweep(ctx, time.Now().UTC()); err != nil && ctx.Err() == nil {
			log.Warn("expired rows not deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
