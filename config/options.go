package config

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// WritesConfig marks a command that makes the config file. It gets values of a file that is named, which need not
// exist ([Environment.NewConfig]), and not of one that other commands would find: it decides by itself where its file
// is, with [Environment.Find].
type WritesConfig interface{ WritesConfig() }

// Options makes kong take its values in the order flag, environment, env-file, config file, default. They go into
// kong.New of a program whose root embeds [Files]; e is bound, so that a command's Run may ask for *Environment.
//
// Where no config file is named, one is looked for only by a command that has one of the settings among its flags.
//
// kong by itself reads the variables of env tags from the process and lets a config file beat them. So the names are
// taken out of kong's model once it is built, for every flag of the program, and a resolver looks them up in e. The
// help still shows them.
func Options(e *Environment) []kong.Option {
	l := &loader{environment: e, names: map[*kong.Value][]string{}}
	return []kong.Option{
		kong.Bind(e),
		kong.PostBuild(l.takeNames),
		kong.ValueFormatter(l.help),
		kong.WithBeforeResolve(l.loadFiles),
		kong.Resolvers(l),
	}
}

// loader is the resolver of one parser.
type loader struct {
	environment *Environment
	names       map[*kong.Value][]string // of the variables, out of the env tags
	loadedFor   *kong.Context
}

// takeNames moves the variables' names from kong's model into ours, before kong puts them into the help texts.
func (l *loader) takeNames(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && len(flag.Tag.Envs) > 0 {
			l.names[flag.Value] = flag.Tag.Envs
			flag.Tag.Envs, flag.Envs = nil, nil
		}
		return next(nil)
	})
}

// help shows the variable behind a flag's text, as kong does for those it reads itself.
func (l *loader) help(v *kong.Value) string {
	names := l.names[v]
	if len(names) == 0 {
		return kong.DefaultHelpValueFormatter(v)
	}
	return strings.TrimSpace(v.Help + " ($" + strings.Join(names, ", $") + ")")
}

// loadFiles reads the env-file, then the config file, which the env-file may name. kong calls it for every part of
// the command line, of which the first loads.
func (l *loader) loadFiles(ctx *kong.Context) error {
	if l.loadedFor == ctx {
		return nil
	}
	l.loadedFor = ctx
	e := l.environment
	e.file, e.config, e.configFile, e.newConfig = nil, nil, "", ""
	if path, _ := l.fileFlag(ctx, "env-file"); path != "" {
		var known []string
		for _, names := range l.names {
			known = append(known, names...)
		}
		if err := e.loadEnvFile(path, known); err != nil {
			return err
		}
	}
	if path, source := l.fileFlag(ctx, "config"); path != "" {
		err := e.load(path, source, true)
		if writesConfig(ctx) && errors.Is(err, os.ErrNotExist) {
			e.newConfig, err = path, nil
		}
		return err
	}
	if l.findsConfig(ctx) {
		if path := e.Find(); path != "" {
			return e.LoadFound(path)
		}
	}
	return nil
}

// findsConfig tells whether the command reads a config file that nobody named.
func (l *loader) findsConfig(ctx *kong.Context) bool {
	if writesConfig(ctx) {
		return false
	}
	for _, path := range ctx.Path {
		if slices.ContainsFunc(path.Flags, l.isSetting) {
			return true
		}
	}
	return false
}

func writesConfig(ctx *kong.Context) bool {
	selected := ctx.Selected()
	if selected == nil || !selected.Target.CanAddr() {
		return false
	}
	_, writes := selected.Target.Addr().Interface().(WritesConfig)
	return writes
}

// isSetting tells a setting from another command's flag that happens to share its name.
func (l *loader) isSetting(flag *kong.Flag) bool {
	s, ok := settingNamed(flag.Name)
	names := l.names[flag.Value]
	return ok && len(names) == 1 && names[0] == s.env
}

// fileFlag returns the value of one of the flags of Files, which kong has parsed and not yet put into place, and the
// name of its source for messages.
func (l *loader) fileFlag(ctx *kong.Context, name string) (value, source string) {
	for _, flag := range ctx.Model.Flags {
		if flag.Name != name {
			continue
		}
		if value, ok := ctx.FlagValue(flag).(string); ok && value != "" {
			return value, "--" + name
		}
		return l.variable(flag.Value)
	}
	return "", ""
}

// variable returns the first value that the environment has for a flag.
func (l *loader) variable(v *kong.Value) (value, name string) {
	for _, name := range l.names[v] {
		if value, _ := l.environment.Lookup(name); value != "" {
			return value, name
		}
	}
	return "", ""
}

// Validate implements kong.Resolver; the files were checked when they were read.
func (l *loader) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver, for a flag that the command line does not give.
func (l *loader) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if value, name := l.variable(flag.Value); name != "" {
		return value, nil
	}
	if !l.isSetting(flag) {
		return nil, nil
	}
	if value, ok := l.environment.config[flag.Name]; ok {
		return value, nil
	}
	return nil, nil
}
