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

// likely returns the readings of a value that stands under a name of the kind,
// if they are positions rather than anything else: the less the name says, the
// more digits they need. Two numbers of four decimals are taken for a position
// under any name, a list of them from three decimals on. Fractions of one, such
// as [0.5512, 0.6623], are shares more often than places in the Gulf of Guinea.
func likely(kind nameKind, all []reading) []reading {
	least := 4
	switch {
	case kind == namePosition:
		least = 0
	case kind != nameOther && len(all) == 1:
		least = 2
	case kind != nameOther:
		least = 1
	case len(all) > 1:
		least = 3
	}
	var positions []reading
	for _, r := range all {
		switch {
		case !r.inDegrees():
			if kind == nameOther {
				return nil
			}
		case r.zero(), r.decimals() < least:
		case kind == nameOther && math.Abs(r.lat.value) < 1 && math.Abs(r.lon.value) < 1:
		default:
			positions = append(positions, r)
		}
	}
	// Now and then a coordinate ends in zeros, which are not written.
	if kind == nameOther && 2*len(positions) < len(all) {
		return nil
	}
	return positions
}
