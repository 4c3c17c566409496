package activityschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
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
	s := &customSearch{l: l, privacy: d.Privacy, track: t, left: mostCompared, longestM: longestWay(d)}
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
	around  *endsOfTrack
	// longestM is how long a way the rows of a list show at most.
	longestM float64
	// inText is set in the JSON that a text of the JSON is.
	inText bool
	// drawing is that of the list around the value, if any.
	drawing *drawing
}

// An axis is a member that holds latitudes or longitudes.
type axis struct {
	kind   nameKind
	beside string
	name   string
	list
}

// What the numbers of an axis have whose name is vague: so many decimals, or the size of
// those in millionths of degrees.
const (
	leastVague   = 3
	leastInteger = 1_000_000
)

func (n coordinate) fine() bool {
	return n.decimals >= leastVague || math.Abs(n.value) >= leastInteger
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
	var words []wordAxis
	var inner []innerAxis
	each(func(name string) bool {
		s.path = append(s.path, name)
		defer func() { s.path = s.path[:len(s.path)-1] }()
		s.text(name, nameOther)
		kind, beside := kindOf(name)
		found, ok := s.value(kind)
		switch kind {
		case nameLat, nameLon, nameLong:
			axes = append(axes, axis{kind, beside, name, found})
		default:
			if a, ok := innerAxisOf(name, found.numbers); ok {
				inner = append(inner, a)
			}
			if a, isWord := wordAxisOf(name, found); isWord && kind == nameOther {
				a.name, a.list = name, found
				words = append(words, a)
				break
			}
			before := s.l.counts[CodePrivacyCustom]
			if s.judge(kind, &found); kind == nameOther && s.l.counts[CodePrivacyCustom] == before {
				s.memberRow(name, &found)
			}
		}
		return ok
	})
	s.judgeInner(inner)
	axes = append(axes, pairWordAxes(words, func(a *axis) {
		s.path = append(s.path, a.name)
		s.judge(nameOther, &a.list)
		s.path = s.path[:len(s.path)-1]
	})...)
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

// value reads the next value, which stands under a name of the kind, and
// returns what it holds as a list: of one number if it is a number or a text that
// is one. False means that there is nothing more to read.
func (s *customSearch) value(kind nameKind) (found list, ok bool) {
	token, err := s.dec.Token()
	if err != nil || len(s.path) > MaxDepth {
		return found, false
	}
	switch v := token.(type) {
	case json.Number:
		found.number(v.String())
	case string:
		if !found.number(halfNumber(v, kind)) {
			found.others = true
			s.text(v, kind)
		}
	case bool:
		found.others = true
	case json.Delim:
		ok = true
		if v == '{' {
			found.others = true
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

// array reads the items of an array.
func (s *customSearch) array(kind nameKind) (found list, ok bool) {
	around := s.drawing
	s.drawing = &drawing{depth: len(s.path)}
	defer func() { s.drawing = around }()
	for i := 0; s.dec.More(); i++ {
		s.path = append(s.path, strconv.Itoa(i))
		s.drawing.item = i
		item, ok := s.value(kind)
		s.path = s.path[:len(s.path)-1]
		if !ok {
			return found, false
		}
		found.add(i, item)
	}
	s.judgeDrawing(s.drawing)
	s.judgeMemberRows(s.drawing)
	return found, true
}

// judgeAxis reports latitudes or longitudes. Only with its other half, nil if
// there is none, can a latitude be compared with a track.
func (s *customSearch) judgeAxis(a axis, other *axis) {
	set := slices.ContainsFunc(a.numbers, func(n coordinate) bool { return n.value != 0 })
	if !set || other == nil && (a.kind == nameLong || s.privacy == PrivacyBlurStart) || a.measures(other) {
		return
	}
	s.path = append(s.path, a.name)
	defer func() { s.path = s.path[:len(s.path)-1] }()
	if s.privacy == PrivacyNoGPS {
		s.reportNumbers(&a.list)
		return
	}
	lats, lons := a.numbers, other.numbers
	if a.kind != nameLat {
		lats, lons = lons, lats
	}
	all := make([]reading, min(len(lats), len(lons)))
	for k := range all {
		all[k] = reading{lats[k], lons[k], true}
	}
	if s.hides(all) {
		s.reportNumbers(&a.list)
	}
}

// measures tells whether a has a name that is as often that of something else, with other
// being its other half or nil, and none of its numbers is as fine as a position:
// lat alone may be a latency, breite and länge a width and a length.
func (a *axis) measures(other *axis) bool {
	name, _ := plainName(a.name)
	switch name = strings.TrimRight(name, "s0123456789"); name {
	case "breite", "länge", "laenge":
	case "lat":
		if other != nil {
			return false
		}
	default:
		return false
	}
	return !a.fine() && (other == nil || !other.fine())
}

// positions reports the value just read, which shows them.
func (s *customSearch) positions(all []reading) {
	if s.hides(all) {
		s.report()
	}
}

// report notes a finding at the value just read, or at a member or an item of it. It
// makes no pointer for those that are only counted: names may be long, and many.
func (s *customSearch) report(below ...string) {
	if !s.l.room(CodePrivacyCustom) {
		return
	}
	message := "seems to hold a position, which a no_gps activity does not show: remove it"
	if s.privacy != PrivacyNoGPS {
		message = "seems to hold a position away from the cut track, or one where it began or ended uncut, which a blur_start activity does not show: remove it"
	}
	pointer := pointerTo(slices.Concat(s.path, below))
	s.l.findings = append(s.l.findings, Finding{pointer, CodePrivacyCustom, severityOf(CodePrivacyCustom), message})
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
