package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-id/cairn/templates"
)

// MaxBody limits a request body, in bytes.
const MaxBody = 64 << 10

// ReadForm reads a form of a page: content type, size, no repeated field except the named ones
// (check boxes), valid UTF-8 without NUL. The error is a *Problem.
func ReadForm(w http.ResponseWriter, r *http.Request, repeatable ...string) error {
	return ReadFormUpTo(w, r, MaxBody, repeatable...)
}

// OfForm returns h for a form; see ReadForm.
func OfForm(h Handler, repeatable ...string) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := ReadForm(w, r, repeatable...); err != nil {
			return err
		}
		return h(w, r)
	}
}

// ReadFormUpTo is ReadForm with another limit.
func ReadFormUpTo(w http.ResponseWriter, r *http.Request, max int64, repeatable ...string) error {
	if r.ContentLength > max {
		return tooLarge(max)
	}
	if err := ParseForm(w, r, max); err != nil {
		return err
	}
	add(r.Context(), func(i *RequestInfo) { i.page = true })
	for k, v := range r.PostForm {
		if len(v) > 1 && !slices.Contains(repeatable, k) {
			return BadRequest("A field of the form is given more than once.")
		}
		if all := k + " " + strings.Join(v, " "); !utf8.ValidString(all) || strings.ContainsRune(all, 0) {
			return BadRequest("The form contains characters that are not text.")
		}
	}
	return nil
}

// IsForm reports whether the body of a request is the form of a page without a file.
func IsForm(r *http.Request) bool {
	mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mt == formType
}

const formType = "application/x-www-form-urlencoded"

// ParseForm reads a form of at most max bytes, unless it was read before.
func ParseForm(w http.ResponseWriter, r *http.Request, max int64) error {
	if r.PostForm == nil {
		if err := checkBody(r, formType, max); err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, max)
	}
	if err := r.ParseForm(); err != nil {
		return bodyError(err)
	}
	return nil
}

var errMediaType = NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type",
	"Send the body without content encoding.")

func checkBody(r *http.Request, want string, max int64) error {
	if ce := r.Header.Get("Content-Encoding"); ce != "" && ce != "identity" {
		return errMediaType
	}
	mt, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if cs := params["charset"]; err != nil || mt != want || (cs != "" && !strings.EqualFold(cs, "utf-8")) {
		return errMediaType.With("Send the body with Content-Type: {type}.", "type", want)
	}
	if r.ContentLength > max {
		return tooLarge(max)
	}
	return nil
}

func bodyError(err error) error {
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return tooLarge(tooBig.Limit)
	}
	return BadRequest("The body could not be read.")
}

// tooLarge is the problem of a body that is longer than limit, in bytes.
func tooLarge(limit int64) *Problem {
	return NewProblem(http.StatusRequestEntityTooLarge, "too_large", "").
		With("The body is larger than {n} KiB.", "n", limit>>10)
}

// ReadFile reads a form with one file (RFC 7578) of at most max bytes. One that is larger, or cut off, is refused.
func ReadFile(w http.ResponseWriter, r *http.Request, field string, max int64, refused *Problem) ([]byte, error) {
	const overhead = 4 << 10 // of the form around the file
	r.Body = http.MaxBytesReader(w, r.Body, max+overhead)
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"Send the form with Content-Type: multipart/form-data.")
	}
	part, err := parts.NextPart()
	if err != nil || part.FormName() != field {
		return nil, BadRequest("The body could not be read.")
	}
	file, err := io.ReadAll(part)
	if err != nil {
		return nil, refused
	}
	return file, nil
}

// Repeated returns the problem of a repeated parameter.
func Repeated(parameter string) *Problem {
	return BadRequest("").With("The parameter {name} is given more than once.", "name", parameter)
}

// BadRequest returns the problem of a malformed request.
func BadRequest(detail templates.Text, fields ...FieldError) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_request", detail, fields...)
}

// shownField of a form has what it was filled in with: see Shown.
const shownField = "shown"

// Shown returns the value of the field "shown" of a form that is filled in with these fields: as it would be sent
// unchanged, without the empty ones.
func Shown(stored url.Values) string {
	shown := url.Values{}
	for name, values := range stored {
		if len(values) > 0 && values[0] != "" {
			shown[name] = values
		}
	}
	return shown.Encode()
}

// Rebase makes a form as if it had been filled in with what is stored now, nil for a box without its tick: what was
// sent as it was shown becomes what is stored. boxes are the fields that may be repeated, of which each value counts
// for itself. Rebase returns what was shown; nil: the form does not say so, and stays as it was sent.
func Rebase(form, stored url.Values, boxes ...string) (shown url.Values) {
	shown, err := url.ParseQuery(form.Get(shownField))
	if err != nil || !form.Has(shownField) {
		return nil
	}
	for name, now := range stored {
		sent, was := form[name], shown[name]
		switch {
		case slices.Contains(boxes, name):
			lost := func(v string) bool { return slices.Contains(was, v) && !slices.Contains(sent, v) }
			kept := func(v string) bool { return slices.Contains(was, v) || slices.Contains(now, v) }
			now = slices.Concat(slices.DeleteFunc(slices.Clone(now), lost), slices.DeleteFunc(slices.Clone(sent), kept))
		case !sameLines(form.Get(name), shown.Get(name)):
			continue
		}
		if form[name] = now; len(now) == 0 {
			form.Del(name)
		}
	}
	form.Set(shownField, Shown(stored))
	return shown
}

// sameLines reports whether two texts are equal but for the line ends, which browsers change.
func sameLines(a, b string) bool {
	return strings.ReplaceAll(a, "\r\n", "\n") == strings.ReplaceAll(b, "\r\n", "\n")
}
