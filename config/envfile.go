package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// readEnvFile reads the file of --env-file. It refuses an unknown SERVICE_ name as a typing error,
// and ignores other names, which belong to the application that shares the file. Errors name the
// line and never its text, which may be a secret.
func readEnvFile(path string) (map[string]string, error) {
	text, info, err := readFile(path, maxTextFile)
	if err != nil {
		return nil, fmt.Errorf("--env-file: %w", err)
	}
	// Its settings come before those of cairn.yaml.
	if err := CheckWriters(path, info); err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", path, err)
	}
	values, err := parseEnvFile(string(text))
	if err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", path, err)
	}
	// The group may read the file: it is shared with the activity application, which runs as another user.
	if values[secretVariable] != "" && OpenTo(info.Mode(), 0o007) {
		return nil, fmt.Errorf("--env-file %s: it holds %s and every user of the machine can read it (mode %04o): "+
			"run chmod o= %s",
			path, secretVariable, info.Mode().Perm(), shellQuote(path))
	}
	return values, nil
}

// parseEnvFile reads NAME=VALUE lines with # comments, an optional export and optional quotes; a
// quoted value may span lines. It accepts what systemd, docker and a shell read alike and refuses
// what they read differently, so that two programs never read two secrets from one file. It expands
// nothing; in double quotes \" and \\ mean the character. (godotenv, the usual library, expands
// $NAME, drops backslashes and everything after a #, and quotes the file in its errors.)
func parseEnvFile(text string) (map[string]string, error) {
	assignment := regexp.MustCompile(`^[ \t\r]*(?:#[^\n]*|(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=[ \t]*` +
		`(?:"((?:[^"\\]|\\[\s\S])*)"[ \t]*(?:#[^\n]*)?|'([^']*)'[ \t]*(?:#[^\n]*)?|([^"'\n][^\n]*)?))?[ \t\r]*(?:\n|$)`)
	values := map[string]string{}
	rest := strings.TrimPrefix(text, "\ufeff")
	for line := 1; rest != ""; {
		m := assignment.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("line %d is not NAME=VALUE, or goes on after a quote: write one a line, with "+
				"quotes around a value with blanks", line)
		}
		name, plain := m[1], strings.TrimSpace(m[4])
		value := plain + m[3] + strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[2])
		_, twice := values[name]
		switch {
		case !strings.HasPrefix(name, ourPrefix):
		case !slices.Contains(variables(), name):
			return nil, fmt.Errorf("line %d: unknown name %s: %s", line, name, suggestion(name, variables()))
		case twice:
			return nil, fmt.Errorf("line %d: %s is there twice: remove one", line, name)
		case strings.Contains(value, "\n"):
			return nil, fmt.Errorf("line %d: %s goes over several lines: write it on one", line, name)
		case plain != "" && (plain[0] == '#' || strings.Contains(plain, " #") || strings.Contains(plain, "\t#")):
			return nil, fmt.Errorf("line %d has a # that readers of such files take in different ways: put the "+
				"value in quotes", line)
		default:
			values[name] = value
		}
		line += strings.Count(m[0], "\n")
		rest = rest[len(m[0]):]
	}
	return values, nil
}
