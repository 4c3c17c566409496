package site_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// audited are the rows that q selects, oldest first, without those of the operator.
func audited(w *accounttest.World, q account.AuditQuery) (rows []account.Audit) {
	w.T.Helper()
	err := w.Administration().EachAudit(w.T.Context(), q, func(a account.Audit) error {
		if a.Actor != "operator" {
			rows = append([]account.Audit{a}, rows...)
		}
		return nil
	})
	if err != nil {
		w.T.Fatal(err)
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
	w := accounttest.New(t)
	invite, fresh := w.Invite(), "eleven quiet lanterns"
	b := w.Browser()
	b.Call("POST", "/api/register", map[string]string{"code": invite.Code, "handle": "ada", "password": password}).Is(201)
	b.Call("PATCH", "/api/me", map[string]string{"display_name": "Ada L", "email": "ada@example.org"}).Is(200)
	for range 2 { // the second changes nothing
		b.Call("PATCH", "/api/me", map[string]string{"email": "ada@example.org", "nickname": "ada", "gender": ""}).Is(200)
	}
	other := w.SignedIn("ada")
	other.Login("ada", password).Is(200)
	code := b.Call("POST", "/api/invites", map[string]string{"note": "for Bob"}).Is(201).JSON()["code"].(string)
	b.Call("DELETE", "/api/invites/"+code, nil).Is(204)
	b.Call("POST", "/api/me/sessions/end-others", map[string]string{}).Is(204)
	b.Call("POST", "/api/me/sessions/end-others", map[string]string{}).Is(204) // none is left: no row
	b.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": fresh}).Is(200)
	b.Call("GET", "/api/me/export", nil).Is(200)
	b.Call("POST", "/api/auth/logout", map[string]string{}).Is(200)
	b.Call("POST", "/api/auth/logout", map[string]string{}).Is(200)
	reset, err := w.Administration().IssueResetCode(t.Context(), account.Operator(), w.User("ada"))
	must(t, err)
	b.Call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": reset.Code, "password": password}).Is(200)
	b.Login("ada", fresh).Is(401) // for the log of the service
	rows := audited(w, account.AuditQuery{Person: "ada"})
	var ended string
	for i, a := range rows {
		if a.Address != "192.0.2.1" || a.RequestID != "req-1" || a.At.IsZero() {
			t.Errorf("%+v", a)
		}
		if a.Action == "session.sign_out" {
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
ada>ada session.end_others (ended: sessions 1)
ada>ada password.change
ada>ada account.export
ada>ada session.sign_out
ada>ada password.reset`
	if got := actions(rows); got != want || len(ended) != 36 {
		t.Errorf("session %q ended, got\n%s", ended, got)
	}
	if days, err := w.Administration().SignIns(t.Context(), 2); err != nil || days[1] != 3 || days[0] != 0 {
		t.Errorf("sign-ins %v, %v", days, err)
	}
}

// Whoever guesses does not fill the table: a row for each account in a quarter of an hour.
func TestRefusalsAreInTheAuditLogOnce(t *testing.T) {
	w := accounttest.New(t, withLimits(map[string]web.Rate{
		web.LimitLoginAccount: {Count: 2, Window: 15 * time.Minute}, web.LimitResetAccount: {Count: 2, Window: 15 * time.Minute},
	}))
	w.AddUser("ada")
	bob := w.AddUser("bob")
	must(t, w.Administration().Suspend(t.Context(), account.Operator(), bob, "", false))
	b := w.Browser()
	guess := func() {
		for range 5 {
			b.Login("ada", "wrong password")
			b.Login("nobody", "wrong password")
			b.Login("bob", password).Is(403, "account_suspended")
			b.Call("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": strings.Repeat("A", 26), "password": password})
		}
	}
	const want = "bob>bob session.refused suspended\n>ada session.limited\n>ada password.limited"
	guess()
	same(t, "actions", actions(audited(w, account.AuditQuery{})), want)
	w.Clock.Advance(40 * time.Minute)
	guess()
	same(t, "actions", actions(audited(w, account.AuditQuery{})), want+"\n"+want)
}

// What cannot be written down does not happen.
func TestExportNeedsItsRow(t *testing.T) {
	broken := &brokenRecord{}
	w := accounttest.New(t, func(o *accounttest.Options) { broken.Store, o.Store = o.Store, broken })
	b := w.Member("ada")
	b.Call("GET", "/api/me/export", nil).Is(503)
}

type brokenRecord struct{ account.Store }

func (brokenRecord) Record(context.Context, account.Audit, time.Duration) error {
	return account.ErrUnavailable
}
