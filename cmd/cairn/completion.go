package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// The scripts ask the program for the words that may follow, by the command complete.
var (
	//go:embed completion/cairn.bash
	bashScript string
	//go:embed completion/cairn.zsh
	zshScript string
	//go:embed completion/cairn.fish
	fishScript string
)

// Run prints the script of a shell.
func (c completionCommand) Run(p *cli.Program) error {
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	_, err := io.WriteString(p.Stdout, scripts[c.Shell])
	return err
}

type completeCommand struct {
	Words []string `arg:"" sep:"none" help:"The words after cairn, up to the one that is typed, which may be empty."`
}

// Run prints what may stand for the last word, each in a line with a tab and its help. It prints nothing where
// a file or a text belongs.
func (c completeCommand) Run(p *cli.Program, k *kong.Kong) error {
	before, word := c.Words[:len(c.Words)-1], c.Words[len(c.Words)-1]
	at := k.Model.Node
	for _, w := range before {
		i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == w && !n.Hidden })
		if i >= 0 {
			at = at.Children[i]
		}
	}
	spelling, _, valued := strings.Cut(word, "=")
	prefix := spelling + "="
	if !valued && len(before) > 0 {
		spelling, prefix = before[len(before)-1], ""
	}
	flags := completedFlags(at)
	if f := flags[spelling]; f != nil && !f.IsBool() {
		c.values(p, prefix, f.Value)
		return nil
	}
	if strings.HasPrefix(word, "-") {
		for spelling, f := range flags {
			fmt.Fprintf(p.Stdout, "%s\t%s\n", spelling, f.Help)
		}
		return nil
	}
	for _, child := range at.Children {
		if !child.Hidden {
			fmt.Fprintf(p.Stdout, "%s\t%s\n", child.Name, child.Help)
		}
	}
	i := slices.IndexFunc(at.Positional, func(v *kong.Positional) bool {
		return v.Enum != "" || v.Tag.Get("ids") != ""
	})
	if i >= 0 {
		c.values(p, "", at.Positional[i])
	}
	return nil
}

// completedFlags returns the flags of a command and of those above it by their spellings, such as --output and -o.
func completedFlags(at *kong.Node) map[string]*kong.Flag {
	flags := map[string]*kong.Flag{}
	for ; at != nil; at = at.Parent {
		for _, f := range at.Flags {
			if f.Hidden {
				continue
			}
			flags["--"+f.Name] = f
			if f.Short != 0 {
				flags["-"+string(f.Short)] = f
			}
		}
	}
	return flags
}

// values prints what a flag or an argument may be: one of an enumeration, or the ids that a command lists.
func (completeCommand) values(p *cli.Program, prefix string, v *kong.Value) {
	var values []string
	if v.Enum != "" {
		values = v.EnumSlice()
	}
	if group := v.Tag.Get("ids"); group != "" {
		var ids bytes.Buffer
		Run(p.Ctx, []string{group, "list", "-q"}, p.Environ, strings.NewReader(""), &ids, io.Discard)
		values = strings.Fields(ids.String())
	}
	for _, value := range values {
		fmt.Fprintf(p.Stdout, "%s%s\t%s\n", prefix, value, v.Help)
	}
}
