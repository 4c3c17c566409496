package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type manCommand struct{}

// Run prints the manual page of the program with all of its commands.
func (manCommand) Run(p *cli.Program, k *kong.Kong) error {
	_, err := fmt.Fprint(p.Stdout, manual(k.Model))
	return err
}

// manual returns the page in roff, with the macros of man(7).
func manual(app *kong.Application) string {
	m := &roff{}
	m.macro("TH", "CAIRN", "1", cli.Date, "cairn "+cli.ProgramVersion(), "User Commands")
	m.macro("SH", "NAME")
	m.line(`cairn \- ` + roffText("accounts, sessions and OpenID Connect for a sports club"))
	m.macro("SH", "SYNOPSIS")
	m.line(`\fBcairn\fP \fICOMMAND\fP [\fIOPTION\fP...]`)
	m.macro("SH", "DESCRIPTION")
	m.text(description(app.Name))
	m.macro("SH", "OPTIONS")
	m.text("Every command has these options.")
	m.flags(app.Flags)
	m.macro("SH", "COMMANDS")
	for _, leaf := range app.Leaves(true) {
		m.macro("SS", leaf.FullPath()+strings.TrimPrefix(leaf.Summary(), leaf.Path()))
		m.text(leaf.Help)
		m.text(leaf.Detail)
		for _, arg := range leaf.Positional {
			m.entry(`\fI`+roffText(strings.ToUpper(arg.Name))+`\fP`, arg.Help)
		}
		m.flags(ownFlags(leaf))
	}
	m.macro("SH", "FILES")
	m.entry(roffText("cairn.yaml"), "Settings, in the working folder.")
	m.entry(roffText("/etc/cairn/cairn.yaml"), "Settings, if the working folder has none.")
	m.macro("SH", "ENVIRONMENT")
	m.text("Each option names its variable in parentheses. A flag takes precedence over the environment, " +
		"the environment over the file of --env-file, and that file over cairn.yaml.")
	m.entry("SERVICE_AUTH_JWT_SECRET", "Secret of HS256 sessions, at least 32 bytes, instead of the stored one; "+
		"or a file with it in SERVICE_AUTH_JWT_SECRET_FILE.")
	m.entry("SERVICE_SMTP_PASSWORD", "Password of the mail server's user.")
	m.macro("SH", "EXIT STATUS")
	m.entry("0", "Success.")
	m.entry("1", "Failure; the last line says what to do.")
	m.entry("2", "Incorrect use of a command.")
	return m.String()
}

// ownFlags returns the flags of a command and of the commands above it, without the program's own.
func ownFlags(node *kong.Node) []*kong.Flag {
	var flags []*kong.Flag
	for ; node != nil && node.Type != kong.ApplicationNode; node = node.Parent {
		flags = append(slices.Clone(node.Flags), flags...)
	}
	return slices.DeleteFunc(flags, func(f *kong.Flag) bool { return f.Hidden })
}

// roff builds a page line by line.
type roff struct {
	strings.Builder
	begun bool // the next paragraph follows another one
}

var roffEscapes = strings.NewReplacer(
	`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

// roffText escapes characters that roff would interpret.
func roffText(s string) string {
	s = roffEscapes.Replace(s)
	if strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return s
}

func (m *roff) line(s string) { fmt.Fprintln(m, s) }

func (m *roff) macro(name string, args ...string) {
	for _, arg := range args {
		name += ` "` + roffText(arg) + `"`
	}
	m.line("." + name)
	m.begun = false
}

// text writes a help text, each paragraph as one line.
func (m *roff) text(s string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		if paragraph == "" {
			continue
		}
		if m.begun {
			m.line(".PP")
		}
		m.begun = true
		if strings.HasPrefix(paragraph, "  ") { // examples, unchanged
			m.line(".nf\n" + roffText(paragraph) + "\n.fi")
			continue
		}
		m.line(roffText(strings.Join(strings.Fields(paragraph), " ")))
	}
}

// entry writes a word, which is already roff, and its meaning.
func (m *roff) entry(word, meaning string) {
	m.line(".TP\n" + word + "\n" + roffText(strings.Join(strings.Fields(meaning), " ")))
}

func (m *roff) flags(flags []*kong.Flag) {
	for _, f := range flags {
		word := `\fB` + roffText("--"+f.Name) + `\fP`
		if f.Short != 0 {
			word = `\fB` + roffText("-"+string(f.Short)) + `\fP, ` + word
		}
		if !f.IsBool() {
			word += roffText("=") + `\fI` + roffText(f.FormatPlaceHolder()) + `\fP`
		}
		help := f.Help
		if name := f.Tag.Get("env"); name != "" && !strings.HasSuffix(help, "($"+name+")") {
			help += " ($" + name + ")"
		}
		m.entry(word, help)
	}
}
