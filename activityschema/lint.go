package activityschema

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Limits of the findings about one document, so that a recording which is
// wrong at every sample can still be read about.
const (
	MaxFindings        = 100
	MaxFindingsPerCode = 10
)

// A Finding is something in a valid document that makes no sense, or that
// shows what the owner's choice of privacy says is not shown.
type Finding struct {
	// Pointer is the place in the document, an RFC 6901 JSON Pointer; empty
	// means the whole document. It repeats member names of custom as they are,
	// so quote it (%q) before it reaches a terminal.
	Pointer string `json:"pointer"`
	// Code is the kind of the finding, one of the Code constants.
	Code string `json:"code"`
	// Severity is that of the code.
	Severity Severity `json:"severity"`
	// Message says in plain words what is wrong. It is safe to print, and it
	// never repeats a position: findings end in logs that others read.
	Message string `json:"message"`
}

// Lint returns what makes no sense in doc although the format allows it, and
// what breaks the privacy of the activity; nil means nothing. What several
// documents say about one another is found by Library.
//
// The findings stand in the order of the format's tables, which is that of the
// types of this package, and are the same at every run. There are at most
// MaxFindingsPerCode of one code, the last of which then says how many there
// are more, and at most MaxFindings in all; errors are never cut for warnings.
//
// Lint is made to be silent on good recordings: pauses, samples without a
// position, activities indoors, laps that overlap by a second and values
// rounded by the writer are no findings. It only reads doc and may be called
// concurrently.
func Lint(doc *Document) []Finding { return new(linter).lint(doc) }

// LintAll is Lint without its limits, for programs that repair what it finds: there
// may be as many findings as the document has members and samples. Of half surrogate
// pairs, which no program can repair, it tells no more than Lint. In custom it points at the numbers of a
// position where Lint points at the list that they are in.
func LintAll(doc *Document) []Finding { return (&linter{all: true}).lint(doc) }

func (l *linter) lint(doc *Document) []Finding {
	if doc == nil {
		return nil
	}
	l.loneSurrogates(doc.LoneSurrogates)
	switch {
	case doc.Detail != nil:
		l.detail(doc.Detail)
		return l.result(reflect.TypeFor[Detail]())
	case doc.Index != nil:
		l.index(doc.Index)
		return l.result(reflect.TypeFor[Index]())
	}
	return nil
}

// detail looks at the members in the order of the format, so that the findings
// of each code come in that order.
func (l *linter) detail(d *Detail) {
	t := newTrack(&d.Timeseries)
	l.id(spot{}, d.ID)
	l.figures(spot{}, figuresOf(d))
	l.recordedTime(d)
	l.bbox(d, t)
	l.endpoint(endpoint{"/start_latlng", d.StartLatLng, t.first, t.beforeS}, t, d.Privacy)
	l.endpoint(endpoint{"/end_latlng", d.EndLatLng, t.last, t.afterS}, t, d.Privacy)
	l.laps(d)
	l.timeseries(&d.Timeseries)
	l.provenance(d)
	l.noGPS(d)
	l.halves(d, t)
	l.custom(d, t)
}

// A linter collects the findings about one document.
type linter struct {
	all      bool // without limits
	findings []Finding
	counts   map[string]int
}

// add notes a finding. The message must not repeat a position.
func (l *linter) add(code, pointer, format string, args ...any) {
	if l.room(code) {
		l.findings = append(l.findings, Finding{pointer, code, severityOf(code), fmt.Sprintf(format, args...)})
	}
}

// addItem notes a finding about an item of a list. It makes no pointer for
// those that are only counted: there may be a million.
func (l *linter) addItem(code, list string, item int, format string, args ...any) {
	if l.room(code) {
		l.findings = append(l.findings, Finding{list + "/" + strconv.Itoa(item), code, severityOf(code), fmt.Sprintf(format, args...)})
	}
}

// room counts a finding of code and tells whether it is among the first.
func (l *linter) room(code string) bool {
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	l.counts[code]++
	return l.all || l.counts[code] <= MaxFindingsPerCode
}

// result orders and cuts the findings about a document of the type form.
func (l *linter) result(form reflect.Type) []Finding {
	shown := map[string]int{}
	for i := range l.findings {
		if l.all {
			break
		}
		f := &l.findings[i]
		shown[f.Code]++
		if more := l.counts[f.Code] - MaxFindingsPerCode; more > 0 && shown[f.Code] == MaxFindingsPerCode {
			f.Message = fmt.Sprintf("... and %d more", more+1)
		}
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return comparePlaces(form, a.Pointer, b.Pointer) })
	for i := len(l.findings) - 1; i >= 0 && len(l.findings) > MaxFindings && !l.all; i-- {
		if l.findings[i].Severity == SeverityWarning {
			l.findings = slices.Delete(l.findings, i, i+1)
		}
	}
	return l.findings
}

// comparePlaces orders two pointers into a document of the type form: members
// as the format lists them, items by number. Places within custom, which has
// no order of its own, are equal.
func comparePlaces(form reflect.Type, a, b string) int {
	tokens, others := strings.Split(a, "/")[1:], strings.Split(b, "/")[1:]
	for i := range min(len(tokens), len(others)) {
		token, other := tokens[i], others[i]
		for form.Kind() == reflect.Pointer {
			form = form.Elem()
		}
		switch form.Kind() {
		case reflect.Struct:
			named := members[form].named
			if token != other {
				return cmp.Compare(named[token], named[other])
			}
			form = form.Field(named[token]).Type
		case reflect.Slice, reflect.Array:
			if token != other {
				item, _ := strconv.Atoi(token)
				otherItem, _ := strconv.Atoi(other)
				return cmp.Compare(item, otherItem)
			}
			form = form.Elem()
		default:
			return 0
		}
	}
	return cmp.Compare(len(tokens), len(others))
}
