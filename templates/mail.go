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

// Mail is the content of a mail in its reader's language. Each text becomes one line: line breaks
// and direction controls are removed, because the texts contain people's names.
type Mail struct {
	Subject    string
	Paragraphs []string
	Link       *MailLink
	More       []MailLink // in the place of Link: one of several
	Code       string     // to be typed
	Notes      []string   // paragraphs after link and code
	Reason     string     // why the reader gets it, below the name of the instance
}

// MailLink is a link in a mail. Label says what it does.
type MailLink struct {
	Label string
	URL   string // http or https, with its host
}

// WrittenMail is a mail as plain text and as HTML.
type WrittenMail struct{ Subject, Text, HTML string }

// Limits in characters.
const (
	maxMailSubject = 150
	maxMailName    = 60
)

// Mail writes a mail. It ends with the name of the instance.
func (r *Renderer) Mail(l *Language, m Mail) (WrittenMail, error) {
	if m.Link != nil {
		target := m.Link.URL
		u, err := url.Parse(target)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || oneLine(target) != target {
			return WrittenMail{}, errors.New("the link of the mail is not an http or https URL")
		}
		m.Link = &MailLink{Label: oneLine(m.Link.Label), URL: m.Link.URL}
	}
	for _, link := range m.More {
		if _, err := r.Mail(l, Mail{Subject: m.Subject, Link: &link}); err != nil {
			return WrittenMail{}, err
		}
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
	for _, link := range m.More {
		text = append(text, link.Label+":\n"+link.URL)
	}
	if m.Code != "" {
		text = append(text, "    "+m.Code)
	}
	var links []MailLink
	look := r.currentLook()
	foot := strings.TrimSpace("---\n" + instance + "\n" + m.Reason)
	for _, link := range []MailLink{{l.Text("Legal notice"), look.Imprint}, {l.Text("Privacy policy"), look.Privacy}} {
		if link.URL != "" {
			links = append(links, link)
			foot += "\n" + link.Label + ": " + link.URL
		}
	}
	text = append(append(text, m.Notes...), foot)
	var b bytes.Buffer
	err := mailTemplate.Execute(&b, struct {
		Mail
		Lang, Instance string
		Links          []MailLink
	}{m, l.Tag(), instance, links})
	if err != nil {
		return WrittenMail{}, fmt.Errorf("write mail: %w", err)
	}
	return WrittenMail{Subject: m.Subject, Text: strings.Join(text, "\n\n") + "\n", HTML: b.String()}, nil
}

// MailName makes a name that people chose themselves safe for a mail to others: it shortens the name
// and breaks up anything that a mail program would turn into a link.
func MailName(name string) string { return MailNote(Shortened(oneLine(name), maxMailName)) }

// MailNote does the same as MailName for a text of any length.
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

// oneLine replaces runs of white space and control characters by one space, and removes direction
// controls and invisible characters.
func oneLine(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case c == '\u00a0' || c == '\u202f': // French has them before : and inside quotes
			return c
		case unicode.IsSpace(c) || unicode.IsControl(c) || c == '\u2028' || c == '\u2029':
			return ' '
		case unicode.Is(unicode.Bidi_Control, c) || c == '\u200b' || c == '\ufeff':
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == ' ' }), " ")
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
