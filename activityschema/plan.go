package activityschema

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// A plan is the published schema made ready for the scanner. The scanner reads
// members in any order and learns the form last; so root lists the members of
// both forms, each with the form that it belongs to.
type plan struct {
	root     *shape
	required map[Form][]uint8 // members of a document of that form
	slots    int              // that the shapes have together
}

// loadPlan compiles the embedded schema on first use.
var loadPlan = sync.OnceValues(func() (*plan, error) { return compilePlan(schemaJSON) })

// compilePlan compiles a schema, and proves what the scanner and the choice of
// a form rest on.
func compilePlan(schema []byte) (*plan, error) {
	defs, err := readSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	shapes, expanded := map[Form]*shape{}, map[Form]map[string]any{}
	for _, form := range forms {
		if expanded[form], err = expandForm(form, defs); err == nil {
			shapes[form], err = compileShape(expanded[form])
		}
		if err == nil && (!shapes[form].closed || shapes[form].kinds != kindObject) {
			err = errors.New("must be an object that lists its members")
		}
		if err != nil {
			return nil, fmt.Errorf("compiling the schema of %s documents: %w", form, err)
		}
	}
	if err := proveExclusive(shapes); err != nil {
		return nil, fmt.Errorf("telling the forms apart: %w", err)
	}
	return joinForms(shapes, expanded)
}

// proveExclusive proves that a document can be of one form only, which is what
// oneOf asks for, and that the members which tell the form are of one form.
func proveExclusive(shapes map[Form]*shape) error {
	index, detail := shapes[FormIndex], shapes[FormDetail]
	foreign := func(i uint8) bool { return detail.find([]byte(index.properties[i].name)) < 0 }
	if !slices.ContainsFunc(index.required, foreign) {
		return errors.New("no member that an index must have is forbidden to a detail document")
	}
	for form, other := range map[Form]Form{FormIndex: FormDetail, FormDetail: FormIndex} {
		for _, name := range slices.Concat(telling[form][0], telling[form][1]) {
			if shapes[form].find([]byte(name)) < 0 || shapes[other].find([]byte(name)) >= 0 {
				return fmt.Errorf("member %s is not one of the form %s alone", name, form)
			}
		}
	}
	return nil
}

// joinForms makes one shape of the two. A member that both list must have the
// same schema in both, because it is validated before the form is known.
func joinForms(shapes map[Form]*shape, expanded map[Form]map[string]any) (*plan, error) {
	p := &plan{
		root:     &shape{kinds: kindObject, closed: true, expected: map[string]string{"type": "object"}},
		required: map[Form][]uint8{},
	}
	schemas := func(form Form) map[string]any { return expanded[form]["properties"].(map[string]any) }
	names := slices.Sorted(maps.Keys(schemas(FormIndex)))
	for name := range schemas(FormDetail) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > mostProperties {
		return nil, errUnsupported
	}
	for _, name := range names {
		inIndex, isIndex := schemas(FormIndex)[name]
		inDetail, isDetail := schemas(FormDetail)[name]
		form := FormIndex
		switch {
		case isIndex && isDetail && !reflect.DeepEqual(inIndex, inDetail):
			return nil, fmt.Errorf("member %s has a schema in each form, and they differ", name)
		case isIndex && isDetail:
			form = ""
		case isDetail:
			form = FormDetail
		}
		for _, sh := range shapes {
			if i := sh.find([]byte(name)); i >= 0 {
				if err := p.root.add(property{name: name, shape: sh.properties[i].shape, form: form}); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	for form, sh := range shapes {
		for _, i := range sh.required {
			p.required[form] = append(p.required[form], uint8(p.root.find([]byte(sh.properties[i].name))))
		}
	}
	p.number(p.root)
	return p, nil
}

// number gives each closed object its slots.
func (p *plan) number(sh *shape) {
	if sh == nil {
		return
	}
	if sh.closed {
		sh.slot = p.slots
		p.slots += len(sh.properties) + 1
	}
	p.number(sh.items)
	for _, property := range sh.properties {
		p.number(property.shape)
	}
}
