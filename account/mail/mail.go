// Package mail owns how a message leaves the service: its form (RFC 5322, MIME) and its
// way to the mail server that the operator has named (SMTP). It leaves to others what a
// message says, to whom and when it is sent, and what to do when that fails.
package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	netmail "net/mail"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"
)

// Message is one mail to one address.
type Message struct {
	To       string // the address alone
	Subject  string // one line
	Text     string // the plain part
	HTML     string // the same as HTML
	Language string // BCP 47
}

// Sender sends messages. Its errors are or wrap a *Failure.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Failure is the reason why a message was not sent. It contains no secret, and of addresses only
// the domain.
type Failure struct {
	Step   string // one of the constants
	Reason string
	// Refused means that another attempt is pointless.
	Refused bool
}

// Steps of sending a message that can fail.
const (
	StepForm           = "form" // of the message itself
	StepConnect        = "connect"
	StepTLS            = "TLS"
	StepGreeting       = "greeting"
	StepAuthentication = "authentication"
	StepSender         = "sender"
	StepRecipient      = "recipient"
	StepMessage        = "message"
)

func (f *Failure) Error() string { return f.Step + ": " + f.Reason }

func malformed(reason string) *Failure {
	return &Failure{Step: StepForm, Reason: reason, Refused: true}
}

// Domain returns the part of an address that may be logged.
func Domain(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}

// isAddress reports whether s is safe in an SMTP command and in a header field.
func isAddress(s string) bool {
	a, err := netmail.ParseAddress("<" + s + ">")
	return err == nil && a.Address == s && len(s) <= 254 && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c == '<' || c == '>' || c == '"' || c == '\\' || !unicode.IsPrint(c)
	})
}

// maxSubject in bytes keeps the line of a subject that is one word below the 998 of
// RFC 5322 section 2.1.1.
const maxSubject = 800

// encode returns the message in the form that is sent. It refuses text that could begin another
// header field.
func encode(from *netmail.Address, m Message, now time.Time) ([]byte, error) {
	switch {
	case !isAddress(m.To):
		return nil, malformed("the recipient is no mail address")
	case len(m.Subject) > maxSubject:
		return nil, malformed("the subject is too long for a line")
	case strings.ContainsFunc(m.Subject,
		func(c rune) bool { return unicode.IsControl(c) || c == '\u2028' || c == '\u2029' }):
		return nil, malformed("the subject is not one line of text")
	case strings.ContainsFunc(m.Language,
		func(c rune) bool { return c != '-' && (c > 'z' || !unicode.IsLetter(c) && !unicode.IsDigit(c)) }):
		return nil, malformed("the language is no tag")
	}
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(from)
	msg.SetAddrHeaderFromMailAddress(mail.HeaderTo, &netmail.Address{Address: m.To})
	msg.Subject(m.Subject)
	msg.SetDateWithValue(now)
	msg.SetMessageIDWithValue(rand.Text() + "@" + Domain(from.Address))
	// No automatic replies (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.Language != "" {
		msg.SetGenHeader("Content-Language", m.Language)
	}
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	msg.AddAlternativeString(mail.TypeTextHTML, m.HTML)
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return nil, malformed(err.Error())
	}
	return b.Bytes(), nil
}
