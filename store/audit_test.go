package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// fillAudit adds as many rows, one a minute before noon.
func fillAudit(t *testing.T, s *store.Store, rows string) {
	must(t, s.Exec(`INSERT INTO audit (at, actor, action, target, detail, address, request_id)
		SELECT ? - 60 * i, CASE i % 1000 WHEN 7 THEN 'bob' ELSE 'ada' END, CASE i % 100 WHEN 7 THEN 'user.suspend' WHEN 8 THEN 'user.flags' ELSE 'session.create' END,
			CASE i % 1000 WHEN 8 THEN 'bob' ELSE 'ada' END, '', '', '' FROM `+s.Series(rows), noon.Unix()))
}

func TestAuditLogFiltersByPersonKindAndTimeInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		fillAudit(t, s, "3000")
		log := roster.NewAdministration(s, func() time.Time { return noon })
		count := func(q account.AuditQuery, want int, right func(account.Audit) bool) {
			t.Helper()
			n, last := 0, noon.Add(time.Second)
			must(t, log.EachAudit(t.Context(), q, func(a account.Audit) error {
				if n++; !right(a) || !a.At.Before(last) {
					return fmt.Errorf("%+v after %v", a, last)
				}
				last = a.At
				return nil
			}))
			same(t, fmt.Sprintf("%+v: rows", q), n, want)
		}
		of := func(a account.Audit) bool { return a.Actor == "bob" || a.Target == "bob" }
		user := func(a account.Audit) bool { return strings.HasPrefix(a.Action, "user.") }
		count(account.AuditQuery{}, 3000, func(account.Audit) bool { return true })
		count(account.AuditQuery{Person: "bob"}, 6, of)
		count(account.AuditQuery{Kind: "user"}, 60, user)
		count(account.AuditQuery{Kind: "user."}, 60, user)
		count(account.AuditQuery{Kind: "use"}, 0, user)
		count(account.AuditQuery{Kind: "user.flags", Person: "bob"}, 3, of)
		count(account.AuditQuery{From: noon.Add(-600 * time.Minute), To: noon.Add(-500 * time.Minute)}, 100,
			func(a account.Audit) bool {
				return !a.At.Before(noon.Add(-600*time.Minute)) && a.At.Before(noon.Add(-500*time.Minute))
			})
		count(account.AuditQuery{Person: "' OR true", Kind: "user'"}, 0, of)
	})
}

// A page costs what it shows, however long the log is.
func TestAuditLogIsReadAlongAnIndex(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		fillAudit(t, s, "20000")
		must(t, s.Exec("ANALYZE audit"))
		week := account.AuditQuery{From: noon.AddDate(0, 0, -7), To: noon.AddDate(0, 0, -6), Before: 12000, Limit: 51}
		for _, c := range []struct {
			index string
			q     account.AuditQuery
		}{
			{"audit_at", account.AuditQuery{Limit: 51}}, {"audit_at", week}, {"audit_kind", account.AuditQuery{Kind: "user.", Limit: 51}},
			{"audit_kind", account.AuditQuery{Kind: "user.flags", From: week.From, Before: 12000, Limit: 51}},
			{"audit_actor audit_target", account.AuditQuery{Person: "bob", Limit: 51}},
			{"audit_actor audit_target", account.AuditQuery{Person: "bob", From: week.From, To: week.To, Before: 12000, Limit: 51}},
		} {
			plan, err := s.AuditPlan(c.q)
			must(t, err)
			for _, index := range strings.Fields(c.index) {
				if !strings.Contains(plan, index) || strings.Contains(plan, "SCAN audit\n") || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%+v is not read along %s:\n%s", c.q, index, plan)
				}
			}
		}
	})
}

func TestAuditIsSweptAfterTheDaysOfTheSettings(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		_, err := s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		fillAudit(t, s, "3000")
		u := addUser(t, s, "ada")
		signIn(t, s, u)
		signIn(t, s, u)
		_, err = s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.AuditDays = 0; return "audit_days", nil }, act("settings.update"))
		must(t, err)
		swept := func(at time.Time) int64 {
			t.Helper()
			got, err := s.Sweep(ctx, at)
			must(t, err)
			return got.Audit
		}
		same(t, "rows went that are kept for ever", swept(noon.AddDate(20, 0, 0)), 0)
		_, err = s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.AuditDays = 30; return "audit_days", nil }, act("settings.update"))
		must(t, err)
		days := func() string {
			counts, err := s.SignIns(ctx, noon.AddDate(0, 0, -1), 3)
			must(t, err)
			return fmt.Sprint(counts)
		}
		if n := swept(noon.AddDate(0, 0, 30)); n != 3000-60 || days() != "[0 2 0]" {
			t.Errorf("%d rows went after 30 days, sign-ins %s", n, days())
		}
		if n := swept(noon.AddDate(0, 0, 32)); n != 60+5 || days() != "[0 0 0]" {
			t.Errorf("%d rows went at last, sign-ins %s", n, days())
		}
	})
}

func TestWhatIsRecordedOnceIsRecordedAgainLater(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, a := t.Context(), act("session.limited")
		for range 3 {
			must(t, s.Record(ctx, a, time.Minute))
		}
		other, later := a, a
		other.Target, later.At = "other", noon.Add(time.Minute)
		must(t, s.Record(ctx, other, time.Minute))
		must(t, s.Record(ctx, later, time.Minute))
		must(t, s.Record(ctx, later, 0))
		rows, err := s.AuditLog(ctx, account.AuditQuery{Kind: "session"})
		must(t, err)
		got := ""
		for _, r := range rows {
			got += " " + r.Target
		}
		equal(t, "got", got, " target target other target")
	})
}

// Whoever is deleted is still named as the one who did it, but not from where.
func TestDeletionKeepsHandlesInTheAuditLogAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		own := account.Audit{At: noon, Actor: "ada", Action: "session.create", Target: "ada", Address: "192.0.2.1"}
		must(t, s.CreateSession(ctx, newSession(u.Sub), u.PasswordHash, own))
		by := own
		by.Actor, by.Action = "root", "user.delete"
		must(t, s.DeleteUser(ctx, u.Sub, noon, by))
		rows, err := s.AuditLog(ctx, account.AuditQuery{Person: "ada"})
		must(t, err)
		if len(rows) != 2 || rows[0].Address != "192.0.2.1" || rows[1].Actor != "ada" || rows[1].Address != "" {
			t.Errorf("%+v", rows)
		}
	})
}

// A change of a registration and its row are one, and the row has what the change replaced, not what
// its writer had read.
func TestRegistrationsChangeWithTheirAuditRows(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		a := addAPI(t, s, "https://api.example.org", nil)
		other, another := *c, *a
		other.ID, another.URI, another.ID = "other", "https://another.example.org", "api-2"
		c.Trusted, a.Name = true, "Other"
		secret := provider.ClientSecret{Hash: []byte("new"), CreatedAt: noon}
		registered := func() []any {
			clients, err := s.Clients(ctx)
			must(t, err)
			apis, err := s.APIs(ctx)
			must(t, err)
			return []any{clients, apis}
		}
		before := registered()
		must(t, s.Exec("ALTER TABLE audit RENAME TO audit_of_another_name"))
		for name, err := range map[string]error{
			"client.create":        s.CreateClient(ctx, &other, act("client.create")),
			"client.update":        s.UpdateClient(ctx, c, act("client.update")),
			"client.rotate_secret": s.RotateClientSecret(ctx, c.ID, secret.Hash, noon, noon, act("client.rotate_secret")),
			"client.remove":        s.RemoveClient(ctx, c.ID, act("client.remove")),
			"api.create":           s.CreateAPI(ctx, &another, act("api.create")),
			"api.update":           s.UpdateAPI(ctx, a, act("api.update")),
			"api.rotate_secret":    s.RotateAPISecret(ctx, a.URI, secret, noon, false, act("api.rotate_secret")),
			"api.remove":           s.RemoveAPI(ctx, a.URI, act("api.remove")),
		} {
			fails(t, fmt.Sprintf("%s without its row", name), err, account.ErrUnavailable)
		}
		same(t, "changed without a row", cmp.Diff(before, registered()), "")
		must(t, s.Exec("ALTER TABLE audit_of_another_name RENAME TO audit"))
		stale := *c
		stale.Trusted = false
		must(t, s.UpdateClient(ctx, c, act("client.update")))
		must(t, s.UpdateClient(ctx, c, act("client.update"))) // nothing to write
		must(t, s.UpdateClient(ctx, &stale, act("client.update")))
		must(t, s.UpdateAPI(ctx, a, act("api.update")))
		must(t, s.UpdateAPI(ctx, a, act("api.update")))
		want(t, s.UpdateAPI(ctx, &another, act("api.update")), provider.ErrAPINotFound)
		rows, err := s.AuditLog(ctx, account.AuditQuery{Limit: 3})
		must(t, err)
		if len(rows) != 3 || rows[2].Detail != "trusted=on" || rows[1].Detail != "trusted=off" || rows[0].Action != "api.update" {
			t.Errorf("rows %+v", rows)
		}
	})
}
