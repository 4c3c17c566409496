package config_test

import (
	"net/mail"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/config"
)

func mailSettings(url, from, passwordFile string) config.Settings {
	return with(func(s *config.Settings) { s.SMTPURL, s.MailFrom, s.SMTPPasswordFile = url, from, passwordFile })
}

func TestMailServerIsReadFromItsURL(t *testing.T) {
	from := mail.Address{Name: "Der Äh-Club", Address: "club@example.org"}
	for url, want := range map[string]config.Mail{
		"smtps://me@smtp.example.org:4650":         {Host: "smtp.example.org", Port: "4650", TLS: true, RequireTLS: true, User: "me"},
		"smtps://me@example.org@smtp.Example.org/": {Host: "smtp.example.org", Port: "465", TLS: true, RequireTLS: true, User: "me@example.org"},
		"smtp://me%40example.org@smtp.example.org": {Host: "smtp.example.org", Port: "587", RequireTLS: true, User: "me@example.org"},
		"smtp://localhost:25":                      {Host: "localhost", Port: "25"},
		"smtp://127.0.0.1":                         {Host: "127.0.0.1", Port: "587"},
		"smtp://me@[::1]:25":                       {Host: "::1", Port: "25", User: "me"},
		"smtp://192.0.2.1:25":                      {Host: "192.0.2.1", Port: "25", RequireTLS: true},
	} {
		want.From = from
		c, err := mailSettings(url, "Der Äh-Club <club@example.org>", "").Check()
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if diff := cmp.Diff(want, *c.Mail, cmpopts.IgnoreUnexported(config.Mail{})); diff != "" {
			t.Errorf("%s, -want +got\n%s", url, diff)
		}
	}
	if c, err := config.Defaults().Check(); err != nil || c.Mail != nil {
		t.Errorf("without settings: %v, %v", c.Mail, err)
	}
}

func TestMailSettingsThatCannotWorkAreRefused(t *testing.T) {
	const url, from = "smtps://me@smtp.example.org", "club@example.org"
	for _, tt := range []struct {
		url, from string
		words     []string
	}{
		{"smtps://me:hunter2@smtp.example.org", from, []string{"--smtp-url", "SERVICE_SMTP_URL", "holds a password", "SERVICE_SMTP_PASSWORD", "--smtp-password-file"}},
		{"smtps://me:@smtp.example.org", from, []string{"holds a password"}},
		{"smtps://me:hunter2%@smtp.example.org", from, []string{"not an smtp or smtps address"}},
		{"https://me@smtp.example.org", from, []string{"not an smtp or smtps address", "smtps://user@"}},
		{"smtp.example.org:587", from, []string{"not an smtp or smtps address"}},
		{"smtp:smtp.example.org", from, []string{"not an smtp or smtps address"}},
		{"smtp://", from, []string{"not an smtp or smtps address"}},
		{"smtp://:25", from, []string{"neither a name nor"}},
		{"smtp://smtp_example.org..", from, []string{"neither a name nor"}},
		{"smtp://smtp.example.org:0", from, []string{"port"}},
		{"smtp://smtp.example.org:99999", from, []string{"port"}},
		{url + "/path", from, []string{"more than scheme"}},
		{url + "?hunter2=1", from, []string{"more than scheme"}},
		{url + "#x", from, []string{"more than scheme"}},
		{"smtps://me%0d%0a@smtp.example.org", from, []string{"control character"}},
		{url, "", []string{"--mail-from", "SERVICE_MAIL_FROM", "is missing"}},
		{url, "club", []string{"--mail-from", "not an address"}},
		{url, "a@example.org, b@example.org", []string{"--mail-from", "not an address"}},
		{url, "x <club@example.org>\r\nBcc: b@example.org", []string{"--mail-from"}},
		{url, "=?utf-8?q?a=0d=0aBcc:_x?= <club@example.org>", []string{"--mail-from"}},
		{url, `"a b"@example.org`, []string{"--mail-from", "characters"}},
		{"", from, []string{"--mail-from", "give --smtp-url"}},
	} {
		_, err := mailSettings(tt.url, tt.from, "").Check()
		refused(t, err, tt.words...)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
	_, err := mailSettings("", "", "file").Check()
	refused(t, err, "--smtp-password-file", "give --smtp-url")
}

func TestMailPasswordIsOfTheVariableOrAPrivateFile(t *testing.T) {
	const user, nobody = "smtps://me@smtp.example.org", "smtps://smtp.example.org"
	file := write(t, "password", " hunter2 \n")
	open := write(t, "open", "hunter2")
	must(t, os.Chmod(open, 0o644))
	for _, tt := range []struct {
		url, file string
		environ   []string
		want      string
		words     []string
	}{
		{user, "", []string{"SERVICE_SMTP_PASSWORD= hunter2"}, " hunter2", nil},
		{user, file, []string{"SERVICE_SMTP_PASSWORD="}, " hunter2 ", nil},
		{nobody, "", nil, "", nil},
		{user, "", nil, "", []string{"SERVICE_SMTP_PASSWORD", "holds no password", "leave the user out"}},
		{user, file, []string{"SERVICE_SMTP_PASSWORD=hunter2"}, "", []string{"SERVICE_SMTP_PASSWORD_FILE", "unset one"}},
		{nobody, file, nil, "", []string{"--smtp-password-file", "no user", "smtps://user@smtp.example.org"}},
		{user, open, nil, "", []string{"--smtp-password-file", "run chmod 600"}},
		{user, write(t, "two", "hunter2\nx"), nil, "", []string{"more than one line"}},
		{user, t.TempDir(), nil, "", []string{"is a folder"}},
	} {
		c, err := mailSettings(tt.url, "club@example.org", tt.file).Check()
		must(t, err)
		got, err := c.Mail.Password(lookup(tt.environ...))
		if got != tt.want {
			t.Errorf("%v: password %q, want %q", tt, got, tt.want)
		}
		if tt.words == nil {
			if err != nil {
				t.Errorf("%v: %v", tt, err)
			}
			continue
		}
		refused(t, err, tt.words...)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
}
