package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

type auditRow struct {
	ID        int64 `gorm:"primaryKey"`
	At        int64
	Actor     string
	Action    string
	Target    string
	Detail    string
	Former    string
	Address   string
	RequestID string
}

var auditColumns = engine.ColumnsOf[auditRow]("audit")

func (r auditRow) audit() account.Audit {
	return account.Audit{
		ID: r.ID, At: fromUnix(r.At), Actor: r.Actor, Action: r.Action, Target: r.Target,
		Detail: r.Detail, Former: r.Former, Address: r.Address, RequestID: r.RequestID,
	}
}

// insertAudit records an action in its own transaction, and queues the mails about it. Who acts must have been
// checked: see checkActor.
func insertAudit(tx *engine.Tx, a account.Audit) {
	actorChecked(tx, a)
	insertMails(tx, a.Mails, a.At)
	tx.Exec(`INSERT INTO audit (at, actor, action, target, detail, former, address, request_id, session_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		toUnix(a.At), sanitize(a.Actor), sanitize(a.Action), sanitize(a.Target), sanitize(a.Detail),
		sanitize(a.Former), sanitize(a.Address), sanitize(a.RequestID), sanitize(a.Session))
}

// insertAudits is insertAudit for the actions of one time.
func insertAudits(tx *engine.Tx, all []account.Audit) {
	switch len(all) {
	case 0:
		return
	case 1:
		insertAudit(tx, all[0])
		return
	}
	type auditRow struct {
		At                                                                   int64
		Actor, Action, Target, Detail, Former, Address, RequestID, SessionID string
	}
	var rows []auditRow
	var mails []account.Mail
	for _, a := range all {
		actorChecked(tx, a)
		rows = append(rows, auditRow{toUnix(a.At), sanitize(a.Actor), sanitize(a.Action), sanitize(a.Target),
			sanitize(a.Detail), sanitize(a.Former), sanitize(a.Address), sanitize(a.RequestID), sanitize(a.Session)})
		mails = append(mails, a.Mails...)
	}
	insertMails(tx, mails, all[0].At)
	tx.Ran(tx.Table("audit").CreateInBatches(&rows, bulkRows))
}

// signInsOf returns the name of the counter of sign-ins of a day.
func signInsOf(day time.Time) string { return "signins:" + day.UTC().Format(time.DateOnly) }

// insertSignIn is insertAudit for a sign-in, and counts it. The row of the counter is locked last:
// all sign-ins of a day need it.
func insertSignIn(tx *engine.Tx, n *account.Session, a account.Audit) {
	insertAudit(tx, a)
	tx.Exec(`INSERT INTO counters (name, value) VALUES (?, 1)
		ON CONFLICT (name) DO UPDATE SET value = counters.value + 1`, signInsOf(n.AuthTime))
}

// SignIns implements account.Store.
func (s *Store) SignIns(ctx context.Context, from time.Time, days int) ([]int, error) {
	var rows []struct {
		Name  string
		Value int
	}
	err := s.conn(ctx).Raw("SELECT name, value FROM counters WHERE name >= ? AND name < ?",
		signInsOf(from), signInsOf(from.AddDate(0, 0, days))).Find(&rows).Error
	counts := make(map[string]int, len(rows))
	for _, r := range rows {
		counts[r.Name] = r.Value
	}
	out := make([]int, days)
	for i := range out {
		out[i] = counts[signInsOf(from.UTC().AddDate(0, 0, i))]
	}
	return out, fail("count sign-ins", err)
}

// Record implements account.Store. It reads before it writes: what is recorded once may be tried
// often.
func (s *Store) Record(ctx context.Context, a account.Audit, once time.Duration) error {
	const doing = "record"
	if once > 0 {
		var found int64
		err := s.conn(ctx).Raw(`SELECT count(*)
			FROM (SELECT 1 FROM audit
				WHERE target = ? AND at > ? AND at <= ? AND action = ? LIMIT 1) young`,
			sanitize(a.Target), toUnix(a.At.Add(-once)), toUnix(a.At.Add(time.Minute)), sanitize(a.Action),
		).Find(&found).Error
		if err != nil || found > 0 {
			return fail(doing, err)
		}
	}
	return s.act(ctx, doing, a, func(tx *engine.Tx) { insertAudit(tx, a) })
}

// RecordAll implements account.Store.
func (s *Store) RecordAll(ctx context.Context, all []account.Audit) error {
	return s.act(ctx, "record", all[0], func(tx *engine.Tx) { insertAudits(tx, all) })
}

// auditKind is the expression of the index audit_kind: an action up to its dot.
var auditKind = map[string]string{
	SQLite: "substr(action, 1, instr(action, '.') - 1)", Postgres: "split_part(action, '.', 1)",
}

// AuditLog implements account.Store.
func (s *Store) AuditLog(ctx context.Context, q account.AuditQuery) ([]account.Audit, error) {
	if q.Person != "" {
		// Rows have the handle as its account has it, with other dots perhaps.
		err := s.conn(ctx).Raw("SELECT u.handle FROM users u WHERE "+handleKey+" = ?",
			account.HandleKey(sanitize(q.Person))).Find(&q.Person).Error
		if err != nil {
			return nil, fail("find person", err)
		}
	}
	query, args := s.auditQuery(q)
	var rows []auditRow
	err := s.conn(ctx).Raw(query, args).Find(&rows).Error
	return each(rows, auditRow.audit), fail("read audit", err)
}

// auditQuery walks an index in the order of the rows, so that a page costs no more than its rows.
func (s *Store) auditQuery(q account.AuditQuery) (query string, args map[string]any) {
	const order = " ORDER BY at DESC, id DESC LIMIT @limit"
	args = map[string]any{"limit": pageSize(q.Limit)}
	var where []string
	add := func(condition, name string, value any) { where, args[name] = append(where, condition), value }
	if kind, rest, _ := strings.Cut(sanitize(q.Kind), "."); kind != "" {
		if add(auditKind[s.Dialect()]+" = @kind", "kind", kind); rest != "" {
			add("action = @action", "action", kind+"."+rest)
		}
	}
	if !q.From.IsZero() {
		add("at >= @from", "from", toUnix(q.From))
	}
	if !q.To.IsZero() {
		add("at < @to", "to", toUnix(q.To))
	}
	if q.Before > 0 {
		add("(at, id) < ((SELECT b.at FROM audit b WHERE b.id = @before), @before)", "before", q.Before)
	}
	walk := func(also ...string) string {
		if also = append(also, where...); len(also) > 0 {
			return "SELECT " + auditColumns + " FROM audit WHERE " + strings.Join(also, " AND ") + order
		}
		return "SELECT " + auditColumns + " FROM audit" + order
	}
	if q.Person == "" {
		return walk(), args
	}
	// A single query with OR would have to sort all of a person's rows.
	args["person"] = sanitize(q.Person)
	actor, target := walk("actor = @person"), walk("target = @person")
	return "SELECT * FROM (" + actor + ") a UNION SELECT * FROM (" + target + ") t" + order, args
}

// sweepAudit deletes the rows that are older than configured, and the counts of sign-ins of those
// days.
func (s *Store) sweepAudit(ctx context.Context, count *int64, now time.Time) error {
	v, err := s.Settings(ctx)
	if errors.Is(err, account.ErrNotInitialized) || err == nil && v.AuditDays == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	until := now.AddDate(0, 0, -v.AuditDays)
	old := expired{table: "audit", key: "id", at: "at", until: toUnix(until.Add(-sweepMargin))}
	err = s.sweepExpired(ctx, count, old)
	if err != nil {
		return err
	}
	return s.writeOne(ctx, "sweep sign-ins", func(db *gorm.DB) error {
		before := signInsOf(until.AddDate(0, 0, -1))
		return db.Exec("DELETE FROM counters WHERE name >= 'signins:' AND name < ?", before).Error
	})
}
