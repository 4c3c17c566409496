package main

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	gmtext "github.com/yuin/goldmark/text"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider/recipes"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// documents are the project's texts by their path from its root, the recipes' among them.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root, err := os.OpenRoot("../..")
	fatalIf(t, err)
	defer root.Close()
	all := map[string]string{}
	apps, err := recipes.All()
	fatalIf(t, err)
	for _, r := range apps {
		all["provider/recipes/"+r.App+".yaml"] = r.Body + "\n" + r.SigningOut()
	}
	for _, folder := range []string{".", "docs", "deploy"} {
		err = fs.WalkDir(root.FS(), folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && folder == "." && path != folder {
				return fs.SkipDir
			}
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			b, err := root.ReadFile(path)
			all[path] = string(b)
			return err
		})
		fatalIf(t, err)
	}
	return all
}

// walk visits the nodes of a document as GitHub renders it, with the text that they are
// made of.
func walk(text string, visit func(node ast.Node, source []byte)) {
	source := []byte(text)
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(gmtext.NewReader(source))
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			visit(node, source)
		}
		return ast.WalkContinue, nil
	})
}

// blocks are the code blocks of a document in one language, in their order.
func blocks(text, language string) []string {
	var out []string
	walk(text, func(node ast.Node, source []byte) {
		if block, ok := node.(*ast.FencedCodeBlock); ok && string(block.Language(source)) == language {
			out = append(out, string(block.Lines().Value(source)))
		}
	})
	return out
}

// visible is the text of a paragraph, a heading or a cell as it is read; code says what
// becomes of code.
func visible(node ast.Node, source []byte, code func(string) string) string {
	var out strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			out.Write(child.Value(source))
			if child.SoftLineBreak() || child.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.CodeSpan:
			out.WriteString(code(visible(child, source, nil)))
		default:
			out.WriteString(visible(child, source, code))
		}
	}
	return out.String()
}

func asItIs(code string) string { return code }

// What a careless re-wrap makes of a table or a list is text that still has its marks.
func TestNoTextOfTheDocumentsHasMarksOfTablesOrLists(t *testing.T) {
	for name, text := range documents(t) {
		walk(text, func(node ast.Node, source []byte) {
			switch node := node.(type) {
			case *ast.Paragraph, *ast.TextBlock, *ast.Heading:
				read := visible(node, source, func(string) string { return "code" })
				for _, mark := range []string{" | ", " - ", " ## ", "**", "`", "](", "]["} {
					if _, after, found := strings.Cut(read, mark); found {
						t.Errorf("%s:%d: %q before %.40q", name, lineAt(source, node.Pos()), mark, after)
					}
				}
			case *ast.FencedCodeBlock:
				if node.Language(source) == nil {
					t.Errorf("%s:%d: a block of code without its language", name, lineAt(source, node.Pos()))
				}
			case *ast.CodeBlock:
				t.Errorf("%s:%d: a block of code by indentation, which has no language", name, lineAt(source, node.Pos()))
			}
		})
	}
}

func lineAt(source []byte, position int) int { return bytes.Count(source[:position], []byte("\n")) + 1 }

func TestRowsOfTablesHaveTheCellsOfTheirHead(t *testing.T) {
	rows := 0
	for name, text := range documents(t) {
		walk(text, func(node ast.Node, source []byte) {
			if _, ok := node.(*east.TableRow); !ok {
				return
			}
			rows++
			// A renderer drops what is too much and fills up what lacks: the line counts.
			line, _, _ := strings.Cut(string(source[node.Pos():]), "\n")
			line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
			cells, head := 1+strings.Count(line, "|")-strings.Count(line, `\|`), len(node.Parent().(*east.Table).Alignments)
			if cells != head {
				t.Errorf("%s:%d: the row has %d cells, its head %d", name, lineAt(source, node.Pos()), cells, head)
			}
		})
	}
	if rows < 300 {
		t.Errorf("only %d rows were found", rows)
	}
}

func TestReadmeIsShort(t *testing.T) {
	words := 0
	for i, part := range strings.Split(documents(t)["README.md"], "```") {
		if i%2 == 0 { // the others are code
			words += len(strings.Fields(part))
		}
	}
	if words > 750 {
		t.Errorf("README.md has %d words beside code: at most 750, the rest belongs to docs/", words)
	}
}

// A club reads these six before it starts.
func TestPagesThatAClubReadsAreShort(t *testing.T) {
	words, docs := 0, documents(t)
	for _, name := range []string{
		"README.md", "docs/install.md", "docs/mail.md", "docs/backup.md", "docs/administration.md", "docs/membership.md",
	} {
		n := len(strings.Fields(docs[name]))
		if n == 0 {
			t.Errorf("%s is empty, or not there", name)
		}
		words += n
	}
	if words > 5500 {
		t.Errorf("README, install, mail, backup, administration and membership have %d words: at most 5,500", words)
	}
}

// anchors are the ids that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	walk(text, func(node ast.Node, source []byte) {
		if node.Kind() != ast.KindHeading {
			return
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, visible(node, source, asItIs))
		for base, i := slug, 1; out[slug]; i++ {
			slug = base + "-" + strconv.Itoa(i)
		}
		out[slug] = true
	})
	return out
}

func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	docs, seen := documents(t), 0
	for name, text := range docs {
		walk(text, func(node ast.Node, _ []byte) {
			var destination string
			switch node := node.(type) {
			case *ast.Link:
				destination = string(node.Destination)
			case *ast.Image:
				destination = string(node.Destination)
			}
			if destination == "" || strings.Contains(destination, "://") {
				return
			}
			seen++
			file, anchor, _ := strings.Cut(destination, "#")
			target := name
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			if _, err := os.Stat(filepath.Join("../..", target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, destination)
			} else if anchor != "" && !anchors(docs[target])[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", name, destination, target)
			}
		})
	}
	if seen < 150 {
		t.Errorf("only %d links were found", seen)
	}
}

// shellWords are the simple commands of a script, split into words; what follows a
// redirection is dropped.
func shellWords(script string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	var quote rune
	begun, redirected, comment := false, false, false
	end := func() {
		if begun && !redirected {
			words = append(words, word.String())
		}
		redirected = redirected && !begun
		word.Reset()
		begun = false
	}
	for _, r := range strings.ReplaceAll(script, "\\\n", " ") {
		switch {
		case comment && r != '\n':
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			comment = true
		case r == ' ' || r == '\t':
			end()
		case strings.ContainsRune("|&;()\n", r):
			end()
			commands, words = append(commands, words), nil
			comment = false
		case r == '<' || r == '>':
			end()
			redirected = true
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return append(commands, words)
}

// wrapped is what comes before a command that another one runs: assignments, sudo, and
// the service of a container whose entry point is cairn.
var wrapped = regexp.MustCompile(`^([A-Z_]+=\S* )*(sudo (-u \S+ )?|docker compose run (--rm )?)?(\S*/)?cairn$`)

// cairnCommands are the arguments of each call of cairn in a script.
func cairnCommands(script string) [][]string {
	var out [][]string
	for _, words := range shellWords(script) {
		for i := range words {
			if wrapped.MatchString(strings.Join(words[:i+1], " ")) {
				out = append(out, words[i+1:])
				break
			}
		}
	}
	return out
}

// parseCommand parses arguments of cairn without running anything.
func parseCommand(t *testing.T, args []string) (err error) {
	t.Helper()
	type exit int
	parser, err := kong.New(&commands{}, append(config.Options(config.NewEnvironment(nil)), kong.Name("cairn"), kong.Writers(io.Discard, io.Discard),
		kong.Exit(func(code int) { panic(exit(code)) }), kong.Bind(&cli.Program{Ctx: t.Context()}))...)
	fatalIf(t, err)
	defer func() {
		if r := recover(); r != nil && r != exit(cli.ExitDone) { // --help
			panic(r)
		}
	}()
	_, err = parser.Parse(args)
	return err
}

func TestCommandsInTheDocumentsExist(t *testing.T) {
	racetest.Skip(t)
	seen := 0
	for name, text := range documents(t) {
		if name == "CHANGELOG.md" { // also has what is no longer there
			continue
		}
		walk(text, func(node ast.Node, source []byte) {
			switch node := node.(type) {
			case *ast.FencedCodeBlock:
				if string(node.Language(source)) != "sh" {
					return
				}
				for _, args := range cairnCommands(string(node.Lines().Value(source))) {
					seen++
					if err := parseCommand(t, args); err != nil {
						t.Errorf("%s: cairn %s: %v", name, strings.Join(args, " "), err)
					}
				}
			case *ast.CodeSpan: // in the text a command may lack its arguments, but not have wrong ones
				for _, args := range cairnCommands(visible(node, source, nil)) {
					if len(args) == 0 {
						continue
					}
					seen++
					err := parseCommand(t, args)
					if err != nil && !strings.HasPrefix(err.Error(), "expected ") && !strings.HasPrefix(err.Error(), "missing flags: ") {
						t.Errorf("%s: cairn %s: %v", name, strings.Join(args, " "), err)
					}
				}
			}
		})
	}
	if seen < 150 {
		t.Errorf("only %d commands were found", seen)
	}
}

func TestRecipesInTheDocumentsExist(t *testing.T) {
	justfile, err := os.ReadFile("../../justfile")
	fatalIf(t, err)
	var recipes []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*)[^:\n]*:( |$)`).FindAllSubmatch(justfile, -1) {
		recipes = append(recipes, string(m[1]))
	}
	for name, text := range documents(t) {
		if name == "CHANGELOG.md" {
			continue
		}
		walk(text, func(node ast.Node, source []byte) {
			var script string
			switch node := node.(type) {
			case *ast.FencedCodeBlock:
				script = string(node.Lines().Value(source))
			case *ast.CodeSpan:
				script = visible(node, source, nil)
			}
			for _, m := range regexp.MustCompile(`(?m)(?:^|\s)just ([a-z-]+)`).FindAllStringSubmatch(script, -1) {
				if !slices.Contains(recipes, m[1]) {
					t.Errorf("%s: just %s is no recipe of %q", name, m[1], recipes)
				}
			}
		})
	}
}

func TestConfigFilesInTheDocumentsAreAccepted(t *testing.T) {
	docs := documents(t)
	for _, block := range slices.Concat(blocks(docs["docs/settings.md"], "yaml"), blocks(docs["docs/keys.md"], "yaml")) {
		file := filepath.Join(t.TempDir(), config.ConfigName)
		fatalIf(t, os.WriteFile(file, []byte(block), 0o600))
		if err := parseCommand(t, []string{"--config", file, "serve"}); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
}

func TestEverySettingIsDocumented(t *testing.T) {
	text := documents(t)["docs/settings.md"]
	parser, err := kong.New(&commands{}, kong.Name("cairn"), kong.Bind(&cli.Program{}))
	fatalIf(t, err)
	for _, node := range parser.Model.Children {
		if node.Name != "serve" {
			continue
		}
		for _, flag := range node.Flags {
			for _, word := range append(slices.Clone(flag.Tag.Envs), "--"+flag.Name) {
				if !strings.Contains(text, "`"+word+"`") {
					t.Errorf("docs/settings.md does not have %s", word)
				}
			}
			if flag.Default != "" && !strings.Contains(text, "`"+flag.Default+"`") {
				t.Errorf("docs/settings.md does not have the default %s of --%s", flag.Default, flag.Name)
			}
		}
	}
	for f := range reflect.TypeFor[account.Settings]().Fields() {
		known := func(m account.SettingsMember) bool { return m.Name == f.Tag.Get("json") && m.Help != "" }
		if f.Tag.Get("json") != "-" && !slices.ContainsFunc(account.SettingsMembers, known) {
			t.Errorf("account/settings.txt does not have the setting %s", f.Name)
		}
	}
	for _, m := range account.SettingsMembers {
		if !strings.Contains(text, "| `"+m.Name+"` |") {
			t.Errorf("docs/settings.md does not have the setting %s", m.Name)
		}
	}
	for _, limit := range slices.Sorted(maps.Keys(config.DefaultRateLimits())) {
		if !strings.Contains(text, "| `"+limit+"` |") {
			t.Errorf("docs/settings.md does not have the limit %s", limit)
		}
	}
}
