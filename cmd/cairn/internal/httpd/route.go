package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
)

// noteRoute keeps the template of the path that the router has chosen.
func noteRoute(base string) mux.MiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if template, err := mux.CurrentRoute(r).GetPathTemplate(); err == nil {
				web.NoteRoute(r.Context(), strings.TrimPrefix(strings.Replace(template, ":(?s:.+)}", "}", 1), base))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// literalPaths answers by a map for the paths of a router that have no variables: the router
// compares one regular expression after the other, a hundred of them, and copies the request
// twice. All other paths, and what the router decides for its routes by more than their
// path, are left to it.
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
		// The router itself is asked: an earlier route may take the path, or this one be a prefix.
		var match, longer mux.RouteMatch
		request := func(path string) *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}
		}
		if !root.Match(request(path), &match) || match.Route != route || len(match.Vars) > 0 || root.Match(request(path+"x"), &longer) && longer.Route == route {
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
