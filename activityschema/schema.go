// Package activityschema defines the format of the activity data files, version 1.0: the JSON
// Schema of index and detail documents, their Go types, a validator that reports where a document
// departs from the format, and Lint. Lint reports what a schema cannot express: values that make
// no sense, and documents that show more than their privacy allows.
//
// A document is valid if it is I-JSON (RFC 7493: UTF-8, no repeated members, numbers within the
// range of a double) and matches exactly one of the two forms, the index document or the activity
// detail document.
//
// Validate reads a document in one pass without storing it. It is compiled from the embedded
// schema; for a keyword that it does not support, Ready returns an error. Decode turns a valid
// document into an Index or a Detail, which marshal only to valid documents. Lint examines one
// document, a Library compares the documents of an owner.
//
// Package activityschema/reference gives a second opinion on the schema. Package cmd/cairn finds
// and opens files and prints problems.
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

// Schema returns the JSON Schema (draft 2020-12) of index and detail documents as UTF-8 JSON,
// media type application/schema+json. The caller may change the returned slice.
func Schema() []byte {
	return bytes.Clone(schemaJSON)
}

// A Form is one of the two forms of a document.
type Form string

// The forms. The empty Form means neither.
const (
	FormIndex  Form = "index"
	FormDetail Form = "detail"
)

var forms = [...]Form{FormIndex, FormDetail}

// A plan is the compiled schema for the walker.
type plan struct {
	// root lists the members of both forms. A member of both has the same schema, so a document
	// can be read in one pass before its form is known.
	root     *shape
	required map[Form][]*member
}

var loadPlan = sync.OnceValues(func() (*plan, error) { return compilePlan(schemaJSON) })

// Ready compiles the embedded schema and returns the error if that fails. A program that calls it
// at startup cannot fail because of the schema later.
func Ready() error {
	_, err := loadPlan()
	return err
}

// compilePlan compiles a schema that consists of oneOf over the two forms.
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

// add adds the members of a form to those of the root.
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
			return fmt.Errorf("member %q differs between the forms", name)
		}
	}
	for _, name := range sh.Required {
		p.required[form] = append(p.required[form], p.root.members[name])
	}
	return nil
}

// check verifies that no document matches both forms, and that every member of formWeights
// belongs to one form only.
func (p *plan) check() error {
	if !slices.ContainsFunc(p.required[FormIndex], func(m *member) bool { return m.form == FormIndex }) {
		return errors.New("no member that an index must have is forbidden in a detail")
	}
	for name, weight := range formWeights {
		if m := p.root.members[name]; m == nil || m.form != formOf(weight) {
			return fmt.Errorf("member %s is not one of the form %s alone", name, formOf(weight))
		}
	}
	return nil
}

// formWeights lists the members that indicate a form: index members have a positive weight,
// detail members a negative one. Members that carry the content outweigh all others.
var formWeights = map[string]int{
	"activities": 10, "owner": 10, "generated_at": 1, "shards": 1,
	"laps": -10, "timeseries": -10, "custom": -1, "id": -1, "privacy": -1, "sport": -1, "started_at": -1, "title": -1,
}

func formOf(weight int) Form {
	if weight > 0 {
		return FormIndex
	}
	return FormDetail
}

// meantForm returns the form that a document with the present members was meant to be, or "" if
// none of them indicates one. A tie counts as a detail document: either form lists the members
// that do not belong.
func meantForm(present map[*member]Place) (form Form) {
	weight := 0
	for m := range present {
		if w := formWeights[m.name]; w != 0 {
			weight += w
			form = formOf(weight)
		}
	}
	return form
}
