package statuslist_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/docs/openapitest"
	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/cairn-id/cairn/templates"
)

// stored is a store of list 1. RevokedIndices returns once StatusVersion was called patience times.
type stored struct {
	patience    int32
	ahead       time.Duration // of the clock
	gone        atomic.Bool
	asked, read atomic.Int32
	all         chan struct{}
}

func (s *stored) StatusVersion(_ context.Context, list int) (int64, error) {
	if s.asked.Add(1) == s.patience {
		close(s.all)
	}
	switch {
	case s.gone.Load():
		return 0, web.ErrUnavailable
	case list != 1:
		return 0, statuslist.ErrNotFound
	}
	return 1, nil
}

func (s *stored) StatusVersions(context.Context) (map[int]int64, error) {
	if s.gone.Load() {
		return nil, web.ErrUnavailable
	}
	return map[int]int64{1: 1}, nil
}

func (s *stored) RevokedIndices(context.Context, int) ([]int, error) {
	s.read.Add(1)
	<-s.all
	return nil, nil
}

// serve returns the lists of a store, and a function that asks for one and wants a status.
func serve(t *testing.T, s *stored) (*statuslist.Lists, func(list string, status int, headers ...string) http.Header) {
	t.Helper()
	s.all = make(chan struct{})
	if s.patience == 0 {
		close(s.all)
	}
	pages, err := templates.New(templates.Options{})
	must(t, err)
	site, err := web.NewSite("http://localhost:4040", pages, slog.New(slog.DiscardHandler))
	must(t, err)
	lists, err := statuslist.New(statuslist.Options{
		Site: site, Store: s, Key: jose.SigningKey{Algorithm: jose.HS256, Key: make([]byte, 32)},
		Now: func() time.Time { return time.Now().Add(s.ahead) }, Log: slog.New(slog.DiscardHandler), TTL: time.Minute,
	})
	must(t, err)
	m := mux.NewRouter().SkipClean(true)
	site.Handle(m, "/oauth2/status/{list}", web.Methods{"GET": lists.ServeHTTP})
	router := openapitest.Handler(t, "", m)
	return lists, func(list string, status int, headers ...string) http.Header {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/oauth2/status/"+list, nil)
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "req-1") // as the middleware does
		router.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("list %s: %d, want %d: %s", list, w.Code, status, w.Body)
		}
		return w.Header()
	}
}

func TestUnknownListsAreNotFound(t *testing.T) {
	_, get := serve(t, &stored{})
	for _, list := range []string{"99", "0", "-1", "01", "x", "%00", "1e3", "99999999999999999999"} {
		get(list, http.StatusNotFound)
	}
}

// While the database is away no answer says that nothing was revoked.
func TestListIsNotConfirmedWithoutTheDatabase(t *testing.T) {
	s := &stored{}
	_, get := serve(t, s)
	etag := get("1", http.StatusOK).Get("ETag")
	get("1", http.StatusNotModified, "If-None-Match", etag, "Prefer", "wait=1")
	s.gone.Store(true)
	get("1", http.StatusServiceUnavailable, "If-None-Match", etag)
	get("1", http.StatusServiceUnavailable, "If-None-Match", etag, "Prefer", "wait=1")
}

func TestReleasedListsHoldNoRequest(t *testing.T) {
	lists, get := serve(t, &stored{})
	etag := get("1", http.StatusOK).Get("ETag")
	lists.Release()
	lists.Release()
	same(t, "a request was held",
		get("1", http.StatusNotModified, "If-None-Match", etag, "Prefer", "wait=25").Get("Preference-Applied"), "")
}

// A change wakes every waiting request; one of them reads the list.
func TestWaitingRequestsReadAChangedListOnce(t *testing.T) {
	s := &stored{patience: 32}
	_, get := serve(t, s)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() { get("1", http.StatusOK) })
	}
	all.Wait()
	// One that was between the cache and its own load when the first load ended causes a second.
	if n := s.read.Load(); n < 1 || n > 2 {
		t.Errorf("32 requests read the list %d times", n)
	}
}

// No verifier believes a list of the future: one that a clock signed while it was ahead is served until it is right.
func TestListOfTheFutureIsSignedAnew(t *testing.T) {
	for ahead, reads := range map[time.Duration]int32{0: 1, time.Minute: 2, 40 * 24 * time.Hour: 2} {
		s := &stored{ahead: ahead}
		_, get := serve(t, s)
		get("1", http.StatusOK)
		s.ahead = 0
		get("1", http.StatusOK)
		get("1", http.StatusOK)
		same(t, "reads of the list", s.read.Load(), reads)
	}
}

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
