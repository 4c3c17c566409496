package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Also where many invites are of one second.
func TestPagesOfInvitesHaveEachOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		for range 7 {
			addInvite(t, s, u.Sub)
			addInvite(t, s, "")
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
			if diff := cmp.Diff(all, paged); diff != "" || len(all) < 7 {
				t.Errorf("%s: %s", whose, diff)
			}
		}
	})
}
