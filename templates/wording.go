package templates

import (
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"
)

// wording returns the functions of the templates that depend on the language.
func (l *Language) wording(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"t":           l.markup,
		"titled":      l.titled,
		"device":      l.Device,
		"sentence":    l.AuditSentence,
		"auditgroups": l.auditGroups,
		"day":         l.Day,
		"when":        func(t time.Time) template.HTML { return l.when(now(), t) },
		"ends":        func(t time.Time) template.HTML { return l.when(now(), t.Add(-time.Second)) }, // of the last day
	}
}

// marks has the functions that mark up a value in a text: {{t "Hello {name}" "name" (strong .Name)}}.
var marks = template.FuncMap{
	"bdi":    func(s string) template.HTML { return mark("<bdi>", s, "</bdi>") },
	"strong": func(s string) template.HTML { return mark("<strong><bdi>", s, "</bdi></strong>") },
	"code":   func(s string) template.HTML { return mark("<code>", s, "</code>") },
}

func mark(begin, s, end string) template.HTML {
	return template.HTML(begin + template.HTMLEscapeString(s) + end) //nolint:gosec // escaped here
}

// markup is Text with values that may be marked up. If one is, the text and the other values are
// escaped.
func (l *Language) markup(text Text, args ...any) any {
	if !slices.ContainsFunc(args, func(arg any) bool { _, marked := arg.(template.HTML); return marked }) {
		return l.Text(text, args...)
	}
	escaped := slices.Clone(args)
	for i, arg := range args {
		if _, marked := arg.(template.HTML); i%2 == 1 && !marked {
			escaped[i] = template.HTMLEscapeString(fmt.Sprint(arg))
		}
	}
	form := template.HTMLEscapeString(l.form(text, args))
	return template.HTML(replace(form, escaped)) //nolint:gosec // text and values are escaped
}

// titled returns the title of a page. If something on it has failed, the title says so.
func (l *Language) titled(failed any, title string) string {
	if truth, _ := template.IsTrue(failed); truth {
		return l.Text("Error: {title}", "title", title)
	}
	return title
}

// Device names a browser and its system, as far as known.
func (l *Language) Device(browser, system string) string {
	switch {
	case browser+system == "":
		return l.Text("Unknown device")
	case browser == "" || system == "":
		return browser + system
	}
	return l.Text("{browser} on {system}", "browser", browser, "system", system)
}

var months = [...]Text{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// Zone returns the first of the time zones that is one, else UTC.
func Zone(names ...string) *time.Location {
	for _, name := range names {
		if zone, err := time.LoadLocation(name); name != "" && err == nil {
			return zone
		}
	}
	return time.UTC
}

// Clock writes a time with the name of its zone.
func (l *Language) Clock(t time.Time, zone *time.Location) string {
	name := " (" + zone.String() + ")"
	if zone == time.UTC {
		name = " UTC"
	}
	return t.In(zone).Format(l.Text("2 Jan 2006, 15:04")) + name
}

// Day writes the day of a time.
func (l *Language) Day(t time.Time) string {
	return l.Text("{day} {month} {year}", "day", t.Day(), "month", l.Text(months[t.Month()-1]), "year", t.Year())
}

// exact finds the titles of the times of a page, which clocks fills: pages are parsed for all readers.
var exact = regexp.MustCompile(`<time datetime="([^"]+)" title="`)

// clocks writes the exact times of a page in the zone of its reader.
func (l *Language) clocks(page []byte, zones ...string) []byte {
	var zone *time.Location // loading one takes longer than most pages
	return exact.ReplaceAllFunc(page, func(element []byte) []byte {
		if zone == nil {
			zone = Zone(zones...)
		}
		at, _ := time.Parse(time.RFC3339, string(exact.FindSubmatch(element)[1]))
		return slices.Concat(element, []byte(template.HTMLEscapeString(l.Clock(at, zone))))
	})
}

// when returns a relative time for a sentence, with a title for the exact one.
func (l *Language) when(now, t time.Time) template.HTML {
	if t.IsZero() {
		return template.HTML(template.HTMLEscapeString(l.Text("never"))) //nolint:gosec // escaped
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="">%s</time>`, //nolint:gosec // escaped
		t.UTC().Format(time.RFC3339), template.HTMLEscapeString(l.ago(now, t))))
}

// ago returns the rounded distance of a time from now: "3 hours ago", "in 14 days".
func (l *Language) ago(now, t time.Time) string {
	const day = 24 * time.Hour
	d := now.Sub(t).Abs()
	past := !t.After(now)
	rounded := func(unit time.Duration) int { return int((d + unit/2) / unit) }
	phrase := func(count int, ago, in Text) string {
		if past {
			in = ago
		}
		return l.Text(in, "count", count)
	}
	switch {
	case d < time.Minute && past:
		return l.Text("just now")
	case d < time.Minute:
		return l.Text("in less than a minute")
	case rounded(time.Minute) < 60:
		return phrase(rounded(time.Minute), "{count} minutes ago", "in {count} minutes")
	case rounded(time.Hour) < 24:
		return phrase(rounded(time.Hour), "{count} hours ago", "in {count} hours")
	case rounded(day) <= 45:
		return phrase(rounded(day), "{count} days ago", "in {count} days")
	case rounded(30*day) < 12:
		return phrase(rounded(30*day), "{count} months ago", "in {count} months")
	}
	return phrase(max(1, rounded(365*day)), "{count} years ago", "in {count} years")
}

// replace replaces the placeholders in a text. args are pairs of a name and its value.
func replace(text string, args []any) string {
	pairs := make([]string, 0, len(args))
	for i := 0; i+1 < len(args); i += 2 {
		value := fmt.Sprint(args[i+1])
		if args[i] == "email" || args[i] == "domain" {
			value = shownAddress(value)
		}
		pairs = append(pairs, fmt.Sprintf("{%s}", args[i]), value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// shownAddress returns an address or a host with an international domain as people write it, if its letters are those
// of Western and Central Europe. Others can look like the letters of another domain, which then stays in ASCII.
func shownAddress(s string) string {
	at := strings.LastIndexByte(s, '@') + 1
	domain, err := idna.Display.ToUnicode(s[at:])
	deceives := func(r rune) bool { return r > 'ž' || strings.ContainsRune("ıĸŀŉ", r) }
	if err != nil || strings.ContainsFunc(domain, deceives) {
		return s
	}
	return s[:at] + domain
}
