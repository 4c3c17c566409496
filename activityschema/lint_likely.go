package activityschema

import "math"

// leastPlaceInteger is the size of one of two integers that are a place, where both are at
// least leastInteger: numbers of routes are as long as that.
const leastPlaceInteger = 1e8

// likely returns the readings of a value that stands under a name of the kind,
// if they are positions rather than anything else: the less the name says, the
// more digits they need. A list of pairs of three decimals is taken for
// positions under any name. Fractions of one, such
// as [0.5512, 0.6623], are shares more often than places in the Gulf of Guinea.
func likely(kind nameKind, all []reading) []reading {
	open := kind == nameOther || kind == nameEnd
	var positions []reading
	for _, r := range all {
		switch {
		case !r.inDegrees():
			switch {
			case open:
				return nil
			case kind == namePosition && r.inIntegers(leastInteger), kind == namePlace && r.inIntegers(leastPlaceInteger):
				positions = append(positions, r)
			}
		case r.zero(), !fineEnough(kind, len(all), r):
		case open && math.Abs(r.lat.value) < 1 && math.Abs(r.lon.value) < 1:
		case open && len(all) < leastRows && r.alike():
		default:
			positions = append(positions, r)
		}
	}
	// Now and then a coordinate ends in zeros, which are not written.
	if open && 2*len(positions) < len(all) {
		return nil
	}
	return positions
}

// fineEnough tells whether r, one of so many readings under a name of the kind, has the
// decimals of a position. A number of JSON is written without the zeros at its end, so
// that one of two may have fewer than the other: [40.7128, -74.006].
func fineEnough(kind nameKind, readings int, r reading) bool {
	least, finest := r.decimals(), r.finest()
	switch {
	case kind == namePosition:
		return true
	case readings > 1 && (kind == nameOther || kind == nameEnd):
		return least >= 3
	case readings > 1:
		return least >= 1
	case kind == nameEnd:
		return least >= 2 && finest >= 3
	case kind == nameOther:
		return least >= 3 && finest >= 4 || least >= 2 && finest >= 5
	default:
		return least >= 2
	}
}

// onlyVectors tells whether all that l holds is triples of which the third number is as
// fine as the two before it, which the elevation of a device is not.
func (l *list) onlyVectors() bool {
	for i := range l.lists {
		if !l.lists[i].onlyVectors() {
			return false
		}
	}
	if len(l.numbers) == 3 {
		return l.numbers[2].decimals >= min(l.numbers[0].decimals, l.numbers[1].decimals)
	}
	return len(l.numbers) != 2
}
