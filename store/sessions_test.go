package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestSessionComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada", "activity")
		n := newSession(u.Sub)
		n.AuthTime, n.LastSeenAt, n.ConfirmedAt = noon.Add(time.Second), noon.Add(2*time.Second), noon.Add(time.Second)
		must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
		got, owner, err := s.Session(t.Context(), n.ID)
		must(t, err)
		equal(t, "n", got, *n)
		u.LastLoginAt = n.AuthTime
		equal(t, "u", owner, u)
		got, owner, err = s.SessionByLoginHash(t.Context(), n.LoginHash)
		must(t, err)
		if got.ID != n.ID || owner.Sub != u.Sub {
			t.Errorf("by login hash: %+v of %+v", got, owner)
		}
		bare := newSession(u.Sub)
		bare.LoginHash = nil
		must(t, s.CreateSession(t.Context(), bare, u.PasswordHash, act("session.create")))
		other := newSession(u.Sub)
		other.LoginHash = nil // two without one do not clash
		must(t, s.CreateSession(t.Context(), other, u.PasswordHash, act("session.create")))
	})
}

func TestNoSessionStartsAfterWhatWouldEndIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		operations := map[string]func(u account.User) error{
			"suspend": func(u account.User) error { return s.Suspend(ctx, u.Sub, "", noon, act("user.suspend")) },
			"password": func(u account.User) error {
				return s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", nil, noon, act("password.change"))
			},
			"delete": func(u account.User) error { return s.DeleteUser(ctx, u.Sub, noon, act("user.delete")) },
		}
		for operation, do := range operations {
			for round := range 6 {
				u := addUser(t, s, name(operation, round))
				again := signIn(t, s, u)
				sessions := make([]*account.Session, 8)
				errs := race(9, func(i int) error {
					if i == 8 {
						return do(u)
					}
					sessions[i] = newSession(u.Sub)
					if i == 7 {
						sessions[i] = &again
						return s.Reauthenticate(ctx, sessions[i], u.PasswordHash, act("session.reauthenticate"))
					}
					return s.CreateSession(ctx, sessions[i], u.PasswordHash, act("session.create"))
				})
				must(t, errs[8])
				wins(t, errs, account.ErrSuspended, account.ErrInvalidCredentials, account.ErrUserNotFound,
					account.ErrSessionNotFound)
				for _, n := range sessions {
					if live(t, s, n.ID) {
						t.Fatalf("%s, round %d: a session lives", operation, round)
					}
				}
				if err := s.CreateSession(ctx, newSession(u.Sub), u.PasswordHash, act("session.create")); err == nil {
					t.Fatalf("%s: signed in afterwards", operation)
				}
			}
		}
	})
}

// Whatever a handler forgets: the password alone makes no session of who has a second factor.
func TestSecondFactorIsAConditionOfEverySession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		must(t, s.Exec("UPDATE users SET second_factor = ? WHERE sub = ?", true, u.Sub))
		want(t, s.CreateSession(ctx, newSession(u.Sub), u.PasswordHash, act("session.create")), account.ErrSecondFactorRequired)
		want(t, s.Reauthenticate(ctx, &n, u.PasswordHash, act("session.reauthenticate")), account.ErrSecondFactorRequired)
		both := newSession(u.Sub)
		both.AMR = []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
		must(t, s.CreateSession(ctx, both, u.PasswordHash, act("session.create")))
		alone := newSession(u.Sub)
		alone.AMR = []string{account.MethodPassword}
		want(t, s.CreateSession(ctx, alone, "wrong", act("session.create")), account.ErrInvalidCredentials)
		must(t, s.Exec("UPDATE users SET password_disowned_at = 1"))
		want(t, s.CreateSession(ctx, alone, u.PasswordHash, act("session.create")), account.ErrInvalidCredentials)
	})
}

func TestSigningInAgainDoesNotReviveASession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, other := t.Context(), addUser(t, s, "ada"), addUser(t, s, "bob")
		n := signIn(t, s, u)
		fresh := n
		fresh.AuthTime, fresh.ExpiresAt, fresh.TokenHash, fresh.LoginHash = noon.Add(time.Hour), noon.Add(time.Hour+month), []byte("t2"), []byte("l2")
		fresh.LastSeenAt, fresh.Address, fresh.UserAgent = noon.Add(time.Hour), "192.0.2.9", "Other/2"
		fresh.ConfirmedAt = fresh.AuthTime
		must(t, s.Reauthenticate(ctx, &fresh, u.PasswordHash, act("session.reauthenticate")))
		got, owner, err := s.Session(ctx, n.ID)
		must(t, err)
		equal(t, "fresh", got, fresh)
		if !owner.LastLoginAt.Equal(fresh.AuthTime) {
			t.Errorf("last login %v", owner.LastLoginAt)
		}
		want(t, s.Reauthenticate(ctx, &fresh, "wrong", act("session.reauthenticate")), account.ErrInvalidCredentials)
		foreign := fresh
		foreign.Sub = other.Sub
		want(t, s.Reauthenticate(ctx, &foreign, other.PasswordHash, act("session.reauthenticate")), account.ErrSessionNotFound)
		late := fresh
		late.AuthTime = fresh.ExpiresAt
		want(t, s.Reauthenticate(ctx, &late, u.PasswordHash, act("session.reauthenticate")), account.ErrSessionNotFound)
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
		want(t, s.Reauthenticate(ctx, &fresh, u.PasswordHash, act("session.reauthenticate")), account.ErrSessionNotFound)
		if live(t, s, n.ID) {
			t.Error("the session lives again")
		}
	})
}

func TestSigningOutKeepsOnlyOfflineGrants(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		tokens := func(n account.Session, scopes ...string) string {
			g := newGrant(c, n, scopes...)
			must(t, spendCode(ctx, s, addCode(t, s, g)))
			access, _ := addTokens(t, s, g)
			return access
		}
		usable := func(token string) bool {
			_, err := useToken(ctx, s, token)
			if err != nil && !errors.Is(err, provider.ErrSpent) {
				t.Fatal(err)
			}
			return err == nil
		}
		one, two, three := signIn(t, s, u), signIn(t, s, u), signIn(t, s, u)
		online, offline, elsewhere, third := tokens(one, "openid"), tokens(one, "openid", "offline_access"), tokens(two, "openid"), tokens(three, "openid")
		unspent := addCode(t, s, newGrant(c, one, "openid", "offline_access"))
		want(t, s.EndSession(ctx, addUser(t, s, "bob").Sub, one.ID, noon, act("session.end")), account.ErrSessionNotFound)
		must(t, s.EndSession(ctx, u.Sub, one.ID, noon, act("session.end")))
		want(t, s.EndSession(ctx, u.Sub, one.ID, noon, act("session.end")), account.ErrSessionNotFound)
		if usable(online) || !usable(offline) || !usable(elsewhere) {
			t.Errorf("after sign-out: online %v, offline %v, other session %v", usable(online), usable(offline), usable(elsewhere))
		}
		// The client would not be notified of a grant that begins after the sign-out.
		_, err := useCode(ctx, s, unspent)
		want(t, err, provider.ErrSpent)
		n, err := s.EndSessions(ctx, u.Sub, noon, during(two.ID, act("session.end_others")))
		must(t, err)
		if n != 1 || usable(third) || usable(offline) || !usable(elsewhere) || live(t, s, three.ID) ||
			!live(t, s, two.ID) {
			t.Errorf("ended %d others; third %v, kept %v", n, usable(third), usable(elsewhere))
		}
		n, err = s.EndSessions(ctx, u.Sub, noon, during("", act("session.end_others")))
		must(t, err)
		if n != 1 || live(t, s, two.ID) || usable(elsewhere) {
			t.Errorf("ended %d of all", n)
		}
	})
}

func TestListsShowLiveSessionsOnly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		var ids []string
		for i := range 3 {
			n := newSession(u.Sub)
			n.CreatedAt = noon.Add(time.Duration(i) * time.Minute)
			must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
			ids = append([]string{n.ID}, ids...)
		}
		ended, expired := signIn(t, s, u), newSession(u.Sub)
		must(t, s.EndSession(ctx, u.Sub, ended.ID, noon, act("session.end")))
		expired.ExpiresAt = noon
		must(t, s.CreateSession(ctx, expired, u.PasswordHash, act("session.create")))
		var got []string
		list, err := s.Sessions(ctx, u.Sub, noon)
		must(t, err)
		for _, n := range list {
			got = append(got, n.ID)
		}
		equal(t, "ids", got, ids)
	})
}

func TestVisitsAreNotedOfLiveSessionsOnly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n, other := signIn(t, s, u), signIn(t, s, u)
		batch := map[string]time.Time{n.ID: noon.Add(time.Minute), other.ID: noon.Add(time.Second), "": noon, "unknown": noon, "\xff\x00": noon}
		for i := range 2500 {
			batch[name("nobody ", i)] = noon
		}
		must(t, s.TouchSessions(ctx, batch))
		// late, and not
		must(t, s.TouchSessions(ctx, map[string]time.Time{n.ID: noon, other.ID: noon.Add(3 * time.Second)}))
		must(t, s.TouchSessions(ctx, nil))
		got, _, err := s.Session(ctx, other.ID)
		must(t, err)
		if !got.LastSeenAt.Equal(noon.Add(3 * time.Second)) {
			t.Errorf("the other at %v", got.LastSeenAt)
		}
		got, _, err = s.Session(ctx, n.ID)
		must(t, err)
		if got.Address != n.Address || !got.LastSeenAt.Equal(noon.Add(time.Minute)) {
			t.Errorf("%s at %v", got.Address, got.LastSeenAt)
		}
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon.Add(time.Hour), act("session.end")))
		must(t, s.TouchSessions(ctx, map[string]time.Time{n.ID: noon.Add(2 * time.Hour)}))
		got, _, err = s.Session(ctx, n.ID)
		must(t, err)
		if !got.LastSeenAt.Equal(noon.Add(time.Minute)) {
			t.Errorf("a visit after its end: %v", got.LastSeenAt)
		}
	})
}

func TestStatusListIndexIsUnique(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		_, err := s.StatusVersion(ctx, 1)
		want(t, err, statuslist.ErrNotFound)
		var users [16]account.User // one for each, or they would wait for one another
		for i := range users {
			users[i] = addUser(t, s, name("user", i))
		}
		seen := make(chan string, 64)
		errs := race(16, func(i int) error {
			for range 4 {
				n := newSession(users[i].Sub)
				if err := s.CreateSession(ctx, n, users[i].PasswordHash, act("session.create")); err != nil {
					return err
				}
				if n.StatusIndex < 0 || n.StatusIndex >= statuslist.Size || n.StatusList != 1 {
					return fmt.Errorf("index %d of list %d", n.StatusIndex, n.StatusList)
				}
				seen <- name(n.StatusList, "/", n.StatusIndex)
			}
			return nil
		})
		wins(t, errs)
		close(seen)
		all := map[string]bool{}
		for place := range seen {
			all[place] = true
		}
		same(t, "64 sessions have, places", len(all), 64)
		// A list is full but for one: the next ones go to the next list, also
		// when several find that out at once.
		for full := 1; full <= 5; full++ {
			must(t, s.Exec("UPDATE status_lists SET issued = ? WHERE id = ?", store.ListCapacity-1, full))
			var lists [16]int
			wins(t, race(16, func(i int) error {
				n := newSession(users[i].Sub)
				err := s.CreateSession(ctx, n, users[i].PasswordHash, act("session.create"))
				lists[i] = n.StatusList
				return err
			}))
			slices.Sort(lists[:])
			if lists[0] != full || lists[1] != full+1 || lists[15] != full+1 {
				t.Errorf("one index was left in list %d, the sessions are in %v", full, lists)
			}
		}
	})
}

func TestStatusListNamesEndedSessionsUntilTheyExpire(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		none, err := s.RevokedIndices(ctx, n.StatusList)
		must(t, err)
		same(t, fmt.Sprintf("revoked %v", none), len(none), 0)
		must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
		revoked, err := s.RevokedIndices(ctx, n.StatusList)
		must(t, err)
		equal(t, "revoked", revoked, []int{n.StatusIndex})
		// A verifier's clock may be behind: what has just expired is still in the list, and leaves it
		// together with its version.
		before := version(t, s, n.StatusList)
		_, err = s.Sweep(ctx, n.ExpiresAt.Add(30*time.Minute))
		must(t, err)
		if late := bits(t, s, n.StatusList); len(late) != 1 || version(t, s, n.StatusList) != before {
			t.Errorf("half an hour after expiry: %v", late)
		}
		_, err = s.Sweep(ctx, n.ExpiresAt.Add(2*time.Hour))
		must(t, err)
		if later := bits(t, s, n.StatusList); len(later) != 0 || version(t, s, n.StatusList) == before {
			t.Errorf("two hours after expiry: %v", later)
		}
	})
}

// Sign-ins at the same time over two instances leave MaxSessions live sessions, and
// the oldest of the address that has most end as those that are signed out.
func TestTooManySessionsEndTheOldest(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		ctx, s := t.Context(), instances[0]
		u, c := addUser(t, s, "ada"), addTelling(t, s, "app")
		bob := signIn(t, s, addUser(t, s, "bob"))
		var earlier []*account.Session
		owners := newSession(u.Sub)
		owners.CreatedAt, owners.Address, owners.KnownSince = noon.Add(-24*time.Hour), "203.0.113.9", noon.Add(-48*time.Hour)
		must(t, s.CreateSession(ctx, owners, u.PasswordHash, act("session.create")))
		for i := range account.MaxSessions - 1 {
			n := newSession(u.Sub)
			n.CreatedAt = noon.Add(time.Duration(i-account.MaxSessions) * time.Minute)
			must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
			earlier = append(earlier, n)
		}
		online, offline := newGrant(c, *earlier[0], "openid"), newGrant(c, *earlier[0], "openid", "offline_access")
		var tokens []string
		for _, g := range []*provider.Grant{online, offline} {
			must(t, spendCode(ctx, s, addCode(t, s, g)))
			access, _ := addTokens(t, s, g)
			tokens = append(tokens, access)
		}
		const more = 20
		wins(t, race(more, func(i int) error {
			return instances[i%2].CreateSession(ctx, newSession(u.Sub), u.PasswordHash, act("session.create"))
		}))
		for i, n := range earlier {
			same(t, fmt.Sprintf("session %d of %d lives: %t", i, len(earlier), i < more), live(t, s, n.ID), i >= more)
		}
		list, err := s.Sessions(ctx, u.Sub, noon)
		must(t, err)
		revoked, err := s.RevokedIndices(ctx, earlier[0].StatusList)
		must(t, err)
		if len(list) != account.MaxSessions || len(revoked) != more ||
			!slices.Contains(revoked, earlier[0].StatusIndex) || !live(t, s, bob.ID) || !live(t, s, owners.ID) {
			t.Errorf("%d sessions, %d tokens revoked", len(list), len(revoked))
		}
		_, err = useToken(ctx, s, tokens[0])
		want(t, err, provider.ErrSpent)
		_, err = useToken(ctx, s, tokens[1]) // offline access outlives the session
		must(t, err)
		equal(t, "notices", notices(t, s, u.Sub), []string{"app " + earlier[0].ID})
	})
}

// The link of a notice ends everything once; again it only gives another code, for a while.
func TestDisownedSessionLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, h := t.Context(), equip(t, s, "ada")
		must(t, s.EndSession(ctx, h.user.Sub, h.session.ID, noon, act("session.end")))
		_, err := s.DisownSession(ctx, h.user.Sub, h.session.ID, h.user.Email, account.ResetCode{}, time.Hour, noon, act("session.not_me"))
		want(t, err, account.ErrInvalidLink) // the address is not verified
		must(t, s.Exec("UPDATE users SET email_verified = (1 = 1)"))
		at, by := noon.Add(time.Minute), act("session.not_me")
		for i := range 2 { // a link is opened twice
			code := account.NewResetCode(at)
			out, err := s.DisownSession(ctx, h.user.Sub, h.session.ID, h.user.Email, code, time.Hour, at, by)
			must(t, err)
			valid, err := s.ResetCodeValid(ctx, "ada", code.Hash, at)
			must(t, err)
			if !out.Since.Equal(noon) || !valid {
				t.Errorf("%d: since %v, its code is valid: %t", i, out.Since, valid)
			}
			at = at.Add(time.Hour)
		}
		checkTaken(t, s, h)
		code := account.NewResetCode(at)
		_, err = s.DisownSession(ctx, h.user.Sub, h.session.ID, h.user.Email, code, time.Hour, at, by)
		want(t, err, account.ErrInvalidLink) // after an hour
		n := newSession(h.user.Sub)
		n.AMR = []string{account.MethodPassword}
		want(t, s.CreateSession(ctx, n, h.user.PasswordHash, act("session.create")), account.ErrInvalidCredentials)
		must(t, s.ChangePassword(ctx, h.user.Sub, h.user.PasswordHash, "new", nil, at, act("password.change")))
		must(t, s.CreateSession(ctx, n, "new", act("session.create")))
	})
}

// The link of a notice outlives a session on a shared computer, whose row stays for it.
func TestDisownedSessionThatHasExpiredIsDisownedOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		must(t, s.Exec("UPDATE users SET email_verified = (1 = 1)"))
		n := newSession(u.Sub)
		n.ExpiresAt = noon.Add(account.SharedLifetime)
		must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
		at := noon.Add(24 * time.Hour)
		swept, err := s.Sweep(ctx, at)
		must(t, err)
		if swept.Sessions != 0 {
			t.Fatalf("%d sessions swept", swept.Sessions)
		}
		disown := func() error {
			_, err := s.DisownSession(ctx, u.Sub, n.ID, u.Email, account.NewResetCode(at), time.Hour, at, act("session.not_me"))
			return err
		}
		must(t, disown())
		must(t, disown()) // the page is loaded again
		must(t, s.ChangePassword(ctx, u.Sub, u.PasswordHash, "new", nil, at, act("password.change")))
		at = at.Add(6 * 24 * time.Hour)
		_, err = s.Sweep(ctx, at)
		must(t, err)
		want(t, disown(), account.ErrInvalidLink)
		must(t, s.CreateSession(ctx, newSession(u.Sub), "new", act("session.create")))
	})
}

// A computer that others use too makes its address no known face of the member.
func TestAddressOfASharedComputerIsNotKnown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for handle, c := range map[string]struct {
			lifetime time.Duration
			known    bool
		}{"shared": {account.SharedLifetime, false}, "own": {24 * time.Hour, true}} {
			u := addUser(t, s, handle)
			n := newSession(u.Sub)
			n.ExpiresAt = n.AuthTime.Add(c.lifetime)
			must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
			known, err := s.KnownAddress(t.Context(), u.Sub, n.Address, noon.Add(-time.Hour))
			if must(t, err); known != c.known {
				t.Errorf("%s: known %t", handle, known)
			}
		}
	})
}

// The passkey of a confirmation is that of the session from then on.
func TestSigningInAgainStoresThePasskey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		must(t, addPasskey(t, s, newPasskey(u.Sub, "key"), 20))
		must(t, addPasskey(t, s, newPasskey(u.Sub, "another key"), 20))
		n := newSession(u.Sub)
		n.AMR, n.Passkey = []string{account.MethodUser, account.MethodMultiFactor}, []byte("key")
		must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
		n.Passkey = []byte("another key")
		must(t, s.Reauthenticate(t.Context(), n, u.PasswordHash, act("session.again")))
		if read, _, err := s.Session(t.Context(), n.ID); err != nil || string(read.Passkey) != "another key" {
			t.Errorf("passkey %q, %v", read.Passkey, err)
		}
	})
}

// A code that no client has spent ends with the session, whatever it was for.
func TestSigningOutEndsCodesThatNobodyHasSpent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		h := equip(t, s, "ada")
		must(t, s.EndSession(t.Context(), h.user.Sub, h.session.ID, noon, during(h.session.ID, act("session.sign_out"))))
		want(t, spendCode(t.Context(), s, h.code), provider.ErrSpent)
	})
}

// One key, of one sign-in, is bound, and what another key proves changes nothing.
func TestSessionIsBoundToOneKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		stored := func() account.Session {
			t.Helper()
			got, _, err := s.Session(ctx, n.ID)
			must(t, err)
			return got
		}
		bound, other, late := n, n, n
		bound.DeviceKey, other.DeviceKey, late.DeviceKey = []byte{4, 0, 1}, []byte{4, 0, 2}, []byte{4, 0, 3}
		late.AuthTime = late.AuthTime.Add(time.Second)
		want(t, s.BindDevice(ctx, late, act("session.bind")), account.ErrSessionNotFound)
		must(t, s.ProveDevice(ctx, bound, noon))
		if stored().Bound() {
			t.Error("bound without a key")
		}
		must(t, s.BindDevice(ctx, bound, act("session.bind")))
		want(t, s.BindDevice(ctx, other, act("session.bind")), account.ErrSessionNotFound)
		must(t, s.ProveDevice(ctx, other, noon))
		if got := stored(); got.Bound() || !cmp.Equal(got.DeviceKey, bound.DeviceKey) {
			t.Errorf("after the proof of another key: %+v", got)
		}
		must(t, s.ProveDevice(ctx, bound, noon))
		must(t, s.ProveDevice(ctx, bound, noon.Add(time.Hour)))
		fresh := n
		fresh.AuthTime, fresh.TokenHash, fresh.LoginHash = noon.Add(time.Minute), []byte("t2"), []byte("l2")
		must(t, s.Reauthenticate(ctx, &fresh, u.PasswordHash, act("session.reauthenticate")))
		if got := stored(); !got.DeviceProvenAt.Equal(noon) || !cmp.Equal(got.DeviceKey, bound.DeviceKey) {
			t.Errorf("after another sign-in: %+v", got)
		}
		ended := signIn(t, s, u)
		must(t, s.EndSession(ctx, u.Sub, ended.ID, noon, act("session.end")))
		ended.DeviceKey = []byte{4}
		want(t, s.BindDevice(ctx, ended, act("session.bind")), account.ErrSessionNotFound)
	})
}
