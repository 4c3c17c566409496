package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// use keeps asking for a session that nobody takes back.
func use(t *testing.T, lists *session.RemoteStatusList, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		passes(t, lists, 99)
	}
}

// With Wait a session that is taken back is out as soon as Cairn answers, whatever was before.
func TestWaitingApplicationNeverLearnsLate(t *testing.T) {
	for _, ttl := range []int{4, 15, 60, 3600} {
		t.Run(fmt.Sprintf("ttl %d s", ttl), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				s.ttl = ttl
				lists := s.waiting()
				passes(t, lists, 99)
				for index := range 20 {
					use(t, lists, time.Duration(5*index)*time.Second)
					time.Sleep(1100 * time.Millisecond) // two changes within a second are the next test's
					if !passes(t, lists, index) {
						t.Fatal("revoked from the start")
					}
					s.revoke(index)
					synctest.Wait() // no time passes
					if passes(t, lists, index) || !passes(t, lists, index+1) {
						t.Fatalf("revocation %d is not known at once", index)
					}
				}
				s.floor(t, time.Second)
			})
		})
	}
}

func TestListThatChangesAllTheTimeNeverCausesAFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.waiting()
		passes(t, lists, 99)
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
		if n := len(s.log()); n > 33 {
			t.Errorf("%d requests in half a minute", n)
		}
	})
}

// The time for which Cairn is asked to wait leaves time to ask again before the copy is too old.
func TestHeldRequestsNeverOutliveTheTTL(t *testing.T) {
	for ttl, want := range map[int]string{2: "", 4: "wait=3", 15: "wait=11", 60: "wait=25", 86400: "wait=25"} {
		inBubble(t, func(t *testing.T) {
			s := newStatusServer()
			s.ttl = ttl
			lists := s.waiting()
			use(t, lists, 2*time.Minute)
			log := s.log()
			last := log[len(log)-1]
			if last.prefer != want || last.etags == "" {
				t.Errorf("ttl %d: asked with %+v, want %q", ttl, last, want)
			}
			if want == "" && len(log) > 61 { // every other second, when somebody comes
				t.Errorf("ttl %d: %d requests in two minutes", ttl, len(log))
			}
			s.floor(t, time.Second)
		})
	}
	for wait, want := range map[time.Duration]string{0: "", 999 * time.Millisecond: "", 1999 * time.Millisecond: "wait=1", 10 * time.Second: "wait=10", time.Hour: "wait=25"} {
		inBubble(t, func(t *testing.T) {
			s := newStatusServer()
			o := s.options()
			o.Wait = wait
			lists := session.NewRemoteStatusList(o)
			use(t, lists, 2*time.Minute)
			log := s.log()
			if last := log[len(log)-1]; last.prefer != want {
				t.Errorf("Wait %v: asked with %+v, want %q", wait, last, want)
			}
		})
	}
}

func TestUnusedListIsNeverFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.waiting()
		use(t, lists, 10*time.Minute)
		time.Sleep(5*time.Minute + 25*time.Second)
		s.log()
		time.Sleep(24 * time.Hour)
		if n := len(s.log()); n != 0 {
			t.Errorf("%d requests for a list that nobody uses", n)
		}
		s.revoke(5)
		if passes(t, lists, 5) {
			t.Error("not known after a day")
		}
		time.Sleep(2 * time.Second)
		s.revoke(6)
		synctest.Wait()
		if passes(t, lists, 6) {
			t.Error("not followed again")
		}
	})
}

// A list that makes room for others takes its request with it.
func TestForgottenListIsNeverWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.waiting()
		for n := 1; n <= 80; n++ {
			ref := session.StatusRef{Index: 1, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, n)}
			if _, _, err := timed(t.Context(), lists, ref); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		held := 0
		for _, n := range s.out {
			held += n
		}
		if held == 0 || held > 64 {
			t.Errorf("%d requests are held", held)
		}
		if s.ended < 10 {
			t.Errorf("%d requests given up, for 16 lists that made room", s.ended)
		}
	})
}

// The time limit of the application's client would cut held requests off.
func TestClientsTimeLimitNeverCutsWaitingShort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		o := s.options()
		o.Client.Timeout, o.Wait = time.Second, 25*time.Second
		lists := session.NewRemoteStatusList(o)
		use(t, lists, 30*time.Second)
		s.revoke(5)
		synctest.Wait()
		if passes(t, lists, 5) {
			t.Error("not known at once")
		}
		if o.Client.Timeout != time.Second {
			t.Error("the given client was changed")
		}
		if n := len(s.log()); n > 4 {
			t.Errorf("%d requests in half a minute", n)
		}
	})
}
