package httpd

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/provider/recipes"
)

// appBlocks are the blocks in a language of the recipe of an application, with its names in the place of those of
// the example, so the tests run what client apps prints. Each old name has to be there.
func appBlocks(t *testing.T, title, language string, names ...string) []string {
	t.Helper()
	all, err := recipes.All()
	noError(t, err)
	i := slices.IndexFunc(all, func(r recipes.Recipe) bool { return r.Title == title })
	if i < 0 {
		t.Fatalf("there is no recipe for %s", title)
	}
	clientID := ""
	for k := 0; k+1 < len(all[i].Client.Content); k += 2 {
		if all[i].Client.Content[k].Value == "id" {
			clientID = all[i].Client.Content[k+1].Value
		}
	}
	r, err := all[i].For(all[i].Example, "https://id.example.org", clientID)
	noError(t, err)
	return renamed(t, title, blocks(r.Body, language), names...)
}

// renamed returns blocks with other names, all of whose old ones are there.
func renamed(t *testing.T, where string, found []string, names ...string) []string {
	t.Helper()
	for i := 0; i < len(names); i += 2 {
		if !strings.Contains(strings.Join(found, ""), names[i]) {
			t.Fatalf("%s: no %q in its blocks", where, names[i])
		}
	}
	for i := range found {
		found[i] = strings.NewReplacer(names...).Replace(found[i])
	}
	return found
}

// browserApp is an application in the browser, at an origin of its own: a public client.
func (s *service) browserApp(id, redirect string, packages ...string) (a registeredApp, pages *http.ServeMux) {
	s.t.Helper()
	modules := filepath.Join(relyingPartyHome(), "node_modules")
	var need []string
	for _, p := range packages {
		need = append(need, filepath.Join(modules, p, "package.json"))
	}
	needFiles(s.t, need...)
	pages = http.NewServeMux()
	pages.Handle("/modules/", http.StripPrefix("/modules/", http.FileServer(http.Dir(modules))))
	server := httptest.NewServer(pages)
	s.t.Cleanup(server.Close)
	a = registeredApp{ID: id, URL: strings.Replace(server.URL, "127.0.0.1", "localhost", 1)}
	s.addClient(id, func(c *provider.Client) {
		c.AuthMethod = provider.AuthNone
		c.RedirectURIs, c.PostLogoutRedirectURIs = []string{a.URL + redirect}, []string{a.URL + "/"}
	})
	return a, pages
}

// serveText answers with a page or script.
func serveText(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
}

// appPage is a page with the application's script, whose imports are found among the installed packages.
func appPage(script string) http.HandlerFunc {
	return serveText("text/html", `<!doctype html><script type="importmap">{"imports": {
"oidc-client-ts": "/modules/oidc-client-ts/dist/esm/oidc-client-ts.js", "jwt-decode": "/modules/jwt-decode/build/esm/index.js",
"keycloak-js": "/modules/keycloak-js/lib/keycloak.js"}}</script>
<button id="sign-in">Sign in</button> <button id="sign-out">Sign out</button> <p id="name"></p>
<script type="module">`+script+`</script>`)
}

// shortTab is a tab for a minute.
func shortTab(t *testing.T) context.Context {
	t.Helper()
	tab, cancel := context.WithTimeout(chromium(t), time.Minute)
	t.Cleanup(cancel)
	return tab
}

// inPopup clicks and gives the window that opens. Chromium reports the windows of all tabs, the
// popup of the test before among them while it closes, so the opener has to be this tab.
func inPopup(t *testing.T, tab context.Context, click chromedp.CSS) context.Context {
	t.Helper()
	opener := chromedp.FromContext(tab).Target.TargetID
	opened := chromedp.WaitNewTarget(tab, func(i *target.Info) bool { return i.Type == "page" && i.OpenerID == opener })
	mustDo(t, tab, "open the popup", chromedp.WaitVisible(click), chromedp.Click(click))
	select {
	case id := <-opened:
		popup, cancel := chromedp.NewContext(tab, chromedp.WithTargetID(id))
		t.Cleanup(cancel)
		return popup
	case <-time.After(20 * time.Second):
		t.Fatal("no popup opened")
	}
	return nil
}

// allowInPopup signs in and allows.
func allowInPopup(t *testing.T, popup context.Context) {
	t.Helper()
	mustDo(t, popup, "sign-in page in the popup", chromedp.WaitVisible(page("login")))
	signInAs(t, popup, "ada", password, "consent")
	mustDo(t, popup, "consent in the popup", chromedp.Click(id("consent-allow")))
}

// waitFor waits until an expression is true in the page.
func waitFor(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	if _, err := chromedp.Run(tab,
		chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(15*time.Second))); err != nil {
		text, _ := chromedp.Run(tab, chromedp.Text(chromedp.CSS("body")))
		t.Fatalf("%s: %v; the page says: %.2000s", expression, err, text)
	}
}

// The popup goes from the application by our pages to the redirect URI, which reports to window.opener.
func TestPopupOfOIDCClientReportsToItsOpener(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	app, pages := s.browserApp("map", "/callback", "oidc-client-ts", "jwt-decode")
	script := appBlocks(t, "oidc-client-ts", "js", "https://id.example.org", s.URL, "https://map.example.org", app.URL)[0]
	pages.Handle("/", appPage(`if (location.pathname === "/callback") localStorage.opener = window.opener !== null;
`+script))
	tab := shortTab(t)
	mustDo(t, tab, "the application", chromedp.Navigate(app.URL+"/"))
	allowInPopup(t, inPopup(t, tab, id("sign-in")))
	waitFor(t, tab, `document.querySelector("#name").textContent === "Ada"`)
	// The library has another way since 3.4; that of most others is the opener.
	waitFor(t, tab, `localStorage.opener === "true"`)
	// The application comes again, without the name that it had.
	mustDo(t, tab, "sign out", chromedp.Click(id("sign-out")), chromedp.WaitReady(chromedp.CSS("#name:empty")))
	mustDo(t, tab, "session at the service", chromedp.Navigate(s.URL+"/account/"), chromedp.WaitVisible(page("login")))
}

// Swagger UI sends X-Requested-With with its requests, too.
func TestPopupOfSwaggerUIAuthorizes(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	app, pages := s.browserApp("documents", "/docs/oauth2-redirect.html", "swagger-ui-dist")
	scheme := appBlocks(t, "Swagger UI", "yaml", "https://id.example.org", s.URL)[0]
	script := appBlocks(t, "Swagger UI", "js", "https://api.example.org", app.URL)[0]
	pages.Handle("/openapi.yaml", serveText("application/yaml", "openapi: 3.0.3\ninfo: {title: API, version: '1'}\npaths: {}\n"+scheme))
	files := http.Dir(filepath.Join(relyingPartyHome(), "node_modules/swagger-ui-dist"))
	pages.Handle("/docs/", http.StripPrefix("/docs/", http.FileServer(files)))
	pages.Handle("/{$}", serveText("text/html", `<!doctype html><div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script>`+script+`</script>`))
	tab := shortTab(t)
	mustDo(t, tab, "the application", chromedp.Navigate(app.URL+"/"), chromedp.WaitVisible(chromedp.CSS(".btn.authorize")))
	// The button is there before the definitions are resolved. Opened before that, the dialog stays empty.
	waitFor(t, tab, `ui.getSystem().authSelectors.definitionsToAuthorize().size > 0`)
	mustDo(t, tab, "the dialog", chromedp.Click(chromedp.CSS(".btn.authorize")), chromedp.WaitVisible(chromedp.CSS(".auth-container")))
	allowInPopup(t, inPopup(t, tab, chromedp.CSS(".auth-container .authorize")))
	waitFor(t, tab, `document.querySelector(".auth-container").textContent.includes("Logout")`)
}

// keycloak-js asks for response_mode=fragment.
func TestKeycloakJSSignsIn(t *testing.T) {
	another(t)
	s := startService(t, serviceOptions{Limits: true}, "ada")
	app, pages := s.browserApp("map", "/", "keycloak-js")
	script := appBlocks(t, "keycloak-js", "js", "https://id.example.org", s.URL, "https://map.example.org", app.URL)[0]
	pages.Handle("/", appPage(script))
	tab := shortTab(t)
	mustDo(t, tab, "the application", chromedp.Navigate(app.URL+"/"), chromedp.WaitVisible(page("login")))
	signInAs(t, tab, "ada", password, "consent")
	mustDo(t, tab, "consent", chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("sign-in")))
	waitFor(t, tab, `document.querySelector("#name").textContent === "Ada"`)
	mustDo(t, tab, "sign out", chromedp.Click(id("sign-out")), chromedp.WaitVisible(page("login")))
}
