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

// Limits of the findings about one document, so that a recording which is
// wrong at every sample can still be read about.
const (
	MaxFindings        = 100
	MaxFindingsPerCode = 10
)

// MaxLintBytes is the size of a document up to which programs should decode it to lint
// it, 80 hours of eight columns; a larger one should be said to be NotLinted.
const MaxLintBytes = 16 << 20

// NotLinted is the finding about a valid document beyond MaxLintBytes.
func NotLinted() Finding {
	return Finding{"", CodeNotLinted, SeverityWarning, fmt.Sprintf("larger than %d MiB: neither its sense nor its privacy has been checked", MaxLintBytes>>20)}
}

// A Finding is something in a valid document that makes no sense, or that
// shows what the owner's choice of privacy says is not shown.
type Finding struct {
	// Pointer is the place in the document, an RFC 6901 JSON Pointer; empty
	// means the whole document; Locate tells where that is. It repeats member names
	// of custom as they are, so quote it (%q) before it reaches a terminal.
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
// The findings are the same at every run. There are at most MaxFindingsPerCode
// of one code, the last of which then says how many there are more, and at most
// MaxFindings in all; errors are never cut for warnings.
//
// Lint is made to be silent on good recordings: pauses, samples without a
// position, activities indoors, laps that overlap by a second and values
// rounded by the writer are no findings. It only reads doc and may be called
// concurrently.
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
	l.figures("", d)
	l.recordedTime(d)
	l.distance(d, t)
	l.bbox(d, t)
	l.endpoint("/start_latlng", d.StartLatLng, t.first, t.beforeS, t, d.Privacy)
	l.endpoint("/end_latlng", d.EndLatLng, t.last, t.afterS, t, d.Privacy)
	l.laps(d, t)
	l.timeseries(&d.Timeseries)
	l.provenance(d)
	l.noGPS(d)
	l.halves(d, t)
	l.hidden(d, t)
	l.custom(d, t)
}

// item points to an item of a list.
func item(list string, i int) string { return list + "/" + strconv.Itoa(i) }

// A linter collects the findings about one document.
type linter struct {
	findings []Finding
	counts   map[string]int
}

// add notes a finding. The message must not repeat a position.
func (l *linter) add(code, pointer, format string, args ...any) {
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	if l.counts[code]++; l.counts[code] <= MaxFindingsPerCode {
		l.findings = append(l.findings, Finding{pointer, code, SeverityOf(code), fmt.Sprintf(format, args...)})
	}
}

// addItem notes a finding about an item of a list. It makes no pointer for
// those that are only counted: there may be a million.
func (l *linter) addItem(code, list string, i int, format string, args ...any) {
	if l.counts[code] < MaxFindingsPerCode {
		l.add(code, item(list, i), format, args...)
	} else {
		l.counts[code]++
	}
}

// result cuts the findings about a document.
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

// Locate returns where the values are that JSON Pointers name, of a valid document. A
// value that is not there has the place of the nearest one above it that is.
func Locate(data []byte, pointers []string) ([]Place, error) {
	places := make([]Place, len(pointers))
	var wanted []sought
	for i, pointer := range pointers {
		wanted = append(wanted, sought{slices.Collect(jsontext.Pointer(pointer).Tokens()), &places[i]})
	}
	s := newSource(context.Background(), bytes.NewReader(data), math.MaxInt64)
	if err := s.seek(wanted); err != nil {
		return nil, fmt.Errorf("locating values: %w", err)
	}
	return places, nil
}

// A sought is a value whose place is looked up: path leads to it.
type sought struct {
	path  []string
	place *Place
}

// seek notes where the next value is, and those within it.
func (s *source) seek(wanted []sought) error {
	if len(wanted) == 0 {
		return s.dec.SkipValue()
	}
	s.end = s.dec.InputOffset()
	kind, raw, err := s.next()
	if err != nil {
		return err
	}
	for _, v := range wanted {
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
		var within []sought
		for _, v := range wanted {
			if len(v.path) > 0 && v.path[0] == step {
				within = append(within, sought{v.path[1:], v.place})
			}
		}
		if err := s.seek(within); err != nil {
			return err
		}
	}
	_, err = s.dec.ReadToken()
	return err
}
