package main

import (
	"errors"
	"fmt"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/letter"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/doctor"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/templates"
)

type mailCommand struct {
	Test testMailCommand `cmd:""`
}

type testMailCommand struct {
	SMTPURL          string `name:"smtp-url" env:"SERVICE_SMTP_URL" placeholder:"URL"`
	SMTPPasswordFile string `env:"SERVICE_SMTP_PASSWORD_FILE" placeholder:"FILE"`

	MailFrom string `env:"SERVICE_MAIL_FROM" placeholder:"ADDRESS" help:"Sender of the mails."`
	Issuer   string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Public address of the service."`
	Address  string `arg:"" help:"Address to send it to."`
	Language string `help:"Language of the mail, such as de."`
}

// Run sends a mail as the service would, but directly and not from the outbox.
func (c *testMailCommand) Run(p *cli.Program) error {
	to, err := account.CheckEmail(c.Address)
	if err != nil || to == "" {
		return cli.Usagef("%q is not a mail address", c.Address)
	}
	settings := config.Defaults()
	settings.SMTPURL, settings.SMTPPasswordFile = c.SMTPURL, c.SMTPPasswordFile
	settings.MailFrom, settings.Issuer = c.MailFrom, c.Issuer
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	sender, err := newMailSender(checked, p.Env)
	if err != nil {
		return err
	}
	if sender == nil {
		return errors.New("no mails are sent: name the mail server with --smtp-url (SERVICE_SMTP_URL) " +
			"and the sender with --mail-from (SERVICE_MAIL_FROM)")
	}
	defer sender.Close()
	pages, err := templates.New(templates.Options{})
	if err != nil {
		return err
	}
	l := templates.PickLanguage(c.Language)
	written, err := pages.Mail(l, letter.TestMail(l))
	if err != nil {
		return err
	}
	answer, err := sender.Deliver(p.Ctx, mail.Message{
		To: to, Subject: written.Subject, Text: written.Text, HTML: written.HTML, Language: l.Tag(),
	})
	var failure *mail.Failure
	if errors.As(err, &failure) {
		return fmt.Errorf("the mail was not sent: %w: %s", err, doctor.MailRemedy(failure))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "sent to %s: %s answers %q\n", to, checked.Mail.Address(), answer)
	return nil
}

// newMailSender returns the client of the configured mail server, or nil if none is configured.
func newMailSender(c config.Checked, env *config.Environment) (*mail.SMTP, error) {
	if c.Mail == nil {
		return nil, nil
	}
	password, err := c.Mail.Password(env.Lookup)
	if err != nil {
		return nil, err
	}
	return mail.NewSMTP(mail.Server{
		Address: c.Mail.Address(), Host: c.Mail.Host, TLS: c.Mail.TLS, RequireTLS: c.Mail.RequireTLS,
		User: c.Mail.User, Password: password, From: c.Mail.From, Hello: mail.HelloName(c.Issuer.Hostname()),
	}), nil
}
