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

// notify tells systemd what state the service is in. Without systemd, as in a
// shell or a container, NOTIFY_SOCKET is not set and nothing happens.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not told the state of the service", "state", state, "error", err)
	}
}

// superviseUntil tells systemd that the service listens, that it stops when the context
// ends, and in between, twice in the unit's WatchdogSec, that it still answers.
func superviseUntil(ctx context.Context, c config.Checked, l net.Listener, log *slog.Logger) {
	notify(log, daemon.SdNotifyReady+"\nSTATUS=Serving "+c.IssuerString)
	if watchdog, err := daemon.SdWatchdogEnabled(false); err != nil {
		log.Warn("the watchdog of systemd is not served", "error", err)
	} else if watchdog > 0 {
		pingUntil(ctx, healthURL(c, l), watchdog/2, log)
	}
	<-ctx.Done()
	notify(log, daemon.SdNotifyStopping)
}

// pingUntil asks the service over its own port, as a proxy would, and passes each answer
// on to systemd, which restarts the service when they stay away. Any answer counts:
// /healthz does not ask the database, because a restart would not bring that back.
func pingUntil(ctx context.Context, url string, every time.Duration, log *slog.Logger) {
	client := &http.Client{Timeout: every, Transport: &http.Transport{
		DisableKeepAlives: true,                                  // a new connection each time: that is what has to work
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its own port, by address; the answer is not used
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

// healthURL is /healthz at the address on which the service listens; 0.0.0.0 and [::] lead
// a client to its own machine.
func healthURL(c config.Checked, l net.Listener) string {
	url := *c.Issuer
	url.Scheme, url.Host = "http", l.Addr().String()
	if c.TLS != nil {
		url.Scheme = "https"
	}
	return url.JoinPath("healthz").String()
}
