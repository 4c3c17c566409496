package publish

import (
	"errors"
	"math"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

const (
	// stirM is the distance, in metres, over which speed is measured to tell moving from standing:
	// positions wander by less.
	stirM = 5
	// renewS is the longest time, in seconds, for which devices repeat a position.
	renewS = 30
	// shortestGapS is the time, in seconds, beyond which a gap between samples is a pause. In a
	// recording with few samples it is three times the median gap.
	shortestGapS = 30
	// smoothS is the time, in seconds, over which elevations are averaged, before and after.
	smoothS = 3
	// climbM is the rise or fall, in metres, from which on it counts. Noise adds noiseFactor times
	// its standard deviation.
	climbM      = 0.7
	noiseFactor = 2
	// coarseFactor is how many steps of coarse elevations count: near a step, noise goes up and down it.
	coarseFactor = 1.5
	// wanderS is the time, in seconds, over which slow noise of elevations is estimated.
	wanderS = 45
	// quietM is more than the jitter of a barometer, in metres, which does not wander.
	quietM = 0.3
	// speedS is the time, in seconds, over which positions give a speed, before and after.
	speedS = 3
)

// Derive computes everything in d that follows from its samples and from the starts and durations of its laps:
// distance, durations, climbs, averages, maxima, speeds, bbox, ends, and the values of the laps.
//
// Distance and moving time are the lines between positions, and their times, where the person moved: where 5 metres
// took no longer than at 0.4 m/s, or at 0.2 m/s on foot and in water, and where they did not stay within 15 metres for
// a minute. A row without a position is a break, and nothing is added across it. Duration is the time from the start to
// the last sample. A row without a position counts by its speed where no row has one. Elevations are averaged over 3
// seconds before and after. Then a rise or fall counts once it reaches 0.7 metres plus twice the noise of the
// elevations. In averages a sample weighs the time until the next, at most the usual interval of the recording; that of
// the cadence leaves out zeros.
func Derive(d *activityschema.Detail) error {
	_, err := derive(d, false, nil)
	return err
}

// derive does what Derive does, and returns the track. sec are the times of the samples with their fractions, in
// seconds; nil if only the whole seconds are known. keep keeps what d already has and cannot be computed from the
// samples, such as the distance of a pool swim; a row without a position then counts by its speed.
func derive(d *activityschema.Detail, keep bool, sec []float64) (*motion, error) {
	s := &d.Timeseries
	n := len(s.T)
	if err := checkSamples(s); err != nil {
		return nil, err
	}
	m := newMotion(s, d.Sport, sec)
	m.bySpeed = m.positions < 2 || keep // the distance of a device is that of all rows
	if m.positions > 1 && s.SpeedKmh == nil {
		s.SpeedKmh = m.speeds()
	}
	if isPlanned(d) {
		m.moveAll()
	}
	total := m.sumOver(0, n)
	if n > 0 {
		set(&d.DurationS, s.T[n-1], true, keep)
	} else if !keep {
		d.DurationS = nil
	}
	set(&d.DistanceM, math.Round(total.metres*10)/10, m.positions > 1, keep)
	bySpeed := s.SpeedKmh != nil && !(keep && d.MovingTimeS != nil)
	set(&d.MovingTimeS, int64(math.Round(total.moving)), m.positions > 1 || bySpeed, keep)
	set(&d.ElevationGainM, math.Round(total.up*10)/10, total.climbs, keep)
	set(&d.ElevationLossM, math.Round(total.down*10)/10, total.climbs, keep)
	notAbove(&d.MovingTimeS, d.DurationS)
	set(&d.AvgSpeedKmh, 0, false, keep)
	averageSpeed(d)
	fastest, any := most(s.SpeedKmh)
	set(&d.MaxSpeedKmh, fastest, any, keep)
	raise(d.MaxSpeedKmh, d.AvgSpeedKmh)
	set(&d.AvgHRBpm, total.hr.round(), total.hr.seconds > 0, keep)
	set(&d.AvgCadenceRpm, total.cadence.round(), total.cadence.seconds > 0, keep)
	set(&d.AvgPowerW, total.power.round(), total.power.seconds > 0, keep)
	strongest, any := most(s.HRBpm)
	set(&d.MaxHRBpm, strongest, any, keep)
	hardest, any := most(s.PowerW)
	set(&d.MaxPowerW, hardest, any, keep)
	raise(d.MaxHRBpm, d.AvgHRBpm)
	raise(d.MaxPowerW, d.AvgPowerW)
	d.BBox, d.StartLatLng, d.EndLatLng = m.box()
	for i := range d.Laps {
		m.lap(d, &d.Laps[i], keep)
	}
	if isPlanned(d) { // its times are not those of anybody
		d.DurationS, d.MovingTimeS, d.AvgSpeedKmh, d.MaxSpeedKmh, s.SpeedKmh = nil, nil, nil, nil, nil
	}
	return m, nil
}

// set sets a member that is known from the samples. Another is kept or dropped.
func set[T int64 | float64](to **T, v T, known bool, keep bool) {
	if known {
		*to = &v
	} else if !keep {
		*to = nil
	}
}

// averageSpeed sets the average speed, where the distance and the moving time are known.
func averageSpeed(d *activityschema.Detail) {
	if d.DistanceM != nil && orZero(d.MovingTimeS) > 0 {
		d.AvgSpeedKmh = real(*d.DistanceM/float64(*d.MovingTimeS)*3.6, 2)
	}
}

// notAbove lowers a value to another.
func notAbove(to **int64, most *int64) {
	if most != nil && orZero(*to) > *most {
		v := *most
		*to = &v
	}
}

func most[T int64 | float64](c activityschema.Column[T]) (highest T, any bool) {
	for _, v := range c {
		if v.Valid && (!any || v.Value > highest) {
			highest, any = v.Value, true
		}
	}
	return highest, any
}

// checkSamples refuses columns that differ in length, and times that do not ascend.
func checkSamples(s *activityschema.Timeseries) error {
	for _, length := range []int{
		len(s.Lat), len(s.Lon), len(s.ElevationM), len(s.SpeedKmh), len(s.HRBpm), len(s.CadenceRpm), len(s.PowerW),
		len(s.TemperatureC),
	} {
		if length != 0 && length != len(s.T) {
			return errors.New("columns differ in length")
		}
	}
	for i := 1; i < len(s.T); i++ {
		if s.T[i] <= s.T[i-1] {
			return errors.New("the times of the samples do not ascend")
		}
	}
	return nil
}

// A sum is the totals and averages of a range of samples.
type sum struct {
	metres             float64
	moving             float64 // seconds
	up, down           float64
	climbs             bool // elevations are known
	hr, cadence, power mean
}

// A mean is an average over time.
type mean struct{ total, seconds float64 }

func (a *mean) add(c activityschema.Column[int64], i int, seconds float64, zeros bool) {
	if i < len(c) && c[i].Valid && (zeros || c[i].Value != 0) {
		a.total += float64(c[i].Value) * seconds
		a.seconds += seconds
	}
}

func (a *mean) round() int64 {
	if a.seconds == 0 {
		return 0
	}
	return int64(math.Round(a.total / a.seconds))
}

// sumOver sums up the samples from one until before another.
func (m *motion) sumOver(from, to int) (s sum) {
	level, end := math.NaN(), int64(math.MaxInt64)
	rising, falling := false, false // of coarse elevations: who goes on needs one step
	if to < len(m.T) && to > from {
		end = m.T[to-1]
	}
	for i := from; i < to; i++ {
		if i > from {
			seconds := m.sec[i] - m.sec[i-1]
			moves, step := m.moves[i], m.step[i]
			if math.IsNaN(step) && m.bySpeed && !m.has(i) && i < len(m.SpeedKmh) && m.T[i]-m.T[i-1] <= m.gap {
				moves = m.SpeedKmh[i].Valid && m.SpeedKmh[i].Value/3.6 >= m.still
				step = 0
			}
			if moves {
				s.metres += step
				s.moving += seconds
			}
		}
		weight := 1.0 // of the last
		if i+1 < len(m.T) {
			weight = float64(min(m.T[i+1]-m.T[i], m.usual))
			if m.T[i+1] > end {
				weight = 0 // of the next lap
			}
		}
		s.hr.add(m.HRBpm, i, weight, true)
		s.cadence.add(m.CadenceRpm, i, weight, false)
		s.power.add(m.PowerW, i, weight, true)
		if i >= len(m.height) || m.broken(i) || math.IsNaN(m.height[i]) {
			if m.broken(i) {
				level = math.NaN() // nothing is added across a break
			}
			continue
		}
		s.climbs = true
		if m.leaps(i) {
			level = math.NaN()
		}
		switch rise := m.height[i] - level; {
		case math.IsNaN(rise):
			level = m.height[i]
		case rise >= m.least, rising && rise > 0:
			s.up, level = s.up+rise, m.height[i]
			rising, falling = m.coarse > 0, false
		case rise <= -m.least, falling && rise < 0:
			s.down, level = s.down-rise, m.height[i]
			rising, falling = false, m.coarse > 0
		}
	}
	return s
}

// lap computes the values of a lap from the samples in it.
func (m *motion) lap(d *activityschema.Detail, l *activityschema.Lap, keep bool) {
	if l.DurationS == nil {
		return
	}
	begin := int64(math.Round(l.StartedAt.Sub(d.StartedAt.Time).Seconds()))
	from, _ := slices.BinarySearch(m.T, begin)
	to, _ := slices.BinarySearch(m.T, begin+*l.DurationS+1)
	s := m.sumOver(from, max(from, to))
	positions := m.positions > 1
	set(&l.DistanceM, math.Round(s.metres*10)/10, positions, keep)
	set(&l.ElevationGainM, math.Round(s.up*10)/10, s.climbs, keep)
	set(&l.AvgSpeedKmh, math.Round(s.metres/max(1, s.moving)*360)/100, positions && s.moving > 0, keep)
	set(&l.AvgHRBpm, s.hr.round(), s.hr.seconds > 0, keep)
	set(&l.AvgPowerW, s.power.round(), s.power.seconds > 0, keep)
}

// box returns the bounds and the ends of the track. A track across the antimeridian has a west above its east.
func (m *motion) box() (*activityschema.BBox, *activityschema.LatLng, *activityschema.LatLng) {
	var b *activityschema.BBox
	var first, last activityschema.LatLng
	west, east, turn := 0.0, 0.0, 0.0
	for i := range m.T {
		if !m.has(i) {
			continue
		}
		lat, lon := m.Lat[i].Value, m.Lon[i].Value
		if b == nil {
			b, first = &activityschema.BBox{lon, lat, lon, lat}, activityschema.LatLng{lat, lon}
			west, east = lon, lon
		} else if step := lon - last[1]; math.Abs(step) > 180 {
			turn -= math.Copysign(360, step)
		}
		last = activityschema.LatLng{lat, lon}
		west, east = min(west, lon+turn), max(east, lon+turn)
		b[1], b[3] = min(b[1], lat), max(b[3], lat)
	}
	if b == nil {
		return nil, nil, nil
	}
	if b[0], b[2] = wrapped(west), wrapped(east); east-west >= 360 {
		b[0], b[2] = -180, 180
	}
	return b, &first, &last
}

func wrapped(lon float64) float64 {
	if lon >= -180 && lon <= 180 {
		return lon
	}
	return math.Round(math.Remainder(lon, 360)*1e6) / 1e6
}
