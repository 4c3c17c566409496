package httpd

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// knocks are the requests with which a browser speaks the protocol, in order.
type knocks struct {
	sync.Mutex
	list []string
}

func (k *knocks) watch(r *http.Request) {
	name := ""
	switch {
	case strings.HasSuffix(r.URL.Path, "/auth/device/register"), strings.HasSuffix(r.URL.Path, "/auth/device/refresh"):
		name = filepath.Base(r.URL.Path)
	case r.Header.Get("Secure-Session-Skipped") != "":
		name = "skipped " + r.Header.Get("Secure-Session-Skipped")
	default:
		return
	}
	k.Lock()
	defer k.Unlock()
	k.list = append(k.list, name)
}

func (k *knocks) count(name string) (n int) {
	k.Lock()
	defer k.Unlock()
	for _, l := range k.list {
		if strings.HasPrefix(l, name) {
			n++
		}
	}
	return n
}

// wait waits until the browser has knocked so often.
func (k *knocks) wait(t *testing.T, name string, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); k.count(name) < n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d times %s, want %d: %v", k.count(name), name, n, k.list)
		}
	}
}

// bindingChromium starts a Chromium that binds sessions, with the life's CA, on a profile. It has a first tab.
func (l *boundLife) bindingChromium(home string) (browser context.Context, stop func()) {
	t := l.t
	t.Helper()
	foreign(t)
	for _, program := range []string{"chromium", "certutil"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s here", program)
		}
	}
	nss := filepath.Join(home, ".pki", "nssdb")
	if _, err := os.Stat(nss); err != nil {
		noError(t, os.MkdirAll(nss, 0o700))
		ca := filepath.Join(home, "ca.pem")
		noError(t, os.WriteFile(ca, l.ca, 0o600))
		for _, args := range [][]string{{"-N", "--empty-password"}, {"-A", "-t", "C,,", "-n", "ca", "-i", ca}} {
			if out, err := exec.CommandContext(t.Context(), "certutil", append([]string{"-d", "sql:" + nss}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("certutil: %v: %s", err, out)
			}
		}
	}
	path, _ := exec.LookPath("chromium")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("enable-features", "DeviceBoundSessions,EnableBoundSessionCredentialsSoftwareKeysForManualTesting"),
		chromedp.Flag("host-resolver-rules", "MAP *.example.com "+l.address+",MAP *.example.net "+l.address))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	tab, cancelTab := chromedp.NewContext(allocator)
	stop = sync.OnceFunc(func() { _ = chromedp.Cancel(tab); cancelTab(); cancel() })
	t.Cleanup(stop)
	noError(t, chromedp.Do(tab))
	return tab, stop
}

// expire takes the bound cookies from a browser, as their end does.
func expire(t *testing.T, tab context.Context) {
	t.Helper()
	got, err := chromedp.Call(tab, network.GetCookies, network.GetCookiesParams{URLs: []string{"https://id.example.com/"}})
	noError(t, err)
	for _, c := range got.Cookies {
		if strings.HasPrefix(c.Name, "__Host-cairn_bound_") {
			_, err := chromedp.Call(tab, network.DeleteCookies, network.DeleteCookiesParams{Name: c.Name, URL: "https://id.example.com/"})
			noError(t, err)
		}
	}
}

// chromiumLife is a life with applications on the same site and on another, and what its browsers knock. Below a path
// the session cookie is shared with the applications of the same site.
func chromiumLife(t *testing.T, path string) (*boundLife, *knocks) {
	t.Helper()
	l := startBound(t, path, serviceOptions{Settings: func(c *config.Settings) {
		c.AllowedOrigins = []string{"https://app.example.com"}
		if path != "" {
			c.CookieDomain = "example.com"
		}
	}})
	k := &knocks{}
	l.seen = k.watch
	for id, host := range map[string]string{"near": "app.example.com", "far": "app.example.net"} {
		l.addClient(id, func(c *provider.Client) {
			c.Trusted, c.RedirectURIs = true, []string{"https://" + host + "/callback"}
		})
		query := "client_id=" + id + "&response_type=code&scope=openid&state=s&redirect_uri=https%3A%2F%2F" + host + "%2Fcallback&code_challenge_method=S256&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
		authorize := l.URL + "/oauth2/authorize?" + query
		l.sites.HandleFunc(host+"/start", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, authorize+"&"+r.URL.RawQuery, http.StatusFound)
		})
		l.sites.HandleFunc(host+"/frame", serveText("text/html", `<!doctype html><iframe src="`+authorize+`&prompt=none"></iframe>
<script>onmessage = e => document.body.insertAdjacentHTML("beforeend", "<p id=landed>" + e.data + "</p>")</script>`))
	}
	l.sites.HandleFunc("/callback", func(w http.ResponseWriter, r *http.Request) {
		got := "refused: " + r.FormValue("error")
		if r.FormValue("code") != "" {
			got = "signed in"
		}
		serveText("text/html", `<!doctype html><p id="landed">`+got+`</p><script>parent.postMessage("`+got+`", "*")</script>`)(w, r)
	})
	l.sites.HandleFunc("/link", serveText("text/html", `<!doctype html><a id="go" href="`+l.URL+`/account/apps">go</a>`))
	l.sites.HandleFunc("/", serveText("text/html", `<!doctype html><p>an application</p>`))
	return l, k
}

// bound signs in with a tab and lets it prove its key.
func (l *boundLife) bound(tab context.Context, k *knocks) {
	l.t.Helper()
	registered, refreshed := k.count("register"), k.count("refresh")
	mustDo(l.t, tab, "open", chromedp.Navigate(l.URL+"/login/"))
	signInAs(l.t, tab, "keeper", password, "account")
	k.wait(l.t, "register", registered+1)
	// Any request makes it prove the key: the first cookie ends soon. It asks for a challenge, and answers it.
	mustDo(l.t, tab, "devices", chromedp.Navigate(l.URL+"/account/devices"), chromedp.WaitVisible(page("account-devices")))
	k.wait(l.t, "refresh", refreshed+2)
	mustDo(l.t, tab, "bound", chromedp.Navigate(l.URL+"/account/devices"), chromedp.WaitVisible(page("account-devices")))
	if text, err := chromedp.Run(tab, chromedp.Text(id("sessions"))); err != nil || !strings.Contains(text, "This device Bound to the device") {
		l.t.Fatalf("not bound: %v %s", err, text)
	}
}

// rest lets the time of service and browser pass until the bound cookie has ended.
func (l *boundLife) rest(tab context.Context) {
	l.t.Helper()
	expire(l.t, tab)
	l.later(10*time.Minute + time.Second)
}

func (l *boundLife) landed(tab context.Context, what, path string, wants string) {
	l.t.Helper()
	mustDo(l.t, tab, what, chromedp.Navigate(path), chromedp.WaitVisible(id("landed")))
	if got, err := chromedp.Run(tab, chromedp.Text(id("landed"))); err != nil || got != wants {
		l.t.Errorf("%s: %q %v", what, got, err)
	}
}

// own is a tab with cookies and keys of its own: Chromium signs a few times in ten minutes and then skips.
func own(t *testing.T, browser context.Context) context.Context {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab, cancelTab := context.WithTimeout(tab, 90*time.Second)
	t.Cleanup(cancelTab)
	return tab
}

// The cookie that malware copies from a real browser is worth nothing six minutes later, and the person at it signs on
// from another site ten minutes after the last request, 20 times, without a sign-in.
func TestChromiumSignsOnWithItsKey(t *testing.T) {
	another(t)
	l, k := chromiumLife(t, "")
	l.app()
	browser, _ := l.bindingChromium(t.TempDir())
	for i := range 5 {
		tab := own(t, browser)
		l.bound(tab, k)
		if i == 0 {
			got, err := chromedp.Call(tab, network.GetCookies, network.GetCookiesParams{URLs: []string{l.URL + "/"}})
			noError(t, err)
			thief := l.boundBrowser()
			thief.plain = true
			for _, c := range got.Cookies {
				thief.jar.SetCookies(l.issuer, []*http.Cookie{{Name: c.Name, Value: c.Value, Path: "/", Secure: true}})
			}
			if len(thief.opens()) == 0 {
				t.Error("the copy opens nothing at once: the test proves nothing")
			}
			l.later(6*time.Minute + time.Second)
			if open := thief.opens(); len(open) > 0 {
				t.Errorf("copied from Chromium, six minutes later: %v", open)
			}
		}
		for range 4 { // with the registration and the first proof, as often as Chromium signs in nine minutes
			l.rest(tab)
			l.landed(tab, "single sign-on", "https://app.example.net/start", "signed in")
		}
	}
	if n := k.count("skipped"); n > 0 {
		t.Errorf("%d requests without a proof: %v", n, k.list)
	}
}

// Whatever leads to the service, the browser proves its key first.
func TestChromiumProvesItsKeyOnEveryWay(t *testing.T) {
	thirdParty(t)
	for _, path := range []string{"", "/id"} {
		t.Run("at "+path, func(t *testing.T) {
			l, k := chromiumLife(t, path)
			browser, _ := l.bindingChromium(t.TempDir())
			tab := own(t, browser)
			l.bound(tab, k)
			l.rest(tab)
			mustDo(t, tab, "a link of another site", chromedp.Navigate("https://mail.example.net/link"),
				chromedp.Click(id("go")), chromedp.WaitVisible(page("account-apps")))
			l.rest(tab)
			l.landed(tab, "an answer by form_post", "https://app.example.net/start?response_mode=form_post", "signed in")
			l.rest(tab)
			l.landed(tab, "a frame of the same site", "https://app.example.com/frame", "signed in")

			tab = own(t, browser)
			l.bound(tab, k)
			mustDo(t, tab, "an application of an allowed origin", chromedp.Navigate("https://app.example.com/"))
			l.rest(tab)
			if got, err := chromedp.Run(tab,
				chromedp.Evaluate[int](`fetch("`+l.URL+`/api/me", {credentials: "include"}).then(r => r.status)`,
					chromedp.EvalAwaitPromise)); err != nil || got != http.StatusOK {
				t.Errorf("an allowed origin gets %d %v", got, err)
			}
			second, cancel := chromedp.NewContext(tab)
			defer cancel()
			mustDo(t, second, "a second tab", chromedp.Navigate(l.URL+"/account/apps"), chromedp.WaitVisible(page("account-apps")))
			l.rest(tab)
			atOnce(
				func() {
					mustDo(t, tab, "one tab", chromedp.Navigate(l.URL+"/account/profile"), chromedp.WaitVisible(page("account-profile")))
				},
				func() {
					mustDo(t, second, "the other", chromedp.Navigate(l.URL+"/account/devices"), chromedp.WaitVisible(page("account-devices")))
				},
			)
			if n := k.count("skipped"); n > 0 {
				t.Errorf("%d requests without a proof: %v", n, k.list)
			}
			// Sign out, and in again as somebody else.
			mustDo(t, tab, "sign out", chromedp.Navigate(l.URL+"/logout/"), chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")))
			l.rest(tab)
			mustDo(t, tab, "signed out", chromedp.Navigate(l.URL+"/account/"), chromedp.WaitVisible(page("login")))
		})
	}
}

// A browser that is closed, and a service that is restarted or down for a while.
func TestChromiumKeepsItsKey(t *testing.T) {
	another(t)
	l, k := chromiumLife(t, "")
	home := t.TempDir()
	tab, stop := l.bindingChromium(home)
	l.bound(tab, k)
	stop()
	l.later(14 * time.Hour)
	tab, _ = l.bindingChromium(home)
	expire(t, tab)
	mustDo(t, tab, "the next morning", chromedp.Navigate(l.URL+"/account/apps"), chromedp.WaitVisible(page("account-apps")))
	again := startService(t,
		serviceOptions{Store: l.store, Now: l.now, Settings: func(c *config.Settings) { c.Issuer = l.URL }})
	l.inner.Store(again.handler)
	l.rest(tab)
	mustDo(t, tab, "after a restart", chromedp.Navigate(l.URL+"/account/devices"), chromedp.WaitVisible(page("account-devices")))
	// While the service is down the browser skips, and comes back automatically.
	l.rest(tab)
	l.failing.Store(true)
	mustDo(t, tab, "down", chromedp.Navigate(l.URL+"/account/apps"))
	skipped := k.count("skipped")
	l.failing.Store(false)
	mustDo(t, tab, "up again", chromedp.Navigate(l.URL+"/account/apps"), chromedp.WaitVisible(page("account-apps")))
	t.Logf("while it was down: %d requests skipped the proof; %v", skipped, k.list)
	// The service answers pages, and only the proof fails: the page is loaded again until it works.
	l.rest(tab)
	fails := 2
	l.seen = func(r *http.Request) {
		k.watch(r)
		if strings.HasSuffix(r.URL.Path, "/refresh") && fails > 0 {
			fails--
			panic(http.ErrAbortHandler)
		}
	}
	mustDo(t, tab, "a proof is lost", chromedp.Navigate(l.URL+"/account/apps"), chromedp.WaitVisible(page("account-apps")))
	t.Logf("after lost proofs: %v", k.list)
}
