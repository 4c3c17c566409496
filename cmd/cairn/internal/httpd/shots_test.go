package httpd

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/templates"
)

const mapsRequest = "/oauth2/authorize?client_id=maps&response_type=code&scope=openid+profile+email+groups&redirect_uri=https%3A%2F%2Fmaps.example.org%2Fcallback"

// logo is one of an application.
func logo(t *testing.T) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(m, image.Rect(8, 8, 56, 56), image.NewUniform(color.NRGBA{0x1f, 0x5e, 0x58, 0xff}),
		image.Point{}, draw.Src)
	var out bytes.Buffer
	noError(t, png.Encode(&out, m))
	return out.Bytes()
}

// state is a page as somebody sees it: signed out without a handle.
type state struct {
	name, handle, path string
	page               string         // the body's data-page
	fill               [][2]string    // values by id
	click              string         // id, after that
	answer             string         // selector of what the click brings
	then               [2]string      // a second click, on the page that came, and what it brings
	link               *regexp.Regexp // of a mail: the path
}

// states are the pages of a service without mail, with much and with nothing on them, after a form and after a refusal.
var states = []state{
	{name: "home", handle: "ada", path: "/account/", page: "account"},
	{name: "home-new", handle: "bob", path: "/account/", page: "account"},
	{name: "profile", handle: "ada", path: "/account/profile", page: "account-profile"},
	{name: "profile-saved", handle: "ada", path: "/account/profile?notice=profile-saved", page: "account-profile"},
	{name: "profile-refused", handle: "ada", path: "/account/profile", page: "account-profile", fill: [][2]string{{"display_name", strings.Repeat("x", 61)}}, click: "profile-submit", answer: "#error"},
	{name: "profile-more", handle: "ada", path: "/account/profile#birthdate", page: "account-profile"},
	{name: "register-signed-in", handle: "ada", path: "/register/?code=", page: "register"},
	{name: "profile-new", handle: "bob", path: "/account/profile", page: "account-profile"},
	{name: "security", handle: "ada", path: "/account/security", page: "account-security"},
	{name: "security-factors", handle: "mia", path: "/account/security", page: "account-security"},
	{name: "totp", handle: "bob", path: "/account/security/totp", page: "account-totp"},
	{name: "totp-refused", handle: "bob", path: "/account/security/totp", page: "account-totp", fill: [][2]string{{"code", "12345"}}, click: "totp-submit", answer: "#error"},
	{name: "recovery-codes", handle: "mia", path: "/account/security", page: "account-recovery-codes", click: "recovery-new", answer: "#recovery-codes"},
	{name: "devices", handle: "ada", path: "/account/devices", page: "account-devices"},
	{name: "apps", handle: "ada", path: "/account/apps", page: "account-apps"},
	{name: "consent", handle: "ada", path: mapsRequest + "&prompt=consent", page: "consent"},
	{name: "access-denied", handle: "ada", path: strings.ReplaceAll(mapsRequest, "maps", "minutes"), page: "access-denied"},
	{name: "login-application", path: mapsRequest, page: "login"},
	{name: "apps-none", handle: "bob", path: "/account/apps", page: "account-apps"},
	{name: "invites", handle: "ada", path: "/account/invites", page: "account-invites"},
	{name: "invites-none", handle: "bob", path: "/account/invites", page: "account-invites"},
	{name: "invite-slip", handle: "ada", path: "/account/invites/slip?code=", page: "account-invite-slip"},
	{name: "welcome", handle: "bob", path: "/account/welcome", page: "account-welcome"},
	{name: "data", handle: "ada", path: "/account/data", page: "account-data"},
	{name: "publish", handle: "ada", path: "/account/publish/", page: "account-publish"},
	{name: "publish-refused", handle: "ada", path: "/account/publish/", page: "account-publish", fill: [][2]string{{"privacy", "blur_start"}}, click: "make", answer: "#recordings-error"},
	{name: "confirm", handle: "ada", path: "/account/confirm?next=/account/security", page: "confirm"},
	{name: "confirm-question", handle: "mia", path: "/account/security", page: "confirm", click: "totp-remove", answer: "#question"},
	{name: "confirm-factors", handle: "mia", path: "/account/confirm?next=/account/security", page: "confirm"},
	{name: "admin", handle: "keeper", path: "/admin/", page: "admin"},
	{name: "admin-users", handle: "keeper", path: "/admin/users/", page: "admin-users"},
	{name: "admin-users-filter", handle: "keeper", path: "/admin/users/?suspended=true&sort=newest", page: "admin-users"},
	{name: "admin-users-empty", handle: "keeper", path: "/admin/users/?query=nobody-of-this-name", page: "admin-users"},
	{name: "admin-user-added", handle: "keeper", path: "/admin/users/?query=a#add", page: "admin-user", fill: [][2]string{{"new-handle", "NAME"}}, click: "add-submit", answer: "#reset-code"},
	{name: "admin-selected", handle: "keeper", path: "/admin/users/?flag=activity", page: "admin-selected", click: "select-all", answer: "#selected"},
	{name: "admin-selected-question", handle: "keeper", path: "/admin/users/?flag=activity", page: "admin-selected", click: "select-all", answer: "#selected", then: [2]string{"suspend-submit", "#question"}},
	{name: "admin-selected-obstacles", handle: "keeper", path: "/admin/users/", page: "admin-selected", click: "select-all", answer: "#selected", then: [2]string{"suspend-submit", "#obstacles"}},
	{name: "admin-paste", handle: "keeper", path: "/admin/users/paste", page: "admin-paste"},
	{name: "admin-paste-preview", handle: "keeper", path: "/admin/users/paste", page: "admin-paste", fill: [][2]string{{"people", "Zoë Berg, somebody.with.a.long.name@verwaltung.example.org, activity\nKim Lee, kim@example.org"}}, click: "paste-submit", answer: "#sure-submit"},
	{name: "admin-paste-refused", handle: "keeper", path: "/admin/users/paste", page: "admin-paste", fill: [][2]string{{"people", "Zoë Berg, somebody.with.a.long.name.verwaltung.example.org"}}, click: "paste-submit", answer: "#error"},
	{name: "admin-user", handle: "keeper", path: "/admin/users/ada", page: "admin-user"},
	{name: "admin-user-factors", handle: "keeper", path: "/admin/users/mia", page: "admin-user"},
	{name: "admin-user-ends", handle: "keeper", path: "/admin/users/bob", page: "admin-user"},
	{name: "admin-user-suspended", handle: "keeper", path: "/admin/users/eve", page: "admin-user"},
	{name: "admin-invites", handle: "keeper", path: "/admin/invites", page: "admin-invites"},
	{name: "admin-branch", handle: "keeper", path: "/admin/invites?under=ada", page: "admin-invites"},
	{name: "admin-applications", handle: "keeper", path: "/admin/applications", page: "admin-applications"},
	{name: "admin-applications-number", handle: "keeper", path: "/admin/applications?number=none", page: "admin-applications"},
	{name: "admin-settings", handle: "keeper", path: "/admin/settings", page: "admin-settings"},
	{name: "admin-settings-refused", handle: "keeper", path: "/admin/settings", page: "admin-settings", fill: [][2]string{{"accent_colour", "greenish"}}, click: "general-submit", answer: "#error"},
	{name: "admin-audit", handle: "keeper", path: "/admin/audit", page: "admin-audit"},
	{name: "admin-audit-empty", handle: "keeper", path: "/admin/audit?kind=nothing", page: "admin-audit"},
	{name: "admin-audit-refused", handle: "keeper", path: "/admin/audit?from=yesterday", page: "admin-audit"},
	{name: "login", path: "/login/", page: "login"},
	{name: "register", path: "/register/", page: "register"},
	{name: "register-spent", path: "/register/?code=AAAA", page: "register"},
	{name: "forgot-password-off", path: "/forgot-password/", page: "forgot-password"},
	{name: "second-factor", path: "/login/?handle=mia", page: "second-factor", fill: [][2]string{{"password", password}}, click: "login-submit", answer: "#otp"},
	{name: "device", path: "/device", page: "device"},
	{
		name: "device-refused", path: "/device", page: "device",
		fill: [][2]string{{"user_code", "bbbb bbb"}}, click: "device-submit", answer: "#error",
	},
	{name: "reset-password", path: "/reset-password/", page: "reset-password"},
	{name: "logout", handle: "ada", path: "/logout/", page: "logout"},
	{name: "no-page", path: "/nowhere", page: "error"},
	{name: "no-application", path: "/oauth2/authorize?client_id=x", page: "error"},
}

// mailStates are those of a service with mail.
var mailStates = []state{
	{name: "verify-code", handle: "ada", path: "/account/profile", page: "account-profile"},
	{name: "invite-mailed", handle: "ada", path: "/account/invites?notice=invite-mailed", page: "account-invites"},
	{name: "invites-mail", handle: "ada", path: "/account/invites", page: "account-invites"},
	{name: "admin-mail", handle: "keeper", path: "/admin/", page: "admin"},
	{name: "admin-applications-none", handle: "keeper", path: "/admin/applications", page: "admin-applications"},
	{name: "admin-users-mail", handle: "keeper", path: "/admin/users/#add", page: "admin-users"},
	{name: "admin-user-long-name", handle: "keeper", path: "/admin/users/a-member-with-a-very-long-name", page: "admin-user"},
	{name: "login-mail", path: "/login/", page: "login"},
	{name: "forgot-password", path: "/forgot-password/", page: "forgot-password"},
	{name: "forgot-password-sent", path: "/forgot-password/", page: "forgot-password", fill: [][2]string{{"handle", "nobody"}}, click: "forgot-submit", answer: "#sent"},
	{name: "verify-email", path: "/verify-email/", page: "verify-email", link: regexp.MustCompile(`(?m)^\S+(/verify-email/\S+)$`)},
	{name: "verify-email-wrong", path: "/verify-email/?link=x", page: "verify-email"},
	{name: "undo-email", path: "/undo-email/", page: "undo-email", link: regexp.MustCompile(`(?m)^\S+(/undo-email/\S+)$`)},
	{name: "cancel-email", path: "/cancel-email/", page: "cancel-email", link: regexp.MustCompile(`(?m)^\S+(/cancel-email/\S+)$`)},
	{name: "cancel-email-wrong", path: "/cancel-email/?link=x", page: "cancel-email"},
	{name: "undo-email-wrong", path: "/undo-email/?link=x", page: "undo-email"},
	{name: "not-me", path: "/not-me/", page: "not-me", link: regexp.MustCompile(`(?m)^\S+(/not-me/\S+)$`)},
	{name: "not-me-done", path: "/not-me/", page: "not-me", link: regexp.MustCompile(`(?m)^\S+(/not-me/\S+)$`), click: "link-submit", answer: "#reset"},
	{name: "not-me-wrong", path: "/not-me/?link=x", page: "not-me"},
	{name: "join", path: "/register/", page: "join"},
	{name: "join-sent", path: "/register/", page: "join", fill: [][2]string{{"name", "Bo"}, {"email", "NAME@example.org"}, {"reason", "Runs."}}, click: "join-submit", answer: "#sent"},
	{name: "register-address", path: "/register/?code=", page: "join"},
	{name: "confirm-join", path: "/confirm-join/", page: "confirm-join", link: regexp.MustCompile(`(?m)^\S+(/confirm-join/\S+)$`)},
	{name: "confirm-join-wrong", path: "/confirm-join/?link=x", page: "confirm-join"},
	{name: "admin-join-requests", handle: "keeper", path: "/admin/invites", page: "admin-invites"},
	{name: "invites-team", handle: "keeper", path: "/account/invites", page: "account-invites"},
	{name: "invites-team-refused", handle: "keeper", path: "/account/invites", page: "account-invites", fill: [][2]string{{"uses", "many"}, {"days", "91"}, {"domain", "a b"}, {"account_ends", "2001-02-03"}}, click: "invite-submit", answer: "#error"},
	{name: "invite-slip-team", handle: "keeper", path: "/account/invites/slip?code=", page: "account-invite-slip"},
	{name: "reset-mailed", path: "/reset-password/", page: "reset-password", link: regexp.MustCompile(`(?m)^\S+(/reset-password/\S+)$`)},
}

// longName is that of a club, which every page has to fit.
const longName = "Radsportgemeinschaft Hintertupfingen von 1889 e. V."

// furnished is a service with what the states show.
type furnished struct {
	*service
	states  []state
	cookies map[string]string // sessions by handle
	invite  string
	post    *mailtest.Server
	mails   []mailtest.Received
}

func furnish(t *testing.T) *furnished {
	t.Helper()
	s := startService(t, serviceOptions{Program: someProgram})
	s.addUser("keeper", account.FlagAdmin)
	for _, handle := range []string{"bob", "eve", "mia"} {
		s.addUser(handle)
	}
	s.addUser("ada", account.FlagActivity)
	for _, name := range []string{"calendar", "maps"} {
		rp := s.app(name, func(c *provider.Client) {
			c.Name = "Club " + name
			if name == "maps" {
				c.HomeURI, c.OptionalScopes, c.Logo = "https://maps.example.org/", []string{"email", "groups"}, account.Picture{Hash: "00000000000000aa", PNG: logo(t)}
			}
		})
		s.browser().authorize(rp.authURL(), "ada")
	}
	s.addClient("minutes", func(c *provider.Client) { c.Name, c.RequireFlags = "Minutes of the board", []string{account.FlagAdmin} })
	ada, mia, keeper := s.signedIn("ada"), s.signedIn("mia"), s.signedIn("keeper")
	needStatus(t, "name", keeper.api("PUT", "/api/admin/settings", map[string]string{"instance_name": longName}), 200)
	code := ada.invite()
	fields := url.Values{
		"display_name": {"Ada Lovelace"}, "email": {"ada@example.org"}, "given_name": {"Ada"}, "family_name": {"Lovelace"}, "birthdate": {"1815-12-10"},
		"keep_other_sessions": {"true"}, "phone_number": {"+44 20 7946 0018"}, "address.street_address": {"12 St James’s Square\nSecond floor"}, "address.locality": {"London"},
	}
	needStatus(t, "profile", ada.postForm("/account/profile", fields), 303)
	needStatus(t, "picture", ada.postMultipart("/account/picture", nil, nil, logo(t)), 303)
	needStatus(t, "invite", ada.postForm("/account/invites", url.Values{"note": {"For Grace, who rows with us on Tuesdays"}}), 303)
	needStatus(t, "joined", s.browser().register(code, "grace"), 201)
	mia.addAuthenticatorApp()
	needStatus(t, "end", keeper.api("PUT", "/api/admin/users/bob/end", map[string]string{"ends": "2099-08-31"}), 200)
	needStatus(t, "end of a flag", keeper.api("PUT", "/api/admin/users/bob/flags", map[string]string{"activity": "2099-07-31"}), 200)
	needStatus(t, "suspended", keeper.api("POST", "/api/admin/users/eve/suspend", map[string]string{"reason": "Asked for it until spring"}), 200)
	needStatus(t, "refused", ada.get(strings.ReplaceAll(mapsRequest, "maps", "minutes")), 403)
	needStatus(t, "unknown application", ada.get("/oauth2/authorize?client_id=x"), 400)
	_, text, _ := strings.Cut(ada.get("/account/invites").Text, "invites/slip?code=")
	invite, _, _ := strings.Cut(text, `"`)
	cookies := map[string]string{"bob": s.signedIn("bob").cookie("cairn_session")}
	for handle, b := range map[string]*browser{"ada": ada, "mia": mia, "keeper": keeper} {
		cookies[handle] = b.cookie("cairn_session")
	}
	return &furnished{service: s, states: states, cookies: cookies, invite: invite}
}

func furnishWithMail(t *testing.T) *furnished {
	t.Helper()
	server := mailtest.New(t, mailtest.Options{})
	sender := mail.NewSMTP(server.Settings)
	t.Cleanup(sender.Close)
	s := startService(t, serviceOptions{Mail: sender}, "ada")
	s.addUser("keeper", account.FlagAdmin)
	ada, keeper := s.signedIn("ada"), s.signedIn("keeper")
	change := func(members map[string]any) {
		t.Helper()
		needStatus(t, "change", keeper.api("PATCH", "/api/admin/users/ada", members), 200)
	}
	change(map[string]any{"email": "ada@example.org", "email_verified": true})
	needStatus(t, "links", keeper.api("PUT", "/api/admin/settings", `{"instance_name":"`+longName+`","imprint_url":"https://club.example/imprint","privacy_url":"https://club.example/privacy"}`), 200)
	needStatus(t, "sign-in", s.browser().do("POST", "/api/auth/login", "application/json", mustJSON(t, map[string]string{"handle": "ada", "password": password}), "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"), 200)
	needStatus(t, "forgotten", s.browser().api("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}), 200)
	server.Wait(2)
	needStatus(t, "new address", ada.api("PATCH", "/api/me", map[string]any{"email": "lovelace@example.org"}), 200)
	cookies := map[string]string{"ada": ada.cookie("cairn_session"), "keeper": keeper.cookie("cairn_session")}
	for _, m := range server.Wait(2) {
		if m.To == "lovelace@example.org" {
			needStatus(t, "it counts", ada.verifyEmail(mail.Message{Text: m.Text}), 200)
		}
	}
	needStatus(t, "another", ada.api("PATCH", "/api/me", map[string]any{"email": "countess@example.org"}), 200)
	server.Wait(4) // that it counts, to the one before; of the other to each of the two, and to itself
	s.addUser("a-member-with-a-very-long-name")
	s.addUser("eve") // hers is the sign-in that was not hers: it ends everything
	s.signedIn("eve")
	needStatus(t, "eve", keeper.api("PATCH", "/api/admin/users/eve", map[string]any{"email": "eve@example.org", "email_verified": true}), 200)
	needStatus(t, "another sign-in", s.browser().login("eve", password), 200)
	mails := server.Wait(1)
	needStatus(t, "requests", keeper.api("PUT", "/api/admin/settings", map[string]any{"registration": "request", "flags": []string{"coach"}}), 200)
	needStatus(t, "asking", s.browser().api("POST", "/api/join", map[string]string{"name": "Grace", "email": "grace@example.org", "reason": "Runs."}), 202)
	mails = append(mails, server.Wait(1)...)
	now := time.Now()
	for i, name := range []string{"Bo Berg", "Hildegard Schwarzenberger-Wolkenstein"} {
		noError(t, s.store.AddJoinRequest(t.Context(), account.JoinRequest{
			ID: fmt.Sprint("request", i), Name: name, Email: fmt.Sprintf("somebody.with.a.long.name%d@verwaltung.example.org", i),
			Reason: "I have run with you on Sundays since spring, and Ada said I should ask here.", Language: "de", AskedAt: now, ExpiresAt: now.Add(time.Hour),
		}, []byte{byte(i)}, 200, account.Operator().Audit(now, account.ConfirmJoin, "", "")))
	}
	terms := map[string]any{"note": "For the team", "uses": 30, "days": 60, "flags": []string{"coach@2099-07-31"}, "domain": "school.example", "account_ends": "2099-08-31"}
	team := needStatus(t, "team", keeper.api("POST", "/api/invites", terms), 201).JSON(t)["code"].(string)
	return &furnished{service: s, states: mailStates, cookies: cookies, invite: team, post: server, mails: mails}
}

// Every kind of mail fits a phone, whatever people have entered and however long its link is.
func TestMailsFitAPhone(t *testing.T) {
	thirdParty(t)
	f := furnishWithMail(t)
	keeper := f.signedIn("keeper")
	needStatus(t, "welcome", keeper.api("POST", "/api/admin/users", map[string]string{"handle": "grace", "email": "grace@example.org"}), 201)
	invite := map[string]string{"email": "friend@example.org", "note": strings.Repeat("y", 200)}
	needStatus(t, "invite", keeper.api("POST", "/api/invites", invite), 201)
	queued := map[string]bool{"": true, account.MailNewDevice: true, account.MailEmailChanged: true}
	for _, act := range account.Acts {
		if kind := act.Told; !queued[kind] {
			queued[kind] = true
			data := map[string]string{
				"handle": strings.Repeat("h", 30), "at": "1", "factor": account.FactorPasskey, "name": strings.Repeat("n", 60),
				"flags": strings.Repeat("f", 32) + "=on", "reason": strings.Repeat("r", 200),
			}
			noError(t, f.store.QueueMail(t.Context(), account.Mail{Kind: kind, Address: fmt.Sprintf("x%d@example.org", len(queued)), Data: data}, time.Now()))
		}
	}
	tab := chromium(t)
	mustDo(t, tab, "screen", chromedp.EmulateViewport(360, 640))
	subjects := map[string]bool{}
	for _, m := range f.post.Wait(2 + len(queued) - 3) {
		subjects[m.Subject] = true
		mustDo(t, tab, m.Subject, chromedp.Navigate("data:text/html;charset=utf-8;base64,"+base64.StdEncoding.EncodeToString([]byte(m.HTML))))
		got, err := chromedp.Run(tab, chromedp.Evaluate[[2]float64](`(a =>
			[document.documentElement.scrollWidth, a ? a.getBoundingClientRect().height : 44])(document.querySelector("a[style]"))`))
		if err != nil || got[0] > 360 || got[1] < 44 {
			t.Errorf("%s: %v pixels wide, its button %v high: %v", m.Subject, got[0], got[1], err)
		}
		shot(t, tab, "mail-"+m.Subject)
	}
	if len(subjects) < len(queued)+3 { // those of furnishWithMail, the welcome and the invite
		t.Errorf("%d kinds of mail: %v", len(subjects), subjects)
	}
}

// addAuthenticatorApp gives the signed-in person a second factor; their other sessions stay.
func (b *browser) addAuthenticatorApp() (secret string) {
	b.t.Helper()
	page := needStatus(b.t, "set up", b.get("/account/security/totp"), 200).Text
	secret = strings.ReplaceAll(elementText(elementByID(b.t, page, "totp-secret")), " ", "")
	code, err := totp.GenerateCode(secret, time.Now())
	noError(b.t, err)
	fields := pageForm(b.t, page).values
	fields.Set("code", code)
	fields.Set("keep_other_sessions", "true")
	needStatus(b.t, "turn on", b.postForm("/account/security/totp", fields), 200)
	return secret
}

// show brings the tab to a state.
func (f *furnished) show(t *testing.T, tab context.Context, at state, name string) {
	t.Helper()
	if _, err := chromedp.Call(tab, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if at.handle != "" {
		cookie := network.SetCookieParams{Name: "cairn_session", Value: f.cookies[at.handle], URL: f.URL}
		if _, err := chromedp.Call(tab, network.SetCookie, cookie); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(at.path, "code=") {
		at.path += f.invite
	}
	for _, m := range f.mails {
		if at.link == nil {
			break
		}
		if found := at.link.FindStringSubmatch(m.Text); found != nil {
			at.path = found[1]
		}
	}
	mustDo(t, tab, at.path, chromedp.Navigate(f.URL+at.path))
	for _, field := range at.fill {
		mustDo(t, tab, field[0], chromedp.SetValue(id(field[0]), strings.ReplaceAll(field[1], "NAME", "new-"+name)))
	}
	if at.click != "" {
		if _, err := chromedp.Run(tab, chromedp.Evaluate[any](`document.querySelectorAll("details").forEach(d => d.open = true)`)); err != nil {
			t.Fatal(err)
		}
		mustDo(t, tab, at.click, chromedp.Click(id(at.click)), chromedp.WaitVisible(chromedp.CSS(at.answer)))
	}
	if at.then[0] != "" {
		mustDo(t, tab, at.then[0], chromedp.Click(id(at.then[0])), chromedp.WaitVisible(chromedp.CSS(at.then[1])))
	}
	mustDo(t, tab, at.name, chromedp.WaitVisible(page(at.page)))
}

// Every state of the pages has no fault that axe finds, light and dark, fits a small phone, in each language, asks no other host for anything, and is not
// large. With CAIRN_SCREENSHOTS each is written there: light and dark, wide and 320 pixels wide, and without JavaScript.
// CAIRN_STATES is a pattern for the names of some alone.
func TestStatesOfThePages(t *testing.T) {
	dir := os.Getenv("CAIRN_SCREENSHOTS")
	file := filepath.Join(relyingPartyHome(), "node_modules", "axe-core", "axe.min.js")
	if dir == "" {
		needFiles(t, file)
	}
	axe, _ := os.ReadFile(file) // without it, pictures alone
	only := regexp.MustCompile(os.Getenv("CAIRN_STATES"))
	services := []*furnished{furnish(t), furnishWithMail(t)}
	tab := chromium(t)
	if _, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument,
		cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: string(axe)}); err != nil {
		t.Fatal(err)
	}
	type screen struct {
		name, scheme, language string
		width, height          int64
		scripts                bool
		rules                  string // what another width and colours can break
	}
	screens := []screen{
		{"wide", "light", "en", 1280, 800, true, ""},
		{"320", "dark", "de", 320, 640, true, `runOnly: ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"]`},
		{"no-js", "light", "en", 1100, 800, false, ""},
	}
	for _, screen := range screens {
		if !screen.scripts && dir == "" {
			continue
		}
		mustDo(t, tab, "screen", chromedp.EmulateViewport(screen.width, screen.height))
		if _, err := chromedp.Call(tab, network.SetExtraHTTPHeaders,
			network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": screen.language}}); err != nil {
			t.Fatal(err)
		}
		for _, f := range services {
			for _, at := range f.states {
				if !only.MatchString(at.name) {
					continue
				}
				if at.click != "" && (!screen.scripts || dir == "" && screen.width == 320) { // half the time is theirs
					continue
				}
				scripts(t, tab, screen.scripts)
				f.show(t, tab, at, screen.name)
				shot(t, tab, at.name+"-"+screen.name)
				scripts(t, tab, true)
				media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
					{Name: "prefers-color-scheme", Value: screen.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
				}}
				if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media); err != nil {
					t.Fatal(err)
				}
				check(t, tab, f.URL, at.name+" on "+screen.name, screen.width)
				if most := map[string]int64{"admin-user": 1400, "admin-settings": 1200}[at.page]; most > 0 && screen.name == "wide" && at.click == "" {
					fitsInEachTab(t, tab, at.name, most)
				}
				if len(axe) > 0 && screen.scripts { // the markup is that of the wide page
					for _, v := range axeViolations(t, tab, screen.rules) {
						t.Errorf("%s on %s: %s", at.name, screen.name, v)
					}
				}
				if screen.width == 320 && at.click == "" {
					f.fitsInEachLanguage(t, tab, at)
				}
			}
		}
	}
}

// fitsInEachLanguage gives the page in the tab the bodies that it has in all languages. None scrolls sideways, header and menu take a row
// each, and no entry of theirs is cut, broken or out of sight. Their widths alone can differ, so they are not navigated to,
// which would take most of the time of the test.
func (f *furnished) fitsInEachLanguage(t *testing.T, tab context.Context, at state) {
	t.Helper()
	b := f.browser()
	if at.handle != "" {
		u, err := url.Parse(f.URL)
		noError(t, err)
		b.client.Jar.SetCookies(u, []*http.Cookie{{Name: "cairn_session", Value: f.cookies[at.handle], Path: "/"}})
	}
	here, err := chromedp.Run(tab, chromedp.Evaluate[string](`location.href`))
	noError(t, err)
	for _, tag := range templates.LanguageTags() {
		got := b.get(strings.TrimPrefix(here, f.URL), "Accept-Language", tag)
		if name := pageName(t, got.Text); name != at.page || got.Header.Get("Content-Language") != tag {
			t.Errorf("%s in %s: page %s, language %s", at.name, tag, name, got.Header.Get("Content-Language"))
		}
		seen, err := chromedp.Run(tab, chromedp.Evaluate[struct {
			Wide, Rows int
			Cut        []string // words of header and menu that are broken, cut or out of sight
		}](fmt.Sprintf(`(html => {
			const other = new DOMParser().parseFromString(html, "text/html");
			for (const e of other.querySelectorAll("[id][hidden]")) e.hidden = document.getElementById(e.id)?.hidden ?? true; // as scripts left them
			document.documentElement.lang = other.documentElement.lang;
			document.body.replaceWith(other.body);
			scrollTo(0, 0);
			const box = e => e.getBoundingClientRect(), middle = e => (box(e).top + box(e).bottom) / 2;
			const rows = [...document.querySelectorAll(".top > *, .menu > ul > li")].map(middle).sort((a, b) => a - b);
			const cut = [...document.querySelectorAll(".top nav a")].filter(a => box(a).height > 40);
			const shown = [...document.querySelectorAll("#sign-out-submit, .menu > ul > li > a > *, .menu summary > *")];
			document.querySelectorAll(".menu details").forEach(d => d.open = true);
			const menu = shown.concat(...document.querySelectorAll(".menu .rest a, .menu .rest a > *"));
			const out = e => box(e).left < 0 || box(e).right > innerWidth || box(e).top < 0 || box(e).bottom > innerHeight || e.scrollWidth > e.clientWidth + 1 && e.matches("a") || box(e).height === 0 || box(e).height > 44;
			const over = (a, b) => box(a).right > box(b).left + 0.5 && box(b).right > box(a).left + 0.5 && box(a).bottom > box(b).top + 0.5 && box(b).bottom > box(a).top + 0.5;
			const words = menu.filter(e => e.matches(".menu span"));
			return {Wide: document.documentElement.scrollWidth, Rows: rows.filter((y, i) => i === 0 || y - rows[i-1] > 10).length,
				Cut: cut.concat(menu.filter(out)).concat(words.filter(a => words.some(b => a !== b && over(a, b)))).map(e => e.textContent)};
		})(%s)`, mustJSON(t, got.Text))))
		if err != nil || seen.Wide > 320 || seen.Rows > 2 || len(seen.Cut) > 0 {
			t.Errorf("%s in %s: %+v: %v", at.name, tag, seen, err)
		}
		shot(t, tab, at.name+"-320-"+tag)
	}
}

// fitsInEachTab wants one section to be shown at a time, on a page of at most that height.
func fitsInEachTab(t *testing.T, tab context.Context, name string, most int64) {
	t.Helper()
	tall, err := chromedp.Run(tab, chromedp.Evaluate[[]string](fmt.Sprintf(`[...document.querySelectorAll(".tabs > nav a")].map(a => {
		a.click();
		const shown = [...document.querySelectorAll(".tabs > section")].filter(s => s.checkVisibility()).map(s => s.id);
		return [a.hash, shown.join(), document.documentElement.scrollHeight];
	}).filter(([hash, shown, height]) => hash !== "#" + shown || height > %d).map(String)`, most)))
	if err != nil || len(tall) > 0 {
		t.Errorf("%s: %q: %v", name, tall, err)
	}
}

func scripts(t *testing.T, tab context.Context, on bool) {
	t.Helper()
	_, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: !on})
	noError(t, err)
}

// check measures a page: with its style and scripts it has at most 46 KiB, unpacked.
func check(t *testing.T, tab context.Context, base, name string, width int64) {
	t.Helper()
	got, err := chromedp.Run(tab, chromedp.Evaluate[struct {
		Wide, Size int64
		Others     []string
	}](fmt.Sprintf(`(() => {
		const loaded = performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"));
		return {Wide: document.documentElement.scrollWidth, Size: loaded.reduce((sum, e) => sum + e.decodedBodySize, 0),
			Others: loaded.map(e => e.name).filter(name => !name.startsWith(%q))};
	})()`, base+"/")))
	if err != nil || got.Wide > width || got.Size > 46<<10 || got.Size == 0 || len(got.Others) > 0 {
		t.Errorf("%s: %+v: %v", name, got, err)
	}
}

// The picture in README.md: signing in to the demo's application, agreeing, and the account. CAIRN_SCREENSHOT is the file
// that "just screenshot" writes.
func TestScreenshot(t *testing.T) {
	thirdParty(t)
	s := startService(t, serviceOptions{})
	app := startDemoApp(t, s)
	s.addUser("ada", account.FlagActivity)
	profile := map[string]any{"display_name": "Ada Lovelace", "email": "ada@example.org", "given_name": "Ada", "family_name": "Lovelace"}
	needStatus(t, "profile", s.signedIn("ada").api("PATCH", "/api/me", profile), 200)
	tab := chromium(t)
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	capture := func(params cdppage.CaptureScreenshotParams) string {
		t.Helper()
		// The ports are those of the demo.
		ports := `document.querySelectorAll("code, .tile .hint").forEach(e => e.textContent = e.textContent.replace(/localhost:\d+/, "localhost:4041")); document.activeElement.blur()`
		_, err := chromedp.Run(tab, chromedp.Evaluate[any](ports))
		noError(t, err)
		got, err := chromedp.Call(tab, cdppage.CaptureScreenshot, params)
		noError(t, err)
		return string(got.Data)
	}
	shown := `<body style="margin:0;padding:16px;display:flex;gap:16px;background:#d9d7cd">`
	add := func() {
		shown += `<img style="border-radius:12px" src="data:image/png;base64,` + base64.StdEncoding.EncodeToString([]byte(capture(cdppage.CaptureScreenshotParams{}))) + `">`
	}
	mustDo(t, tab, "sign-in", chromedp.EmulateViewport(360, 720), chromedp.Navigate(app), chromedp.Click(id("demo-login")), chromedp.WaitVisible(page("login")),
		chromedp.SendKeys(field("handle"), "ada"), chromedp.SendKeys(field("password"), password))
	add()
	mustDo(t, tab, "consent", chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("consent")))
	add()
	mustDo(t, tab, "account", chromedp.Click(id("consent-allow")), chromedp.WaitVisible(id("demo-name")), chromedp.Navigate(s.URL+"/account/"))
	add()
	sheet := "data:text/html;base64," + base64.StdEncoding.EncodeToString([]byte(shown))
	mustDo(t, tab, "all three", chromedp.EmulateViewport(3*360+4*16, 720+2*16), chromedp.Navigate(sheet), chromedp.WaitVisible(chromedp.CSS("img:last-child")))
	quality := int64(80)
	picture := capture(cdppage.CaptureScreenshotParams{Format: cdppage.CaptureScreenshotFormatWebp, Quality: &quality})
	if !strings.HasPrefix(picture, "RIFF") || !strings.Contains(picture[:16], "WEBP") {
		t.Fatalf("%.16q is no WebP", picture)
	}
	if file := os.Getenv("CAIRN_SCREENSHOT"); file != "" {
		noError(t, os.WriteFile(file, []byte(picture), 0o644))
	}
}

// The pictures of docs/administration.md, which "just screenshot" writes to CAIRN_PICTURES. Each is small.
func TestPicturesOfTheAdministration(t *testing.T) {
	thirdParty(t)
	f := furnish(t)
	needStatus(t, "settings", f.signedIn("keeper").api("PUT", "/api/admin/settings", `{"instance_name":"Hill Runners","contact":"board@club.example"}`), 200)
	tab := chromium(t)
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	quality := int64(60)
	for name, at := range map[string][2]string{
		"overview": {"/admin/", "admin"}, "people": {"/admin/users/", "admin-users"}, "person": {"/admin/users/ada", "admin-user"}, "invites": {"/admin/invites", "admin-invites"},
		"applications": {"/admin/applications", "admin-applications"}, "settings": {"/admin/settings", "admin-settings"}, "audit": {"/admin/audit", "admin-audit"},
	} {
		f.show(t, tab, state{name: name, handle: "keeper", path: at[0], page: at[1]}, name)
		mustDo(t, tab, name, chromedp.EmulateViewport(960, 600))
		got, err := chromedp.Call(tab, cdppage.CaptureScreenshot,
			cdppage.CaptureScreenshotParams{Format: cdppage.CaptureScreenshotFormatWebp, Quality: &quality})
		if noError(t, err); len(got.Data) == 0 || len(got.Data) > 40_000 {
			t.Errorf("the picture of %s has %d bytes", name, len(got.Data))
		}
		if dir := os.Getenv("CAIRN_PICTURES"); dir != "" {
			noError(t, os.WriteFile(filepath.Join(dir, name+".webp"), []byte(got.Data), 0o644))
		}
	}
}
