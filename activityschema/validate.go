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
	MaxDepth    = 64        // objects and arrays within one another, the document itself included
	MaxProblems = 100       // problems returned; a document may have more
)

// mostProblems is the greatest useful value of Options.MaxProblems.
const mostProblems = 1000

// Options of a validation. The zero Options are those of Validate.
type Options struct {
	MaxBytes    int64 // size up to which a document is read; 0 means MaxBytes
	MaxProblems int   // problems returned at most, 1000 or fewer; 0 means MaxProblems

	unfit *[]Problem // if set, where integers beyond 64 bits are noted
}

// Validate reads one document from r and returns where it departs from the
// format, in the order of the document, the same at every run; none means that
// the document is valid. There are at most MaxProblems problems, of about a
// megabyte of text together.
//
// The problems are those of the form that the document was meant to be, told
// by its members (owner and activities, or laps and timeseries). A document
// that is not I-JSON is reported as such, with one problem, and not looked at any
// further.
//
// It takes one pass and a few hundred kilobytes of memory, for any size of the
// document; only long strings and the member names of an object of custom cost
// more, as long as they last. r is read to its end unless it is no I-JSON.
//
// The error is that of r or of ctx, as it is; the problems are then nil. ctx is looked at before each read, but a Read that blocks is not
// interrupted. Validate may be called concurrently.
func Validate(ctx context.Context, r io.Reader) ([]Problem, error) {
	_, problems, err := Options{}.Validate(ctx, r)
	return problems, err
}

// Validate is the function Validate with options. It also returns the form that the
// document was meant to be: empty if no member tells, and if the document is not
// I-JSON.
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
	w := &walker{source: newSource(ctx, r, o.MaxBytes), plan: p, most: min(o.MaxProblems, mostProblems), found: map[Form]*problemList{}, unfit: o.unfit}
	err := w.document()
	switch {
	case err == nil:
		form, problems := w.answer()
		return form, problems, nil
	case w.err == nil || errors.Is(w.err, io.EOF) || !errors.Is(err, w.err):
		return "", []Problem{w.fault(err)}, nil
	case errors.Is(w.err, errTooLarge):
		return "", []Problem{{
			Place: w.place(o.MaxBytes - w.skipped), Keyword: KeywordSize, Message: fmt.Sprintf("larger than %d bytes", o.MaxBytes),
		}}, nil
	}
	return "", nil, w.err
}

// A walker goes over the tokens of one document.
type walker struct {
	*source
	plan *plan
	most int

	// found are the problems inside the members of one form only, and the
	// others under the empty Form: which form counts is known at the end.
	found  map[Form]*problemList
	within Form
	unfit  *[]Problem

	begin   Place             // of the document
	present map[*member]Place // the members of the document that are there, with their names' places; nil if it is no object
}

// A fault is why a document is not I-JSON, as far as the decoder does not tell.
type fault struct {
	keyword, message string
	at               Place
	pointer          string
}

// Error implements error.
func (f *fault) Error() string { return f.message }

// document walks over the whole document, and makes sure that nothing follows it.
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
	for rest := w.unread(end); len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0; rest = rest[1:] {
		end++
	}
	return &fault{keyword: KeywordTrailingData, message: "something follows the JSON value", at: w.place(end)}
}

// answer returns the form of the document and its problems in their order.
func (w *walker) answer() (Form, []Problem) {
	if w.present == nil {
		return "", w.list("").problems
	}
	form := meantForm(w.present)
	if form == "" {
		return "", []Problem{problem("", w.begin, "oneOf", formsWanted, "object")}
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

// report notes that the value or name just read is not as a keyword has it.
func (w *walker) report(at Place, keyword, expected, found string) {
	w.list(w.within).add(problem(string(w.dec.StackPointer()), at, keyword, expected, found))
}

// room tells whether a problem would be kept: there may be a million.
func (w *walker) room() bool { return !w.list(w.within).full(w.most) }

// value walks over the value that begins with a token and is to be of a shape.
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
		return &fault{keyword: KeywordDepth, message: fmt.Sprintf("nested deeper than %d objects and arrays", MaxDepth), at: w.start(raw)}
	}
	allowed := sh.kinds&is != 0
	if !allowed && w.room() {
		w.report(w.start(raw), "type", sh.wanted("type"), shown(raw, is))
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

// object walks over the members of a closed object that is open.
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

// array walks over the items of an array that is open.
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
		w.report(begin, "minItems", sh.wanted("minItems"), "array of "+amount(n, "item"))
	}
	if sh.MaxItems != nil && n > int(*sh.MaxItems) && w.room() {
		w.report(begin, "maxItems", sh.wanted("maxItems"), "array of "+amount(n, "item"))
	}
	return nil
}

// items walks to the end of an array that is open, or of an object of which the
// schema says nothing.
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
		return &fault{keyword: KeywordNumber, message: shown(raw, is) + " is beyond the range of a double", at: w.start(raw), pointer: string(w.dec.StackPointer())}
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
		w.report(w.start(raw), keyword, sh.wanted(keyword), shown(raw, is))
	}
	return nil
}

// text looks at a string.
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
		w.report(w.start(raw), keyword, sh.wanted(keyword), shown(raw, kindString))
	}
}

// unquoted returns what a string of the document says, raw itself where it can.
func unquoted(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // the decoder has found it good
	return text
}

// fault returns the problem of a document that is no I-JSON.
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
		p.Keyword, p.Pointer, p.Message = KeywordUTF8, string(s.JSONPointer), "half a surrogate pair, which is no character"
	}
	return p
}

// loneSurrogate tells whether text begins with the escape of a surrogate.
func loneSurrogate(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && 0xD800 <= code && code <= 0xDFFF
}
