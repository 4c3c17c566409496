package activityschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// forms are the two forms of a document. Each is validated as a schema of its
// own: of the oneOf of the published schema one could only say that none
// matched.
var forms = []Form{FormIndex, FormDetail}

// telling are the members that tell the forms apart: first those that carry a
// document, then others that only one form has.
var telling = map[Form][2][]string{
	FormIndex:  {{"activities", "owner"}, {"generated_at", "shards"}},
	FormDetail: {{"laps", "timeseries"}, {"custom", "id", "privacy", "sport", "started_at", "title"}},
}

// meantForm returns the form that a document with certain members was meant to
// be, or "" if no member tells. One that has as much of both is taken for a
// detail document: either answer lists the members that are too many.
func meantForm(has func(name string) bool) Form {
	count := func(names []string) (n int) {
		for _, name := range names {
			if has(name) {
				n++
			}
		}
		return n
	}
	some := false
	for weight := range 2 {
		index, detail := count(telling[FormIndex][weight]), count(telling[FormDetail][weight])
		switch {
		case index > detail:
			return FormIndex
		case detail > index:
			return FormDetail
		}
		some = some || index > 0
	}
	if some {
		return FormDetail
	}
	return ""
}

// readSchema returns the definitions of a schema that says oneOf over the two
// forms, and nothing else.
func readSchema(schema []byte) (map[string]map[string]any, error) {
	var root struct {
		OneOf []map[string]string       `json:"oneOf"`
		Defs  map[string]map[string]any `json:"$defs"`
	}
	keys := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(schema, &root), json.Unmarshal(schema, &keys)); err != nil {
		return nil, err
	}
	for key := range keys {
		if !slices.Contains([]string{"$schema", "title", "description", "oneOf", "$defs"}, key) {
			return nil, fmt.Errorf("keyword %q is not supported", key)
		}
	}
	if len(root.OneOf) != len(forms) {
		return nil, errors.New("oneOf is not over the two forms")
	}
	for i, form := range forms {
		if len(root.OneOf[i]) != 1 || root.OneOf[i]["$ref"] != "#/$defs/"+string(form) {
			return nil, fmt.Errorf("oneOf does not refer to the form %s alone", form)
		}
	}
	return root.Defs, nil
}

// expandForm returns the schema of one form, without references.
func expandForm(form Form, defs map[string]map[string]any) (map[string]any, error) {
	return expand(map[string]any{"$ref": "#/$defs/" + string(form)}, defs, 0)
}

// expand replaces every $ref by what it refers to and drops the annotations. A
// keyword that the engines do not implement is an error.
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
