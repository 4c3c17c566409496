package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
)

// noteRoute records the path template of the route that the router has chosen.
func noteRoute(base string) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if template, err := mux.CurrentRoute(r).GetPathTemplate(); err == nil {
				template = strings.Replace(template, ":(?s:.+)}", "}", 1)
				web.NoteRoute(r.Context(), strings.TrimPrefix(template, base))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// otherSlash returns the page that a GET misses by a slash at the end of its path, or "". Programs get
// their 404.
func otherSlash(root *mux.Router, base string, r *http.Request) string {
	to := url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"), RawQuery: r.URL.RawQuery}
	if to.Path == r.URL.Path {
		to.Path += "/"
	}
	var match mux.RouteMatch
	get := r.Method == http.MethodGet || r.Method == http.MethodHead
	// A path of //host would be another site.
	if !get || strings.HasPrefix(to.Path, "//") || strings.HasPrefix(to.Path, base+"/api/") || r.URL.RawPath != "" ||
		!root.Match(&http.Request{Method: http.MethodGet, URL: &to}, &match) || match.MatchErr != nil {
		return ""
	}
	return to.String()
}

// literalPaths returns a handler that finds the router's paths without variables in a map. The
// router itself would try a hundred regular expressions one after the other, and copy the request
// twice. The handler leaves to the router all other paths, and the routes that it does not choose
// by the path alone.
func literalPaths(root *mux.Router, base string) (http.Handler, error) {
	type literal struct {
		http.Handler
		template string // without the base
	}
	byPath := map[string]literal{}
	err := root.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		if err != nil || route.GetHandler() == nil {
			return nil
		}
		if _, err := route.GetMethods(); err == nil {
			return nil
		}
		// Ask the router: an earlier route may match the path, or this route may be a prefix.
		var match, longer mux.RouteMatch
		request := func(path string) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}
		}
		if !root.Match(request(path), &match) || match.Route != route || len(match.Vars) > 0 {
			return nil
		}
		if root.Match(request(path+"x"), &longer) && longer.Route == route {
			return nil
		}
		byPath[path] = literal{route.GetHandler(), strings.TrimPrefix(path, base)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the routes: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, ok := byPath[r.URL.Path]
		if !ok {
			root.ServeHTTP(w, r)
			return
		}
		web.NoteRoute(r.Context(), l.template)
		l.ServeHTTP(w, r)
	}), nil
}
