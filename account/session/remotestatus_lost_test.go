package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server that does not hold requests is asked little more often than without Wait, and
// revocations are known within ttl.
func TestServerThatDoesNotHoldIsNeverAskedInALoop(t *testing.T) {
	noETag := func(s *statusServer) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Del("If-None-Match")
			resp, err := s.answer(r)
			resp.Header.Del("ETag")
			return resp, err
		}
	}
	ignored := func(s *statusServer) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) { // a list at once, each signed anew
			r = r.Clone(r.Context())
			r.Header.Del("If-None-Match")
			resp, err := s.answer(r)
			resp.Header.Set("ETag", fmt.Sprintf(`"%d"`, time.Now().UnixNano()))
			return resp, err
		}
	}
	lying := func(*statusServer) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Preference-Applied", "respond-async, wait=25")
			w.WriteHeader(http.StatusNotModified)
			return w.Result(), nil
		}
	}
	for name, answer := range map[string]func(*statusServer) func(*http.Request) (*http.Response, error){
		"304 at once": nil, "without ETag": noETag, "without 304": ignored, "says so and does not": lying,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				s.latency = 10 * time.Millisecond
				s.holds(false)
				lists := s.waiting()
				_, _, _ = timed(t.Context(), lists, place(99))
				if answer != nil {
					s.fail(answer(s))
				}
				use(t, lists, 20*time.Minute)
				s.floor(t, time.Second)
				if n := len(s.log()); n < 20 || n > 60 {
					t.Errorf("%d requests in 20 minutes", n)
				}
				s.fail(nil)
				s.revoke(5)
				use(t, lists, time.Minute)
				if passes(t, lists, 5) {
					t.Error("not known after ttl")
				}
				// Once it does hold them, it is noticed.
				s.holds(true)
				use(t, lists, 3*time.Minute)
				s.revoke(6)
				synctest.Wait()
				if passes(t, lists, 6) {
					t.Error("not known at once")
				}
			})
		})
	}
}

// A server may hold a request for a shorter or longer time than it was asked for, and say so.
func TestServerWithItsOwnTimeIsNeverTakenForOneThatDoesNotHold(t *testing.T) {
	for _, says := range []string{"wait=5", "wait=3600", `foo=1, WAIT = "20"`} {
		t.Run(says, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				lists := s.waiting()
				s.fail(func(r *http.Request) (*http.Response, error) {
					if r.Header.Get("Prefer") != "" && says == "wait=5" {
						r = r.Clone(r.Context())
						r.Header.Set("Prefer", "wait=5")
					}
					resp, err := s.answer(r)
					if err == nil && r.Header.Get("Prefer") != "" {
						resp.Header.Set("Preference-Applied", says)
					}
					return resp, err
				})
				use(t, lists, 5*time.Minute)
				s.revoke(5)
				synctest.Wait()
				if passes(t, lists, 5) {
					t.Error("not known at once")
				}
				s.floor(t, time.Second)
			})
		})
	}
}

// What a server names its list is sent back, but not if it is longer than a name.
func TestHugeETagIsNeverSentBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		s.fail(func(r *http.Request) (*http.Response, error) {
			resp, err := s.answer(r)
			resp.Header.Set("ETag", `"`+strings.Repeat("x", 300)+`"`)
			return resp, err
		})
		use(t, s.waiting(), 5*time.Minute)
		for _, r := range s.log() {
			if r.etags != "" || r.prefer != "" {
				t.Fatalf("asked with %+v", r)
			}
		}
	})
}

// Where held requests get lost on the way (a proxy that ends them, or swallows them), it is
// as without Wait.
func TestLostRequestsNeverMakeARevocationLate(t *testing.T) {
	for name, lose := range map[string]func(*http.Request) (*http.Response, error){
		"swallowed": hanging,
		"cut off": func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(5 * time.Second):
				return nil, errors.New("connection reset")
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		},
		"bad gateway": func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return &http.Response{StatusCode: http.StatusBadGateway, Body: http.NoBody}, nil
		},
	} {
		for _, ttl := range []int{4, 15, 60} {
			t.Run(fmt.Sprintf("%s, ttl %d s", name, ttl), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStatusServer()
					s.ttl = ttl
					s.latency = 10 * time.Millisecond
					s.fail(func(r *http.Request) (*http.Response, error) {
						if r.Header.Get("Prefer") != "" {
							return lose(r)
						}
						return s.answer(r)
					})
					lists := s.waiting()
					_, _, _ = timed(t.Context(), lists, place(99))
					for index := range 20 {
						use(t, lists, time.Duration(3*index)*time.Second)
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
					// And after a quiet time it is known to the first who comes.
					time.Sleep(11 * time.Hour)
					s.revoke(50)
					if got, _, err := timed(t.Context(), lists, place(50)); !got || err != nil {
						t.Errorf("after a quiet time: %t, %v", got, err)
					}
				})
			})
		}
	}
}

// One that is lost by chance ends neither the waiting nor the quiet.
func TestOneLostRequestNeverEndsTheWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.waiting()
		use(t, lists, 10*time.Second)
		s.fail(func(r *http.Request) (*http.Response, error) {
			s.fail(nil)
			return refused(r)
		})
		use(t, lists, 25*time.Second) // in which the next one is asked
		s.log()
		use(t, lists, time.Minute)
		if n := len(s.log()); n > 6 {
			t.Errorf("%d requests in a minute", n)
		}
		s.revoke(5)
		synctest.Wait()
		if passes(t, lists, 5) {
			t.Error("not known at once")
		}
	})
}

// Cairn is restarted: it answers what it holds, is away for a while, and comes back.
func TestRestartNeverEndsTheWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.waiting()
		use(t, lists, time.Minute)
		s.holds(false)
		use(t, lists, 2*time.Second) // while it drains
		s.fail(refused)
		use(t, lists, 40*time.Second)
		s.revoke(5)
		s.holds(true)
		s.fail(nil)
		use(t, lists, 12*time.Second) // the longest pause
		if passes(t, lists, 5) {
			t.Error("not known")
		}
		s.revoke(6)
		synctest.Wait()
		if passes(t, lists, 6) {
			t.Error("not followed again")
		}
		s.floor(t, time.Second)
	})
}
