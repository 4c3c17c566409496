// Package mailtest is a mail server for tests: SMTP on loopback with STARTTLS, a
// certificate of its own and one user. It keeps what it accepts.
package mailtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/cairn-id/cairn/account/mail"
)

// User and Password are the accepted credentials.
const (
	User     = "club@example.org"
	Password = "a pass=word"
)

// Options configure the server. Its functions are called concurrently.
type Options struct {
	TLS       bool // from the first byte
	Plain     bool // no STARTTLS
	Anonymous bool // no authentication
	Greet     func() error
	Auth      func() error           // of a right password
	Mail      func(nth int) error    // of the nth mail of a connection
	Rcpt      func(to string) error  // nil: each is accepted
	Data      func(m Received) error // before the answer; what it refuses is not kept
}

// Received is a received mail.
type Received struct {
	From, To   string // of the envelope
	Header     netmail.Header
	Subject    string
	Text, HTML string
}

// Server is the server.
type Server struct {
	Settings mail.Server // to speak to it

	t       testing.TB
	o       Options
	changed chan struct{} // one for each mail

	mu          sync.Mutex
	mails       []Received
	connections int
}

// New starts a server for the length of the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, o: o, changed: make(chan struct{}, 10_000)}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion: tls.VersionTLS12}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Settings = mail.Server{
		Address: l.Addr().String(), Host: "127.0.0.1", TLS: o.TLS, RequireTLS: true, User: User, Password: Password,
		RootCAs: roots,
		From:    netmail.Address{Name: "Der Rad-Club Grün", Address: "club@example.org"},
	}
	if o.Anonymous {
		s.Settings.User, s.Settings.Password = "", ""
	}
	l = &counting{Listener: l, s: s}
	srv := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		if o.Greet != nil {
			if err := o.Greet(); err != nil {
				return nil, err
			}
		}
		return &session{s: s}, nil
	}))
	srv.Domain, srv.AllowInsecureAuth, srv.ErrorLog = "mail.example.org", o.Plain, silent{}
	if o.TLS {
		l = tls.NewListener(l, config)
	} else if !o.Plain {
		srv.TLSConfig = config
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		_ = l.Close() // where Serve has not begun, Close does not know it
		<-done
	})
	return s
}

// counting counts the connections.
type counting struct {
	net.Listener
	s *Server
}

// Accept implements net.Listener.
func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.connections++
	return c, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// Mails returns the received mails.
func (s *Server) Mails() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.mails...)
}

// Wait returns the mails when n more have come.
func (s *Server) Wait(n int) []Received {
	s.t.Helper()
	for i := range n {
		select {
		case <-s.changed:
		case <-time.After(20 * time.Second):
			s.t.Fatalf("%d of %d mails have come", i, n)
		}
	}
	return s.Mails()
}

// Connections returns the number of connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

type session struct {
	s        *Server
	user     bool
	nth      int
	from, to string
}

func (n *session) Reset()        {}
func (n *session) Logout() error { return nil }

func (n *session) AuthMechanisms() []string {
	if n.s.o.Anonymous {
		return nil
	}
	return []string{sasl.Plain}
}

func (n *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != User || password != Password {
			return &smtp.SMTPError{Code: 535, Message: "no: " + password}
		}
		n.user = true
		if n.s.o.Auth != nil {
			return n.s.o.Auth()
		}
		return nil
	}), nil
}

func (n *session) Mail(from string, _ *smtp.MailOptions) error {
	if !n.user && !n.s.o.Anonymous {
		return smtp.ErrAuthRequired
	}
	n.from = from
	n.nth++
	if n.s.o.Mail != nil {
		return n.s.o.Mail(n.nth)
	}
	return nil
}

func (n *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	n.to = to
	if n.s.o.Rcpt != nil {
		return n.s.o.Rcpt(to)
	}
	return nil
}

func (n *session) Data(r io.Reader) error {
	m, err := read(r)
	if err != nil {
		n.s.t.Errorf("a mail that cannot be read: %v", err)
		return err
	}
	m.From, m.To = n.from, n.to
	if n.s.o.Data != nil {
		if err := n.s.o.Data(m); err != nil {
			return err
		}
	}
	n.s.mu.Lock()
	n.s.mails = append(n.s.mails, m)
	n.s.mu.Unlock()
	n.s.changed <- struct{}{}
	return nil
}

// read takes a message of two parts apart.
func read(r io.Reader) (m Received, err error) {
	message, err := netmail.ReadMessage(r)
	if err != nil {
		return m, err
	}
	m.Header = message.Header
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		return m, err
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		return m, fmt.Errorf("content type %q, %w", kind, err)
	}
	parts := multipart.NewReader(message.Body, params["boundary"])
	for _, into := range []*string{&m.Text, &m.HTML} {
		part, err := parts.NextRawPart()
		if err != nil {
			return m, err
		}
		if e := part.Header.Get("Content-Transfer-Encoding"); e != "quoted-printable" {
			return m, errors.New("encoding " + e)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			return m, err
		}
		*into = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	return m, nil
}
