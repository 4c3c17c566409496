package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/templates"
)

func TestSettingsChangeByName(t *testing.T) {
	w, b := administered(t)
	want := `{"instance_name":"Cairn","language":"","time_zone":"","registration":"invite","max_users":0,"invites_per_member":3,"invite_flags":[],"invite_max_uses":1,"invite_max_days":14,"min_password_length":10,"flags":["activity","admin"],"default_flags":["activity"],"sign_out_on_flag_loss":false,"flag_descriptions":{"activity":"Uses the activity application.","admin":"Administers this installation: users, flags and settings."},"contact":"","imprint_url":"","privacy_url":"","accent_colour":"","second_factor_flags":[],"audit_days":365,"offer_passkeys":true,"attributes":[],"session_flags":[],"session_days":30}`
	same(t, "got", strings.TrimSpace(b.Call("GET", "/api/admin/settings", nil).Is(200).Body), want)
	want = `{"instance_name":"Running Club","language":"","time_zone":"","registration":"invite","max_users":0,"invites_per_member":0,"invite_flags":[],"invite_max_uses":1,"invite_max_days":14,"min_password_length":10,"flags":["activity","admin","coach"],"default_flags":[],"sign_out_on_flag_loss":false,"flag_descriptions":{"activity":"Uses the activity application.","admin":"Administers this installation: users, flags and settings."},"contact":"","imprint_url":"","privacy_url":"","accent_colour":"","second_factor_flags":[],"audit_days":365,"offer_passkeys":true,"attributes":[],"session_flags":[],"session_days":30}`
	if got := strings.TrimSpace(b.Send("PUT", "/api/admin/settings", "application/json", `{"instance_name":"Running Club","flags":["activity","coach"],"default_flags":[],"invites_per_member":0}`).Is(200).Body); got != want {
		t.Errorf("got %s", got)
	}
	same(t, "stored", strings.TrimSpace(b.Call("GET", "/api/admin/settings", nil).Is(200).Body), want)
	b.Call("PUT", "/api/admin/settings", map[string]string{"registration": "closed"}).Is(200)
	w.Browser().Call("POST", "/api/register", map[string]string{"code": "x", "handle": "bob", "password": password}).Is(403, "registration_full")
	b.Send("PUT", "/api/admin/settings", "application/json", `{"audit_days":0}`).Is(200)
	b.Send("PUT", "/api/admin/settings", "application/json", `{"instance_name":null}`).Is(200).Shows(`"instance_name":"Running Club"`)
}

func TestWrongSettingsChangeNothing(t *testing.T) {
	_, b := administered(t)
	for body, pointer := range map[string]string{
		`{"instance_name":""}`: "/instance_name", `{"instance_name":"a\nb"}`: "/instance_name", `{"registration":"open"}`: "/registration", `{"max_users":-1}`: "/max_users", `{"max_users":1000001}`: "/max_users", `{"invites_per_member":1001}`: "/invites_per_member",
		`{"invite_max_uses":0}`: "/invite_max_uses", `{"invite_max_uses":501}`: "/invite_max_uses", `{"invite_max_days":0}`: "/invite_max_days", `{"invite_max_days":91}`: "/invite_max_days",
		`{"audit_days":29}`: "/audit_days", `{"audit_days":3651}`: "/audit_days", `{"session_days":0}`: "/session_days",
		`{"attributes":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q","r","s","t","u"]}`: "/attributes",
		`{"max_users":5,"min_password_length":7}`:                                                              "/min_password_length", `{"min_password_length":65}`: "/min_password_length", `{"invites_per_member":-1}`: "/invites_per_member",
		`{"flag_descriptions":{"coach":"x"}}`: "/flag_descriptions/coach", `{"flag_descriptions":{"coach":""}}`: "/flag_descriptions/coach", `{"flag_descriptions":{"admin":"a\nb"}}`: "/flag_descriptions/admin", `{"contact":"a\nb"}`: "/contact",
		`{"imprint_url":"http://club.example/"}`: "/imprint_url", `{"privacy_url":"https://u:p@club.example/"}`: "/privacy_url", `{"privacy_url":"javascript:alert(1)"}`: "/privacy_url",
		`{"flags":["Coach"]}`: "/flags", `{"flags":["a b"]}`: "/flags", `{"default_flags":["admin"]}`: "/default_flags", `{"default_flags":["unknown"]}`: "/default_flags",
	} {
		p := b.Send("PUT", "/api/admin/settings", "application/json", body).Is(400, "invalid_settings").JSON()
		if got := p["errors"].([]any)[0].(map[string]any)["pointer"]; got != pointer {
			t.Errorf("%s: %v", body, got)
		}
	}
	for _, body := range []string{`{"max_users":"5"}`, `{"max_users":1.5}`, `{"flags":"coach"}`, `{"secret":"x"}`, `{"secret":null}`, `{"max_users":1,"HS256Until":null}`, `{"Max_users":1}`, `[]`} {
		b.Send("PUT", "/api/admin/settings", "application/json", body).Is(400, "invalid_request")
	}
	for body, detail := range map[string]string{`{"offer_passkeys":1}`: "boolean", `{"flags":1}`: "array", `{"flag_descriptions":1}`: "object", `{"contact":1}`: "string"} {
		b.Send("PUT", "/api/admin/settings", "application/json", body).Is(400).Shows("must be a", detail)
	}
	b.Call("GET", "/api/admin/settings", nil).Shows(`"instance_name":"Cairn"`, `"max_users":0`, `"flags":["activity","admin"]`)
}

// A flag has a description as long as there is the flag; that of admin can be
// changed, not removed. Every other flag can be removed, activity too.
func TestFlagsAreDescribed(t *testing.T) {
	w, b := administered(t)
	put := func(body string, want map[string]any) {
		t.Helper()
		got := b.Send("PUT", "/api/admin/settings", "application/json", body).Is(200).JSON()["flag_descriptions"]
		same(t, body, cmp.Diff(want, got), "")
	}
	admin := "Administers this installation: users, flags and settings."
	put(`{"flags":["activity","coach"],"flag_descriptions":{"coach":"Trains others.","activity":"Runs."}}`, map[string]any{"activity": "Runs.", "admin": admin, "coach": "Trains others."})
	b.Call("GET", "/admin/users/root1", nil).Shows("Trains others.", "Runs.")
	b.Call("GET", "/admin/settings", nil).Shows("keep it, also for applications, until you remove it on their page")
	w.AddUser("bob", "coach")
	put(`{"flag_descriptions":{"activity":"","admin":""}}`, map[string]any{"admin": admin, "coach": "Trains others."})
	b.Send("PUT", "/api/admin/settings", "application/json", `{"flags":[],"default_flags":[],"flag_descriptions":{"coach":"x"}}`).Is(400).Shows(`"/flag_descriptions/coach"`)
	put(`{"flags":[],"default_flags":[]}`, map[string]any{"admin": admin})
	// Who has a removed flag keeps it until it is taken on their page.
	b.Call("GET", "/admin/users/root1", nil).Hides(`value="coach"`)
	b.Call("GET", "/admin/users/bob", nil).Shows(`value="coach" checked`)
	b.Page("/admin/users/bob/flags", "known", "admin", "known", "coach", "flag", "coach").Is(303)
	if !w.User("bob").Has("coach") {
		t.Error("saved as shown, the removed flag is gone")
	}
	b.Page("/admin/users/bob/flags", "known", "admin", "known", "coach").Is(303)
	if w.User("bob").Has("coach") {
		t.Error("the removed flag was not taken")
	}
	b.Page("/admin/settings/flags", "description.admin", "Administers this installation: people, permissions and settings.").Is(303) // as shown
	put(`{"flags":["coach"]}`, map[string]any{"admin": admin})
	b.Call("GET", "/api/me", nil).Shows(`"flags":{"admin":true,"coach":false}`)
	b.Call("GET", "/api/admin/audit", nil).Shows("flags flag_descriptions")
}

func TestClientsAreListedWithoutSecrets(t *testing.T) {
	w, b := administered(t)
	same(t, "Body", strings.TrimSpace(b.Call("GET", "/api/admin/clients", nil).Is(200).Body), `{"clients":[]}`)
	w.Clients = []templates.ApplicationRow{{ID: "c1", Name: "Maps", Public: true, RedirectURIs: []string{"https://maps.example.org/cb"}, RequireFlags: []string{"activity"}, CreatedAt: time.Unix(1893456000, 0)}}
	want := `{"clients":[{"client_id":"c1","client_name":"Maps","public":true,"redirect_uris":["https://maps.example.org/cb"],"scopes":[],"require_flag":"activity","require_acr":null,"trusted":false,"created_at":"2030-01-01T00:00:00Z"}]}`
	same(t, "got", strings.TrimSpace(b.Call("GET", "/api/admin/clients", nil).Is(200).Body), want)
}

// The page has what applications get: attributes, the flags of the session cookie, and how long it lasts.
func TestSessionsAndAttributesByForms(t *testing.T) {
	w, b := administered(t)
	is := func(attributes, flags string, days int) {
		t.Helper()
		v, err := w.Service.Settings(t.Context())
		if err != nil || strings.Join(v.Attributes, " ") != attributes || strings.Join(v.SessionFlags, " ") != flags || v.SessionDays != days {
			t.Errorf("%v %v %d %v", v.Attributes, v.SessionFlags, v.SessionDays, err)
		}
	}
	b.Page("/admin/settings/general", "attributes", "shirt_size, member_number\tshirt_size").RedirectsTo("/id/admin/settings?notice=general#general")
	b.Page("/admin/settings/flags", "new_flag", "coach").RedirectsTo("/id/admin/settings?notice=flags#flags")
	b.Page("/admin/settings/advanced", "session_flags", "coach", "session_flags", "activity", "sign_out_on_flag_loss", "on").RedirectsTo("/id/admin/settings?notice=advanced#advanced")
	b.Page("/admin/settings/security", "session_days", "7").RedirectsTo("/id/admin/settings?notice=security#security")
	is("member_number shirt_size", "activity coach", 7)
	b.Page("/admin/settings?notice=advanced").Is(200).Shows(`value="member_number shirt_size"`,
		`name="sign_out_on_flag_loss" value="true" checked`, `name="session_flags" value="coach" checked`, `name="session_days" type="text" inputmode="numeric" value="7"`,
		`name="offer_passkeys" value="true">`) // the form came without its tick
	b.Page("/admin/settings/general", "attributes", "Shirt").Is(400).Shows(`id="attributes-error"`, `value="Shirt"`)
	b.Page("/admin/settings/advanced", "session_flags", "boats", "audit_days", "31x").Is(400).Shows(`id="session_flags-error"`, `id="audit_days-error"`, `value="31x"`)
	b.Page("/admin/settings/general", "instance_name", "Club").RedirectsTo("/id/admin/settings?notice=general#general") // an open page of an earlier version
	b.Page("/admin/settings/flags", "remove", "coach").RedirectsTo("/id/admin/settings?notice=flags#flags")
	is("member_number shirt_size", "activity", 7)
	b.Page("/admin/settings/general", "attributes", " ").RedirectsTo("/id/admin/settings?notice=general#general")
	is("", "activity", 7)
	// A page that was open meanwhile changes only what was changed on it.
	shown, forms := b.Page("/admin/settings").Body, map[string]*browser.Form{}
	for _, section := range []string{"general", "joining", "flags", "security", "advanced"} {
		forms[section] = browser.FormOf(shown, "/id/admin/settings/"+section)
	}
	b.Send("PUT", "/api/admin/settings", "application/json", `{"instance_name":"Crew","invites_per_member":3,"default_flags":[],"invite_flags":["activity"],"flag_descriptions":{"activity":"Runs."},"second_factor_flags":["activity"],"offer_passkeys":true,"session_flags":[],"sign_out_on_flag_loss":true,"attributes":["shirt"]}`).Is(200)
	forms["general"].Values.Set("contact", "us@example.org")
	forms["joining"].Values.Set("max_users", "9")
	forms["flags"].Values.Set("description.admin", "All.")
	forms["security"].Values.Set("session_days", "8")
	forms["advanced"].Values.Set("audit_days", "31")
	for _, f := range forms {
		b.Post(f).Is(303)
	}
	b.Call("GET", "/api/admin/settings", nil).Shows(`"instance_name":"Crew"`, `"contact":"us@example.org"`, `"invites_per_member":3`, `"max_users":9`, `"default_flags":[]`, `"invite_flags":["activity"]`,
		`"activity":"Runs."`, `"admin":"All."`, `"second_factor_flags":["activity"]`, `"offer_passkeys":true`, `"session_days":8`, `"sign_out_on_flag_loss":true`, `"audit_days":31`)
	is("shirt", "", 8)
}
