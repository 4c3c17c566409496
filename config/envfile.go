package config

import (
	"fmt"
	"slices"
	"strings"
)

// loadEnvFile reads the file of --env-file. The names that exist in known or in the settings are the program's own;
// an unknown SERVICE_ name is a slip and refused, any other name belongs to the application that shares the file.
func (e *Environment) loadEnvFile(path string, known []string) error {
	const remedy = "write NAME=VALUE, one a line, with quotes around a value with blanks"
	text, info, err := readFile(path, maxTextFile)
	if err != nil {
		return fmt.Errorf("--env-file: %w", err)
	}
	pairs, err := parseEnvFile(string(text))
	if err != nil {
		return fmt.Errorf("--env-file %s: %w: %s", path, err, remedy)
	}
	known = append(knownVariables(), known...)
	slices.Sort(known)
	known = slices.Compact(known)
	values := map[string]string{}
	for _, p := range pairs {
		if !strings.HasPrefix(p.name, ourPrefix) {
			continue
		}
		if !slices.Contains(known, p.name) {
			return fmt.Errorf("--env-file %s: line %d: unknown name %s: %s", path, p.line, p.name, suggestion(p.name, known))
		}
		if _, twice := values[p.name]; twice {
			return fmt.Errorf("--env-file %s: line %d: %s is there twice: remove one", path, p.line, p.name)
		}
		if strings.Contains(p.value, "\n") {
			return fmt.Errorf("--env-file %s: line %d: %s goes over several lines: write it on one", path, p.line, p.name)
		}
		values[p.name] = p.value
	}
	// The group may read the file: it is shared with the activity application, which runs as another user.
	if values[secretVariable] != "" && openTo(info.Mode(), 0o007) {
		return fmt.Errorf("--env-file %s: it holds %s and every user of the machine can read it (mode %04o): run chmod o= %s",
			path, secretVariable, info.Mode().Perm(), shellQuote(path))
	}
	e.file = values
	return nil
}

// pair is one assignment of an env-file.
type pair struct {
	name, value string
	line        int
}

// parseEnvFile reads NAME=VALUE lines with # comments, an optional export and optional quotes. Nothing is expanded.
// In double quotes \" and \\ stand for the character; a quoted value may go over lines. Errors name the line and
// never its text, which may be a secret.
func parseEnvFile(text string) ([]pair, error) {
	rest := strings.TrimPrefix(text, "\ufeff")
	var all []pair
	for line := 1; rest != ""; line++ {
		from := rest
		var raw string
		raw, rest, _ = strings.Cut(rest, "\n")
		raw = strings.TrimSpace(raw)
		if raw == "" || raw[0] == '#' {
			continue
		}
		if after, ok := strings.CutPrefix(raw, "export "); ok {
			raw = strings.TrimSpace(after)
		}
		name, value, ok := strings.Cut(raw, "=")
		if !ok || !isVariableName(name) {
			return nil, fmt.Errorf("line %d is not NAME=VALUE", line)
		}
		p := pair{name: name, value: strings.TrimSpace(value), line: line}
		if p.value != "" && (p.value[0] == '"' || p.value[0] == '\'') {
			_, quoted, _ := strings.Cut(from, "=")
			var tail string
			if p.value, tail, ok = unquote(strings.TrimSpace(quoted)); !ok {
				return nil, fmt.Errorf("line %d opens a quote that is never closed", line)
			}
			line += strings.Count(p.value, "\n")
			tail, rest, _ = strings.Cut(tail, "\n")
			if tail = strings.TrimSpace(tail); tail != "" && tail[0] != '#' {
				return nil, fmt.Errorf("line %d goes on after the closing quote", line)
			}
		} else if strings.HasPrefix(name, ourPrefix) && strings.Contains(p.value, " #") {
			return nil, fmt.Errorf("line %d has a # that readers of such files take in different ways", line)
		}
		all = append(all, p)
	}
	return all, nil
}

// unquote takes a text that begins with a quote and returns what is in the quotes and what follows them.
func unquote(s string) (value, tail string, closed bool) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b.String(), s[i+1:], true
		case quote == '"' && s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

func isVariableName(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && allIn(strings.ToLower(s), lowerDigits+"_")
}
