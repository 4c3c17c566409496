package httpd

import (
	"context"
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/store/storetest"
)

// Another process that holds the database (a backup, a command) keeps nobody
// waiting who only reads: that a session was seen is written beside the requests, and
// at the latest when the service stops.
func TestRequestNeverWaitsForItsVisitToBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	st := storetest.Open(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=20000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	t.Run("service", func(t *testing.T) { // which has stopped when it returns
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		b := s.browser()
		b.signIn("ada")
		other, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{"UPDATE sessions SET last_seen_at = last_seen_at - 7200", "BEGIN IMMEDIATE"} {
			if _, err := other.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		b.client.Timeout = 9 * time.Second // less than a write waits for the lock
		for range 3 {
			if got := b.api("GET", "/api/me", nil); got.StatusCode != http.StatusOK {
				t.Errorf("while the database is held: %d %s", got.StatusCode, got.Text)
			}
		}
		// What is not written yet is shown.
		seen, err := time.Parse(time.RFC3339, b.api("GET", "/api/me/sessions", nil).JSON(t)["sessions"].([]any)[0].(map[string]any)["last_seen_at"].(string))
		if err != nil || time.Since(seen) > time.Hour {
			t.Errorf("last seen %v (%v)", seen, err)
		}
		if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil { // held until here
			t.Fatal(err)
		}
		if log := s.log.String(); strings.Contains(log, `"level":"WARN"`) && strings.Contains(log, "visit") {
			t.Errorf("a visit was not written: %s", log)
		}
	})
	var fresh int
	err = db.QueryRowContext(context.Background(), "SELECT count(*) FROM sessions WHERE last_seen_at > ?", time.Now().Add(-time.Hour).Unix()).Scan(&fresh)
	if err != nil || fresh != 1 {
		t.Errorf("%d visits are written after the stop (%v)", fresh, err)
	}
}
