package session_test

import (
	"bytes"
	"compress/zlib"
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
	"github.com/go-jose/go-jose/v4"
)

const listSize = 1 << 17

// server is Cairn with its key set and status lists: an http.Handler, and the transport of an application's client
// for tests in a bubble of synctest, in which time passes as soon as every goroutine waits.
type server struct {
	issuer  string
	ttl     int           // seconds
	life    time.Duration // from iat to exp
	sameTag bool          // a list signed again without a change has the ETag that it had
	latency time.Duration // of every answer

	mu           sync.Mutex
	keys         []jose.JSONWebKey
	signer       string // kid of the lists
	ignoresWaits bool   // requests are not held
	revoked      []int
	changed      chan struct{}                               // closed at the next change
	override     func(*http.Request) (*http.Response, error) // answers instead
	requests     []request
	out          map[string]int // requests that are out, by path
	most         int            // of one path at the same time
}

type request struct {
	at                        time.Time
	path, prefer, etag, cache string
}

func newServer(revoked ...int) *server {
	return &server{issuer: issuer, ttl: 60, life: 12 * time.Hour, keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)},
		signer: kid, revoked: revoked, changed: make(chan struct{}), out: map[string]int{}}
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, request{time.Now(), r.URL.Path, r.Header.Get("Prefer"), r.Header.Get("If-None-Match"), r.Header.Get("Cache-Control")})
	s.out[r.URL.Path]++
	s.most = max(s.most, s.out[r.URL.Path])
	override := s.override
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out[r.URL.Path]--
	}()
	time.Sleep(s.latency)
	if override != nil {
		return override(r)
	}
	return s.answer(r)
}

func (s *server) answer(r *http.Request) (*http.Response, error) {
	return answering(s.ServeHTTP)(r)
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/oauth2/status/") {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprint(w, toJSON(jose.JSONWebKeySet{Keys: s.keys}))
		return
	}
	etag, changed, held := s.etag()
	has := r.Header.Get("If-None-Match")
	if n, err := time.ParseDuration(strings.TrimPrefix(r.Header.Get("Prefer"), "wait=") + "s"); err == nil && held && has == etag {
		w.Header().Set("Preference-Applied", r.Header.Get("Prefer"))
		select {
		case <-changed:
		case <-time.After(n):
		case <-r.Context().Done():
			return
		}
		etag, _, _ = s.etag()
	}
	w.Header().Set("ETag", etag)
	if has == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/statuslist+jwt")
	header := listHeader()
	s.set(func() { header["kid"] = s.signer })
	_, _ = w.Write([]byte(forge(header, s.list(s.issuer+r.URL.Path), byRSA(rsaKey()))))
}

func (s *server) etag() (etag string, changed <-chan struct{}, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	generation := time.Now().UnixNano() / int64(s.life/4)
	if s.sameTag {
		generation = 0
	}
	return fmt.Sprintf(`W/"%d-%d"`, generation, len(s.revoked)), s.changed, !s.ignoresWaits
}

// list is the payload of a list as it is now.
func (s *server) list(uri string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return changed(listPayload(uri, time.Now(), s.ttl, s.revoked...), "exp", time.Now().Add(s.life).Unix())
}

// listPayload is what Cairn signs.
func listPayload(uri string, now time.Time, ttl int, revoked ...int) map[string]any {
	bits := make([]byte, listSize/8)
	for _, i := range revoked {
		bits[i/8] |= 1 << (i % 8)
	}
	return map[string]any{
		"sub": uri, "iat": now.Unix(), "exp": now.Add(12 * time.Hour).Unix(), "ttl": ttl, "status_list": map[string]any{"bits": 1, "lst": b64(packed(bits))},
	}
}

func packed(bits []byte) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(bits)
	_ = z.Close()
	return b.String()
}

func listHeader() map[string]any {
	return map[string]any{"alg": "RS256", "typ": "statuslist+jwt", "kid": kid}
}

func rsList(payload any) string { return forge(listHeader(), payload, byRSA(rsaKey())) }

func hsList(payload any) string {
	return forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, payload, byHMAC(secret))
}

func (s *server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) revoke(index int) {
	s.set(func() {
		s.revoked = append(slices.Clone(s.revoked), index)
		close(s.changed)
		s.changed = make(chan struct{})
	})
}

func (s *server) publish(keys ...jose.JSONWebKey) { s.set(func() { s.keys = keys }) }

// fail has every request answered by f; nil ends that.
func (s *server) fail(f func(*http.Request) (*http.Response, error)) {
	s.set(func() { s.override = f })
}

func refused(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// answering is an answer of another kind than Cairn's.
func answering(h http.HandlerFunc) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		if h(w, r); r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return w.Result(), nil
	}
}

func answeringList(token string) func(*http.Request) (*http.Response, error) {
	return answering(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		_, _ = w.Write([]byte(token))
	})
}

func (s *server) keySet() *session.RemoteKeySet {
	return session.NewRemoteKeySet(s.issuer+"/jwks", session.RemoteOptions{Client: &http.Client{Transport: s}})
}

// options are those of an application that knows the secret and the key.
func (s *server) options() session.RemoteStatusOptions {
	return session.RemoteStatusOptions{Issuer: s.issuer, Secret: secret,
		Keys: session.NewStaticKeySet(publicJWK(rsaKey(), kid)), Client: &http.Client{Transport: s}}
}

func (s *server) lists() *session.RemoteStatusList { return session.NewRemoteStatusList(s.options()) }

// waiting are lists that ask Cairn to hold requests.
func (s *server) waiting() *session.RemoteStatusList {
	o := s.options()
	o.Wait = time.Minute
	return session.NewRemoteStatusList(o)
}

// log returns the requests since the call before.
func (s *server) log() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.requests = nil }()
	return s.requests
}

func (s *server) wantRequests(t *testing.T, least, most int) {
	t.Helper()
	if n := len(s.log()); n < least || n > most {
		t.Errorf("%d requests, want %d to %d", n, least, most)
	}
}

// floor fails if two requests for one list began nearer than d to each other, or two were out at once.
func (s *server) floor(t *testing.T, d time.Duration) {
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

func place(index int) session.StatusRef { return placeIn(1, index) }

func placeIn(list, index int) session.StatusRef {
	return session.StatusRef{Index: index, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, list)}
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

// unavailable asks for a status that cannot be known.
func unavailable(t *testing.T, lists *session.RemoteStatusList) {
	t.Helper()
	if got, err := lists.Revoked(t.Context(), place(1)); got || !errors.Is(err, session.ErrStatusUnavailable) ||
		errors.Is(err, session.ErrInvalid) {
		t.Errorf("%t, %v", got, err)
	}
}

// use keeps asking for a session that is not revoked.
func use(t *testing.T, lists *session.RemoteStatusList, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		passes(t, lists, 99)
	}
}

// inBubble runs a test under a clock of its own. Minutes after the last use nothing may be left of
// what the lists have begun: a goroutine that stays fails the test.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(6 * time.Minute)
			f(t)
		})
	})
}
