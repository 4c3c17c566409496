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

	"github.com/cairn-id/cairn/config"
)

const drainTimeout = 10 * time.Second // for requests in flight at a stop

// listenOn opens the port of a setting, and says what to do where it is taken.
func listenOn(ctx context.Context, setting, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: another program listens on %s already, perhaps another cairn: stop it, or choose another port", setting, address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: choose another address", setting, err)
	}
	return l, nil
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

// certificates serves the pair of files and loads it again when a file has
// changed; a pair that does not fit leaves the one in use.
type certificates struct {
	files   config.TLSFiles
	log     *slog.Logger
	mu      sync.Mutex
	current *tls.Certificate
	stamp   string
	checked time.Time
}

func newCertificates(f config.TLSFiles, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: f, log: log}
	cert, err := f.Load()
	if err != nil {
		return nil, err
	}
	c.current, c.stamp, c.checked = cert, c.stampOf(), time.Now()
	return c, nil
}

func (c *certificates) stampOf() string {
	var s string
	for _, name := range []string{c.files.CertFile, c.files.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			s += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), " ")
		}
	}
	return s
}

// get implements tls.Config.GetCertificate; it looks at the files at most once
// a second.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < time.Second {
		return c.current, nil
	}
	c.checked = time.Now()
	if stamp := c.stampOf(); stamp != c.stamp {
		cert, err := c.files.Load()
		if err != nil {
			c.log.Warn("certificate not reloaded: the earlier one stays in use", "error", err)
			return c.current, nil
		}
		c.current, c.stamp = cert, stamp
		c.log.Info("certificate reloaded")
	}
	return c.current, nil
}

// tls12Suites are those with ECDHE and AEAD (RFC 9325 section 4.2). TLS 1.3 has
// no others.
var tls12Suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

func (c *certificates) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: tls12Suites, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get}
}
