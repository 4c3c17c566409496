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
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/term"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type serveCommand struct {
	config.Settings
}

// Run serves until SIGTERM or SIGINT.
func (c *serveCommand) Run(p *program) error {
	return c.serve(p, nil, func(net.Addr) {})
}

// serve runs the service, on a listener that is there already or on --listen;
// ready is called with the address once it listens.
func (c *serveCommand) serve(p *program, l net.Listener, ready func(net.Addr)) error {
	checked, err := c.Check()
	if err != nil {
		return err
	}
	if err := activityschema.Ready(); err != nil {
		return fmt.Errorf("the embedded activity schema: %w: this program is damaged, install it again", err)
	}
	log := newLog(p.stderr, checked)
	var keys []jose.JSONWebKey
	if !c.NoOIDC {
		if keys, err = config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles); err != nil {
			return err
		}
	}
	st, err := openExisting(p.ctx, checked, log)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if len(keys) == 0 && !c.NoOIDC {
		if err := keyNotNeeded(p.ctx, st, checked); err != nil {
			return err
		}
	}
	secret, note, err := sharedSecret(p.ctx, p.env, st)
	if err != nil {
		return err
	}
	handler, err := httpd.New(p.ctx, httpd.Options{Config: checked, Store: st, Secret: secret, Keys: keys, Log: log})
	if err != nil {
		return err
	}
	srv := httpd.NewServer(handler, log)
	srv.RegisterOnShutdown(handler.BeforeStop)
	if checked.TLS != nil {
		certs, err := newCertificates(*checked.TLS, log)
		if err != nil {
			return err
		}
		srv.TLSConfig = certs.config()
	}
	if l == nil {
		if l, err = listenOn(p.ctx, "--listen (SERVICE_LISTEN)", checked.Listen); err != nil {
			return err
		}
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
	for _, w := range append(checked.Warnings(), notes(note, len(keys), c.NoOIDC)...) {
		log.Warn(w)
	}
	ready(l.Addr())
	// What the start needed (tables of libraries, a password hash at init) goes
	// back to the system: an idle service on a small machine stays small.
	debug.FreeOSMemory()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var background sync.WaitGroup
	background.Go(func() { handler.Run(ctx) })
	background.Go(func() { sweepUntil(ctx, st, log) })
	err = serveUntil(ctx, srv, l)
	cancel()
	background.Wait()
	log.Info("stopped")
	return err
}

// keyNotNeeded refuses a start without the key that has signed tokens: who has one
// would be signed out, and every application would fail.
func keyNotNeeded(ctx context.Context, st *store.Store, c config.Checked) error {
	issued, err := st.IssuedRS256(ctx)
	if err != nil || !issued {
		return err
	}
	return fmt.Errorf("--private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) is not set, and %s has issued tokens signed with a private key (RS256): "+
		"name its key file in cairn.yaml as private-key-file, or give --no-oidc to go on without, which signs people out", c.DatabaseLabel())
}

func notes(secretNote string, keys int, noOIDC bool) []string {
	var out []string
	if secretNote != "" {
		out = append(out, secretNote)
	}
	switch {
	case noOIDC:
		out = append(out, "--no-oidc: sessions are HS256 and OpenID Connect is off; tokens that a private key has signed do not count")
	case keys == 0:
		out = append(out, "no private key: sessions are HS256 and OpenID Connect is off; "+turnOnOIDC)
	}
	return out
}

// turnOnOIDC is the remedy where there is no key.
const turnOnOIDC = "cairn keys generate key.pem and the line private-key-file: key.pem in cairn.yaml turn it on"

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
