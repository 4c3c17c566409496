package register

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
)

// The keys of a file for apply are the flags of client add, api add and client allow: kong reads both,
// by the tags of the same structs.

// secretKeys are the keys for a secret of one's own.
type secretKeys struct {
	SecretFile string `name:"secret-file" placeholder:"FILE"`
	SecretHash string `name:"secret-hash" placeholder:"HASH"`
}

type clientKeys struct {
	ID   string `name:"id" help:"Client id."`
	Name string `name:"name" help:"Name that users see on the consent page; the id if not given."`
	clientOptions
	secretKeys
	JWKS string `name:"jwks" type:"document" placeholder:"JWKS"`
}

type apiKeys struct {
	URI  string `name:"uri" help:"URI of the API, in requests (resource) and tokens (aud)."`
	Name string `name:"name" help:"Name that users see on the consent page; the URI if not given."`
	apiOptions
	secretKeys
}

type allowanceKeys struct {
	URL string `name:"url" help:"https URL of a client's description, or of all below it if it ends in /*."`
	allowanceOptions
}

// section is a list of the file.
type section struct {
	name, kind string // kind as messages and the diff name it
	key        string // that identifies an entry
	keys       any    // the values of the last entry parsed
	flag       func(member string) string
	parser     *kong.Kong
	flags      map[string]*kong.Flag
	names      []string
}

// sections returns the lists of the file in the order in which they are written.
func sections() ([]*section, error) {
	all := []*section{
		{name: "clients", kind: clientKind.noun, key: "id", keys: &clientKeys{}, flag: clientFlag},
		{name: "apis", kind: apiKind.noun, key: "uri", keys: &apiKeys{}, flag: apiFlag},
		{name: "allowances", kind: allowanceKind.noun, key: "url", keys: &allowanceKeys{}, flag: allowanceKind.flag},
	}
	for _, s := range all {
		var err error
		s.parser, err = kong.New(s.keys, cli.Help(s.keys), kong.NoDefaultHelp(),
			kong.NamedMapper("document", decodeText))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		s.flags = map[string]*kong.Flag{}
		for _, flag := range s.parser.Model.Flags {
			s.flags[flag.Name] = flag
			s.names = append(s.names, flag.Name)
		}
	}
	return all, nil
}

// position is a line of a file.
type position struct {
	file string
	line int
}

func (p position) compare(o position) int {
	return cmp.Or(strings.Compare(p.file, o.file), p.line-o.line)
}

// entry is one client, API or allowance of the file: for each key the texts as on a command line.
type entry struct {
	*section
	position
	id     string
	values map[string][]string
	lines  map[string][]int // of the values; the first is that of the key
}

func (e *entry) title() string { return strings.TrimSpace(e.kind + " " + e.id) }

// at returns the position of a value of a key, or of the key, or of the entry.
func (e *entry) at(key, value string) position {
	lines := e.lines[key]
	if i := e.index(key, value); i >= 0 && i+1 < len(lines) {
		return position{e.file, lines[i+1]}
	}
	if len(lines) > 0 {
		return position{e.file, lines[0]}
	}
	return e.position
}

// index returns the place of a value, which may be the part before = of one.
func (e *entry) index(key, value string) int {
	return slices.IndexFunc(e.values[key], func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return value != "" && (s == value || name == value)
	})
}

// parse reads the values into the keys of the section.
func (e *entry) parse() error {
	var args []string
	for _, key := range slices.Sorted(maps.Keys(e.values)) {
		for _, value := range e.values[key] {
			args = append(args, "--"+key+"="+value)
		}
	}
	_, err := e.parser.Parse(args)
	return err
}

// applyFile is what the files say, and what is wrong in them.
type applyFile struct {
	entries  []*entry
	present  map[string]bool // sections, also empty ones
	settings account.SettingsChange
	lines    map[string]position // of the settings
	faults   []fault
	sections []*section
	contents map[string]content // of the files that entries name
	ctx      context.Context
	nodes    int // that were read
}

// content is what a file had when it was read.
type content struct {
	text []byte
	err  error
}

// load reads the files that the entries name. No transaction may wait for a file: while it is open, nobody writes.
func (f *applyFile) load(p *cli.Program) {
	f.contents = map[string]content{}
	for _, e := range f.entries {
		for _, key := range []string{"jwks-file", "logo-file", "secret-file"} {
			for _, file := range e.values[key] {
				if _, read := f.contents[file]; !read && file != "" {
					text, err := p.ReadOwned(file, account.MaxLogo+1) // the largest of their limits
					f.contents[file] = content{text, err}
				}
			}
		}
	}
}

// content returns what load has read of a file; a fileReader.
func (f *applyFile) content(file string, limit int64) ([]byte, error) {
	c := f.contents[file]
	return c.text[:min(int64(len(c.text)), limit)], c.err
}

type fault struct {
	position
	text string
}

// faultsError names everything that is wrong, one line each, in the order of the file.
type faultsError []fault

func (all faultsError) Error() string {
	var lines []string
	for _, f := range all {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text))
	}
	return strings.Join(lines, "\n")
}

// keptOrFlag matches what inKeys leaves as it is, a value in quotes or a command, and flags.
var keptOrFlag = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\bcairn [^:;,]*|--([a-z-]+)`)

// inKeys returns the text of a rule of the command line, with keys in the place of their flags.
func (s *section) inKeys(text string) string {
	return keptOrFlag.ReplaceAllStringFunc(text, func(found string) string {
		if name := strings.TrimPrefix(found, "--"); s.flags[name] != nil {
			return name
		}
		return found
	})
}

// wrong adds a fault.
func (f *applyFile) wrong(at position, format string, args ...any) {
	n := fault{at, cli.Printable(strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))}
	if !slices.Contains(f.faults, n) {
		f.faults = append(f.faults, n)
	}
}

// err returns the faults, or nil.
func (f *applyFile) err() error {
	if len(f.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(f.faults, func(a, b fault) int { return a.compare(b.position) })
	return faultsError(f.faults)
}

// maxApplyFile limits a file for apply, in bytes.
const maxApplyFile = 8 << 20

// readApply reads a file, all .yaml, .yml and .json files of a folder, or standard input for -.
func readApply(p *cli.Program, path string) (*applyFile, error) {
	all, err := sections()
	if err != nil {
		return nil, err
	}
	f := &applyFile{
		present: map[string]bool{}, settings: account.SettingsChange{}, lines: map[string]position{}, sections: all,
		ctx: p.Ctx,
	}
	files := []string{path}
	if info, err := os.Stat(path); path != "-" && err == nil && info.IsDir() {
		if err := config.CheckWriters(path, info); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if files, err = applyFilesIn(path); err != nil {
			return nil, err
		}
	}
	for _, name := range files {
		text, err := p.ReadOwned(name, maxApplyFile)
		if err != nil {
			return nil, err
		}
		if len(text) == maxApplyFile {
			return nil, fmt.Errorf("%s: larger than 8 MiB: give a folder of smaller files", name)
		}
		f.read(name, text)
	}
	if err := p.Ctx.Err(); err != nil {
		return nil, err
	}
	if f.nodes > maxApplyNodes || len(f.faults) >= maxApplyFaults { // the rest was not read
		return nil, f.err()
	}
	if len(f.present)+len(f.faults) == 0 {
		return nil, fmt.Errorf("%s: it says nothing: write clients, apis, allowances or settings", path)
	}
	return f, nil
}

// applyFilesIn returns the files of a folder by their names. Those that begin with a dot are not of the
// operator, but of editors and mounts.
func applyFilesIn(folder string) (files []string, err error) {
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		known := slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(f.Name()))
		if known && !f.IsDir() && !strings.HasPrefix(f.Name(), ".") {
			files = append(files, filepath.Join(folder, f.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: the folder has no .yaml, .yml or .json file", folder)
	}
	return files, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): `)

// read reads the documents of one file.
func (f *applyFile) read(name string, text []byte) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		text = bytes.ReplaceAll(text, []byte("\t"), []byte(" ")) // JSON has tabs between values only, YAML none
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			at, reason := position{name, 1}, strings.TrimPrefix(err.Error(), "yaml: ")
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				at.line, _ = strconv.Atoi(m[1])
				if reason = strings.TrimPrefix(err.Error(), m[0]); strings.HasPrefix(reason, "did not find") {
					at.line++ // the parser counts these from 0
				}
			}
			f.wrong(at, "not valid YAML or JSON: %s", reason)
			return
		}
		if len(document.Content) == 0 || document.Content[0].ShortTag() == "!!null" {
			continue
		}
		f.document(name, document.Content[0])
	}
}

// each calls do with the keys and values of a mapping.
func (f *applyFile) each(
	file string, node *yaml.Node, what string, do func(key string, at position, value *yaml.Node),
) {
	if node = resolved(node); node.Kind != yaml.MappingNode {
		f.wrong(position{file, node.Line}, "%s: write keys with values, as name: value", what)
		return
	}
	node = f.merged(file, node, 0)
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content) && f.reads(file, node, 1); i += 2 {
		key := node.Content[i]
		if before := seen[key.Value]; before > 0 {
			f.wrong(position{file, key.Line}, "%s: %s is at line %d already: remove one", what, key.Value, before)
			continue
		}
		seen[key.Value] = key.Line
		do(key.Value, position{file, key.Line}, resolved(node.Content[i+1]))
	}
}

func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// Bounds of the files: keys and values, those of an alias each time, and mistakes that are told at once.
const (
	maxApplyNodes  = 1_000_000
	maxApplyFaults = 1_000
)

// reads counts nodes and reports whether reading goes on: an alias of a few bytes stands for as much as its anchor.
func (f *applyFile) reads(file string, node *yaml.Node, n int) bool {
	if f.nodes > maxApplyNodes || f.ctx.Err() != nil {
		return false
	}
	if f.nodes += n; f.nodes > maxApplyNodes {
		f.wrong(position{file, node.Line}, "here the keys and values become more than 1,000,000: "+
			"write less, or fewer aliases (*) and merge keys (<<)")
		return false
	}
	return len(f.faults) < maxApplyFaults
}

// merged returns a mapping with the keys of those that its merge keys (<<) name and that are not its own.
func (f *applyFile) merged(file string, node *yaml.Node, depth int) *yaml.Node {
	out := *node
	out.Content = nil
	var from []*yaml.Node
	own := map[string]bool{}
	for i := 0; i+1 < len(node.Content) && f.reads(file, node, 1); i += 2 {
		switch value := resolved(node.Content[i+1]); {
		case node.Content[i].ShortTag() != "!!merge" || depth > 8: // an anchor may contain itself
			out.Content = append(out.Content, node.Content[i:i+2]...)
			own[node.Content[i].Value] = true
		case value.Kind == yaml.SequenceNode:
			from = append(from, value.Content...)
		default:
			from = append(from, value)
		}
	}
	for _, other := range from {
		if !f.reads(file, node, 1) {
			break
		}
		other = f.merged(file, resolved(other), depth+1)
		for i := 0; i+1 < len(other.Content); i += 2 {
			if key := other.Content[i].Value; !own[key] {
				own[key] = true
				out.Content = append(out.Content, other.Content[i:i+2]...)
			}
		}
	}
	return &out
}

// unknown adds the fault of a key that there is not, with the nearest one.
func (f *applyFile) unknown(at position, what, key string, known []string) {
	if best, near := config.NearestName(key, known); near {
		f.wrong(at, "%sthere is no key %q: did you mean %s?", what, key, best)
		return
	}
	f.wrong(at, "%sthere is no key %q: the keys are %s", what, key, strings.Join(known, ", "))
}

func (f *applyFile) document(file string, node *yaml.Node) {
	known := []string{"clients", "apis", "allowances", "settings"}
	f.each(file, node, "the file", func(key string, at position, value *yaml.Node) {
		i := slices.IndexFunc(f.sections, func(s *section) bool { return s.name == key })
		switch {
		case key == "$schema":
		case key == "settings":
			f.present[key] = true
			f.readSettings(file, value)
		case i < 0:
			f.unknown(at, "", key, known)
		case value.Kind == yaml.SequenceNode:
			f.present[key] = true
			for _, item := range value.Content {
				if !f.reads(file, item, 1) {
					break
				}
				f.entry(f.sections[i], file, item)
			}
		default:
			f.wrong(at, "%s: write a list, each entry with a - before its first key, or [] for none", key)
		}
	})
}

func (f *applyFile) readSettings(file string, node *yaml.Node) {
	var known []string
	for _, m := range account.SettingsMembers {
		known = append(known, m.Name)
	}
	f.each(file, node, "settings", func(key string, at position, value *yaml.Node) {
		name := strings.ReplaceAll(key, "-", "_")
		before, twice := f.lines[name]
		var v any
		switch {
		case !slices.Contains(known, name):
			f.unknown(at, "settings: ", key, known)
		case twice:
			f.wrong(at, "settings: %s is in %s, line %d, already: remove one", name, before.file, before.line)
		case value.ShortTag() == "!!null":
			f.wrong(at, "settings: %s: it is empty: write a value, or remove the line", name)
		case !asJSON(value, &v):
			f.wrong(at, "settings: %s: write a text, a number, true or false, a list, or names with texts", name)
		default:
			f.settings[name], f.lines[name] = v, at
		}
	})
}

// asJSON decodes a value and reports whether JSON has it. A date is a text.
func asJSON(node *yaml.Node, v *any) bool {
	for _, n := range append([]*yaml.Node{node}, node.Content...) {
		if n = resolved(n); n.ShortTag() == "!!timestamp" {
			n.Tag = "!!str"
		}
	}
	err := node.Decode(v)
	if err == nil {
		_, err = json.Marshal(*v)
	}
	return err == nil
}

// entry reads one entry of a list.
func (f *applyFile) entry(s *section, file string, node *yaml.Node) {
	e := &entry{
		section: s, position: position{file, node.Line}, values: map[string][]string{}, lines: map[string][]int{},
	}
	f.each(file, node, s.kind, func(key string, at position, value *yaml.Node) {
		flag := s.flags[key]
		if flag == nil {
			f.unknown(at, s.kind+": ", key, s.names)
			return
		}
		e.lines[key] = []int{at.line}
		if !f.reads(file, value, len(value.Content)) {
			return
		}
		values, lines, err := texts(s, flag, value)
		if err == nil && strings.HasSuffix(key, "-file") && values[0] != "" {
			if values[0] == "-" {
				err = errors.New("name a file: standard input is read once")
			} else if !filepath.IsAbs(values[0]) && file != "-" {
				values[0] = filepath.Join(filepath.Dir(file), values[0])
			}
		}
		if err != nil {
			f.wrong(at, "%s: %s", key, err)
			return
		}
		e.values[key], e.lines[key] = values, append(e.lines[key], lines...)
	})
	if id := e.values[s.key]; len(id) == 1 && id[0] != "" {
		e.id = id[0]
	} else if _, given := e.lines[s.key]; node.Kind == yaml.MappingNode && (!given || len(id) == 1) {
		f.wrong(e.at(s.key, ""), "the %s has no %s: add one", s.kind, s.key)
	}
	if twin := f.find(s, e.id); twin != nil {
		f.wrong(e.at(s.key, ""), "%s %s is in %s, line %d, already: remove one", s.kind, e.id, twin.file, twin.line)
		return
	}
	f.entries = append(f.entries, e)
	if e.parse() == nil {
		return
	}
	for key, values := range e.values { // each on its own, to find each fault
		one := &entry{section: s, values: map[string][]string{key: values}}
		if err := one.parse(); err != nil {
			f.wrong(e.at(key, ""), "%s: %s", e.title(), s.inKeys(err.Error()))
			delete(e.values, key)
		}
	}
}

func (f *applyFile) find(s *section, id string) *entry {
	i := slices.IndexFunc(f.entries, func(e *entry) bool { return id != "" && e.section == s && e.id == id })
	if i < 0 {
		return nil
	}
	return f.entries[i]
}

// texts returns the value of a key as the texts of a flag, with their lines.
func texts(s *section, flag *kong.Flag, node *yaml.Node) (values []string, lines []int, err error) {
	switch {
	case node.ShortTag() == "!!null": // not the default, because the key was written on purpose
		return nil, nil, errors.New("it is empty: write a value, or remove the line")
	case flag.IsBool():
		if node.ShortTag() != "!!bool" {
			return nil, nil, errors.New("write true or false")
		}
		return []string{strings.ToLower(node.Value)}, []int{node.Line}, nil
	case flag.Tag.Type == "document" && node.Kind == yaml.MappingNode:
		var v any
		if err := node.Decode(&v); err != nil {
			return nil, nil, err
		}
		text, err := json.Marshal(v)
		return []string{string(text)}, []int{node.Line}, err
	case node.Kind == yaml.ScalarNode:
		return []string{node.Value}, []int{node.Line}, nil
	case !flag.IsSlice():
		return nil, nil, errors.New("write one value, in quotes if in doubt")
	case node.Kind == yaml.MappingNode && !strings.Contains(flag.PlaceHolder, "="):
		return nil, nil, errors.New("write a list of texts, as [a, b]")
	}
	for i, item := range node.Content {
		if item = resolved(item); item.Kind != yaml.ScalarNode {
			return nil, nil, errors.New("write a list of texts, as [a, b]")
		}
		if node.Kind == yaml.SequenceNode {
			values, lines = append(values, item.Value), append(lines, item.Line)
		} else if i%2 == 1 { // the values of a mapping
			values, lines = append(values, node.Content[i-1].Value+"="+item.Value), append(lines, item.Line)
		}
	}
	if len(values) == 0 && s.kind == "client" {
		return []string{""}, []int{node.Line}, nil // an empty list, which is not the default for all
	}
	return values, lines, nil
}

// decodeText is the mapper of a text that a file may write as a mapping.
var decodeText = kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("text")
	if err == nil {
		target.SetString(token.String())
	}
	return err
})
