package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func newPasskey(sub, id string) account.Passkey {
	return account.Passkey{
		ID: []byte(id), Sub: sub, Name: id, PublicKey: []byte{0, 1}, AAGUID: make([]byte, 16), Transports: []string{"internal", "hybrid"}, Attachment: "platform",
		SignCount: 4_000_000_000, BackupEligible: true, BackupState: true, CreatedAt: noon,
	}
}

func TestPasskeysOfAUser(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, other := t.Context(), addUser(t, s, "ada"), addUser(t, s, "bob")
		k := newPasskey(u.Sub, "key")
		must(t, addPasskey(t, s, k, 20))
		want(t, addPasskey(t, s, newPasskey(other.Sub, "key"), 20), account.ErrPasskeyExists)
		got, owner, err := s.Passkey(ctx, []byte("key"))
		must(t, err)
		if fmt.Sprint(got) != fmt.Sprint(k) || owner.Handle != "ada" || !owner.SecondFactor {
			t.Errorf("%+v of %+v, want %+v", got, owner, k)
		}
		_, _, err = s.Passkey(ctx, []byte("KEY"))
		want(t, err, account.ErrPasskeyNotFound)
		_, _, err = s.Passkey(ctx, nil)
		want(t, err, account.ErrPasskeyNotFound)
		want(t, s.RenamePasskey(ctx, other.Sub, k.ID, "mine", act("factor.rename")), account.ErrPasskeyNotFound)
		must(t, s.RenamePasskey(ctx, u.Sub, k.ID, "mine", act("factor.rename")))
		want(t, s.RemovePasskey(ctx, other.Sub, k.ID, oldFactor("")), account.ErrPasskeyNotFound)

		must(t, addPasskey(t, s, newPasskey(u.Sub, "second"), 20))
		must(t, s.RemovePasskey(ctx, u.Sub, k.ID, oldFactor("")))
		if _, u, err = s.Passkey(ctx, []byte("second")); err != nil || !u.SecondFactor {
			t.Errorf("no second factor while there is a passkey: %v", err)
		}
		must(t, s.RemovePasskey(ctx, u.Sub, []byte("second"), oldFactor("")))
		if u, err = s.UserBySub(ctx, u.Sub); err != nil || u.SecondFactor {
			t.Errorf("a second factor after the last passkey: %v", err)
		}
		want(t, s.RemovePasskey(ctx, u.Sub, []byte("second"), oldFactor("")), account.ErrPasskeyNotFound)

		must(t, addPasskey(t, s, k, 20))
		must(t, s.DeleteUser(ctx, u.Sub, noon, act("user.delete")))
		_, _, err = s.Passkey(ctx, k.ID)
		want(t, err, account.ErrPasskeyNotFound)
		must(t, addPasskey(t, s, newPasskey(other.Sub, "key"), 20)) // the row is gone, not only its owner
		want(t, addPasskey(t, s, newPasskey(u.Sub, "late"), 20), account.ErrUserNotFound)
	})
}

func TestPasskeyLimitHoldsUnderConcurrency(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		errs := race(6, func(i int) error { return addPasskey(t, s, newPasskey(u.Sub, fmt.Sprint(i)), 2) })
		same(t, "passkeys were added", wins(t, errs, account.ErrPasskeyLimit), 2)
	})
}

// Of two uses with one count, one is of a copy: who comes second is told of.
func TestSignCountRisesOrIsTold(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		k := newPasskey(u.Sub, "key")
		k.SignCount, k.BackupState = 0, false
		must(t, addPasskey(t, s, k, 20))
		for _, c := range []struct {
			count uint32
			back  bool
		}{{0, false}, {0, false}, {4_000_000_000, false}, {4_000_000_000, true}, {7, true}, {8, false}, {0,
			true}, {0, false}} {
			k.SignCount, k.BackupState, k.LastUsedAt = c.count, c.back, noon.Add(time.Duration(c.count)*time.Second)
			back, err := s.UsePasskey(t.Context(), k, act("factor.counter"))
			must(t, err)
			got, _, err := s.Passkey(t.Context(), k.ID)
			must(t, err)
			if back != c.back || fmt.Sprint(got) != fmt.Sprint(k) {
				t.Errorf("count %d: back %t, %+v, want %+v", c.count, back, got, k)
			}
		}
		rows, err := s.AuditLog(t.Context(), account.AuditQuery{Kind: "factor.counter", Limit: 10})
		must(t, err)
		same(t, "told of times", len(rows), 3)
		k.ID = []byte("none")
		_, err = s.UsePasskey(t.Context(), k, act("factor.counter"))
		want(t, err, account.ErrPasskeyNotFound)

		k = newPasskey(u.Sub, "raced")
		k.SignCount = 1
		must(t, addPasskey(t, s, k, 20))
		k.SignCount = 2
		errs := race(4, func(int) error {
			back, err := s.UsePasskey(t.Context(), k, act("factor.counter"))
			if err == nil && back {
				return errSpent
			}
			return err
		})
		same(t, "one count was new, times", wins(t, errs, errSpent), 1)
	})
}

func addPasskey(t *testing.T, s *store.Store, k account.Passkey, limit int) error {
	t.Helper()
	_, err := s.AddPasskey(t.Context(), k, limit, newFactor(""))
	return err
}

// A sign-in with a passkey that is removed between its proof and its session opens none: the owner
// removes a stolen one to lock its thief out.
func TestRemovedPasskeyOpensNoSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		k := newPasskey(u.Sub, "stolen")
		must(t, addPasskey(t, s, k, 20))
		must(t, addPasskey(t, s, newPasskey(u.Sub, "kept"), 20))
		_, owner, err := s.Passkey(ctx, k.ID) // the proof reads the user
		must(t, err)
		k.SignCount++
		_, err = s.UsePasskey(ctx, k, act("factor.counter"))
		must(t, err)
		must(t, s.RemovePasskey(ctx, u.Sub, k.ID, oldFactor(""))) // by the owner, ends all other sessions
		n := newSession(u.Sub)
		n.AMR, n.Passkey = []string{account.MethodSoftwareKey, account.MethodUser, account.MethodMultiFactor}, k.ID
		want(t, s.CreateSession(ctx, n, owner.PasswordHash, act("session.create")), account.ErrInvalidPasskey)
	})
}

// What an earlier version added belongs to the host of the issuer; what was made for another one is
// counted and kept.
func TestPasskeysBelongToAHost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, ada, bob := t.Context(), addUser(t, s, "ada"), addUser(t, s, "bob")
		add := func(sub, id, rpID string) {
			k := newPasskey(sub, id)
			k.RPID = rpID
			must(t, addPasskey(t, s, k, 20))
		}
		add(ada.Sub, "earlier", "")
		must(t, s.StampPasskeys(ctx, "id.example.org"))
		add(ada.Sub, "new", "example.org")
		add(bob.Sub, "unstamped", "")
		before, after := account.PasskeyHosts("https://id.example.org"), account.PasskeyHosts("https://login.example.org/x")
		check := func(hosts []string, elsewhere account.PasskeysElsewhere, older string, has bool) {
			t.Helper()
			got, err := s.PasskeysElsewhere(ctx, hosts)
			must(t, err)
			host, err := s.OlderPasskeyHost(ctx, hosts, "example.org")
			must(t, err)
			found, err := s.HasPasskey(ctx, bob.Sub, hosts)
			must(t, err)
			if got != elsewhere || host != older || found != has {
				t.Errorf("%q: %+v, older %q, bob %t", hosts, got, host, found)
			}
		}
		check(before, account.PasskeysElsewhere{}, "id.example.org", true)
		check(after, account.PasskeysElsewhere{Passkeys: 1, Members: 1}, "", true)
		must(t, s.StampPasskeys(ctx, "id.example.org")) // not those of another host
		check(after, account.PasskeysElsewhere{Passkeys: 2, Members: 2}, "", false)
		f, err := s.Factors(ctx, ada.Sub)
		must(t, err)
		if slices.Sort(f.PasskeyHosts); !slices.Equal(f.PasskeyHosts, []string{"example.org", "id.example.org"}) || f.Passkeys != 2 {
			t.Errorf("%+v", f)
		}
	})
}

// passkeyMember makes a user without a password.
func passkeyMember(t *testing.T, s *store.Store, handle, rpID string) account.User {
	t.Helper()
	u := newUser(handle)
	u.PasswordHash, u.SecondFactor = account.NoPassword, true
	k := newPasskey(u.Sub, "key of "+handle)
	k.RPID = rpID
	first := &account.FirstPasskey{Passkey: k, Codes: []account.RecoveryCode{{Name: "AAAA", Hash: []byte(handle)}}}
	must(t, s.Register(t.Context(), addInvite(t, s, "").Code, u, first, nil, 0, noon, act("user.register")))
	return u
}

// Of a passkey and a password that go at the same time, one stays; and who has neither is no administrator
// that others can rely on.
func TestLastWayInStays(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		ctx, instances := t.Context(), []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		s, hosts := instances[0], []string{"id.example.org"}
		remove := func(u account.User) error {
			o := oldFactor("")
			o.RPIDs = hosts
			return s.RemovePasskey(ctx, u.Sub, []byte("key of "+u.Handle), o)
		}
		for round := range 4 {
			u := addUser(t, s, name("ada", round))
			k := newPasskey(u.Sub, "key of "+u.Handle)
			k.RPID = hosts[0]
			must(t, addPasskey(t, s, k, 20))
			errs := race(2, func(i int) error {
				if i == 0 {
					return remove(u)
				}
				return instances[1].RemovePassword(ctx, u.Sub, u.PasswordHash, hosts, account.NewFactor{Now: noon, Audit: act("password.remove")})
			})
			same(t, "of the two were removed", wins(t, errs, account.ErrLastWayIn), 1)
		}
		eve := passkeyMember(t, s, "eve", hosts[0])
		want(t, remove(eve), account.ErrLastWayIn)
		moved := passkeyMember(t, s, "moved", "old.example.net")
		got, err := s.PasskeysElsewhere(ctx, hosts)
		must(t, err)
		same(t, "got", got, (account.PasskeysElsewhere{Passkeys: 1, Members: 1, LockedOut: 1}))
		same(t, "warning", got.String()+account.PasskeysElsewhere{}.String(), "1 passkeys of 1 members belong to another host; 1 of these members have no other way in than a recovery code")
		want(t, s.RemovePassword(ctx, eve.Sub, "another", hosts, account.NewFactor{Now: noon, Audit: act("password.remove")}), account.ErrInvalidCredentials)
		// A session needs the passkey, whatever was proven otherwise.
		n := newSession(eve.Sub)
		n.AMR = []string{account.MethodPassword}
		want(t, s.CreateSession(ctx, n, account.NoPassword, act("session.create")), account.ErrInvalidCredentials)
		n.AMR, n.Passkey = []string{account.MethodSoftwareKey, account.MethodUser, account.MethodMultiFactor}, []byte("key of eve")
		must(t, s.CreateSession(ctx, n, account.NoPassword, act("session.create")))

		admin := account.FlagChange{account.FlagAdmin: {On: true}}
		_, err = s.SetFlags(ctx, eve.Sub, admin, noon, act("user.flags"))
		must(t, err)
		_, err = s.SetFlags(ctx, moved.Sub, admin, noon, act("user.flags"))
		must(t, err)
		must(t, s.ResetFactors(ctx, moved.Sub, noon, act("user.reset_factors")))
		want(t, s.Suspend(ctx, eve.Sub, "", noon, act("user.suspend")), account.ErrLastAdmin)
	})
}
