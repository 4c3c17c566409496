package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// An edit is what becomes of the value at a place of a document.
type edit int

const (
	keep     edit = iota
	drop          // a member goes; an item becomes null, so that the items after it keep their numbers
	dropNull      // a member goes if it is null
	replace       // another literal stands there
)

// A jsonPlace is a place of a document, with the places below it that somebody
// asks about or edits.
type jsonPlace struct {
	below   map[string]*jsonPlace
	edit    edit
	literal string // for replace
	at      int64  // offset of the value once it was met, else -1
	edited  bool
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

// A jsonWalker goes once over the bytes of a JSON document, notes where places
// are, and makes the edits. What is not edited stays byte by byte as it is:
// numbers keep their digits, members their order. Its methods return false for
// what is not JSON, which the validator describes better.
type jsonWalker struct {
	data   []byte
	pos    int
	out    []byte // the edited document up to data[copied]
	copied int
	edits  int // made so far
}

// walkJSON notes where the places of root are in data.
func walkJSON(data []byte, root *jsonPlace) bool {
	w := &jsonWalker{data: data}
	return w.value(root)
}

// editJSON returns data with the edits of root, and how many were made: 0 if
// data is not JSON.
func editJSON(data []byte, root *jsonPlace) ([]byte, int) {
	w := &jsonWalker{data: data}
	if !w.value(root) || w.edits == 0 {
		return data, 0
	}
	return append(w.out, data[w.copied:]...), w.edits
}

// cut leaves data[from:to] out and puts a literal there.
func (w *jsonWalker) cut(from, to int, literal string) {
	w.out = append(append(w.out, w.data[w.copied:from]...), literal...)
	w.copied = to
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
	ok := false
	switch {
	case p.edit == keep && p.below != nil && w.data[from] == '{':
		ok = w.object(p)
	case p.edit == keep && p.below != nil && w.data[from] == '[':
		ok = w.array(p)
	default:
		ok = w.skip()
	}
	if ok && p.edit == replace {
		w.cut(from, w.pos, p.literal)
		p.edited = true
		w.edits++
	}
	return ok
}

// object walks over an object. Dropped members go with the comma before or
// after them, whichever leaves the others well separated.
func (w *jsonWalker) object(p *jsonPlace) bool {
	w.pos++
	kept, end := false, w.pos // whether a member was kept, and where the last of them ends
	dropping := false
	for first := true; ; first = false {
		before := w.pos
		if w.take('}') {
			if dropping {
				w.cut(end, before, "")
			}
			return true
		}
		if !first {
			if !w.take(',') {
				return false
			}
			before = w.pos
		}
		name, ok := w.text()
		if !ok || !w.take(':') {
			return false
		}
		w.space()
		child := p.below[string(name)]
		if child != nil && (child.edit == drop || child.edit == dropNull && bytes.HasPrefix(w.data[w.pos:], []byte("null"))) {
			child.at = int64(w.pos)
			if !w.skip() {
				return false
			}
			child.edited = true
			w.edits++
			dropping = true
			continue
		}
		if dropping {
			comma := ""
			if kept {
				comma = ","
			}
			w.cut(end, before, comma)
		}
		if !w.value(child) {
			return false
		}
		kept, end, dropping = true, w.pos, false
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
		w.space()
		from, child := w.pos, p.below[strconv.Itoa(i)]
		if !w.value(child) {
			return false
		}
		if child != nil && child.edit == drop {
			w.cut(from, w.pos, "null")
			child.edited = true
			w.edits++
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
