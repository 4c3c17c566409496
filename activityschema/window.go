package activityschema

import (
	"context"
	"errors"
	"io"
	"math"
)

const (
	// windowSize is how much of a document is in memory at once, in bytes.
	windowSize = 64 << 10
	// lookahead is how many bytes may be looked at beyond pos without a check.
	// Member names of the schema, and numbers that are read in one go, are
	// shorter.
	lookahead = 128
)

// A window is the part of a document that the scanner looks at: buf[:end] are
// its bytes from offset base on, buf[pos] is the next one.
//
// Zeros follow the bytes, lookahead of them, always. Zero may stand nowhere in
// JSON, so a loop over digits, text or white space ends there by itself, and
// loads of eight bytes at or before end stay within buf.
type window struct {
	ctx   context.Context
	r     io.Reader
	limit int64 // bytes that the document may have

	buf      []byte
	pos, end int
	// safe is the last pos at which the next lookahead bytes are in buf, as far
	// as the document has them. Beyond it, fill must be called first.
	safe int
	base int64
	// err is why reading failed; oversize that the document exceeds limit.
	err      error
	oversize bool

	// The line that pos is in, from 1, where it starts, and how many bytes more
	// than characters it has up to pos: for messages.
	line      int64
	lineStart int64
	wide      int64
}

var errBadCount = errors.New("the reader returned an impossible count")

// open begins a document at its first byte.
func (w *window) open(ctx context.Context, r io.Reader, limit int64) bool {
	*w = window{ctx: ctx, r: r, limit: limit, buf: w.buf, line: 1}
	return w.fill()
}

// close lets go of what the window must not keep alive.
func (w *window) close() { w.ctx, w.r, w.err = nil, nil, nil }

// fill moves what is left of the window to its front and reads on, until there
// are lookahead bytes or the document ends. False means that err or oversize
// is set. It must only be called with pos beyond safe.
func (w *window) fill() bool {
	rest := copy(w.buf, w.buf[w.pos:w.end])
	w.base += int64(w.pos)
	w.pos, w.end = 0, rest
	for idle := 0; w.end < lookahead; idle++ {
		if w.err = w.ctx.Err(); w.err != nil {
			return false
		}
		room := w.buf[w.end : len(w.buf)-lookahead]
		// One byte over the limit shows that the document is too large.
		if left := w.limit - w.base - int64(w.end); left < int64(len(room)) {
			room = room[:left+1]
		}
		n, err := w.r.Read(room)
		if n < 0 || n > len(room) {
			w.err = errBadCount
			return false
		}
		if n > 0 {
			idle = 0
		}
		w.end += n
		if w.base+int64(w.end) > w.limit {
			w.oversize = true
			return false
		}
		if err == io.EOF { // one that is wrapped is no end, but a failure
			clear(w.buf[w.end:][:lookahead])
			w.safe = math.MaxInt
			return true
		}
		if err == nil && idle == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			w.err = err
			return false
		}
	}
	clear(w.buf[w.end:][:lookahead])
	w.safe = w.end - lookahead
	return true
}

// offset returns the offset in the document of the next byte.
func (w *window) offset() int64 { return w.base + int64(w.pos) }

// atEnd tells whether the next byte is the one after the document, which is
// sure as long as pos is not beyond safe.
func (w *window) atEnd() bool { return w.pos == w.end }

// space skips white space, of which there may be any amount, and leaves pos at
// or before safe. False means that the window could not be filled.
func (w *window) space() bool {
	for {
		if w.pos > w.safe && !w.fill() {
			return false
		}
		switch w.buf[w.pos] {
		case ' ':
			const eightSpaces = 0x2020202020202020
			if load64(w.buf, w.pos) == eightSpaces {
				w.pos += 8
			} else {
				w.pos++
			}
		case '\t', '\r':
			w.pos++
		case '\n':
			w.pos++
			w.line++
			w.lineStart, w.wide = w.offset(), 0
		default:
			return true
		}
	}
}
