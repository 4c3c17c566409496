package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one key of a config file. value is a string or a list of strings ([]any, as kong wants it); anything else
// leaves kind to say what was found instead.
type entry struct {
	key   string
	line  int // 0: not known
	value any
	kind  string
}

// loadConfigFile reads a flat mapping of settings, YAML or JSON. source names the flag or variable that gave the path.
// Every error names the file and the key and no value, because a database URL holds a password.
func loadConfigFile(path, source string) (map[string]any, error) {
	text, _, err := readFile(path, maxTextFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
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
		switch {
		case !known:
			return nil, fmt.Errorf("%s unknown key %q: %s", where, e.key, keySuggestion(e.key))
		case twice:
			return nil, fmt.Errorf("%s key %q is there twice: remove one", where, e.key)
		case e.value == nil && s.list:
			return nil, fmt.Errorf("%s key %q is %s: write a list of strings, as [a, b]", where, e.key, e.kind)
		case e.value == nil:
			return nil, fmt.Errorf("%s key %q is %s: write a string, in quotes if in doubt", where, e.key, e.kind)
		case isList && !s.list:
			return nil, fmt.Errorf("%s key %q is a list: write one string", where, e.key)
		}
		values[e.key] = e.value
	}
	return values, nil
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
		return nil, "a boolean"
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
