package activityschema

import (
	"math"
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
}

// innerAxes are the words of such names and what they stand for.
var innerAxes = []struct {
	word       string
	lat, depth bool
}{
	{"north", true, false},
	{"south", true, false},
	{"φ", true, false},
	{"east", false, false},
	{"west", false, false},
	{"λ", false, false},
	{"y", true, false},
	{"x", false, false},
	{"z", false, true},
}

// leastInner are the decimals of such a number. Fewer are those of a drawing, a
// wind or a sensor.
const leastInner = 4

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
			return innerAxis{half{core.lat, beside}, name, numbers[0], core.depth}, true
		}
	}
	return innerAxis{}, false
}

// judgeInner reports the axes of one object that show a position together.
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
	box := s.showsBoxOf(axes)
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
		if s.privacy == PrivacyNoGPS || s.beyond(r) {
			s.report(a.name)
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
	const names = 3
	looked := 0
	for i := len(s.path) - 1; i > 0 && looked < names; i-- {
		if s.path[i] == "" || isDigit(s.path[i][0]) { // an item
			continue
		}
		looked++
		if kind, _ := kindOf(s.path[i]); kind == nameMeasure {
			return true
		}
	}
	return false
}
