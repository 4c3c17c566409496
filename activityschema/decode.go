package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads one document from r and returns it, or where it departs from the
// format, as Validate does. Documents that differ only in order, white space, or
// null in place of an optional member decode to the same.
//
// Numbers become the nearest double, or the exact integer: 1.0, 1e3 and 10e-1
// are integers. To the format 1e300 is an integer, too: one beyond 64 bits becomes
// the nearest that fits, and is a problem of KeywordInteger beside the document.
// All other problems are without a document.
//
// The error is for r failing and for ctx being done. Decode may be called
// concurrently.
func Decode(ctx context.Context, r io.Reader) (*Document, []Problem, error) {
	var data bytes.Buffer
	var unfit []Problem
	form, problems, err := Options{unfit: &unfit}.Validate(ctx, io.TeeReader(r, &data))
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	document, err := DecodeValid(form, data.Bytes())
	return document, unfit, err
}

// DecodeValid is Decode for data that Validate has found valid, and to be of a form.
func DecodeValid(form Form, data []byte) (*Document, error) {
	document, to := new(Document), any(nil)
	if form == FormIndex {
		document.Index = new(Index)
		to = (*plainIndex)(document.Index)
	} else {
		document.Detail = new(Detail)
		to = (*plainDetail)(document.Detail)
	}
	if err := json.Unmarshal(data, to, decoding); err != nil {
		return nil, fmt.Errorf("decoding the document: %w", err)
	}
	return document, nil
}

// The types without their methods, for those to use.
type (
	plainIndex  Index
	plainDetail Detail
)

// decoding reads integers as the format has them. Nearly all of a document are its
// columns: with functions of their own they are read several times as fast.
var decoding = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *int64) (err error) {
		raw, err := dec.ReadValue()
		*to, _ = integer(raw)
		return err
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *Integers) error {
		return readColumn(dec, to, func(raw []byte) int64 { n, _ := integer(raw); return n })
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *Column[int64]) error {
		return readColumn(dec, to, nullable(func(raw []byte) int64 { n, _ := integer(raw); return n }))
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *Column[float64]) error {
		return readColumn(dec, to, nullable(func(raw []byte) float64 { f, _ := strconv.ParseFloat(string(raw), 64); return f }))
	}),
))

// readColumn reads an array of numbers and nulls, or null as a nil list.
func readColumn[L ~[]T, T any](dec *jsontext.Decoder, to *L, item func(raw []byte) T) error {
	if token, err := dec.ReadToken(); err != nil || token.Kind() == 'n' {
		return err
	}
	list := L{}
	for dec.PeekKind() != ']' {
		raw, err := dec.ReadValue()
		if err != nil {
			return err
		}
		list = append(list, item(raw))
	}
	*to = list
	_, err := dec.ReadToken()
	return err
}

func nullable[T int64 | float64](number func(raw []byte) T) func(raw []byte) Null[T] {
	return func(raw []byte) (n Null[T]) {
		if raw[0] != 'n' {
			n = Some(number(raw))
		}
		return n
	}
}

// An InvalidError is for a value that is no valid document and so is not
// written or read as one.
type InvalidError struct {
	// Problems are where and why, at least one. Of a value that was to be
	// written, their places mean nothing.
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
// A value that is none, such as one without an ID, is an error, an *InvalidError
// unless JSON cannot write it.
func (x Index) MarshalJSON() ([]byte, error) { return marshal("index", plainIndex(x)) }

// MarshalJSON implements json.Marshaler: what it returns is a valid document.
// A value that is none, such as one with a NaN in a column, is an error, an
// *InvalidError unless JSON cannot write it.
func (d Detail) MarshalJSON() ([]byte, error) { return marshal("detail", plainDetail(d)) }

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

func marshal(form string, v any) ([]byte, error) {
	data, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, v float64) error {
		return enc.WriteToken(jsontext.Float(v)) // a string if it is not finite, which no document has there
	})))
	if err == nil {
		var problems []Problem
		if problems, err = Validate(context.Background(), bytes.NewReader(data)); err == nil && len(problems) > 0 {
			err = &InvalidError{Problems: problems}
		}
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
	err := document.UnmarshalJSON(data)
	if err == nil && document.Index == nil {
		err = errors.New("reading an index document: it is the detail document of an activity")
	}
	if err == nil {
		*x = *document.Index
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler, as Decode: only a valid detail
// document is taken, and another is an *InvalidError.
func (d *Detail) UnmarshalJSON(data []byte) error {
	var document Document
	err := document.UnmarshalJSON(data)
	if err == nil && document.Detail == nil {
		err = errors.New("reading the detail document of an activity: it is an index document")
	}
	if err == nil {
		*d = *document.Detail
	}
	return err
}

// UnmarshalJSON implements json.Unmarshaler, as Decode: only a valid document
// whose integers fit is taken, and another is an *InvalidError.
func (d *Document) UnmarshalJSON(data []byte) error {
	document, problems, err := Decode(context.Background(), bytes.NewReader(data))
	if err == nil && len(problems) > 0 {
		err = &InvalidError{Problems: problems}
	}
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	*d = *document
	return nil
}

// MarshalJSONTo implements json.MarshalerTo of github.com/go-json-experiment/json.
func (n Null[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	if !n.Valid {
		return enc.WriteToken(jsontext.Null)
	}
	return json.MarshalEncode(enc, n.Value)
}
