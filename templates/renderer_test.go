package templates_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/templates"
)

func newRenderer(t *testing.T, opts templates.Options) *templates.Renderer {
	t.Helper()
	opts.Program = templates.Program{WASM: packedProgram(t), Exec: []byte("// wasm_exec.js")}
	r, err := templates.New(opts)
	must(t, err)
	return r
}

func render(t *testing.T, r *templates.Renderer, page templates.Page) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := r.Render(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusOK, page); err != nil {
		t.Fatalf("render %T: %v", page, err)
	}
	return w
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// fullPages are all pages in the states that show the most.
func fullPages() map[string]templates.Page {
	sessions := []templates.SessionRow{
		{ID: "s1", Browser: "Firefox", System: "Linux", Methods: []templates.Text{"Password"}, Address: "192.0.2.7", CreatedAt: noon, LastSeenAt: noon, ExpiresAt: noon.AddDate(0, 1, 0), Current: true},
		{ID: "s2", System: "iPhone", Address: "2001:db8::7", CreatedAt: noon, ExpiresAt: noon},
	}
	apps := []templates.AppRow{{ClientID: "c1", Name: "Club Calendar", Scopes: []string{"openid", "profile"}, Sees: []string{"Your name and profile"}, GrantedAt: noon, HomeURI: "https://calendar.example.org/", Logo: "0123456789abcdef"}, {ClientID: "c2", HomeURI: "https://maps.example.org/"}}
	ends := &templates.Ends{Sessions: 2, Invites: 1, Apps: apps, Optional: true, KeepApps: []string{"c1"},
		Given: templates.Given{Names: []string{"bo"}}, Recent: templates.RecentFactors{Rows: []templates.FactorRow{{ID: "totp", Kind: "totp", CreatedAt: noon}}}}
	user := templates.AdminUserRow{
		Sub: "01hz", Handle: "ada", DisplayName: "Ada L.", Email: "ada@example.org", Flags: []string{"activity"},
		CreatedAt: noon, LastLoginAt: noon, InvitedBy: "bo",
	}
	member := func(section, field string) templates.Member {
		return templates.Member{
			Handle: "ada", DisplayName: "Ada", Admin: true, Flags: []string{"activity", "admin"},
			Answer: templates.Answer{Section: section, Error: "That is not right."}, ErrorField: field,
		}
	}
	wrong := func(m templates.Member, fields ...string) templates.Member {
		m.FieldErrors = map[string]string{}
		for _, field := range fields {
			m.FieldErrors[field] = "That is not right."
		}
		return m
	}
	return map[string]templates.Page{
		"login": templates.Login{
			Continue: "eyJ0IjoxfQ.c2VhbA", ClientName: "Club Calendar", Handle: "ada", Error: "Handle or password is wrong.",
			ErrorCode: "invalid_credentials", SignedInAs: "bo", RegisterOpen: true, Passkeys: true, Fresh: "choose", Ended: "Your session was ended.",
		},
		"login, unsent": templates.Login{Handle: "ada", Ended: "Your session was ended.", Unsent: true},
		"second-factor": templates.SecondFactor{
			Continue: "eyJ0IjoxfQ.c2VhbA", Fresh: "choose", Handle: "ada", Methods: []string{"totp", "passkey", "recovery_code"}, Error: "Wrong.", ErrorCode: "invalid_otp",
		},
		"confirm": templates.Confirm{Action: "/account/confirm", Stale: true, Fields: []templates.FormField{{Name: "next", Value: "/account/security"}}, Handle: "ada", SecondFactor: true, Methods: []string{"totp"}, Error: "Wrong.", ErrorCode: "invalid_otp"},
		"confirm, question": templates.Confirm{
			Action: "/account/security/totp/remove", Question: "Remove this way to sign in?", Ends: ends, Fields: []templates.FormField{{Name: "sure", Value: "yes"}},
		},
		"account-totp":           templates.TOTP{Secret: "AAAABBBBCCCCDDDD", URI: "otpauth://totp/Cairn:ada?secret=AAAABBBBCCCCDDDD", Token: "t0k", Ends: ends, Error: "Wrong.", ErrorCode: "invalid_otp"},
		"account-recovery-codes": templates.RecoveryCodes{Codes: []string{"AAAA-BBBB-CCCC-DDDD", "EEEE-FFFF-GGGG-HHHH"}, First: true},
		"register": templates.Register{
			Code: "ABCD-EFGH-JKMN-PQRS", InvitedBy: "bo", Note: "Welcome!", Handle: "ada", DisplayName: "Ada", Error: "Please check the form.",
			ErrorCode: "handle_taken", FieldErrors: map[string]string{"handle": "Taken.", "password": "Too short.", "code": "Used.", "display_name": "Too long."},
			MinPassword: 12, Continue: "eyJ0IjoxfQ.c2VhbA",
		},
		"register, passkeys":                   templates.Register{Code: "ABCD-EFGH-JKMN-PQRS", MinPassword: 12, Passkeys: true},
		"account-recovery-codes, passwordless": templates.RecoveryCodes{Codes: []string{"AAAA-BBBB-CCCC-DDDD"}, First: true, Passwordless: true, Application: "Club", Continue: "eyJ0IjoxfQ.c2VhbA"},
		"join":                                 templates.Join{Visitor: "Ada", Email: "ada", Reason: "Runs.", Error: "No.", ErrorCode: "invalid_email", FieldErrors: map[string]string{"email": "No.", "name": "No.", "reason": "No."}},
		"recover":                              templates.Recover{Handle: "ada", Continue: "eyJ0IjoxfQ.c2VhbA", Error: "No.", ErrorCode: "invalid_recovery_code", Mail: true, Contact: "us"},
		"confirm, passwordless":                templates.Confirm{Action: "/account/delete", Stale: true, Handle: "ada", SecondFactor: true, Passwordless: true, Methods: []string{"passkey", "recovery_code"}},
		"reset-password":                       templates.ResetPassword{Handle: "ada", Code: "ABC", Error: "That code does not work.", ErrorCode: "invalid_reset_code", MinPassword: 10, Continue: "eyJ0IjoxfQ.c2VhbA"},
		"consent": templates.Consent{
			ClientName: "Club Calendar", ClientID: "c1", Handle: "ada", Scopes: []templates.ScopeItem{{Name: "profile", Sentence: "Your handle and name"}},
			Continue: "eyJ0IjoxfQ.c2VhbA", Token: "t0k", RedirectHost: "calendar.example", Device: &templates.DeviceFacts{Code: "WDJB-MJHT", Address: "192.0.2.7", StartedAt: noon},
			APIs: []templates.APIItem{{Name: "Trails", URI: "urn:trails", Scopes: []templates.ScopeItem{{Name: "trails.read", Sentence: "See your trails"}}}, {Name: "Maps", URI: "urn:maps"}},
		},
		"access-denied": templates.AccessDenied{
			ClientName: "Club Calendar", Handle: "ada", Flags: []templates.RequiredFlag{{Name: "activity", Description: "Uses the activity application."}, {Name: "board"}}, Contact: "The board, on Tuesdays", Continue: "c0ntinue",
		},
		"device":          templates.Device{Code: "WDJBMJHT", Error: "No device is waiting with this code.", ErrorCode: "device_code"},
		"device, allowed": templates.Device{ClientName: "Tool", Allowed: true},
		"form-post":       templates.FormPost{RedirectURI: "https://calendar.example/cb", Parameters: map[string]string{"code": "c0de", "state": "s"}},
		"logout":          templates.Logout{Handle: "ada", Hidden: map[string]string{"state": "s"}, SignedIn: true},
		"signed-out":      templates.SignedOut{BackURL: "https://calendar.example/", BackName: "Club Calendar"},
		"go-back":         templates.GoBack{ClientName: "Phone", URL: "app.example:/cb", Answered: true},
		"error":           templates.Error{Status: 404, Detail: "Check the link.", RequestID: "req-1", BackURL: "/account/"},
		"account":         templates.AccountHome{Member: member("", ""), Email: "ada@example.org", Passkeys: 2, Apps: apps, Step: &templates.NextStep{Name: "passkey", Text: "Add one", Path: "/account/security#passkeys"}},
		"account-profile": templates.AccountProfile{
			Member: wrong(member("profile", ""), "email", "zoneinfo"), Values: map[string]string{"display_name": "Ada", "email": "ada@example", "locale": "it", "zoneinfo": "Mars"}, EmailVerified: true, Ends: ends,
		},
		"account-security": templates.AccountSecurity{
			Member: member("password", "current_password"), MinPassword: 12, Given: ends.Given, Recent: ends.Recent,
			Passkeys: templates.Passkeys{Ends: ends, Rows: []templates.PasskeyRow{{ID: "a2V5", Name: "YubiKey 5", CreatedAt: noon, Fault: "Too long.", Typed: "Yubi"}, {ID: "a2V6", Name: "Phone", Synced: true, CreatedAt: noon, LastUsedAt: noon}}},
			History:  []templates.AuditRow{{Action: "session.create", Actor: "ada", Target: "ada", Detail: "pwd otp mfa, Firefox", At: noon, Address: "192.0.2.7"}},
		},
		"account-devices": templates.AccountDevices{Member: member("sessions", ""), Sessions: sessions, MoreSessions: true},
		"account-apps":    templates.AccountApps{Member: member("apps", ""), Apps: apps},
		"account-invites": templates.AccountInvites{Apps: apps, App: "c1",
			Member: wrong(member("invites", ""), "note", "email"), Mail: true, InvitesRemaining: 2,
			Invites: []templates.InviteRow{
				{Code: "AAAA-BBBB-CCCC-DDDD", URL: "https://id.example/register/?code=AAAA", Note: "for Bo", MailedTo: "bo@example.org", CreatedAt: noon, ExpiresAt: noon},
				{Code: "EEEE-BBBB-CCCC-DDDD", CreatedAt: noon, ExpiresAt: noon, Used: true, UsedBy: "bo", MailedTo: "bo@example.org"},
				{Code: "FFFF-BBBB-CCCC-DDDD", CreatedAt: noon, ExpiresAt: noon, Expired: true},
			},
		},
		"account-invite-slip": templates.AccountInviteSlip{Member: member("", ""), Code: "AAAA-BBBB-CCCC-DDDD", URL: "https://id.example/register/?code=AAAA", Note: "for Bo", ExpiresAt: noon},
		"account-data":        templates.AccountData{Member: member("data", "password"), Attributes: []templates.Attribute{{Name: "member_number", Value: "4711"}}},
		"account-publish":     templates.AccountPublish{Member: member("", "")},
		"account-welcome":     templates.AccountWelcome{Member: member("", ""), Steps: []templates.NextStep{{Name: "passkey", Text: "Add one", Path: "/account/security#passkeys"}}},
		"admin": templates.AdminOverview{
			Members: 3, OpenInvites: 2, SignIns: []templates.DayCount{{Day: noon}, {Day: noon, Count: 4}}, Answer: templates.Answer{Notice: "Done."},
			Warnings: []templates.Warning{{Code: "old_key", Text: "Old.", Remedy: "Make a new one.", Path: "/admin/settings", Command: "cairn keys generate"}},
		},
		"admin-users": templates.AdminUsers{
			Filter: templates.UserFilter{Query: "a", Flag: "activity", Sort: "newest", Suspended: true}, Flags: []string{"activity", "admin"}, Total: 7,
			Users: []templates.AdminUserRow{user}, Next: "/admin/users/?query=a&cursor=n3xt", Answer: templates.Answer{Section: "add", Error: "No."}, Faults: map[string]string{"handle": "Taken.", "email": "No address."},
			New: templates.NewPerson{Handle: "Bo", Flags: []string{"activity"}},
		},
		"admin-selected": templates.AdminSelected{
			Selected: []templates.AdminUserRow{user}, Flags: []templates.FlagChoice{{Name: "activity", Choice: "on"}, {Name: "admin"}}, ByMail: true, Matched: 3,
			Do: "suspend", Reason: "season over", Tell: true, Plan: templates.ManyPlan{Change: []templates.AdminUserRow{user}, Same: []templates.AdminUserRow{user}},
		},
		"admin-paste": templates.AdminPaste{
			People: "Bo Berg, bo@example.org", Checked: "display_name,email\nBo Berg,bo@example.org\n", Added: 1, Flags: []string{"activity"}, ByMail: true,
			Lines: []templates.PastedLine{{Number: 1, Name: "Bo Berg", Email: "bo@example.org", Handle: "bo-berg", Flags: []string{"activity", "coach"}, ByMail: true}, {Number: 2, Member: "ada"}},
		},
		"admin-invites": templates.AdminInvites{
			Branches: []templates.BranchRow{{Handle: "ada", DisplayName: "Ada", Invited: 3, Active: 1, Open: 2, Note: "team", JoinedBy: noon}, {Handle: "bo", Suspended: true}}, Next: "/admin/invites?cursor=n",
			Open:     []templates.OpenInviteRow{{Code: "AAAA-BBBB-CCCC-DDDD", By: "ada", Note: "for Eve", MailedTo: "eve@example.org", CreatedAt: noon, ExpiresAt: noon}, {Code: "EEEE-BBBB-CCCC-DDDD", CreatedAt: noon, ExpiresAt: noon}},
			NextOpen: "/admin/invites?skip=50",
		},
		"admin-applications": templates.AdminApplications{Applications: []templates.ApplicationRow{
			{ID: "c1", Name: "Club Calendar", Public: true, Trusted: true, RequireFlags: []string{"activity", "board"}, Claims: []string{"role=editor if board"}, RequireACR: "2", RedirectURIs: []string{"https://calendar.example/cb"}, Scopes: []string{"openid"}, Users: 2, CreatedAt: noon},
			{ID: "c2", Users: 10_000, ManyUsers: true, CreatedAt: noon, LastUsedAt: noon},
		}},
		"admin-settings": templates.AdminSettings{
			InstanceName: "Club", AccentColour: "#123456", Registration: "closed", MaxUsers: "x", InvitesPerMember: "3", MinPassword: "10", AuditDays: "365", SignOutOnFlagLoss: true, Logo: true, DarkLogo: true,
			Flags:  []templates.FlagRow{{Name: "admin", Description: "Administers.", BuiltIn: true, SecondFactor: true}, {Name: "coach", Default: true}},
			Answer: templates.Answer{Section: "general", Error: "No."}, Faults: map[string]string{"max_users": "Enter " +
				"a whole number."},
		},
		"admin-audit": templates.AdminAudit{
			Person: "ada", Kind: "user", From: "2026-01-01", Rows: []templates.AuditRow{{At: noon, Actor: "bo", Action: "user.suspend", Target: "ada", Detail: "spam", Address: "192.0.2.1", RequestID: "r1"}, {At: noon, Action: "login.failed"}},
			Next: "/admin/audit?cursor=n", CSV: "/admin/audit.csv?", JSONL: "/admin/audit.jsonl?",
		},
		"admin-user": templates.AdminUser{
			User: user, KnownFlags: []string{"activity", "admin"}, ResetCode: "R3SE-T", ResetURL: "https://id.example/reset-password/?code=R3SET",
			Invited: []templates.BranchRow{{Handle: "bo"}}, History: []templates.AuditRow{{At: noon, Actor: "bo", Action: "user.flags", Target: "ada"}},
			Open: []templates.OpenInviteRow{{Code: "AAAA-BBBB-CCCC-DDDD", By: "ada", Note: "for Eve", CreatedAt: noon, ExpiresAt: noon}}, MoreOpen: true,
			Sessions: sessions, Apps: apps, Answer: templates.Answer{Section: "profile", Error: "No."}, Faults: map[string]string{"display_name": "Too long.", "email": "No address."},
			Profile: templates.AdminProfile{DisplayName: "Ada L.", Email: "ada@example", EmailVerified: true},
		},
	}
}

// oddPages are further states whose markup differs.
func oddPages() map[string]templates.Page {
	return map[string]templates.Page{
		"login, empty":                templates.Login{},
		"login, fixed handle":         templates.Login{Handle: "ada", HandleFixed: true, SignedInAs: "ada"},
		"register, empty":             templates.Register{},
		"register, closed":            templates.Register{Closed: true},
		"reset, empty":                templates.ResetPassword{},
		"reset, done":                 templates.ResetPassword{Done: true},
		"second step, recovery code":  templates.SecondFactor{Methods: []string{"totp", "recovery_code"}, Recovery: true, Error: "Wrong.", ErrorCode: "invalid_otp"},
		"second step, only a passkey": templates.SecondFactor{Methods: []string{"passkey", "recovery_code"}},
		"confirm, password":           templates.Confirm{Action: "/account/confirm", Stale: true, Methods: []string{"passkey"}, Ends: &templates.Ends{Optional: true, Apps: []templates.AppRow{{ClientID: "c1"}}}, Did: []templates.ActRow{{ID: "a", Kind: templates.ActAccount, At: noon}}, Fields: []templates.FormField{{Name: "next", Value: "/account/security"}}, Error: "Wrong.", ErrorCode: "invalid_credentials"},
		"reset, factors":              templates.ResetPassword{Done: true, Contact: "Ada", Factors: []templates.FactorRow{{Kind: "totp", CreatedAt: noon}, {Kind: "passkey", Name: "Key", CreatedAt: noon}}},
		"recovery codes, again":       templates.RecoveryCodes{Codes: []string{"AAAA-BBBB-CCCC-DDDD"}},
		"security, second factor":     templates.AccountSecurity{Member: templates.Member{Handle: "ada"}, Factors: templates.SecondFactors{Any: true, TOTP: true, TOTPSince: noon, RecoveryCodes: 1}},
		"consent, new":                templates.Consent{ClientID: "c1", NewOnly: true},
		"admin-user, factors reset":   templates.AdminUser{User: templates.AdminUserRow{Handle: "ada"}, Open: []templates.OpenInviteRow{{Code: "AAAA-BBBB-CCCC-DDDD"}}, Answer: templates.Answer{Section: "factors", Notice: "Done."}},
		"confirm, end the others": templates.Confirm{Action: "/account/sessions/end-others", Question: "Sign out " +
			"everywhere else?", Ends: &templates.Ends{}},
		"not me, without a password": templates.LinkPage{Name: "not-me", Link: "l", Handle: "ada", Passwordless: true},
		"not me, done without one":   templates.LinkPage{Name: "not-me", Handle: "ada", Passwordless: true, Done: true, Contact: "us", Added: []templates.FactorRow{{Kind: "passkey", Name: "Key", CreatedAt: noon}}},
		"login, busy":                templates.Login{Again: "h1dden", AgainAfter: 7, Error: "Busy.", ErrorCode: "busy"},
		"logout, signed out":         templates.Logout{},
		"logout, handed on":          templates.Logout{Hidden: map[string]string{"state": "s"}},
		"signed out, alone":          templates.SignedOut{},
		"go back, forgotten":         templates.GoBack{ClientName: "Wiki", URL: "https://calendar.example/"},
		"error, expired request":     templates.Error{Status: 400, ClientName: "Wiki", ClientURL: "https://calendar.example/"},
		"error, bare":                templates.Error{Status: 503},
		"error, unknown":             templates.Error{},
		"account-profile, empty":     templates.AccountProfile{},
		"security, empty":            templates.AccountSecurity{Member: templates.Member{Handle: "ada"}},
		"security, no passkeys": templates.AccountSecurity{Passkeys: templates.Passkeys{Unavailable: "Passkeys " +
			"are not available here."}},
		"security, full":   templates.AccountSecurity{Passkeys: templates.Passkeys{Full: true}},
		"devices, none":    templates.AccountDevices{},
		"apps, none":       templates.AccountApps{},
		"join, sent":       templates.Join{Email: "ada@example.org", Sent: true},
		"join, in turn":    templates.Join{Email: "ada@example.org", Sent: true, Later: true},
		"join, by a code":  templates.Join{Code: "AAAA-BBBB-CCCC-DDDD"},
		"slip, for a team": templates.AccountInviteSlip{Left: 30, ExpiresAt: noon, InviteUse: templates.InviteUse{Domain: "school.example", AccountEnds: noon}},
		"invites, options": templates.AccountInvites{Member: templates.Member{Answer: templates.Answer{Section: "invites", Error: "No."}, FieldErrors: map[string]string{"uses": "1 to 5", "days": "1 to 5", "domain": "No.", "flags": "No.", "account_ends": "No."}},
			InvitesRemaining: 3, Mail: true, Uses: "9", Days: "99", Domain: "x", AccountEnds: "x", MaxUses: 5, MaxDays: 5, Flags: []templates.FlagRow{{Name: "coach", Description: "Trains.", Default: true}, {Name: "player"}},
			Invites: []templates.InviteRow{{Code: "AAAA-BBBB-CCCC-DDDD", ExpiresAt: noon, Joined: []string{"bo", "cy"}, InviteUse: templates.InviteUse{Uses: 30, Used: 2, Flags: []string{"coach"}, Domain: "school.example", AccountEnds: noon, FlagEnds: []templates.FlagEnd{{Flag: "coach", At: noon}}}}}},
		"invites, none":        templates.AccountInvites{},
		"invites, no limit":    templates.AccountInvites{InvitesRemaining: -1},
		"data, empty":          templates.AccountData{},
		"admin user, own":      templates.AdminUser{User: templates.AdminUserRow{Handle: "ada"}, Self: true},
		"form post, native":    templates.FormPost{RedirectURI: "app.example:/cb"},
		"admin, new":           templates.AdminOverview{},
		"admin users, nobody":  templates.AdminUsers{Filter: templates.UserFilter{Query: "zz"}},
		"admin users, many":    templates.AdminUsers{Total: 10_000, AtLeast: true, ByMail: true},
		"admin users, unknown": templates.AdminUsers{Total: -1},
		"admin selected, in the way": templates.AdminSelected{Do: "end", Ends: "2030-12-24", Selected: []templates.AdminUserRow{{Handle: "ada"}}, Answer: templates.Answer{Error: "No."},
			Plan: templates.ManyPlan{Change: []templates.AdminUserRow{{Handle: "ada"}}, Obstacles: []templates.Obstacle{{User: templates.AdminUserRow{Handle: "ada"}, Reason: "Your own."}}}},
		"admin paste, bad": templates.AdminPaste{People: "x", Bad: 1, Lines: []templates.PastedLine{{Number: 37, Name: "x", Faults: []string{"Enter " +
			"an email address, such as ada@example.org."}}}, Answer: templates.Answer{Error: "No."}},
		"admin paste, done":    templates.AdminPaste{Done: true, Links: []templates.PastedLink{{Handle: "bo", URL: "https://id.example/reset-password/?code=X"}}, Answer: templates.Answer{Notice: "Done."}},
		"admin invites, none":  templates.AdminInvites{},
		"admin invites, under": templates.AdminInvites{Under: &templates.BranchRow{Handle: "ada", InvitedBy: "bo"}, Answer: templates.Answer{Section: "revoke", Notice: "Done."}},
		"admin apps, none":     templates.AdminApplications{},
		"admin settings, bare": templates.AdminSettings{},
		"admin audit, none":    templates.AdminAudit{Answer: templates.Answer{Error: "No such day."}},
		"admin user, no entry": templates.AdminUser{User: templates.AdminUserRow{Handle: "ada", Suspended: true}, SuspendReason: "spam"},
	}
}

func allPages() map[string]templates.Page {
	all := fullPages()
	for name, page := range oddPages() {
		all[name] = page
	}
	return all
}

// Pages are parsed on first use: a fault in one must not wait for a visitor.
func TestEveryPageCanBeShownInEachLanguage(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc >> 20)
	}
	before := heap()
	for _, tag := range templates.LanguageTags() {
		for _, page := range templates.Samples {
			w, req := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			req = req.WithContext(templates.WithLanguage(req.Context(), templates.PickLanguage(tag)))
			if err := r.Render(w, req, 200, page); err != nil || w.Header().Get("Content-Language") != tag {
				t.Errorf("%T in %s: %v, in %q", page, tag, err, w.Header().Get("Content-Language"))
			}
		}
	}
	if taken := heap() - before; taken > 56 {
		t.Errorf("the pages of all languages take %d MiB, of the 128 that a service may have", taken)
	}
	runtime.KeepAlive(r)
}

func TestEveryPageCarriesItsNameAndHeaders(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range fullPages() {
		w := render(t, r, page)
		for header, want := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		} {
			equal(t, fmt.Sprintf("%s: %s =", name, header), w.Header().Get(header), want)
		}
		doc := parse(t, w.Body.String())
		kind, _, _ := strings.Cut(name, ",") // what follows is its state
		if title := text(one(t, doc, "title")); strings.Contains(title, "<") {
			t.Errorf("%s: markup in the title %q", name, title)
		}
		if got := attr(one(t, doc, "body"), "data-page"); got != kind {
			t.Errorf("page %T: data-page = %q, want %q", page, got, name)
		}
	}
}

// A redirect after one of these pages' forms ends at the application; form-action would block it in Chromium.
func TestFormActionAllowsTheWayBackToAnApplication(t *testing.T) {
	const common = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
	leaves := map[string]bool{"login": true, "login, unsent": true, "second-factor": true, "register": true, "recover": true, "consent": true, "form-post": true, "logout": true}
	r := newRenderer(t, templates.Options{})
	pages := fullPages()
	pages["register, not from an application"] = templates.Register{}
	for name, page := range pages {
		want := common + "; form-action 'self'"
		if leaves[name] {
			want = common
		}
		if name == "account-publish" {
			want = strings.Replace(want, "script-src 'self'", "script-src 'self' 'wasm-unsafe-eval'", 1)
		}
		equal(t, name+": policy", render(t, r, page).Header().Get("Content-Security-Policy"), want)
	}
	if got := render(t, r, &templates.Login{}).Header().Get("Content-Security-Policy"); got != common {
		t.Errorf("pointer to a page: policy %q, want %q", got, common)
	}
}

// broken has the name of a page and none of its fields: its template fails half way.
type broken struct{ templates.Page }

func TestFailingTemplateWritesNothing(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range map[string]templates.Page{
		"no fields": broken{templates.AccountProfile{}}, "nil": nil, "target that runs code": templates.FormPost{RedirectURI: "javascript:alert(1)"},
	} {
		w := httptest.NewRecorder()
		w.Code = 0
		if err := r.Render(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusOK, page); err == nil {
			t.Errorf("%s: no error", name)
		}
		if w.Code != 0 || w.Body.Len() != 0 || len(w.Header()) != 0 {
			t.Errorf("%s: something was written: status %d, headers %v, body %q", name, w.Code, w.Header(), w.Body)
		}
	}
}

func TestHeadHasTheHeadersAndNoBody(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	get := render(t, r, templates.Login{})
	w := httptest.NewRecorder()
	must(t, r.Render(w, httptest.NewRequest(http.MethodHead, "/", nil), http.StatusUnauthorized, templates.Login{}))
	if w.Code != http.StatusUnauthorized || w.Body.Len() != 0 {
		t.Errorf("status %d with %d bytes, want 401 with none", w.Code, w.Body.Len())
	}
	if got, want := w.Header().Get("Content-Length"), get.Header().Get("Content-Length"); got != want || got == "" {
		t.Errorf("length %q, want that of GET, %q", got, want)
	}
}

func TestInstanceNameIsAskedAtEveryPage(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	name := ""
	title := func() string {
		return strings.TrimSpace(text(one(t, parse(t, render(t, r, templates.Login{}).Body.String()), "title")))
	}
	equal(t, "without a name", title(), "Sign in · Cairn")
	r.SetInstanceName(func() string { return name })
	equal(t, "with an empty name", title(), "Sign in · Cairn")
	name = "Trail <Runners>"
	equal(t, "with a name", title(), "Sign in · Trail <Runners>")
}

func TestBasePathThatIsNoPathIsRefused(t *testing.T) {
	for _, base := range []string{"/", "id", "/id/", "//evil.example", "https://id.example", "/id?x", "/id#x", `/\evil`, "/i\nd"} {
		if _, err := templates.New(templates.Options{BasePath: base}); err == nil {
			t.Errorf("base path %q was accepted", base)
		}
	}
}

func TestEveryAddressOfAPageStaysBelowTheBasePath(t *testing.T) {
	r := newRenderer(t, templates.Options{BasePath: "/id"})
	foreign := map[string]bool{ // given by the caller, who includes the base path
		"https://calendar.example/cb": true, "https://calendar.example/": true, "app.example:/cb": true, "/account/": true,
		"https://calendar.example.org/": true, "https://maps.example.org/": true, // of applications
		"otpauth://totp/Cairn:ada?secret=AAAABBBBCCCCDDDD": true,
	}
	for name, page := range allPages() {
		doc := parse(t, render(t, r, page).Body.String())
		walk(doc, func(n *html.Node) {
			for _, key := range []string{"href", "src", "action"} {
				v := attr(n, key)
				if v == "" || foreign[v] || strings.HasPrefix(v, "#") {
					continue
				}
				if !strings.HasPrefix(v, "/id/") || strings.Contains(v, "//") {
					t.Errorf("%s: <%s %s=%q> leaves the base path", name, n.Data, key, v)
				}
			}
		})
	}
}
