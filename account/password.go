package account

import (
	"context"
	"errors"

	"github.com/cairn-id/cairn/account/web"
)

// ChangePassword sets a new password of the caller, who proves the old one. It ends their other
// sessions and every grant, and gives this session a new token, so that a copy of its cookie ends
// too. ErrInvalidCredentials, ErrWeakPassword.
func (s *Service) ChangePassword(ctx context.Context, c Caller, current, password string) (SignedIn, error) {
	a, err := s.begin(ctx, c, ChangePassword, "")
	if err != nil {
		return SignedIn{}, err
	}
	u, err := s.verifyPassword(ctx, c, current)
	if err != nil {
		return SignedIn{}, err
	}
	hash, err := s.hashNew(ctx, password, u.Handle)
	if err != nil {
		return SignedIn{}, err
	}
	n, out := s.newSession(c, proven{user: u})
	row := c.Session // with its times and methods: the password alone makes no session fresh
	row.TokenHash, row.LoginHash, row.Algorithm = n.TokenHash, n.LoginHash, n.Algorithm
	err = s.store.ChangePassword(ctx, u.Sub, u.PasswordHash, hash, &row, s.Now(), a)
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
	out.Marks = s.withMark(c.Browser.Marks, u) // they were voided
	out.Token, err = s.minter.token(u, &row, out.Token)
	return out, err
}
