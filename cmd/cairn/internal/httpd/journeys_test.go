package httpd

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/provider"
)

func textOf(t *testing.T, tab context.Context, at chromedp.CSS) string {
	t.Helper()
	got, err := chromedp.Run(tab, chromedp.Text(at))
	noError(t, err)
	return strings.TrimSpace(got)
}

func signOut(t *testing.T, tab context.Context, s *service) {
	t.Helper()
	signOutIn(t, tab, s)
}

// join registers somebody by the link of an invite.
func join(t *testing.T, tab context.Context, link, handle string) {
	t.Helper()
	mustDo(t, tab, "register", chromedp.Navigate(link), chromedp.WaitVisible(page("register")), chromedp.SendKeys(field("handle"), handle),
		chromedp.SendKeys(field("password"), password), chromedp.Click(id("register-submit")), chromedp.WaitVisible(page("account-welcome")))
}

// An invite, a registration, a passkey, and an application that asks for one and learns how it was.
func TestNewMemberSignsInToAnApplicationWithAPasskey(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	keeper := s.addUser("keeper", account.FlagAdmin)
	invite, err := account.NewInvite(keeper.Sub, "", time.Now())
	noError(t, err)
	noError(t, s.store.CreateInvite(t.Context(), invite, -1, account.Operator().Audit(time.Now(), account.CreateInvite, "", "")))
	codes := make(chan string, 1)
	album := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := r.URL.Query().Get("code"); code != "" {
			codes <- code
		}
		_, _ = io.WriteString(w, `<p id="done">signed in</p>`)
	}))
	t.Cleanup(album.Close)
	rp := s.app("album", func(c *provider.Client) { c.RedirectURIs, c.RequireACR = []string{album.URL + "/callback"}, "phr" })
	rp.config.RedirectURL = album.URL + "/callback"

	tab := chromium(t)
	virtualAuthenticator(t, tab)
	join(t, tab, account.InviteURL(s.URL, invite), "grace")
	mustDo(t, tab, "the application wants a passkey", chromedp.Navigate(rp.authURL("acr_values", "phr")), chromedp.WaitVisible(id("demand-application")))
	shot(t, tab, "security-demand")
	mustDo(t, tab, "add a passkey", chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("consent")))
	withoutList(t, tab)
	signOut(t, tab, s)
	mustDo(t, tab, "sign in", chromedp.Navigate(rp.authURL("acr_values", "phr")), chromedp.WaitVisible(page("login")),
		chromedp.WaitVisible(id("passkey-submit")), chromedp.Click(id("passkey-submit")))
	mustDo(t, tab, "allow", chromedp.WaitVisible(page("consent")), chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("done")))
	token, err := rp.exchange(<-codes)
	noError(t, err)
	claims := jwtPayload(t, rawIDToken(token))
	if amr := mustJSON(t, claims["amr"]); claims["acr"] != "phr" || !strings.Contains(amr, `"user"`) ||
		!strings.Contains(amr, `"mfa"`) || !strings.Contains(amr, `wk"`) || strings.Contains(amr, "pwd") {
		t.Errorf("acr %v, amr %s", claims["acr"], amr)
	}
	same(t, claims, claims["preferred_username"], "grace")
}

// After init nobody needs the terminal: the name, colour, picture and flags of the club, a person who is added, one who is invited, and one who is suspended.
func TestAdministratorSetsUpAClubInTheBrowser(t *testing.T) {
	thirdParty(t)
	p := newInstalled(t, false, "")
	p.serve()
	var logo bytes.Buffer
	square := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for i := range 64 {
		square.Set(i, i, color.RGBA{R: 200, A: 255})
	}
	noError(t, png.Encode(&logo, square))
	file := filepath.Join(t.TempDir(), "club.png")
	noError(t, os.WriteFile(file, logo.Bytes(), 0o600))

	tab, other := chromium(t), chromium(t)
	mustDo(t, tab, "sign-in page", chromedp.Navigate(p.URL+"/login/"))
	signInAs(t, tab, "keeper", password, "admin")
	mustDo(t, tab, "settings", chromedp.Click(chromedp.CSS(`.menu a[href="/admin/settings"]`)), chromedp.WaitVisible(page("admin-settings")))
	notice := func(section string) chromedp.CSS { return chromedp.CSS("#" + section + " [role=status]") }
	mustDo(t, tab, "general", chromedp.SetValue(id("instance_name"), "Rowing Club"),
		chromedp.SetValue(id("accent_colour"), "#7a1f2b"), chromedp.SetValue(id("contact"), "harbour@example.org"),
		chromedp.Click(id("general-submit")), chromedp.WaitVisible(notice("general")))
	mustDo(t, tab, "picture", chromedp.SetUploadFiles(id("logo-file"), []string{file}), chromedp.Click(id("logo-submit")), chromedp.WaitVisible(notice("logo")), chromedp.WaitVisible(chromedp.CSS("header img.logo")))
	mustDo(t, tab, "flag", chromedp.Click(chromedp.CSS(`.tabs > nav a[href="#flags"]`)),
		chromedp.SetValue(id("new_flag"), "boats"), chromedp.SetValue(id("new_description"),
			"Takes boats out"), chromedp.Click(id("flags-submit")), chromedp.WaitVisible(notice("flags")))
	shot(t, tab, "club-settings")

	mustDo(t, tab, "people", chromedp.Click(chromedp.CSS(`.menu a[href="/admin/users/"]`)),
		chromedp.WaitVisible(page("admin-users")), chromedp.Click(chromedp.CSS("#add summary")),
		chromedp.SetValue(id("new-handle"),
			"bob"), chromedp.Click(chromedp.CSS(`#add input[value=boats]`)), chromedp.Click(id("add-submit")), chromedp.WaitVisible(id("reset-url")))
	mustDo(t, other, "the added person", chromedp.Navigate(textOf(t, tab, id("reset-url"))),
		chromedp.WaitVisible(page("reset-password")), chromedp.SendKeys(field("password"),
			password), chromedp.Click(id("reset-submit")),
		chromedp.WaitVisible(page("account-welcome")))
	same(t, "the club is called", textOf(t, other, chromedp.CSS(".brand")), "Rowing Club")
	signOut(t, other, p.service)

	mustDo(t, tab, "invite", chromedp.Navigate(p.URL+"/account/invites"), chromedp.Click(id("invite-submit")),
		chromedp.WaitVisible(chromedp.CSS("[data-invite] .link-text")))
	join(t, other, textOf(t, tab, chromedp.CSS("[data-invite] .link-text")), "grace")
	mustDo(t, tab, "suspend", chromedp.Navigate(p.URL+"/admin/users/grace#end"),
		chromedp.SendKeys(id("reason"), "until spring"), chromedp.Click(id("suspend-submit")), chromedp.Click(id("confirm-submit")), chromedp.WaitVisible(notice("end")))
	mustDo(t, other, "signed out", chromedp.Navigate(p.URL+"/account/"), chromedp.WaitVisible(page("login")))
	mustDo(t, tab, "audit log", chromedp.Click(chromedp.CSS(`.menu a[href="/admin/audit"]`)), chromedp.WaitVisible(page("admin-audit")))
	log := textOf(t, tab, id("audit"))
	for _, action := range []string{"user.suspend", "user.create", "settings"} {
		has(t, "the audit log lacks", log, action)
	}
}

// The phone with the authenticator app is lost, and the recovery codes with it.
func TestLostPhone(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{})
	s.addUser("keeper", account.FlagAdmin)
	mia := s.joined("mia")
	mia.addAuthenticatorApp()
	tab, other := chromium(t), chromium(t)
	mustDo(t, other, "the password is not enough", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, other, "mia", password, "second-factor")
	mustDo(t, tab, "sign-in page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "keeper", password, "account")
	mustDo(t, tab, "remove", chromedp.Navigate(s.URL+"/admin/users/mia"), chromedp.Click(id("reset-factors-submit")),
		chromedp.WaitVisible(id("question")), chromedp.Click(id("confirm-submit")),
		chromedp.WaitVisible(chromedp.CSS("#factors [role=status]")))
	wantStatus(t, "her session has ended", mia.api("GET", "/api/me", nil), http.StatusUnauthorized)
	mustDo(t, other, "sign in again", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, other, "mia", password, "account")
	mustDo(t, other, "a new one", chromedp.Navigate(s.URL+"/account/security"),
		chromedp.WaitVisible(id("totp-set-up")), chromedp.WaitVisible(chromedp.CSS("[data-action='user.factors-reset'], [data-action^='user.reset']")))
}

// An address is verified by its link; a sign-in from elsewhere is told, and ended; the forgotten password is set anew.
func TestMailsOfAMember(t *testing.T) {
	thirdParty(t)
	server := mailtest.New(t, mailtest.Options{})
	sender := mail.NewSMTP(server.Settings)
	t.Cleanup(sender.Close)
	s := startService(t, serviceOptions{Mail: sender, Limits: true}, "ada")
	link := func(path string) string {
		t.Helper()
		mails := server.Wait(1)
		last := mails[len(mails)-1]
		found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(s.URL) + path + `\S+$`).FindString(last.Text)
		if found == "" || last.To != "ada@example.org" {
			t.Fatalf("no link to %s in the mail to %s: %s", path, last.To, last.Text)
		}
		return found
	}
	tab := chromium(t)
	mustDo(t, tab, "sign-in page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "account")
	mustDo(t, tab, "address", chromedp.Click(chromedp.CSS(`.menu a[href="/account/profile"]`)),
		chromedp.WaitVisible(page("account-profile")), chromedp.SendKeys(id("email"),
			"ada@example.org"), chromedp.Click(id("profile-submit")), chromedp.WaitVisible(id("verify-submit")))
	mustDo(t, tab, "verify", chromedp.Navigate(link("/verify-email/")), chromedp.Click(id("link-submit")), chromedp.WaitVisible(id("done")))
	mustDo(t, tab, "verified", chromedp.Navigate(s.URL+"/account/profile"), chromedp.WaitVisible(chromedp.CSS("#profile .badge.good")))

	stranger := s.visitor()
	login := mustJSON(t, map[string]string{"handle": "ada", "password": password})
	needStatus(t, "elsewhere", stranger.do("POST", "/api/auth/login", "application/json", login, "User-Agent",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), 200)
	mustDo(t, tab, "not me", chromedp.Navigate(link("/not-me/")), chromedp.Click(id("link-submit")),
		chromedp.WaitVisible(id("reset-submit")))
	shot(t, tab, "not-me-done")
	wantStatus(t, "the stranger", stranger.api("GET", "/api/me", nil), http.StatusUnauthorized)

	// The address was set in the second of that sign-in, which is no longer trusted: an administrator is.
	u, err := s.store.UserByHandle(t.Context(), "ada")
	noError(t, err)
	_, err = s.store.ChangeUser(t.Context(), u.Sub, func(u *account.User) error {
		u.EmailVerified = true
		return nil
	}, time.Now(), nil)
	noError(t, err)

	other := chromium(t)
	mustDo(t, other, "forgotten", chromedp.Navigate(s.URL+"/login/"), chromedp.Click(id("login-forgot")),
		chromedp.WaitVisible(page("forgot-password")), chromedp.SendKeys(id("handle"), "ada@example.org"),
		chromedp.Click(id("forgot-submit")), chromedp.WaitVisible(id("sent")))
	mustDo(t, other, "a new password", chromedp.Navigate(link("/reset-password/")),
		chromedp.SendKeys(field("password"),
			"eleven quiet lanterns"), chromedp.Click(id("reset-submit")), chromedp.WaitVisible(id("reset-login")))
	told := server.Wait(1)
	has(t, "the change is told", told[len(told)-1].Subject, "password")
	mustDo(t, other, "sign-in page", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, other, "ada@example.org", "eleven quiet lanterns", "account")
}

// Thirty people join with one link and their phones; whoever comes after them reads whom to ask.
func TestTeamJoinsWithOneLink(t *testing.T) {
	const team = 30
	s := startService(t, serviceOptions{Limits: true})
	keeper := s.joined("keeper", account.FlagAdmin)
	needStatus(t, "flags", keeper.api("PUT", "/api/admin/settings", map[string]any{"flags": []string{"player"}}), 200)
	needStatus(t, "invite", keeper.postForm("/account/invites", url.Values{"note": {"Team U15"}, "uses": {fmt.Sprint(team)}, "days": {"30"}, "flag": {"player"}}), 303)
	_, text, _ := strings.Cut(keeper.get("/account/invites").Text, "invites/slip?code=")
	code, _, _ := strings.Cut(text, `"`)
	slip := keeper.get("/account/invites/slip?code=" + code).Text
	if link := elementText(elementByID(t, slip, "slip-url")); link != s.URL+"/register/?code="+code ||
		!strings.Contains(slip, "for 30 people") || !strings.Contains(slip, `class="qr"`) {
		t.Fatalf("the slip has %s", link)
	}
	first := chromium(t) // starts the browser
	joins := func(tab context.Context, handle string) error {
		return chromedp.Do(tab, chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.URL+"/register/?code="+code), chromedp.WaitVisible(page("register")),
			chromedp.SendKeys(field("handle"), handle), chromedp.SendKeys(field("password"), password), chromedp.Click(id("register-submit")),
			chromedp.WaitVisible(page("account-welcome")))
	}
	var group sync.WaitGroup
	for i := range team {
		handle := fmt.Sprintf("runner-%d", i)
		group.Go(func() {
			if i >= 4 { // the machine of a test is small: these have no Chromium
				b := s.browser()
				sent := b.send(b.get("/register/?code="+code), "handle", handle, "password", password)
				same(t, handle, pageName(t, b.get(sent.Header.Get("Location")).Text), "account-welcome")
				return
			}
			tab, cancel := chromedp.NewContext(browserProcess.browser, chromedp.WithNewBrowserContext())
			defer cancel()
			limited, stop := context.WithTimeout(tab, time.Minute)
			defer stop()
			if err := joins(limited, handle); err != nil {
				t.Errorf("%s: %v", handle, err)
			}
		})
	}
	group.Wait()
	for i := range team {
		u, err := s.store.UserByHandle(t.Context(), fmt.Sprintf("runner-%d", i))
		if err != nil || !slices.Equal(u.Flags, []string{"activity", "player"}) || u.InvitedBy != "keeper" {
			t.Errorf("runner-%d: flags %v, invited by %q: %v", i, u.Flags, u.InvitedBy, err)
		}
	}
	mustDo(t, first, "one too many", chromedp.Navigate(s.URL+"/register/?code="+code), chromedp.WaitVisible(page("register")), chromedp.WaitVisible(id("spent")))
	if said := textOf(t, first, id("spent")); !strings.Contains(said, "30 people have joined with this invite") || !strings.Contains(said, "Ask @keeper") {
		t.Errorf("the page says %q", said)
	}
	late := keeper.get("/admin/invites?under=keeper").Text
	same(t, "the tree names the invite of, people", strings.Count(late, "Team U15"), team)
}
