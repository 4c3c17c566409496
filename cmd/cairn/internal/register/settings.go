package register

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type SettingsCommand struct {
	List listSettingsCommand `cmd:"" reads:""`
	Get  getSettingCommand   `cmd:"" reads:""`
	Set  setSettingCommand   `cmd:""`
}

type listSettingsCommand struct {
	cli.DatabaseFlags
	cli.Output
}

// Run lists the settings; with -q only their names.
func (c *listSettingsCommand) Run(p *cli.Program) error {
	return c.WithUsers(p, func(users *roster.Administration) error {
		v, err := users.Settings(p.Ctx)
		if err != nil {
			return err
		}
		if c.Format == "json" && !c.Quiet {
			return cli.WriteJSON(p.Stdout, v)
		}
		out := c.List(p, "SETTING", "VALUE", "MEANING")
		for _, m := range account.SettingsMembers {
			name, help := m.Name, m.Help
			for _, line := range settingLines(m.Value(v)) {
				if name == "" && c.Quiet {
					break
				}
				out.Add(name, nil, name, line, help)
				name, help = "", "" // of further lines
			}
		}
		return out.End()
	})
}

// settingLines formats a value as settings set reads it, with one line for each described flag.
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
	cli.DatabaseFlags
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table (only the value) or json."`
	Name   string `arg:"" help:"Name of the setting, from settings list."`
}

// Run prints the value and nothing else.
func (c *getSettingCommand) Run(p *cli.Program) error {
	m, err := settingNamed(c.Name)
	if err != nil {
		return err
	}
	return c.WithUsers(p, func(users *roster.Administration) error {
		v, err := users.Settings(p.Ctx)
		if err != nil {
			return err
		}
		if c.Format == "json" {
			return cli.WriteJSON(p.Stdout, m.Value(v))
		}
		fmt.Fprintln(p.Stdout, strings.Join(settingLines(m.Value(v)), "\n"))
		return nil
	})
}

type setSettingCommand struct {
	cli.DatabaseFlags
	cli.Output
	Name   string   `arg:"" help:"Name of the setting, from settings list."`
	Value  []string `arg:"" optional:""`
	Add    []string `placeholder:"ENTRY" help:"Add an entry to a list. Of session_flags, none means all. Repeatable."`
	Remove []string `placeholder:"ENTRY" help:"Remove an entry of a list. Repeatable."`
	Yes    bool     `help:"Do not ask before a list loses entries."`
}

// Run changes a setting by the rules of the API.
func (c *setSettingCommand) Run(p *cli.Program) error {
	m, err := settingNamed(c.Name)
	if err != nil {
		return err
	}
	return c.WithUsers(p, func(users *roster.Administration) error {
		before, err := users.Settings(p.Ctx)
		if err != nil {
			return err
		}
		words, err := c.words(m, before)
		if err != nil {
			return err
		}
		change, err := settingChange(m, words)
		if err == nil {
			err = c.confirmRemoval(p, before.Clone(), m, change)
		}
		if err != nil {
			return err
		}
		now, err := users.Settings(p.Ctx) // an answer takes its time
		if err != nil {
			return err
		}
		old, list := m.Value(before).([]string)
		if list && !slices.Equal(old, m.Value(now).([]string)) {
			return fmt.Errorf("%s was changed meanwhile, and nothing was changed now: look at it again", m.Name)
		}
		v, err := users.ChangeSettings(p.Ctx, account.Operator(), change)
		if problem, _ := web.ProblemOf(err); err != nil && len(problem.Errors) > 0 {
			wrong := problem.Errors[0]
			return fmt.Errorf("%s: %s: nothing was changed", strings.TrimPrefix(wrong.Pointer, "/"), wrong.Detail)
		}
		if err != nil {
			return err
		}
		if list && m.Name == "flags" {
			for _, flag := range without(old, v.Flags) {
				fmt.Fprintf(p.Stderr, "cairn: whoever has %s keeps it, for applications too: "+
					"cairn user flags HANDLE -%[1]s takes it\n", flag)
			}
		}
		text := strings.Join(settingLines(m.Value(v)), "; ")
		return c.Print(p, m.Name, map[string]any{m.Name: m.Value(v)}, cli.Pairs{{m.Name, text}})
	})
}

// words returns the value as settingChange reads it: with --add and --remove, the list after them.
func (c *setSettingCommand) words(m account.SettingsMember, before account.Settings) ([]string, error) {
	if len(c.Add)+len(c.Remove) == 0 {
		return c.Value, nil
	}
	list, ok := m.Value(before).([]string)
	switch {
	case !ok:
		return nil, cli.Usagef("--add and --remove are for lists, and %s is not one", m.Name)
	case len(c.Value) > 0:
		return nil, cli.UsageError("give all entries of the list, or --add and --remove")
	}
	list, err := listEdit{"", c.Add, c.Remove, false}.apply(list)
	if err != nil {
		return nil, err
	}
	if before := m.Value(before).([]string); m.Name == "session_flags" {
		const format = "none named means all, so that --add would leave only %s: " +
			"cairn settings set %s FLAG... names all that stay"
		switch {
		case len(before) == 0 && len(list) > 0:
			return nil, cli.Usagef(format, strings.Join(list, " "), m.Name)
		case len(list) == 0:
			return nil, cli.Usagef("none named means all: cairn settings set %s, without a value, does that", m.Name)
		}
	}
	return list, nil
}

// confirmRemoval asks before a list loses entries that no flag names: people write the list to add one.
func (c *setSettingCommand) confirmRemoval(
	p *cli.Program, after account.Settings, m account.SettingsMember, change account.SettingsChange,
) error {
	old, ok := m.Value(after).([]string)
	if _, err := change.To(&after); err != nil || !ok || c.Yes || len(c.Remove) > 0 {
		return nil // a fault is reported by what follows
	}
	lost := without(old, m.Value(after).([]string))
	if len(lost) == 0 {
		return nil
	}
	text := fmt.Sprintf("this list replaces the one of %s, which removes %s", m.Name, strings.Join(lost, " "))
	return confirmLoss(p, text, ", or change single entries with --add and --remove")
}

// without returns the entries of a list that another has not.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return slices.Contains(other, entry) })
}

func settingNamed(name string) (account.SettingsMember, error) {
	var names []string
	for _, m := range account.SettingsMembers {
		if m.Name == strings.ReplaceAll(name, "-", "_") {
			return m, nil
		}
		names = append(names, m.Name)
	}
	const format = "there is no setting %q: the settings are %s; those of cairn.yaml are in cairn serve --help"
	return account.SettingsMember{}, fmt.Errorf(format, name, strings.Join(names, ", "))
}

// settingChange parses the words of the command line by the type of the setting.
func settingChange(m account.SettingsMember, words []string) (account.SettingsChange, error) {
	wrong := func(want string) (account.SettingsChange, error) { return nil, cli.UsageError(m.Name + ": " + want) }
	value := any(cli.Listed(words))
	switch kind := m.Value(account.DefaultSettings()).(type) {
	case []string:
		if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, ",") }); i >= 0 {
			return wrong("write spaces between the entries, not commas")
		}
	case map[string]string:
		texts := map[string]string{}
		for _, word := range words {
			flag, text, ok := strings.Cut(word, "=")
			if _, twice := texts[flag]; !ok || twice {
				return wrong(`write FLAG="TEXT" once for each flag`)
			}
			texts[flag] = text
		}
		if value = texts; len(texts) == 0 {
			return wrong(`write FLAG="TEXT", as coach="Trains others."`)
		}
	default:
		if len(words) != 1 {
			return wrong("write one value, in quotes if it has spaces")
		}
		value = words[0]
		switch kind.(type) {
		case int:
			number, err := strconv.Atoi(words[0])
			if value = number; err != nil {
				return wrong("write a whole number")
			}
		case bool:
			if value = words[0] == "true"; value == false && words[0] != "false" {
				return wrong("write true or false")
			}
		}
	}
	return account.SettingsChange{m.Name: value}, nil
}
