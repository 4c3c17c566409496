// Package activityschema owns the format of the activity data files, version
// 1.0: the JSON Schema of index and detail documents, their Go types, a validator
// which says where a document departs from the format, and Lint, which says what
// the schema cannot: values that make no sense, and documents that show more than
// their privacy allows.
//
// A document is valid when it is I-JSON (RFC 7493: UTF-8, no member twice,
// numbers within a double) and matches exactly one of the two forms, the index
// document or the activity detail document.
//
// Validate reads a document once and keeps nothing of it: it is compiled from the
// embedded schema, and a keyword that it does not know ends the start (Ready). A
// schema library, hardened, stays the authority (EngineQri, EngineBoth).
// Decode turns a valid document into Index or Detail, which marshal to valid
// documents alone. Lint looks at one document, a Library at the documents of an owner
// against one another.
//
// It leaves to others: finding and opening files, printing problems (cmd/cairn), and
// serving the schema over HTTP (cmd/cairn).
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
