package account

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/web"
)

// Bounds of the preferences of one user: numbers of keys and of bytes.
const (
	maxPreferences     = 100
	maxPreferenceKey   = 64
	maxPreferenceValue = 4096
)

func (s *Service) apiPreferences(w http.ResponseWriter, r *http.Request) {
	prefs, err := s.store.Preferences(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		s.Fail(w, r, fmt.Errorf("read preferences: %w", err))
		return
	}
	web.WriteJSON(w, http.StatusOK, prefs)
}

func (s *Service) apiPutPreferences(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.Fail(w, r, err)
		return
	}
	change, err := checkPreferences(in)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	prefs, err := s.store.MergePreferences(r.Context(), IdentityFrom(r.Context()).User.Sub, change, maxPreferences)
	if err != nil {
		s.Fail(w, r, fmt.Errorf("merge preferences: %w", err))
		return
	}
	web.WriteJSON(w, http.StatusOK, prefs)
}

// checkPreferences turns the body into a change: text sets, null deletes. The
// whole body is refused when one member is.
func checkPreferences(in map[string]any) (map[string]*string, error) {
	change := make(map[string]*string, len(in))
	for k, v := range in {
		text, isText := v.(string)
		detail := ""
		switch {
		case k == "" || len(k) > maxPreferenceKey || !printable(k):
			detail = "a key has 1 to 64 bytes and no control characters"
		case v != nil && !isText:
			detail = "must be a string, or null to delete it"
		case len(text) > maxPreferenceValue:
			detail = "a value has at most 4,096 bytes"
		}
		if detail != "" {
			p, _ := web.ProblemOf(ErrInvalidPreference)
			p.Errors = []web.FieldError{{Pointer: preferencePointer(k), Detail: detail}}
			return nil, p
		}
		if v == nil {
			change[k] = nil
			continue
		}
		change[k] = &text
	}
	return change, nil
}

// preferencePointer is the JSON pointer (RFC 6901) to a member of the body; names that
// could disturb a log or are too long to be worth repeating give the whole body.
func preferencePointer(name string) string {
	if !utf8.ValidString(name) || !printable(name) || len(name) > maxPreferenceKey {
		return ""
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
