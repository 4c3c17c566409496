package roster

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// NewOperatorInvite creates an invite of the operator. ErrMailOff if it asks for a proven address.
func (a *Administration) NewOperatorInvite(
	ctx context.Context, by account.Caller, t account.InviteTerms,
) (account.Invite, error) {
	settings, err := a.Settings(ctx)
	if err != nil {
		return account.Invite{}, err
	}
	i, err := t.Invite(settings, by, a.Now().In(a.Zone(ctx)))
	if err != nil {
		return account.Invite{}, err
	}
	if i.Domain != "" && !a.MailEnabled() {
		return account.Invite{}, account.ErrMailOff
	}
	row, err := a.Begin(ctx, by, account.CreateInvite, account.User{}, i.Terms())
	if err != nil {
		return account.Invite{}, err
	}
	return i, a.Store().CreateInvite(ctx, i, -1, row)
}

// activeWithin is how recently an active member has signed in.
const activeWithin = 30 * 24 * time.Hour

// Branches lists the users invited by u, in the order of handles after a handle. For the zero User
// it lists those who joined without the invite of a member and have invited somebody.
func (a *Administration) Branches(
	ctx context.Context, u account.User, after string, limit int,
) ([]account.Branch, error) {
	return a.Store().Branches(ctx, u.Sub, after, a.Now().Add(-activeWithin), a.Now(), limit)
}

// OpenInvites lists the open invites of u, or for the zero User those of everybody, without the first
// skip.
func (a *Administration) OpenInvites(ctx context.Context, u account.User, skip, limit int) ([]account.Invite, error) {
	return a.Store().OpenInvites(ctx, u.Sub, a.Now(), skip, limit)
}

// CountOpenInvites counts the open invites of everybody.
func (a *Administration) CountOpenInvites(ctx context.Context) (int, error) {
	return a.Store().CountOpenInvites(ctx, a.Now())
}

// RevokeInvite removes an invite that nobody has used. ErrInviteNotFound, ErrInviteUsed.
func (a *Administration) RevokeInvite(ctx context.Context, by account.Caller, typed string) error {
	row, err := a.Begin(ctx, by, account.RevokeInvite, account.User{}, "")
	if err != nil {
		return err
	}
	_, err = a.Store().RevokeInvite(ctx, account.CanonicalInviteCode(typed), row)
	return web.Noted(ctx, "invite_revoked", err)
}

// RevokeBranch removes the open invites of a user and of all users below in the tree of invites,
// and returns how many.
func (a *Administration) RevokeBranch(ctx context.Context, by account.Caller, u account.User) (int, error) {
	row, err := a.Begin(ctx, by, account.RevokeBranch, u, "")
	if err != nil {
		return 0, err
	}
	n, err := a.Store().RevokeBranch(ctx, u.Sub, a.Now(), row)
	return n, web.Noted(ctx, "invites_revoked", err)
}
