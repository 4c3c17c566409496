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
	nameEnd               // where something begins or ends, or when, or at what: start, from
	nameMeasure           // something else that is measured in pairs and has fractions
)

// nameCores are the words that tell a kind, first match first. A name is of
// the kind if it consists of a core and of nameWords, or measureWords, in any order.
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
	{nameCode, []string{"geohash", "geohashes", "pluscode", "openlocationcode", "what3words", "w3w"}},
	{namePlace, []string{
		"position", "pos", "location", "loc", "gps", "geo", "geometry", "geom", "geopoint", "waypoint", "trackpoint", "route", "linestring", "polygon",
		"home", "center", "centre", "place", "origin", "destination", "parking", "where", "ubicacion", "ubicación", "standort",
		"maison", "casa", "zuhause", "wohnung", "garage",
	}},
	{nameMeasure, []string{
		"balance", "weight", "accel", "acceleration", "acceldata", "accelerometer", "imu", "imudata", "imusamples", "gyro", "gyrodata", "gyroscope", "magnetometer", "gravity", "vector", "quaternion",
		"power", "watts", "speed", "velocity", "pace", "gap", "cadence", "stride", "torque", "smoothness", "stiffness", "oscillation", "gct", "cda", "crr",
		"temp", "temperature", "core", "humidity", "wind", "pressure", "barometer", "grade", "slope", "heading", "bearing", "azimuth",
		"hrv", "rmssd", "sdnn", "rr", "hr", "heartrate", "smo2", "thb", "hhb", "o2hb", "spo2", "vo2", "vo2max", "oxygen", "hemoglobin", "haemoglobin",
		"respiration", "breathing", "glucose", "lactate", "tss", "ctl", "atl", "tsb", "score", "ratio", "percent", "percentage", "pct",
		"battery", "voltage", "latency", "firmware", "software", "hardware", "version",
		"lr", "leftright", "flexion", "extension", "knee", "hip", "ankle", "angle", "lean", "dfa", "drift", "decoupling", "efficiency", "load", "steplength", "wkg",
		"dewpoint", "gust", "elevationgain", "elevationloss", "elevationrange", "ascent", "descent", "rate", "ci", "coefficient", "coefficients", "coeffs", "coef", "tyre", "tire",
		"kmh", "kph", "mph", "rpm", "bpm", "soc", "depth", "carbs", "hours", "threshold", "quartiles", "percentiles", "confidenceinterval", "minmax", "meansd",
	}},
}

// endNames are those of a nameEnd. A word beside them makes something else of them:
// start_time, end_reason.
var endNames = []string{
	"start", "end", "begin", "finish", "from", "to", "startpoint", "endpoint", "startpunkt", "zielpunkt", "depart", "départ", "arrivee", "arrivée",
}

// measureWords stand beside a nameMeasure: left_right_balance, weight_kg, core_temp, as
// do other measures: gct_balance. No word of a place does: max_speed_location is where
// the speed was measured. Nor do samples and data: those of a speed may have their
// positions with them.
var measureWords = []string{
	"left", "right", "avg", "average", "mean", "median", "stddev", "sd", "min", "max", "peak", "first", "last", "total", "enhanced", "absolute", "vertical", "raw",
	"range", "level", "rate", "conc", "zone", "zones", "phase", "from", "to", "x", "y", "s",
	"kg", "g", "ms", "w", "kmh", "mph", "bpm", "rpm", "spm", "hz", "mm", "cm", "m", "km", "kpa", "hpa", "psi", "pct", "percent", "deg", "degree", "degrees", "c", "f", "v",
	"rmssd", "sdnn", "torque", "effectiveness", "pedal", "ground", "contact", "stance", "time", "length", "leg", "spring", "form", "air", "wind", "core", "skin", "body",
	"bar", "kph", "wkg", "per", "normalized", "normalised", "running", "curve", "baseline", "normal", "respiratory", "training", "factor", "index", "gear", "a", "front", "rear",
	"muscle", "oxygen", "saturation", "saturated", "app", "device", "sensor", "gps", "lap", "segment", "activity", "session", "record", "my",
}

// measureUnits end a name that is a measure whatever stands before them, if
// something separates them from it: drift_pct, leftKg. The unit of a position is
// degrees. Those of one letter number points as well: point_c.
var measureUnits = []string{
	"kg", "wkg", "ms", "kw", "kmh", "kph", "mph", "bpm", "rpm", "spm", "hz", "mm", "cm", "km", "mi", "ft", "kpa", "hpa", "mbar", "psi", "pct", "percent", "kj", "kcal", "nm", "mv", "mmol",
}

// nameWords stand beside a core without changing what it means.
var nameWords = []string{
	"start", "end", "begin", "first", "last", "finish", "stop", "home", "work", "center", "centre", "min", "max", "from", "to", "origin",
	"destination", "dest", "position", "pos", "gps", "geo", "location", "loc", "points", "point", "waypoint", "track", "map", "place", "photo",
	"nw", "ne", "sw", "se", "north", "south", "east", "west", "degrees", "degree", "deg", "decimal", "e6", "e7", "semicircles", "wgs84", "raw",
	"lap", "segment", "activity", "session", "record", "my", "x", "y", "s",
}

// longestName is the longest that is classified, in bytes. Names of positions are short.
const longestName = 64

// wordsBy are nameWords by their first byte, and measuresBy what stands beside a nameMeasure.
var wordsBy, measuresBy = byFirst(nameWords), byFirst(slices.Concat(measureWords, coresOf(nameMeasure)))

func coresOf(kind nameKind) (words []string) {
	for _, core := range nameCores {
		if core.kind == kind {
			words = append(words, core.words...)
		}
	}
	return words
}

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
	plain, ok := plainName(name)
	if !ok {
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
			if beside, ok := words.beside(plain, word); ok {
				return core.kind, beside
			}
		}
	}
	switch {
	case slices.Contains(endNames, plain):
		return nameEnd, ""
	case slices.Contains(measureUnits, lastWord(name)):
		return nameMeasure, ""
	}
	return nameOther, ""
}

// plainName returns the letters and digits of a name in lower case; false means
// that it is longer than those that are classified.
func plainName(name string) (string, bool) {
	if len(name) > 4*longestName {
		return "", false
	}
	plain := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	return plain, len(plain) <= longestName
}

// lastWord returns the last word of a name, in lower case, if something separates it
// from another: pct of zones_pct and zonesPct, "" of pct.
func lastWord(name string) string {
	at := strings.LastIndexFunc(name, func(r rune) bool { return !unicode.IsLower(r) && !unicode.IsDigit(r) })
	if at <= 0 {
		return ""
	}
	return strings.ToLower(strings.TrimLeft(name[at:], "_-. "))
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

// beside returns what stands around a core in a name, if the core is there and
// all else is words: "start " of startlat.
func (p *parts) beside(plain, core string) (string, bool) {
	for from := 0; ; {
		at := strings.Index(plain[from:], core)
		if at < 0 {
			return "", false
		}
		at += from
		if end := at + len(core); p.before[at] && p.after[end] {
			return plain[:at] + " " + plain[end:], true
		}
		from = at + 1
	}
}
