package httpd

import (
	"database/sql"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
)

// rawDatabase is a second way into the SQLite file of a service: it ages rows
// and makes statements fail, which no exported method can.
type rawDatabase struct {
	t  *testing.T
	db *sql.DB
}

func startServiceWithDatabase(t *testing.T, o serviceOptions) (*service, *rawDatabase) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cairn.db")
	o.Store = storetest.Open(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return startService(t, o), &rawDatabase{t, db}
}

func (d *rawDatabase) exec(query string, args ...any) int64 {
	d.t.Helper()
	res, err := d.db.ExecContext(d.t.Context(), query, args...)
	if err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	n, _ := res.RowsAffected()
	return n
}

func (d *rawDatabase) count(query string, args ...any) (n int) {
	d.t.Helper()
	if err := d.db.QueryRowContext(d.t.Context(), query, args...).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// breaks makes every statement of that kind fail ("INSERT ON tokens") until
// the returned function is called.
func (d *rawDatabase) breaks(what string) (mend func()) {
	d.t.Helper()
	d.exec("CREATE TRIGGER broken BEFORE " + what + " BEGIN SELECT RAISE(ABORT, 'disk on fire'); END")
	return func() { d.t.Helper(); d.exec("DROP TRIGGER broken") }
}

// follow plays the person from an answer on: it signs in and allows, until
// something else than our own pages and redirects comes.
func (b *browser) follow(got response, handle string) response {
	b.t.Helper()
	for range 12 {
		next := got.Header.Get("Location")
		switch {
		case got.StatusCode == http.StatusSeeOther && (strings.HasPrefix(next, "/") || strings.HasPrefix(next, b.base+"/")):
			got = b.get(next)
			continue
		case got.StatusCode != http.StatusOK:
			return got
		}
		name := pageName(b.t, got.Text)
		if name != "login" && name != "consent" {
			return got
		}
		f := pageForm(b.t, got.Text)
		if name == "login" {
			f.values.Set("handle", handle)
			f.values.Set("password", password)
		} else {
			f.values.Set("decision", "allow")
		}
		got = b.postForm(f.action, f.values)
	}
	b.t.Fatal("the authorization never ended")
	return got
}

// answerOf is what the client gets: by redirect, or by the form of form_post.
func answerOf(t *testing.T, got response) (target string, answer url.Values) {
	t.Helper()
	switch {
	case got.StatusCode == http.StatusSeeOther:
		target, query, _ := strings.Cut(got.Header.Get("Location"), "?")
		answer, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return target, answer
	case got.StatusCode == http.StatusOK && pageName(t, got.Text) == "form-post":
		f := pageForm(t, got.Text)
		return f.action, f.values
	}
	t.Fatalf("no answer for the client: %d %.300s", got.StatusCode, got.Text)
	return "", nil
}

func (s *service) refreshRequest(id, secret, token string) response {
	s.t.Helper()
	return s.tokenRequest(id, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// wantPage checks that the browser got a page of ours and nothing was sent on.
func wantPage(t *testing.T, what string, got response, status int) {
	t.Helper()
	if got.StatusCode != status || got.Header.Get("Location") != "" || pageName(t, got.Text) != "error" {
		t.Errorf("%s: %d, Location %q, %.200s; want a page with %d", what, got.StatusCode, got.Header.Get("Location"), got.Text, status)
	}
}
