package admin

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
)

type userEntry struct {
	Sub         string          `json:"sub"`
	Handle      string          `json:"handle"`
	DisplayName string          `json:"display_name"`
	Email       string          `json:"email"`
	Flags       map[string]bool `json:"flags"`
	Suspended   bool            `json:"suspended"`
	CreatedAt   time.Time       `json:"created_at"`
	LastLoginAt *time.Time      `json:"last_login_at"` // null: never
	InvitedBy   *string         `json:"invited_by"`    // handle
	entry.Ends
}

type userList struct {
	Users      []userEntry `json:"users"`
	NextCursor *string     `json:"next_cursor"` // null: the last page
	// Total is the number of matching users, null if there are too many to count.
	Total *int `json:"total"`
}

type userDetail struct {
	userEntry
	EmailVerified bool                 `json:"email_verified"`
	EmailPending  string               `json:"email_pending"` // empty: none waits
	SuspendedAt   *time.Time           `json:"suspended_at"`
	SuspendReason string               `json:"suspend_reason"`
	LockedUntil   *time.Time           `json:"locked_until"` // null: not locked
	Sessions      []entry.Session      `json:"sessions"`
	Apps          []entry.App          `json:"apps"`
	Recent        []account.MadeFactor `json:"recent_factors"`
	Did           []roster.RecentAct   `json:"recent_acts"`
	Attributes    map[string]string    `json:"attributes,omitempty"`
}

func entryOf(u account.User, known []string) userEntry {
	return userEntry{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email,
		Flags: u.FlagMap(known), Suspended: u.Suspended(), CreatedAt: u.CreatedAt.UTC(),
		LastLoginAt: web.TimeOrNull(u.LastLoginAt), InvitedBy: web.TextOrNull(u.InvitedBy),
		Ends: entry.EndsOf(u),
	}
}

func (s *Service) listUsers(w http.ResponseWriter, r *http.Request) error {
	list, err := s.usersOf(r)
	if err != nil {
		return err
	}
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	out := userList{Users: make([]userEntry, 0, len(list.Users)), NextCursor: web.TextOrNull(list.Next)}
	for _, u := range list.Users {
		out.Users = append(out.Users, entryOf(u, settings.Flags))
	}
	if list.Exact {
		out.Total = &list.Total
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

type userListPage struct {
	account.UserPage
	query account.UserQuery
}

func (s *Service) usersOf(r *http.Request) (out userListPage, err error) {
	p, err := readPage(r)
	if err != nil {
		return out, err
	}
	if out.query, err = s.userQuery(r.URL.Query()); err != nil {
		return out, err
	}
	out.query.After, out.query.Limit = p.key, p.limit
	if out.UserPage, err = s.users.CountUsers(r.Context(), out.query); out.Next != "" {
		out.Next = web.Cursor(out.Next)
	}
	return out, err
}

// maxEnding is how many days ahead ends are looked for at most.
const maxEnding = 3_660

// userQuery reads the filters and the order of a list of users from a query.
func (s *Service) userQuery(values url.Values) (q account.UserQuery, err error) {
	if q.Query, err = readQuery(values); err != nil {
		return q, err
	}
	for name, on := range map[string]*bool{
		"suspended": &q.Suspended, "never_signed_in": &q.NeverSignedIn, "no_second_factor": &q.NoSecondFactor,
	} {
		switch v := values[name]; {
		case len(v) > 1 || len(v) == 1 && v[0] != "true" && v[0] != "false" && v[0] != "":
			return q, web.BadRequest("A filter must be true or false, and given once.")
		default:
			*on = values.Get(name) == "true"
		}
	}
	for _, name := range []string{"flag", "sort", "invited_by", "inactive", "app", "ending"} {
		if len(values[name]) > 1 {
			return q, web.BadRequest("A filter is given more than once.")
		}
	}
	if q.Flag = values.Get("flag"); q.Flag != "" && account.CheckFlag(q.Flag) != nil {
		return q, web.BadRequest("A permission is a letter a-z and up to 31 of a-z, 0-9, - and _.")
	}
	if q.App = values.Get("app"); utf8.RuneCountInString(q.App) > account.MaxClientID {
		return q, web.BadRequest("An application is named by its client ID.")
	}
	if typed := values.Get("ending"); typed != "" {
		days, _ := strconv.Atoi(strings.TrimSuffix(typed, "d")) // 0 or too many, if it is no number
		if days < 1 || days > maxEnding {
			return q, web.BadRequest("Enter a number of days, such as 30d.")
		}
		q.EndingBy = s.users.Now().AddDate(0, 0, days)
	}
	if by := values.Get("invited_by"); by != "" {
		if q.InvitedBy, err = account.CanonicalHandle(strings.TrimPrefix(strings.TrimSpace(by), "@")); err != nil {
			return q, account.ErrInvalidHandle
		}
	}
	if days := strings.TrimSpace(values.Get("inactive")); days != "" {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 3650 {
			return q, web.BadRequest("Enter a number of days from 1 to 3650.")
		}
		q.NotSince = s.users.Now().AddDate(0, 0, -n)
	}
	switch q.Sort = values.Get("sort"); q.Sort {
	case "", account.SortHandle, account.SortNewest, account.SortLastSignIn:
		return q, nil
	}
	return q, web.BadRequest("Sort users by handle, newest or last_sign_in.")
}

// addUser adds a user. The user sets a password with the code in the response.
func (s *Service) addUser(w http.ResponseWriter, r *http.Request, in struct {
	Handle      string          `json:"handle"`
	DisplayName string          `json:"display_name"`
	Email       string          `json:"email"`
	Flags       map[string]bool `json:"flags"`
}) error {
	n := account.NewUser{Handle: in.Handle, DisplayName: in.DisplayName, Email: in.Email}
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	if in.Flags != nil {
		n.Flags = []string{}
		for _, name := range slices.Sorted(maps.Keys(in.Flags)) {
			if in.Flags[name] {
				n.Flags = append(n.Flags, name)
			}
		}
	}
	u, c, err := s.users.Add(r.Context(), s.accounts.Caller(r), n)
	if err != nil {
		return err
	}
	out := struct {
		OK        bool       `json:"ok"`
		User      userEntry  `json:"user"`
		Code      *string    `json:"code"` // null, like the following members, if sent by mail
		URL       *string    `json:"url"`
		ExpiresAt *time.Time `json:"expires_at"`
	}{OK: true, User: entryOf(u, settings.Flags)}
	if c.Hash != nil {
		url := s.accounts.ResetURL(u.Handle, c)
		out.Code, out.URL, out.ExpiresAt = &c.Code, &url, &c.ExpiresAt
	}
	return web.WriteJSON(w, http.StatusCreated, out)
}

func (s *Service) showUser(w http.ResponseWriter, r *http.Request, u account.User) error {
	out, err := s.detailOf(r.Context(), u)
	return web.Answer(w, http.StatusOK, out, err)
}

// amendable reports whether administrators may change a member of another user.
func amendable(member string) bool {
	return member == "display_name" || member == "email" || member == "email_verified" ||
		member == account.AttributePrefix
}

// amendUser answers like showUser, with the changed user.
func (s *Service) amendUser(w http.ResponseWriter, r *http.Request, u account.User) error {
	change, err := site.ReadUserChange(w, r, amendable)
	if err != nil {
		return err
	}
	if u, err = s.users.Amend(r.Context(), s.accounts.Caller(r), u, change); err != nil {
		return err
	}
	return s.showUser(w, r, u)
}

func (s *Service) detailOf(ctx context.Context, u account.User) (userDetail, error) {
	settings, err := s.users.Settings(ctx)
	if err != nil {
		return userDetail{}, err
	}
	access, err := s.users.Access(ctx, u)
	if err != nil {
		return userDetail{}, err
	}
	recent, err := s.users.RecentFactors(ctx, u)
	if err != nil {
		return userDetail{}, err
	}
	did, err := s.users.RecentActs(ctx, u)
	if err != nil {
		return userDetail{}, err
	}
	return userDetail{
		Recent: recent, Did: did, userEntry: entryOf(u, settings.Flags), EmailVerified: u.EmailVerified,
		EmailPending: u.Pending.Email,
		SuspendedAt:  web.TimeOrNull(u.SuspendedAt), SuspendReason: u.SuspendReason,
		LockedUntil: web.TimeOrNull(u.Locked(s.users.Now())),
		Sessions:    entry.Sessions(access.Sessions, site.IdentityFrom(ctx).Session.ID, access.Passkeys),
		Apps:        entry.Apps(access.Apps), Attributes: u.Profile.Attributes,
	}, nil
}

func (s *Service) suspend(w http.ResponseWriter, r *http.Request, u account.User) error {
	var in struct {
		Reason string `json:"reason"`
		Tell   bool   `json:"tell_reason"` // in the mail to the user
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	return answerOK(w, s.users.Suspend(r.Context(), s.accounts.Caller(r), u, in.Reason, in.Tell))
}

// putEnd answers like showUser.
func (s *Service) putEnd(w http.ResponseWriter, r *http.Request, u account.User) error {
	var in struct {
		Ends *string `json:"ends"` // null: never
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	typed := ""
	if in.Ends != nil {
		typed = *in.Ends
	}
	ends, err := account.ParseEnd(typed, s.users.Zone(r.Context()))
	if err == nil {
		err = s.users.SetEnd(r.Context(), s.accounts.Caller(r), u, ends)
	}
	if err == nil {
		u, err = s.users.User(r.Context(), u.Handle)
	}
	if err != nil {
		return err
	}
	return s.showUser(w, r, u)
}

func (s *Service) unsuspend(w http.ResponseWriter, r *http.Request, u account.User) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	return answerOK(w, s.users.Unsuspend(r.Context(), s.accounts.Caller(r), u))
}

func (s *Service) unlock(w http.ResponseWriter, r *http.Request, u account.User) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	return answerOK(w, s.users.Unlock(r.Context(), s.accounts.Caller(r), u))
}

func (s *Service) endSessions(w http.ResponseWriter, r *http.Request, u account.User) error {
	var in struct {
		Void   []string `json:"void_given"`
		Remove []string `json:"remove_factors"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	also := account.Keep{Void: in.Void, Remove: in.Remove}
	_, err := s.users.EndSessions(r.Context(), s.accounts.Caller(r), u, also)
	return answerOK(w, err)
}

func (s *Service) resetFactors(w http.ResponseWriter, r *http.Request, u account.User) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	if err := s.users.ResetFactors(r.Context(), s.accounts.Caller(r), u); err != nil {
		return err
	}
	open, err := s.users.OpenInvites(r.Context(), u, 0, account.PageOfInvites)
	if err != nil {
		return err
	}
	out := struct {
		OK bool `json:"ok"`
		// Open has the invites that stay, newest first: a thief may have made them.
		Open []any `json:"open_invites"`
	}{OK: true, Open: make([]any, len(open))}
	for i, invite := range open {
		out.Open[i] = entry.InviteOf(invite, s.accounts.InviteURL)
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func answerOK(w http.ResponseWriter, err error) error {
	return web.Answer(w, http.StatusOK, map[string]bool{"ok": true}, err)
}

func (s *Service) endSession(w http.ResponseWriter, r *http.Request, u account.User) error {
	return web.NoContent(w, s.users.EndSession(r.Context(), s.accounts.Caller(r), u, mux.Vars(r)["id"]))
}

func (s *Service) deleteUser(w http.ResponseWriter, r *http.Request, u account.User) error {
	return web.NoContent(w, s.users.Delete(r.Context(), s.accounts.Caller(r), u))
}

func (s *Service) putFlags(w http.ResponseWriter, r *http.Request, u account.User) error {
	var in map[string]any
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	flags := make(account.FlagChange, len(in))
	for name, state := range in {
		switch state := state.(type) {
		case bool:
			flags[name] = account.FlagState{On: state}
		case string:
			ends, err := account.ParseEnd(state, s.users.Zone(r.Context()))
			if err != nil {
				return err
			}
			flags[name] = account.FlagState{On: true, SetEnd: true, EndsAt: ends}
		default:
			return web.BadRequest("A permission is true, false or its last day.")
		}
	}
	var err error
	if u.Flags, err = s.users.SetFlags(r.Context(), s.accounts.Caller(r), u, flags); err != nil {
		return err
	}
	settings, err := s.users.Settings(r.Context())
	return web.Answer(w, http.StatusOK, struct {
		OK    bool            `json:"ok"`
		Flags map[string]bool `json:"flags"`
	}{true, u.FlagMap(settings.Flags)}, err)
}

func (s *Service) issueResetCode(w http.ResponseWriter, r *http.Request, u account.User) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	c, err := s.users.IssueResetCode(r.Context(), s.accounts.Caller(r), u)
	return web.Answer(w, http.StatusCreated, struct {
		OK        bool      `json:"ok"`
		Code      string    `json:"code"`
		URL       string    `json:"url"`
		ExpiresAt time.Time `json:"expires_at"`
	}{true, c.Code, s.accounts.ResetURL(u.Handle, c), c.ExpiresAt}, err)
}

const (
	defaultPage = 50
	maxPage     = 200
	maxQuery    = 100 // runes
)

// page is the paging part of a query. key is the content of the cursor: the key of the
// previous page's last row.
type page struct {
	key   string
	limit int
}

// readQuery reads what a list is searched for.
func readQuery(values url.Values) (string, error) {
	query := strings.TrimSpace(values.Get("query"))
	if utf8.RuneCountInString(query) > maxQuery || !utf8.ValidString(query) ||
		strings.ContainsFunc(query, unicode.IsControl) {
		return "", web.BadRequest("Search for at most 100 characters, without control characters.")
	}
	return query, nil
}

// readPage reads query, cursor and limit. Unusable values are refused.
func readPage(r *http.Request) (page, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return page{}, web.BadRequest("The query string cannot be read.")
	}
	p := page{limit: defaultPage}
	for _, name := range []string{"query", "limit"} {
		if len(q[name]) > 1 {
			return page{}, web.Repeated(name)
		}
	}
	if _, err = readQuery(q); err != nil {
		return page{}, err
	}
	if l := q.Get("limit"); q.Has("limit") {
		p.limit, err = strconv.Atoi(l)
		if err != nil || p.limit < 1 || p.limit > maxPage || strconv.Itoa(p.limit) != l {
			return page{}, web.BadRequest("The limit must be a number from 1 to 200.")
		}
	}
	p.key, err = web.ReadCursor(q)
	return p, err
}
