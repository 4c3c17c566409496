package account

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// InviteLifetime is the lifetime of an invite for which no other is chosen.
const InviteLifetime = 14 * 24 * time.Hour

// Limits of an invite, of administrators too.
const (
	MaxInviteUses = 500
	MaxInviteDays = 90
)

// Invite lets people register, one if nothing else is said. Its code is stored readable, so that its
// owner can show it again.
type Invite struct {
	Code      string // canonical, 16 characters
	CreatedBy string // sub; empty for an invite of the operator
	Inviter   string // handle of the creator, filled by the store
	Note      string
	MailedTo  string // address to which it was mailed at its creation, or empty
	CreatedAt time.Time
	ExpiresAt time.Time
	UsedAt    time.Time // when the last use was spent
	UsedBy    string    // handle of the first user who registered, filled by the store
	Uses      int       // how many people may register; 0 in a new invite means one
	Used      int       // how many have
	Joined    []string  // their handles while they have an account, filled by the store
	Flags     []string  // that they get besides the usual ones
	// Domain is that of which the address of whoever registers must be, or an address; empty: no address
	// is needed.
	Domain string
	// AccountEnds is when the account of whoever registers ends; zero: never. FlagEnds has those of Flags.
	AccountEnds time.Time
	FlagEnds    map[string]time.Time
	ByAdmin     bool   // more than a member may make: it counts only while its creator is an administrator
	SessionID   string // in which it was made, or empty
	Stale       bool   // made without a fresh proof: it ends with the session
}

var domainForm = regexp.MustCompile(`^[\pL\pM\pN-]+(?:\.[\pL\pM\pN-]+)+$`)

// Open reports whether the invite can be used.
func (i Invite) Open(now time.Time) bool { return i.UsedAt.IsZero() && now.Before(i.ExpiresAt) }

// Charged returns for how many people the invite counts in the limit of its creator: open, for all
// that may come, otherwise for those who came.
func (i Invite) Charged(now time.Time) int {
	if i.Open(now) {
		return max(1, i.Uses)
	}
	return i.Used
}

// plainLocal is a Dot-string of RFC 5321 section 4.1.2 without % and !, by which a mail server may pass the mail on to
// another host.
var plainLocal = regexp.MustCompile("^[A-Za-z0-9#$&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9#$&'*+/=?^_`{|}~-]+)*$")

// Admits reports whether an address is one that the invite is for. Of a domain it is only for addresses that every mail
// server of the domain reads alike: an encoded word (RFC 2047 section 2) may hide another @.
func (i Invite) Admits(email string) bool {
	if i.Domain == "" || strings.EqualFold(email, i.Domain) {
		return true
	}
	local, domain, _ := strings.Cut(email, "@")
	return !strings.Contains(i.Domain, "@") && strings.EqualFold(domain, i.Domain) &&
		plainLocal.MatchString(local) && !strings.HasPrefix(local, "=?")
}

// For returns the invite as the caller may see it in a list. An old session must not show the code where it
// gives flags that need a fresh proof to give: whoever holds the session would join with it.
func (i Invite) For(c Caller, now time.Time) Invite {
	if len(i.Flags) > 0 && (i.ByAdmin || i.CreatedBy == "") && !c.Fresh(now) {
		i.Code = ""
	}
	return i
}

// Place returns the place of the invite in a list.
func (i Invite) Place() InvitePlace { return InvitePlace{i.CreatedAt, i.Code} }

// Shown returns the code in groups of four.
func (i Invite) Shown() string { return grouped(i.Code) }

// CanonicalInviteCode returns the stored form of a code that was typed as CanonicalCode accepts it, or
// pasted within its link, or "" if it cannot be a code.
func CanonicalInviteCode(typed string) string {
	if _, code, link := strings.Cut(typed, "/register/?code="); link {
		typed, _, _ = strings.Cut(code, "&")
	}
	return CanonicalCode(typed, inviteCodeLength)
}

// NewInvite returns a new invite of a user, or of the operator if sub is empty.
func NewInvite(sub, note string, now time.Time) (Invite, error) {
	note, ok := text.Check(note, 200)
	if !ok {
		return Invite{}, ErrInvalidText.For(web.Fault("/note", "The text is too long or contains control characters."))
	}
	now = now.UTC().Truncate(time.Second)
	return Invite{Code: newCode(inviteCodeLength), CreatedBy: sub, Note: note, CreatedAt: now,
		ExpiresAt: now.Add(InviteLifetime), Uses: 1}, nil
}

// InviteTerms is what somebody wants an invite to be.
type InviteTerms struct {
	Note   string   `json:"note"`
	Email  string   `json:"email"`  // where it is mailed, or empty
	Flags  []string `json:"flags"`  // that whoever joins gets besides the usual ones, also until a day: coach@2030-12-24
	Uses   *int     `json:"uses"`   // nil: one
	Days   *int     `json:"days"`   // nil: InviteLifetime, or as many as a member may choose, unless by the operator
	Domain string   `json:"domain"` // see Invite.Domain
	// Until is when the operator's invite ends, instead of Days; zero: after Days.
	Until time.Time `json:"-"`
	// AccountEnds is when the account of whoever joins ends, as ParseEnd reads it; empty: never.
	AccountEnds string `json:"account_ends"`
	// App is the client id of the application to which the mailed link leads, or empty.
	App string `json:"-"`
	// Once is that of the form, or empty: a form that is sent again within a minute creates nothing.
	Once string `json:"-"`
}

const onceFor = time.Minute

// onceCode returns the code of the invite of a form: another one if anything else was typed into it.
func (s *Service) onceCode(sub string, t InviteTerms) (string, error) {
	typed, err := json.Marshal([]any{sub, t.Once, t})
	m := hmac.New(sha256.New, s.inviteKey)
	m.Write(typed)
	return codeOf(m.Sum(nil)[:inviteCodeLength]), err
}

// Invite returns the invite of the terms, if by may make it. Days are those of the zone of now. The error is a *Problem
// that names every wrong member.
func (t InviteTerms) Invite(settings Settings, by Caller, now time.Time) (Invite, error) {
	i, noteErr := NewInvite(by.User.Sub, t.Note, now)
	if noteErr != nil {
		i, _ = NewInvite(by.User.Sub, "", now)
	}
	var faults []web.FieldError
	admin := by.operator || by.User.Has(FlagAdmin)
	number := func(pointer string, given *int, usual, members, most int) int {
		n := usual
		if given != nil {
			n = *given
		} else if !by.operator {
			n = min(n, members) // what nobody asked for makes no invite wide
		}
		if limit := most; n > members && !admin || n < 1 || n > most {
			if !admin {
				limit = members
			}
			faults = append(faults, web.Fault(pointer, "1 to {most}", "most", limit))
		}
		i.ByAdmin = i.ByAdmin || n > members
		return n
	}
	i.Uses = number("/uses", t.Uses, 1, settings.InviteMaxUses, MaxInviteUses)
	days := number("/days", t.Days, int(InviteLifetime/(24*time.Hour)), settings.InviteMaxDays, MaxInviteDays)
	i.ExpiresAt = i.CreatedAt.Add(time.Duration(days) * 24 * time.Hour)
	if !t.Until.IsZero() {
		i.ExpiresAt = t.Until
		if CheckEnd(t.Until, now) != nil {
			faults = append(faults, web.Fault("/days", "a date such as 2030-12-24 that is not in the past"))
		} else if t.Until.After(lastInviteDay(now)) {
			faults = append(faults, web.Fault("/days", "1 to {most}", "most", MaxInviteDays))
		}
	}
	flags, flagEnds, err := ParseFlags(t.Flags, now.Location())
	for _, at := range flagEnds {
		err = cmp.Or(err, CheckEnd(at, now))
	}
	if err != nil {
		faults = append(faults, web.Fault("/flags", "a date such as coach@2030-12-24 that is not in the past"))
	}
	i.FlagEnds = flagEnds
	if i.AccountEnds, err = ParseEnd(t.AccountEnds, now.Location()); err != nil || CheckEnd(i.AccountEnds, now) != nil {
		faults = append(faults, web.Fault("/account_ends", "a date such as 2030-12-24 that is not in the past"))
	}
	if !i.AccountEnds.IsZero() && i.AccountEnds.Before(i.ExpiresAt) {
		i.ExpiresAt = i.AccountEnds // nobody joins for nothing
	}
	i.Flags = flags
	faults = append(faults, i.giveFlags(settings, admin)...)
	i.ByAdmin = i.ByAdmin && !by.operator
	i.Domain = strings.TrimPrefix(strings.TrimSpace(t.Domain), "@")
	if i.Domain != "" {
		address, err := CheckEmail("x@" + i.Domain)
		if i.Domain = strings.TrimPrefix(address, "x@"); err != nil || !domainForm.MatchString(i.Domain) {
			faults = append(faults, web.Fault("/domain", "Enter the part of an address after the @, such as "+
				"example.org"))
		}
	}
	email, emailErr := CheckEmail(t.Email)
	if emailErr == nil && email != "" && !i.Admits(email) {
		faults = append(faults, web.Fault("/email", "Enter an address at {domain}, as the invite requires",
			"domain", i.Domain))
	}
	i.MailedTo = email
	var terms error
	if faults != nil {
		terms = web.NewProblem(400, "invalid_invite_terms",
			"The invite was not created. The reason is next to each field.", faults...)
	}
	return i, web.AllFaults(noteErr, emailErr, terms)
}

// lastInviteDay is the end of the last day until which an invite of now may be open.
func lastInviteDay(now time.Time) time.Time {
	return time.Date(now.Year(), now.Month(), now.Day()+MaxInviteDays+1, 0, 0, 0, 0, now.Location())
}

// giveFlags checks the flags of the invite, and notes whether only an administrator may give them.
func (i *Invite) giveFlags(settings Settings, admin bool) []web.FieldError {
	slices.Sort(i.Flags)
	i.Flags = slices.Compact(i.Flags)
	for _, f := range i.Flags {
		may, known := slices.Contains(settings.InviteFlags, f), slices.Contains(settings.Flags, f)
		if !known || !may && !admin {
			name := strconv.Quote(text.Cut(f, 32))
			fault := web.Fault("/flags", "You cannot give the permission {flag}.", "flag", name)
			if admin {
				fault = web.Fault("/flags",
					"The permission {flag} does not exist. There are: {flags}. An administrator can add it in the "+
						"settings.",
					"flag", name, "flags", strings.Join(settings.Flags, ", "))
			}
			return []web.FieldError{fault}
		}
		i.ByAdmin = i.ByAdmin || !may
	}
	return nil
}

// granted returns the flags that whoever joins with the invite has. Those that nobody may give any more are
// left out.
func (i Invite) granted(settings Settings) []string {
	flags := slices.Clone(settings.DefaultFlags)
	for _, f := range i.Flags {
		if slices.Contains(settings.InviteFlags, f) ||
			(i.ByAdmin || i.CreatedBy == "") && slices.Contains(settings.Flags, f) {
			flags = append(flags, f)
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// Use returns what is unusual about the invite.
func (i Invite) Use() templates.InviteUse {
	return templates.InviteUse{Uses: i.Uses, Used: i.Used, Flags: i.Flags, Domain: i.Domain,
		AccountEnds: i.AccountEnds, FlagEnds: FlagEndRows(i.Flags, i.FlagEnds)}
}

// Terms describes what is unusual about the invite, for the audit row.
func (i Invite) Terms() string {
	var words []string
	if i.Uses > 1 {
		words = append(words, "uses="+strconv.Itoa(i.Uses))
	}
	switch life, day := i.ExpiresAt.Sub(i.CreatedAt), 24*time.Hour; {
	case life%day != 0:
		words = append(words, "until="+i.ExpiresAt.UTC().Format(time.RFC3339))
	case life != InviteLifetime:
		words = append(words, "days="+strconv.Itoa(int(life/day)))
	}
	for _, f := range i.Flags {
		words = append(words, "flag="+FlagWord(f, i.FlagEnds[f]))
	}
	if !i.AccountEnds.IsZero() {
		words = append(words, "account_ends="+i.AccountEnds.UTC().Format(time.RFC3339))
	}
	if i.Domain != "" && !strings.Contains(i.Domain, "@") {
		words = append(words, "domain="+i.Domain)
	}
	return strings.Join(words, " ")
}

// CreateInvite creates an invite of the caller within the limits, and mails the link if an email
// address is given. What only an administrator may make needs a fresh proof.
func (s *Service) CreateInvite(ctx context.Context, c Caller, t InviteTerms) (Invite, error) {
	u := c.User
	settings, err := s.Settings(ctx)
	if err != nil {
		return Invite{}, err
	}
	if err := s.limits.Count(ctx, web.LimitKey{Name: web.LimitInvite, Key: u.Sub}); err != nil {
		return Invite{}, err
	}
	i, err := t.Invite(settings, c, s.Now())
	if err != nil {
		return Invite{}, err
	}
	act, data := CreateInvite, []string(nil)
	if i.ByAdmin {
		act = CreateWideInvite
		if given := strings.Join(i.Flags, "=on "); given != "" {
			data = []string{"flags", given + "=on"}
		}
	}
	if err := s.Allow(c, act); err != nil { // before a mail is counted
		return Invite{}, err
	}
	if i.Domain != "" && !s.MailEnabled() {
		return Invite{}, s.WithContact(ctx, ErrMailOff, mailOffContact)
	}
	if t.Once != "" {
		code, err := s.onceCode(u.Sub, t)
		if err != nil {
			return Invite{}, err
		}
		switch made, err := s.store.Invite(ctx, code); {
		case errors.Is(err, ErrInviteNotFound):
			i.Code = code
		case err != nil:
			return Invite{}, err
		case s.Now().Sub(made.CreatedAt) < onceFor:
			return made, nil
		}
	}
	mails, err := s.inviteMails(ctx, settings, u, i, t.App)
	if err != nil {
		return Invite{}, err
	}
	a, err := s.begin(ctx, c, act, i.Terms(), data...)
	if err != nil {
		return Invite{}, err
	}
	i.SessionID, i.Stale = c.Session.ID, !c.Fresh(s.Now())
	err = s.store.CreateInvite(ctx, i, settings.inviteLimit(u), a.With(mails...))
	if err != nil && t.Once != "" && !errors.Is(err, ErrNotAuthenticated) { // perhaps because the same form was faster
		if made, found := s.store.Invite(ctx, i.Code); found == nil {
			return made, nil
		}
	}
	if errors.Is(err, ErrInviteLimit) && i.Uses > 1 {
		err = web.ForField(403, ErrInviteLimit.Code, "/uses", "You cannot invite that many people.")
	}
	return i, web.Noted(ctx, "invite_created", err)
}

// inviteMails returns the mail with an invite, if an address is given. A user may mail as many a
// day as they may have invites, and only a few to the same address.
func (s *Service) inviteMails(ctx context.Context, settings Settings, u User, i Invite, app string) ([]Mail, error) {
	if i.MailedTo == "" {
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
		wait, err = s.limits.Take(ctx, web.LimitMail, "invite:"+mailboxOf(i.MailedTo))
	}
	if err != nil || wait > 0 {
		return nil, cmp.Or(err, web.RateLimited(wait))
	}
	return []Mail{UserMail(ctx, u, i.MailedTo, MailInvite, s.Now(), "invite", i.Hash(), "app", app)}, nil
}

// Hash identifies the invite in a mail that waits.
func (i Invite) Hash() string { return hex.EncodeToString(HashSecret(i.Code)) }

// InviteURL returns the link to the registration page of the issuer with the code filled in.
func InviteURL(issuer string, i Invite) string { return issuer + "/register/?code=" + i.Shown() }

// LeadingTo returns a link to join that leads to an application; an empty client id: to nothing else.
func LeadingTo(link, app string) string {
	if app == "" {
		return link
	}
	return link + "&app=" + url.QueryEscape(app)
}

// InviteURL returns the link to this service's registration page.
func (s *Service) InviteURL(i Invite) string { return InviteURL(s.site.URL(""), i) }

func (s *Service) ListInvites(ctx context.Context, u User, entry func(Invite) any) web.List {
	return func(add func(any) error) error {
		return s.EachInvite(ctx, u, func(i Invite) error { return add(entry(i)) })
	}
}

// PageOfInvites is the number of invites read at once.
const PageOfInvites = 200

// EachInvite calls do with a user's invites, newest first. It reads them page by page.
func (s *Service) EachInvite(ctx context.Context, u User, do func(Invite) error) error {
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
	err = s.EachInvite(ctx, u, func(i Invite) error {
		left -= i.Charged(now)
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
	code := CanonicalInviteCode(typed)
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
// attacker, nor a group behind one address that shares the link of a used invite. A known code is always
// accepted: 80 bits are not guessed, and the typing mistakes of a team in one room, or a stranger there,
// must keep nobody out.
func (s *Service) OpenInvite(ctx context.Context, c Caller, typed string) (Invite, error) {
	i, err := s.LinkedInvite(ctx, typed)
	if errors.Is(err, errUnknownInvite) {
		err = s.limits.Guess(ctx, []web.LimitKey{{Name: web.LimitRegister, Key: c.Address}}, errUnknownInvite,
			func() error { return errUnknownInvite })
	}
	return i, err
}

// LinkedInvite is OpenInvite for a link on another site, whose pages must not use up the limit of an
// address by links to wrong codes. Nothing is counted.
func (s *Service) LinkedInvite(ctx context.Context, typed string) (Invite, error) {
	code := CanonicalInviteCode(typed)
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
		return i, s.spentInvite(ctx, i)
	}
	return i, nil
}

// spentInvite returns the refusal of an invite that is used or expired. It says whom to ask where
// everybody has joined for whom it was.
func (s *Service) spentInvite(ctx context.Context, i Invite) error {
	switch {
	case i.UsedAt.IsZero() || i.Uses == 1:
		return ErrInvalidInvite
	case i.Inviter != "":
		return ErrInvalidInvite.With("{n} people have joined with this invite, and it is closed. Ask @{handle} for a "+
			"new one.",
			"n", i.Uses, "handle", i.Inviter)
	}
	return s.WithContact(ctx, ErrInvalidInvite.With("{n} people have joined with this invite, and it is closed. Ask "+
		"an administrator of your club for a new one.", "n", i.Uses), "This invite was used and is closed. Ask an "+
		"administrator of your club for a new one. Contact: {contact}")
}
