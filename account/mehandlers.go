package account

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// ownUser is a user as the user sees it, in answers and in the export.
type ownUser struct {
	Sub           string          `json:"sub"`
	Handle        string          `json:"handle"`
	DisplayName   string          `json:"display_name"`
	Email         string          `json:"email"` // empty: none
	EmailVerified bool            `json:"email_verified"`
	Flags         map[string]bool `json:"flags"`
	CreatedAt     time.Time       `json:"created_at"`
	shownProfile                  // the claims that are set
}

func ownUserOf(u User, flags map[string]bool) ownUser {
	return ownUser{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		Flags: flags, CreatedAt: u.CreatedAt.UTC(), shownProfile: shown(u.Profile),
	}
}

type me struct {
	ownUser
	Session meSession `json:"session"`
}

type meSession struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Service) apiMe(w http.ResponseWriter, r *http.Request) error {
	return s.answerMe(w, r, IdentityFrom(r.Context()).User)
}

func (s *Service) apiPatchMe(w http.ResponseWriter, r *http.Request) error {
	var in map[string]jsontext.Value
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	const keepMember = "keep_other_sessions"
	keep := false
	if value, given := in[keepMember]; given && json.Unmarshal(value, &keep) != nil {
		return web.BadRequest("A member has the wrong type.",
			web.FieldError{Pointer: "/" + keepMember, Detail: "must be a boolean"})
	}
	delete(in, keepMember)
	c, err := userChange(in, ownMember)
	if err != nil {
		return err
	}
	u, err := s.ChangeProfile(r.Context(), s.Caller(r), c, keep)
	if err != nil {
		return err
	}
	return s.answerMe(w, r, u)
}

// ReadUserChange reads a request that changes the members for which may returns true. Each value is
// a string or null; an address is an object of them that replaces the previous one; a mark is true
// or false. The error is a *Problem that names everything unknown or of the wrong type.
func ReadUserChange(w http.ResponseWriter, r *http.Request, may func(member string) bool) (UserChange, error) {
	var in map[string]jsontext.Value
	if err := web.ReadJSON(w, r, &in); err != nil {
		return nil, err
	}
	return userChange(in, may)
}

func userChange(in map[string]jsontext.Value, may func(member string) bool) (UserChange, error) {
	known := slices.DeleteFunc(UserMembers(), func(name string) bool { return !may(name) })
	c, detail := UserChange{}, templates.Text("A member has the wrong type.")
	var faults []web.FieldError
	read := func(name string, value jsontext.Value) {
		var member *string
		isMark := strings.HasSuffix(name, "_verified")
		fault := templates.Text("")
		switch {
		case !slices.Contains(known, name):
			fault, detail = "not known", "The body has a member that is not known here."
		case isMark && value.Kind() != 't' && value.Kind() != 'f':
			fault = "must be a boolean"
		case isMark:
			c[name] = value.String()
		case json.Unmarshal(value, &member) != nil:
			fault = "must be a string"
		case member == nil:
			c[name] = ""
		default:
			c[name] = *member
		}
		if fault != "" {
			faults = append(faults, web.FieldError{Pointer: pointerTo(text.Cut(name, 64)), Detail: fault})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if strings.Contains(name, ".") { // set with the address itself
			detail = "The body has a member that is not known here."
			faults = append(faults, web.FieldError{Pointer: "/" + text.Cut(name, 64), Detail: "not known"})
			continue
		}
		if name != "address" || !slices.Contains(known, "address.country") {
			read(name, in[name])
			continue
		}
		var members map[string]jsontext.Value
		if json.Unmarshal(in[name], &members) != nil {
			faults = append(faults, web.FieldError{Pointer: "/address", Detail: "must be an object"})
			continue
		}
		for _, member := range known {
			if strings.HasPrefix(member, "address.") {
				c[member] = ""
			}
		}
		for _, member := range slices.Sorted(maps.Keys(members)) {
			read("address."+member, members[member])
		}
	}
	if faults != nil {
		return nil, web.BadRequest(detail, faults...)
	}
	return c, nil
}

func (s *Service) answerMe(w http.ResponseWriter, r *http.Request, u User) error {
	flags, err := s.flagsOf(r.Context(), u)
	if err != nil {
		return err
	}
	row := IdentityFrom(r.Context()).Session
	return web.WriteJSON(w, http.StatusOK, me{
		ownUserOf(u, flags),
		meSession{ID: row.ID, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()},
	})
}

func (s *Service) apiPutPassword(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	out, err := s.ChangePassword(r.Context(), s.Caller(r), in.Current, in.New)
	if p, _ := web.ProblemOf(err); errors.Is(err, ErrWeakPassword) {
		p.Errors[0].Pointer = "/new_password"
		return p
	}
	if err != nil {
		return err
	}
	s.setCookies(w, out)
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Service) passwordForm(w http.ResponseWriter, r *http.Request) error {
	out, err := s.ChangePassword(r.Context(), s.Caller(r), r.PostForm.Get("current_password"),
		r.PostForm.Get("new_password"))
	s.setCookies(w, out)
	return err
}

func (s *Service) apiDeleteMe(w http.ResponseWriter, r *http.Request) error {
	var in Confirmation
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.DeleteAccount(r.Context(), s.Caller(r), in); err != nil {
		return err
	}
	s.clearCookies(w)
	return web.NoContent(w)
}

func (s *Service) deleteForm(_ http.ResponseWriter, r *http.Request) error {
	return s.DeleteAccount(r.Context(), s.Caller(r), Confirmation{Password: r.PostForm.Get("password")})
}

// Limits of the preferences of one user: number of keys, and bytes.
const (
	maxPreferences     = 100
	maxPreferenceKey   = 64
	maxPreferenceValue = 4096
)

func (s *Service) apiPreferences(w http.ResponseWriter, r *http.Request) error {
	prefs, err := s.store.Preferences(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, prefs)
}

// apiPutPreferences merges preferences: a string sets one, null deletes it. One wrong member
// refuses the whole body.
func (s *Service) apiPutPreferences(w http.ResponseWriter, r *http.Request) error {
	var in map[string]any
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	change := make(map[string]*string, len(in))
	for k, v := range in {
		typed, isText := v.(string)
		pointer, detail := web.Pointer(k), templates.Text("")
		switch {
		case k == "" || len(k) > maxPreferenceKey || !text.Printable(k):
			pointer, detail = "", "a key has 1 to 64 bytes and no control characters"
		case v != nil && !isText:
			detail = "must be a string, or null to delete it"
		case len(typed) > maxPreferenceValue:
			detail = "a value has at most 4,096 bytes"
		}
		if detail != "" {
			return ErrInvalidPreference.For(web.FieldError{Pointer: pointer, Detail: detail})
		}
		if change[k] = nil; v != nil {
			change[k] = &typed
		}
	}
	prefs, err := s.store.MergePreferences(r.Context(), IdentityFrom(r.Context()).User.Sub, change, maxPreferences)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, prefs)
}

func (s *Service) apiApps(w http.ResponseWriter, r *http.Request) error {
	list, err := s.store.Apps(r.Context(), IdentityFrom(r.Context()).User.Sub, s.now())
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]AppEntry{"apps": AppEntries(list)})
}

func (s *Service) removeApp(_ http.ResponseWriter, r *http.Request) error {
	return s.RemoveApp(r.Context(), s.Caller(r), parameter(r, "client_id"))
}

// export sends a file, both for the API and for the form of a page.
func (s *Service) export(w http.ResponseWriter, r *http.Request) error {
	out, err := s.Export(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	if err = web.StreamJSON(w, s.clock, out); err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

func (s *Service) sendVerification(_ http.ResponseWriter, r *http.Request) error {
	return s.SendVerification(r.Context(), s.Caller(r))
}

func (s *Service) apiVerifyEmail(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Code string `json:"code"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.VerifyByCode(r.Context(), s.Caller(r), in.Code); err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Service) verifyForm(_ http.ResponseWriter, r *http.Request) error {
	return s.VerifyByCode(r.Context(), s.Caller(r), r.PostForm.Get("code"))
}

const (
	sessionPage    = 50 // sessions a page of the API
	latestSessions = 20 // sessions that pages show at first
)

// ShownSessions returns the sessions that a page shows: the latest, or as many as possible if the
// query asks for all. more reports whether there are others.
func ShownSessions(r *http.Request, list []Session) (shown []Session, more bool) {
	if len(list) <= latestSessions || r.URL.Query().Get("sessions") == "all" {
		return list, false
	}
	return list[:latestSessions], true
}

// pageOf returns the page of a list that the request asks for, and the cursor of the next one: the
// sessions older than that of the cursor, which may have ended since.
func pageOf(r *http.Request, list []Session) (page []Session, next *string, err error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil, ErrInvalidCursor
	}
	key, err := web.ReadCursor(q)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		at, id, _ := strings.Cut(key, ".")
		seconds, err := strconv.ParseInt(at, 10, 64)
		after := Session{ID: id, CreatedAt: time.Unix(seconds, 0)}
		if err != nil || !isSessionID(id) || after.cursor() != q.Get("cursor") {
			return nil, nil, ErrInvalidCursor
		}
		list = slices.DeleteFunc(list, func(s Session) bool {
			return cmp.Or(s.CreatedAt.Compare(after.CreatedAt), cmp.Compare(s.ID, id)) >= 0
		})
	}
	if len(list) <= sessionPage {
		return list, nil, nil
	}
	cursor := list[sessionPage-1].cursor()
	return list[:sessionPage], &cursor, nil
}

type sessionList struct {
	Sessions   []SessionEntry `json:"sessions"`
	NextCursor *string        `json:"next_cursor"` // null: the last page
}

func (s *Service) apiSessions(w http.ResponseWriter, r *http.Request) error {
	id := IdentityFrom(r.Context())
	list, err := s.store.Sessions(r.Context(), id.User.Sub, s.now())
	if err != nil {
		return err
	}
	page, next, err := pageOf(r, list)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK,
		sessionList{Sessions: SessionEntries(page, id.Session.ID), NextCursor: next})
}

// endOwnSession ends a session of the signed-in user, which may be the current one.
func (s *Service) endOwnSession(w http.ResponseWriter, r *http.Request) error {
	c, id := s.Caller(r), parameter(r, "id")
	err := s.EndSession(r.Context(), c, id)
	if err == nil && id == c.Session.ID {
		s.clearCookies(w)
	}
	return err
}

func (s *Service) endOtherSessions(_ http.ResponseWriter, r *http.Request) error {
	return s.EndOtherSessions(r.Context(), s.Caller(r))
}
