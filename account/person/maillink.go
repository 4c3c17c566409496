package person

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Purposes of the sealed values in links of mails, which are also the names of their pages. A link
// opens a page with a button, so that programs that follow links in mails spend nothing.
const (
	PurposeVerify = "verify-email"
	PurposeUndo   = "undo-email"
	PurposeCancel = "cancel-email"
	PurposeNotMe  = "not-me"
	PurposeJoin   = "confirm-join"
)

// purposeInvite is the purpose of the sealed value in the link of a mailed invite.
const purposeInvite = "mailed-invite"

// Purposes of what a sign-in leads back to: the sealed address of an application, the sealed local path of a page,
// or a hidden form.
const (
	PurposeReturn = "return"
	PurposePage   = "page"
)

type verifyLink struct {
	Sub   string `json:"sub"`
	Email string `json:"email"`
	Asked int64  `json:"asked"`
}

// inviteLink proves that its bearer reads the mails to the address. The code of the invite does
// not: the inviter sees it.
type inviteLink struct {
	Invite string `json:"i"` // as in Mail.Data
	Email  string `json:"e"`
	Name   string `json:"n,omitempty"` // of the request to join that it answers
}

// InvitedAddress returns the address that an invite was mailed to, if sealed is from the link in
// that mail, or "".
func (s *Service) InvitedAddress(i account.Invite, sealed string) string {
	return s.openInvite(i, sealed).Email
}

// InvitedName returns the name in the request to join that the invite answers, likewise.
func (s *Service) InvitedName(i account.Invite, sealed string) string {
	return s.openInvite(i, sealed).Name
}

func (s *Service) openInvite(i account.Invite, sealed string) (v inviteLink) {
	if s.seal.Open(purposeInvite, sealed, &v) != nil || v.Invite != i.Hash() {
		return inviteLink{}
	}
	return v
}

type undoLink struct {
	ID string `json:"id"`
}

type cancelLink struct {
	Sub   string `json:"sub"`
	Email string `json:"email"` // that the mail went to
	Asked int64  `json:"asked"`
}

type notMeLink struct {
	Sub     string `json:"sub"`
	Session string `json:"sid"`
	Email   string `json:"email"`           // that the mail went to
	Added   bool   `json:"added,omitempty"` // of a notice that the session added a factor
}

// errOtherAccount is returned by the button of VerifyLinked.
var errOtherAccount = web.NewProblem(403, "other_account",
	"This link is for a different account from the one you are signed in to. Sign out, then open the link again.")

// link returns the address of the page of the purpose, with v sealed.
func (s *Service) link(purpose string, v any) (string, error) {
	sealed, err := s.seal.Seal(purpose, v)
	return s.site.URL("/" + purpose + "/?" + url.Values{"link": {sealed}}.Encode()), err
}

// VerifyURL returns the link that verifies the address of a user, asked for at a time.
func (s *Service) VerifyURL(u account.User, asked time.Time) (string, error) {
	return s.link(PurposeVerify, verifyLink{Sub: u.Sub, Email: u.Unproven(), Asked: asked.Unix()})
}

// UndoURL returns the link that undoes a change of an address: see EmailChange.
func (s *Service) UndoURL(change string) (string, error) {
	return s.link(PurposeUndo, undoLink{ID: change})
}

// CancelURL returns the link, in the notice m, that drops an address that waits since a time, or one that the user
// asked for later.
func (s *Service) CancelURL(m account.Mail, asked time.Time) (string, error) {
	return s.link(PurposeCancel, cancelLink{Sub: m.Sub, Email: m.Address, Asked: asked.Unix()})
}

// NotMeURL returns the link that disowns a session, in the notice m of its sign-in or of a factor that it added.
func (s *Service) NotMeURL(m account.Mail, added bool) (string, error) {
	return s.link(PurposeNotMe, notMeLink{Sub: m.Sub, Session: m.Data["session"], Email: m.Address, Added: added})
}

// JoinURL returns the link that stores a request to join.
func (s *Service) JoinURL(r account.JoinRequest) (string, error) {
	return s.link(PurposeJoin, joinLink{r.Name, r.Email, r.Reason, r.Language, r.App})
}

// MailedInviteURL returns the link of an invite in a mail to an address, which it proves. name is that of the request
// to join that it answers, or "".
func (s *Service) MailedInviteURL(i account.Invite, email, name string) (string, error) {
	sealed, err := s.seal.Seal(purposeInvite, inviteLink{i.Hash(), email, name})
	return s.InviteURL(i) + "&mailed=" + sealed, err
}

// Linked is the page of a link, and its act.
type Linked struct {
	Page templates.LinkPage
	Do   func(page *templates.LinkPage) error // behind the button
}

// openLink opens the sealed value of a link. ErrInvalidLink.
func (s *Service) openLink(purpose, sealed string, v any) error {
	if s.seal.Open(purpose, sealed, v) != nil {
		return account.ErrInvalidLink
	}
	return nil
}

// linkedUser returns the user of a link. ErrInvalidLink.
func (s *Service) linkedUser(ctx context.Context, sub string) (account.User, error) {
	u, err := s.Store().UserBySub(ctx, sub)
	if errors.Is(err, account.ErrUserNotFound) {
		err = account.ErrInvalidLink
	}
	return u, err
}

// VerifyLinked serves the link that verifies an address. It refuses a person who is signed in to
// another account: they would verify their own address for somebody else's account.
func (s *Service) VerifyLinked(ctx context.Context, c account.Caller, sealed string) (Linked, error) {
	var v verifyLink
	if err := s.openLink(PurposeVerify, sealed, &v); err != nil {
		return Linked{}, err
	}
	u, err := s.linkedUser(ctx, v.Sub)
	if err != nil {
		return Linked{}, err
	}
	// The page names the account, as the mail does: people must know for whom they verify an
	// address.
	page := templates.LinkPage{Handle: u.Handle, Email: account.MaskedEmail(v.Email)}
	switch c.User.Sub {
	case "":
	case u.Sub:
		page.Email = v.Email
	default:
		return Linked{}, errOtherAccount
	}
	page.Done = u.Email == v.Email && u.EmailVerified
	page.EndsOthers = u.EmailVerified && !u.Pending.Keep.Sessions
	asked := time.Unix(v.Asked, 0).UTC()
	if !page.Done && (u.Unproven() != v.Email || !u.EmailAskedAt.Equal(asked) || !s.Verifiable(u)) {
		return Linked{}, account.ErrInvalidLink
	}
	return Linked{page, func(*templates.LinkPage) error { return s.verifyEmail(ctx, c, u, asked) }}, nil
}

// CancelLinked serves the link in the notice that a new address was asked for. It is good as long as an undo.
func (s *Service) CancelLinked(ctx context.Context, c account.Caller, sealed string) (Linked, error) {
	var v cancelLink
	if err := s.openLink(PurposeCancel, sealed, &v); err != nil {
		return Linked{}, err
	}
	u, err := s.linkedUser(ctx, v.Sub)
	theirs := []account.EmailChange{{Email: u.Email}} // of the mailboxes that may be the owner's
	if err == nil {
		var former []account.EmailChange
		former, err = s.Store().FormerEmails(ctx, u.Sub, s.Now())
		theirs = append(theirs, former...)
	}
	if err == nil && (u.Pending.At.Before(time.Unix(v.Asked, 0)) || !slices.ContainsFunc(theirs,
		func(e account.EmailChange) bool { return strings.EqualFold(e.Email, v.Email) })) {
		err = account.ErrInvalidLink
	}
	if err != nil {
		return Linked{}, err
	}
	return Linked{templates.LinkPage{Email: account.MaskedEmail(u.Pending.Email)}, func(*templates.LinkPage) error {
		err := s.cancelEmail(ctx, account.Caller{Address: c.Address, RequestID: c.RequestID}.As(u), account.RefuseEmail)
		if errors.Is(err, account.ErrNoEmailToVerify) {
			err = account.ErrInvalidLink
		}
		return err
	}}, nil
}

// UndoLinked serves the link in the mail to the previous address after a change.
func (s *Service) UndoLinked(ctx context.Context, c account.Caller, sealed string) (Linked, error) {
	var v undoLink
	if err := s.openLink(PurposeUndo, sealed, &v); err != nil {
		return Linked{}, err
	}
	change, err := s.Store().EmailChange(ctx, v.ID, s.Now())
	if err != nil {
		return Linked{}, err
	}
	u, err := s.linkedUser(ctx, change.Sub)
	if err != nil {
		return Linked{}, err
	}
	page := templates.LinkPage{Email: account.MaskedEmail(change.Email), Passwordless: u.Passwordless()}
	return Linked{page, func(page *templates.LinkPage) error {
		a, err := s.begin(ctx, c.As(u), account.UndoEmailChange, "", "undone", "true", account.MailFormer, "true")
		if err != nil {
			return err
		}
		// Any other address may be the stolen one.
		a.Actor, a.Mails = "", slices.DeleteFunc(a.Mails, func(m account.Mail) bool {
			return u.Email == change.Email || m.Address != u.Email
		})
		code := s.mailedCode()
		out, err := s.Store().UndoEmailChange(ctx, v.ID, code, s.Now(), a)
		if err != nil {
			return err
		}
		web.Note(ctx, "email_undone")
		return s.describeDisowned(ctx, page, u.Sub, code, out)
	}}, nil
}

// mailedCode returns a reset code for the page of a link, which proves the mailbox.
func (s *Service) mailedCode() account.ResetCode {
	code := account.NewResetCode(s.Now())
	code.ExpiresAt = s.Now().Add(account.MailedResetLifetime)
	return code
}

// NotMeLinked serves the link in the notice of a sign-in, or of a factor that was added: somebody else used the
// account. It ends everything of the account that lives, disowns the password, and removes what the session made. The
// page that follows shows that, and what else was added since, and sets a new password: the link proves the mailbox,
// as that of a forgotten password does, as long as the mailbox is the owner's: see DisownSession. It signs nobody in.
// Without a password, unless the session removed it, there is nothing to disown, and the page leads to the passkeys,
// the recovery codes and an administrator: as for a forgotten password, the mailbox alone sets none.
func (s *Service) NotMeLinked(ctx context.Context, c account.Caller, sealed string) (Linked, error) {
	var v notMeLink
	if err := s.openLink(PurposeNotMe, sealed, &v); err != nil {
		return Linked{}, err
	}
	u, err := s.linkedUser(ctx, v.Sub)
	if err != nil {
		return Linked{}, err
	}
	page := templates.LinkPage{Handle: u.Handle, Passwordless: u.Passwordless()}
	switch n, _, err := s.Store().Session(ctx, v.Session); {
	case err != nil && !errors.Is(err, account.ErrSessionNotFound):
		return Linked{}, err
	case v.Added:
	case err != nil || slices.Contains(n.AMR, account.MethodPassword):
		page.Used = factorPassword
	case n.Passkey != nil:
		page.Used = account.FactorPasskey
	default:
		page.Used = account.FactorRecoveryCode
	}
	return Linked{page, func(page *templates.LinkPage) error {
		a, err := s.begin(ctx, account.Caller{Address: c.Address, RequestID: c.RequestID}.As(u),
			account.DisownSession, v.Session)
		if err != nil {
			return err
		}
		code := s.mailedCode()
		out, err := s.Store().DisownSession(ctx, u.Sub, v.Session, v.Email, code, account.MailedResetLifetime,
			s.Now(), a)
		if err != nil {
			return err
		}
		web.Note(ctx, "session_not_me")
		return s.describeDisowned(ctx, page, u.Sub, code, out)
	}}, nil
}

// describeDisowned describes on the page of a link what was removed, what is left, and how the owner goes on.
func (s *Service) describeDisowned(
	ctx context.Context, page *templates.LinkPage, sub string, code account.ResetCode, out account.Disowned,
) error {
	u, err := s.Store().UserBySub(ctx, sub)
	if err != nil {
		return err
	}
	page.Handle, page.Passwordless, page.Removed = u.Handle, u.Passwordless(), account.FactorRowsOf(out.Removed)
	page.Administers = u.Has(account.FlagAdmin)
	if page.Passwordless { // one of their ways in was used, which may be an old one
		f, err := s.Store().Factors(ctx, sub)
		if err != nil {
			return err
		}
		page.Closed = s.CountUsablePasskeys(f) == 0 && f.RecoveryCodes == 0
		page.Added, err = s.WaysIn(ctx, u)
		return err
	}
	page.Code = code.Code
	if page.Recent.Rows, err = s.RecentFactorRows(ctx, u, ""); err != nil {
		return err
	}
	since := out.Since
	if page.Used == account.FactorPasskey { // it is one of these
		since = time.Time{}
	}
	page.Added, err = s.addedSince(ctx, u, since)
	return err
}

// addedSince returns the factors, and the address, that the account got since a time.
func (s *Service) addedSince(
	ctx context.Context, u account.User, since time.Time,
) (list []templates.FactorRow, err error) {
	list, err = s.WaysIn(ctx, u)
	return slices.DeleteFunc(list, func(f templates.FactorRow) bool { return f.CreatedAt.Before(since) }), err
}

// WaysIn returns the second factors of a user, oldest first, and their address if they changed it
// themselves, for pages that follow an act that proves the account anew.
func (s *Service) WaysIn(ctx context.Context, u account.User) ([]templates.FactorRow, error) {
	list, err := s.factorRows(ctx, u)
	if err == nil && u.Email != "" && !u.EmailChangedAt.IsZero() {
		list = append(list, templates.FactorRow{Kind: "email", Name: account.MaskedEmail(u.Email),
			CreatedAt: u.EmailChangedAt})
	}
	return list, err
}

// factorRows returns the second factors of a user for pages, oldest first.
func (s *Service) factorRows(ctx context.Context, u account.User) (list []templates.FactorRow, err error) {
	f, err := s.Store().Factors(ctx, u.Sub)
	if err != nil {
		return nil, err
	}
	if f.TOTP != nil {
		list = append(list, templates.FactorRow{Kind: account.FactorTOTP, CreatedAt: f.TOTP.CreatedAt})
	}
	if f.RecoveryCodes > 0 {
		list = append(list, templates.FactorRow{Kind: account.FactorRecoveryCode, CreatedAt: f.CodesMadeAt})
	}
	keys, err := s.Store().Passkeys(ctx, u.Sub)
	for _, k := range keys {
		list = append(list, templates.FactorRow{Kind: account.FactorPasskey, Name: k.Name, CreatedAt: k.CreatedAt})
	}
	return list, err
}
