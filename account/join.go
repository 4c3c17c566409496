package account

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MailInviteLink mails the link of an invite that is for certain addresses to one of them. Whoever joins by that link
// has proven the address; the code, which everybody in the team has, proves nothing.
func (s *Service) MailInviteLink(ctx context.Context, c Caller, code, email string) error {
	if err := s.Allow(c, MailInviteLink); err != nil {
		return err
	}
	if !s.MailEnabled() {
		return s.WithContact(ctx, ErrMailOff, mailOffContact)
	}
	_, i, err := s.MayRegister(ctx, c, code)
	if err != nil {
		return err
	}
	if i.Domain == "" {
		return ErrInvalidInvite.With("This invite does not need a verified address. Join with its code.")
	}
	email, err = joiningAddress(email)
	if err == nil && !i.Admits(email) {
		err = ErrInvalidEmail.With("This invite is for addresses at {domain}.", "domain", i.Domain)
		if strings.Contains(i.Domain, "@") { // which is nobody else's business
			err = ErrInvalidEmail.With("This invite is for a different address.")
		}
	}
	if err != nil {
		return err
	}
	wait, err := s.limits.Take(ctx, web.LimitForgot, c.Address)
	if err == nil && wait > 0 { // a team that joins in one room has one address
		wait, err = s.limits.Take(ctx, web.LimitInviteMail, "invite:"+i.Hash())
	}
	if err == nil && wait == 0 {
		wait, err = s.limits.Take(ctx, web.LimitMail, "invite:"+mailboxOf(email))
	}
	if err != nil || wait > 0 {
		return cmp.Or(err, web.RateLimited(wait))
	}
	return s.store.QueueMail(ctx, Mail{Kind: MailInvite, Sub: i.CreatedBy, Address: email,
		Language: templates.LanguageOf(ctx).Tag(),
		Data:     map[string]string{"invite": i.Hash(), "asked": "true"}}, s.Now())
}

// joiningAddress returns the address of somebody who wants to join.
func joiningAddress(typed string) (string, error) {
	email, err := CheckEmail(typed)
	if err == nil && email == "" {
		err = ErrInvalidEmail
	}
	return email, err
}

// Limits of requests to join.
const (
	// JoinRequestLifetime is how long a request waits for a decision before it is deleted.
	JoinRequestLifetime = 30 * 24 * time.Hour
	// MaxJoinRequests is how many wait at most.
	MaxJoinRequests = 200
	// MaxJoinMailbox is how many wait of one mailbox: a family asks for its children.
	MaxJoinMailbox = 5

	// JoinMailWait is how long the mail of a request waits at most for those before it.
	JoinMailWait = 24 * time.Hour

	joinLinkLifetime = 24 * time.Hour
	maxJoinReason    = 300 // runes
)

// JoinRequest is what somebody without an invite asks for. It is stored once they have proven their address.
type JoinRequest struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	Mailbox   string    `json:"-"` // of Email: see mailboxOf
	Reason    string    `json:"reason"`
	Language  string    `json:"language"`
	AskedAt   time.Time `json:"asked_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// joinLink is the request in the link of a mail: until the link is opened, nothing is stored.
type joinLink struct {
	Name     string `json:"n"`
	Email    string `json:"e"`
	Reason   string `json:"r"`
	Language string `json:"l"`
}

// takesRequests returns ErrRegistrationFull unless people may ask to join.
func (s *Service) takesRequests(ctx context.Context) error {
	settings, err := s.Settings(ctx)
	if err == nil && settings.Registration != RegistrationRequest {
		err = ErrRegistrationFull
	}
	return err
}

// WaitingRequests counts the requests to join that wait, 0 if they cannot be read.
func (s *Service) WaitingRequests() int {
	ctx := context.Background()
	if s.takesRequests(ctx) != nil {
		return 0
	}
	list, _ := s.store.JoinRequests(ctx, s.Now())
	return len(list)
}

// AskToJoin queues the mail with the link that stores the request. It looks up nothing, so that neither the answer nor
// its time says whether the address has an account: that is looked up when the mail is composed. Whoever asks often
// for one address gets the same answer and no further mail. Where many ask, their mails leave one after another.
func (s *Service) AskToJoin(ctx context.Context, c Caller, in JoinRequest) error {
	err := s.takesRequests(ctx)
	switch {
	case err != nil:
		return err
	case !s.MailEnabled():
		return s.WithContact(ctx, ErrMailOff, mailOffContact)
	}
	if err := s.Allow(c, AskToJoin); err != nil {
		return err
	}
	name, invalid := CheckDisplayName(in.Name)
	reason := strings.TrimSpace(in.Reason)
	var faults []web.FieldError
	if invalid != nil {
		faults = append(faults, web.Fault("/name", "1 to 60 characters, without control characters"))
	}
	if n := utf8.RuneCountInString(reason); n < 1 || n > maxJoinReason || !text.Printable(reason) {
		faults = append(faults, web.Fault("/reason", "1 to 300 characters on one line"))
	}
	email, err := joiningAddress(in.Email)
	if faults != nil {
		err = web.AllFaults(err, web.NewProblem(400, "invalid_join_request",
			"Your request was not sent. The reason is next to each field.", faults...))
	}
	if err != nil {
		return err
	}
	s.noteAccount(ctx, User{}, email)
	if err := s.joinTurn(ctx, c); err != nil {
		return err
	}
	if wait, err := s.limits.Take(ctx, web.LimitMail, "join:"+mailboxOf(email)); err != nil || wait > 0 {
		return err
	}
	at := s.Now()
	if rate := s.limits.Rate(web.LimitJoinAll); rate.Count > 0 {
		at, err = s.store.JoinMailAt(ctx, rate, at)
		if errors.Is(err, web.ErrRateLimited) {
			web.NoteLimit(ctx, web.LimitJoinAll)
		}
		if err != nil {
			return err
		}
	}
	web.Note(ctx, "join_asked")
	return s.store.QueueMail(ctx, Mail{Kind: MailJoin, Address: email, Language: templates.LanguageOf(ctx).Tag(),
		Data: map[string]string{"name": name, "reason": reason}}, at)
}

// joinTurn counts a request to join of an address and of the networks around it. Many requests in an hour refuse
// nobody: then the networks take turns, and one that has asked for less than its share is let in.
func (s *Service) joinTurn(ctx context.Context, c Caller) error {
	if err := s.limits.Count(ctx, web.LimitKey{Name: web.LimitJoin, Key: c.Address}); err != nil {
		return err
	}
	many, err := s.limits.Take(ctx, web.LimitJoinAll, "all")
	if err != nil {
		return err
	}
	address, _ := netip.ParseAddr(c.Address)
	most := 1
	networks := web.Networks(address)
	slices.Reverse(networks)
	for _, n := range networks { // the narrowest first
		share := math.MaxInt
		if many > 0 {
			share = most
		}
		wait, err := s.limits.TakeUpTo(ctx, web.LimitJoinAll, n.String(), share)
		if err != nil || wait > 0 {
			return cmp.Or(err, web.RateLimited(wait))
		}
		most *= joinShare
	}
	return nil
}

// joinShare is how many times as many turns as a network the one around it has.
const joinShare = 2

// JoinLinked serves the link that stores a request to join, while people may ask.
func (s *Service) JoinLinked(ctx context.Context, c Caller, sealed string) (Linked, error) {
	var v joinLink
	if err := s.openLink(PurposeJoin, sealed, &v); err != nil {
		return Linked{}, err
	}
	if err := s.takesRequests(ctx); err != nil {
		return Linked{}, err
	}
	return Linked{templates.LinkPage{Email: v.Email}, func(*templates.LinkPage) error {
		a, err := s.begin(ctx, c, ConfirmJoin, "")
		if err != nil {
			return err
		}
		now := s.Now()
		return web.Noted(ctx, "join_confirmed", s.store.AddJoinRequest(ctx, JoinRequest{
			ID: strings.ToLower(newCode(12)), Name: v.Name, Email: v.Email, Mailbox: mailboxOf(v.Email),
			Reason: v.Reason, Language: v.Language, AskedAt: now, ExpiresAt: now.Add(JoinRequestLifetime)},
			HashSecret(sealed), MaxJoinRequests, a))
	}}, nil
}

// joinsTold is how often administrators are told of new requests at most.
const joinsTold = time.Hour

// TellJoins puts a mail to each administrator into the outbox if requests to join were stored since the
// last one, once an hour at most, however many there are.
func (s *Service) TellJoins(ctx context.Context) error {
	if !s.MailEnabled() {
		return nil
	}
	some, told, err := s.store.JoinsUntold(ctx)
	now := s.Now()
	if err != nil || !some || now.Before(told.Add(joinsTold)) {
		return err
	}
	mails, err := s.administratorMails(ctx, MailJoinsAsked)
	if err != nil {
		return err
	}
	return s.store.TellJoins(ctx, told, now, mails)
}
