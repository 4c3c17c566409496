package httpd

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gorilla/handlers"

	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
)

// publicPath reports whether any page may read a path, without credentials.
func (m *middleware) publicPath(path string) bool {
	switch strings.TrimPrefix(path, m.base) {
	case "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/jwks.json",
		"/.well-known/webfinger",
		"/openapi.yaml", "/oauth2/token", "/oauth2/userinfo", "/oauth2/revoke", "/oauth2/introspect", "/oauth2/par",
		"/oauth2/device_authorization":
		return true
	}
	return strings.HasPrefix(path, m.base+"/oauth2/status/") || strings.HasPrefix(path, m.base+"/schemas/")
}

// cors lets any page read what is public, and lets the configured origins call the API with the
// session. No origin is reflected, and null is never allowed.
func (m *middleware) cors(next http.Handler) http.Handler {
	public := handlers.CORS(
		handlers.AllowedOrigins([]string{"*"}), handlers.AllowedMethods([]string{"GET", "HEAD", "POST"}),
		handlers.ExposedHeaders([]string{
			"DPoP-Nonce", "ETag", "Preference-Applied", "Retry-After", "WWW-Authenticate",
		}),
		handlers.MaxAge(600), handlers.OptionStatusCode(http.StatusNoContent),
	)(next)
	api := next
	if len(m.config.AllowedOrigins) > 0 { // gorilla's default without a list is every origin
		api = handlers.CORS(
			handlers.AllowedOrigins(m.config.AllowedOrigins), handlers.AllowCredentials(),
			handlers.AllowedMethods([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}),
			handlers.AllowedHeaders([]string{"Content-Type"}), handlers.ExposedHeaders([]string{"Retry-After"}),
			handlers.MaxAge(600), handlers.OptionStatusCode(http.StatusNoContent),
		)(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case m.publicPath(r.URL.Path):
			// Allow any header: without cookies, a page can do no more than curl. A list would
			// break libraries that add their own headers, and * does not include Authorization.
			requested := r.Header.Get("Access-Control-Request-Headers")
			if requested != "" && r.Method == http.MethodOptions {
				w.Header().Set("Access-Control-Allow-Headers", requested)
				delete(r.Header, "Access-Control-Request-Headers") // gorilla's handler cannot allow any
			}
			// Also without an Origin: a cache gives the answer to pages too (RFC 7033 section 5, for WebFinger).
			w.Header().Set("Access-Control-Allow-Origin", "*")
			public.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, m.base+"/api/"):
			// On every answer: a cache must not give one origin's answer to another.
			w.Header().Add("Vary", "Origin")
			api.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// crossOrigin refuses unsafe requests from another site's page (net/http.CrossOriginProtection:
// Sec-Fetch-Site, else Origin). The endpoints for machines use no cookie. A POST to authorize or
// logout may come from anywhere (OpenID Connect Core section 3.1.2.1, RP-Initiated Logout section
// 2); it only shows a page.
func (m *middleware) crossOrigin(next http.Handler) http.Handler {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.accounts.WriteProblem(w, r, web.NewProblem(http.StatusForbidden, "cross_origin",
			"This request came from another site and was refused."))
	})
	newProtection := func(trusted ...string) *http.CrossOriginProtection {
		p := http.NewCrossOriginProtection()
		for _, origin := range trusted {
			if err := p.AddTrustedOrigin(origin); err != nil {
				panic(fmt.Sprintf("origin %q passed the settings' check: %v", origin, err))
			}
		}
		for _, endpoint := range []string{
			"token", "userinfo", "revoke", "introspect", "par", "device_authorization", "authorize", "logout",
		} {
			p.AddInsecureBypassPattern("POST " + m.base + "/oauth2/" + endpoint)
		}
		p.AddInsecureBypassPattern("POST " + m.base + site.RegisterDevicePath)
		p.AddInsecureBypassPattern("POST " + m.base + site.RefreshDevicePath)
		p.SetDenyHandler(refuse)
		return p
	}
	issuer := m.config.Issuer.Scheme + "://" + m.config.Issuer.Host
	pages := newProtection(issuer).Handler(next)
	api := newProtection(append([]string{issuer}, m.config.AllowedOrigins...)...).Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, m.base+"/api/") {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
