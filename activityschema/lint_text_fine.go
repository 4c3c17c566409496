package activityschema

import "strings"

// leastFine are the decimals of numbers that are a position whatever of few signs
// stands between them, and mostBetween how many bytes that are.
const (
	leastFine   = 5
	mostBetween = 10
)

// finePositions returns the positions in a text, in lower case, that two numbers of many
// digits are although a word or a sign stands between them that could be a part of
// shorter ones: 47.37129 and 8.54211, ride_47.37129_8.54211.gpx. In what is alike,
// such as a weight before and after, it sees none.
func finePositions(text string) (all []reading) {
	last := textNumber{}
	for from := 0; ; {
		n, next := nextFine(text, from)
		if n.end == 0 {
			return all
		}
		from = next
		r := reading{lat: last.coordinate, lon: n.coordinate}
		if last.end > 0 && joins(text[last.end:n.start]) && r.inDegrees() && !r.alike() {
			all = append(all, r)
			n = textNumber{}
		}
		last = n
	}
}

// nextFine returns the next number of many decimals that is not the end of a time, of a
// version or of a word, and from where to look for another; end is 0 if there is none.
func nextFine(text string, from int) (n textNumber, next int) {
	for start, end, i := nextDigits(text, from); end > 0; start, end, i = nextDigits(text, i) {
		before, after := text[:start], text[i:]
		if end < i { // the dot before the ending of a file, or of a sentence
			after = ""
		}
		c, ok := coordinateOf(text[start:end])
		if !ok || c.decimals < leastFine || start > from && startsInside(before) || after != "" && (continues(after) || after[0] == '%') {
			continue
		}
		if strings.HasSuffix(before, "-") && (start == 1 || !isDigit(text[start-2]) && !isLetter(text[start-2])) {
			start, c.value = start-1, -c.value
		}
		return textNumber{c, start, end}, i
	}
	return textNumber{}, len(text)
}

// startsInside tells whether a number after s is the seconds of a time or goes on from a
// word.
func startsInside(s string) bool {
	return s[len(s)-1] != '_' && s[len(s)-1] != '-' && partBefore(s) && !fineBefore(s)
}

// fineBefore tells whether a number of many decimals ends right before the colon at the
// end of s, so that what comes next is no minutes.
func fineBefore(s string) bool {
	s, colon := strings.CutSuffix(s, ":")
	dot := strings.LastIndexByte(s, '.')
	return colon && dot >= 0 && len(s)-dot > leastFine && strings.Trim(s[dot+1:], "0123456789") == ""
}

// joins tells whether s may stand between two numbers of one position.
func joins(s string) bool {
	if s == "" || len(s) > mostBetween || s == "-" {
		return false
	}
	switch word := strings.Trim(s, " \t\r\n,;/|_:~+-'\"()[]{}°"); word {
	case "", "and", "und", "et", "y":
		return true
	}
	return false
}
