package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
)

// An InvalidError is for a value that is no valid document and so is not
// written or read as one.
type InvalidError struct {
	// Problems are where and why, at least one. Of a value that was to be
	// written, their offsets mean nothing.
	Problems []Problem
}

// Error implements error. It names the first problem.
func (e *InvalidError) Error() string {
	first := e.Problems[0]
	text := fmt.Sprintf("%.200q: %s", first.Pointer, first.Message)
	if more := len(e.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more problems)", more)
	}
	return text
}

// MarshalJSON implements json.Marshaler: what it returns is a valid document.
// A value that is none, such as one without an ID, is an *InvalidError.
func (x Index) MarshalJSON() ([]byte, error) {
	return marshal("index", reflect.ValueOf(&x).Elem())
}

// MarshalJSON implements json.Marshaler: what it returns is a valid document.
// A value that is none, such as one with a NaN in a column, is an
// *InvalidError.
func (d Detail) MarshalJSON() ([]byte, error) {
	return marshal("detail", reflect.ValueOf(&d).Elem())
}

// MarshalJSON implements json.Marshaler, as that of the one field which is set.
func (d Document) MarshalJSON() ([]byte, error) {
	switch {
	case d.Index != nil && d.Detail != nil:
		return nil, errors.New("a document is either an index or a detail, not both: leave one of them nil")
	case d.Index != nil:
		return d.Index.MarshalJSON()
	case d.Detail != nil:
		return d.Detail.MarshalJSON()
	}
	return nil, errors.New("an empty document: set its index or its detail")
}

func marshal(form string, v reflect.Value) ([]byte, error) {
	var w writer
	w.value(v)
	data, err := w.result()
	if err == nil {
		err = check(data)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the %s document: %w", form, err)
	}
	return data, nil
}

// UnmarshalJSON implements json.Unmarshaler, as Decode: only a valid index
// document is taken, and another is an *InvalidError.
func (x *Index) UnmarshalJSON(data []byte) error {
	var document Document
	if err := document.UnmarshalJSON(data); err != nil {
		return err
	}
	if document.Index == nil {
		return errors.New("reading an index document: it is the detail document of an activity")
	}
	*x = *document.Index
	return nil
}

// UnmarshalJSON implements json.Unmarshaler, as Decode: only a valid detail
// document is taken, and another is an *InvalidError.
func (d *Detail) UnmarshalJSON(data []byte) error {
	var document Document
	if err := document.UnmarshalJSON(data); err != nil {
		return err
	}
	if document.Detail == nil {
		return errors.New("reading the detail document of an activity: it is an index document")
	}
	*d = *document.Detail
	return nil
}

// UnmarshalJSON implements json.Unmarshaler, as Decode: only a valid document
// is taken, and another is an *InvalidError.
func (d *Document) UnmarshalJSON(data []byte) error {
	if err := check(data); err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	document, err := decodeDocument(data, false)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	*d = *document
	return nil
}

func check(data []byte) error {
	problems, err := Validate(context.Background(), bytes.NewReader(data))
	if err == nil && len(problems) > 0 {
		err = &InvalidError{Problems: problems}
	}
	return err
}
