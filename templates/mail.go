package templates

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"unicode"
)

//go:embed mail.html
var mailHTML string

var mailTemplate = template.Must(template.New("mail").Parse(mailHTML))

// Mail is what a mail says, in the language of its reader. Each text is one line: what
// would break or turn it is taken out, since names of people are in it.
type Mail struct {
	Subject    string
	Paragraphs []string
	Link       *MailLink
	Code       string   // to be typed
	Notes      []string // paragraphs after link and code
	Reason     string   // why the reader gets it, below the name of the instance
}

// MailLink is a link of a mail, with what it does.
type MailLink struct {
	Label string
	URL   string // http or https, with its host
}

// WrittenMail is a mail in its two forms, which say the same.
type WrittenMail struct{ Subject, Text, HTML string }

// Bounds of what stands in a mail, in characters.
const (
	maxMailSubject = 150
	maxMailName    = 60
)

// Mail writes a mail. It ends with the name of the instance.
func (r *Renderer) Mail(l *Language, m Mail) (WrittenMail, error) {
	if m.Link != nil {
		u, err := url.Parse(m.Link.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || oneLine(m.Link.URL) != m.Link.URL {
			return WrittenMail{}, errors.New("the link of the mail is not an http or https URL")
		}
		m.Link = &MailLink{Label: oneLine(m.Link.Label), URL: m.Link.URL}
	}
	m.Subject = Shortened(oneLine(m.Subject), maxMailSubject)
	if m.Subject == "" {
		return WrittenMail{}, errors.New("the mail has no subject")
	}
	m.Code, m.Reason = oneLine(m.Code), oneLine(m.Reason)
	m.Paragraphs, m.Notes = lines(m.Paragraphs), lines(m.Notes)
	instance := oneLine(r.instanceName())

	text := m.Paragraphs
	if m.Link != nil {
		text = append(text, m.Link.Label+":\n"+m.Link.URL)
	}
	if m.Code != "" {
		text = append(text, "    "+m.Code)
	}
	text = append(append(text, m.Notes...), strings.TrimSpace("---\n"+instance+"\n"+m.Reason))
	var b bytes.Buffer
	err := mailTemplate.Execute(&b, struct {
		Mail
		Lang, Instance string
	}{m, l.Tag(), instance})
	if err != nil {
		return WrittenMail{}, fmt.Errorf("write mail: %w", err)
	}
	return WrittenMail{Subject: m.Subject, Text: strings.Join(text, "\n\n") + "\n", HTML: b.String()}, nil
}

// MailName is a name that somebody has given themselves, fit for a mail to others: short,
// and nothing that a mail program would make a link of.
func MailName(name string) string { return MailNote(Shortened(oneLine(name), maxMailName)) }

// MailNote is MailName for what somebody has written to the reader, of any length.
func MailNote(note string) string {
	var b strings.Builder
	before := ' '
	for _, c := range oneLine(note) {
		switch {
		case c == '/' || c == '\\' || c == '@' || c == ':' && !unicode.IsDigit(before): // 18:30
			c = ' '
		case c != ' ' && strings.ContainsRune(".\u3002\uff0e\uff61", before): // what browsers take for a dot
			b.WriteByte(' ')
		}
		b.WriteRune(c)
		before = c
	}
	return oneLine(b.String())
}

// oneLine makes blanks and control characters one blank, and drops what turns the
// direction of the text or cannot be seen.
func oneLine(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c) || unicode.IsControl(c) || c == '\u2028' || c == '\u2029':
			return ' '
		case unicode.Is(unicode.Bidi_Control, c) || c == '\u200b' || c == '\ufeff':
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.Join(strings.Fields(s), " ")
}

func lines(texts []string) []string {
	out := make([]string, 0, len(texts)+4)
	for _, t := range texts {
		if t = oneLine(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// Shortened returns s with at most the given number of characters, the last of which is an ellipsis
// if s was longer.
func Shortened(s string, most int) string {
	if chars := []rune(s); len(chars) > most {
		return strings.TrimSpace(string(chars[:most-1])) + "…"
	}
	return s
}
