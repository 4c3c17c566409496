package session_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// until waits for what happens in the background.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for tick := time.NewTicker(time.Millisecond); !done(); <-tick.C {
		if t.Context().Err() != nil {
			t.Fatal(what)
		}
	}
}

func TestRevocationIsNeverUnknownForLongerThanTheTTL(t *testing.T) {
	l := newLister(t)
	lists := l.lists()
	if revoked(t, lists, l.ref(5)) {
		t.Fatal("revoked from the start")
	}
	l.revoked = []int{5}
	l.pass(44 * time.Second) // the copy is young: nobody asks
	for range 3 {
		if revoked(t, lists, l.ref(5)) {
			t.Error("known too early: somebody has asked")
		}
	}
	l.wantFetches(t, 1)
	l.pass(16 * time.Second)
	if !revoked(t, lists, l.ref(5)) {
		t.Error("not known after ttl")
	}
	l.wantFetches(t, 2)
	l.pass(time.Hour) // nobody came for a while, and nothing has changed: 304
	if !revoked(t, lists, l.ref(5)) || revoked(t, lists, l.ref(6)) {
		t.Error("forgotten")
	}
	l.wantFetches(t, 3)
	if l.asked.Load().Header.Get("If-None-Match") == "" || l.asked.Load().Header.Get("Prefer") != "" {
		t.Errorf("asked with %v", l.asked.Load().Header)
	}
}

// Under steady use nobody waits for a fetch: the copy is renewed before it is too old.
func TestRequestNeverWaitsWhileTheListIsInUse(t *testing.T) {
	l := newLister(t)
	lists := l.lists()
	revoked(t, lists, l.ref(5))
	l.pass(16 * time.Second)
	for range 5 {
		before := l.fetches.Load()
		l.pass(30 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // who would have to wait fails
		if _, err := lists.Revoked(ctx, l.ref(5)); err != nil {
			t.Fatal(err)
		}
		until(t, "the copy is not renewed", func() bool { return l.fetches.Load() > before })
		l.pass(16 * time.Second)
		until(t, "the renewed copy does not count", func() bool { _, err := lists.Revoked(ctx, l.ref(5)); return err == nil })
	}
}

// While the endpoint is down the last good copy serves until its exp, without making
// anybody wait; then the policy decides.
func TestOutageNeverChangesMoreThanThePolicySays(t *testing.T) {
	for open, after := range map[bool]error{false: session.ErrStatusUnavailable, true: nil} {
		l := newLister(t, 7)
		o := l.options()
		o.FailOpen = open
		lists := session.NewRemoteStatusList(o)
		cold := session.NewRemoteStatusList(o)
		revoked(t, lists, l.ref(5))
		l.fail()
		if got, err := cold.Revoked(t.Context(), l.ref(5)); got || !errors.Is(err, after) || after == nil && err != nil {
			t.Errorf("open %t, without a copy: %t, %v", open, got, err)
		}
		l.pass(time.Minute)
		revoked(t, lists, l.ref(5)) // learns of the outage
		nobodyWaits, cancel := context.WithCancel(t.Context())
		cancel()
		for range 11 {
			l.pass(time.Hour)
			revoked(t, lists, l.ref(5)) // who comes first after a pause asks, and waits for the answer
			if got, err := lists.Revoked(nobodyWaits, l.ref(5)); got || err != nil {
				t.Errorf("open %t, with a copy: %t, %v", open, got, err)
			}
			if got, err := lists.Revoked(nobodyWaits, l.ref(7)); !got || err != nil {
				t.Errorf("open %t, with a copy, revoked: %t, %v", open, got, err)
			}
		}
		l.pass(time.Hour)
		if got, err := lists.Revoked(t.Context(), l.ref(5)); got || !errors.Is(err, after) || after == nil && err != nil {
			t.Errorf("open %t, after exp: %t, %v", open, got, err)
		}
		if got, err := lists.Revoked(t.Context(), l.ref(7)); !got || err != nil {
			t.Errorf("open %t, after exp, known to be over: %t, %v", open, got, err)
		}
		l.serve()
		l.pass(10 * time.Second)
		until(t, "the list is back, and nobody knows", func() bool {
			before := l.fetches.Load()
			got, err := lists.Revoked(t.Context(), l.ref(5))
			l.pass(time.Second)
			return !got && err == nil && l.fetches.Load() == before && before > 14 // from a copy
		})
	}
}

// An answer that is no list never takes the place of a good copy.
func TestBadAnswerNeverReplacesAGoodList(t *testing.T) {
	l := newLister(t, 7)
	lists := l.lists()
	revoked(t, lists, l.ref(7))
	l.serveText(rsList(l.with("sub", l.uri(2))))
	for range 3 {
		l.pass(2 * time.Minute)
		if !revoked(t, lists, l.ref(7)) || revoked(t, lists, l.ref(8)) {
			t.Error("the good copy is gone")
		}
	}
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
	// Nor do failures: a floor lies between two.
	l.fail()
	l.pass(time.Hour * 13)
	for range 50 {
		_, _ = lists.Revoked(t.Context(), l.ref(1))
	}
	l.wantFetches(t, 2)
	for range 60 {
		l.pass(time.Second)
		_, _ = lists.Revoked(t.Context(), l.ref(1))
	}
	if n := l.fetches.Load(); n > 14 { // 1, 2, 4 and 8 seconds, then every 10
		t.Errorf("%d fetches in a minute of failures", n)
	}
}

// A server that takes the request and says nothing holds up one request, not all.
func TestHangingEndpointNeverHoldsUpWhoHasACopy(t *testing.T) {
	l := newLister(t)
	o := l.options()
	o.Timeout = 50 * time.Millisecond
	lists := session.NewRemoteStatusList(o)
	revoked(t, lists, l.ref(5))
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	l.answer(func(http.ResponseWriter, *http.Request) { <-release })
	l.pass(time.Minute)
	if got, err := lists.Revoked(t.Context(), l.ref(5)); got || err != nil {
		t.Errorf("the first one, after the time is over: %t, %v", got, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		l.pass(time.Second)
		if _, err := lists.Revoked(gone, l.ref(5)); err != nil {
			t.Fatalf("another one waits: %v", err)
		}
	}
}

func TestListsNeverGrowWithoutBound(t *testing.T) {
	l := newLister(t)
	l.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		p := l.payload()
		p["sub"] = l.URL + r.URL.Path
		_, _ = w.Write([]byte(rsList(p)))
	})
	lists := l.lists()
	ask := func(n int) { revoked(t, lists, session.StatusRef{Index: 1, URI: l.uri(n)}); l.pass(time.Millisecond) }
	for n := 1; n <= 65; n++ {
		ask(n)
	}
	l.wantFetches(t, 65)
	for n := 2; n <= 65; n++ { // these are kept
		ask(n)
	}
	l.wantFetches(t, 65)
	ask(1) // this one has made room
	l.wantFetches(t, 66)
}

// holding is a server that holds requests as Cairn does, until change is closed.
func (l *lister) holding(change func() <-chan struct{}) {
	l.answer(func(w http.ResponseWriter, r *http.Request) {
		l.asked.Store(r)
		etag := func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return `W/"` + strings.Repeat("x", len(l.revoked)+1) + `"`
		}
		if prefer := r.Header.Get("Prefer"); prefer != "" && r.Header.Get("If-None-Match") == etag() {
			w.Header().Set("Preference-Applied", prefer)
			select {
			case <-change():
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("ETag", etag())
		if r.Header.Get("If-None-Match") == etag() {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		_, _ = w.Write([]byte(rsList(l.payload())))
	})
}

func TestWaitingApplicationKnowsAtOnceAndNeverAsksWithoutUse(t *testing.T) {
	l := newLister(t)
	change := make(chan struct{})
	l.holding(func() <-chan struct{} { l.mu.Lock(); defer l.mu.Unlock(); return change })
	o := l.options()
	o.Wait, o.MinInterval = 25*time.Second, time.Millisecond
	lists := session.NewRemoteStatusList(o)
	if revoked(t, lists, l.ref(5)) {
		t.Fatal("revoked from the start")
	}
	until(t, "nobody waits for a change", func() bool { return l.asked.Load() != nil && l.asked.Load().Header.Get("Prefer") == "wait=25" })
	l.mu.Lock()
	l.revoked = []int{5}
	close(change)
	change = make(chan struct{})
	l.mu.Unlock()
	until(t, "the change is not known", func() bool { return revoked(t, lists, l.ref(5)) }) // without time passing
	until(t, "nobody waits for the next change", func() bool { return l.fetches.Load() == 3 })
	l.pass(10 * time.Minute) // unused: the present wait is the last
	l.mu.Lock()
	close(change)
	l.mu.Unlock()
	until(t, "the last wait is not over", func() bool { _, err := lists.Revoked(t.Context(), l.ref(5)); return err == nil })
}

// A server without holding is asked no more often than without Wait.
func TestServerThatDoesNotHoldIsNeverAskedInALoop(t *testing.T) {
	l := newLister(t)
	o := l.options()
	o.Wait, o.MinInterval = 25*time.Second, time.Millisecond
	lists := session.NewRemoteStatusList(o)
	for range 4 { // a minute each
		revoked(t, lists, l.ref(5))
		l.pass(time.Minute)
	}
	revoked(t, lists, l.ref(5))
	if n := l.fetches.Load(); n < 5 || n > 9 {
		t.Errorf("%d fetches in four minutes", n)
	}
}

// Something in between cuts requests that take long. A revocation in a quiet time
// is known to the first who comes, as without Wait.
func TestCutHoldNeverLetsAnOldCopyServe(t *testing.T) {
	l := newLister(t)
	plain := func() http.HandlerFunc { l.serve(); l.mu.Lock(); defer l.mu.Unlock(); return l.handler }()
	l.answer(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Prefer") != "" {
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		plain(w, r)
	})
	o := l.options()
	o.Wait, o.MinInterval = 25*time.Second, time.Millisecond
	lists := session.NewRemoteStatusList(o)
	revoked(t, lists, l.ref(5))
	until(t, "nobody has asked to wait", func() bool { return l.fetches.Load() == 2 })
	l.revoked = []int{5}
	l.pass(11 * time.Hour)
	if !revoked(t, lists, l.ref(5)) {
		t.Error("the copy of eleven hours ago serves")
	}
}

// Nor does a failure of long ago excuse from waiting.
func TestOldFailureNeverLetsAnOldCopyServe(t *testing.T) {
	l := newLister(t)
	lists := l.lists()
	revoked(t, lists, l.ref(5))
	l.fail()
	l.pass(time.Minute)
	revoked(t, lists, l.ref(5))
	l.revoked = []int{5}
	l.serve()
	l.pass(3 * time.Hour)
	if !revoked(t, lists, l.ref(5)) {
		t.Error("the copy of three hours ago serves")
	}
}

// Who would have to wait for a fresh list and cannot is told so, not what the
// old one says.
func TestImpatientRequestNeverGetsAnOldAnswer(t *testing.T) {
	l := newLister(t)
	lists := l.lists()
	revoked(t, lists, l.ref(5))
	l.pass(2 * time.Minute)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := lists.Revoked(gone, l.ref(5)); got || !errors.Is(err, session.ErrStatusUnavailable) {
		t.Errorf("%t, %v", got, err)
	}
}

// A restart of Cairn, or no room for one more, ends holding for a ttl, not for good.
func TestRefusedHoldNeverEndsHoldingForLong(t *testing.T) {
	l := newLister(t)
	o := l.options()
	o.Wait, o.MinInterval = 25*time.Second, time.Millisecond
	lists := session.NewRemoteStatusList(o)
	revoked(t, lists, l.ref(5))
	until(t, "nobody has asked to wait", func() bool { return l.fetches.Load() == 2 })
	change := make(chan struct{})
	t.Cleanup(func() { close(change) })
	l.holding(func() <-chan struct{} { return change })
	l.pass(61 * time.Second)
	revoked(t, lists, l.ref(5))
	until(t, "after a ttl nobody asks to wait", func() bool { return l.asked.Load().Header.Get("Prefer") != "" })
}

func TestMiddlewareTellsAnEndedSessionFromOneThatNobodyCanJudge(t *testing.T) {
	l := newLister(t, 7)
	v := l.verifier(l.lists())
	h := session.Middleware(v, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	visit := func(index int) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: "cairn_session", Value: l.token(index)})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		return w.Code
	}
	if a, b := visit(5), visit(7); a != http.StatusOK || b != http.StatusUnauthorized {
		t.Errorf("%d and %d", a, b)
	}
	l.fail()
	v.Status = l.lists()
	if got := visit(5); got != http.StatusServiceUnavailable {
		t.Errorf("nobody can judge: %d", got)
	}
}

// FuzzStatusList: no answer of a server makes the application panic, or believe a session
// to be revoked or not that the genuine list does not speak of.
func FuzzStatusList(f *testing.F) {
	l := &lister{publisher: &publisher{time: clock}}
	l.publisher.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		h := l.handler
		l.mu.Unlock()
		h(w, r)
	}))
	f.Cleanup(l.Close)
	for _, seed := range []string{toJSON(l.payload()), toJSON(l.with("ttl", 1)), toJSON(l.with("status_list", map[string]any{"bits": 8, "lst": packed([]byte{1, 0, 3})})), `{}`, `[]`, ``, `{"sub":1}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		if payload == "" {
			return
		}
		l.serveText(rsList(payload))
		for _, index := range []int{0, 2, listSize} {
			_, err := l.lists().Revoked(t.Context(), l.ref(index))
			if err != nil && !errors.Is(err, session.ErrStatusUnavailable) && !errors.Is(err, session.ErrInvalid) {
				t.Fatal(err)
			}
		}
	})
}
