package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestInviteIsSpentOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		for round := range 20 {
			i := addInvite(t, s, u.Sub)
			errs := race(16, func(n int) error {
				guest := newUser(name("guest-", round, "-", n))
				return s.Register(ctx, i.Code, guest, nil, newSession(guest.Sub), 0, noon, act("user.register"))
			})
			if n := wins(t, errs, account.ErrInvalidInvite); n != 1 {
				t.Fatalf("round %d: %d people came in with one invite", round, n)
			}
		}
		users, _, err := s.Users(ctx, account.UserQuery{Query: "guest-"})
		must(t, err)
		if len(users) != 20 {
			t.Errorf("%d guests of 20 invites", len(users))
		}
		sessions, err := s.Count("SELECT count(*) FROM sessions")
		must(t, err)
		if sessions != 20 {
			t.Errorf("%d sessions of 20 guests: a refusal left something", sessions)
		}
	})
}

func TestInviteLimitHolds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		for _, limit := range []int{0, 3} {
			errs := race(16, func(int) error {
				i, err := account.NewInvite(u.Sub, "", noon)
				if err != nil {
					return err
				}
				return s.CreateInvite(ctx, i, limit, act("invite.create"))
			})
			if n := wins(t, errs, account.ErrInviteLimit); n != limit {
				t.Fatalf("%d invites, the limit is %d", n, limit)
			}
		}
		list, err := s.Invites(ctx, account.InviteQuery{Sub: u.Sub})
		must(t, err)
		// Used ones count, expired unused ones and deleted ones do not.
		must(t, s.Register(ctx, list[0].Code, newUser("guest"), nil, nil, 0, noon, act("user.register")))
		must(t, s.DeleteInvite(ctx, u.Sub, list[1].Code, act("invite.delete")))
		i, err := account.NewInvite(u.Sub, "", noon)
		must(t, err)
		must(t, s.CreateInvite(ctx, i, 3, act("invite.create")))
		i, err = account.NewInvite(u.Sub, "", noon)
		must(t, err)
		want(t, s.CreateInvite(ctx, i, 3, act("invite.create")), account.ErrInviteLimit)
		i, err = account.NewInvite(u.Sub, "", noon.Add(account.InviteLifetime))
		must(t, err)
		must(t, s.CreateInvite(ctx, i, 2, act("invite.create"))) // only the used one is left
		i, err = account.NewInvite("nobody", "", noon)
		must(t, err)
		want(t, s.CreateInvite(ctx, i, 3, act("invite.create")), account.ErrUserNotFound)
	})
}

func TestRefusedRegistrationLeavesTheInviteOpen(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		i := addInvite(t, s, u.Sub)
		open := func() {
			t.Helper()
			got, err := s.Invite(ctx, i.Code)
			must(t, err)
			if !got.Open(noon) || got.UsedBy != "" {
				t.Fatalf("the invite is spent: %+v", got)
			}
		}
		// In this order: the code, the room, the handle.
		want(t, s.Register(ctx, "WRONG", newUser("ada"), nil, nil, 1, noon, act("user.register")), account.ErrInvalidInvite)
		want(t, s.Register(ctx, i.Code, newUser("ada"), nil, nil, 1, noon, act("user.register")), account.ErrRegistrationFull)
		open()
		want(t, s.Register(ctx, i.Code, newUser("ada"), nil, nil, 5, noon, act("user.register")), account.ErrHandleTaken)
		open()
		clash := newSession("nobody") // a session that cannot be stored
		if err := s.Register(ctx, i.Code, newUser("eve"), nil, clash, 0, noon, act("user.register")); err == nil {
			t.Fatal("stored a session of nobody")
		}
		open()
		_, err := s.UserByHandle(ctx, "eve")
		want(t, err, account.ErrUserNotFound)
		want(t, s.Register(ctx, i.Code, newUser("eve"), nil, nil, 0, i.ExpiresAt, act("user.register")), account.ErrInvalidInvite)

		guest := newUser("eve", "activity")
		n := newSession(guest.Sub)
		must(t, s.Register(ctx, i.Code, guest, nil, n, 2, noon, act("user.register")))
		stored, owner, err := s.Session(ctx, n.ID)
		must(t, err)
		if owner.InvitedBy != "ada" || stored.StatusList != n.StatusList || !owner.Has("activity") {
			t.Errorf("%+v of %+v", stored, owner)
		}
		used, err := s.Invite(ctx, i.Code)
		must(t, err)
		i.Inviter, i.UsedAt, i.UsedBy = "ada", noon, "eve"
		if diff := cmp.Diff(i, used); diff != "" {
			t.Error(diff)
		}
		want(t, s.DeleteInvite(ctx, u.Sub, i.Code, act("invite.delete")), account.ErrInviteUsed)
		want(t, s.DeleteInvite(ctx, guest.Sub, i.Code, act("invite.delete")), account.ErrInviteNotFound)
	})
}

func TestMemberLimitHolds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		codes := make([]string, 16)
		for n := range codes {
			codes[n] = addInvite(t, s, u.Sub).Code
		}
		errs := race(16, func(n int) error {
			return s.Register(ctx, codes[n], newUser(name("guest", n)), nil, nil, 4, noon, act("user.register"))
		})
		if n := wins(t, errs, account.ErrRegistrationFull); n != 3 {
			t.Errorf("%d came in, there was room for 3", n)
		}
	})
}

func TestRevokedInviteIsInvalidAndUsedOneStays(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		open, used := addInvite(t, s, u.Sub), addInvite(t, s, u.Sub)
		must(t, s.Register(ctx, used.Code, newUser("bob"), nil, nil, 0, noon, act("user.register")))
		got, err := s.RevokeInvite(ctx, open.Code, account.Audit{At: noon, Actor: "operator", Action: "invite.revoke"})
		must(t, err)
		if got.Inviter != "ada" {
			t.Errorf("the revoked invite is of %q", got.Inviter)
		}
		want(t, s.Register(ctx, open.Code, newUser("eve"), nil, nil, 0, noon, act("user.register")), account.ErrInvalidInvite)
		for code, refusal := range map[string]error{open.Code: account.ErrInviteNotFound, used.Code: account.ErrInviteUsed, "": account.ErrInviteNotFound} {
			_, err := s.RevokeInvite(ctx, code, account.Audit{At: noon, Actor: "operator", Action: "invite.revoke"})
			want(t, err, refusal)
		}
		rest, err := s.AllInvites(ctx, account.InvitePlace{}, 0)
		must(t, err)
		if len(rest) != 1 || rest[0].UsedBy != "bob" {
			t.Errorf("left are %+v", rest)
		}
		log, err := s.AuditLog(ctx, account.AuditQuery{Limit: 10})
		must(t, err)
		acts := 0
		for _, a := range log {
			if a.Action == "invite.revoke" && a.Target == "ada" {
				acts++
			}
		}
		if acts != 1 {
			t.Errorf("%d rows of the audit log, want 1", acts)
		}
	})
}

// Also where many invites are of one second.
func TestPagesOfInvitesHaveEachOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		for n := range 14 { // two of each second, oldest first
			i, err := account.NewInvite([]string{u.Sub, ""}[n%2], "", noon.Add(time.Duration(n/4)*time.Second))
			must(t, err)
			must(t, s.CreateInvite(t.Context(), i, -1, act("invite.create")))
		}
		for whose, list := range map[string]func(after account.InvitePlace, limit int) ([]account.Invite, error){
			"everybody's": func(after account.InvitePlace, limit int) ([]account.Invite, error) {
				return s.AllInvites(t.Context(), after, limit)
			},
			"a user's": func(after account.InvitePlace, limit int) ([]account.Invite, error) {
				return s.Invites(t.Context(), account.InviteQuery{Sub: u.Sub, After: after, Limit: limit})
			},
		} {
			all, err := list(account.InvitePlace{}, 100)
			must(t, err)
			var paged []account.Invite
			for after := (account.InvitePlace{}); len(paged) <= len(all); {
				page, err := list(after, 2)
				must(t, err)
				if len(page) == 0 {
					break
				}
				paged = append(paged, page...)
				after = page[len(page)-1].Place()
			}
			newestFirst := slices.IsSortedFunc(all, func(a, b account.Invite) int { return b.CreatedAt.Compare(a.CreatedAt) })
			if diff := cmp.Diff(all, paged); diff != "" || len(all) < 7 || !newestFirst {
				t.Errorf("%s: %s", whose, diff)
			}
		}
	})
}
