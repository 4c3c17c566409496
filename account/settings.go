package account

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/web"
)

// How people come in.
const (
	RegistrationInvite = "invite"
	RegistrationClosed = "closed"
)

// Settings are what administrators decide for the whole installation.
type Settings struct {
	InstanceName     string   `json:"instance_name"`       // 1 to 60 runes
	Registration     string   `json:"registration"`        // "invite" or "closed"
	MaxUsers         int      `json:"max_users"`           // 0: no limit
	InvitesPerMember int      `json:"invites_per_member"`  // open or used; administrators have no limit
	MinPassword      int      `json:"min_password_length"` // runes, 8 to 64
	Flags            []string `json:"flags"`               // all known flags, admin and activity among them
	DefaultFlags     []string `json:"default_flags"`       // of a new member, never admin
	// SignOutOnFlagLoss ends the sessions of a user who loses a flag: applications that
	// verify the cookie on their own read the flags of the sign-in there.
	SignOutOnFlagLoss bool `json:"sign_out_on_flag_loss"`
	// FlagDescriptions say in a sentence what a flag is for; a flag may have none.
	FlagDescriptions map[string]string `json:"flag_descriptions"`
	// Contact is whom to ask for a reset code or about a suspension: an e-mail
	// address or a sentence; shown to everybody.
	Contact string `json:"contact"`

	// HS256Until is when tokens signed with the shared secret cease to count, once
	// there is a key; zero: when they expire. The operator alone sets it.
	HS256Until time.Time `json:"-"`
}

// DefaultSettings are those of a new installation.
func DefaultSettings() Settings {
	return Settings{
		InstanceName: "Cairn", Registration: RegistrationInvite, MaxUsers: 0, InvitesPerMember: 3, MinPassword: DefaultMinPassword,
		Flags: []string{FlagActivity, FlagAdmin}, DefaultFlags: []string{FlagActivity}, FlagDescriptions: maps.Clone(builtIn),
	}
}

// builtIn describes the flags that every installation has.
var builtIn = map[string]string{FlagActivity: "Uses the activity application.", FlagAdmin: "Administers this installation: users, flags and settings."}

// The lengths of texts in settings, in runes.
const (
	maxFlagDescription = 200
	maxContact         = 200
)

// maxFlags keeps the session token under its size limit.
const maxFlags = 32

// Check normalizes and checks settings; the error is a *Problem that names each
// member that is wrong.
func (s Settings) Check() (Settings, error) {
	var wrong []web.FieldError
	add := func(pointer, detail string) { wrong = append(wrong, web.FieldError{Pointer: pointer, Detail: detail}) }
	if n := utf8.RuneCountInString(s.InstanceName); n < 1 || n > 60 || !printable(s.InstanceName) {
		add("/instance_name", "1 to 60 characters, no control characters")
	}
	if s.Registration != RegistrationInvite && s.Registration != RegistrationClosed {
		add("/registration", `"invite" or "closed"`)
	}
	if s.MaxUsers < 0 || s.MaxUsers > 1_000_000 {
		add("/max_users", "0 (no limit) to 1,000,000")
	}
	if s.InvitesPerMember < 0 || s.InvitesPerMember > 1000 {
		add("/invites_per_member", "0 to 1,000")
	}
	if s.MinPassword < 8 || s.MinPassword > 64 {
		add("/min_password_length", "8 to 64")
	}
	s.Flags = append([]string{FlagActivity, FlagAdmin}, s.Flags...)
	slices.Sort(s.Flags)
	s.Flags = slices.Compact(s.Flags)
	for _, f := range s.Flags {
		if CheckFlag(f) != nil {
			add("/flags", "a flag is a letter a-z and up to 31 of a-z, 0-9, - and _")
			break
		}
	}
	if len(s.Flags) > maxFlags {
		add("/flags", fmt.Sprintf("at most %d flags", maxFlags))
	}
	s.DefaultFlags = slices.Clone(s.DefaultFlags)
	slices.Sort(s.DefaultFlags)
	s.DefaultFlags = slices.Compact(s.DefaultFlags)
	if s.DefaultFlags == nil {
		s.DefaultFlags = []string{}
	}
	for _, f := range s.DefaultFlags {
		if f == FlagAdmin || !slices.Contains(s.Flags, f) {
			add("/default_flags", "only flags of this installation, and never admin")
			break
		}
	}
	descriptions := maps.Clone(builtIn)
	for _, f := range slices.Sorted(maps.Keys(s.FlagDescriptions)) {
		text := s.FlagDescriptions[f]
		switch {
		case !slices.Contains(s.Flags, f):
			add("/flag_descriptions/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(cut(f, 32)), "only flags of this installation")
		case utf8.RuneCountInString(text) > maxFlagDescription || !printable(text):
			add("/flag_descriptions/"+f, fmt.Sprintf("at most %d characters, no control characters", maxFlagDescription))
		case text != "":
			descriptions[f] = text
		}
	}
	s.FlagDescriptions = descriptions
	if utf8.RuneCountInString(s.Contact) > maxContact || !printable(s.Contact) {
		add("/contact", fmt.Sprintf("at most %d characters, no control characters", maxContact))
	}
	if wrong != nil {
		return s, web.NewProblem(400, "invalid_settings", "Some settings cannot be used; see errors.", wrong...)
	}
	return s, nil
}

func (s Settings) inviteLimit(u User) int {
	if u.Has(FlagAdmin) {
		return -1
	}
	return s.InvitesPerMember
}

// settingsTTL is how long another process's change may go unseen.
const settingsTTL = 2 * time.Second

// Settings returns the settings, at most settingsTTL old while the database
// answers in time.
func (s *Service) Settings(ctx context.Context) (Settings, error) {
	v, err := s.settings.Get(ctx, "")
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return v.clone(), nil
}

// SettingsChange is a change of named settings; nil leaves one as it is. Of
// FlagDescriptions the named ones change, and an empty one goes.
type SettingsChange struct {
	InstanceName      *string            `json:"instance_name"`
	Registration      *string            `json:"registration"`
	MaxUsers          *int               `json:"max_users"`
	InvitesPerMember  *int               `json:"invites_per_member"`
	MinPassword       *int               `json:"min_password_length"`
	Flags             *[]string          `json:"flags"`
	DefaultFlags      *[]string          `json:"default_flags"`
	SignOutOnFlagLoss *bool              `json:"sign_out_on_flag_loss"`
	FlagDescriptions  *map[string]string `json:"flag_descriptions"`
	Contact           *string            `json:"contact"`
}

func (c SettingsChange) apply(v *Settings) {
	set(&v.InstanceName, c.InstanceName)
	set(&v.Registration, c.Registration)
	set(&v.MaxUsers, c.MaxUsers)
	set(&v.InvitesPerMember, c.InvitesPerMember)
	set(&v.MinPassword, c.MinPassword)
	set(&v.DefaultFlags, c.DefaultFlags)
	set(&v.SignOutOnFlagLoss, c.SignOutOnFlagLoss)
	set(&v.Contact, c.Contact)
	if c.Flags != nil {
		v.Flags = *c.Flags
		// With a flag goes its description.
		maps.DeleteFunc(v.FlagDescriptions, func(flag, _ string) bool { return builtIn[flag] == "" && !slices.Contains(v.Flags, flag) })
	}
	if c.FlagDescriptions != nil {
		if v.FlagDescriptions == nil {
			v.FlagDescriptions = map[string]string{}
		}
		maps.Copy(v.FlagDescriptions, *c.FlagDescriptions)
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// SettingsMember is a setting as the API and the command line name it.
type SettingsMember struct {
	Name, Help string
	Value      func(Settings) any // string, int, bool, []string or map[string]string
}

// SettingsMembers are all of them, in the order to show.
var SettingsMembers = []SettingsMember{
	{"instance_name", "Name of the club, on every page.", func(v Settings) any { return v.InstanceName }},
	{"registration", `"invite": people join with an invite; "closed": nobody joins.`, func(v Settings) any { return v.Registration }},
	{"max_users", "Maximum number of members; 0 for no limit.", func(v Settings) any { return v.MaxUsers }},
	{"invites_per_member", "Maximum number of invites of a member, open or used; administrators have no limit.", func(v Settings) any { return v.InvitesPerMember }},
	{"min_password_length", "Minimum length of a password, 8 to 64 characters.", func(v Settings) any { return v.MinPassword }},
	{"flags", "All access flags; activity and admin are always among them.", func(v Settings) any { return v.Flags }},
	{"default_flags", "Flags of a new member.", func(v Settings) any { return v.DefaultFlags }},
	{"flag_descriptions", "What a flag is for; an empty text removes one.", func(v Settings) any { return v.FlagDescriptions }},
	{"sign_out_on_flag_loss", "End the sessions of a member who loses a flag.", func(v Settings) any { return v.SignOutOnFlagLoss }},
	{"contact", "Whom to ask for a reset code or about a suspension; shown to everybody.", func(v Settings) any { return v.Contact }},
}

// changedMembers names what differs, for the audit row.
func changedMembers(a, b Settings) string {
	var names []string
	for _, m := range SettingsMembers {
		if !reflect.DeepEqual(m.Value(a), m.Value(b)) {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, " ")
}

// ChangeSettings checks and stores a change; what is not named in it stays, also
// when somebody else changes it at this moment. The error is a *Problem that names
// each member that is wrong.
func (a *Administration) ChangeSettings(ctx context.Context, by Actor, change SettingsChange) (Settings, error) {
	row := by.Audit(a.Now(), "settings.update", "settings", "")
	v, err := a.store.AmendSettings(ctx, func(v *Settings) (string, error) {
		before := v.clone()
		change.apply(v)
		var err error
		if *v, err = v.Check(); err != nil {
			return "", err
		}
		return changedMembers(before, *v), nil
	}, row)
	if err != nil {
		return v, fmt.Errorf("change settings: %w", err)
	}
	return v, nil
}

// ChangeSettings is that of Administration; this process sees the change at once.
func (s *Service) ChangeSettings(ctx context.Context, by Actor, change SettingsChange) (Settings, error) {
	v, err := s.Administration().ChangeSettings(ctx, by, change)
	if err != nil {
		return v, err
	}
	s.settings.Put("", v)
	return v.clone(), nil
}

func (s Settings) clone() Settings {
	s.Flags, s.DefaultFlags, s.FlagDescriptions = slices.Clone(s.Flags), slices.Clone(s.DefaultFlags), maps.Clone(s.FlagDescriptions)
	return s
}

// withContact adds to a problem that says to ask an administrator how to reach one.
func (s *Service) withContact(ctx context.Context, p *web.Problem) error {
	return p.With(p.Detail + s.contact(ctx))
}

// contact is a sentence to go on with, "" where the administrators have said nothing.
func (s *Service) contact(ctx context.Context) string {
	v, err := s.Settings(ctx)
	if err != nil || v.Contact == "" {
		return ""
	}
	return " Contact: " + v.Contact
}

// InstanceName is the name that pages show; the product's while the settings
// cannot be read.
func (s *Service) InstanceName() string {
	v, err := s.Settings(context.Background())
	if err != nil {
		return "Cairn"
	}
	return v.InstanceName
}
