package activityschema

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads one document from r and returns it, or its departures from the format as Validate
// does. Documents that differ only in order, white space, or null in place of an absent optional
// member decode to equal values.
//
// Numbers become the nearest double, or the exact integer: 1.0, 1e3 and 10e-1 are integers. The
// format also treats 1e300 as an integer. One beyond 64 bits becomes the nearest that fits, and
// is reported as a problem of KeywordInteger together with the document. With any other problem
// there is no document.
//
// The error is for a failing r and a done ctx. Decode is safe for concurrent use.
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

// DecodeValid is Decode for data that Validate has found to be a valid document of the form.
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

// The types without their methods, for use by those methods.
type (
	plainIndex  Index
	plainDetail Detail
)

// decoding reads integers as the format defines them. Columns make up nearly all of a document;
// functions of their own read them several times as fast.
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
		return readColumn(dec, to, nullable(func(raw []byte) float64 {
			f, _ := strconv.ParseFloat(string(raw), 64)
			return f
		}))
	}),
))

// readColumn reads an array of numbers and nulls. null gives a nil list.
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

// An InvalidError means that a value to be read or written is not a valid document.
type InvalidError struct {
	// Problems lists at least one problem. For a value to be written, their places are meaningless.
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

// MarshalJSON implements json.Marshaler. It returns only valid documents. For an invalid value,
// such as one without an ID, it returns an *InvalidError, or the error of a value that JSON
// cannot express.
func (x Index) MarshalJSON() ([]byte, error) { return marshal("index", plainIndex(x)) }

// MarshalJSON implements json.Marshaler. It returns only valid documents. For an invalid value,
// such as one with a NaN in a column, it returns an *InvalidError, or the error of a value that
// JSON cannot express.
func (d Detail) MarshalJSON() ([]byte, error) { return marshal("detail", plainDetail(d)) }

// MarshalJSON implements json.Marshaler. It marshals the field that is set.
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
	floats := json.MarshalToFunc(func(enc *jsontext.Encoder, v float64) error {
		return enc.WriteToken(jsontext.Float(v)) // writes a string if v is not finite, which Validate refuses
	})
	data, err := json.Marshal(v, json.Deterministic(true), json.WithMarshalers(floats))
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

// UnmarshalJSON implements json.Unmarshaler like Decode. It accepts only valid index documents;
// an invalid document is an *InvalidError.
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

// UnmarshalJSON implements json.Unmarshaler like Decode. It accepts only valid detail documents;
// an invalid document is an *InvalidError.
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

// UnmarshalJSON implements json.Unmarshaler like Decode. It accepts only valid documents whose
// integers fit; others are an *InvalidError.
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
	switch v := any(n.Value).(type) {
	case int64:
		return enc.WriteToken(jsontext.Int(v))
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return enc.WriteToken(jsontext.Float(v))
		}
	}
	return json.MarshalEncode(enc, n.Value)
}

// MarshalJSONTo implements json.MarshalerTo of github.com/go-json-experiment/json. Columns make up nearly
// all of a document, and a method call by reflection for each value takes longer than the value.
func (c Column[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	err := enc.WriteToken(jsontext.BeginArray)
	for i := 0; i < len(c) && err == nil; i++ {
		err = c[i].MarshalJSONTo(enc)
	}
	return cmp.Or(err, enc.WriteToken(jsontext.EndArray))
}
