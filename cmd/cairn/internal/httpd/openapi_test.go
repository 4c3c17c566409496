package httpd

import (
	"compress/gzip"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/docs/openapitest"
)

func TestOpenAPIDocumentIsValid(t *testing.T) {
	if err := openapitest.Load().Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// undocumented are the routes that answer people with pages, and their files.
var undocumented = regexp.MustCompile(`^/(?:$|(?:account|admin|login|logout|register|reset-password|forgot-password|verify-email|undo-email|not-me|static|theme|logo)(?:/|$)|oauth2/consent$)`)

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
		path = strings.TrimPrefix(path, "/id")
		if err != nil || undocumented.MatchString(path) {
			return err
		}
		got := s.browser().do("PROPFIND", strings.NewReplacer("{", "", "}", "").Replace(path), "", "")
		if got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("PROPFIND %s: %d", path, got.StatusCode)
		}
		methods := slices.DeleteFunc(strings.Split(got.Header.Get("Allow"), ", "), func(m string) bool { return m == http.MethodHead })
		slices.Sort(methods)
		routed[path] = methods
		return nil
	}))
	for path, methods := range routed {
		if !slices.Equal(methods, documented[path]) {
			t.Errorf("%s answers to %v, the document has %v", path, methods, documented[path])
		}
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
