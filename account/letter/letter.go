// Package letter says what mails say, and sends them: it composes each mail when it is sent, which is when a
// code or a link in it is made, and it works the outbox off. It writes no account: an act queues its mails in
// its own transaction (account.Audit.Mails).
package letter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/templates"
)

// Store has what mails are composed from, and the outbox. See account.Store; none of it changes an account.
type Store interface {
	account.MailStore
	QueueMail(ctx context.Context, m account.Mail, now time.Time) error
	CreateMailedResetCode(
		ctx context.Context, mail int64, sub, email string, hash []byte, expires, now time.Time,
	) error
	EmailChange(ctx context.Context, id string, now time.Time) (account.EmailChange, error)
	JoinRequests(ctx context.Context, now time.Time) ([]account.JoinRequest, error)
	NewUsersByEmail(ctx context.Context, email string) ([]account.User, error)
	UserByEmail(ctx context.Context, email string) (account.User, error)
	UserBySub(ctx context.Context, sub string) (account.User, error)
}

// Post composes the mails that wait in the outbox, and sends them.
type Post struct {
	accounts *person.Service
	store    Store
	pages    *templates.Renderer
	sender   mail.Sender
}

// New returns the Post of a service. Without a sender no mails are sent.
func New(accounts *person.Service, pages *templates.Renderer, sender mail.Sender) *Post {
	return &Post{accounts: accounts, store: accounts.Store(), pages: pages, sender: sender}
}

// composer makes what a mail of a kind says, at the time when it is sent: this is where
// a code or a link is drawn. It may be called again for the same mail, when the one
// before could not be sent. errMailPointless when nobody is served by it any more.
type composer func(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error)

var (
	// errMailPointless means that the subject of the mail no longer exists.
	errMailPointless = errors.New("nothing is left to tell")
	errUnknownMail   = errors.New("unknown kind of mail")
)

// composers are the kinds of mail. The Data of one that waits may have been written by
// an earlier version.
func (p *Post) composers() map[string]composer {
	all := map[string]composer{
		account.MailTest: func(_ context.Context, _ account.Mail, l *templates.Language) (templates.Mail, error) {
			return TestMail(l), nil
		},
		account.MailEmailChanged: p.composeEmailChanged, account.MailNewDevice: p.composeNewDevice,
		account.MailEmailRequested: p.composeEmailRequested,
		account.MailVerify:         p.composeVerify,
		account.MailForgot:         p.composeForgot, account.MailReset: p.composeReset,
		account.MailInvite:  p.composeInvite,
		account.MailWelcome: p.composeWelcome, account.MailJoin: p.composeJoin, account.MailEnds: p.composeEnds,
		account.MailNewAdministrator: p.composeNewAdministrator,
		account.MailJoinRefused:      p.composeJoinRefused, account.MailJoinsAsked: p.composeJoinsAsked,
	}
	for kind := range plainNotices {
		all[kind] = p.composeNotice
	}
	return all
}

// compose makes what a mail says.
func (p *Post) compose(ctx context.Context, m account.Mail) (templates.WrittenMail, error) {
	compose, ok := p.composers()[m.Kind]
	if !ok {
		return templates.WrittenMail{}, fmt.Errorf("%w %q", errUnknownMail, m.Kind)
	}
	settings, err := p.accounts.Settings(ctx)
	if err != nil {
		return templates.WrittenMail{}, err
	}
	l := templates.PickLanguage(m.Language, settings.Language)
	written, err := compose(ctx, m, l)
	if err != nil {
		return templates.WrittenMail{}, err
	}
	return p.pages.Mail(l, written)
}

// TestMail is what "cairn mail test" sends.
func TestMail(l *templates.Language) templates.Mail {
	return templates.Mail{
		Subject:    l.Text("Test email"),
		Paragraphs: []string{l.Text("Emails from this service reach you. You do not need to do anything.")},
		Reason:     l.Text("You get this email because an administrator sent it to your address."),
	}
}
