package main

import (
	"errors"
	"math"
	"strconv"

	"github.com/cairn-id/cairn/activityschema"
)

// decodeForLint decodes a valid document. An integer beyond 64 bits is valid
// and does not decode: for lint the greatest one takes its place, of which it
// says the same, for a document that hides a position behind it must not go
// unseen.
func decodeForLint(data []byte) (*activityschema.Document, error) {
	document := new(activityschema.Document)
	err := document.UnmarshalJSON(data)
	if errors.As(err, new(*activityschema.RangeError)) {
		document = new(activityschema.Document)
		err = document.UnmarshalJSON(within64Bits(data))
	}
	return document, err
}

// within64Bits returns the JSON in data with the nearest integer of 64 bits in
// place of every number beyond.
func within64Bits(data []byte) []byte {
	var out []byte
	copied := 0
	w := &jsonWalker{data: data}
	for w.pos < len(data) {
		switch c := data[w.pos]; {
		case c == '"':
			w.skipText()
		case c == '-' || '0' <= c && c <= '9':
			from := w.pos
			w.scalar()
			if v, err := strconv.ParseFloat(string(data[from:w.pos]), 64); err == nil && math.Abs(v) >= 1<<63 {
				literal := strconv.FormatInt(math.MaxInt64, 10)
				if v < 0 {
					literal = "-" + literal
				}
				out = append(append(out, data[copied:from]...), literal...)
				copied = w.pos
			}
		default:
			w.pos++
		}
	}
	return append(out, data[copied:]...)
}
