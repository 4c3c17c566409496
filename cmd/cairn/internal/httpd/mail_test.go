//go:build unix

package httpd

import (
	"crypto/x509"
	"errors"
	"net"
	netmail "net/mail"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
)

const (
	eximFile     = "/usr/sbin/exim4"
	smtpUser     = "club@example.org"
	smtpPassword = "a pass=word"
)

// mailServer is Debian's mail server on loopback. It works for root alone: it changes
// to a user of its own.
type mailServer struct{ dir, port string }

func startMailServer(t *testing.T) *mailServer {
	t.Helper()
	needFiles(t, eximFile)
	owner, err := user.Lookup("Debian-exim")
	if err != nil || os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal(err, "root alone can run ", eximFile)
		}
		t.Skip("root alone can run " + eximFile)
	}
	dir, err := os.MkdirTemp("", "cairn-exim") // t.TempDir lies in a folder that other users cannot enter
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &mailServer{dir: dir, port: freePort(t)}
	writePair(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "tls.pem"))
	copyFile(t, "testdata/rp/exim.conf", filepath.Join(dir, "exim.conf"), map[string]string{"DIR": dir, "PORT": m.port, "USER": smtpUser, "PASSWORD": smtpPassword})
	uid, err := strconv.Atoi(owner.Uid)
	noError(t, err)
	for _, name := range []string{"spool", "mails"} {
		noError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	for _, name := range []string{"", "spool", "mails", "cert.pem", "tls.pem", "exim.conf"} {
		noError(t, os.Chown(filepath.Join(dir, name), uid, 0))
	}
	noError(t, os.Chown(filepath.Join(dir, "exim.conf"), 0, 0)) // it refuses another's
	noError(t, os.Chmod(filepath.Join(dir, "exim.conf"), 0o644))
	startProgram(t, m.port, []string{eximFile, "-C", filepath.Join(dir, "exim.conf"), "-bdf"})
	return m
}

// sender speaks to the server as to one that is not on this machine.
func (m *mailServer) sender(t *testing.T, password string) *mail.SMTP {
	t.Helper()
	pem, err := os.ReadFile(filepath.Join(m.dir, "cert.pem"))
	noError(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	s := mail.NewSMTP(mail.Server{
		Address: net.JoinHostPort("127.0.0.1", m.port), Host: "localhost", RequireTLS: true, RootCAs: roots,
		User: smtpUser, Password: password, From: netmail.Address{Name: "Der Grüne Club", Address: smtpUser},
	})
	t.Cleanup(s.Close)
	return s
}

// mailTo waits for the file of a mail.
func (m *mailServer) mailTo(t *testing.T, local string) string {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(m.dir, "mails", "*"))
		noError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) {
				continue // a lock, which was there for a moment
			}
			if noError(t, err); strings.Contains(string(text), "To: <"+local+"@") && strings.HasSuffix(string(text), "--\n\n") {
				return string(text)
			}
		}
	}
	log, _ := os.ReadFile(filepath.Join(m.dir, "spool", "mainlog"))
	t.Fatalf("no mail to %s has come: %s", local, log)
	return ""
}

func TestMailsGoThroughARealServer(t *testing.T) {
	server := startMailServer(t)
	sender := server.sender(t, smtpPassword)
	s := startService(t, serviceOptions{Mail: sender})
	send := func(addresses ...string) {
		t.Helper()
		a := account.Operator().Audit(time.Now().UTC().Truncate(time.Second), account.ChangeProfile, "", "")
		for _, to := range addresses {
			a.Mails = append(a.Mails, account.Mail{Kind: account.MailTest, Address: to, Language: "de"})
		}
		_, err := s.store.AmendSettings(t.Context(), func(*account.Settings) (string, error) { return "test", nil }, a)
		noError(t, err)
	}
	send("ada@example.net", "nobody@example.net", "later@example.net", "bob@example.net")
	for _, local := range []string{"ada", "bob"} {
		text := server.mailTo(t, local)
		for _, want := range []string{"with esmtpsa", "(envelope-from <club@example.org>)", "Subject: =?UTF-8?q?Test-E=E2=80=91Mail?=\n", "Content-Language: de\n", "To: <" + local + "@example.net>\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("the mail to %s lacks %q: %s", local, want, text)
			}
		}
	}
	s.log.wait(t, `"msg":"mail given up"`)
	s.log.wait(t, `"msg":"mail not sent"`)
	if log := s.log.String(); strings.Contains(log, "nobody") || strings.Contains(log, "later") || strings.Contains(log, smtpPassword) {
		t.Errorf("the log has an address or the password: %s", log)
	}

	var failure *mail.Failure
	err := server.sender(t, "wrong horse").Send(t.Context(), mail.Message{To: "ada@example.net"})
	if !errors.As(err, &failure) || failure.Step != mail.StepAuthentication || failure.Refused || strings.Contains(err.Error(), "horse") {
		t.Errorf("wrong password: %v", err)
	}
}
