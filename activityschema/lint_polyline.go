package activityschema

import (
	"math"
	"slices"
)

// polyline reads a polyline in Google's encoding. False means that text is none.
// It does not say whether it has five decimals or six: near the equator and
// Greenwich both may be on the Earth. Five are then meant unless only with six
// all of it lies where the track t does, which may be nil.
func (t *track) polyline(text string) ([]reading, bool) {
	points, ok := polylinePoints(text)
	if !ok {
		return nil, false
	}
	five, six := polylineReadings(points, 5), polylineReadings(points, 6)
	switch away := func(r reading) bool { return !t.showsLat(r.lat.value) || !t.showsLon(r.lon.value) }; {
	case five == nil:
		return six, six != nil
	case t != nil && slices.ContainsFunc(five, away) && !slices.ContainsFunc(six, away):
		return six, true
	}
	return five, true
}

// polylinePoints decodes text to latitudes and longitudes as integers.
func polylinePoints(text string) (points [][2]int64, ok bool) {
	var sums [2]int64
	for text != "" {
		for i := range sums {
			value, shift := int64(0), 0
			for {
				if text == "" || text[0] < 63 || text[0] > 126 {
					return nil, false
				}
				chunk := int64(text[0] - 63)
				text = text[1:]
				value |= chunk & 0x1f << shift
				shift += 5
				if chunk < 0x20 {
					break
				}
			}
			sums[i] += value>>1 ^ -(value & 1)
		}
		points = append(points, sums)
	}
	return points, len(points) > 0
}

// polylineReadings returns the positions that points are with so many decimals,
// nil if one is not on the Earth.
func polylineReadings(points [][2]int64, decimals int) []reading {
	positions, unit := make([]reading, len(points)), math.Pow10(decimals)
	for i, p := range points {
		positions[i] = reading{coordinate{float64(p[0]) / unit, decimals}, coordinate{float64(p[1]) / unit, decimals}, true}
		if !positions[i].inDegrees() {
			return nil
		}
	}
	return positions
}
