package httpd

import (
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// The installation of the benchmarks: a million sessions, 2 % of them taken back.
const (
	manySessions = 1_000_000
	listCapacity = account.StatusListSize / 16 * 15
	manyLists    = (manySessions + listCapacity - 1) / listCapacity
)

// manySessionsHandler is the whole HTTP service on a SQLite database of
// manySessions.
func manySessionsHandler(b *testing.B) (fresh func() http.Handler) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "cairn.db")
	st := storetest.Open(b, path)
	secrets := map[string][]byte{account.SecretJWT: []byte("a-shared-secret-of-more-than-32-bytes"), account.SecretInstallation: make([]byte, 48)}
	if _, err := st.Initialize(b.Context(), account.DefaultSettings(), secrets); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().Unix()
	for _, q := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO users (sub, handle, display_name, password_hash, search, created_at, updated_at) VALUES ('u', 'ada', 'Ada', 'hash', 'ada', ?, ?)", []any{now, now}},
		{"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO status_lists (id, issued, version) SELECT i, ?, 1 FROM n", []any{manyLists, listCapacity}},
		// 131,071 is prime to the size of a list: the indices differ, and those that are free lie scattered.
		{`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
			INSERT INTO sessions (id, sub, created_at, auth_time, last_seen_at, expires_at, ended_at, status_list, status_index)
			SELECT 's' || i, 'u', ?, ?, ?, ?, abs(random()) % 50 = 0, i / ? + 1, i % ? * 131071 % ? FROM n`,
			[]any{manySessions, now, now, now, now + 2592000, listCapacity, listCapacity, account.StatusListSize}},
		{"INSERT INTO revocations (status_list, status_index, expires_at) SELECT status_list, status_index, expires_at FROM sessions WHERE ended_at > 0", nil},
	} {
		if _, err := db.Exec(q.query, q.args...); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	settings := config.Defaults()
	settings.PrivateKeyFile, settings.RateLimits = sharedKey(), []string{"all=off"}
	checked, err := settings.Check()
	if err != nil {
		b.Fatal(err)
	}
	keys, err := config.LoadSigningKeys(settings.PrivateKeyFile, nil)
	if err != nil {
		b.Fatal(err)
	}
	return func() http.Handler {
		h, err := New(b.Context(), Options{Config: checked, Store: st, Secret: secrets[account.SecretJWT], Keys: keys, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		return h
	}
}

func statusRequest(list int, etag string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("http://localhost:4040/oauth2/status/%d", list), nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	return r
}

// BenchmarkStatusListsOfAMillion builds and signs all lists of a million sessions
// of which 2 % were taken back. The bars are 100 ms, and 60 KB in all.
func BenchmarkStatusListsOfAMillion(b *testing.B) {
	fresh := manySessionsHandler(b)
	b.ResetTimer()
	bytes, used := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		h := fresh() // which has built none yet
		bytes = 0
		before := cpuTime(b)
		b.StartTimer()
		for list := 1; list <= manyLists; list++ {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, statusRequest(list, ""))
			if w.Code != http.StatusOK {
				b.Fatalf("list %d: %d", list, w.Code)
			}
			bytes += w.Body.Len()
		}
		used += cpuTime(b) - before
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(bytes)/1000, "KB")
	b.ReportMetric(manyLists, "lists")
}

// BenchmarkStatusListUnchanged is a conditional request, through everything a
// request passes. The bar is 50 µs of CPU.
func BenchmarkStatusListUnchanged(b *testing.B) {
	h := manySessionsHandler(b)()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, statusRequest(1, ""))
	etag := w.Header().Get("ETag")
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, statusRequest(1, etag))
		if w.Code != http.StatusNotModified {
			b.Fatalf("%d", w.Code)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime is the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
