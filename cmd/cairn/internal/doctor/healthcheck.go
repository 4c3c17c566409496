package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// Healthcheck asks the service on its own listener whether it is ready, and returns the address it
// used. It needs no files of the system. It does not verify the certificate on loopback, where
// nobody can intercept the connection; elsewhere the certificate must be the issuer's.
func Healthcheck(ctx context.Context, c config.Checked) (address string, err error) {
	client, base, err := atListener(c)
	if err != nil {
		return base, err
	}
	address = base + "/readyz"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return address, err
	}
	res, err := client.Do(r)
	if err != nil {
		return address, fmt.Errorf("the service does not answer: %w: start cairn serve, "+
			"or name its address with --listen (SERVICE_LISTEN)", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.Header.Get("X-Request-Id") == "" { // which every answer of the service has
		return address, fmt.Errorf("%s: another program has this port and answers %s: stop it, "+
			"or choose another port with --listen (SERVICE_LISTEN)", address, res.Status)
	}
	if res.StatusCode == http.StatusNotFound {
		return address, fmt.Errorf("%s answers %s: the service has another path: "+
			"correct --issuer (SERVICE_OIDC_ISSUER), or restart it", address, res.Status)
	}
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1024))
		text := strings.ToValidUTF8(string(body), "")
		return address, fmt.Errorf("%s is not ready: %s: %s", address, res.Status, text)
	}
	return address, nil
}

// atListener returns a client for the service's own listener, and the address there that stands for the
// issuer.
func atListener(c config.Checked) (client *http.Client, base string, err error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "0" {
		return nil, c.Listen, fmt.Errorf("--listen (SERVICE_LISTEN) %s has no fixed port: "+
			"name the one that serve listens on", c.Listen)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.IsUnspecified() && ip.Is4():
		host, ip = "127.0.0.1", netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case err == nil && ip.IsUnspecified():
		host, ip = "::1", netip.IPv6Loopback()
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: c.Issuer.Path}
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	client = &http.Client{Transport: transport, Timeout: requestTimeout / 2, CheckRedirect: noRedirect}
	if c.TLS != nil {
		u.Scheme = "https"
		transport.TLSClientConfig = &tls.Config{
			ServerName: c.Issuer.Hostname(), MinVersion: tls.VersionTLS12,
			InsecureSkipVerify: ip.IsLoopback() || host == "localhost", // #nosec G402 -- only on loopback
		}
	}
	return client, u.String(), nil
}

// noRedirect is a CheckRedirect that follows no redirect.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func service(ctx context.Context, x *examination) Finding {
	address, err := Healthcheck(ctx, x.checked)
	if err != nil {
		_, unanswered := errors.AsType[*url.Error](err)
		if cause := cannotStart(ctx, x); unanswered && cause != nil {
			return found(Problem, doAsTold, "The service does not answer, and cannot start: %v.", cause)
		}
		return found(Problem, "Do what the message says; the service's log has more.", "%v.", err)
	}
	if n := store.Servers(x.checked.Database); n > 1 {
		return found(Warning, "Stop all but one (pgrep -af 'cairn serve'; systemctl status cairn); several need "+
			"PostgreSQL: docs/scale.md.", "%d cairn serve have %s open: each has its own limits and log, and with "+
			"SQLite one is enough.", n, x.checked.Database)
	}
	return ok("%s is ready.", address)
}

// cannotStart returns why a service that does not run cannot listen, or nil if that is not known.
func cannotStart(ctx context.Context, x *examination) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", x.checked.Listen)
	if err == nil {
		return l.Close()
	}
	const setting = "--listen (SERVICE_LISTEN)"
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %w: name a port from 1024 on, with a proxy in front, or let the unit of the service "+
			"have AmbientCapabilities=CAP_NET_BIND_SERVICE", setting, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %w: this machine does not have the address: name one of its own, or :PORT", setting, err)
	}
	return nil
}
