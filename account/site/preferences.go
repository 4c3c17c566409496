package site

import (
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiPreferences(w http.ResponseWriter, r *http.Request) error {
	prefs, err := s.Store().Preferences(r.Context(), IdentityFrom(r.Context()).User.Sub)
	return web.Answer(w, http.StatusOK, prefs, err)
}

// apiPutPreferences merges preferences: a string sets one, null deletes it. One wrong member
// refuses the whole body.
func (s *Site) apiPutPreferences(w http.ResponseWriter, r *http.Request, in map[string]any) error {
	change := make(map[string]*string, len(in))
	for k, v := range in {
		typed, isText := v.(string)
		pointer, detail := web.Pointer(k), templates.Text("")
		switch {
		case k == "" || len(k) > account.MaxPreferenceKey || !text.Printable(k):
			pointer, detail = "", "a key must have 1 to 64 bytes and no control characters"
		case v != nil && !isText:
			detail = "must be a string, or null to delete"
		case len(typed) > account.MaxPreferenceValue:
			detail = "a value can have at most 4,096 bytes"
		}
		if detail != "" {
			return account.ErrInvalidPreference.For(web.FieldError{Pointer: pointer, Detail: detail})
		}
		if change[k] = nil; v != nil {
			change[k] = &typed
		}
	}
	c := s.Caller(r)
	row := c.Audit(s.Now(), account.ChangeProfile, c.Name, "")
	prefs, err := s.Store().MergePreferences(r.Context(), c.User.Sub, change, account.MaxPreferences, row)
	return web.Answer(w, http.StatusOK, prefs, err)
}
