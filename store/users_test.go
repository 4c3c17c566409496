package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestUserComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := newUser("ada", "admin", "activity")
		u.EmailVerified, u.LastLoginAt, u.DisplayName, u.Profile = true, noon.Add(time.Second), "Ада 🚴 \\%_'\"", fullProfile()
		must(t, s.CreateUser(t.Context(), u, act("user.create")))
		u.Flags = []string{"activity", "admin"} // sorted
		for _, get := range []func() (account.User, error){
			func() (account.User, error) { return s.UserByHandle(t.Context(), "ada") },
			func() (account.User, error) { return s.UserBySub(t.Context(), u.Sub) },
		} {
			got, err := get()
			must(t, err)
			equal(t, "u", got, u)
		}
	})
}

// a.b and ab are one name: in a race, in one import, and after the deletion of its user.
func TestHandleIsGivenOnceWhateverItsDots(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		spellings := []string{"ada.lovelace", "adalovelace", "a.dalovelace", "ad.alove.lace"}
		errs := race(16, func(i int) error { return s.CreateUser(ctx, newUser(spellings[i%4]), act("user.create")) })
		if n := wins(t, errs, account.ErrHandleTaken); n != 1 {
			t.Fatalf("%d users have one name", n)
		}
		u, err := s.UserByHandle(ctx, "adalovelace")
		must(t, err)
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("hash"), noon.Add(time.Hour), noon, act("reset")))
		for _, typed := range spellings {
			got, err := s.UserByHandle(ctx, typed)
			must(t, err)
			valid, err := s.ResetCodeValid(ctx, typed, []byte("hash"), noon)
			must(t, err)
			taken, err := s.TakenUsers(ctx, []string{typed}, nil, nil)
			must(t, err)
			if got.Sub != u.Sub || !valid || !slices.Equal(taken, []string{u.Handle}) {
				t.Errorf("%s: %s, valid %t, taken %q", typed, got.Handle, valid, taken)
			}
			rows, err := s.AuditLog(ctx, account.AuditQuery{Person: typed, Limit: 10})
			must(t, err)
			if len(rows) != 0 { // they are about others
				t.Errorf("%s: %+v", typed, rows)
			}
		}
		must(t, s.DeleteUser(ctx, u.Sub, noon, account.Audit{Actor: "keeper", Action: "user.delete", Target: u.Handle, At: noon}))
		_, err = s.UserByHandle(ctx, u.Handle)
		want(t, err, account.ErrUserNotFound)
		i := addInvite(t, s, "")
		for _, typed := range spellings {
			want(t, s.CreateUser(ctx, newUser(typed), act("user.create")), account.ErrHandleTaken)
			want(t, s.Register(ctx, i.Code, newUser(typed), nil, nil, 0, noon, act("user.register")), account.ErrHandleTaken)
			want(t, s.AddUsers(ctx, account.Bulk{Users: []account.User{newUser("zoe"), newUser(typed)}}, act("user.import")), account.ErrHandleTaken)
			rows, err := s.AuditLog(ctx, account.AuditQuery{Person: typed, Limit: 10})
			must(t, err)
			if len(rows) != 1 || rows[0].Action != "user.delete" {
				t.Errorf("%s: %+v", typed, rows)
			}
		}
		want(t, s.AddUsers(ctx, account.Bulk{Users: []account.User{newUser("b.o"), newUser("bo")}}, act("user.import")), account.ErrHandleTaken)
		must(t, s.AddUsers(ctx, account.Bulk{Users: []account.User{newUser("bo"), newUser("z.oe")}}, act("user.import")))
		found, _, err := s.Users(ctx, account.UserQuery{Query: "oe"})
		must(t, err)
		if len(found) != 1 || found[0].Handle != "z.oe" {
			t.Errorf("found %+v", found)
		}
		for query, handle := range map[string]string{"zoe": "z.oe", "Zo": "z.oe", "z.oe": "z.oe", "zo.e": "z.oe", "b.o": "bo"} {
			found, _, err := s.Users(ctx, account.UserQuery{Query: query})
			must(t, err)
			if len(found) != 1 || found[0].Handle != handle {
				t.Errorf("%s finds %+v, want %s", query, found, handle)
			}
		}
	})
}

// An empty key must not match the first row, an invalid one must be the same
// refusal on both databases (PostgreSQL takes neither NUL nor broken UTF-8).
func TestInvalidKeysDoNotMatch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		u := addUser(t, s, "ada")
		n := signIn(t, s, u)
		addInvite(t, s, u.Sub)
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("hash"), noon.Add(time.Hour), noon, act("reset")))
		c := addClient(t, s, "app")
		addTokens(t, s, newGrantStored(t, s, c, n))
		for _, key := range []string{"", "\x00", u.Handle + "\x00", "\xff\xfe", "' OR 1=1 --", "%", "_", "1=1"} {
			_, err := s.UserByHandle(ctx, key)
			want(t, err, account.ErrUserNotFound)
			_, err = s.UserBySub(ctx, key)
			want(t, err, account.ErrUserNotFound)
			_, err = s.UserByEmail(ctx, key)
			want(t, err, account.ErrUserNotFound)
			_, _, err = s.Session(ctx, key)
			want(t, err, account.ErrSessionNotFound)
			_, _, err = s.SessionByLoginHash(ctx, []byte(key))
			want(t, err, account.ErrSessionNotFound)
			want(t, s.EndSession(ctx, u.Sub, key, noon, act("session.end")), account.ErrSessionNotFound)
			want(t, s.EndSession(ctx, key, n.ID, noon, act("session.end")), account.ErrSessionNotFound)
			_, err = s.Invite(ctx, key)
			want(t, err, account.ErrInviteNotFound)
			want(t, s.DeleteInvite(ctx, u.Sub, key, act("invite.delete")), account.ErrInviteNotFound)
			want(t, s.DeleteInvite(ctx, key, key, act("invite.delete")), account.ErrInviteNotFound)
			want(t, s.Register(ctx, key, newUser("eve"), nil, nil, 0, noon, act("user.register")), account.ErrInvalidInvite)
			want(t, s.ResetPassword(ctx, key, []byte("hash"), "new", noon, act("password.reset")), account.ErrInvalidResetCode)
			want(t, s.ResetPassword(ctx, u.Handle, []byte(key), "new", noon, act("password.reset")), account.ErrInvalidResetCode)
			want(t, s.ChangePassword(ctx, u.Sub, key, "new", nil, noon, act("password.change")), account.ErrInvalidCredentials)
			want(t, s.CreateSession(ctx, newSession(u.Sub), key, act("session.create")), account.ErrInvalidCredentials)
			want(t, s.CreateSession(ctx, newSession(key), "x", act("session.create")), account.ErrUserNotFound)
			want(t, s.RemoveApp(ctx, u.Sub, key, noon, act("app.remove")), account.ErrAppNotFound)
			want(t, s.Suspend(ctx, key, "", noon, act("x")), account.ErrUserNotFound)
			want(t, s.DeleteUser(ctx, key, noon, act("x")), account.ErrUserNotFound)
			_, err = s.Secret(ctx, key)
			want(t, err, account.ErrNotInitialized)
			known, err := s.KnownAddress(ctx, u.Sub, key, time.Time{})
			must(t, err)
			added, err := s.NewUsersByEmail(ctx, key)
			must(t, err)
			if known || len(added) > 0 {
				t.Errorf("address %q is known, or that of %v", key, added)
			}
			oddGrantKeys(t, s, key)
		}
		want(t, s.SuspendAll(ctx, "", noon, map[string]account.Audit{u.Sub: act("x"), "deleted": act("x")}), account.ErrUserNotFound)
		if !live(t, s, n.ID) {
			t.Error("the session of a bystander ended")
		}
		if got, err := s.UserBySub(ctx, u.Sub); err != nil || got.PasswordHash != u.PasswordHash {
			t.Errorf("the password of a bystander changed: %v", err)
		}
	})
}

func TestSearchFindsTheBeginningsOfWords(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for _, x := range [][3]string{
			{"ada", "Ädam Straße", "ada@example.org"}, {"bob_1", "100% Bob Núñez Łøs", ""}, {"bobx1", "Back\\slash", ""}, {"zoe", "Zoe\u0308", "Z@EXAMPLE.com"},
		} {
			u := newUser(x[0])
			u.DisplayName, u.Email = x[1], x[2]
			must(t, s.CreateUser(t.Context(), u, act("user.create")))
		}
		gone := addUser(t, s, "zed")
		must(t, s.DeleteUser(t.Context(), gone.Sub, noon, act("user.delete")))
		for query, handles := range map[string][]string{
			"": {"ada", "bob_1", "bobx1", "zoe"}, "b_1": {"bob_1"}, "bob_1": {"bob_1"}, "%": nil, `\`: nil, "ÄDAM STRASSE": {"ada"}, "ZOË": {"zoe"},
			"z@example": {"zoe"}, "zed": nil, "' OR 1=1": nil, "\x00": nil, "EXAMPLE": {"ada", "zoe"}, "bo": {"bob_1", "bobx1"}, "ob": nil,
			"stra äd": {"ada"}, "stra zoe": nil, "ada a": {"ada"}, "slash bo": {"bobx1"}, "100": {"bob_1"}, "com z": {"zoe"},
			"adam": {"ada"}, "nunez los": {"bob_1"}, "ŁOS ÑUN": {"bob_1"}, "bäck": {"bobx1"},
		} {
			found, _, err := s.Users(t.Context(), account.UserQuery{Query: query})
			must(t, err)
			same(t, query, cmp.Diff(handles, handlesOf(found), cmpopts.EquateEmpty()), "")
			must(t, s.IndexUsers(t.Context()))
			p, err := s.CountUsers(t.Context(), account.UserQuery{Query: query})
			if p.Total != len(handles) || len(p.Users) != p.Total || !p.Exact || err != nil {
				t.Errorf("%q: %+v, %v", query, p, err)
			}
		}
		// As an instance of a version before accents were folded indexes beside this one.
		must(t, s.Exec("UPDATE user_words SET word = 'núñez' WHERE word = 'nunez'"))
		found, _, err := s.Users(t.Context(), account.UserQuery{Query: "los NÚÑ"})
		must(t, err)
		equal(t, "indexed with accents", handlesOf(found), []string{"bob_1"})
	})
}

func handlesOf(users []account.User) (out []string) {
	for _, u := range users {
		out = append(out, u.Handle)
	}
	return out
}

func TestPagesListEveryUserOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		all := []string{"a-b", "a_b", "aa", "ab", "b", "0", "z9", "z-9", "z_9"}
		for _, h := range all {
			addUser(t, s, h)
		}
		var got []string
		for after := ""; ; {
			page, next, err := s.Users(t.Context(), account.UserQuery{After: after, Limit: 2})
			must(t, err)
			got = append(got, handlesOf(page)...)
			if after = next; next == "" {
				break
			}
		}
		slices.Sort(all) // by bytes, on both databases
		equal(t, "all", got, all)
	})
}

func TestHashUpgradeKeepsANewerPassword(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		must(t, s.UpgradeHash(t.Context(), u.Sub, "some other hash", "stolen"))
		must(t, s.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, "better"))
		must(t, s.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, "late"))
		got, err := s.UserBySub(t.Context(), u.Sub)
		must(t, err)
		same(t, "hash", got.PasswordHash, "better")
	})
}

func TestForeignHashesAreFoundInTheOrderOfTheirBytes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, left := t.Context(), addUser(t, s, "left")
		must(t, s.UpgradeHash(ctx, left.Sub, left.PasswordHash, "$2b$12$left"))
		must(t, s.DeleteUser(ctx, left.Sub, noon, act("user.delete")))
		for i, hash := range []string{"$scrypt$b", "$2b$12$x", "$argon2id$v=19$m=19456,t=2,p=1$c$d", "$argon2id$v=19$m=64,t=1,p=1$c$d", "$2b$12$X", "$SCRYPT$b"} {
			u := addUser(t, s, fmt.Sprint("ada", i))
			must(t, s.UpgradeHash(ctx, u.Sub, u.PasswordHash, hash))
		}
		var got []string
		for after := ""; ; {
			hash, err := s.ForeignHash(ctx, after)
			must(t, err)
			if hash == "" {
				break
			}
			got, after = append(got, hash), hash
		}
		want := []string{"$2b$12$X", "$2b$12$x", "$SCRYPT$b", "$argon2id$v=19$m=64,t=1,p=1$c$d", "$scrypt$b"}
		equal(t, "got", got, want)
	})
}

func TestPreferencesHoldTheirLimit(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		text := func(v string) *string { return &v }
		empty, err := s.Preferences(ctx, u.Sub)
		must(t, err)
		if empty == nil || len(empty) != 0 {
			t.Errorf("%v, want an empty map", empty)
		}
		got, err := s.MergePreferences(ctx, u.Sub, map[string]*string{"a": text("1"), "b": text("")}, 2, account.Audit{})
		must(t, err)
		equal(t, "got", got, map[string]string{"a": "1", "b": ""})
		_, err = s.MergePreferences(ctx, u.Sub, map[string]*string{"a": text("2"), "c": text("3")}, 2, account.Audit{})
		want(t, err, account.ErrInvalidPreference)
		for _, bad := range []map[string]*string{{"": text("x")}, {"\x00": text("x")}, {"x": text("\x00")}, {"x": text("\xff")}} {
			_, err = s.MergePreferences(ctx, u.Sub, bad, 10, account.Audit{})
			want(t, err, account.ErrInvalidPreference)
		}
		errs := race(16, func(i int) error {
			_, err := s.MergePreferences(ctx, u.Sub, map[string]*string{name("k", i): text("v")}, 5, account.Audit{})
			return err
		})
		same(t, "preferences were added to 2 of 5", wins(t, errs, account.ErrInvalidPreference), 3)
		got, err = s.MergePreferences(ctx, u.Sub, map[string]*string{"a": nil, "none": nil}, 5, account.Audit{})
		must(t, err)
		if _, there := got["a"]; there || len(got) != 4 || got["b"] != "" {
			t.Errorf("after deleting: %v", got)
		}
		_, err = s.MergePreferences(ctx, "nobody", map[string]*string{"a": text("1")}, 5, account.Audit{})
		want(t, err, account.ErrUserNotFound)
	})
}

// row is an audit row for ChangeUser.
var row = new(act("user.amend"))

func TestChangeUserWritesOnlyItsColumns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, at := t.Context(), noon.Add(time.Hour)
		u, other := addUser(t, s, "ada", account.FlagActivity), addUser(t, s, "bob")
		before, err := s.UserByHandle(ctx, "bob")
		must(t, err)
		got, err := s.ChangeUser(ctx, u.Sub, func(u *account.User) error {
			u.DisplayName, u.Email, u.EmailVerified, u.Profile = "Zoë", "zoe@example.org", true, fullProfile()
			u.Sub, u.Handle, u.PasswordHash, u.Flags, u.SuspendedAt, u.CreatedAt = other.Sub, "bob", "x", []string{account.FlagAdmin}, at, at
			return nil
		}, at, row)
		must(t, err)
		u.DisplayName, u.Email, u.EmailVerified, u.Profile, u.UpdatedAt = "Zoë", "zoe@example.org", true, fullProfile(), at
		equal(t, "u", got, u)
		stored, err := s.UserByHandle(ctx, "ada")
		must(t, err)
		equal(t, "u", stored, u)
		found, _, err := s.Users(ctx, account.UserQuery{Query: "ZOE@"})
		must(t, err)
		same(t, "found, users by the new address", len(found), 1)
		after, err := s.UserByHandle(ctx, "bob")
		must(t, err)
		equal(t, "before", after, before)
	})
}

func TestARefusedAmendmentLeavesNoTrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, refusal := t.Context(), addUser(t, s, "ada"), errors.New("not this one")
		before, err := s.UserBySub(ctx, u.Sub)
		must(t, err)
		_, err = s.ChangeUser(ctx, u.Sub, func(u *account.User) error { u.DisplayName, u.Profile.Nickname = "Eve", "eve"; return refusal }, noon, row)
		want(t, err, refusal)
		if errors.Is(err, account.ErrUnavailable) {
			t.Error("a refusal is not a failing database")
		}
		after, err := s.UserBySub(ctx, u.Sub)
		must(t, err)
		equal(t, "before", after, before)
		rows, err := s.AuditLog(ctx, account.AuditQuery{Limit: 10})
		must(t, err)
		same(t, "audit rows", len(rows), 1)
		for _, sub := range []string{"nobody", "", "\x00"} {
			_, err = s.ChangeUser(ctx, sub, func(*account.User) error { t.Error("called for nobody"); return nil }, noon, row)
			want(t, err, account.ErrUserNotFound)
		}
	})
}

func fullProfile() account.Profile {
	return account.Profile{
		GivenName: "Ada \"€\"", FamilyName: "Lovelace", MiddleName: "K.", Nickname: "ada", Page: "https://example.org/ada", Picture: "https://example.org/ada.png",
		Website: "https://ada.example.org", Gender: "female", Birthdate: "1815-12-10", Zoneinfo: "Europe/London", Locale: "en-GB",
		PhoneNumber: "+441234567890", PhoneNumberVerified: true,
		Address: &account.Address{Formatted: "1 Street\nLondon", StreetAddress: "1 Street", Locality: "London", Region: "Greater London", PostalCode: "W1", Country: "UK"},
	}
}

func setProfile(
	s *store.Store, ctx context.Context, sub string, change func(*account.Profile) error, at time.Time,
) (account.User, error) {
	return s.ChangeUser(ctx, sub, func(u *account.User) error { return change(&u.Profile) }, at, nil)
}

func TestConcurrentProfileChangesAreKept(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		u := addUser(t, instances[0], "ada")
		wins(t, race(16, func(i int) error {
			_, err := setProfile(instances[i%2], t.Context(), u.Sub, func(p *account.Profile) error { p.Nickname += "x"; return nil }, noon)
			return err
		}))
		got, err := instances[0].UserBySub(t.Context(), u.Sub)
		must(t, err)
		same(t, "of 16 changes are left", len(got.Profile.Nickname), 16)
	})
}

// administrators counts those who can act.
func administrators(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	users, _, err := s.Users(t.Context(), account.UserQuery{})
	must(t, err)
	for _, u := range users {
		if u.Has(account.FlagAdmin) && !u.Suspended() {
			n++
		}
	}
	return n
}

func TestLastAdministratorIsKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for round := range 8 {
			admins := []account.User{addUser(t, s, name("one", round), account.FlagAdmin), addUser(t, s, name("two", round), account.FlagAdmin)}
			addUser(t, s, name("sleeper", round), account.FlagAdmin)
			sleeper, err := s.UserByHandle(ctx, name("sleeper", round))
			must(t, err)
			must(t, s.Suspend(ctx, sleeper.Sub, "", noon, act("user.suspend")))
			errs := race(16, func(i int) error {
				sub := admins[i%2].Sub
				switch (i/2 + round) % 3 {
				case 0:
					return s.Suspend(ctx, sub, "", noon, act("user.suspend"))
				case 1:
					return s.DeleteUser(ctx, sub, noon, act("user.delete"))
				}
				_, err := s.SetFlags(ctx, sub, account.FlagChange{account.FlagAdmin: {On: false}}, noon, keeping(act("user.flags")))
				return err
			})
			wins(t, errs, account.ErrLastAdmin, account.ErrUserNotFound)
			if n := administrators(t, s); n != 1 {
				t.Fatalf("round %d: %d administrators are left", round, n)
			}
			for _, u := range admins { // the next round begins without this one's
				_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{account.FlagAdmin: {On: true}}, noon, keeping(act("user.flags")))
				if err != nil {
					want(t, err, account.ErrUserNotFound)
				}
			}
			next := addUser(t, s, name("spare", round), account.FlagAdmin)
			for _, u := range append(admins, sleeper) {
				if err := s.DeleteUser(ctx, u.Sub, noon, act("user.delete")); err != nil {
					want(t, err, account.ErrUserNotFound)
				}
			}
			invited := newUser(name("invited", round), account.FlagAdmin) // cannot sign in yet
			invited.PasswordHash = ""
			must(t, s.CreateUser(ctx, invited, act("user.create")))
			want(t, s.DeleteUser(ctx, next.Sub, noon, act("user.delete")), account.ErrLastAdmin)
			locked := newUser(name("locked", round), account.FlagAdmin) // has neither a password nor a passkey
			locked.PasswordHash = account.NoPassword
			must(t, s.CreateUser(ctx, locked, act("user.create")))
			want(t, s.DeleteUser(ctx, next.Sub, noon, act("user.delete")), account.ErrLastAdmin)
			must(t, s.Exec("DELETE FROM user_flags WHERE sub IN (?, ?, ?)", next.Sub, invited.Sub, locked.Sub))
		}
	})
}

// held is what a test user has.
type held struct {
	user                  account.User
	session               account.Session
	code, access, refresh string
}

func equip(t *testing.T, s *store.Store, handle string) held {
	t.Helper()
	h := held{user: addUser(t, s, handle)}
	h.session = signIn(t, s, h.user)
	c := addClient(t, s, handle+"-app")
	h.code = addCode(t, s, newGrant(c, h.session, "openid", "offline_access"))
	h.access, h.refresh = addTokens(t, s, newGrantStored(t, s, c, h.session))
	must(t, s.CreateResetCode(t.Context(), h.user.Sub, []byte("reset "+handle), noon.Add(time.Hour), noon, act("user.reset_code")))
	must(t, s.SaveConsent(t.Context(), h.user.Sub, c.ID, []string{"openid"}, noon, act("app.allow")))
	return h
}

// checkTaken fails when anything that h has still works.
func checkTaken(t *testing.T, s *store.Store, h held, also ...int) {
	t.Helper()
	ctx := t.Context()
	if live(t, s, h.session.ID) {
		t.Error("the session lives")
	}
	if _, err := useCode(ctx, s, h.code); !errors.Is(err, provider.ErrSpent) {
		t.Errorf("the code: %v", err)
	}
	want(t, spendCode(ctx, s, h.code), provider.ErrSpent)
	_, err := useToken(ctx, s, h.access)
	want(t, err, provider.ErrSpent)
	_, err = useToken(ctx, s, h.refresh)
	want(t, err, provider.ErrSpent)
	want(t, s.ResetPassword(ctx, h.user.Handle, []byte("reset "+h.user.Handle), "new", noon, act("password.reset")), account.ErrInvalidResetCode)
	revoked, err := s.RevokedIndices(ctx, h.session.StatusList)
	must(t, err)
	taken := append(also, h.session.StatusIndex)
	slices.Sort(taken)
	same(t, "status list", cmp.Diff(taken, revoked), "")
}

// checkWorks fails when something that h has was taken.
func checkWorks(t *testing.T, s *store.Store, h held) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if !live(t, s, h.session.ID) {
		t.Error("the session ended")
	}
	_, err := useCode(ctx, s, h.code)
	must(t, err)
	_, err = useToken(ctx, s, h.access)
	must(t, err)
	_, err = useToken(ctx, s, h.refresh)
	must(t, err)
}

func TestSuspensionLeavesNothingThatWorks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		invite := addInvite(t, s, h.user.Sub)
		must(t, s.Suspend(ctx, h.user.Sub, "spam", noon, act("user.suspend")))
		must(t, s.Suspend(ctx, h.user.Sub, "again", noon.Add(time.Hour), act("user.suspend")))
		checkTaken(t, s, h)
		u, err := s.UserBySub(ctx, h.user.Sub)
		must(t, err)
		if !u.SuspendedAt.Equal(noon) || u.SuspendReason != "spam" {
			t.Errorf("suspending twice changed it: %+v", u)
		}
		_, err = s.Invite(ctx, invite.Code)
		want(t, err, account.ErrInviteNotFound)
		want(t, s.Register(ctx, invite.Code, newUser("eve"), nil, nil, 0, noon, act("user.register")), account.ErrInvalidInvite)
		want(t, s.CreateInvite(ctx, account.Invite{Code: "X", CreatedBy: u.Sub, CreatedAt: noon,
			ExpiresAt: noon.Add(time.Hour)}, -1, act("invite.create")), account.ErrSuspended)
		must(t, s.Unsuspend(ctx, h.user.Sub, noon, act("user.unsuspend")))
		checkTaken(t, s, h) // what was ended stays ended
		signIn(t, s, h.user)
		checkWorks(t, s, bystander)
		rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "user", Limit: 2})
		must(t, err)
		if len(rows) != 2 || rows[0].Action != "user.unsuspend" || rows[1].Action != "user.suspend" {
			t.Errorf("audit %+v, want one row an act", rows)
		}
		want(t, s.Unsuspend(ctx, "nobody", noon, act("x")), account.ErrUserNotFound)
	})
}

func TestDeletionLeavesNothingPersonal(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		h, bystander := equip(t, s, "ada"), equip(t, s, "bob")
		used, unused := addInvite(t, s, h.user.Sub), addInvite(t, s, h.user.Sub)
		must(t, s.Register(ctx, used.Code, newUser("guest"), nil, nil, 0, noon, act("user.register")))
		v := "value"
		_, err := s.MergePreferences(ctx, h.user.Sub, map[string]*string{"k": &v}, 5, account.Audit{})
		must(t, err)
		must(t, s.DeleteUser(ctx, h.user.Sub, noon, act("user.delete")))
		want(t, s.DeleteUser(ctx, h.user.Sub, noon, act("user.delete")), account.ErrUserNotFound)
		checkTaken(t, s, h)
		checkWorks(t, s, bystander)
		_, _, err = s.Session(ctx, h.session.ID)
		want(t, err, account.ErrSessionNotFound)
		_, _, err = s.SessionByLoginHash(ctx, h.session.LoginHash)
		want(t, err, account.ErrSessionNotFound)
		want(t, s.CreateSession(ctx, newSession(h.user.Sub), h.user.PasswordHash, act("session.create")), account.ErrUserNotFound)
		want(t, s.SaveConsent(ctx, h.user.Sub, "ada-app", []string{"openid"}, noon, act("app.allow")), account.ErrUserNotFound)
		_, err = s.Invite(ctx, unused.Code)
		want(t, err, account.ErrInviteNotFound)
		guest, err := s.UserByHandle(ctx, "guest")
		must(t, err)
		same(t, "the guest still names", guest.InvitedBy, "")
		for query, rows := range map[string]int64{
			"SELECT count(*) FROM sessions WHERE sub = ?":                       1, // its status list index
			"SELECT count(*) FROM preferences WHERE sub = ?":                    0,
			"SELECT count(*) FROM consents WHERE sub = ?":                       0,
			"SELECT count(*) FROM reset_codes WHERE sub = ?":                    0,
			"SELECT count(*) FROM invites WHERE created_by = ? AND note <> ''":  0,
			"SELECT count(*) FROM invites WHERE created_by = ? AND used_at = 0": 0,
		} {
			if n, err := s.Count(query, h.user.Sub); err != nil || n != rows {
				t.Errorf("%s: %d, want %d (%v)", query, n, rows, err)
			}
		}
	})
}

// The address of who joined is in the invite of another person: that of a request to join as what it is for, or where a
// team's invite was mailed to.
func TestDeletionErasesTheAddressOfWhoJoined(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, by := t.Context(), addUser(t, s, "ada")
		join := func(i account.Invite, handle string) account.User {
			u := newUser(handle)
			must(t, s.Register(ctx, i.Code, u, nil, nil, 0, noon, act("user.register")))
			return u
		}
		create := func(uses int, mailedTo, domain string) account.Invite {
			i, err := account.NewInvite(by.Sub, "", noon)
			must(t, err)
			i.Uses, i.MailedTo, i.Domain = uses, mailedTo, domain
			must(t, s.CreateInvite(ctx, i, -1, act("invite.create")))
			return i
		}
		asked, team := create(1, "bo@example.org", "bo@example.org"), create(3, "cy@example.org", "example.org")
		bo, dee, cy := join(asked, "bo"), join(team, "dee"), join(team, "cy")
		left := func(code string) string {
			i, err := s.Invite(ctx, code)
			must(t, err)
			return i.MailedTo + " " + i.Domain
		}
		must(t, s.DeleteUser(ctx, bo.Sub, noon, act("user.delete")))
		same(t, "of the request", left(asked.Code), " ")
		same(t, "of somebody else's", left(team.Code), "cy@example.org example.org")
		must(t, s.DeleteUser(ctx, cy.Sub, noon, act("user.delete")))
		same(t, "of who came second", left(team.Code), " example.org")
		must(t, s.DeleteUser(ctx, dee.Sub, noon, act("user.delete")))
	})
}

// Of the rows that stay, each column is empty afterwards but those named here: also one
// that a later migration adds.
func TestDeletionEmptiesEveryColumn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		signIn(t, s, u)
		kept := map[string][]string{
			"users":    {"sub", "handle", "created_at", "updated_at", "deleted_at"},
			"sessions": {"id", "sub", "expires_at", "ended_at", "status_list", "status_index", "algorithm"},
		}
		emptied := map[string][]string{}
		for table, names := range kept {
			query := "SELECT name FROM pragma_table_info(?)"
			if s.Dialect() == store.Postgres {
				query = "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?"
			}
			columns, err := s.Texts(query, table)
			must(t, err)
			for _, c := range columns {
				if slices.Contains(names, c) {
					continue
				}
				emptied[table] = append(emptied[table], c)
				var filled error
				for _, value := range []any{addUser(t, s, table+c).Sub, true, 7, []byte("x")} { // of which one fits
					if filled = s.Exec("UPDATE "+table+" SET "+c+" = ? WHERE sub = ?", value, u.Sub); filled == nil {
						break
					}
				}
				must(t, filled)
			}
		}
		must(t, s.Exec("UPDATE users SET profile = ? WHERE sub = ?", `{"nickname":"x"}`, u.Sub))
		must(t, s.DeleteUser(t.Context(), u.Sub, noon, act("user.delete")))
		for table, columns := range emptied {
			for _, c := range columns {
				left, err := s.Texts("SELECT coalesce(CAST("+c+" AS TEXT), '') FROM "+table+" WHERE sub = ?", u.Sub)
				must(t, err)
				if len(left) != 1 || !slices.Contains([]string{"", "0", "false", "{}"}, left[0]) {
					t.Errorf("%s.%s: %q", table, c, left)
				}
			}
		}
	})
}

func TestOnlyNamedFlagsChange(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada", "activity", "beta")
		addUser(t, s, "root", account.FlagAdmin)
		got, err := s.SetFlags(t.Context(), u.Sub, account.FlagChange{"admin": {On: true}, "beta": {On: false},
			"activity": {On: true}, "none": {On: false}}, noon, keeping(act("user.flags")))
		must(t, err)
		stored, err := s.UserBySub(t.Context(), u.Sub)
		must(t, err)
		for _, flags := range [][]string{got, stored.Flags} {
			equal(t, "flags", flags, []string{"activity", "admin"})
		}
		_, err = s.SetFlags(t.Context(), "nobody", account.FlagChange{"beta": {On: true}}, noon, keeping(act("user.flags")))
		want(t, err, account.ErrUserNotFound)
		_, err = s.SetFlags(t.Context(), u.Sub, account.FlagChange{"admin": {On: false}}, noon, keeping(act("user.flags")))
		must(t, err)
		root, err := s.UserByHandle(t.Context(), "root")
		must(t, err)
		_, err = s.SetFlags(t.Context(), root.Sub, account.FlagChange{"admin": {On: false}}, noon, keeping(act("user.flags")))
		want(t, err, account.ErrLastAdmin)
	})
}

// "Personal data gone" holds for the file too, not only for queries.
func TestDeletedUserIsNotLeftInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := storetest.Open(t, path)
	u := addUser(t, s, "ada")
	name, mail := "Augusta Ada of Ockham", "augusta@ockham.example"
	_, err := s.ChangeUser(t.Context(), u.Sub,
		func(u *account.User) error { u.DisplayName, u.Email = name, mail; return nil }, noon, nil)
	must(t, err)
	secret := "a preference of one user"
	_, err = s.MergePreferences(t.Context(), u.Sub, map[string]*string{"note": &secret}, 100, account.Audit{})
	must(t, err)
	must(t, s.DeleteUser(t.Context(), u.Sub, noon, account.Audit{At: noon, Actor: "operator", Action: "user.delete", Target: "ada"}))
	must(t, s.Close()) // writes the log back into the file
	for _, file := range []string{path, path + "-wal"} {
		b, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		for _, text := range []string{name, mail, secret} {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("%s still holds %q", filepath.Base(file), text)
			}
		}
	}
}

// The index of words is made of each user whose search is not empty. It must keep none that are no longer true.
func TestWordsOfAChangedUserAreMadeAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), newUser("ada-l")
		u.DisplayName, u.Email = "Ada Lovelace", "ada@analytic.example"
		users := int64(1)
		indexed := func() {
			t.Helper()
			must(t, s.Exec("UPDATE users SET search = ''"))
			must(t, s.Exec("INSERT INTO user_words (word, handle) SELECT 'lovelace', handle FROM users WHERE deleted_at = 0 ON CONFLICT DO NOTHING"))
		}
		waits := func(handle string, waiting int64) {
			t.Helper()
			for query, expected := range map[string]int64{
				"SELECT count(*) FROM users WHERE search <> '' AND handle = '" + handle + "'": waiting, "SELECT count(*) FROM user_words WHERE handle = '" + handle + "'": 0,
				"SELECT value FROM counters WHERE name = 'users'": users,
			} {
				if n, err := s.Count(query); err != nil || n != expected {
					t.Errorf("%s: %d, want %d: %v", query, n, expected, err)
				}
			}
			indexed()
		}
		must(t, s.CreateUser(ctx, u, act("user.create")))
		want(t, s.CreateUser(ctx, u, act("user.create")), account.ErrHandleTaken)
		waits("ada-l", 1)
		for _, change := range []func(u *account.User){
			func(u *account.User) { u.DisplayName = "Ada King" }, func(u *account.User) { u.Email = "countess@example.org" },
		} {
			_, err := s.ChangeUser(ctx, u.Sub, func(u *account.User) error { change(u); return nil }, noon, nil)
			must(t, err)
			waits("ada-l", 1)
		}
		users = 2
		must(t, s.Register(ctx, addInvite(t, s, u.Sub).Code, newUser("guest"), nil, nil, 2, noon, act("user.register")))
		waits("guest", 1)
		users = 1
		must(t, s.DeleteUser(ctx, u.Sub, noon, act("user.delete")))
		waits("ada-l", 0)
	})
}

func TestSearchGoesOnPastDeletedUsers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for _, handle := range []string{"anna1", "anna2", "anna3"} {
			addUser(t, s, handle)
		}
		must(t, s.Exec("UPDATE users SET deleted_at = 1 WHERE handle = 'anna2'"))
		var found []string
		for q := (account.UserQuery{Query: "anna", Limit: 1}); ; {
			users, next, err := s.Users(t.Context(), q)
			must(t, err)
			for _, u := range users {
				found = append(found, u.Handle)
			}
			if q.After = next; next == "" {
				break
			}
		}
		equal(t, "found", found, []string{"anna1", "anna3"})
	})
}

// The picture of a user goes with the address in their profile, and with the account.
func TestPictureLivesAsLongAsItsAddress(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		addUser(t, s, "root1", account.FlagAdmin)
		set := func(hash, address string) {
			t.Helper()
			_, err := s.ChangeUser(t.Context(), u.Sub, func(u *account.User) error {
				if u.Profile.Picture = address; hash != "" {
					u.Photo = account.Photo{Hash: hash, JPEG: []byte("jpeg " + hash)}
				}
				return nil
			}, noon, row)
			must(t, err)
		}
		wants := func(hash string, there bool) {
			t.Helper()
			got, err := s.UserPicture(t.Context(), hash)
			if must(t, err); there != (string(got) == "jpeg "+hash) || !there && got != nil {
				t.Errorf("%s: %q", hash, got)
			}
		}
		set("a", "https://id.example/picture/a.jpg")
		wants("a", true)
		set("a", "https://id.example/picture/a.jpg") // the same once more
		wants("a", true)
		set("b", "https://id.example/picture/b.jpg")
		wants("a", false)
		wants("b", true)
		wants("", false)
		set("", "https://id.example/picture/b.jpg") // another change
		wants("b", true)
		set("", "")
		wants("b", false)
		set("c", "https://id.example/picture/c.jpg")
		must(t, s.DeleteUser(t.Context(), u.Sub, noon, act("account.delete")))
		wants("c", false)
		if left, err := s.Texts("SELECT hash FROM user_pictures"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// A lock that was found before somebody unlocked the account does not come back.
func TestLockFromBeforeAnUnlockingIsNotStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		until := noon.Add(time.Hour)
		lock := func(unlocks int64) time.Time {
			must(t, s.LockUser(ctx, u.Sub, unlocks, until))
			read, err := s.UserBySub(ctx, u.Sub)
			must(t, err)
			return read.LockedUntil
		}
		if at := lock(0); !at.Equal(until) {
			t.Errorf("locked until %v", at)
		}
		until = noon.Add(time.Minute)
		if at := lock(0); !at.Equal(noon.Add(time.Hour)) {
			t.Errorf("a shorter lock ends it at %v", at)
		}
		must(t, s.UnlockUser(ctx, u.Sub, noon, act("user.unlock")))
		if at := lock(0); !at.IsZero() {
			t.Errorf("locked until %v again", at)
		}
		if at := lock(1); !at.Equal(until) {
			t.Errorf("locked until %v", at)
		}
	})
}
