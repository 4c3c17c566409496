package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// Who finds a key that leaked leaves it out of the key set. An application that nobody has used for a while
// has it in its copy still.
func TestWithdrawnKeyIsNeverBelievedAfterAQuietTime(t *testing.T) {
	for _, quiet := range []time.Duration{20 * time.Minute, 365 * 24 * time.Hour} {
		p := newPublisher(t, publicJWK(rsaKey(), kid))
		v := verifier()
		v.Keys = p.keySet()
		if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
			t.Fatal(err)
		}
		p.publish(publicJWK(newRSA(2048), "key-2"))
		p.pass(quiet)
		if err := mustRefuse(t, v, rsToken(good())); !errors.Is(err, session.ErrUnknownKey) {
			t.Errorf("after %v: %v", quiet, err)
		}
		p.wantFetches(t, 2)
	}
}

// Under steady use, at least once in MaxAge, nobody waits and a withdrawn key is gone at twice MaxAge.
func TestWithdrawnKeyIsNeverBelievedForLongerThanTwiceMaxAge(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	p.publish(publicJWK(rsaKey(), "key-2"))
	p.pass(20*time.Minute - 1)
	wantKey(t, set, kid, nil) // and has it renewed in the background
	p.pass(1)
	wantKey(t, set, kid, session.ErrUnknownKey)
	p.wantFetches(t, 2)
}

// An issuer that does not answer signs nobody out, and makes one visitor wait and not each.
func TestQuietTimeNeverMakesAnOldCopyUseless(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	p.fail()
	p.pass(24 * time.Hour)
	wantKey(t, set, kid, nil)
	p.wantFetches(t, 2)
	wantKey(t, set, kid, nil) // one has failed a moment ago
	release := make(chan struct{})
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(http.StatusBadGateway)
	})
	p.pass(10 * time.Second)
	wantKey(t, set, kid, nil) // and the next one has begun
	close(release)
	settle(t, set)
	wantKey(t, set, kid, nil)
	p.wantFetches(t, 3)
}

// Hanging up early is no way past the wait.
func TestEndedRequestNeverGetsAnOldKey(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	release := make(chan struct{})
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		fmt.Fprint(w, toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), "key-2")}}))
	})
	p.pass(24 * time.Hour)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if k, err := set.Key(gone, kid); !errors.Is(err, session.ErrKeysUnavailable) || !errors.Is(err, context.Canceled) || k != nil {
		t.Errorf("%v, %v", k, err)
	}
	close(release)
	wantKey(t, set, kid, session.ErrUnknownKey) // it leaves the fetch to the others
	p.wantFetches(t, 2)
}

// A failure of long ago says nothing about now.
func TestOldFailureNeverKeepsAWithdrawnKey(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	p.fail()
	p.pass(time.Hour)
	wantKey(t, set, kid, nil)
	p.publish(publicJWK(rsaKey(), "key-2"))
	p.pass(24 * time.Hour)
	wantKey(t, set, kid, session.ErrUnknownKey)
}
