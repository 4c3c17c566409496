package web

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/cairn-id/cairn/templates"
)

// maxDepth limits the nesting of JSON; ours never exceeds five.
const maxDepth = 16

// WriteJSON writes a JSON response that must not be cached. It returns an error only if nothing has
// been written.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	if err := stdjson.NewEncoder(&b).Encode(v); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
	return nil
}

// List is a member of a response that is too long for memory. It calls add with each entry.
type List func(add func(entry any) error) error

// MarshalJSONTo implements json.MarshalerTo.
func (l List) MarshalJSONTo(e *jsontext.Encoder) error {
	if err := e.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	if err := l(func(entry any) error { return json.MarshalEncode(e, entry, jsonv1.DefaultOptionsV1()) }); err != nil {
		return err
	}
	return e.WriteToken(jsontext.EndArray)
}

// streamTimeout is how long a client may take for a part of a response.
const streamTimeout = 30 * time.Second

// StreamJSON is WriteJSON for a value with a List, which is written while it is read. It returns an
// error only if nothing has been written. A later failure ends the connection within the document,
// so that nobody takes it for complete.
func StreamJSON(w http.ResponseWriter, now func() time.Time, v any) error {
	return Stream(w, now, "application/json", func(to *bufio.Writer) error {
		if err := json.MarshalWrite(to, v, jsonv1.DefaultOptionsV1()); err != nil {
			return err
		}
		return to.WriteByte('\n')
	})
}

// Stream writes a response in parts with write. Errors are handled as in StreamJSON.
func Stream(
	w http.ResponseWriter, now func() time.Time, contentType string, write func(to *bufio.Writer) error,
) error {
	part := &parts{w: w, now: now, contentType: contentType}
	buffer := bufio.NewWriterSize(part, 64<<10)
	err := write(buffer)
	if err == nil {
		err = buffer.Flush()
	}
	if err != nil && part.started {
		panic(http.ErrAbortHandler)
	}
	return err
}

type parts struct {
	w           http.ResponseWriter
	now         func() time.Time
	contentType string
	started     bool
}

func (p *parts) Write(b []byte) (int, error) {
	if !p.started {
		p.started = true
		p.w.Header().Set("Content-Type", p.contentType)
		p.w.Header().Set("Cache-Control", "no-store")
		p.w.WriteHeader(http.StatusOK)
	}
	// The server's own timeout is for a whole response.
	_ = http.NewResponseController(p.w).SetWriteDeadline(p.now().Add(streamTimeout))
	return p.w.Write(b)
}

// Answer is WriteJSON for what an operation returned with err; an error is returned instead.
func Answer(w http.ResponseWriter, status int, v any, err error) error {
	if err != nil {
		return err
	}
	return WriteJSON(w, status, v)
}

// NoContent writes 204 unless there is an error, which is returned.
func NoContent(w http.ResponseWriter, err error) error {
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// ReadJSON reads the body of a request with DecodeJSON. The content type must be JSON, and the body
// at most MaxBody bytes. The error is a *Problem.
func ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if err := checkBody(r, "application/json", MaxBody); err != nil {
		return err
	}
	return DecodeJSON(body, v)
}

// Reading returns a handler that calls do with the JSON body of the request; see ReadJSON.
func Reading[In any](do func(w http.ResponseWriter, r *http.Request, in In) error) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var in In
		if err := ReadJSON(w, r, &in); err != nil {
			return err
		}
		return do(w, r, in)
	}
}

// ReadOptionalJSON is ReadJSON for an optional body: an empty one leaves v unchanged and needs no
// content type.
func ReadOptionalJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	body, err := readBody(w, r)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := checkBody(r, "application/json", MaxBody); err != nil {
		return err
	}
	return DecodeJSON(body, v)
}

// Empty returns h for a body that may be an empty object.
func Empty(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := ReadOptionalJSON(w, r, &struct{}{}); err != nil {
			return err
		}
		return h(w, r)
	}
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, tooLarge(MaxBody)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		return nil, bodyError(err)
	}
	return body, nil
}

// DecodeJSON decodes one JSON object into v, a pointer to a struct or map, strictly: I-JSON (RFC
// 7493) without NUL, no repeated or unknown member, names compared exactly, no second value. The
// error is a *Problem, which repeats only names.
func DecodeJSON(text []byte, v any) error {
	if detail := checkJSON(text); detail != "" {
		return BadRequest(detail)
	}
	err := json.Unmarshal(text, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var fault *json.SemanticError
	if !errors.As(err, &fault) {
		return BadRequest("The body is not the expected JSON object.")
	}
	pointer := string(fault.JSONPointer)
	if len(pointer) > 128 {
		pointer = ""
	}
	if errors.Is(err, json.ErrUnknownName) {
		return BadRequest("The body contains an unknown member.",
			FieldError{Pointer: pointer, Detail: "unknown"})
	}
	return BadRequest("A member has the wrong type.", FieldError{Pointer: pointer, Detail: mustBe(fault.GoType)})
}

// checkJSON returns why a text is not exactly one valid object.
func checkJSON(text []byte) templates.Text {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		return "The body must be a JSON object."
	}
	for {
		t, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return ""
		case errors.Is(err, jsontext.ErrDuplicateName):
			return "A member is given more than once."
		case err != nil:
			return "The body is not valid JSON."
		case t.Kind() == '"' && strings.ContainsRune(t.String(), 0):
			return "The body contains a NUL character."
		case d.StackDepth() > maxDepth:
			return "The body is nested too deeply."
		case d.StackDepth() == 0 && d.PeekKind() != 0:
			return "The body contains more than one JSON value."
		}
	}
}

func mustBe(t reflect.Type) templates.Text {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "must be a JSON object"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "must be a boolean"
	case reflect.Map, reflect.Struct:
		return "must be an object"
	case reflect.Slice:
		return "must be an array"
	case reflect.String:
		return "must be a string"
	}
	return "must be a number"
}

// TimeOrNull returns the JSON form of a time, null for the zero time.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// TextOrNull returns the JSON form of a text, null for "".
func TextOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
