package person

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

const onceFor = time.Minute

// onceCode returns the code of the invite of a form: another one if anything else was typed into it.
func (s *Service) onceCode(sub string, t account.InviteTerms) (string, error) {
	typed, err := json.Marshal([]any{sub, t.Once, t})
	m := hmac.New(sha256.New, s.inviteKey)
	m.Write(typed)
	return account.CodeOf(m.Sum(nil)[:account.InviteCodeLength]), err
}

// CreateInvite creates an invite of the caller within the limits, and mails the link if an email
// address is given. What only an administrator may make needs a fresh proof.
func (s *Service) CreateInvite(ctx context.Context, c account.Caller, t account.InviteTerms) (account.Invite, error) {
	u := c.User
	settings, err := s.Settings(ctx)
	if err != nil {
		return account.Invite{}, err
	}
	if err := s.Limits().Count(ctx, web.LimitKey{Name: web.LimitInvite, Key: u.Sub}); err != nil {
		return account.Invite{}, err
	}
	i, err := t.Invite(settings, c, s.Now())
	if err != nil {
		return account.Invite{}, err
	}
	act, data := account.CreateInvite, []string(nil)
	if i.ByAdmin {
		act = account.CreateWideInvite
		if given := strings.Join(i.Flags, "=on "); given != "" {
			data = []string{"flags", given + "=on"}
		}
	}
	if err := s.Allow(c, act); err != nil { // before a mail is counted
		return account.Invite{}, err
	}
	if i.Domain != "" && !s.MailEnabled() {
		return account.Invite{}, s.WithContact(ctx, account.ErrMailOff, mailOffContact)
	}
	if t.Once != "" {
		code, err := s.onceCode(u.Sub, t)
		if err != nil {
			return account.Invite{}, err
		}
		switch made, err := s.Store().Invite(ctx, code); {
		case errors.Is(err, account.ErrInviteNotFound):
			i.Code = code
		case err != nil:
			return account.Invite{}, err
		case s.Now().Sub(made.CreatedAt) < onceFor:
			return made, nil
		}
	}
	mails, err := s.inviteMails(ctx, settings, u, i, t.App)
	if err != nil {
		return account.Invite{}, err
	}
	a, err := s.begin(ctx, c, act, i.Terms(), data...)
	if err != nil {
		return account.Invite{}, err
	}
	i.SessionID, i.Stale = c.Session.ID, !c.Fresh(s.Now())
	err = s.Store().CreateInvite(ctx, i, settings.InviteLimit(u), a.With(mails...))
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) { // perhaps because the same form was faster
		if made, found := s.Store().Invite(ctx, i.Code); found == nil {
			return made, nil
		}
	}
	if errors.Is(err, account.ErrInviteLimit) && i.Uses > 1 {
		err = web.ForField(403, account.ErrInviteLimit.Code, "/uses", "You cannot invite that many people.")
	}
	return i, web.Noted(ctx, "invite_created", err)
}

// inviteMails returns the mail with an invite, if an address is given. A user may mail as many a
// day as they may have invites, and only a few to the same address.
func (s *Service) inviteMails(
	ctx context.Context, settings account.Settings, u account.User, i account.Invite, app string,
) ([]account.Mail, error) {
	if i.MailedTo == "" {
		return nil, nil
	}
	if !s.MailEnabled() {
		return nil, s.WithContact(ctx, account.ErrMailOff, mailOffContact)
	}
	if err := s.MayJoin(ctx, settings); err != nil { // the link would lead nowhere
		return nil, err
	}
	most := settings.InviteLimit(u)
	if most == 0 {
		return nil, account.ErrInviteLimit
	}
	if most < 0 {
		most = math.MaxInt
	}
	wait, err := s.Limits().TakeUpTo(ctx, web.LimitInviteMail, u.Sub, most)
	if err == nil && wait == 0 {
		wait, err = s.Limits().Take(ctx, web.LimitMail, "invite:"+mailboxOf(i.MailedTo))
	}
	if err != nil || wait > 0 {
		return nil, cmp.Or(err, web.RateLimited(wait))
	}
	return []account.Mail{account.UserMail(ctx, u, i.MailedTo, account.MailInvite, s.Now(), "invite", i.Hash(),
		"app", app)}, nil
}

// InviteURL returns the link to this service's registration page.
func (s *Service) InviteURL(i account.Invite) string { return account.InviteURL(s.site.URL(""), i) }

func (s *Service) ListInvites(ctx context.Context, u account.User, entry func(account.Invite) any) web.List {
	return func(add func(any) error) error {
		return s.EachInvite(ctx, u, func(i account.Invite) error { return add(entry(i)) })
	}
}

// EachInvite calls do with a user's invites, newest first. It reads them page by page.
func (s *Service) EachInvite(ctx context.Context, u account.User, do func(account.Invite) error) error {
	for q := (account.InviteQuery{Sub: u.Sub, Limit: account.PageOfInvites}); ; {
		page, err := s.Store().Invites(ctx, q)
		if err != nil {
			return err
		}
		for _, i := range page {
			if err := do(i); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Place()
	}
}

// InvitesLeft returns how many more invites a user may create; -1 means no limit.
func (s *Service) InvitesLeft(ctx context.Context, u account.User) (int, error) {
	settings, err := s.Settings(ctx)
	left := settings.InviteLimit(u)
	if err != nil || left < 0 {
		return -1, err
	}
	now := s.Now()
	err = s.EachInvite(ctx, u, func(i account.Invite) error {
		left -= i.Charged(now)
		return nil
	})
	return max(0, left), err
}

// DeleteInvite removes an open invite of the caller.
func (s *Service) DeleteInvite(ctx context.Context, c account.Caller, typed string) error {
	a, err := s.begin(ctx, c, account.DeleteInvite, "")
	if err != nil {
		return err
	}
	code := account.CanonicalInviteCode(typed)
	return web.Noted(ctx, "invite_deleted", s.Store().DeleteInvite(ctx, c.User.Sub, code, a))
}

// errUnknownInvite is ErrInvalidInvite for a code that does not exist, which is what a guess looks
// like. The response is that of a used code.
var errUnknownInvite = fmt.Errorf("%w: unknown code", account.ErrInvalidInvite)

// OpenInvite returns an invite that can be used now, within the limit. ErrInvalidInvite.
//
// Only a possible guess counts: neither a user who tries handles with a valid invite is an
// attacker, nor a group behind one address that shares the link of a used invite. A known code is always
// accepted: 80 bits are not guessed, and the typing mistakes of a team in one room, or a stranger there,
// must keep nobody out.
func (s *Service) OpenInvite(ctx context.Context, c account.Caller, typed string) (account.Invite, error) {
	i, err := s.LinkedInvite(ctx, typed)
	if errors.Is(err, errUnknownInvite) {
		err = s.Limits().Guess(ctx, []web.LimitKey{{Name: web.LimitRegister, Key: c.Address}}, errUnknownInvite,
			func() error { return errUnknownInvite })
	}
	return i, err
}

// LinkedInvite is OpenInvite for a link on another site, whose pages must not use up the limit of an
// address by links to wrong codes. Nothing is counted.
func (s *Service) LinkedInvite(ctx context.Context, typed string) (account.Invite, error) {
	i, err := s.Store().Invite(ctx, account.CanonicalInviteCode(typed))
	switch {
	case errors.Is(err, account.ErrInviteNotFound):
		return i, errUnknownInvite
	case err != nil:
		return i, err
	case !i.Open(s.Now()):
		return i, s.spentInvite(ctx, i)
	}
	return i, nil
}

// spentInvite returns the refusal of an invite that is used or expired. It says whom to ask where
// everybody has joined for whom it was.
func (s *Service) spentInvite(ctx context.Context, i account.Invite) error {
	switch {
	case i.UsedAt.IsZero() || i.Uses == 1:
		return account.ErrInvalidInvite
	case i.Inviter != "":
		return account.ErrInvalidInvite.With("{n} people have joined with this invite, and it is "+
			"closed. Ask @{handle} for a new one.",
			"n", i.Uses, "handle", i.Inviter)
	}
	p := account.ErrInvalidInvite.With("{n} people have joined with this invite, and it is closed. Ask an "+
		"administrator of your club for a new one.", "n", i.Uses)
	return s.WithContact(ctx, p, "This invite was used and is closed. Ask an administrator of your club for a new "+
		"one. Contact: {contact}")
}
