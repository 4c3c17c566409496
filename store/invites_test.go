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
		same(t, "guests of 20 invites", len(users), 20)
		sessions, err := s.Count("SELECT count(*) FROM sessions")
		must(t, err)
		same(t, "sessions of 20 guests: a refusal left something", sessions, 20)
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
		i.Inviter, i.UsedAt, i.UsedBy, i.Used, i.Joined, i.Flags = "ada", noon, "eve", 1, []string{"eve"}, []string{}
		equal(t, "i", used, i)
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
			if n%2 == 0 {
				return s.AddUser(ctx, newUser(name("guest", n)), account.ResetCode{}, 4, act("user.create"))
			}
			return s.Register(ctx, codes[n], newUser(name("guest", n)), nil, nil, 4, noon, act("user.register"))
		})
		same(t, "came in, there was room for 3", wins(t, errs, account.ErrRegistrationFull), 3)
	})
}

func TestRevokedInviteIsInvalidAndUsedOneStays(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		open, used := addInvite(t, s, u.Sub), addInvite(t, s, u.Sub)
		must(t, s.Register(ctx, used.Code, newUser("bob"), nil, nil, 0, noon, act("user.register")))
		got, err := s.RevokeInvite(ctx, open.Code, account.Audit{At: noon, Actor: "operator", Action: "invite.revoke"})
		must(t, err)
		same(t, "the revoked invite is of", got.Inviter, "ada")
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
		same(t, "rows of the audit log", acts, 1)
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
			newestFirst := slices.IsSortedFunc(all,
				func(a, b account.Invite) int { return b.CreatedAt.Compare(a.CreatedAt) })
			if diff := cmp.Diff(all, paged); diff != "" || len(all) < 7 || !newestFirst {
				t.Errorf("%s: %s", whose, diff)
			}
		}
	})
}

// teamInvite stores an invite for several people.
func teamInvite(t *testing.T, s *store.Store, by string, uses int) account.Invite {
	t.Helper()
	i, err := account.NewInvite(by, "team", noon)
	must(t, err)
	i.Uses = uses
	must(t, s.CreateInvite(t.Context(), i, uses, act("invite.create")))
	return i
}

func TestTeamInviteLetsInAsManyAsItIsFor(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		i := teamInvite(t, s, u.Sub, 30)
		errs := race(45, func(n int) error {
			return s.Register(ctx, i.Code, newUser(name("guest", n)), nil, nil, 0, noon, act("user.register"))
		})
		if n := wins(t, errs, account.ErrInvalidInvite); n != 30 {
			t.Fatalf("%d people came in with an invite for 30", n)
		}
		got, err := s.Invite(ctx, i.Code)
		must(t, err)
		if got.Open(noon) || got.Used != 30 || len(got.Joined) != 30 || got.Charged(noon) != 30 {
			t.Errorf("%+v", got)
		}
		want(t, s.DeleteInvite(ctx, u.Sub, i.Code, act("invite.delete")), account.ErrInviteUsed)
		one, err := account.NewInvite(u.Sub, "", noon)
		must(t, err)
		want(t, s.CreateInvite(ctx, one, 30, act("invite.create")), account.ErrInviteLimit)
		must(t, s.CreateInvite(ctx, one, 31, act("invite.create")))
		branches, err := s.Branches(ctx, u.Sub, "", noon, noon, 100)
		must(t, err)
		if len(branches) != 30 || branches[29].By.Note != "team" || !branches[29].By.CreatedAt.Equal(noon) {
			t.Errorf("%d people in the branch, the last by %+v", len(branches), branches[len(branches)-1].By)
		}
	})
}

// Whatever ends an invite that somebody has used keeps it, for who came by it, and no longer counts those who did not.
func TestInviteInUseIsClosed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for how, do := range map[string]func(u account.User, code string) error{
			"delete": func(u account.User, code string) error { return s.DeleteInvite(ctx, u.Sub, code, act("invite.delete")) },
			"revoke": func(_ account.User, code string) error {
				_, err := s.RevokeInvite(ctx, code, act("invite.revoke"))
				return err
			},
			"branch": func(u account.User, _ string) error {
				_, err := s.RevokeBranch(ctx, u.Sub, noon, act("invite.revoke_branch"))
				return err
			},
			"end": func(u account.User, _ string) error {
				_, err := s.EndSessions(ctx, u.Sub, noon, act("account.delete"))
				return err
			},
		} {
			u := addUser(t, s, "by-"+how)
			i := teamInvite(t, s, u.Sub, 3)
			must(t, s.Register(ctx, i.Code, newUser("first-"+how), nil, nil, 0, noon, act("user.register")))
			must(t, do(u, i.Code))
			list, err := s.Invites(ctx, account.InviteQuery{Sub: u.Sub})
			must(t, err)
			if len(list) != 1 || list[0].Open(noon) || list[0].Charged(noon) != 1 || !slices.Equal(list[0].Joined, []string{"first-" + how}) {
				t.Errorf("%s: %+v", how, list)
			}
			want(t, s.Register(ctx, i.Code, newUser("second-"+how), nil, nil, 0, noon, act("user.register")), account.ErrInvalidInvite)
		}
		rows, err := s.Count("SELECT count(*) FROM audit WHERE action = 'account.delete'")
		must(t, err)
		same(t, "rows of sessions that ended, with an invite alone", rows, 1)
	})
}

// What only an administrator may make ends with the flag, and does not come back with it.
func TestInviteOfAFormerAdministratorIsClosed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		u := addUser(t, s, "ada", account.FlagAdmin)
		addUser(t, s, "root", account.FlagAdmin)
		plain, wide := addInvite(t, s, u.Sub), account.Invite{}
		for _, how := range []string{"by hand", "with the flag"} {
			wide, _ = account.NewInvite(u.Sub, "", noon)
			wide.ByAdmin, wide.Flags = true, []string{account.FlagAdmin}
			must(t, s.CreateInvite(ctx, wide, -1, act("invite.create")))
			if how == "by hand" { // as an earlier version does, which knows nothing of such invites
				must(t, s.Exec("DELETE FROM user_flags WHERE sub = ?", u.Sub))
			} else if _, err := s.SetFlags(ctx, u.Sub, account.FlagChange{account.FlagAdmin: {On: false}}, noon, act("user.flags")); err != nil {
				t.Fatal(err)
			}
			want(t, s.Register(ctx, wide.Code, newUser("eve"), nil, nil, 0, noon, act("user.register")), account.ErrInvalidInvite)
			_, err := s.Invite(ctx, plain.Code)
			must(t, err)
			_, err = s.SetFlags(ctx, u.Sub, account.FlagChange{account.FlagAdmin: {On: true}}, noon, act("user.flags"))
			must(t, err)
		}
		_, err := s.Invite(ctx, wide.Code)
		want(t, err, account.ErrInviteNotFound)

		// Nor does one whose maker has lost the flag since the request was let in.
		_, err = s.SetFlags(ctx, u.Sub, account.FlagChange{account.FlagAdmin: {On: false}}, noon, act("user.flags"))
		must(t, err)
		late, err := account.NewInvite(u.Sub, "", noon)
		must(t, err)
		must(t, s.CreateInvite(ctx, late, -1, act("invite.create")))
		late.Code, late.ByAdmin = wide.Code, true
		want(t, s.CreateInvite(ctx, late, -1, act("invite.create")), account.ErrAdminRequired)
	})
}
