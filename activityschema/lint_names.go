package activityschema

import (
	"strings"
	"unicode"
)

// A nameKind says what the name of a member of custom promises of its value.
type nameKind int

const (
	nameOther    nameKind = iota
	nameLat               // a latitude or several
	nameLon               // a longitude or several
	nameLong              // a longitude, if a latitude stands beside it
	namePosition          // a position or several: latlng, coordinates
	namePlace             // something that may be given by a position: home, location, route
	nameBox               // a bounding box
	namePolyline          // an encoded polyline
	nameCode              // a code for a position: geohash
)

// nameCores are the words that tell a kind, first match first. A name is of
// the kind if it consists of a core and of nameWords, in any order.
var nameCores = []struct {
	kind  nameKind
	words []string
}{
	{namePosition, []string{"latlng", "latlon", "latlong", "lnglat", "lonlat", "longlat", "coordinates", "coordinate", "coords", "coord"}},
	{nameLat, []string{"latitude", "lat"}},
	{nameLon, []string{"longitude", "lon", "lng"}},
	{nameLong, []string{"long"}},
	{nameBox, []string{"boundingbox", "bbox", "bounds", "extent", "envelope"}},
	{nameCode, []string{"geohash", "pluscode", "openlocationcode", "what3words", "w3w"}},
	{namePlace, []string{
		"position", "pos", "location", "loc", "gps", "geo", "geometry", "geom", "geopoint", "point", "pt", "waypoint", "trackpoint", "track", "route",
		"path", "trace", "line", "linestring", "polygon", "shape", "start", "end", "finish", "home", "work", "center", "centre", "place", "map",
		"origin", "destination", "parking", "where",
	}},
}

// nameWords stand beside a core without changing what it means.
var nameWords = []string{
	"start", "end", "begin", "first", "last", "finish", "stop", "home", "work", "center", "centre", "min", "max", "from", "to", "origin",
	"destination", "dest", "position", "pos", "gps", "geo", "location", "loc", "points", "point", "waypoint", "track", "map", "place", "photo",
	"nw", "ne", "sw", "se", "north", "south", "east", "west", "degrees", "degree", "deg", "decimal", "e6", "e7", "semicircles", "wgs84", "raw",
	"lap", "segment", "activity", "session", "record", "my", "x", "y", "s",
}

// longestName is the longest that is classified. Words can be taken apart in
// more than one way, in more than can be tried for a name of a thousand.
const longestName = 64

// kindOf classifies a member name regardless of its case and of what separates
// its words: start_lat, startLat, START-LAT. What stands beside the core is
// returned, too, so that startLat finds startLng.
func kindOf(name string) (kind nameKind, beside string) {
	plain := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	if len(plain) > longestName {
		return nameOther, ""
	}
	if strings.Contains(plain, "polyline") {
		return namePolyline, ""
	}
	for _, core := range nameCores {
		for _, word := range core.words {
			for from := 0; ; {
				at := strings.Index(plain[from:], word)
				if at < 0 {
					break
				}
				before, after := plain[:from+at], plain[from+at+len(word):]
				if isWords(before) && isWords(after) {
					return core.kind, before + " " + after
				}
				from += at + 1
			}
		}
	}
	return nameOther, ""
}

// isWords tells whether s is made of nameWords and of numbers.
func isWords(s string) bool {
	s = strings.TrimLeft(s, "0123456789")
	if s == "" {
		return true
	}
	for _, word := range nameWords {
		if rest, ok := strings.CutPrefix(s, word); ok && isWords(rest) {
			return true
		}
	}
	return false
}
