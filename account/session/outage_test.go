package session_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A visit a minute while the issuer hangs: one finds it out, and the others are served by
// the copy.
func TestHangingIssuerNeverKeepsEveryVisitorWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		keys := session.NewRemoteKeySet(issuer+"/jwks", session.RemoteOptions{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if hangs.Load() {
				return hanging(r)
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
				Body: readCloser{strings.NewReader(toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}}))}}, nil
		})}})
		wantKey(t, keys, kid, nil)
		hangs.Store(true)
		waited := 0
		for range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			begin := time.Now()
			if _, err := keys.Key(ctx, kid); err != nil {
				t.Error(err)
			}
			if time.Since(begin) > 0 {
				waited++
			}
			cancel()
			time.Sleep(time.Minute)
		}
		if waited > 1 {
			t.Errorf("%d of 60 visitors waited", waited)
		}
	})
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// The copy and the request that is held lie in the future then.
func TestClockThatIsSetBackNeverKeepsVisitorsWaiting(t *testing.T) {
	for _, back := range []time.Duration{5 * time.Second, 20 * time.Second, time.Hour} {
		t.Run(fmt.Sprint(back), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				s.latency = 20 * time.Millisecond
				var set atomic.Int64
				o := s.options()
				o.Wait, o.Leeway = 25*time.Second, 2*time.Hour
				o.Now = func() time.Time { return time.Now().Add(-time.Duration(set.Load())) }
				lists := session.NewRemoteStatusList(o)
				_, _, _ = timed(t.Context(), lists, place(1))
				use(t, lists, 20*time.Second)
				set.Store(int64(back))
				waited := 0
				for range 100 {
					_, took, err := timed(t.Context(), lists, place(1))
					if err != nil {
						t.Fatal(err)
					}
					if took > 0 {
						waited++
					}
					time.Sleep(100 * time.Millisecond)
				}
				if waited > 1 {
					t.Errorf("%d of 100 visitors waited", waited)
				}
			})
		})
	}
}

// Keys that are to come keep nobody out who has a cookie of the secret.
func TestEmptyKeySetNeverKeepsTheSecretFromCounting(t *testing.T) {
	v := &session.Verifier{Issuer: issuer, Secret: secret, Keys: session.NewStaticKeySet(), Now: func() time.Time { return clock }}
	if _, err := v.Verify(t.Context(), hsToken(good())); err != nil {
		t.Error(err)
	}
}
