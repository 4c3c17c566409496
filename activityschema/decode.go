package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

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
	form, problems, err := Options{}.Validate(ctx, io.TeeReader(r, &data))
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	return DecodeValid(ctx, form, data.Bytes())
}

// DecodeValid is Decode for data that Validate has found valid, and to be of a form.
func DecodeValid(ctx context.Context, form Form, data []byte) (*Document, []Problem, error) {
	document, d := new(Document), new(decoder)
	var err error
	if form == FormIndex {
		document.Index = new(Index)
		err = d.decode(data, (*plainIndex)(document.Index))
	} else {
		document.Detail = new(Detail)
		err = d.decode(data, (*plainDetail)(document.Detail))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decoding the document: %w", err)
	}
	problems, err := d.problems(ctx, data)
	return document, problems, err
}

// The types without their methods, for those to use.
type (
	plainIndex  Index
	plainDetail Detail
)

// A decoder decodes one valid document.
type decoder struct {
	tooLarge []string // pointers to integers beyond 64 bits, up to MaxProblems
}

func (d *decoder) decode(data []byte, to any) error {
	return json.Unmarshal(data, to, json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *int64) (err error) {
			*to, err = d.integer(dec)
			return err
		}),
		json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *Integers) (err error) {
			*to, err = readList(dec, d.integer)
			return err
		}),
		json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *Column[int64]) (err error) {
			*to, err = readList(dec, nullable(d.integer))
			return err
		}),
		json.UnmarshalFromFunc(func(dec *jsontext.Decoder, to *Column[float64]) (err error) {
			*to, err = readList(dec, nullable(float))
			return err
		}),
	)))
}

// readList reads an array, or null as a nil list. Nearly all of a document are its
// columns: this is several times as fast as the package json is by itself.
func readList[T any](dec *jsontext.Decoder, item func(*jsontext.Decoder) (T, error)) ([]T, error) {
	if dec.PeekKind() == 'n' {
		_, err := dec.ReadToken()
		return nil, err
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	list := []T{}
	for dec.PeekKind() != ']' {
		v, err := item(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := dec.ReadToken()
	return list, err
}

// nullable reads what number reads, or null.
func nullable[T int64 | float64](number func(*jsontext.Decoder) (T, error)) func(*jsontext.Decoder) (Null[T], error) {
	return func(dec *jsontext.Decoder) (Null[T], error) {
		if dec.PeekKind() == 'n' {
			_, err := dec.ReadToken()
			return Null[T]{}, err
		}
		v, err := number(dec)
		return Some(v), err
	}
}

func float(dec *jsontext.Decoder) (float64, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(raw), 64)
}

func (d *decoder) integer(dec *jsontext.Decoder) (int64, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil {
		return n, nil
	}
	digits, exponent := decimal(raw)
	const most = len("9223372036854775807")
	if n = math.MaxInt64; digits == "" {
		return 0, nil
	} else if exponent >= 0 && len(digits)+exponent <= most {
		sign := strings.TrimRight(string(raw[:1]), "0123456789")
		if n, err = strconv.ParseInt(sign+digits+strings.Repeat("0", exponent), 10, 64); err == nil {
			return n, nil
		}
		n = math.MaxInt64
	}
	if raw[0] == '-' {
		n = math.MinInt64
	}
	if len(d.tooLarge) < MaxProblems {
		d.tooLarge = append(d.tooLarge, string(dec.StackPointer()))
	}
	return n, nil
}

// problems returns those of the integers beyond 64 bits.
func (d *decoder) problems(ctx context.Context, data []byte) ([]Problem, error) {
	if len(d.tooLarge) == 0 {
		return nil, nil
	}
	places, err := Locate(ctx, bytes.NewReader(data), d.tooLarge)
	if err != nil {
		return nil, err
	}
	problems := make([]Problem, len(places))
	for i, at := range places {
		problems[i] = Problem{
			Pointer: d.tooLarge[i], Place: at, Keyword: KeywordInteger,
			Message: "the integer is valid, but lies beyond the 64 bits that a document is decoded to",
		}
	}
	return problems, nil
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

// MarshalJSONTo implements json.MarshalerTo of github.com/go-json-experiment/json. A
// number that is not finite becomes a string, which no document has there.
func (n Null[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	switch v := any(n.Value).(type) {
	case int64:
		if n.Valid {
			return enc.WriteToken(jsontext.Int(v))
		}
	case float64:
		if n.Valid {
			return enc.WriteToken(jsontext.Float(v))
		}
	}
	return enc.WriteToken(jsontext.Null)
}
