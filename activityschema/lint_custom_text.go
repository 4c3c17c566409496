package activityschema

import (
	"math"
	"regexp"
	"slices"
	"strings"
)

// text reports a string that holds a position.
func (s *customSearch) text(text string, kind nameKind) {
	if kind == nameEnd { // a text is a time or a reason as well
		kind = nameOther
	}
	text = asciiText(text)
	if kind != nameMeasure && s.embedded(text, kind) {
		return
	}
	if kind == nameLink && text != "" {
		s.report()
	}
	if !strings.ContainsAny(text, "0123456789") && kind != nameCode && kind != namePolyline {
		if kind != nameMeasure {
			s.unnamedPolyline(text)
		}
		return
	}
	lower := strings.ReplaceAll(strings.ToLower(text), "º", "°")
	switch {
	case kind == nameCode && len(text) > 4 && !isWord(lower), holdsPlusCode(lower):
		s.report()
	case kind == namePolyline && len(text) > 3 && !strings.Contains(text, " ") && !isWord(lower):
		if positions, ok := s.track.polyline(text); ok {
			s.positions(positions)
		} else {
			s.report()
		}
	case unreadPosition(lower):
		s.report()
	case kind != nameMeasure:
		s.positions(textPositions(lower, kind))
	}
}

// plusCode is an Open Location Code of 10 digits or more, in lower case.
var plusCode = regexp.MustCompile(`\b[2-9cfghjmpqrvwx]{8}\+[2-9cfghjmpqrvwx]{2,3}\b`)

// holdsPlusCode asks for a letter: a sum of numbers has none.
func holdsPlusCode(lower string) bool {
	return slices.ContainsFunc(plusCode.FindAllString(lower, -1), func(code string) bool { return strings.ContainsAny(code, "cfghjmpqrvwx") })
}

// isWord tells whether text is a short word of letters, such as "none", rather than
// a code or a track.
func isWord(text string) bool {
	return len(text) < 10 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// What a text that is not named a polyline must have to be one: so many bytes, so
// many points, and no step longer than so many degrees. Few points are enough where
// the name promises a line.
const (
	leastPolyline      = 20
	leastNamedPolyline = 12
	leastPoints        = 6
	leastNamedPoints   = 3
	longestStep        = 0.1
)

// lineNames are words in the names of lines.
var lineNames = []string{"polyline", "route", "path", "track", "line", "geometry", "shape", "points", "encoded"}

// unnamedPolyline reports a text without a digit that is an encoded polyline although
// no name says so: {"overview_polyline": {"points": "..."}} and {"shape": "..."}. One
// of the signs that are no letters tells it from most words and keys; and what does not
// decode to a way on the Earth is none.
func (s *customSearch) unnamedPolyline(text string) {
	least, points := leastPolyline, leastPoints
	if s.namesLine() {
		least, points = leastNamedPolyline, leastNamedPoints
	}
	if len(text) < least || !isPolylineText(text) {
		return
	}
	encoded, _ := polylinePoints(text)
	if len(encoded) < points {
		return
	}
	var ways [][]reading
	for decimals := 5; decimals <= 6; decimals++ {
		if all := polylineReadings(encoded, decimals); all != nil && isWay(all) {
			ways = append(ways, all)
		}
	}
	if len(ways) > 0 && !s.shown(ways) {
		s.report()
	}
}

// namesLine tells whether the name of the value just read, or of the object that it is
// a member of, is that of a line.
func (s *customSearch) namesLine() bool {
	for _, name := range s.path[max(0, len(s.path)-2):] {
		if len(name) > longestName {
			continue
		}
		name = strings.ToLower(name)
		if slices.ContainsFunc(lineNames, func(word string) bool { return strings.Contains(name, word) }) {
			return true
		}
	}
	return false
}

// isPolylineText tells whether text consists of the signs of an encoded polyline, with one that
// is no letter.
func isPolylineText(text string) bool {
	sign := false
	for i := range len(text) {
		if text[i] < '?' || text[i] > '~' {
			return false
		}
		sign = sign || !isLetter(text[i]) && text[i] != '_'
	}
	return sign
}

// isWay tells whether somebody may have gone from position to position. Near zero
// degrees lies what short random values decode to.
func isWay(all []reading) bool {
	if math.Abs(all[0].lat.value) < 1 && math.Abs(all[0].lon.value) < 1 {
		return false
	}
	for i := 1; i < len(all); i++ {
		north, east := all[i].lat.value-all[i-1].lat.value, all[i].lon.value-all[i-1].lon.value
		if math.Abs(north) > longestStep || math.Abs(math.Remainder(east, 360)) > longestStep {
			return false
		}
	}
	return true
}
