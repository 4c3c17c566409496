package admin

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) settingsPage(w http.ResponseWriter, r *http.Request) error {
	return s.showSettingsPage(w, r, http.StatusOK, templates.AdminSettings{Answer: answerTo(r)})
}

// showSettingsPage shows the stored settings, and in the section of a refused form the typed
// values.
func (s *Service) showSettingsPage(
	w http.ResponseWriter, r *http.Request, status int, page templates.AdminSettings,
) error {
	v, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	typed := r.PostForm
	if page.Error == "" {
		typed = nil
	}
	stored := url.Values{}
	page.Shown = map[string]string{}
	text := func(name string) string {
		if typed.Has(name) {
			return typed.Get(name)
		}
		return stored.Get(name)
	}
	ticked := func(section, name, value string, stored bool) bool {
		if typed != nil && page.Section == section {
			return slices.Contains(typed[name], value)
		}
		return stored
	}
	v = v.In(templates.LanguageOf(r.Context()))
	for section, form := range sectionsOf(v) {
		page.Shown[section] = web.Shown(form)
		maps.Copy(stored, form)
	}
	page.Language, page.TimeZone = text("language"), text("time_zone")
	page.InstanceName = text("instance_name")
	page.AccentColour = text("accent_colour")
	page.Contact = text("contact")
	page.ImprintURL = text("imprint_url")
	page.PrivacyURL = text("privacy_url")
	page.Registration = text("registration")
	page.MaxUsers = text("max_users")
	page.InvitesPerMember = text("invites_per_member")
	page.InviteMaxUses = text("invite_max_uses")
	page.InviteMaxDays = text("invite_max_days")
	page.MinPassword = text("min_password_length")
	page.AuditDays = text("audit_days")
	page.SignOutOnFlagLoss = ticked("advanced", "sign_out_on_flag_loss", "true", v.SignOutOnFlagLoss)
	page.OfferPasskeys = ticked("security", "offer_passkeys", "true", v.OfferPasskeys)
	page.Attributes = text("attributes")
	page.SessionDays = text("session_days")
	page.NewFlag, page.NewDescription = text("new_flag"), text("new_description")
	page.Logo, page.DarkLogo = v.Logo != "", v.DarkLogo != ""
	for _, f := range v.Flags {
		page.Flags = append(page.Flags, templates.FlagRow{
			Name: f, Description: text("description." + f),
			BuiltIn:      f == account.FlagAdmin,
			Remove:       ticked("flags", "remove", f, false),
			Default:      ticked("flags", "default", f, slices.Contains(v.DefaultFlags, f)),
			Invite:       ticked("flags", "invite_flag", f, slices.Contains(v.InviteFlags, f)),
			SecondFactor: ticked("security", "second_factor", f, slices.Contains(v.SecondFactorFlags, f)),
			InSession:    ticked("advanced", "session_flags", f, slices.Contains(v.SessionFlags, f)),
		})
	}
	s.accounts.Show(w, r, status, page)
	return nil
}

// change returns the settings that a form changes. Members whose fields equal the stored value
// are left out, so that concurrent changes by others are kept.
type change func(v account.Settings, f url.Values) (account.SettingsChange, error)

// sectionsOf returns the fields of the forms as they are stored, by section.
func sectionsOf(v account.Settings) map[string]url.Values {
	number := func(n int) []string { return []string{strconv.Itoa(n)} }
	flags := url.Values{"default": v.DefaultFlags, "invite_flag": v.InviteFlags}
	for _, f := range v.Flags {
		flags.Set("description."+f, v.FlagDescriptions[f])
	}
	return map[string]url.Values{
		"general": {"instance_name": {v.InstanceName}, "accent_colour": {v.AccentColour}, "contact": {v.Contact},
			"language": {v.Language}, "time_zone": {v.TimeZone},
			"imprint_url": {v.ImprintURL}, "privacy_url": {v.PrivacyURL}},
		"joining": {"registration": {v.Registration}, "max_users": number(v.MaxUsers),
			"invites_per_member": number(v.InvitesPerMember), "invite_max_uses": number(v.InviteMaxUses),
			"invite_max_days": number(v.InviteMaxDays)},
		"flags": flags,
		"security": {"second_factor": v.SecondFactorFlags, "min_password_length": number(v.MinPassword),
			"session_days": number(v.SessionDays), "offer_passkeys": box(v.OfferPasskeys)},
		"advanced": {"attributes": {strings.Join(v.Attributes, " ")}, "audit_days": number(v.AuditDays),
			"session_flags": v.SessionFlags, "sign_out_on_flag_loss": box(v.SignOutOnFlagLoss)},
	}
}

// settingsForm reads the form of a section and changes the settings. If they are refused, it
// shows the page with the typed values.
func (s *Service) settingsForm(section string, of change) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := web.ReadForm(w, r, "known", "default", "invite_flag", "remove", "second_factor", "session_flags")
		if err != nil {
			return err
		}
		if err := s.users.Allow(s.accounts.Caller(r), account.UpdateSettings); err != nil {
			return err
		}
		v, err := s.users.Settings(r.Context())
		if err != nil {
			return err
		}
		v = v.In(templates.LanguageOf(r.Context()))
		web.Rebase(r.PostForm, sectionsOf(v)[section], "default", "invite_flag", "second_factor", "session_flags")
		c, err := of(v, r.PostForm)
		if err == nil {
			_, err = s.accounts.ChangeSettings(r.Context(), s.accounts.Caller(r), c)
		}
		if err == nil {
			return s.accounts.Redirect(w, r, "/admin/settings?notice="+section+"#"+section)
		}
		return s.settingsRefused(w, r, section, err)
	}
}

func (s *Service) settingsRefused(w http.ResponseWriter, r *http.Request, section string, err error) error {
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page := templates.AdminSettings{Faults: map[string]string{}}
	for field, fault := range p.ByField() {
		flag, described := strings.CutPrefix(field, "flag_descriptions.")
		switch {
		case described && r.PostForm.Has("description."+flag):
			field = "description." + flag
		case described:
			field = "new_description"
		case field == "flags":
			field = "new_flag"
		case field == "logo":
			field = section
		}
		page.Faults[field] = fault
	}
	page.Answer = templates.NewAnswer(templates.LanguageOf(r.Context()), section, p.Detail, p.Code, page.Faults)
	return s.showSettingsPage(w, r, p.Status, page)
}

// numbers adds the members whose fields must be whole numbers, if they differ from the stored values. The
// error names every wrong field of the form, those of other members too.
func numbers(v account.Settings, c account.SettingsChange, f url.Values, stored map[string]int) error {
	const text templates.Text = "Enter a whole number."
	var wrong []web.FieldError
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		n, err := strconv.Atoi(strings.TrimSpace(f.Get(name)))
		switch {
		case !f.Has(name): // unchanged
		case err != nil:
			wrong = append(wrong, web.Fault("/"+name, text))
		case n != stored[name]:
			c[name] = n
		}
	}
	if wrong == nil {
		return nil
	}
	if _, err := c.To(&v); err != nil {
		p, _ := web.ProblemOf(err)
		wrong = append(wrong, p.Errors...)
	}
	return web.NewProblem(http.StatusBadRequest, "invalid_settings", text, wrong...)
}

func generalSettings(v account.Settings, f url.Values) (account.SettingsChange, error) {
	c := account.SettingsChange{}
	return c, fieldSettings(c, v, f)
}

// fieldSettings adds the members whose fields the form has.
func fieldSettings(c account.SettingsChange, v account.Settings, f url.Values) error {
	stored := sectionsOf(v)["general"]
	stored.Set("registration", v.Registration)
	for name := range stored {
		if typed := strings.TrimSpace(f.Get(name)); f.Has(name) && typed != stored.Get(name) {
			c[name] = typed
		}
	}
	names := strings.FieldsFunc(f.Get("attributes"), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	slices.Sort(names)
	if names = slices.Compact(names); f.Has("attributes") && !slices.Equal(names, v.Attributes) {
		c["attributes"] = append([]string{}, names...)
	}
	return numbers(v, c, f, map[string]int{"max_users": v.MaxUsers, "invites_per_member": v.InvitesPerMember,
		"invite_max_uses": v.InviteMaxUses, "invite_max_days": v.InviteMaxDays,
		"min_password_length": v.MinPassword, "audit_days": v.AuditDays, "session_days": v.SessionDays})
}

// tickedFlags changes the flags of a setting, which a form has as boxes.
func tickedFlags(c account.SettingsChange, setting string, ticked, stored []string) {
	flags := append([]string{}, ticked...)
	if slices.Sort(flags); !slices.Equal(flags, stored) {
		c[setting] = flags
	}
}

func securitySettings(v account.Settings, f url.Values) (account.SettingsChange, error) {
	c := account.SettingsChange{}
	tickedFlags(c, "second_factor_flags", f["second_factor"], v.SecondFactorFlags)
	if on := f.Has("offer_passkeys"); on != v.OfferPasskeys {
		c["offer_passkeys"] = on
	}
	return c, fieldSettings(c, v, f)
}

func advancedSettings(v account.Settings, f url.Values) (account.SettingsChange, error) {
	c := account.SettingsChange{}
	tickedFlags(c, "session_flags", f["session_flags"], v.SessionFlags)
	if on := f.Has("sign_out_on_flag_loss"); on != v.SignOutOnFlagLoss {
		c["sign_out_on_flag_loss"] = on
	}
	return c, fieldSettings(c, v, f)
}

var errDemanded = web.BadRequest(
	"People who have this permission need a second factor. Change that under Security first.")

// flagSettings changes the flags that the form has shown (known) and adds a new one. A removed
// flag is removed from every list of flags; errDemanded for one that demands a second factor.
func flagSettings(v account.Settings, f url.Values) (account.SettingsChange, error) {
	c, descriptions := account.SettingsChange{}, map[string]string{}
	removed := func(flag string) bool { return slices.Contains(f["remove"], flag) }
	flags := slices.DeleteFunc(slices.Clone(v.Flags), removed)
	for _, flag := range flags {
		field := "description." + flag
		if typed := strings.TrimSpace(f.Get(field)); f.Has(field) && typed != v.FlagDescriptions[flag] {
			descriptions[flag] = typed
		}
	}
	if name := strings.TrimSpace(f.Get("new_flag")); name != "" {
		flags = append(flags, name)
		if text := strings.TrimSpace(f.Get("new_description")); text != "" {
			descriptions[name] = text
		}
	}
	if !slices.Equal(flags, v.Flags) {
		c["flags"] = flags
	}
	ticks := func(setting, field string, stored []string) {
		known := func(flag string) bool { return slices.Contains(f["known"], flag) }
		list := slices.Concat(slices.DeleteFunc(slices.Clone(stored), known), f[field])
		list = slices.DeleteFunc(list, removed)
		slices.Sort(list)
		if list = slices.Compact(list); !slices.Equal(list, stored) {
			c[setting] = list
		}
	}
	ticks("default_flags", "default", v.DefaultFlags)
	ticks("invite_flags", "invite_flag", v.InviteFlags)
	if len(descriptions) > 0 {
		c["flag_descriptions"] = descriptions
	}
	if slices.ContainsFunc(v.SecondFactorFlags, removed) { // its holders keep it, and would need none
		return c, errDemanded
	}
	if left := slices.DeleteFunc(slices.Clone(v.SessionFlags), removed); len(left) < len(v.SessionFlags) {
		c["session_flags"] = left
	}
	return c, nil
}

// carriedLogo is the form field that carries the file of logoForm through a confirmation; see
// site.Site.Form.
const carriedLogo = "logo_data"

// logoForm reads the single file of the form of "logo" or "dark-logo". The rest of the body is dropped.
func (s *Service) logoForm(section string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) (err error) {
		var picture []byte
		if web.IsForm(r) {
			picture, err = base64.RawURLEncoding.DecodeString(r.PostForm.Get(carriedLogo))
			if err != nil {
				err = account.ErrInvalidLogo
			}
		} else if picture, err = web.ReadFile(w, r, "logo", account.MaxLogo, account.ErrInvalidLogo); err == nil {
			r.PostForm = url.Values{carriedLogo: {base64.RawURLEncoding.EncodeToString(picture)}}
		}
		if err == nil {
			err = s.accounts.SetLogo(r.Context(), s.accounts.Caller(r), section == "dark-logo", picture)
		}
		if err == nil {
			return s.accounts.Redirect(w, r, "/admin/settings?notice="+section+"-saved#"+section)
		}
		return s.settingsRefused(w, r, section, err)
	}
}

func (s *Service) logoRemoveForm(section string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.ReadForm(w, r); err != nil {
			return err
		}
		err := s.accounts.SetLogo(r.Context(), s.accounts.Caller(r), section == "dark-logo", nil)
		if err != nil {
			return err
		}
		return s.accounts.Redirect(w, r, "/admin/settings?notice="+section+"-removed#"+section)
	}
}

func (s *Service) showSettings(w http.ResponseWriter, r *http.Request) error {
	v, err := s.users.Settings(r.Context())
	return web.Answer(w, http.StatusOK, v, err)
}

// putSettings changes the members in the body and keeps the others.
func (s *Service) putSettings(w http.ResponseWriter, r *http.Request, in account.SettingsChange) error {
	v, err := s.accounts.ChangeSettings(r.Context(), s.accounts.Caller(r), in)
	return web.Answer(w, http.StatusOK, v, err)
}
