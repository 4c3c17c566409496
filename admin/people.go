package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) usersPage(w http.ResponseWriter, r *http.Request) error {
	return s.showUsersPage(w, r, http.StatusOK, templates.AdminUsers{Answer: answerTo(r)})
}

func (s *Service) showUsersPage(w http.ResponseWriter, r *http.Request, status int, page templates.AdminUsers) error {
	list, err := s.usersOf(r)
	if err != nil {
		return err
	}
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	q := list.query
	page.Filter = templates.UserFilter{
		Query: q.Query, Flag: q.Flag, Sort: q.Sort,
		Suspended: q.Suspended, NeverSignedIn: q.NeverSignedIn, NoSecondFactor: q.NoSecondFactor,
	}
	page.ByMail = s.accounts.MailEnabled()
	page.Flags, page.Next = settings.Flags, s.nextPage(r, list.next)
	page.Total, page.AtLeast = list.total, !list.exact
	if !list.exact && list.total == 0 {
		page.Total = -1
	}
	if page.Section != "add" {
		page.New.Flags = settings.DefaultFlags
	}
	for _, u := range list.users {
		page.Users = append(page.Users, rowOf(u))
	}
	s.accounts.Show(w, r, status, page)
	return nil
}

// nextPage returns the local path of the page after the requested one, or "" if there is none.
func (s *Service) nextPage(r *http.Request, cursor string) string {
	if cursor == "" {
		return ""
	}
	q := filters(r)
	q.Set("cursor", cursor)
	return strings.TrimPrefix(r.URL.EscapedPath(), s.accounts.Path("")) + "?" + q.Encode()
}

// filters returns the parameters of a request that select what is listed.
func filters(r *http.Request) url.Values {
	q := r.URL.Query()
	for name := range q {
		if q.Get(name) == "" || name == "cursor" || name == "notice" {
			q.Del(name)
		}
	}
	return q
}

// addForm adds a user and shows their page with the code, which is shown only once.
func (s *Service) addForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r, "flag"); err != nil {
		return err
	}
	f := r.PostForm
	n := account.NewUser{
		Handle: f.Get("handle"), DisplayName: f.Get("display_name"), Email: f.Get("email"),
		Flags: append([]string{}, f["flag"]...),
	}
	u, c, err := s.users.Add(r.Context(), s.accounts.Caller(r), n)
	if err == nil && c.Hash == nil {
		return s.accounts.Redirect(w, r, noticeOn(u, "added-by-mail"))
	}
	if err == nil {
		page := templates.AdminUser{ResetCode: c.Shown(), ResetURL: s.accounts.ResetURL(u.Handle, c)}
		return s.showUserPage(w, r, http.StatusOK, u, page)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page := templates.AdminUsers{
		Answer: templates.Answer{Section: "add", Error: p.Detail, ErrorCode: p.Code}, ErrorField: "handle",
		New: templates.NewPerson{Handle: n.Handle, DisplayName: n.DisplayName, Email: n.Email, Flags: n.Flags},
	}
	if len(p.Errors) > 0 {
		page.ErrorField = cmp.Or(strings.TrimPrefix(p.Errors[0].Pointer, "/"), page.ErrorField)
	}
	return s.showUsersPage(w, r, p.Status, page)
}
