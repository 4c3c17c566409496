package account

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/templates"
)

// MailTest is the kind of a mail that shows that mail works.
const MailTest = "test"

// Kinds of mail that notify a user of a change to the account. Data has the handle and the time
// ("at"); the rest follows the kind.
const (
	MailPasswordChanged = "password-changed"
	MailPasswordRemoved = "password-removed"
	MailEmailChanged    = "email-changed"   // see composeEmailChanged
	MailEmailRequested  = "email-requested" // session: that asked
	MailNewDevice       = "new-device"      // device, address, session
	// factor: FactorTOTP, FactorPasskey, FactorChoice or empty; name: of a passkey, or empty; session: that added it
	MailFactorAdded      = "factor-added"
	MailFactorRemoved    = "factor-removed"
	MailFactorsReset     = "factors-reset"
	MailFactorCounter    = "factor-counter"
	MailRecoveryCodeUsed = "recovery-code-used" // left: the number of unused codes
	// flags: "admin=on activity=off"; ends: "activity:1800000000", 0: no end
	MailFlagsChanged  = "flags-changed"
	MailResetCodeMade = "reset-code-made"
	MailSessionsEnded = "sessions-ended"
	MailDisowned      = "disowned"
	MailSuspended     = "suspended" // reason, or empty
	MailUnsuspended   = "unsuspended"
	MailExported      = "exported"
	MailLastingAccess = "lasting-access" // name: of the application
	MailDeleted       = "deleted"
	MailWideInvite    = "wide-invite" // flags: as in MailFlagsChanged
	MailEndChanged    = "end-changed" // ends: Unix seconds, 0: never
	MailEnds          = "ends"        // ends; names: the flags, or empty: the account
	MailJoinsAsked    = "joins-asked" // see TellJoins
	// name: who can administer now; by: who did it
	MailNewAdministrator = "new-administrator"
)

// MailRemoved is the field of a notice with the factors that the act removed: see FactorNames.
const MailRemoved = "removed"

// MailBare is the field of a notice that has no link: see ofFamily.
const MailBare = "bare"

// MailFormer is the field of a notice to an address that the account has no longer.
const MailFormer = "former"

// Kinds of mail that were requested.
const (
	MailVerify  = "verify-email"    // asked: User.EmailAskedAt
	MailForgot  = "forgot-password" // name: a handle or an address; becomes a MailReset if there is such an account
	MailReset   = "reset-password"
	MailWelcome = "welcome" // by: the administrator who added the user
	// invite: the hash of its code; asked: if its reader asked for it; welcome: if they asked to join
	MailInvite = "invite"
	MailJoin   = "join" // name, reason: see JoinRequest

	MailJoinRefused = "join-refused" // text: of the administrator, or empty
)

// UserMail returns a mail to an address of the user, in the language that the user has chosen or joined in, or
// else in that of the request, or of the settings. data are pairs.
func UserMail(ctx context.Context, u User, address, kind string, now time.Time, data ...string) Mail {
	m := Mail{
		Kind: kind, Sub: u.Sub, Address: address,
		Language: templates.LanguageTag(u.Profile.Locale, u.Language, RequestLanguage(ctx)),
		Data:     map[string]string{"handle": u.Handle, "at": strconv.FormatInt(now.Unix(), 10)},
	}
	if u.Profile.Zoneinfo != "" {
		m.Data["zone"] = u.Profile.Zoneinfo
	}
	for i := 0; i+1 < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

// Notices returns the mails that notify a user of an act, for Audit.Mails. They go to the verified
// address, or without a link to that of the family, and to the previous ones for as long as their change can be
// undone: an attacker who changes the address first, and verifies the new one, must not silence later notices. There
// are none if mail is off.
func (b Base) Notices(ctx context.Context, u User, kind string, data ...string) ([]Mail, error) {
	if !b.mail {
		return nil, nil
	}
	addresses, err := b.store.FormerEmails(ctx, u.Sub, b.Now())
	if err != nil {
		return nil, err
	}
	if u.EmailVerified {
		addresses = append(addresses, EmailChange{Email: u.Email})
	}
	var mails []Mail
	if bare, err := b.OfFamily(ctx, u); err != nil {
		return nil, err
	} else if bare && !slices.Contains([]string{MailNewDevice, MailEmailChanged, MailEmailRequested}, kind) {
		mails = []Mail{UserMail(ctx, u, u.Email, kind, b.Now(), append(data, MailBare, "true")...)}
	}
	for _, a := range addresses {
		if slices.ContainsFunc(mails, func(m Mail) bool { return strings.EqualFold(m.Address, a.Email) }) {
			continue
		}
		m := UserMail(ctx, u, a.Email, kind, b.Now(), data...)
		if !strings.EqualFold(a.Email, u.Email) {
			m.Data[MailFormer] = "true"
		}
		mails = append(mails, m)
	}
	return mails, nil
}

// OfFamily reports whether the address of u is not verified, but is that of another account, whose owner reads its
// mails: notices of u go there without a link.
func (b Base) OfFamily(ctx context.Context, u User) (bool, error) {
	if u.EmailVerified || u.Email == "" {
		return false, nil
	}
	_, err := b.store.UserByEmail(ctx, u.Email)
	if errors.Is(err, ErrUserNotFound) {
		return false, nil
	}
	return err == nil, err
}

// AdministratorMails returns the Notices of each administrator with a verified address.
func (b Base) AdministratorMails(ctx context.Context, kind string, data ...string) (mails []Mail, err error) {
	for q := (UserQuery{Flag: FlagAdmin}); ; {
		users, next, err := b.store.Users(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			if u.Suspended() || !u.EmailVerified {
				continue
			}
			more, err := b.Notices(ctx, u, kind, data...)
			if mails = append(mails, more...); err != nil {
				return nil, err
			}
		}
		if q.After = next; next == "" {
			return mails, nil
		}
	}
}

// NewAdministrator returns the mails that tell all other administrators that u becomes one, or is one again. They
// go to the one who does it, too: it may be somebody else with their session.
func (b Base) NewAdministrator(ctx context.Context, by string, u User) ([]Mail, error) {
	if !b.mail {
		return nil, nil
	}
	mails, err := b.AdministratorMails(ctx, MailNewAdministrator, "name", u.Handle, "by", by)
	return slices.DeleteFunc(mails, func(m Mail) bool { return m.Sub == u.Sub }), err
}
