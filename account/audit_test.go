package account_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// audited are the rows that q selects, oldest first, without those of the operator.
func (w *world) audited(q account.AuditQuery) (rows []account.Audit) {
	w.t.Helper()
	err := w.service.Administration().EachAudit(w.t.Context(), q, func(a account.Audit) error {
		if a.Actor != "operator" {
			rows = append([]account.Audit{a}, rows...)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

func actions(rows []account.Audit) string {
	var list []string
	for _, a := range rows {
		list = append(list, strings.TrimSpace(a.Actor+">"+a.Target+" "+a.Action+" "+a.Detail))
	}
	return strings.Join(list, "\n")
}

func TestWhatMembersDoIsInTheAuditLogWithoutSecrets(t *testing.T) {
	w := newWorld(t)
	invite, fresh := w.invite(), "eleven quiet lanterns"
	b := w.browser()
	b.call("POST", "/api/register", map[string]string{"code": invite.Code, "handle": "ada", "password": password}).is(201)
	b.call("PATCH", "/api/me", map[string]string{"display_name": "Ada L", "email": "ada@example.org"}).is(200)
	for range 2 { // the second changes nothing
		b.call("PATCH", "/api/me", map[string]string{"email": "ada@example.org", "nickname": "ada", "gender": ""}).is(200)
	}
	other := w.signedIn("ada")
	other.login("ada", password).is(200)
	code := b.call("POST", "/api/invites", map[string]string{"note": "for Bob"}).is(201).json()["code"].(string)
	b.call("DELETE", "/api/invites/"+code, nil).is(204)
	b.call("POST", "/api/me/sessions/end-others", map[string]string{}).is(204)
	b.call("POST", "/api/me/sessions/end-others", map[string]string{}).is(204) // none is left: no row
	b.call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": fresh}).is(200)
	b.call("GET", "/api/me/export", nil).is(200)
	b.call("POST", "/api/auth/logout", map[string]string{}).is(200)
	b.call("POST", "/api/auth/logout", map[string]string{}).is(200)
	reset, err := w.service.Administration().IssueResetCode(t.Context(), account.Operator(), w.user("ada"))
	if err != nil {
		t.Fatal(err)
	}
	b.call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": reset.Code, "password": password}).is(200)
	b.login("ada", fresh).is(401) // for the log of the service
	rows := w.audited(account.AuditQuery{Person: "ada"})
	var ended string
	for i, a := range rows {
		if a.Address != "192.0.2.1" || a.RequestID != "req-1" || a.At.IsZero() {
			t.Errorf("%+v", a)
		}
		if a.Action == "session.end" {
			ended, rows[i].Detail = a.Detail, ""
		}
		for _, secret := range []string{password, fresh, invite.Code, strings.ReplaceAll(code, "-", ""), reset.Code, "example.org"} {
			if strings.Contains(strings.ToLower(strings.ReplaceAll(a.Detail, "-", "")), strings.ToLower(strings.ReplaceAll(secret, "-", ""))) {
				t.Errorf("%q is in %+v", secret, a)
			}
		}
	}
	want := `ada>ada user.register invited by operator
ada>ada email.change display_name email
ada>ada profile.change nickname
ada>ada session.create pwd
ada>ada session.reauthenticate pwd
ada>ada invite.create
ada>ada invite.delete
ada>ada session.end_others
ada>ada password.change
ada>ada account.export
ada>ada session.end
ada>ada password.reset`
	if got := actions(rows); got != want || len(ended) != 36 {
		t.Errorf("session %q ended, got\n%s", ended, got)
	}
	if days, err := w.service.Administration().SignIns(t.Context(), 2); err != nil || days[1] != 3 || days[0] != 0 {
		t.Errorf("sign-ins %v, %v", days, err)
	}
}

// Whoever guesses does not fill the table: a row for each account in a quarter of an hour.
func TestRefusalsAreInTheAuditLogOnce(t *testing.T) {
	w := newWorld(t, withLimits(map[string]web.Rate{
		web.LimitLoginAccount: {Count: 2, Window: 15 * time.Minute}, web.LimitResetAccount: {Count: 2, Window: 15 * time.Minute},
	}))
	w.addUser("ada")
	bob := w.addUser("bob")
	if err := w.service.Administration().Suspend(t.Context(), account.Operator(), bob, "", false); err != nil {
		t.Fatal(err)
	}
	b := w.browser()
	guess := func() {
		for range 5 {
			b.login("ada", "wrong password")
			b.login("nobody", "wrong password")
			b.login("bob", password).is(403, "account_suspended")
			b.call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": strings.Repeat("A", 26), "password": password})
		}
	}
	const want = "bob>bob session.refused suspended\n>ada session.limited\n>ada password.limited"
	guess()
	if got := actions(w.audited(account.AuditQuery{})); got != want {
		t.Errorf("got\n%s", got)
	}
	w.clock.Advance(40 * time.Minute)
	guess()
	if got := actions(w.audited(account.AuditQuery{})); got != want+"\n"+want {
		t.Errorf("got\n%s", got)
	}
}

// What cannot be written down does not happen.
func TestExportNeedsItsRow(t *testing.T) {
	broken := &brokenRecord{}
	w := newWorld(t, func(o *account.Options) { broken.Store, o.Store = o.Store, broken })
	w.addUser("ada")
	b := w.signedIn("ada")
	b.call("GET", "/api/me/export", nil).is(503)
}

type brokenRecord struct{ account.Store }

func (brokenRecord) Record(context.Context, account.Audit, time.Duration) error {
	return account.ErrUnavailable
}
