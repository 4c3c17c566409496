package web

import (
	"strings"
	"unicode/utf8"
)

// startsFormula reports whether a spreadsheet would run text that begins like this, also behind
// quotes that GuardCell or the author put there.
func startsFormula(s string) bool {
	s = strings.TrimLeft(s, "'")
	s = strings.TrimLeft(s,
		" \f\v\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
	first, _ := utf8.DecodeRuneInString(s)
	return s != "" && strings.ContainsRune("=+-@|%\t\r\n＋－＝＠", first)
}

// endsField reports whether a spreadsheet may begin a new field after b.
func endsField(b byte) bool { return strings.IndexByte(";\t\r\n", b) >= 0 }

// GuardCell puts a quote before text that a spreadsheet would run as a formula.
func GuardCell(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if (i == 0 || endsField(s[i-1])) && startsFormula(s[i:]) {
			b.WriteByte('\'')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// UnguardCell undoes GuardCell.
func UnguardCell(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if (i == 0 || endsField(s[i-1])) && s[i] == '\'' && startsFormula(s[i:]) {
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
