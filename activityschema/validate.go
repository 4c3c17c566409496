package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
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
// It takes one pass and a few hundred kilobytes of memory, whatever the size of the
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
	w := &walker{plan: p, source: newSource(ctx, r, o.MaxBytes), most: min(o.MaxProblems, mostProblems), found: map[Form]*problemList{}}
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

	rootAt  Place
	isOther bool              // the document is not an object
	present map[*member]Place // the members of the document that are there, with their names' places
}

// A fault is why a document is not I-JSON, as far as the decoder does not tell.
type fault struct {
	keyword, pointer, message string
	at                        int64
}

// Error implements error.
func (f *fault) Error() string { return f.message }

// document walks over the whole document.
func (w *walker) document() error {
	kind := w.dec.PeekKind()
	if kind != '{' {
		w.isOther = true
		if err := w.value(w.plan.root); err != nil {
			return err
		}
		return w.end()
	}
	at, err := w.open()
	if err != nil {
		return err
	}
	w.rootAt, w.present = w.place(at), map[*member]Place{}
	for w.dec.PeekKind() != '}' {
		name, at, err := w.name()
		if err != nil {
			return err
		}
		m := w.plan.root.members[string(name)]
		if m == nil {
			w.unlisted(string(name), at)
			err = w.value(anything)
		} else {
			w.present[m] = w.place(at)
			w.within = m.form
			err = w.value(m.shape)
			w.within = ""
		}
		if err != nil {
			return err
		}
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	return w.end()
}

// end makes sure that nothing follows the document.
func (w *walker) end() error {
	at := w.dec.InputOffset()
	if w.dec.PeekKind() == 0 {
		_, err := w.dec.ReadToken()
		if w.err != nil && errors.Is(err, w.err) {
			return endOf(err)
		}
	}
	for rest := w.source.at(at); len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0; rest = rest[1:] {
		at++
	}
	return &fault{keyword: KeywordTrailingData, message: "something follows the JSON value", at: at}
}

// endOf returns nil for the end of what is read.
func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answer returns the form of the document and its problems in their order.
func (w *walker) answer() (Form, []Problem) {
	if w.isOther {
		return "", w.list("").problems
	}
	form := meantForm(func(name string) bool {
		_, ok := w.present[w.plan.root.members[name]]
		return ok
	})
	if form == "" {
		return "", []Problem{{Place: w.rootAt, Keyword: "oneOf", Message: "must be " + formsWanted, Found: "object", Expected: formsWanted}}
	}
	found := slices.Concat(w.list("").problems, w.list(form).problems)
	for m, at := range w.present {
		if m.form != "" && m.form != form {
			p := Problem{Pointer: "/" + m.name, Place: at}
			p.describe("additionalProperties", "", memberNamed(m.name))
			found = append(found, p)
		}
	}
	for _, m := range w.plan.required[form] {
		if _, ok := w.present[m]; !ok {
			p := Problem{Place: w.rootAt}
			p.describe("required", memberNamed(m.name), "")
			found = append(found, p)
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

// report notes that the value or name just read is not as keyword has it.
func (w *walker) report(at Place, keyword, expected, found string) {
	p := Problem{Pointer: string(w.dec.StackPointer()), Place: at}
	p.describe(keyword, expected, found)
	w.list(w.within).add(p)
}

// room tells whether a problem would be kept.
func (w *walker) room() bool { return !w.list(w.within).full(w.most) }

func (w *walker) unlisted(name string, at int64) {
	if w.room() {
		w.report(w.place(at), "additionalProperties", "", memberNamed(name))
	}
}

// open reads the token that begins an object or array, and returns where.
func (w *walker) open() (int64, error) {
	if _, err := w.dec.ReadToken(); err != nil {
		return 0, err
	}
	at := w.dec.InputOffset() - 1
	if w.dec.StackDepth() > MaxDepth {
		return 0, &fault{keyword: KeywordDepth, message: fmt.Sprintf("nested deeper than %d objects and arrays", MaxDepth), at: at}
	}
	return at, nil
}

// name reads a member's name, and returns where it is.
func (w *walker) name() ([]byte, int64, error) {
	raw, err := w.dec.ReadValue()
	if err != nil {
		return nil, 0, err
	}
	at := w.dec.InputOffset() - int64(len(raw))
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], at, nil
	}
	name, err := jsontext.AppendUnquote(nil, raw)
	return name, at, err
}

// value walks over the next value, which is to be of a shape.
func (w *walker) value(sh *shape) error {
	kind := w.dec.PeekKind()
	if kind != '{' && kind != '[' {
		return w.scalar(sh, kind)
	}
	at, err := w.open()
	if err != nil {
		return err
	}
	switch {
	case kind == '{' && sh.kinds&kindObject == 0:
		w.mistyped(sh, at, "object")
	case kind == '[' && sh.kinds&kindArray == 0:
		w.mistyped(sh, at, "array")
	case kind == '{' && sh.closed:
		return w.object(sh, at)
	case kind == '[' && (sh.items != nil || sh.minItems > 0 || sh.maxItems < math.MaxInt):
		return w.array(sh, at)
	}
	return w.rest()
}

func (w *walker) mistyped(sh *shape, at int64, found string) {
	if w.room() {
		w.report(w.place(at), "type", sh.expected["type"], found)
	}
}

// object walks over the members of a closed object that is open.
func (w *walker) object(sh *shape, at int64) error {
	begin, present := w.place(at), uint64(0)
	for w.dec.PeekKind() != '}' {
		name, at, err := w.name()
		if err != nil {
			return err
		}
		value := anything
		if m := sh.members[string(name)]; m != nil {
			value, present = m.shape, present|m.bit
		} else {
			w.unlisted(string(name), at)
		}
		if err := w.value(value); err != nil {
			return err
		}
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for _, m := range sh.required {
		if present&m.bit == 0 && w.room() {
			w.report(begin, "required", memberNamed(m.name), "")
		}
	}
	return nil
}

// array walks over the items of an array that is open.
func (w *walker) array(sh *shape, at int64) error {
	var begin Place
	if sh.minItems > 0 || sh.maxItems < math.MaxInt {
		begin = w.place(at)
	}
	items := sh.items
	if items == nil {
		items = anything
	}
	n := 0
	for {
		// Nearly all of a document are numbers one after the other.
		if next := w.dec.UnreadBuffer(); len(next) > 1 && (isNumber(next[0]) || next[0] == ',' && isNumber(next[1])) {
			if err := w.scalar(items, '0'); err != nil {
				return err
			}
			n++
			continue
		}
		kind := w.dec.PeekKind()
		if kind == ']' {
			break
		}
		var err error
		if kind == '{' || kind == '[' {
			err = w.value(items)
		} else {
			err = w.scalar(items, kind)
		}
		if err != nil {
			return err
		}
		n++
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	if n < sh.minItems && w.room() {
		w.report(begin, "minItems", sh.expected["minItems"], "array of "+amount(n, "item"))
	}
	if n > sh.maxItems && w.room() {
		w.report(begin, "maxItems", sh.expected["maxItems"], "array of "+amount(n, "item"))
	}
	return nil
}

// isNumber tells whether a value that begins with c is a number.
func isNumber(c byte) bool { return isDigit(c) || c == '-' }

// rest walks to the end of an object or array that is open, of which the schema
// says nothing.
func (w *walker) rest() error {
	for depth := w.dec.StackDepth(); w.dec.StackDepth() >= depth; {
		var err error
		switch w.dec.PeekKind() {
		case '0':
			err = w.scalar(anything, '0')
		case '{', '[':
			_, err = w.open()
		default:
			_, err = w.dec.ReadToken()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scalar walks over a value that is no object or array; kind is that of the decoder.
func (w *walker) scalar(sh *shape, kind jsontext.Kind) error {
	raw, err := w.dec.ReadValue()
	if err != nil {
		return err
	}
	is := kindNull
	switch kind {
	case '0':
		var inRange bool
		if is, inRange = classify(raw); !inRange {
			return &fault{
				keyword: KeywordNumber, pointer: string(w.dec.StackPointer()), at: w.dec.InputOffset() - int64(len(raw)),
				message: foundNumber(raw, is) + " is beyond the range of a double",
			}
		}
		if sh.kinds&is != 0 && !sh.notNegative {
			return nil
		}
	case '"':
		if is = kindString; sh.kinds&kindString != 0 {
			w.text(sh, raw)
			return nil
		}
	case 't', 'f':
		is = kindBoolean
	}
	switch {
	case sh.kinds&is == 0 && w.room():
		w.report(w.place(w.dec.InputOffset()-int64(len(raw))), "type", sh.expected["type"], shownScalar(raw, is))
	case sh.notNegative && is&(kindInteger|kindFraction) != 0 && raw[0] == '-' && bytes.ContainsAny(mantissa(raw), "123456789") && w.room():
		w.report(w.place(w.dec.InputOffset()-int64(len(raw))), "minimum", sh.expected["minimum"], foundNumber(raw, is))
	}
	return nil
}

// shownScalar shows a value that is no object or array.
func shownScalar(raw []byte, kind kinds) string {
	switch kind {
	case kindString:
		return "string " + quote(unquoted(raw))
	case kindInteger, kindFraction:
		return foundNumber(raw, kind)
	}
	return string(raw)
}

// unquoted returns what a string of the document says.
func unquoted(raw []byte) string {
	text, _ := jsontext.AppendUnquote(nil, raw) // the decoder has found it good
	return string(text)
}

// text looks at a string.
func (w *walker) text(sh *shape, raw []byte) {
	if sh.textKeyword == "" && !sh.dateTime && sh.minLength == 0 {
		return
	}
	said := raw[1 : len(raw)-1]
	if bytes.IndexByte(said, '\\') >= 0 {
		said = []byte(unquoted(raw))
	}
	keyword := ""
	switch {
	case sh.textKeyword != "" && !slices.ContainsFunc(sh.texts, func(text string) bool { return text == string(said) }):
		keyword = sh.textKeyword
	case sh.dateTime && !isDateTime(said):
		keyword = "format"
	case len(said) < 4*sh.minLength && utf8.RuneCount(said) < sh.minLength:
		keyword = "minLength"
	}
	if keyword != "" && w.room() {
		w.report(w.place(w.dec.InputOffset()-int64(len(raw))), keyword, sh.expected[keyword], shownScalar(raw, kindString))
	}
}

// classify tells whether a number is an integer, and whether it lies within the
// range of a double. 1.0, 1e3 and 10e-1 are integers; 1.0000000000000000001 is not,
// although the nearest double is.
func classify(raw []byte) (kind kinds, inRange bool) {
	const surelyFinite = 300 // digits
	point := -1
	for i, c := range raw {
		if c == '.' {
			point = i
		} else if c > '9' { // e or E
			digits, exponent := decimal(raw)
			switch {
			case digits == "":
				return kindInteger, true // zero, whatever the exponent is
			case exponent < 0:
				return kindFraction, isFinite(raw)
			}
			return kindInteger, isFinite(raw)
		}
	}
	kind = kindInteger
	if point >= 0 && (raw[len(raw)-1] != '0' || len(bytes.TrimRight(raw[point+1:], "0")) > 0) {
		kind = kindFraction
	}
	return kind, len(raw) < surelyFinite || isFinite(raw)
}

// decimal returns the digits of a number, without zeros around them, and the power
// of ten by which they are to be multiplied.
func decimal(raw []byte) (digits string, exponent int) {
	whole, fraction, _ := bytes.Cut(bytes.TrimPrefix(mantissa(raw), []byte{'-'}), []byte{'.'})
	if e := bytes.IndexAny(raw, "eE"); e >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(raw[e+1:])); err != nil || exponent > math.MaxInt32 || exponent < math.MinInt32 {
			exponent = math.MaxInt32
			if raw[e+1] == '-' {
				exponent = math.MinInt32
			}
		}
	}
	all := string(whole) + string(fraction)
	digits = strings.TrimRight(all, "0")
	exponent += len(all) - len(digits) - len(fraction)
	return strings.TrimLeft(digits, "0"), exponent
}

// mantissa returns a number without its exponent.
func mantissa(raw []byte) []byte {
	if e := bytes.IndexAny(raw, "eE"); e >= 0 {
		return raw[:e]
	}
	return raw
}

func isFinite(raw []byte) bool {
	_, err := strconv.ParseFloat(string(raw), 64)
	return err == nil
}

// fault returns the problem of a document that is no I-JSON.
func (w *walker) fault(err error) Problem {
	if f, ok := errors.AsType[*fault](err); ok {
		return Problem{Pointer: f.pointer, Place: w.place(f.at), Keyword: f.keyword, Message: f.message}
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		p := Problem{Place: w.place(s.ByteOffset), Keyword: KeywordSyntax, Message: "not JSON: " + s.Err.Error()}
		rest := w.source.at(s.ByteOffset)
		for n := 1; n < utf8.UTFMax && !utf8.FullRune(rest) && w.err == nil; n++ { // a reader may give one byte at a time
			w.next = len(w.buf)
			w.fill()
			rest = w.source.at(s.ByteOffset)
		}
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
	end := w.base + int64(len(w.buf))
	if end == 0 {
		return Problem{Place: w.place(0), Keyword: KeywordSyntax, Message: "empty: a document is an object"}
	}
	return Problem{Place: w.place(end), Keyword: KeywordSyntax, Message: "not JSON: ends before the document does"}
}

// loneSurrogate tells whether text begins with the escape of a surrogate.
func loneSurrogate(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && 0xD800 <= code && code <= 0xDFFF
}
