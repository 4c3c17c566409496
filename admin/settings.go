package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
)

func (s *Service) showSettings(w http.ResponseWriter, r *http.Request) {
	v, err := s.office.Settings(r.Context())
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	account.WriteJSON(w, http.StatusOK, v)
}

// putSettings changes the members that the body has; the others stay.
func (s *Service) putSettings(w http.ResponseWriter, r *http.Request) {
	v, err := s.office.Settings(r.Context())
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	before := v
	in := settingsChange{}
	if err := account.ReadJSON(w, r, &in); err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	in.apply(&v)
	changed := changedMembers(before, v)
	if len(changed) > 0 {
		v, err = s.accounts.SaveSettings(r.Context(), v, account.ActorOf(r).Audit(s.office.Now(), "settings.update", "settings", strings.Join(changed, " ")))
		if err != nil {
			s.accounts.Fail(w, r, err)
			return
		}
	}
	account.WriteJSON(w, http.StatusOK, v)
}

// settingsChange has nil for what stays.
type settingsChange struct {
	InstanceName     *string   `json:"instance_name"`
	Registration     *string   `json:"registration"`
	MaxUsers         *int      `json:"max_users"`
	InvitesPerMember *int      `json:"invites_per_member"`
	MinPassword      *int      `json:"min_password_length"`
	Flags            *[]string `json:"flags"`
	DefaultFlags     *[]string `json:"default_flags"`
	SignOut          *bool     `json:"sign_out_on_flag_loss"`
}

func (c settingsChange) apply(v *account.Settings) {
	set(&v.InstanceName, c.InstanceName)
	set(&v.Registration, c.Registration)
	set(&v.MaxUsers, c.MaxUsers)
	set(&v.InvitesPerMember, c.InvitesPerMember)
	set(&v.MinPassword, c.MinPassword)
	set(&v.Flags, c.Flags)
	set(&v.DefaultFlags, c.DefaultFlags)
	set(&v.SignOutOnFlagLoss, c.SignOut)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// changedMembers names what a change touches, for the audit row.
func changedMembers(a, b account.Settings) []string {
	var names []string
	for _, m := range []struct {
		name    string
		changed bool
	}{
		{"instance_name", a.InstanceName != b.InstanceName},
		{"registration", a.Registration != b.Registration},
		{"max_users", a.MaxUsers != b.MaxUsers},
		{"invites_per_member", a.InvitesPerMember != b.InvitesPerMember},
		{"min_password_length", a.MinPassword != b.MinPassword},
		{"flags", !slices.Equal(a.Flags, b.Flags)},
		{"default_flags", !slices.Equal(a.DefaultFlags, b.DefaultFlags)},
		{"sign_out_on_flag_loss", a.SignOutOnFlagLoss != b.SignOutOnFlagLoss},
	} {
		if m.changed {
			names = append(names, m.name)
		}
	}
	return names
}
