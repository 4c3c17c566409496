// Package openapitest holds what tests send and get against docs/openapi.yaml: every
// answer of a documented address has to be as the document says, and so has every
// request that was not refused.
//
// The document is read, checked and routed by kin-openapi. The schemas are compiled by
// the library that it uses for OpenAPI 3.1: its own openapi3filter compiles them for each
// value, a millisecond each time (v0.152).
package openapitest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/felixge/httpsnoop"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-id/cairn/docs"
)

// object is an object of the document.
type object = map[string]any

// document is docs/openapi.yaml. Safe for concurrent use.
type document struct {
	*openapi3.T
	router routers.Router
	root   object // the document as JSON

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by their place
}

const resource = "https://example.org/openapi.json"

// Load reads the document, once for all tests.
var Load = sync.OnceValue(func() *document {
	d, err := load()
	if err != nil {
		panic(err)
	}
	return d
})

func load() (*document, error) {
	d := &document{compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	var err error
	if d.T, err = openapi3.NewLoader().LoadFromData(docs.OpenAPI("/")); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if d.router, err = gorillamux.NewRouter(d.T); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	text, err := d.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	d.root = root.(object)
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(resource, root)
}

// place is a JSON pointer into the document.
type place string

var escape, unescape = strings.NewReplacer("~", "~0", "/", "~1"), strings.NewReplacer("~1", "/", "~0", "~")

func (p place) to(names ...string) place {
	for _, name := range names {
		p += place("/" + escape.Replace(name))
	}
	return p
}

// at is what stands at a place, after its references, with the place where it stands.
func (d *document) at(p place) (place, any) {
	var v any = d.root
	for name := range strings.SplitSeq(strings.TrimPrefix(string(p), "/"), "/") {
		switch in := v.(type) {
		case object:
			v = in[unescape.Replace(name)]
		case []any:
			i, _ := strconv.Atoi(name)
			v = in[i]
		default:
			return p, nil
		}
	}
	if o, ok := v.(object); ok {
		if ref, ok := o["$ref"].(string); ok {
			return d.at(place(strings.TrimPrefix(ref, "#")))
		}
	}
	return p, v
}

func (d *document) object(p place) (place, object) {
	p, v := d.at(p)
	o, _ := v.(object)
	return p, o
}

// valid says what is wrong with a value by the schema at a place.
func (d *document) valid(schema place, value any) error {
	d.mu.Lock()
	s := d.schemas[string(schema)]
	if s == nil {
		var escaped place
		for name := range strings.SplitSeq(strings.TrimPrefix(string(schema), "/"), "/") {
			escaped += place("/" + url.PathEscape(name))
		}
		var err error
		if s, err = d.compiler.Compile(resource + "#" + string(escaped)); err != nil {
			d.mu.Unlock()
			return err
		}
		d.schemas[string(schema)] = s
	}
	d.mu.Unlock()
	return s.Validate(value)
}

// validText is valid for a text of a header or an address, which may stand for a number.
func (d *document) validText(schema place, text string) error {
	var value any = text
	if _, s := d.object(schema); s["type"] == "integer" {
		value = json.Number(text)
	}
	return d.valid(schema, value)
}

// exchange is a request and its answer.
type exchange struct {
	Method      string
	URL         *url.URL // its path begins after that of the issuer
	Request     http.Header
	RequestBody []byte
	Status      int
	Response    http.Header
	Body        []byte
}

// Check says where an exchange is not as the document says. What is not documented is
// none of its concern, but below /api/.
func (d *document) Check(x *exchange) error {
	method := x.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	const clientGone = 499 // for the log alone
	if method == http.MethodOptions || x.Status == clientGone {
		return nil
	}
	// The decoded path, as the service routes.
	route, values, err := d.router.FindRoute(&http.Request{Method: method, URL: &url.URL{Path: x.URL.Path}})
	if errors.Is(err, routers.ErrPathNotFound) && strings.Contains(x.URL.Path, "/api/me/apps/") {
		escaped := &url.URL{Path: x.URL.EscapedPath()} // a client id may be a URL, whose slashes are escaped
		route, values, err = d.router.FindRoute(&http.Request{Method: method, URL: escaped})
	}
	switch {
	case errors.Is(err, routers.ErrMethodNotAllowed):
		if x.Status < 400 {
			return fmt.Errorf("the method is not documented and answered %d", x.Status)
		}
		if x.Status == http.StatusMethodNotAllowed && x.Response.Get("Allow") == "" {
			return errors.New("405 without Allow")
		}
		return nil
	case err != nil:
		unchecked := []int{http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests}
		if strings.HasPrefix(x.URL.Path, "/api/") && x.Status < 500 && !slices.Contains(unchecked, x.Status) {
			return fmt.Errorf("the address is not documented and answered %d", x.Status)
		}
		return nil
	}
	if x.Method == http.MethodHead && x.Status == http.StatusMethodNotAllowed {
		return nil
	}
	operation := place("").to("paths", route.Path, strings.ToLower(method))
	if err := d.checkResponse(operation.to("responses", strconv.Itoa(x.Status)), x); err != nil {
		return fmt.Errorf("answer %d: %w", x.Status, err)
	}
	if x.Status < 400 {
		if err := d.checkRequest(operation, values, x); err != nil {
			return fmt.Errorf("request that was answered %d: %w", x.Status, err)
		}
	}
	return nil
}

func (d *document) checkResponse(p place, x *exchange) error {
	p, response := d.object(p)
	if response == nil {
		return errors.New("the status is not documented")
	}
	headers, _ := response["headers"].(object)
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at, header := d.object(p.to("headers", name))
		text := x.Response.Get(name)
		if len(x.Response.Values(name)) == 0 {
			if header["required"] == true {
				return fmt.Errorf("no header %s", name)
			}
			continue
		}
		if err := d.validText(at.to("schema"), text); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	content, _ := response["content"].(object)
	if len(x.Body) == 0 && (content == nil || x.Method == http.MethodHead) || content == nil && x.Status/100 == 3 {
		return nil // a redirect may come with a line for people
	}
	body := x.Body
	if x.Response.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(z); err != nil {
			return err
		}
	}
	return d.checkBody(p, content, x.Response, body)
}

func (d *document) checkBody(p place, content object, header http.Header, body []byte) error {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if content[media] == nil {
		return fmt.Errorf("the content type %q is not documented (%v)", header.Get("Content-Type"), err)
	}
	var value any = string(body)
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		value, err = jsonschema.UnmarshalJSON(bytes.NewReader(body))
	case media == "application/x-www-form-urlencoded":
		var form url.Values
		form, err = url.ParseQuery(string(body))
		fields := object{}
		for name := range form {
			fields[name] = form.Get(name)
		}
		value = fields
	case media == "application/yaml":
		return nil // this document, which is being read
	}
	if err != nil {
		return err
	}
	at, _ := d.at(p.to("content", media))
	return d.valid(at.to("schema"), value)
}

func (d *document) checkRequest(operation place, inPath map[string]string, x *exchange) error {
	_, o := d.object(operation)
	query := x.URL.Query()
	list, _ := o["parameters"].([]any)
	for i := range list {
		p, parameter := d.object(operation.to("parameters", strconv.Itoa(i)))
		name := parameter["name"].(string)
		given := x.Request.Values(name)
		switch parameter["in"] {
		case "query":
			given = query[name]
		case "path":
			text, err := url.PathUnescape(inPath[name])
			if err != nil {
				return err
			}
			given = []string{text}
		}
		if len(given) == 0 && parameter["required"] == true {
			return fmt.Errorf("no parameter %s", name)
		}
		schema, s := d.object(p.to("schema"))
		if s["type"] == "array" { // which is repeated
			schema = schema.to("items")
		}
		for _, text := range given {
			if err := d.validText(schema, text); err != nil {
				return fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	p, body := d.object(operation.to("requestBody"))
	if len(x.RequestBody) == 0 {
		if body["required"] == true {
			return errors.New("no body")
		}
		return nil
	}
	_, any := d.at(p.to("content", "application/json", "schema"))
	if body == nil || x.Request.Get("Content-Encoding") != "" || any != nil && any.(object)["type"] == nil {
		return nil // what nobody reads, or reads as any text
	}
	content, _ := body["content"].(object)
	return d.checkBody(p, content, x.Request, x.RequestBody)
}

// largest is how much is kept of a body; longer ones are not looked at.
const largest = 1 << 20

// Handler reports to t where the traffic of h, whose issuer has the path base, is not as
// the document says. h must not serve when t has ended.
func Handler(t testing.TB, base string, h http.Handler) http.Handler {
	d := Load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{Method: r.Method, Request: r.Header.Clone(), Status: http.StatusOK}
		u := *r.URL
		u.Path, u.RawPath = strings.TrimPrefix(u.Path, base), strings.TrimPrefix(u.RawPath, base)
		x.URL = &u
		var sent, got bytes.Buffer
		written := false
		header := func(code int) {
			if !written {
				x.Status, x.Response, written = code, w.Header().Clone(), code >= 200
			}
		}
		watched := httpsnoop.Wrap(w, httpsnoop.Hooks{
			WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
				return func(code int) { header(code); next(code) }
			},
			Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
				return func(b []byte) (int, error) {
					header(http.StatusOK)
					got.Write(b[:min(len(b), largest)])
					return next(b)
				}
			},
			ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
				return func(from io.Reader) (int64, error) {
					header(http.StatusOK)
					return next(io.TeeReader(from, &got))
				}
			},
		})
		if r.Body != nil && r.Body != http.NoBody {
			// A copy: the server looks at the body of its own request to decide whether to read the rest.
			r = r.WithContext(r.Context())
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}
		h.ServeHTTP(watched, r)
		header(http.StatusOK)
		x.RequestBody, x.Body = sent.Bytes(), got.Bytes()
		if max(sent.Len(), got.Len()) >= largest || errors.Is(r.Context().Err(), context.Canceled) {
			return
		}
		if err := d.Check(x); err != nil {
			t.Errorf("openapi.yaml: %s %s: %v\nrequest: %.300s\nanswer: %.600s",
				x.Method, x.URL.Path, err, x.RequestBody, x.Body)
		}
	})
}
