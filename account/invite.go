package account

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// InviteLifetime is the lifetime of an invite.
const InviteLifetime = 14 * 24 * time.Hour

// Invite lets one person register. Its code is stored readable, so that its owner can show it
// again.
type Invite struct {
	Code      string // canonical, 16 characters
	CreatedBy string // sub; empty for an invite of the operator
	Inviter   string // handle of the creator, filled by the store
	Note      string
	MailedTo  string // address to which it was mailed at its creation, or empty
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time
	UsedBy    string // handle of the user who registered, filled by the store
	SessionID string // in which it was made, or empty
	Stale     bool   // made without a fresh proof: it ends with the session
}

// Open reports whether the invite can be used.
func (i Invite) Open(now time.Time) bool { return i.UsedAt.IsZero() && now.Before(i.ExpiresAt) }

// Place returns the place of the invite in a list.
func (i Invite) Place() InvitePlace { return InvitePlace{i.CreatedAt, i.Code} }

// Shown returns the code in groups of four.
func (i Invite) Shown() string { return grouped(i.Code) }

// CanonicalInviteCode returns the stored form of a code that was typed in any case, with or without
// dashes and spaces, or "" if it cannot be a code.
func CanonicalInviteCode(typed string) string { return CanonicalCode(typed, inviteCodeLength) }

// NewInvite returns a new invite of a user, or of the operator if sub is empty.
func NewInvite(sub, note string, now time.Time) (Invite, error) {
	note, ok := text.Check(note, 200)
	if !ok {
		return Invite{}, ErrInvalidText.For(web.Fault("/note", "The text is too long or has control characters."))
	}
	now = now.UTC().Truncate(time.Second)
	return Invite{Code: newCode(inviteCodeLength), CreatedBy: sub, Note: note, CreatedAt: now,
		ExpiresAt: now.Add(InviteLifetime)}, nil
}

// CreateInvite creates an invite of the caller within the limits, and mails the link if an email
// address is given.
func (s *Service) CreateInvite(ctx context.Context, c Caller, note, email string) (Invite, error) {
	u := c.User
	settings, err := s.Settings(ctx)
	if err != nil {
		return Invite{}, err
	}
	if err := s.limits.Count(ctx, web.LimitKey{Name: web.LimitInvite, Key: u.Sub}); err != nil {
		return Invite{}, err
	}
	i, wrongNote := NewInvite(u.Sub, note, s.Now())
	email, wrongEmail := CheckEmail(email)
	if err := web.AllFaults(wrongNote, wrongEmail); err != nil {
		return Invite{}, err
	}
	mails, err := s.inviteMails(ctx, settings, u, i, email)
	for _, m := range mails {
		i.MailedTo = m.Address
	}
	if err != nil {
		return Invite{}, err
	}
	a, err := s.begin(ctx, c, CreateInvite, "")
	if err != nil {
		return Invite{}, err
	}
	i.SessionID, i.Stale = c.Session.ID, !c.Fresh(s.Now())
	return i, web.Noted(ctx, "invite_created", s.store.CreateInvite(ctx, i, settings.inviteLimit(u), a.with(mails...)))
}

// inviteMails returns the mail with an invite, if an address is given. A user may mail as many a
// day as they may have invites, and only a few to the same address.
func (s *Service) inviteMails(ctx context.Context, settings Settings, u User, i Invite, email string) ([]Mail, error) {
	if email == "" {
		return nil, nil
	}
	if !s.MailEnabled() {
		return nil, s.WithContact(ctx, ErrMailOff, mailOffContact)
	}
	most := settings.inviteLimit(u)
	if most == 0 {
		return nil, ErrInviteLimit
	}
	if most < 0 {
		most = math.MaxInt
	}
	wait, err := s.limits.TakeUpTo(ctx, web.LimitInviteMail, u.Sub, most)
	if err == nil && wait == 0 {
		wait, err = s.limits.Take(ctx, web.LimitMail, "invite:"+strings.ToLower(email))
	}
	if err != nil || wait > 0 {
		return nil, cmp.Or(err, web.RateLimited(wait))
	}
	return []Mail{userMail(ctx, u, email, MailInvite, s.Now(), "invite", i.hash())}, nil
}

func (i Invite) hash() string { return hex.EncodeToString(HashSecret(i.Code)) }

// InviteURL returns the link to the registration page of the issuer with the code filled in.
func InviteURL(issuer string, i Invite) string { return issuer + "/register/?code=" + i.Shown() }

// InviteURL returns the link to this service's registration page.
func (s *Service) InviteURL(i Invite) string { return InviteURL(s.site.URL(""), i) }

// inviteEntry is an invite in the list of its owner.
type inviteEntry struct {
	Code      string     `json:"code"` // in groups of four
	URL       string     `json:"url"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	MailedTo  *string    `json:"mailed_to"`
	Used      bool       `json:"used"`
	UsedBy    *string    `json:"used_by"` // handle
	UsedAt    *time.Time `json:"used_at"`
}

func (s *Service) InviteEntry(i Invite) inviteEntry {
	return inviteEntry{
		Code: i.Shown(), URL: s.InviteURL(i), CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
		MailedTo: web.TextOrNull(i.MailedTo), Used: !i.UsedAt.IsZero(), UsedAt: web.TimeOrNull(i.UsedAt), UsedBy: web.TextOrNull(i.UsedBy),
	}
}

func (s *Service) ListInvites(ctx context.Context, u User, entry func(Invite) any) web.List {
	return func(add func(any) error) error {
		return s.eachInvite(ctx, u, func(i Invite) error { return add(entry(i)) })
	}
}

// PageOfInvites is the number of invites read at once.
const PageOfInvites = 200

// eachInvite calls do with a user's invites, newest first. It reads them page by page.
func (s *Service) eachInvite(ctx context.Context, u User, do func(Invite) error) error {
	for q := (InviteQuery{Sub: u.Sub, Limit: PageOfInvites}); ; {
		page, err := s.store.Invites(ctx, q)
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
func (s *Service) InvitesLeft(ctx context.Context, u User) (int, error) {
	settings, err := s.Settings(ctx)
	left := settings.inviteLimit(u)
	if err != nil || left < 0 {
		return -1, err
	}
	now := s.Now()
	err = s.eachInvite(ctx, u, func(i Invite) error {
		if i.Open(now) || !i.UsedAt.IsZero() {
			left--
		}
		return nil
	})
	return max(0, left), err
}

// DeleteInvite removes an open invite of the caller.
func (s *Service) DeleteInvite(ctx context.Context, c Caller, typed string) error {
	a, err := s.begin(ctx, c, DeleteInvite, "")
	if err != nil {
		return err
	}
	code := CanonicalCode(typed, inviteCodeLength)
	if code == "" {
		return ErrInviteNotFound
	}
	return web.Noted(ctx, "invite_deleted", s.store.DeleteInvite(ctx, c.User.Sub, code, a))
}

// errUnknownInvite is ErrInvalidInvite for a code that does not exist, which is what a guess looks
// like. The response is that of a used code.
var errUnknownInvite = fmt.Errorf("%w: unknown code", ErrInvalidInvite)

// OpenInvite returns an invite that can be used now, within the limit. ErrInvalidInvite.
//
// Only a possible guess counts: neither a user who tries handles with a valid invite is an
// attacker, nor a group behind one address that shares the link of a used invite.
func (s *Service) OpenInvite(ctx context.Context, c Caller, typed string) (i Invite, err error) {
	err = s.limits.Guess(ctx, []web.LimitKey{{Name: web.LimitRegister, Key: c.Address}},
		errUnknownInvite, func() error {
			i, err = s.openInvite(ctx, typed)
			return err
		})
	return i, err
}

// LinkedInvite is OpenInvite for a link on another site, whose pages must not use up the limit of an
// address by links to wrong codes. Nothing is counted: 80 bits are not guessed.
func (s *Service) LinkedInvite(ctx context.Context, c Caller, typed string) (Invite, error) {
	if err := s.limits.Blocked(ctx, web.LimitKey{Name: web.LimitRegister, Key: c.Address}); err != nil {
		return Invite{}, err
	}
	return s.openInvite(ctx, typed)
}

func (s *Service) openInvite(ctx context.Context, typed string) (Invite, error) {
	code := CanonicalCode(typed, inviteCodeLength)
	if code == "" {
		return Invite{}, errUnknownInvite
	}
	i, err := s.store.Invite(ctx, code)
	switch {
	case errors.Is(err, ErrInviteNotFound):
		return i, errUnknownInvite
	case err != nil:
		return i, err
	case !i.Open(s.Now()):
		return i, ErrInvalidInvite
	}
	return i, nil
}
