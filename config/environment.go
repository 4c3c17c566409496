package config

import (
	"slices"
	"strings"
)

// Environment is where values come from besides flags: the process environment, the env-file and the config file.
// It is built from a copy of the environment and never changes that of the process; it serves one parser, and holds
// the values of the two files only after kong has parsed.
type Environment struct {
	process map[string]string
	file    map[string]string // of --env-file
	config  map[string]any    // of --config: string or []any of strings, by the flag's name
}

// NewEnvironment takes the environment as os.Environ writes it, NAME=VALUE.
func NewEnvironment(environ []string) *Environment {
	e := &Environment{process: map[string]string{}}
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
