package activityschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Names of members of custom that describe their value, in lower case and without separators.
// One of namePrefixes may precede them: startPosition, home_address.
var (
	positionNames = []string{
		"latlng", "latlon", "latlong", "lnglat", "lonlat", "position", "positions", "gpsposition", "location",
		"locations", "coordinate", "coordinates", "coord", "coords", "gps", "geo", "point", "points", "waypoint",
		"waypoints", "trackpoints", "route", "track", "path", "linestring", "geometry",
		"home", "work", "center", "centre", "bbox", "bounds", "boundingbox",
	}
	codeNames = []string{
		"geohash", "geohashes", "pluscode", "openlocationcode", "what3words", "w3w", "iso6709", "locationiso6709",
		"trackurl", "gpxurl", "gpxfile", "routeurl", "mapurl", "h3", "h3index", "s2cell", "tile", "maptile", "quadkey",
		"utm", "mgrs", "ecef", "osmid", "osmwayid", "wayid", "osmway", "osmnode",
	}
	polylineNames = []string{"polyline", "polylines", "summarypolyline", "encodedpolyline", "mappolyline"}
	ownerNames    = []string{
		"serial", "serialnumber", "serialno", "imei", "macaddress", "bluetoothaddress", "deviceid", "unitid", "antid",
		"address", "street", "streetaddress", "housenumber", "postcode", "postalcode", "zip", "zipcode",
	}
	namePrefixes = []string{
		"start", "end", "begin", "finish", "first", "last", "home", "work", "my",
		"device", "sensor", "garmin", "photo", "map",
	}
)

// customNames maps each name, with and without a prefix, to its kind.
var customNames = func() map[string]nameKind {
	kinds := map[string]nameKind{}
	for kind, names := range map[nameKind][]string{
		namePosition: positionNames, nameCode: codeNames, namePolyline: polylineNames, nameOwner: ownerNames,
	} {
		for _, name := range names {
			kinds[name] = kind
			for _, prefix := range namePrefixes {
				kinds[prefix+name] = kind
			}
		}
	}
	return kinds
}()

type nameKind int

const (
	nameOther    nameKind = iota
	namePosition          // a position or several, as numbers
	nameCode              // a code for a position, or a link to the track
	namePolyline          // positions as an encoded polyline
	nameOwner             // a serial number or an address
)

// A search examines the texts and custom of an activity whose privacy hides positions.
type search struct {
	l *linter
	t *track // the cut track of a blur_start activity, else nil

	texts   int // bytes of texts examined
	samples int // of the track compared with positions
}

// Limits for malicious documents: beyond them no more text is examined, and every position counts
// as not shown by the track.
const (
	mostTexts   = 1 << 20
	mostSamples = 20_000_000
)

func (l *linter) custom(d *Detail, t *track) {
	s := &search{l: l}
	switch d.Privacy {
	case PrivacyNoGPS:
	case PrivacyBlurStart:
		s.t = t
	default:
		return
	}
	s.text("/title", d.Title)
	s.text("/description", orEmpty(d.Description))
	s.text("/gear", orEmpty(d.Gear))
	s.text("/device", orEmpty(d.Device))
	s.text("/source_file", orEmpty(d.SourceFile))
	object := map[string]any{}
	for name, value := range d.Custom {
		object[name] = tree(value)
	}
	s.object("/custom", object)
}

// tree decodes a value of custom, with numbers as written. It returns nil for invalid JSON, which
// no valid document contains.
func tree(value jsontext.Value) (v any) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func (s *search) object(at string, object map[string]any) {
	plain := map[string]string{}
	for name := range object {
		plain[plainName(name)] = name
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value, below := object[name], at+"/"+pointerEscapes.Replace(name)
		if lon, ok := partner(plainName(name), plain); ok {
			a, okLat := number(value)
			b, okLon := number(object[lon])
			if p := (position{a, b}); okLat && okLon && p.onEarth() && p != (position{}) && !s.shown(p) {
				code := CodePrivacyCustomName
				if max(decimals(value), decimals(object[lon])) >= coarse {
					code = CodePrivacyCustom
				}
				s.l.add(code, below, "a latitude, with the longitude in %s: leave both out", quote(lon))
			}
		}
		s.value(below, customNames[plainName(name)], value)
	}
}

// partner returns the name of the longitude that belongs to a latitude, in English, German,
// Spanish, French or Italian.
func partner(plain string, names map[string]string) (string, bool) {
	for _, pair := range [...][2]string{
		{"latitud", "longitud"}, {"lat", "lon"}, {"lat", "lng"}, {"lat", "long"},
		{"breitengrad", "längengrad"}, {"breitengrad", "laengengrad"},
	} {
		if i := strings.LastIndex(plain, pair[0]); i >= 0 {
			if name, ok := names[plain[:i]+pair[1]+plain[i+len(pair[0]):]]; ok {
				return name, true
			}
		}
	}
	return "", false
}

// plainName returns the letters and digits of a name in lower case.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name[:min(len(name), 64)])
}

func (s *search) value(at string, kind nameKind, value any) {
	switch v := value.(type) {
	case map[string]any:
		s.object(at, v)
	case string:
		switch {
		case v == "":
		case kind == nameOwner:
			s.l.add(CodePrivacyCustomName, at, namedOwner)
		case kind == nameCode:
			s.l.add(CodePrivacyCustomName, at, namedCode)
		case kind == namePolyline:
			found := polyline(v)
			outside := func(p position) bool { return !p.onEarth() }
			if len(found) > 1 && !slices.ContainsFunc(found, outside) && !s.shown(found...) {
				s.l.add(CodePrivacyCustom, at, "positions: leave them out")
			}
		default:
			s.text(at, v)
		}
	case json.Number:
		switch n, _ := number(v); {
		case n == 0:
		case kind == nameOwner:
			s.l.add(CodePrivacyCustomName, at, namedOwner)
		case kind == nameCode:
			s.l.add(CodePrivacyCustomName, at, namedCode)
		}
	case []any:
		found, places := positions(v)
		if kind == namePosition && len(found) > 0 {
			switch {
			case places < coarse || math.Abs(found[0].lat-found[0].lon) < 1 || s.shown(found...):
			case places >= exact:
				s.l.add(CodePrivacyCustom, at, "positions: leave them out")
			default:
				s.l.add(CodePrivacyCustomName, at, "the name is that of positions: leave them out if they are")
			}
			return
		}
		for i, item := range v {
			s.value(at+"/"+strconv.Itoa(i), kind, item)
		}
	}
}

// What is said of a value under a name of codeNames or ownerNames.
const (
	namedCode  = "the name is that of a position, or of where one is: leave it out if it is one"
	namedOwner = "the name is that of a serial number or an address: leave it out if it is one"
)

// Decimals of degrees: two are about a kilometre, four about ten metres.
const (
	coarse = 2
	exact  = 4
)

func number(value any) (float64, bool) {
	n, err := strconv.ParseFloat(digits(value), 64)
	return n, err == nil
}

func digits(value any) string {
	text, _ := value.(string)
	if v, ok := value.(json.Number); ok {
		text = string(v)
	}
	return text
}

// decimals returns the number of digits after the decimal point.
func decimals(value any) int {
	_, fraction, _ := strings.Cut(digits(value), ".")
	return len(fraction)
}

// positions returns the pairs in an array of two to four numbers, or in an array of such arrays,
// and the most decimals of a number. Which of a pair is the latitude is unknown.
func positions(list []any) (found []position, most int) {
	var numbers []float64
	for _, item := range list {
		switch v := item.(type) {
		case []any:
			more, places := positions(v)
			found, most = append(found, more...), max(most, places)
		case json.Number:
			n, _ := number(v)
			numbers = append(numbers, n)
			most = max(most, decimals(v))
		}
	}
	if len(found) == 0 {
		for i := 0; i+1 < min(len(numbers), 4); i += 2 {
			if p := (position{numbers[i], numbers[i+1]}); p.onEarth() || p.exchanged().onEarth() {
				found = append(found, p)
			}
		}
	}
	return found, most
}

func (p position) exchanged() position { return position{p.lon, p.lat} }

// polyline decodes an encoded polyline with five decimals.
func polyline(text string) (found []position) {
	var at [2]int
	coordinate, bits, shift := 0, 0, 0
	for _, c := range []byte(text) {
		bits |= (int(c) - 63) & 0x1F << shift
		if shift += 5; c-63 >= 0x20 && shift < 60 {
			continue
		}
		at[coordinate] += bits>>1 ^ -(bits & 1)
		if coordinate == 1 {
			found = append(found, position{float64(at[0]) / 1e5, float64(at[1]) / 1e5})
		}
		coordinate, bits, shift = 1-coordinate, 0, 0
	}
	return found
}

// shown reports whether the cut track shows the positions anyway. Of many it checks about a
// hundred, including the first and the last. Either number of a position may be the latitude.
func (s *search) shown(all ...position) bool {
	if s.t == nil || s.t.first < 0 || len(all) == 0 {
		return false
	}
	for i, p := range all {
		if i%((len(all)-1)/100+1) != 0 && i != len(all)-1 {
			continue
		}
		s.samples += 2 * (s.t.last - s.t.first + 1)
		if s.samples > mostSamples || !s.t.passes(p) && !s.t.passes(p.exchanged()) {
			return false
		}
	}
	return true
}

// degreesForm matches the degrees of a position in a text.
const degreesForm = `([+-]?\d{1,3}[.,]\d{4,})`

// textPatterns matches texts that look like a position, tried in order. The two groups of the
// first are numbers.
var textPatterns = []struct {
	name  string
	needs string // the text must contain one of these characters
	re    *regexp.Regexp
}{
	{"two numbers that look like degrees", ".,", regexp.MustCompile(
		degreesForm + `\s?°?\s?[NSns]?(?:[\s,;/|&]{1,3}|[+-])` + degreesForm)},
	{"a latitude and a longitude", ".,", regexp.MustCompile(
		`(?i)\b(?:(?:lat|latitud(?:e|ine)?|breitengrad)\b\W{0,5}\d{1,2}[.,]\d\d|` +
			`breite\b\W{0,5}\d{1,2}[.,]\d{3}).{1,20}?` +
			`\b(?:lon|lng|long|longitud(?:e|ine)?|l(?:ä|ae)ngengrad|l(?:ä|ae)nge)\b\W{0,5}\d{1,3}[.,]\d{2,}`)},
	{"degrees and minutes", "°ºd", regexp.MustCompile(
		`(?i)\b[NSEWO]\s?\d{1,3}\s?(?:°|º|deg)\s?\d{1,2}\b|` +
			`\d{1,3}\s?(?:°|º|deg)\s?\d{1,2}(?:[.,]\d+)?\s?['′’]?` +
			`(?:\s?\d{1,2}(?:[.,]\d+)?\s?(?:["″”]|'')?)?\s?[NSEWO]\b`)},
	{"a plus code", "+", regexp.MustCompile(
		`\b[2-9CFGHJMPQRVWX]{2,6}[CFGHJMPQRVWX][2-9CFGHJMPQRVWX]{0,5}\+[2-9CFGHJMPQRVWX]{2,3}\b`)},
	{"a what3words address", "/", regexp.MustCompile(`///\pL{2,}\.\pL{2,}\.\pL{2,}`)},
	{"a geo URI", ":", regexp.MustCompile(`(?i)\bgeo:[+-]?\d`)},
	{"an id of OpenStreetMap", "wnrWNR", regexp.MustCompile(
		`(?i)\b(?:(?:way|relation)(?:[ _-]?id)?[ /:=#]{1,3}|node(?:[ _-]?id)?[/:=#]{1,2}\s?)\d{6,}\b`)},
	{"an H3 cell", "8", regexp.MustCompile(`\b8[0-9a-f]{14}\b`)},
	{"a tile of a map", "/", regexp.MustCompile(`\b1\d/\d{3,6}/\d{3,6}\b`)},
	{"UTM coordinates", "CDEFGHJKLMNPQRSTUVWX", regexp.MustCompile(
		`\b(?:[1-9]|[1-5]\d|60)\s?[C-HJ-NP-X](?:\s[1-9]\d{5}(?:\.\d+)?\s?(?:m?E)?[\s,]+\d{6,7}\b|` +
			`\s?[A-HJ-NP-Z]{2}\s?\d{4,5}\s?\d{4,5}\b)`)},
	{"geocentric coordinates", "0123456789", regexp.MustCompile(
		`(?:^|[^\d.,])-?\d{6,7}(?:\.\d+)?[\s,;]+-?\d{5,7}(?:\.\d+)?[\s,;]+-?\d{6,7}(?:\.\d+)?(?:[^\d]|$)`)},
	{"the path of a recording", "/\\", regexp.MustCompile(
		`(?i)(?:\bhttps?://|\bfile:|/home/|/users/|\b[a-z]:\\)\S*\.(?:gpx|tcx|fit)\b`)},
	{"a street with a number", "0123456789", regexp.MustCompile(
		`\b\pL{3,}(?:strasse|straße|str\.|gasse|allee)\s\d{1,3}[a-z]?\b|` +
			`\b\d{1,4}[a-z]?,?\s(?:\p{Lu}\pL+\s){1,2}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Drive|Crescent)\b|` +
			`\b\d{1,3},?\s(?:rue|avenue|boulevard|chemin)\s(?:de|du|des|la|le|d'|\p{Lu})`)},
	{"WKT", "(", regexp.MustCompile(`(?i)\b(?:POINT|LINESTRING|POLYGON)\s*(?:ZM?|M)?\s*\(+\s*[+-]?\d`)},
	{"GPX markup", "<", regexp.MustCompile(`(?i)<(?:trkpt|wpt|rtept)\b`)},
	{"the address of a device", ":-", regexp.MustCompile(`(?i)\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b`)},
	{"a serial number", "/nN#", regexp.MustCompile(
		`(?i)(?:\bs/n|\bserial(?:\s?(?:number|no\.?))?|\bseriennummer)\s?[:#=]?\s?[a-z0-9-]*\d{4,}`)},
	{"the address of a map", ".", regexp.MustCompile(
		`(?i)\b(?:maps\.google\.[a-z]|google\.[a-z.]{2,6}/maps|goo\.gl/maps|maps\.app\.goo\.gl|maps\.apple\.com|` +
			`bing\.com/maps|openstreetmap\.org/|osm\.org/|waze\.com/|mapy\.c[zo]|` +
			`(?:what3words\.com|w3w\.co)/(?:[a-z]{2}/)?\pL+\.\pL+\.\pL+|plus\.codes/|map\.geo\.admin\.ch|` +
			`opentopomap\.org|komoot\.[a-z]{2,3}/tour|strava\.com/(?:activities|routes|segments)/|` +
			`strava\.app\.link/|connect\.garmin\.com/|gpx\.studio|ridewithgps\.com/|alltrails\.com/)`)},
}

func (s *search) text(at, text string) {
	if s.texts += len(text); s.texts > mostTexts {
		return
	}
	for i, p := range textPatterns {
		if !strings.ContainsAny(text, p.needs) {
			continue
		}
		for _, m := range p.re.FindAllStringSubmatchIndex(text, 20) {
			if i == 0 && !s.degrees(text, m) {
				continue
			}
			s.l.add(CodePrivacyText, at,
				"%s at character %d of the text: leave it out if it shows where the activity was",
				p.name, utf8.RuneCountInString(text[:m[0]])+1)
			return
		}
	}
}

// measures are quantities that come as pairs of numbers with many decimals, such as lactate and
// heart rate variability. Their names occur at most measureBytes before the numbers.
var measures = []string{"lactate", "laktat", "mmol", "hrv", "rmssd", "sdnn", "lnrmssd", "dfa", "lf/hf"}

const measureBytes = 24

// degrees reports whether two numbers of a text may be a position that the track does not show:
// they lie on the Earth and differ by at least a degree, because two measurements of one quantity
// are closer.
func (s *search) degrees(text string, m []int) bool {
	digit := func(i int) bool { return i >= 0 && i < len(text) && strings.IndexByte("0123456789.", text[i]) >= 0 }
	if digit(m[0]-1) || digit(m[1]) && (text[m[1]] != '.' || digit(m[1]+1)) {
		return false // a part of something longer
	}
	a, errA := strconv.ParseFloat(strings.Replace(text[m[2]:m[3]], ",", ".", 1), 64)
	b, errB := strconv.ParseFloat(strings.Replace(text[m[4]:m[5]], ",", ".", 1), 64)
	p := position{a, b}
	before := strings.ToLower(text[max(0, m[0]-measureBytes):m[0]])
	if slices.ContainsFunc(measures, func(name string) bool { return strings.Contains(before, name) }) {
		return false
	}
	if errA != nil || errB != nil || math.Abs(a-b) < 1 {
		return false
	}
	return (p.onEarth() || p.exchanged().onEarth()) && !s.shown(p)
}
