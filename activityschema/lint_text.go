package activityschema

import "strings"

// Markup of a track (GPX, KML, TCX), which is found but not read.
var trackMarkup = []string{"<gpx", "<trkpt", "<rtept", "<wpt", "<kml", "<coordinates", "<latitudedegrees"}

// unreadPosition tells whether text, in lower case, holds a position that cannot
// be read: such markup, or degrees with minutes that are only half a position.
func unreadPosition(text string) bool {
	if strings.Contains(text, "<") {
		for _, mark := range trackMarkup {
			if strings.Contains(text, mark) {
				return true
			}
		}
	}
	if !strings.Contains(text, "°") && !strings.Contains(text, "deg") {
		return false
	}
	return sexagesimalHalf.MatchString(text) && !sexagesimalPair.MatchString(text)
}

// Marks after which two numbers are a position, and the digits these then need:
// geo (RFC 5870) and well-known text.
var positionMarks = []struct {
	mark     string
	decimals int
}{{"geo:", 0}, {"point(", 1}, {"point (", 1}, {"linestring(", 1}, {"linestring (", 1}, {"polygon(", 1}, {"polygon (", 1}}

// textPositions returns the positions in a text, in lower case, that stands
// under a name of the kind: "47.371, 8.542" if it is the whole text, 47.37129
// 8.54211 anywhere, lat=47.4&lon=8.5, geo:47.4,8.5, POINT(8.5 47.4) and what
// notations, linked and finePositions read.
func textPositions(text string, kind nameKind) []reading {
	text = addressSigns.Replace(text)
	if r, ok := labelled(text); ok {
		return []reading{r}
	}
	if all := notations(text, kind); len(all) > 0 {
		return all
	}
	if all := append(linked(text), pairedNumbers(text, kind)...); len(all) > 0 {
		return all
	}
	return finePositions(text)
}

// addressSigns are those that stand between numbers in an address, and how it writes them.
var addressSigns = strings.NewReplacer("%2c", ",", "%20", " ")

// pairedNumbers returns the positions that numbers of a text are of which only spaces, a
// comma or the like keep the two apart.
func pairedNumbers(text string, kind nameKind) []reading {
	least := 4
	switch {
	case kind == namePosition:
		least = 0
	case kind != nameOther:
		least = 2
	}
	for _, m := range positionMarks {
		if at := strings.Index(text, m.mark); at == 0 || at > 0 && !isLetter(text[at-1]) {
			text, least = text[at+len(m.mark):], m.decimals
			break
		}
	}
	var all []reading
	marked := least < 4 // what tells a position besides its digits
	n := nextNumber(text, 0)
	alone := fills(text[:n.start]) // of the first number: nothing else comes before a later one
	for ; n.end > 0; alone = false {
		next := nextNumber(text, n.end)
		if next.end == 0 {
			break
		}
		r := reading{lat: n.coordinate, lon: next.coordinate}
		enough, between, after := least, text[n.end:next.start], text[next.end:]
		both := !marked && r.alike() && r.decimals() < 5 // weights: 72.3512 / 71.8512
		switch whole := alone && fills(after); {
		case strings.Contains(between, "°"), whole && strings.ContainsAny(text[:n.start]+between+after, "nsew"):
			enough, both = min(least, 2), false
		case whole: // two decimals are also those of a pressure or a version: 4.25 4.75
			enough = min(least, 3)
		}
		if both || !separates(between) || r.decimals() < enough || !r.inDegrees() || r.zero() {
			n = next
			continue
		}
		all = append(all, r)
		n = nextNumber(text, next.end)
	}
	return all
}

// fills tells whether s is made of what stands around the numbers of a position:
// spaces, brackets, signs of degrees, and the letter of a hemisphere.
func fills(s string) bool {
	hemisphere := false
	for _, r := range s {
		switch {
		case strings.ContainsRune(" \t\r\n()[]°", r):
		case strings.ContainsRune("nsew", r) && !hemisphere:
			hemisphere = true
		default:
			return false
		}
	}
	return true
}

// separates tells whether s stands between the two numbers of one position.
func separates(s string) bool {
	if i := strings.IndexAny(s, ",;/|"); i >= 0 {
		s = s[:i] + " " + s[i+1:]
	}
	return s != "" && fills(s)
}

// labelled returns the position of which text names the two halves, as the
// query of an address or a piece of JSON or XML does.
func labelled(text string) (reading, bool) {
	lat, ok := labelledNumber(text, "latitude", "lat")
	if !ok {
		return reading{}, false
	}
	lon, ok := labelledNumber(text, "longitude", "lon", "lng", "long")
	r := reading{lat, lon, true}
	return r, ok && r.inDegrees() && !r.zero()
}

// labelledNumber returns the number after one of the labels, as in lat=47.4,
// mlat=47.4 (OpenStreetMap), "lat":47.4 and lat="47.4".
func labelledNumber(text string, labels ...string) (coordinate, bool) {
	for _, label := range labels {
		for from := 0; ; {
			at := strings.Index(text[from:], label)
			if at < 0 {
				break
			}
			at += from
			from = at + len(label)
			before := strings.TrimSuffix(text[:at], "m")
			if before != "" && isLetter(before[len(before)-1]) {
				continue
			}
			after, least := strings.TrimLeft(text[from:], `"' `), 0
			for _, is := range [...]string{"is ", "ist ", "est "} {
				after = strings.TrimPrefix(after, is)
			}
			switch {
			case strings.HasPrefix(after, "="):
				after = after[1:]
			case strings.HasPrefix(after, ":"): // lat: 40 kg is an exercise
				after, least = after[1:], 1
			case text[from:] != "" && text[from] == ' ':
				least = 3
			default:
				continue
			}
			after = strings.TrimLeft(after, `"' `)
			digits := strings.TrimLeft(after, "+-.0123456789")
			number := after[:len(after)-len(digits)]
			if decimals := fineDecimals(digits); decimals != "" && !strings.Contains(number, ".") {
				number, digits = number+"."+decimals, digits[1+len(decimals):]
			}
			n, ok := coordinateOf(number)
			if ok && n.decimals >= least && (n.decimals >= 3 || !continues(digits)) {
				return n, true
			}
		}
	}
	return coordinate{}, false
}

// fineDecimals returns the digits after a decimal comma that s begins with, if they are
// too many for thousands.
func fineDecimals(s string) string {
	if !strings.HasPrefix(s, ",") {
		return ""
	}
	s = s[1:]
	if s = s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]; len(s) < 4 {
		return ""
	}
	return s
}

// continues tells whether s goes on from a number before it: 3x8, 12.5kg.
func continues(s string) bool {
	return s != "" && isLetter(s[0]) && strings.IndexByte("nsew", s[0]) < 0
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// A textNumber is a number and where it stands in a text; end is 0 if there is
// none.
type textNumber struct {
	coordinate
	start, end int
}

// nextDigits returns where the next digits with a point among them begin and end, and
// where what follows begins: a point at their end is that of a sentence. end is 0 if
// there are none.
func nextDigits(text string, from int) (start, end, after int) {
	for start = from; start < len(text) && !isDigit(text[start]); start++ {
	}
	if start == len(text) {
		return 0, 0, start
	}
	for after = start; after < len(text) && (isDigit(text[after]) || text[after] == '.'); after++ {
	}
	if end = after; text[end-1] == '.' {
		end--
	}
	return start, end, after
}

// nextNumber returns the next number that stands by itself: not a part of a
// word, a time, a date or a version.
func nextNumber(text string, from int) textNumber {
	for start, end, i := nextDigits(text, from); end > 0; start, end, i = nextDigits(text, i) {
		if start > 0 && (text[start-1] == '-' || text[start-1] == '+') {
			start--
		}
		if partBefore(text[:start]) || partAfter(text[i:]) {
			continue
		}
		if n, ok := coordinateOf(text[start:end]); ok {
			return textNumber{n, start, end}
		}
	}
	return textNumber{}
}

// partBefore tells whether a number after s goes on from it.
func partBefore(s string) bool {
	if s == "" {
		return false
	}
	switch c := s[len(s)-1]; c {
	case ':':
		return len(s) > 1 && isDigit(s[len(s)-2])
	case '_', '-':
		return true
	case 'n', 's', 'e', 'w': // a hemisphere
		return len(s) > 1 && (isLetter(s[len(s)-2]) || isDigit(s[len(s)-2]))
	default:
		return isLetter(c) || isDigit(c)
	}
}

// partAfter tells whether a number before s goes on in it. A hemisphere may
// follow without a space.
func partAfter(s string) bool {
	return s != "" && strings.IndexByte("_:-%", s[0]) >= 0 || continues(s)
}
