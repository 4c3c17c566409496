// Package docs is the part of the documentation that the program serves.
package docs

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// openAPI is packed in a release binary: see .ci/build.
//
//go:embed openapi.yaml
var openAPI []byte

// server is the line of the document that names its server.
var server = []byte("\n  - url: http://localhost:4040\n")

// OpenAPI is the description of the HTTP interface, openapi.yaml, with an issuer as its
// server.
func OpenAPI(issuer string) []byte {
	text := openAPI
	if packed, err := gzip.NewReader(bytes.NewReader(openAPI)); err == nil {
		if text, err = io.ReadAll(packed); err != nil {
			panic(err) // only of a broken build
		}
	}
	// In single quotes YAML has no escapes; an issuer has no quote of its own.
	return bytes.Replace(text, server, []byte("\n  - url: '"+issuer+"'\n"), 1)
}
