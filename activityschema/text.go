package activityschema

import (
	"unicode/utf16"
	"unicode/utf8"
)

// mostKept is how much is kept of the text of a string, in bytes: more than
// any value that the schema lists, and than a message shows.
const mostKept = 256

// stringValue reads a string, which begins at pos.
func (s *scanner) stringValue(sh *shape) bool {
	at := s.offset()
	fits := sh.kinds&kindString != 0
	if text, ok := s.plainString(); ok {
		s.text, s.runes = text, len(text)
	} else {
		use := stringUse{squeeze: sh.dateTime}
		if !fits || sh.keepsText {
			use.keep = mostKept
		}
		if !s.longString(use) {
			return false
		}
	}
	switch {
	case !fits:
		return s.unfitText(sh, "type", at)
	case sh.keepsText:
		return s.checkText(sh, at)
	}
	return true
}

// checkText holds the text of the string at an offset against the keywords of
// strings.
func (s *scanner) checkText(sh *shape, at int64) bool {
	if sh.hasConst && string(s.text) != sh.constant && !s.unfitText(sh, "const", at) {
		return false
	}
	if sh.enum != nil && !s.isOneOf(sh.enum) && !s.unfitText(sh, "enum", at) {
		return false
	}
	if sh.dateTime && !isDateTime(s.text) && !s.unfitText(sh, "format", at) {
		return false
	}
	return s.runes >= sh.minLength || s.unfitText(sh, "minLength", at)
}

func (s *scanner) isOneOf(texts []string) bool {
	for _, text := range texts {
		if text == string(s.text) {
			return true
		}
	}
	return false
}

func (s *scanner) unfitText(sh *shape, keyword string, at int64) bool {
	if !s.wants() {
		return true
	}
	return s.unfit(sh, keyword, at, foundString(string(s.text[:min(len(s.text), mostKept)])))
}

// plainString reads a string whose text stands in the window as it is, ASCII
// without escapes, as most do. Otherwise it leaves pos at the beginning.
func (s *scanner) plainString() ([]byte, bool) {
	from := s.pos + 1
	to := from
	for {
		n := plainText(load64(s.buf, to))
		to += n
		if n < 8 {
			break
		}
	}
	if s.buf[to] != '"' {
		return nil, false
	}
	s.pos = to + 1
	return s.buf[from:to], true
}

// stringUse is what is to be known of a string.
type stringUse struct {
	keep    int  // how many bytes of its text
	name    bool // the sums of s.naming
	squeeze bool // that of a long run of digits only a part is kept
}

// longString reads any string, which begins at pos.
func (s *scanner) longString(use stringUse) bool {
	s.pos++
	s.kept, s.runes, s.half = s.kept[:0], 0, false
	for {
		if s.pos > s.safe && !s.fill() {
			return false
		}
		if from := s.pos; s.plainRun() {
			s.runes += s.pos - from
			s.keep(use, s.buf[from:s.pos])
			continue
		}
		switch c := s.buf[s.pos]; {
		case c == '"':
			s.pos++
			s.text = s.kept
			return true
		case c == '\\':
			r, ok := s.escape()
			if !ok {
				return false
			}
			var encoded [utf8.UTFMax]byte
			s.runes++
			s.keep(use, utf8.AppendRune(encoded[:0], r))
		case c < ' ':
			return s.unexpected("the rest of a string")
		default:
			if !s.isUTF8() {
				return false
			}
			_, n := utf8.DecodeRune(s.buf[s.pos:s.end])
			s.keep(use, s.buf[s.pos:s.pos+n])
			s.pos += n
			s.wide += int64(n - 1)
			s.runes++
		}
	}
}

// plainRun moves pos over plain text; false means that there is none.
func (s *scanner) plainRun() bool {
	to := s.pos
	for {
		n := plainText(load64(s.buf, to))
		to += n
		if n < 8 {
			break
		}
	}
	ran := to > s.pos
	s.pos = to
	return ran
}

// keep adds a piece to what is kept of the string.
func (s *scanner) keep(use stringUse, piece []byte) {
	if use.name {
		s.naming.piece(piece)
	}
	room := use.keep - len(s.kept)
	if room <= 0 {
		return
	}
	if !use.squeeze {
		s.kept = append(s.kept, piece[:min(len(piece), room)]...)
		return
	}
	// The fraction of a second may have any number of digits. The first 32 of
	// so many stand for all, and no other part of a date-time has as many. What
	// a message shows of the text stays as it is.
	const shown, enough = mostKept / 2, 32
	for _, c := range piece {
		if len(s.kept) >= shown && isDigit(c) && endsInDigits(s.kept, enough) {
			continue
		}
		if len(s.kept) == use.keep {
			return
		}
		s.kept = append(s.kept, c)
	}
}

func endsInDigits(text []byte, n int) bool {
	for _, c := range text[len(text)-n:] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// escape reads an escape, which begins at pos, not beyond safe. Half a surrogate
// pair becomes U+FFFD, as in encoding/json.
func (s *scanner) escape() (rune, bool) {
	s.pos++
	var r rune
	switch c := s.buf[s.pos]; c {
	case '"', '\\', '/':
		r = rune(c)
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		return s.unicodeEscape()
	default:
		return 0, s.unexpected("the rest of an escape")
	}
	s.pos++
	return r, true
}

// unicodeEscape reads an escape whose u is at pos, and the one after it if both
// make a pair.
func (s *scanner) unicodeEscape() (rune, bool) {
	unit, n := hexUnit(s.buf[s.pos+1:])
	s.pos += 1 + n
	if n < 4 {
		return 0, s.unexpected("a hexadecimal digit of an escape")
	}
	if !utf16.IsSurrogate(unit) {
		return unit, true
	}
	if s.buf[s.pos] == '\\' && s.buf[s.pos+1] == 'u' {
		if low, n := hexUnit(s.buf[s.pos+2:]); n == 4 {
			if r := utf16.DecodeRune(unit, low); r != utf8.RuneError {
				s.pos += 6
				return r, true
			}
		}
	}
	s.half = true
	return utf8.RuneError, true
}

// hexUnit reads four hexadecimal digits, or as many as there are.
func hexUnit(b []byte) (unit rune, n int) {
	for n = range 4 {
		c := b[n]
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return unit, n
		}
		unit = unit<<4 | rune(c)
	}
	return unit, 4
}
