package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

func TestKnownFreshKeyNeedsNoNetwork(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	p.wantFetches(t, 0)
	for range 100 {
		wantKey(t, set, kid, nil)
	}
	p.pass(10*time.Minute - 1)
	wantKey(t, set, kid, nil)
	p.wantFetches(t, 1)
	p.Close()
	v := verifier()
	v.Keys = set
	if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
		t.Error(err)
	}
}

func TestFirstUseByManyIsOneFetch(t *testing.T) {
	p := newPublisher(t)
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		fmt.Fprint(w, toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}}))
	})
	set := p.keySet()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { wantKey(t, set, kid, nil) })
	}
	<-arrived
	// One who gives up leaves the fetch to the others.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := set.Key(ctx, kid); !errors.Is(err, session.ErrKeysUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	close(release)
	wg.Wait()
	p.wantFetches(t, 1)
}

func TestUnknownKeysNeverCauseAFlood(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	flood := func(want error) {
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := g; i < 1000; i += 16 {
					wantKey(t, set, fmt.Sprintf("unknown-%d", i), want)
				}
			})
		}
		wg.Wait()
	}
	flood(session.ErrUnknownKey) // within the interval of the first fetch
	p.wantFetches(t, 1)
	p.pass(10 * time.Second)
	flood(session.ErrUnknownKey)
	p.wantFetches(t, 2)

	p.fail()
	p.pass(10 * time.Second)
	flood(session.ErrKeysUnavailable) // failures have the same floor
	p.wantFetches(t, 3)
	wantKey(t, set, kid, nil)
}

func TestFailuresNeverCauseAFlood(t *testing.T) {
	p := newPublisher(t)
	p.fail()
	set := p.keySet()
	for range 100 {
		wantKey(t, set, kid, session.ErrKeysUnavailable)
	}
	p.wantFetches(t, 1)
	p.publish(publicJWK(rsaKey(), kid))
	p.pass(10*time.Second - 1)
	wantKey(t, set, kid, session.ErrKeysUnavailable)
	p.pass(1)
	wantKey(t, set, kid, nil)
	p.wantFetches(t, 2)
}

func TestNewKeyIsFoundAndOldOneForgotten(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	p.publish(publicJWK(rsaKey(), "key-2"))
	p.pass(10 * time.Second)
	wantKey(t, set, "key-2", nil)
	wantKey(t, set, kid, session.ErrUnknownKey)
	p.wantFetches(t, 2)
}

func TestOldCopyServesWhileItIsRenewed(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	arrived, release := make(chan struct{}), make(chan struct{})
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		fmt.Fprint(w, toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), "key-2")}}))
	})
	p.pass(10 * time.Minute)
	for range 100 {
		wantKey(t, set, kid, nil)
	}
	<-arrived
	wantKey(t, set, kid, nil)
	p.wantFetches(t, 2)
	close(release)
	wantKey(t, set, "key-2", nil)
	wantKey(t, set, kid, session.ErrUnknownKey)
	p.wantFetches(t, 2)
}

func TestLastGoodCopySurvivesEveryBadAnswer(t *testing.T) {
	goodSet := toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}})
	weak := newRSA(1024)
	private := toJSON(jose.JSONWebKey{Key: rsaKey(), KeyID: "private", Use: "sig", Algorithm: "RS256"})
	for name, body := range map[string]string{
		"oversized": goodSet + strings.Repeat(" ", 256<<10), "blank": "", "HTML": "<!doctype html><h1>Sign in</h1>", "no keys": `{"keys":[]}`, "no member": `{}`, "array": `[]`, "null": `null`, "cut": goodSet[:len(goodSet)-2],
		"two documents": goodSet + goodSet, "only weak": `{"keys":[` + toJSON(publicJWK(weak, "weak")) + `]}`, "only symmetric": `{"keys":[{"kty":"oct","kid":"oct","use":"sig","k":"` + b64(string(secret)) + `"}]}`,
		"only private": `{"keys":[` + private + `]}`, "only encryption": strings.ReplaceAll(goodSet, `"sig"`, `"enc"`), "without use": strings.ReplaceAll(goodSet, `"use":"sig",`, ``),
		"for PS256": strings.ReplaceAll(goodSet, `"RS256"`, `"PS256"`), "without kid": strings.ReplaceAll(goodSet, `"key-1"`, `""`), "odd kid": strings.ReplaceAll(goodSet, `"key-1"`, `"../x"`),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t)
			p.answerText(body)
			set := p.keySet()
			for _, id := range []string{kid, "weak", "oct", "private", "../x"} {
				wantKey(t, set, id, session.ErrKeysUnavailable)
			}
			p.answerText(goodSet)
			p.pass(10 * time.Second)
			wantKey(t, set, kid, nil)
			p.answerText(body)
			p.pass(24 * time.Hour)
			wantKey(t, set, kid, nil)
			settle(t, set)
			wantKey(t, set, kid, nil)
			p.wantFetches(t, 3)
		})
	}
}

func TestServerDownKeepsLastGood(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	v := verifier()
	set := p.keySet()
	v.Keys = set
	if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
		t.Fatal(err)
	}
	p.Close()
	for range 3 {
		p.pass(time.Hour)
		if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
			t.Error(err)
		}
		settle(t, set)
	}
	// A kid that may be new is not called invalid while nobody can be asked.
	_, err := v.Verify(t.Context(), forge(map[string]any{"alg": "RS256", "kid": "key-2"}, good(), byRSA(rsaKey())))
	if !errors.Is(err, session.ErrKeysUnavailable) || errors.Is(err, session.ErrInvalid) {
		t.Error(err)
	}
}

func TestOneBadKeyDoesNotSpoilTheOthers(t *testing.T) {
	p := newPublisher(t)
	other := newRSA(2048)
	p.answerText(`{"x":1,"keys":[null,1,{},{"kty":"ZZ","kid":"zz"},{"kty":"RSA","kid":"short","use":"sig","n":"AQAB","e":"AQAB"},` +
		toJSON(publicJWK(rsaKey(), kid)) + `,` + toJSON(publicJWK(other, kid)) + `,` + toJSON(publicJWK(other, "key-2")) + `]}`)
	set := p.keySet()
	v := verifier()
	v.Keys = set
	if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"key-2"} {
		wantKey(t, set, id, nil)
	}
	for _, id := range []string{"zz", "short", ""} {
		wantKey(t, set, id, session.ErrUnknownKey)
	}
}

func TestSlowAnswerIsGivenUp(t *testing.T) {
	p := newPublisher(t)
	p.answer(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the client goes away
	})
	set := session.NewRemoteKeySet(p.URL, session.RemoteOptions{Timeout: 50 * time.Millisecond, Now: p.now})
	if _, err := set.Key(t.Context(), kid); !errors.Is(err, session.ErrKeysUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestRedirectsNeverLeaveTheHost(t *testing.T) {
	elsewhere := newPublisher(t, publicJWK(newRSA(2048), kid))
	p := newPublisher(t)
	own := toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}})
	p.answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	set := p.keySet()
	wantKey(t, set, kid, session.ErrKeysUnavailable)
	elsewhere.wantFetches(t, 0)

	p.answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) })
	p.pass(10 * time.Second)
	wantKey(t, set, kid, session.ErrKeysUnavailable)
	if n := p.fetches.Load(); n > 6 {
		t.Errorf("%d requests in a loop of redirects", n)
	}

	p.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/keys", http.StatusMovedPermanently)
			return
		}
		fmt.Fprint(w, own)
	})
	p.pass(10 * time.Second)
	wantKey(t, set, kid, nil)
}

// transport answers requests without a network.
type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func TestRedirectsNeverLeaveHTTPS(t *testing.T) {
	client := &http.Client{Transport: transport(func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		if r.URL.Scheme == "https" {
			http.Redirect(w, r, "http://id.example.org/jwks.json", http.StatusFound)
		} else {
			t.Error("asked over plain http")
			fmt.Fprint(w, toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}}))
		}
		return w.Result()
	})}
	set := session.NewRemoteKeySet(issuer+"/jwks.json", session.RemoteOptions{Client: client})
	wantKey(t, set, kid, session.ErrKeysUnavailable)
}

func TestClientsOwnRedirectRuleStillCounts(t *testing.T) {
	p := newPublisher(t)
	p.answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	wantKey(t, session.NewRemoteKeySet(p.URL, session.RemoteOptions{Client: client, Now: p.now}), kid, session.ErrKeysUnavailable)
	p.wantFetches(t, 1)
	if client.Jar != nil || client.Timeout != 0 {
		t.Error("the given client was changed")
	}
}

func TestWrongAddressIsAnErrorWithoutItsPassword(t *testing.T) {
	for _, url := range []string{"", "::", "id.example.org", "file:///etc/passwd", "http://u:hunter2@[::1/jwks", "http://u:hunter2@127.0.0.1:1/jwks"} {
		_, err := session.NewRemoteKeySet(url, session.RemoteOptions{}).Key(t.Context(), kid)
		if !errors.Is(err, session.ErrKeysUnavailable) {
			t.Errorf("%q: %v", url, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
}

func TestClockSetBackDoesNotStopFetching(t *testing.T) {
	p := newPublisher(t, publicJWK(rsaKey(), kid))
	set := p.keySet()
	wantKey(t, set, kid, nil)
	p.pass(-365 * 24 * time.Hour)
	wantKey(t, set, "key-2", session.ErrUnknownKey)
	p.wantFetches(t, 2)
}
