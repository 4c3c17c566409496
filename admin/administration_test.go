package admin_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"html"
	"image"
	"image/png"
	"mime/multipart"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/templates"
)

func TestOverviewWarnsWithTheRemedy(t *testing.T) {
	w := newWorld(t)
	w.BackedUp = time.Time{}
	b := w.Member("root1", account.FlagAdmin)
	b.Page("/admin/").Is(200).Shows(`data-page="admin"`, `warning" data-warning="second-factor"`, `data-warning="second-factor-optional"`, `warning" data-warning="backup"`,
		`id="members">1<`, `id="sign-ins">1<`).Hides("key-age", "mail-server")
	w.KeyCreated = w.Began.AddDate(-1, 0, -2)
	w.Clock.Advance(8 * 24 * time.Hour) // and people have signed in for longer than a week
	w.SignedIn("root1").Page("/admin/").Is(200).Shows(`error" data-warning="key-age"`, "cairn keys generate", `error" data-warning="backup"`)
	w.Clock.Advance(-8 * 24 * time.Hour)
	b.Call("PUT", "/api/admin/settings", map[string]any{"accent_colour": "#FFee00"}).Is(200).Shows(`"accent_colour":"#ffee00"`)
	b.Page("/admin/").Is(200).Shows(`href="/id/theme/ffee00-`)
	b.Call("PUT", "/api/admin/settings", map[string]any{"accent_colour": "red;}"}).Is(400, "invalid_settings")
}

func TestAdministratorAddsAPerson(t *testing.T) {
	w, b := administered(t)
	m := b.Call("POST", "/api/admin/users", map[string]any{"handle": "Ada", "display_name": "Ada L.", "flags": map[string]bool{"admin": false, "activity": true}}).Is(201).JSON()
	code := m["code"].(string)
	if u := m["user"].(map[string]any); u["handle"] != "ada" || !strings.Contains(m["url"].(string), code) {
		t.Errorf("%v", m)
	}
	for _, try := range []string{"", "*", password} {
		w.Browser().Call("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": try}).Is(401, "invalid_credentials")
	}
	w.Browser().Call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": code, "password": password}).Is(200)
	if !w.SignedIn("ada").IsSignedIn() {
		t.Error("ada cannot sign in")
	}
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "ada"}).Is(409, "handle_taken")
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "root"}).Is(400, "invalid_handle")
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "bob", "flags": map[string]bool{"nope": true}}).Is(400, "unknown_flag")
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "bob", "password": "x"}).Is(400, "invalid_request")

	b.Page("/admin/users/", "handle", "ada", "display_name", "<i>").Is(409).Shows(`value="&lt;i&gt;"`, `aria-invalid="true"`)
	w.SaveSettings(func(v *account.Settings) { v.MaxUsers = 2 })
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "eve"}).Is(403, "registration_full")
	b.Page("/admin/users/", "handle", "eve").Is(403).Shows("You would have 3 members, but the settings allow only 2.")
	w.SaveSettings(func(v *account.Settings) { v.MaxUsers = 3 })
	a := b.Page("/admin/users/", "handle", "eve", "flag", "activity").Is(200).Shows(`data-page="admin-user"`)
	shown := regexp.MustCompile(`id="reset-code">([0-9A-Z-]+)<`).FindStringSubmatch(a.Body)
	if shown == nil {
		t.Fatal(a.Body)
	}
	b.Page("/admin/audit?person=eve").Is(200).Shows("root1 created eve’s account", `data-action="user.create"`, `audit.csv?person=eve"`).Hides(shown[1])
}

func TestListsOfPeopleAreFilteredAndCounted(t *testing.T) {
	w, b := administered(t, "bob")
	w.AddUser("ada", account.FlagActivity)
	b.Call("POST", "/api/admin/users/bob/suspend", nil).Is(200)
	for q, handles := range map[string]string{
		"": "ada bob root1", "flag=activity": "ada", "suspended=true": "bob", "never_signed_in=true": "ada bob", "no_second_factor=true&flag=admin": "root1",
		"sort=last_sign_in": "root1 bob ada", "query=ada&suspended=true": "", "suspended=false&flag=&never_signed_in=": "ada bob root1",
	} {
		m := b.Call("GET", "/api/admin/users?"+q, nil).Is(200).JSON()
		var got []string
		for _, u := range m["users"].([]any) {
			got = append(got, u.(map[string]any)["handle"].(string))
		}
		if strings.Join(got, " ") != handles || m["total"] != float64(len(got)) {
			t.Errorf("%s: %v, total %v", q, got, m["total"])
		}
		b.Page("/admin/users/?" + q).Is(200)
	}
	for _, q := range []string{"suspended=yes", "suspended=true&suspended=true", "flag=A", "flag=a&flag=b", "sort=password_hash", "sort=handle;", "app=" + strings.Repeat("x", account.MaxClientID+1), "ending=0d", "ending=3661d", "inactive=0", "inactive=3651", "never_signed_in=1", "no_second_factor=%00"} {
		b.Call("GET", "/api/admin/users?"+q, nil).Is(400, "invalid_request")
		b.Page("/admin/users/?" + q).Is(400)
	}
	for _, path := range []string{"/admin/audit?from=yesterday", "/admin/audit?kind=%27", "/admin/audit?person=a%20b", "/admin/audit.csv?from=x", "/admin/invites?skip=-1", "/admin/invites?cursor=!", "/admin/invites?skip=x", "/admin/invites?skip=1000001", "/admin/applications?number=1&number=1"} {
		b.Page(path).Is(400)
	}
	b.Page("/admin/audit?from=yesterday").Shows(`audit.csv?"`) // where the filter is refused
	b.Page("/admin/invites?under=nobody").Is(404)
}

// With the code of an invite that gives the flag admin an old session would become an administrator's for good.
func TestOldSessionDoesNotReadTheCodeOfAnInviteWithFlags(t *testing.T) {
	w, b := administered(t)
	wide := b.Call("POST", "/api/invites", map[string]any{"flags": []string{"admin"}}).Is(201).JSON()["code"].(string)
	plain := b.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	i, err := account.InviteTerms{Flags: []string{"admin"}}.Invite(account.DefaultSettings(), account.Operator(), w.Clock.Now())
	if err == nil {
		err = w.Store.CreateInvite(t.Context(), i, -1, account.Audit{Action: "invite.create"})
	}
	must(t, err)
	b.Page("/account/invites").Is(200).Shows(wide, plain)
	b.Page("/admin/invites").Is(200).Shows(wide, plain, i.Shown())
	b.Call("GET", "/api/invites", nil).Is(200).Shows(wide, plain)
	w.Clock.Advance(account.FreshFor + time.Second)
	b.Page("/account/invites").Is(200).Shows(plain, `href="/id/account/confirm?next=/account/invites"`).Hides(wide)
	b.Page("/admin/invites").Is(200).Shows(plain, `href="/id/account/confirm?next=/admin/invites"`).Hides(wide, i.Shown())
	b.Call("GET", "/api/invites", nil).Is(200).Shows(plain, `"code":null,"url":null`).Hides(wide)
}

func TestBranchesOfInvites(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	ada := w.AddUser("ada")
	b, of := w.SignedIn("root1"), w.SignedIn("ada")
	code := of.Call("POST", "/api/invites", map[string]string{"note": "<script>alert(1)</script>"}).Is(201).JSON()["code"].(string)
	of.Call("POST", "/api/invites", nil).Is(201)
	w.Browser().Call("POST", "/api/register", map[string]string{"code": code, "handle": "gus", "password": password, "display_name": "<img src=x>"}).Is(201)
	w.SignedIn("gus").Call("POST", "/api/invites", map[string]string{"note": "<script>alert(1)</script>"}).Is(201)
	b.Page("/admin/invites").Is(200).Shows(`data-branch="ada"`, "invited 1 person", "1 active", "&lt;script&gt;").
		Hides("<script>alert", "<img src=x", `data-branch="root1"`)
	b.Page("/admin/invites?under=ada").Is(200).Shows(`data-branch="gus"`, `id="revoke-branch-submit"`, "&lt;img src=x&gt;").Hides("<img src=x")
	b.Call("DELETE", "/api/admin/invites/"+code, nil).Is(409, "invite_used")
	b.Call("DELETE", "/api/admin/invites/0000-0000-0000-0000", nil).Is(404, "invite_not_found")
	b.Page("/admin/invites/revoke", "under", "ada").Is(200).Shows("2 open invites are revoked.")
	if got := b.Call("POST", "/api/admin/invites/revoke", map[string]string{"handle": ada.Handle}).Is(200).JSON()["revoked"]; got != float64(0) {
		t.Errorf("%v are left", got)
	}
	one := w.SignedIn("ada").Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	b.Page("/admin/invites/revoke", "code", one).RedirectsTo("/id/admin/invites?notice=invite-revoked#open")
	b.Page("/admin/invites/revoke", "code", one).Is(404)
	b.Page("/admin/users/ada").Is(200).Shows(`data-invited="gus"`)
	for range 51 { // more than a page lists
		one = b.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
	}
	w.Browser().Call("POST", "/api/register", map[string]string{"code": one, "handle": "zoe", "password": password}).Is(201)
	b.Page("/admin/invites?limit=1").Is(200).Shows(`data-branch="ada"`, `href="/id/admin/invites?cursor=`).Hides(`data-branch="root1"`, "skip=")
	b.Call("POST", "/api/invites", nil).Is(201)
	b.Page("/admin/invites").Is(200).Shows(`href="/id/admin/invites?skip=50#open"`)
	b.Page("/admin/users/root1").Is(200).Shows(">More invites<")
}

func TestExportRunsNoFormula(t *testing.T) {
	_, b := administered(t, "bob")
	for _, reason := range []string{`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(A1)", `a "quoted", text`, "a;=1+1; -2", "＝1"} {
		b.Call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": reason}).Is(200)
		b.Call("POST", "/api/admin/users/bob/unsuspend", nil).Is(200)
	}
	b.Page("/admin/audit").Is(200).Shows("=HYPERLINK(&#34;").Hides(`"http://evil`)
	a := b.Page("/admin/audit.csv?kind=user.suspend").Is(200).Shows(`,"'=HYPERLINK(""http://evil.example"",""x"")",`,
		`,"'+1",`, `,"'-1",`, `,"'@SUM(A1)",`, `,"a ""quoted"", text",`, `,"a;'=1+1;' -2",`, `,"'＝1",`)
	if got := a.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/csv") ||
		strings.Count(a.Body, "\r\n") != 8 || !strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %s", got, a.Body)
	}
	lines := strings.Split(strings.TrimSpace(b.Page("/admin/audit.jsonl?kind=user.suspend").Is(200).Body), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], `{"id":`) {
		t.Errorf("%q", lines)
	}
	b.Call("GET", "/api/admin/audit?kind=audit", nil).Is(200).Shows("audit.export", "kind=user.suspend")
	b.Page("/admin/audit.csv?kind=invite&told=" + strings.Repeat("x", 1000)).Is(200)
	b.Call("GET", "/api/admin/audit?kind=audit&limit=1", nil).Is(200).Shows(`"detail":"kind=invite"`)
}

// The list of people can be downloaded as it is filtered, and added again by the list of people to add.
func TestPeopleAreDownloadedAsCSV(t *testing.T) {
	w, b := administered(t, "bob")
	w.AddUser("eve", account.FlagActivity)
	b.Call("PATCH", "/api/admin/users/eve", map[string]string{"display_name": "=1+1", "email": "eve@example.org"}).Is(200)
	b.Page("/admin/users/?flag=activity").Is(200).Shows(`href="/id/admin/users.csv?flag=activity"`)
	got := b.Page("/admin/users.csv?flag=activity&told=x").Is(200).Shows("handle,display_name,email,", `eve,"'=1+1",eve@example.org,`).Hides("bob")
	if strings.Count(got.Body, "\r\n") != 2 || got.Header.Get("Content-Disposition") != `attachment; filename="people.csv"` {
		t.Errorf("%s %s", got.Header.Get("Content-Disposition"), got.Body)
	}
	if got := b.Page("/admin/users.csv").Is(200).Shows(strings.Repeat(","+w.Clock.Now().Format(time.RFC3339), 2)); strings.Count(got.Body, "\r\n") != 4 {
		t.Errorf("all: %s", got.Body)
	}
	b.Page("/admin/users.csv?flag=x%20y").Is(400)
	b.Call("GET", "/api/admin/audit?kind=user.export", nil).Is(200).Shows(`"detail":"flag=activity"`)
	w.SignedIn("bob").Page("/admin/users.csv").Is(403)
}

// A test mail goes to the administrator's own address, once a minute, and what waits is on the overview.
func TestOverviewTestsMail(t *testing.T) {
	w := newWorld(t, func(o *accounttest.Options) { o.Mail = nobody{} })
	b := w.Member("root1", account.FlagAdmin)
	b.Page("/admin/").Is(200).Shows(`id="last-backup"`, `id="mail-waiting">0<`).Hides(`id="test-mail"`)
	b.Page("/admin/test-mail", "to", "me").Is(400)
	b.Call("PATCH", "/api/me", map[string]string{"email": "root@example.org"}).Is(200)
	before, err := w.Administration().MailState(t.Context())
	must(t, err)
	b.Page("/admin/").Is(200).Shows(`id="test-mail"`)
	for range 2 {
		b.Page("/admin/test-mail", "to", "me").RedirectsTo("/id/admin/?notice=test-mail#service")
	}
	b.Page("/admin/").Is(200).Shows(fmt.Sprintf(`id="mail-waiting">%d<`, before.Waiting+1))
	b.Call("GET", "/api/admin/audit?kind=mail.test", nil).Is(200).Shows(`"action":"mail.test"`)
}

// An invite can be made where all invites are seen.
func TestInvitesAreMadeInTheAdministration(t *testing.T) {
	_, b := administered(t)
	page := b.Page("/admin/invites").Is(200).Shows(`id="invite-submit"`, `action="/id/account/invites?as=root1#invites"`)
	_, once, _ := strings.Cut(page.Body, `name="once" value="`)
	once, _, _ = strings.Cut(once, `"`)
	b.Page("/account/invites", "once", once, "note", "For Bob").RedirectsTo("/id/account/invites?notice=invite-created#invites")
	b.Page("/admin/invites").Is(200).Shows("For Bob")
}

// picture is a PNG of that size.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))))
	return b.Bytes()
}

func upload(b *accounttest.Browser, section, field string, content []byte) *accounttest.Answer {
	b.W.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, "logo.png")
	if err == nil {
		_, err = part.Write(content)
	}
	if err != nil || form.Close() != nil {
		b.W.T.Fatal(err)
	}
	return b.Send("POST", "/admin/settings/"+section, form.FormDataContentType(), body.String(), "Accept", "text/html")
}

func TestLogoIsAPictureAndNothingElse(t *testing.T) {
	w, b := administered(t)
	good := picture(t, 8, 8)
	cut := append([]byte{}, good[:len(good)-20]...)
	bomb := picture(t, 1, 1)
	// 65536 a side, with a wrong checksum; the next one has the right one
	copy(bomb[16:24], []byte{0, 1, 0, 0, 0, 1, 0, 0})
	for name, content := range map[string][]byte{
		"nothing": {}, "text": []byte("hello"), "SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), "HTML": []byte("<script>alert(1)</script>"),
		"GIF": []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), "cut off": cut, "bomb": bomb, "wide": picture(t, 1025, 1), "large": append(picture(t, 8, 8), make([]byte, 70<<10)...),
		"bomb of pixels": picture(t, 5000, 5000),
	} {
		a := upload(b, "logo", "logo", content)
		if a.Status != 400 || !strings.Contains(a.Body, "must be a PNG") {
			t.Errorf("%s: %d %.200s", name, a.Status, a.Body)
		}
	}
	upload(b, "logo", "other", good).Is(400)
	b.Page("/admin/settings/logo", "logo", "x").Is(400)
	if v, err := w.Service.Settings(t.Context()); err != nil || v.Logo != "" {
		t.Fatalf("%q %v", v.Logo, err)
	}

	upload(b, "logo", "logo", append(good, "<script>alert(1)</script>"...)).RedirectsTo("/id/admin/settings?notice=logo-saved#logo")
	page := b.Page("/admin/settings").Is(200).Shows(`id="logo-remove"`)
	path := regexp.MustCompile(`src="/id(/logo/[0-9a-f]{16}\.png)"`).FindStringSubmatch(page.Body)
	if path == nil {
		t.Fatal(page.Body)
	}
	a := w.Browser().Send("GET", path[1], "", "").Is(200).Hides("script")
	if a.Header.Get("Content-Type") != "image/png" || a.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", a.Header)
	}
	if _, err := png.Decode(strings.NewReader(a.Body)); err != nil {
		t.Error(err)
	}
	w.Browser().Send("GET", "/logo/0123456789abcdef.png", "", "").Is(404)

	// The one for the dark scheme is shown there alone, and goes with the other.
	shown := regexp.MustCompile(`<source srcset="/id(/logo/[0-9a-f]{16}\.png)" media="\(prefers-color-scheme: dark\)"><img class="logo" src="/id` + path[1])
	dark := func(browser *accounttest.Browser) string {
		if found := shown.FindStringSubmatch(browser.Page("/login/").Body); found != nil {
			return found[1]
		}
		return ""
	}
	upload(b, "dark-logo", "logo", []byte("hello")).Is(400).Shows(`id="dark-logo-error"`, `id="logo-hint"`)
	same(t, "dark", dark(w.Browser()), "")
	for _, removal := range []string{"dark-logo", "logo"} {
		upload(b, "dark-logo", "logo", append(picture(t, 9, 9), "<script>"...)).RedirectsTo("/id/admin/settings?notice=dark-logo-saved#dark-logo")
		got := dark(w.Browser())
		if got == "" || got == path[1] {
			t.Fatalf("%s: %q", removal, got)
		}
		b.Page("/admin/settings").Is(200).Shows(`id="dark-logo-remove"`)
		w.Browser().Send("GET", got, "", "").Is(200).Hides("script")
		w.Browser().Send("GET", path[1], "", "").Is(200)
		b.Page("/admin/settings/remove-"+removal, "x", "").RedirectsTo("/id/admin/settings?notice=" + removal + "-removed#" + removal)
		w.Browser().Send("GET", got, "", "").Is(404)
	}
	b.Page("/admin/settings").Is(200).Hides(`id="dark-logo"`)
	upload(b, "logo", "logo", good).RedirectsTo("/id/admin/settings?notice=logo-saved#logo")
	w.Browser().Page("/login/").Shows(path[1]).Hides("<source")
	b.Page("/admin/settings/remove-logo", "x", "").RedirectsTo("/id/admin/settings?notice=logo-removed#logo")
	w.Browser().Send("GET", path[1], "", "").Is(404)
}

func TestSettingsByForms(t *testing.T) {
	w, b := administered(t)
	general := []string{"instance_name", "Running Club", "accent_colour", "#1a2b3c", "contact", "help@example.org", "registration", "closed", "max_users", "50", "invites_per_member", "5"}
	b.Page("/admin/settings/general", general...).RedirectsTo("/id/admin/settings?notice=general#general")
	b.Page("/admin/settings/flags", "known", "activity", "known", "admin", "description.activity", "Runs.",
		"description.admin", "Administers.", "new_flag", "coach", "new_description", "Trains.", "default", "coach").
		RedirectsTo("/id/admin/settings?notice=flags#flags")
	b.Page("/admin/settings/security", "second_factor", "coach", "min_password_length", "12", "audit_days", "90").RedirectsTo("/id/admin/settings?notice=security#security")
	v, err := w.Service.Settings(t.Context())
	if err != nil || v.InstanceName != "Running Club" || v.Registration != "closed" || v.MaxUsers != 50 ||
		strings.Join(v.DefaultFlags, " ") != "coach" || v.FlagDescriptions["coach"] != "Trains." ||
		strings.Join(v.SecondFactorFlags, " ") != "coach" || v.MinPassword != 12 || v.AuditDays != 90 {
		t.Errorf("%+v %v", v, err)
	}
	general[9] = "many"
	b.Page("/admin/settings/general", general...).Is(400).Shows(`id="max_users-error"`, `value="many"`)
	general[3], general[11] = "blue", "few"
	b.Page("/admin/settings/general", general...).Is(400).
		Shows(`id="max_users-error"`, `id="invites_per_member-error"`, `id="accent_colour-error"`, `value="many"`, `value="few"`, `value="blue"`)
	general[9], general[11] = "50", "5"
	b.Page("/admin/settings/general", general...).Is(400).Shows(`id="accent_colour-error"`, `value="blue"`, `name="second_factor" value="coach" checked`)
	b.Page("/admin/settings/flags", "new_flag", "<b>").Is(400).Shows(`id="new_flag-error"`, "&lt;b&gt;")
	remove := []string{"known", "coach", "default", "coach", "remove", "coach", "remove", "admin"}
	b.Page("/admin/settings/flags", remove...).Is(400).Shows("Change that under Security first.", `name="second_factor" value="coach" checked`)
	b.Page("/admin/settings/security", "known", "coach").RedirectsTo("/id/admin/settings?notice=security#security")
	b.Page("/admin/settings/flags", remove...).RedirectsTo("/id/admin/settings?notice=flags#flags")
	if v, err := w.Service.Settings(t.Context()); err != nil || strings.Join(v.Flags, " ") != "activity admin" || len(v.SecondFactorFlags)+len(v.DefaultFlags) != 0 {
		t.Errorf("%+v %v", v, err)
	}
}

func TestApplicationsAreShownWithTheirCommands(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.Clients = []templates.ApplicationRow{{ID: "c1", Name: "<b>Maps", RedirectURIs: []string{"https://maps.example.org/cb"}, RequireFlags: []string{"activity"}, Users: 7, LastUsedAt: w.Began.Add(-time.Hour)}}
	b := w.SignedIn("root1")
	b.Page("/admin/applications").Is(200).Shows("cairn client update c1", "&lt;b&gt;Maps", "7 people", "https://maps.example.org/cb").Hides("<b>Maps")
}

// A new installation says what comes next, until it is done or the list is closed.
func TestFirstSignInLeadsToTheNextSteps(t *testing.T) {
	w := newWorld(t)
	w.BackedUp = time.Time{}
	w.AddUser("root1", account.FlagAdmin)
	to := func(path string) *accounttest.Browser {
		t.Helper()
		b := w.Browser()
		same(t, fmt.Sprintf("led to, not %s", path),
			b.Page("/login/", "handle", "root1", "password", password).Is(303).Header.Get("Location"), "/id"+path)
		return b
	}
	to("/account/").Page("/admin/").Is(200).Hides(`id="next-steps"`)
	open := func(v *account.Settings) (string, error) { v.NextSteps = true; return "next_steps", nil }
	_, err := w.Store.AmendSettings(t.Context(), open, account.Audit{Action: "settings.update"})
	must(t, err)
	b := to("/admin/")
	b.Page("/admin/").Is(200).Shows(`id="next-steps"`, `href="/id/account/invites"`, "cairn client add --help", "cairn backup FILE").
		Hides(`data-warning="backup"`)
	left := func(want int) {
		t.Helper()
		same(t, "steps are open", strings.Count(b.Page("/admin/").Is(200).Body, "badge advice"), want)
	}
	for _, one := range []map[string]any{{"time_zone": "Europe/London"}, {"time_zone": "", "language": "en"}} {
		left(5)
		b.Call("PUT", "/api/admin/settings", one).Is(200)
	}
	left(5)
	b.Call("PUT", "/api/admin/settings", map[string]any{"language": "de", "time_zone": "Europe/Berlin"}).Is(200)
	b.Call("PATCH", "/api/me", map[string]string{"locale": "de"}).Is(200)
	left(4)
	b.Call("POST", "/api/invites", nil).Is(201)
	left(3)
	b.Call("PATCH", "/api/me", map[string]string{"email": "root@example.org"}).Is(200)
	left(2)
	w.Start(func(o *accounttest.Options) { o.Issuer, o.Mail = o.Issuer+"/id", noMail{} })
	left(3)
	setVerified(w, "root1")
	left(2)
	w.AddUser("bob")
	w.Browser().Page("/login/", "handle", "bob", "password", password).RedirectsTo("/id/account/")
	w.Clients = []templates.ApplicationRow{{ID: "x"}}
	b.Page("/admin/").Shows(`data-step="application"`, "cairn backup FILE").Hides("cairn client add --help")
	w.BackedUp = w.Clock.Now()
	to("/account/").Page("/admin/").Is(200).Hides(`id="next-steps"`)
	w.BackedUp = time.Time{}
	to("/admin/").Page("/admin/steps", "", "").Is(303)
	to("/account/").Page("/admin/").Is(200).Hides(`id="next-steps"`).Shows(`data-warning="backup"`)
}

// noMail is never asked to send.
type noMail struct{ mail.Sender }

func TestRequestsToJoinAreDecidedOnThePage(t *testing.T) {
	w := newWorld(t, func(o *accounttest.Options) { o.Mail = noMail{} })
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada")
	b, now := w.SignedIn("root1"), w.Clock.Now()
	b.Page("/admin/invites").Is(200).Hides(`id="requests"`)
	w.SaveSettings(func(v *account.Settings) { v.Registration = account.RegistrationRequest })
	b.Page("/admin/invites").Is(200).Shows(`id="requests"`)
	for i, name := range []string{"bo", "cy", "dee"} {
		err := w.Store.AddJoinRequest(t.Context(), account.JoinRequest{ID: name, Name: "<" + name + ">", Email: name + "@example.org", Reason: "Runs.", App: map[string]string{"bo": "gone"}[name],
			AskedAt: now, ExpiresAt: now.Add(time.Hour)}, []byte{byte(i)}, 200, account.Operator().Audit(now, account.ConfirmJoin, "", ""))
		must(t, err)
	}
	b.Page("/admin/invites").Is(200).Shows(`<option value="gone" selected>gone</option>`).Hides("leads-to-1") // nothing else can be opened
	b.Page("/admin/invites").Is(200).Shows("&lt;bo&gt;", "bo@example.org", `data-request="dee"`)
	w.SignedIn("ada").Call("GET", "/api/admin/join-requests", nil).Is(403, "admin_required")
	w.SignedIn("ada").Page("/admin/join-requests", "id", "bo", "decision", "welcome").Is(403)
	b.Page("/admin/join-requests", "id", "bo", "decision", "welcome", "note", strings.Repeat("x", 201), "app", "").Is(400).
		Shows(`data-request="bo"`, strings.Repeat("x", 201)).Hides(">gone<")
	b.Page("/admin/join-requests", "id", "bo", "decision", "perhaps").Is(400)
	b.Page("/admin/join-requests", "id", "bo", "decision", "welcome", "note", "Hello", "app", "").RedirectsTo("/id/admin/invites?notice=join-accepted#requests")
	if due, err := w.Store.DueMails(t.Context(), now.Add(time.Hour), time.Second, 10); err != nil || len(due) != 1 || due[0].Data["app"] != "" {
		t.Errorf("the link leads not where the form says: %+v %v", due, err)
	}
	b.Page("/admin/join-requests", "id", "bo", "decision", "welcome").Is(404).Shows("decided already")
	b.Page("/admin/join-requests", "id", "cy", "decision", "refuse").RedirectsTo("/id/admin/invites?notice=join-refused#requests")
	b.Page("/admin/invites").Is(200).Shows("<bdi>bo@example.org</bdi>").Hides(`data-request="bo"`, "cy@example.org") // the invite for Bo is open
	b.Call("GET", "/api/admin/join-requests", nil).Is(200).Shows(`"id":"dee"`)
	b.Page("/admin/").Is(200).Shows(`id="waiting-requests"`, "1 person is waiting to join.", "Invites (1)").Hides(`id="coming-ends"`)
	soon := map[string]string{"ends": w.Clock.Now().AddDate(0, 0, 13).Format(time.RFC3339)}
	w.SignedIn("root1").Call("PUT", "/api/admin/users/ada/end", soon).Is(200)
	b.Page("/admin/").Is(200).Shows(`id="coming-ends"`, "/admin/users/?ending=14", "within 14 days: 1")
	w.SaveSettings(func(*account.Settings) {}) // those who wait are still there
	b.Page("/admin/invites").Is(200).Shows(`data-request="dee"`)
	w.Clock.Advance(account.FreshFor + time.Second)
	b.Call("POST", "/api/admin/join-requests/dee/accept", nil).Is(403, "reauthentication_required")
	b.Call("POST", "/api/auth/confirm", map[string]string{"password": accounttest.Password}).Is(200)
	b.Call("POST", "/api/admin/join-requests/dee/refuse", map[string]string{"note": "Full."}).Is(204)
	b.Call("POST", "/api/admin/join-requests/dee/accept", nil).Is(404, "join_request_not_found")
}

// Whoever is asked by somebody whose mails do not come sees that an address waits.
func TestWaitingAddressIsShownToAdministrators(t *testing.T) {
	w := newWorld(t, func(o *accounttest.Options) { o.Mail = nobody{} })
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada")
	b := w.SignedIn("root1")
	b.Call("PATCH", "/api/admin/users/ada", map[string]any{"email": "ada@example.org", "email_verified": true}).Is(200).Shows(`"email_pending":""`)
	b.Page("/admin/users/ada").Is(200).Hides("email-waits")
	w.SignedIn("ada").Call("PATCH", "/api/me", map[string]string{"email": "new+1@example.org"}).Is(200)
	b.Call("GET", "/api/admin/users/ada", nil).Is(200).Shows(`"email":"ada@example.org"`, `"email_pending":"new+1@example.org"`)
	b.Page("/admin/users/ada").Is(200).Shows(`value="ada@example.org"`, `id="email-waits">Waiting for the person to open the link: <bdi>new+1@example.org</bdi>`)
}

// What a spreadsheet would run stands behind a quote, and is otherwise the name.
func TestHostileNamesLeaveWhole(t *testing.T) {
	_, b := administered(t, "ada")
	for _, name := range accounttest.HostileNames {
		b.Call("PATCH", "/api/admin/users/ada", map[string]string{"display_name": name}).Is(200)
		b.Call("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": name}).Is(200)
		b.Call("POST", "/api/admin/users/ada/unsuspend", nil).Is(200)
		row := func(path string, first func(row []string) bool) []string {
			rows, err := csv.NewReader(strings.NewReader(b.Page(path).Is(200).Body)).ReadAll()
			must(t, err)
			i := slices.IndexFunc(rows, first)
			if i < 0 {
				t.Fatalf("%s: %q", path, rows)
			}
			for _, field := range rows[i] {
				if field != "" && strings.ContainsAny(field[:1], "=+-@") {
					t.Errorf("%q: %s has the field %q", name, path, field)
				}
			}
			return rows[i]
		}
		if got := row("/admin/users.csv", func(row []string) bool { return row[0] == "ada" }); web.UnguardCell(got[1]) != name {
			t.Errorf("%q: people.csv has %q", name, got)
		}
		got := row("/admin/audit.csv?kind=user.suspend", func(row []string) bool { return slices.Contains(row, "user.suspend") })
		if !slices.ContainsFunc(got,
			func(field string) bool { return strings.Contains(web.UnguardCell(field), name) }) {
			t.Errorf("%q: audit.csv has %q", name, got)
		}
		page := b.Page("/admin/users/ada").Is(200)
		if strings.Contains(page.Body, "<C>") || !strings.Contains(html.UnescapeString(page.Body), `name="display_name" type="text" value="`+name+`"`) {
			t.Errorf("%q: %s", name, page.Body)
		}
	}
}

// A welcome leads to the application that the administrator chose, by mail and by the link that is shown.
func TestWelcomeLeadsToAnApplication(t *testing.T) {
	w, mails := newMailWorld(t)
	b := w.Member("root1", account.FlagAdmin)
	b.Page("/admin/users/").Is(200).Hides("leads-to")
	c := &provider.Client{ID: "maps", Name: "Maps", HomeURI: "https://maps.example/", RedirectURIs: []string{"https://maps.example/cb"},
		AuthMethod: provider.AuthNone, CreatedAt: w.Clock.Now()}
	must(t, w.Store.(interface {
		CreateClient(ctx context.Context, c *provider.Client, a account.Audit) error
	}).CreateClient(t.Context(), c, account.Operator().Audit(w.Clock.Now(), account.RegisterClient, "", "")))
	b.Page("/admin/users/").Is(200).Shows(`<select id="leads-to" name="app">`, `<option value="maps">Maps</option>`)
	b.Page("/admin/users/", "handle", "bo", "app", "maps").Is(200).Shows("handle=bo&amp;app=maps")
	b.Page("/admin/users/", "handle", "cy", "email", "cy@example.org", "app", "maps").Is(303)
	w.deliver(t)
	b.Page("/admin/users/paste", "people", "Dee;dee@example.org\nEd", "app", "maps").Is(200).
		Shows(`<option value="maps" selected>`, `<input type="hidden" name="app" value="maps">`, `data-line="2"`)
	b.Page("/admin/users/paste", "people", "Dee;dee@example.org\nEd", "sure", "yes", "app", "maps").Is(200).
		Shows("handle=ed&amp;app=maps").Hides(`<td>2</td>`)
	w.deliver(t)
	for _, address := range []string{"cy@example.org", "dee@example.org"} {
		if sent := mails.sent[address]; len(sent) != 1 || !strings.Contains(sent[0].Text, "&app=maps\n") {
			t.Errorf("%+v", sent)
		}
	}
}
