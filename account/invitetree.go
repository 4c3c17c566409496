package account

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// activeWithin is how recently an active member has signed in.
const activeWithin = 30 * 24 * time.Hour

// Branches lists the users invited by u, in the order of handles after a handle. For the zero User
// it lists those who joined without the invite of a member and have invited somebody.
func (a *Administration) Branches(ctx context.Context, u User, after string, limit int) ([]Branch, error) {
	return a.store.Branches(ctx, u.Sub, after, a.Now().Add(-activeWithin), a.Now(), limit)
}

// OpenInvites lists the open invites of u, or for the zero User those of everybody, without the first
// skip.
func (a *Administration) OpenInvites(ctx context.Context, u User, skip, limit int) ([]Invite, error) {
	return a.store.OpenInvites(ctx, u.Sub, a.Now(), skip, limit)
}

// CountOpenInvites counts the open invites of everybody.
func (a *Administration) CountOpenInvites(ctx context.Context) (int, error) {
	return a.store.CountOpenInvites(ctx, a.Now())
}

// RevokeInvite removes an invite that nobody has used. ErrInviteNotFound, ErrInviteUsed.
func (a *Administration) RevokeInvite(ctx context.Context, by Caller, typed string) error {
	row, err := a.begin(ctx, by, RevokeInvite, User{}, "")
	if err != nil {
		return err
	}
	code := CanonicalInviteCode(typed)
	if code == "" {
		return ErrInviteNotFound
	}
	_, err = a.store.RevokeInvite(ctx, code, row)
	return web.Noted(ctx, "invite_revoked", err)
}

// RevokeBranch removes the open invites of a user and of all users below in the tree of invites,
// and returns how many.
func (a *Administration) RevokeBranch(ctx context.Context, by Caller, u User) (int, error) {
	row, err := a.begin(ctx, by, RevokeBranch, u, "")
	if err != nil {
		return 0, err
	}
	n, err := a.store.RevokeBranch(ctx, u.Sub, a.Now(), row)
	return n, web.Noted(ctx, "invites_revoked", err)
}
