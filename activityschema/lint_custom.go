package activityschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// custom looks for positions in the free-form member, and in the texts, of an activity that must
// not show them: any position if it is no_gps, one away from the cut track if
// it is blur_start.
func (l *linter) custom(d *Detail, t *track) {
	if d.Privacy != PrivacyNoGPS && d.Privacy != PrivacyBlurStart {
		return
	}
	s := &customSearch{l: l, privacy: d.Privacy, track: t, left: mostCompared}
	for _, t := range [...]struct {
		name string
		text *string
	}{{"title", &d.Title}, {"description", d.Description}, {"gear", d.Gear}, {"device", d.Device}, {"source_file", d.SourceFile}} {
		if t.text != nil {
			s.path = []string{t.name}
			s.text(*t.text, nameOther)
		}
	}
	s.path = []string{"custom"}
	s.object(func(member func(name string) bool) {
		for _, name := range slices.Sorted(maps.Keys(d.Custom)) {
			s.dec = json.NewDecoder(bytes.NewReader(d.Custom[name]))
			s.dec.UseNumber()
			member(name)
		}
	})
}

// mostCompared is how many samples of the track are looked at for positions of
// custom before those are reported as they are: a small document may hold more
// positions, and a longer track, than can be compared.
const mostCompared = 10_000_000

// customSearch walks through JSON and reports positions.
type customSearch struct {
	l       *linter
	privacy Privacy
	track   *track
	dec     *json.Decoder
	path    []string
	sample  int // of the track, where it shows the last position compared
	left    int // of mostCompared
	grid    trackGrid
}

// contents are the numbers of a value: those of a number, of a text that is a
// number, or of an array of numbers; and the pairs of an array of pairs.
type contents struct {
	numbers []coordinate
	pairs   []reading
}

// An axis is a member that holds latitudes or longitudes.
type axis struct {
	kind    nameKind
	beside  string
	name    string
	numbers []coordinate
}

// half is which of the two a member is, and what it is the half of.
type half struct {
	lat    bool
	beside string
}

// object looks at the members that each hands to member, by name, while dec
// stands before the value. Latitudes and longitudes are looked at together.
func (s *customSearch) object(each func(member func(name string) bool)) {
	var axes []axis
	each(func(name string) bool {
		s.path = append(s.path, name)
		defer func() { s.path = s.path[:len(s.path)-1] }()
		s.text(name, nameOther)
		kind, beside := kindOf(name)
		found, ok := s.value(kind)
		switch kind {
		case nameLat, nameLon, nameLong:
			axes = append(axes, axis{kind, beside, name, found.numbers})
		default:
			s.judge(kind, found)
		}
		return ok
	})
	if len(axes) == 0 {
		return
	}
	halves := make(map[half]*axis, len(axes))
	for i := range axes {
		h := half{axes[i].kind == nameLat, axes[i].beside}
		if halves[h] == nil {
			halves[h] = &axes[i]
		}
	}
	for _, a := range axes {
		s.judgeAxis(a, halves[half{a.kind != nameLat, a.beside}])
	}
}

// value reads the next value, which stands under a name of the kind; false
// means that there is nothing more to read.
func (s *customSearch) value(kind nameKind) (found contents, ok bool) {
	token, err := s.dec.Token()
	if err != nil || len(s.path) > MaxDepth {
		return found, false
	}
	switch v := token.(type) {
	case json.Number:
		if n, ok := coordinateOf(v.String()); ok {
			found.numbers = []coordinate{n}
		}
	case string:
		if n, ok := coordinateOf(v); ok {
			found.numbers = []coordinate{n}
		} else {
			s.text(v, kind)
		}
	case json.Delim:
		ok = true
		if v == '{' {
			s.object(func(member func(name string) bool) {
				for ok && s.dec.More() {
					name, err := s.dec.Token()
					text, _ := name.(string)
					ok = err == nil && member(text)
				}
			})
		} else {
			found, ok = s.array(kind)
		}
		if ok {
			_, err = s.dec.Token() // the closing bracket
		}
		return found, ok && err == nil
	}
	return found, true
}

// array collects the numbers and pairs of an array. An item that is neither
// spoils neither: [47.1, 8.2, null] still shows a position.
func (s *customSearch) array(kind nameKind) (found contents, ok bool) {
	for i := 0; s.dec.More(); i++ {
		s.path = append(s.path, strconv.Itoa(i))
		item, ok := s.value(kind)
		s.path = s.path[:len(s.path)-1]
		if !ok {
			return found, false
		}
		switch n := len(item.numbers); {
		case n == 1 && len(item.pairs) == 0:
			found.numbers = append(found.numbers, item.numbers[0])
		case n == 2 || n == 3: // the third is the elevation
			found.pairs = append(found.pairs, reading{lat: item.numbers[0], lon: item.numbers[1]})
		}
		found.pairs = append(found.pairs, item.pairs...)
	}
	return found, true
}

// judge reports the value just read if it is a position.
func (s *customSearch) judge(kind nameKind, found contents) {
	all, n := found.pairs, found.numbers
	switch {
	case kind == nameMeasure:
		return
	case len(n) == 2 || len(n) == 3:
		all = append(all, reading{lat: n[0], lon: n[1]})
	case len(n) == 4 && kind == nameBox, len(n) >= 4 && len(n)%2 == 0 && (kind == namePosition || kind == namePolyline || kind == namePlace):
		for i := 0; i < len(n); i += 2 {
			all = append(all, reading{lat: n[i], lon: n[i+1]})
		}
	}
	s.positions(likely(kind, all))
}

// judgeAxis reports latitudes or longitudes. Only with its other half, nil if
// there is none, can a latitude be compared with a track.
func (s *customSearch) judgeAxis(a axis, other *axis) {
	set := slices.ContainsFunc(a.numbers, func(n coordinate) bool { return n.value != 0 })
	if !set || other == nil && (a.kind == nameLong || s.privacy == PrivacyBlurStart) {
		return
	}
	if s.privacy == PrivacyNoGPS {
		s.report(a.name)
		return
	}
	lats, lons := a.numbers, other.numbers
	if a.kind != nameLat {
		lats, lons = lons, lats
	}
	for k := range min(len(lats), len(lons)) {
		if s.beyond(reading{lats[k], lons[k], true}) {
			s.report(a.name)
			return
		}
	}
}

// text reports a string that holds a position.
func (s *customSearch) text(text string, kind nameKind) {
	if kind == nameLink && text != "" {
		s.report()
	}
	if !strings.ContainsAny(text, "0123456789") && kind != nameCode && kind != namePolyline {
		return
	}
	lower := strings.ReplaceAll(strings.ToLower(text), "º", "°")
	switch {
	case kind == nameCode && len(text) > 4 && !isWord(lower), plusCode.MatchString(lower):
		s.report()
	case kind == namePolyline && len(text) > 3 && !strings.Contains(text, " ") && !isWord(lower):
		if positions, ok := polyline(text); ok {
			s.positions(positions)
		} else {
			s.report()
		}
	case unreadPosition(lower):
		s.report()
	case kind != nameMeasure:
		s.positions(textPositions(lower, kind))
	}
}

// plusCode is an Open Location Code of 10 digits or more, in lower case.
var plusCode = regexp.MustCompile(`\b[2-9cfghjmpqrvwx]{8}\+[2-9cfghjmpqrvwx]{2,3}\b`)

// isWord tells whether text is a short word of letters, such as "none", rather than
// a code or a track.
func isWord(text string) bool {
	return len(text) < 10 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz-") == ""
}

// positions reports the value just read, which shows them.
func (s *customSearch) positions(all []reading) {
	if len(all) > 0 && s.privacy == PrivacyNoGPS || slices.ContainsFunc(all, s.beyond) {
		s.report()
	}
}

// report notes a finding at the value just read, or at a member of the object. It
// makes no pointer for those that are only counted: names may be long, and many.
func (s *customSearch) report(member ...string) {
	if !s.l.room(CodePrivacyCustom) {
		return
	}
	message := "seems to hold a position, which a no_gps activity does not show: remove it"
	if s.privacy != PrivacyNoGPS {
		message = "seems to hold a position away from the cut track, which a blur_start activity does not show: remove it"
	}
	pointer := pointerTo(slices.Concat(s.path, member))
	s.l.findings = append(s.l.findings, Finding{pointer, CodePrivacyCustom, severityOf(CodePrivacyCustom), message})
}

// beyond tells whether r is a position that the cut track does not show,
// whatever r means. A rounded position may lie beside the track by what the
// rounding moved it.
func (s *customSearch) beyond(r reading) bool {
	if s.privacy != PrivacyBlurStart {
		return false
	}
	if s.grid == nil {
		s.grid = s.track.grid()
	}
	position := false
	for p, roundedM := range r.meanings {
		if s.left <= 0 {
			return true
		}
		if s.grid.near(s.track, p, blurM+roundedM, &s.left) {
			return false
		}
		i := s.track.passes(p, blurM+roundedM, s.sample)
		if i >= s.sample {
			s.left -= i - s.sample
		} else {
			s.left -= s.track.last - s.track.first + 1
		}
		if i >= 0 {
			s.sample = i
			return false
		}
		position = true
	}
	return position
}

// pointerTo writes path as a JSON Pointer (RFC 6901).
func pointerTo(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(token))
	}
	return b.String()
}
