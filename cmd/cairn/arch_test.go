package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cairn-id/cairn"

// allowed says which of our packages may import which; "" means none. A
// new edge is a deliberate line here, with its reason in the commit.
var allowed = map[string][]string{
	"store":                 {"account", "account/statuslist", "account/web", "provider", "store/clock", "store/engine", "store/seal"}, // account/web: it counts for the limits
	"store/engine":          {},                                                                                                        // it knows nothing of what is stored, and only store knows it
	"store/seal":            {"account", "store/engine"},                                                                               // what is sealed with the data key; it reads no account
	"store/clock":           {"account", "store/engine"},                                                                               // whether the clock is trusted
	"cmd/cairn":             {"account", "account/letter", "account/mail", "account/password", "account/roster", "activityschema", "activityschema/publish", "cmd/cairn/internal/archive", "cmd/cairn/internal/backupfile", "cmd/cairn/internal/cli", "cmd/cairn/internal/demoapp", "cmd/cairn/internal/doctor", "cmd/cairn/internal/httpd", "cmd/cairn/internal/libcrypto", "cmd/cairn/internal/metrics", "cmd/cairn/internal/people", "cmd/cairn/internal/recordings", "cmd/cairn/internal/register", "config", "provider", "store", "templates"},
	"cmd/bench":             {"account", "account/password", "account/web/browser", "provider", "store", "store/generated"},
	"store/generated":       {"account", "account/statuslist", "store"}, // no part of the program
	"store/storetest":       {"account", "provider", "store"},
	"store/storetest/steps": {},
	"store/accounttest":     {"account", "account/letter", "account/mail", "account/passkey", "account/password", "account/person", "account/roster", "account/site", "account/web", "account/web/browser", "docs/openapitest", "store/storetest", "templates"},
	"admin":                 {"account", "account/entry", "account/roster", "account/site", "account/text", "account/web", "templates"}, // account/site: who asks
	"provider":              {"account", "account/person", "account/site", "account/web", "templates"},
	"provider/recipes":      {},
	"account/site":          {"account", "account/entry", "account/passkey", "account/person", "account/picture", "account/text", "account/web", "templates"},
	"account/person":        {"account", "account/password", "account/picture", "account/session", "account/statuslist", "account/text", "account/web", "templates"}, // what people do with their own account: knows no page
	"account/passkey":       {"account", "account/person", "account/text", "account/web", "templates"},                                                               // what a ceremony proves; which act it is, account says
	"account/roster":        {"account", "account/password", "account/text", "account/web", "templates"},                                                             // what administrators and the operator do: knows no page, sends nothing
	"account/letter":        {"account", "account/mail", "account/person", "account/web", "templates"},                                                               // what mails say; writes no account
	"account":               {"account/password", "account/picture", "account/session", "account/statuslist", "account/text", "account/web", "templates"},
	"account/entry":         {"account", "account/web", "templates"}, // how it is shown, as JSON and as rows: to its owner, administrators and the operator
	"account/picture":       {},                                      // decoding within bounds, nothing of accounts
	"account/password":      {"account/web"},                         // what it refuses is a problem
	"account/statuslist":    {"account/web", "templates"},            // templates: a document that is packed once
	"account/text":          {"templates"},                           // the sentences that say what is accepted
	"account/web":           {"templates"},
	"account/web/browser":   {}, // it knows what anybody outside knows
	"account/mail":          {},
	"account/mail/mailtest": {"account/mail"},
	"account/session":       {},
	"templates":             {},
	"config":                {},
	"docs":                  {},
	"docs/openapitest":      {"docs"},
	"docs/verify":           {"account/session"},
	"activityschema":        {},

	"activityschema/publish":   {"activityschema", "activityschema/timezone"},
	"activityschema/timezone":  {}, // a map in the program, no network
	"activityschema/reference": {"activityschema"},
	"store/storetest/assert":   {}, // for tests alone
	"store/storetest/racetest": {}, // for tests alone

	"cmd/cairn/internal/cli":           {"account", "account/roster", "config", "store"},                                                                                                                         // no command; it opens an installation, and what is stored it does not read
	"cmd/cairn/internal/register":      {"account", "account/roster", "account/web", "cmd/cairn/internal/cli", "config", "provider", "provider/recipes", "store"},                                                // applications, APIs, allowances and settings: no account of a person
	"cmd/cairn/internal/people":        {"account", "account/entry", "account/password", "account/roster", "account/web", "admin", "cmd/cairn/internal/cli", "config", "store", "templates"},                     // what administrators do in the service too: it asks account/roster
	"cmd/cairn/internal/archive":       {"account", "account/person", "account/session", "account/web", "cmd/cairn/internal/backupfile", "cmd/cairn/internal/cli", "cmd/cairn/internal/disk", "config", "store"}, // backups, keys and migrations: the whole of an installation, and no command beside it
	"cmd/cairn/internal/cluster":       {},                                                                                                                                                                       // tests alone
	"cmd/cairn/internal/recordings":    {"activityschema", "activityschema/publish", "cmd/cairn/internal/activitycheck", "cmd/cairn/internal/cli"},                                                               // files alone: no account, no store
	"cmd/cairn/internal/httpd":         {"account", "account/letter", "account/mail", "account/passkey", "account/password", "account/person", "account/picture", "account/site", "account/web", "activityschema", "admin", "cmd/cairn/internal/activitycheck", "cmd/cairn/internal/disk", "cmd/cairn/internal/metrics", "config", "docs", "provider", "store", "templates"},
	"cmd/cairn/internal/activitycheck": {"activityschema", "activityschema/reference"},
	"cmd/cairn/internal/backupfile":    {},
	"cmd/cairn/internal/demoapp":       {"account/session"},
	"cmd/cairn/internal/disk":          {},
	"cmd/cairn/internal/libcrypto":     {},
	"cmd/cairn/internal/metrics":       {},
	"cmd/cairn/internal/doctor":        {"account", "account/mail", "account/password", "account/roster", "admin", "cmd/cairn/internal/disk", "cmd/cairn/internal/httpd", "cmd/cairn/internal/libcrypto", "config", "provider", "store"}, // httpd: it asks what a request looks like there; admin: what the overview shows too
}

// reserved names the packages that alone may import a library of others.
var reserved = map[string][]string{
	"gorm.io/":                      {"store", "store/engine", "store/seal"},
	"github.com/mattn/go-sqlite3":   {"store/engine", "store/generated"},
	"github.com/jackc/pgx/":         {"store/engine", "store/generated", "store/storetest"},
	"github.com/pressly/goose/":     {"store/engine"},
	"github.com/ory/fosite":         {"provider"},
	"github.com/ory/x":              {},
	"github.com/go-webauthn/":       {"account/passkey"},
	"github.com/qri-io/jsonschema":  {"activityschema/reference"},
	"github.com/go-jose/go-jose/v3": {},
	"github.com/go-crypt/":          {"account/password"},
	"github.com/ccojocar/":          {"account/password"},
	"golang.org/x/crypto/":          {},
	"github.com/wneessen/":          {"account/mail"},
	"github.com/emersion/":          {"account/mail/mailtest"},
	"github.com/prometheus/":        {"cmd/cairn/internal/metrics"},
	"filippo.io/":                   {"cmd/cairn/internal/backupfile", "config"}, // config: a recipient is checked before the first night
	"github.com/getkin/":            {"docs/openapitest"},
	"github.com/santhosh-tekuri/":   {"docs/openapitest"},
	"github.com/coreos/go-systemd/": {"cmd/cairn"},
	"github.com/muktihari/":         {"activityschema/publish"},
	"github.com/yuin/":              {}, // tests render the documents
}

// withoutHTTP are the packages of rules, which know no request: see account/site.
var withoutHTTP = []string{"account", "account/letter", "account/passkey", "account/person", "account/roster"}

func TestNoPackageImportsAgainstTheArrows(t *testing.T) {
	for name, imports := range goList(t, `{{.ImportPath}} {{join .Imports " "}}`) {
		permitted, known := allowed[name]
		if !known {
			t.Errorf("package %s has no line in the table of arrows", name)
		}
		for _, path := range imports {
			if path == "net/http" && slices.Contains(withoutHTTP, name) {
				t.Errorf("%s must not import %s", name, path)
			}
			if ours, ok := strings.CutPrefix(path, module+"/"); ok && !slices.Contains(permitted, ours) {
				t.Errorf("%s must not import %s", name, ours)
			}
			for prefix, owners := range reserved {
				if strings.HasPrefix(path, prefix) && !slices.Contains(owners, name) {
					t.Errorf("%s must not import %s", name, path)
				}
			}
		}
	}
}

// Other applications import account/session: they get its dependencies too.
func TestSessionPackageNeedsOnlyTheStandardLibraryAndJose(t *testing.T) {
	for _, path := range goList(t, `{{.ImportPath}} {{join .Deps " "}}`)["account/session"] {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") && !strings.HasPrefix(path, "github.com/go-jose/go-jose/v4") && !strings.HasPrefix(path, module+"/account/session") {
			t.Errorf("account/session needs %s", path)
		}
	}
}

// Publishers import activityschema: it brings no network with it.
func TestActivitySchemaNeedsOnlyTheStandardLibraryAndJSON(t *testing.T) {
	for _, path := range goList(t, `{{.ImportPath}} {{join .Deps " "}}`)["activityschema"] {
		first, _, _ := strings.Cut(path, "/")
		if path == "net/http" || strings.Contains(first, ".") && !strings.HasPrefix(path, "github.com/go-json-experiment/json") {
			t.Errorf("activityschema needs %s", path)
		}
	}
}

// The program of the page /account/publish/ sees recordings and places: nothing in it asks a network, and nothing is
// the service's.
func TestPublishProgramHasNoNetwork(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "../publish-wasm")
	list.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := list.Output()
	fatalIf(t, err)
	ours := []string{"activityschema", "activityschema/publish", "activityschema/timezone", "cmd/publish-wasm"}
	for path := range strings.FieldsSeq(string(out)) {
		name, isOurs := strings.CutPrefix(path, module+"/")
		if path == "net" || path == "net/http" || isOurs && !slices.Contains(ours, name) {
			t.Errorf("cmd/publish-wasm needs %s", path)
		}
	}
}

// fosite would bring them through github.com/ory/x, in whose place stands
// provider/internal/oryx: a third of the program, and none of it is called. Protobuf is
// the metrics library's.
func TestProgramHasNoPartOfGRPCOrTheExporters(t *testing.T) {
	for _, path := range goList(t, `{{.ImportPath}} {{join .Deps " "}}`)["cmd/cairn"] {
		for _, unwanted := range []string{"google.golang.org/grpc", "google.golang.org/genproto", "go.opentelemetry.io/otel/exporters/", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/contrib/", "go.opentelemetry.io/proto/"} {
			if strings.HasPrefix(path, unwanted) {
				t.Errorf("cmd/cairn links %s", path)
			}
		}
	}
}

// What the program imports has a line that says why, and nothing else has.
func TestDocumentsNameWhatIsLinked(t *testing.T) {
	const module = "{{with .Module}}{{if not (or .Main .Indirect)}}{{.Path}}{{end}}{{end}}"
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", module, ".")
	list.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=1")
	out, err := list.Output()
	fatalIf(t, err)
	linked := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	var named []string
	for line := range strings.Lines(documents(t)["docs/dependencies.md"]) {
		path, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		if ok && strings.HasPrefix(line, "| `") {
			named = append(named, path)
		}
	}
	slices.Sort(named)
	equal(t, "docs/dependencies.md differs from go list -deps (-linked +named)", named, linked)
}

// An operation on an account takes a context, a Caller and values: a page, the API and the command line call the same
// one.
func TestOperationsOnAccountsKnowNoRequest(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "account", "*.go"))
	for _, folder := range []string{"letter", "passkey", "person", "roster"} {
		more, _ := filepath.Glob(filepath.Join("..", "..", "account", folder, "*.go"))
		files = append(files, more...)
	}
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		fatalIf(t, err)
		if strings.Contains(string(source), "http.Request") {
			t.Errorf("%s takes a request: only account/site and admin do", name)
		}
	}
}

// What writes an account begins with Base.Begin, which asks for the proof that the act needs: a mail is composed
// without anybody asking. What else letters may do with the storage says letter.Store.
func TestLettersWriteNoAccount(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "account", "letter", "*.go"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		fatalIf(t, err)
		for _, wrong := range []string{".Begin(", ".Store()"} {
			if !strings.HasSuffix(name, "_test.go") && strings.Count(string(source), wrong) > strings.Count(string(source), "store: accounts"+wrong) {
				t.Errorf("%s has %s", name, wrong)
			}
		}
	}
}

// A test moves the clock of these packages, and two instances of one store go by one
// time: what reads the wall clock beside the injected one does not. It may only be the
// default, as in "if o.Now == nil { o.Now = time.Now }".
func TestTimeComesFromTheInjectedClock(t *testing.T) {
	for _, folder := range []string{"account", "account/letter", "account/mail", "account/passkey", "account/password", "account/person", "account/roster", "account/statuslist", "account/text", "account/web", "admin", "cmd/cairn/internal/httpd", "provider", "store", "store/clock", "store/engine", "store/seal"} {
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			fatalIf(t, err)
			defaults := map[ast.Expr]bool{}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.IfStmt:
					test, ok := n.Cond.(*ast.BinaryExpr)
					if ok && test.Op == token.EQL && types.ExprString(test.Y) == "nil" && len(n.Body.List) == 1 {
						if set, ok := n.Body.List[0].(*ast.AssignStmt); ok && len(set.Lhs) == 1 &&
							types.ExprString(set.Lhs[0]) == types.ExprString(test.X) {
							defaults[set.Rhs[0]] = true
						}
					}
				case *ast.SelectorExpr:
					if what := types.ExprString(n); slices.Contains([]string{"time.Now", "time.Since", "time.Until"}, what) && !defaults[n] {
						t.Errorf("%s reads the wall clock (%s): use the injected clock", set.Position(n.Pos()), what)
					}
				}
				return true
			})
		}
	}
}

// Whether a database is PostgreSQL is decided in one place: store.IsPostgres.
func TestStoreDecidesWhatIsPostgreSQL(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "grep", "-rnE", `(HasPrefix|Contains|CutPrefix)\([A-Za-z.]*([dD]atabase|dsn|DSN), "(postgres|://)`, "../..",
		"--include=*.go", "--exclude=*_test.go", "--exclude-dir=store", "--exclude-dir=config").Output() // config reads no URL of another kind
	if len(out) > 0 {
		t.Errorf("%v: ask store.IsPostgres:\n%s", err, out)
	}
}

// A field with neither a tag nor an entry is an error of every command: see cli.Help.
func TestEachEntryOfHelpIsOfAFieldWithoutHelpTag(t *testing.T) {
	tag, entry, fields := regexp.MustCompile("[` ]help:"), regexp.MustCompile(`(?m)^(\w.*?): `), map[string]bool{}
	for folder, names := range goList(t, `{{.ImportPath}} {{join .GoFiles " "}}`) {
		for _, name := range names {
			if folder != "config" && !strings.HasPrefix(folder, "cmd/cairn") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", folder, name), nil, parser.SkipObjectResolution)
			fatalIf(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if of, ok := spec.Type.(*ast.StructType); ok {
						for _, field := range of.Fields.List {
							for _, name := range field.Names {
								fields[file.Name.Name+"."+spec.Name.Name+"."+name.Name] = field.Tag == nil || !tag.MatchString(field.Tag.Value)
							}
						}
					}
				}
				return true
			})
		}
	}
	for _, file := range []string{"../../config/help.txt", "internal/cli/help.txt"} {
		text, err := os.ReadFile(file)
		fatalIf(t, err)
		for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
			if !fields[m[1]] {
				t.Errorf("%s: %s is no field, has a help tag or had an entry before", file, m[1])
			}
			delete(fields, m[1])
		}
	}
}

// goList runs a template over our packages: name -> words after it.
func goList(t *testing.T, template string) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", template, module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		packages[strings.TrimPrefix(words[0], module+"/")] = words[1:]
	}
	if len(packages) < 8 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	return packages
}
