package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one validation.
const (
	MaxBytes    = 256 << 20 // size of a document, in bytes
	MaxDepth    = 64        // nested objects and arrays, including the document itself
	MaxProblems = 100       // problems returned; a document may have more
)

// mostProblems is the upper bound of Options.MaxProblems.
const mostProblems = 1000

// Options configure a validation. The zero Options are those of Validate.
type Options struct {
	MaxBytes    int64 // maximum size of a document; 0 means MaxBytes
	MaxProblems int   // maximum number of problems returned, at most 1000; 0 means MaxProblems

	unfit *[]Problem // if set, collects integers beyond 64 bits
}

// Validate reads one document from r and returns its departures from the format in the order of
// the document. The result is deterministic; no problems means that the document is valid. There
// are at most MaxProblems problems with about a megabyte of text in total.
//
// The problems are those of the form that the document was meant to be, judging by its members
// (owner and activities, or laps and timeseries). A document that is not I-JSON gets a single
// problem.
//
// Validate takes one pass and a few hundred kilobytes of memory for a document of any size. Only
// long strings and the member names of an object of custom take more, while they last. r is read
// to its end unless it is not I-JSON.
//
// The error is that of r or of ctx, unwrapped, and the problems are then nil. ctx is checked
// before each read, but a blocked Read is not interrupted. Validate is safe for concurrent use.
func Validate(ctx context.Context, r io.Reader) ([]Problem, error) {
	_, problems, err := Options{}.Validate(ctx, r)
	return problems, err
}

// Validate is the function Validate with options. It also returns the form that the document was
// meant to be, or "" if no member indicates one or the document is not I-JSON.
func (o Options) Validate(ctx context.Context, r io.Reader) (Form, []Problem, error) {
	p, err := loadPlan()
	if err != nil {
		return "", nil, err
	}
	return o.validate(ctx, r, p)
}

func (o Options) validate(ctx context.Context, r io.Reader, p *plan) (Form, []Problem, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	if o.MaxProblems <= 0 {
		o.MaxProblems = MaxProblems
	}
	w := &walker{
		source: newSource(ctx, r, o.MaxBytes), plan: p, most: min(o.MaxProblems, mostProblems),
		found: map[Form]*problemList{}, unfit: o.unfit,
	}
	err := w.document()
	switch {
	case err == nil:
		form, problems := w.result()
		return form, problems, nil
	case w.err == nil || errors.Is(w.err, io.EOF) || !errors.Is(err, w.err):
		return "", []Problem{w.fault(err)}, nil
	case errors.Is(w.err, errTooLarge):
		message := fmt.Sprintf("larger than %d bytes", o.MaxBytes)
		return "", []Problem{{Place: w.place(o.MaxBytes - w.skipped), Keyword: KeywordSize, Message: message}}, nil
	}
	return "", nil, w.err
}

// A walker validates the tokens of one document.
type walker struct {
	*source
	plan *plan
	most int

	// found has the problems inside members of only one form under that form, and all others
	// under the empty Form. Which form counts is known at the end.
	found  map[Form]*problemList
	within Form
	unfit  *[]Problem

	begin   Place             // of the document
	present map[*member]Place // the members present and the places of their names; nil if not an object
}

// A fault is a reason, not detected by the decoder, why a document is not I-JSON.
type fault struct {
	keyword, message string
	at               Place
	pointer          string
}

// Error implements error.
func (f *fault) Error() string { return f.message }

// document walks the whole document and checks that nothing follows it.
func (w *walker) document() error {
	kind, raw, err := w.next()
	if err != nil {
		return err
	}
	w.begin = w.start(raw)
	if err := w.value(w.plan.root, kind, raw); err != nil {
		return err
	}
	end := w.dec.InputOffset()
	if _, _, err = w.next(); w.err != nil && errors.Is(err, w.err) {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	rest := w.unread(end)
	end += int64(len(rest) - len(bytes.TrimLeft(rest, " \t\r\n")))
	return &fault{keyword: KeywordTrailingData, message: "something follows the JSON value", at: w.place(end)}
}

func (w *walker) result() (Form, []Problem) {
	if w.present == nil {
		return "", w.list("").problems
	}
	form := meantForm(w.present)
	if form == "" {
		return "", []Problem{problem("", w.begin, "oneOf", bothForms, "object")}
	}
	found := slices.Concat(w.list("").problems, w.list(form).problems)
	for m, at := range w.present {
		if m.form != "" && m.form != form {
			found = append(found, problem("/"+m.name, at, "additionalProperties", "", memberNamed(m.name)))
		}
	}
	for _, m := range w.plan.required[form] {
		if _, ok := w.present[m]; !ok {
			found = append(found, problem("", w.begin, "required", memberNamed(m.name), ""))
		}
	}
	return form, inOrder(found, w.most)
}

func (w *walker) list(form Form) *problemList {
	if w.found[form] == nil {
		w.found[form] = new(problemList)
	}
	return w.found[form]
}

// report records that the value or name just read violates a keyword.
func (w *walker) report(at Place, keyword, expected, found string) {
	w.list(w.within).add(problem(string(w.dec.StackPointer()), at, keyword, expected, found))
}

// room reports whether a further problem would be kept. There may be a million.
func (w *walker) room() bool { return !w.list(w.within).full(w.most) }

// value walks the value that begins with a token, and checks it against a shape.
func (w *walker) value(sh *shape, kind jsontext.Kind, raw []byte) error {
	is := kindNull
	switch kind {
	case '0':
		return w.number(sh, raw)
	case '"':
		is = kindString
	case 't', 'f':
		is = kindBoolean
	case '{':
		is = kindObject
	case '[':
		is = kindArray
	}
	if is&(kindObject|kindArray) != 0 && w.dec.StackDepth() > MaxDepth {
		message := fmt.Sprintf("nested deeper than %d objects and arrays", MaxDepth)
		return &fault{keyword: KeywordDepth, message: message, at: w.start(raw)}
	}
	allowed := sh.kinds&is != 0
	if !allowed && w.room() {
		w.report(w.start(raw), "type", sh.expected("type"), shown(raw, is))
	}
	switch {
	case is == kindString && allowed:
		w.text(sh, raw)
	case is == kindObject && allowed && sh.members != nil:
		return w.object(sh, w.start(raw))
	case is == kindArray && allowed && sh != anything:
		return w.array(sh, w.start(raw))
	case is == kindObject || is == kindArray:
		_, err := w.items(anything)
		return err
	}
	return nil
}

// object walks the members of a closed object after its opening brace.
func (w *walker) object(sh *shape, begin Place) error {
	document, present := sh == w.plan.root, uint64(0)
	if document {
		w.present = map[*member]Place{}
	}
	for {
		kind, raw, err := w.next()
		if err != nil {
			return err
		}
		if kind == '}' {
			break
		}
		name, value := unquoted(raw), anything
		if m := sh.members[string(name)]; m != nil {
			value, present = m.shape, present|m.bit
			if document {
				w.present[m], w.within = w.start(raw), m.form
			}
		} else if w.room() {
			w.report(w.start(raw), "additionalProperties", "", memberNamed(string(name)))
		}
		if kind, raw, err = w.next(); err != nil {
			return err
		}
		if err := w.value(value, kind, raw); err != nil {
			return err
		}
		if document {
			w.within = ""
		}
	}
	for _, name := range sh.Required {
		if present&sh.members[name].bit == 0 && w.room() {
			w.report(begin, "required", memberNamed(name), "")
		}
	}
	return nil
}

// array walks the items of an array after its opening bracket.
func (w *walker) array(sh *shape, begin Place) error {
	items := sh.Items
	if items == nil {
		items = anything
	}
	n, err := w.items(items)
	if err != nil {
		return err
	}
	if n < int(sh.MinItems) && w.room() {
		w.report(begin, "minItems", sh.expected("minItems"), "array of "+amount(n, "item"))
	}
	if sh.MaxItems != nil && n > int(*sh.MaxItems) && w.room() {
		w.report(begin, "maxItems", sh.expected("maxItems"), "array of "+amount(n, "item"))
	}
	return nil
}

// items walks to the end of an array, or of an object that the schema does not constrain.
func (w *walker) items(sh *shape) (n int, err error) {
	for ; ; n++ {
		kind, raw, err := w.next()
		if err != nil || kind == ']' || kind == '}' {
			return n, err
		}
		if kind == '0' { // nearly all of a document
			err = w.number(sh, raw)
		} else {
			err = w.value(sh, kind, raw)
		}
		if err != nil {
			return n, err
		}
	}
}

func (w *walker) number(sh *shape, raw []byte) error {
	is, inRange := classify(raw)
	if !inRange {
		message := shown(raw, is) + " is beyond the range of a double"
		return &fault{KeywordNumber, message, w.start(raw), string(w.dec.StackPointer())}
	}
	keyword := ""
	switch {
	case sh.kinds&is == 0:
		keyword = "type"
	case sh.Minimum != nil && raw[0] == '-' && !isZero(raw):
		keyword = "minimum"
	case w.unfit != nil && sh.kinds&kindFraction == 0 && len(*w.unfit) < w.most:
		if _, fits := integer(raw); !fits {
			p := Problem{Pointer: string(w.dec.StackPointer()), Place: w.start(raw), Keyword: KeywordInteger}
			p.Message = "the integer is valid, but lies beyond the 64 bits that a document is decoded to"
			*w.unfit = append(*w.unfit, p)
		}
	}
	if keyword != "" && w.room() {
		w.report(w.start(raw), keyword, sh.expected(keyword), shown(raw, is))
	}
	return nil
}

func (w *walker) text(sh *shape, raw []byte) {
	listed, texts := sh.textKeyword()
	if listed == "" && sh.Format == "" && sh.MinLength == 0 {
		return
	}
	text, keyword := string(unquoted(raw)), ""
	if listed != "" && !slices.ContainsFunc(texts, func(t *string) bool { return t != nil && *t == text }) {
		keyword = listed
	} else if sh.Format != "" && !isDateTime(text) {
		keyword = "format"
	} else if utf8.RuneCountInString(text) < int(sh.MinLength) {
		keyword = "minLength"
	}
	if keyword != "" && w.room() {
		w.report(w.start(raw), keyword, sh.expected(keyword), shown(raw, kindString))
	}
}

// unquoted returns the value of a JSON string, without copying if possible.
func unquoted(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // checked by the decoder
	return text
}

func (w *walker) fault(err error) Problem {
	if f, ok := errors.AsType[*fault](err); ok {
		return Problem{Pointer: f.pointer, Place: f.at, Keyword: f.keyword, Message: f.message}
	}
	s, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		end := w.base + int64(len(w.held))
		p := Problem{Place: w.place(end), Keyword: KeywordSyntax, Message: "not JSON: ends before the document does"}
		if end == 0 {
			p.Message = "empty: a document is an object"
		}
		return p
	}
	p := Problem{Place: w.place(s.ByteOffset), Keyword: KeywordSyntax, Message: "not JSON: " + s.Err.Error()}
	rest := w.unread(s.ByteOffset)
	switch r, size := utf8.DecodeRune(rest); {
	case errors.Is(err, jsontext.ErrDuplicateName):
		p.Keyword, p.Pointer = KeywordDuplicate, string(s.JSONPointer)
		p.Message = memberNamed(s.JSONPointer.LastToken()) + " is there twice"
	case s.ByteOffset == 0 && r == '\uFEFF':
		p.Keyword, p.Message = KeywordBOM, "begins with a byte order mark: leave it out"
	case r == utf8.RuneError && size == 1:
		p.Keyword, p.Pointer, p.Message = KeywordUTF8, string(s.JSONPointer), "not UTF-8"
	case loneSurrogate(rest):
		p.Keyword, p.Pointer = KeywordUTF8, string(s.JSONPointer)
		p.Message = "half a surrogate pair, which is no character"
	}
	return p
}

// loneSurrogate reports whether text begins with the escape of a surrogate.
func loneSurrogate(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && 0xD800 <= code && code <= 0xDFFF
}
