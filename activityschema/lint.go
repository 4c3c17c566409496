package activityschema

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of the findings about one document, which keep the findings about a recording that is
// wrong at every sample readable.
const (
	MaxFindings        = 100
	MaxFindingsPerCode = 10
)

// MaxLintBytes is the maximum size of a document that programs should decode to lint it: 80 hours
// of eight columns. For a larger document they should report NotLinted.
const MaxLintBytes = 16 << 20

// NotLinted is the finding for a valid document larger than MaxLintBytes.
func NotLinted() Finding {
	message := fmt.Sprintf("larger than %d MiB: neither its sense nor its privacy has been checked", MaxLintBytes>>20)
	return Finding{"", CodeNotLinted, SeverityWarning, message}
}

// A Finding is something in a valid document that makes no sense, or that shows what the owner's
// privacy setting hides.
type Finding struct {
	// Pointer is the place in the document, an RFC 6901 JSON Pointer, which Locate resolves.
	// Empty means the whole document. It contains member names of custom unescaped, so quote it
	// (%q) before it reaches a terminal.
	Pointer string `json:"pointer"`
	// Code is the kind of the finding, one of the Code constants.
	Code string `json:"code"`
	// Severity is the severity of the code.
	Severity Severity `json:"severity"`
	// Message says in plain words what is wrong. It is safe to print and never contains a
	// position, because logs with findings have other readers.
	Message string `json:"message"`
}

// Lint returns what makes no sense in doc although the format allows it, and what breaks the
// privacy of the activity; nil means nothing. Library compares several documents.
//
// The findings are deterministic. There are at most MaxFindingsPerCode of one code, the last of
// which then gives the number of further ones, and at most MaxFindings in total; errors are never
// dropped in favour of warnings.
//
// Lint does not report normal recordings: pauses, samples without a position, activities indoors,
// laps that overlap by a second and values rounded by the writer. It only reads doc and is safe
// for concurrent use.
func Lint(doc *Document) []Finding {
	l := new(linter)
	switch {
	case doc == nil:
	case doc.Detail != nil:
		l.detail(doc.Detail)
	case doc.Index != nil:
		l.index(doc.Index)
	}
	return l.result()
}

func (l *linter) detail(d *Detail) {
	t := newTrack(&d.Timeseries)
	l.id("", d.ID)
	values := l.figures("", d)
	l.recordedTime(d)
	l.distance(d, t)
	l.implausible(d, values)
	l.implausibleDistance(d, t)
	l.bbox(d, t)
	l.endpoint("/start_latlng", d.StartLatLng, t.first, t.beforeS, t, d.Privacy)
	l.endpoint("/end_latlng", d.EndLatLng, t.last, t.afterS, t, d.Privacy)
	l.laps(d, t)
	l.timeseries(&d.Timeseries)
	l.provenance(d)
	l.noGPS(d)
	l.halves(d, t)
	l.hidden(d, t)
	l.custom(d)
}

func item(list string, i int) string { return list + "/" + strconv.Itoa(i) }

// A linter collects the findings about one document.
type linter struct {
	findings []Finding
	counts   map[string]int
	texts    int // bytes of texts examined for positions
}

// add records a finding. The message must not contain a position.
func (l *linter) add(code, pointer, format string, args ...any) {
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	if l.counts[code]++; l.counts[code] <= MaxFindingsPerCode {
		l.findings = append(l.findings, Finding{pointer, code, SeverityOf(code), fmt.Sprintf(format, args...)})
	}
}

// addItem records a finding about an item of a list. It makes no pointer for findings beyond the
// limit, of which there may be a million.
func (l *linter) addItem(code, list string, i int, format string, args ...any) {
	if l.counts[code] < MaxFindingsPerCode {
		l.add(code, item(list, i), format, args...)
	} else {
		l.counts[code]++
	}
}

func (l *linter) result() []Finding {
	shown := map[string]int{}
	for i := range l.findings {
		f := &l.findings[i]
		shown[f.Code]++
		if more := l.counts[f.Code] - MaxFindingsPerCode; more > 0 && shown[f.Code] == MaxFindingsPerCode {
			f.Message = fmt.Sprintf("... and %d more", more+1)
		}
	}
	for i := len(l.findings) - 1; i >= 0 && len(l.findings) > MaxFindings; i-- {
		if l.findings[i].Severity == SeverityWarning {
			l.findings = slices.Delete(l.findings, i, i+1)
		}
	}
	return l.findings
}

// Locate returns the places of the values that JSON Pointers name in a valid document. For an
// absent value it returns the place of the nearest ancestor that exists.
func Locate(data []byte, pointers []string) ([]Place, error) {
	places := make([]Place, len(pointers))
	var targets []target
	for i, pointer := range pointers {
		targets = append(targets, target{slices.Collect(jsontext.Pointer(pointer).Tokens()), &places[i]})
	}
	s := newSource(context.Background(), bytes.NewReader(data), math.MaxInt64)
	if err := s.seek(targets); err != nil {
		return nil, fmt.Errorf("locating values: %w", err)
	}
	return places, nil
}

// A target is a value to locate, with the path to it.
type target struct {
	path  []string
	place *Place
}

// seek records the place of the next value, and of the targets within it.
func (s *source) seek(targets []target) error {
	if len(targets) == 0 {
		return s.dec.SkipValue()
	}
	s.end = s.dec.InputOffset()
	kind, raw, err := s.next()
	if err != nil {
		return err
	}
	for _, v := range targets {
		*v.place = s.start(raw)
	}
	if kind != '{' && kind != '[' {
		return nil
	}
	for i := 0; s.dec.PeekKind() != '}' && s.dec.PeekKind() != ']'; i++ {
		step := strconv.Itoa(i)
		if kind == '{' {
			name, err := s.dec.ReadToken()
			if err != nil {
				return err
			}
			step = name.String()
		}
		var within []target
		for _, v := range targets {
			if len(v.path) > 0 && v.path[0] == step {
				within = append(within, target{v.path[1:], v.place})
			}
		}
		if err := s.seek(within); err != nil {
			return err
		}
	}
	_, err = s.dec.ReadToken()
	return err
}
