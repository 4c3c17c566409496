package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one key of a config file. value is a string, a boolean or a list of strings ([]any, as kong wants it);
// anything else leaves kind to say what was found instead.
type entry struct {
	key   string
	line  int // 0: not known
	value any
	kind  string
}

// loadConfigFile reads a flat mapping of settings, YAML or JSON. source names the flag or variable that gave the path;
// named tells that there was one. Every error names the file and the key and no value, because a database URL holds a
// password. Relative paths are taken from the file's folder.
func loadConfigFile(path, source string, named bool) (map[string]any, error) {
	text, info, err := readFile(path, maxTextFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	// Whoever writes this file chooses the database and the keys.
	if openTo(info.Mode(), 0o022) {
		return nil, fmt.Errorf("%s %s: other users of the machine may write it (mode %04o): run chmod go-w %s", source, path, info.Mode().Perm(), shellQuote(path))
	}
	if !named {
		// A link is its owner's, whosever file it leads to: relative paths begin where it lies.
		link, err := os.Lstat(path)
		if err != nil {
			return nil, fmt.Errorf("%s: cannot be read: %w", source, err)
		}
		for _, uid := range []int{owner(info), owner(link)} {
			if uid > 0 && uid != os.Geteuid() {
				return nil, fmt.Errorf("%s %s: it belongs to another user (uid %d): run the command as that user, or name the file with --config", source, path, uid)
			}
		}
	}
	parse := parseYAML
	if isJSON(path, text) {
		parse = parseJSON
	}
	entries, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: write one setting a line, as listen: 127.0.0.1:4040", source, path, err)
	}
	values := map[string]any{}
	for _, e := range entries {
		where := fmt.Sprintf("%s %s:", source, path)
		if e.line > 0 {
			where = fmt.Sprintf("%s line %d:", where, e.line)
		}
		s, known := settingNamed(e.key)
		_, twice := values[e.key]
		_, isList := e.value.([]any)
		truth, isBool := e.value.(bool)
		switch {
		case !known:
			return nil, fmt.Errorf("%s unknown key %q: %s", where, e.key, keySuggestion(e.key))
		case twice:
			return nil, fmt.Errorf("%s key %q is there twice: remove one", where, e.key)
		case isBool && s.bool:
			values[e.key] = truth
			continue
		case s.bool:
			return nil, fmt.Errorf("%s key %q is %s: write true or false", where, e.key, cmp.Or(e.kind, "not a boolean"))
		case (e.value == nil || isBool) && s.list:
			return nil, fmt.Errorf("%s key %q is %s: write a list of strings, as [a, b]", where, e.key, e.kind)
		case e.value == nil || isBool:
			return nil, fmt.Errorf("%s key %q is %s: write a string, in quotes if in doubt", where, e.key, e.kind)
		case isList && !s.list:
			return nil, fmt.Errorf("%s key %q is a list: write one string", where, e.key)
		}
		if text, ok := e.value.(string); ok && s.list && s.path {
			e.value = fields(text)
		}
		if s.path {
			e.value = relativeTo(filepath.Dir(path), e.value)
		}
		values[e.key] = e.value
	}
	if dsn, _ := values["database"].(string); hasPassword(dsn) && openTo(info.Mode(), 0o007) {
		return nil, fmt.Errorf("%s %s: it holds the database's password and every user of the machine can read it (mode %04o): run chmod o= %s",
			source, path, info.Mode().Perm(), shellQuote(path))
	}
	return values, nil
}

// fields splits the other notation of a list, one string with commas.
func fields(text string) []any {
	var list []any
	for item := range strings.SplitSeq(text, ",") {
		list = append(list, item)
	}
	return list
}

// relativeTo takes a path, or a list of paths, from a folder. A URL is no path.
func relativeTo(folder string, value any) any {
	switch v := value.(type) {
	case string:
		if v != "" && !filepath.IsAbs(v) && !strings.Contains(v, "://") {
			return filepath.Join(folder, v)
		}
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = relativeTo(folder, strings.TrimSpace(item.(string)))
		}
		return out
	}
	return value
}

// WriteConfig makes the config file of an installation with the settings that init is told: issuer, listen, database
// and private-key-file, if there is one. Paths are written relative to the file's folder where they lie in it. It
// never overwrites: an existing path is an error that wraps os.ErrExist. Only its owner can read it.
func WriteConfig(path string, s Settings) error {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	doc := &yaml.Node{Kind: yaml.MappingNode, HeadComment: "Settings of this installation, found by every command that runs in this folder.\n" +
		"A key is the name of a flag of cairn serve; relative paths are relative to this file."}
	for _, e := range []struct{ key, value string }{
		{"issuer", s.Issuer}, {"listen", s.Listen}, {"database", s.Database}, {"private-key-file", s.PrivateKeyFile},
	} {
		value := e.value
		if setting, _ := settingNamed(e.key); setting.path && value != "" && !strings.Contains(value, "://") {
			if value, err = pathFrom(folder, value); err != nil {
				return fmt.Errorf("%s: %w", e.key, err)
			}
		}
		if value != "" {
			doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.key}, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value})
		}
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return createFile(path, text)
}

// pathFrom writes a path relative to a folder when it is in it, else in full.
func pathFrom(folder, path string) (string, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if short, err := filepath.Rel(folder, full); err == nil && filepath.IsLocal(short) {
		return short, nil
	}
	return full, nil
}

func keySuggestion(key string) string {
	if strings.Contains(plain(key), "secret") {
		return "a secret is never in this file, set " + secretVariable + " or " + secretFileVariable
	}
	var names []string
	for _, s := range catalog() {
		names = append(names, s.flag)
	}
	return suggestion(key, names)
}

// isJSON goes by the extension, and by the first character where that says nothing.
func isJSON(path string, text []byte) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}

// parseYAML walks the nodes itself: decoding into a map would turn 4040 and true into numbers and booleans, and
// merging and tags have no place in a flat file.
func parseYAML(text []byte) ([]entry, error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlError(err)
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is a second document in it")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping of keys to values")
	}
	var all []entry
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		e := entry{key: key.Value, line: key.Line}
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		switch {
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!str":
			e.value = value.Value
		case value.Kind == yaml.SequenceNode:
			e.value, e.kind = yamlStrings(value)
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!bool":
			e.value, e.kind = strings.EqualFold(value.Value, "true"), yamlKind(value)
		default:
			e.kind = yamlKind(value)
		}
		all = append(all, e)
	}
	return all, nil
}

// yamlError keeps the parser's text, which names the line, except where it quotes the file.
func yamlError(err error) error {
	if strings.Contains(err.Error(), "anchor") {
		return errors.New("a value begins with * and is not in quotes")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

func yamlStrings(node *yaml.Node) (any, string) {
	list := []any{}
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
			return nil, "a list that holds " + yamlKind(item)
		}
		list = append(list, item.Value)
	}
	return list, ""
}

func yamlKind(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.ShortTag() == "!!null":
		return "empty"
	case node.ShortTag() == "!!bool":
		return "a boolean"
	case node.ShortTag() == "!!int" || node.ShortTag() == "!!float":
		return "a number"
	}
	return "not a string"
}

// parseJSON reads the object token by token, because decoding into a map forgets duplicate keys.
func parseJSON(text []byte) ([]entry, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var all []entry
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, jsonError(text, dec.InputOffset())
		}
		e := entry{key: t.(string), line: lineAt(text, dec.InputOffset())}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, jsonError(text, dec.InputOffset())
		}
		e.value, e.kind = jsonStrings(value)
		all = append(all, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, jsonError(text, dec.InputOffset())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return all, nil
}

func jsonStrings(value any) (any, string) {
	switch v := value.(type) {
	case string:
		return v, ""
	case []any:
		for _, item := range v {
			if _, ok := item.(string); !ok {
				_, kind := jsonStrings(item)
				return nil, "a list that holds " + strings.TrimSpace(kind)
			}
		}
		return v, ""
	case nil:
		return nil, "empty"
	case bool:
		return v, "a boolean"
	case float64:
		return nil, "a number"
	}
	return nil, "an object"
}

// jsonError names the line only: the decoder's own text quotes the file.
func jsonError(text []byte, offset int64) error {
	return fmt.Errorf("line %d is not proper JSON", lineAt(text, offset))
}

func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}
