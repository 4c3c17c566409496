package account_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

// The flags that other applications read in the cookie are those of the sign-in.
func TestFlagLossRevokesTheCookieWhenTheOptionIsOn(t *testing.T) {
	for on, bit := range map[bool]int{false: 0, true: 1} {
		w := newWorld(t)
		w.saveSettings(func(v *account.Settings) { v.SignOutOnFlagLoss = on })
		w.addUser("ada", account.FlagActivity)
		b := w.signedIn("ada")
		administration := w.service.Administration()
		if _, err := administration.SetFlags(t.Context(), account.Operator(), w.user("ada"), map[string]bool{account.FlagAdmin: true}); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, b.cookies["cairn_session"]); got != 0 {
			t.Errorf("option %t: a flag that was given ends the session", on)
		}
		if _, err := administration.SetFlags(t.Context(), account.Operator(), w.user("ada"), map[string]bool{account.FlagActivity: false}); err != nil {
			t.Fatal(err)
		}
		if got := statusBit(w, b.cookies["cairn_session"]); got != bit || b.isSignedIn() != (bit == 0) {
			t.Errorf("option %t: bit %d, signed in %t", on, got, b.isSignedIn())
		}
	}
}

// Signing in again in the same browser replaces the token: a copy of the
// earlier one must not go on at other applications.
func TestReplacedTokenIsInTheList(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	stolen := b.cookies["cairn_session"]
	b.login("ada", password).is(200)
	if got := statusBit(w, stolen); got != 1 {
		t.Error("the earlier token is not marked")
	}
	if got := statusBit(w, b.cookies["cairn_session"]); got != 0 || !b.isSignedIn() {
		t.Error("the new one is")
	}
}

func TestHS256TokenIsRefusedAfterTheEndDate(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	old := w.signedIn("ada")
	if _, _, err := w.store.HS256Sessions(t.Context(), w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	setUntil := func(d time.Duration) {
		t.Helper()
		if err := w.store.SetHS256Until(t.Context(), w.clock.Now().Add(d), account.Audit{At: w.clock.Now(), Action: "keys.migrate"}); err != nil {
			t.Fatal(err)
		}
	}
	setUntil(time.Hour)
	w.start() // still without a key: the date is for later
	w.clock.Advance(2 * time.Hour)
	if !old.isSignedIn() {
		t.Error("without a key nobody could sign in after the date")
	}
	setUntil(time.Hour)
	w.start(withKey)
	now := w.signedIn("ada")
	if !old.isSignedIn() {
		t.Error("refused before the date")
	}
	w.clock.Advance(time.Hour)
	if old.isSignedIn() || !now.isSignedIn() {
		t.Errorf("after the date: HS256 %t, RS256 %t", old.isSignedIn(), now.isSignedIn())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.service.RetireHS256(ctx); close(ended) }()
	for statusBit(w, old.cookies["cairn_session"]) == 0 { // the test's deadline ends it
	}
	cancel()
	<-ended
	if statusBit(w, now.cookies["cairn_session"]) != 0 {
		t.Error("an RS256 session was ended")
	}
	if live, _, err := w.store.HS256Sessions(t.Context(), w.clock.Now()); err != nil || live != 0 {
		t.Errorf("%d HS256 sessions, %v", live, err)
	}
}

// failing is a store that fails while a request waits.
type failing struct {
	account.Store
	gone chan struct{}
}

func (f failing) StatusVersion(ctx context.Context, list int) (int64, error) {
	select {
	case <-f.gone:
		return 0, account.ErrUnavailable
	default:
		return f.Store.StatusVersion(ctx, list)
	}
}

func (f failing) StatusVersions(ctx context.Context) (map[int]int64, error) {
	select {
	case <-f.gone:
		return nil, account.ErrUnavailable
	default:
		return f.Store.StatusVersions(ctx)
	}
}

// While the database is away no answer says that nothing was revoked.
func TestListIsNotConfirmedWithoutTheDatabase(t *testing.T) {
	gone := make(chan struct{})
	w := newWorld(t)
	w.start(func(o *account.Options) { o.Store = failing{w.store, gone} })
	w.addUser("ada")
	w.signedIn("ada")
	etag := w.browser().send("GET", "/oauth2/status/1", "", "").is(200).header.Get("ETag")
	w.browser().send("GET", "/oauth2/status/1", "", "", "If-None-Match", etag, "Prefer", "wait=1").is(304)
	close(gone)
	w.browser().send("GET", "/oauth2/status/1", "", "", "If-None-Match", etag).is(http.StatusServiceUnavailable)
	w.browser().send("GET", "/oauth2/status/1", "", "", "If-None-Match", etag, "Prefer", "wait=1").is(http.StatusServiceUnavailable)
}

func TestReleasedServiceHoldsNoRequest(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	w.signedIn("ada")
	etag := w.browser().send("GET", "/oauth2/status/1", "", "").is(200).header.Get("ETag")
	w.service.ReleaseStatusWaiters()
	w.service.ReleaseStatusWaiters()
	a := w.browser().send("GET", "/oauth2/status/1", "", "", "If-None-Match", etag, "Prefer", "wait=25").is(304)
	if a.header.Get("Preference-Applied") != "" {
		t.Error("a request was held")
	}
}

// slow counts who reads a list, and keeps the first until all have asked.
type slow struct {
	account.Store
	asked, read atomic.Int32
	all         chan struct{}
}

func (s *slow) StatusVersion(ctx context.Context, list int) (int64, error) {
	if s.asked.Add(1) == 32 {
		close(s.all)
	}
	return s.Store.StatusVersion(ctx, list)
}

func (s *slow) RevokedIndices(ctx context.Context, list int) ([]int, error) {
	s.read.Add(1)
	<-s.all
	return s.Store.RevokedIndices(ctx, list)
}

// A change wakes every waiting request; one of them reads the list.
func TestWaitingRequestsReadAChangedListOnce(t *testing.T) {
	w := newWorld(t)
	st := &slow{Store: w.store, all: make(chan struct{})}
	w.addUser("ada")
	w.signedIn("ada")
	w.start(func(o *account.Options) { o.Store = st })
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if a := w.browser().send("GET", "/oauth2/status/1", "", ""); a.status != http.StatusOK {
				t.Errorf("%d", a.status)
			}
		})
	}
	all.Wait()
	if n := st.read.Load(); n != 1 {
		t.Errorf("the list was read %d times", n)
	}
}
