package activityschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// custom looks for positions in the free-form member of an activity that must
// not show them: any position if it is no_gps, one away from the cut track if
// it is blur_start.
func (l *linter) custom(d *Detail, t *track) {
	if d.Privacy != PrivacyNoGPS && d.Privacy != PrivacyBlurStart {
		return
	}
	s := &customSearch{l: l, privacy: d.Privacy, track: t, path: []string{"custom"}}
	s.object(func(member func(name string) bool) {
		for _, name := range slices.Sorted(maps.Keys(d.Custom)) {
			s.dec = json.NewDecoder(bytes.NewReader(d.Custom[name]))
			s.dec.UseNumber()
			member(name)
		}
	})
}

// mostCompared is how many findings there are before positions are no longer
// compared, each of which costs a look at the whole track, but only counted.
const mostCompared = 1000

// customSearch walks through JSON and reports positions.
type customSearch struct {
	l       *linter
	privacy Privacy
	track   *track
	dec     *json.Decoder
	path    []string
	sample  int // of the track, where it shows the last position compared
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
	pointer string
	numbers []coordinate
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
			axes = append(axes, axis{kind, beside, pointerTo(s.path), found.numbers})
		default:
			s.judge(kind, found)
		}
		return ok
	})
	for _, a := range axes {
		s.judgeAxis(a, axes)
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
	case len(n) == 2 || len(n) == 3:
		all = append(all, reading{lat: n[0], lon: n[1]})
	case len(n) == 4 && kind == nameBox, len(n) >= 4 && len(n)%2 == 0 && (kind == namePosition || kind == namePolyline):
		for i := 0; i < len(n); i += 2 {
			all = append(all, reading{lat: n[i], lon: n[i+1]})
		}
	}
	s.positions(likely(kind, all))
}

// judgeAxis reports latitudes or longitudes. Only with its other half can a
// latitude be compared with a track.
func (s *customSearch) judgeAxis(a axis, all []axis) {
	i := slices.IndexFunc(all, func(b axis) bool { return (a.kind == nameLat) != (b.kind == nameLat) && a.beside == b.beside })
	set := slices.ContainsFunc(a.numbers, func(n coordinate) bool { return n.value != 0 })
	if !set || i < 0 && (a.kind == nameLong || s.privacy == PrivacyBlurStart) {
		return
	}
	if s.privacy == PrivacyNoGPS {
		s.report(a.pointer)
		return
	}
	lats, lons := a.numbers, all[i].numbers
	if a.kind != nameLat {
		lats, lons = lons, lats
	}
	for k := range min(len(lats), len(lons)) {
		if s.beyond(reading{lats[k], lons[k], true}) {
			s.report(a.pointer)
			return
		}
	}
}

// text reports a string that holds a position.
func (s *customSearch) text(text string, kind nameKind) {
	if !strings.ContainsAny(text, "0123456789") && kind != nameCode && kind != namePolyline {
		return
	}
	lower := strings.ToLower(text)
	switch {
	case kind == nameCode && len(text) > 3:
		s.report(pointerTo(s.path))
	case kind == namePolyline && len(text) > 3 && !strings.Contains(text, " "):
		if positions, ok := polyline(text); ok {
			s.positions(positions)
		} else {
			s.report(pointerTo(s.path))
		}
	case unreadPosition(lower):
		s.report(pointerTo(s.path))
	default:
		s.positions(textPositions(lower, kind))
	}
}

// positions reports the value just read, which shows them.
func (s *customSearch) positions(all []reading) {
	if len(all) > 0 && s.privacy == PrivacyNoGPS || slices.ContainsFunc(all, s.beyond) {
		s.report(pointerTo(s.path))
	}
}

func (s *customSearch) report(pointer string) {
	if s.privacy == PrivacyNoGPS {
		s.l.add(CodePrivacyCustom, pointer, "seems to hold a position, which a no_gps activity does not show: remove it")
		return
	}
	s.l.add(CodePrivacyCustom, pointer, "seems to hold a position away from the cut track, which a blur_start activity does not show: remove it")
}

// beyond tells whether r is a position that the cut track does not show,
// whatever r means. A rounded position may lie beside the track by what the
// rounding moved it.
func (s *customSearch) beyond(r reading) bool {
	if s.privacy != PrivacyBlurStart {
		return false
	}
	if s.l.counts[CodePrivacyCustom] > mostCompared {
		return true
	}
	position := false
	for p, roundedM := range r.meanings {
		if i := s.track.passes(p, blurM+roundedM, s.sample); i >= 0 {
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
