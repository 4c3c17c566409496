// Package text has the rules for what people type: which characters a text may have, how long it may be, and the
// forms of the standard claims (OpenID Connect Core section 5.1).
//
// It leaves to others what the texts are for, and how a refusal is answered.
package text

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/cairn-id/cairn/templates"
)

// Cut shortens a client's text for storage to n characters, and removes characters that could break
// a database or a page.
func Cut(s string, n int) string {
	out := make([]rune, 0, n)
	for _, r := range s {
		if len(out) == n {
			break
		}
		if printable(r) {
			out = append(out, r)
		}
	}
	return string(out)
}

// CutLines shortens typed text to show it again.
func CutLines(typed string) string {
	lines := strings.SplitN(typed, "\n", 12)
	for i, l := range lines {
		lines[i] = Cut(l, 2001)
	}
	return strings.Join(lines[:min(len(lines), 11)], "\n")
}

// Percent returns a text in percent-encoded UTF-8 (RFC 3986 section 2.1): all but the unreserved
// characters, a space as %20, for readers that take a plus sign literally.
func Percent(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Printable reports whether a text contains only characters that are safe for a page, a log line
// and a database.
func Printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) })
}

// printable: U+200C and U+200D join letters and emoji. The other format characters reorder or hide text.
func printable(r rune) bool {
	joins := r == '\u200c' || r == '\u200d'
	return !unicode.IsControl(r) && r != unicode.ReplacementChar && (joins || !unicode.Is(unicode.Cf, r)) &&
		!unicode.In(r, unicode.Zl, unicode.Zp, unicode.Co)
}

// Check trims a text of at most max characters, which may be empty, and reports whether it is acceptable.
func Check(s string, max int) (string, bool) {
	s = strings.TrimSpace(s)
	return s, utf8.RuneCountInString(s) <= max && utf8.ValidString(s) && Printable(s)
}

// Refusal is the sentence about what is accepted, with {max}. An empty Text means no refusal.
type Refusal struct {
	Text templates.Text
	Max  int
}

// Rule returns the text to store, or why it is refused.
type Rule func(s string) (kept string, no Refusal)

// Line returns the rule for a text of at most max characters in one line.
func Line(max int) Rule {
	return func(s string) (string, Refusal) {
		if _, ok := Check(s, max); !ok {
			return "", Refusal{"Enter at most {max} characters on one line, without control characters.", max}
		}
		return s, Refusal{}
	}
}

// Lines returns the rule for a text of at most max characters and 10 lines.
func Lines(max int) Rule {
	no := Refusal{"Enter at most {max} characters on at most 10 lines, without control characters.", max}
	return func(s string) (string, Refusal) {
		s = strings.ReplaceAll(s, "\r\n", "\n")
		if strings.Count(s, "\n") >= 10 || utf8.RuneCountInString(s) > max {
			return "", no
		}
		for l := range strings.SplitSeq(s, "\n") {
			if _, ok := Check(l, max); !ok {
				return "", no
			}
		}
		return s, Refusal{}
	}
}

// WebAddress accepts only http and https, so that javascript: does not reach applications that show
// the claim.
func WebAddress(s string) (string, Refusal) {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2000 || !Printable(s) || strings.ContainsAny(s, " <>\"\\^`{|}") ||
		u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" || u.User != nil {
		return "", Refusal{
			Text: "Enter a web address such as https://example.org/me, with at most 2,000 characters and without a " +
				"user name.",
		}
	}
	return s, Refusal{}
}

var yearAlone = regexp.MustCompile(`^[1-9][0-9]{3}$`)

// Birthdate accepts a day, a day without its year (0000-03-31) and a year.
func Birthdate(s string) (string, Refusal) {
	// Year 0 is a leap year: 0000-02-29 is a birthday.
	if _, err := time.Parse(time.DateOnly, s); err != nil && !yearAlone.MatchString(s) {
		return "", Refusal{
			Text: "Enter a date such as 1990-03-31, 0000-03-31 without the year, or only the year.",
		}
	}
	return s, Refusal{}
}

var zoneForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}$`)

// Zoneinfo accepts the name of a time zone.
func Zoneinfo(s string) (string, Refusal) {
	no := Refusal{Text: "Enter the name of a time zone, such as Europe/Rome."}
	if len(s) > 64 || !zoneForm.MatchString(s) || s == "Local" {
		return "", no
	}
	if _, err := time.LoadLocation(s); err != nil && zonesKnown() {
		return "", no
	}
	return s, Refusal{}
}

// zonesKnown reports whether this system has the time zone database. Without it, only the form of
// the name is checked. (Compiling the database in would cost every installation its memory.)
var zonesKnown = sync.OnceValue(func() bool {
	_, err := time.LoadLocation("Europe/Rome")
	return err == nil
})

// Locale keeps the canonical spelling: en_us becomes en-US.
func Locale(s string) (string, Refusal) {
	if len(s) <= 35 {
		if tag, err := language.Parse(s); err == nil && tag != language.Und {
			return tag.String(), Refusal{}
		}
	}
	return "", Refusal{Text: "Enter a language such as it or en-GB (BCP 47)."}
}

var (
	phoneForm       = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	phoneSeparators = strings.NewReplacer(" ", "", "-", "", ".", "", "(", "", ")", "", "/", "")
)

// PhoneNumber keeps E.164: a plus sign and 7 to 15 digits.
func PhoneNumber(s string) (string, Refusal) {
	if kept := phoneSeparators.Replace(s); len(s) <= 40 && phoneForm.MatchString(kept) {
		return kept, Refusal{}
	}
	return "", Refusal{Text: "Enter a phone number with its country code, such as +39 06 1234567."}
}
