package activityschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// errTooLarge ends a document of more bytes than are read.
var errTooLarge = errors.New("the document is too large")

// blockBytes is how much is read at once.
const blockBytes = 64 << 10

// A source hands a document to a decoder and keeps what the decoder has not
// consumed yet, so that the line and the column of a value can be told while it
// is being read: no more than that is in memory, whatever the size.
type source struct {
	ctx  context.Context
	r    io.Reader
	dec  *jsontext.Decoder
	most int64 // bytes that are read
	err  error // of r or ctx, errTooLarge or io.EOF

	buf     []byte // the document from base on, as far as it has been read
	base    int64  // as the decoder counts
	next    int    // in buf: the decoder has what is before it
	skipped int64  // bytes of white space that the decoder has not been given

	mark         int // in buf: line and column are those of the byte here
	line, column int
}

func newSource(ctx context.Context, r io.Reader, most int64) *source {
	s := &source{ctx: ctx, r: r, most: most, line: 1, column: 1, buf: make([]byte, 0, blockBytes)}
	s.dec = jsontext.NewDecoder(s)
	return s
}

// Read implements io.Reader, for the decoder.
func (s *source) Read(p []byte) (int, error) {
	for s.next == len(s.buf) && s.err == nil {
		s.fill()
		s.skipSpace()
	}
	if s.next == len(s.buf) && s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.buf[s.next:])
	s.next += n
	return n, nil
}

// skipSpace leaves white space out if the decoder holds a block of nothing else: it
// would keep all of it until the next value.
func (s *source) skipSpace() {
	const space = " \t\r\n"
	held := s.buf[s.dec.InputOffset()-s.base : s.next]
	if len(held) < blockBytes || len(bytes.Trim(held, space+",:")) > 0 {
		return
	}
	rest := bytes.TrimLeft(s.buf[s.next:], space)
	n := len(s.buf) - s.next - len(rest)
	s.advance(s.next + n)
	s.buf = append(s.buf[:s.next], rest...)
	s.mark, s.skipped = s.next, s.skipped+int64(n)
}

// fill reads a block on top of what the decoder still holds.
func (s *source) fill() {
	if s.err = s.ctx.Err(); s.err != nil {
		return
	}
	consumed := int(s.dec.InputOffset() - s.base)
	s.advance(consumed)
	s.buf = s.buf[:copy(s.buf, s.buf[consumed:])]
	s.base, s.next, s.mark = s.base+int64(consumed), s.next-consumed, s.mark-consumed
	if free := cap(s.buf) - len(s.buf); free < blockBytes/4 {
		s.buf = append(make([]byte, 0, 2*cap(s.buf)), s.buf...)
	}
	for empty := 0; s.err == nil && s.next == len(s.buf); empty++ {
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if s.err = err; err == nil && empty == 100 {
			s.err = io.ErrNoProgress
		}
	}
	if over := s.base + s.skipped + int64(len(s.buf)) - s.most; over > 0 {
		s.err = errTooLarge
		s.buf = s.buf[:max(s.next, len(s.buf)-int(over))]
	}
}

// advance counts the lines and columns up to a place in buf.
func (s *source) advance(to int) {
	if to <= s.mark {
		return
	}
	passed := s.buf[s.mark:to]
	s.mark = to
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		s.line += bytes.Count(passed, []byte{'\n'})
		s.column = 1
		passed = passed[last+1:]
	}
	s.column += characters(passed)
}

// characters counts the characters of text, which need not begin with one.
func characters(text []byte) int {
	const high = 0x8080808080808080
	n := len(text)
	for len(text) >= 8 {
		word := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		n -= bits.OnesCount64(word & (^word << 1) & high) // 10xxxxxx is the rest of a character
		text = text[8:]
	}
	for _, c := range text {
		if c&0xC0 == 0x80 {
			n--
		}
	}
	return n
}

// place returns where a byte is, by its offset as the decoder counts. The decoder must
// not have been asked for more than the value there since the last place before it
// was asked for.
func (s *source) place(offset int64) Place {
	s.advance(min(int(offset-s.base), len(s.buf)))
	return Place{Offset: offset + s.skipped, Line: s.line, Column: s.column}
}

// at returns the bytes of the document from offset on, as far as they are held.
func (s *source) at(offset int64) []byte {
	if i := offset - s.base; i >= 0 && i <= int64(len(s.buf)) {
		return s.buf[i:]
	}
	return nil
}

// Locate returns where the values are that JSON Pointers name, of the document in r,
// which is valid. A value that is not there has the place of the nearest one
// above it that is.
func Locate(ctx context.Context, r io.Reader, pointers []string) ([]Place, error) {
	root := new(sought)
	for _, pointer := range pointers {
		at := root
		for token := range jsontext.Pointer(pointer).Tokens() {
			if at.below[token] == nil {
				if at.below == nil {
					at.below = map[string]*sought{}
				}
				at.below[token] = new(sought)
			}
			at = at.below[token]
		}
	}
	s := newSource(ctx, r, math.MaxInt64-1)
	if err := s.seek(root); err != nil {
		return nil, fmt.Errorf("locating values: %w", err)
	}
	places := make([]Place, len(pointers))
	for i, pointer := range pointers {
		at := root
		places[i] = at.place
		for token := range jsontext.Pointer(pointer).Tokens() {
			if at = at.below[token]; at.place.Line == 0 {
				break
			}
			places[i] = at.place
		}
	}
	return places, nil
}

// A sought is a value that somebody asks about, with those within it.
type sought struct {
	below map[string]*sought
	place Place
}

// seek notes where the next value is, and those within it.
func (s *source) seek(v *sought) error {
	if v == nil {
		return s.dec.SkipValue()
	}
	kind := s.dec.PeekKind()
	if kind != '{' && kind != '[' {
		raw, err := s.dec.ReadValue()
		v.place = s.place(s.dec.InputOffset() - int64(len(raw)))
		return err
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	v.place = s.place(s.dec.InputOffset() - 1)
	for i := 0; s.dec.PeekKind() != '}' && s.dec.PeekKind() != ']'; i++ {
		var below *sought
		if kind == '[' {
			if len(v.below) > 0 {
				below = v.below[strconv.Itoa(i)]
			}
		} else {
			name, err := s.dec.ReadToken()
			if err != nil {
				return err
			}
			below = v.below[name.String()]
		}
		if err := s.seek(below); err != nil {
			return err
		}
	}
	_, err := s.dec.ReadToken()
	return err
}
