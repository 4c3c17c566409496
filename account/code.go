package account

import (
	"crypto/rand"
	"strings"
	"unicode"
)

// Invite and reset codes use Crockford's base32: no I, L, O or U, so that they
// survive being read aloud or copied by hand.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const (
	InviteCodeLength = 16 // 80 bits
	ResetCodeLength  = 26 // 130 bits
)

// NewCode returns n random characters of 5 bits each.
func NewCode(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return CodeOf(b)
}

// CodeOf returns a character for each random byte.
func CodeOf(random []byte) string {
	b := make([]byte, len(random))
	for i := range b {
		b[i] = crockford[random[i]&31] // 256 is a multiple of 32: no bias
	}
	return string(b)
}

// CanonicalCode accepts a code in any case, with O for 0 and I or L for 1, and with or without dashes
// and spaces of any kind: programs for writing replace them. It returns "" for anything that cannot be
// a code of n characters; callers refuse "" before any query.
func CanonicalCode(typed string, n int) string {
	if len(typed) > 4*n {
		return ""
	}
	var b strings.Builder
	for _, r := range strings.ToUpper(typed) {
		switch {
		case unicode.In(r, unicode.Pd, unicode.White_Space):
			continue
		case r == 'O':
			r = '0'
		case r == 'I' || r == 'L':
			r = '1'
		}
		if !strings.ContainsRune(crockford, r) {
			return ""
		}
		b.WriteRune(r)
	}
	if b.Len() != n {
		return ""
	}
	return b.String()
}

// Grouped returns a code in groups of four.
func Grouped(code string) string {
	var b strings.Builder
	for i, r := range code {
		if i > 0 && i%4 == 0 {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return b.String()
}
