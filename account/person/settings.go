package person

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// settingsTTL is how long a change by another process may stay unseen.
const settingsTTL = 2 * time.Second

// Settings returns the settings, at most settingsTTL old if the database answers in time.
func (s *Service) Settings(ctx context.Context) (account.Settings, error) {
	v, err := s.sharedSettings(ctx)
	return v.Clone(), err
}

// sharedSettings is Settings without a copy: callers must not change its lists.
func (s *Service) sharedSettings(ctx context.Context) (account.Settings, error) {
	v, err := s.settings.Get(ctx, "")
	if err != nil {
		return account.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return v, nil
}

// ChangeSettings is Base.ChangeSettings. This process sees the change at once.
func (s *Service) ChangeSettings(
	ctx context.Context, by account.Caller, change account.SettingsChange,
) (account.Settings, error) {
	v, err := s.Base.ChangeSettings(ctx, by, change)
	if err != nil {
		return v, err
	}
	s.settings.Put("", v)
	return v.Clone(), nil
}

// FlagsOf returns for each flag of the community whether the user has it.
func (s *Service) FlagsOf(ctx context.Context, u account.User) (map[string]bool, error) {
	settings, err := s.Settings(ctx)
	return u.FlagMap(settings.Flags), err
}

// WithContact returns p with a text that contains {contact}, the way to reach an administrator, if
// the settings have one.
func (s *Service) WithContact(ctx context.Context, p *web.Problem, text templates.Text) *web.Problem {
	v, err := s.Settings(ctx)
	if err != nil || v.Contact == "" {
		return p
	}
	return p.With(text, "contact", v.Contact)
}

// InstanceName returns the name that pages show, or the product's if the settings cannot be read.
func (s *Service) InstanceName() string {
	v, err := s.Settings(context.Background())
	if err != nil {
		return "Cairn"
	}
	return v.InstanceName
}

// Look returns the accent colour, the logo and the links of the pages, or the product's if the
// settings cannot be read.
func (s *Service) Look() templates.Look {
	v, _ := s.Settings(context.Background())
	return templates.Look{Accent: v.AccentColour, Logo: v.Logo, DarkLogo: v.DarkLogo,
		Imprint: v.ImprintURL, Privacy: v.PrivacyURL, Zone: v.TimeZone}
}

// SetLogo replaces the picture on every page, or that for the dark scheme; nil removes it.
func (s *Service) SetLogo(ctx context.Context, by account.Caller, dark bool, file []byte) error {
	row, err := s.Begin(ctx, by, account.SetLogo, account.User{Handle: "settings"}, "removed")
	if err != nil {
		return err
	}
	var logo account.Picture
	if file != nil {
		if logo, err = account.NewPicture(file); err != nil {
			return err
		}
		row.Detail = "replaced"
	}
	err = s.Store().SetLogo(ctx, dark, logo.PNG, logo.Hash, row)
	if err == nil {
		s.settings.Drop("")
	}
	return web.Noted(ctx, "logo_changed", err)
}
