package templates_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	syntax "text/template/parse"

	"github.com/BurntSushi/toml"
	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// source is where a text stands.
type source map[string]string // by text: file:line

// textsOfTheCode are the constants of type templates.Text in the packages that speak to
// people, as the compiler sees them.
func textsOfTheCode(t *testing.T) source {
	type pkg struct {
		ImportPath, Dir, Export string
		GoFiles, CgoFiles       []string
	}
	const module = "github.com/cairn-id/cairn/"
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles", module+"cmd/cairn")
	list.Stderr = os.Stderr
	out, err := list.Output()
	must(t, err)
	exports, ours := map[string]string{}, []pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) {
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	compiled := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	found := source{}
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			must(t, err)
			parsed = append(parsed, f)
		}
		info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if _, err := (&types.Config{Importer: compiled, FakeImportC: true}).Check(p.ImportPath, files, parsed,
			&info); err != nil {
			t.Fatal(err)
		}
		isText := func(e ast.Expr) bool {
			named, ok := info.Types[e].Type.(*types.Named)
			return ok && named.Obj().Name() == "Text" && named.Obj().Pkg().Path() == module+"templates"
		}
		for _, f := range parsed {
			ast.Inspect(f, func(n ast.Node) bool {
				e, ok := n.(ast.Expr)
				if !ok || !isText(e) {
					return true
				}
				at := files.Position(e.Pos())
				place := filepath.Base(p.ImportPath) + "/" + filepath.Base(at.Filename) + ":" + strconv.Itoa(at.Line)
				if v := info.Types[e].Value; v != nil {
					found[constant.StringVal(v)] = place
					return false
				}
				// What is converted at run time has no translation; these two are whole texts already.
				if call, ok := e.(*ast.CallExpr); ok && info.Types[call.Fun].IsType() && !slices.Contains([]string{"language.go", "problem.go"}, filepath.Base(at.Filename)) {
					t.Errorf("%s: a text is made at run time, which nobody can translate", place)
				}
				return true
			})
		}
	}
	delete(found, "")
	return found
}

// textsOfThePages are what the templates give to t.
func textsOfThePages(t *testing.T) source {
	found := source{}
	for _, pattern := range []string{"html/*.html", "mail/*"} {
		names, err := filepath.Glob(pattern)
		must(t, err)
		for _, name := range names {
			for _, call := range callsOfT(t, name) {
				text, constant := call.Args[1].(*syntax.StringNode)
				if constant {
					found[text.Text] = name
				}
			}
		}
	}
	return found
}

// callsOfT are the calls of t in a template.
func callsOfT(t *testing.T, name string) (calls []*syntax.CommandNode) {
	for _, tree := range treesOf(t, name) {
		visitNodes(tree.Root, func(n syntax.Node) {
			if c, ok := n.(*syntax.CommandNode); ok && len(c.Args) > 1 && c.Args[0].String() == "t" {
				calls = append(calls, c)
			}
		})
	}
	return calls
}

func treesOf(t *testing.T, name string) map[string]*syntax.Tree {
	text, err := os.ReadFile(name)
	must(t, err)
	trees := map[string]*syntax.Tree{}
	tree := syntax.New(name)
	tree.Mode = syntax.SkipFuncCheck
	if _, err := tree.Parse(string(text), "", "", trees); err != nil {
		t.Fatal(err)
	}
	return trees
}

// visitNodes shows visit every node of a template.
func visitNodes(n syntax.Node, visit func(syntax.Node)) {
	branch := func(b *syntax.BranchNode) {
		visitNodes(b.Pipe, visit)
		visitNodes(b.List, visit)
		if b.ElseList != nil {
			visitNodes(b.ElseList, visit)
		}
	}
	visit(n)
	switch n := n.(type) {
	case *syntax.ListNode:
		for _, c := range n.Nodes {
			visitNodes(c, visit)
		}
	case *syntax.IfNode:
		branch(&n.BranchNode)
	case *syntax.RangeNode:
		branch(&n.BranchNode)
	case *syntax.WithNode:
		branch(&n.BranchNode)
	case *syntax.ActionNode:
		visitNodes(n.Pipe, visit)
	case *syntax.TemplateNode:
		if n.Pipe != nil {
			visitNodes(n.Pipe, visit)
		}
	case *syntax.PipeNode:
		for _, c := range n.Cmds {
			visitNodes(c, visit)
		}
	case *syntax.CommandNode:
		for _, a := range n.Args {
			visitNodes(a, visit)
		}
	}
}

// filled are the placeholders of a text.
var filled = regexp.MustCompile(`\{[a-z_]+\}`)

func placeholders(text string) []string {
	names := filled.FindAllString(text, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// forms are the plural forms of a text in a file of lang, or its one form as "".
func forms(t *testing.T, file string) map[string]map[string]string {
	var raw map[string]any
	if _, err := toml.DecodeFile(filepath.Join("lang", file), &raw); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for text, v := range raw {
		out[text] = map[string]string{}
		switch v := v.(type) {
		case string:
			out[text][""] = v
		case map[string]any:
			for form, s := range v {
				out[text][form] = s.(string)
			}
		}
	}
	return out
}

// same has the texts that equal the English ones in some language.
var same = []string{
	"Code", "Passkey", "Passkeys", "APIs", // German
	"Tokens", "Error: {title}", "Error {status}", "no", "Club", // Spanish
	"Applications", "applications", "code", "Contact", "Latitude, longitude", "Positions", "Sessions", "sessions", "Type", "{count} active", // French
	"Account", "Password", "passkey", "password", "{day} {month} {year}", "Account: {handle}", // Italian
	"Contact: {contact}", "{day} {month} {year}, {time} UTC", "website", "“{note}”", "Apps", "Website", "Open", "open", // Dutch
	"{day} {month} {year}", "{day} {month} {year}, {time} UTC", // Polish
	"{actor}: {action}, {target}", // a form
}

func TestEveryTextIsInEachLanguage(t *testing.T) {
	racetest.Skip(t)
	texts := textsOfTheCode(t)
	maps.Copy(texts, textsOfThePages(t))
	en := forms(t, "en.toml")
	files, err := os.ReadDir("lang")
	must(t, err)
	for _, f := range files {
		translated := forms(t, f.Name())
		if f.Name() != "en.toml" {
			for text, place := range texts {
				if translated[text] == nil {
					t.Errorf("%s: lang/%s lacks %q", place, f.Name(), text)
				}
			}
		}
		for text, in := range translated {
			if texts[text] == "" {
				t.Errorf("lang/%s: %q is not used", f.Name(), text)
			}
			if plural := strings.Contains(text, "{count}"); plural != (en[text] != nil) || plural != (in[""] == "") {
				t.Errorf("lang/%s: a text with {count} has plural forms here and in en.toml, another has none: %q", f.Name(), text)
			}
			for form, s := range in {
				missing := slices.DeleteFunc(placeholders(text),
					func(p string) bool { return slices.Contains(placeholders(s), p) })
				if form == "one" && slices.Equal(missing, []string{"{count}"}) {
					missing = nil // "one thing"
				}
				if len(missing) > 0 || len(placeholders(s)) > len(placeholders(text)) {
					t.Errorf("lang/%s: %q (%s) has other placeholders than %q", f.Name(), s, form, text)
				}
				if s == text && f.Name() != "en.toml" && !slices.Contains(same, text) {
					t.Errorf("lang/%s: %q is not translated", f.Name(), text)
				}
			}
		}
	}
}

// spokenAttributes are those whose values people read or hear.
var spokenAttributes = []string{"alt", "aria-description", "aria-label", "placeholder", "title"}

// inTag are templates that stand within a tag.
var inTag = []string{"profile-field-state"}

// untranslated are words that are the same in every language.
var untranslated = []string{"CSV", "JSON Lines"}

// All text of a page comes from t or from a value: other text in a template has no translation.
// This also keeps each text whole, since a text has no tags.
func TestPagesSayOnlyTranslatedTexts(t *testing.T) {
	letters, sentence := regexp.MustCompile(`\pL{2,}`), regexp.MustCompile(`^\p{Lu}\pL|\pL \pL`)
	names, err := filepath.Glob("html/*.html")
	must(t, err)
	ofPages, defined := []string{"title", "script", "nav", "menu-of-page", "content"}, map[string]string{}
	for _, name := range append(names, "mail.html") {
		for _, tree := range treesOf(t, name) {
			if other := defined[tree.Name]; other != "" && !slices.Contains(ofPages, tree.Name) {
				t.Errorf("%s and %s define %s: one replaces the other", other, name, tree.Name)
			}
			defined[tree.Name] = name
			if slices.Contains(inTag, tree.Name) {
				continue
			}
			// Actions become a character that is no letter; what depends on one stays.
			var source strings.Builder
			visitNodes(tree.Root, func(n syntax.Node) {
				switch n := n.(type) {
				case *syntax.TextNode:
					source.Write(n.Text)
				case *syntax.ActionNode, *syntax.TemplateNode:
					source.WriteByte('0')
				case *syntax.CommandNode:
					for i, arg := range n.Args {
						s, constant := arg.(*syntax.StringNode)
						switch {
						case !constant:
						case i == 1 && n.Args[0].String() == "t":
							if strings.ContainsAny(s.Text, "<>") {
								t.Errorf("%s: a text has markup: %s", name, n)
							}
						case sentence.MatchString(s.Text):
							t.Errorf("%s: not translated: %s", name, n)
						}
					}
				}
			})
			say := func(text string) {
				if letters.MatchString(text) && !slices.Contains(untranslated, strings.TrimSpace(text)) {
					t.Errorf("%s, %s: not translated: %.80q", name, tree.Name, strings.TrimSpace(text))
				}
			}
			inCode := false // which is no language of people
			for z := html.NewTokenizer(strings.NewReader(source.String())); ; {
				kind := z.Next()
				if kind == html.ErrorToken {
					break
				}
				token := z.Token()
				if token.Data == "code" {
					inCode = kind == html.StartTagToken
				}
				if kind == html.TextToken && !inCode {
					say(token.Data)
				}
				for _, a := range token.Attr {
					if slices.Contains(spokenAttributes, a.Key) {
						say(a.Val)
					}
				}
			}
		}
	}
}

// words finds one of these words, of any letters: \b knows those of English alone.
func words(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|\PL)(` + alternatives + `)(?:\PL|$)`)
}

// unsaid are words of the API, or such that earlier texts had, that no page and no mail says. What
// names a parameter of the API is in parameters.
var unsaid = map[string]*regexp.Regexp{
	"":   words(`handles?|flags?`),
	"en": words(`communit(y|ies)|(some|every)body|mails?`),
	"de": words(`community|jede[nrs]? zweite\pL*|ge?mail(en|t)|ohne Ende|E-Mail\pL*`),
	"es": words(`comunidad|cada segundo|sin fin`),
	"fr": words(`communauté|chaque second|sans fin|à le compte|e-mails?`),
	"it": words(`comunità|ogni secondo fattore|senza fine`),
	"nl": words(`community|elke tweede|aanmeld\pL*|aangemeld|toepassing\pL*|zonder einde|e-mail\pL*`),
	"pl": words(`społeczno\pL*|każdy drugi|bez końca|e-mail\pL*`),
	"pt": words(`comunidade|cada segundo|sem fim|e-mails?`),
}

var parameters = []string{
	"Use the parameters flag=NAME (which may be repeated), redirect=1 and encode=percent.",
	"Sort users by handle, newest or last_sign_in.",
}

// The name of the club stands in quotes or after a colon, so that no grammar has to bend it.
var clubName = regexp.MustCompile(`[“«„][ \x{a0}\x{202f}]?\{instance\}[ \x{a0}\x{202f}]?[”»“]|: \{instance\}`)

// Whoever reads a page or a mail has a user name and permissions, and belongs to a club. The pages say
// nothing but these texts: TestPagesSayOnlyTranslatedTexts.
func TestTextsHaveNoWordsOfTheAPI(t *testing.T) {
	files, err := os.ReadDir("lang")
	must(t, err)
	for _, f := range files {
		language := strings.TrimSuffix(f.Name(), ".toml")
		check := func(language, text string) {
			said := filled.ReplaceAllString(text, "{}")
			for _, no := range []*regexp.Regexp{unsaid[""], unsaid[language]} {
				equal(t, fmt.Sprintf("%s: %q says", f.Name(), text), no.FindString(said), "")
			}
			if strings.Contains(clubName.ReplaceAllString(text, ""), "{instance}") {
				t.Errorf("%s: %q bends the name of the club", f.Name(), text)
			}
		}
		for text, in := range forms(t, f.Name()) {
			if slices.Contains(parameters, text) {
				continue
			}
			check("en", text)
			for _, s := range in {
				check(language, s)
			}
		}
	}
}

var must = assert.Must

func equal[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
