// Package activityschema owns the format of the activity data files, version
// 1.0: the JSON Schema of index and detail documents, and a validator which
// says where a document departs from it.
//
// A document is valid when it is I-JSON (RFC 7493: UTF-8, no member twice,
// numbers within a double) and matches exactly one of the two forms, the index
// document or the activity detail document.
//
// It leaves to others: finding and opening files, printing problems (cmd/cairn),
// serving the schema over HTTP (cmd/cairn), and whether the values make sense
// (columns of one length, coordinates on this planet, privacy that is kept).
package activityschema

import (
	"bytes"
	_ "embed"
)

//go:embed activity-1.0.json
var schemaJSON []byte

// Schema returns the JSON Schema (draft 2020-12) of index and detail documents
// as UTF-8 JSON, media type application/schema+json. The slice is a copy that
// the caller may change.
func Schema() []byte {
	return bytes.Clone(schemaJSON)
}
