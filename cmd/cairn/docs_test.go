package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
)

// documents are the project's texts by their path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("docs: %v %v", files, err)
	}
	all := map[string]string{}
	for _, f := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../CHANGELOG.md") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(filepath.ToSlash(f), "../../")] = string(b)
	}
	return all
}

var fence = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

// blocks are the code blocks of a document in one language, in their order.
func blocks(text, language string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == language {
			out = append(out, m[2])
		}
	}
	return out
}

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(documents(t)["README.md"], "\n"); n > 150 {
		t.Errorf("README.md has %d lines: at most 150, the rest belongs to docs/", n)
	}
}

// anchors are the ids that GitHub gives to the headings of a document.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		for base, i := slug, 1; out[slug]; i++ {
			slug = base + "-" + strconv.Itoa(i)
		}
		out[slug] = true
	}
	return out
}

func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	docs := documents(t)
	for name, text := range docs {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			if _, err := os.Stat(filepath.Join("../..", target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if anchor != "" && !anchors(docs[target])[anchor] {
				t.Errorf("%s links to %s: %s has no such heading", name, m[1], target)
			}
		}
	}
}

// shellWords are the simple commands of a line of shell, split into words; what
// follows a redirection is dropped.
func shellWords(line string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	var quote rune
	begun, redirected := false, false
	end := func() {
		if begun && !redirected {
			words = append(words, word.String())
		}
		redirected = redirected && !begun
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			return append(commands, words)
		case r == ' ':
			end()
		case strings.ContainsRune("|&;()", r):
			end()
			commands, words = append(commands, words), nil
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

// parseCommand parses arguments of cairn without running anything.
func parseCommand(t *testing.T, args []string) (err error) {
	t.Helper()
	parser, err := kong.New(&cli{}, append(config.Options(config.NewEnvironment(nil)), kong.Name("cairn"), kong.Writers(io.Discard, io.Discard),
		kong.Exit(func(code int) { panic(exited(code)) }), kong.Bind(&program{ctx: t.Context()}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil && r != exited(exitDone) { // --help
			panic(r)
		}
	}()
	_, err = parser.Parse(args)
	return err
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

func TestCommandsInTheDocumentsExist(t *testing.T) {
	seen := 0
	for name, text := range documents(t) {
		if name == "CHANGELOG.md" { // also has what is no longer there
			continue
		}
		for _, block := range blocks(text, "sh") {
			for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
				for _, words := range shellWords(strings.TrimSpace(line)) {
					words = slices.DeleteFunc(words, assignment.MatchString)
					if len(words) == 0 || filepath.Base(words[0]) != "cairn" {
						continue
					}
					seen++
					if err := parseCommand(t, words[1:]); err != nil {
						t.Errorf("%s: %s: %v", name, strings.TrimSpace(line), err)
					}
				}
			}
		}
		// In the text a command may lack its arguments, but not have wrong ones.
		for _, m := range regexp.MustCompile("`(?:\\./)?cairn ([^`\n]+)`").FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			seen++
			err := parseCommand(t, shellWords(m[1])[0])
			if err != nil && !strings.HasPrefix(err.Error(), "expected ") && !strings.HasPrefix(err.Error(), "missing flags: ") {
				t.Errorf("%s: cairn %s: %v", name, m[1], err)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d commands were found", seen)
	}
}

func TestConfigFilesInTheDocumentsAreAccepted(t *testing.T) {
	docs := documents(t)
	for _, block := range slices.Concat(blocks(docs["docs/settings.md"], "yaml"), blocks(docs["docs/keys.md"], "yaml")) {
		file := filepath.Join(t.TempDir(), config.ConfigName)
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := parseCommand(t, []string{"--config", file, "serve"}); err != nil {
			t.Errorf("%v in\n%s", err, block)
		}
	}
}

func TestEverySettingIsDocumented(t *testing.T) {
	text := documents(t)["docs/settings.md"]
	parser, err := kong.New(&cli{}, kong.Name("cairn"), kong.Bind(&program{}))
	if err != nil {
		t.Fatal(err)
	}
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
