// Package otelx has the part of github.com/ory/x/otelx that fosite v0.49.0
// uses. It exports no span and needs no exporter.
package otelx

import (
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// End ends span, and marks it as failed if *err is an error by then. The function that started
// the span defers it. After a panic the span ends too.
func End(span trace.Span, err *error) {
	if err != nil && *err != nil {
		span.SetStatus(codes.Error, (*err).Error())
	}
	span.End()
}
