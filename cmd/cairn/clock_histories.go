//go:build histories

package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// The file that HISTORIES_CLOCK names has the seconds by which the clock is ahead.
func init() {
	clock = func() time.Time {
		b, _ := os.ReadFile(os.Getenv("HISTORIES_CLOCK")) // without a file it is right
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return time.Now().Add(time.Duration(n) * time.Second)
	}
}
