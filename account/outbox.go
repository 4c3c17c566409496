package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

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
func (s *Service) SendMails(ctx context.Context) {
	if !s.MailEnabled() {
		return
	}
	web.Queue[QueuedMail]{
		Name: "mails", Poll: mailPoll, Parallel: mailParallel, Wake: s.store.MailsAdded(), Log: s.log,
		Lease: func(ctx context.Context, limit int) ([]QueuedMail, error) {
			return s.store.DueMails(ctx, s.Now(), mailLease, limit)
		},
		Do: s.deliverMail,
	}.Run(ctx)
}

// DeliverMails sends the mails that are due now and returns when none is left.
func (s *Service) DeliverMails(ctx context.Context) error {
	for {
		due, err := s.store.DueMails(ctx, s.Now(), mailLease, mailParallel)
		if err != nil || len(due) == 0 {
			return err
		}
		for _, m := range due {
			s.deliverMail(ctx, m)
		}
	}
}

// deliverMail sends one mail and stores the outcome. The log contains only the domain of an
// address.
func (s *Service) deliverMail(ctx context.Context, m QueuedMail) {
	log := s.log.With("kind", m.Kind, "domain", mail.Domain(m.Address), "attempt", m.Attempts+1)
	err := errMailLate
	if s.Now().Sub(m.CreatedAt) <= mailGiveUp {
		err = s.sendMail(ctx, m)
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
		stored = s.store.MailDone(ctx, m.ID, nil)
	case errors.Is(err, errMailPointless):
		level, became = slog.LevelInfo, "mail dropped"
		stored = s.store.MailDone(ctx, m.ID, nil)
	case errors.As(err, &failure) && failure.Refused || errors.Is(err, errMailLate):
		level, became = slog.LevelWarn, "mail given up"
		stored = s.giveUpMail(ctx, m, err)
	default:
		level, became = slog.LevelWarn, "mail not sent"
		stored = s.store.MailFailed(ctx, m.ID, err.Error(), s.Now().Add(web.Backoff(15*time.Second, m.Attempts)))
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

func (s *Service) sendMail(ctx context.Context, m QueuedMail) error {
	l := templates.PickLanguage(m.Language)
	written, err := s.compose(ctx, m.Mail)
	if err != nil {
		return fmt.Errorf("compose: %w", err)
	}
	return s.mails.Send(ctx,
		mail.Message{To: m.Address, Subject: written.Subject, Text: written.Text, HTML: written.HTML,
			Language: l.Tag()})
}

// giveUpMail removes a mail and records that in the audit log.
func (s *Service) giveUpMail(ctx context.Context, m QueuedMail, why error) error {
	handle := ""
	u, err := s.store.UserBySub(ctx, m.Sub)
	switch {
	case err == nil:
		handle = u.Handle
	case !errors.Is(err, ErrUserNotFound):
		return err
	}
	return s.store.MailDone(ctx, m.ID, &Audit{
		At: s.Now(), Action: GiveUpMail.Action, Target: handle,
		Detail: fmt.Sprintf("%s to %s: %v", m.Kind, mail.Domain(m.Address), why),
	})
}

// MailState returns the state of the outbox.
func (a *Administration) MailState(ctx context.Context) (MailState, error) {
	return a.store.MailState(ctx)
}
