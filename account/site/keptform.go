package site

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
	"github.com/go-json-experiment/json"
)

// keptForm is a form that was sent in a session that had ended. It travels through the pages of the sign-in in a
// hidden field, encrypted, because others may see these pages. Nothing is stored.
type keptForm struct {
	Sub     string                `json:"s,omitempty"` // whose session it was
	Mark    string                `json:"m,omitempty"` // of the browser's last sign-in, if the cookie has expired
	Browser []byte                `json:"b"`           // hash of the cookie that only this browser has
	Action  string                `json:"a"`
	Fields  []templates.FormField `json:"f"`
}

const (
	keptField  = "kept"
	formCookie = "cairn_form"
)

// secretFields are never kept: passwords, codes, answers of passkeys, sealed values and files. Neither are the answer
// to a question, which is asked again, and the way back from a confirmation.
var secretFields = []string{"password", "current_password", "new_password", "otp", "code", "token", "state", "credential",
	"logo_data", sureField, "next"}

// signInFirst leads from a page to the sign-in page and back, with the query q. A form is kept, if a cookie of
// the browser tells whose session it was: that of the session, or, where the browser has removed it at its end,
// that of known devices. Other sites cannot send a form: the middleware refuses it, and browsers send it without
// these cookies.
func (s *Site) signInFirst(w http.ResponseWriter, r *http.Request, q url.Values) error {
	if r.Method != http.MethodPost || !web.IsForm(r) || !s.WantsPage(r) || web.ParseForm(w, r, web.MaxBody) != nil ||
		!withoutSecrets(r.PostForm) {
		return s.Redirect(w, r, "/login/"+s.wayTo(r, q))
	}
	kept, err := s.formOfLastMember(r)
	if errors.Is(err, account.ErrNotAuthenticated) {
		return s.Redirect(w, r, "/login/"+s.wayTo(r, q))
	}
	if err != nil {
		return err
	}
	page, _, err := s.describeLogin(w, r, q)
	if err != nil {
		return err
	}
	carried := s.carry(r)
	kept.Browser, kept.Action, kept.Fields = account.HashSecret(s.giveFormCookie(w, r)), carried.Action, carried.Fields
	if page.Kept, err = s.Sealer().Hide(account.PurposeForm, kept); err != nil {
		return err
	}
	if page.TooLong = len(page.Kept) > web.MaxSealed; page.TooLong {
		page.Kept = ""
	}
	web.NoteDefault(r.Context(), account.ErrNotAuthenticated.Code)
	return s.showLogin(w, r, account.ErrNotAuthenticated.Status, page)
}

// formOfLastMember returns a kept form of the member whose session was the last one of the browser.
// ErrNotAuthenticated if no cookie tells whose that was, or the member is suspended.
func (s *Site) formOfLastMember(r *http.Request) (k keptForm, err error) {
	c := s.Caller(r)
	id, err := s.LastSession(r.Context(), c.Browser)
	switch {
	case err == nil && !id.User.Suspended():
		return keptForm{Sub: id.User.Sub}, nil
	case err != nil && !errors.Is(err, account.ErrNotAuthenticated):
		return k, err
	}
	if k.Mark = s.ExpiredMark(c.Browser); k.Mark == "" {
		return k, account.ErrNotAuthenticated
	}
	return k, nil
}

// withoutSecrets removes from a form what is not kept, and what the person left as it was. It reports whether
// anything remains.
func withoutSecrets(f url.Values) bool {
	var shown map[string]string
	if json.Unmarshal([]byte(f.Get(shownField)), &shown) == nil {
		for name, before := range shown {
			if sameLines(f.Get(name), before) {
				f.Del(name)
			}
		}
	}
	f.Del(shownField)
	for name := range f {
		if slices.Contains(secretFields, name) || strings.HasPrefix(name, confirmPrefix) {
			f.Del(name)
		}
	}
	return len(f) > 0
}

// giveFormCookie returns the secret that binds kept forms to the browser. Several tabs share it.
func (s *Site) giveFormCookie(w http.ResponseWriter, r *http.Request) string {
	secret := rand.Text()
	if has, err := r.Cookie(s.hostOnly(formCookie)); err == nil && len(has.Value) == len(secret) {
		secret = has.Value
	}
	c := s.cookie(s.hostOnly(formCookie), secret, "")
	c.SameSite = http.SameSiteStrictMode
	http.SetCookie(w, c)
	return secret
}

// kept returns the hidden value and the form in it that a page of the sign-in sent, if it was kept in this browser.
func (s *Site) kept(r *http.Request) (hidden string, k keptForm) {
	c, err := r.Cookie(s.hostOnly(formCookie))
	if hidden = r.PostForm.Get(keptField); err != nil || hidden == "" ||
		s.Sealer().OpenHidden(account.PurposeForm, hidden, &k) != nil ||
		subtle.ConstantTimeCompare(k.Browser, account.HashSecret(c.Value)) != 1 {
		return "", keptForm{}
	}
	return hidden, k
}

// keptFor is kept for a form of the member. There is none of another one.
func (s *Site) keptFor(r *http.Request, u account.User) (hidden string, k keptForm) {
	if hidden, k = s.kept(r); k.Sub == u.Sub || s.HasMark(account.Browser{Marks: account.ReadMarks(k.Mark)}, u) {
		return hidden, k
	}
	return "", keptForm{}
}

// showKept shows the kept form to its member, who sends it with a button, and reports whether there is one. A form
// of another member is dropped.
func (s *Site) showKept(w http.ResponseWriter, r *http.Request, u account.User) bool {
	hidden, k := s.keptFor(r, u)
	if hidden != "" {
		s.Show(w, r, http.StatusOK, templates.Confirm{Action: k.Action, Fields: k.Fields, Kept: true, Handle: u.Handle})
	}
	return hidden != ""
}
