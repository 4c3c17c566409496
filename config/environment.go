package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Environment is where values come from besides flags: the process environment, the env-file and the config file.
// It is built from a copy of the environment and never changes that of the process; it serves one parser, and holds
// the values of the two files only after kong has parsed.
type Environment struct {
	// Search are the places of the config file where none is named: the first that exists is read.
	Search []string

	process    map[string]string
	file       map[string]string // of --env-file
	config     map[string]any    // string, bool, or []any of strings, by the flag's name
	configFile string
	newConfig  string
}

// ConfigName is the name of the config file in the folder of an installation.
const ConfigName = "cairn.yaml"

// NewEnvironment takes the environment as os.Environ writes it, NAME=VALUE.
func NewEnvironment(environ []string) *Environment {
	e := &Environment{process: map[string]string{}, Search: []string{ConfigName, "/etc/cairn/" + ConfigName}}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			e.process[name] = value
		}
	}
	return e
}

// Lookup has the shape of os.LookupEnv: the process environment first, then the env-file. An empty value gives way
// to the next source; it is returned (with true) only when no source has more.
func (e *Environment) Lookup(name string) (string, bool) {
	value, inProcess := e.process[name]
	if value != "" {
		return value, true
	}
	value, inFile := e.file[name]
	return value, inProcess || inFile
}

// ConfigFile is the path of the config file that was read, "" for none.
func (e *Environment) ConfigFile() string { return e.configFile }

// NewConfig is the path of a config file that is named for a command that writes it, and does not exist; "" for none.
func (e *Environment) NewConfig() string { return e.newConfig }

// InConfig returns what the config file says of a setting that is one string, by the name of its flag. A path in it
// is already relative to the working folder.
func (e *Environment) InConfig(flag string) (string, bool) {
	value, ok := e.config[flag].(string)
	return value, ok
}

// Find returns the first of Search that exists, "" where none does. One that cannot be looked at counts: what is in
// it would matter.
func (e *Environment) Find() string {
	for _, path := range e.Search {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return path
		}
	}
	return ""
}

// LoadFound reads a config file that nobody has named. It has to belong to whoever runs the program, or to root: in
// a folder where others may write, a file of theirs would choose the database and the keys.
func (e *Environment) LoadFound(path string) error { return e.load(path, "config file", false) }

// ForgetConfig drops what was read of a config file.
func (e *Environment) ForgetConfig() { e.config, e.configFile = nil, "" }

func (e *Environment) load(path, source string, named bool) error {
	values, err := loadConfigFile(path, source, named)
	if err != nil {
		return err
	}
	e.config, e.configFile = values, path
	return nil
}

// knownVariables are the names this package reads.
func knownVariables() []string {
	names := []string{secretVariable, secretFileVariable}
	for _, s := range append(describeFiles(), catalog()...) {
		if s.env != "" {
			names = append(names, s.env)
		}
	}
	return names
}

// UnknownEnvironment returns a line for each variable that looks like one of the program's and is none, with the
// nearest real name, in the order given. These are warnings only: other programs may have variables of such names.
// Values are never in the lines.
func UnknownEnvironment(environ []string) []string {
	known := knownVariables()
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(known, name) || !strings.HasPrefix(name, ourPrefix) {
			continue
		}
		if sharesGroup(name, known) || nearest(name, known) != "" {
			unknown = append(unknown, name+" is not a setting: "+suggestion(name, known))
		}
	}
	return unknown
}

// sharesGroup tells whether a name begins like a group of ours, as SERVICE_OIDC_.
func sharesGroup(name string, known []string) bool {
	for _, k := range known {
		group, _, ok := strings.Cut(strings.TrimPrefix(k, ourPrefix), "_")
		if ok && strings.HasPrefix(name, ourPrefix+group+"_") {
			return true
		}
	}
	return false
}
