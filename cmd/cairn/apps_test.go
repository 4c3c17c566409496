package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider/recipes"
)

// Each recipe says how it is known, registers by the rules of client add, and leaves nothing to fill in.
func TestRecipesRegisterWhatTheyName(t *testing.T) {
	root, err := filepath.Abs("../..")
	fatalIf(t, err)
	s, _ := sqliteShell(t)
	all, err := recipes.All()
	fatalIf(t, err)
	tests := functionsIn(t, filepath.Join(root, "cmd/cairn/internal/httpd/*_test.go"))
	placeholder := regexp.MustCompile(`\{(url|host|issuer|issuer_host|id|secret|register)\}`)
	for i, r := range all {
		if r.Title == "" || !slices.Contains(recipes.Kinds, r.Kind) || !slices.Contains([]string{"ci", "tried", "source", "documentation"}, r.Known) {
			t.Errorf("%s: title, kind or known is missing or another", r.App)
		}
		if r.Known != "tried" && r.From == "" || r.Known == "tried" && r.Version == "" {
			t.Errorf("%s: it is %s: say from where, or which version", r.App, r.Known)
		}
		if day, err := time.Parse(time.DateOnly, r.Date); err != nil || day.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: date %q", r.App, r.Date)
		}
		if r.Known == "ci" {
			if _, err := os.Stat(filepath.Join(root, r.From)); err != nil {
				t.Errorf("%s: %s", r.App, err)
			}
		}
		if _, test := r.LibraryTest(); r.Library != "" && !slices.Contains(tests, test) {
			t.Errorf("%s: library %q names no test", r.App, r.Library)
		}
		id := fmt.Sprintf("recipe-%d", i)
		code, printed := s.run("client", "add", "--app", r.App, "--url", r.Example+"/", "--id", id, "--issuer", "https://issuer.example.net")
		if !r.IsClient() {
			if code != cli.ExitFailed || !strings.Contains(printed, "nothing was registered") || !strings.Contains(printed, strings.TrimPrefix(r.Example, "https://")) {
				t.Errorf("%s: exit code %d: %s", r.App, code, printed)
			}
			continue
		}
		if code != cli.ExitDone {
			t.Errorf("%s: exit code %d: %s", r.App, code, printed)
			continue
		}
		if shown := s.must("client", "show", id, "-o", "json"); !strings.Contains(shown, r.Example) {
			t.Errorf("%s: its registration lacks %s: %s", r.App, r.Example, shown)
		}
		_, settings, _ := strings.Cut(printed, "\n\n")
		for _, named := range []string{"issuer.example.net", id} {
			if !strings.Contains(settings, named) {
				t.Errorf("%s: its settings lack %s:\n%s", r.App, named, settings)
			}
		}
		if left := placeholder.FindString(settings); left != "" {
			t.Errorf("%s: %s is left in\n%s", r.App, left, settings)
		}
	}
	s.must("client", "add", "Club wiki", "--app", "grafana", "--url", "http://10.0.0.5:3000", "--allow-insecure-redirect", "--no-require-pkce", "--trusted")
	if shown := s.must("client", "show", "grafana", "-o", "json"); !strings.Contains(shown, `"http://10.0.0.5:3000/login/generic_oauth"`) ||
		!strings.Contains(shown, `"require_pkce": false`) || !strings.Contains(shown, `"trusted": true`) || !strings.Contains(shown, `"client_name": "Club wiki"`) {
		t.Errorf("the flags do not win: %s", shown)
	}
	for _, wrong := range [][]string{
		{"did you mean grafana?", "--app", "graphana", "--url", "https://a.example.org"}, {"--app: give the address", "--app", "grafana"},
		{"--url: give --app", "X", "--url", "https://a.example.org"}, {"give the client's name, or --app"},
		{"--url: give the address", "--app", "gitea", "--url", "a.example.org"}, {"--url: give the address", "--app", "gitea", "--url", "https://a.example.org/?x"},
		{"http is only for localhost", "--app", "gitea", "--url", "http://a.example.org"},
	} {
		s.refused(wrong[:1], append([]string{"client", "add"}, wrong[1:]...)...)
	}
}

// functionsIn returns the names of the functions in files.
func functionsIn(t *testing.T, pattern string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	fatalIf(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		fatalIf(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func (\w+)\(`).FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// docs/apps.md is made of the recipes: its table and its sections. UPDATE_DOCS=1 writes it, and their number where it is named.
func TestRecipesAreTheDocument(t *testing.T) {
	all, err := recipes.All()
	fatalIf(t, err)
	const head = "| application | known | needs |\n|---|---|---|\n"
	var table, text strings.Builder
	table.WriteString(head)
	for _, r := range all {
		anchor := strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(r.Title), ""), " ", "-")
		fmt.Fprintf(&table, "| [%s](#%s) | %s |", r.Title, anchor, r.Status())
		if table.WriteString(" "); r.Needs != "" {
			table.WriteString(r.Needs + " ")
		}
		table.WriteString("|\n")
		keys, filled, err := recipeKeys(r, r.Example, "https://id.example.org", "")
		if err != nil {
			t.Fatalf("%s: %v", r.App, err)
		}
		if filled.IsClient() {
			filled.Body = strings.Replace(filled.Body, "{register}", "```sh\n"+commandOfRecipe(filled)+"\n```", 1)
			if !strings.Contains(filled.Body, "--id "+keys.ID) {
				t.Errorf("%s: {register} is missing", r.App)
			}
		}
		fmt.Fprintf(&text, "\n## %s\n\n%s", r.Title, filled.Body)
		if r.Known == "source" || r.Known == "documentation" {
			fmt.Fprintf(&text, "\nFrom `%s`, %s.\n", r.From, r.Date)
		}
	}
	count := regexp.MustCompile(`\d+ applications`)
	for _, name := range []string{"docs/apps.md", "docs/README.md", "README.md"} {
		file := filepath.Join("../..", name)
		b, err := os.ReadFile(file)
		fatalIf(t, err)
		want := count.ReplaceAllString(string(b), fmt.Sprintf("%d applications", len(all)))
		if name == "docs/apps.md" {
			before, rest, found := strings.Cut(want, head)
			i, j := strings.Index(rest, "\n\n"), strings.Index(rest, "\n## ")
			if !found || i < 0 || j < i {
				t.Fatalf("%s has no table with the head %q", name, head)
			}
			want = before + table.String() + rest[i+1:j] + text.String()
		}
		if want == string(b) {
			continue
		}
		if os.Getenv("UPDATE_DOCS") == "" {
			t.Errorf("%s is not that of the recipes: run UPDATE_DOCS=1 go test ./cmd/cairn -run Recipes", name)
			continue
		}
		fatalIf(t, os.WriteFile(file, []byte(want), 0o644))
	}
}

// commandOfRecipe returns the command line that registers the client of a recipe.
func commandOfRecipe(r recipes.Recipe) string {
	words := []string{"cairn", "client", "add"}
	text := map[string][]string{}
	var keys []string
	for i := 0; i+1 < len(r.Client.Content); i += 2 {
		key, value := r.Client.Content[i].Value, r.Client.Content[i+1]
		keys, text[key] = append(keys, key), []string{value.Value}
		if len(value.Content) > 0 {
			text[key] = nil
			for _, item := range value.Content {
				text[key] = append(text[key], item.Value)
			}
		}
	}
	words = append(words, `"`+text["name"][0]+`"`)
	for _, key := range keys {
		for _, value := range text[key] {
			switch {
			case key == "name":
			case value == "true":
				words = append(words, "--"+key)
			default:
				words = append(words, "--"+key+" "+config.ShellQuote(value))
			}
		}
	}
	if !slices.Contains(keys, "public") {
		words = append(words, "-o env")
	}
	var lines []string
	line := words[0]
	for _, word := range words[1:] {
		if len(line)+len(word) > 140 {
			lines, line = append(lines, line+" \\"), " "
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}

// explain names the application by a redirect URI of its recipe, what it should send, and its setting.
func TestRecipesTellExplainWhatAnApplicationSends(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("client", "add", "--app", "paperless-ngx", "--url", "https://paper.example.org")
	s.must("client", "add", "--app", "grafana", "--url", "https://club.example.org/grafana", "--id", "charts")
	s.must("client", "add", "Feeds", "--id", "feeds", "--redirect-uri", "https://feeds.example.org/callback")
	s.must("client", "add", "Two", "--id", "two", "--redirect-uri", "https://two.example.org/oidc/callback")
	for _, c := range []struct{ id, sent, want string }{
		{
			"paperless", "https://paper.example.org/accounts/oidc/cairn/login/callback",
			"note +Paperless-ngx sends https://paper.example.org/accounts/oidc/cairn/login/callback/$",
		},
		{
			"charts", "http://club.example.org/grafana/login/generic_oauth",
			"note +Grafana sends https://club.example.org/grafana/login/generic_oauth. Its setting: root_url = https://club.example.org/grafana$",
		},
		{
			"feeds", "https://feeds.example.org/oauth2/oidc/callback",
			"note +That is where Miniflux gets its answers: cairn client update feeds --add-redirect-uri https://feeds.example.org/oauth2/oidc/callback$",
		},
		{"feeds", "https://feeds.example.org/callback/", ""},
		{"feeds", "https://feeds.example.org.example.net/oauth2/oidc/callback", ""},
		{"two", "https://two.example.org/oidc/callback/x", ""}, // the address of several applications
	} {
		code, printed := s.run("explain", "client_id="+c.id+"&response_type=code&scope=openid&redirect_uri="+url.QueryEscape(c.sent))
		found := regexp.MustCompile(`(?m)^redirect_uri +note.*$`).FindString(printed)
		if code != cli.ExitFailed || (c.want == "") != (found == "") || !regexp.MustCompile(c.want).MatchString(found) {
			t.Errorf("%s, %s: want %q in\n%s", c.id, c.sent, c.want, printed)
		}
	}
}
