package activityschema

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
)

// A Timeseries holds the recorded samples as columns, item i of each belonging
// to item i of T. The format intends that and does not enforce it: columns of
// unlike length are valid.
//
// A nil column is one that is absent, or null where a document may say so; it
// is left out when written. A column that is empty and not nil is written as
// an empty list.
type Timeseries struct {
	// T is required and never null: nil is written as an empty list. Version
	// 1.0 does not state its unit and origin.
	T Integers `json:"t"`
	// Lat is in degrees; items, and the whole column, may be null.
	Lat Column[float64] `json:"lat,omitzero"`
	// Lon is in degrees; items, and the whole column, may be null.
	Lon Column[float64] `json:"lon,omitzero"`
	// ElevationM is in metres; items may be null.
	ElevationM Column[float64] `json:"elevation_m,omitzero"`
	// SpeedKmh is in kilometres per hour; items may be null.
	SpeedKmh Column[float64] `json:"speed_kmh,omitzero"`
	// HRBpm is in beats per minute; items may be null.
	HRBpm Column[int64] `json:"hr_bpm,omitzero"`
	// CadenceRpm is in revolutions per minute; items may be null.
	CadenceRpm Column[int64] `json:"cadence_rpm,omitzero"`
	// PowerW is in watts; items may be null.
	PowerW Column[int64] `json:"power_w,omitzero"`
	// TemperatureC is in degrees Celsius; items may be null.
	TemperatureC Column[float64] `json:"temperature_c,omitzero"`
}

// Integers is a column without nulls.
type Integers []int64

// A Column is a list of values that may each be null.
type Column[T int64 | float64] []Null[T]

// A Null is a value, or null where Valid is false; Value then means nothing.
type Null[T int64 | float64] struct {
	Value T
	Valid bool
}

// Some returns a Null that is not null.
func Some[T int64 | float64](value T) Null[T] { return Null[T]{Value: value, Valid: true} }

// UnmarshalJSON implements json.Unmarshaler. Null is an error.
func (l *Integers) UnmarshalJSON(data []byte) error { return unmarshalColumn(data, l) }

// MarshalJSON implements json.Marshaler; nil is an empty array.
func (l Integers) MarshalJSON() ([]byte, error) { return marshalColumn(&l) }

// UnmarshalJSON implements json.Unmarshaler; null becomes nil.
func (c *Column[T]) UnmarshalJSON(data []byte) error { return unmarshalColumn(data, c) }

// MarshalJSON implements json.Marshaler; nil is null. A number that is not
// finite is an *InvalidError.
func (c Column[T]) MarshalJSON() ([]byte, error) { return marshalColumn(&c) }

func unmarshalColumn[C any](data []byte, column *C) error {
	var list C
	r := &reader{data: data}
	err := r.into(reflect.ValueOf(&list).Elem())
	if err == nil && r.peek() != 0 {
		err = errUnexpected
	}
	if err != nil {
		return fmt.Errorf("reading a column: %w", err)
	}
	*column = list
	return nil
}

func marshalColumn[C any](column *C) ([]byte, error) {
	var w writer
	w.value(reflect.ValueOf(column).Elem())
	return w.result()
}

// size returns the number of items of the array of numbers that is the next.
func (r *reader) size() int {
	rest := r.data[r.at:]
	end := bytes.IndexByte(rest, ']')
	return bytes.Count(rest[:max(end, 0)], []byte(",")) + 1
}

func (r *reader) integers() (Integers, error) {
	list := make(Integers, 0, r.size())
	err := r.array(func() error {
		n, err := r.integer()
		list = append(list, n)
		return err
	})
	return list, err
}

// readColumn reads an array of which each item is null or what parse reads, or a
// null, which is a nil column. It has no function call that it could do
// without: nearly all of a document are its columns.
func readColumn[T int64 | float64](r *reader, parse func([]byte) (T, int, error)) (Column[T], error) {
	if r.null() {
		return nil, nil
	}
	if !r.take('[') {
		return nil, errUnexpected
	}
	list := make(Column[T], 0, r.size())
	if r.take(']') {
		return list, nil
	}
	for {
		if r.peek() == 'n' && r.null() {
			list = append(list, Null[T]{})
		} else {
			value, size, err := parse(r.data[r.at:])
			r.at += size
			if err := r.judge(err); err != nil {
				return nil, under(strconv.Itoa(len(list)), err)
			}
			list = append(list, Some(value))
		}
		switch r.peek() {
		case ',':
			r.at++
		case ']':
			r.at++
			return list, nil
		default:
			return nil, errUnexpected
		}
	}
}

func (w *writer) integers(list Integers) {
	w.list(len(list), func(i int) { w.integer(list[i]) })
}

// writeColumn writes an array, or null for a nil column.
func writeColumn[T int64 | float64](w *writer, list Column[T], number func(T)) {
	if list == nil {
		w.null()
		return
	}
	w.list(len(list), func(i int) {
		if list[i].Valid {
			number(list[i].Value)
		} else {
			w.null()
		}
	})
}
