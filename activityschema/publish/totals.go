package publish

import (
	"cmp"
	"math"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

// Which of the device's totals and what follows from the samples is published:
//
//	distance        the device's, if it is of these samples and the track confirms it; else that of the samples,
//	                with a warning
//	distance of a   the device's, as far as that of the whole is
//	lap
//	moving time     the device's timer, if it ran while somebody moved, and not longer than was recorded; in a pool
//	                without the rests; else that of the samples
//	duration        that of the samples, at least the moving time
//	average speed   distance by moving time, always
//	maximum speed   the device's, if it is at most half above that of the samples; at least the average
//	heart rate,     those of the samples; the device's average where most samples have none, and no maximum below
//	power           the average
//	climbs          the device's barometer, if it is not twice that of the samples
//
// What still contradicts itself is left out, with a warning: settle.

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

// derive computes values from the samples, except for those that the device measures better: a wheel, a foot pod and a
// barometer jitter less than positions, and its timer knows of pauses. The samples must not contradict them.
func (r *Recording) derive(d *activityschema.Detail, sec []float64) error {
	if r.planned {
		_, err := derive(d, false, sec)
		return err
	}
	top, laps := paceOf(r.Sport).top, make([]Totals, len(r.Laps))
	t := trusted(r.Totals, r.Samples)
	if len(r.Samples) > 1 && math.IsNaN(t.DistanceM) {
		if !math.IsNaN(r.Totals.DistanceM) || !math.IsNaN(r.Totals.ElapsedS) && math.IsNaN(t.ElapsedS) {
			r.warn("the totals of the device do not match the samples: they are recalculated")
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
	m, err := derive(d, true, sec)
	if err != nil {
		return err
	}
	if m.jumps > 0 {
		r.warn("stretches covered impossibly fast are not counted: %d, of %.1f km", m.jumps, m.jumpM/1000)
	}
	if v := device.DistanceM; v != nil {
		if d.StartLatLng == nil || m.confirms(*v) {
			d.DistanceM = v
			for i := range deviceLaps {
				d.Laps[i].DistanceM = cmp.Or(deviceLaps[i].DistanceM, d.Laps[i].DistanceM)
				d.Laps[i].AvgSpeedKmh = cmp.Or(deviceLaps[i].AvgSpeedKmh, d.Laps[i].AvgSpeedKmh)
				if l := &d.Laps[i]; l.AvgSpeedKmh == nil && l.DistanceM != nil && laps[i].MovingS > 0 {
					l.AvgSpeedKmh = real(*l.DistanceM/laps[i].MovingS*3.6, 2)
				}
			}
		} else {
			r.warn("the device counted %.1f km, the track has %.1f km: its distance is left out", *v/1000,
				*d.DistanceM/1000)
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
	averageSpeed(d)
	r.others(d, device, deviceLaps)
	r.settle(d)
	return nil
}

// others takes those of the device's heart rates, powers, speeds and climbs that it knows better.
func (r *Recording) others(d *activityschema.Detail, device activityschema.Detail, deviceLaps []activityschema.Lap) {
	top := paceOf(r.Sport).top
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
			d.Laps[i].ElevationGainM = cmp.Or(deviceLaps[i].ElevationGainM, d.Laps[i].ElevationGainM)
		}
	}
}

// settle leaves out what contradicts itself in a document.
func (r *Recording) settle(d *activityschema.Detail) {
	seconds := cmp.Or(orZero(d.MovingTimeS), orZero(d.DurationS))
	if orZero(d.DistanceM) > 0 && seconds == 0 && (d.MovingTimeS != nil || d.DurationS != nil) {
		r.warn("%.1f km in no time: the distance is left out", *d.DistanceM/1000)
		d.DistanceM, d.AvgSpeedKmh = nil, nil
	}
	notAbove(&d.MovingTimeS, d.DurationS)
	raise(d.MaxSpeedKmh, d.AvgSpeedKmh)
	average, highest := activityschema.MostSpeed(d.Sport)
	tooFast := orZero(d.MaxSpeedKmh) > highest
	if tooFast {
		d.MaxSpeedKmh = nil
	}
	if tooFast || orZero(d.AvgSpeedKmh) > average {
		r.warn("impossible speeds are left out")
		d.AvgSpeedKmh = nil
	}
	raise(d.MaxHRBpm, d.AvgHRBpm)
	raise(d.MaxPowerW, d.AvgPowerW)
}

func orZero[T int64 | float64](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}

// raise raises a maximum to the average.
func raise[T int64 | float64](highest, average *T) {
	if highest != nil && average != nil {
		*highest = max(*highest, *average)
	}
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
	from := samples[0].At
	if t.Start > 0 && t.Start < from && from-t.Start <= maxLeadS*1000 {
		from = t.Start // a pool has a sample at the end of each length
	}
	if !lasts(t, float64(samples[n-1].At-from)/1000, recorded) {
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
	if len(m.T) > 0 {
		seconds = float64(m.T[0])
	}
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
	const factor, slackM, indoorsM, thinS = 1.3, 200, 50, 30
	unseen, track, ends := 0.0, m.sumOver(0, len(m.T)).metres, 0.0
	first, last, thin, far := -1, -1, 0, 0.0 // far by positions thinS apart: what wanders is not so long
	for i := range m.T {
		unknown := i > 0 && math.IsNaN(m.step[i])
		if unknown {
			unseen += float64(m.T[i] - m.T[i-1])
		}
		if !m.has(i) {
			continue
		}
		if first < 0 {
			first, thin = i, i
		} else if m.sec[i]-m.sec[thin] >= thinS {
			thin, far = i, far+m.away(thin, i)
		}
		if last >= 0 && unknown { // there the person may have gone by car or ferry
			ends -= m.away(last, i)
		}
		last = i
	}
	if first >= 0 {
		ends += m.away(first, last)
	}
	if track < indoorsM && ends < indoorsM {
		return true
	}
	return v > 0 && v <= factor*(track+m.top*unseen)+slackM && v >= ends*0.98-50 && v >= min(track, far)/factor-slackM
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
