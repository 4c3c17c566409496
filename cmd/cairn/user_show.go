package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
)

// userRow is a user as the commands print it. The claims of the profile that
// are set stand beside the other members, as in /api/me.
type userRow struct {
	Sub           string     `json:"sub"`
	Handle        string     `json:"handle"`
	DisplayName   string     `json:"display_name"`
	Email         string     `json:"email"`
	EmailVerified bool       `json:"email_verified"`
	Flags         []string   `json:"flags"` // those that are on
	Suspended     bool       `json:"suspended"`
	SuspendReason string     `json:"suspend_reason,omitempty"`
	InvitedBy     string     `json:"invited_by,omitempty"`
	CreatedAt     time.Time  `json:"created_at"`
	LastLoginAt   *time.Time `json:"last_login_at"` // null: never
	account.Profile
}

func userRowOf(u account.User) userRow {
	return userRow{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified, Flags: listed(u.Flags),
		Suspended: u.Suspended(), SuspendReason: u.SuspendReason, InvitedBy: u.InvitedBy, CreatedAt: u.CreatedAt.UTC(),
		LastLoginAt: account.TimeOrNull(u.LastLoginAt), Profile: u.Profile,
	}
}

// state is a word for the list.
func state(u account.User) string {
	if u.Suspended() {
		return "suspended"
	}
	return "active"
}

func dateOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

type listUsersCommand struct {
	databaseFlags
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print handles only."`
	Query  string `placeholder:"WORDS" help:"Only users with words that begin with these, in their handle, name or email address."`
}

// pageOfUsers is how many users are read at once.
const pageOfUsers = 500

// Run lists users in the order of their handles, or with a query in that of the words
// found, page by page.
func (c *listUsersCommand) Run(p *program) error {
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	office := account.NewAdministration(st, nil)
	out := output{c.Format, c.Quiet}.list(p.stdout, "HANDLE", "NAME", "EMAIL", "FLAGS", "STATE", "LAST SIGN-IN")
	for after := ""; ; {
		users, next, err := office.Users(p.ctx, account.UserQuery{Query: c.Query, After: after, Limit: pageOfUsers})
		if err != nil {
			return err
		}
		for _, u := range users {
			if err := out.add(u.Handle, userRowOf(u), []string{u.Handle, u.DisplayName, u.Email, strings.Join(u.Flags, " "), state(u), dateOrNever(u.LastLoginAt)}); err != nil {
				return err
			}
		}
		if next == "" {
			return out.end()
		}
		if err := out.flush(); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		after = next
	}
}

type showUserCommand struct {
	databaseFlags
	output
	Handle string `arg:"" help:"Handle of the user."`
}

// Run shows one user; hashes and codes are never among it.
func (c *showUserCommand) Run(p *program) error {
	return withUser(p, c.Database, c.Handle, func(office *account.Administration, u account.User) error {
		access, err := office.Access(p.ctx, u)
		if err != nil {
			return err
		}
		pairs := userPairs(u)
		for _, s := range access.Sessions {
			pairs = append(pairs, [2]string{"session", fmt.Sprintf("%s, %s at %s, last seen %s", s.ID, account.Device(s.UserAgent), s.Address, dateOrNever(s.LastSeenAt))})
		}
		for _, a := range access.Apps {
			pairs = append(pairs, [2]string{"application", fmt.Sprintf("%s (%s): %s", a.ClientID, a.ClientName, strings.Join(a.Scopes, " "))})
		}
		document := struct {
			userRow
			Sessions []account.SessionEntry `json:"sessions"`
			Apps     []account.AppEntry     `json:"apps"`
		}{userRowOf(u), account.SessionEntries(access.Sessions, ""), account.AppEntries(access.Apps)}
		return c.done(p, u.Sub, document, pairs)
	})
}

// userPairs are the labels and values of a user, without what is empty.
func userPairs(u account.User) [][2]string {
	email, phone := u.Email, u.Profile.PhoneNumber
	if u.EmailVerified {
		email += " (verified)"
	}
	if u.Profile.PhoneNumberVerified {
		phone += " (verified)"
	}
	suspended := ""
	if u.Suspended() {
		suspended = dateOrNever(u.SuspendedAt)
		if u.SuspendReason != "" {
			suspended += ": " + u.SuspendReason
		}
	}
	f := u.Profile
	pairs := [][2]string{
		{"handle", u.Handle}, {"sub", u.Sub}, {"name", u.DisplayName}, {"email", email}, {"flags", strings.Join(u.Flags, " ")}, {"suspended", suspended},
		{"invited by", u.InvitedBy}, {"created", dateOrNever(u.CreatedAt)}, {"last sign-in", dateOrNever(u.LastLoginAt)},
		{"given_name", f.GivenName}, {"family_name", f.FamilyName}, {"middle_name", f.MiddleName}, {"nickname", f.Nickname}, {"profile", f.Page},
		{"picture", f.Picture}, {"website", f.Website}, {"gender", f.Gender}, {"birthdate", f.Birthdate}, {"zoneinfo", f.Zoneinfo}, {"locale", f.Locale},
		{"phone_number", phone},
	}
	if a := f.Address; a != nil {
		for _, m := range [][2]string{
			{"formatted", a.Formatted}, {"street_address", a.StreetAddress}, {"locality", a.Locality}, {"region", a.Region}, {"postal_code", a.PostalCode}, {"country", a.Country},
		} {
			pairs = append(pairs, [2]string{"address." + m[0], strings.ReplaceAll(m[1], "\n", " / ")})
		}
	}
	return pairs
}
