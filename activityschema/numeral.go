package activityschema

import (
	"math"
	"strconv"
)

// numberValue reads a number, which begins at pos.
func (s *scanner) numberValue(sh *shape) bool {
	at, negative := s.offset(), s.buf[s.pos] == '-'
	if to, whole, ok := plainNumber(s.buf, s.pos); ok {
		digits := s.buf[s.pos:to]
		s.pos = to
		return s.checkNumber(sh, at, digits, whole, negative && hasNonZero(digits))
	}
	head := s.head[:copy(s.head[:], s.buf[s.pos:s.end])]
	n, ok := s.longNumber()
	if !ok {
		return false
	}
	if n.beyondDouble(&s.digits) {
		return s.notIJSON(KeywordNumber, at, s.wide, "beyond the range of a double (RFC 7493, section 2.2)")
	}
	head = head[:min(int64(len(head)), s.offset()-at)]
	return s.checkNumber(sh, at, head, n.whole(), negative && n.significant > 0)
}

// checkNumber holds the number at an offset against sh. digits are as many of
// it as a message shows, or more.
func (s *scanner) checkNumber(sh *shape, at int64, digits []byte, whole, negative bool) bool {
	kind := kindFraction
	if whole {
		kind = kindInteger
	}
	keyword := "type"
	if sh.kinds&kind != 0 {
		if !sh.notNegative || !negative {
			return true
		}
		keyword = "minimum"
	}
	return !s.wants() || s.unfit(sh, keyword, at, foundNumber(string(digits), whole))
}

// plainNumber reads a number without exponent and of few digits, as most are.
// It begins at b[p], after which lookahead bytes can be looked at. ok is false
// if it is another number, or none.
func plainNumber(b []byte, p int) (to int, whole, ok bool) {
	if b[p] == '-' {
		p++
	}
	n := leadingDigits(load64(b, p))
	switch {
	case n == 8:
		if n += leadingDigits(load64(b, p+8)); n == 16 {
			return 0, false, false
		}
	case n == 0:
		return 0, false, false
	}
	if n > 1 && b[p] == '0' {
		return 0, false, false
	}
	p += n
	whole = true
	if b[p] == '.' {
		p++
		for from := p; ; {
			word := load64(b, p)
			n := leadingDigits(word)
			whole = whole && !nonZeroDigit(word, n)
			p += n
			if n < 8 {
				if p == from {
					return 0, false, false
				}
				break
			}
			if p-from == 32 {
				return 0, false, false
			}
		}
	}
	return p, whole, b[p]|0x20 != 'e'
}

// hasNonZero tells whether a number without exponent is not zero.
func hasNonZero(number []byte) bool {
	for _, c := range number {
		if '1' <= c && c <= '9' {
			return true
		}
	}
	return false
}

// mostDigits is how many digits the smallest number has that is beyond a
// double: 2^1024 - 2^970, from which on the nearest one would be infinite.
const mostDigits = 309

// A numeral is what there is to know of a number of any length: its digits,
// without the point, as an integer, times ten to the power of exponent less
// decimals.
type numeral struct {
	decimals    int64
	significant int64 // digits, from the first that is not 0
	zeros       int64 // digits at the end that are 0
	exponent    int64
}

// longNumber reads any number, which begins at pos. s.digits has its first
// significant digits then.
func (s *scanner) longNumber() (n numeral, ok bool) {
	if s.buf[s.pos] == '-' {
		s.pos++
	}
	switch c := s.buf[s.pos]; {
	case c == '0':
		s.pos++
	case !isDigit(c):
		return n, s.unexpected("a digit")
	default:
		if !s.numberDigits(&n) {
			return n, false
		}
	}
	if s.buf[s.pos] == '.' {
		s.pos++
		before := s.offset()
		if !s.numberDigits(&n) {
			return n, false
		}
		if n.decimals = s.offset() - before; n.decimals == 0 {
			return n, s.unexpected("a digit")
		}
	}
	if s.buf[s.pos]|0x20 == 'e' {
		return n, s.exponent(&n)
	}
	return n, true
}

// numberDigits reads the digits at pos, if any, and leaves pos not beyond safe.
func (s *scanner) numberDigits(n *numeral) bool {
	for {
		if s.pos > s.safe && !s.fill() {
			return false
		}
		c := s.buf[s.pos]
		if !isDigit(c) {
			return true
		}
		s.pos++
		if c == '0' && n.significant == 0 {
			continue
		}
		if n.significant < mostDigits {
			s.digits[n.significant] = c
		}
		n.significant++
		if n.zeros++; c != '0' {
			n.zeros = 0
		}
	}
}

// exponent reads the exponent part, which begins at pos.
func (s *scanner) exponent(n *numeral) bool {
	s.pos++
	negative := s.buf[s.pos] == '-'
	if negative || s.buf[s.pos] == '+' {
		s.pos++
	}
	if !isDigit(s.buf[s.pos]) {
		return s.unexpected("a digit")
	}
	for isDigit(s.buf[s.pos]) {
		// Larger than any number of digits is enough.
		if n.exponent < math.MaxInt64/100 {
			n.exponent = 10*n.exponent + int64(s.buf[s.pos]-'0')
		}
		s.pos++
		if s.pos > s.safe && !s.fill() {
			return false
		}
	}
	if negative {
		n.exponent = -n.exponent
	}
	return true
}

// whole tells whether the number is an integer: 3, 3.0, 30e-1.
func (n *numeral) whole() bool {
	return n.significant == 0 || n.exponent-n.decimals+n.zeros >= 0
}

// beyondDouble tells whether the nearest double is infinite; digits are the
// first significant ones.
func (n *numeral) beyondDouble(digits *[mostDigits]byte) bool {
	if n.significant == 0 {
		return false
	}
	size := n.significant + n.exponent - n.decimals // digits before the point
	if size != mostDigits {
		return size > mostDigits
	}
	for i := n.significant; i < mostDigits; i++ {
		digits[i] = '0'
	}
	_, err := strconv.ParseFloat(string(digits[:]), 64)
	return err != nil
}
