package admin_test

import (
	"bytes"
	"image"
	"image/png"
	"mime/multipart"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

func TestOverviewWarnsWithTheRemedy(t *testing.T) {
	w := newWorld(t)
	w.backedUp = time.Time{}
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	b.page("/admin/").is(200).shows(`data-page="admin"`, `notice" data-warning="second-factor"`, `data-warning="second-factor-optional"`, `notice" data-warning="backup"`,
		`id="members">1<`, `id="sign-ins">1<`).hides("key-age", "mail-server")
	w.keyCreated = start.AddDate(-1, 0, -2)
	w.now = start.AddDate(0, 0, 8) // and people have signed in for longer than a week
	w.signedIn("root1").page("/admin/").is(200).shows(`warning" data-warning="key-age"`, "cairn keys generate", `warning" data-warning="backup"`)
	w.now = start
	b.call("PUT", "/api/admin/settings", map[string]any{"accent_colour": "#FFee00"}).is(200).shows(`"accent_colour":"#ffee00"`)
	b.page("/admin/").is(200).shows(`href="/id/theme/ffee00-`)
	b.call("PUT", "/api/admin/settings", map[string]any{"accent_colour": "red;}"}).is(400, "invalid_settings")
}

func TestAdministratorAddsAPerson(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	m := b.call("POST", "/api/admin/users", map[string]any{"handle": "Ada", "display_name": "Ada L.", "flags": map[string]bool{"admin": false, "activity": true}}).is(201).json()
	code := m["code"].(string)
	if u := m["user"].(map[string]any); u["handle"] != "ada" || !strings.Contains(m["url"].(string), code) {
		t.Errorf("%v", m)
	}
	for _, try := range []string{"", "*", password} {
		w.browser().call("POST", "/api/auth/login", map[string]string{"handle": "ada", "password": try}).is(401, "invalid_credentials")
	}
	w.browser().call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": code, "password": password}).is(200)
	if !w.signedIn("ada").isSignedIn() {
		t.Error("ada cannot sign in")
	}
	b.call("POST", "/api/admin/users", map[string]any{"handle": "ada"}).is(409, "handle_taken")
	b.call("POST", "/api/admin/users", map[string]any{"handle": "root"}).is(400, "invalid_handle")
	b.call("POST", "/api/admin/users", map[string]any{"handle": "bob", "flags": map[string]bool{"nope": true}}).is(400, "unknown_flag")
	b.call("POST", "/api/admin/users", map[string]any{"handle": "bob", "password": "x"}).is(400, "invalid_request")

	b.page("/admin/users/", "handle", "ada", "display_name", "<i>").is(409).shows(`value="&lt;i&gt;"`, `aria-invalid="true"`)
	a := b.page("/admin/users/", "handle", "eve", "flag", "activity").is(200).shows(`data-page="admin-user"`)
	shown := regexp.MustCompile(`id="reset-code">([0-9A-Z-]+)<`).FindStringSubmatch(a.body)
	if shown == nil {
		t.Fatal(a.body)
	}
	b.page("/admin/audit?person=eve").is(200).shows("root1 created the account of eve", `data-action="user.create"`).hides(shown[1])
}

func TestListsOfPeopleAreFilteredAndCounted(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("ada", account.FlagActivity)
	w.addUser("bob")
	b := w.signedIn("root1")
	b.call("POST", "/api/admin/users/bob/suspend", nil).is(200)
	for q, handles := range map[string]string{
		"": "ada bob root1", "flag=activity": "ada", "suspended=true": "bob", "never_signed_in=true": "ada bob", "no_second_factor=true&flag=admin": "root1",
		"sort=last_sign_in": "root1 bob ada", "query=ada&suspended=true": "", "suspended=false&flag=": "ada bob root1",
	} {
		m := b.call("GET", "/api/admin/users?"+q, nil).is(200).json()
		var got []string
		for _, u := range m["users"].([]any) {
			got = append(got, u.(map[string]any)["handle"].(string))
		}
		if strings.Join(got, " ") != handles || m["total"] != float64(len(got)) {
			t.Errorf("%s: %v, total %v", q, got, m["total"])
		}
		b.page("/admin/users/?" + q).is(200)
	}
	for _, q := range []string{"suspended=yes", "suspended=true&suspended=true", "flag=A", "flag=a&flag=b", "sort=password_hash", "sort=handle;", "never_signed_in=1", "no_second_factor=%00"} {
		b.call("GET", "/api/admin/users?"+q, nil).is(400, "invalid_request")
		b.page("/admin/users/?" + q).is(400)
	}
	for _, path := range []string{"/admin/audit?from=yesterday", "/admin/audit?kind=%27", "/admin/audit?person=a%20b", "/admin/audit.csv?from=x", "/admin/invites?skip=-1", "/admin/invites?cursor=!", "/admin/invites?skip=x"} {
		b.page(path).is(400)
	}
	b.page("/admin/invites?under=nobody").is(404)
}

func TestOnlyAdministratorsSeeTheirPages(t *testing.T) {
	w := newWorld(t)
	w.addUser("bob")
	bob := w.signedIn("bob")
	for _, path := range []string{"/admin/", "/admin/users/", "/admin/invites", "/admin/applications", "/admin/settings", "/admin/audit", "/admin/audit.csv", "/admin/audit.jsonl"} {
		w.browser().page(path).redirectsTo("/id/login/")
		bob.page(path).is(403)
	}
	for _, path := range []string{"/admin/users/", "/admin/invites/revoke", "/admin/settings/general", "/admin/settings/flags", "/admin/settings/security", "/admin/settings/logo", "/admin/settings/remove-logo"} {
		w.browser().page(path, "handle", "x").redirectsTo("/id/login/")
		bob.page(path, "handle", "x").is(403)
	}
	bob.call("POST", "/api/admin/users", map[string]string{"handle": "eve"}).is(403, "admin_required")
	bob.call("POST", "/api/admin/invites/revoke", map[string]string{"handle": "bob"}).is(403, "admin_required")
	bob.call("DELETE", "/api/admin/invites/AAAA-BBBB-CCCC-DDDD", nil).is(403, "admin_required")
}

func TestBranchesOfInvites(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	ada := w.addUser("ada")
	b, of := w.signedIn("root1"), w.signedIn("ada")
	code := of.call("POST", "/api/invites", map[string]string{"note": "<script>alert(1)</script>"}).is(201).json()["code"].(string)
	of.call("POST", "/api/invites", nil).is(201)
	w.browser().call("POST", "/api/register", map[string]string{"code": code, "handle": "gus", "password": password, "display_name": "<img src=x>"}).is(201)
	w.signedIn("gus").call("POST", "/api/invites", map[string]string{"note": "<script>alert(1)</script>"}).is(201)
	b.page("/admin/invites").is(200).shows(`data-branch="ada"`, "invited 1 person", "1 of them active", "&lt;script&gt;").
		hides("<script>alert", "<img src=x", `data-branch="root1"`)
	b.page("/admin/invites?under=ada").is(200).shows(`data-branch="gus"`, `id="revoke-branch-submit"`, "&lt;img src=x&gt;").hides("<img src=x")
	b.call("DELETE", "/api/admin/invites/"+code, nil).is(409, "invite_used")
	b.call("DELETE", "/api/admin/invites/0000-0000-0000-0000", nil).is(404, "invite_not_found")
	b.page("/admin/invites/revoke", "under", "ada").is(200).shows("2 open invites are revoked.")
	if got := b.call("POST", "/api/admin/invites/revoke", map[string]string{"handle": ada.Handle}).is(200).json()["revoked"]; got != float64(0) {
		t.Errorf("%v are left", got)
	}
	one := w.signedIn("ada").call("POST", "/api/invites", nil).is(201).json()["code"].(string)
	b.page("/admin/invites/revoke", "code", one).redirectsTo("/id/admin/invites?notice=invite-revoked#open")
	b.page("/admin/invites/revoke", "code", one).is(404)
	b.page("/admin/users/ada").is(200).shows(`data-invited="gus"`)
}

func TestExportRunsNoFormula(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.addUser("bob")
	b := w.signedIn("root1")
	for _, reason := range []string{`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(A1)", `a "quoted", text`, "a;=1+1; -2", "＝1"} {
		b.call("POST", "/api/admin/users/bob/suspend", map[string]string{"reason": reason}).is(200)
		b.call("POST", "/api/admin/users/bob/unsuspend", nil).is(200)
	}
	b.page("/admin/audit").is(200).shows("=HYPERLINK(&#34;").hides(`"http://evil`)
	a := b.page("/admin/audit.csv?kind=user.suspend").is(200).shows(`,"'=HYPERLINK(""http://evil.example"",""x"")",`, `,"'+1",`, `,"'-1",`, `,"'@SUM(A1)",`, `,"a ""quoted"", text",`, `,"a;'=1+1;' -2",`, `,"'＝1",`)
	if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, "text/csv") || strings.Count(a.body, "\r\n") != 8 || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%q %s", got, a.body)
	}
	lines := strings.Split(strings.TrimSpace(b.page("/admin/audit.jsonl?kind=user.suspend").is(200).body), "\n")
	if len(lines) != 7 || !strings.HasPrefix(lines[0], `{"id":`) {
		t.Errorf("%q", lines)
	}
	b.call("GET", "/api/admin/audit?kind=audit", nil).is(200).shows("audit.export", "kind=user.suspend")
	b.page("/admin/audit.csv?kind=invite&told=" + strings.Repeat("x", 1000)).is(200)
	b.call("GET", "/api/admin/audit?kind=audit&limit=1", nil).is(200).shows(`"detail":"kind=invite"`)
}

// picture is a PNG of that size.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (b *browser) upload(field string, content []byte) *answer {
	b.w.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, "logo.png")
	if err == nil {
		_, err = part.Write(content)
	}
	if err != nil || form.Close() != nil {
		b.w.t.Fatal(err)
	}
	return b.send("POST", "/admin/settings/logo", form.FormDataContentType(), body.String(), "Accept", "text/html")
}

func TestLogoIsAPictureAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	good := picture(t, 8, 8)
	cut := append([]byte{}, good[:len(good)-20]...)
	bomb := picture(t, 1, 1)
	copy(bomb[16:24], []byte{0, 1, 0, 0, 0, 1, 0, 0}) // 65536 a side, with a wrong checksum; the next one has the right one
	for name, content := range map[string][]byte{
		"nothing": {}, "text": []byte("hello"), "SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`), "HTML": []byte("<script>alert(1)</script>"),
		"GIF": []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), "cut off": cut, "bomb": bomb, "wide": picture(t, 1025, 1), "large": append(picture(t, 8, 8), make([]byte, 70<<10)...),
		"bomb of pixels": picture(t, 5000, 5000),
	} {
		a := b.upload("logo", content)
		if a.status != 400 || !strings.Contains(a.body, "has to be a PNG") {
			t.Errorf("%s: %d %.200s", name, a.status, a.body)
		}
	}
	b.upload("other", good).is(400)
	b.page("/admin/settings/logo", "logo", "x").is(400)
	if v, err := w.service.Settings(t.Context()); err != nil || v.Logo != "" {
		t.Fatalf("%q %v", v.Logo, err)
	}

	b.upload("logo", append(good, "<script>alert(1)</script>"...)).redirectsTo("/id/admin/settings?notice=logo-saved#logo")
	page := b.page("/admin/settings").is(200).shows(`id="logo-remove"`)
	path := regexp.MustCompile(`src="/id(/logo/[0-9a-f]{16}\.png)"`).FindStringSubmatch(page.body)
	if path == nil {
		t.Fatal(page.body)
	}
	a := w.browser().send("GET", path[1], "", "").is(200).hides("script")
	if a.header.Get("Content-Type") != "image/png" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", a.header)
	}
	if _, err := png.Decode(strings.NewReader(a.body)); err != nil {
		t.Error(err)
	}
	w.browser().send("GET", "/logo/0123456789abcdef.png", "", "").is(404)
	b.page("/admin/settings/remove-logo", "x", "").redirectsTo("/id/admin/settings?notice=logo-removed#logo")
	w.browser().send("GET", path[1], "", "").is(404)
}

func TestSettingsByForms(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	b := w.signedIn("root1")
	general := []string{"instance_name", "Running Club", "accent_colour", "#1a2b3c", "contact", "help@example.org", "registration", "closed", "max_users", "50", "invites_per_member", "5"}
	b.page("/admin/settings/general", general...).redirectsTo("/id/admin/settings?notice=general#general")
	b.page("/admin/settings/flags", "known", "activity", "known", "admin", "description.activity", "Runs.", "description.admin", "Administers.", "new_flag", "coach", "new_description", "Trains.").
		redirectsTo("/id/admin/settings?notice=flags#flags")
	b.page("/admin/settings/security", "second_factor", "coach", "min_password_length", "12", "audit_days", "90").redirectsTo("/id/admin/settings?notice=security#security")
	v, err := w.service.Settings(t.Context())
	if err != nil || v.InstanceName != "Running Club" || v.Registration != "closed" || v.MaxUsers != 50 || len(v.DefaultFlags) != 0 || v.FlagDescriptions["coach"] != "Trains." ||
		strings.Join(v.SecondFactorFlags, " ") != "coach" || v.MinPassword != 12 || v.AuditDays != 90 {
		t.Errorf("%+v %v", v, err)
	}
	general[9] = "many"
	b.page("/admin/settings/general", general...).is(400).shows(`id="max_users-error"`, `value="many"`)
	general[9], general[3] = "50", "blue"
	b.page("/admin/settings/general", general...).is(400).shows(`id="accent_colour-error"`, `value="blue"`)
	b.page("/admin/settings/flags", "new_flag", "<b>").is(400).shows(`id="new_flag-error"`, "&lt;b&gt;")
	b.page("/admin/settings/flags", "known", "coach", "remove", "coach", "remove", "admin").redirectsTo("/id/admin/settings?notice=flags#flags")
	if v, err := w.service.Settings(t.Context()); err != nil || strings.Join(v.Flags, " ") != "activity admin" || len(v.SecondFactorFlags) != 0 {
		t.Errorf("%+v %v", v, err)
	}
}

func TestApplicationsAreShownWithTheirCommands(t *testing.T) {
	w := newWorld(t)
	w.addUser("root1", account.FlagAdmin)
	w.clients = []templates.ApplicationRow{{ID: "c1", Name: "<b>Maps", RedirectURIs: []string{"https://maps.example.org/cb"}, RequireFlag: "activity", Users: 7, LastUsedAt: start.Add(-time.Hour)}}
	b := w.signedIn("root1")
	b.page("/admin/applications").is(200).shows("cairn client update c1", "&lt;b&gt;Maps", "7 people", "https://maps.example.org/cb").hides("<b>Maps")
}

// A new installation says what comes next, until it is done or the list is closed.
func TestFirstSignInLeadsToTheNextSteps(t *testing.T) {
	w := newWorld(t)
	w.backedUp = time.Time{}
	w.addUser("root1", account.FlagAdmin)
	to := func(path string) *browser {
		t.Helper()
		b := w.browser()
		if got := b.page("/login/", "handle", "root1", "password", password).is(303).header.Get("Location"); got != "/id"+path {
			t.Errorf("led to %s, not %s", got, path)
		}
		return b
	}
	to("/account/").page("/admin/").is(200).hides(`id="next-steps"`)
	open := func(v *account.Settings) (string, error) { v.NextSteps = true; return "next_steps", nil }
	if _, err := w.store.AmendSettings(t.Context(), open, account.Audit{Action: "settings.update"}); err != nil {
		t.Fatal(err)
	}
	b := to("/admin/")
	steps := b.page("/admin/").is(200).shows(`id="next-steps"`, `href="/id/account/invites"`, "cairn client add --help", "cairn backup FILE").body
	if n := strings.Count(steps, ">open<"); n != 3 {
		t.Errorf("%d steps are open", n)
	}
	w.addUser("bob")
	w.browser().page("/login/", "handle", "bob", "password", password).redirectsTo("/id/account/")
	w.clients = []templates.ApplicationRow{{ID: "x"}}
	b.page("/admin/").shows(`data-step="application"`, "cairn backup FILE").hides("cairn client add --help")
	w.backedUp = w.now
	to("/account/").page("/admin/").is(200).hides(`id="next-steps"`)
	w.backedUp = time.Time{}
	to("/admin/").page("/admin/steps", "", "").is(303)
	to("/account/").page("/admin/").is(200).hides(`id="next-steps"`)
}
