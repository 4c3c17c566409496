package activityschema

import (
	"math"
	"regexp"
	"strings"
)

// A position is not always two decimal numbers. These are the other notations
// that are read, each in a text in lower case.

// notations returns the positions that text, under a name of the kind, shows in
// another notation than two numbers with points.
func notations(text string, kind nameKind) []reading {
	if kind == namePlace || kind == namePosition {
		if r, ok := geohash(text); ok {
			return []reading{r}
		}
	}
	if all := sexagesimals(text); len(all) > 0 {
		return all
	}
	if all := isoPositions(text); len(all) > 0 {
		return all
	}
	return commaPositions(text, kind)
}

// Degrees and minutes, with or without seconds; two of them, perhaps with their
// hemispheres; and one of them, which is a slope unless it has seconds or a hemisphere.
const (
	degreesMinutes = `(\d{1,3}) *(?:°|deg) *(\d{1,2}(?:\.\d+)?) *`
	sexagesimal    = degreesMinutes + `(?:(['′’]) *(?:(\d{1,2}(?:\.\d+)?) *(?:["″”]|''|′′|’’)? *)?)?`
)

var (
	sexagesimalPair = regexp.MustCompile(`(?:^|[^\d.])(?:([ns]) *)?` + sexagesimal + `([ns])?[ ,;/]*(?:([ew]) *)?` + sexagesimal + `([ew])?`)
	sexagesimalHalf = regexp.MustCompile(`\b[nsew] *` + degreesMinutes + `['′’]|(?:^|[^\d.])` + degreesMinutes + `['′’] *(?:(?:[nsew]|north|south|east|west)\b|\d{1,2}(?:\.\d+)? *["″”'′’])`)
)

// sexagesimals returns positions such as 47° 22' 16.6" n, 8° 32' 31.6" e and
// n 47° 22.277 e 8° 32.527, with "deg" for the sign as exiftool writes it.
func sexagesimals(text string) (all []reading) {
	if !strings.Contains(text, "°") && !strings.Contains(text, "deg") {
		return nil
	}
	for _, m := range sexagesimalPair.FindAllStringSubmatch(text, -1) {
		ns, ew := m[1]+m[6], m[7]+m[12]
		if minutes := m[4] != "" && m[10] != ""; !minutes && (ns == "" || ew == "") {
			continue // 12° 3, 14° 5: not a word of minutes
		}
		r := reading{degreesOf(m[2], m[3], m[5], ns == "s"), degreesOf(m[8], m[9], m[11], ew == "w"), true}
		if r.inDegrees() && !r.zero() {
			all = append(all, r)
		}
	}
	return all
}

// degreesOf adds up degrees, minutes and seconds; text may be missing. A digit of
// minutes counts as one of degrees, and one of seconds as three.
func degreesOf(degrees, minutes, seconds string, negative bool) coordinate {
	d, _ := coordinateOf(degrees)
	m, _ := coordinateOf(minutes)
	c := coordinate{d.value + m.value/60, m.decimals + 1}
	if s, ok := coordinateOf(seconds); ok {
		c = coordinate{c.value + s.value/3600, s.decimals + 3}
	}
	if negative {
		c.value = -c.value
	}
	return c
}

// isoPosition is a position of ISO 6709, as in the metadata of a film from a
// phone: +47.3713+008.5421/, +4722.277+00832.527+412.3/.
var isoPosition = regexp.MustCompile(`(?:^|[^\d.])([+-])(\d{2})(\d{2})?(\d{2})?(\.\d+)([+-])(\d{3})(\d{2})?(\d{2})?(\.\d+)((?:[+-]\d+(?:\.\d+)?)?(?:crs[a-z0-9_:]+)?/)?`)

func isoPositions(text string) (all []reading) {
	if !strings.ContainsAny(text, "+-") {
		return nil
	}
	for _, m := range isoPosition.FindAllStringSubmatch(text, -1) {
		r := reading{isoHalf(m[1:6]), isoHalf(m[6:11]), true}
		// Without the slash that ends it, it may be a sum.
		if ended := m[11] != ""; !ended && (m[3] != "" || m[8] != "" || r.decimals() < 4) {
			continue
		}
		if r.inDegrees() && !r.zero() {
			all = append(all, r)
		}
	}
	return all
}

// isoHalf reads a sign, degrees, perhaps minutes, perhaps seconds, and the
// fraction of the last of them.
func isoHalf(m []string) coordinate {
	degrees, minutes, seconds := m[1], m[2], m[3]
	switch {
	case minutes == "":
		c, _ := coordinateOf(m[0] + degrees + m[4])
		return c
	case seconds == "":
		minutes += m[4]
	default:
		seconds += m[4]
	}
	return degreesOf(degrees, minutes, seconds, m[0] == "-")
}

// commaPair is two numbers with decimal commas. A space follows a comma that
// stands between them.
var commaPair = regexp.MustCompile(`([+-]?\d{1,3}),(\d+)( *°)?([ nsew]*(?:[;/| \t]|, )[ \tnsew]*)([+-]?\d{1,3}),(\d+)`)

// commaPositions returns positions such as 47,37129; 8,54211. A third number near
// by means that the commas stand in a list, such as 1,30150; 2,29925; 3,31200.
func commaPositions(text string, kind nameKind) (all []reading) {
	if !besideDigits(text, ',') {
		return nil
	}
	least := 4
	switch {
	case kind == namePosition:
		least = 1
	case kind != nameOther:
		least = 2
	}
	const around = " \t,;/|()[]°nsew"
	for _, m := range commaPair.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string { return text[m[2*i]:m[2*i+1]] }
		lat, latOK := coordinateOf(part(1) + "." + part(2))
		lon, lonOK := coordinateOf(part(5) + "." + part(6))
		r := reading{lat: lat, lon: lon}
		if !latOK || !lonOK || r.decimals() < least || !r.inDegrees() || r.zero() {
			continue
		}
		before, after := strings.TrimRight(text[:m[0]], around), strings.TrimLeft(text[m[1]:], around)
		if before != "" && inNumber(before[len(before)-1]) || after != "" && inNumber(after[0]) || partBefore(text[:m[0]]) || partAfter(text[m[1]:]) {
			continue
		}
		all = append(all, r)
	}
	return all
}

// besideDigits tells whether c stands between two digits of text, which is looked
// at before an expression is, since that takes many times as long.
func besideDigits(text string, c byte) bool {
	for i := 1; i+1 < len(text); i++ {
		if text[i] == c && isDigit(text[i-1]) && isDigit(text[i+1]) {
			return true
		}
	}
	return false
}

// inNumber tells whether c is a part of a number.
func inNumber(c byte) bool { return isDigit(c) || c == '.' || c == '+' || c == '-' }

// geohashDigits are those of a geohash, 5 bits each.
const geohashDigits = "0123456789bcdefghjkmnpqrstuvwxyz"

// geohash reads a text that is a geohash of 8 to 12 digits and nothing else. One
// whose letters and figures do not mix is no geohash but a word with a number:
// sector12, 2ndstreet. Nor is one that is a hexadecimal number, as are the names of
// most things in databases; of the geohashes, one in four hundred and less is.
func geohash(text string) (reading, bool) {
	if len(text) < 8 || len(text) > 12 {
		return reading{}, false
	}
	south, north, west, east := -90.0, 90.0, -180.0, 180.0
	lon, changes, hexadecimal := true, 0, true
	for i := range len(text) {
		digit := strings.IndexByte(geohashDigits, text[i])
		if digit < 0 {
			return reading{}, false
		}
		if i > 0 && isDigit(text[i]) != isDigit(text[i-1]) {
			changes++
		}
		hexadecimal = hexadecimal && (isDigit(text[i]) || text[i] <= 'f')
		for bit := 16; bit > 0; bit >>= 1 {
			low, high := &south, &north
			if lon {
				low, high = &west, &east
			}
			if middle := (*low + *high) / 2; digit&bit != 0 {
				*low = middle
			} else {
				*high = middle
			}
			lon = !lon
		}
	}
	// As many digits as the cell is wide, that of the longitude being the wider.
	decimals := int(math.Floor(-math.Log10(east - west)))
	r := reading{coordinate{(south + north) / 2, decimals}, coordinate{(west + east) / 2, decimals}, true}
	return r, changes >= 2 && !hexadecimal
}
