package activityschema

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

var errTooLarge = errors.New("the document is too large")

// A source reads the tokens of a document. It holds only the bytes that the decoder has not
// consumed, which give the text, line and column of the current token. Memory does not grow with
// the document.
type source struct {
	ctx  context.Context
	r    *bufio.Reader
	dec  *jsontext.Decoder
	left int64 // bytes that may still be read
	err  error // of r or ctx, errTooLarge or io.EOF

	held    []byte // the document from base on, as far as the decoder has read
	base    int64  // offset of held for the decoder
	end     int64  // of the token just read
	skipped int64  // bytes of white space withheld from the decoder

	mark         int // index in held of the byte at line and column
	line, column int
}

func newSource(ctx context.Context, r io.Reader, most int64) *source {
	s := &source{ctx: ctx, r: bufio.NewReaderSize(r, 64<<10), left: most, line: 1, column: 1}
	s.dec = jsontext.NewDecoder(s)
	return s
}

// Read implements io.Reader, for the decoder.
func (s *source) Read(p []byte) (int, error) {
	consumed := int(s.dec.InputOffset() - s.base)
	s.advance(consumed)
	s.held = s.held[:copy(s.held, s.held[consumed:])]
	s.base, s.mark = s.base+int64(consumed), s.mark-consumed
	n := 0
	for n == 0 && s.err == nil {
		if s.err = s.ctx.Err(); s.err != nil {
			break
		}
		n, s.err = s.r.Read(p)
		if s.left -= int64(n); s.left < 0 {
			n, s.left, s.err = n+int(s.left), 0, errTooLarge
		}
		n = s.skipSpace(p[:n])
	}
	s.held = append(s.held, p[:n]...)
	if n > 0 {
		return n, nil
	}
	return 0, s.err
}

// skipSpace drops white space at the beginning of p if the decoder holds nothing else, because it
// would keep all of it until the next token.
func (s *source) skipSpace(p []byte) int {
	const space = " \t\r\n"
	if len(s.held) < 1<<10 || len(bytes.Trim(s.held, space+",:")) > 0 {
		return len(p)
	}
	rest := bytes.TrimLeft(p, space)
	s.advance(len(s.held))
	s.count(p[:len(p)-len(rest)])
	s.skipped += int64(len(p) - len(rest))
	return copy(p, rest)
}

// advance updates line and column up to an index in held.
func (s *source) advance(to int) {
	if to > s.mark {
		s.count(s.held[s.mark:to])
		s.mark = to
	}
}

func (s *source) count(passed []byte) {
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		s.line += bytes.Count(passed, []byte{'\n'})
		s.column = 1
		passed = passed[last+1:]
	}
	// ASCII, which is nearly all of a document.
	for len(passed) >= 8 && binary.NativeEndian.Uint64(passed)&0x8080808080808080 == 0 {
		passed, s.column = passed[8:], s.column+8
	}
	for _, c := range passed {
		if c&0xC0 != 0x80 { // 10xxxxxx continues a character
			s.column++
		}
	}
}

// next reads a token and returns its kind and its text, which is valid until the next call.
func (s *source) next() (jsontext.Kind, []byte, error) {
	token, err := s.dec.ReadToken()
	if err != nil {
		return 0, nil, err
	}
	before := s.end
	s.end = s.dec.InputOffset()
	raw := s.held[before-s.base : s.end-s.base]
	for raw[0] <= ' ' || raw[0] == ',' || raw[0] == ':' {
		raw = raw[1:]
	}
	return token.Kind(), raw, nil
}

// place returns the place of a byte by its decoder offset. It must be called with increasing
// offsets from the current token on.
func (s *source) place(offset int64) Place {
	s.advance(min(int(offset-s.base), len(s.held)))
	return Place{Offset: offset + s.skipped, Line: s.line, Column: s.column}
}

func (s *source) start(raw []byte) Place { return s.place(s.end - int64(len(raw))) }

// unread returns some bytes of the document from offset on.
func (s *source) unread(offset int64) []byte {
	more, _ := s.r.Peek(1 << 10)
	return append(bytes.Clone(s.held[offset-s.base:]), more...)
}
