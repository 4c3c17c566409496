package account

import (
	"cmp"
	"context"
	"errors"

	"github.com/cairn-id/cairn/account/web"
)

// RemovePassword leaves the caller with passkeys alone. The other sessions end, except what is kept.
// ErrLastWayIn without a passkey that works here, or without recovery codes.
func (s *Service) RemovePassword(ctx context.Context, c Caller, keep Keep) error {
	a, err := s.begin(ctx, c, RemovePassword, "")
	if err != nil || c.User.Passwordless() {
		return err
	}
	err = s.store.RemovePassword(ctx, c.User.Sub, c.User.PasswordHash, s.passkeyHosts, s.Now(), a.Keeping(keep))
	return web.Noted(ctx, "password_removed", err)
}

// ChangePassword sets a new password of the caller, who proves the old one if there is one. It ends their other
// sessions and every grant, and gives this session a new token, so that a copy of its cookie ends
// too. What also names is void or removed too. ErrInvalidCredentials, ErrWeakPassword.
func (s *Service) ChangePassword(
	ctx context.Context, c Caller, current, password string, also Keep,
) (SignedIn, error) {
	a, err := s.begin(ctx, c, ChangePassword, "")
	if err != nil {
		return SignedIn{}, err
	}
	u, weak := c.User, s.weak(ctx, password, c.User.Handle, "/new_password")
	if !u.Passwordless() { // then the act needs a fresh session instead
		if u, err = s.verifyPassword(ctx, c, current); errors.Is(err, ErrInvalidCredentials) {
			err = web.AllFaults(err, weak)
		}
	}
	if err = cmp.Or(err, weak); err != nil {
		return SignedIn{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return SignedIn{}, err
	}
	n, out := s.newSession(c, Proven{user: u})
	row := c.Session // with its times and methods: the password alone makes no session fresh
	row.TokenHash, row.LoginHash, row.Algorithm = n.TokenHash, n.LoginHash, n.Algorithm
	if err := s.checkToken(ctx, u, &row); err != nil {
		return SignedIn{}, err
	}
	err = s.store.ChangePassword(ctx, u.Sub, u.PasswordHash, hash, &row, s.Now(),
		a.Keeping(Keep{Void: also.Void, Remove: also.Remove}))
	if errors.Is(err, ErrSessionNotFound) {
		err = ErrNotAuthenticated
	}
	if err != nil {
		return SignedIn{}, err
	}
	web.Note(ctx, "password_changed")
	out.Session = row
	if u, err = s.store.UserBySub(ctx, u.Sub); err != nil {
		return SignedIn{}, err
	}
	if !row.Shared() {
		out.Marks = s.withMark(c.Browser.Marks, u) // they were voided
	}
	out.Token, err = s.sessionToken(ctx, u, &row, out.Token)
	return out, err
}
