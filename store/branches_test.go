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

// came adds a user who came by an invite of another.
func came(t *testing.T, s *store.Store, by account.User, handle string) account.User {
	t.Helper()
	u := newUser(handle)
	must(t, s.Register(t.Context(), addInvite(t, s, by.Sub).Code, u, nil, nil, 0, noon, act("user.register")))
	u, err := s.UserByHandle(t.Context(), handle)
	must(t, err)
	return u
}

func TestBranchOfInvites(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		root, other := addUser(t, s, "root1"), addUser(t, s, "other")
		ada, bob := came(t, s, root, "ada"), came(t, s, root, "bob")
		eve := came(t, s, ada, "eve")
		signIn(t, s, eve)
		for _, u := range []account.User{root, ada, eve, eve, bob, other} {
			addInvite(t, s, u.Sub)
		}
		branches := func(sub, after string, limit int) (out []string) {
			list, err := s.Branches(ctx, sub, after, noon, noon, limit)
			must(t, err)
			for _, b := range list {
				out = append(out, fmt.Sprint(b.User.Handle, " by ", b.User.InvitedBy, ": ", b.Invited, b.Active, b.Open))
			}
			return out
		}
		equal(t, "branches", branches("", "", 10), []string{"root1 by : 2 0 1"})
		equal(t, "branches", branches(root.Sub, "ada", 10), []string{"bob by root1: 0 0 1"})
		equal(t, "branches", branches(root.Sub, "", 1), []string{"ada by root1: 1 1 1"})
		open, err := s.CountOpenInvites(ctx, noon)
		must(t, err)
		seen := map[string]bool{}
		for skip := 0; skip < 8; skip += 2 {
			page, err := s.OpenInvites(ctx, "", noon, skip, 2)
			must(t, err)
			for _, i := range page {
				seen[i.Code] = true
			}
		}
		if open != 6 || len(seen) != 6 {
			t.Errorf("%d open invites are counted, %d listed", open, len(seen))
		}

		// A branch and nothing else; a circle in the data does not hold it up.
		must(t, s.Exec("UPDATE users SET invited_by = ? WHERE sub = ?", eve.Sub, ada.Sub))
		n, err := s.RevokeBranch(ctx, ada.Sub, noon, act("invite.revoke_branch"))
		must(t, err)
		again, err := s.RevokeBranch(ctx, ada.Sub, noon, act("invite.revoke_branch"))
		must(t, err)
		left, err := s.CountOpenInvites(ctx, noon)
		must(t, err)
		if n != 3 || again != 0 || left != 3 {
			t.Errorf("revoked %d, then %d; %d are left", n, again, left)
		}
		rows, err := s.Texts("SELECT detail FROM audit WHERE action = 'invite.revoke_branch'")
		must(t, err)
		used, err := s.Count("SELECT count(*) FROM invites WHERE used_at > 0")
		must(t, err)
		if !slices.Equal(rows, []string{"3"}) || used != 3 {
			t.Errorf("audit rows %q, %d used invites", rows, used)
		}

		// Whose inviter is deleted stands at the root, unless they have invited nobody who is left.
		came(t, s, bob, "kim")
		leo := came(t, s, other, "leo")
		must(t, s.DeleteUser(ctx, root.Sub, noon, act("user.delete")))
		must(t, s.DeleteUser(ctx, leo.Sub, noon, act("user.delete")))
		equal(t, "branches", branches("", "", 10), []string{"bob by : 1 0 1"})
	})
}

func TestLogoIsKeptBesideTheSettings(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		want(t, s.SetLogo(ctx, false, []byte("png"), "h1", act("settings.logo")), account.ErrNotInitialized)
		_, err := s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		for _, c := range [][2]string{{"", ""}, {"png", "h1"}, {"other", "h2"}, {"", ""}} {
			must(t, s.SetLogo(ctx, false, []byte(c[0]), c[1], act("settings.logo")))
			v, err := s.Settings(ctx)
			must(t, err)
			png, err := s.Logo(ctx)
			must(t, err)
			if string(png) != c[0] || v.Logo != c[1] && c[0] != "" || c[0] == "" && v.Logo != "" {
				t.Errorf("%q: %q, hash %q", c, png, v.Logo)
			}
		}
	})
}

func TestUseOfClients(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		ada, bob := addUser(t, s, "ada"), addUser(t, s, "bob")
		c, idle := addClient(t, s, "app"), addClient(t, s, "idle")
		must(t, s.SaveConsent(ctx, ada.Sub, c.ID, []string{"openid", "email"}, noon, act("consent.give")))
		for _, u := range []account.User{ada, bob, bob} {
			addCode(t, s, newGrant(c, signIn(t, s, u), "openid"))
		}
		got, err := s.ClientUses(ctx, []string{c.ID, idle.ID})
		must(t, err)
		if u := got[c.ID]; u.Users != 2 || u.LastAt.IsZero() || u.LastAt.After(time.Now().AddDate(1, 0, 0)) ||
			got[idle.ID] != (store.ClientUse{}) {
			t.Errorf("%+v", got)
		}
	})
}
