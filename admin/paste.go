package admin

import (
	"encoding/csv"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// maxPaste limits the form with a pasted list, in bytes: 500 lines.
const maxPaste = 2 * web.MaxBody

func (s *Service) pastePage(w http.ResponseWriter, r *http.Request) error {
	return s.showPaste(w, r, http.StatusOK, templates.AdminPaste{})
}

func (s *Service) showPaste(w http.ResponseWriter, r *http.Request, status int, page templates.AdminPaste) error {
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	apps, err := s.accounts.AppsFor(r.Context(), site.IdentityFrom(r.Context()).User)
	if err != nil {
		return err
	}
	page.Flags, page.ByMail, page.Apps = settings.DefaultFlags, s.accounts.MailEnabled(), entry.WithHome(apps)
	s.accounts.Show(w, r, status, page)
	return nil
}

// pasteForm shows what a pasted list would do, and does it if that was confirmed. What is confirmed has the handles
// that were shown.
func (s *Service) pasteForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadFormUpTo(w, r, maxPaste); err != nil {
		return err
	}
	return s.checkPasted(w, r, r.PostForm.Get("sure") == "yes")
}

func (s *Service) checkPasted(w http.ResponseWriter, r *http.Request, sure bool) error {
	caller := s.accounts.Caller(r)
	if err := s.accounts.Allow(caller, account.ImportUsers); err != nil {
		return err
	}
	page := templates.AdminPaste{
		People: r.PostForm.Get("people"), App: text.Cut(r.PostForm.Get("app"), account.MaxClientID),
	}
	refuse := func(cause error) error {
		p, err := web.Refusal(w, r, cause)
		if err != nil {
			return err
		}
		page.Fault = p.Detail
		page.Answer = templates.NewAnswer(templates.LanguageOf(r.Context()), "", p.Detail, p.Code,
			map[string]string{"people": p.Detail})
		return s.showPaste(w, r, p.Status, page)
	}
	rows, err := s.users.ReadPasted(r.Context(), page.People)
	if err != nil {
		return refuse(err)
	}
	checked, err := s.users.CheckPasted(r.Context(), caller, rows)
	if err != nil {
		return refuse(err)
	}
	if page.Checked, err = checkedList(rows); err != nil {
		return err
	}
	page.Added, page.Bad = checked.Count(roster.ImportCreated), checked.Count(roster.ImportRefused)
	l, status := templates.LanguageOf(r.Context()), http.StatusOK
	for _, result := range checked.Results {
		line := s.pastedLine(l, result)
		if page.Bad == 0 || line.Faults != nil { // what is to be corrected is not searched for
			page.Lines = append(page.Lines, line)
		}
	}
	switch {
	case page.Bad > 0:
		status = http.StatusBadRequest
		page.ErrorCode, page.Error = "invalid_list",
			l.Text("Nothing was changed. Correct {count} lines.", "count", page.Bad)
	case sure && page.Added > 0:
		detail := strconv.Itoa(page.Added) + " users"
		checked.LeadTo(page.App)
		switch err := s.users.Import(r.Context(), caller, checked, detail); {
		case errors.Is(err, account.ErrHandleTaken): // since the check, perhaps by a second click: as it is now
			return s.checkPasted(w, r, false)
		case err != nil:
			return refuse(err)
		}
		page.Done = true
		page.Notice = l.Text("Added {count} people.", "count", page.Added)
		for _, c := range checked.Codes {
			link := account.LeadingTo(s.accounts.ResetURL(c.Handle, c.ResetCode), page.App)
			page.Links = append(page.Links, templates.PastedLink{Handle: c.Handle, URL: link})
		}
	}
	return s.showPaste(w, r, status, page)
}

func (s *Service) pastedLine(l *templates.Language, result roster.ImportResult) templates.PastedLine {
	u := result.User()
	line := templates.PastedLine{
		Number: result.Row, Name: u.DisplayName, Email: u.Email, Handle: result.Handle, Member: result.Member(),
		Shares: result.Shares(),
		Flags:  u.Flags, Ends: u.EndsAt, FlagEnds: account.FlagEndRows(u.Flags, u.FlagEnds),
		ByMail: s.accounts.MailEnabled() && u.Email != "",
	}
	for _, p := range result.Problems() {
		p = p.In(l)
		if len(p.Errors) == 0 {
			line.Faults = append(line.Faults, p.Detail)
		}
		for _, f := range p.Errors {
			line.Faults = append(line.Faults, string(f.Detail))
		}
	}
	return line
}

// checkedList returns the list with the handles, as ReadPasted reads it.
func checkedList(rows []roster.ImportRow) (string, error) {
	var list strings.Builder
	out := csv.NewWriter(&list)
	_ = out.Write(roster.PastedColumns) // Error has what fails
	for _, row := range rows {
		_ = out.Write(row.Record(roster.PastedColumns))
	}
	out.Flush()
	return list.String(), out.Error()
}
