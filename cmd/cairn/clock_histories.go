//go:build histories

package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// The file that HISTORIES_CLOCK names has the seconds by which the clock is ahead. HISTORIES_VERSION
// is the version.
func init() {
	cli.Version = os.Getenv("HISTORIES_VERSION")
	var err error
	if hasher, err = passwords.NewTestHasher(); err != nil {
		panic(err)
	}
	cli.Clock = func() time.Time {
		b, _ := os.ReadFile(os.Getenv("HISTORIES_CLOCK")) // without a file it is right
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return time.Now().Add(time.Duration(n) * time.Second)
	}
}
