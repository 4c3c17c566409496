package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// row is an audit row for ChangeUser.
var row = new(act("user.amend"))

func TestAmendingNeverReachesMoreThanItMay(t *testing.T) {
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
		if diff := cmp.Diff(u, got); diff != "" {
			t.Error(diff)
		}
		stored, err := s.UserByHandle(ctx, "ada")
		must(t, err)
		if diff := cmp.Diff(u, stored); diff != "" {
			t.Error(diff)
		}
		found, _, err := s.Users(ctx, account.UserQuery{Query: "ZOE@"})
		must(t, err)
		if len(found) != 1 {
			t.Errorf("found %d users by the new address", len(found))
		}
		after, err := s.UserByHandle(ctx, "bob")
		must(t, err)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARefusedAmendmentLeavesNoTrace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, refusal := t.Context(), addUser(t, s, "ada"), errors.New("not this one")
		before, err := s.UserBySub(ctx, u.Sub)
		must(t, err)
		_, err = s.ChangeUser(ctx, u.Sub, func(u *account.User) error { u.DisplayName = "Eve"; return refusal }, noon, row)
		want(t, err, refusal)
		if errors.Is(err, account.ErrUnavailable) {
			t.Error("a refusal is not a failing database")
		}
		after, err := s.UserBySub(ctx, u.Sub)
		must(t, err)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}
		rows, err := s.Audit(ctx, 0, 10)
		must(t, err)
		if len(rows) != 1 {
			t.Errorf("%d audit rows", len(rows))
		}
		for _, sub := range []string{"nobody", "", "\x00"} {
			_, err = s.ChangeUser(ctx, sub, func(*account.User) error { t.Error("called for nobody"); return nil }, noon, row)
			want(t, err, account.ErrUserNotFound)
		}
	})
}
