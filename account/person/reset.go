package person

import (
	"cmp"
	"context"
	"errors"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// ResetURL returns the link to this service's reset page.
func (s *Service) ResetURL(handle string, c account.ResetCode) string {
	return account.ResetURL(s.site.URL(""), handle, c)
}

// Reset is what a person enters to set a new password.
type Reset struct {
	Handle   string `json:"handle"`
	Code     string `json:"code"`
	Password string `json:"password"`
	// Remove are ids of MadeFactors that are removed with the old password: see Audit.Remove.
	Remove []string `json:"remove_factors"`
	// Enter signs in whoever never had a password. Passkey returns their passkey in the place of one, as in
	// Registration. Shared is as there.
	Enter   bool                                           `json:"-"`
	Passkey func(context.Context) (account.Passkey, error) `json:"-"`
	Shared  bool                                           `json:"-"`
}

// ResetPassword spends a code and returns the user as they are then. It signs in only as Reset.Enter says and lifts no
// suspension, and a refused password does not spend the code. It clears the failed sign-ins of the
// account, and makes the address known and, unless it is shared, the browser: the result has the marks for it.
//
// A right code is always accepted: nobody guesses 130 bits, and wrong guesses of others must not
// keep the owner out. Wrong codes count for the address that sends them, and for the typed account.
func (s *Service) ResetPassword(ctx context.Context, c account.Caller, in Reset) (out Registered, err error) {
	u, handle, code, err := s.checkReset(ctx, c, in)
	if err != nil {
		if errors.Is(err, account.ErrInvalidResetCode) {
			web.Note(ctx, "reset_refused")
			err = web.AllFaults(err, s.weak(ctx, in.Password, in.Handle, "/password"))
		}
		return out, err
	}
	a, err := s.begin(ctx, c.As(u), account.ResetPassword, "")
	if err != nil {
		return out, err
	}
	a.Actor, a.Target, a.Remove = handle, handle, in.Remove
	enters, p := in.Enter && u.PasswordHash == "", Proven{amr: passwordAlone}
	if enters && in.Passkey != nil {
		var first *account.FirstPasskey
		if _, first, err = s.firstPasskey(ctx, u, in.Passkey); err != nil {
			return out, err
		}
		if first.Passkey.Sub != u.Sub {
			return out, account.ErrInvalidPasskey
		}
		p, out.Codes = ProvenByPasskey(u, first.Passkey), first.Shown
		err = s.Store().ResetToPasskey(ctx, handle, account.HashSecret(code), *first, s.Now(), a)
	} else {
		var hash string
		if hash, err = s.hashNew(ctx, in.Password, handle); err != nil {
			return out, err
		}
		err = s.Store().ResetPassword(ctx, handle, account.HashSecret(code), hash, s.Now(), a)
	}
	if err != nil {
		return Registered{}, err
	}
	web.Note(ctx, "password_reset")
	// with voided marks, and an address that may no longer be verified
	if u, err = s.Store().UserBySub(ctx, u.Sub); err != nil {
		return Registered{}, err
	}
	if out.SignedIn.User = u; !in.Shared {
		out.Marks = s.withMark(c.Browser.Marks, u)
	}
	if enters && !u.Suspended() {
		c.Shared, p.user, p.first = in.Shared, u, true
		out.SignedIn, err = s.openSession(ctx, c, p)
	}
	return out, err
}

// ResetCodeValid reports whether a code sets a new password of the account with the handle, and whether that never
// had one. Codes are too long to be guessed, so nothing is counted.
func (s *Service) ResetCodeValid(ctx context.Context, handle, code string) (valid, first bool, err error) {
	valid, err = s.Store().ResetCodeValid(ctx, handle, account.HashSecret(code), s.Now())
	if err != nil || !valid {
		return false, false, err
	}
	u, err := s.UserNamed(ctx, handle)
	return u.Sub != "", u.PasswordHash == "", err
}

// RecentFactorsByCode lists what Reset.Remove may name, for whoever has a right code. ErrInvalidResetCode.
func (s *Service) RecentFactorsByCode(ctx context.Context, in Reset) ([]account.MadeFactor, error) {
	u, err := s.UserNamed(ctx, withoutAt(in.Handle))
	if err != nil {
		return nil, err
	}
	code := account.HashSecret(account.CanonicalCode(in.Code, account.ResetCodeLength))
	if valid, err := s.Store().ResetCodeValid(ctx, u.Handle, code, s.Now()); err != nil || !valid {
		return nil, cmp.Or(err, error(account.ErrInvalidResetCode))
	}
	return s.Store().RecentFactors(ctx, u.Sub, "", s.Now())
}

// checkReset returns the account of a right code.
func (s *Service) checkReset(
	ctx context.Context, c account.Caller, in Reset,
) (u account.User, handle, code string, err error) {
	typed := withoutAt(in.Handle)
	if u, err = s.UserNamed(ctx, typed); err != nil {
		return u, "", "", err
	}
	handle = cmp.Or(u.Handle, "@"+account.AccountKey(typed)) // not a handle
	if code = account.CanonicalCode(in.Code, account.ResetCodeLength); code != "" {
		valid, err := s.Store().ResetCodeValid(ctx, handle, account.HashSecret(code), s.Now())
		if err != nil || valid {
			return u, handle, code, err
		}
	}
	s.noteAccount(ctx, u, typed)
	limits := []web.LimitKey{
		{Name: web.LimitReset, Key: c.Address}, {Name: web.LimitResetAccount, Key: account.AccountKey(typed)},
	}
	err = s.Limits().Guess(ctx, limits, account.ErrInvalidResetCode,
		func() error { return account.ErrInvalidResetCode })
	return u, "", "", s.limited(ctx, c, u, account.LimitResets, err)
}

// MailedField marks links of MailReset, for the text about their lifetime: see MailedResetLifetime.
const MailedField = "mailed"
