package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

type settingsCommand struct {
	List listSettingsCommand `cmd:"" help:"List the settings with what each is for."`
	Get  getSettingCommand   `cmd:"" help:"Print the value of one setting."`
	Set  setSettingCommand   `cmd:"" help:"Change one setting; a running service follows within seconds."`
}

// Help implements kong.HelpProvider.
func (settingsCommand) Help() string {
	return `These are the settings that administrators change while the service runs, as PUT /api/admin/settings does. Addresses,
files and keys are in cairn.yaml: see cairn serve --help.`
}

// withSettings opens the database for the settings in it.
func withSettings(p *program, database string, do func(*account.Administration, account.Settings) error) error {
	st, err := openDatabase(p.ctx, database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	office := account.NewAdministration(st, nil)
	v, err := office.Settings(p.ctx)
	if err != nil {
		return err
	}
	return do(office, v)
}

type listSettingsCommand struct {
	databaseFlags
	output
}

// Run lists the settings; -q their names only.
func (c *listSettingsCommand) Run(p *program) error {
	return withSettings(p, c.Database, func(_ *account.Administration, v account.Settings) error {
		switch {
		case c.Quiet:
			for _, m := range account.SettingsMembers {
				fmt.Fprintln(p.stdout, m.Name)
			}
			return nil
		case c.Format == "json":
			return writeJSON(p.stdout, v)
		}
		var rows [][]string
		for _, m := range account.SettingsMembers {
			lines := settingLines(m.Value(v))
			rows = append(rows, []string{m.Name, lines[0], m.Help})
			for _, more := range lines[1:] {
				rows = append(rows, []string{"", more, ""})
			}
		}
		return writeTable(p.stdout, []string{"SETTING", "VALUE", "MEANING"}, rows)
	})
}

// settingLines writes a value as set reads it, a described flag a line.
func settingLines(value any) []string {
	switch v := value.(type) {
	case []string:
		return []string{strings.Join(v, " ")}
	case map[string]string:
		lines := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			lines = append(lines, name+"="+v[name])
		}
		return lines
	}
	return []string{fmt.Sprint(value)}
}

type getSettingCommand struct {
	databaseFlags
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table (the value alone) or json."`
	Name   string `arg:"" help:"Name of the setting, as settings list shows it."`
}

// Run prints the value and nothing else.
func (c *getSettingCommand) Run(p *program) error {
	m, err := settingNamed(c.Name)
	if err != nil {
		return err
	}
	return withSettings(p, c.Database, func(_ *account.Administration, v account.Settings) error {
		if c.Format == "json" {
			return writeJSON(p.stdout, m.Value(v))
		}
		fmt.Fprintln(p.stdout, strings.Join(settingLines(m.Value(v)), "\n"))
		return nil
	})
}

type setSettingCommand struct {
	databaseFlags
	output
	Name  string   `arg:"" help:"Name of the setting, as settings list shows it."`
	Value []string `arg:"" optional:"" help:"The value; of flags and default_flags all of them (none: an empty list); of flag_descriptions FLAG=TEXT for each that changes."`
}

// Run changes a setting by the rules of the API.
func (c *setSettingCommand) Run(p *program) error {
	m, err := settingNamed(c.Name)
	if err != nil {
		return err
	}
	change, err := settingChange(m, c.Value)
	if err != nil {
		return err
	}
	return withSettings(p, c.Database, func(office *account.Administration, _ account.Settings) error {
		v, err := office.ChangeSettings(p.ctx, account.Operator(), change)
		if problem, _ := web.ProblemOf(err); err != nil && len(problem.Errors) > 0 {
			wrong := problem.Errors[0]
			return fmt.Errorf("%s: %s: nothing was changed", strings.TrimPrefix(wrong.Pointer, "/"), wrong.Detail)
		}
		if err != nil {
			return err
		}
		return c.done(p, m.Name, map[string]any{m.Name: m.Value(v)}, [][2]string{{m.Name, strings.Join(settingLines(m.Value(v)), "; ")}})
	})
}

func settingNamed(name string) (account.SettingsMember, error) {
	var names []string
	for _, m := range account.SettingsMembers {
		if m.Name == strings.ReplaceAll(name, "-", "_") {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return account.SettingsMember{}, usageError{fmt.Sprintf("there is no setting %q: the settings are %s; those of cairn.yaml are in cairn serve --help", name, strings.Join(names, ", "))}
}

// settingChange reads the words of the command line as the kind of value that the
// setting has, and hands it on in the form of the API.
func settingChange(m account.SettingsMember, words []string) (account.SettingsChange, error) {
	var change account.SettingsChange
	wrong := func(want string) error { return usageError{fmt.Sprintf("%s: %s", m.Name, want)} }
	kind := m.Value(account.DefaultSettings())
	var value any
	switch kind.(type) {
	case []string:
		value = listed(words)
	case map[string]string:
		texts := map[string]string{}
		for _, word := range words {
			flag, text, ok := strings.Cut(word, "=")
			if _, twice := texts[flag]; !ok || twice {
				return change, wrong(`write FLAG="TEXT" once for each flag`)
			}
			texts[flag] = text
		}
		if len(texts) == 0 {
			return change, wrong(`write FLAG="TEXT", as coach="Trains others."`)
		}
		value = texts
	default:
		if len(words) != 1 {
			return change, wrong("write one value, in quotes if it has blanks")
		}
		value = words[0]
		var err error
		switch kind.(type) {
		case int:
			value, err = strconv.Atoi(words[0])
		case bool:
			if words[0] != "true" && words[0] != "false" {
				err = errors.New("true or false")
			}
			value = words[0] == "true"
		}
		if err != nil {
			return change, wrong(map[bool]string{true: "write true or false", false: "write a whole number"}[kind == false])
		}
	}
	document, err := json.Marshal(map[string]any{m.Name: value})
	if err != nil {
		return change, fmt.Errorf("%s: %w", m.Name, err)
	}
	return change, json.Unmarshal(document, &change)
}
