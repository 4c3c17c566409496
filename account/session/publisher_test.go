package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// publisher is an issuer's key set endpoint whose answer can be changed, with a clock for
// the key set that reads it.
type publisher struct {
	*httptest.Server
	fetches atomic.Int64

	mu      sync.Mutex
	handler http.HandlerFunc
	time    time.Time
}

func newPublisher(t *testing.T, keys ...jose.JSONWebKey) *publisher {
	p := &publisher{time: clock}
	p.publish(keys...)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		p.mu.Lock()
		h := p.handler
		p.mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) answer(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler = h
}

func (p *publisher) answerText(body string) {
	p.answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
}

func (p *publisher) publish(keys ...jose.JSONWebKey) {
	p.answerText(toJSON(jose.JSONWebKeySet{Keys: keys}))
}

func (p *publisher) fail() {
	p.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
}

func (p *publisher) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.time
}

func (p *publisher) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.time = p.time.Add(d)
}

func (p *publisher) keySet() *session.RemoteKeySet {
	return session.NewRemoteKeySet(p.URL, session.RemoteOptions{Client: p.Client(), Now: p.now})
}

// settle waits for a fetch in the background, if one is in flight: an unknown kid joins it.
func settle(t *testing.T, set *session.RemoteKeySet) {
	t.Helper()
	if _, err := set.Key(t.Context(), "settle"); err == nil {
		t.Fatal("a key that nobody has was found")
	}
}

func (p *publisher) wantFetches(t *testing.T, want int64) {
	t.Helper()
	if got := p.fetches.Load(); got != want {
		t.Errorf("%d fetches, want %d", got, want)
	}
}

func wantKey(t *testing.T, set session.KeySet, id string, want error) {
	t.Helper()
	k, err := set.Key(t.Context(), id)
	if want == nil && (err != nil || k == nil || k.KeyID != id) {
		t.Errorf("key %q: %v, %v", id, k, err)
	}
	if want != nil && (!errors.Is(err, want) || k != nil) {
		t.Errorf("key %q: %v, %v; want %v", id, k, err, want)
	}
}
