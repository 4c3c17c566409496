package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// A failure is tried again with growing pauses, for as long as somebody comes.
func TestFailuresOfListsNeverCauseAFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		lists := s.lists()
		passes(t, lists, 5)
		s.fail(refused)
		time.Sleep(time.Minute)
		s.log()
		goroutines := runtime.NumGoroutine()
		for range 10 * 60 {
			passes(t, lists, 5)
			time.Sleep(time.Second / 10)
		}
		if more := runtime.NumGoroutine() - goroutines; more > 1 {
			t.Errorf("%d goroutines more", more)
		}
		s.floor(t, time.Second)
		if n := len(s.log()); n < 9 || n > 10 { // after 1, 2, 4 and 8 seconds, then every 10
			t.Errorf("%d requests in a minute of failures", n)
		}
		// When it works again a copy is there without anybody asking, and then it is quiet.
		s.fail(nil)
		time.Sleep(10 * time.Second)
		if n := len(s.log()); n != 1 {
			t.Errorf("%d requests, want one", n)
		}
		s.fail(refused)
		time.Sleep(time.Minute)
		passes(t, lists, 5)
		time.Sleep(time.Hour)
		if n := len(s.log()); n > 40 {
			t.Errorf("%d requests for a list that nobody uses", n)
		}
	})
}

func TestManyRequestsNeverMakeMoreThanOneFetch(t *testing.T) {
	l := newLister(t, 7)
	lists := l.lists()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if got, err := lists.Revoked(t.Context(), l.ref(i)); got != (i == 7) || err != nil {
				t.Errorf("%d: %t, %v", i, got, err)
			}
		})
	}
	all.Wait()
	l.wantFetches(t, 1)
	ref := l.ref(5)
	if n := testing.AllocsPerRun(100, func() { revoked(t, lists, ref) }); n > 0 {
		t.Errorf("%g allocations a request", n)
	}
	// A verifier that is warm needs nobody.
	l.Close()
	v := l.verifier(lists)
	if _, err := v.Verify(t.Context(), l.token(5)); err != nil {
		t.Error(err)
	}
	if err := mustRefuse(t, v, l.token(7)); !errors.Is(err, session.ErrRevoked) {
		t.Error(err)
	}
}

// However many lists are named, Cairn is asked for few, and those in use stay.
func TestUnknownListsNeverCauseAFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer(7)
		lists := s.lists()
		passes(t, lists, 5)
		s.log()
		s.fail(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
		})
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range 500 {
					ref := session.StatusRef{Index: 1, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, 2+16*i+g)}
					if got, err := lists.Revoked(t.Context(), ref); got || !errors.Is(err, session.ErrStatusUnavailable) {
						t.Errorf("%t, %v", got, err)
					}
				}
			})
		}
		wg.Wait()
		if n := len(s.log()); n > 64 {
			t.Errorf("%d requests for 8,000 lists", n)
		}
		for i := range 600 { // and a minute of it
			time.Sleep(time.Second / 10)
			ref := session.StatusRef{Index: 1, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, 10000+i)}
			_, _ = lists.Revoked(t.Context(), ref)
			if i < 300 && passes(t, lists, 7) {
				t.Fatal("the list in use is gone")
			}
		}
		if n := len(s.log()); n > 70 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}

func TestListsNeverGrowWithoutBound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		s.ttl = 3600
		lists := s.lists()
		ask := func(n int) {
			ref := session.StatusRef{Index: 1, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, n)}
			if got, took, err := timed(t.Context(), lists, ref); got || took > 0 || err != nil {
				t.Fatalf("list %d: %t after %v, %v", n, got, took, err)
			}
			time.Sleep(time.Second)
		}
		for n := 1; n <= 65; n++ {
			ask(n)
		}
		s.log()
		for n := 2; n <= 65; n++ { // these are kept
			ask(n)
		}
		if n := len(s.log()); n != 0 {
			t.Errorf("%d requests for lists that are kept", n)
		}
		ask(1) // this one has made room, and takes that of the second
		ask(3)
		ask(2)
		if got := s.log(); len(got) != 2 || got[0].path != "/oauth2/status/1" || got[1].path != "/oauth2/status/2" {
			t.Errorf("requests %+v", got)
		}
	})
}

// A clock that is set back, or far ahead, costs a request and nothing else.
func TestClockSetBackNeverStopsTheLists(t *testing.T) {
	l := newLister(t, 7)
	o := l.options()
	o.MinInterval = time.Minute // this clock stands still, and what goes on in the background does not
	lists := l.listsOf(o)
	revoked(t, lists, l.ref(7))
	l.pass(-365 * 24 * time.Hour)
	if !revoked(t, lists, l.ref(7)) || revoked(t, lists, l.ref(8)) {
		t.Error("wrong status")
	}
	l.wantFetches(t, 2)
	// The list of the future is not taken for the newer one.
	l.serveText(rsList(listPayload(l.uri(1), l.now(), 60, 8)))
	l.pass(time.Minute)
	if revoked(t, lists, l.ref(7)) || !revoked(t, lists, l.ref(8)) {
		t.Error("the list of now is refused")
	}
	l.wantFetches(t, 3)
	l.fail()
	for n := 2; n < 70; n++ {
		_, _ = lists.Revoked(t.Context(), session.StatusRef{Index: 1, URI: l.uri(n)})
	}
	l.pass(-24 * time.Hour)
	before := l.fetches.Load()
	_, _ = lists.Revoked(t.Context(), session.StatusRef{Index: 1, URI: l.uri(100)})
	l.wantFetches(t, before+1)
}
