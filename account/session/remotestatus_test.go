package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

func TestListIsNeverFetchedBeforeItIsNeeded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.lists()
		time.Sleep(time.Hour)
		if n := len(s.log()); n != 0 {
			t.Errorf("%d requests before the first session", n)
		}
		passes(t, lists, 5)
		if got := s.log(); len(got) != 1 || got[0].etags != "" || got[0].prefer != "" || got[0].cache != "no-cache" {
			t.Errorf("requests %+v", got)
		}
	})
}

// Whenever in the life of a copy a session is taken back: ttl later nobody gets in with it.
func TestRevocationIsNeverUnknownForLongerThanTheTTL(t *testing.T) {
	for _, ttl := range []int{1, 15, 60} {
		for _, every := range []time.Duration{time.Second, 7 * time.Second, 59 * time.Second, time.Hour} {
			t.Run(fmt.Sprintf("ttl %d s, used every %v", ttl, every), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStatusServer()
					s.ttl = ttl
					lists := s.lists()
					for index := range 20 {
						passes(t, lists, index)
						time.Sleep(time.Duration(index) * 3100 * time.Millisecond)
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
			})
		}
	}
}

// Under steady use nobody waits for an answer: the copy is renewed before it is too old, and
// before it expires.
func TestRequestNeverWaitsWhileTheListIsInUse(t *testing.T) {
	for _, life := range []time.Duration{12 * time.Hour, 100 * time.Second} {
		for _, wait := range []time.Duration{0, 25 * time.Second} {
			t.Run(fmt.Sprintf("lists live %v, held %v", life, wait), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStatusServer(7)
					s.latency, s.life, s.sameTag = 2*time.Second, life, true
					o := s.options()
					o.Wait = wait
					lists := session.NewRemoteStatusList(o)
					if _, took, err := timed(t.Context(), lists, place(5)); err != nil || took != 2*time.Second {
						t.Errorf("the first one: %v, %v", took, err)
					}
					for range 600 {
						time.Sleep(time.Second)
						if !passes(t, lists, 5) || passes(t, lists, 7) {
							t.Fatal("wrong status")
						}
					}
					if n := len(s.log()); n < 10 || wait == 0 && n > 15 || n > 50 { // every 45 s, or every 25 and less
						t.Errorf("%d requests in ten minutes", n)
					}
				})
			})
		}
	}
}

// How seldom a list may be used that nobody waits for it: every quarter of ttl, and with Wait
// every five minutes.
func TestSparseUseNeverWaitsUnlessItIsSaid(t *testing.T) {
	for _, c := range []struct {
		wait, every time.Duration
		waits       bool
	}{
		{0, 15 * time.Second, false},
		{0, 20 * time.Second, true},
		{25 * time.Second, 20 * time.Second, false},
		{25 * time.Second, 5*time.Minute - time.Second, false},
		{25 * time.Second, 7 * time.Minute, true},
	} {
		t.Run(fmt.Sprintf("held %v, used every %v", c.wait, c.every), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				s.latency = time.Second
				o := s.options()
				o.Wait = c.wait
				lists := session.NewRemoteStatusList(o)
				var waited time.Duration
				for i := range 30 {
					_, took, err := timed(t.Context(), lists, place(5))
					if err != nil {
						t.Fatal(err)
					}
					if i > 0 {
						waited += took
					}
					time.Sleep(c.every - took)
				}
				if waited > 0 != c.waits {
					t.Errorf("29 uses waited for %v", waited)
				}
			})
		})
	}
}

// While Cairn is away the last good copy serves until its exp, without making anybody wait;
// then the policy decides, and whom the copy knows to be out stays out.
func TestOutageNeverChangesMoreThanThePolicySays(t *testing.T) {
	for name, down := range map[string]func(*http.Request) (*http.Response, error){"refused": refused, "hanging": hanging} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fail open %t", name, open), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStatusServer(7)
					o := s.options()
					o.FailOpen = open
					lists := session.NewRemoteStatusList(o)
					passes(t, lists, 5)
					expires := time.Now().Add(12 * time.Hour)
					s.fail(down)
					time.Sleep(time.Minute)
					if got, took, err := timed(t.Context(), lists, place(5)); got || err != nil || took > 5*time.Second {
						t.Errorf("who learns of the outage: %t after %v, %v", got, took, err)
					}
					for ; time.Now().Before(expires); time.Sleep(4 * time.Minute) {
						if !passes(t, lists, 5) || passes(t, lists, 7) {
							t.Fatal("the copy does not serve")
						}
					}
					for range 60 {
						if passes(t, lists, 7) {
							t.Fatal("after exp: a session that is known to be out is in again")
						}
						got, took, err := timed(t.Context(), lists, place(5))
						if got || took > 0 || open != (err == nil) || !open && (!errors.Is(err, session.ErrStatusUnavailable) || errors.Is(err, session.ErrInvalid)) {
							t.Fatalf("after exp: %t after %v, %v", got, took, err)
						}
						time.Sleep(time.Second)
					}
					s.fail(nil)
					time.Sleep(16 * time.Second) // the request that is out, and a pause
					if !passes(t, lists, 5) || passes(t, lists, 7) {
						t.Error("Cairn is back, and nobody knows")
					}
				})
			})
		}
	}
}

func TestApplicationWithoutACopyNeverGoesFurtherThanThePolicy(t *testing.T) {
	for name, down := range map[string]func(*http.Request) (*http.Response, error){"refused": refused, "hanging": hanging} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fail open %t", name, open), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStatusServer(5)
					s.fail(down)
					o := s.options()
					o.FailOpen = open
					lists := session.NewRemoteStatusList(o)
					for i := range 100 { // the first one waits, nobody else does
						got, took, err := timed(t.Context(), lists, place(5))
						if got || open != (err == nil) || !open && !errors.Is(err, session.ErrStatusUnavailable) || i > 0 && took > 0 || took > 5*time.Second {
							t.Fatalf("%d: %t after %v, %v", i, got, took, err)
						}
						time.Sleep(100 * time.Millisecond)
					}
					// Much later nobody can say that it still is down, so the next one waits again.
					s.fail(nil)
					time.Sleep(time.Hour)
					if passes(t, lists, 5) {
						t.Error("not refused")
					}
				})
			})
		}
	}
}

// Hanging up early is no way past a list that is waited for, not even where lists fail open.
func TestEndedRequestIsNeverAccepted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer(5)
		s.latency = time.Second
		o := s.options()
		o.FailOpen = true
		lists := session.NewRemoteStatusList(o)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		got, took, err := timed(ctx, lists, place(5))
		if got || took > 100*time.Millisecond || !errors.Is(err, session.ErrStatusUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%t after %v, %v", got, took, err)
		}
		// It leaves the request to the others.
		if got, took, err := timed(t.Context(), lists, place(5)); !got || took != 900*time.Millisecond || err != nil {
			t.Errorf("%t after %v, %v", got, took, err)
		}
		if n := len(s.log()); n != 1 {
			t.Errorf("%d requests", n)
		}
		// Nor does one who cannot wait get what an old copy says, whatever it is.
		time.Sleep(2 * time.Minute)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got, _, err := timed(gone, lists, place(6)); got || !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%t, %v", got, err)
		}
	})
}

// A failure excuses from waiting while it is fresh. After a quiet time it says nothing.
func TestOldFailureNeverLetsAnOldCopyServe(t *testing.T) {
	for name, down := range map[string]func(*http.Request) (*http.Response, error){"refused": refused, "hanging": hanging} {
		for _, quiet := range []time.Duration{6 * time.Minute, 3 * time.Hour} {
			t.Run(fmt.Sprintf("%s, quiet for %v", name, quiet), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newStatusServer()
					lists := s.lists()
					passes(t, lists, 5)
					s.fail(down)
					time.Sleep(time.Minute)
					_, _, _ = timed(t.Context(), lists, place(5)) // learns of the outage
					time.Sleep(quiet)
					s.fail(nil)
					s.revoke(5)
					if passes(t, lists, 5) {
						t.Error("an old copy serves")
					}
				})
			})
		}
	}
}

// That nothing has changed does not make a copy live longer than its exp.
func TestExpiredCopyIsNeverSaidToBeUnchanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.lists()
		passes(t, lists, 5)
		s.log()
		time.Sleep(12 * time.Hour)
		if !passes(t, lists, 5) {
			t.Error("revoked")
		}
		if got := s.log(); len(got) != 1 || got[0].etags != "" {
			t.Errorf("asked with %+v", got)
		}
	})
}
