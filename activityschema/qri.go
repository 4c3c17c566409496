package activityschema

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/qri-io/jsonschema"
)

// mostCollected is how many problems the library's engine gathers before it
// stops: it finds them in the order of the schema, and only then are they
// brought into that of the document.
const mostCollected = 1000

// loadForms compiles the embedded schema for the library on first use; it is
// safe for concurrent use, and so are the schemas that it returns.
var loadForms = sync.OnceValues(func() (map[Form]*jsonschema.Schema, error) {
	registerKeywords()
	defs, err := readSchema(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	schemas := map[Form]*jsonschema.Schema{}
	for _, form := range forms {
		if schemas[form], err = compileForm(form, defs); err != nil {
			return nil, fmt.Errorf("compiling the schema of %s documents: %w", form, err)
		}
	}
	return schemas, nil
})

// compileForm builds the schema of one form and warms it up: the first
// validation registers every schema within, which must not happen twice at
// once. References are expanded: the library resolves them lazily and
// unsynchronised, and would fetch them over the network.
func compileForm(form Form, defs map[string]map[string]any) (*jsonschema.Schema, error) {
	expanded, err := expandForm(form, defs)
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

// walk validates a document with the library.
func walk(ctx context.Context, data []byte, o Options) (Form, []Problem, error) {
	schemas, err := loadForms()
	if err != nil {
		return "", nil, err
	}
	if int64(len(data)) > o.MaxBytes {
		return "", []Problem{tooLarge(o.MaxBytes)}, nil
	}
	root, problems, err := parse(ctx, data, o.MaxProblems)
	if err != nil || len(problems) > 0 {
		return "", problems, err
	}
	object, ok := root.(map[string]any)
	start := int64(len(data) - len(withoutSpace(data)))
	if !ok {
		return "", []Problem{unfit("", start, "type", "object", foundAt(data[start:]))}, ctx.Err()
	}
	form := meantForm(func(name string) bool {
		_, ok := object[name]
		return ok
	})
	if form == "" {
		return "", []Problem{noForm(start)}, ctx.Err()
	}
	failures := *schemas[form].Validate(ctx, root).Errs
	if err := ctx.Err(); err != nil {
		return "", nil, err
	}
	if len(failures) > 0 {
		problems, err = locate(ctx, data, failures)
	}
	return form, inOrder(problems, o.MaxProblems), err
}

// cutPointer cuts a pointer that is longer than mostText, at an object or array
// on its way.
func cutPointer(pointer string) string {
	for len(pointer) > mostText {
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	return pointer
}
