package letter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Mails are sent in the background: an act writes a row of the outbox, and SendMails sends it, also
// after a restart.
const (
	mailPoll     = 3 * time.Second // for mails that other processes added
	mailLease    = 2 * time.Minute // longer than an attempt takes
	mailParallel = 4
	mailGiveUp   = 24 * time.Hour
)

// SendMails sends mails when they are due until ctx ends, and those of this process at once.
// Several instances may run it on one database. Without a mail server it returns at once.
func (p *Post) SendMails(ctx context.Context) {
	if p.sender == nil {
		return
	}
	web.Queue[account.QueuedMail]{
		Name: "mails", Poll: mailPoll, Parallel: mailParallel, Wake: p.store.MailsAdded(), Log: p.accounts.Log(),
		Lease: func(ctx context.Context, limit int) ([]account.QueuedMail, error) {
			return p.store.DueMails(ctx, p.accounts.Now(), mailLease, limit)
		},
		Do: p.deliverMail,
	}.Run(ctx)
}

// DeliverMails sends the mails that are due now and returns when none is left.
func (p *Post) DeliverMails(ctx context.Context) error {
	for {
		due, err := p.store.DueMails(ctx, p.accounts.Now(), mailLease, mailParallel)
		if err != nil || len(due) == 0 {
			return err
		}
		for _, m := range due {
			p.deliverMail(ctx, m)
		}
	}
}

// deliverMail sends one mail and stores the outcome. The log contains only the domain of an
// address.
func (p *Post) deliverMail(ctx context.Context, m account.QueuedMail) {
	log := p.accounts.Log().With("kind", m.Kind, "domain", mail.Domain(m.Address), "attempt", m.Attempts+1)
	err := errMailLate
	if p.accounts.Now().Sub(m.CreatedAt) <= mailGiveUp {
		err = p.sendMail(ctx, m)
	}
	if err != nil && ctx.Err() != nil {
		return // another attempt follows when the lease ends
	}
	// A mail that was sent is not sent again because ctx ends now.
	ctx = context.WithoutCancel(ctx)
	var failure *mail.Failure
	var level slog.Level
	var became string
	var stored error
	switch {
	case err == nil:
		level, became = slog.LevelInfo, "mail sent"
		stored = p.store.MailDone(ctx, m.ID, nil)
	case errors.Is(err, errMailPointless):
		level, became = slog.LevelInfo, "mail dropped"
		stored = p.store.MailDone(ctx, m.ID, nil)
	case errors.As(err, &failure) && failure.Refused || errors.Is(err, errMailLate):
		level, became = slog.LevelWarn, "mail given up"
		stored = p.giveUpMail(ctx, m, err)
	default:
		level, became = slog.LevelWarn, "mail not sent"
		stored = p.store.MailFailed(ctx, m.ID, err.Error(),
			p.accounts.Now().Add(web.Backoff(15*time.Second, m.Attempts)))
	}
	if stored != nil {
		log.WarnContext(ctx, "mail not updated", "error", stored)
	}
	if err != nil {
		log = log.With("error", err)
	}
	log.Log(ctx, level, became)
}

// errMailLate means that a mail is too old to be sent.
var errMailLate = errors.New("it could not be sent for a day")

func (p *Post) sendMail(ctx context.Context, m account.QueuedMail) error {
	if m.Sub == "" { // anybody may have asked for it
		if u, err := p.store.UserByEmail(ctx, m.Address); err == nil {
			m.Language = templates.LanguageTag(u.Profile.Locale, u.Language, m.Language)
		}
	}
	l := templates.PickLanguage(m.Language)
	written, err := p.compose(ctx, m.Mail)
	if err != nil {
		return fmt.Errorf("compose: %w", err)
	}
	return p.sender.Send(ctx,
		mail.Message{To: m.Address, Subject: written.Subject, Text: written.Text, HTML: written.HTML,
			Language: l.Tag()})
}

// giveUpMail removes a mail and records that in the audit log.
func (p *Post) giveUpMail(ctx context.Context, m account.QueuedMail, why error) error {
	handle := ""
	u, err := p.store.UserBySub(ctx, m.Sub)
	switch {
	case err == nil:
		handle = u.Handle
	case !errors.Is(err, account.ErrUserNotFound):
		return err
	}
	return p.store.MailDone(ctx, m.ID, &account.Audit{
		At: p.accounts.Now(), Action: account.GiveUpMail.Action, Target: handle,
		Detail: fmt.Sprintf("%s to %s: %v", m.Kind, mail.Domain(m.Address), why),
	})
}
