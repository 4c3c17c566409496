// Package docs is the part of the documentation that the program serves.
package docs

import (
	"bytes"
	_ "embed"
)

//go:embed openapi.yaml
var openAPI []byte

// server is the line of the document that names its server.
var server = []byte("\n  - url: http://localhost:4040\n")

// OpenAPI is the description of the HTTP interface, openapi.yaml, with an issuer as its
// server.
func OpenAPI(issuer string) []byte {
	// In single quotes YAML has no escapes; an issuer has no quote of its own.
	return bytes.Replace(openAPI, server, []byte("\n  - url: '"+issuer+"'\n"), 1)
}
