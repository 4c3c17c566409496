package account

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a request's JSON; ours never exceeds two.
const maxDepth = 16

// ReadJSON reads one JSON object into v, a pointer to a struct or map, strictly:
// the content type, at most MaxBody bytes, no unknown or repeated member, no
// second value, valid UTF-8 without NUL. It returns a *Problem.
func ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if err := checkBody(r, "application/json"); err != nil {
		return err
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	return decodeJSON(body, v)
}

// ReadOptionalJSON is ReadJSON for requests that need no body: an empty one
// leaves v as it is and needs no content type.
func ReadOptionalJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	body, err := readBody(w, r)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := checkBody(r, "application/json"); err != nil {
		return err
	}
	return decodeJSON(body, v)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		return nil, bodyError(err)
	}
	return body, nil
}

func decodeJSON(body []byte, v any) error {
	// The members of a struct are names that we gave; those of a map are data.
	ours := reflect.TypeOf(v).Elem().Kind() == reflect.Struct
	if p := checkJSON(body, ours); p != nil {
		return p
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return describeJSON(err)
	}
	return nil
}

func describeJSON(err error) *Problem {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		p := "/" + strings.ReplaceAll(wrongType.Field, ".", "/")
		return badRequest("A member has the wrong type.", FieldError{Pointer: p, Detail: "must be a " + jsonType(wrongType.Type.Kind().String())})
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return badRequest("The body has a member that is not known here.", FieldError{Pointer: "/" + strings.Trim(cut(name, 64), `"`), Detail: "not known"})
	}
	return badRequest("The body is not the JSON object that belongs here.")
}

func jsonType(kind string) string {
	switch kind {
	case "bool":
		return "boolean"
	case "map", "struct":
		return "object"
	case "slice", "array":
		return "array"
	case "string":
		return "string"
	}
	return "number"
}

// checkJSON holds a body to I-JSON (RFC 7493) and, when the names are ours, to
// lower-case ASCII ones: encoding/json would match "HANDLE" and even "paſſword"
// with ours and keep the last of two.
func checkJSON(body []byte, ours bool) *Problem {
	if !utf8.Valid(body) || loneSurrogate(body) {
		return badRequest("The body is not valid Unicode.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	type frame struct {
		object, wantName bool
		names            map[string]bool
	}
	var stack []frame
	for first := true; ; first = false {
		t, err := d.Token()
		if errors.Is(err, io.EOF) && !first && len(stack) == 0 {
			return nil
		}
		if err != nil {
			return badRequest("The body is not valid JSON.")
		}
		if !first && len(stack) == 0 {
			return badRequest("The body has more than one JSON value.")
		}
		if first && t != json.Delim('{') {
			return badRequest("The body must be a JSON object.")
		}
		top := len(stack) - 1
		if s, ok := t.(string); ok {
			if strings.ContainsRune(s, 0) {
				return badRequest("The body has a NUL character.")
			}
			if stack[top].object && stack[top].wantName {
				if stack[top].names[s] {
					return badRequest("A member is given more than once.")
				}
				if ours && top == 0 && strings.ContainsFunc(s, func(r rune) bool { return r > '~' || unicode.IsUpper(r) }) {
					return badRequest("The body has a member that is not known here.")
				}
				stack[top].names[s] = true
				stack[top].wantName = false
				continue
			}
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			if top >= 0 {
				stack[top].wantName = true
			}
			if len(stack) == maxDepth {
				return badRequest("The body is nested too deeply.")
			}
			stack = append(stack, frame{object: t == json.Delim('{'), wantName: true, names: map[string]bool{}})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
			continue
		}
		if top >= 0 {
			stack[top].wantName = true
		}
	}
}

// loneSurrogate finds \uD800-\uDFFF escapes that do not form a pair, which
// encoding/json would replace silently.
func loneSurrogate(b []byte) bool {
	hex4 := func(i int) (n int, ok bool) {
		if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
			return 0, false
		}
		_, err := fmt.Sscanf(string(b[i+2:i+6]), "%04x", &n)
		return n, err == nil
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		n, ok := hex4(i)
		switch {
		case !ok:
			i++ // another escape: skip its letter, a backslash above all
		case n >= 0xD800 && n < 0xDC00:
			if low, ok := hex4(i + 6); !ok || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 11
		case n >= 0xDC00 && n <= 0xDFFF:
			return true
		default:
			i += 5
		}
	}
	return false
}
