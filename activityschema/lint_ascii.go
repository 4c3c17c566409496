package activityschema

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// asciiText returns text with the digits, spaces and signs of other scripts and of
// typesetters written as in ASCII, and without what shows nothing: a minus sign,
// full-width digits or a no-break space hide no position.
func asciiText(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return strings.Map(plainRune, text)
		}
	}
	return text
}

// fullWidth is how far the full-width forms are from what they are forms of.
const fullWidth = '！' - '!'

func plainRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case '！' <= r && r <= '～':
		return r - fullWidth
	case r == '−', unicode.Is(unicode.Pd, r):
		return '-'
	case r == '٫': // the point of Arabic numbers
		return '.'
	case r == '،', r == '、':
		return ','
	case unicode.IsSpace(r):
		return ' '
	case unicode.Is(unicode.Cf, r):
		return -1
	case unicode.Is(unicode.Nd, r):
		return asciiDigit(r)
	}
	return r
}

// asciiDigit returns a decimal digit in ASCII. In Unicode those from zero to nine follow
// one another, and ranges of them begin with a zero.
func asciiDigit(r rune) rune {
	for _, d := range unicode.Nd.R16 {
		if rune(d.Lo) <= r && r <= rune(d.Hi) {
			return '0' + (r-rune(d.Lo))%10
		}
	}
	for _, d := range unicode.Nd.R32 {
		if rune(d.Lo) <= r && r <= rune(d.Hi) {
			return '0' + (r-rune(d.Lo))%10
		}
	}
	return r
}

// writtenHalf is half a position as people write it: 47,37129, 47.37129° N, N47.37129.
var writtenHalf = regexp.MustCompile(`^([NSEWnsew]?) *([+-]?\d{1,3})(?:([.,])(\d+))? *°? *([NSEWnsew]?)$`)

// halfNumber returns the number that text, under a name of the kind, stands for, as
// coordinateOf reads it, or text if that is none. Under any name but that of a latitude or a
// longitude a comma stands between thousands, and a letter is a unit, unless there
// are too many digits for that.
func halfNumber(text string, kind nameKind) string {
	const longest = 40
	if len(text) > 4*longest {
		return text
	}
	text = strings.TrimSpace(asciiText(text))
	if len(text) > longest || strings.Trim(text, "+-.0123456789") == "" {
		return text
	}
	m := writtenHalf.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	half := kind == nameLat || kind == nameLon || kind == nameLong
	before, degrees, point, decimals, after := m[1], m[2], m[3], m[4], m[5]
	hemisphere := before + after
	switch {
	case len(hemisphere) > 1, !half && len(decimals) < 4, !half && (hemisphere != "" || strings.Contains(text, "°")) && len(decimals) < 5:
		return text
	case point != "":
		degrees += "." + decimals
	}
	if strings.ContainsAny(hemisphere, "SWsw") && !strings.ContainsAny(degrees, "+-") {
		degrees = "-" + degrees
	}
	return degrees
}
