package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/cairn-id/cairn/config"
)

// notify reports a state of the service to systemd. Without systemd, as in a shell or a container,
// NOTIFY_SOCKET is not set and notify does nothing.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the state of the service was not reported to systemd", "state", state, "error", err)
	}
}

// superviseUntil reports to systemd that the service listens, and when the context ends that it
// stops. In between it reports twice in the unit's WatchdogSec that the service still answers.
func superviseUntil(ctx context.Context, c config.Checked, l net.Listener, log *slog.Logger) {
	notify(log, daemon.SdNotifyReady+"\nSTATUS=Serving "+c.IssuerString)
	if watchdog, err := daemon.SdWatchdogEnabled(false); err != nil {
		log.Warn("systemd's watchdog is not supported", "error", err)
	} else if watchdog > 0 {
		pingUntil(ctx, healthURL(c, l), watchdog/2, log)
	}
	<-ctx.Done()
	notify(log, daemon.SdNotifyStopping)
}

// pingUntil sends requests to the service's own port, as a proxy would, and reports each answer to
// systemd, which restarts the service when the reports stop. Any answer counts: /healthz does not
// use the database, because a restart would not repair that.
func pingUntil(ctx context.Context, url string, every time.Duration, log *slog.Logger) {
	client := &http.Client{Timeout: every, Transport: &http.Transport{
		DisableKeepAlives: true,                                  // test new connections
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // own port; the answer is not used
	}}
	t := time.NewTicker(every)
	defer t.Stop()
	for ctx.Err() == nil {
		if err := getAny(ctx, client, url); err == nil {
			notify(log, daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			log.Error("the service does not answer on its own port", "url", url, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
}

func getAny(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	got, err := client.Do(req)
	if err != nil {
		return err
	}
	return got.Body.Close()
}

// healthURL returns the URL of /healthz at the address on which the service listens. A client
// connects to its own machine for 0.0.0.0 and [::].
func healthURL(c config.Checked, l net.Listener) string {
	url := *c.Issuer
	url.Scheme, url.Host = "http", l.Addr().String()
	if c.TLS != nil {
		url.Scheme = "https"
	}
	return url.JoinPath("healthz").String()
}
