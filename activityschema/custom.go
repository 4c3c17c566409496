package activityschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names of members of custom that describe their value, in lower case and without separators. What namePrefix matches
// may precede them: startPosition, home_address.
const namePrefix = `^(?:start|end|begin|finish|first|last|home|work|my|device|sensor|garmin|photo|map)?`

var (
	positionName = regexp.MustCompile(namePrefix + `(?:lat(?:lng|lon|long)|lnglat|lonlat|gps|(?:gps)?positions?|` +
		`locations?|coord(?:inate)?s?|geo|(?:way)?points?|trackpoints|route|track|path|linestring|geometry|home|work|` +
		`cent(?:er|re)|bbox|bounds|boundingbox)$`)
	givenAwayName = regexp.MustCompile(namePrefix + `(?:geohash(?:es)?|pluscode|openlocationcode|what3words|` +
		`(?:location)?iso6709|(?:track|gpx|route|map)url|gpxfile|(?:summary)?polyline|serial(?:no|number)?|imei|` +
		`(?:mac|bluetooth|street)?address|(?:device|unit|ant)id|street|housenumber|post(?:al)?code|zip(?:code)?)$`)
	// In English, German, Spanish, French or Italian.
	latitudeName  = regexp.MustCompile(`^(.*)(?:latitud|lat|breitengrad)(.*)$`)
	longitudeName = regexp.MustCompile(`^(.*)(?:longitud|long|lon|lng|l(?:ä|ae)ngengrad)(.*)$`)

	separators     = regexp.MustCompile(`[^\pL\p{Nd}]+`)
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
)

// plainName returns the letters and digits of a name in lower case.
func plainName(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name[:min(len(name), 64)], ""))
}

const (
	coarse, exact = 2, 4    // decimals of degrees, about a kilometre and ten metres
	mostTexts     = 1 << 20 // bytes, for malicious documents: beyond them, not-linted
)

func (l *linter) custom(d *Detail) {
	if d.Privacy != PrivacyNoGPS && d.Privacy != PrivacyBlurStart {
		return
	}
	l.texts = 0
	l.text("/title", d.Title)
	l.text("/description", orEmpty(d.Description))
	l.text("/gear", orEmpty(d.Gear))
	l.text("/device", orEmpty(d.Device))
	l.text("/source_file", orEmpty(d.SourceFile))
	var custom map[string]any
	text, _ := json.Marshal(d.Custom) // without invalid JSON, which no valid document contains
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // as written
	_ = numbers.Decode(&custom)
	l.object("/custom", custom)
}

func (l *linter) object(at string, object map[string]any) {
	names, longitudes := slices.Sorted(maps.Keys(object)), map[string]string{}
	for _, name := range names {
		if plain := plainName(name); longitudeName.MatchString(plain) {
			longitudes[longitudeName.ReplaceAllString(plain, "$1 $2")] = name
		}
	}
	for _, name := range names {
		value, below := object[name], at+"/"+pointerEscapes.Replace(name)
		if lon, ok := longitudes[latitudeName.ReplaceAllString(plainName(name), "$1 $2")]; ok {
			p, decimals := pair(value, object[lon])
			code := CodePrivacyCustomName
			if decimals >= coarse {
				code = CodePrivacyCustom
			}
			if p.onEarth() && p != (position{}) {
				l.add(code, below, "a latitude, with the longitude in %s: leave both out", quote(lon))
			}
		}
		l.value(below, plainName(name), value)
	}
}

// value examines the value of a member, of which name is the plain name.
func (l *linter) value(at, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		l.object(at, v)
	case []any:
		if positionName.MatchString(name) {
			switch places := mostPlaces(v); {
			case places >= exact:
				l.add(CodePrivacyCustom, at, "positions: leave them out")
				return
			case places >= coarse:
				l.add(CodePrivacyCustomName, at, "the name is that of positions: leave them out if they are")
				return
			}
			name = "" // the arrays below were examined
		}
		for i, item := range v {
			l.value(at+"/"+strconv.Itoa(i), name, item)
		}
	case string, json.Number:
		if text, _ := v.(string); v == "" || v == json.Number("0") || !givenAwayName.MatchString(name) {
			l.text(at, text)
			return
		}
		l.add(CodePrivacyCustomName, at,
			"the name is that of a place, an address, a track or a serial number: leave it out if it is one")
	}
}

// pair returns two numbers, which may be written as texts, and the most decimals of them. What is no number is NaN.
func pair(a, b any) (p position, decimals int) {
	for i, at := range []*float64{&p.lat, &p.lon} {
		text := strings.Replace(fmt.Sprint([]any{a, b}[i]), ",", ".", 1)
		_, fraction, _ := strings.Cut(text, ".")
		var err error
		if *at, err = strconv.ParseFloat(text, 64); err != nil {
			*at = math.NaN()
		}
		decimals = max(decimals, len(fraction))
	}
	return p, decimals
}

// pairs matches the first two or four entries of an array as fmt prints it.
var pairs = regexp.MustCompile(`\[([^][ ]+) ([^][ ]+)(?: ([^][ ]+) ([^][ ]+))?`)

// mostPlaces returns the most decimals of the likely positions in an array of numbers or of such arrays.
func mostPlaces(list []any) (most int) {
	for _, m := range pairs.FindAllStringSubmatch(fmt.Sprint(list), -1) {
		for i := 1; i < len(m); i += 2 {
			if p, decimals := pair(m[i], m[i+1]); p.likely() {
				most = max(most, decimals)
			}
		}
	}
	return most
}

// positionText matches texts that look like a position. The groups are two numbers, of degrees unless a measure
// precedes them that comes in pairs of many decimals.
var positionText = regexp.MustCompile(
	`(?i)([+-]?\d{1,3}[.,]\d{4,})\s?°?\s?[ns]?(?:[\s,;/|&]{1,3}|[+-])([+-]?\d{1,3}[.,]\d{4,})|` +
		`\b(?:lat|latitud(?:e|ine)?|breitengrad)\b\W{0,5}\d{1,2}[.,]\d\d.{1,20}?` +
		`\b(?:lon|lng|long|longitud(?:e|ine)?|l(?:ä|ae)ngengrad)\b\W{0,5}\d{1,3}[.,]\d{2,}`)

// What stands before or after two numbers that are no position, but a measurement or a part of something longer.
var (
	notAfter  = regexp.MustCompile(`(?i)(?:la[ck]tate?|mmol|hrv|rmssd|sdnn|dfa|lf/hf).{0,20}$|[\d.]$`)
	notBefore = regexp.MustCompile(`^(?:\d|\.[\d.])`)
)

func (l *linter) text(at, text string) {
	if left := mostTexts - l.texts; len(text) > left {
		text = text[:left]
		if l.counts[CodeNotLinted] == 0 {
			l.add(CodeNotLinted, "", "more than %d MiB of text: the rest is not checked for positions", mostTexts>>20)
		}
	}
	l.texts += len(text)
	for _, m := range positionText.FindAllStringSubmatchIndex(text, 20) {
		what := "a latitude and a longitude"
		if m[2] >= 0 {
			what = "two numbers that look like degrees"
			p, _ := pair(text[m[2]:m[3]], text[m[4]:m[5]])
			if !p.likely() || notAfter.MatchString(text[:m[0]]) || notBefore.MatchString(text[m[1]:]) {
				continue
			}
		}
		l.add(CodePrivacyText, at, "%s at character %d of the text: leave it out if it shows where the activity was",
			what, utf8.RuneCountInString(text[:m[0]])+1)
		return
	}
}
