package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) auditRows(ctx context.Context, list []account.Audit) []templates.AuditRow {
	out, zone := make([]templates.AuditRow, len(list)), s.users.Zone(ctx)
	for i, a := range list {
		out[i] = a.Row(zone)
	}
	return out
}

// auditPage shows the requested rows. An invalid filter is refused beside the form.
func (s *Service) auditPage(w http.ResponseWriter, r *http.Request) error {
	status, q := http.StatusOK, r.URL.Query()
	page := templates.AdminAudit{Person: q.Get("person"), Kind: q.Get("kind"), From: q.Get("from"), To: q.Get("to")}
	rows, next, err := s.auditOf(r, s.readerZone(r))
	if err != nil {
		p, err := web.Refusal(w, r, err)
		if err != nil {
			return err
		}
		status, page.Answer = p.Status, templates.Answer{Error: p.Detail, ErrorCode: p.Code}
	}
	page.Rows, page.Next = s.auditRows(r.Context(), rows), s.nextPage(r, next)
	selected := url.Values{}
	if status == http.StatusOK {
		selected = selection(r, auditFilters)
	}
	page.CSV, page.JSONL = "/admin/audit.csv?"+selected.Encode(), "/admin/audit.jsonl?"+selected.Encode()
	s.accounts.Show(w, r, status, page)
	return nil
}

var auditFilters = []string{"person", "kind", "from", "to"}

// selection returns the filters of a request and drops the rest of its query.
func selection(r *http.Request, names []string) url.Values {
	selected := url.Values{}
	for _, name := range names {
		if v := r.URL.Query().Get(name); v != "" {
			selected.Set(name, v)
		}
	}
	return selected
}

// auditJSONL answers with all requested rows, one JSON object a line.
func (s *Service) auditJSONL(w http.ResponseWriter, r *http.Request) error {
	l, zone := templates.LanguageOf(r.Context()), s.users.Zone(r.Context())
	write := func(to *bufio.Writer, a account.Audit) error {
		return json.NewEncoder(to).Encode(AuditEntryOf(a, l, zone))
	}
	return s.exportAudit(w, r, "audit.jsonl", "application/jsonl; charset=utf-8", "", write)
}

// auditCSV answers with all requested rows as CSV (RFC 4180).
func (s *Service) auditCSV(w http.ResponseWriter, r *http.Request) error {
	const head = "id,at,actor,action,target,detail,address,request_id\r\n"
	write := func(to *bufio.Writer, a account.Audit) error {
		id, at := strconv.FormatInt(a.ID, 10), a.At.UTC().Format(time.RFC3339)
		return record(to, id, at, a.Actor, a.Action, a.Target, a.Detail, a.Address, a.RequestID)
	}
	return s.exportAudit(w, r, "audit.csv", contentCSV, head, write)
}

const contentCSV = "text/csv; charset=utf-8; header=present"

// record writes a line of CSV.
func record(to *bufio.Writer, fields ...string) error {
	for i, f := range fields {
		fields[i] = cell(f)
	}
	_, err := to.WriteString(strings.Join(fields, ",") + "\r\n")
	return err
}

// cell returns a CSV field, quoted where needed.
func cell(s string) string {
	s = web.GuardCell(s)
	if strings.ContainsAny(s, "\",;\t\r\n'") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

func (s *Service) exportAudit(
	w http.ResponseWriter, r *http.Request, file, contentType, head string,
	write func(*bufio.Writer, account.Audit) error,
) error {
	q, err := readAuditQuery(r, s.readerZone(r))
	if err != nil {
		return err
	}
	row := account.Audit{Target: "audit", Detail: selection(r, auditFilters).Encode()}
	return s.export(w, r, account.ExportAudit, row, file, contentType, func(to *bufio.Writer) error {
		if _, err := to.WriteString(head); err != nil {
			return err
		}
		return s.users.EachAudit(r.Context(), q, func(a account.Audit) error { return write(to, a) })
	})
}

// export answers with a file, and records the act with target and detail of row.
func (s *Service) export(
	w http.ResponseWriter, r *http.Request, act account.Act, row account.Audit, file, contentType string,
	write func(*bufio.Writer) error,
) error {
	by := s.accounts.Caller(r)
	if err := s.users.CountAct(r.Context(), by, act); err != nil {
		return err
	}
	if err := s.users.Record(r.Context(), by.Audit(s.users.Now(), act, row.Target, row.Detail)); err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+file+`"`)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return web.Stream(w, s.options.Now, contentType, write)
}

// auditEntry is a row of the audit log in the API and on the command line.
type auditEntry struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`
	Action    string    `json:"action"`
	Target    string    `json:"target"`
	Detail    string    `json:"detail"`
	Address   string    `json:"address"`
	RequestID string    `json:"request_id"`
	Sentence  string    `json:"sentence"` // describes the row in a language
}

// AuditEntryOf returns the entry of a row, with its sentence in the language and a time zone.
func AuditEntryOf(a account.Audit, l *templates.Language, zone *time.Location) auditEntry {
	return auditEntry{
		a.ID, a.At.UTC(), a.Actor, a.Action, a.Target, a.Detail, a.Address, a.RequestID, l.AuditSentence(a.Row(zone)),
	}
}

type auditList struct {
	Events     []auditEntry `json:"events"`      // newest first
	NextCursor *string      `json:"next_cursor"` // null: the last page
}

// readerZone returns the time zone in which a page shows its times.
func (s *Service) readerZone(r *http.Request) *time.Location {
	return templates.Zone(site.IdentityFrom(r.Context()).User.Profile.Zoneinfo, s.accounts.Look().Zone)
}

// readAuditQuery reads the filters of the audit log and the page from a request's URL. Days are those of the zone.
func readAuditQuery(r *http.Request, zone *time.Location) (q account.AuditQuery, err error) {
	p, err := readPage(r)
	if err != nil {
		return q, err
	}
	q.Limit = p.limit
	if p.key != "" {
		q.Before, err = strconv.ParseInt(p.key, 10, 64)
		if err != nil || q.Before < 1 || strconv.FormatInt(q.Before, 10) != p.key {
			return q, account.ErrInvalidCursor
		}
	}
	values := r.URL.Query()
	for _, name := range []string{"person", "kind", "from", "to"} {
		if len(values[name]) > 1 {
			return q, web.Repeated(name)
		}
	}
	if q.Person = strings.TrimSpace(values.Get("person")); q.Person != "" && q.Person != account.Operator().Name {
		if q.Person, err = account.CanonicalHandle(q.Person); err != nil {
			return q, web.BadRequest("Enter a user name, or operator.")
		}
	}
	if q.Kind = values.Get("kind"); q.Kind != "" && !auditKind.MatchString(q.Kind) {
		return q, web.BadRequest("Enter an action such as user.suspend, or the start of one, such as user.")
	}
	if q.From, err = readTime(values.Get("from"), zone, 0); err == nil {
		q.To, err = readTime(values.Get("to"), zone, 1)
	}
	return q, err
}

var auditKind = regexp.MustCompile(`^[a-z]{1,32}(?:\.[a-z_]{0,32})?$`)

// readTime reads a time (RFC 3339) or a day in a zone. A day means its beginning or, if days is 1, its end.
func readTime(text string, zone *time.Location, days int) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil || text == "" {
		return t, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return t, web.BadRequest("Enter a day such as 2026-11-22, or a time such as 2026-11-22T15:04:05Z.")
	}
	return t.AddDate(0, 0, days), nil
}

func (s *Service) listAudit(w http.ResponseWriter, r *http.Request) error {
	rows, next, err := s.auditOf(r, time.UTC)
	if err != nil {
		return err
	}
	l := templates.LanguageOf(r.Context())
	out := auditList{Events: make([]auditEntry, 0, len(rows)), NextCursor: web.TextOrNull(next)}
	for _, a := range rows {
		out.Events = append(out.Events, AuditEntryOf(a, l, s.users.Zone(r.Context())))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// auditOf returns the requested page of audit rows and the cursor of the next page.
func (s *Service) auditOf(r *http.Request, zone *time.Location) (rows []account.Audit, next string, err error) {
	q, err := readAuditQuery(r, zone)
	if err != nil {
		return nil, "", err
	}
	limit := q.Limit
	q.Limit++ // an extra row means that there is another page
	if rows, err = s.users.AuditLog(r.Context(), q); err != nil || len(rows) <= limit {
		return rows, "", err
	}
	return rows[:limit], web.Cursor(strconv.FormatInt(rows[limit-1].ID, 10)), nil
}
