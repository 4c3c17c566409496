package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/wneessen/go-mail/smtp"
)

const (
	defaultTimeout = 30 * time.Second
	idleTime       = 10 * time.Second // less than any server waits
	quitTime       = time.Second
	maxIdle        = 4
	mailsAtOnce    = 50      // on one connection; many servers want no more than 100
	maxAnswers     = 1 << 20 // bytes of all that the server says about one mail
	maxAnswer      = 200     // characters of an answer in an error
)

// Server describes the mail server and the account there.
type Server struct {
	Address string // host:port
	Host    string // its name in the certificate
	TLS     bool   // from the first byte
	// RequireTLS is false only on loopback: there the password may be sent without TLS, and with
	// TLS the certificate is not checked.
	RequireTLS     bool
	User, Password string // empty: no authentication
	From           netmail.Address
	Hello          string           // the name of this machine for EHLO; empty: localhost
	RootCAs        *x509.CertPool   // nil: the system's
	Timeout        time.Duration    // for one mail from the connection to the answer; 0: 30 s
	Now            func() time.Time // of the mails' Date; nil: time.Now
}

// SMTP sends messages through a mail server. It keeps connections for mails that follow within
// seconds. It is safe for concurrent use.
type SMTP struct {
	server Server

	mu    sync.Mutex
	idle  []*conn
	timer *time.Timer // ends them
}

// NewSMTP returns a Sender. It does not connect yet.
func NewSMTP(s Server) *SMTP {
	s.Timeout, s.Hello = cmp.Or(s.Timeout, defaultTimeout), cmp.Or(s.Hello, "localhost")
	if s.Now == nil {
		s.Now = time.Now
	}
	return &SMTP{server: s}
}

// HelloName returns the form of a host in EHLO (RFC 5321 section 4.1.3).
func HelloName(host string) string {
	switch ip := net.ParseIP(host); {
	case ip == nil:
		return host
	case ip.To4() == nil:
		return "[IPv6:" + host + "]"
	}
	return "[" + host + "]"
}

// conn is a connection on which the server waits for a mail.
type conn struct {
	*smtp.Client
	wire *wire
	sent int
}

// wire is the connection below TLS.
type wire struct {
	net.Conn
	left int // bytes that may still be read
}

func (w *wire) Read(p []byte) (int, error) {
	if w.left <= 0 {
		return 0, errors.New("the server's answers are too long")
	}
	n, err := w.Conn.Read(p[:min(len(p), w.left)])
	w.left -= n
	return n, err
}

// begin limits everything until end is called by the deadline of ctx.
func (w *wire) begin(ctx context.Context) (end func() bool) {
	w.left = maxAnswers
	deadline, _ := ctx.Deadline()
	_ = w.SetDeadline(deadline)
	return context.AfterFunc(ctx, func() { _ = w.SetDeadline(time.Unix(1, 0)) })
}

// Send implements Sender.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	_, err := s.Deliver(ctx, m)
	return err
}

// Deliver is Send and also returns the answer of the server.
func (s *SMTP) Deliver(ctx context.Context, m Message) (answer string, err error) {
	data, err := encode(&s.server.From, m, s.server.Now())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	if kept := s.take(); kept != nil {
		answer, begun, err := s.transmit(ctx, kept, m.To, data)
		if begun {
			return answer, err
		}
	}
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	answer, _, err = s.transmit(ctx, c, m.To, data)
	return answer, err
}

// Check connects, authenticates and names the sender as Send does, and sends nothing.
func (s *SMTP) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.quit()
	if err := c.Mail("<" + s.server.From.Address + ">"); err != nil {
		return s.failed(StepSender, "", err)
	}
	return nil
}

// dial connects and authenticates.
func (s *SMTP) dial(ctx context.Context) (_ *conn, err error) {
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", s.server.Address)
	if err != nil {
		return nil, s.failed(StepConnect, "", err)
	}
	if remote, ok := tcp.RemoteAddr().(*net.TCPAddr); !s.server.RequireTLS && (!ok || !remote.IP.IsLoopback()) {
		_ = tcp.Close() // a name such as localhost that is not this machine
		return nil, s.failed(StepTLS, "", errors.New("the server is not on this machine, and TLS is not required"))
	}
	w := &wire{Conn: tcp}
	defer w.begin(ctx)()
	defer func() {
		if err != nil {
			_ = tcp.Close()
		}
	}()
	config := &tls.Config{
		ServerName: s.server.Host, RootCAs: s.server.RootCAs, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: !s.server.RequireTLS, //nolint:gosec // only on loopback
	}
	var over net.Conn = w
	if s.server.TLS {
		secure := tls.Client(w, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, s.failed(StepTLS, "", err)
		}
		over = secure
	}
	c, err := smtp.NewClient(over, s.server.Host)
	if err != nil {
		return nil, s.failed(StepGreeting, "", err)
	}
	if err := c.Hello(s.server.Hello); err != nil {
		return nil, s.failed(StepGreeting, "", err)
	}
	if offered, _ := c.Extension("STARTTLS"); !s.server.TLS && offered {
		if err := c.StartTLS(config); err != nil {
			return nil, s.failed(StepTLS, "", err)
		}
	} else if !s.server.TLS && s.server.RequireTLS {
		return nil, s.failed(StepTLS, "", errors.New("the server does not offer STARTTLS"))
	}
	if s.server.User != "" {
		if err := s.authenticate(c); err != nil {
			return nil, err
		}
	}
	return &conn{Client: c, wire: w}, nil
}

// authenticate reports only the code of the server's answer, because some servers repeat what was
// sent.
func (s *SMTP) authenticate(c *smtp.Client) error {
	user, password, host, plain := s.server.User, s.server.Password, s.server.Host, !s.server.RequireTLS
	_, offered := c.Extension("AUTH")
	offer := strings.Fields(strings.ToUpper(offered))
	for _, m := range []struct {
		name string
		auth smtp.Auth
	}{
		{"PLAIN", smtp.PlainAuth("", user, password, host, plain)},
		{"LOGIN", smtp.LoginAuth(user, password, host, plain)},
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)}, {"CRAM-MD5", smtp.CRAMMD5Auth(user, password)},
	} {
		if !slices.Contains(offer, m.name) {
			continue
		}
		err := c.Auth(m.auth)
		var answer *textproto.Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &answer):
			return &Failure{Step: StepAuthentication,
				Reason: fmt.Sprintf("the server refuses user and password (%d)", answer.Code)}
		case errors.Is(err, io.EOF) || isTimeout(err):
			return s.failed(StepAuthentication, "", err)
		}
		return &Failure{Step: StepAuthentication, Reason: "the server's part of " + m.name + " is not as it should be"}
	}
	return &Failure{Step: StepAuthentication, Reason: "the server offers no mechanism for a password here"}
}

// transmit sends a message on a connection and keeps or closes it. begun is false if the server did
// not even accept the sender: it may be about to close the connection.
func (s *SMTP) transmit(ctx context.Context, c *conn, to string, data []byte) (answer string, begun bool, err error) {
	end := c.wire.begin(ctx)
	defer func() {
		end()
		if err == nil || c.Reset() == nil { // Reset fails at once after the deadline
			s.keep(c)
			return
		}
		_ = c.Close()
	}()
	ascii := !strings.ContainsFunc(to, func(r rune) bool { return r > unicode.MaxASCII })
	if able, _ := c.Extension("SMTPUTF8"); !ascii && !able {
		return "", true,
			&Failure{Step: StepRecipient, Reason: "the server takes no addresses beyond ASCII", Refused: true}
	}
	c.SkipSMTPUTF8(ascii)
	if err := c.Mail("<" + s.server.From.Address + ">"); err != nil {
		return "", false, s.failed(StepSender, to, err)
	}
	if err := c.Rcpt("<" + to + ">"); err != nil {
		return "", true, s.refused(StepRecipient, to, err)
	}
	w, err := c.Data()
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return "", true, s.refused(StepMessage, to, err)
	}
	if closer, ok := w.(*smtp.DataCloser); ok {
		answer = s.clean(closer.ServerResponse(), to)
	}
	return answer, true, nil
}

// refused is failed if the server's 5yz is about this message (RFC 5321 section 4.2.1). If it is
// about the connection or the sender, an operator can fix it.
func (s *SMTP) refused(step, to string, err error) *Failure {
	f := s.failed(step, to, err)
	var answer *textproto.Error
	f.Refused = errors.As(err, &answer) && answer.Code >= 500 && answer.Code <= 599
	return f
}

func (s *SMTP) failed(step, to string, err error) *Failure {
	var answer *textproto.Error
	var dial *net.OpError
	f := &Failure{Step: step}
	switch {
	case errors.As(err, &answer):
		f.Reason = fmt.Sprintf("the server answers %d %s", answer.Code, s.clean(answer.Msg, to))
	case isTimeout(err):
		f.Reason = fmt.Sprintf("no answer of %s within %s", s.server.Address, s.server.Timeout)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		f.Reason = "the server has closed the connection"
	case errors.As(err, &dial):
		f.Reason = s.server.Address + ": " + dial.Err.Error()
	default:
		f.Reason = s.clean(err.Error(), to)
	}
	return f
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

var localPart = regexp.MustCompile(`[^\s<>()\[\],;:"']+@`)

// clean returns the server's answer for a log: one short line, without the local parts of addresses
// and without the password.
func (s *SMTP) clean(answer, to string) string {
	if p := s.server.Password; p != "" &&
		(strings.Contains(answer, p) || strings.Contains(answer, base64.StdEncoding.EncodeToString([]byte(p)))) {
		return "(a text with the password)"
	}
	answer = localPart.ReplaceAllString(answer, "…@")
	if local, _, _ := strings.Cut(to, "@"); len(local) > 2 {
		answer = strings.ReplaceAll(answer, local, "…")
	}
	answer = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(answer, "?"),
		func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }), " ")
	if r := []rune(answer); len(r) > maxAnswer {
		answer = string(r[:maxAnswer]) + "…"
	}
	return answer
}

// take returns a kept connection, or nil.
func (s *SMTP) take() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.idle) - 1
	if last < 0 {
		return nil
	}
	c := s.idle[last]
	s.idle = s.idle[:last]
	return c
}

// keep keeps a connection for the next mail.
func (s *SMTP) keep(c *conn) {
	c.sent++
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == maxIdle || c.sent == mailsAtOnce {
		go c.quit()
		return
	}
	s.idle = append(s.idle, c)
	if s.timer == nil {
		s.timer = time.AfterFunc(idleTime, s.Close)
	}
	s.timer.Reset(idleTime)
}

// Close closes the kept connections. More messages may be sent afterwards.
func (s *SMTP) Close() {
	for c := s.take(); c != nil; c = s.take() {
		c.quit()
	}
}

func (c *conn) quit() {
	ctx, cancel := context.WithTimeout(context.Background(), quitTime)
	defer cancel()
	defer c.wire.begin(ctx)()
	_ = c.Quit()
	_ = c.Close()
}
