package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/archive"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/cmd/cairn/internal/register"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type serveCommand struct {
	config.Settings
}

// Run serves until SIGTERM, SIGINT or SIGHUP. The end of what reads its log does not end it: a caught SIGPIPE makes the
// write fail, and unlike an ignored one it is not inherited by the backup's command.
func (c *serveCommand) Run(p *cli.Program) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return c.serve(p, nil, func() {})
}

// serve runs the service on l, or on --listen if l is nil. It calls ready once the service listens.
func (c *serveCommand) serve(p *cli.Program, l net.Listener, ready func()) error {
	checked, err := c.Check()
	if err != nil {
		return err
	}
	if err := activityschema.Ready(); err != nil {
		return fmt.Errorf("the embedded activity schema: %w: this program is damaged, install it again", err)
	}
	log, flush := cli.NewLog(p.Stderr, checked)
	defer flush()
	s := &service{settings: c.Settings, checked: checked, log: log, listener: l}
	defer s.close()
	if err := s.open(p); err != nil {
		return err
	}
	if err := s.listen(p); err != nil {
		return err
	}
	ready()
	return s.run(p)
}

// service is what serve opens, in this order.
type service struct {
	settings config.Settings
	checked  config.Checked
	log      *slog.Logger
	warnings []string // logged once it listens
	closers  []func()
	readOnly bool // the database takes no writes

	options  httpd.Options
	handler  *httpd.Handler
	server   *http.Server
	listener net.Listener
	watched  net.Listener // of --metrics-listen; nil: none
}

func (s *service) close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
}

func (s *service) warn(text string) { s.warnings = append(s.warnings, text) }

// open opens the keys, the database and the mail server, and makes the handler with them.
func (s *service) open(p *cli.Program) error {
	s.warnings = s.checked.Warnings()
	s.options = httpd.Options{
		Config: s.checked, KeyFile: s.settings.PrivateKeyFile, MayLackKey: s.settings.NoOIDC, Log: s.log,
	}
	var err error
	if !s.settings.NoOIDC {
		s.options.Keys, err = config.LoadSigningKeys(s.settings.PrivateKeyFile, s.settings.AdditionalKeyFiles)
		if err != nil {
			return err
		}
	}
	if err := s.openStore(p.Ctx); err != nil {
		return err
	}
	if err := s.checkKeys(p.Ctx); err != nil {
		return err
	}
	secret, note, err := cli.SharedSecret(p.Ctx, p.Env, s.options.Store)
	if err != nil {
		return err
	}
	if note != "" {
		s.warn(note)
	}
	s.options.Secret = secret
	mails, err := newMailSender(s.checked, p.Env)
	if err != nil {
		return err
	}
	if mails != nil {
		s.closers = append(s.closers, mails.Close)
		s.options.Mail = mails
	}
	if s.checked.MetricsListen != "" {
		b := cli.ThisBuild()
		s.options.Metrics = metrics.New(metrics.Build{Version: b.Version, Commit: b.Commit, Go: b.Go, SQLite: b.SQLite})
	}
	return nil
}

func (s *service) openStore(ctx context.Context) error {
	missing, err := archive.DataKeyMissing(s.checked.DataKeyFile)
	if err != nil {
		return err
	}
	st, release, err := archive.OpenToServe(ctx, s.checked, s.log)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, release, func() { _ = st.Close() })
	s.options.Store = st
	first, end, err := store.FirstServer(s.checked.Database)
	if err != nil {
		return fmt.Errorf("lock the database: %w", err)
	}
	s.closers = append(s.closers, end)
	if !first {
		s.warn("another cairn serve has the database " + s.checked.DatabaseLabel() +
			" open: if it is not about to stop, stop one of them. With SQLite one service is enough; several need " +
			"PostgreSQL (docs/scale.md)")
	}
	if err := st.CheckWrites(ctx); errors.Is(err, store.ErrTakesNoWrites) {
		s.readOnly = true
		s.warn(err.Error() + "; until then this instance is not ready, and nobody can sign in")
	}
	if _, err := st.Sealed(ctx); err != nil {
		return err
	}
	if missing { // and nothing is sealed: Sealed succeeded
		s.warn("there is no data key " + s.checked.DataKeyFile +
			": cairn keys seal makes it, and seals secrets in the database")
	}
	archive.ClearWork(ctx, archive.WorkParent(s.checked.Database))
	return nil
}

// checkKeys refuses to run without the keys that have signed tokens: if they were forgotten, users
// with these tokens would be signed out, and every application would fail.
func (s *service) checkKeys(ctx context.Context) error {
	switch {
	case s.settings.NoOIDC:
		s.warn("--no-oidc: sessions are HS256 and OpenID Connect is off; " +
			"tokens signed with a private key are not accepted")
		return nil
	case len(s.options.Keys) > 0:
		return nil
	}
	issued, err := s.options.Store.IssuedRS256(ctx)
	if err != nil {
		return err
	}
	if issued {
		return fmt.Errorf("--private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) is not set, "+
			"and %s has issued tokens signed with a private key (RS256): name its key file in cairn.yaml "+
			"as private-key-file, or run without it with --no-oidc, which signs people out",
			s.checked.DatabaseLabel())
	}
	s.warn("no private key: sessions are HS256 and OpenID Connect is off; " + archive.TurnOnOIDC)
	return nil
}

// noteKey warns if the instance that started last signs with a key that is not published here.
func (s *service) noteKey(ctx context.Context) error {
	keys := s.options.Keys
	if len(keys) == 0 || s.readOnly {
		return nil
	}
	_, last, err := s.options.Store.LastTurn(ctx, store.TurnSign)
	if err != nil {
		return err
	}
	published := slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool { return k.KeyID == last })
	if last != "" && !published {
		s.warn("the service that started last signed with the key " + last + ", which is in no key file of this one: " +
			"what it signed is refused here. Unless that is meant, give all instances the same keys, and list an " +
			"earlier one in additional-key-file (docs/keys.md)")
	}
	return s.options.Store.NoteDone(ctx, store.TurnSign, time.Now(), keys[0].KeyID)
}

// listen makes the handler, opens the ports and then applies the file of --apply: a service that cannot
// start changes nothing.
func (s *service) listen(p *cli.Program) (err error) {
	ctx := p.Ctx
	scheme, kid, signs, mailServer := "HS256", "", "none", "none"
	if keys := s.options.Keys; len(keys) > 0 {
		scheme, kid = "RS256", keys[0].KeyID
		s.options.Signer, signs = libcrypto.Choose(keys[0], s.settings.Signer == "go")
	}
	if s.options.Mail != nil {
		mailServer = s.checked.Mail.Address()
	}
	if s.checked.MetricsListen != "" {
		s.watched, err = listenOn(ctx, "--metrics-listen (SERVICE_METRICS_LISTEN)", s.checked.MetricsListen)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { _ = s.watched.Close() })
	}
	if s.handler, err = httpd.New(ctx, s.options); err != nil {
		return err
	}
	if text := s.handler.Elsewhere.String(); text != "" {
		s.warn(text + ": they do not work here, see docs/passkeys.md")
	}
	s.server = httpd.NewServer(s.handler, s.log)
	s.server.RegisterOnShutdown(s.handler.BeforeStop)
	if s.checked.TLS != nil {
		if s.server.TLSConfig, err = tlsConfig(*s.checked.TLS, s.log); err != nil {
			return err
		}
	}
	version, err := s.options.Store.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if s.listener == nil {
		if s.listener, err = listenOn(ctx, "--listen (SERVICE_LISTEN)", s.checked.Listen); err != nil {
			return err
		}
		s.closers = append(s.closers, func() { _ = s.listener.Close() })
	}
	if err := s.apply(p); err != nil {
		return err
	}
	if err := s.noteKey(ctx); err != nil {
		return err
	}
	s.log.Info("started", "version", cli.ProgramVersion(), "listen", s.listener.Addr().String(),
		"issuer", s.checked.IssuerString, "database", s.checked.DatabaseLabel(), "schema", version,
		"sessions", scheme, "kid", kid, "signer", signs, "published_keys", len(s.options.Keys),
		"https", s.checked.HTTPS, "mail", mailServer)
	for _, w := range s.warnings {
		s.log.Warn(w)
	}
	return nil
}

// run serves, with the background work, until the program is told to stop.
func (s *service) run(p *cli.Program) error {
	p.StopsItself()
	tuneMemory(s.watched != nil)
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.Ctx))
	defer cancel()
	defer context.AfterFunc(p.Ctx, func() {
		announceStop(s.checked.ShutdownDelay, s.handler, s.log)
		cancel()
	})()
	var background sync.WaitGroup
	background.Go(func() { s.handler.Run(ctx) })
	background.Go(func() { sweepUntil(ctx, s.options.Store, s.log) })
	background.Go(func() { freeWhenIdle(ctx) })
	if s.watched != nil {
		background.Go(func() { serveMetrics(ctx, s.options.Metrics, s.watched, s.settings.Pprof, s.log) })
	}
	if s.checked.Backup.Dir != "" {
		archive.ClearWork(p.Ctx, s.checked.Backup.Dir)
		source := archive.BackupSource{
			Store: s.options.Store, Database: s.checked.Database, Config: p.Env.ConfigFile(),
			Issuer: s.checked.IssuerString, DataKey: s.checked.DataKeyFile, Recipient: s.checked.Backup.Recipient,
		}
		background.Go(func() { archive.BackupUntil(ctx, source, s.checked.Backup, s.log) })
	}
	background.Go(func() { superviseUntil(ctx, s.checked, s.listener, s.log) })
	err := serveUntil(ctx, s.server, s.listener)
	cancel()
	background.Wait()
	s.log.Info("stopped")
	return err
}

// serveMetrics serves metrics for Prometheus until the context ends. It also serves profiles, if
// only this machine can reach them or the operator enabled them.
func serveMetrics(ctx context.Context, m *metrics.Metrics, l net.Listener, profiles bool, log *slog.Logger) {
	address, isTCP := l.Addr().(*net.TCPAddr)
	profiles = profiles || isTCP && address.IP.IsLoopback()
	srv := httpd.NewServer(m.Handler(profiles), log)
	srv.WriteTimeout = 2 * time.Minute // a profile takes as long as the request says
	log.Info("metrics", "listen", l.Addr().String(), "pprof", profiles)
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Error("metrics are no longer served", "error", err)
	}
}

// sweepInterval is how often one of the instances deletes expired rows. Nothing depends on it: an
// expired row is refused even if it still exists.
const sweepInterval = 10 * time.Minute

// sweepCheck is how often an instance checks whether to sweep: after sweepInterval, or if the
// instance that was sweeping has stopped midway.
const sweepCheck = 30 * time.Second

func sweepUntil(ctx context.Context, st *store.Store, log *slog.Logger) {
	t := time.NewTicker(sweepCheck)
	defer t.Stop()
	for {
		if err := sweepInTurn(ctx, st); err != nil && ctx.Err() == nil {
			log.Warn("expired rows not deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// sweepInTurn sweeps if that is due and the clock is trusted.
func sweepInTurn(ctx context.Context, st *store.Store) error {
	if settled, err := st.ClockSettled(ctx); err != nil || !settled {
		return err
	}
	return st.InTurn(ctx, store.TurnSweep, sweepInterval, func(ctx context.Context, now time.Time) (string, error) {
		_, err := st.Sweep(ctx, now)
		return "", err
	})
}

// drainTimeout limits the time for requests in flight at a stop.
const drainTimeout = 10 * time.Second

// listenOn listens on the address of a setting. Its error says what to do if the port is taken.
func listenOn(ctx context.Context, setting, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: another program listens on %s already, perhaps another cairn: "+
			"stop it, or choose another port", setting, address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: choose another address", setting, err)
	}
	return l, nil
}

// announceStop makes /readyz fail and returns after a delay, in which a proxy notices that it
// should send its requests elsewhere.
func announceStop(delay time.Duration, handler *httpd.Handler, log *slog.Logger) {
	if delay > 0 {
		handler.AnnounceStop()
		log.Info("stopping", "delay", delay.String())
		time.Sleep(delay)
	}
}

// serveUntil serves on l until the context ends, then lets requests in flight
// finish within drainTimeout.
func serveUntil(ctx context.Context, srv *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			failed <- srv.ServeTLS(l, "", "")
			return
		}
		failed <- srv.Serve(l)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		_ = srv.Close()
		return fmt.Errorf("stop: requests were still running after %s: %w", drainTimeout, err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// tls12Suites are the cipher suites with ECDHE and AEAD (RFC 9325 section 4.2). TLS 1.3 has no others.
var tls12Suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// tlsConfig serves the certificate of a pair of files. It checks the files at most once a second
// and loads the pair again after a change. If the new pair is invalid, the one in use stays.
func tlsConfig(files config.TLSFiles, log *slog.Logger) (*tls.Config, error) {
	stampOf := func() (s string) {
		for _, name := range []string{files.CertFile, files.KeyFile} {
			if info, err := os.Stat(name); err == nil {
				s += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), " ")
			}
		}
		return s
	}
	stamp, checked := stampOf(), time.Now()
	current, err := files.Load()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(checked) < time.Second {
			return current, nil
		}
		checked = time.Now()
		if now := stampOf(); now != stamp {
			cert, err := files.Load()
			if err != nil {
				log.Warn("certificate not reloaded: the earlier one stays in use", "error", err)
				return current, nil
			}
			current, stamp = cert, now
			log.Info("certificate reloaded")
		}
		return current, nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: tls12Suites,
		NextProtos: []string{"h2", "http/1.1"}, GetCertificate: get,
	}, nil
}

// apply applies the file of serve --apply. Of several instances that start at once, one changes
// something and the others wait for it.
func (s *service) apply(p *cli.Program) error {
	switch {
	case s.settings.Apply == "":
		return nil
	case s.readOnly:
		s.warn("--apply (SERVICE_APPLY): nothing was applied, because the database takes no writes: " +
			"restart this instance when it does")
		return nil
	}
	return register.ApplyAtStart(p, s.options.Store, s.settings.Apply, s.log, s.warn)
}
