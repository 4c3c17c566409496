package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong.HelpProvider.
func (completionCommand) Help() string {
	return `The Debian package installs the scripts. Without it, for one session: source <(cairn completion bash), the
same with zsh after compinit, or cairn completion fish | source.`
}

// Run prints a script that completes commands, options and their values. It is static: completion starts
// the program only to list the ids of clients, APIs and users.
func (c completionCommand) Run(p *cli.Program, k *kong.Kong) error {
	scripts := map[string]func([]completions) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	_, err := fmt.Fprint(p.Stdout, scripts[c.Shell](allCompletions(k.Model.Node, "")))
	return err
}

// completions are the words that may follow a command.
type completions struct {
	at       string // the commands so far, each with a space before it: " client add"
	commands []completed
	options  []completed
	ids      string // the arguments are ids that this command lists: client, api or user; "" for none
}

// completed is a command or an option, with its help.
type completed struct {
	word, short, help string
	takes             bool     // a value follows
	values            []string // the only ones allowed; nil for any
	file              bool     // the value is a file or a folder
	ids               string   // see completions
}

// spellings returns the forms of an option, such as --output and -o.
func (c completed) spellings() []string {
	words := []string{"--" + c.word}
	if c.short != "" {
		words = append(words, "-"+c.short)
	}
	return words
}

func (c completed) name() []string { return []string{c.word} }

func allCompletions(node *kong.Node, at string) []completions {
	here := completions{at: at}
	for n := node; n != nil; n = n.Parent {
		for _, f := range n.Flags {
			if f.Hidden {
				continue
			}
			file := f.PlaceHolder == "FILE" || f.PlaceHolder == "FOLDER"
			o := completed{word: f.Name, help: f.Help, takes: !f.IsBool(), file: file, ids: f.Tag.Get("ids")}
			if f.Enum != "" {
				o.values = f.EnumSlice()
			}
			if f.Short != 0 {
				o.short = string(f.Short)
			}
			here.options = append(here.options, o)
		}
	}
	all := []completions{}
	for _, child := range node.Children {
		here.commands = append(here.commands, completed{word: child.Name, help: child.Help})
		all = append(all, allCompletions(child, at+" "+child.Name)...)
	}
	for _, arg := range node.Positional {
		here.ids = cmp.Or(here.ids, arg.Tag.Get("ids"))
		if arg.Enum != "" { // cairn completion SHELL
			for _, value := range arg.EnumSlice() {
				here.commands = append(here.commands, completed{word: value, help: arg.Help})
			}
		}
	}
	return append([]completions{here}, all...)
}

// each concatenates the rendered form of each command.
func each(all []completions, render func(completions) string) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(render(c))
	}
	return b.String()
}

// anyCommand returns the pattern of a case that matches any command.
func anyCommand(all []completions) string {
	var quoted []string
	for _, c := range all[1:] {
		quoted = append(quoted, quote(c.at))
	}
	return strings.Join(quoted, "|")
}

// eachValue renders each option that takes a value. patterns matches the words before the value.
func eachValue(all []completions, render func(patterns string, o completed) string) string {
	return each(all, func(c completions) (lines string) {
		for _, o := range c.options {
			if o.takes {
				var patterns []string
				for _, s := range o.spellings() {
					patterns = append(patterns, quote(c.at+" "+s))
				}
				lines += render(strings.Join(patterns, "|"), o)
			}
		}
		return lines
	})
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func words(list []completed, spell func(completed) []string) string {
	var out []string
	for _, c := range list {
		out = append(out, spell(c)...)
	}
	return strings.Join(out, " ")
}

func bashScript(all []completions) string {
	return `# bash completion for cairn
# compgen -W would run what an id says.
_cairn_ids() {
	local id word=${COMP_LINE:0:COMP_POINT}
	word=${word##*[ =]}
	while IFS= read -r id; do
		if [[ $id == "$word"* ]]; then
			printf -v id %q "${id#"${word%"${word##*:}"}"}" # bash takes words apart at colons
			COMPREPLY+=("$id")
		fi
	done < <(command cairn "$1" list -q 2>/dev/null)
}
_cairn() {
	local at= before=${COMP_WORDS[COMP_CWORD-1]} current=${COMP_WORDS[COMP_CWORD]} commands= options= ids= i
	COMPREPLY=()
	# bash splits --output=json into three words.
	if [[ $current == = ]]; then
		current=
	elif [[ $before == = ]]; then
		before=${COMP_WORDS[COMP_CWORD-2]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at ${COMP_WORDS[i]}" in
		` + anyCommand(all) + `) at="$at ${COMP_WORDS[i]}" ;;
		esac
	done
	case "$at $before" in
` + eachValue(all, func(patterns string, o completed) string {
		if o.ids != "" {
			return "\t" + patterns + ") _cairn_ids " + o.ids + "; return ;;\n"
		}
		if o.values == nil { // "complete -o default" below completes files
			return "\t" + patterns + ") return ;;\n"
		}
		values := quote(strings.Join(o.values, " "))
		return "\t" + patterns + `) COMPREPLY=($(compgen -W ` + values + ` -- "$current")); return ;;` + "\n"
	}) + `	esac
	case "$at" in
` + each(all, func(c completions) string {
		commands, options := quote(words(c.commands, completed.name)), quote(words(c.options, completed.spellings))
		return "\t" + quote(c.at) + `) commands=` + commands + ` options=` + options + " ids=" + c.ids + " ;;\n"
	}) + `	esac
	if [[ $current == -* ]]; then
		commands=$options
	elif [[ $ids ]]; then
		_cairn_ids "$ids"
		return
	fi
	COMPREPLY=($(compgen -W "$commands" -- "$current"))
}
complete -o default -F _cairn cairn
`
}

func zshScript(all []completions) string {
	described := func(list []completed, spell func(completed) []string) string {
		var out []string
		for _, c := range list {
			for _, word := range spell(c) {
				out = append(out, quote(word+":"+c.help))
			}
		}
		return strings.Join(out, " ")
	}
	return `#compdef cairn
_cairn() {
	local at='' before=${words[CURRENT-1]} word ids=''
	local -a commands options
	if [[ $PREFIX == --*=* ]]; then
		before=${PREFIX%%=*}
		compset -P '*='
	fi
	for word in ${words[2,CURRENT-1]}; do
		case "$at $word" in
		(` + anyCommand(all) + `) at="$at $word" ;;
		esac
	done
	case "$at $before" in
` + eachValue(all, func(patterns string, o completed) string {
		action := "_message " + quote(o.help)
		switch {
		case o.file:
			action = "_files"
		case o.ids != "":
			action = `compadd -- ${(f)"$(command cairn ` + o.ids + ` list -q 2>/dev/null)"}`
		case o.values != nil:
			action = "compadd -- " + strings.Join(o.values, " ")
		}
		return "\t(" + patterns + ") " + action + "; return ;;\n"
	}) + `	esac
	case "$at" in
` + each(all, func(c completions) string {
		commands, options := described(c.commands, completed.name), described(c.options, completed.spellings)
		return "\t(" + quote(c.at) + ") commands=(" + commands + ") options=(" + options + ") ids=" + c.ids + " ;;\n"
	}) + `	esac
	if [[ $PREFIX == -* ]]; then
		_describe -o -t options option options
	elif (( $#commands )); then
		_describe -t commands command commands
	elif [[ -n $ids ]]; then
		compadd -- ${(f)"$(command cairn $ids list -q 2>/dev/null)"}
	else
		_files
	fi
}
if [[ ${funcstack[1]} == _cairn ]]; then
	_cairn "$@"
else
	compdef _cairn cairn
fi
`
}

func fishScript(all []completions) string {
	// In single quotes fish knows only the escapes \\ and \'.
	quoted := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	listed := func(ids string) string { return "'(command cairn " + ids + " list -q 2>/dev/null)'" }
	return `# fish completion for cairn
function __cairn_at
	set -l at ''
	for word in (commandline -opc)[2..]
		if contains -- "$at $word" ` + strings.ReplaceAll(anyCommand(all), "|", " ") + `
			set at "$at $word"
		end
	end
	test "$at" = "$argv[1]"
end
complete -c cairn -e
` + each(all, func(c completions) (lines string) {
		if c.ids != "" {
			return fmt.Sprintf("complete -c cairn -n \"__cairn_at '%s'\" -f -a %s\n", c.at, listed(c.ids))
		}
		if len(c.commands) == 0 {
			return ""
		}
		lines = fmt.Sprintf("complete -c cairn -n \"__cairn_at '%s'\" -f\n", c.at)
		for _, child := range c.commands {
			const format = "complete -c cairn -n \"__cairn_at '%s'\" -a %s -d %s\n"
			lines += fmt.Sprintf(format, c.at, child.word, quoted(child.help))
		}
		return lines
	}) + each(all, func(c completions) (lines string) {
		for _, o := range slices.Backward(c.options) {
			line := fmt.Sprintf("complete -c cairn -n \"__cairn_at '%s'\" -l %s", c.at, o.word)
			if o.short != "" {
				line += " -s " + o.short
			}
			switch {
			case o.file:
				line += " -r -F"
			case o.ids != "":
				line += " -x -a " + listed(o.ids)
			case o.values != nil:
				line += " -x -a " + quoted(strings.Join(o.values, " "))
			case o.takes:
				line += " -x"
			}
			lines += line + " -d " + quoted(o.help) + "\n"
		}
		return lines
	})
}
