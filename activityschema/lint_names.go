package activityschema

import (
	"slices"
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
	nameLink              // where the track is: track_url
	nameMeasure           // something else that is measured in pairs and has fractions
)

// nameCores are the words that tell a kind, first match first. A name is of
// the kind if it consists of a core and of nameWords, in any order.
var nameCores = []struct {
	kind  nameKind
	words []string
}{
	{nameLink, []string{"trackurl", "gpxurl", "gpxfile", "trackfile", "routeurl", "mapurl"}},
	{namePosition, []string{
		"latlng", "latlon", "latlong", "lnglat", "lonlat", "longlat", "coordinates", "coordinate", "coords", "coord",
		"koordinaten", "koordinate", "coordonnees", "coordonnées", "coordenadas", "coordinata",
	}},
	{nameLat, []string{"latitude", "latitud", "latitudine", "breitengrad", "breite", "lat"}},
	{nameLon, []string{"longitude", "longitud", "longitudine", "laengengrad", "längengrad", "lon", "lng"}},
	{nameLong, []string{"long", "laenge", "länge"}},
	{nameBox, []string{"boundingbox", "bbox", "bounds", "extent", "envelope"}},
	{nameCode, []string{"geohash", "pluscode", "openlocationcode", "what3words", "w3w"}},
	{namePlace, []string{
		"position", "pos", "location", "loc", "gps", "geo", "geometry", "geom", "geopoint", "waypoint", "trackpoint", "route", "linestring", "polygon",
		"home", "center", "centre", "place", "origin", "destination", "parking", "where", "ubicacion", "ubicación", "standort",
	}},
	{nameMeasure, []string{
		"balance", "weight", "accel", "acceleration", "gyro", "magnetometer", "power", "watts", "speed", "pace", "temp", "temperature", "hrv", "rmssd",
		"sdnn", "firmware", "version", "cadence", "ratio", "battery", "lactate", "stride",
	}},
}

// measureWords stand beside a nameMeasure: left_right_balance, weight_kg.
var measureWords = []string{"left", "right", "avg", "average", "mean", "kg", "g", "ms", "w", "kmh", "bpm", "pct", "percent", "rmssd", "sdnn", "c", "torque", "ground", "contact", "time"}

// nameWords stand beside a core without changing what it means.
var nameWords = []string{
	"start", "end", "begin", "first", "last", "finish", "stop", "home", "work", "center", "centre", "min", "max", "from", "to", "origin",
	"destination", "dest", "position", "pos", "gps", "geo", "location", "loc", "points", "point", "waypoint", "track", "map", "place", "photo",
	"nw", "ne", "sw", "se", "north", "south", "east", "west", "degrees", "degree", "deg", "decimal", "e6", "e7", "semicircles", "wgs84", "raw",
	"lap", "segment", "activity", "session", "record", "my", "x", "y", "s",
}

// longestName is the longest that is classified, in bytes. Names of positions are short.
const longestName = 64

// wordsBy are nameWords by their first byte, as measureWords after them.
var wordsBy, measuresBy = byFirst(nameWords), byFirst(append(slices.Clone(nameWords), measureWords...))

func byFirst(words []string) (by [256][]string) {
	for _, w := range words {
		by[w[0]] = append(by[w[0]], w)
	}
	return by
}

// kindOf classifies a member name regardless of its case and of what separates
// its words: start_lat, startLat, START-LAT. What stands beside the core is
// returned, too, so that startLat finds startLng.
func kindOf(name string) (kind nameKind, beside string) {
	if len(name) > 4*longestName {
		return nameOther, ""
	}
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
	parts, measures := partsOf(plain, &wordsBy), partsOf(plain, &measuresBy)
	for _, core := range nameCores {
		words := &parts
		if core.kind == nameMeasure {
			words = &measures
		}
		for _, word := range core.words {
			for from := 0; ; {
				at := strings.Index(plain[from:], word)
				if at < 0 {
					break
				}
				at += from
				if end := at + len(word); words.before[at] && words.after[end] {
					return core.kind, plain[:at] + " " + plain[end:]
				}
				from = at + 1
			}
		}
	}
	return nameOther, ""
}

// parts tell of each place in a name whether what is before it, and after it, is
// made of words and of digits. Words can be taken apart in more than one way, and
// a name of sixty bytes in more than can be tried: each place is looked at once.
type parts struct{ before, after [longestName + 1]bool }

func partsOf(s string, words *[256][]string) (p parts) {
	p.before[0], p.after[len(s)] = true, true
	for i := range len(s) {
		if !p.before[i] {
			continue
		}
		p.before[i+1] = p.before[i+1] || isDigit(s[i])
		for _, w := range words[s[i]] {
			if strings.HasPrefix(s[i:], w) {
				p.before[i+len(w)] = true
			}
		}
	}
	for i := len(s) - 1; i >= 0; i-- {
		p.after[i] = isDigit(s[i]) && p.after[i+1]
		for _, w := range words[s[i]] {
			p.after[i] = p.after[i] || strings.HasPrefix(s[i:], w) && p.after[i+len(w)]
		}
	}
	return p
}
