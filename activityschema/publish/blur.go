package publish

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
)

// errTooLittle means that too little of a track lies outside the places.
var errTooLittle = errors.New("too little of the track is left outside your places: publish it as no_gps")

// The least length of a track, and of a piece of it, that is shown, in metres.
const (
	leastM      = 500
	leastPieceM = 200
)

// blurredTime is the unit to which the start of a blurred activity is rounded.
const blurredTime = 15 * time.Minute

// Blur returns the part of d that may be published as blur_start: the track outside the zones of places, with all
// totals computed from that part alone. The length of a hidden passage would show, on a map, where it began.
// Therefore no gap has a length or a duration: the times of the samples begin at 0 and continue without a pause after
// a cut, which is marked by a row without values. The start keeps its day and its offset from UTC, and is rounded to a
// quarter of an hour; with hideTime only the day is left. Laps are omitted, because many have an even length. So are
// descriptions and custom members, which may name the place. d is not changed.
func Blur(d *activityschema.Detail, places *Places, hideTime bool) (*activityschema.Detail, error) {
	if places == nil || len(places.zones) == 0 {
		return nil, errors.New("there is no place to hide: add one with cairn activity place add")
	}
	out := *d
	out.Privacy = activityschema.PrivacyBlurStart
	out.SourceFile, out.SourceHash, out.StravaID, out.Description = nil, nil, nil, nil
	out.Laps, out.Custom = []activityschema.Lap{}, nil
	if isPlanned(d) {
		out.Custom = map[string]jsontext.Value{customPlanned: d.Custom[customPlanned]}
	}
	s := &d.Timeseries
	if err := checkSamples(s); err != nil {
		return nil, err
	}
	_, offset := d.StartedAt.Zone()
	if d.Privacy == activityschema.PrivacyBlurStart && offset == 0 && d.StartedAt.Time.Equal(roundedStart(d, 0, true)) {
		hideTime = true // an earlier run has hidden the time
	}
	pieces := shownPieces(s, places)
	if pieces == nil {
		if d.BBox != nil || d.StartLatLng != nil || d.EndLatLng != nil { // computed from positions that are missing
			out.BBox, out.StartLatLng, out.EndLatLng = nil, nil, nil
			out.DistanceM, out.ElevationGainM = nil, nil
			out.ElevationLossM = nil
		}
		out.Timeseries.ElevationM = nil // a profile can be found on a map of heights
		out.StartedAt.Time = roundedStart(d, 0, hideTime)
		return &out, nil // without positions there is no home to show
	}
	m := newMotion(s, activityschema.SportOther, nil)
	if isPlanned(d) {
		m.moveAll()
	}
	if pieces = longEnough(m, pieces); len(pieces) == 0 {
		return nil, errTooLittle
	}
	out.StartedAt.Time = roundedStart(d, time.Duration(s.T[pieces[0].from])*time.Second, hideTime)
	out.Timeseries = joined(s, pieces)
	return &out, Derive(&out)
}

// longEnough returns the pieces that are long enough to be shown; none if that is too little.
func longEnough(m *motion, pieces []piece) (shown []piece) {
	metres := 0.0
	for _, p := range pieces {
		if length := m.sumOver(p.from, p.to).metres; length >= leastPieceM {
			shown, metres = append(shown, p), metres+length
		}
	}
	if metres < leastM {
		return nil
	}
	return shown
}

// roundedStart returns the start of what is shown of d, which is first after that of d, on the day of d. That is the
// day of the place, and the day in the id: another one would tell when midnight was.
func roundedStart(d *activityschema.Detail, first time.Duration, hideTime bool) time.Time {
	year, month, day := d.StartedAt.Date()
	if hideTime {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	start := d.StartedAt.Add(first).Round(blurredTime)
	last := time.Date(year, month, day+1, 0, 0, 0, 0, d.StartedAt.Location()).Add(-blurredTime)
	if start.After(last) {
		return last
	}
	return start
}

// A piece is the range of samples [from, to).
type piece struct{ from, to int }

// shownPieces returns the parts of a track outside the places; nil if no sample has a position. A sample
// without a position is shown only between two shown ones: before the first position the device may
// have recorded at home, and a long time without positions may have been spent there.
func shownPieces(s *activityschema.Timeseries, places *Places) []piece {
	m := motion{Timeseries: s}
	pieces := []piece{}
	open, last, any := -1, -1, false // the start of a piece, and its last position
	end := func() {
		if open >= 0 {
			pieces = append(pieces, piece{open, last + 1})
		}
		open = -1
	}
	for i := range s.T {
		if !m.has(i) {
			continue
		}
		any = true
		if places.hides(s.Lat[i].Value, s.Lon[i].Value) {
			end()
			continue
		}
		silent := i > last+1 && s.T[i]-s.T[max(last, 0)] > bridgeS // the way between is unknown
		if open >= 0 && (silent || places.crossed(s, last, i)) {
			end()
		}
		if open < 0 {
			open = i
		}
		last = i
	}
	end()
	if !any {
		return nil
	}
	return pieces
}

// crossed reports whether the line between two samples outside the zones goes through one.
func (p *Places) crossed(s *activityschema.Timeseries, a, b int) bool {
	lat, lon := s.Lat[a].Value, s.Lon[a].Value
	north, east := s.Lat[b].Value-lat, wrapped(s.Lon[b].Value-lon)
	steps := min(int(metres(lat, lon, lat+north, lon+east)/25), 1000)
	for i := 1; i < steps; i++ {
		part := float64(i) / float64(steps)
		if p.hides(lat+part*north, lon+part*east) {
			return true
		}
	}
	return false
}

// joined returns the pieces of the samples, one after the other. The device's own speeds are averages over hidden
// samples too. A thermometer that comes from a warm room takes half an hour to cool, and so tells how long ago that
// was. Both columns are omitted.
func joined(s *activityschema.Timeseries, pieces []piece) (out activityschema.Timeseries) {
	for i, p := range pieces {
		shift := -s.T[p.from]
		if i > 0 {
			next := out.T[len(out.T)-1] + 1
			out.T = append(out.T, next)
			shift += next + 1
		}
		for _, t := range s.T[p.from:p.to] {
			out.T = append(out.T, t+shift)
		}
	}
	out.Lat, out.Lon, out.ElevationM = cut(s.Lat, pieces), cut(s.Lon, pieces), cut(s.ElevationM, pieces)
	out.HRBpm, out.CadenceRpm, out.PowerW = cut(s.HRBpm, pieces), cut(s.CadenceRpm, pieces), cut(s.PowerW, pieces)
	return out
}

// cut returns the pieces of a column, with a null between two; nil if no value is left.
func cut[T int64 | float64](c activityschema.Column[T], pieces []piece) (out activityschema.Column[T]) {
	if c == nil {
		return nil
	}
	known := false
	for i, p := range pieces {
		if i > 0 {
			out = append(out, activityschema.Null[T]{})
		}
		for row := p.from; row < p.to; row++ {
			v := activityschema.Null[T]{}
			if row < len(c) {
				v = c[row]
			}
			known = known || v.Valid
			out = append(out, v)
		}
	}
	if !known {
		return nil
	}
	return out
}
