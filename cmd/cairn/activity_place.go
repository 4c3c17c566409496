package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// A locatedProblem is a problem with its place for people.
type locatedProblem struct {
	activityschema.Problem
	Line   int `json:"line"`   // from 1
	Column int `json:"column"` // from 1, in characters
}

// A locatedFinding is a finding with its place.
type locatedFinding struct {
	activityschema.Finding
	Offset int64 `json:"offset"` // of the value, in bytes from 0
	Line   int   `json:"line"`
	Column int   `json:"column"`
}

// An offset asks for the line and the column of a byte.
type offset struct {
	at           int64
	line, column *int
}

// countLines reads r as far as the offsets go and sets their lines and columns.
// Those beyond the end get the place of the end.
func countLines(r io.Reader, offsets []offset) error {
	slices.SortStableFunc(offsets, func(a, b offset) int { return cmp.Compare(a.at, b.at) })
	line, column, read := 1, 1, int64(0)
	advance := func(block []byte) {
		read += int64(len(block))
		if n := bytes.Count(block, []byte{'\n'}); n > 0 {
			line, column = line+n, 1
			block = block[bytes.LastIndexByte(block, '\n')+1:]
		}
		for _, c := range block {
			if c&0xC0 != 0x80 { // not the rest of a character
				column++
			}
		}
	}
	buf := make([]byte, 64<<10)
	for len(offsets) > 0 {
		n, err := r.Read(buf)
		block := buf[:n]
		for len(offsets) > 0 && (offsets[0].at <= read+int64(len(block)) || err != nil) {
			part := min(max(offsets[0].at-read, 0), int64(len(block)))
			advance(block[:part])
			block = block[part:]
			*offsets[0].line, *offsets[0].column = line, column
			offsets = offsets[1:]
		}
		advance(block)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// placeProblems sets the lines and columns of problems of the document in r.
func placeProblems(r io.Reader, problems []locatedProblem) error {
	offsets := make([]offset, len(problems))
	for i := range problems {
		p := &problems[i]
		offsets[i] = offset{p.Offset, &p.Line, &p.Column}
	}
	return countLines(r, offsets)
}

// placeFindings sets the offsets, lines and columns of findings about the
// document in data, which is valid.
func placeFindings(data []byte, findings []locatedFinding) {
	if len(findings) == 0 {
		return
	}
	root := newPlace()
	for _, f := range findings {
		root.place(f.Pointer)
	}
	document := bytes.TrimPrefix(data, byteOrderMark)
	walkJSON(document, root)
	skipped := int64(len(data) - len(document))
	offsets := make([]offset, len(findings))
	for i := range findings {
		f := &findings[i]
		f.Offset = skipped + max(0, root.offset(f.Pointer))
		offsets[i] = offset{f.Offset, &f.Line, &f.Column}
	}
	_ = countLines(bytes.NewReader(data), offsets) // memory does not fail
}

// inOrder sorts findings by their place, as problems are.
func inOrder(findings []locatedFinding) {
	slices.SortStableFunc(findings, func(a, b locatedFinding) int { return cmp.Compare(a.Offset, b.Offset) })
}

// A jsonPlace is a place of a document, with the places below it that somebody
// asks about.
type jsonPlace struct {
	below map[string]*jsonPlace
	at    int64 // offset of the value once it was met, else -1
}

func newPlace() *jsonPlace { return &jsonPlace{at: -1} }

var pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")

// place returns the place that a JSON Pointer (RFC 6901) names, made if need be.
func (p *jsonPlace) place(pointer string) *jsonPlace {
	for i, token := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // what stands before the first slash is empty
		}
		token = pointerUnescapes.Replace(token)
		if p.below[token] == nil {
			if p.below == nil {
				p.below = map[string]*jsonPlace{}
			}
			p.below[token] = newPlace()
		}
		p = p.below[token]
	}
	return p
}

// offset returns where the value that a pointer names begins, or that of the
// nearest place above it that exists.
func (p *jsonPlace) offset(pointer string) int64 {
	at := p.at
	for i, token := range strings.Split(pointer, "/") {
		if i == 0 {
			continue
		}
		if p = p.below[pointerUnescapes.Replace(token)]; p == nil || p.at < 0 {
			break
		}
		at = p.at
	}
	return at
}

// A jsonWalker goes once over the bytes of a JSON document and notes where places
// are. Its methods return false for what is not JSON, which the validator
// describes better.
type jsonWalker struct {
	data []byte
	pos  int
}

// walkJSON notes where the places of root are in data.
func walkJSON(data []byte, root *jsonPlace) bool {
	w := &jsonWalker{data: data}
	return w.value(root)
}

func (w *jsonWalker) space() {
	for w.pos < len(w.data) && w.data[w.pos] <= ' ' {
		w.pos++
	}
}

// take steps over c, and white space before it, if it is next.
func (w *jsonWalker) take(c byte) bool {
	w.space()
	if w.pos == len(w.data) || w.data[w.pos] != c {
		return false
	}
	w.pos++
	return true
}

// value walks over the next value, which is that of p; nil if nobody asks.
func (w *jsonWalker) value(p *jsonPlace) bool {
	w.space()
	from := w.pos
	if p == nil || w.pos == len(w.data) {
		return w.skip()
	}
	p.at = int64(from)
	switch {
	case p.below != nil && w.data[from] == '{':
		return w.object(p)
	case p.below != nil && w.data[from] == '[':
		return w.array(p)
	}
	return w.skip()
}

// object walks over an object.
func (w *jsonWalker) object(p *jsonPlace) bool {
	w.pos++
	for first := true; ; first = false {
		if w.take('}') {
			return true
		}
		if !first && !w.take(',') {
			return false
		}
		name, ok := w.text()
		if !ok || !w.take(':') || !w.value(p.below[string(name)]) {
			return false
		}
	}
}

// array walks over an array.
func (w *jsonWalker) array(p *jsonPlace) bool {
	w.pos++
	for i := 0; ; i++ {
		if w.take(']') {
			return true
		}
		if i > 0 && !w.take(',') {
			return false
		}
		if !w.value(p.below[strconv.Itoa(i)]) {
			return false
		}
	}
}

// text walks over a string and returns what it says.
func (w *jsonWalker) text() ([]byte, bool) {
	if !w.take('"') {
		return nil, false
	}
	from, escaped := w.pos, false
	for ; w.pos < len(w.data); w.pos++ {
		switch w.data[w.pos] {
		case '\\':
			escaped = true
			w.pos++
		case '"':
			w.pos++
			said := w.data[from : w.pos-1]
			if !escaped {
				return said, true
			}
			var unescaped string
			err := json.Unmarshal(w.data[from-1:w.pos], &unescaped)
			return []byte(unescaped), err == nil
		}
	}
	w.pos = len(w.data)
	return nil, false
}

// skip walks over a value that nobody asks about.
func (w *jsonWalker) skip() bool {
	w.space()
	for depth := 0; w.pos < len(w.data); {
		switch w.data[w.pos] {
		case '"':
			if !w.skipText() {
				return false
			}
		case '{', '[':
			depth++
			w.pos++
			continue
		case '}', ']':
			depth--
			w.pos++
		case ',', ':', ' ', '\t', '\r', '\n':
			w.pos++
			continue
		default:
			w.scalar()
		}
		if depth <= 0 {
			return depth == 0
		}
	}
	return false
}

// skipText walks over a string without looking at what it says.
func (w *jsonWalker) skipText() bool {
	for w.pos++; w.pos < len(w.data); w.pos++ {
		switch w.data[w.pos] {
		case '\\':
			w.pos++
		case '"':
			w.pos++
			return true
		}
	}
	w.pos = len(w.data)
	return false
}

// scalar walks over a number or a word.
func (w *jsonWalker) scalar() {
	for w.pos < len(w.data) && !endsScalar[w.data[w.pos]] {
		w.pos++
	}
}

// endsScalar are the bytes that end a number or a word.
var endsScalar = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ':': true, ']': true, '}': true, '[': true, '{': true, '"': true}
