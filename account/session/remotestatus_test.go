package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cairn-id/cairn/account/session"
)

func TestListIsFetchedOnceAndWhenItIsNeeded(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer(7)
		lists := s.lists()
		s.latency = time.Second
		time.Sleep(time.Hour)
		s.wantRequests(t, 0, 0)
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				if got, err := lists.Revoked(t.Context(), place(i)); got != (i == 7) || err != nil {
					t.Errorf("%d: %t, %v", i, got, err)
				}
			})
		}
		all.Wait()
		if got := s.log(); len(got) != 1 || got[0].etag != "" || got[0].prefer != "" || got[0].cache != "no-cache" {
			t.Errorf("requests %+v", got)
		}
		time.Sleep(12 * time.Hour)
		if _, _, err := timed(t.Context(), lists, place(5)); err != nil {
			t.Error(err)
		}
		// That nothing has changed does not make a copy live longer than its exp.
		if got := s.log(); len(got) < 2 || got[len(got)-1].etag != "" {
			t.Errorf("asked with %+v", got)
		}
	})
}

// At any age of a copy at which a session is revoked: ttl later it is refused.
func TestRevocationIsKnownWithinTheTTL(t *testing.T) {
	for _, ttl := range []int{1, 60} {
		for _, every := range []time.Duration{time.Second, 7 * time.Second, 59 * time.Second, time.Hour} {
			inBubble(t, fmt.Sprintf("ttl %d s, used every %v", ttl, every), func(t *testing.T) {
				s := newServer()
				s.ttl = ttl
				lists := s.lists()
				for index := range 10 {
					passes(t, lists, index)
					time.Sleep(time.Duration(index) * 6200 * time.Millisecond)
					s.revoke(index)
					for end := time.Now().Add(time.Duration(ttl) * time.Second); ; time.Sleep(every) {
						if !passes(t, lists, index) {
							break
						}
						if !time.Now().Before(end) {
							t.Fatalf("not known %v after ttl", time.Since(end))
						}
					}
					if !passes(t, lists, index+1) {
						t.Fatal("another session is revoked too")
					}
				}
				s.floor(t, time.Second)
			})
		}
	}
}

// Only the first one waits for an answer, and the first one after five minutes: the copy is renewed before it is
// too old, and before it expires.
func TestOnlyTheFirstRequestWaits(t *testing.T) {
	for life, rounds := range map[time.Duration]int{12 * time.Hour: 30, 130 * time.Second: 10} {
		for _, wait := range []time.Duration{0, 25 * time.Second} {
			for every, want := range map[time.Duration]int{time.Second: 1, 20 * time.Second: 1,
				5*time.Minute - time.Second: 1, 7 * time.Minute: rounds} {
				inBubble(t, fmt.Sprintf("lists live %v, held %v, used every %v", life, wait, every), func(t *testing.T) {
					s := newServer(7)
					s.latency, s.life, s.sameTag = time.Second, life, true
					o := s.options()
					o.Wait = wait
					lists, waited := session.NewRemoteStatusList(o), 0
					for range rounds {
						got, took, err := timed(t.Context(), lists, place(5))
						if got || err != nil {
							t.Fatalf("%t, %v", got, err)
						}
						if took > 0 {
							waited++
						}
						time.Sleep(every - took)
					}
					same(t, fmt.Sprintf("%d waited", rounds), waited, want)
				})
			}
		}
	}
}

func down() map[string]func(*http.Request) (*http.Response, error) {
	return map[string]func(*http.Request) (*http.Response, error){"refused": refused, "hanging": hanging}
}

// While Cairn is away the last good copy serves until its exp, without making any request wait;
// then the policy decides, and a session known to be revoked stays so.
func TestOutageChangesNoMoreThanThePolicySays(t *testing.T) {
	for name, down := range down() {
		for _, open := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, fail open %t", name, open), func(t *testing.T) {
				s := newServer(7)
				o := s.options()
				o.FailOpen = open
				lists := session.NewRemoteStatusList(o)
				passes(t, lists, 5)
				expires := time.Now().Add(12 * time.Hour)
				s.fail(down)
				time.Sleep(time.Minute)
				for ; time.Now().Before(expires); time.Sleep(4 * time.Minute) {
					if !passes(t, lists, 5) || passes(t, lists, 7) {
						t.Fatal("the copy does not serve")
					}
				}
				for range 60 {
					got, took, err := timed(t.Context(), lists, place(5))
					if got || took > 0 || open != (err == nil) || !open &&
						(!errors.Is(err, session.ErrStatusUnavailable) || errors.Is(err, session.ErrInvalid)) ||
						passes(t, lists, 7) {
						t.Fatalf("after exp: %t after %v, %v", got, took, err)
					}
					time.Sleep(time.Second)
				}
				s.fail(nil)
				time.Sleep(16 * time.Second) // the request that is out, and a pause
				if !passes(t, lists, 5) || passes(t, lists, 7) {
					t.Error("Cairn is back, and the list was not fetched")
				}
				// A failure says nothing about a later time, after a while without requests.
				s.fail(down)
				time.Sleep(time.Minute)
				passes(t, lists, 5)
				time.Sleep(6 * time.Minute)
				s.fail(nil)
				s.revoke(5)
				if passes(t, lists, 5) {
					t.Error("an old copy serves")
				}
			})
		}
	}
}

// An application that starts while Cairn is away has no copy. It gets one without a request.
func TestFirstFetchThatFailsIsNotTheLast(t *testing.T) {
	for name, down := range down() {
		for _, open := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s, fail open %t", name, open), func(t *testing.T) {
				s := newServer(5)
				s.fail(down)
				o := s.options()
				o.FailOpen = open
				lists := session.NewRemoteStatusList(o)
				for i := range 600 { // only the first one waits
					got, took, err := timed(t.Context(), lists, place(5))
					if got || open != (err == nil) || !open && (!errors.Is(err, session.ErrStatusUnavailable) || strings.Contains(err.Error(), "%!")) ||
						i > 0 && took > 0 || took > 5*time.Second {
						t.Fatalf("%d: %t after %v, %v", i, got, took, err)
					}
					time.Sleep(100 * time.Millisecond)
				}
				s.floor(t, time.Second)
				s.wantRequests(t, 5, 10) // after 1, 2, 4 and 8 seconds, then every 10
				time.Sleep(4 * time.Minute)
				s.fail(nil)
				time.Sleep(15 * time.Second)
				s.log()
				if passes(t, lists, 5) || !passes(t, lists, 6) {
					t.Error("wrong status")
				}
				s.wantRequests(t, 0, 0)
				s.fail(refused)
				time.Sleep(24 * time.Hour)
				s.wantRequests(t, 0, 40) // for an unused list
			})
		}
	}
}

// Hanging up early is no way past a list that is waited for, not even where lists fail open.
func TestEndedRequestIsNotAccepted(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer(5)
		s.latency = time.Second
		o := s.options()
		o.FailOpen = true
		lists := session.NewRemoteStatusList(o)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		got, took, err := timed(ctx, lists, place(5))
		if got || took > 100*time.Millisecond || !errors.Is(err, session.ErrStatusUnavailable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%t after %v, %v", got, took, err)
		}
		// It leaves the request to the others.
		if got, took, err := timed(t.Context(), lists, place(5)); !got || took != 900*time.Millisecond || err != nil {
			t.Errorf("%t after %v, %v", got, took, err)
		}
		s.wantRequests(t, 1, 1)
		// A request that cannot wait does not get the answer of an old copy either.
		time.Sleep(10 * time.Minute)
		if got, _, err := timed(ctx, lists, place(6)); got || !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%t, %v", got, err)
		}
	})
}

// With Wait a revoked session is refused as soon as Cairn answers.
func TestWaitingApplicationLearnsAtOnce(t *testing.T) {
	for _, ttl := range []int{4, 60, 3600} {
		inBubble(t, fmt.Sprintf("ttl %d s", ttl), func(t *testing.T) {
			s := newServer()
			s.ttl = ttl
			o := s.options()
			o.Client.Timeout, o.Wait = time.Second, time.Minute // which would cut held requests off
			lists := session.NewRemoteStatusList(o)
			passes(t, lists, 99)
			for index := range 10 {
				use(t, lists, time.Duration(10*index)*time.Second)
				time.Sleep(1100 * time.Millisecond) // two changes within a second are below
				if !passes(t, lists, index) {
					t.Fatal("revoked from the start")
				}
				s.revoke(index)
				if time.Sleep(time.Second); passes(t, lists, index) || !passes(t, lists, index+1) {
					t.Fatalf("revocation %d is not known after a second", index)
				}
			}
			for index := range 300 {
				time.Sleep(time.Second / 10)
				s.revoke(1000 + index)
				passes(t, lists, 99)
			}
			s.floor(t, time.Second)
			time.Sleep(time.Second)
			synctest.Wait()
			for index := range 300 {
				if passes(t, lists, 1000+index) {
					t.Fatalf("revocation %d is not known after a second", index)
				}
			}
			time.Sleep(5*time.Minute + 25*time.Second)
			s.log()
			time.Sleep(24 * time.Hour)
			s.wantRequests(t, 0, 0) // for an unused list
			s.revoke(5000)
			if passes(t, lists, 5000) {
				t.Error("not known after a day")
			}
			time.Sleep(2 * time.Second)
			s.revoke(5001)
			if time.Sleep(time.Second); passes(t, lists, 5001) {
				t.Error("not followed again")
			}
		})
	}
}

// The time for which Cairn is asked to wait leaves time to ask again before the copy is too old.
func TestHeldRequestsEndBeforeTheTTL(t *testing.T) {
	for _, c := range []struct {
		ttl  int
		wait time.Duration
		want string // the longest
	}{
		{2, time.Hour, ""}, {4, time.Hour, "wait=2"}, {15, time.Hour, "wait=10"}, {60, time.Hour, "wait=25"}, {3600, time.Hour, "wait=25"},
		{60, 0, ""}, {60, 999 * time.Millisecond, ""}, {60, 1999 * time.Millisecond, "wait=1"}, {60, 10 * time.Second, "wait=10"},
	} {
		inBubble(t, fmt.Sprintf("ttl %d s, Wait %v", c.ttl, c.wait), func(t *testing.T) {
			s := newServer()
			s.ttl = c.ttl
			o := s.options()
			o.Wait = c.wait
			use(t, session.NewRemoteStatusList(o), 2*time.Minute)
			s.floor(t, time.Second)
			longest := ""
			for _, r := range s.log() {
				if len(r.prefer) > len(longest) || len(r.prefer) == len(longest) && r.prefer > longest {
					longest = r.prefer
				}
			}
			same(t, "asked", longest, c.want)
		})
	}
}

// A server that does not hold requests is asked little more often than without Wait, and
// revocations are known within ttl.
func TestServerThatDoesNotHoldIsNotAskedInALoop(t *testing.T) {
	for name, change := range map[string]func(r *http.Request, h http.Header){
		"304 at once": nil,
		"without ETag": func(r *http.Request, h http.Header) {
			r.Header.Del("If-None-Match")
			h.Del("ETag")
		},
		"without 304": func(r *http.Request, h http.Header) {
			r.Header.Del("If-None-Match")
			h.Set("ETag", fmt.Sprintf(`"%d"`, time.Now().UnixNano()))
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newServer()
			s.latency, s.ignoresWaits = 10*time.Millisecond, true
			lists := s.waiting()
			_, _, _ = timed(t.Context(), lists, place(99))
			if change != nil {
				s.fail(func(r *http.Request) (*http.Response, error) {
					if has := r.Header["If-None-Match"]; len(has) > 0 && has[0] == "" {
						t.Error("asked for a list other than one without an ETag")
					}
					r = r.Clone(r.Context())
					change(r, http.Header{})
					resp, err := s.answer(r)
					change(r, resp.Header)
					return resp, err
				})
			}
			use(t, lists, 20*time.Minute)
			s.floor(t, time.Second)
			s.wantRequests(t, 20, 60)
			s.fail(nil)
			s.revoke(5)
			use(t, lists, time.Minute)
			if passes(t, lists, 5) {
				t.Error("not known after ttl")
			}
			s.set(func() { s.ignoresWaits = false }) // once it does hold them, it is noticed
			use(t, lists, 3*time.Minute)
			s.revoke(6)
			if time.Sleep(time.Second); passes(t, lists, 6) {
				t.Error("not known after a second")
			}
		})
	}
}

// Where held requests get lost on the way (a proxy that ends them, or swallows them), it is
// as without Wait.
func TestLostRequestsDoNotMakeARevocationLate(t *testing.T) {
	after := func(d time.Duration, status int) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(d):
				return &http.Response{StatusCode: status, Body: http.NoBody}, nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
	}
	for name, lose := range map[string]func(*http.Request) (*http.Response, error){
		"swallowed": hanging, "cut off": after(5*time.Second, http.StatusGatewayTimeout), "bad gateway": after(time.Second, http.StatusBadGateway),
	} {
		for _, ttl := range []int{4, 60} {
			inBubble(t, fmt.Sprintf("%s, ttl %d s", name, ttl), func(t *testing.T) {
				s := newServer()
				s.ttl, s.latency = ttl, 10*time.Millisecond
				s.fail(func(r *http.Request) (*http.Response, error) {
					if r.Header.Get("Prefer") != "" {
						return lose(r)
					}
					return s.answer(r)
				})
				lists := s.waiting()
				_, _, _ = timed(t.Context(), lists, place(99))
				for index := range 10 {
					use(t, lists, time.Duration(6*index)*time.Second)
					s.revoke(index)
					use(t, lists, time.Duration(ttl)*time.Second)
					if passes(t, lists, index) {
						t.Fatalf("revocation %d is not known after ttl", index)
					}
				}
				s.floor(t, time.Second)
				log := s.log()
				for i, r := range log[:len(log)-1] {
					if r.prefer != "" && log[i+1].prefer != "" {
						t.Fatal("a lost request was followed by another one to hold")
					}
				}
			})
		}
	}
}

// At most 64 lists are kept, and none that has made room is asked for.
func TestListsDoNotGrowWithoutBound(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer()
		lists := s.waiting()
		for n := 1; n <= 80; n++ {
			if got, took, err := timed(t.Context(), lists, placeIn(n, 1)); got || took > 0 || err != nil {
				t.Fatalf("list %d: %t after %v, %v", n, got, took, err)
			}
			time.Sleep(time.Second)
		}
		s.log()
		for n := 17; n <= 80; n++ { // these are kept
			_, _, _ = timed(t.Context(), lists, placeIn(n, 1))
		}
		synctest.Wait()
		for _, r := range s.log() {
			if r.etag == "" {
				t.Errorf("%s is fetched again", r.path)
			}
		}
		s.set(func() {
			held := 0
			for _, n := range s.out {
				held += n
			}
			if held < 60 || held > 64 {
				t.Errorf("%d requests are held", held)
			}
		})
	})
}

func TestClosedListIsNotAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		wait  time.Duration
		begin func(*http.Request) (*http.Response, error)
	}{"idle": {0, nil}, "held": {25 * time.Second, nil}, "failing": {0, refused}, "hanging": {25 * time.Second, hanging}} {
		inBubble(t, name, func(t *testing.T) {
			s := newServer()
			o := s.options()
			o.Wait = c.wait
			lists := session.NewRemoteStatusList(o)
			passes(t, lists, 1)
			s.fail(c.begin)
			use(t, lists, 50*time.Second) // into a renewal
			waiting, answer := session.NewRemoteStatusList(o), make(chan error)
			if c.begin != nil {
				go func() { // who asks while it is closed is answered
					_, err := waiting.Revoked(t.Context(), place(1))
					answer <- err
				}()
				synctest.Wait()
			}
			began := time.Now()
			if err := errors.Join(lists.Close(), lists.Close(), waiting.Close()); err != nil || time.Since(began) > 0 {
				t.Errorf("closing took %v: %v", time.Since(began), err)
			}
			if c.begin != nil {
				fails(t, "answer", <-answer, session.ErrStatusUnavailable)
			}
			s.fail(nil)
			s.log()
			use(t, lists, 10*time.Minute) // the copy serves on
			unavailable(t, waiting)
			time.Sleep(s.life)
			unavailable(t, lists)
			if _, took, err := timed(t.Context(), lists, placeIn(2, 1)); took > 0 || !strings.Contains(err.Error(), "were closed") {
				t.Errorf("another list: after %v, %v", took, err)
			}
			s.wantRequests(t, 0, 0)
		})
	}
}

// suspendable is the clock of a machine that can be suspended (a laptop, a container that is stopped): the
// time of day goes on then, and the monotonic reading that time.Now adds to it stands still.
type suspendable struct {
	awake  time.Time
	asleep atomic.Int64
}

func (c *suspendable) now() time.Time {
	now := time.Now()
	wall, reading := now.Add(time.Duration(c.asleep.Load())).Round(0), now.Sub(c.awake)
	// Package time has no function for this. Its layout is a bit for the presence of a reading, 33 bits of seconds
	// since 1885 and 30 bits of nanoseconds, then the reading.
	fields := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&wall))
	base := time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	fields.wall = 1<<63 | uint64(wall.Unix()-base)<<30 | uint64(wall.Nanosecond())
	fields.ext = int64(reading)
	return wall
}

// An application that was asleep itself has old copies, and perhaps a request that will not be answered.
// A clock that was set back has copies of the future.
func TestClockThatJumpsIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		wait time.Duration
		by   time.Duration
	}{"asleep": {0, time.Hour}, "asleep, held": {25 * time.Second, time.Hour}, "back": {0, -20 * time.Second}, "back, held": {25 * time.Second, -20 * time.Second}, "far back": {0, -time.Hour}} {
		inBubble(t, name, func(t *testing.T) {
			s, clock := newServer(), &suspendable{awake: time.Now()}
			if a, b := clock.now(), (&suspendable{awake: clock.awake}).now(); b.Sub(a) != 0 ||
				!a.Round(0).Equal(time.Now().Round(0)) {
				t.Fatal("package time has another layout, and this clock must follow")
			}
			s.latency = time.Second
			o := s.options()
			o.Wait, o.Now, o.Leeway = c.wait, clock.now, 2*time.Hour
			lists := session.NewRemoteStatusList(o)
			keys := session.NewRemoteKeySet(issuer+"/jwks", session.RemoteOptions{Client: o.Client, Now: clock.now})
			wantKey(t, keys, kid, nil)
			_, _, _ = timed(t.Context(), lists, place(99))
			use(t, lists, 10*time.Second)
			clock.asleep.Add(int64(c.by))
			s.revoke(5)
			s.publish(publicJWK(rsaKey(), "key-2"))
			if got, took, err := timed(t.Context(), lists, place(5)); !got || took > 2*time.Second || err != nil {
				t.Errorf("%t after %v, %v", got, took, err)
			}
			use(t, lists, 30*time.Second) // no other request waits
			wantKey(t, keys, "key-2", nil)
			wantKey(t, keys, kid, session.ErrUnknownKey)
			v := &session.Verifier{Issuer: issuer, Secret: secret, Now: clock.now, Keys: keys}
			token := hsToken(payload(issuer, clock.now(), 1))
			v.SecretUntil = clock.now().Add(time.Minute)
			mustVerify(t, v, token)
			if clock.asleep.Add(int64(time.Minute)); c.by > 0 {
				mustRefuse(t, v, token)
			}
		})
	}
}
