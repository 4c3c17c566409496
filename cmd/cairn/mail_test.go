package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

func TestMailTestSaysWhatTheServerAnswers(t *testing.T) {
	server := mailtest.New(t, mailtest.Options{Rcpt: func(to string) error {
		switch {
		case strings.HasPrefix(to, "nobody"):
			return &smtp.SMTPError{Code: 550, Message: "no mailbox " + to}
		case strings.HasPrefix(to, "later"):
			return &smtp.SMTPError{Code: 450, Message: "greylisted"}
		}
		return nil
	}})
	url, from, password := "SERVICE_SMTP_URL=smtp://club@example.org@"+server.Settings.Address, "SERVICE_MAIL_FROM=Der Club <club@example.org>", "SERVICE_SMTP_PASSWORD="+mailtest.Password
	for _, c := range []struct {
		to      string
		environ []string
		code    int
		stdout  string
		stderr  []string
	}{
		{"ada@example.net", []string{url, from, password}, cli.ExitDone, "sent to ada@example.net: " + server.Settings.Address + " answers \"", nil},
		{"nobody@example.net", []string{url, from, password}, cli.ExitFailed, "", []string{"recipient: the server answers 550", "try another address"}},
		{"later@example.net", []string{url, from, password}, cli.ExitFailed, "", []string{"recipient: the server answers 450", "greylisted", "try again in a few minutes"}},
		{"ada@example.net", []string{url, from, "SERVICE_SMTP_PASSWORD=wrong horse"}, cli.ExitFailed, "", []string{"refuses user and password (535)", "SERVICE_SMTP_PASSWORD"}},
		{"ada@example.net", []string{url, from}, cli.ExitFailed, "", []string{"holds no password"}},
		{"ada@example.net", []string{"SERVICE_SMTP_URL=smtp://127.0.0.1:1", from}, cli.ExitFailed, "", []string{"connect: 127.0.0.1:1: ", "check host and port"}},
		{"ada@example.net", nil, cli.ExitFailed, "", []string{"no mails are sent", "SERVICE_SMTP_URL", "SERVICE_MAIL_FROM"}},
		{"ada", []string{url, from, password}, cli.ExitUsage, "", []string{"not a mail address"}},
		{"ada@example.net\r\nRCPT TO:<bob@example.net", []string{url, from, password}, cli.ExitUsage, "", []string{"not a mail address"}},
	} {
		t.Chdir(t.TempDir()) // no cairn.yaml
		var out, errs bytes.Buffer
		code := Run(t.Context(), []string{"mail", "test", c.to, "--language", "de"}, c.environ, strings.NewReader(""), &out, &errs)
		if code != c.code || !strings.HasPrefix(out.String(), c.stdout) || c.stdout == "" && out.Len() > 0 || strings.Count(out.String()+errs.String(), "\n") != 1 {
			t.Errorf("%s %q: %d %s%s", c.to, c.environ, code, &out, &errs)
		}
		for _, words := range c.stderr {
			if !strings.Contains(errs.String(), words) {
				t.Errorf("%s %q: %s lacks %q", c.to, c.environ, &errs, words)
			}
		}
		for _, secret := range []string{mailtest.Password, "horse"} {
			if strings.Contains(out.String()+errs.String(), secret) {
				t.Errorf("the password is printed: %s%s", &out, &errs)
			}
		}
	}
	if mails := server.Mails(); len(mails) != 1 || mails[0].Subject != "Test-E‑Mail" {
		t.Errorf("%+v", mails)
	}
	if code := Run(t.Context(), []string{"mail", "test", "ada@example.net", "--smtp-url", "smtp://me:hunter2@localhost"}, nil, strings.NewReader(""), io.Discard, io.Discard); code != cli.ExitFailed {
		t.Error("a password in the URL is accepted")
	}
}
