package httpd

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/docs/openapitest"
)

func TestOpenAPIDocumentIsValid(t *testing.T) {
	noError(t, openapitest.Load().Validate(t.Context()))
}

// undocumented are the routes that answer people with pages, their files, and the one for
// the command doctor.
var undocumented = regexp.MustCompile(`^/(?:$|(?:account|admin|login|logout|register|recover|reset-password|forgot-password|verify-email|undo-email|cancel-email|not-me|auth/device|join|confirm-join|static|theme)(?:/|$)|oauth2/consent$|oauth2/select-account$|device$|doctor$)`)

// What the running router answers is in the document, method by method, and the other way
// round. The methods are those of Allow, after a method that nothing knows.
func TestOpenAPIDocumentHasEveryRoute(t *testing.T) {
	s := startService(t, serviceOptions{BasePath: "/id"})
	documented := map[string][]string{}
	for path, item := range openapitest.Load().Paths.Map() {
		documented[path] = slices.Sorted(maps.Keys(item.Operations()))
	}
	routed := map[string][]string{}
	noError(t, s.handler.routes.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		path = strings.Replace(strings.TrimPrefix(path, "/id"), ":(?s:.+)}", "}", 1)
		if err != nil || undocumented.MatchString(path) {
			return err
		}
		got := s.browser().do("PROPFIND", strings.NewReplacer("{", "", "}", "").Replace(path), "", "")
		same(t, fmt.Sprintf("PROPFIND %s", path), got.StatusCode, http.StatusMethodNotAllowed)
		methods := slices.DeleteFunc(strings.Split(got.Header.Get("Allow"), ", "), func(m string) bool { return m == http.MethodHead })
		slices.Sort(methods)
		routed[path] = methods
		return nil
	}))
	for path, methods := range routed {
		sameList(t, fmt.Sprintf("%s answers to, the document", path), methods, documented[path])
	}
	for path := range documented {
		if routed[path] == nil {
			t.Errorf("the document has %s, which no route has", path)
		}
	}
	if len(documented) < 60 {
		t.Errorf("the document has only %d paths", len(documented))
	}
}

func TestOpenAPIDocumentNamesTheIssuer(t *testing.T) {
	s := startService(t, serviceOptions{BasePath: "/id"})
	b := s.browser()
	got := b.do("GET", "/openapi.yaml", "", "", "Accept-Encoding", "identity", "Origin", "https://editor.example.org")
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/yaml" || got.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Fatalf("%d %v", got.StatusCode, got.Header)
	}
	if !strings.Contains(got.Text, "\nservers:\n  - url: '"+s.URL+"'\n") || strings.Contains(got.Text, "localhost:4040") {
		t.Errorf("the server is not %s: %.3000s", s.URL, got.Text)
	}
	if again := b.do("GET", "/openapi.yaml", "", "", "If-None-Match", got.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || again.Text != "" {
		t.Errorf("asked again: %d", again.StatusCode)
	}
	packed := b.do("GET", "/openapi.yaml", "", "", "Accept-Encoding", "gzip")
	if _, err := gzip.NewReader(strings.NewReader(packed.Text)); err != nil || len(packed.Text) > len(got.Text)/4 {
		t.Errorf("packed: %d of %d bytes, %v", len(packed.Text), len(got.Text), err)
	}
}

// schemathesis sends the running program what the document allows and what it does not,
// signed in as an administrator, and compares the answers. testdata/schemathesis has its
// version and what it is told. CAIRN_SCHEMATHESIS_EXAMPLES is how many requests of
// random data it sends to each operation, beside those at the bounds of the schemas.
func TestSchemathesisFindsNoFault(t *testing.T) {
	thirdParty(t)
	home := os.Getenv("SCHEMATHESIS_HOME")
	if cache, err := os.UserCacheDir(); home == "" && err == nil {
		home = filepath.Join(cache, "cairn-schemathesis")
	}
	program := filepath.Join(home, "venv", "bin", "schemathesis")
	if _, err := os.Stat(program); err != nil {
		missing := program + " is missing: run cmd/cairn/internal/httpd/testdata/schemathesis/install"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	p := newInstalled(t, false, "")
	var limits []string
	for name := range config.DefaultRateLimits() {
		limits = append(limits, name+"=off")
	}
	p.env = append(p.env, "SERVICE_RATE_LIMITS="+strings.Join(limits, ","), "SERVICE_LOG_FORMAT=json")
	for _, handle := range []string{"ada", "bob"} {
		p.run("user", "add", handle, "--generate-password")
	}
	client := jsonOf(t, p.run("client", "add", "Photos", "--id", "photos", "--redirect-uri", callbackOf("photos"), "--trusted", "-o", "json"))
	p.serve()
	rp := p.relyingParty("photos", client["client_secret"].(string))
	code := p.browser().authorize(rp.authURL(), "keeper").Get("code")
	token, err := rp.config.Exchange(t.Context(), code, oauth2.VerifierOption(rp.verifier))
	noError(t, err)
	told, err := filepath.Abs("testdata/schemathesis")
	noError(t, err)
	c := exec.CommandContext(t.Context(), program, "--no-color", "--config-file", filepath.Join(told, "schemathesis.toml"),
		"run", p.URL+"/openapi.yaml", "--seed", "1", "--max-examples", cmp.Or(os.Getenv("CAIRN_SCHEMATHESIS_EXAMPLES"), "3"))
	c.Dir = t.TempDir() // it writes there
	c.Env = append(os.Environ(), "PYTHONPATH="+told, "PYTHONDONTWRITEBYTECODE=1", "CAIRN_URL="+p.URL, "CAIRN_PASSWORD="+password,
		"CAIRN_CLIENT_SECRET="+rp.config.ClientSecret, "CAIRN_TOKEN="+token.AccessToken)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
	p.stop()
	text := p.log.String()
	if i := strings.Index(text, `"level":"ERROR"`); i >= 0 {
		t.Errorf("an error in the log: %.500s", text[max(0, i-60):])
	}
	// Not all of it was refused before the program looked at it.
	for _, event := range []string{"profile_changed", "invite_created", "user_suspended", "user_flags", "reset_issued", "introspect_inactive", "login"} {
		has(t, fmt.Sprintf("schemathesis never so far as %s", event), text, `"event":"`+event+`"`)
	}
}
