package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-id/cairn/templates"
)

// MailTest is the kind of a mail that shows that mail works.
const MailTest = "test"

// composer makes what a mail of a kind says, at the time when it is sent: this is where
// a code or a link is drawn. It may be called again for the same mail, when the one
// before could not be sent. errMailPointless when nobody is served by it any more.
type composer func(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error)

var (
	// errMailPointless means that the subject of the mail no longer exists.
	errMailPointless = errors.New("nothing is left to tell")
	errUnknownMail   = errors.New("unknown kind of mail")
)

// composers are the kinds of mail. The Data of one that waits may have been written by
// an earlier version.
func (s *Service) composers() map[string]composer {
	all := map[string]composer{
		MailTest: func(_ context.Context, _ Mail, l *templates.Language) (templates.Mail, error) {
			return TestMail(l), nil
		},
		MailEmailChanged: s.composeEmailChanged, MailNewDevice: s.composeNewDevice, MailVerify: s.composeVerify,
		MailForgot: s.composeForgot, MailReset: s.composeReset, MailInvite: s.composeInvite,
		MailWelcome: s.composeWelcome, MailJoin: s.composeJoin, MailJoinRefused: s.composeJoinRefused,
		MailEnds: s.composeEnds, MailEndsList: s.composeEndsList, MailJoinsAsked: s.composeJoinsAsked,
	}
	for kind := range plainNotices {
		all[kind] = s.composeNotice
	}
	return all
}

// compose makes what a mail says.
func (s *Service) compose(ctx context.Context, m Mail) (templates.WrittenMail, error) {
	compose, ok := s.composers()[m.Kind]
	if !ok {
		return templates.WrittenMail{}, fmt.Errorf("%w %q", errUnknownMail, m.Kind)
	}
	l := templates.PickLanguage(m.Language)
	written, err := compose(ctx, m, l)
	if err != nil {
		return templates.WrittenMail{}, err
	}
	return s.pages.Mail(l, written)
}

// MailEnabled reports whether mails are sent: where not, none are put into Audit.Mails.
func (s *Service) MailEnabled() bool { return s.mails != nil }

// TestMail is what "cairn mail test" sends.
func TestMail(l *templates.Language) templates.Mail {
	return templates.Mail{
		Subject:    l.Text("A test of the mail settings"),
		Paragraphs: []string{l.Text("This mail shows that mails of this service arrive. There is nothing to do.")},
		Reason:     l.Text("You receive this mail because an administrator sent it to your address."),
	}
}
