package httpd

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
)

// pageAction is a form that a person sends, and the answer that has to be seen.
type pageAction struct {
	path   string
	open   string            // a details element to open first
	fill   map[string]string // values by selector
	tick   string            // a check box to click
	submit string            // selector of the button
	role   string            // of the answer: status or alert
	within string            // id of the section that it stands in
	says   string
}

func accountActions(session string) []pageAction {
	const page = "/account/"
	change := func(current, next string) map[string]string {
		return map[string]string{"#current_password": current, "#new_password": next}
	}
	return []pageAction{
		{page, "", map[string]string{"#display_name": "Ada Lovelace", "#email": "ada@example.org"}, "", "#profile-submit", "status", "profile", "Your profile is saved."},
		{page, "", map[string]string{"#display_name": strings.Repeat("x", 61)}, "", "#profile-submit", "alert", "profile", "1 to 60 characters"},
		{page, "", change("wrong", "eleven quiet lanterns"), "", "#password-submit", "alert", "password", "not right"},
		{page, "", change(password, "ada-ada-ada-ada"), "", "#password-submit", "alert", "password", "handle"},
		{page, "", nil, "", `[data-session="` + session + `"] button`, "status", "sessions", "The session has ended."},
		{page, "", nil, "", "#sessions-end-others", "status", "sessions", "All other sessions have ended."},
		{page, "", change(password, "eleven quiet lanterns"), "", "#password-submit", "status", "password", "Your password is changed."},
		{page, "", map[string]string{"#note": strings.Repeat("x", 300)}, "", "#invite-submit", "alert", "invites", "too long"},
		{page, "", map[string]string{"#note": "For Grace"}, "", "#invite-submit", "status", "invites", "The invite is ready."},
		{page, "", nil, "", "[data-invite] form button", "status", "invites", "The invite is deleted."},
		{page, "", nil, "", "[data-app] button", "status", "apps", "no longer has access"},
		{page, "#data summary", map[string]string{"#delete-password": "wrong"}, "", "#delete-submit", "alert", "data", "not right"},
		{page, "#data summary", map[string]string{"#delete-password": "eleven quiet lanterns"}, "", "#delete-submit", "", "", "Your account is deleted"},
	}
}

func adminActions(session string) []pageAction {
	const bob, self = "/admin/users/bob", "/admin/users/keeper"
	return []pageAction{
		{bob, "", map[string]string{"#display_name": "Bob the Second"}, "", "#profile-submit", "status", "profile", "The profile is saved."},
		{bob, "", map[string]string{"#display_name": strings.Repeat("x", 61)}, "", "#profile-submit", "alert", "profile", "1 to 60 characters"},
		{bob, "", nil, "#flag-0", "#flags-submit", "status", "access", "The access is saved."},
		{self, "", nil, "input[name=flag][value=admin]", "#flags-submit", "alert", "access", "last active administrator"},
		{bob, "", nil, "", "#reset-code-submit", "status", "password", "Give this to"},
		{bob, "", nil, "", `[data-session="` + session + `"] button`, "status", "sessions", "The session has ended."},
		{bob, "", nil, "", "#sessions-end", "status", "sessions", "All sessions have ended."},
		{bob, "", map[string]string{"#reason": strings.Repeat("x", 300)}, "", "#suspend-submit", "alert", "end", "too long"},
		{bob, "", map[string]string{"#reason": "spam"}, "", "#suspend-submit", "status", "end", "The account is suspended."},
		{bob, "", nil, "", "#unsuspend-submit", "status", "end", "The suspension is lifted."},
		{bob, "#end summary", map[string]string{"#confirm": "bo"}, "", "#delete-submit", "alert", "end", "Nothing was changed."},
		{bob, "#end summary", map[string]string{"#confirm": "bob"}, "", "#delete-submit", "status", "", "The account is deleted."},
	}
}

// Whatever a person does on these pages, the answer is on the screen when the
// page has loaded, in the section of the form, and a screen reader is told.
func TestAnswerToEachActionIsInView(t *testing.T) {
	for _, screen := range []struct {
		width, height int64
		scripts       bool
	}{{1280, 720, true}, {360, 640, true}, {360, 640, false}} {
		t.Run(fmt.Sprintf("%dx%d scripts=%t", screen.width, screen.height, screen.scripts), func(t *testing.T) {
			tab := chromium(t)
			s := startService(t, serviceOptions{})
			s.addUser("keeper", account.FlagAdmin)
			s.addUser("ada")
			s.addUser("bob")
			rp := s.relyingParty("app", s.addClient("app", nil))
			sessions := map[string]string{}
			for _, handle := range []string{"ada", "bob", "ada", "bob", "ada", "bob"} {
				b := s.browser()
				b.authorize(rp.authURL(), handle)
				sessions[handle] = b.api("GET", "/api/me", nil).JSON(t)["session"].(map[string]any)["id"].(string)
			}
			mustDo(t, tab, "screen", chromedp.EmulateViewport(screen.width, screen.height))
			for handle, actions := range map[string][]pageAction{"ada": accountActions(sessions["ada"]), "keeper": adminActions(sessions["bob"])} {
				if _, err := chromedp.Call(tab, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
					t.Fatal(err)
				}
				mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"),
					chromedp.SendKeys(field("handle"), handle), chromedp.SendKeys(field("password"), password), chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")))
				for _, a := range actions {
					sendAction(t, tab, s.URL, a, screen.scripts)
					checkAnswer(t, tab, a)
					shot(t, tab, fmt.Sprintf("%d-%s-%s-%s", screen.width, handle, a.within, a.submit))
				}
			}
		})
	}
}

func sendAction(t *testing.T, tab context.Context, base string, a pageAction, scripts bool) {
	t.Helper()
	script := func(on bool) {
		if _, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
			t.Fatal(err)
		}
	}
	mustDo(t, tab, a.path, chromedp.Navigate(base+a.path))
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
	if _, err := chromedp.RunResponse(tab, chromedp.Click(chromedp.CSS(a.submit))); err != nil {
		t.Fatalf("%s %s: %v", a.path, a.submit, err)
	}
}

// seen is what the page shows of an answer.
type seen struct {
	Text, Section, Focus     string
	Top, Bottom, Left, Right float64
	Width, Height            float64
	Answers, Wide            int
	IDs                      []string // that stand twice
}

const measure = `(() => {
	const role = %q, all = document.querySelectorAll(role === "" ? "h1" : "main [role=status], main [role=alert]");
	const el = role === "" ? all[0] : document.querySelector("main [role=" + role + "]");
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
	const r = el ? el.getBoundingClientRect() : {top: 0, bottom: 0, left: 0, right: 0};
	return {Text: el ? el.textContent : "", Section: el && el.closest("section") ? el.closest("section").id : "", Focus: document.activeElement.id,
		Top: r.top, Bottom: r.bottom, Left: r.left, Right: r.right, Width: innerWidth, Height: innerHeight,
		Answers: all.length, Wide: document.documentElement.scrollWidth, IDs: ids.filter((id, i) => ids.indexOf(id) !== i)};
})()`

func checkAnswer(t *testing.T, tab context.Context, a pageAction) {
	t.Helper()
	got, err := chromedp.Run(tab, chromedp.Evaluate[seen](fmt.Sprintf(measure, a.role)))
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

// A reset code is read aloud and typed on a phone: nothing of it may be cut off,
// neither where an administrator gets it nor where its owner enters it.
func TestResetCodeIsWholeAt360Pixels(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin)
	s.addUser("bob")
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
	if cut, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(e => e.value === "" || e.scrollWidth > e.clientWidth)(document.getElementById("code"))`)); err != nil || cut {
		t.Errorf("the code in the form is cut off: %v", err)
	}
	answer := s.browser().api("POST", "/api/auth/reset-password", map[string]string{"handle": "bob", "code": got.Code, "password": "eleven quiet lanterns"})
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the code as it is shown: %d %s", answer.StatusCode, answer.Text)
	}
}

// The form is longer than a phone: what is wrong stands at the field where the page opens.
func TestRefusedRegistrationShowsWhyAt360Pixels(t *testing.T) {
	s := startService(t, serviceOptions{})
	admin := s.addUser("keeper", account.FlagAdmin)
	invite, err := account.NewInvite(admin.Sub, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.CreateInvite(t.Context(), invite, -1); err != nil {
		t.Fatal(err)
	}
	tab := chromium(t)
	for name, typed := range map[string][2]string{"handle": {"keeper", "eleven quiet lanterns"}, "password": {"grace", "grace-grace-grace"}} {
		mustDo(t, tab, "register", chromedp.EmulateViewport(360, 640), chromedp.Navigate(account.InviteURL(s.URL, invite)), chromedp.SetValue(field("handle"), typed[0]), chromedp.SetValue(field("password"), typed[1]))
		if _, err := chromedp.RunResponse(tab, chromedp.Click(id("register-submit"))); err != nil {
			t.Fatal(err)
		}
		// Chromium scrolls to the field with the focus some time after it has read the page.
		inView := `(e => e !== null && e.getBoundingClientRect().top >= 0 && e.getBoundingClientRect().bottom <= innerHeight)(document.getElementById("` + name + `-error"))`
		if _, err := chromedp.Run(tab, chromedp.Poll[bool](inView, chromedp.WithPollingTimeout(10*time.Second))); err != nil {
			t.Errorf("the error of %s is not in view: %v", name, err)
		}
	}
}
