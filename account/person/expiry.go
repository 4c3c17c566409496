package person

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
)

// watchPause is how often WatchEnds looks for ends that other processes have set, and for what is to be told.
const watchPause = time.Minute

// WatchEnds ends accounts and flags when they are due, and tells of ends that come and of requests to
// join, until ctx ends. That something has ended depends on nobody watching: see EndStore. Several
// instances may watch.
func (s *Service) WatchEnds(ctx context.Context) {
	for {
		next, err := s.LookForEnds(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "ends and requests to join not looked for", slog.Any("error", err))
		}
		wait := watchPause
		if until := next.Sub(s.Now()); until > 0 {
			wait = min(until, wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Store().AccessChanged(): // perhaps by an end before the next one
		case <-time.After(wait):
		}
	}
}

// LookForEnds is one look of WatchEnds. It returns when something ends next. While the clock is not trusted
// nothing ends and nobody is told of an end.
func (s *Service) LookForEnds(ctx context.Context) (next time.Time, err error) {
	settled, err := s.Store().ClockSettled(ctx)
	if err == nil && settled {
		next, err = s.Store().EndDue(ctx)
	}
	if err == nil && settled {
		err = s.TellEnds(ctx)
	}
	if err == nil {
		err = s.TellJoins(ctx)
	}
	return next, err
}

// endsAtOnce is how many ends are told at once.
const endsAtOnce = 200

// TellEnds puts the mails about ends that come into the outbox, to each user 14 days and 1 day before.
func (s *Service) TellEnds(ctx context.Context) error {
	if !s.MailEnabled() {
		return nil
	}
	due, err := s.Store().EndsToTell(ctx, endsAtOnce)
	if err != nil {
		return err
	}
	for _, e := range due {
		data := []string{"ends", strconv.FormatInt(e.At.Unix(), 10)}
		if !e.Account {
			data = append(data, "names", strings.Join(e.Flags, " "))
		}
		var mails []account.Mail
		family, err := s.OfFamily(ctx, e.User)
		if err != nil {
			return err
		}
		if e.User.EmailVerified || family {
			mails = []account.Mail{account.UserMail(ctx, e.User, e.User.Email, account.MailEnds, s.Now(), data...)}
		}
		if err := s.Store().EndTold(ctx, e, mails); err != nil {
			return err
		}
	}
	return nil
}
