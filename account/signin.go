package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account/web"
)

// Credentials are what a person enters to sign in.
type Credentials struct {
	Handle   string `json:"handle"`
	Password string `json:"password"`
	OTP      string `json:"otp"`
}

// SignIn checks the credentials, makes the session and sets the cookies. An
// unknown handle and a wrong password are one error and cost the same;
// ErrSuspended is only told to somebody who knows the password.
func (s *Service) SignIn(w http.ResponseWriter, r *http.Request, in Credentials) (User, error) {
	ctx := r.Context()
	u, err := s.authenticate(r, in)
	if err != nil {
		switch {
		case errors.Is(err, ErrInvalidCredentials):
			web.Note(ctx, "login_failed")
		case errors.Is(err, ErrSuspended):
			web.Note(ctx, "login_suspended")
		}
		return User{}, err
	}
	row, secrets := s.newSession(u.Sub, r)
	// The same person in the same browser keeps the session (and its sid, which
	// clients know); only what proves it is new.
	if old, err := s.Current(r); err == nil && old.User.Sub == u.Sub {
		row.ID, row.CreatedAt = old.Session.ID, old.Session.CreatedAt
		err = s.store.Reauthenticate(ctx, row, u.PasswordHash)
		if err == nil {
			web.Note(ctx, "login")
			return u, s.setCookies(w, u, row, secrets)
		}
		if !errors.Is(err, ErrSessionNotFound) {
			return User{}, goneMeanwhile("sign in again", err)
		}
		row, secrets = s.newSession(u.Sub, r)
	}
	if err := s.store.CreateSession(ctx, row, u.PasswordHash); err != nil {
		return User{}, goneMeanwhile("create session", err)
	}
	// The cookie that the browser had before is about to be overwritten.
	if _, err := s.endSessions(r, ""); err != nil {
		return User{}, err
	}
	web.NoteUser(ctx, u.Sub)
	web.Note(ctx, "login")
	return u, s.setCookies(w, u, row, secrets)
}

// goneMeanwhile is the error of a session that was not made: an account that
// was deleted while its password was compared answers as one that never was.
func goneMeanwhile(doing string, err error) error {
	if errors.Is(err, ErrUserNotFound) {
		return ErrInvalidCredentials
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// authenticate is the password check with its limits.
func (s *Service) authenticate(r *http.Request, in Credentials) (User, error) {
	in.Handle = withoutAt(in.Handle)
	ctx := r.Context()
	// Before anything costs: an address or account over its limit waits.
	address := web.LimitKey{Name: web.LimitLogin, Key: web.ClientAddress(r)}
	if err := s.limits.Blocked(ctx, address); err != nil {
		return User{}, err
	}
	u, err := s.userToSignIn(ctx, in.Handle)
	if err != nil {
		return User{}, err
	}
	account := web.LimitKey{Name: web.LimitLoginAccount, Key: accountKey(in.Handle), Exempt: func(refusal error) error {
		return s.exemptKnown(ctx, u.Sub, address.Key, refusal)
	}}
	if err := s.limits.Blocked(ctx, account); err != nil {
		return User{}, err
	}
	leave, err := s.hasher.enter(ctx)
	if err != nil {
		return User{}, err
	}
	defer leave()
	// Inside the slot: at most one attempt a core is in flight.
	err = s.limits.Guess(ctx, []web.LimitKey{address, account}, ErrInvalidCredentials, func() error {
		if !s.hasher.match(u.PasswordHash, in.Password) || u.Sub == "" {
			return ErrInvalidCredentials
		}
		return nil
	})
	if err != nil {
		return User{}, err
	}
	if u.Suspended() {
		return User{}, s.withContact(ctx, ErrSuspended)
	}
	if s.hasher.outdated(u.PasswordHash) {
		s.upgradeHash(ctx, &u, in.Password)
	}
	return u, nil
}

// userToSignIn returns the user, or the zero User for an unknown handle.
func (s *Service) userToSignIn(ctx context.Context, typed string) (User, error) {
	handle, err := CanonicalHandle(typed)
	if err != nil {
		return User{}, nil
	}
	u, err := s.store.UserByHandle(ctx, handle)
	if err != nil && !errors.Is(err, ErrUserNotFound) {
		return User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

// exemptKnown lifts the refusal of the account's limit from an address from which
// the account was signed in to before: strangers cannot lock an owner out. The
// address's own limit holds.
func (s *Service) exemptKnown(ctx context.Context, sub, address string, refusal error) error {
	if sub == "" {
		return refusal
	}
	known, err := s.store.KnownAddress(ctx, sub, address)
	if err != nil {
		return fmt.Errorf("find known address: %w", err)
	}
	if known {
		return nil
	}
	return refusal
}

// upgradeHash replaces a hash of an older form. Failing is not worth refusing
// the sign-in for.
func (s *Service) upgradeHash(ctx context.Context, u *User, password string) {
	d, err := s.hasher.argon.Hash(opaque(password))
	if err == nil {
		err = s.store.UpgradeHash(ctx, u.Sub, u.PasswordHash, d.Encode())
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return
		}
		s.log.WarnContext(ctx, "password hash not upgraded", "user", u.Sub, "error", err)
		return
	}
	u.PasswordHash = d.Encode()
}

// verifyPassword checks the password of a signed-in user before a dangerous
// act, under the same limits as a sign-in. The user it returns has the hash that
// was verified, which may be newer than that of u.
func (s *Service) verifyPassword(r *http.Request, u User, password string) (User, error) {
	got, err := s.authenticate(r, Credentials{Handle: u.Handle, Password: password})
	if err != nil {
		return User{}, err
	}
	if got.Sub != u.Sub {
		return User{}, ErrInvalidCredentials
	}
	return got, nil
}

// accountKey folds what was typed as a handle, so that spelling it differently
// does not give further attempts.
func accountKey(typed string) string {
	if h, err := CanonicalHandle(typed); err == nil {
		return h
	}
	return strings.ToLower(cut(strings.TrimSpace(typed), 64))
}
