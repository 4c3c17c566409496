package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

type clientEntry struct {
	ID           string    `json:"client_id"`
	Name         string    `json:"client_name"`
	Public       bool      `json:"public"`
	RedirectURIs []string  `json:"redirect_uris"`
	Scopes       []string  `json:"scopes"`
	RequireFlag  *string   `json:"require_flag"` // null: open to all members
	RequireACR   *string   `json:"require_acr"`  // null: a password is enough
	Trusted      bool      `json:"trusted"`
	CreatedAt    time.Time `json:"created_at"`
}

func (s *Service) listClients(w http.ResponseWriter, r *http.Request) error {
	list, err := s.options.Clients(r.Context())
	if err != nil {
		return fmt.Errorf("list clients: %w", err)
	}
	out := make([]clientEntry, 0, len(list))
	for _, c := range list {
		out = append(out, clientEntry{
			ID: c.ID, Name: c.Name, Public: c.Public,
			RedirectURIs: append([]string{}, c.RedirectURIs...), Scopes: append([]string{}, c.Scopes...),
			RequireFlag: web.TextOrNull(c.RequireFlag), RequireACR: web.TextOrNull(c.RequireACR),
			Trusted: c.Trusted, CreatedAt: c.CreatedAt.UTC(),
		})
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]clientEntry{"clients": out})
}

// AuditEntry is a row of the audit log in the API and on the command line.
type AuditEntry struct {
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

// AuditEntryOf returns the entry of a row, with its sentence in the language.
func AuditEntryOf(a account.Audit, l *templates.Language) AuditEntry {
	return AuditEntry{
		a.ID, a.At.UTC(), a.Actor, a.Action, a.Target, a.Detail, a.Address, a.RequestID, l.AuditSentence(a.Row()),
	}
}

type auditList struct {
	Events     []AuditEntry `json:"events"`      // newest first
	NextCursor *string      `json:"next_cursor"` // null: the last page
}

// readAuditQuery reads the filters of the audit log and the page from a request's URL.
func readAuditQuery(r *http.Request) (q account.AuditQuery, err error) {
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
			return q, web.BadRequest("A person is a handle, or operator.")
		}
	}
	if q.Kind = values.Get("kind"); q.Kind != "" && !auditKind.MatchString(q.Kind) {
		return q, web.BadRequest("A kind is an action such as user.suspend, or its beginning, such as user.")
	}
	if q.From, err = readTime(values.Get("from"), 0); err == nil {
		q.To, err = readTime(values.Get("to"), 1)
	}
	return q, err
}

var auditKind = regexp.MustCompile(`^[a-z]{1,32}(?:\.[a-z_]{0,32})?$`)

// readTime reads a time (RFC 3339) or a day (UTC). A day means its beginning or, if days is 1,
// its end.
func readTime(text string, days int) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil || text == "" {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, web.BadRequest("A time is a day such as 2026-11-22, or a time such as 2026-11-22T15:04:05Z.")
	}
	return t.AddDate(0, 0, days), nil
}

func (s *Service) listAudit(w http.ResponseWriter, r *http.Request) error {
	rows, next, err := s.auditOf(r)
	if err != nil {
		return err
	}
	l := templates.LanguageOf(r.Context())
	out := auditList{Events: make([]AuditEntry, 0, len(rows)), NextCursor: web.TextOrNull(next)}
	for _, a := range rows {
		out.Events = append(out.Events, AuditEntryOf(a, l))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// auditOf returns the requested page of audit rows and the cursor of the next page.
func (s *Service) auditOf(r *http.Request) (rows []account.Audit, next string, err error) {
	q, err := readAuditQuery(r)
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

func (s *Service) showSettings(w http.ResponseWriter, r *http.Request) error {
	v, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, v)
}

// putSettings changes the members in the body and keeps the others.
func (s *Service) putSettings(w http.ResponseWriter, r *http.Request) error {
	var in account.SettingsChange
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	v, err := s.accounts.ChangeSettings(r.Context(), s.accounts.Caller(r), in)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, v)
}
