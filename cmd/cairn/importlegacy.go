package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/store"
)

type importLegacyCommand struct {
	databaseFlags
	cli.Output
	importFlags
	File string `arg:"" help:"SQLite file of the older service. It is not changed."`
}

// Help implements kong.HelpProvider.
func (importLegacyCommand) Help() string {
	return `Users are imported with their password hashes, which are replaced by this service's own at the next
sign-in. The report lists what was imported and what was not; --dry-run prints it without importing. One transaction
imports everything or nothing.`
}

// legacy is the content of the older service's database in the form of this one.
type legacy struct {
	rows     []roster.ImportRow
	invites  []account.Invite
	settings account.SettingsChange
	notes    cli.Pairs
}

// Run imports the users, preferences, settings and invites that have a counterpart here.
func (c *importLegacyCommand) Run(p *cli.Program) error {
	tables, others, err := store.ReadLegacy(p.Ctx, c.File, "users", "invites", "settings", "user_prefs")
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	columns := tables["users"].Columns
	if !slices.Contains(columns, "handle") || !slices.Contains(columns, "password_hash") {
		return fmt.Errorf("%s: there is no table users with handle and password_hash: "+
			"this is not a database of the older service", c.File)
	}
	return c.withUsers(p, func(users *roster.Administration) error {
		settings, err := users.Settings(p.Ctx)
		if err != nil {
			return err
		}
		var l legacy
		if err := l.takeUsers(tables["users"], tables["user_prefs"], settings); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
		l.takeSettings(tables["settings"], settings)
		l.takeInvites(tables["invites"], users.Now())
		l.note("tables left", strings.Join(others, " "))
		checked, err := c.check(p, users, l.rows)
		if err != nil {
			return err
		}
		with := account.Bulk{Invites: l.invites}
		if len(l.settings) > 0 {
			with.Settings = l.settings.To
		}
		return c.store(p, c.Output, users, checked, with, l.notes)
	})
}

func (l *legacy) note(what, text string) {
	if text != "" {
		l.notes = append(l.notes, [2]string{what, text})
	}
}

// first returns the value of the first of the columns that a row has.
func first(row map[string]string, columns ...string) string {
	for _, c := range columns {
		if v, ok := row[c]; ok {
			return v
		}
	}
	return ""
}

// isSet reports whether a column holds yes, a time or a name.
func isSet(value string) bool { return value != "" && value != "0" && value != "false" }

func (l *legacy) takeUsers(users, prefs store.LegacyTable, settings account.Settings) error {
	imported := []string{"handle", "display_name", "email", "password_hash", "is_admin", "created_at"}
	byKey := map[string]int{} // row by handle and by id
	for i, from := range users.Rows {
		row := roster.ImportRow{Row: i + 1, Preferences: map[string]string{}, Members: map[string]string{}}
		for _, name := range imported {
			if value := from[name]; name != "is_admin" {
				row.Members[name] = value
			}
		}
		flags := slices.Clone(settings.DefaultFlags)
		switch value, given := from["is_admin"]; {
		case value == "1" || value == "true":
			flags = append(flags, account.FlagAdmin)
		case given && value != "0" && value != "false":
			return fmt.Errorf("row %d (%s) has %q in is_admin, which is 0, 1, true or false: "+
				"correct it in a copy of the file; nothing was changed", i+1, cli.Printable(from["handle"]), value)
		}
		row.Members["flags"] = strings.Join(flags, " ")
		l.rows = append(l.rows, row)
		byKey["handle "+from["handle"]], byKey["id "+from["id"]] = i, i
	}
	ignored := slices.DeleteFunc(slices.Clone(users.Columns), func(c string) bool {
		return slices.Contains(imported, c) || c == "id"
	})
	l.note("columns of users left", strings.Join(ignored, " "))

	count, skipped := 0, 0
	for _, from := range prefs.Rows {
		key, value := first(from, "key", "name", "pref"), first(from, "value")
		at, known := byKey["handle "+first(from, "handle", "username", "user_handle")]
		if id, given := from["user_id"]; given {
			if at, known = byKey["id "+id]; !known {
				at, known = byKey["handle "+id]
			}
		}
		if !known || key == "" || value == "" {
			skipped++
			continue
		}
		l.rows[at].Preferences[key] = value
		count++
	}
	if len(prefs.Rows) > 0 {
		const format = "%d taken, %d left: of no user, or without a name and a value"
		l.note("preferences", fmt.Sprintf(format, count, skipped))
	}
	return nil
}

// takeSettings takes the settings whose name and value are valid here, except lists.
func (l *legacy) takeSettings(t store.LegacyTable, now account.Settings) {
	l.settings = account.SettingsChange{}
	var ignored []string
	for _, row := range t.Rows {
		name, value := first(row, "key", "name"), first(row, "value")
		if one := scalarSetting(name, value); one != nil {
			if trial := now; takes(one, &trial) {
				maps.Copy(l.settings, one)
				continue
			}
		}
		ignored = append(ignored, name)
	}
	l.note("settings taken", strings.Join(slices.Sorted(maps.Keys(l.settings)), " "))
	l.note("settings left", strings.Join(ignored, " "))
}

// scalarSetting returns a change of one setting to a string, a number or a boolean, or nil if the
// name or the value is not valid.
func scalarSetting(name, value string) account.SettingsChange {
	m, err := settingNamed(name)
	if err != nil {
		return nil
	}
	switch m.Value(account.DefaultSettings()).(type) {
	case string, int, bool:
		one, err := settingChange(m, []string{value})
		if err == nil {
			return one
		}
	}
	return nil
}

func takes(c account.SettingsChange, v *account.Settings) bool {
	_, err := c.To(v)
	return err == nil
}

// takeInvites takes the invites that are open and whose codes are as long as codes here. A code of
// eight characters can be guessed.
func (l *legacy) takeInvites(t store.LegacyTable, now time.Time) {
	usedColumns := []string{"used", "is_used", "used_at", "used_by", "redeemed_at", "redeemed_by"}
	used, expired, weak := 0, 0, 0
	for _, row := range t.Rows {
		i := account.Invite{
			Code:      account.CanonicalInviteCode(first(row, "code")),
			CreatedAt: now, ExpiresAt: now.Add(account.InviteLifetime),
		}
		if at, err := roster.ReadTime(first(row, "expires_at")); err == nil && at.Before(i.ExpiresAt) {
			i.ExpiresAt = at
		}
		switch {
		case slices.ContainsFunc(usedColumns, func(c string) bool { return isSet(row[c]) }):
			used++
		case !i.Open(now):
			expired++
		case i.Code == "":
			weak++
		default:
			l.invites = append(l.invites, i)
		}
	}
	if len(t.Rows) > 0 {
		const format = "%d taken, %d left as used, %d as expired, %d because their codes can be guessed: " +
			"make new ones with cairn invite add"
		l.note("invites", fmt.Sprintf(format, len(l.invites), used, expired, weak))
	}
}
