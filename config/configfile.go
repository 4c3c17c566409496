package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// readConfig reads a flat mapping of settings in YAML (or JSON) as texts by flag. source is the
// flag or variable that gave the path; named reports whether there was one. Every error names the
// file and the key but no value, because a database URL contains a password. Relative paths are
// relative to the file's folder.
func readConfig(path, source string, named bool) (map[string]string, error) {
	where := source + " " + path
	if !named {
		if err := checkFound(path); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
	}
	text, info, err := readFile(path, maxTextFile)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%s: %w: run the command as the user of the service, and give the file to that user "+
			"with chown", source, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	// Whoever can write this file chooses the database and the keys.
	if err := CheckWriters(path, info); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	values, unknown := parseConfig(text, filepath.Dir(path))
	if unknown != nil {
		unknown = fmt.Errorf("%s: %w", where, unknown)
	}
	if values == nil {
		return nil, unknown
	}
	if hasPassword(values["database"]) && OpenTo(info.Mode(), 0o007) {
		return nil, fmt.Errorf("%s: it holds the database's password and every user of the machine can read it "+
			"(mode %04o): run chmod o= %s",
			where, info.Mode().Perm(), shellQuote(path))
	}
	return values, unknown
}

// newerKeyError is about a key that no setting is like: a newer version of the program may have written it.
type newerKeyError struct {
	line int
	key  string
}

func (e newerKeyError) Error() string {
	return fmt.Sprintf("line %d: unknown key %q: %s", e.line, e.key, keySuggestion(e.key))
}

// checkFound refuses a file that was found, not named, unless it clearly belongs to the user of the
// program. The owner of a link counts, because relative paths start at the link. Reading a pipe
// would block.
func checkFound(path string) error {
	file, err := os.Stat(path)
	link, linkErr := os.Lstat(path)
	switch err := errors.Join(err, linkErr); {
	case err != nil:
		return fmt.Errorf("cannot be read: %w", err)
	case !file.Mode().IsRegular():
		return errors.New("it is not a regular file: remove it, or name another one with --config")
	}
	for _, uid := range []int{owner(file), owner(link)} {
		if uid > 0 && uid != os.Geteuid() {
			return fmt.Errorf("it belongs to another user (uid %d): run the command as that user, or name the file "+
				"with --config", uid)
		}
	}
	return nil
}

// parseConfig reads every scalar as it is written: 4040 and true are texts if the setting is a
// text. With a newerKeyError it also returns the values of the known keys.
func parseConfig(text []byte, folder string) (map[string]string, error) {
	const remedy = "write one setting a line, as listen: 127.0.0.1:4040"
	var nodes map[string]yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	err := dec.Decode(&nodes)
	var wrong *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return map[string]string{}, nil
	case errors.As(err, &wrong) && strings.Contains(wrong.Errors[0], "already defined"):
		return nil, fmt.Errorf("%s: remove one", wrong.Errors[0])
	case errors.As(err, &wrong): // the parser's error quotes the file
		return nil, errors.New("it is not a mapping of keys to values: " + remedy)
	case err != nil && strings.Contains(err.Error(), "anchor"):
		return nil, errors.New("a value begins with * and is not in quotes: " + remedy)
	case err != nil:
		return nil, fmt.Errorf("%s: %s", strings.TrimPrefix(err.Error(), "yaml: "), remedy)
	case !errors.Is(dec.Decode(&yaml.Node{}), io.EOF):
		return nil, errors.New("something follows the settings: " + remedy)
	}
	values := map[string]string{}
	var unknown error
	for _, key := range slices.SortedFunc(maps.Keys(nodes),
		func(a, b string) int { return nodes[a].Line - nodes[b].Line }) {
		node := nodes[key]
		s, known := settingNamed(key)
		if !known {
			err := newerKeyError{node.Line, key}
			if isMistyped(key) {
				return nil, errors.New(err.Error())
			}
			unknown = cmp.Or(unknown, error(err))
			continue
		}
		if values[key], err = s.text(&node, folder); err != nil {
			return nil, fmt.Errorf("line %d: key %q: %w", node.Line, key, err)
		}
	}
	return values, unknown
}

// isMistyped reports whether a key is one of this version in another spelling, or a secret.
func isMistyped(key string) bool {
	_, near := NearestName(key, settingNames())
	return near || strings.Contains(strings.ToLower(key), "secret")
}

func settingNames() (names []string) {
	for _, s := range table() {
		names = append(names, s.flag)
	}
	return names
}

// text converts a YAML node to the form that kong parses. A list becomes one text with commas.
func (s setting) text(node *yaml.Node, folder string) (string, error) {
	var list []string
	var one string
	switch {
	case node.ShortTag() == "!!null": // not the default, because the key was written on purpose
		return "", errors.New("it is empty: write a value, or remove the line")
	case s.bool:
		var b bool
		if node.Decode(&b) != nil {
			return "", errors.New("it is not a boolean: write true or false")
		}
		return strconv.FormatBool(b), nil
	case s.list && node.Decode(&one) == nil:
		list = kong.SplitEscaped(one, ',')
	case s.list && node.Decode(&list) != nil:
		return "", errors.New("it is not a list of texts: write [a, b]")
	case !s.list:
		if node.Decode(&one) != nil {
			return "", errors.New("it is not one text: write a single value, in quotes if in doubt")
		}
		list = []string{one}
	}
	for i, item := range list {
		// A relative path is relative to the file. A URL is no path.
		if item = strings.TrimSpace(item); s.path && item != "" && !filepath.IsAbs(item) &&
			!strings.Contains(item, "://") && !strings.HasPrefix(item, credentials) {
			list[i] = filepath.Join(folder, item)
		}
	}
	if !s.list {
		return list[0], nil
	}
	return kong.JoinEscaped(list, ','), nil
}

func keySuggestion(key string) string {
	if strings.Contains(strings.ToLower(key), "secret") {
		return "a secret is never in this file, set " + secretVariable + " or " + secretFileVariable
	}
	return suggestion(key, settingNames())
}

// WriteConfig creates the config file of an installation with the settings of init: issuer, listen,
// database, private-key-file and data-key-file. Paths below the file's folder are written relative
// to it. It never overwrites: an existing path is an error that wraps os.ErrExist. Only the owner
// can read the file.
func WriteConfig(path string, s Settings) error {
	var err error
	for _, file := range []*string{&s.Database, &s.PrivateKeyFile, &s.DataKeyFile} {
		if *file, err = pathIn(path, *file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	text, err := yaml.Marshal(struct {
		Issuer         string `yaml:"issuer"`
		Listen         string `yaml:"listen"`
		Database       string `yaml:"database"`
		PrivateKeyFile string `yaml:"private-key-file,omitempty"`
		DataKeyFile    string `yaml:"data-key-file,omitempty"`
	}{s.Issuer, s.Listen, s.Database, s.PrivateKeyFile, s.DataKeyFile})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return createFile(path,
		append([]byte("# Settings of this installation, found by every command that runs in this folder.\n"+
			"# A key is the name of a flag of cairn serve; relative paths are relative to this file.\n"), text...))
}

// pathIn returns a path as the config file has it: relative if it is below the file's folder. A URL
// is no path.
func pathIn(config, path string) (string, error) {
	if path == "" || strings.Contains(path, "://") {
		return path, nil
	}
	folder, err := filepath.Abs(filepath.Dir(config))
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if short, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(short) {
		return short, nil
	}
	return path, nil
}

// AddPath adds a setting that is a path to a config file without that setting. The rest of the file
// does not change.
func AddPath(config, name, path string) error {
	value, err := pathIn(config, path)
	if err != nil {
		return err
	}
	line, err := yaml.Marshal(map[string]string{name: value})
	if err != nil {
		return err
	}
	text, _, err := readFile(config, maxTextFile)
	if err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = append([]byte("\n"), line...)
	}
	// The file may be JSON, or have the setting already.
	if _, err := parseConfig(append(text, line...), filepath.Dir(config)); err != nil {
		return err
	}
	f, err := os.OpenFile(config, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Sync(), f.Close())
}
