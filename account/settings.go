package account

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
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

	// HS256Until is when tokens signed with the shared secret cease to count, once
	// there is a key; zero: when they expire. The operator alone sets it.
	HS256Until time.Time `json:"-"`
}

// DefaultSettings are those of a new installation.
func DefaultSettings() Settings {
	return Settings{
		InstanceName: "Cairn", Registration: RegistrationInvite, MaxUsers: 0, InvitesPerMember: 3, MinPassword: DefaultMinPassword,
		Flags: []string{FlagActivity, FlagAdmin}, DefaultFlags: []string{FlagActivity},
	}
}

// maxFlags keeps the session token under its size limit.
const maxFlags = 32

// Check normalizes and checks settings; the error is a *Problem that names each
// member that is wrong.
func (s Settings) Check() (Settings, error) {
	var wrong []FieldError
	add := func(pointer, detail string) { wrong = append(wrong, FieldError{pointer, detail}) }
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
	if wrong != nil {
		return s, NewProblem(400, "invalid_settings", "Some settings cannot be used; see errors.", wrong...)
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

type settingsCache struct {
	mu      sync.Mutex
	value   Settings
	loaded  bool // value has been read once
	loading bool // somebody reads it anew; the others go on with the old one
	saves   int  // counts changes by this process: what was read before one is old
	until   time.Time
}

// Settings returns the settings, at most settingsTTL old while the database
// answers in time. Nobody waits for another one's query.
func (s *Service) Settings(ctx context.Context) (Settings, error) {
	c, now := &s.settings, s.clock()
	c.mu.Lock()
	if c.loaded && (c.loading || now.Before(c.until)) {
		defer c.mu.Unlock()
		return c.value.clone(), nil
	}
	c.loading = true
	saves := c.saves
	c.mu.Unlock()
	v, err := s.store.Settings(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loading = false
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	if c.saves == saves {
		c.value, c.loaded, c.until = v, true, now.Add(settingsTTL)
	}
	return c.value.clone(), nil
}

// SaveSettings checks and stores settings.
func (s *Service) SaveSettings(ctx context.Context, v Settings, a Audit) (Settings, error) {
	v, err := v.Check()
	if err != nil {
		return v, err
	}
	if err := s.store.SaveSettings(ctx, v, a); err != nil {
		return v, fmt.Errorf("save settings: %w", err)
	}
	now := s.clock()
	s.settings.mu.Lock()
	// This process sees its own change at once, also while another request reads.
	s.settings.saves++
	s.settings.value, s.settings.loaded, s.settings.until = v, true, now.Add(settingsTTL)
	s.settings.mu.Unlock()
	return v, nil
}

func (s Settings) clone() Settings {
	s.Flags, s.DefaultFlags = slices.Clone(s.Flags), slices.Clone(s.DefaultFlags)
	return s
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
