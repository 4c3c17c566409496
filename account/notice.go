package account

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Kinds of mail that tell a user what has been done to the account. Each has the handle
// and the time ("at"); what else is in its Data stands behind it.
const (
	MailPasswordChanged  = "password-changed"
	MailEmailChanged     = "email-changed" // change: the id of an EmailChange, if it can be undone; undone: "true" where the change was undone that brought this address
	MailNewDevice        = "new-device"    // device, address, session
	MailFactorAdded      = "factor-added"  // factor: FactorTOTP or empty; name: of a passkey, or empty
	MailFactorRemoved    = "factor-removed"
	MailFactorsReset     = "factors-reset"
	MailFactorCounter    = "factor-counter"
	MailRecoveryCodeUsed = "recovery-code-used"
	MailSuspended        = "suspended" // reason, or empty
	MailUnsuspended      = "unsuspended"
	MailExported         = "exported"
	MailDeleted          = "deleted"
)

// Kinds of mail that somebody has asked for.
const (
	MailVerify  = "verify-email"    // asked: User.EmailAskedAt
	MailForgot  = "forgot-password" // name: a handle or an address, perhaps of nobody. Nothing is sent to nobody: it becomes a MailReset
	MailReset   = "reset-password"
	MailWelcome = "welcome" // by: who has added the user, without a password
	MailInvite  = "invite"  // invite: the hash of its code
)

// userMail is a mail to an address of the user, in the language that the user has chosen,
// else in that of the request. data are pairs.
func userMail(ctx context.Context, u User, address, kind string, now time.Time, data ...string) Mail {
	m := Mail{
		Kind: kind, Sub: u.Sub, Address: address, Language: templates.PickLanguage(u.Profile.Locale, templates.LanguageOf(ctx).Tag()).Tag(),
		Data: map[string]string{"handle": u.Handle, "at": strconv.FormatInt(now.Unix(), 10)},
	}
	for i := 0; i+1 < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

// notices tell a user what has been done, for Audit.Mails: none where no mail is sent or
// the address is not verified.
func (s *Service) notices(ctx context.Context, u User, kind string, data ...string) []Mail {
	return s.Administration().notices(ctx, u, kind, data...)
}

func (a *Administration) notices(ctx context.Context, u User, kind string, data ...string) []Mail {
	if !a.mail || u.Email == "" || !u.EmailVerified {
		return nil
	}
	m := userMail(ctx, u, u.Email, kind, a.Now(), data...)
	if kind == MailDeleted {
		m.Sub = "" // what waits for a user who is deleted is deleted too
	}
	return []Mail{m}
}

// boundedNotices are notices of what can be repeated at will, as often as a mail that
// somebody asks for: the first ones tell, the others would fill the mailbox. What cannot be
// counted is told.
func (s *Service) boundedNotices(ctx context.Context, u User, kind string, data ...string) []Mail {
	mails := s.notices(ctx, u, kind, data...)
	if len(mails) == 0 {
		return nil
	}
	if wait, err := s.limits.Take(ctx, web.LimitMail, kind+":"+u.Sub); err == nil && wait > 0 {
		return nil
	}
	return mails
}

// plainNotices have nothing but a text, and a link that anybody may follow.
var plainNotices = []string{
	MailPasswordChanged, MailFactorAdded, MailFactorRemoved, MailFactorsReset, MailFactorCounter, MailRecoveryCodeUsed,
	MailSuspended, MailUnsuspended, MailExported, MailDeleted,
}

func (s *Service) addNoticeComposers(to map[string]composer) {
	for _, kind := range plainNotices {
		to[kind] = s.composeNotice
	}
	to[MailEmailChanged], to[MailNewDevice] = s.composeEmailChanged, s.composeNewDevice
	to[MailVerify], to[MailForgot], to[MailReset], to[MailInvite], to[MailWelcome] = s.composeVerify, s.composeForgot, s.composeReset, s.composeInvite, s.composeWelcome
}

// mailTime is a time in a mail: nobody knows the reader's time zone.
func mailTime(l *templates.Language, t time.Time) string {
	return t.UTC().Format(l.Text("2 Jan 2006, 15:04 UTC"))
}

func (m Mail) time(name string) time.Time {
	seconds, _ := strconv.ParseInt(m.Data[name], 10, 64)
	return time.Unix(seconds, 0).UTC()
}

// said is what the texts of a mail can name.
func (m Mail) said(l *templates.Language) []any {
	return []any{"handle", m.Data["handle"], "time", mailTime(l, m.time("at"))}
}

// whose says why the reader gets the mail.
func whose(l *templates.Language, handle string) string {
	return l.Text("You receive this mail because your address belongs to the account @{handle}.", "handle", handle)
}

func (s *Service) composeNotice(_ context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	out := templates.Mail{Reason: whose(l, m.Data["handle"])}
	said, what := m.said(l), ""
	notMe := l.Text("If that was not you, set a new password now and tell an administrator.")
	link := &templates.MailLink{Label: l.Text("Set a new password"), URL: s.URL("/forgot-password/")}
	switch m.Kind {
	case MailPasswordChanged:
		out.Subject = l.Text("Your password was changed")
		what = l.Text("The password of your account @{handle} was changed on {time}.", said...)
	case MailFactorAdded:
		out.Subject = l.Text("A way to sign in was added")
		what = l.Text("A passkey, an authenticator app or recovery codes were added to your account @{handle} on {time}.", said...)
	case MailFactorRemoved:
		out.Subject = l.Text("A way to sign in was removed")
		what = l.Text("A passkey, an authenticator app or recovery codes were removed from your account @{handle} on {time}.", said...)
	case MailFactorsReset:
		out.Subject = l.Text("Your second factors were removed")
		what = l.Text("An administrator has removed all passkeys, authenticator apps and recovery codes of your account @{handle} on {time}. All your sessions have ended.", said...)
		notMe = l.Text("If you have not asked for this, tell an administrator.")
		link = nil
	case MailFactorCounter:
		out.Subject = l.Text("A passkey may have been copied")
		what = l.Text("A passkey of your account @{handle} was used on {time}, and its counter went back. This can mean that there is a copy of it.", said...)
		notMe = l.Text("If you do not know why, remove the passkey and add it again.")
		link = &templates.MailLink{Label: l.Text("Security of your account"), URL: s.URL("/account/security")}
	case MailRecoveryCodeUsed:
		out.Subject = l.Text("A recovery code was used")
		what = l.Text("A recovery code of your account @{handle} was used on {time}. It works no more.", said...)
	case MailSuspended:
		out.Subject = l.Text("Your account is suspended")
		what = l.Text("An administrator has suspended your account @{handle} on {time}. You cannot sign in.", said...)
		notMe, link = l.Text("If you have questions, ask an administrator of your community."), nil
	case MailUnsuspended:
		out.Subject = l.Text("Your account is open again")
		what = l.Text("An administrator has lifted the suspension of your account @{handle} on {time}. You can sign in again.", said...)
		notMe, link = "", nil
	case MailExported:
		out.Subject = l.Text("Your data was exported")
		what = l.Text("All that is stored of your account @{handle} was downloaded on {time}.", said...)
	case MailDeleted:
		out.Subject = l.Text("Your account is deleted")
		what = l.Text("The account @{handle} was deleted on {time}, with your personal data.", said...)
		notMe, link = l.Text("If you have questions, ask an administrator of your community."), nil
	default:
		return templates.Mail{}, errUnknownMail
	}
	out.Paragraphs = []string{what}
	if m.Data["factor"] == FactorTOTP {
		out.Paragraphs = append(out.Paragraphs, l.Text("It is an authenticator app, with its recovery codes."))
	}
	if name := templates.MailName(m.Data["name"]); name != "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("It is named {name}.", "name", name))
	}
	if reason := m.Data["reason"]; reason != "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("Reason: {reason}", "reason", reason))
	}
	out.Paragraphs, out.Link = append(out.Paragraphs, notMe), link
	return out, nil
}

// composeEmailChanged tells the owner of the address that it is no longer that of the account.
func (s *Service) composeEmailChanged(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	out := templates.Mail{
		Subject:    l.Text("Your email address was changed"),
		Paragraphs: []string{l.Text("The email address of your account @{handle} was changed on {time}. It is no longer this one.", m.said(l)...)},
		Reason:     whose(l, m.Data["handle"]),
	}
	id := m.Data["change"]
	if m.Data["undone"] != "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("Who has the address before it has undone a change, and all your sessions have ended. If you do not know why, tell an administrator."))
		return out, nil
	}
	if id == "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("An administrator has done this. If you have questions, ask them."))
		return out, nil
	}
	change, err := s.store.EmailChange(ctx, id, s.now())
	if errors.Is(err, ErrInvalidLink) {
		return out, errMailPointless
	}
	if err != nil {
		return out, err
	}
	out.Paragraphs = append(out.Paragraphs, l.Text("If that was not you, undo it: your address comes back, and every session ends."))
	out.Link, err = s.mailLink(purposeUndo, undoLink{ID: id}, l.Text("Undo the change"))
	out.Notes = []string{l.Text("You can undo it until {time}.", "time", mailTime(l, change.ExpiresAt))}
	return out, err
}

func (s *Service) composeNewDevice(_ context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	device := m.Data["device"]
	if device == "" {
		device = l.Text("Unknown device")
	}
	link, err := s.mailLink(purposeNotMe, notMeLink{Sub: m.Sub, Session: m.Data["session"]}, l.Text("That was not me"))
	return templates.Mail{
		Subject: l.Text("Sign-in from a new device"),
		Paragraphs: []string{
			l.Text("Somebody signed in to your account @{handle} on {time}, from a device that was not used before.", m.said(l)...),
			l.Text("Device: {device}", "device", device),
			l.Text("Address: {address}", "address", m.Data["address"]),
			l.Text("If that was you, there is nothing to do. If not, end the session and set a new password."),
		},
		Link: link, Reason: whose(l, m.Data["handle"]),
	}, err
}

func (s *Service) composeVerify(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	u, err := s.store.UserBySub(ctx, m.Sub)
	asked := m.time("asked")
	if errors.Is(err, ErrUserNotFound) || err == nil && (u.Email != m.Address || u.EmailVerified || !u.EmailAskedAt.Equal(asked) || !s.verifiable(u)) {
		return templates.Mail{}, errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	link, err := s.mailLink(purposeVerify, verifyLink{Sub: u.Sub, Email: u.Email, Asked: asked.Unix()}, l.Text("Verify the address"))
	return templates.Mail{
		Subject: l.Text("Verify your email address"),
		Paragraphs: []string{
			l.Text("The account @{handle} has this address. Verify that it is yours: open the link, or enter the code in your profile.", "handle", u.Handle),
		},
		Link: link, Code: s.emailCode(u),
		Notes: []string{
			l.Text("Link and code work once, until {time}.", "time", mailTime(l, asked.Add(VerificationLifetime))),
			l.Text("If this is not your account, ignore this mail: the address is then not verified."),
		},
		Reason: l.Text("You receive this mail because somebody has entered your address here."),
	}, err
}

// drawMailedReset draws the code of a mail to a user. The one of an attempt to send
// before is void.
func (s *Service) drawMailedReset(ctx context.Context, m Mail, lifetime time.Duration) (User, ResetCode, error) {
	c := NewResetCode(s.now())
	c.ExpiresAt = s.now().Add(lifetime)
	u, err := s.store.UserBySub(ctx, m.Sub)
	if err == nil {
		err = s.store.CreateMailedResetCode(ctx, u.Sub, m.Address, c.Hash, c.ExpiresAt, s.now())
	}
	if errors.Is(err, ErrUserNotFound) {
		err = errMailPointless
	}
	return u, c, err
}

func (s *Service) composeReset(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	u, c, err := s.drawMailedReset(ctx, m, MailedResetLifetime)
	if err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{
		Subject:    l.Text("Set a new password"),
		Paragraphs: []string{l.Text("Somebody has asked for a new password of your account @{handle}. If that was you, open the link.", "handle", u.Handle)},
		Link:       &templates.MailLink{Label: l.Text("Set a new password"), URL: s.ResetURL(u.Handle, c)},
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", mailTime(l, c.ExpiresAt)),
			l.Text("If that was not you, ignore this mail: your password stays as it is."),
		},
		Reason: whose(l, u.Handle),
	}, nil
}

// composeWelcome is for a user whom an administrator has added. Who has a password by
// now needs none of it.
func (s *Service) composeWelcome(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	u, c, err := s.drawMailedReset(ctx, m, ResetCodeLifetime)
	if err == nil && u.PasswordHash != "" {
		err = errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{
		Subject:    l.Text("You have an account"),
		Paragraphs: []string{l.Text("@{by} has made the account @{handle} for you. Open the link and choose a password.", "by", m.Data["by"], "handle", u.Handle)},
		Link:       &templates.MailLink{Label: l.Text("Choose a password"), URL: s.ResetURL(u.Handle, c)},
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", mailTime(l, c.ExpiresAt)),
			l.Text("Later, “Forgot your password?” on the sign-in page sends another one."),
		},
		Reason: whose(l, u.Handle),
	}, nil
}

// errFound ends a search.
var errFound = errors.New("found")

func (s *Service) composeInvite(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	u, err := s.store.UserBySub(ctx, m.Sub)
	if errors.Is(err, ErrUserNotFound) || err == nil && u.Suspended() {
		return templates.Mail{}, errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	var invite Invite
	err = s.eachInvite(ctx, u, func(i Invite) error {
		if hex.EncodeToString(hashOf(i.Code)) == m.Data["invite"] {
			invite = i
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	if err == nil && (invite.Code == "" || !invite.Open(s.now())) {
		err = errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	return templates.Mail{
		Subject:    l.Text("@{handle} invites you", "handle", u.Handle),
		Paragraphs: []string{l.Text("@{handle} invites you to become a member. Open the link to choose a name and a password.", "handle", u.Handle)},
		Link:       &templates.MailLink{Label: l.Text("Accept the invite"), URL: s.InviteURL(invite)},
		Notes:      []string{l.Text("The invite is for one person, until {time}.", "time", mailTime(l, invite.ExpiresAt))},
		Reason:     l.Text("You receive this mail because @{handle} has entered your address. If you do not know them, ignore it.", "handle", u.Handle),
	}, nil
}
