package activityschema

import (
	"regexp"
	"strings"
)

// What stands before a position in the address of a map, and the two numbers. Two
// decimals are enough after them.
var (
	mapLink  = regexp.MustCompile(`(?:/@|[?&](?:q|ll|sll|cbll|center|query|saddr|daddr|origin|destination|viewpoint|cp)=(?:loc:)?|#map=\d+(?:\.\d+)?/)([+-]?\d{1,3}\.\d{2,})(?:[,/~]|, ?|\+)([+-]?\d{1,3}\.\d{2,})`)
	mapPlace = regexp.MustCompile(`!3d([+-]?\d{1,3}\.\d{2,})!4d([+-]?\d{1,3}\.\d{2,})`)
	// x and y are those of a chart as well, unless they are as fine as a position.
	mapQuery = regexp.MustCompile(`[?&](?:y=([+-]?\d{1,3}\.\d{4,})&(?:[^\s&]*&){0,3}x=([+-]?\d{1,3}\.\d{4,})|x=([+-]?\d{1,3}\.\d{4,})&(?:[^\s&]*&){0,3}y=([+-]?\d{1,3}\.\d{4,}))`)
)

// linked returns the positions in the addresses of maps that text, in lower case, holds.
func linked(text string) (all []reading) {
	var found [][]string
	if strings.ContainsAny(text, "=@") {
		found = append(mapLink.FindAllStringSubmatch(text, -1), mapQuery.FindAllStringSubmatch(text, -1)...)
	}
	if strings.Contains(text, "!3d") {
		found = append(found, mapPlace.FindAllStringSubmatch(text, -1)...)
	}
	for _, m := range found {
		lat, lon := m[1], m[2]
		if lat == "" {
			lat, lon = m[4], m[3]
		}
		north, okLat := coordinateOf(lat)
		east, okLon := coordinateOf(lon)
		if r := (reading{lat: north, lon: east}); okLat && okLon && r.inDegrees() && !r.zero() {
			all = append(all, r)
		}
	}
	return all
}
