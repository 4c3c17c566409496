package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestUserComesBackAsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := newUser("ada", "admin", "activity")
		u.EmailVerified, u.LastLoginAt, u.DisplayName = true, noon.Add(time.Second), "Ада 🚴 \\%_'\""
		must(t, s.CreateUser(t.Context(), u, act("user.create")))
		u.Flags = []string{"activity", "admin"} // sorted
		for _, get := range []func() (account.User, error){
			func() (account.User, error) { return s.UserByHandle(t.Context(), "ada") },
			func() (account.User, error) { return s.UserBySub(t.Context(), u.Sub) },
		} {
			got, err := get()
			must(t, err)
			if diff := cmp.Diff(u, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestOneHandleIsNeverGivenTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		errs := race(16, func(int) error { return s.CreateUser(t.Context(), newUser("ada"), act("user.create")) })
		if n := wins(t, errs, account.ErrHandleTaken); n != 1 {
			t.Fatalf("%d users have one handle", n)
		}
		u, err := s.UserByHandle(t.Context(), "ada")
		must(t, err)
		must(t, s.DeleteUser(t.Context(), u.Sub, noon, act("user.delete")))
		_, err = s.UserByHandle(t.Context(), "ada")
		want(t, err, account.ErrUserNotFound)
		want(t, s.CreateUser(t.Context(), newUser("ada"), act("user.create")), account.ErrHandleTaken)
		i := addInvite(t, s, "")
		want(t, s.Register(t.Context(), i.Code, newUser("ada"), nil, 0, noon), account.ErrHandleTaken)
	})
}

// An empty key must not match the first row, an odd one must be the same
// refusal on both databases (PostgreSQL takes neither NUL nor broken UTF-8).
func TestOddKeysNeverMatch(t *testing.T) {
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
			_, _, err = s.Session(ctx, key)
			want(t, err, account.ErrSessionNotFound)
			_, _, err = s.SessionByLoginHash(ctx, []byte(key))
			want(t, err, account.ErrSessionNotFound)
			want(t, s.EndSession(ctx, u.Sub, key, noon), account.ErrSessionNotFound)
			want(t, s.EndSession(ctx, key, n.ID, noon), account.ErrSessionNotFound)
			_, err = s.Invite(ctx, key)
			want(t, err, account.ErrInviteNotFound)
			want(t, s.DeleteInvite(ctx, u.Sub, key), account.ErrInviteNotFound)
			want(t, s.DeleteInvite(ctx, key, key), account.ErrInviteNotFound)
			want(t, s.Register(ctx, key, newUser("eve"), nil, 0, noon), account.ErrInvalidInvite)
			want(t, s.ResetPassword(ctx, key, []byte("hash"), "new", noon), account.ErrInvalidResetCode)
			want(t, s.ResetPassword(ctx, u.Handle, []byte(key), "new", noon), account.ErrInvalidResetCode)
			want(t, s.ChangePassword(ctx, u.Sub, key, "new", "", noon), account.ErrInvalidCredentials)
			want(t, s.CreateSession(ctx, newSession(u.Sub), key), account.ErrInvalidCredentials)
			want(t, s.CreateSession(ctx, newSession(key), "x"), account.ErrUserNotFound)
			want(t, s.RemoveApp(ctx, u.Sub, key, noon), account.ErrAppNotFound)
			want(t, s.Suspend(ctx, key, "", noon, act("x")), account.ErrUserNotFound)
			want(t, s.DeleteUser(ctx, key, noon, act("x")), account.ErrUserNotFound)
			_, err = s.Secret(ctx, key)
			want(t, err, account.ErrNotInitialized)
			known, err := s.KnownAddress(ctx, u.Sub, key)
			must(t, err)
			if known {
				t.Errorf("address %q is known", key)
			}
			oddGrantKeys(t, s, key)
		}
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
			{"ada", "Ädam Straße", "ada@example.org"}, {"bob_1", "100% Bob", ""}, {"bobx1", "Back\\slash", ""}, {"zoe", "Zoe\u0308", "Z@EXAMPLE.com"},
		} {
			u := newUser(x[0])
			u.DisplayName, u.Email = x[1], x[2]
			must(t, s.CreateUser(t.Context(), u, act("user.create")))
		}
		gone := addUser(t, s, "zed")
		must(t, s.DeleteUser(t.Context(), gone.Sub, noon, act("user.delete")))
		for query, handles := range map[string][]string{
			"": {"ada", "bob_1", "bobx1", "zoe"}, "b_1": {"bob_1"}, "%": nil, `\`: nil, "ÄDAM STRASSE": {"ada"}, "ZOË": {"zoe"},
			"z@example": {"zoe"}, "zed": nil, "' OR 1=1": nil, "\x00": nil, "EXAMPLE": {"ada", "zoe"}, "bo": {"bob_1", "bobx1"}, "ob": nil,
			"stra äd": {"ada"}, "stra zoe": nil, "ada a": {"ada"}, "slash bo": {"bobx1"}, "100": {"bob_1"}, "com z": {"zoe"},
		} {
			found, _, err := s.Users(t.Context(), account.UserQuery{Query: query})
			must(t, err)
			if diff := cmp.Diff(handles, handlesOf(found), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q: %s", query, diff)
			}
		}
	})
}

func handlesOf(users []account.User) (out []string) {
	for _, u := range users {
		out = append(out, u.Handle)
	}
	return out
}

func TestPagesNeverSkipNorRepeat(t *testing.T) {
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
		if diff := cmp.Diff(all, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUpgradeNeverOverwritesAnotherPassword(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		must(t, s.UpgradeHash(t.Context(), u.Sub, "some other hash", "stolen"))
		must(t, s.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, "better"))
		must(t, s.UpgradeHash(t.Context(), u.Sub, u.PasswordHash, "late"))
		got, err := s.UserBySub(t.Context(), u.Sub)
		must(t, err)
		if got.PasswordHash != "better" {
			t.Errorf("hash %q", got.PasswordHash)
		}
	})
}

func TestPreferencesNeverExceedTheirLimit(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		text := func(v string) *string { return &v }
		empty, err := s.Preferences(ctx, u.Sub)
		must(t, err)
		if empty == nil || len(empty) != 0 {
			t.Errorf("%v, want an empty map", empty)
		}
		got, err := s.MergePreferences(ctx, u.Sub, map[string]*string{"a": text("1"), "b": text("")}, 2)
		must(t, err)
		if diff := cmp.Diff(map[string]string{"a": "1", "b": ""}, got); diff != "" {
			t.Error(diff)
		}
		_, err = s.MergePreferences(ctx, u.Sub, map[string]*string{"a": text("2"), "c": text("3")}, 2)
		want(t, err, account.ErrInvalidPreference)
		for _, bad := range []map[string]*string{{"": text("x")}, {"\x00": text("x")}, {"x": text("\x00")}, {"x": text("\xff")}} {
			_, err = s.MergePreferences(ctx, u.Sub, bad, 10)
			want(t, err, account.ErrInvalidPreference)
		}
		errs := race(16, func(i int) error {
			_, err := s.MergePreferences(ctx, u.Sub, map[string]*string{name("k", i): text("v")}, 5)
			return err
		})
		if n := wins(t, errs, account.ErrInvalidPreference); n != 3 {
			t.Errorf("%d preferences were added to 2 of 5", n)
		}
		got, err = s.MergePreferences(ctx, u.Sub, map[string]*string{"a": nil, "none": nil}, 5)
		must(t, err)
		if _, there := got["a"]; there || len(got) != 4 || got["b"] != "" {
			t.Errorf("after deleting: %v", got)
		}
		_, err = s.MergePreferences(ctx, "nobody", map[string]*string{"a": text("1")}, 5)
		want(t, err, account.ErrUserNotFound)
	})
}
