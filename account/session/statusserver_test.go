package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// statusServer is Cairn with its status lists, without a network: the transport of an
// application's client, for tests in a bubble of synctest, in which time passes as soon as
// everybody waits.
type statusServer struct {
	ttl     int           // seconds
	life    time.Duration // from iat to exp
	sameTag bool          // a list signed anew without a change has the ETag that it had
	latency time.Duration // of every answer

	mu       sync.Mutex
	unheld   bool // requests are not held
	revoked  []int
	changed  chan struct{}                               // closed at the next change
	failure  func(*http.Request) (*http.Response, error) // answers in place of the lists
	requests []statusRequest
	out      map[string]int // requests that are out, by path
	most     int            // of one list at the same time
	ended    int            // requests that the application has given up
}

type statusRequest struct {
	at            time.Time
	path          string
	prefer, etags string
	cache         string
}

func newStatusServer(revoked ...int) *statusServer {
	return &statusServer{ttl: 60, life: 12 * time.Hour, revoked: revoked, changed: make(chan struct{}), out: map[string]int{}}
}

// RoundTrip implements http.RoundTripper.
func (s *statusServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, statusRequest{time.Now(), r.URL.Path, r.Header.Get("Prefer"), r.Header.Get("If-None-Match"), r.Header.Get("Cache-Control")})
	s.out[r.URL.Path]++
	s.most = max(s.most, s.out[r.URL.Path])
	failure := s.failure
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out[r.URL.Path]--
		if r.Context().Err() != nil {
			s.ended++
		}
	}()
	time.Sleep(s.latency)
	if failure != nil {
		return failure(r)
	}
	return s.answer(r)
}

func (s *statusServer) answer(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	etag, changed := s.etag()
	s.mu.Lock()
	holds := !s.unheld
	s.mu.Unlock()
	has := r.Header.Get("If-None-Match")
	if n, asked := seconds(r.Header.Get("Prefer")); asked && holds && has == etag {
		w.Header().Set("Preference-Applied", r.Header.Get("Prefer"))
		select {
		case <-changed:
		case <-time.After(n):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		etag, _ = s.etag()
	}
	w.Header().Set("ETag", etag)
	if has == etag {
		w.WriteHeader(http.StatusNotModified)
		return w.Result(), nil
	}
	w.Header().Set("Content-Type", "application/statuslist+jwt")
	_, _ = w.WriteString(s.token(issuer + r.URL.Path))
	return w.Result(), nil
}

func (s *statusServer) etag() (etag string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	generation := time.Now().UnixNano() / int64(s.life/4)
	if s.sameTag {
		generation = 0
	}
	return fmt.Sprintf(`W/"%d-%d"`, generation, len(s.revoked)), s.changed
}

func (s *statusServer) token(uri string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := listPayload(uri, time.Now(), s.ttl, s.revoked...)
	p["exp"] = time.Now().Add(s.life).Unix()
	return hsList(p)
}

func seconds(prefer string) (time.Duration, bool) {
	n, ok := strings.CutPrefix(prefer, "wait=")
	d, err := time.ParseDuration(n + "s")
	return d, ok && err == nil
}

func (s *statusServer) revoke(index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = append(slices.Clone(s.revoked), index)
	close(s.changed)
	s.changed = make(chan struct{})
}

// holds says whether requests are held.
func (s *statusServer) holds(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheld = !yes
}

// fail has every request answered by f; nil ends that.
func (s *statusServer) fail(f func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = f
}

func refused(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (s *statusServer) options() session.RemoteStatusOptions {
	return session.RemoteStatusOptions{Issuer: issuer, Secret: secret, Client: &http.Client{Transport: s}}
}

func (s *statusServer) lists() *session.RemoteStatusList {
	return session.NewRemoteStatusList(s.options())
}

// waiting are lists that ask Cairn to hold requests.
func (s *statusServer) waiting() *session.RemoteStatusList {
	o := s.options()
	o.Wait = time.Minute
	return session.NewRemoteStatusList(o)
}

// log returns the requests since the call before.
func (s *statusServer) log() []statusRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.requests = nil }()
	return s.requests
}

// floor fails if two requests for one list began nearer than d to each other, or two were out at once.
func (s *statusServer) floor(t *testing.T, d time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 1 {
		t.Errorf("%d requests for one list were out at once", s.most)
	}
	last := map[string]time.Time{}
	for _, r := range s.requests {
		if gap := r.at.Sub(last[r.path]); !last[r.path].IsZero() && gap < d {
			t.Errorf("a request came %v after the one before", gap)
		}
		last[r.path] = r.at
	}
}

func place(index int) session.StatusRef {
	return session.StatusRef{Index: index, URI: issuer + "/oauth2/status/1"}
}

// passes asks for a status, and fails if that takes time.
func passes(t *testing.T, lists *session.RemoteStatusList, index int) bool {
	t.Helper()
	got, took, err := timed(t.Context(), lists, place(index))
	if err != nil || took > 0 {
		t.Fatalf("after %v: %v", took, err)
	}
	return !got
}

func timed(ctx context.Context, lists *session.RemoteStatusList, ref session.StatusRef) (bool, time.Duration, error) {
	begin := time.Now()
	got, err := lists.Revoked(ctx, ref)
	return got, time.Since(begin), err
}

// inBubble runs a test under a clock of its own. Minutes after the last use nothing may be left of
// what the lists have begun: a goroutine that stays fails the test.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(6 * time.Minute)
		f(t)
	})
}
