// Package activityschema owns the format of the activity data files, version
// 1.0: the JSON Schema of index and detail documents, their Go types, a validator
// which says where a document departs from the format, and Lint, which says what
// the schema cannot: values that make no sense, and documents that show more than
// their privacy allows.
//
// A document is valid when it is I-JSON (RFC 7493: UTF-8, no member twice,
// numbers within a double) and matches exactly one of the two forms, the index
// document or the activity detail document.
//
// Validate reads a document once, as it streams by, and keeps nothing of it: it is
// compiled from the embedded schema, and a keyword that it does not know is an error
// of Ready. Decode turns a valid document into Index or Detail, which marshal to
// valid documents alone. Lint looks at one document, a Library at the documents of
// an owner against one another.
//
// It leaves to others: a second opinion on the schema (activityschema/reference),
// finding and opening files, and printing problems (cmd/cairn).
package activityschema

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

//go:embed activity-1.0.json
var schemaJSON []byte

// Schema returns the JSON Schema (draft 2020-12) of index and detail documents
// as UTF-8 JSON, media type application/schema+json. The slice is a copy that
// the caller may change.
func Schema() []byte {
	return bytes.Clone(schemaJSON)
}

// A Form is one of the two forms of a document.
type Form string

// The forms. The empty Form means that a document is of neither.
const (
	FormIndex  Form = "index"
	FormDetail Form = "detail"
)

var forms = [...]Form{FormIndex, FormDetail}

// A plan is the schema made ready for the walker.
type plan struct {
	// root lists the members of both forms: what stands in either has the same
	// schema, so that a document is read once without knowing its form.
	root     *shape
	required map[Form][]*member
}

var loadPlan = sync.OnceValues(func() (*plan, error) {
	p, err := compilePlan(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("compiling the activity schema: %w", err)
	}
	return p, nil
})

// Ready compiles the embedded schema, and reports why it could not be. A program
// that calls it as it starts cannot fail over the schema later.
func Ready() error {
	_, err := loadPlan()
	return err
}

// compilePlan compiles a schema that says oneOf over the two forms, and nothing
// else.
func compilePlan(schema []byte) (*plan, error) {
	var root struct {
		OneOf []map[string]string       `json:"oneOf"`
		Defs  map[string]map[string]any `json:"$defs"`
	}
	keywords := map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(schema, &root), json.Unmarshal(schema, &keywords)); err != nil {
		return nil, err
	}
	for keyword := range keywords {
		if !slices.Contains([]string{"$schema", "title", "description", "oneOf", "$defs"}, keyword) {
			return nil, fmt.Errorf("keyword %q is not supported", keyword)
		}
	}
	if len(root.OneOf) != len(forms) {
		return nil, errors.New("oneOf is not over the two forms")
	}
	p := &plan{root: &shape{kinds: kindObject, closed: true, members: map[string]*member{}}, required: map[Form][]*member{}}
	schemas := map[string]any{}
	for i, form := range forms {
		if len(root.OneOf[i]) != 1 || root.OneOf[i]["$ref"] != "#/$defs/"+string(form) {
			return nil, fmt.Errorf("oneOf does not refer to the form %s", form)
		}
		sh, err := compileShape(map[string]any{"$ref": root.OneOf[i]["$ref"]}, root.Defs, 0)
		if err != nil {
			return nil, fmt.Errorf("form %s: %w", form, err)
		}
		if !sh.closed || sh.kinds != kindObject {
			return nil, fmt.Errorf("form %s is no closed object", form)
		}
		listed := root.Defs[string(form)]["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(sh.members)) {
			if both := p.root.members[name]; both != nil {
				if fmt.Sprint(schemas[name]) != fmt.Sprint(listed[name]) {
					return nil, fmt.Errorf("member %q is another in each form", name)
				}
				both.form = ""
				continue
			}
			schemas[name] = listed[name]
			if err := p.root.list(name, sh.members[name].shape); err != nil {
				return nil, err
			}
			p.root.members[name].form = form
		}
		for _, m := range sh.required {
			p.required[form] = append(p.required[form], p.root.members[m.name])
		}
	}
	return p, p.check()
}

// check makes sure that no document is of both forms, and that members tell them apart.
func (p *plan) check() error {
	if !slices.ContainsFunc(p.required[FormIndex], func(m *member) bool { return m.form == FormIndex }) {
		return errors.New("no member that an index must have is forbidden in a detail")
	}
	for form, names := range telling {
		for _, name := range slices.Concat(names[0], names[1]) {
			if m := p.root.members[name]; m == nil || m.form != form {
				return fmt.Errorf("member %s is not one of the form %s alone", name, form)
			}
		}
	}
	return nil
}

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
	form := Form("")
	for weight := range 2 {
		index, detail := count(telling[FormIndex][weight]), count(telling[FormDetail][weight])
		switch {
		case index > detail:
			return FormIndex
		case detail > index:
			return FormDetail
		case index > 0:
			form = FormDetail
		}
	}
	return form
}
