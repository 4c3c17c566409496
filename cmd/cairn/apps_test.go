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
		if day, err := time.Parse(time.DateOnly, r.Date); err != nil ||
			day.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
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
		if shown := s.must("client", "apps", r.App, "--issuer", "https://issuer.example.net"); !strings.Contains(shown, "cairn client add --app "+r.App) ||
			!strings.Contains(shown, "https://issuer.example.net") || placeholder.MatchString(shown) || !strings.Contains(shown, "**Signing out.** ") {
			t.Errorf("client apps %s prints %s", r.App, shown)
		}
		has(t, fmt.Sprintf("%s: its registration lacks", r.App), s.must("client", "show", id, "-o", "json"), r.Example)
		_, settings, _ := strings.Cut(printed, "\n\n")
		for _, named := range []string{"issuer.example.net", id} {
			has(t, fmt.Sprintf("%s: its settings lack", r.App), settings, named)
		}
		same(t, fmt.Sprintf("%s: is left in %s", r.App, settings), placeholder.FindString(settings), "")
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

// docs/apps.md has a line for each recipe. UPDATE_DOCS=1 writes it, and their number where it is named.
func TestRecipesAreTheDocument(t *testing.T) {
	all, err := recipes.All()
	fatalIf(t, err)
	const head = "| application | NAME | known | signing out ends |\n|---|---|---|---|\n"
	var table strings.Builder
	table.WriteString(head)
	for _, r := range all {
		ends := map[string]string{"cairn": "Cairn's session", "here": "its own"}[r.SignOut.Ends]
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", r.Title, r.App, r.Status(), ends)
	}
	count := regexp.MustCompile(`\d+ applications`)
	for _, name := range []string{"docs/apps.md", "docs/README.md", "README.md"} {
		file := filepath.Join("../..", name)
		b, err := os.ReadFile(file)
		fatalIf(t, err)
		want := count.ReplaceAllString(string(b), fmt.Sprintf("%d applications", len(all)))
		if want == string(b) && !strings.Contains(want, fmt.Sprintf("%d applications", len(all))) {
			t.Errorf("%s does not say how many applications there are", name)
		}
		if name == "docs/apps.md" {
			before, rest, found := strings.Cut(want, head)
			i := strings.Index(rest, "\n\n")
			if !found || i < 0 {
				t.Fatalf("%s has no table with the head %q", name, head)
			}
			want = before + table.String() + rest[i+1:]
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
