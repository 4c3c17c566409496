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
	positionNames = strings.Fields(`latlng latlon latlong lnglat lonlat position positions gpsposition location
		locations coordinate coordinates coord coords gps geo point points waypoint waypoints trackpoints route track
		path linestring geometry home work center centre bbox bounds boundingbox`)
	givenAwayNames = strings.Fields(`geohash geohashes pluscode openlocationcode what3words iso6709 locationiso6709
		trackurl gpxurl gpxfile routeurl mapurl polyline summarypolyline serial serialnumber serialno imei macaddress
		bluetoothaddress deviceid unitid antid address street streetaddress housenumber postcode postalcode zip
		zipcode`)
	namePrefixes = strings.Fields(`start end begin finish first last home work my device sensor garmin photo map`)
)

// isNamed reports whether a name, with or without a prefix, is one of names.
func isNamed(name string, names []string) bool {
	return slices.Contains(names, name) || slices.ContainsFunc(namePrefixes, func(prefix string) bool {
		rest, found := strings.CutPrefix(name, prefix)
		return found && slices.Contains(names, rest)
	})
}

// A search examines the texts and custom of an activity whose privacy hides positions.
type search struct {
	l     *linter
	texts int // bytes of texts examined
}

// mostTexts is the limit for malicious documents: beyond it no more text is examined.
const mostTexts = 1 << 20

func (l *linter) custom(d *Detail) {
	if d.Privacy != PrivacyNoGPS && d.Privacy != PrivacyBlurStart {
		return
	}
	s := &search{l: l}
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
			a, decimalsA, okA := number(value)
			b, decimalsB, okB := number(object[lon])
			if p := (position{a, b}); okA && okB && p.onEarth() && p != (position{}) {
				code := CodePrivacyCustomName
				if max(decimalsA, decimalsB) >= coarse {
					code = CodePrivacyCustom
				}
				s.l.add(code, below, "a latitude, with the longitude in %s: leave both out", quote(lon))
			}
		}
		s.value(below, plainName(name), value)
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

// Decimals of degrees: two are about a kilometre, four about ten metres.
const coarse, exact = 2, 4

// value examines the value of a member, of which name is the plain name.
func (s *search) value(at, name string, value any) {
	givenAway := func(empty bool) bool {
		is := !empty && isNamed(name, givenAwayNames)
		if is {
			s.l.add(CodePrivacyCustomName, at, "the name is that of a place, an address, a track or a serial number: "+
				"leave it out if it is one")
		}
		return is
	}
	switch v := value.(type) {
	case map[string]any:
		s.object(at, v)
	case string:
		if !givenAway(v == "") {
			s.text(at, v)
		}
	case json.Number:
		n, _, _ := number(v)
		givenAway(n == 0)
	case []any:
		if found, places := firstPair(v); isNamed(name, positionNames) && found != nil {
			switch {
			case places < coarse || math.Abs(found.lat-found.lon) < 1:
			case places >= exact:
				s.l.add(CodePrivacyCustom, at, "positions: leave them out")
			default:
				s.l.add(CodePrivacyCustomName, at, "the name is that of positions: leave them out if they are")
			}
			return
		}
		for i, item := range v {
			s.value(at+"/"+strconv.Itoa(i), name, item)
		}
	}
}

// number returns a number, which may be written as a text, and the count of its decimals.
func number(value any) (n float64, decimals int, ok bool) {
	text, _ := value.(string)
	if v, is := value.(json.Number); is {
		text = string(v)
	}
	_, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseFloat(text, 64)
	return n, len(fraction), err == nil
}

// firstPair returns the first pair on the Earth of an array of two to four numbers, or of an array of
// such arrays, and the most decimals of a number. Which of a pair is the latitude is unknown.
func firstPair(list []any) (found *position, most int) {
	var numbers []float64
	for _, item := range list {
		switch v := item.(type) {
		case []any:
			first, places := firstPair(v)
			if most = max(most, places); found == nil {
				found = first
			}
		case json.Number:
			n, decimals, _ := number(v)
			numbers, most = append(numbers, n), max(most, decimals)
		}
	}
	for i := 0; found == nil && i+1 < min(len(numbers), 4); i += 2 {
		if p := (position{numbers[i], numbers[i+1]}); p.onEarth() || p.exchanged().onEarth() {
			found = &p
		}
	}
	return found, most
}

// textPatterns match texts that look like a position, tried in order. The two groups of the first are
// numbers, of degrees unless a measure precedes them that comes in pairs of many decimals.
var textPatterns = []struct {
	name string
	re   *regexp.Regexp
}{
	{"two numbers that look like degrees", regexp.MustCompile(
		`([+-]?\d{1,3}[.,]\d{4,})\s?°?\s?[NSns]?(?:[\s,;/|&]{1,3}|[+-])([+-]?\d{1,3}[.,]\d{4,})`)},
	{"a latitude and a longitude", regexp.MustCompile(
		`(?i)\b(?:lat|latitud(?:e|ine)?|breitengrad)\b\W{0,5}\d{1,2}[.,]\d\d.{1,20}?` +
			`\b(?:lon|lng|long|longitud(?:e|ine)?|l(?:ä|ae)ngengrad)\b\W{0,5}\d{1,3}[.,]\d{2,}`)},
}

var measures = regexp.MustCompile(`(?i)(?:la[ck]tate?|mmol|hrv|rmssd|sdnn|dfa|lf/hf).{0,20}$`)

func (s *search) text(at, text string) {
	if s.texts += len(text); s.texts > mostTexts {
		return
	}
	for i, p := range textPatterns {
		for _, m := range p.re.FindAllStringSubmatchIndex(text, 20) {
			if i > 0 || degrees(text, m) {
				s.l.add(CodePrivacyText, at, "%s at character %d of the text: leave it out if it shows where the "+
					"activity was", p.name, utf8.RuneCountInString(text[:m[0]])+1)
				return
			}
		}
	}
}

// degrees reports whether two numbers of a text may be a position: they lie on the Earth, are no part
// of something longer, and differ by at least a degree, as two measurements of one quantity do not.
func degrees(text string, m []int) bool {
	digit := func(i int) bool { return i >= 0 && i < len(text) && strings.IndexByte("0123456789.", text[i]) >= 0 }
	if digit(m[0]-1) || digit(m[1]) && (text[m[1]] != '.' || digit(m[1]+1)) || measures.MatchString(text[:m[0]]) {
		return false
	}
	a, errA := strconv.ParseFloat(strings.Replace(text[m[2]:m[3]], ",", ".", 1), 64)
	b, errB := strconv.ParseFloat(strings.Replace(text[m[4]:m[5]], ",", ".", 1), 64)
	p := position{a, b}
	return errA == nil && errB == nil && math.Abs(a-b) >= 1 && (p.onEarth() || p.exchanged().onEarth())
}
