//go:build unix

package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
)

// notifySocket returns a socket on which systemd would listen.
func notifySocket(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // t.TempDir may be too long for a socket
	fatalIf(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	fatalIf(t, err)
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", c.LocalAddr().String())
	return c
}

// said is the next message, "" where none comes within d.
func said(t *testing.T, c *net.UnixConn, d time.Duration) string {
	t.Helper()
	b := make([]byte, 4096)
	_ = c.SetReadDeadline(time.Now().Add(d))
	n, err := c.Read(b)
	if err != nil && !os.IsTimeout(err) {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestSystemdIsToldWhenTheServiceListensAnswersAndStops(t *testing.T) {
	for name, args := range map[string][]string{"http": {"--issuer", "http://localhost:4040/id"}, "https, every address": {"--listen", "[::]:0", "--issuer", "https://localhost"}} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "https") {
				cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
				writePair(t, cert, key, 1)
				args = append(args, "--tls-cert-file", cert, "--tls-key-file", key)
			}
			socket := notifySocket(t)
			t.Setenv("WATCHDOG_USEC", "200000")
			t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
			p := startProcess(t, append([]string{"--database", initializedDatabase(t)}, args...)...)
			if got := said(t, socket, 10*time.Second); !strings.HasPrefix(got, "READY=1\nSTATUS=Serving http") {
				t.Fatalf("at the start: %q", got)
			}
			for range 3 {
				if got := said(t, socket, 10*time.Second); got != "WATCHDOG=1" {
					t.Fatalf("while it answers: %q", got)
				}
			}
			p.stop()
			got := "WATCHDOG=1"
			for got == "WATCHDOG=1" {
				got = said(t, socket, 10*time.Second)
			}
			same(t, "at the end", got, "STOPPING=1")
			same(t, "exit code", <-p.code, cli.ExitDone)
		})
	}
}

// The watchdog is for a process that no longer answers: 503 while the database is away
// is an answer, but an accepted connection that is left alone is not.
func TestWatchdogIsForAServiceThatDoesNotAnswer(t *testing.T) {
	socket := notifySocket(t)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, nothing answers them
	fatalIf(t, err)
	checked, err := config.Defaults().Check()
	fatalIf(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pingUntil(t.Context(), healthURL(checked, l), 100*time.Millisecond, log)
	}()
	t.Cleanup(func() { <-done })
	if got := said(t, socket, 500*time.Millisecond); got != "" {
		t.Fatalf("without an answer: %q", got)
	}
	unavailable := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	server := httptest.NewUnstartedServer(http.HandlerFunc(unavailable))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	same(t, "with an answer", said(t, socket, 10*time.Second), "WATCHDOG=1")
}
