package account

import (
	"cmp"
	"context"
	"encoding/hex"
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
func (i Invite) Shown() string { return Grouped(i.Code) }

// CanonicalInviteCode returns the stored form of a code that was typed as CanonicalCode accepts it, or
// pasted within its link, or "" if it cannot be a code.
func CanonicalInviteCode(typed string) string {
	if _, code, link := strings.Cut(typed, "/register/?code="); link {
		typed, _, _ = strings.Cut(code, "&")
	}
	return CanonicalCode(typed, InviteCodeLength)
}

// NewInvite returns a new invite of a user, or of the operator if sub is empty.
func NewInvite(sub, note string, now time.Time) (Invite, error) {
	note, ok := text.Check(note, 200)
	if !ok {
		return Invite{}, ErrInvalidText.For(web.Fault("/note", "The text is too long or contains control characters."))
	}
	now = now.UTC().Truncate(time.Second)
	return Invite{Code: NewCode(InviteCodeLength), CreatedBy: sub, Note: note, CreatedAt: now,
		ExpiresAt: now.Add(InviteLifetime), Uses: 1}, nil
}

// InviteTerms is what somebody wants an invite to be.
type InviteTerms struct {
	Note   string   `json:"note"`
	Email  string   `json:"email"`  // where it is mailed, or empty
	Flags  []string `json:"flags"`  // that whoever joins gets besides the usual ones; until a day: coach@2030-12-24
	Uses   *int     `json:"uses"`   // nil: one
	Days   *int     `json:"days"`   // nil: InviteLifetime, or as many as a member may choose
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

// Invite returns the invite of the terms, if by may make it. Days are those of the zone of now. The error is a *Problem
// that names every wrong member.
func (t InviteTerms) Invite(settings Settings, by Caller, now time.Time) (Invite, error) {
	i, noteErr := NewInvite(by.User.Sub, t.Note, now)
	var faults []web.FieldError
	admin := by.operator || by.User.Has(FlagAdmin)
	number := func(pointer string, given *int, usual, members, most int) int {
		n := usual
		if given != nil {
			n = *given
		} else {
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
		address, err := CheckNewEmail("x@" + i.Domain)
		if i.Domain = strings.TrimPrefix(address, "x@"); err != nil || !domainForm.MatchString(i.Domain) {
			faults = append(faults, web.Fault("/domain", "Enter the part of an address after the @, such as "+
				"example.org"))
		}
	}
	email, emailErr := CheckNewEmail(t.Email)
	if email != "" && !i.Admits(email) {
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

// Granted returns the flags that whoever joins with the invite has. Those that nobody may give any more are
// left out.
func (i Invite) Granted(settings Settings) []string {
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
	if i.Domain != "" {
		words = append(words, "domain="+i.Domain)
	}
	return strings.Join(words, " ")
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

// PageOfInvites is the number of invites read at once.
const PageOfInvites = 200

// InviteQuery selects invites of a user.
type InviteQuery struct {
	Sub   string      // empty: those of the operator
	After InvitePlace // start after this place; zero: with the newest
	Limit int
}

// InvitePlace is a place in a list of invites.
type InvitePlace struct {
	CreatedAt time.Time
	Code      string
}

// InviteStore keeps invites. Codes are canonical (16 characters, no dashes).
type InviteStore interface {
	// CreateInvite adds an invite. ErrInviteLimit if with it the invites of the creator would count
	// for more than limit people (see Invite.Charged); a negative limit means none.
	CreateInvite(ctx context.Context, i Invite, limit int, a Audit) error
	// Invites lists invites of a user, newest first.
	Invites(ctx context.Context, q InviteQuery) ([]Invite, error)
	// Invite returns an invite by its code. ErrInviteNotFound, also if its creator is suspended or
	// deleted, or no longer an administrator and one that only administrators may make.
	Invite(ctx context.Context, code string) (Invite, error)
	// DeleteInvite removes an open invite of the user; one that somebody has used stays, closed. ErrInviteNotFound,
	// ErrInviteUsed.
	DeleteInvite(ctx context.Context, sub, code string, a Audit) error
	// OpenInvites lists the invites of a user, or with an empty sub those of everybody, that can be
	// used at a time, without the first skip. Those that stay open longest come first. Pages are
	// numbered, because codes do not belong in addresses.
	OpenInvites(ctx context.Context, sub string, now time.Time, skip, limit int) ([]Invite, error)
	// CountOpenInvites counts them.
	CountOpenInvites(ctx context.Context, now time.Time) (int, error)
	// RevokeInvite removes an open invite of anybody, as DeleteInvite does, and returns it. Its creator is the target
	// of the audit row. ErrInviteNotFound, ErrInviteUsed.
	RevokeInvite(ctx context.Context, code string, a Audit) (Invite, error)
	// RevokeBranch removes the open invites of a user and of everybody below in the tree of
	// invites, and returns how many. If there are none, it writes no audit row.
	RevokeBranch(ctx context.Context, sub string, now time.Time, a Audit) (int, error)
	// Branches lists the users invited by a user, in the order of handles after a handle. With an
	// empty sub it lists those who joined without the invite of a member and have invited somebody.
	Branches(ctx context.Context, sub, after string, since, now time.Time, limit int) ([]Branch, error)
	// Register spends one use of the invite and creates the user, with the first passkey unless it is nil, and,
	// unless s is nil, the session in one transaction. ErrPasskeyExists. It checks in this order: ErrInvalidInvite
	// (unknown, used, expired, creator suspended or deleted), ErrRegistrationFull (maxUsers > 0 and reached),
	// ErrHandleTaken. A refusal leaves the invite open. The store sets u.InvitedBy.
	Register(ctx context.Context, code string, u User, first *FirstPasskey, s *Session, maxUsers int,
		now time.Time, a Audit) error
}

// Branch is a user in the tree of invites.
type Branch struct {
	User    User
	Invited int // users who joined with their invites
	Active  int // of these, those who have signed in since a time
	Open    int // their own open invites
	// By is the invite with which they joined, with its note and its time; zero: unknown.
	By Invite
}

// Limit gives a new user the ends of the invite. A flag that has ended by now is left out.
func (i Invite) Limit(u *User) {
	u.EndsAt = i.AccountEnds
	for f, at := range i.FlagEnds {
		switch held := slices.Index(u.Flags, f); {
		case held >= 0 && at.After(u.CreatedAt):
			if u.FlagEnds == nil {
				u.FlagEnds = map[string]time.Time{}
			}
			u.FlagEnds[f] = at
		case held >= 0:
			u.Flags = slices.Delete(u.Flags, held, held+1)
		}
	}
}

// AddressOf returns the address of whoever joins with the invite. Where the invite is for certain addresses, it is the
// proven one, which its owner need not type. errAddressNotProven.
func (i Invite) AddressOf(typed, proven string) (string, error) {
	switch typed := strings.TrimSpace(typed); {
	case i.Domain == "":
		return typed, nil
	case !i.Admits(proven) || typed != "" && !strings.EqualFold(typed, proven):
		return "", errAddressNotProven
	}
	return proven, nil
}
