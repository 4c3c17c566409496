package register

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type ExportCommand struct {
	Clients exportClientsCommand `cmd:"" reads:""`
}

type exportClientsCommand struct {
	cli.DatabaseFlags
}

// field is a key of the file for apply with its value: a text, a switch, a number, a list or texts by name.
type field struct {
	key   string
	value any
}

// Run prints the file. Secrets are in it as their hashes; pictures are not in it.
func (c *exportClientsCommand) Run(p *cli.Program) error {
	return c.WithStore(p, func(st *store.Store) error {
		all, err := readAll(p.Ctx, st)
		if err != nil {
			return err
		}
		settings, err := st.Settings(p.Ctx)
		if err != nil {
			return err
		}
		clients := slices.DeleteFunc(all.clients, func(c *provider.Client) bool { return c.Document })
		file := []field{
			{"clients", entriesOf(clientKind, clients)}, {"apis", entriesOf(apiKind, all.apis)},
			{"allowances", entriesOf(allowanceKind, all.allowances)}, {"settings", changedSettings(settings)},
		}
		file = slices.DeleteFunc(file, func(f field) bool {
			return f.key != "clients" && reflect.ValueOf(f.value).Len() == 0
		})
		node, err := nodeOf(file)
		if err != nil {
			return err
		}
		e := yaml.NewEncoder(p.Stdout)
		e.SetIndent(2)
		return e.Encode(node)
	})
}

// entriesOf returns the entries of a list, with the hash of the newest secret.
func entriesOf[T registration](k kind[T], all []*T) (entries [][]field) {
	for _, one := range all {
		entry := k.fields(one)
		if secrets := k.of(one).secrets; secrets != nil && len(*secrets) > 0 {
			entry = append(entry, field{"secret-hash", (*secrets)[0].HashText()})
		}
		entries = append(entries, entry)
	}
	return entries
}

// nodeOf returns the YAML of a value, in the order of the fields.
func nodeOf(value any) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	var parts []any
	switch v := value.(type) {
	case []field:
		for _, f := range v {
			parts = append(parts, f.key, f.value)
		}
	case [][]field:
		node.Kind = yaml.SequenceNode
		for _, entry := range v {
			parts = append(parts, entry)
		}
	default:
		return node, node.Encode(value)
	}
	for _, part := range parts {
		of, err := nodeOf(part)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, of)
	}
	return node, nil
}

// clientFields returns what differs from a new client, as the keys of clientKeys.
func clientFields(c *provider.Client) []field {
	other := map[string][]field{"Public": nil, "LogoFile": nil, "JWKSFile": nil}
	if c.IsPublic() {
		other["Public"], other["AuthMethod"] = []field{{"public", true}}, nil
	}
	if len(c.JWKS) > 0 {
		other["JWKSFile"] = []field{{"jwks", string(c.JWKS)}}
	}
	fresh := provider.NewClient(c.ID, c.Name, c.CreatedAt)
	return append([]field{{"id", c.ID}, {"name", c.Name}}, changedFields[clientOptions](fresh, c, other)...)
}

// apiFields returns what differs from a new API, as the keys of apiKeys.
func apiFields(a *provider.API) []field {
	other := map[string][]field{"Token": nil}
	if a.Opaque {
		other["Token"] = []field{{"token", "opaque"}}
	}
	fresh, _ := provider.NewAPI(a.URI, a.Name, a.CreatedAt)
	return append([]field{{"uri", a.URI}, {"name", a.Name}}, changedFields[apiOptions](fresh, a, other)...)
}

// changedFields returns the members of a registration that the flags set and that differ from a new one's; other has
// what stands in the place of some.
func changedFields[Flags any](fresh, v any, other map[string][]field) (out []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Flags]()) {
		if instead, ok := other[f.Name]; ok {
			out = append(out, instead...)
			continue
		}
		was, is := reflect.ValueOf(fresh).Elem().FieldByName(f.Name), reflect.ValueOf(v).Elem().FieldByName(f.Name)
		same := is.Kind() == reflect.Slice && was.Len()+is.Len() == 0
		if !same && !reflect.DeepEqual(was.Interface(), is.Interface()) {
			out = append(out, field{flagName(f), written(is)})
		}
	}
	return out
}

// written returns a value as a file has it. A list of another type than text has to write its
// entries as their flag reads them.
func written(v reflect.Value) any {
	switch of := v.Interface().(type) {
	case string, bool, []string:
		return of
	case time.Duration:
		return cli.Period(of).String()
	case []provider.APIScope:
		var list []string
		for _, s := range of {
			list = append(list, s.Name+"="+s.Sentence)
		}
		return list
	}
	if v.Kind() == reflect.Slice {
		list := []string{}
		for i := range v.Len() {
			list = append(list, fmt.Sprint(written(v.Index(i))))
		}
		return list
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v.Interface()) // of a fmt.Stringer
}

// allowanceFields returns an allowance as allowanceKeys has it.
func allowanceFields(a *provider.Allowance) []field {
	out := []field{{"url", a.URL}, {"scope", a.Scopes}}
	if len(a.APIs) > 0 {
		out = append(out, field{"api", a.APIs})
	}
	return out
}

func settingFields(v account.Settings) (out []field) {
	for _, m := range account.SettingsMembers {
		value := m.Value(v)
		if texts, ok := value.(map[string]string); ok {
			value = settingLines(texts)
		}
		out = append(out, field{m.Name, value})
	}
	return out
}

// changedSettings returns the settings that differ from those of a new installation.
func changedSettings(v account.Settings) (out []field) {
	fresh := account.DefaultSettings()
	for _, m := range account.SettingsMembers {
		is := m.Value(v)
		if texts, ok := is.(map[string]string); ok { // each on its own: others are unchanged
			texts = maps.Clone(texts)
			maps.DeleteFunc(texts, func(name, text string) bool { return fresh.FlagDescriptions[name] == text })
			if is = texts; len(texts) == 0 {
				continue
			}
		}
		if !reflect.DeepEqual(is, m.Value(fresh)) {
			out = append(out, field{m.Name, is})
		}
	}
	return out
}

// printApplySchema prints the JSON Schema of the file for apply, from the structs that read it.
func printApplySchema(p *cli.Program) error {
	all, err := sections()
	if err != nil {
		return err
	}
	type object = map[string]any
	text := object{"type": "string"}
	list := func(of object) object { return object{"type": "array", "items": of} }
	members := object{"$schema": text}
	for _, s := range all {
		keys := object{}
		for name, flag := range s.flags {
			of := object{"type": "string"}
			switch {
			case flag.IsBool():
				of = object{"type": "boolean"}
			case flag.Enum != "":
				of["enum"] = strings.Split(flag.Enum, ",")
			case flag.IsSlice() && strings.Contains(flag.PlaceHolder, "="):
				of = object{"anyOf": []any{text, list(text), object{"type": "object", "additionalProperties": text}}}
			case flag.IsSlice():
				of = object{"anyOf": []any{text, list(text)}}
			case flag.Tag.Type == "document":
				of["type"] = []string{"string", "object"}
			}
			of["description"] = flag.Help
			keys[name] = of
		}
		members[s.name] = list(object{
			"type": "object", "additionalProperties": false, "properties": keys, "required": []string{s.key},
		})
	}
	settings := object{}
	for _, m := range account.SettingsMembers {
		of := object{"type": "string"}
		switch m.Value(account.DefaultSettings()).(type) {
		case int:
			of = object{"type": "integer"}
		case bool:
			of = object{"type": "boolean"}
		case []string:
			of = list(text)
		case map[string]string:
			of = object{"type": "object", "additionalProperties": text}
		}
		of["description"] = m.Help
		settings[m.Name] = of
	}
	members["settings"] = object{"type": "object", "additionalProperties": false, "properties": settings}
	return cli.WriteJSON(p.Stdout, object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A file for cairn apply",
		"type": "object", "additionalProperties": false, "properties": members,
	})
}
