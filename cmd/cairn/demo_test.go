package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// freeAddress is a free port of this machine.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatalIf(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// What a newcomer reads of the demo: first the one address to open, or which port
// is taken and what to do, before anything was made.
func TestDemoSaysWhereToBegin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	service, app := freeAddress(t), freeAddress(t)
	for i, flag := range []string{"--listen", "--app-listen"} {
		addresses := []string{service, app}
		taken, err := net.Listen("tcp", addresses[i])
		fatalIf(t, err)
		var errs bytes.Buffer
		code := Run(t.Context(), []string{"demo", "--dir", dir, "--listen", service, "--app-listen", app}, nil, strings.NewReader(""), io.Discard, &errs)
		_ = taken.Close()
		want := "cairn: " + flag + ": another program listens on " + addresses[i] + " already"
		if code != cli.ExitFailed || !strings.HasPrefix(errs.String(), want) || !strings.Contains(errs.String(), "choose another port") {
			t.Errorf("%d %s", code, errs.String())
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the folder was made")
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, w := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		defer func() { _ = w.Close() }()
		ended <- Run(ctx, []string{"demo", "--dir", dir, "--listen", service, "--app-listen", app}, nil, strings.NewReader(""), w, &errs)
	}()
	var first string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if first == "" && strings.Contains(lines.Text(), "http") {
			first = strings.TrimSpace(lines.Text())
			stop()
		}
	}
	_, port, _ := net.SplitHostPort(app)
	same(t, "the first address", first, "http://localhost:"+port)
	if code := <-ended; code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestDemoShowsAPrivateActivityToItsOwner(t *testing.T) {
	page, err := demoActivities("keeper")
	fatalIf(t, err)
	for isOwner, want := range map[bool]int{false: 2, true: 3} {
		var b strings.Builder
		if err := page(&b, isOwner); err != nil || strings.Count(b.String(), "<section") != want || strings.Contains(b.String(), "sample-walk") != isOwner {
			t.Errorf("owner %t: %v, %d activities", isOwner, err, strings.Count(b.String(), "<section"))
		}
	}
}
