package account

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gorilla/mux"
)

// MaxBody is how much of a request body is read, in bytes.
const MaxBody = 64 << 10

// Methods says what a path can do. HEAD is served by GET; anything else is
// answered 405 with Allow.
type Methods map[string]http.HandlerFunc

// Handle registers a path with its methods on the router.
func (s *Service) Handle(m *mux.Router, path string, methods Methods) {
	allow := make([]string, 0, len(methods)+1)
	for k := range methods {
		allow = append(allow, k)
	}
	if methods[http.MethodGet] != nil {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	m.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h := methods[method]
		if h == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.WriteProblem(w, r, NewProblem(http.StatusMethodNotAllowed, "method_not_allowed", "This address does not answer to the method of the request."))
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		h(w, r)
	})
}

// WriteJSON answers with a JSON body that nobody may keep.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// ReadForm reads a form of a page: content type, size, no repeated field but
// the ones named (check boxes), valid UTF-8 without NUL. It returns a *Problem.
func ReadForm(w http.ResponseWriter, r *http.Request, repeatable ...string) error {
	if r.Method == http.MethodPost {
		if err := checkBody(r, "application/x-www-form-urlencoded"); err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
	}
	if err := r.ParseForm(); err != nil {
		return bodyError(err)
	}
	for k, v := range r.PostForm {
		if len(v) > 1 && !slices.Contains(repeatable, k) {
			return badRequest("A field of the form is given more than once.")
		}
		if all := k + " " + strings.Join(v, " "); !utf8.ValidString(all) || strings.ContainsRune(all, 0) {
			return badRequest("The form has characters that are not text.")
		}
	}
	return nil
}

func checkBody(r *http.Request, want string) error {
	if ce := r.Header.Get("Content-Encoding"); ce != "" && ce != "identity" {
		return NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the body without content encoding.")
	}
	mt, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if cs := params["charset"]; err != nil || mt != want || (cs != "" && !strings.EqualFold(cs, "utf-8")) {
		return NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the body with Content-Type: "+want+".")
	}
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	return nil
}

func bodyError(err error) error {
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return tooLarge()
	}
	return badRequest("The body could not be read.")
}

func tooLarge() *Problem {
	return NewProblem(http.StatusRequestEntityTooLarge, "too_large", "The body is larger than 64 KiB.")
}

func badRequest(detail string, fields ...FieldError) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_request", detail, fields...)
}
