package httpd

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
)

// An authorization request of somebody who is not signed in travels sealed in
// the URL: strangers cannot fill the database.
func TestStrangerNeverWritesToTheDatabaseByAuthorizing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Limits: true, Store: storetest.Open(t, path)})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	watcher, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close() }()
	watcher.SetMaxOpenConns(1)
	version := func() (n int64) {
		t.Helper()
		// Changes whenever another connection has committed.
		if err := watcher.QueryRow("PRAGMA data_version").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := version()
	b := s.browser()
	for _, change := range [][]string{nil, {"prompt", "none"}, {"prompt", "login"}, {"client_id", "nobody"}, {"redirect_uri", "https://evil.example/"}, {"request", "x"}, {"max_age", "0"}, {"response_mode", "form_post", "prompt", "none"}} {
		got := b.get(rp.authURL(change...))
		if next := got.Header.Get("Location"); next != "" && next[0] == '/' {
			b.get(next)
		}
	}
	b.postForm("/oauth2/authorize", url.Values{"client_id": {"app"}})
	b.get("/oauth2/consent?continue=x")
	b.get("/oauth2/logout?state=x")
	if after := version(); after != before {
		t.Errorf("data_version %d became %d", before, after)
	}
	b.signIn("ada")
	if version() == before {
		t.Error("the watcher does not see writes: this test proves nothing")
	}
}
