package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// An application that starts while Cairn is away has no copy. Nobody has to come for it to get one.
func TestFirstFetchThatFailsIsNeverTheLast(t *testing.T) {
	for name, down := range map[string]func(*http.Request) (*http.Response, error){"refused": refused, "hanging": hanging} {
		for _, open := range []bool{false, true} {
			for _, away := range []time.Duration{0, 20 * time.Second, 4 * time.Minute} {
				t.Run(fmt.Sprintf("%s, fail open %t, away for %v", name, open, away), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						s := newStatusServer(5)
						s.fail(down)
						o := s.options()
						o.FailOpen = open
						lists := session.NewRemoteStatusList(o)
						if got, _, err := timed(t.Context(), lists, place(5)); got || open != (err == nil) {
							t.Errorf("%t, %v", got, err)
						}
						time.Sleep(away)
						s.fail(nil)
						time.Sleep(15 * time.Second) // the request that is out, and the longest pause
						s.log()
						if passes(t, lists, 5) || !passes(t, lists, 6) {
							t.Error("wrong status")
						}
						if n := len(s.log()); n != 0 {
							t.Errorf("%d requests for a list of which there is a copy", n)
						}
					})
				})
			}
		}
	}
}

func TestListWithoutACopyNeverCausesAFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		s.fail(refused)
		lists := s.lists()
		goroutines := runtime.NumGoroutine()
		for range 10 * 60 {
			_, _, _ = timed(t.Context(), lists, place(5))
			time.Sleep(time.Second / 10)
		}
		if more := runtime.NumGoroutine() - goroutines; more > 1 {
			t.Errorf("%d goroutines more", more)
		}
		s.floor(t, time.Second)
		if n := len(s.log()); n < 8 || n > 10 { // after 1, 2, 4 and 8 seconds, then every 10
			t.Errorf("%d requests in a minute of failures", n)
		}
		time.Sleep(24 * time.Hour)
		if n := len(s.log()); n > 31 {
			t.Errorf("%d requests for a list that nobody uses", n)
		}
		if err := lists.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Lists that cannot be had are tried again, and leave room for those that can.
func TestListsWithoutACopyNeverStarveANewOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer(7)
		lists := s.lists()
		ask := func(n int) (bool, error) {
			got, _, err := timed(t.Context(), lists, session.StatusRef{Index: 7, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, n)})
			return got, err
		}
		s.fail(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path >= "/oauth2/status/9" {
				return s.answer(r)
			}
			return refused(r)
		})
		for n := range 40 {
			if _, err := ask(100 + n); !errors.Is(err, session.ErrStatusUnavailable) {
				t.Error(err)
			}
		}
		s.log()
		for range 3 {
			time.Sleep(time.Minute)
			for n := range 40 {
				_, _ = ask(100 + n)
			}
		}
		s.floor(t, time.Second)
		if n := len(s.log()); n < 100 || n > 3*60+1 {
			t.Errorf("%d requests in three minutes, of all lists", n)
		}
		for n := 90; n < 100; n++ {
			if got, err := ask(n); !got || err != nil {
				t.Errorf("list %d: %t, %v", n, got, err)
			}
		}
	})
}

// Closing ends that too.
func TestClosedListWithoutACopyIsNeverAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		s.fail(refused)
		lists := s.lists()
		_, _, _ = timed(t.Context(), lists, place(5))
		began := time.Now()
		if err := lists.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.log()
		time.Sleep(time.Hour)
		if n := len(s.log()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}
