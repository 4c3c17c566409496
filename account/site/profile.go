package site

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type me struct {
	entry.User
	Session meSession `json:"session"`
}

type meSession struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Site) apiMe(w http.ResponseWriter, r *http.Request) error {
	return s.answerMe(w, r, IdentityFrom(r.Context()).User)
}

func (s *Site) apiPatchMe(w http.ResponseWriter, r *http.Request, in map[string]jsontext.Value) error {
	var keep account.Keep
	for _, member := range []struct {
		name string
		into any
		kind templates.Text
	}{{"keep_other_sessions", &keep.Sessions, "must be a boolean"}, {"keep_apps", &keep.Apps, "must be an array"},
		{"void_given", &keep.Void, "must be an array"}, {"remove_factors", &keep.Remove, "must be an array"}} {
		if value, given := in[member.name]; given && json.Unmarshal(value, member.into) != nil {
			return web.BadRequest("A member has the wrong type.",
				web.FieldError{Pointer: "/" + member.name, Detail: member.kind})
		}
		delete(in, member.name)
	}
	c, err := userChange(in, account.OwnMember)
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
// a string or null; an address is an object of them that replaces the previous one; attributes are an
// object of those that change; a mark is true or false. The error is a *Problem that names everything unknown or of the
// wrong type.
func ReadUserChange(w http.ResponseWriter, r *http.Request, may func(member string) bool) (account.UserChange, error) {
	var in map[string]jsontext.Value
	if err := web.ReadJSON(w, r, &in); err != nil {
		return nil, err
	}
	return userChange(in, may)
}

func userChange(in map[string]jsontext.Value, may func(member string) bool) (account.UserChange, error) {
	known := slices.DeleteFunc(account.UserMembers(), func(name string) bool { return !may(name) })
	c, detail := account.UserChange{}, templates.Text("A member has the wrong type.")
	var faults []web.FieldError
	read := func(name string, value jsontext.Value) {
		var member *string
		isMark := strings.HasSuffix(name, "_verified")
		fault := templates.Text("")
		switch {
		case !slices.Contains(known, name) && !strings.HasPrefix(name, account.AttributePrefix):
			fault, detail = "unknown", "The body contains an unknown member."
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
			faults = append(faults, web.FieldError{Pointer: account.PointerTo(text.Cut(name, 64)), Detail: fault})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if strings.Contains(name, ".") { // set with the address itself
			detail = "The body contains an unknown member."
			faults = append(faults, web.FieldError{Pointer: "/" + text.Cut(name, 64), Detail: "unknown"})
			continue
		}
		if name == "attributes" && may(account.AttributePrefix) {
			var attributes map[string]jsontext.Value
			if json.Unmarshal(in[name], &attributes) != nil {
				faults = append(faults, web.FieldError{Pointer: "/attributes", Detail: "must be an object"})
			}
			for _, attribute := range slices.Sorted(maps.Keys(attributes)) {
				read(account.AttributePrefix+attribute, attributes[attribute])
			}
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

func (s *Site) answerMe(w http.ResponseWriter, r *http.Request, u account.User) error {
	flags, err := s.FlagsOf(r.Context(), u)
	if err != nil {
		return err
	}
	row := IdentityFrom(r.Context()).Session
	return web.WriteJSON(w, http.StatusOK, me{
		entry.UserOf(u, flags),
		meSession{ID: row.ID, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()},
	})
}

func (s *Site) profilePage(r *http.Request, m templates.Member) (templates.Page, error) {
	return s.describeProfile(r, m)
}

func (s *Site) describeProfile(r *http.Request, m templates.Member) (page templates.AccountProfile, err error) {
	u := IdentityFrom(r.Context()).User
	stored := profileOf(u)
	page = templates.AccountProfile{Member: m, Picture: s.PhotoOf(u), EmailVerified: u.EmailVerified,
		Values: map[string]string{}, Shown: web.Shown(stored)}
	for name := range stored {
		page.Values[name] = stored.Get(name)
	}
	if page.Waits = u.Pending.Email != ""; page.Waits || s.MailEnabled() {
		page.Verify, page.VerifyCode = u.Unproven(), s.Verifiable(u)
	}
	if page.Shared, err = s.Shares(r.Context(), u); page.Shared || err != nil {
		page.Verify = ""
		return page, err
	}
	page.Ends, err = s.endsWithOthers(r, true)
	return page, err
}

// profileOf returns the fields of the form as they are stored.
func profileOf(u account.User) url.Values {
	stored := url.Values{}
	for _, name := range account.UserMembers() {
		if account.OwnMember(name) {
			stored.Set(name, u.Profile.Text(name))
		}
	}
	stored.Set("display_name", u.DisplayName)
	stored.Set("email", u.Email)
	return stored
}

// refusedProfile returns the page with what was typed.
func (s *Site) refusedProfile(r *http.Request, m templates.Member) (templates.AccountProfile, error) {
	page, err := s.describeProfile(r, m)
	for name := range page.Values {
		if r.PostForm.Has(name) {
			page.Values[name] = text.CutLines(r.PostForm.Get(name))
		}
	}
	return page, err
}

// profileForm saves the fields that were changed in the form. What another tab has saved meanwhile stays. A form that
// does not say what was shown saves every field.
func (s *Site) profileForm(_ http.ResponseWriter, r *http.Request) error {
	c := account.UserChange{}
	if b := r.PostForm.Get("birthdate"); r.PostForm.Has("birthdate_no_year") && len(b) == len("1990-03-31") {
		r.PostForm.Set("birthdate", "0000"+b[4:])
	}
	stored := profileOf(IdentityFrom(r.Context()).User)
	shown := web.Rebase(r.PostForm, stored)
	for _, name := range account.UserMembers() {
		value := r.PostForm.Get(name)
		if account.OwnMember(name) && r.PostForm.Has(name) && (shown == nil || value != stored.Get(name)) {
			c[name] = value
		}
	}
	_, err := s.ChangeProfile(r.Context(), s.Caller(r), c, kept(r))
	return err
}
