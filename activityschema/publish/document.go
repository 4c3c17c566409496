package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
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

// maxLeadS is the longest time, in seconds, from the start as the device gives it to the first
// sample.
const maxLeadS = 600

// firstYear is when people began to record activities with satellites.
const firstYear = 1995

// place returns the time zone of the recording: that of the options, that of the file, or that of the place where it
// began. Of a place to hide it is that of its zone's centre: near a border, the other would tell on which side it is.
func (r *Recording) place(o Options) *time.Location {
	if zone := cmp.Or(o.Zone, r.zone); zone != nil {
		return zone
	}
	for i := range r.Samples {
		if s := &r.Samples[i]; s.hasPosition() {
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
		r.warn("it began on %s, says the file: the clock of the device was wrong", at.Format("2 January 2006"))
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

// columns sets the timeseries, and returns its times with their fractions. A row of nulls marks a break of the track.
func (r *Recording) columns(d *activityschema.Detail, start int64) (sec []float64) {
	s := &d.Timeseries
	rows := len(r.Samples)
	for i := range r.Samples {
		if r.Samples[i].Break {
			rows++
		}
	}
	s.T, sec = make(activityschema.Integers, 0, rows), make([]float64, 0, rows)
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
			s.T, sec = append(s.T, s.T[n-1]+1), append(sec, sec[n-1]+1)
			appendNulls(s)
		}
		s.T, sec = append(s.T, t), append(sec, float64(p.At)/1000-float64(start))
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
	return sec
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
		lap.StartedAt.Time = time.Unix(from, 0).In(d.StartedAt.Location())
		d.Laps = append(d.Laps, lap)
	}
}

func (s Sample) after(at int64) int { return cmp.Compare(s.At, at) }

// odometer returns the distance from sample to sample as the device counts it. It may begin anew at
// each lap, and a sample may be wrong.
func odometer(samples []Sample, top float64) float64 {
	sum, last := unknown, -1
	for i := range samples {
		v := samples[i].DistanceM
		if math.IsNaN(v) {
			continue
		}
		if last < 0 {
			sum = 0
		} else if step := v - samples[last].DistanceM; step > 0 &&
			early(step, nearM, top, float64(samples[i].At-samples[last].At)/1000) == 0 {
			sum += step
		}
		last = i
	}
	return sum
}

// derive computes values from the samples, except for those that the device measures better: a wheel,
// a foot pod and a barometer jitter less than positions, and its timer knows of pauses. The samples
// must not contradict them.
func (r *Recording) derive(d *activityschema.Detail, sec []float64) error {
	if r.planned {
		_, err := derive(d, DeriveOptions{}, sec)
		return err
	}
	top, laps := paceOf(r.Sport).top, make([]Totals, len(r.Laps))
	t := trusted(r.Totals, r.Samples)
	if len(r.Samples) > 1 && math.IsNaN(t.DistanceM) {
		if !math.IsNaN(r.Totals.DistanceM) || !math.IsNaN(r.Totals.ElapsedS) && math.IsNaN(t.ElapsedS) {
			r.warn("the totals of the device are not those of the samples: they are computed")
		}
		t.DistanceM = odometer(r.Samples, top)
	}
	d.DurationS, d.MovingTimeS, d.DistanceM = integer(t.ElapsedS), integer(t.MovingS), real(t.DistanceM, 1)
	d.ElevationGainM, d.ElevationLossM = real(t.AscentM, 1), real(t.DescentM, 1)
	d.MaxSpeedKmh = real(t.MaxSpeed*3.6, 1)
	d.AvgHRBpm, d.MaxHRBpm, d.AvgCadenceRpm = integer(t.AvgHR), integer(t.MaxHR), integer(t.AvgCadence)
	d.AvgPowerW, d.MaxPowerW = integer(t.AvgPower), integer(t.MaxPower)
	for i := range d.Laps {
		l, to := &laps[i], &d.Laps[i]
		if *l = *r.Laps[i]; !lasts(*l, float64(*to.DurationS), 0) { // it was cut short
			*l = newTotals()
		}
		if math.IsNaN(l.DistanceM) {
			from, _ := slices.BinarySearchFunc(r.Samples, to.StartedAt.UnixMilli(), Sample.after)
			end, _ := slices.BinarySearchFunc(r.Samples, to.StartedAt.UnixMilli()+(*to.DurationS+1)*1000, Sample.after)
			l.DistanceM = odometer(r.Samples[from:end], top)
		}
		to.DistanceM, to.ElevationGainM = real(l.DistanceM, 1), real(l.AscentM, 1)
		to.AvgSpeedKmh = real(l.AvgSpeed*3.6, 1)
		to.AvgHRBpm, to.AvgPowerW = integer(l.AvgHR), integer(l.AvgPower)
	}
	device, deviceLaps := *d, slices.Clone(d.Laps)
	m, err := derive(d, DeriveOptions{KeepDevice: true}, sec)
	if err != nil {
		return err
	}
	if v := device.DistanceM; v != nil {
		if d.StartLatLng == nil || m.confirms(*v) {
			d.DistanceM = v
			for i := range deviceLaps {
				prefer(&d.Laps[i].DistanceM, deviceLaps[i].DistanceM)
				prefer(&d.Laps[i].AvgSpeedKmh, deviceLaps[i].AvgSpeedKmh)
				if l := &d.Laps[i]; l.AvgSpeedKmh == nil && l.DistanceM != nil && laps[i].MovingS > 0 {
					l.AvgSpeedKmh = real(*l.DistanceM/laps[i].MovingS*3.6, 2)
				}
			}
		} else {
			r.warn("the device counted %.1f km, the track has %.1f km: its distance is left out", *v/1000, *d.DistanceM/1000)
		}
	}
	// A timer that ran while nobody moved is still the device's. One that stopped is wrong.
	if v := device.MovingTimeS; v != nil && d.MovingTimeS != nil && float64(*v) <= m.recorded()*1.03+10 &&
		float64(*v) >= 0.9*float64(*d.MovingTimeS) {
		d.MovingTimeS = v
		if d.DurationS != nil {
			*d.DurationS = max(*d.DurationS, *v) // the timer may go on after the last sample
		}
	}
	if d.DistanceM != nil && d.MovingTimeS != nil && *d.MovingTimeS > 0 {
		d.AvgSpeedKmh = real(*d.DistanceM/float64(*d.MovingTimeS)*3.6, 2)
	}
	// A device knows more of a heart rate that its records have seldom or not at all.
	hr, power := d.Timeseries.HRBpm, d.Timeseries.PowerW
	if device.AvgHRBpm != nil && (r.beats != nil || filled(hr) < len(hr)/2) {
		d.AvgHRBpm = device.AvgHRBpm
	}
	if device.AvgPowerW != nil && filled(power) < len(power)/2 {
		d.AvgPowerW = device.AvgPowerW
	}
	const factor, slackKmh = 1.5, 5
	v, own := device.MaxSpeedKmh, d.MaxSpeedKmh
	if v != nil && *v/3.6 <= top && (own == nil || *v <= factor**own+slackKmh) {
		d.MaxSpeedKmh = v
	}
	up, down := device.ElevationGainM, device.ElevationLossM
	if up != nil && down != nil && d.ElevationGainM != nil &&
		*up <= 2**d.ElevationGainM+1000 && *down <= 2**d.ElevationLossM+1000 {
		d.ElevationGainM, d.ElevationLossM = up, down
		for i := range deviceLaps {
			prefer(&d.Laps[i].ElevationGainM, deviceLaps[i].ElevationGainM)
		}
	}
	if d.MaxSpeedKmh != nil && d.AvgSpeedKmh != nil {
		*d.MaxSpeedKmh = max(*d.MaxSpeedKmh, *d.AvgSpeedKmh)
	}
	return nil
}

// filled returns how many values a column has.
func filled[T int64 | float64](c activityschema.Column[T]) (n int) {
	for _, v := range c {
		if v.Valid {
			n++
		}
	}
	return n
}

// trusted returns the totals of a device if they are those of the samples, else unknown ones. A file may
// be cut short, and a part of the samples left out. A device may count the time with pauses or without.
func trusted(t Totals, samples []Sample) Totals {
	n, recorded, says := len(samples), 0.0, false
	for i := 1; i < n; i++ {
		a, b := &samples[i-1], &samples[i]
		says = says || b.DistanceM >= 0 && b.DistanceM != a.DistanceM ||
			b.hasPosition() && (b.Lat != a.Lat || b.Lon != a.Lon)
		if ms := b.At - a.At; !b.Break && ms <= shortestGapS*1000 {
			recorded += float64(ms) / 1000
		}
	}
	if !says {
		return t // nobody moved
	}
	if !lasts(t, float64(samples[n-1].At-samples[0].At)/1000, recorded) {
		return newTotals()
	}
	return t
}

// lasts reports whether totals are of so many seconds, or of those that were recorded of them.
func lasts(t Totals, span, recorded float64) bool {
	const part, slackS = 0.03, 10
	seconds := t.ElapsedS
	if math.IsNaN(seconds) {
		seconds = t.MovingS
	}
	return !(seconds > span*(1+part)+slackS || seconds < recorded*(1-part)-slackS)
}

// recorded returns the seconds without pauses.
func (m *motion) recorded() (seconds float64) {
	for i := 1; i < len(m.T); i++ {
		if !m.broken(i) && (m.T[i]-m.T[i-1] <= m.gap || m.moves[i]) {
			seconds += float64(m.T[i] - m.T[i-1])
		}
	}
	return seconds
}

// confirms reports whether a distance may be right, given the track. Positions that wander make a track longer, missing
// ones make it shorter.
func (m *motion) confirms(v float64) bool {
	const factor, slackM, indoorsM = 1.3, 200, 50
	unseen, track, ends := 0.0, m.sumOver(0, len(m.T)).metres, m.apart()
	for i := 1; i < len(m.T); i++ {
		if math.IsNaN(m.step[i]) {
			unseen += float64(m.T[i] - m.T[i-1])
		}
	}
	if track < indoorsM && ends < indoorsM {
		return true
	}
	return v > 0 && v <= factor*(track+m.top*unseen)+slackM && v >= ends*0.98-50 && v >= track/factor-slackM
}

// apart returns how far the ends of the track are from each other, in metres, less the ways that were not recorded:
// there the person may have gone by car or ferry.
func (m *motion) apart() (far float64) {
	first, last := -1, -1
	for i := range m.T {
		if !m.has(i) {
			continue
		}
		if first < 0 {
			first = i
		} else if math.IsNaN(m.step[i]) {
			far -= metres(m.Lat[last].Value, m.Lon[last].Value, m.Lat[i].Value, m.Lon[i].Value)
		}
		last = i
	}
	if first < 0 {
		return 0
	}
	return far + metres(m.Lat[first].Value, m.Lon[first].Value, m.Lat[last].Value, m.Lon[last].Value)
}

func prefer(to **float64, device *float64) {
	if device != nil {
		*to = device
	}
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
