package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// A file that answers late, as on a slow mount, holds up apply alone: it is read before the transaction.
func TestApplyReadsFilesBeforeItWrites(t *testing.T) {
	s, _ := sqliteShell(t)
	fatalIf(t, syscall.Mkfifo("secret", 0o600))
	fatalIf(t, os.WriteFile("apply.yaml", []byte("clients: [{id: wiki, redirect-uri: https://wiki.example/cb, secret-file: secret}]\n"), 0o600))
	applied := make(chan string)
	go func() {
		_, printed := s.run("apply", "apply.yaml")
		applied <- printed
	}()
	fifo, err := os.OpenFile("secret", os.O_WRONLY, 0) // once apply reads
	fatalIf(t, err)
	s.must("client", "add", "Meanwhile", "--redirect-uri", "https://meanwhile.example/cb")
	_, err = fifo.WriteString("x7KqJd93hZ0f-Wn2mB5vR8tY1uE4oP6aS\n")
	fatalIf(t, err)
	fatalIf(t, fifo.Close())
	if printed := <-applied; !strings.HasSuffix(printed, "1 changed\n") {
		t.Error(printed)
	}
}

// SIGTERM ends apply while it waits for a file, or for standard input.
func TestASignalEndsApplyThatWaits(t *testing.T) {
	sqliteShell(t)
	fatalIf(t, syscall.Mkfifo("fifo", 0o600))
	fatalIf(t, os.WriteFile("waits.yaml", []byte("clients: [{id: w, redirect-uri: https://w.example/cb, secret-file: fifo}]"), 0o600))
	for _, file := range []string{"fifo", "waits.yaml", "-"} {
		ctx, signal := context.WithCancel(t.Context())
		stdin, never := io.Pipe()
		code := make(chan int, 1)
		go func() { code <- Run(ctx, []string{"apply", file}, nil, stdin, io.Discard, io.Discard) }()
		select {
		case c := <-code:
			t.Errorf("%s: it did not wait: exit code %d", file, c)
		case <-time.After(200 * time.Millisecond):
		}
		signal()
		select {
		case c := <-code:
			if c != cli.ExitFailed {
				t.Errorf("%s: exit code %d", file, c)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it does not end", file)
		}
		fatalIf(t, never.Close())
		if fifo, err := os.OpenFile("fifo", os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			fatalIf(t, fifo.Close()) // what was waiting ends
		}
	}
}

// Nothing reacts to a signal while a pipe is read for the settings: the process ends in seconds, or by a second signal.
func TestSignalsEndAServeThatWaitsForItsSettings(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	fatalIf(t, syscall.Mkfifo(fifo, 0o600))
	limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for again, want := range map[bool]string{false: "exit status 1", true: "signal: terminated"} {
		c := exec.CommandContext(limited, "cairn", "serve", "--config", fifo)
		fatalIf(t, c.Start())
		writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // once it reads
		fatalIf(t, err)
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for once := true; err == nil; once = again {
			if once {
				_ = c.Process.Signal(syscall.SIGTERM)
			}
			select {
			case err = <-ended:
			case <-time.After(100 * time.Millisecond):
			}
		}
		same(t, "the end", err.Error(), want)
		fatalIf(t, writer.Close())
	}
}
