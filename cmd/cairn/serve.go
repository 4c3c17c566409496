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
	"sync"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type serveCommand struct {
	config.Settings
}

// Help implements kong.HelpProvider.
func (*serveCommand) Help() string {
	return `It runs until SIGTERM or SIGINT, with the settings in the cairn.yaml that cairn init wrote. On this
machine, and behind a local proxy that terminates TLS:

  cairn serve
  cairn serve --issuer https://id.example.org --trusted-proxy 127.0.0.1`
}

// Run serves until SIGTERM or SIGINT.
func (c *serveCommand) Run(p *program) error {
	return c.serve(p, nil, func() {})
}

// serve runs the service on l, or on --listen if l is nil. It calls ready once the service listens.
func (c *serveCommand) serve(p *program, l net.Listener, ready func()) error {
	checked, err := c.Check()
	if err != nil {
		return err
	}
	if err := activityschema.Ready(); err != nil {
		return fmt.Errorf("the embedded activity schema: %w: this program is damaged, install it again", err)
	}
	log, flush := newLog(p.stderr, checked)
	defer flush()
	var keys []jose.JSONWebKey
	if !c.NoOIDC {
		if keys, err = config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles); err != nil {
			return err
		}
	}
	missing, err := dataKeyMissing(checked.DataKeyFile)
	if err != nil {
		return err
	}
	st, release, err := openToServe(p.ctx, checked, log)
	if err != nil {
		return err
	}
	defer release()
	defer func() { _ = st.Close() }()
	if _, err := st.Sealed(p.ctx); err != nil {
		return err
	}
	clearWork(p.ctx, workParent(checked.Database))
	warnings := checked.Warnings()
	if missing { // and nothing is sealed: Sealed succeeded
		warnings = append(warnings, "there is no data key "+checked.DataKeyFile+
			": cairn keys seal makes it, and seals secrets in the database")
	}
	scheme, kid := "HS256", ""
	switch {
	case c.NoOIDC:
		warnings = append(warnings, "--no-oidc: sessions are HS256 and OpenID Connect is off; "+
			"tokens signed with a private key are not accepted")
	case len(keys) > 0:
		scheme, kid = "RS256", keys[0].KeyID
	default:
		// If the key was forgotten, users with its tokens would be signed out, and every
		// application would fail.
		if issued, err := st.IssuedRS256(p.ctx); err != nil {
			return err
		} else if issued {
			return fmt.Errorf("--private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) is not set, "+
				"and %s has issued tokens signed with a private key (RS256): name its key file in cairn.yaml "+
				"as private-key-file, or run without it with --no-oidc, which signs people out",
				checked.DatabaseLabel())
		}
		warnings = append(warnings, "no private key: sessions are HS256 and OpenID Connect is off; "+turnOnOIDC)
	}
	secret, note, err := sharedSecret(p.ctx, p.env, st)
	if err != nil {
		return err
	}
	if note != "" {
		warnings = append(warnings, note)
	}
	var signer jose.OpaqueSigner
	signs := "none"
	if len(keys) > 0 {
		signer, signs = libcrypto.Choose(keys[0], c.Signer == "go")
	}
	options := httpd.Options{
		Config: checked, Store: st, Secret: secret, Keys: keys, Signer: signer,
		KeyFile: c.PrivateKeyFile, MayLackKey: c.NoOIDC, Log: log,
	}
	mails, err := newMailSender(checked, p.env)
	if err != nil {
		return err
	}
	mailServer := "none"
	if mails != nil {
		defer mails.Close()
		options.Mail, mailServer = mails, checked.Mail.Address()
	}
	var watched net.Listener
	if checked.MetricsListen != "" {
		b := thisBuild()
		options.Metrics = metrics.New(metrics.Build{Version: b.Version, Commit: b.Commit, Go: b.Go, SQLite: b.SQLite})
		watched, err = listenOn(p.ctx, "--metrics-listen (SERVICE_METRICS_LISTEN)", checked.MetricsListen)
		if err != nil {
			return err
		}
		defer func() { _ = watched.Close() }()
	}
	handler, err := httpd.New(p.ctx, options)
	if err != nil {
		return err
	}
	srv := httpd.NewServer(handler, log)
	srv.RegisterOnShutdown(handler.BeforeStop)
	if checked.TLS != nil {
		if srv.TLSConfig, err = tlsConfig(*checked.TLS, log); err != nil {
			return err
		}
	}
	version, err := st.SchemaVersion(p.ctx)
	if err != nil {
		return err
	}
	if l == nil {
		if l, err = listenOn(p.ctx, "--listen (SERVICE_LISTEN)", checked.Listen); err != nil {
			return err
		}
	}
	log.Info("started", "version", programVersion(), "listen", l.Addr().String(),
		"issuer", checked.IssuerString, "database", checked.DatabaseLabel(), "schema", version,
		"sessions", scheme, "kid", kid, "signer", signs, "published_keys", len(keys),
		"https", checked.HTTPS, "mail", mailServer)
	for _, w := range warnings {
		log.Warn(w)
	}
	ready()
	tuneMemory()
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.ctx))
	defer cancel()
	defer context.AfterFunc(p.ctx, func() {
		announceStop(checked.ShutdownDelay, handler, log)
		cancel()
	})()
	var background sync.WaitGroup
	background.Go(func() { handler.Run(ctx) })
	background.Go(func() { sweepUntil(ctx, st, log) })
	background.Go(func() { freeWhenIdle(ctx) })
	if watched != nil {
		background.Go(func() { serveMetrics(ctx, options.Metrics, watched, c.Pprof, log) })
	}
	if checked.Backup.Dir != "" {
		clearWork(p.ctx, checked.Backup.Dir)
		source := backupSource{
			store: st, database: checked.Database, config: p.env.ConfigFile(), issuer: checked.IssuerString,
			dataKey: checked.DataKeyFile, recipient: checked.Backup.Recipient,
		}
		background.Go(func() { backupUntil(ctx, source, checked.Backup, log) })
	}
	background.Go(func() { superviseUntil(ctx, checked, l, log) })
	err = serveUntil(ctx, srv, l)
	cancel()
	background.Wait()
	log.Info("stopped")
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

// turnOnOIDC says how to enable OpenID Connect.
const turnOnOIDC = "cairn keys generate key.pem and the line private-key-file: key.pem in cairn.yaml turn it on"

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
		err := st.InTurn(ctx, "sweep", sweepInterval, func(ctx context.Context, now time.Time) (string, error) {
			_, err := st.Sweep(ctx, now)
			return "", err
		})
		if err != nil && ctx.Err() == nil {
			log.Warn("expired rows not deleted", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
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
