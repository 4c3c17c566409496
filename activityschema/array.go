package activityschema

import "math/bits"

// array reads an array, which begins at pos.
func (s *scanner) array(sh *shape) bool {
	at := s.offset()
	if sh.kinds&kindArray == 0 {
		if !s.unfit(sh, "type", at, "array") {
			return false
		}
		sh = anything
	}
	l, ok := s.enter(nil)
	if !ok || s.buf[s.pos] <= ' ' && !s.space() {
		return false
	}
	if s.buf[s.pos] != ']' {
		items := sh.items
		if items == nil {
			items = anything
		}
		if items.column {
			ok = s.column(items, l)
		} else {
			ok = s.items(items, l)
		}
		if !ok {
			return false
		}
		l.index++
	}
	s.leave(l)
	if l.index < sh.minItems && !s.unfit(sh, "minItems", at, foundArray(l.index)) {
		return false
	}
	return l.index <= sh.maxItems || s.unfit(sh, "maxItems", at, foundArray(l.index))
}

// items reads the items of an array, of which there is at least one, and leaves
// pos at the bracket that ends it.
func (s *scanner) items(items *shape, l *level) bool {
	for {
		if !s.value(items) || s.buf[s.pos] <= ' ' && !s.space() {
			return false
		}
		switch s.buf[s.pos] {
		case ',':
			s.pos++
			l.index++
		case ']':
			return true
		default:
			return s.unexpected("a comma or ']'")
		}
		if s.buf[s.pos] <= ' ' && !s.space() {
			return false
		}
	}
}

// column is items for the columns of a recording: nearly all of a document are
// the numbers in them. What is no plain number or null that fits is left to
// value.
func (s *scanner) column(items *shape, l *level) bool {
	const null = 'n' | 'u'<<8 | 'l'<<16 | 'l'<<24
	b, p := s.buf, s.pos
	integers, nulls := items.kinds&kindFraction == 0, items.kinds&kindNull != 0
	for index := 0; ; index++ {
		if b[p] <= ' ' {
			s.pos = p
			if !s.space() {
				return false
			}
			p = s.pos
		}
		if p > s.safe {
			s.pos = p
			if !s.fill() {
				return false
			}
			p = s.pos
		}
		if to := shortNumber(b, p, integers); to > p && b[to] == ',' {
			p = to + 1
			continue
		}
		if nulls && load32(b, p) == null {
			p += 4
		} else {
			s.pos, l.index = p, index
			if !s.value(items) {
				return false
			}
			p = s.pos
		}
		if b[p] == ',' {
			p++
			continue
		}
		s.pos, l.index = p, index
		if b[p] <= ' ' && !s.space() {
			return false
		}
		p = s.pos
		switch b[p] {
		case ',':
			p++
		case ']':
			return true
		default:
			return s.unexpected("a comma or ']'")
		}
	}
}

// shortNumber returns where the number ends that begins at b[p], if it is one of
// up to seven digits, or up to fifteen bytes with a fraction; else p. It is
// plainNumber for most numbers, in half the time.
func shortNumber(b []byte, p int, integer bool) int {
	from := p
	if b[p] == '-' {
		p++
	}
	first, second := load64(b, p), load64(b, p+8)
	others := otherThanDigits(first)
	n := bits.TrailingZeros64(others) / 8
	if n == 0 || n == 8 || n > 1 && b[p] == '0' {
		return from
	}
	if b[p+n] != '.' {
		return p + n
	}
	m := bits.TrailingZeros64(others&(others-1)) / 8
	if m == 8 {
		m += bits.TrailingZeros64(otherThanDigits(second)) / 8
	}
	if m == n+1 || m == 16 || integer {
		return from
	}
	return p + m
}
