package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	accounttext "github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/cmd/cairn/internal/demoapp"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/templates"
)

// browserProcess is one Chromium for all tests; TestMain stops it. Its shell without a window works for a page
// with a third of the processor time of the whole browser.
var browserProcess struct {
	sync.Once
	browser context.Context
	err     error
	stop    func()
}

func startChromium() {
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	if browserProcess.err = err; err != nil {
		return
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(filepath.Join(testDir, "chromium")), chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update",
			true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	browser, cancelBrowser := chromedp.NewContext(allocator)
	browserProcess.browser, browserProcess.err = browser, chromedp.Do(browser)
	browserProcess.stop = func() { _ = chromedp.Cancel(browser); cancelBrowser(); cancel() }
}

// chromium gives a tab with cookies of its own, for fifteen minutes: startService, which waits for its
// turn beside others, comes before it.
func chromium(t *testing.T) context.Context {
	t.Helper()
	foreign(t)
	browserProcess.Do(startChromium)
	if errors.Is(browserProcess.err, exec.ErrNotFound) && os.Getenv("CI") != "true" {
		t.Skip("no Chromium here: install the package chromium to run the browser tests")
	}
	noError(t, browserProcess.err)
	tab, cancel := chromedp.NewContext(browserProcess.browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	tab, cancelTab := context.WithTimeout(tab, 15*time.Minute)
	t.Cleanup(cancelTab)
	return tab
}

// signInAs fills in the sign-in form of the page and waits for the next page.
func signInAs(t *testing.T, tab context.Context, handle, password, next string) {
	t.Helper()
	mustDo(t, tab, "sign in", chromedp.SendKeys(field("handle"), handle), chromedp.SendKeys(field("password"),
		password), chromedp.Click(id("login-submit")), chromedp.WaitVisible(page(next)))
}

// signOutIn signs out on the page for it.
func signOutIn(t *testing.T, tab context.Context, s *service) {
	t.Helper()
	mustDo(t, tab, "sign out", chromedp.Navigate(s.URL+"/logout/"), chromedp.Click(id("logout-confirm")),
		chromedp.WaitVisible(page("signed-out")))
}

// startDemoApp serves the demo's application beside a service.
func startDemoApp(t *testing.T, s *service) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	url = fmt.Sprintf("http://localhost:%d", l.Addr().(*net.TCPAddr).Port)
	secret := s.addClient("activity-demo", func(c *provider.Client) {
		c.Name, c.RequirePKCE = "Activity demo", true
		c.RedirectURIs, c.PostLogoutRedirectURIs = []string{url + "/callback"}, []string{url + "/"}
		c.BackchannelLogoutURI, c.BackchannelPrivate = url+"/backchannel-logout", true
	})
	app, err := demoapp.New(demoapp.Config{Issuer: s.URL, URL: url, ClientID: "activity-demo", ClientSecret: secret, Owner: "grace", Activities: sampleActivities})
	noError(t, err)
	srv := NewServer(app.Handler(), slog.New(slog.DiscardHandler))
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _, _ = srv.Close(), app.Close() })
	return url
}

// mustDo does the actions in turn. What is still waited for after two minutes is said in the log.
func mustDo(t *testing.T, ctx context.Context, what string, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	slow := time.AfterFunc(2*time.Minute, func() {
		at, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + " " + document.body.innerText`))
		t.Logf("%s: still waiting at %.700s", what, at)
	})
	defer slow.Stop()
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
func TestNewMemberReachesTheApplication(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	app := startDemoApp(t, s)
	admin := s.addUser("keeper", account.FlagAdmin)
	invite, err := account.NewInvite(admin.Sub, "", time.Now())
	noError(t, err)
	noError(t, s.store.CreateInvite(t.Context(), invite, -1, account.Operator().Audit(time.Now(), account.CreateInvite, "", "")))
	tab := chromium(t)
	mustDo(t, tab, "register", chromedp.Navigate(account.InviteURL(s.URL, invite)), chromedp.WaitVisible(page("register")),
		chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("display_name"), "Grace of the Hills"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("register-submit")), chromedp.WaitVisible(page("account-welcome")), chromedp.Navigate(s.URL+"/account/profile"), chromedp.WaitVisible(page("account-profile")))
	shot(t, tab, "account")
	zones, err := chromedp.Run(tab, chromedp.Evaluate[[]string](`[...document.getElementById("zoneinfo").list.options].map(o => o.value)`))
	if err != nil || len(zones) < 300 || !slices.Contains(zones, "Asia/Kolkata") || slices.Contains(zones, "Asia/Calcutta") {
		t.Errorf("%d time zones are offered: %v", len(zones), err)
	}
	for _, zone := range zones {
		_, refusal := accounttext.Zoneinfo(zone)
		same(t, fmt.Sprintf("%s is offered", zone), refusal.Text, "")
	}
	signOutIn(t, tab, s)
	mustDo(t, tab, "to the application and back to sign in", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")))
	shot(t, tab, "login")
	mustDo(t, tab, "wrong password", chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"),
		"not my password"), chromedp.Click(id("login-submit")),
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
	thirdParty(t)
	s := startService(t, serviceOptions{})
	app := startDemoApp(t, s)
	s.addUser("grace", account.FlagActivity)
	tab := chromium(t)
	mustDo(t, tab, "sign in to the application", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")),
		chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")),
		chromedp.WaitVisible(page("consent")), chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")), chromedp.WaitVisible(id("demo-cookie")))
	shot(t, tab, "demo-both")
	mustDo(t, tab, "own activities", chromedp.Click(id("demo-activities")), chromedp.WaitVisible(id("private-walk")), chromedp.Navigate(app))
	if got := s.browser().get(app + "/activities"); !strings.Contains(got.Text, `id="public-ride"`) || strings.Contains(got.Text, "private-walk") {
		t.Errorf("a visitor sees %.300s", mainOf(got.Text))
	}
	mustDo(t, tab, "sign out", chromedp.Click(id("demo-logout")), chromedp.WaitVisible(id("demo-login")), chromedp.WaitVisible(id("demo-cookie-reason")))
	shot(t, tab, "demo-signed-out")
	mustDo(t, tab, "the service knows nobody", chromedp.Navigate(s.URL+"/account/"), chromedp.WaitVisible(page("login")))
	// With the cookie alone, the service asks.
	mustDo(t, tab, "sign in to the service", chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")), chromedp.Navigate(app), chromedp.WaitVisible(id("demo-cookie")))
	mustDo(t, tab, "see the sessions", chromedp.Click(id("demo-sessions")), chromedp.WaitVisible(page("account-devices")), chromedp.Navigate(app))
	mustDo(t, tab, "sign out of it", chromedp.Click(id("demo-logout")), chromedp.WaitVisible(page("logout")),
		chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")))
	if got := s.browser().get(app + "/favicon.svg"); got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("favicon: %d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
}

// The session ends in another browser. The page of the application finds out by
// itself, by both ways: the logout token, and the list of revoked sessions.
func TestOpenWindowLearnsOfTheEndedSession(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.StatusTTL = "1s" }})
	app := startDemoApp(t, s)
	s.addUser("grace", account.FlagActivity)
	tab := chromium(t)
	mustDo(t, tab, "sign in to the application", chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")),
		chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")),
		chromedp.WaitVisible(page("consent")), chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")), chromedp.WaitVisible(id("demo-cookie")))
	shot(t, tab, "demo-signed-in")
	other := s.signedIn("grace")
	needStatus(t, "end the others", other.api("POST", "/api/me/sessions/end-others", nil), http.StatusNoContent)
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
		noError(t, err)
		file := filepath.Join(dir, sanitize(name)+"-"+scheme+".png")
		noError(t, os.WriteFile(file, png, 0o644))
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

// pageAction is a form that a person sends, and the answer that has to be seen.
type pageAction struct {
	path   string
	open   string            // a details element to open first
	fill   map[string]string // values by selector
	tick   string            // a check box to click
	submit string            // selector of the button, and after "then" of what to click on the page with its question
	role   string            // of the answer: status or alert
	within string            // id of the section that it stands in
	says   string
}

func accountActions(session string) []pageAction {
	const profile, security, devices, invites, apps, data = "/account/profile", "/account/security", "/account/devices", "/account/invites", "/account/apps", "/account/data"
	change := func(current, next string) map[string]string {
		return map[string]string{"#current_password": current, "#new_password": next}
	}
	return []pageAction{
		{
			profile, "", map[string]string{"#display_name": "Ada Lovelace", "#email": "ada@example.org"}, "#keep_other_sessions",
			"#profile-submit", "status", "profile", "Your profile is saved.",
		},
		{profile, "", map[string]string{"#display_name": strings.Repeat("x", 61)}, "", "#profile-submit", "alert", "profile", "60 characters"},
		{security, "", change("wrong", "eleven quiet lanterns"), "", "#password-submit", "alert", "password", "is incorrect"},
		{security, "", change(password, "ada-ada-ada-ada"), "", "#password-submit", "alert", "password", "user name"},
		{devices, "", nil, "", `[data-session="` + session + `"] button`, "status", "sessions",
			"The device is signed out."},
		{devices, "", nil, "", "#sessions-end-others then #keep_app-0 then #confirm-submit", "status", "sessions",
			"You are signed out everywhere else."},
		{apps, "", nil, "", "[data-app] button", "status", "apps", "no longer has access"},
		{security, "", change(password, "eleven quiet lanterns"), "", "#password-submit", "status", "password", "Your password is changed."},
		{invites, "", map[string]string{"#note": strings.Repeat("x", 300)}, "", "#invite-submit", "alert", "invites", "too long"},
		{invites, "", map[string]string{"#note": "For Grace"}, "", "#invite-submit", "status", "invites", "The invite is ready."},
		{invites, "", nil, "", "[data-invite] form button", "status", "invites", "The invite is deleted."},
		{data, "#data summary", map[string]string{"#delete-password": "wrong"}, "", "#delete-submit", "alert", "data", "is incorrect"},
		{data, "#data summary", map[string]string{"#delete-password": "eleven quiet lanterns"}, "", "#delete-submit", "", "", "Your account is deleted"},
	}
}

func adminActions(session string) []pageAction {
	const bob, self = "/admin/users/bob", "/admin/users/keeper"
	return []pageAction{
		{bob, "", map[string]string{"#display_name": "Bob the Second"}, "", "#profile-submit", "status", "profile", "The profile is saved."},
		{bob, "", map[string]string{"#display_name": strings.Repeat("x", 61)}, "", "#profile-submit", "alert", "profile", "1 to 60 characters"},
		{bob, "", nil, "#flag-0", "#flags-submit", "status", "access", "The access is saved."},
		{self, "", nil, "input[name=flag][value=admin]", "#flags-submit", "alert", "access", "last active administrator"},
		{bob, "", nil, "", "#reset-code-submit", "status", "password", "Give this code to"},
		{bob, "", nil, "", `[data-session="` + session + `"] button`, "status", "sessions",
			"The device is signed out."},
		{bob, "", nil, "", "#sessions-end", "status", "sessions", "The person is signed out everywhere."},
		{bob, "", map[string]string{"#reason": strings.Repeat("x", 300)}, "", "#suspend-submit", "alert", "end", "too long"},
		{bob, "", map[string]string{"#reason": "spam"}, "", "#suspend-submit then #confirm-submit", "status", "end", "The account is suspended and signed out everywhere."},
		{bob, "", nil, "", "#unsuspend-submit", "status", "end", "The suspension is lifted."},
		{bob, "#end summary", map[string]string{"#confirm": "bo"}, "", "#delete-submit", "alert", "end", "Nothing was changed."},
		{bob, "#end summary", map[string]string{"#confirm": "bob"}, "", "#delete-submit", "status", "", "The account is deleted."},
	}
}

// Whatever a person does on these pages, the answer is on the screen when the
// page has loaded, in the section of the form, and a screen reader is told. Every other action is
// sent without scripts.
func TestAnswerToEachActionIsInView(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{})
	tab := chromium(t)
	s.addUser("keeper", account.FlagAdmin)
	s.addUser("ada")
	s.addUser("bob")
	rp := s.app("app", nil)
	sessions := map[string]string{}
	for _, handle := range []string{"ada", "bob", "ada", "bob"} {
		b := s.browser()
		b.authorize(rp.authURL(), handle)
		sessions[handle] = b.api("GET", "/api/me", nil).JSON(t)["session"].(map[string]any)["id"].(string)
	}
	mustDo(t, tab, "screen", chromedp.EmulateViewport(360, 640))
	for handle, actions := range map[string][]pageAction{"ada": accountActions(sessions["ada"]), "keeper": adminActions(sessions["bob"])} {
		_, err := chromedp.Call(tab, network.ClearBrowserCookies, cdp.Empty{})
		noError(t, err)
		mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"),
			chromedp.SendKeys(field("handle"), handle), chromedp.SendKeys(field("password"),
				password), chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")))
		for i, a := range actions {
			sendAction(t, tab, s.URL, a, i%2 == 0)
			checkAnswer(t, tab, a, i%2 == 0)
			shot(t, tab, fmt.Sprintf("%s-%s-%s", handle, a.within, a.submit))
		}
	}
}

func sendAction(t *testing.T, tab context.Context, base string, a pageAction, scripts bool) {
	t.Helper()
	script := func(on bool) {
		if _, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
			t.Fatal(err)
		}
	}
	at := a.path
	if strings.HasPrefix(at, "/admin/") {
		card, _, _ := strings.Cut(a.open, " ")
		at += cmp.Or(card, "#"+a.within) // its tab
	}
	mustDo(t, tab, a.path, chromedp.Navigate(base+at))
	for selector, value := range a.fill {
		mustDo(t, tab, selector, chromedp.SetValue(chromedp.CSS(selector), value))
	}
	for _, selector := range []string{a.open, a.tick} {
		if selector != "" {
			mustDo(t, tab, selector, chromedp.Click(chromedp.CSS(selector)))
		}
	}
	script(scripts)
	defer script(true)
	for _, button := range strings.Split(a.submit, " then ") {
		if strings.HasPrefix(button, "#keep") { // a box
			mustDo(t, tab, button, chromedp.Click(chromedp.CSS(button)))
			continue
		}
		if _, err := chromedp.RunResponse(tab, chromedp.Click(chromedp.CSS(button))); err != nil {
			t.Fatalf("%s %s: %v", a.path, button, err)
		}
	}
	if a.path == "/account/apps" { // asks first
		mustDo(t, tab, "sure", chromedp.WaitVisible(id("question")))
		if _, err := chromedp.RunResponse(tab, chromedp.Click(id("confirm-submit"))); err != nil {
			t.Fatal(err)
		}
	}
}

// seen is an answer as the page shows it.
type seen struct {
	Text, Section, Focus     string
	Top, Bottom, Left, Right float64
	Width, Height            float64
	Answers, Wide            int
	IDs                      []string // that stand twice
}

// An error stands at its field, where there is one. A script leads there; without, the page opens at the box that counts.
const measure = `(() => {
	const role = %q, all = document.querySelectorAll(role === "" ? "h1" : "main [role=status], main [role=alert]");
	const box = role === "" ? all[0] : document.querySelector("main [role=" + role + "]");
	const home = box ? box.closest("section[id], div[id]:not([data-answer])") : null;
	const said = home && role === "alert" && home.querySelector(".field-error") || box, el = %t ? said : box;
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
	const r = el ? el.getBoundingClientRect() : {top: 0, bottom: 0, left: 0, right: 0};
	return {Text: said ? said.textContent : "", Section: home ? home.id : "", Focus: document.activeElement.id,
		Top: r.top, Bottom: r.bottom, Left: r.left, Right: r.right, Width: innerWidth, Height: innerHeight,
		Answers: all.length, Wide: document.documentElement.scrollWidth, IDs: ids.filter((id, i) => ids.indexOf(id) !== i)};
})()`

func checkAnswer(t *testing.T, tab context.Context, a pageAction, scripts bool) {
	t.Helper()
	got, err := chromedp.Run(tab, chromedp.Evaluate[seen](fmt.Sprintf(measure, a.role, scripts)))
	if err != nil {
		t.Fatalf("%s %s: %v", a.path, a.submit, err)
	}
	if !strings.Contains(got.Text, a.says) || got.Section != a.within || got.Answers != 1 {
		t.Errorf("%s %s: want %q in %q, got %q in %q, %d answers", a.path, a.submit, a.says, a.within, got.Text, got.Section, got.Answers)
	}
	if got.Top < 0 || got.Bottom > got.Height || got.Left < 0 || got.Right > got.Width || got.Top == got.Bottom {
		t.Errorf("%s %s: %q is not in view: %+v", a.path, a.submit, a.says, got)
	}
	if len(got.IDs) > 0 || float64(got.Wide) > got.Width {
		t.Errorf("%s %s: ids that stand twice: %q; %d pixels wide", a.path, a.submit, got.IDs, got.Wide)
	}
}

// A second click on a button sends the form no second time, while the answer is on its way.
func TestSecondClickSendsNothing(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{})
	s.addUser("keeper")
	tab := chromium(t)
	mustDo(t, tab, "page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "keeper", password, "account")
	stopped, err := chromedp.Run(tab, chromedp.Evaluate[[]bool](`(() => {
		const stopped = [], form = document.getElementById("sign-out");
		addEventListener("submit", event => stopped.push(event.defaultPrevented));
		form.requestSubmit();
		form.requestSubmit();
		return stopped;
	})()`))
	if err != nil || !slices.Equal(stopped, []bool{false, true}) {
		t.Errorf("%v: %v", stopped, err)
	}
	mustDo(t, tab, "sent once", chromedp.WaitVisible(page("signed-out")))
}

// The name of the club is whole beside the links of an administrator, in each language, in three lines at most.
func TestClubsNameIsWholeOnAPhone(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin)
	tab := chromium(t)
	mustDo(t, tab, "sign in", chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "keeper", password, "account")
	bad, err := chromedp.Run(tab, chromedp.Evaluate[[]string](fmt.Sprintf(`(async () => {
		const bad = [];
		for (const tag of %s) {
			const got = await fetch(location.href, {headers: {"Accept-Language": tag}}), page = new DOMParser().parseFromString(await got.text(), "text/html");
			for (const name of ["TSV Neustadt", "Lauftreffgemeinschaft", "TSV Neustadt an der Weinstraße 1862 e. V."]) {
				const brand = page.querySelector(".brand");
				brand.classList.toggle("long", name.length > 18);
				brand.querySelector("bdi").textContent = name;
				document.querySelector(".top").replaceWith(page.querySelector(".top").cloneNode(true));
				const bdi = document.querySelector(".brand bdi"), text = document.createRange(), box = bdi.getBoundingClientRect();
				text.selectNodeContents(bdi);
				const words = text.getBoundingClientRect();
				if (words.height > box.height + 1 || words.right > box.right + 1 || box.width < 30 || box.height > 52 || document.documentElement.scrollWidth > 390) bad.push(page.documentElement.lang + ": " + name);
			}
		}
		return bad;
	})()`, mustJSON(t, templates.LanguageTags())), chromedp.EvalAwaitPromise))
	if err != nil || len(bad) > 0 {
		t.Errorf("%q: %v", bad, err)
	}
}

// A reset code is read aloud and typed on a phone: nothing of it may be cut off,
// neither where an administrator gets it nor where its owner enters it.
func TestResetCodeIsWholeAt360Pixels(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{}, "bob")
	s.addUser("keeper", account.FlagAdmin)
	tab := chromium(t)
	mustDo(t, tab, "sign in", chromedp.EmulateViewport(360, 640), chromedp.Navigate(s.URL+"/login/"), chromedp.SendKeys(field("handle"), "keeper"),
		chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")))
	mustDo(t, tab, "make a code", chromedp.Navigate(s.URL+"/admin/users/bob"), chromedp.Click(id("reset-code-submit")), chromedp.WaitVisible(id("reset-code")))
	type shown struct {
		Code, Copy, Link string
		Cut              bool
	}
	got, err := chromedp.Run(tab, chromedp.Evaluate[shown](`(() => {
		const code = document.getElementById("reset-code"), box = code.getBoundingClientRect();
		return {Code: code.textContent, Copy: document.querySelector("#reset-code ~ [data-copy]").dataset.copy, Link: document.getElementById("reset-url").textContent,
			Cut: box.left < 0 || box.right > innerWidth || document.documentElement.scrollWidth > innerWidth};
	})()`))
	if err != nil || got.Cut || got.Copy != got.Code || !regexp.MustCompile(`^([0-9A-Z]{4}-){6}[0-9A-Z]{2}$`).MatchString(got.Code) {
		t.Errorf("%+v: %v", got, err)
	}
	mustDo(t, tab, "its link", chromedp.Navigate(got.Link))
	if missing, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.querySelector("#reset input[name=code]").value === ""`)); err != nil || missing {
		t.Errorf("the link does not bring the code: %v", err)
	}
	mustDo(t, tab, "without the link", chromedp.Navigate(s.URL+"/reset-password/"), chromedp.SendKeys(field("code"), strings.ReplaceAll(got.Code, "-", "")))
	if cut, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(e => e.value.length < 26 || e.scrollWidth > e.clientWidth || document.documentElement.scrollWidth > innerWidth)(document.getElementById("code"))`)); err != nil || cut {
		t.Errorf("the typed code is cut off: %v", err)
	}
	answer := s.browser().api("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": got.Code, "password": "eleven quiet lanterns"})
	same(t, fmt.Sprintf("the code as it is shown: %s", answer.Text), answer.StatusCode, http.StatusOK)
}

// The form is longer than a phone: what is wrong stands at the field where the page opens.
func TestRefusedRegistrationShowsWhyAt360Pixels(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{})
	admin := s.addUser("keeper", account.FlagAdmin)
	invite, err := account.NewInvite(admin.Sub, "", time.Now())
	noError(t, err)
	noError(t, s.store.CreateInvite(t.Context(), invite, -1, account.Operator().Audit(time.Now(), account.CreateInvite, "", "")))
	tab := chromium(t)
	for name, typed := range map[string][2]string{"handle": {"keeper", "eleven quiet lanterns"}, "password": {"grace", "grace-grace-grace"}} {
		mustDo(t, tab, "register", chromedp.EmulateViewport(360, 640),
			chromedp.Navigate(account.InviteURL(s.URL, invite)), chromedp.SetValue(field("handle"),
				typed[0]), chromedp.SetValue(field("password"), typed[1]))
		if _, err := chromedp.RunResponse(tab, chromedp.Click(id("register-submit"))); err != nil {
			t.Fatal(err)
		}
		// Chromium scrolls to the field with the focus some time after it has read the page.
		inView := `(e => e !== null && e.getBoundingClientRect().top >= 0 && e.getBoundingClientRect().bottom <= innerHeight)(document.getElementById("` + name + `-error"))`
		if _, err := chromedp.Run(tab,
			chromedp.Poll[bool](inView, chromedp.WithPollingTimeout(10*time.Second))); err != nil {
			t.Errorf("the error of %s is not in view: %v", name, err)
		}
	}
}

// Engines that know no more than ES2015 run every script of the pages, the
// demo's included: what they cannot parse they do not run at all.
func TestScriptsAreES2015(t *testing.T) {
	command := nodeScript(t, "es2015.mjs", "acorn")
	s := startService(t, serviceOptions{Program: someProgram})
	s.addUser("keeper", account.FlagAdmin, account.FlagActivity)
	s.addClient("app", nil)
	demo := startDemoApp(t, s)
	b := s.browser()
	texts := []string{b.get("/login/").Text, b.get("/oauth2/authorize?client_id=app&response_type=code&prompt=none&scope=openid&response_mode=form_post&redirect_uri=" + callbackOf("app")).Text}
	b.signIn("keeper")
	for _, path := range []string{"/account/", "/account/profile", "/account/security", "/account/invites", "/account/publish/", "/admin/", "/admin/users/keeper", demo} {
		texts = append(texts, b.get(path).Text)
	}
	dir, seen := t.TempDir(), map[string]bool{}
	for i, text := range texts {
		doc, err := html.Parse(strings.NewReader(text))
		noError(t, err)
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
			noError(t, os.WriteFile(path, []byte(script), 0o600))
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
	s := startService(t, serviceOptions{}, "ada")
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
	if _, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument,
		cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: broken}); err != nil {
		t.Fatal(err)
	}
	mustDo(t, tab, "an answer by form_post", chromedp.Navigate(s.URL+"/oauth2/authorize?client_id=app&response_type=code&prompt=none&scope=openid&response_mode=form_post&redirect_uri="+callback),
		chromedp.WaitVisible(id("landed")))
	if got, err := chromedp.Run(tab, chromedp.Text(id("landed"))); err != nil || got != "login_required" {
		t.Errorf("the application got %q: %v", got, err)
	}
	mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"), chromedp.SendKeys(field("handle"), "ada"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")),
		chromedp.Navigate(s.URL+"/account/security"), chromedp.SendKeys(field("current_password"), "shown"), chromedp.Click(chromedp.CSS(`[data-reveal=current_password]`)))
	if kind, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.getElementById("current_password").type`)); err != nil || kind != "text" {
		t.Errorf("after Show the field is of type %q: %v", kind, err)
	}
}

// A browser that found the service busy sends what was typed once more, without anybody's doing.
func TestBusySignInIsTriedAgain(t *testing.T) {
	h, g, open := gated(t)
	defer open()
	s := startService(t, serviceOptions{Hasher: h})
	go func() { g.next <- struct{}{} }()
	s.addUser("ada")
	tab := chromium(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range passwords.HashSlots() + 128 { // as many as may wait for an account
		go func() {
			if done, err := h.Enter(ctx, "ada"); err == nil {
				done()
			}
		}()
	}
	for waiting := 0; waiting < 128; waiting, _ = h.Queue() {
		time.Sleep(time.Millisecond)
	}
	mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"), chromedp.SendKeys(field("handle"), "ada"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(chromedp.CSS("form[data-again] p")))
	open()
	mustDo(t, tab, "a few seconds later", chromedp.WaitVisible(page("account")))
}
