package activityschema

import (
	"slices"
	"strings"
)

// A wordAxis is a member that ends like a latitude or a longitude after a word that kindOf
// does not know: house_lat, weatherLongitude. With its other half after the same word it
// is one, and by itself whatever it was without that.
type wordAxis struct {
	axis
	longOnly bool // it is called long, as exercises are
}

// wordAxisOf returns the axis that a member whose name kindOf does not know is, if any.
func wordAxisOf(name string, found list) (wordAxis, bool) {
	plain, ok := plainName(name)
	if !ok || len(found.numbers) == 0 {
		return wordAxis{}, false
	}
	if name == strings.ToUpper(name) {
		name = strings.ToLower(name)
	}
	word := lastWord(name)
	a := wordAxis{axis: axis{beside: strings.TrimSuffix(plain, word)}}
	switch word {
	case "lat", "latitude":
		a.kind = nameLat
	case "lon", "lng", "longitude":
		a.kind = nameLon
	case "long":
		a.kind, a.longOnly = nameLon, true
	default:
		return wordAxis{}, false
	}
	return a, true
}

// pairWordAxes returns those of one object that have their other half in it, and calls
// judge with each of the others.
func pairWordAxes(all []wordAxis, judge func(a *axis)) (axes []axis) {
	if len(all) == 0 {
		return nil
	}
	halves := make(map[half]*wordAxis, len(all))
	for i, a := range all {
		if h := (half{a.kind == nameLat, a.beside}); halves[h] == nil {
			halves[h] = &all[i]
		}
	}
	for i := range all {
		a := &all[i]
		other := halves[half{a.kind != nameLat, a.beside}]
		if other == nil || (a.longOnly || other.longOnly) && !(a.fine() && other.fine()) {
			judge(&a.axis)
			continue
		}
		axes = append(axes, a.axis)
	}
	return axes
}

// fine tells whether a has a number that is as fine as a position.
func (a *axis) fine() bool {
	return slices.ContainsFunc(a.numbers, coordinate.fine)
}
