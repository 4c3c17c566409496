package store_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func version(t *testing.T, s *store.Store, list int) int64 {
	t.Helper()
	v, err := s.StatusVersion(t.Context(), list)
	must(t, err)
	all, err := s.StatusVersions(t.Context())
	must(t, err)
	same(t, fmt.Sprintf("version of list %d, among all %v", list, all), all[list], v)
	return v
}

// Every operation that revokes a session is seen by who keeps a copy of the
// list, and what revokes nothing is not.
func TestRevocationChangesTheVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		addUser(t, s, "root", account.FlagAdmin)
		for i, d := range []struct {
			name string
			bits int // of two sessions
			do   func(u account.User, n account.Session) error
		}{
			{"end of HS256", 2, func(u account.User, n account.Session) error {
				_, err := s.EndHS256Sessions(ctx, noon) // of all users: there are no others yet
				return err
			}},
			{"nothing", 0, func(u account.User, n account.Session) error {
				return s.TouchSessions(ctx, map[string]time.Time{n.ID: noon.Add(time.Hour)})
			}},
			{"another sign-in", 0, func(u account.User, n account.Session) error {
				return s.CreateSession(ctx, newSession(u.Sub), u.PasswordHash, act("session.create"))
			}},
			{"end", 1, func(u account.User, n account.Session) error {
				return s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end"))
			}},
			{"end the others", 1, func(u account.User, n account.Session) error {
				_, err := s.EndSessions(ctx, u.Sub, noon, during(n.ID, act("session.end_others")))
				return err
			}},
			{"change of the password", 2, func(u account.User, n account.Session) error {
				return s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", &n, noon, act("password.change"))
			}},
			{"reset of the password", 2, func(u account.User, n account.Session) error {
				must(t, s.CreateResetCode(ctx, u.Sub, []byte("code "+u.Sub), noon.Add(time.Hour), noon, act("user.reset_code")))
				return s.ResetPassword(ctx, u.Handle, []byte("code "+u.Sub), "new", noon, act("password.reset"))
			}},
			{"suspension", 2, func(u account.User, n account.Session) error {
				return s.Suspend(ctx, u.Sub, "", noon, act("user.suspend"))
			}},
			{"deletion", 2, func(u account.User, n account.Session) error {
				return s.DeleteUser(ctx, u.Sub, noon, act("user.delete"))
			}},
			{"flag taken away", 0, func(u account.User, n account.Session) error {
				_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{"activity": {On: false}}, noon, keeping(act("user.flags")))
				return err
			}},
			{"flag taken away, signing out", 2, func(u account.User, n account.Session) error {
				_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{"activity": {On: false}}, noon, act("user.flags"))
				return err
			}},
			{"flag given, signing out", 0, func(u account.User, n account.Session) error {
				_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{"beta": {On: true}, "none": {On: false}}, noon, act("user.flags"))
				return err
			}},
		} {
			u := addUser(t, s, name("user", i), "activity")
			first, second := signIn(t, s, u), signIn(t, s, u)
			before, revoked := version(t, s, 1), bits(t, s, 1)
			if err := d.do(u, first); err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			after := bits(t, s, 1)
			if n := len(after) - len(revoked); n != d.bits || (version(t, s, 1) != before) != (d.bits > 0) {
				t.Errorf("%s: %d more bits, version %d and then %d", d.name, n, before, version(t, s, 1))
			}
			same(t, fmt.Sprintf("%s: the second session is kept", d.name),
				!slices.Contains(after, second.StatusIndex), d.bits == 0 || d.name == "end")
		}
	})
}

func bits(t *testing.T, s *store.Store, list int) []int {
	t.Helper()
	all, err := s.RevokedIndices(t.Context(), list)
	must(t, err)
	return all
}

func TestEarlierTokenOfASessionIsInTheList(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		first := signIn(t, s, u)
		again := first
		again.AuthTime, again.ExpiresAt, again.TokenHash, again.Algorithm = noon.Add(time.Hour), noon.Add(month+time.Hour), []byte("again"), account.AlgorithmRS256
		must(t, s.Reauthenticate(ctx, &again, u.PasswordHash, act("session.reauthenticate")))
		if again.StatusIndex == first.StatusIndex {
			t.Error("both tokens have one index")
		}
		equal(t, "bits", bits(t, s, 1), []int{first.StatusIndex})
		stored, _, err := s.Session(ctx, first.ID)
		must(t, err)
		if stored.StatusIndex != again.StatusIndex || stored.Algorithm != account.AlgorithmRS256 {
			t.Errorf("stored %+v", stored)
		}
		must(t, s.EndSession(ctx, u.Sub, first.ID, noon.Add(2*time.Hour), act("session.end")))
		want(t, s.Reauthenticate(ctx, &again, u.PasswordHash, act("session.reauthenticate")), account.ErrSessionNotFound)
		both := []int{first.StatusIndex, again.StatusIndex}
		slices.Sort(both)
		equal(t, "both", bits(t, s, 1), both)
	})
}

// An index is given again only when nothing can be mistaken for it any more: every copy
// of the list with its bit has expired, where clocks differ too.
func TestIndexOfARevokedTokenIsNotGivenAgainTooEarly(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) { // alone: the source of randomness is one
		s := storetest.Open(t, dsn)
		ctx, u := t.Context(), addUser(t, s, "ada")
		draws := uint64(1)
		draw := func() account.Session { // wants the same index each time
			n := newSession(u.Sub)
			cryptotest.SetGlobalRandom(t, 1)
			must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
			draws++
			cryptotest.SetGlobalRandom(t, draws) // or the next session had the same id
			return *n
		}
		first := draw()
		refused := func(why string) {
			t.Helper()
			if n := draw(); n.StatusIndex == first.StatusIndex || n.StatusList != 1 {
				t.Errorf("%s: index %d of list %d is given again", why, n.StatusIndex, n.StatusList)
			}
		}
		sweep := func(after time.Duration) int64 {
			t.Helper()
			swept, err := s.Sweep(ctx, noon.Add(month+2*time.Hour+after))
			must(t, err)
			return swept.Revocations
		}
		refused("live")
		must(t, s.EndSession(ctx, u.Sub, first.ID, noon, act("session.end")))
		refused("revoked")
		before := version(t, s, 1)
		if n := sweep(0); n != 0 || version(t, s, 1) == before || len(bits(t, s, 1)) != 0 {
			t.Errorf("%d revocations swept, bits %v", n, bits(t, s, 1))
		}
		refused("bit cleared, copies have it set")
		same(t, "the index is free while copies have its bit", sweep(statuslist.Lifetime+30*time.Minute), 0)
		refused("copies may have it set where clocks differ")
		same(t, "revocations swept", sweep(statuslist.Lifetime+time.Hour), 1)
		same(t, "indexes swept later", sweep(account.NotMeLifetime+25*time.Hour), 0) // with the row of its session
		same(t, "index, again", draw().StatusIndex, first.StatusIndex)
	})
}

func TestListLivesAsLongAsItsLastSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		first := signIn(t, s, u)
		must(t, s.Exec("UPDATE status_lists SET issued = ? WHERE id = 1", store.ListCapacity))
		second := newSession(u.Sub)
		second.ExpiresAt = noon.Add(2 * month)
		must(t, s.CreateSession(ctx, second, u.PasswordHash, act("session.create")))
		if second.StatusList != 2 {
			t.Fatalf("list %d", second.StatusList)
		}
		must(t, s.EndSession(ctx, u.Sub, first.ID, noon, act("session.end")))
		for _, step := range []struct {
			after time.Duration
			lists []int
		}{{month - time.Hour, []int{1, 2}}, {month + 2*time.Hour, []int{1, 2}}, {month + account.NotMeLifetime + 39*time.Hour,
			[]int{2}}, {4 * month, []int{2}}} {
			_, err := s.Sweep(ctx, noon.Add(step.after))
			must(t, err)
			all, err := s.StatusVersions(ctx)
			must(t, err)
			var ids []int
			for id := range all {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			same(t, fmt.Sprintf("after %v", step.after), cmp.Diff(step.lists, ids), "")
		}
		_, err := s.StatusVersion(ctx, 1)
		want(t, err, statuslist.ErrNotFound)
	})
}

// An instance of the version before, still running beside this one, ends
// sessions without a word to the list.
func TestSessionEndedByAnEarlierVersionIsInTheList(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		signIn(t, s, u)
		before := version(t, s, 1)
		must(t, s.Exec("UPDATE sessions SET ended_at = ? WHERE id = ?", noon.Unix(), n.ID))
		// Several instances sweep at once.
		for _, err := range race(8, func(int) error {
			_, err := s.Sweep(ctx, noon.Add(time.Minute))
			return err
		}) {
			must(t, err)
		}
		if diff := cmp.Diff([]int{n.StatusIndex}, bits(t, s, 1)); diff != "" || version(t, s, 1) == before {
			t.Error(diff)
		}
	})
}

// The session moved on to another list; what is left in the first is a revocation.
func TestListWithOnlyARevocationIsNotSwept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		must(t, s.Exec("UPDATE status_lists SET issued = ? WHERE id = 1", store.ListCapacity))
		must(t, s.Reauthenticate(ctx, &n, u.PasswordHash, act("session.reauthenticate")))
		if n.StatusList != 2 {
			t.Fatalf("list %d", n.StatusList)
		}
		_, err := s.Sweep(ctx, noon.Add(time.Hour))
		must(t, err)
		same(t, "the revocation is gone", len(bits(t, s, 1)), 1)
		version(t, s, 1)
	})
}

func TestEndOfHS256KeepsOtherSessions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for i := range 3 {
			u := addUser(t, s, name("user", i))
			for _, algorithm := range []string{"HS256", "RS256", ""} {
				n := newSession(u.Sub)
				n.Algorithm = algorithm
				must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
			}
		}
		live, last, err := s.HS256Sessions(ctx, noon)
		must(t, err)
		if live != 6 || !last.Equal(noon.Add(month)) {
			t.Errorf("%d sessions, the last until %v", live, last)
		}
		n, err := s.EndHS256Sessions(ctx, noon)
		must(t, err)
		if live, last, err = s.HS256Sessions(ctx, noon); err != nil || live != 0 || !last.IsZero() || n != 6 ||
			len(bits(t, s, 1)) != 6 {
			t.Errorf("%d ended, %d left until %v, error %v", n, live, last, err)
		}
		until := noon.Add(month)
		want(t, s.SetHS256Until(ctx, until, act("keys.migrate")), account.ErrNotInitialized)
		_, err = s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		must(t, s.SetHS256Until(ctx, until, act("keys.migrate")))
		settings, err := s.Settings(ctx)
		must(t, err)
		_, err = s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.InstanceName = "Club"; return "instance_name", nil }, act("settings.update"))
		must(t, err)
		if settings, err = s.Settings(ctx); err != nil || !settings.HS256Until.Equal(until) {
			t.Errorf("until %v, error %v", settings.HS256Until, err)
		}
	})
}

func TestTokensOfAKeyAreKnown(t *testing.T) {
	for name, issue := range map[string]func(*testing.T, *store.Store, account.Session){
		"session": func(t *testing.T, s *store.Store, n account.Session) {
			other := newSession(n.Sub)
			other.Algorithm = account.AlgorithmRS256
			must(t, s.CreateSession(t.Context(), other, "hash of ada", act("session.create")))
		},
		"grant": func(t *testing.T, s *store.Store, n account.Session) {
			addCode(t, s, newGrant(addClient(t, s, "app"), n, "openid"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				n := signIn(t, s, addUser(t, s, "ada")) // with the shared secret
				if issued, err := s.IssuedRS256(t.Context()); issued || err != nil {
					t.Errorf("before: %v, %v", issued, err)
				}
				issue(t, s, n)
				if issued, err := s.IssuedRS256(t.Context()); !issued || err != nil {
					t.Errorf("after: %v, %v", issued, err)
				}
			})
		})
	}
}
