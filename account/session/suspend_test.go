package session_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cairn-id/cairn/account/session"
)

// suspendable is the clock of a machine that can be suspended (a laptop, a container that is stopped): the
// time of day goes on then, and the monotonic reading that time.Now adds to it stands still.
type suspendable struct {
	awake  time.Time // since when
	asleep atomic.Int64
}

func newSuspendable(t *testing.T) *suspendable {
	t.Helper()
	c := &suspendable{awake: time.Now()}
	a, b := withMonotonic(c.awake, 0), withMonotonic(c.awake.Add(time.Hour), 0)
	if b.Sub(a) != 0 || b.Round(0).Sub(a.Round(0)) != time.Hour || !a.Round(0).Equal(c.awake) {
		t.Fatal("package time has another layout, and this clock must follow")
	}
	return c
}

func (c *suspendable) sleep(d time.Duration) { c.asleep.Add(int64(d)) }

func (c *suspendable) now() time.Time {
	now := time.Now()
	return withMonotonic(now.Add(time.Duration(c.asleep.Load())), now.Sub(c.awake))
}

// withMonotonic gives t a monotonic reading, for which package time has no function: a bit for its
// presence, 33 bits of seconds since 1885 and 30 bits of nanoseconds, then the reading.
func withMonotonic(t time.Time, reading time.Duration) time.Time {
	since := t.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	out := t.Round(0)
	fields := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&out))
	fields.wall = 1<<63 | uint64(since)<<30 | uint64(t.Nanosecond())
	fields.ext = int64(reading)
	return out
}

// An application that was asleep itself has an old copy, and perhaps a request that nobody answers any
// more: no reason to go by the copy.
func TestSleepOfTheApplicationNeverLetsAnOldCopyServe(t *testing.T) {
	for name, c := range map[string]struct {
		wait  time.Duration
		awake time.Duration // in use, until it sleeps
		good  int64         // requests that are answered before that
		fails bool          // the one that is out then fails at waking; else nobody answers it
	}{
		"nothing is out":          {0, 10 * time.Second, 1, false},
		"a held request fails":    {25 * time.Second, 10 * time.Second, 1, true},
		"a held request is lost":  {25 * time.Second, 10 * time.Second, 1, false},
		"a renewal fails":         {0, 47 * time.Second, 1, true},
		"a renewal is lost":       {0, 47 * time.Second, 1, false},
		"the first fetch is lost": {0, 2 * time.Second, 0, false},
		"the first fetch fails":   {0, 2 * time.Second, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, clock, wake := newStatusServer(), newSuspendable(t), make(chan struct{})
				s.latency = time.Second
				var asked atomic.Int64
				s.fail(func(r *http.Request) (*http.Response, error) {
					switch {
					case asked.Add(1) <= c.good:
						return s.answer(r)
					case c.fails:
						<-wake
						return refused(r)
					}
					return hanging(r)
				})
				o := s.options()
				o.Wait, o.Now = c.wait, clock.now
				lists := session.NewRemoteStatusList(o)
				for end := time.Now().Add(c.awake); time.Now().Before(end); time.Sleep(time.Second) {
					go func() { _, _ = lists.Revoked(t.Context(), place(5)) }()
				}
				if out := c.good == 0 || c.wait > 0 || c.awake > 45*time.Second; out != (asked.Load() > c.good) {
					t.Fatalf("%d requests", asked.Load())
				}
				s.revoke(5)
				s.fail(nil)
				clock.sleep(time.Hour)
				close(wake)
				synctest.Wait()
				if got, took, err := timed(t.Context(), lists, place(5)); !got || took > 2*time.Second || err != nil {
					t.Errorf("%t after %v, %v", got, took, err)
				}
			})
		})
	}
}

func TestSleepOfTheApplicationNeverKeepsAWithdrawnKey(t *testing.T) {
	p, clock := newPublisher(t, publicJWK(rsaKey(), kid)), newSuspendable(t)
	keys := session.NewRemoteKeySet(p.URL, session.RemoteOptions{Client: p.Client(), Now: clock.now})
	wantKey(t, keys, kid, nil)
	p.publish(publicJWK(rsaKey(), "key-2"))
	clock.sleep(time.Hour)
	wantKey(t, keys, kid, session.ErrUnknownKey)
	wantKey(t, keys, "key-2", nil)
	p.wantFetches(t, 2)
}

func TestSleepOfTheApplicationNeverKeepsASecretInUse(t *testing.T) {
	clock := newSuspendable(t)
	v := verifier()
	v.Now, v.SecretUntil = clock.now, clock.now().Add(time.Hour)
	p := with("iat", clock.now().Unix())
	p["exp"], p["auth_time"] = clock.now().Add(session.Lifetime).Unix(), clock.now().Unix()
	if _, err := v.Verify(t.Context(), hsToken(p)); err != nil {
		t.Error(err)
	}
	clock.sleep(time.Hour)
	mustRefuse(t, v, hsToken(p))
}
