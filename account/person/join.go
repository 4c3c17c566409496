package person

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

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// MailInviteLink mails the link of an invite that is for certain addresses to one of them. Whoever joins by that link
// has proven the address; the code, which everybody in the team has, proves nothing.
func (s *Service) MailInviteLink(ctx context.Context, c account.Caller, code, email string) error {
	if err := s.Allow(c, account.MailInviteLink); err != nil {
		return err
	}
	if !s.MailEnabled() {
		return s.WithContact(ctx, account.ErrMailOff, mailOffContact)
	}
	_, i, err := s.MayRegister(ctx, c, code)
	if err != nil {
		return err
	}
	if i.Domain == "" {
		return account.ErrInvalidInvite.With("This invite does not need a verified address. Join with its code.")
	}
	email, err = joiningAddress(email)
	if err == nil && !i.Admits(email) {
		err = account.ErrInvalidEmail.With("This invite is for addresses at {domain}.", "domain", i.Domain)
		if strings.Contains(i.Domain, "@") { // which is nobody else's business
			err = account.ErrInvalidEmail.With("This invite is for a different address.")
		}
	}
	if err != nil {
		return err
	}
	wait, err := s.Limits().Take(ctx, web.LimitForgot, c.Address)
	if err == nil && wait > 0 { // a team that joins in one room has one address
		wait, err = s.Limits().TakeMore(ctx, web.LimitInviteMail, "invite:"+i.Hash(), i.Uses)
	}
	if err == nil && wait == 0 {
		wait, err = s.Limits().Take(ctx, web.LimitMail, "invite:"+mailboxOf(email))
	}
	if err != nil || wait > 0 {
		return cmp.Or(err, web.RateLimited(wait))
	}
	return s.Store().QueueMail(ctx, account.Mail{Kind: account.MailInvite, Sub: i.CreatedBy, Address: email,
		Language: templates.LanguageOf(ctx).Tag(),
		Data:     map[string]string{"invite": i.Hash(), "asked": "true"}}, s.Now())
}

// joiningAddress returns the address of somebody who wants to join.
func joiningAddress(typed string) (string, error) {
	email, err := account.CheckNewEmail(typed)
	if err == nil && email == "" {
		err = account.ErrInvalidEmail
	}
	return email, err
}

const joinLinkLifetime = 24 * time.Hour

const maxJoinReason = 300 // runes

// joinLink is the request in the link of a mail: until the link is opened, nothing is stored.
type joinLink struct {
	Name     string `json:"n"`
	Email    string `json:"e"`
	Reason   string `json:"r"`
	Language string `json:"l"`
	App      string `json:"a,omitempty"`
}

// takesRequests returns ErrRegistrationFull unless people may ask to join.
func (s *Service) takesRequests(ctx context.Context) error {
	settings, err := s.Settings(ctx)
	if err == nil && settings.Registration != account.RegistrationRequest {
		err = account.ErrRegistrationFull
	}
	return err
}

// WaitingRequests counts the requests to join that wait, 0 if they cannot be read.
func (s *Service) WaitingRequests() int {
	ctx := context.Background()
	if s.takesRequests(ctx) != nil {
		return 0
	}
	list, _ := s.Store().JoinRequests(ctx, s.Now())
	return len(list)
}

// AskToJoin queues the mail with the link that stores the request. It looks up nothing, so that neither the answer nor
// its time says whether the address has an account: that is looked up when the mail is composed. Whoever asks often
// for one address gets the same answer and no further mail. Where many ask, their mails leave one after another: later
// reports whether this one waits for its turn.
func (s *Service) AskToJoin(
	ctx context.Context, c account.Caller, in account.JoinRequest,
) (later bool, err error) {
	err = s.takesRequests(ctx)
	switch {
	case err != nil:
		return false, err
	case !s.MailEnabled():
		return false, s.WithContact(ctx, account.ErrMailOff, mailOffContact)
	}
	if err := s.Allow(c, account.AskToJoin); err != nil {
		return false, err
	}
	name, invalid := account.CheckDisplayName(in.Name)
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
		return false, err
	}
	s.noteAccount(ctx, account.User{}, email)
	if err := s.joinTurn(ctx, c); err != nil {
		return false, err
	}
	now := s.Now()
	at := now
	if rate := s.Limits().Rate(web.LimitJoinAll); rate.Count > 0 {
		at, err = s.Store().JoinMailAt(ctx, rate, now)
		if errors.Is(err, web.ErrRateLimited) {
			web.NoteLimit(ctx, web.LimitJoinAll)
		}
		if err != nil {
			return false, err
		}
	}
	later = at.After(now)
	if wait, err := s.Limits().Take(ctx, web.LimitMail, "join:"+mailboxOf(email)); err != nil || wait > 0 {
		return later, err
	}
	web.Note(ctx, "join_asked")
	return later, s.Store().QueueMail(ctx, account.Mail{Kind: account.MailJoin, Address: email,
		Language: templates.LanguageOf(ctx).Tag(),
		Data:     map[string]string{"name": name, "reason": reason, "app": text.Cut(in.App, account.MaxClientID)}}, at)
}

// joinTurn counts a request to join of an address and of the networks around it. Many requests in an hour refuse
// nobody: then the networks take turns, and one that has asked for less than its share is let in.
func (s *Service) joinTurn(ctx context.Context, c account.Caller) error {
	if err := s.Limits().Count(ctx, web.LimitKey{Name: web.LimitJoin, Key: c.Address}); err != nil {
		return err
	}
	many, err := s.Limits().Take(ctx, web.LimitJoinAll, "all")
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
		wait, err := s.Limits().TakeUpTo(ctx, web.LimitJoinAll, n.String(), share)
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
func (s *Service) JoinLinked(ctx context.Context, c account.Caller, sealed string) (Linked, error) {
	var v joinLink
	if err := s.openLink(PurposeJoin, sealed, &v); err != nil {
		return Linked{}, err
	}
	if err := s.takesRequests(ctx); err != nil {
		return Linked{}, err
	}
	return Linked{templates.LinkPage{Email: v.Email}, func(*templates.LinkPage) error {
		a, err := s.begin(ctx, c, account.ConfirmJoin, "")
		if err != nil {
			return err
		}
		now := s.Now()
		return web.Noted(ctx, "join_confirmed", s.Store().AddJoinRequest(ctx, account.JoinRequest{
			ID: strings.ToLower(account.NewCode(12)), Name: v.Name, Email: v.Email, Mailbox: mailboxOf(v.Email),
			Reason: v.Reason, Language: v.Language, App: v.App,
			AskedAt: now, ExpiresAt: now.Add(account.JoinRequestLifetime)},
			account.HashSecret(sealed), account.MaxJoinRequests, a))
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
	some, told, err := s.Store().JoinsUntold(ctx)
	now := s.Now()
	// A time ahead is of a clock that was wrong.
	if err != nil || !some || now.Before(told.Add(joinsTold)) && !told.After(now.Add(time.Minute)) {
		return err
	}
	mails, err := s.AdministratorMails(ctx, account.MailJoinsAsked)
	if err != nil {
		return err
	}
	return s.Store().TellJoins(ctx, told, now, mails)
}

// mailboxOf returns the mailbox of an address: other addresses of it differ by what follows a plus, and by
// dots where the provider ignores them.
func mailboxOf(email string) string {
	at := max(0, strings.LastIndexByte(email, '@'))
	local, domain := strings.ToLower(email[:at]), strings.ToLower(email[at:])
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	if domain == "@gmail.com" || domain == "@googlemail.com" {
		local, domain = strings.ReplaceAll(local, ".", ""), "@gmail.com"
	}
	return local + domain
}
