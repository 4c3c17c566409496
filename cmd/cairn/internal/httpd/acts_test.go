package httpd

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
)

// protocol are the endpoints of OpenID Connect and of device binding, which have rules of their own, and what changes nothing.
var protocol = regexp.MustCompile(`^/(?:oauth2/(?:authorize|token|userinfo|revoke|introspect|par|device_authorization|logout|select-account)$|device$|auth/device/|api/activity/|doctor$)`)

// Whatever changes an account by HTTP is in the table that says what proof it needs and who is told.
func TestEveryChangingRouteIsInTheTableOfActs(t *testing.T) {
	s := startService(t, serviceOptions{BasePath: "/id"})
	listed := map[string]bool{} // route: whether it is routed
	for _, act := range account.Acts {
		for _, route := range act.Routes {
			listed[route] = false
		}
	}
	noError(t, s.handler.routes.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		path = strings.Replace(strings.TrimPrefix(path, "/id"), ":(?s:.+)}", "}", 1)
		if err != nil || protocol.MatchString(path) {
			return err
		}
		got := s.browser().do("PROPFIND", strings.NewReplacer("{", "", "}", "").Replace(path), "", "")
		for _, method := range strings.Split(got.Header.Get("Allow"), ", ") {
			_, known := listed[method+" "+path]
			changes := !slices.Contains([]string{"", http.MethodGet, http.MethodHead, http.MethodOptions}, method)
			if changes && !known {
				t.Errorf("%s %s changes something and has no row in account.Acts", method, path)
			}
			if known {
				listed[method+" "+path] = true
			}
		}
		return nil
	}))
	for route, routed := range listed {
		if !routed {
			t.Errorf("account.Acts has %s, which no route has", route)
		}
	}
	if len(listed) < 60 {
		t.Errorf("only %d routes", len(listed))
	}
}

// A page of another site changes nothing, whichever route of the API, the account and the administration it tries.
func TestAnotherSiteIsRefusedByEveryRoute(t *testing.T) {
	s := startService(t, serviceOptions{BasePath: "/id", Settings: func(c *config.Settings) { c.AllowedOrigins = []string{"https://app.example.org"} }})
	refused := 0
	noError(t, s.handler.routes.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		path = strings.NewReplacer(":(?s:.+)}", "", "{", "", "}", "").Replace(path)
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			if !strings.HasPrefix(path, "/id/api/") && !strings.HasPrefix(path, "/id/account/") && !strings.HasPrefix(path, "/id/admin/") {
				continue // protocols, and what is before a sign-in
			}
			for _, origin := range []string{"https://evil.example", "null", "http://app.example.org", "https://app.example.org.evil.example"} {
				got := s.visitor().do(method, strings.TrimPrefix(path, "/id"), "", "", "Origin", origin, "Sec-Fetch-Site", "cross-site")
				if refused++; got.StatusCode != http.StatusForbidden || !strings.Contains(got.Text, "another site") {
					t.Errorf("%s %s from %s: %d", method, path, origin, got.StatusCode)
				}
			}
		}
		return err
	}))
	if refused < 500 {
		t.Errorf("only %d requests", refused)
	}
}
