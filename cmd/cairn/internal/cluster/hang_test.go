//go:build linux

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-id/cairn/store"
)

// A server that keeps its connections and answers nothing is passed over also by those who
// have little time, as a check of readiness.
func TestServerThatHangsIsPassedOver(t *testing.T) {
	need(t, "/usr/lib/postgresql/*/bin/pg_basebackup")
	primary, standby := newDatabases(t)
	s, err := store.Open(t.Context(), fmt.Sprintf("postgres://postgres@127.0.0.1:%s,127.0.0.1:%s/postgres?sslmode=disable", primary.port, standby.port), store.Options{})
	must(t, err)
	defer func() { _ = s.Close() }()
	must(t, s.Migrate(t.Context()))
	ready := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return s.Ping(ctx)
	}
	must(t, ready())
	primary.hang()
	standby.promote()
	begin := time.Now()
	eventually(t, 30*time.Second, "ready", func() error {
		err := ready()
		t.Logf("%s: %v", time.Since(begin).Round(time.Millisecond), err)
		return err
	})
}
