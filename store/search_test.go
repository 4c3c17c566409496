package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// After each way to write a user the words are those of what is stored, and the
// counter is the number of users.
func TestWordsAreThoseOfTheUser(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), newUser("ada-l")
		u.DisplayName, u.Email = "Ada Lovelace", "ada@analytic.example"
		holds := func(handle string, users int64, expected ...string) {
			t.Helper()
			got, err := s.Texts("SELECT word FROM user_words WHERE handle = ? ORDER BY word", handle)
			must(t, err)
			if diff := cmp.Diff(expected, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			counted, err := s.Count("SELECT value FROM counters WHERE name = 'users'")
			must(t, err)
			if counted != users {
				t.Errorf("%d users are counted, want %d", counted, users)
			}
		}
		must(t, s.CreateUser(ctx, u, act("user.create")))
		want(t, s.CreateUser(ctx, u, act("user.create")), account.ErrHandleTaken)
		holds("ada-l", 1, "ada", "analytic", "example", "l", "lovelace")
		king := "Ada King"
		_, err := s.ChangeUser(ctx, u.Sub, func(u *account.User) error { u.DisplayName = king; return nil }, noon, nil)
		must(t, err)
		holds("ada-l", 1, "ada", "analytic", "example", "king", "l")
		_, err = s.ChangeUser(ctx, u.Sub, func(u *account.User) error { u.Email = "countess@example.org"; return nil }, noon, nil)
		must(t, err)
		holds("ada-l", 1, "ada", "countess", "example", "king", "l", "org")
		_, err = setProfile(s, ctx, u.Sub, func(p *account.Profile) error { p.Nickname = "Enchantress"; return nil }, noon)
		must(t, err)
		holds("ada-l", 1, "ada", "countess", "example", "king", "l", "org")
		guest := newUser("guest")
		guest.DisplayName, guest.Email = "Ёлка", ""
		must(t, s.Register(ctx, addInvite(t, s, u.Sub).Code, guest, nil, 2, noon))
		holds("guest", 2, "guest", "ёлка")
		must(t, s.DeleteUser(ctx, u.Sub, noon, act("user.delete")))
		holds("ada-l", 1)
	})
}
