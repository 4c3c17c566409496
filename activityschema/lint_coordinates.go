package activityschema

import (
	"math"
	"strconv"
	"strings"
)

// A coordinate is a number and how many digits its point has after it, which
// tells a position from most other numbers: 47.37129 is hardly anything else.
type coordinate struct {
	value    float64
	decimals int
}

// coordinateOf reads text that is a number and nothing else.
func coordinateOf(text string) (coordinate, bool) {
	if text == "" || strings.Trim(text, "+-.0123456789eE") != "" {
		return coordinate{}, false
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return coordinate{}, false
	}
	if strings.ContainsAny(text, "eE") {
		text = strconv.FormatFloat(value, 'f', -1, 64)
	}
	_, decimals, _ := strings.Cut(text, ".")
	return coordinate{value, len(decimals)}, true
}

// A reading is two numbers that may be a position.
type reading struct {
	lat, lon coordinate
	// ordered is set if lat is known to be the latitude.
	ordered bool
}

// decimals are those that both numbers have.
func (r reading) decimals() int { return min(r.lat.decimals, r.lon.decimals) }

// finest are the decimals of the number that has more of them.
func (r reading) finest() int { return max(r.lat.decimals, r.lon.decimals) }

// zero is the position of devices that have none.
func (r reading) zero() bool { return r.lat.value == 0 && r.lon.value == 0 }

// meanings calls yield with every position that r may mean, and with how many
// metres rounding to its last digit may have moved it.
func (r reading) meanings(yield func(p position, roundedM float64) bool) {
	degrees := math.Abs(r.lat.value) <= 180 && math.Abs(r.lon.value) <= 180
	// Integers may be 1e-6 or 1e-7 degrees, or semicircles (FIT).
	for _, scale := range [...]float64{1, 1e-6, 1e-7, 180.0 / (1 << 31)} {
		if degrees != (scale == 1) {
			continue
		}
		digit := scale * math.Pow10(-max(r.lat.decimals, r.lon.decimals))
		roundedM := metresPerDegree * digit / math.Sqrt2 // half a digit to the north and half to the east
		p := position{r.lat.value * scale, r.lon.value * scale}
		if p.onEarth() && !yield(p, roundedM) {
			return
		}
		if reversed := (position{p.lon, p.lat}); !r.ordered && reversed.onEarth() && !yield(reversed, roundedM) {
			return
		}
	}
}

// inDegrees tells whether r means a position in degrees.
func (r reading) inDegrees() bool {
	p := position{r.lat.value, r.lon.value}
	return p.onEarth() || !r.ordered && position{p.lon, p.lat}.onEarth()
}

// inIntegers tells whether r means a position in integers of at least so much.
func (r reading) inIntegers(least float64) bool {
	if r.inDegrees() || r.finest() > 0 || min(math.Abs(r.lat.value), math.Abs(r.lon.value)) < leastInteger || max(math.Abs(r.lat.value), math.Abs(r.lon.value)) < least {
		return false
	}
	for range r.meanings {
		return true
	}
	return false
}

// alike tells whether the two are less than one apart: what is measured on both sides
// or twice more often than a place.
func (r reading) alike() bool { return math.Abs(r.lat.value-r.lon.value) < 1 }
