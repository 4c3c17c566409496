package publish

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cairn-id/cairn/activityschema"
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

// idOf returns the id of recording n of a file: the day of its start and part of a hash. It reveals
// neither the time of the start nor the hash of the file.
func idOf(hash string, n int, start time.Time) string {
	return start.UTC().Format(time.DateOnly) + "-" + idSuffix(hash, n)
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

// maxLeadS is the longest time, in seconds, from the start as the device gives it to the first
// sample.
const maxLeadS = 600

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
	at := time.Unix(start, 0).UTC()
	if year := at.Year(); year < 1970 || year > 9999 {
		return nil, fmt.Errorf("it began in the year %d: the clock of the device was wrong", year)
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
	r.bridge()
	r.columns(d, start)
	r.laps(d, start)
	err := r.derive(d)
	r.Samples = nil
	return d, err
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
			a := &r.Samples[before]
			north, east := s.Lat-a.Lat, math.Remainder(s.Lon-a.Lon, 360)
			for j := before + 1; j < i; j++ {
				part := float64(r.Samples[j].At-a.At) / float64(s.At-a.At)
				r.Samples[j].Lat = a.Lat + part*north
				r.Samples[j].Lon = math.Remainder(a.Lon+part*east, 360)
			}
		}
		before = i
	}
}

// columns sets the timeseries. A row of nulls marks a break of the track.
func (r *Recording) columns(d *activityschema.Detail, start int64) {
	s := &d.Timeseries
	rows := len(r.Samples)
	for i := range r.Samples {
		if r.Samples[i].Break {
			rows++
		}
	}
	s.T = make(activityschema.Integers, 0, rows)
	for _, c := range []*activityschema.Column[float64]{&s.Lat, &s.Lon, &s.ElevationM, &s.SpeedKmh, &s.TemperatureC} {
		*c = make(activityschema.Column[float64], 0, rows)
	}
	for _, c := range []*activityschema.Column[int64]{&s.HRBpm, &s.CadenceRpm, &s.PowerW} {
		*c = make(activityschema.Column[int64], 0, rows)
	}
	var filled columnSet
	for i := range r.Samples {
		p := &r.Samples[i]
		t := p.At/1000 - start
		if n := len(s.T); p.Break && n > 0 && t-s.T[n-1] > 1 {
			s.T = append(s.T, s.T[n-1]+1)
			appendNulls(s)
		}
		s.T = append(s.T, t)
		s.Lat = append(s.Lat, filled.float(0, p.Lat, 1e6))
		s.Lon = append(s.Lon, filled.float(1, p.Lon, 1e6))
		s.ElevationM = append(s.ElevationM, filled.float(2, p.ElevationM, 10))
		s.SpeedKmh = append(s.SpeedKmh, filled.float(3, p.SpeedMS*3.6, 100))
		s.TemperatureC = append(s.TemperatureC, filled.float(4, p.TempC, 10))
		s.HRBpm = append(s.HRBpm, filled.whole(5, p.HRBpm))
		s.CadenceRpm = append(s.CadenceRpm, filled.whole(6, p.CadenceRpm))
		s.PowerW = append(s.PowerW, filled.whole(7, p.PowerW))
	}
	if !filled[0] || !filled[1] {
		s.Lat, s.Lon = nil, nil
	}
	for i, c := range []*activityschema.Column[float64]{&s.ElevationM, &s.SpeedKmh, &s.TemperatureC} {
		if !filled[i+2] {
			*c = nil
		}
	}
	for i, c := range []*activityschema.Column[int64]{&s.HRBpm, &s.CadenceRpm, &s.PowerW} {
		if !filled[i+5] {
			*c = nil
		}
	}
}

// A columnSet records which of the eight columns have a value.
type columnSet [8]bool

func (c *columnSet) float(column int, v, per float64) (n activityschema.Null[float64]) {
	if !math.IsNaN(v) {
		c[column] = true
		n = activityschema.Some(math.Round(v*per) / per)
	}
	return n
}

func (c *columnSet) whole(column int, v int32) (n activityschema.Null[int64]) {
	if v >= 0 {
		c[column] = true
		n = activityschema.Some(int64(v))
	}
	return n
}

func appendNulls(s *activityschema.Timeseries) {
	for _, c := range []*activityschema.Column[float64]{&s.Lat, &s.Lon, &s.ElevationM, &s.SpeedKmh, &s.TemperatureC} {
		*c = append(*c, activityschema.Null[float64]{})
	}
	for _, c := range []*activityschema.Column[int64]{&s.HRBpm, &s.CadenceRpm, &s.PowerW} {
		*c = append(*c, activityschema.Null[int64]{})
	}
}

// laps sets the laps with their starts and durations. A lap ends at the latest where the next
// begins.
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
		lap.StartedAt.Time = time.Unix(from, 0).UTC()
		d.Laps = append(d.Laps, lap)
	}
}

// derive computes values from the samples, except for those that the device measures better.
func (r *Recording) derive(d *activityschema.Detail) error {
	t := r.Totals
	if n := len(r.Samples); n > 0 && math.IsNaN(t.DistanceM) {
		first, last := unknown, unknown
		for i := range r.Samples {
			if v := r.Samples[i].DistanceM; !math.IsNaN(v) {
				if math.IsNaN(first) {
					first = v
				}
				last = v
			}
		}
		t.DistanceM = last - first
	}
	d.DurationS, d.MovingTimeS, d.DistanceM = integer(t.ElapsedS), integer(t.MovingS), real(t.DistanceM, 1)
	d.ElevationGainM, d.ElevationLossM = real(t.AscentM, 1), real(t.DescentM, 1)
	d.MaxSpeedKmh = real(t.MaxSpeed*3.6, 1)
	d.AvgHRBpm, d.MaxHRBpm, d.AvgCadenceRpm = integer(t.AvgHR), integer(t.MaxHR), integer(t.AvgCadence)
	d.AvgPowerW, d.MaxPowerW = integer(t.AvgPower), integer(t.MaxPower)
	for i := range d.Laps {
		l, to := r.Laps[i], &d.Laps[i]
		to.DistanceM, to.ElevationGainM = real(l.DistanceM, 1), real(l.AscentM, 1)
		to.AvgSpeedKmh = real(l.AvgSpeed*3.6, 1)
		to.AvgHRBpm, to.AvgPowerW = integer(l.AvgHR), integer(l.AvgPower)
	}
	device := d.Activity
	loss, laps := d.ElevationLossM, slices.Clone(d.Laps)
	if err := Derive(d, DeriveOptions{KeepDevice: true}); err != nil {
		return err
	}
	// A wheel, a foot pod and a barometer measure better than positions, which jitter. A distance that is
	// shorter than the straight line between the ends is wrong.
	if v := device.DistanceM; v != nil && (d.StartLatLng == nil || *v > 0 && *v >= ends(d)*0.98-50) {
		d.DistanceM = v
		for i := range laps {
			prefer(&d.Laps[i].DistanceM, laps[i].DistanceM)
			prefer(&d.Laps[i].AvgSpeedKmh, laps[i].AvgSpeedKmh)
		}
		if d.MovingTimeS != nil && *d.MovingTimeS > 0 {
			d.AvgSpeedKmh = real(*v/float64(*d.MovingTimeS)*3.6, 2)
		}
	}
	prefer(&d.MaxSpeedKmh, device.MaxSpeedKmh)
	if device.ElevationGainM != nil && loss != nil {
		d.ElevationGainM, d.ElevationLossM = device.ElevationGainM, loss
		for i := range laps {
			prefer(&d.Laps[i].ElevationGainM, laps[i].ElevationGainM)
		}
	}
	if d.MaxSpeedKmh != nil && d.AvgSpeedKmh != nil {
		*d.MaxSpeedKmh = max(*d.MaxSpeedKmh, *d.AvgSpeedKmh)
	}
	return nil
}

func prefer(to **float64, device *float64) {
	if device != nil {
		*to = device
	}
}

// ends returns the distance between the ends of the track.
func ends(d *activityschema.Detail) float64 {
	a, b := d.StartLatLng, d.EndLatLng
	return metres(a[0], a[1], b[0], b[1])
}

// integer and real return a value of a device, or nil for an unknown or impossible one.
func integer(v float64) *int64 {
	if !(v >= 0 && v < 1e9) {
		return nil
	}
	n := int64(math.Round(v))
	return &n
}

func real(v float64, decimals int) *float64 {
	if !(v >= 0 && v < 1e9) {
		return nil
	}
	per := math.Pow10(decimals)
	v = math.Round(v*per) / per
	return &v
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
