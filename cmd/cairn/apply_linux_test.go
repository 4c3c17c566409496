package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
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
