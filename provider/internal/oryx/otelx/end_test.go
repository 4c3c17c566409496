package otelx_test

import (
	"errors"
	"testing"

	"github.com/ory/x/otelx"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

type recorded struct {
	noop.Span
	code  codes.Code
	text  string
	ended int
}

func (r *recorded) SetStatus(code codes.Code, text string) { r.code, r.text = code, text }
func (r *recorded) End(...trace.SpanEndOption)             { r.ended++ }

func TestEndTellsTheErrorAsItIsOnReturn(t *testing.T) {
	for _, failure := range []error{nil, errors.New("too late")} {
		span := &recorded{}
		_ = func() (err error) {
			defer otelx.End(span, &err)
			return failure
		}()
		failed := span.code == codes.Error && span.text == "too late"
		if span.ended != 1 || failed != (failure != nil) {
			t.Errorf("after %v the span is %+v", failure, span)
		}
	}
	span := &recorded{}
	otelx.End(span, nil)
	if span.ended != 1 || span.code != codes.Unset {
		t.Errorf("without an error to look at the span is %+v", span)
	}
}

func TestEndLetsAPanicThrough(t *testing.T) {
	span := &recorded{}
	defer func() {
		if r := recover(); r != "broken" || span.ended != 1 {
			t.Errorf("recovered %v, span %+v", r, span)
		}
	}()
	func() (err error) {
		defer otelx.End(span, &err)
		panic("broken")
	}()
}
