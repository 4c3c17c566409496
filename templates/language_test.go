package templates_test

import (
	"testing"

	"github.com/cairn-id/cairn/templates"
)

func TestReaderGetsTheLanguageTheyPrefer(t *testing.T) {
	for _, c := range []struct {
		preferences []string
		want        string
	}{
		{nil, "en"}, {[]string{""}, "en"}, {[]string{"de"}, "de"}, {[]string{"sv"}, "en"}, {[]string{"sv de"}, "de"}, {[]string{"", "de-AT,de;q=0.9,en;q=0.8"}, "de"},
		{[]string{"en-GB", "de"}, "en"}, {[]string{"sv", "de"}, "de"}, {[]string{"*;q=", "de"}, "de"}, {[]string{"xx de"}, "de"}, {[]string{"a,de;q=0.5,en;q=0.4"}, "de"}, {[]string{"sv-SE,sv;q=0.9,en;q=0.8,de;q=0.7"}, "en"},
	} {
		equal(t, c.preferences, templates.PickLanguage(c.preferences...).Tag(), c.want)
	}
}

func TestTextHasItsPluralFormAndValues(t *testing.T) {
	de := templates.PickLanguage("de")
	for _, c := range []struct {
		got, want string
	}{
		{de.Text("Skip to content"), "Zum Inhalt"},
		{de.Text("at most {count} permissions", "count", 1), "höchstens 1 Berechtigung"},
		{de.Text("at most {count} permissions", "count", 0), "höchstens 0 Berechtigungen"},
		{(*templates.Language)(nil).Text("at most {count} permissions", "count", 1), "at most 1 permission"},
		{de.Text("unknown {name}", "name", "{x}"), "unknown {x}"},
	} {
		equal(t, "c.got", c.got, c.want)
	}
}

// A domain is shown as people write it, unless its letters can look like those of another domain.
func TestInternationalDomainsAreShownWhereTheyDeceiveNobody(t *testing.T) {
	l := templates.PickLanguage("en")
	for address, shown := range map[string]string{
		"max@xn--mller-kva.example": "max@müller.example", "max@xn--d-dla.example": "max@łd.example", "max@example.org": "max@example.org",
		"max@xn--pple-43d.example": "max@xn--pple-43d.example", // with a Cyrillic letter
		"max@xn--80ak6aa92e.com":   "max@xn--80ak6aa92e.com",   // all of them
		"max@xn--wkipedia-tkb.org": "max@xn--wkipedia-tkb.org", // with an i that has no dot
		"max@xn--zzzzzzzz.example": "max@xn--zzzzzzzz.example",
	} {
		equal(t, address, l.Text("{email}", "email", address), shown)
	}
}
