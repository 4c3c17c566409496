package publish

import (
	"errors"
	"math"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

// DeriveOptions change what Derive does with values that d already has.
type DeriveOptions struct {
	// KeepDevice keeps a value that cannot be computed from the samples, such as the distance of
	// a pool swim. Otherwise it is dropped.
	KeepDevice bool
}

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
	// wanderS is the time, in seconds, over which slow noise of elevations is estimated.
	wanderS = 45
	// quietM is more than the jitter of a barometer, in metres, which does not wander.
	quietM = 0.3
	// speedS is the time, in seconds, over which positions give a speed, before and after.
	speedS = 3
)

// Derive computes everything in d that follows from its samples and from the starts and durations
// of its laps: distance, durations, climbs, averages, maxima, speeds, bbox, ends, and the values of
// the laps.
//
// Distance and moving time are the lines between positions, and their times, where the person moved:
// where 5 metres took no longer than at 0.4 m/s, or at 0.2 m/s on foot and in water, and where they did not stay within
// 15 metres for a minute. A row without a
// position is a break, and nothing is added across it. Duration is the time from the start to the last
// sample. A row without a position counts by its speed where no row has one, and with KeepDevice.
// Elevations are averaged over 3 seconds before and after. Then a rise or fall counts once it
// reaches 0.7 metres plus twice the noise of the elevations. In averages a sample weighs the time
// until the next, at most the usual interval of the recording; that of the cadence leaves out
// zeros.
func Derive(d *activityschema.Detail, o DeriveOptions) error {
	_, err := derive(d, o, nil)
	return err
}

// derive does what Derive does, and returns the track. sec are the times of the samples with their fractions, in
// seconds; nil if only the whole seconds are known.
func derive(d *activityschema.Detail, o DeriveOptions, sec []float64) (*motion, error) {
	s := &d.Timeseries
	n := len(s.T)
	if err := checkSamples(s); err != nil {
		return nil, err
	}
	m := newMotionOf(s, d.Sport, sec)
	m.bySpeed = m.positions < 2 || o.KeepDevice // the distance of a device is that of all rows
	if m.positions > 1 && s.SpeedKmh == nil {
		s.SpeedKmh = m.speeds()
	}
	total := m.sumOver(0, n)
	if isPlanned(d) {
		m.plan(d)
		return m, nil
	}
	if n > 0 {
		set(&d.DurationS, s.T[n-1], true, o)
	} else if !o.KeepDevice {
		d.DurationS = nil
	}
	set(&d.DistanceM, math.Round(total.metres*10)/10, m.positions > 1, o)
	bySpeed := s.SpeedKmh != nil && !(o.KeepDevice && d.MovingTimeS != nil)
	set(&d.MovingTimeS, int64(math.Round(total.moving)), m.positions > 1 || bySpeed, o)
	set(&d.ElevationGainM, math.Round(total.up*10)/10, total.climbs, o)
	set(&d.ElevationLossM, math.Round(total.down*10)/10, total.climbs, o)
	if d.MovingTimeS != nil && d.DurationS != nil {
		v := min(*d.MovingTimeS, *d.DurationS)
		d.MovingTimeS = &v
	}
	set(&d.AvgSpeedKmh, 0, false, o)
	if d.DistanceM != nil && d.MovingTimeS != nil && *d.MovingTimeS > 0 {
		v := math.Round(*d.DistanceM/float64(*d.MovingTimeS)*360) / 100
		d.AvgSpeedKmh = &v
	}
	fastest, any := most(s.SpeedKmh)
	set(&d.MaxSpeedKmh, fastest, any, o)
	if d.MaxSpeedKmh != nil && d.AvgSpeedKmh != nil && *d.MaxSpeedKmh < *d.AvgSpeedKmh {
		*d.MaxSpeedKmh = *d.AvgSpeedKmh
	}
	set(&d.AvgHRBpm, total.hr.round(), total.hr.seconds > 0, o)
	set(&d.AvgCadenceRpm, total.cadence.round(), total.cadence.seconds > 0, o)
	set(&d.AvgPowerW, total.power.round(), total.power.seconds > 0, o)
	strongest, any := most(s.HRBpm)
	set(&d.MaxHRBpm, strongest, any, o)
	hardest, any := most(s.PowerW)
	set(&d.MaxPowerW, hardest, any, o)
	for _, v := range []struct{ average, highest *int64 }{{d.AvgHRBpm, d.MaxHRBpm}, {d.AvgPowerW, d.MaxPowerW}} {
		if v.average != nil && v.highest != nil {
			*v.highest = max(*v.highest, *v.average)
		}
	}
	d.BBox, d.StartLatLng, d.EndLatLng = m.box()
	for i := range d.Laps {
		m.lap(d, &d.Laps[i], o)
	}
	return m, nil
}

// set sets a member that is known from the samples. Another is kept or dropped.
func set[T int64 | float64](to **T, v T, known bool, o DeriveOptions) {
	if known {
		*to = &v
	} else if !o.KeepDevice {
		*to = nil
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

// A motion is the track of samples.
type motion struct {
	*activityschema.Timeseries
	pace
	sec       []float64 // times, in seconds
	step      []float64 // metres from the sample before; NaN at a break
	moves     []bool    // the person moved since the sample before
	height    []float64 // smoothed; NaN if unknown
	least     float64   // metres from which a rise or fall counts
	positions int
	median    int64 // of the seconds between samples
	usual     int64 // seconds between samples that most are not above
	gap       int64 // seconds beyond which a gap is a pause, unless it was moved in
	bySpeed   bool  // a row without a position moves by its speed
}

func newMotion(s *activityschema.Timeseries) *motion {
	return newMotionOf(s, activityschema.SportOther, nil)
}

func newMotionOf(s *activityschema.Timeseries, sport activityschema.Sport, sec []float64) *motion {
	n := len(s.T)
	m := &motion{
		Timeseries: s, pace: paceOf(sport), sec: sec, step: make([]float64, n), moves: make([]bool, n), median: 1, usual: 1,
	}
	if sec == nil {
		m.sec = make([]float64, n)
		for i, t := range s.T {
			m.sec[i] = float64(t)
		}
	}
	if n > 1 {
		gaps := make([]int64, n-1)
		for i := range gaps {
			gaps[i] = s.T[i+1] - s.T[i]
		}
		slices.Sort(gaps)
		m.median, m.usual = gaps[len(gaps)/2], gaps[len(gaps)*9/10]
	}
	m.gap = max(shortestGapS, 3*m.median)
	m.measure()
	m.move()
	m.rest()
	m.smooth()
	m.least = climbM + noiseFactor*m.noise()
	return m
}

// measure computes the steps. It spreads a step over the time for which a device repeated the position
// before it, or had none.
func (m *motion) measure() {
	last, since := -1, 0 // the last sample with a position, and the first with the same one
	for i := range m.T {
		m.step[i] = math.NaN()
		if !m.has(i) {
			if m.broken(i) {
				last = -1
			}
			continue
		}
		m.positions++
		before := last
		last = i
		if before < 0 {
			since = i
			continue
		}
		step := metres(m.Lat[before].Value, m.Lon[before].Value, m.Lat[i].Value, m.Lon[i].Value)
		if step == 0 && before == i-1 {
			m.step[i] = 0
			continue
		}
		from := max(since, before)
		if m.sec[i]-m.sec[since] <= renewS && step >= m.still*(m.sec[i]-m.sec[since]) {
			from = since
		}
		since = i
		seconds := m.sec[i] - m.sec[from]
		if early(step, nearM, m.top, seconds) > 0 {
			continue
		}
		for j := from + 1; j <= i; j++ {
			m.step[j] = step * (m.sec[j] - m.sec[j-1]) / seconds
			m.moves[j] = i-before > 1 && step >= m.still*seconds
		}
	}
}

// move finds the samples before which the person moved: it took no longer to get stirM away than at
// the speed at which a person stands.
func (m *motion) move() {
	still := m.still
	moving := func(i int) bool { return m.step[i] >= still*(m.sec[i]-m.sec[i-1]) }
	from, path := 0, 0.0
	for i := 1; i <= len(m.step); i++ {
		end := i == len(m.step) || math.IsNaN(m.step[i]) || m.moves[i] || !m.has(i)
		if !end {
			path += m.step[i]
			if path < stirM || m.away(from, i) < stirM && m.away(from, i) < path/2 {
				continue
			}
		}
		last := min(i, len(m.step)-1)
		if end {
			last = i - 1
		}
		if last > from && m.has(from) && m.away(from, last) >= still*(m.sec[last]-m.sec[from]) {
			for j := from + 1; j <= last; j++ {
				m.moves[j] = true
			}
		} else { // stood for most of the time
			for j := from + 1; j <= last && moving(j); j++ {
				m.moves[j] = true
			}
			for j := last; j > from && moving(j); j-- {
				m.moves[j] = true
			}
		}
		from, path = i, 0
	}
}

// rest finds the samples before which the person rested: they stayed within restM for restS, however much the positions
// wandered. Who climbs slowly gets further in that time than at the speed at which a person stands.
func (m *motion) rest() {
	const restM, restS = 15, 60
	for i := 0; i < len(m.T); i++ {
		if !m.has(i) {
			continue
		}
		east := metreDegree * math.Cos(m.Lat[i].Value*math.Pi/180)
		sumX, sumY, n := 0.0, 0.0, 0.0
		last, out := i, 0
		for j := i; j < len(m.T); j++ {
			if j > i && math.IsNaN(m.step[j]) {
				if m.has(j) || m.broken(j) {
					break
				}
				continue
			}
			x, y := math.Remainder(m.Lon[j].Value-m.Lon[i].Value, 360)*east, (m.Lat[j].Value-m.Lat[i].Value)*metreDegree
			if n > 0 && math.Hypot(x-sumX/n, y-sumY/n) > restM {
				if out++; out > 1 {
					break
				}
				continue // one position may be wrong
			}
			sumX, sumY, n, last, out = sumX+x, sumY+y, n+1, j, 0
		}
		if m.sec[last]-m.sec[i] < restS || n < 3 {
			continue
		}
		// The person came from the edge, and went there.
		near := func(j int) bool {
			x, y := math.Remainder(m.Lon[j].Value-m.Lon[i].Value, 360)*east, (m.Lat[j].Value-m.Lat[i].Value)*metreDegree
			return m.has(j) && math.Hypot(x-sumX/n, y-sumY/n) <= stirM
		}
		from, to := i, last
		for from < to && !near(from) {
			from++
		}
		for to > from && !near(to) {
			to--
		}
		if seconds := m.sec[to] - m.sec[from]; seconds < restS || m.drift(from, to) >= m.still*seconds {
			continue
		}
		for j := from + 1; j <= to; j++ {
			m.moves[j] = false
		}
		i = to
	}
}

// drift returns how far it is from the middle of the first third of some samples to that of the last.
func (m *motion) drift(from, to int) float64 {
	middle := func(from, to int) (lat, lon float64) {
		n := 0.0
		for i := from; i <= to; i++ {
			if m.has(i) {
				lat, n = lat+m.Lat[i].Value, n+1
				lon += math.Remainder(m.Lon[i].Value-m.Lon[from].Value, 360)
			}
		}
		return lat / n, m.Lon[from].Value + lon/n
	}
	third := (to - from) / 3
	for !m.has(to - third) {
		third--
	}
	lat, lon := middle(from, from+third)
	lat2, lon2 := middle(to-third, to)
	const part = 1.5 // of two thirds of the time
	return part * metres(lat, lon, lat2, lon2)
}

// plan computes the distance and the climbs of a track that was not recorded, and nothing of its times.
func (m *motion) plan(d *activityschema.Detail) {
	m.moveAll()
	total := m.sumOver(0, len(m.T))
	d.DurationS, d.MovingTimeS, d.AvgSpeedKmh, d.MaxSpeedKmh, d.Timeseries.SpeedKmh = nil, nil, nil, nil, nil
	set(&d.DistanceM, math.Round(total.metres*10)/10, m.positions > 1, DeriveOptions{})
	set(&d.ElevationGainM, math.Round(total.up*10)/10, total.climbs, DeriveOptions{})
	set(&d.ElevationLossM, math.Round(total.down*10)/10, total.climbs, DeriveOptions{})
	d.BBox, d.StartLatLng, d.EndLatLng = m.box()
}

// moveAll makes each line between two positions a part of the way.
func (m *motion) moveAll() {
	last := -1
	for i := range m.T {
		switch {
		case m.has(i):
			if last >= 0 {
				m.step[i] = metres(m.Lat[last].Value, m.Lon[last].Value, m.Lat[i].Value, m.Lon[i].Value)
				m.moves[i] = true
			}
			last = i
		case m.broken(i):
			last = -1
		}
	}
}

// customPlanned is the member of custom of a track that was planned and not recorded.
const customPlanned = "planned"

func isPlanned(d *activityschema.Detail) bool { return string(d.Custom[customPlanned]) == "true" }

// away returns the distance between the positions of two samples of a piece.
func (m *motion) away(i, j int) float64 {
	if j == i+1 {
		return m.step[j]
	}
	return metres(m.Lat[i].Value, m.Lon[i].Value, m.Lat[j].Value, m.Lon[j].Value)
}

func (m *motion) has(i int) bool {
	return i < len(m.Lat) && i < len(m.Lon) && m.Lat[i].Valid && m.Lon[i].Valid
}

// metres returns the distance on the sphere (haversine), also across the antimeridian.
func metres(lat, lon, lat2, lon2 float64) float64 {
	const radian, earthM, near, polar = math.Pi / 180, 6371008.8, 0.01, 85
	if math.Abs(lat2-lat) < near && math.Abs(lon2-lon) < near && math.Abs(lat) < polar { // flat, to within a millimetre
		north, east := lat2-lat, (lon2-lon)*math.Cos((lat+lat2)/2*radian)
		return earthM * radian * math.Sqrt(north*north+east*east)
	}
	north, east := math.Sin((lat2-lat)*radian/2), math.Sin((lon2-lon)*radian/2)
	h := north*north + math.Cos(lat*radian)*math.Cos(lat2*radian)*east*east
	return 2 * earthM * math.Asin(math.Sqrt(min(h, 1)))
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

// broken reports whether sample i is a break of the track: a row without any value.
func (m *motion) broken(i int) bool {
	return !m.has(i) && !valid(m.ElevationM, i) && !valid(m.SpeedKmh, i) && !valid(m.TemperatureC, i) &&
		!valid(m.HRBpm, i) && !valid(m.CadenceRpm, i) && !valid(m.PowerW, i)
}

func valid[T int64 | float64](c activityschema.Column[T], i int) bool {
	return i < len(c) && c[i].Valid
}

// smooth averages elevations over time, but not across a break.
func (m *motion) smooth() {
	m.height = make([]float64, len(m.ElevationM))
	for from, i := 0, 0; i <= len(m.height); i++ {
		switch {
		case i == len(m.height) || m.broken(i):
			m.smoothPiece(from, i)
			from = i + 1
		case m.leaps(i):
			m.smoothPiece(from, i)
			from = i
		}
	}
}

// leaps reports whether the elevation of sample i cannot be reached from that before.
func (m *motion) leaps(i int) bool {
	e := m.ElevationM
	return i > 0 && e[i].Valid && e[i-1].Valid &&
		early(e[i].Value-e[i-1].Value, nearHeightM, m.climb, float64(m.T[i]-m.T[i-1])) > 0
}

func (m *motion) smoothPiece(from, end int) {
	to, sum, count := from, 0.0, 0
	for i := from; i < end; i++ {
		for ; to < end && m.T[to] <= m.T[i]+smoothS; to++ {
			if v := m.ElevationM[to]; v.Valid {
				sum, count = sum+v.Value, count+1
			}
		}
		for ; m.T[from] < m.T[i]-smoothS; from++ {
			if v := m.ElevationM[from]; v.Valid {
				sum, count = sum-v.Value, count-1
			}
		}
		if m.height[i] = math.NaN(); m.ElevationM[i].Valid {
			m.height[i] = sum / float64(count)
		}
	}
}

// noise estimates the standard deviation of the noise of elevations. It is near 0 for a barometer.
// What wanders slowly, as heights from satellites do, moves a little in each second, and by the
// square root of the time in more of them. A hill is smooth: it does not move the shortest time.
func (m *motion) noise() float64 {
	short, lag := m.jitter(1), max(1, int(wanderS/m.median))
	if short < quietM {
		return short
	}
	return max(short, min(m.jitter(lag), short*math.Sqrt(float64(lag))))
}

// jitter estimates noise by the median distance of each elevation from the mean of those so many
// samples before and after.
func (m *motion) jitter(lag int) float64 {
	var off []float64
	e := m.ElevationM
	for i := 2 * lag; i < len(e); i++ {
		if e[i-2*lag].Valid && e[i-lag].Valid && e[i].Valid && m.T[i]-m.T[i-2*lag] <= 2*smoothS*int64(lag) {
			off = append(off, math.Abs(e[i-lag].Value-(e[i-2*lag].Value+e[i].Value)/2))
		}
	}
	if len(off) == 0 {
		return 0
	}
	slices.Sort(off)
	// Of normal noise, the median of absolute values is 0.6745 times the deviation, and the
	// difference from the mean of two neighbours deviates by the square root of 1.5.
	const normal = 0.6745 * 1.2247
	return off[len(off)/2] / normal
}

// speeds computes the column of speeds from positions.
func (m *motion) speeds() activityschema.Column[float64] {
	c := make(activityschema.Column[float64], len(m.T))
	for i := range c {
		from, to, sum := i, i, 0.0
		for from > 0 && m.connected(from) && m.sec[i]-m.sec[from] < speedS {
			sum += m.step[from]
			from--
		}
		for to+1 < len(c) && m.connected(to+1) && m.sec[to]-m.sec[i] < speedS {
			to++
			sum += m.step[to]
		}
		if seconds := m.sec[to] - m.sec[from]; seconds > 0 {
			c[i] = activityschema.Some(math.Round(sum/seconds*360) / 100)
		}
	}
	return c
}

// connected reports whether there is neither a break nor a pause before sample i.
func (m *motion) connected(i int) bool {
	return !math.IsNaN(m.step[i]) && m.T[i]-m.T[i-1] <= m.gap
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
		case rise >= m.least:
			s.up, level = s.up+rise, m.height[i]
		case rise <= -m.least:
			s.down, level = s.down-rise, m.height[i]
		}
	}
	return s
}

// lap computes the values of a lap from the samples in it.
func (m *motion) lap(d *activityschema.Detail, l *activityschema.Lap, o DeriveOptions) {
	if l.DurationS == nil {
		return
	}
	begin := int64(math.Round(l.StartedAt.Sub(d.StartedAt.Time).Seconds()))
	from, _ := slices.BinarySearch(m.T, begin)
	to, _ := slices.BinarySearch(m.T, begin+*l.DurationS+1)
	s := m.sumOver(from, max(from, to))
	positions := m.positions > 1
	set(&l.DistanceM, math.Round(s.metres*10)/10, positions, o)
	set(&l.ElevationGainM, math.Round(s.up*10)/10, s.climbs, o)
	set(&l.AvgSpeedKmh, math.Round(s.metres/max(1, s.moving)*360)/100, positions && s.moving > 0, o)
	set(&l.AvgHRBpm, s.hr.round(), s.hr.seconds > 0, o)
	set(&l.AvgPowerW, s.power.round(), s.power.seconds > 0, o)
}

// box returns the bounds and the ends of the track. A track across the antimeridian has a west above
// its east.
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
