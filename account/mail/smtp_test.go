package mail_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

var hello = mail.Message{To: "ada@example.net", Subject: "Grüße an Ada", Text: "One.\n.\nTwo: ü\n", HTML: "<p>ü</p>\n", Language: "de"}

// sender is a client of a server, after a change of its settings.
func sender(t *testing.T, s *mailtest.Server, change func(*mail.Server)) *mail.SMTP {
	t.Helper()
	settings := s.Settings
	if change != nil {
		change(&settings)
	}
	m := mail.NewSMTP(settings)
	t.Cleanup(m.Close)
	return m
}

func with(change func(m *mail.Message)) mail.Message {
	m := hello
	change(&m)
	return m
}

func TestMessageArrivesWhole(t *testing.T) {
	for _, o := range []mailtest.Options{{}, {TLS: true}, {Plain: true}, {Plain: true, Anonymous: true}} {
		s := mailtest.New(t, o)
		sent := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		m := sender(t, s, func(c *mail.Server) { c.RequireTLS, c.Now = !o.Plain, func() time.Time { return sent } })
		for range 2 {
			if answer, err := m.Deliver(t.Context(), hello); err != nil || answer == "" {
				t.Fatalf("%+v: %q, %v", o, answer, err)
			}
		}
		got := s.Mails()[1]
		if got.From != "club@example.org" || got.To != hello.To || got.Subject != hello.Subject || got.Text != hello.Text || got.HTML != hello.HTML {
			t.Errorf("%+v", got)
		}
		from, err := netmail.ParseAddress(got.Header.Get("From"))
		if err != nil || *from != s.Settings.From {
			t.Errorf("from %v, %v", from, err)
		}
		if date, err := got.Header.Date(); err != nil || !date.Equal(sent) {
			t.Error(date, err)
		}
		for field, want := range map[string]string{"To": "<ada@example.net>", "Auto-Submitted": "auto-generated", "Content-Language": "de", "Mime-Version": "1.0", "User-Agent": "", "X-Mailer": ""} {
			same(t, field, got.Header.Get(field), want)
		}
		if id := got.Header.Get("Message-Id"); !strings.HasSuffix(id, "@example.org>") {
			t.Errorf("message id %q", id)
		}
		same(t, "connections", s.Connections(), 1)
	}
}

func TestNothingIsSentWithoutTheServersProof(t *testing.T) {
	starttls, plain := mailtest.New(t, mailtest.Options{}), mailtest.New(t, mailtest.Options{Plain: true})
	for _, c := range []struct {
		server *mailtest.Server
		change func(*mail.Server)
		want   string
	}{
		{starttls, func(c *mail.Server) { c.RootCAs = x509.NewCertPool() }, "certificate"},
		{starttls, func(c *mail.Server) { c.Host = "mail.example.org" }, "certificate"},
		{plain, nil, "TLS: the server does not offer STARTTLS"},
		{starttls, func(c *mail.Server) { c.TLS = true }, "TLS: "},
	} {
		err := sender(t, c.server, c.change).Send(t.Context(), hello)
		if err == nil || !strings.Contains(err.Error(), c.want) || isRefused(err) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	same(t, "mails", len(starttls.Mails())+len(plain.Mails()), 0)
}

// A name such as smtp.localhost is whatever a resolver makes of it.
func TestWithoutTLSOnlyThisMachineIsSpokenTo(t *testing.T) {
	var others []net.IP
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			others = append(others, n.IP)
		}
	}
	if others == nil {
		t.Skip("this machine has no other address")
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(others[0].String(), "0"))
	must(t, err)
	defer func() { _ = l.Close() }()
	s := mailtest.New(t, mailtest.Options{Plain: true})
	err = sender(t, s,
		func(c *mail.Server) { c.Address, c.RequireTLS = l.Addr().String(), false }).Send(t.Context(), hello)
	if err == nil || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("%v", err)
	}
}

func isRefused(err error) bool {
	var f *mail.Failure
	return errors.As(err, &f) && f.Refused
}

// The servers repeat what they are told, as some do.
func TestErrorsHoldNoPasswordAndNoAddress(t *testing.T) {
	echo := base64.StdEncoding.EncodeToString([]byte("\x00" + mailtest.User + "\x00" + mailtest.Password))
	for _, c := range []struct {
		o       mailtest.Options
		want    string
		refused bool
	}{
		{mailtest.Options{Auth: func() error { return &smtp.SMTPError{Code: 535, Message: mailtest.Password + " " + echo} }}, "refuses user and password (535)", false},
		{mailtest.Options{Rcpt: func(to string) error {
			return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "<" + to + ">: user ada unknown"}
		}}, "recipient: the server answers 550 5.1.1 <…@example.net>: user … unknown", true},
		{mailtest.Options{Rcpt: func(string) error { return &smtp.SMTPError{Code: 450, Message: "greylisted"} }}, "recipient: the server answers 450 4.0.0 greylisted", false},
		{mailtest.Options{Data: func(mailtest.Received) error {
			return &smtp.SMTPError{Code: 554, Message: strings.Repeat("spam ", 500)}
		}}, "message: the server answers 554", true},
		{mailtest.Options{Data: func(mailtest.Received) error { return &smtp.SMTPError{Code: 451, Message: mailtest.Password} }}, "message: the server answers 451 (a text with the password)", false},
		{mailtest.Options{Data: func(mailtest.Received) error {
			return &smtp.SMTPError{Code: 451, Message: base64.StdEncoding.EncodeToString([]byte(mailtest.Password))}
		}}, "message: the server answers 451 (a text with the password)", false},
		{mailtest.Options{Mail: func(int) error { return &smtp.SMTPError{Code: 553, Message: "not your address"} }}, "sender: the server answers 553", false},
		{mailtest.Options{Greet: func() error { return &smtp.SMTPError{Code: 554, Message: "go away"} }}, "greeting: the server answers 554", false},
	} {
		err := sender(t, mailtest.New(t, c.o), nil).Send(t.Context(), hello)
		if err == nil || !strings.Contains(err.Error(), c.want) || isRefused(err) != c.refused ||
			len(err.Error()) > 300 {
			t.Errorf("%v, refused %v, want %q", err, isRefused(err), c.want)
			continue
		}
		for _, secret := range []string{mailtest.Password, echo, "ada"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error has %q: %v", secret, err)
			}
		}
	}
	err := sender(t, mailtest.New(t, mailtest.Options{}), func(c *mail.Server) { c.Password = "wrong horse" }).Send(t.Context(), hello)
	if err == nil || strings.Contains(err.Error(), "horse") || isRefused(err) {
		t.Errorf("wrong password: %v", err)
	}
}

func TestServerThatHangsOrIsGoneIsGivenUp(t *testing.T) {
	silent, stop := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop) })
	s := mailtest.New(t, mailtest.Options{Data: func(mailtest.Received) error {
		silent <- struct{}{}
		<-stop
		return errors.New("too late")
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-silent; cancel() }()
	if err := sender(t, s, nil).Send(ctx, hello); err == nil || isRefused(err) {
		t.Errorf("canceled: %v", err)
	}
	go func() { <-silent }()
	err := sender(t, s, func(c *mail.Server) { c.Timeout = 100 * time.Millisecond }).Send(t.Context(), hello)
	if err == nil || isRefused(err) || !strings.Contains(err.Error(), "no answer of "+s.Settings.Address) {
		t.Errorf("hanging: %v", err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	_ = l.Close()
	err = sender(t, s, func(c *mail.Server) { c.Address = l.Addr().String() }).Send(t.Context(), hello)
	if err == nil || isRefused(err) || !strings.Contains(err.Error(), "connect: "+l.Addr().String()) {
		t.Errorf("gone: %v", err)
	}
}

func TestKeptConnectionThatEndsCostsNoMail(t *testing.T) {
	s := mailtest.New(t, mailtest.Options{
		Mail: func(nth int) error {
			if nth > 2 {
				return &smtp.SMTPError{Code: 421, Message: "too many"}
			}
			return nil
		},
		Rcpt: func(to string) error {
			if strings.HasPrefix(to, "bad") {
				return &smtp.SMTPError{Code: 550, Message: "no"}
			}
			return nil
		},
	})
	m := sender(t, s, nil)
	for i, to := range []string{"a@example.net", "bad@example.net", "b@example.net", "c@example.net", "d@example.net"} {
		if err := m.Send(t.Context(), with(func(m *mail.Message) { m.To = to })); isRefused(err) != (i == 1) ||
			err != nil && i != 1 {
			t.Errorf("%s: %v", to, err)
		}
	}
	if got := s.Connections(); got != 3 { // a bad, b c, d
		t.Errorf("%d connections", got)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := m.Send(t.Context(), hello); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	same(t, "mails", len(s.Mails()), 24)
}

func TestNothingBecomesAnotherHeaderOrCommand(t *testing.T) {
	s := mailtest.New(t, mailtest.Options{})
	fields := func(m *mail.SMTP, message mail.Message) []string {
		t.Helper()
		must(t, m.Send(t.Context(), message))
		mails := s.Mails()
		var names []string
		for name := range mails[len(mails)-1].Header {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	plain := sender(t, s, nil)
	usual := fields(plain, hello)
	for _, subject := range []string{strings.Repeat("long ", 150), strings.Repeat("ü", 400), strings.Repeat("x", 800), "=?utf-8?q?a=0d=0aBcc:_b@example.org?=", "Bcc: b@example.org", "\u202egro.elpmaxe", ""} {
		if got := fields(plain, with(func(m *mail.Message) { m.Subject = subject })); !slices.Equal(got, usual) {
			t.Errorf("subject %.20q: fields %q", subject, got)
		}
	}
	for _, name := range []string{"", `a" <b@example.org>, "c`, "a\\", strings.Repeat("ü ", 300), "Bcc: b@example.org", "x\r\nBcc: b@example.org"} {
		got := fields(sender(t, s, func(c *mail.Server) { c.From.Name = name }), hello)
		if mails := s.Mails(); !slices.Equal(got, usual) || mails[len(mails)-1].From != "club@example.org" {
			t.Errorf("name %.20q: fields %q", name, got)
		}
		last := s.Mails()[len(s.Mails())-1]
		if from, err := netmail.ParseAddressList(last.Header.Get("From")); err != nil || len(from) != 1 || from[0].Address != "club@example.org" {
			t.Errorf("name %.20q: from %v, %v", name, from, err)
		}
	}
	sent := len(s.Mails())
	for _, m := range []mail.Message{
		with(func(m *mail.Message) { m.Subject = "a\r\nBcc: b@example.org" }),
		with(func(m *mail.Message) { m.Subject = "a\nb" }),
		with(func(m *mail.Message) { m.Subject = strings.Repeat("x", 801) }),
		with(func(m *mail.Message) { m.Subject = "a\u2028b" }),
		with(func(m *mail.Message) { m.Subject = "a\x00b" }),
		with(func(m *mail.Message) { m.Language = "de\r\nBcc: b@example.org" }),
		with(func(m *mail.Message) { m.To = "a@example.net>\r\nRCPT TO:<b@example.net" }),
		with(func(m *mail.Message) { m.To = "a@example.net, b@example.net" }),
		with(func(m *mail.Message) { m.To = "Ada <a@example.net>" }),
		with(func(m *mail.Message) { m.To = `"a b"@example.net` }),
		with(func(m *mail.Message) { m.To = "a@example.net NOTIFY=NEVER" }),
		with(func(m *mail.Message) { m.To = "" }),
		with(func(m *mail.Message) { m.To = "ü@example.net" }), // the server has no SMTPUTF8
	} {
		if err := plain.Send(t.Context(), m); !isRefused(err) {
			t.Errorf("%q %q: %v", m.To, m.Subject, err)
		}
	}
	same(t, "mails sent meanwhile", len(s.Mails())-sent, 0)
}

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
