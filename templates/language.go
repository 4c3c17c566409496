package templates

import (
	"cmp"
	"context"
	"embed"
	"fmt"
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

// langFiles holds one file a language. The English text itself is the key; en.toml has
// those that have plural forms.
//
//go:embed lang/*.toml
var langFiles embed.FS

// Text is an English sentence as the source has it, which is the key of its
// translations. A constant is one by itself; what is put together at run time has none.
type Text string

// Language puts what people read into words. English is the language of the source; the
// zero value and nil speak it.
type Language struct {
	tag       string // BCP 47, as in the html element
	texts     map[Text]string
	localizer *i18n.Localizer // for plural forms
}

// english is the language of who asks for none that there is.
const english = "en"

type catalog struct {
	languages []*Language // English first
	matcher   language.Matcher
}

// languages reads the embedded files; a fault in one is a fault of the program.
var languages = sync.OnceValue(func() catalog {
	bundle := i18n.NewBundle(language.English)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	files, err := langFiles.ReadDir("lang")
	if err != nil {
		panic(err)
	}
	var c catalog
	var tags []language.Tag
	for _, f := range files {
		file, err := bundle.LoadMessageFileFS(langFiles, "lang/"+f.Name())
		if err != nil {
			panic(fmt.Sprintf("texts of %s: %v", f.Name(), err))
		}
		l := &Language{tag: file.Tag.String(), texts: map[Text]string{}, localizer: i18n.NewLocalizer(bundle, file.Tag.String())}
		for _, m := range file.Messages {
			l.texts[Text(m.ID)] = m.Other
		}
		at := len(c.languages)
		if l.tag == english {
			at = 0
		}
		c.languages, tags = slices.Insert(c.languages, at, l), slices.Insert(tags, at, file.Tag)
	}
	c.matcher = language.NewMatcher(tags)
	return c
})

// LanguageTags are the languages there are (BCP 47), English first.
func LanguageTags() []string {
	var tags []string
	for _, l := range languages().languages {
		tags = append(tags, l.tag)
	}
	return tags
}

// PickLanguage returns the language that fits the preferences best; each is empty, a
// tag, several tags separated by spaces (ui_locales), or a header Accept-Language. The
// first that names a language there is decides.
func PickLanguage(preferences ...string) *Language {
	c := languages()
	for _, p := range preferences {
		if l := c.match(p); l != nil {
			return l
		}
	}
	return c.languages[0]
}

// match is the language that fits one preference best, or nil.
func (c catalog) match(preference string) *Language {
	if !strings.ContainsAny(preference, ",;") {
		preference = strings.Join(strings.Fields(preference), ",")
	}
	if len(preference) > 256 {
		return nil
	}
	tags, _, err := language.ParseAcceptLanguage(preference)
	if err != nil || len(tags) == 0 {
		return nil
	}
	if _, i, confidence := c.matcher.Match(tags...); confidence > language.No {
		return c.languages[i]
	}
	return nil
}

// Tag is the BCP 47 tag, for the attribute lang.
func (l *Language) Tag() string {
	if l == nil || l.tag == "" {
		return english
	}
	return l.tag
}

// rightToLeft are the scripts that are written so (ISO 15924), of languages of today.
var rightToLeft = []string{"Arab", "Hebr", "Thaa", "Syrc", "Nkoo", "Adlm", "Rohg"}

// dir is the direction of the script, for the attribute dir.
func (l *Language) dir() string {
	if script, _ := language.Make(l.Tag()).Script(); slices.Contains(rightToLeft, script.String()) {
		return "rtl"
	}
	return "ltr"
}

// SetLanguageHeaders says what language an answer is in, and that it went by the request.
func SetLanguageHeaders(h http.Header, l *Language) {
	h.Set("Content-Language", l.Tag())
	h.Add("Vary", "Accept-Language")
}

// Text is an English text in this language. args are pairs of a name and its value,
// which stands for {name} in the text; the number "count" chooses the plural form.
func (l *Language) Text(text Text, args ...any) string {
	if l == nil && len(args) == 0 { // the files are not read for what is in the source
		return string(text)
	}
	out := l.form(text, args)
	if len(args) == 0 {
		return out
	}
	return replace(out, args)
}

// form is a text in this language with its placeholders, in the plural form of "count".
func (l *Language) form(text Text, args []any) string {
	if l == nil {
		l = languages().languages[0]
	}
	out, ok := l.texts[text]
	if !ok {
		out = string(text)
	}
	if i := slices.Index(args, any("count")); i >= 0 && i+1 < len(args) {
		// A language without this text answers with the English forms and an error.
		plural, err := l.localizer.Localize(&i18n.LocalizeConfig{MessageID: string(text), PluralCount: args[i+1], TemplateParser: template.IdentityParser{}})
		if plural != "" && (err == nil || !ok) {
			return plural
		}
	}
	return out
}

type languageKey struct{}

// preferences are the languages of a request, by who asks for one; nil for no wish that
// can be met.
type preferences struct {
	application, member, browser atomic.Pointer[Language]
	accept                       string // what browser is picked by when it is first asked for, unless it is set
}

func (p *preferences) language() *Language {
	l := cmp.Or(p.application.Load(), p.member.Load(), p.browser.Load())
	if l == nil {
		l = PickLanguage(p.accept)
		p.browser.Store(l)
	}
	return l
}

// WithAcceptLanguage gives a request the language of its header Accept-Language, which is
// not read before a text is needed.
func WithAcceptLanguage(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, languageKey{}, &preferences{accept: header})
}

// WithLanguage gives a request the language of its browser, or a mail that of its reader.
func WithLanguage(ctx context.Context, l *Language) context.Context {
	p := new(preferences)
	p.browser.Store(l)
	return context.WithValue(ctx, languageKey{}, p)
}

// SetMemberLanguage is for the member who is found to make the request: locale is their
// choice (BCP 47), which counts before the browser's.
func SetMemberLanguage(ctx context.Context, locale string) {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		p.member.Store(languages().match(locale))
	}
}

// SetApplicationLanguage is for the application that sent the browser: its ui_locales
// (OpenID Connect Core section 3.1.2.1) count before the member's choice.
func SetApplicationLanguage(ctx context.Context, uiLocales string) {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		p.application.Store(languages().match(uiLocales))
	}
}

// LanguageOf is the language of a request; nil, which is English, where none was set.
func LanguageOf(ctx context.Context) *Language {
	if p, ok := ctx.Value(languageKey{}).(*preferences); ok {
		return p.language()
	}
	return nil
}
