package httpd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/demoapp"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// chromium starts a headless browser for one test and gives a tab of it.
func chromium(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI needs Chromium: install the package chromium")
		}
		t.Skip("no Chromium here: install the package chromium to run the browser tests")
	}
	profile, err := os.MkdirTemp(testDir, "chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true))
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	browser, cancelBrowser := chromedp.NewContext(allocator)
	t.Cleanup(cancelBrowser)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	t.Cleanup(func() { _ = chromedp.Cancel(browser) }) // before the profile goes
	tab, cancelTab := context.WithTimeout(browser, 2*time.Minute)
	t.Cleanup(cancelTab)
	return tab
}

// startDemoApp serves the demo's application beside a service.
func startDemoApp(t *testing.T, s *service) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url = fmt.Sprintf("http://localhost:%d", l.Addr().(*net.TCPAddr).Port)
	secret := s.addClient("activity-demo", func(c *provider.Client) {
		c.Name, c.RequirePKCE = "Activity demo", true
		c.RedirectURIs, c.PostLogoutRedirectURIs = []string{url + "/callback"}, []string{url + "/"}
		c.BackchannelLogoutURI, c.BackchannelPrivate = url+"/backchannel-logout", true
	})
	app, err := demoapp.New(demoapp.Config{Issuer: s.URL, URL: url, ClientID: "activity-demo", ClientSecret: secret})
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(app.Handler(), slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _, _ = srv.Close(), app.Close() })
	return url
}

func mustDo(t *testing.T, ctx context.Context, what string, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		page, _ := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body")))
		t.Fatalf("%s: %v; the page says: %.500s", what, err, page)
	}
}

func id(name string) chromedp.CSS { return chromedp.CSS("#" + name) }

func field(name string) chromedp.CSS { return chromedp.CSS("input[name=" + name + "]") }

func page(name string) chromedp.CSS { return chromedp.CSS(`body[data-page="` + name + `"]`) }

// What a new member does, in a real browser: invite link, registration, sign
// out, the application, sign in, consent, and the application knows the name.
func TestNewMemberNeverFailsToReachTheApplication(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	app := startDemoApp(t, s)
	admin := s.addUser("keeper", account.FlagAdmin)
	invite, err := account.NewInvite(admin.Sub, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CreateInvite(t.Context(), invite, -1); err != nil {
		t.Fatal(err)
	}
	tab := chromium(t)
	mustDo(t, tab, "register", chromedp.Navigate(account.InviteURL(s.URL, invite)), chromedp.WaitVisible(page("register")),
		chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("display_name"), "Grace of the Hills"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("register-submit")), chromedp.WaitVisible(page("account")))
	shot(t, tab, "account")
	mustDo(t, tab, "sign out", chromedp.Navigate(s.URL+"/logout/"), chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")))
	mustDo(t, tab, "to the application and back to sign in", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")))
	shot(t, tab, "login")
	mustDo(t, tab, "wrong password", chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), "not my password"), chromedp.Click(id("login-submit")),
		chromedp.WaitVisible(chromedp.CSS("[role=alert]")))
	mustDo(t, tab, "sign in", chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("consent")))
	shot(t, tab, "consent")
	mustDo(t, tab, "consent", chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")))
	name, err := chromedp.Run(tab, chromedp.Text(id("demo-name")))
	if err != nil || name != "Grace of the Hills" {
		t.Errorf("the application knows %q: %v", name, err)
	}
	handle, err := chromedp.Run(tab, chromedp.Text(id("demo-cookie")))
	if err != nil || handle != "grace" {
		t.Errorf("the cookie says %q: %v", handle, err)
	}
	shot(t, tab, "demo")
}

// One button of the application signs out of both: its own session, and that at
// the service with its cookie.
func TestDemoSignsOutOfBoth(t *testing.T) {
	s := startService(t, serviceOptions{})
	app := startDemoApp(t, s)
	s.addUser("grace", account.FlagActivity)
	tab := chromium(t)
	mustDo(t, tab, "sign in to the application", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")),
		chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")),
		chromedp.WaitVisible(page("consent")), chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")), chromedp.WaitVisible(id("demo-cookie")))
	shot(t, tab, "demo-both")
	mustDo(t, tab, "sign out", chromedp.Click(id("demo-logout")), chromedp.WaitVisible(id("demo-login")), chromedp.WaitVisible(id("demo-cookie-reason")))
	shot(t, tab, "demo-signed-out")
	mustDo(t, tab, "the service knows nobody", chromedp.Navigate(s.URL+"/account/"), chromedp.WaitVisible(page("login")))
	// With the cookie alone, the service asks.
	mustDo(t, tab, "sign in to the service", chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")), chromedp.Navigate(app), chromedp.WaitVisible(id("demo-cookie")))
	mustDo(t, tab, "sign out of it", chromedp.Click(id("demo-logout")), chromedp.WaitVisible(page("logout")), chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")))
	if got := s.browser().get(app + "/favicon.svg"); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("favicon: %d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
}

// The session ends in another browser. The page of the application finds out by
// itself, by both ways: the logout token, and the list of sessions taken back.
func TestOpenWindowNeverGoesOnAfterTheSessionWasEndedElsewhere(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.StatusTTL = "1s" }})
	app := startDemoApp(t, s)
	s.addUser("grace", account.FlagActivity)
	tab := chromium(t)
	mustDo(t, tab, "sign in to the application", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")),
		chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")),
		chromedp.WaitVisible(page("consent")), chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")), chromedp.WaitVisible(id("demo-cookie")))
	shot(t, tab, "demo-signed-in")
	other := s.browser()
	other.signIn("grace")
	if got := other.api("POST", "/api/me/sessions/end-others", nil); got.StatusCode != http.StatusNoContent {
		t.Fatalf("end the others: %d", got.StatusCode)
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool]("window.same = true")); err != nil {
		t.Fatal(err)
	}
	mustDo(t, tab, "the window learns of it", chromedp.WaitVisible(id("demo-cookie-revoked")))
	if same, err := chromedp.Run(tab, chromedp.Evaluate[bool]("window.same === true")); err != nil || !same {
		t.Errorf("the page was loaded again: %v", err)
	}
	mustDo(t, tab, "and has no user any more", chromedp.Navigate(app), chromedp.WaitVisible(id("demo-ended")), chromedp.WaitVisible(id("demo-login")))
	shot(t, tab, "demo-ended")
}

// No page may need JavaScript, and none may scroll sideways on a small phone.
func TestPagesNeverScrollSidewaysAt320Pixels(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin, account.FlagActivity)
	s.addUser("a-member-with-a-very-long-name", account.FlagActivity)
	tab := chromium(t)
	mustDo(t, tab, "small screen without scripts", chromedp.EmulateViewport(320, 640))
	if _, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"), chromedp.SendKeys(field("handle"), "keeper"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")))
	if _, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/login/", "/register/", "/register/?code=AAAA", "/reset-password/", "/logout/", "/account/", "/admin/", "/admin/users/a-member-with-a-very-long-name", "/nowhere", "/oauth2/authorize?client_id=x"} {
		mustDo(t, tab, path, chromedp.Navigate(s.URL+path))
		wide, err := chromedp.Run(tab, chromedp.Evaluate[int]("document.documentElement.scrollWidth"))
		if err != nil || wide > 320 {
			t.Errorf("%s is %d pixels wide: %v", path, wide, err)
		}
		shot(t, tab, "320"+path)
	}
}

// shot writes a screenshot where CAIRN_SCREENSHOTS says, in light and dark.
func shot(t *testing.T, tab context.Context, name string) {
	t.Helper()
	dir := os.Getenv("CAIRN_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}, // else it shows colours half way
		}}
		if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, params); err != nil {
			t.Fatal(err)
		}
		png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, sanitize(name)+"-"+scheme+".png")
		if err := os.WriteFile(file, png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sanitize(name string) string {
	out := []rune(name)
	for i, r := range out {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			out[i] = '_'
		}
	}
	return string(out)
}
