package account_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/cairn-id/cairn/account"
)

// pagedInvites has many invites and notes how they are read; it fails at a page.
type pagedInvites struct {
	account.Store
	left, failAt, pages, largest int
	last                         account.InvitePlace
}

func (p *pagedInvites) Invites(_ context.Context, q account.InviteQuery) ([]account.Invite, error) {
	p.pages++
	p.largest = max(p.largest, q.Limit)
	if p.pages == p.failAt || q.After != p.last {
		return nil, errors.Join(account.ErrUnavailable, errors.New("no such page"))
	}
	var out []account.Invite
	for range min(q.Limit, p.left) {
		i, err := account.NewInvite(q.Sub, `a note with "invites":[]`, p.last.CreatedAt)
		if err != nil {
			return nil, err
		}
		out, p.last = append(out, i), i.Place()
	}
	p.left -= len(out)
	return out, nil
}

// Lists without a bound are written page by page, and what fails on the way is never
// taken for a whole document.
func TestLongListsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, path := range []string{"/api/me/export", "/api/invites"} {
		for _, failAt := range []int{0, 1, 3} {
			w := newWorld(t)
			w.addUser("root1", account.FlagAdmin)
			b := w.signedIn("root1")
			invites := &pagedInvites{Store: w.store, left: 1001, failAt: failAt}
			w.start(func(o *account.Options) { o.Store = invites })
			var a *answer
			aborted := func() (v any) {
				defer func() { v = recover() }()
				a = b.call("GET", path, nil)
				return nil
			}()
			switch {
			case failAt == 1:
				a.is(http.StatusServiceUnavailable, "unavailable")
			case failAt > 1:
				if aborted != http.ErrAbortHandler {
					t.Errorf("%s: an answer that failed on the way ended with %v", path, aborted)
				}
			case len(a.is(200).json()["invites"].([]any)) != 1001 || invites.pages < 3 || invites.largest > 500:
				t.Errorf("%s: %d pages of up to %d", path, invites.pages, invites.largest)
			}
		}
	}
}
