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
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
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
	// root lists the members of both forms: a member of both has the same
	// schema, so that a document is read once without knowing its form.
	root     *shape
	required map[Form][]*member
}

var loadPlan = sync.OnceValues(func() (*plan, error) { return compilePlan(schemaJSON) })

// Ready compiles the embedded schema, and reports why it could not be. A program
// that calls it as it starts cannot fail over the schema later.
func Ready() error {
	_, err := loadPlan()
	return err
}

// compilePlan compiles a schema that says oneOf over the two forms, and nothing
// else.
func compilePlan(text []byte) (*plan, error) {
	var schema struct {
		Schema      string            `json:"$schema"`
		Title       string            `json:"title"`
		Description string            `json:"description"`
		OneOf       []shape           `json:"oneOf"`
		Defs        map[string]*shape `json:"$defs"`
	}
	err := json.Unmarshal(text, &schema, json.RejectUnknownMembers(true))
	if err == nil && len(schema.OneOf) != len(forms) {
		err = errors.New("oneOf is not over the two forms")
	}
	p := &plan{root: &shape{Type: typeNames{"object"}, kinds: kindObject}, required: map[Form][]*member{}}
	for i := 0; err == nil && i < len(forms); i++ {
		err = p.add(forms[i], &schema.OneOf[i], schema.Defs)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, fmt.Errorf("compiling the activity schema: %w", err)
	}
	return p, nil
}

// add adds the members of a form to those of a document.
func (p *plan) add(form Form, ref *shape, defs map[string]*shape) error {
	sh, err := ref.compile(defs, 0)
	if err != nil {
		return fmt.Errorf("form %s: %w", form, err)
	}
	if ref.Ref != "#/$defs/"+string(form) || sh.members == nil || sh.kinds != kindObject {
		return fmt.Errorf("oneOf does not refer to the form %s, or it is no closed object", form)
	}
	for name, m := range sh.members {
		both := p.root.members[name]
		switch {
		case both == nil:
			p.root.list(&member{name: name, shape: m.shape, form: form})
		case reflect.DeepEqual(both.shape, m.shape):
			both.form = ""
		default:
			return fmt.Errorf("member %q is another in each form", name)
		}
	}
	for _, name := range sh.Required {
		p.required[form] = append(p.required[form], p.root.members[name])
	}
	return nil
}

// check makes sure that no document is of both forms, and that members tell them apart.
func (p *plan) check() error {
	if !slices.ContainsFunc(p.required[FormIndex], func(m *member) bool { return m.form == FormIndex }) {
		return errors.New("no member that an index must have is forbidden in a detail")
	}
	for name, weight := range telling {
		if m := p.root.members[name]; m == nil || m.form != formOf(weight) {
			return fmt.Errorf("member %s is not one of the form %s alone", name, formOf(weight))
		}
	}
	return nil
}

// telling are the members that tell the forms apart, those of an index by a number above
// zero. Those that carry a document outweigh all others.
var telling = map[string]int{
	"activities": 10, "owner": 10, "generated_at": 1, "shards": 1,
	"laps": -10, "timeseries": -10, "custom": -1, "id": -1, "privacy": -1, "sport": -1, "started_at": -1, "title": -1,
}

func formOf(weight int) Form {
	if weight > 0 {
		return FormIndex
	}
	return FormDetail
}

// meantForm returns the form that a document with certain members was meant to
// be, or "" if no member tells. One that has as much of both is taken for a
// detail document: either answer lists the members that are too many.
func meantForm(present map[*member]Place) (form Form) {
	weight := 0
	for m := range present {
		if w := telling[m.name]; w != 0 {
			weight += w
			form = formOf(weight)
		}
	}
	return form
}
