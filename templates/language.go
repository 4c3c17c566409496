package templates

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/BurntSushi/toml"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"github.com/nicksnyder/go-i18n/v2/i18n/template"
	"golang.org/x/text/language"
)

// langFiles holds one file per language. The English text is the key; en.toml has only the texts
// with plural forms.
//
//go:embed lang/*.toml
var langFiles embed.FS

// Text is an English sentence of the source and the key of its translations. An untyped constant
// converts to it; a text made at run time has no translation.
type Text string

// Language translates what people read. The zero value and nil are English, the language of the
// source.
type Language struct {
	tag  string         // BCP 47, as in the html element
	load func() phrases // nil: English without plural forms
}

// phrases are the texts of a language, read when they are first needed: most installations speak
// one or two languages.
type phrases struct {
	texts     map[Text]string
	localizer *i18n.Localizer // for plural forms
}

// english is the language if none that the reader asks for is available.
const english = "en"

type catalog struct {
	languages []*Language // English first
	matcher   language.Matcher
}

// languages lists the embedded files, which are read later.
var languages = sync.OnceValue(func() catalog {
	files, err := langFiles.ReadDir("lang")
	if err != nil {
		panic(err)
	}
	var c catalog
	var tags []language.Tag
	for _, f := range files {
		tag := language.MustParse(strings.TrimSuffix(f.Name(), ".toml"))
		l := &Language{tag: tag.String(), load: sync.OnceValue(func() phrases { return readPhrases(f.Name()) })}
		at := len(c.languages)
		if l.tag == english {
			at = 0
		}
		c.languages = slices.Insert(c.languages, at, l)
		tags = slices.Insert(tags, at, tag)
	}
	c.matcher = language.NewMatcher(tags)
	return c
})

// readPhrases reads a file of lang, and the English plural forms, which stand for those that it
// lacks. It panics if a file is invalid, since they are part of the program.
func readPhrases(name string) phrases {
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	p := phrases{texts: map[Text]string{}}
	for _, file := range []string{english + ".toml", name} {
		text, err := langFiles.ReadFile("lang/" + file)
		if r, plain := gzip.NewReader(bytes.NewReader(text)); plain == nil { // a release has them compressed
			text, err = io.ReadAll(r)
		}
		read, parsed := bundle.ParseMessageFileBytes(text, file)
		if err = cmp.Or(err, parsed); err != nil {
			panic(fmt.Sprintf("texts of %s: %v", file, err))
		}
		if file == name {
			p.localizer = i18n.NewLocalizer(bundle, read.Tag.String())
			for _, m := range read.Messages {
				p.texts[Text(m.ID)] = m.Other
			}
		}
	}
	return p
}

// LanguageTags returns the available languages (BCP 47), English first.
func LanguageTags() []string {
	var tags []string
	for _, l := range languages().languages {
		tags = append(tags, l.tag)
	}
	return tags
}

// PickLanguage returns the language that matches the preferences best. Each preference is empty, a
// tag, several tags separated by spaces (ui_locales), or an Accept-Language header. The first one
// that names an available language decides.
func PickLanguage(preferences ...string) *Language {
	return cmp.Or(preferred(preferences), languages().languages[0])
}

// LanguageTag returns the tag of PickLanguage, or "" if no preference names an available language.
func LanguageTag(preferences ...string) string {
	if l := preferred(preferences); l != nil {
		return l.tag
	}
	return ""
}

func preferred(preferences []string) *Language {
	for _, p := range preferences {
		if l := languages().match(p); l != nil {
			return l
		}
	}
	return nil
}

// match returns the language that matches one preference best, or nil.
func (c catalog) match(preference string) *Language {
	if !strings.ContainsAny(preference, ",;") {
		preference = strings.Join(strings.Fields(preference), ",")
	}
	if len(preference) > 256 {
		return nil
	}
	known := strings.Split(preference, ",") // one tag that is invalid or unknown makes the whole list an error
	known = slices.DeleteFunc(known, func(tag string) bool {
		_, _, err := language.ParseAcceptLanguage(tag)
		return err != nil
	})
	tags, _, err := language.ParseAcceptLanguage(strings.Join(known, ","))
	if err != nil || len(tags) == 0 {
		return nil
	}
	if _, i, confidence := c.matcher.Match(tags...); confidence > language.No {
		return c.languages[i]
	}
	return nil
}

// Tag returns the BCP 47 tag, for the attribute lang.
func (l *Language) Tag() string {
	if l == nil || l.tag == "" {
		return english
	}
	return l.tag
}

// rightToLeft has the right-to-left scripts of living languages (ISO 15924).
var rightToLeft = []string{"Arab", "Hebr", "Thaa", "Syrc", "Nkoo", "Adlm", "Rohg"}

// dir returns the direction of the script, for the attribute dir.
func (l *Language) dir() string {
	if script, _ := language.Make(l.Tag()).Script(); slices.Contains(rightToLeft, script.String()) {
		return "rtl"
	}
	return "ltr"
}

// SetLanguageHeaders sets the language of a response and that it depends on the request.
func SetLanguageHeaders(h http.Header, l *Language) {
	h.Set("Content-Language", l.Tag())
	h.Add("Vary", "Accept-Language")
}

// Text translates an English text into this language. args are pairs of a name and the value that
// replaces {name} in the text. The number "count" selects the plural form.
func (l *Language) Text(text Text, args ...any) string {
	if l == nil && len(args) == 0 { // avoid reading the files
		return string(text)
	}
	out := l.form(text, args)
	if len(args) == 0 {
		return out
	}
	return replace(out, args)
}

// form translates a text and keeps its placeholders. It selects the plural form of "count".
func (l *Language) form(text Text, args []any) string {
	if l == nil || l.load == nil {
		l = languages().languages[0]
	}
	p := l.load()
	out, ok := p.texts[text]
	if !ok {
		out = string(text)
	}
	if i := slices.Index(args, any("count")); i >= 0 && i+1 < len(args) {
		// For a language without this text, Localize returns the English form and an error.
		plural, err := p.localizer.Localize(&i18n.LocalizeConfig{
			MessageID: string(text), PluralCount: args[i+1], TemplateParser: template.IdentityParser{},
		})
		if plural != "" && (err == nil || !ok) {
			return plural
		}
	}
	return out
}

type languageKey struct{}

// preferences has the languages of a request, by who asks for one. A pointer is nil if nothing
// available was asked for.
type preferences struct {
	application, member, browser atomic.Pointer[Language]
	accept                       string       // Accept-Language; sets browser on first use
	zone, handle                 atomic.Value // strings: time zone and user name of the member
}

func (p *preferences) language() *Language {
	l := cmp.Or(p.application.Load(), p.member.Load(), p.browser.Load())
	if l == nil {
		l = PickLanguage(p.accept)
		p.browser.Store(l)
	}
	return l
}

// WithAcceptLanguage gives a request the language of its Accept-Language header, which is parsed
// when a text is first needed.
func WithAcceptLanguage(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, languageKey{}, &preferences{accept: header})
}

// WithLanguage sets the language of a request's browser or a mail's reader; nil means that none is known.
func WithLanguage(ctx context.Context, l *Language) context.Context {
	if l == nil {
		return context.WithValue(ctx, languageKey{}, nil)
	}
	p := new(preferences)
	p.browser.Store(l)
	return context.WithValue(ctx, languageKey{}, p)
}

// SetMember sets the user name of the member who makes the request, and the language (BCP 47) and the time zone that
// they have chosen, which take precedence over the browser's.
func SetMember(ctx context.Context, handle, locale, zone string) {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		p.member.Store(languages().match(locale))
		p.zone.Store(zone)
		p.handle.Store(handle)
	}
}

// memberOf returns the user name and the time zone of the member who makes a request, "" if none is known.
func memberOf(ctx context.Context) (handle, zone string) {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		handle, _ = p.handle.Load().(string)
		zone, _ = p.zone.Load().(string)
	}
	return handle, zone
}

// SetApplicationLanguage sets the language that the application asks for in ui_locales (OpenID
// Connect Core section 3.1.2.1). It takes precedence over the member's choice.
func SetApplicationLanguage(ctx context.Context, uiLocales string) {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		p.application.Store(languages().match(uiLocales))
	}
}

// LanguageOf returns the language of a request, or nil, which is English, if none was set.
func LanguageOf(ctx context.Context) *Language {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		return p.language()
	}
	return nil
}
