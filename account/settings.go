package account

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Values of Settings.Registration.
const (
	registrationInvite  = "invite"
	RegistrationRequest = "request" // people may ask too: see AskToJoin
	RegistrationClosed  = "closed"
)

// Settings are the decisions of administrators for the whole installation. Those of
// settings.txt are in the API and at the command line.
type Settings struct {
	InstanceName     string   `json:"instance_name"`
	Language         string   `json:"language"`
	TimeZone         string   `json:"time_zone"`
	Registration     string   `json:"registration"`
	MaxUsers         int      `json:"max_users"`
	InvitesPerMember int      `json:"invites_per_member"`
	InviteFlags      []string `json:"invite_flags"`
	InviteMaxUses    int      `json:"invite_max_uses"`
	InviteMaxDays    int      `json:"invite_max_days"`
	MinPassword      int      `json:"min_password_length"`
	Flags            []string `json:"flags"`
	DefaultFlags     []string `json:"default_flags"`
	// Applications that verify the cookie on their own see the flags of the sign-in.
	SignOutOnFlagLoss bool              `json:"sign_out_on_flag_loss"`
	FlagDescriptions  map[string]string `json:"flag_descriptions"`
	Contact           string            `json:"contact"`
	ImprintURL        string            `json:"imprint_url"`
	PrivacyURL        string            `json:"privacy_url"`
	AccentColour      string            `json:"accent_colour"`

	// Until they have one, they can only set one up.
	SecondFactorFlags []string `json:"second_factor_flags"`
	AuditDays         int      `json:"audit_days"`

	// It asks nothing of the member: see package passkey.
	OfferPasskeys bool `json:"offer_passkeys"`

	// Administrators enter them, and applications get those that their claims name.
	Attributes []string `json:"attributes"`

	// The cookie has a bounded size: see Check.
	SessionFlags []string `json:"session_flags"`
	SessionDays  int      `json:"session_days"`

	// HS256Until is when tokens signed with the shared secret are no longer accepted, if there is a
	// key. Zero means when they expire. Only the operator sets it.
	HS256Until time.Time `json:"-"`
	// NextSteps shows administrators the steps after init, until they close the list.
	NextSteps bool `json:"-"`
	// Logo is the hash of the picture on every page, or empty for the product's own. SetLogo
	// changes it.
	Logo string `json:"-"`
	// DarkLogo is shown instead of it in the dark scheme; empty for none.
	DarkLogo string `json:"-"`
}

// SettingsMember is a setting in the API and at the command line.
type SettingsMember struct {
	Name, Help string
	Value      func(Settings) any // string, int, bool, []string or map[string]string
}

// SettingsMembers are all settings in the order of display.
var SettingsMembers = settingsMembers()

//go:embed settings.txt
var settingsHelp string // lines "name: help"

func settingsMembers() (list []SettingsMember) {
	fields := reflect.VisibleFields(reflect.TypeFor[Settings]())
	for line := range strings.Lines(settingsHelp) {
		name, help, _ := strings.Cut(strings.TrimSpace(line), ": ")
		f := fields[slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("json") == name })]
		list = append(list, SettingsMember{name, help,
			func(v Settings) any { return reflect.ValueOf(v).FieldByIndex(f.Index).Interface() }})
	}
	return list
}

// DefaultSettings returns the settings of a new installation.
func DefaultSettings() Settings {
	return Settings{
		InstanceName: "Cairn", Registration: registrationInvite, MaxUsers: 0,
		InvitesPerMember: 3, InviteFlags: []string{}, InviteMaxUses: 1, InviteMaxDays: 14,
		MinPassword: password.DefaultMinimum, Flags: []string{FlagActivity, FlagAdmin},
		DefaultFlags: []string{FlagActivity},
		FlagDescriptions: map[string]string{
			FlagActivity: activityDescription, FlagAdmin: builtIn[FlagAdmin],
		},
		SecondFactorFlags: []string{}, Attributes: []string{}, SessionFlags: []string{}, SessionDays: 30,
		AuditDays: 365, OfferPasskeys: true,
	}
}

// builtIn describes the flag that every installation has.
var builtIn = map[string]string{FlagAdmin: "Administers this installation: users, flags and settings."}

const activityDescription = "Uses the activity application."

// In returns the settings with the descriptions of flags in a language, as far as they are our own.
func (s Settings) In(l *templates.Language) Settings {
	s.FlagDescriptions = maps.Clone(s.FlagDescriptions)
	if s.FlagDescriptions[FlagActivity] == activityDescription {
		s.FlagDescriptions[FlagActivity] = l.Text("Uses the activity application.")
	}
	if s.FlagDescriptions[FlagAdmin] == builtIn[FlagAdmin] {
		s.FlagDescriptions[FlagAdmin] = l.Text("Administers this installation: people, permissions and settings.")
	}
	return s
}

// Zone returns the time zone of the settings, or the other one if they have none.
func (s Settings) Zone(other *time.Location) *time.Location {
	if zone, err := time.LoadLocation(s.TimeZone); s.TimeZone != "" && err == nil {
		return zone
	}
	return other
}

// LanguageFor returns the language (BCP 47) in which somebody is added by a request, "" if nothing says it.
func (s Settings) LanguageFor(ctx context.Context) string {
	return cmp.Or(s.Language, RequestLanguage(ctx))
}

// RequestLanguage returns the language of a request, "" for what happens without one.
func RequestLanguage(ctx context.Context) string {
	if l := templates.LanguageOf(ctx); l != nil {
		return l.Tag()
	}
	return ""
}

// Maximum lengths of texts in settings, in runes.
const (
	maxFlagDescription = 200
	maxContact         = 200
)

var colourForm = regexp.MustCompile("^#[0-9a-f]{6}$")

const (
	maxFlags = 256
	// maxCookieFlags is how many flags may all be in the session token.
	maxCookieFlags = 32
	// maxSessionCookie keeps the cookie within what browsers and proxies take, with room for others.
	maxSessionCookie = 3500
)

// sessionCookieSize returns how large a session token with these flags can become: with the longest
// handle and name, an issuer of 100 bytes and the signature of an RSA key of 4096 bits.
func sessionCookieSize(flags []string) int {
	payload := 420 + 2*100 + 30 + 240
	for _, f := range flags {
		payload += len(f) + len(`"",`)
	}
	return 110 + 4*payload/3 + 684
}

// maxAttributes limits Settings.Attributes.
const maxAttributes = 20

// Check normalizes and checks settings. The error is a *Problem that names each wrong member.
func (s Settings) Check() (Settings, error) {
	var wrong []web.FieldError
	add := func(pointer string, text templates.Text, args ...any) {
		wrong = append(wrong, web.Fault(pointer, text, args...))
	}
	if n := utf8.RuneCountInString(s.InstanceName); n < 1 || n > 60 || !text.Printable(s.InstanceName) {
		add("/instance_name", "1 to 60 characters, without control characters")
	}
	if s.Language != "" {
		if tag := templates.LanguageTag(s.Language); tag != "" {
			s.Language = tag
		} else {
			add("/language", "one of {languages}", "languages", strings.Join(templates.LanguageTags(), ", "))
		}
	}
	if _, no := text.Zoneinfo(s.TimeZone); s.TimeZone != "" && no.Text != "" {
		add("/time_zone", no.Text)
	}
	if !slices.Contains([]string{registrationInvite, RegistrationRequest, RegistrationClosed}, s.Registration) {
		add("/registration", `"invite", "request" or "closed"`)
	}
	if s.MaxUsers < 0 || s.MaxUsers > 1_000_000 {
		add("/max_users", "0 (no limit) to 1,000,000")
	}
	if s.InvitesPerMember < 0 || s.InvitesPerMember > 1000 {
		add("/invites_per_member", "0 to 1,000")
	}
	if s.InviteMaxUses < 1 || s.InviteMaxUses > MaxInviteUses {
		add("/invite_max_uses", "1 to {most}", "most", MaxInviteUses)
	}
	if s.InviteMaxDays < 1 || s.InviteMaxDays > MaxInviteDays {
		add("/invite_max_days", "1 to {most}", "most", MaxInviteDays)
	}
	if s.MinPassword < 8 || s.MinPassword > 64 {
		add("/min_password_length", "8 to 64")
	}
	if s.AuditDays != 0 && (s.AuditDays < 30 || s.AuditDays > 3650) {
		add("/audit_days", "0 (forever) or 30 to 3,650")
	}
	s.checkFlags(add)
	if s.SessionDays < 1 || s.SessionDays > 30 {
		add("/session_days", "1 to 30")
	}
	s.Attributes = sortedSet(s.Attributes)
	if len(s.Attributes) > maxAttributes ||
		slices.ContainsFunc(s.Attributes, func(n string) bool { return CheckFlag(n) != nil }) {
		add("/attributes", "at most {n} names of a letter a-z and up to 31 of a-z, 0-9, - and _", "n", maxAttributes)
	}
	s.checkDescriptions(add)
	if utf8.RuneCountInString(s.Contact) > maxContact || !text.Printable(s.Contact) {
		add("/contact", "at most {count} characters, without control characters", "count", maxContact)
	}
	for name, address := range map[string]string{"/imprint_url": s.ImprintURL, "/privacy_url": s.PrivacyURL} {
		_, no := text.WebAddress(address)
		if address != "" && (no.Text != "" || !strings.HasPrefix(address, "https://")) {
			add(name, "an https address such as https://example.org/imprint, with at most 2,000 characters")
		}
	}
	if s.AccentColour = strings.ToLower(s.AccentColour); s.AccentColour != "" &&
		!colourForm.MatchString(s.AccentColour) {
		add("/accent_colour", "# and six hexadecimal digits")
	}
	if wrong != nil {
		return s, web.NewProblem(400, "invalid_settings",
			"Some settings are invalid. The reason is next to each one.", wrong...)
	}
	return s, nil
}

// checkFlags checks the flags, and the settings that name some of them.
func (s *Settings) checkFlags(add func(pointer string, text templates.Text, args ...any)) {
	s.Flags = append([]string{FlagAdmin}, s.Flags...)
	if slices.Contains(s.DefaultFlags, FlagActivity) { // it stays until it is no default either
		s.Flags = append(s.Flags, FlagActivity)
	}
	slices.Sort(s.Flags)
	s.Flags = slices.Compact(s.Flags)
	for _, f := range s.Flags {
		if CheckFlag(f) != nil {
			add("/flags", "a permission is a letter a-z and up to 31 of a-z, 0-9, - and _")
			break
		}
	}
	if len(s.Flags) > maxFlags {
		add("/flags", "at most {count} permissions", "count", maxFlags)
	}
	for pointer, list := range map[string]*[]string{
		"/default_flags": &s.DefaultFlags, "/invite_flags": &s.InviteFlags,
	} {
		*list = sortedSet(*list)
		if slices.ContainsFunc(*list, func(f string) bool { return f == FlagAdmin || !slices.Contains(s.Flags, f) }) {
			add(pointer, "only permissions that exist here, and never admin")
		}
	}
	s.SecondFactorFlags = sortedSet(s.SecondFactorFlags)
	if slices.ContainsFunc(s.SecondFactorFlags, func(f string) bool { return !slices.Contains(s.Flags, f) }) {
		add("/second_factor_flags", "only permissions that exist here")
	}
	s.SessionFlags = sortedSet(s.SessionFlags)
	inCookie := s.SessionFlags
	if len(inCookie) == 0 {
		inCookie = s.Flags
	}
	switch {
	case slices.ContainsFunc(s.SessionFlags, func(f string) bool { return !slices.Contains(s.Flags, f) }):
		add("/session_flags", "only permissions that exist here")
	case len(s.SessionFlags) == 0 && len(s.Flags) > maxCookieFlags:
		add("/session_flags", "with more than {n} permissions, name the ones in the session cookie",
			"n", maxCookieFlags)
	case sessionCookieSize(inCookie) > maxSessionCookie:
		add("/session_flags", "the session cookie could be larger than 3,500 bytes: name fewer permissions")
	}
}

// checkDescriptions checks what is said of flags, and adds what the program says of its own.
func (s *Settings) checkDescriptions(add func(pointer string, text templates.Text, args ...any)) {
	descriptions := maps.Clone(builtIn)
	for _, f := range slices.Sorted(maps.Keys(s.FlagDescriptions)) {
		description := s.FlagDescriptions[f]
		switch {
		case !slices.Contains(s.Flags, f):
			add("/flag_descriptions"+web.Pointer(text.Cut(f, 32)), "only permissions that exist here")
		case utf8.RuneCountInString(description) > maxFlagDescription || !text.Printable(description):
			add("/flag_descriptions/"+f, "at most {count} characters, without control characters", "count",
				maxFlagDescription)
		case description != "":
			descriptions[f] = description
		}
	}
	s.FlagDescriptions = descriptions
}

// sortedSet returns a sorted copy without duplicates, which is never nil.
func sortedSet(names []string) []string {
	set := append([]string{}, names...)
	slices.Sort(set)
	return slices.Compact(set)
}

// InviteLimit returns how many open invites the user may have, -1 for any number.
func (s Settings) InviteLimit(u User) int {
	if u.Has(FlagAdmin) {
		return -1
	}
	return s.InvitesPerMember
}

// SettingsChange is a change of settings by name. A nil value changes nothing. flag_descriptions
// changes only the named flags; an empty text removes one.
type SettingsChange map[string]any

func (c SettingsChange) apply(v *Settings) error {
	before := v.Clone()
	given := maps.Clone(c)
	maps.DeleteFunc(given, func(name string, value any) bool {
		return value == nil &&
			slices.ContainsFunc(SettingsMembers, func(m SettingsMember) bool { return m.Name == name })
	})
	text, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	if err := web.DecodeJSON(text, v); err != nil {
		return err
	}
	// A removed flag loses its description.
	maps.DeleteFunc(v.FlagDescriptions, func(flag, text string) bool {
		old, had := before.FlagDescriptions[flag]
		return builtIn[flag] == "" && !slices.Contains(v.Flags, flag) && had && old == text
	})
	return nil
}

// To changes v by the rules for settings, and returns the names of what changed.
func (c SettingsChange) To(v *Settings) (changed string, err error) {
	before := v.Clone()
	if err = c.apply(v); err == nil {
		*v, err = v.Check()
	}
	return changedMembers(before, *v), err
}

// changedMembers returns the names of the settings that differ, for the audit row.
func changedMembers(a, b Settings) string {
	var names []string
	for _, m := range SettingsMembers {
		if !reflect.DeepEqual(m.Value(a), m.Value(b)) {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, " ")
}

// Clone returns a copy that shares no list.
func (s Settings) Clone() Settings {
	s.Flags, s.DefaultFlags, s.FlagDescriptions = slices.Clone(s.Flags), slices.Clone(s.DefaultFlags),
		maps.Clone(s.FlagDescriptions)
	s.SecondFactorFlags, s.InviteFlags = slices.Clone(s.SecondFactorFlags), slices.Clone(s.InviteFlags)
	s.SessionFlags, s.Attributes = slices.Clone(s.SessionFlags), slices.Clone(s.Attributes)
	return s
}

// SettingsStore keeps the installation's settings and secrets.
type SettingsStore interface {
	// Settings returns the stored settings. ErrNotInitialized before init.
	Settings(ctx context.Context) (Settings, error)
	// AmendSettings calls change with the settings, stores all but HS256Until and returns them.
	// change returns the names of what it changed, for the audit row; if it changed nothing,
	// nothing is stored. If it returns an error, nothing is stored either. change may be called
	// more than once. ErrNotInitialized.
	AmendSettings(ctx context.Context, change func(*Settings) (changed string, err error), a Audit) (Settings, error)
	// SetHS256Until stores Settings.HS256Until. ErrNotInitialized.
	SetHS256Until(ctx context.Context, until time.Time, a Audit) error
	// Logo returns the picture of the installation, whose hash is Settings.Logo, or nil.
	Logo(ctx context.Context) (png []byte, err error)
	// ClientLogo returns the logo of an application, or the picture for the dark scheme, by its hash, or nil.
	ClientLogo(ctx context.Context, hash string) (png []byte, err error)
	// SetLogo replaces the picture, or that for the dark scheme, and removes it if nil; the one for the dark
	// scheme goes with the other. ErrNotInitialized.
	SetLogo(ctx context.Context, dark bool, png []byte, hash string, a Audit) error
	// Initialize stores settings and secrets that do not exist yet and reports whether it stored
	// anything. It never changes what exists.
	Initialize(ctx context.Context, s Settings, secrets map[string][]byte) (bool, error)
}

// Names of stored secrets.
const (
	SecretJWT          = "jwt"          // shared with the activity application
	SecretInstallation = "installation" // never leaves the service; other keys are derived from it
)

// NeedsSecondFactor reports whether the user has a flag whose holders must have a second
// factor.
func (s Settings) NeedsSecondFactor(u User) bool {
	return slices.ContainsFunc(s.SecondFactorFlags, u.Has)
}
