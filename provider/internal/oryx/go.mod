// What fosite uses of github.com/ory/x, and nothing else of it: the go.mod of
// the repository puts this module in the place of the real one, and says why.
module github.com/ory/x

go 1.26.0

require (
	github.com/pkg/errors v0.9.1
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect
