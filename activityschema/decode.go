package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// A Document is a document of either form: exactly one of Index and Detail is set.
type Document struct {
	Index  *Index
	Detail *Detail
	// LoneSurrogates is what decoding has changed; Lint tells of it.
	LoneSurrogates LoneSurrogates
}

// A RangeError is for a document that is valid and holds an integer beyond the
// 64 bits of the types of this package: to the format 1e300 is an integer.
type RangeError struct {
	// Pointer is the place of the integer, a JSON Pointer (RFC 6901).
	Pointer string
}

// Error implements error.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: the integer is valid, but lies beyond the 64 bits that a document is decoded to", e.Pointer)
}

// Decode reads one document from r and returns it, or where it departs from the
// format, as Validate does: of document and problems one is nil. Documents that differ only in order, white space, or null in place of
// an optional member decode to the same.
//
// Numbers become the nearest double, or the exact integer: 1.0, 1e3 and 10e-1
// are integers. A string's half of a surrogate pair becomes U+FFFD,
// of which Lint tells.
//
// The error is Validate's, or a *RangeError; document and problems are then
// nil. Decode may be called concurrently.
func Decode(ctx context.Context, r io.Reader) (*Document, []Problem, error) {
	var data bytes.Buffer
	problems, err := Validate(ctx, io.TeeReader(r, &data))
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	document, err := decodeDocument(data.Bytes(), false)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding the document: %w", err)
	}
	return document, nil, nil
}

// DecodeForLint decodes data that Validate has found valid, and does not look at
// that again. Integers beyond 64 bits become the nearer one of 1<<63-1 and
// -(1<<63-1): Lint says of both that they are not exact, and a document cannot hide
// a position behind one. Of data that is not valid it returns anything, or an
// error, but does not panic.
func DecodeForLint(data []byte) (*Document, error) {
	document, err := decodeDocument(data, true)
	if err != nil {
		return nil, fmt.Errorf("decoding the document: %w", err)
	}
	return document, nil
}

// decodeDocument decodes data, which is valid. Integers beyond 64 bits are a
// *RangeError, or with saturate the nearer one of 1<<63-1 and -(1<<63-1). Of
// data that is not valid it returns anything, but does not panic.
func decodeDocument(data []byte, saturate bool) (*Document, error) {
	form, err := formOf(data)
	if err != nil {
		return nil, err
	}
	document := new(Document)
	var root reflect.Value
	if form == FormIndex {
		document.Index = new(Index)
		root = reflect.ValueOf(document.Index)
	} else {
		document.Detail = new(Detail)
		root = reflect.ValueOf(document.Detail)
	}
	r := &reader{data: data, saturate: saturate}
	if err := r.into(root.Elem()); err != nil {
		return nil, err
	}
	document.LoneSurrogates = r.surrogates
	return document, nil
}

// formOf returns the form of a valid document, told by its first member that
// only one form has.
func formOf(data []byte) (Form, error) {
	var form Form
	found := errors.New("found")
	r := &reader{data: data}
	err := r.object(func(name []byte) error {
		_, index := members[reflect.TypeFor[Index]()].named[string(name)]
		_, detail := members[reflect.TypeFor[Detail]()].named[string(name)]
		switch {
		case index && !detail:
			form = FormIndex
			return found
		case detail && !index:
			form = FormDetail
			return found
		}
		_, err := r.skip()
		return err
	})
	if form == "" {
		return "", errors.Join(errUnexpected, err)
	}
	return form, nil
}
