package httpd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// Engines that know no more than ES2015 run every script of the pages, the
// demo's included: what they cannot parse they do not run at all.
func TestScriptsAreES2015(t *testing.T) {
	command := nodeScript(t, "es2015.mjs", "acorn")
	s := startService(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin)
	s.addClient("app", nil)
	demo := startDemoApp(t, s)
	b := s.browser()
	texts := []string{b.get("/login/").Text, b.get("/oauth2/authorize?client_id=app&response_type=code&prompt=none&scope=openid&response_mode=form_post&redirect_uri=" + callbackOf("app")).Text}
	b.signIn("keeper")
	for _, path := range []string{"/account/", "/admin/", "/admin/users/keeper", demo} {
		texts = append(texts, b.get(path).Text)
	}
	dir, seen := t.TempDir(), map[string]bool{}
	for i, text := range texts {
		doc, err := html.Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Data != "script" {
				continue
			}
			name, script := fmt.Sprintf("inline-%d.js", i), ""
			if src := attribute(n, "src"); src == "" {
				script = n.FirstChild.Data
			} else {
				got := b.get(src)
				if name = filepath.Base(src); got.StatusCode != http.StatusOK {
					t.Fatalf("%s: %d", src, got.StatusCode)
				}
				script = got.Text
			}
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			if !seen[path] {
				seen[path], command = true, append(command, path)
			}
		}
	}
	if len(seen) == 0 {
		t.Fatal("found no script on the pages")
	}
	if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A browser that lacks one thing still has the others, and form_post goes on
// whatever else is broken.
func TestScriptFeaturesFailAlone(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	landed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<p id=landed>%s</p>", html.EscapeString(r.PostFormValue("error")))
	}))
	t.Cleanup(landed.Close)
	callback := landed.URL + "/callback"
	s.addClient("app", func(c *provider.Client) { c.RedirectURIs = []string{callback} })
	tab := chromium(t)
	const broken = `delete window.Intl; Object.defineProperty(navigator, "clipboard", {get() { throw new Error("no clipboard") }}); delete Array.prototype.includes;
		Object.defineProperty(HTMLElement.prototype, "dataset", {get() { throw new Error("no dataset") }}); delete NodeList.prototype[Symbol.iterator];`
	if _, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: broken}); err != nil {
		t.Fatal(err)
	}
	mustDo(t, tab, "an answer by form_post", chromedp.Navigate(s.URL+"/oauth2/authorize?client_id=app&response_type=code&prompt=none&scope=openid&response_mode=form_post&redirect_uri="+callback),
		chromedp.WaitVisible(id("landed")))
	if got, err := chromedp.Run(tab, chromedp.Text(id("landed"))); err != nil || got != "login_required" {
		t.Errorf("the application got %q: %v", got, err)
	}
	mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"), chromedp.SendKeys(field("handle"), "ada"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")),
		chromedp.SendKeys(field("current_password"), "shown"), chromedp.Click(chromedp.CSS(`[data-reveal=current_password]`)))
	if kind, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.getElementById("current_password").type`)); err != nil || kind != "text" {
		t.Errorf("after Show the field is of type %q: %v", kind, err)
	}
}
