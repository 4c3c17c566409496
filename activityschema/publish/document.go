package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/timezone"
)

// A Policy says what documents show.
type Policy struct {
	Privacy activityschema.Privacy
	// Places are those that blur_start hides. Without them nothing can be blurred.
	Places *Places
	// HideTime makes the start of a blur_start activity its day.
	HideTime bool
	// KeepElevation keeps the column of elevations of a no_gps activity, which on a map of
	// heights may tell where it was.
	KeepElevation bool
}

// idOf returns the id of recording n of a file: the day of its start, where it began, and part of a
// hash. It reveals neither the time of the start nor the hash of the file.
func idOf(hash string, n int, start time.Time) string {
	return start.Format(time.DateOnly) + "-" + idSuffix(hash, n)
}

func idSuffix(hash string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "activity %s %d", hash, n))
	return hex.EncodeToString(sum[:5])
}

var titles = map[activityschema.Sport]string{
	activityschema.SportCycling: "Ride", activityschema.SportRunning: "Run", activityschema.SportHiking: "Hike",
	activityschema.SportWalking: "Walk", activityschema.SportSwimming: "Swim", activityschema.SportOther: "Activity",
}

// bridgeS is the longest time without positions, in seconds, that is interpolated along a straight
// line. A longer one is a break of the track.
const bridgeS = 60

// maxLeadS is the longest time, in seconds, from the start as the device gives it to the first sample.
const maxLeadS = 600

// firstYear is when people began to record activities with satellites.
const firstYear = 1995

// place returns the time zone of the recording: that of the options, that of the file, or that of the place where it
// began. Of a place to hide it is that of its zone's centre: near a border, the other would tell on which side it is.
func (r *Recording) place(o Options) *time.Location {
	if zone := cmp.Or(o.Zone, r.zone); zone != nil {
		return zone
	}
	virtual := r.SubSport == activityschema.SubSportIndoor // its positions may be those of another world
	for i := range r.Samples {
		if s := &r.Samples[i]; s.hasPosition() && !virtual {
			if zone, ok := timezone.At(o.hide.centre(s.Lat, s.Lon)); ok {
				return zone
			}
			break
		}
	}
	return cmp.Or(o.Home, time.UTC)
}

// Detail returns the document of recording n, before a policy hides anything. It may be called once
// for each recording: it releases the samples.
func (f *File) Detail(n int) (*activityschema.Detail, error) {
	r := f.Recordings[n]
	start := r.Totals.Start / 1000
	if len(r.Samples) > 0 {
		if first := r.Samples[0].At / 1000; start > first || first-start > maxLeadS {
			start = first
		}
	}
	at := time.Unix(start, 0).In(r.place(f.options))
	switch year := at.Year(); {
	case year < 1970 || year > 9999:
		return nil, fmt.Errorf("it began in the year %d: the clock of the device was wrong", year)
	case year < firstYear || at.After(time.Now().Add(restMS*time.Millisecond)):
		r.warn("the file says it began on %s: the clock of the device was wrong", at.Format("2 January 2006"))
	}
	d := &activityschema.Detail{Version: activityschema.Version}
	d.ID, d.Title, d.StartedAt = idOf(f.Hash, n, at), titles[r.Sport], activityschema.Time{Time: at}
	source, sub, device := r.Source, r.SubSport, r.Device
	d.Sport, d.Source, d.Privacy = r.Sport, &source, activityschema.PrivacyPrivate
	if sub != "" {
		d.SubSport = &sub
	}
	if device != "" {
		d.Device = &device
	}
	hash := "sha256:" + f.Hash
	d.SourceHash = &hash
	if r.planned {
		r.Laps = nil
		d.Custom = map[string]jsontext.Value{customPlanned: jsontext.Value("true")}
	} else {
		r.bridge()
	}
	sec := r.columns(d, start)
	r.laps(d, start)
	r.nameDerived(d, start)
	err := r.derive(d, sec)
	r.Samples = nil
	return d, err
}

// nameDerived names the times that were derived in custom, from and until when, in seconds.
func (r *Recording) nameDerived(d *activityschema.Detail, start int64) {
	var list [][2]int64
	for _, span := range r.derived {
		from, to := span[0]/1000-start, span[1]/1000-start
		if n := len(d.Timeseries.T); n > 0 && from >= 0 && to <= d.Timeseries.T[n-1] {
			list = append(list, [2]int64{from, to})
		}
	}
	if list == nil {
		return
	}
	if text, err := json.Marshal(list); err == nil {
		d.Custom = map[string]jsontext.Value{"derived_times_s": text}
	}
}

// bridge interpolates missing positions over at most bridgeS. Some devices write sensors and
// positions in separate samples.
func (r *Recording) bridge() {
	before := -1
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Break {
			before = -1
		}
		if !s.hasPosition() {
			continue
		}
		if before >= 0 && i-before > 1 && s.At-r.Samples[before].At <= bridgeS*1000 {
			r.line(before, i)
		}
		before = i
	}
}

// line puts the samples between two others on the straight line between those.
func (r *Recording) line(from, to int) {
	a, b := &r.Samples[from], &r.Samples[to]
	north, east := b.Lat-a.Lat, math.Remainder(b.Lon-a.Lon, 360)
	for i := from + 1; i < to; i++ {
		s := &r.Samples[i]
		part := float64(s.At-a.At) / float64(b.At-a.At)
		s.Lat, s.Lon = a.Lat+part*north, math.Remainder(a.Lon+part*east, 360)
	}
}

// columns sets the timeseries, and returns its times with their fractions. A row of nulls marks a break of the track.
func (r *Recording) columns(d *activityschema.Detail, start int64) (sec []float64) {
	s, rows := &d.Timeseries, make([]*Sample, 0, len(r.Samples))
	s.T, sec = make(activityschema.Integers, 0, len(r.Samples)), make([]float64, 0, len(r.Samples))
	for i := range r.Samples {
		p := &r.Samples[i]
		t := p.At/1000 - start
		if n := len(s.T); p.Break && n > 0 && t-s.T[n-1] > 1 {
			s.T, sec, rows = append(s.T, s.T[n-1]+1), append(sec, sec[n-1]+1), append(rows, nil)
		}
		s.T, sec, rows = append(s.T, t), append(sec, float64(p.At)/1000-float64(start)), append(rows, p)
	}
	if s.Lat, s.Lon = floats(rows, 1e6, func(p *Sample) float64 { return p.Lat }),
		floats(rows, 1e6, func(p *Sample) float64 { return p.Lon }); s.Lat == nil || s.Lon == nil {
		s.Lat, s.Lon = nil, nil
	}
	s.ElevationM = floats(rows, 10, func(p *Sample) float64 { return p.ElevationM })
	s.SpeedKmh = floats(rows, 100, func(p *Sample) float64 { return p.SpeedMS * 3.6 })
	s.TemperatureC = floats(rows, 10, func(p *Sample) float64 { return p.TempC })
	s.HRBpm = columnOf(rows, func(p *Sample) (int64, bool) { return int64(p.HRBpm), p.HRBpm >= 0 })
	s.CadenceRpm = columnOf(rows, func(p *Sample) (int64, bool) { return int64(p.CadenceRpm), p.CadenceRpm >= 0 })
	s.PowerW = columnOf(rows, func(p *Sample) (int64, bool) { return int64(p.PowerW), p.PowerW >= 0 })
	return sec
}

// columnOf returns the column of a value of samples, null where there is no sample; nil if no sample has it.
func columnOf[T int64 | float64](rows []*Sample, value func(*Sample) (T, bool)) activityschema.Column[T] {
	column, known := make(activityschema.Column[T], len(rows)), false
	for i, p := range rows {
		if p == nil {
			continue
		}
		if v, ok := value(p); ok {
			column[i], known = activityschema.Some(v), true
		}
	}
	if !known {
		return nil
	}
	return column
}

func floats(rows []*Sample, per float64, value func(*Sample) float64) activityschema.Column[float64] {
	return columnOf(rows, func(p *Sample) (float64, bool) {
		v := value(p)
		return math.Round(v*per) / per, !math.IsNaN(v)
	})
}

// laps sets the laps with their starts and durations. A lap ends at the latest where the next begins.
func (r *Recording) laps(d *activityschema.Detail, start int64) {
	end := start
	if r.Totals.ElapsedS > 0 {
		end += int64(math.Round(min(r.Totals.ElapsedS, 1e8)))
	}
	if n := len(r.Samples); n > 0 {
		end = max(start, r.Samples[n-1].At/1000)
	}
	d.Laps = []activityschema.Lap{}
	for i := range r.Laps {
		l := r.Laps[i]
		from, to := max(l.Start/1000, start), end
		if i+1 < len(r.Laps) {
			to = min(end, r.Laps[i+1].Start/1000)
		}
		if l.ElapsedS >= 0 {
			to = min(to, from+int64(math.Round(l.ElapsedS)))
		}
		seconds := max(0, to-from)
		lap := activityschema.Lap{Index: int64(len(d.Laps)), DurationS: &seconds}
		lap.StartedAt.Time = time.Unix(from, 0).In(d.StartedAt.Location())
		d.Laps = append(d.Laps, lap)
	}
}

// apply hides what a policy does not show. It may change d.
func (p Policy) apply(d *activityschema.Detail) (*activityschema.Detail, error) {
	switch d.Privacy = p.Privacy; p.Privacy {
	case activityschema.PrivacyBlurStart:
		return Blur(d, p.Places, p.HideTime)
	case activityschema.PrivacyNoGPS:
		d.BBox, d.StartLatLng, d.EndLatLng = nil, nil, nil
		d.Timeseries.Lat, d.Timeseries.Lon = nil, nil
		if !p.KeepElevation {
			d.Timeseries.ElevationM = nil
		}
	}
	return d, nil
}
