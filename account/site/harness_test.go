package site_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

const (
	password    = accounttest.Password
	newPassword = accounttest.NewPassword
)

func withLimits(limits map[string]web.Rate) func(*accounttest.Options) {
	return func(o *accounttest.Options) { o.Limits = web.NewLimits(limits, nil, o.Now, o.Log) }
}

func address(i int) string { return fmt.Sprintf("198.51.100.%d", i+1) }

// brokenCounters are counters whose database is away.
type brokenCounters struct{}

var errAway = errors.New("connection refused")

func (brokenCounters) Take(context.Context, web.Counter, time.Time, bool) (bool, error) {
	return false, errAway
}

func (brokenCounters) Settle(context.Context, web.Counter, time.Time, bool) error {
	return errAway
}

func (brokenCounters) Counts(context.Context, web.Counter, time.Time) (web.Counts, error) {
	return web.Counts{}, errAway
}

func withLog(to io.Writer) func(*accounttest.Options) {
	return func(o *accounttest.Options) { o.Log = slog.New(slog.NewTextHandler(to, nil)) }
}

// TestMain stops the database server that TEST_DATABASE=postgres started.
func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var equal, fails, has, lacks, must = assert.Equal, assert.Fails, assert.Has, assert.Lacks, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }
