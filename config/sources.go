package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Environment holds the values from sources other than flags: the process environment, the env-file
// and cairn.yaml. It has a copy of the process environment, which it never changes. It serves one
// parser, and has the values of the two files only after kong has parsed.
type Environment struct {
	// Search lists the places of cairn.yaml if no file is named. The first existing one is read.
	Search []string

	process    map[string]string
	envFile    map[string]string
	config     map[string]string // by the flag's name
	configFile string
	newConfig  string
	warning    string // about the config file
	readFor    *kong.Context
}

// ConfigName is the name of the config file in the folder of an installation.
const ConfigName = "cairn.yaml"

// NewEnvironment takes the environment as os.Environ writes it, NAME=VALUE.
func NewEnvironment(environ []string) *Environment {
	e := &Environment{process: map[string]string{}, Search: []string{ConfigName, "/etc/cairn/" + ConfigName}}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); name != "" {
			e.process[name] = value
		}
	}
	return e
}

// Lookup has the shape of os.LookupEnv: it reads the process environment, then the env-file. It
// skips an empty value if the next source has one. In a variable that names files it fills in
// systemd's credentials folder.
func (e *Environment) Lookup(name string) (string, bool) {
	value, inProcess := e.process[name]
	inFile := false
	if value == "" {
		value, inFile = e.envFile[name]
	}
	if strings.HasSuffix(name, "_FILE") || strings.HasSuffix(name, "_FILES") {
		value = e.fillCredentials(value)
	}
	return value, inProcess || inFile
}

// credentials begins a path in the folder of systemd's credentials for a service (LoadCredential=).
// In a unit, %d is that folder; this program replaces it in the env-file and cairn.yaml.
const credentials = "$CREDENTIALS_DIRECTORY/"

func (e *Environment) fillCredentials(paths string) string {
	if folder := e.process["CREDENTIALS_DIRECTORY"]; folder != "" {
		return strings.ReplaceAll(paths, credentials, folder+"/")
	}
	return paths
}

// ConfigFile returns the path of the config file that was read, or "".
func (e *Environment) ConfigFile() string { return e.configFile }

// NewConfig returns the path of a config file that a command shall write and that does not exist
// yet, or "".
func (e *Environment) NewConfig() string { return e.newConfig }

// InConfig returns the value of a setting in the config file, by flag. A path in it is already
// relative to the working folder.
func (e *Environment) InConfig(flag string) (string, bool) {
	value, ok := e.config[flag]
	return value, ok
}

// Find returns the first existing path of Search, or "". A path that cannot be examined counts as
// existing, because its content would matter. A working folder that the user cannot read, such as
// root's after sudo -u, is skipped.
func (e *Environment) Find() string {
	for _, path := range e.Search {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrPermission) && !filepath.IsAbs(path) {
			continue
		}
		if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return path
		}
	}
	return ""
}

// LoadAs reads a config file as if it were at another path: relative paths in it are relative to that.
func (e *Environment) LoadAs(path, place string) error {
	text, _, err := readFile(path, maxTextFile)
	if err != nil {
		return err
	}
	values, err := parseConfig(text, filepath.Dir(place))
	if err := e.ignoreNewer(err); err != nil {
		return err
	}
	e.config, e.configFile = values, place
	return nil
}

// ListInConfig is InConfig for a setting that is a list.
func (e *Environment) ListInConfig(flag string) []string {
	if e.config[flag] == "" {
		return nil
	}
	return kong.SplitEscaped(e.config[flag], ',')
}

// Setting returns the value that a setting has without its flag, or "": from the environment, the
// env-file or the config file.
func (e *Environment) Setting(flag string) string {
	s, _ := settingNamed(flag)
	if value, _ := e.Lookup(s.env); value != "" {
		return value
	}
	if s.path {
		return e.fillCredentials(e.config[flag])
	}
	return e.config[flag]
}

// Warning returns a sentence about the config file that was read, or "".
func (e *Environment) Warning() string { return e.warning }

// ignoreNewer turns the error about a key of a newer version into a warning, for commands that change
// nothing: they are needed to go back to an earlier version, which does not start with the key.
func (e *Environment) ignoreNewer(err error) error {
	if newer := (newerKeyError{}); errors.As(err, &newer) {
		e.warning = fmt.Sprintf("line %d of the settings has the key %q, which this version does not know: it is "+
			"ignored here, and cairn serve does not start with it; take the line out if a newer version wrote it",
			newer.line, newer.key)
		return nil
	}
	return err
}

// load reads a config file. One that was found, not named, must belong to the user of the program, or to
// root: in a folder where others may write, a file of theirs would choose the database and the keys.
// lenient ignores keys of a newer version.
func (e *Environment) load(path, source string, named, lenient bool) error {
	values, err := readConfig(path, source, named)
	if lenient {
		err = e.ignoreNewer(err)
	}
	if err != nil {
		return err
	}
	e.config, e.configFile = values, path
	return nil
}

// WritesConfig marks a command that writes the config file where there is none yet, at
// [Environment.NewConfig]: the file that is named, else the one beside the SQLite file that is
// named, else the one that every command finds.
type WritesConfig interface{ WritesConfig() }

// Options makes kong take its values in the order flag, environment, env-file, cairn.yaml, default. They go into
// kong.New of a program whose root embeds [Files]; e is bound, so that a command's Run may ask for *Environment.
//
// A command tagged reads changes nothing, and ignores keys of a newer version in the config file.
// If no config file is named, only a command with a setting among its flags looks for one.
//
// kong reads the variables of env tags from the process and lets a config file override them. Therefore they are
// removed from kong's model once it is built, for every flag of the program, and a resolver looks them up in e.
func Options(e *Environment) []kong.Option {
	return []kong.Option{
		kong.Bind(e),
		kong.PostBuild(func(k *kong.Kong) error {
			return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
				if flag, ok := node.(*kong.Flag); ok {
					flag.Tag.Envs, flag.Envs = nil, nil
				}
				return next(nil)
			})
		}),
		kong.ValueFormatter(func(v *kong.Value) string {
			if name := v.Tag.Get("env"); name != "" {
				return v.Help + " ($" + name + ")"
			}
			return v.Help
		}),
		kong.WithBeforeResolve(e.readFiles),
		kong.Resolvers(kong.ResolverFunc(e.resolve)),
	}
}

// readFiles reads the env-file, then the config file, which the env-file may name. kong calls it
// for every part of the command line; only the first call reads.
func (e *Environment) readFiles(ctx *kong.Context) error {
	if e.readFor == ctx {
		return nil
	}
	*e = Environment{Search: e.Search, process: e.process, readFor: ctx}
	if path, _ := e.fileFlag(ctx, "env-file"); path != "" {
		var err error
		if e.envFile, err = readEnvFile(path); err != nil {
			return err
		}
	}
	writes, lenient := false, false
	if command := ctx.Selected(); command != nil && command.Target.CanAddr() {
		_, writes = command.Target.Addr().Interface().(WritesConfig)
		lenient = command.Tag.Has("reads")
	}
	reads := slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return slices.ContainsFunc(p.Flags, isSetting) })
	if path, source := e.fileFlag(ctx, "config"); path != "" {
		err := e.load(path, source, true, lenient)
		if writes && errors.Is(err, os.ErrNotExist) {
			e.newConfig, err = path, nil
		}
		return err
	}
	path := e.Find()
	if writes {
		if database, _ := e.fileFlag(ctx, "database"); database != "" && !strings.Contains(database, "://") {
			path = filepath.Join(filepath.Dir(database), ConfigName)
		}
		if _, err := os.Lstat(path); err != nil {
			e.newConfig = cmp.Or(path, ConfigName)
			return nil
		}
	}
	if path != "" && reads {
		return e.load(path, "config file", false, lenient)
	}
	return nil
}

// fileFlag returns the value of a flag that names a file, which kong has parsed and not yet put into place, and the
// name of its source for messages.
func (e *Environment) fileFlag(ctx *kong.Context, name string) (value, source string) {
	for _, flag := range ctx.Flags() {
		if flag.Name != name {
			continue
		}
		if value, _ := ctx.FlagValue(flag).(string); value != "" {
			return value, "--" + name
		}
		value, _ := e.Lookup(flag.Tag.Get("env"))
		return value, flag.Tag.Get("env")
	}
	return "", ""
}

// resolve returns the value of a flag that is not on the command line.
func (e *Environment) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, _ := e.Lookup(flag.Tag.Get("env"))
	if isSetting(flag) {
		value = e.Setting(flag.Name)
	}
	if value == "" {
		return nil, nil
	}
	return value, nil
}

// isSetting reports whether a flag is a setting, not a flag of another command with the same name.
func isSetting(flag *kong.Flag) bool {
	s, ok := settingNamed(flag.Name)
	return ok && s.env == flag.Tag.Get("env")
}

// variables returns the names of the variables that the program reads.
func variables() []string {
	names := []string{secretVariable, secretFileVariable, passwordVariable, "SERVICE_CONFIG"}
	for _, s := range table() {
		names = append(names, s.env)
	}
	return names
}

// UnknownEnvironment returns a line for each variable that looks like one of the program's but is
// not, with the nearest known name, in the given order. These are only warnings, because other
// programs may use such names. The lines never contain values.
func UnknownEnvironment(environ []string) []string {
	known := variables()
	// A name with a prefix of ours, such as SERVICE_OIDC_, is meant for this program.
	sharesGroup := func(name string) bool {
		return slices.ContainsFunc(known, func(k string) bool {
			group, _, ok := strings.Cut(strings.TrimPrefix(k, ourPrefix), "_")
			return ok && strings.HasPrefix(name, ourPrefix+group+"_")
		})
	}
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(known, name) || !strings.HasPrefix(name, ourPrefix) {
			continue
		}
		full := ourPrefix + "OIDC_" + strings.TrimPrefix(name, ourPrefix) // as the flag suggests
		if slices.Contains(known, full) {
			unknown = append(unknown, name+" is not a setting: did you mean "+full+"?")
		} else if _, near := NearestName(name, known); near || sharesGroup(name) {
			unknown = append(unknown, name+" is not a setting: "+suggestion(name, known))
		}
	}
	return unknown
}
