package admin

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func auditRows(list []account.Audit) []templates.AuditRow {
	out := make([]templates.AuditRow, len(list))
	for i, a := range list {
		out[i] = a.Row()
	}
	return out
}

// auditPage shows the requested rows. An invalid filter is refused beside the form.
func (s *Service) auditPage(w http.ResponseWriter, r *http.Request) error {
	status, q := http.StatusOK, r.URL.Query()
	page := templates.AdminAudit{Person: q.Get("person"), Kind: q.Get("kind"), From: q.Get("from"), To: q.Get("to")}
	rows, next, err := s.auditOf(r)
	if err != nil {
		p, err := web.Refusal(w, r, err)
		if err != nil {
			return err
		}
		status, page.Answer = p.Status, templates.Answer{Error: p.Detail, ErrorCode: p.Code}
	}
	page.Rows, page.Next = auditRows(rows), s.nextPage(r, next)
	selected := url.Values{}
	if status == http.StatusOK {
		selected = selection(r)
	}
	page.CSV, page.JSONL = "/admin/audit.csv?"+selected.Encode(), "/admin/audit.jsonl?"+selected.Encode()
	s.accounts.Show(w, r, status, page)
	return nil
}

// selection returns the filters of a request and drops the rest of its query.
func selection(r *http.Request) url.Values {
	selected := url.Values{}
	for _, name := range []string{"person", "kind", "from", "to"} {
		if v := r.URL.Query().Get(name); v != "" {
			selected.Set(name, v)
		}
	}
	return selected
}

// auditJSONL answers with all requested rows, one JSON object a line.
func (s *Service) auditJSONL(w http.ResponseWriter, r *http.Request) error {
	l := templates.LanguageOf(r.Context())
	write := func(to *bufio.Writer, a account.Audit) error {
		return json.NewEncoder(to).Encode(AuditEntryOf(a, l))
	}
	return s.export(w, r, "audit.jsonl", "application/jsonl; charset=utf-8", "", write)
}

// auditCSV answers with all requested rows as CSV (RFC 4180).
func (s *Service) auditCSV(w http.ResponseWriter, r *http.Request) error {
	const head = "id,at,actor,action,target,detail,address,request_id\r\n"
	write := func(to *bufio.Writer, a account.Audit) error {
		id, at := strconv.FormatInt(a.ID, 10), a.At.UTC().Format(time.RFC3339)
		fields := []string{id, at, a.Actor, a.Action, a.Target, a.Detail, a.Address, a.RequestID}
		for i, f := range fields {
			fields[i] = cell(f)
		}
		_, err := to.WriteString(strings.Join(fields, ",") + "\r\n")
		return err
	}
	return s.export(w, r, "audit.csv", "text/csv; charset=utf-8; header=present", head, write)
}

// cell returns a CSV field, quoted where needed.
func cell(s string) string {
	s = web.GuardCell(s)
	if strings.ContainsAny(s, "\",;\t\r\n'") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

func (s *Service) export(
	w http.ResponseWriter, r *http.Request, file, contentType, head string,
	write func(*bufio.Writer, account.Audit) error,
) error {
	q, err := readAuditQuery(r)
	if err != nil {
		return err
	}
	detail := selection(r).Encode()
	row := s.accounts.Caller(r).Audit(s.users.Now(), "audit.export", "audit", detail)
	if err := s.users.Record(r.Context(), row); err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+file+`"`)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return web.Stream(w, s.options.Now, contentType, func(to *bufio.Writer) error {
		if _, err := to.WriteString(head); err != nil {
			return err
		}
		return s.users.EachAudit(r.Context(), q, func(a account.Audit) error { return write(to, a) })
	})
}
