package activityschema

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// A scanner validates one document in one pass over its bytes. It builds no
// tree: what it keeps is a window of the document, the way from the document
// to the present value, and the problems found.
//
// Its methods that read something return false to stop, because the window
// could not be filled, the text is no JSON, or enough problems are known; run
// finds out which.
type scanner struct {
	window
	collector

	levels [MaxDepth]level // the open objects and arrays
	depth  int
	names  []byte    // the unlisted member names on the way, one after the other
	hashes []nameSum // the unlisted member names seen in the open objects
	next   []uint8   // what the next member may be: see memberName
	naming naming

	// The string that was read last: its text as far as it was kept, valid
	// until the next one; its length in code points; and whether an escape in
	// it was half a surrogate pair.
	text  []byte
	kept  []byte
	runes int
	half  bool

	// Of a number that is not plain: its first digits, and how it begins.
	digits [mostDigits]byte
	head   [mostShown + 1]byte
}

// A level is an open object or array, and the member or item of it that is
// being read.
type level struct {
	shape *shape // of an object; nil of an array
	index int    // of the item

	property int  // of the member, or isUnlisted
	from, to int  // the name of an unlisted member, in scanner.names
	unnamed  bool // the name was too long to keep

	hashes int // first of its own in scanner.hashes
	many   map[nameSum]struct{}
}

// isUnlisted is the property of a member that the schema does not list.
const isUnlisted = -1

var scanners = sync.Pool{New: func() any { return newScanner(windowSize) }}

func newScanner(size int) *scanner {
	s := &scanner{naming: newNaming()}
	s.buf = make([]byte, size+lookahead)
	return s
}

// scan validates the document that r has.
func scan(ctx context.Context, r io.Reader, o Options) (Form, []Problem, error) {
	p, err := loadPlan()
	if err != nil {
		return "", nil, err
	}
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	return s.run(ctx, r, o, p)
}

func (s *scanner) run(ctx context.Context, r io.Reader, o Options, p *plan) (Form, []Problem, error) {
	s.reset(p, o.MaxProblems)
	defer s.close()
	if len(s.next) != p.slots {
		s.next = make([]uint8, p.slots)
	}
	s.names, s.hashes = s.names[:0], s.hashes[:0]
	s.complete = s.open(ctx, r, o.MaxBytes) && s.document()
	if s.err == nil {
		s.err = ctx.Err() // the reader may have been the one to end it
	}
	switch {
	case s.err != nil:
		return "", nil, s.err
	case s.oversize:
		return "", []Problem{tooLarge(o.MaxBytes)}, nil
	}
	form, problems := s.answer()
	return form, problems, nil
}

// close lets go of what only one document needs, and of room that no ordinary
// one needs.
func (s *scanner) close() {
	s.window.close()
	s.collector.reset(nil, 0)
	for ; s.depth > 0; s.depth-- { // where it stopped
		s.levels[s.depth-1].forget()
	}
	if cap(s.names)+cap(s.kept) > windowSize {
		s.names, s.kept, s.text = nil, nil, nil
	}
	if cap(s.hashes) > MaxDepth*few {
		s.hashes = nil
	}
}

// document reads the one value and what surrounds it.
func (s *scanner) document() bool {
	if string(s.buf[:3]) == "\xef\xbb\xbf" {
		return s.broken(KeywordBOM, "begins with a byte order mark, which JSON does not allow")
	}
	if !s.space() {
		return false
	}
	if s.atEnd() {
		return s.broken(KeywordSyntax, "empty: there is no JSON value")
	}
	s.rootAt = s.offset()
	s.isOther = s.buf[s.pos] != '{'
	if !s.value(s.plan.root) || !s.space() {
		return false
	}
	if s.atEnd() {
		return true
	}
	if !s.isUTF8() {
		return false
	}
	return s.broken(KeywordTrailingData, s.place(s.offset(), s.wide)+": something follows the JSON value")
}

// value reads one value, which begins at pos, and holds it against sh.
func (s *scanner) value(sh *shape) bool {
	if s.pos > s.safe && !s.fill() {
		return false
	}
	switch s.buf[s.pos] {
	case '"':
		return s.stringValue(sh)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.numberValue(sh)
	case '{':
		return s.object(sh)
	case '[':
		return s.array(sh)
	case 'n':
		return s.word(sh, kindNull, "null")
	case 't':
		return s.word(sh, kindBoolean, "true")
	case 'f':
		return s.word(sh, kindBoolean, "false")
	}
	return s.unexpected("a value")
}

// word reads null, true or false.
func (s *scanner) word(sh *shape, kind kinds, word string) bool {
	at := s.offset()
	for i := range len(word) {
		if s.buf[s.pos] != word[i] {
			return s.unexpected("the rest of " + word)
		}
		s.pos++
	}
	if sh.kinds&kind != 0 {
		return true
	}
	found := word
	if kind == kindBoolean {
		found = "boolean " + word
	}
	return s.unfit(sh, "type", at, found)
}

// enter begins an object, or with a nil shape an array, below the present value.
func (s *scanner) enter(sh *shape) (*level, bool) {
	if s.depth == MaxDepth {
		return nil, s.broken(KeywordDepth, fmt.Sprintf("%s: nested deeper than %d objects and arrays", s.place(s.offset(), s.wide), MaxDepth))
	}
	l := &s.levels[s.depth]
	l.shape, l.index = sh, 0
	l.from, l.to, l.hashes = len(s.names), len(s.names), len(s.hashes)
	s.depth++
	s.pos++
	return l, true
}

// leave ends the object or array that was begun last.
func (s *scanner) leave(l *level) {
	s.pos++
	s.depth--
	s.names = s.names[:l.from]
	s.hashes = s.hashes[:l.hashes]
	l.forget()
}

// unfit notes that the value at an offset is not as keyword has it.
func (s *scanner) unfit(sh *shape, keyword string, at int64, found string) bool {
	if !s.wants() {
		return true
	}
	return s.add(unfit(s.pointer(s.depth), at, keyword, sh.expected[keyword], found))
}

// notIJSON notes that a member or number makes the text no I-JSON.
func (s *scanner) notIJSON(keyword string, at, wide int64, message string) bool {
	return s.addJSON(Problem{
		Pointer: s.pointer(s.depth), Offset: at, Keyword: keyword, Message: s.place(at, wide) + ": " + message,
	})
}

// broken notes why the text is no JSON from here on.
func (s *scanner) broken(keyword, message string) bool {
	s.fault = &Problem{Offset: s.offset(), Keyword: keyword, Message: message}
	return false
}

// unexpected notes that another byte than one of what is expected is at pos.
func (s *scanner) unexpected(expected string) bool {
	if s.pos > s.safe && !s.fill() || !s.isUTF8() {
		return false
	}
	found := "the end of the document"
	if !s.atEnd() {
		r, _ := utf8.DecodeRune(s.buf[s.pos:s.end])
		found = strconv.QuoteRune(r)
	}
	at := s.place(s.offset(), s.wide)
	s.broken(KeywordSyntax, fmt.Sprintf("%s: not JSON: %s where %s belongs", at, found, expected))
	s.fault.Found, s.fault.Expected = found, expected
	return false
}

// isUTF8 notes what is not UTF-8 at pos, which is not beyond safe.
func (s *scanner) isUTF8() bool {
	if r, n := utf8.DecodeRune(s.buf[s.pos:s.end]); r != utf8.RuneError || n != 1 {
		return true
	}
	return s.broken(KeywordUTF8, s.place(s.offset(), s.wide)+": not UTF-8")
}

// place names an offset of the present line for people, counted from 1; wide
// is how many bytes more than characters the line has before it.
func (s *scanner) place(at, wide int64) string {
	return fmt.Sprintf("line %d, column %d", s.line, at-s.lineStart-wide+1)
}

// pointer writes the way through the first levels as a JSON Pointer (RFC 6901).
// It ends early, at an object or array on the way, where it would be longer
// than mostText.
func (s *scanner) pointer(levels int) string {
	var b strings.Builder
	for i := range s.levels[:levels] {
		l := &s.levels[i]
		var token string
		switch {
		case l.shape == nil:
			token = strconv.Itoa(l.index)
		case l.property != isUnlisted:
			token = l.shape.properties[l.property].name
		case l.unnamed:
			return b.String()
		default:
			token = string(s.names[l.from:l.to])
		}
		token = pointerEscapes.Replace(token)
		if b.Len()+1+len(token) > mostText {
			break
		}
		b.WriteByte('/')
		b.WriteString(token)
	}
	return b.String()
}
