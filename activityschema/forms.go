package activityschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/qri-io/jsonschema"
)

// forms are the two forms of a document, each as a schema of its own: under
// the oneOf of the published schema the library would only say that none
// matched. That a document never matches both follows from the members that
// one form requires and the other forbids.
type forms struct {
	index, detail *jsonschema.Schema
}

// loadForms compiles the embedded schema on first use; it is safe for
// concurrent use, and so are the forms it returns.
var loadForms = sync.OnceValues(func() (*forms, error) {
	registerKeywords()
	var root struct {
		Defs map[string]map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(schemaJSON, &root); err != nil {
		return nil, fmt.Errorf("reading the embedded schema: %w", err)
	}
	index, err := compile("index", root.Defs)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema of index documents: %w", err)
	}
	detail, err := compile("detail", root.Defs)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema of detail documents: %w", err)
	}
	return &forms{index, detail}, nil
})

// compile builds the schema of one form and warms it up: the first validation
// registers every schema within, which must not happen twice at once.
func compile(name string, defs map[string]map[string]any) (*jsonschema.Schema, error) {
	expanded, err := expand(map[string]any{"$ref": "#/$defs/" + name}, defs, 0)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(expanded)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(text, schema); err != nil {
		return nil, err
	}
	schema.Validate(context.Background(), map[string]any{})
	return schema, nil
}

// expand replaces every $ref by what it refers to and drops the annotations.
// The library resolves references lazily and unsynchronised, and would fetch
// them over the network. A keyword that it is not hardened for is an error.
func expand(schema map[string]any, defs map[string]map[string]any, depth int) (map[string]any, error) {
	if depth > MaxDepth {
		return nil, errors.New("the schema refers to itself")
	}
	expanded := map[string]any{}
	for keyword, value := range schema {
		switch keyword {
		case "title", "description":
		case "$ref":
			ref, _ := value.(string)
			def, ok := defs[strings.TrimPrefix(ref, "#/$defs/")]
			if !ok {
				return nil, fmt.Errorf("reference %q leads nowhere", ref)
			}
			for beside := range schema {
				if beside != "$ref" && beside != "title" && beside != "description" {
					return nil, fmt.Errorf("keyword %q beside a reference is not supported", beside)
				}
			}
			return expand(def, defs, depth+1)
		case "properties":
			members, _ := value.(map[string]any)
			copies := make(map[string]any, len(members))
			for name, member := range members {
				sub, err := expandSub(member, defs, depth)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				copies[name] = sub
			}
			expanded[keyword] = copies
		case "items":
			sub, err := expandSub(value, defs, depth)
			if err != nil {
				return nil, fmt.Errorf("items: %w", err)
			}
			expanded[keyword] = sub
		default:
			if !slices.ContainsFunc(keywords, func(k keywordMaker) bool { return k.name == keyword }) {
				return nil, fmt.Errorf("keyword %q is not supported", keyword)
			}
			expanded[keyword] = value
		}
	}
	return expanded, nil
}

func expandSub(value any, defs map[string]map[string]any, depth int) (map[string]any, error) {
	schema, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("not a schema object")
	}
	return expand(schema, defs, depth+1)
}

// check returns the problems of the form that root was meant to be.
func (f *forms) check(ctx context.Context, root any) []Problem {
	object, ok := root.(map[string]any)
	if !ok {
		return []Problem{{Keyword: "type", Message: "must be object, not " + typeOf(root)}}
	}
	form := f.meant(object)
	if form == nil {
		return []Problem{{
			Keyword: "oneOf",
			Message: "neither an index document (owner, generated_at, activities) nor an activity detail document (id, laps, timeseries, custom)",
		}}
	}
	var problems []Problem
	for _, e := range *form.Validate(ctx, root).Errs {
		keyword, _ := e.InvalidValue.(failed)
		problems = append(problems, Problem{Pointer: e.PropertyPath, Keyword: string(keyword), Message: e.Message})
	}
	return problems
}

// Members that tell the forms apart: first those that carry a document, then
// the others that only one form has.
var (
	indexMembers  = [2][]string{{"activities", "owner"}, {"generated_at", "shards"}}
	detailMembers = [2][]string{{"laps", "timeseries"}, {"custom", "id", "privacy", "sport", "started_at", "title"}}
)

// meant returns the form that object was meant to be, or nil if no member
// tells. A document that has as much of both is taken for a detail document:
// either answer lists the members that are too many.
func (f *forms) meant(object map[string]any) *jsonschema.Schema {
	some := false
	for i := range indexMembers {
		index, detail := count(object, indexMembers[i]), count(object, detailMembers[i])
		switch {
		case index > detail:
			return f.index
		case detail > index:
			return f.detail
		}
		some = some || index > 0
	}
	if some {
		return f.detail
	}
	return nil
}

func count(object map[string]any, names []string) int {
	n := 0
	for name := range object {
		if slices.Contains(names, name) {
			n++
		}
	}
	return n
}
