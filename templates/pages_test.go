package templates_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/templates"
)

// Scripts and password managers find these; a changed name breaks them.
func TestNamesThatOthersRelyOnStay(t *testing.T) {
	r := newRenderer(t, templates.Options{BasePath: "/id"})
	pages := fullPages()
	pages["login, fixed"] = templates.Login{Handle: "ada", HandleFixed: true}
	pages["admin-user, suspended"] = templates.AdminUser{User: templates.AdminUserRow{Handle: "ada", Suspended: true}}
	for name, selectors := range map[string][]string{
		"login": {
			"form[method=post][action=/id/login/]", "input[name=handle][autocomplete=username webauthn][autocapitalize=none][spellcheck=false]",
			"input[name=password][type=password][autocomplete=current-password]", "input[type=hidden][name=continue][value=eyJ0IjoxfQ.c2VhbA]",
			"button#login-submit", "a[href=/id/register/?continue=eyJ0IjoxfQ.c2VhbA]", "div#ended[role=status]", "input[type=hidden][name=fresh]",
			"a[href=/id/reset-password/?continue=eyJ0IjoxfQ.c2VhbA]", "div#error[role=alert][data-code=invalid_credentials]",
		},
		"second-factor": {
			"form#otp-form[method=post][action=/id/login/second-factor/]", "form#recovery-form[method=post][action=/id/login/second-factor/]", "button#otp-submit",
			"input#otp[name=otp][inputmode=numeric][autocomplete=one-time-code][aria-invalid=true]", "input#recovery_code[name=otp]", "a[href=/id/login/?continue=eyJ0IjoxfQ.c2VhbA]",
		},
		"confirm": {
			"form#confirm-form[method=post][action=/id/account/confirm]", "input[type=hidden][name=next][value=/account/security]",
			"input[name=confirm_otp][autocomplete=one-time-code]", "input[name=confirm_password][autocomplete=current-password]",
		},
		"confirm, question": {"#question", "input[type=hidden][name=sure][value=yes]", "input[name=keep_other_sessions]", "input[type=checkbox][name=keep_app][value=c1][checked]", "button#confirm-submit"},
		"account-totp": {
			"form[action=/id/account/security/totp]", "input[type=hidden][name=token][value=t0k]", "input[name=code][inputmode=numeric]", "svg[role=img]", "button[data-copy=AAAABBBBCCCCDDDD]",
		},
		"account-recovery-codes": {"ol#recovery-codes", "a#recovery-done[href=/id/account/security]"},
		"login, fixed":           {"input[name=handle][readonly][value=ada]", "a[href=/id/logout/]"},
		"register": {
			"form[method=post][action=/id/register/]", "input[name=code]", "input[name=handle][autocomplete=username]", "input[name=display_name]", "input[name=email][type=email][autocomplete=email]",
			"input[name=password][type=password][autocomplete=new-password][minlength=12]", "input[type=hidden][name=continue]", "button#register-submit",
		},
		"register, passkeys":                   {"button#passkey-submit[data-passkey=create][data-begin=/id/api/register/passkey/begin]", "input[type=hidden][name=credential]"},
		"account-recovery-codes, passwordless": {"a#recovery-done[href=/id/login/?continue=eyJ0IjoxfQ.c2VhbA]"},
		"recover":                              {"form[method=post][action=/id/recover/]", "input[name=handle][value=ada]", "input[name=code][aria-invalid=true]", "input[name=continue]"},
		"confirm, passwordless":                {"form#passkey-form", "a[href=/id/recover/]"},
		"reset-password": {
			"form[method=post][action=/id/reset-password/]", "input[name=handle][autocomplete=username]", "input[name=code]",
			"input[name=password][autocomplete=new-password][minlength=10]", "button#reset-submit",
		},
		"consent": {
			"form[method=post][action=/id/oauth2/consent]", "input[type=hidden][name=continue][value=eyJ0IjoxfQ.c2VhbA]", "input[type=hidden][name=token][value=t0k]",
			"button#consent-allow[name=decision][value=allow]", "button#consent-deny[name=decision][value=deny]", "li[data-scope=profile]",
			"p[data-api=urn:trails]", "li[data-scope=trails.read]", "#device-warning",
		},
		"device": {"form[method=post][action=/id/device]", "input[name=user_code][value=WDJBMJHT]", "button#device-submit"},
		"form-post": {
			"form#form-post[method=post][action=https://calendar.example/cb]", "input[type=hidden][name=code][value=c0de]", "input[type=hidden][name=state][value=s]",
			"button#form-post-submit[type=submit]",
		},
		"logout":     {"form[method=post][action=/id/logout/]", "button#logout-confirm", "input[type=hidden][name=state][value=s]"},
		"go-back":    {"a#go-back[href=app.example:/cb]"},
		"signed-out": {"a#signed-out-back[href=https://calendar.example/]"},
		"error":      {"code#request-id", "a[href=/account/]"},
		"account":    {"form[action=/id/logout/]", "a[href=/id/account/][aria-current=page]", "a[class=tile][href=https://calendar.example.org/]", "#next-step"},
		"account-profile": {"form[action=/id/account/profile#profile]", "input[name=display_name]", "input[name=email][type=email]", "a[href=/id/account/profile][aria-current=page]",
			"option[value=it][selected]", "input[name=birthdate]", "textarea[name=address.street_address]"},
		"account-security": {
			"form[action=/id/account/password#password]", "input[name=current_password][autocomplete=current-password]", "input[name=new_password][autocomplete=new-password]", "section#password",
		},
		"account-devices": {"form[action=/id/account/sessions/end#sessions]", "input[name=id][value=s2]", "form[action=/id/account/sessions/end-others#sessions]", "section#sessions"},
		"account-invites": {
			"form[action=/id/account/invites#invites]", "input[name=note]", "input[type=hidden][name=code][value=AAAA-BBBB-CCCC-DDDD]",
			"button[data-copy=https://id.example/register/?code=AAAA]", "section#invites",
		},
		"account-apps":    {"form[action=/id/account/apps/remove#apps]", "input[name=client_id][value=c1]", "section#apps"},
		"account-publish": {"a[href=/id/account/data][aria-current=page]"},
		"account-data":    {"form[action=/id/account/delete#data]", "input[name=password]", "section#data"},
		"account-welcome": {"li[data-step=passkey]", "a[href=/id/account/security#passkeys]"},
		"admin":           {"a#members[href=/id/admin/users/]", "svg[role=img]", "table#sign-in-table", "section[data-warning=old_key]"},
		"admin-users": {
			"form[method=get][action=/id/admin/users/]", "input[name=query][value=a]", "a[href=/id/admin/users/ada]", "a#next-page[href=/id/admin/users/?query=a&cursor=n3xt]",
			"form[method=post][action=/id/admin/users/#add]", "input[name=handle]", "select[name=sort]",
		},
		"admin-selected": {
			"input[type=hidden][name=sure][value=yes]", "select[name=flag.activity]", "input[name=ends][type=date]", "button#sure-submit",
			"button#flags-submit", "button#end-submit", "button#suspend-submit", "button#invite-submit",
		},
		"admin-paste":        {"form#paste-sure[method=post][action=/id/admin/users/paste]", "textarea[name=people]", "input[type=hidden][name=people]", "tr[data-line=1]", "button#sure-submit"},
		"admin-invites":      {"li[data-branch=ada]", "a[href=/id/admin/invites?under=ada]", "input[name=code][value=AAAA-BBBB-CCCC-DDDD]"},
		"admin-applications": {"section[data-client=c1]", "section[data-client=c2]"},
		"admin-settings": {
			"form[action=/id/admin/settings/general#general]", "form[action=/id/admin/settings/logo#logo][enctype=multipart/form-data]", "form[action=/id/admin/settings/remove-logo#logo]", "form[action=/id/admin/settings/dark-logo#dark-logo][enctype=multipart/form-data]", "form[action=/id/admin/settings/remove-dark-logo#dark-logo]",
			"form[action=/id/admin/settings/flags#flags]", "form[action=/id/admin/settings/security#security]", "input[name=description.coach]", "input[name=remove]",
		},
		"admin-audit": {"form[method=get][action=/id/admin/audit]", "select[name=kind]", "option[value=user.suspend]", "option[value=user][selected]", "a#export-csv", "a#export-jsonl"},
		"admin-user": {
			"form[action=/id/admin/users/ada/profile#profile]", "input[name=display_name]", "input[name=email][type=email]", "input[type=checkbox][name=email_verified][checked]",
			"form[method=post][action=/id/admin/users/ada/suspend#end]", "input[name=reason]", "form[action=/id/admin/users/ada/flags#access]",
			"input[type=checkbox][name=flag][value=activity][checked]", "input[type=checkbox][name=flag][value=admin]", "input[name=known][value=admin]",
			"form[action=/id/admin/users/ada/reset-password-code#password]", "form[action=/id/admin/users/ada/delete#end]", "input[name=confirm]", "code#reset-code",
		},
		"admin-user, suspended": {"form[action=/id/admin/users/ada/unsuspend#end]"},
	} {
		doc := parse(t, render(t, r, pages[name]).Body.String())
		for _, s := range selectors {
			if n := len(all(doc, s)); n != 1 {
				t.Errorf("%s: %s found %d times, want once", name, s, n)
			}
		}
	}
}

func TestPagesAreUsableByKeyboardAndScreenReader(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range allPages() {
		doc := parse(t, render(t, r, page).Body.String())
		for _, s := range []string{"html[lang=en]", "h1", "main#main", "header", "title", "a[href=#main]", "meta[name=viewport]"} {
			if n := len(all(doc, s)); n != 1 {
				t.Errorf("%s: %s found %d times, want once", name, s, n)
			}
		}
		if n := len(all(doc, "script[src]")); n == 0 || n != len(all(doc, "script")) {
			t.Errorf("%s: no script, or one in the page", name)
		}
		if n := len(all(doc, "[autofocus]")); n > 1 {
			t.Errorf("%s: %d fields want the focus", name, n)
		}
		ids := map[string]bool{}
		walk(doc, func(n *html.Node) {
			id := attr(n, "id")
			if id != "" && ids[id] {
				t.Errorf("%s: id %q twice", name, id)
			}
			ids[id] = true
		})
		walk(doc, func(n *html.Node) {
			for _, key := range []string{"aria-describedby", "aria-labelledby", "aria-controls", "for"} {
				for _, id := range strings.Fields(attr(n, key)) {
					if !ids[id] {
						t.Errorf("%s: <%s %s=%q> points nowhere", name, n.Data, key, id)
					}
				}
			}
			switch n.Data {
			case "input", "select", "textarea":
				if attr(n, "type") != "hidden" && attr(n, "aria-label") == "" && (attr(n, "id") == "" || len(all(doc, "label[for="+attr(n, "id")+"]")) != 1) {
					t.Errorf("%s: %s %q has no label", name, n.Data, attr(n, "name"))
				}
			case "button":
				if strings.TrimSpace(text(n)) == "" {
					t.Errorf("%s: button %q says nothing", name, attr(n, "id"))
				}
				if attr(n, "type") != "submit" && (attr(n, "type") != "button" || !hasAttr(n, "hidden")) {
					t.Errorf("%s: button %q does nothing without scripts and is not hidden", name, text(n))
				}
			case "form":
				if m := attr(n, "method"); m != "post" && attr(n, "id") != "search" {
					t.Errorf("%s: form %q has method %q", name, attr(n, "action"), m)
				}
			case "time":
				if !strings.HasSuffix(attr(n, "datetime"), "Z") {
					t.Errorf("%s: time %q is not UTC", name, attr(n, "datetime"))
				}
			}
		})
	}
}

func TestErrorIsToldAtTheFieldItIsAbout(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	full := fullPages()
	for _, c := range []struct {
		page      templates.Page
		selector  string
		described string
		invalid   bool
	}{
		{full["login"], "input[name=handle]", "error", true},
		{full["login"], "input[name=password]", "error", true},
		{templates.Login{Error: "Wait a minute.", ErrorCode: "rate_limited"}, "input[name=password]", "error", false},
		{templates.Login{}, "input[name=password]", "", false},
		{full["register"], "input[name=handle]", "handle-error", true},
		{full["register"], "input[name=code]", "code-error", true},
		{templates.Register{Error: "x", ErrorCode: "weak_password"}, "input[name=password]", "error password-hint", true},
		{templates.Register{Error: "x", ErrorCode: "weak_password"}, "input[name=handle]", "handle-hint", false},
		{templates.Register{Error: "x", ErrorCode: "invalid_invite"}, "input[name=code]", "error", true},
		{full["reset-password"], "input[name=code]", "error code-hint", true},
		{templates.AccountSecurity{Member: templates.Member{FieldErrors: map[string]string{"new_password": "x"}, Answer: templates.Answer{Section: "password", Error: "x", ErrorCode: "weak_password"}}}, "input[name=new_password]", "new_password-error", true},
		{templates.AccountSecurity{Member: templates.Member{Answer: templates.Answer{Section: "password", Error: "x", ErrorCode: "invalid_credentials"}}}, "input[name=current_password]", "error", true},
		{full["account-profile"], "input[name=email]", "email-error", true},
		{full["account-profile"], "input[name=zoneinfo]", "zoneinfo-error", true},
		{full["account-data"], "input[name=password]", "error", true},
		{full["admin-user"], "input[name=email]", "email-error", true},
		{full["admin-users"], "#new-email", "email-error", true},
		{full["account-invites"], "#invite-email", "email-error", true},
	} {
		doc := parse(t, render(t, r, c.page).Body.String())
		n := one(t, doc, c.selector)
		equal(t, fmt.Sprintf("%T %s: described by", c.page, c.selector), attr(n, "aria-describedby"), c.described)
		equal(t, fmt.Sprintf("%T %s: invalid =", c.page, c.selector), attr(n, "aria-invalid") == "true", c.invalid)
		if focused := all(doc, "[autofocus]"); c.invalid && (len(focused) != 1 || attr(focused[0], "aria-invalid") != "true") {
			t.Errorf("%T %s: the focus is not on a field in error", c.page, c.selector)
		}
		if c.invalid && len(all(doc, "[role=alert]")) != 1 {
			t.Errorf("%T: want one alert", c.page)
		}
	}
}

func TestClosedRegistrationHasNoForm(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	if doc := parse(t, render(t, r, templates.Register{Closed: true}).Body.String()); len(all(doc, "form")) != 0 {
		t.Error("a closed registration shows a form")
	}
	if doc := parse(t, render(t, r, templates.ResetPassword{Done: true}).Body.String()); len(all(doc, "form")) != 0 || len(all(doc, "a[href=/login/]")) != 1 {
		t.Error("a finished reset shows a form, or no way to sign in")
	}
}

func TestAdministratorsAreNotOfferedToSuspendThemselves(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	doc := parse(t, render(t, r, templates.AdminUser{User: templates.AdminUserRow{Handle: "ada"}, Self: true}).Body.String())
	for _, s := range []string{"form[action=/admin/users/ada/suspend#end]", "form[action=/admin/users/ada/delete#end]"} {
		if len(all(doc, s)) != 0 {
			t.Errorf("%s is offered", s)
		}
	}
}

func TestNoPasswordIsFilledIn(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	for name, page := range allPages() {
		doc := parse(t, render(t, r, page).Body.String())
		for _, n := range all(doc, "input[type=password]") {
			if attr(n, "value") != "" || !hasAttr(n, "autocomplete") || hasAttr(n, "maxlength") {
				t.Errorf("%s: password field %q has a value, a maximum or no autocomplete", name, attr(n, "name"))
			}
		}
	}
}

func TestTheListOffersToEndOnlyOtherSessions(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	doc := parse(t, render(t, r, fullPages()["account-devices"]).Body.String())
	for _, n := range all(doc, "input[name=id]") {
		if attr(n, "value") == "s1" {
			t.Error("the current session can be ended in the list")
		}
	}
	if f := inside(one(t, doc, "input[name=id][value=s2]"), "form"); f == nil || attr(f, "action") != "/account/sessions/end#sessions" {
		t.Error("the other session cannot be ended")
	}
}

// Relative times depend on the service's clock; the exact time is in the title.
func TestTimesAreRelativeWithTheExactTimeInTheTitle(t *testing.T) {
	now := time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)
	r := newRenderer(t, templates.Options{Now: func() time.Time { return now }})
	for want, at := range map[string]time.Time{
		"just now":              now.Add(-59 * time.Second),
		"1 minute ago":          now.Add(-time.Minute),
		"59 minutes ago":        now.Add(-59 * time.Minute),
		"1 hour ago":            now.Add(-60*time.Minute + time.Second),
		"3 hours ago":           now.Add(-3 * time.Hour),
		"1 day ago":             now.Add(-24 * time.Hour),
		"30 days ago":           now.AddDate(0, 0, -30),
		"2 months ago":          now.AddDate(0, -2, 0),
		"1 year ago":            now.AddDate(-1, 0, 0),
		"3 years ago":           now.AddDate(-3, 0, 0),
		"in less than a minute": now.Add(time.Second),
		"in 2 hours":            now.Add(2*time.Hour - time.Minute),
		"in 14 days":            now.Add(14*24*time.Hour - time.Hour),
	} {
		doc := parse(t, render(t, r, templates.AdminUser{User: templates.AdminUserRow{CreatedAt: at}}).Body.String())
		found := one(t, doc, "time")
		if text(found) != want || attr(found, "title") != at.Format("2 Jan 2006, 15:04 UTC") || attr(found, "datetime") != at.Format(time.RFC3339) {
			t.Errorf("%v: %q, title %q, want %q", at, text(found), attr(found, "title"), want)
		}
	}
}
