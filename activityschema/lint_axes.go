package activityschema

import (
	"math"
	"slices"
	"strings"
)

// An innerAxis is a member with a name that means a latitude or a longitude in
// one object and something else in the next: x and y, north and east. Only two of
// them in one object, with the digits of a position, are one.
type innerAxis struct {
	half
	name   string
	number coordinate
	depth  bool // neither of the two but z
	drawn  bool // x or y, which charts have as well
}

// innerAxes are the words of such names and what they stand for.
var innerAxes = []struct {
	word              string
	lat, depth, drawn bool
}{
	{"north", true, false, false},
	{"south", true, false, false},
	{"φ", true, false, false},
	{"east", false, false, false},
	{"west", false, false, false},
	{"λ", false, false, false},
	{"y", true, false, true},
	{"x", false, false, true},
	{"z", false, true, false},
}

// leastInner are the decimals of such a number. Fewer are those of a drawing, a
// wind or a sensor. One of x and y has leastDrawn where no name says that it is a place.
const (
	leastInner = 4
	leastDrawn = 5
)

// innerAxisOf returns the axis that a member is with its only number, if any.
func innerAxisOf(name string, numbers []coordinate) (innerAxis, bool) {
	if len(numbers) != 1 || numbers[0].decimals < leastInner || math.Abs(numbers[0].value) > 180 {
		return innerAxis{}, false
	}
	plain, ok := plainName(name)
	if !ok {
		return innerAxis{}, false
	}
	for _, core := range innerAxes {
		if !strings.Contains(plain, core.word) {
			continue
		}
		words := partsOf(plain, &wordsBy)
		if beside, ok := words.beside(plain, core.word); ok {
			return innerAxis{half{core.lat, beside}, name, numbers[0], core.depth, core.drawn}, true
		}
	}
	return innerAxis{}, false
}

// judgeInner reports the axes of one object that show a position together. Those of a
// list are left to it.
func (s *customSearch) judgeInner(axes []innerAxis) {
	if len(axes) < 2 {
		return
	}
	halves := make(map[half]*innerAxis, len(axes))
	for i, a := range axes {
		// A height has fewer digits than a position: with a third axis as
		// fine, it is a vector.
		if a.depth {
			return
		}
		if halves[a.half] == nil {
			halves[a.half] = &axes[i]
		}
	}
	if s.amongMeasures() {
		return
	}
	box, place := s.showsBoxOf(axes), s.amongPlaces()
	var path []string // from the list to the object
	for _, a := range axes {
		other := halves[half{!a.lat, a.beside}]
		if other == nil || box {
			continue
		}
		r := reading{a.number, other.number, true}
		if !a.lat {
			r.lat, r.lon = r.lon, r.lat
		}
		// Fractions of one are shares, as likely has it.
		if !r.inDegrees() || math.Abs(r.lat.value) < 1 && math.Abs(r.lon.value) < 1 {
			continue
		}
		r.ordered = false // some write x for the latitude
		drawn := a.drawn && other.drawn && !place
		switch {
		case drawn && s.drawing != nil:
			if path == nil {
				path = slices.Clone(s.path[s.drawing.depth:])
			}
			s.drawing.points = append(s.drawing.points, drawnPoint{r, path, a.name})
		case drawn && !r.finelyDrawn():
		case s.privacy == PrivacyNoGPS || s.beyond(r):
			s.report(a.name)
		}
	}
}

// A drawing is what the objects of a list have in common: x and y, which are as likely a
// chart as a way, and rows.
type drawing struct {
	depth  int // of the list in the document
	item   int // of the list, that is being read
	points []drawnPoint
	rows   []memberRow
}

// A drawnPoint is the position that an axis shows with its other half.
type drawnPoint struct {
	reading
	path []string
	name string
}

// finelyDrawn tells whether x or y has the digits of a position.
func (r reading) finelyDrawn() bool { return max(r.lat.decimals, r.lon.decimals) >= leastDrawn }

// judgeDrawing reports the points of the list just read if they may be somebody's way.
func (s *customSearch) judgeDrawing(d *drawing) {
	var way columnPair
	fine := true
	for i, p := range d.points {
		// Each of the two axes has noted the same position.
		if i == 0 || p.reading != way.last {
			way.add(p.reading)
			fine = fine && p.finelyDrawn()
		}
	}
	if way.rows < leastRows && (!fine || way.tooLong(s.longestM)) || way.rows >= leastRows && !way.positions(s.longestM) {
		return
	}
	for _, p := range d.points {
		if s.privacy == PrivacyNoGPS || s.beyond(p.reading) {
			s.report(append(slices.Clone(p.path), p.name)...)
		}
	}
}

// showsBoxOf tells whether axes are two latitudes and two longitudes, the bounds
// of a box that reaches no further than the cut track.
func (s *customSearch) showsBoxOf(axes []innerAxis) bool {
	if s.privacy != PrivacyBlurStart || len(axes) != 4 {
		return false
	}
	var lats, lons []float64
	for _, a := range axes {
		if a.lat {
			lats = append(lats, a.number.value)
		} else {
			lons = append(lons, a.number.value)
		}
	}
	if len(lats) != 2 {
		return false
	}
	// Across the antimeridian the west has the greater longitude.
	return s.track.showsBox(BBox{lons[0], lats[0], lons[1], lats[1]}) || s.track.showsBox(BBox{lons[1], lats[0], lons[0], lats[1]})
}

// amongMeasures tells whether what stands around the object is a measure, as are
// the samples of an accelerometer.
func (s *customSearch) amongMeasures() bool {
	return s.among(func(kind nameKind, _ string) bool { return kind == nameMeasure })
}

// placeWords are words in the names of what is drawn on a map.
var placeWords = []string{"map", "track", "photo"}

// amongPlaces tells whether what stands around the object is a place.
func (s *customSearch) amongPlaces() bool {
	return s.among(func(kind nameKind, name string) bool {
		if kind == namePosition || kind == namePlace || kind == nameBox || kind == namePolyline {
			return true
		}
		name, _ = plainName(name)
		return slices.ContainsFunc(placeWords, func(word string) bool { return strings.Contains(name, word) })
	})
}

// among tells whether it is so of one of the names around the object.
func (s *customSearch) among(is func(kind nameKind, name string) bool) bool {
	const names = 3
	looked := 0
	for i := len(s.path) - 1; i > 0 && looked < names; i-- {
		if s.path[i] == "" || isDigit(s.path[i][0]) { // an item
			continue
		}
		looked++
		if kind, _ := kindOf(s.path[i]); is(kind, s.path[i]) {
			return true
		}
	}
	return false
}
