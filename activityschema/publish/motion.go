package publish

import (
	"math"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

// A motion is the track of samples.
type motion struct {
	*activityschema.Timeseries
	pace
	sec       []float64 // times, in seconds
	step      []float64 // metres from the sample before; NaN at a break
	moves     []bool    // the person moved since the sample before
	height    []float64 // smoothed; NaN if unknown
	least     float64   // metres from which a rise or fall counts
	coarse    float64   // metres of the steps of elevations; 0 without
	positions int
	median    int64   // of the seconds between samples
	usual     int64   // seconds between samples that most are not above
	gap       int64   // seconds beyond which a gap is a pause, unless it was moved in
	jumps     int     // lines that nobody can go so fast
	jumpM     float64 // metres of them
	bySpeed   bool    // a row without a position moves by its speed
}

func newMotion(s *activityschema.Timeseries, sport activityschema.Sport, sec []float64) *motion {
	n := len(s.T)
	m := &motion{
		Timeseries: s, pace: paceOf(sport), sec: sec, step: make([]float64, n), moves: make([]bool, n), median: 1,
		usual: 1,
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
	m.least = max(climbM+noiseFactor*m.noise(), coarseFactor*m.coarse)
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
			m.jumps, m.jumpM = m.jumps+1, m.jumpM+step
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
	minute := 0 // the first sample at least restS later
	for i := 0; i < len(m.T); i++ {
		for minute < len(m.T) && m.sec[minute]-m.sec[i] < restS {
			minute++
		}
		if !m.has(i) || m.gone(i, minute, 4*restM) && m.gone(i, minute+1, 4*restM) {
			continue
		}
		lat, lon := m.Lat[i].Value, m.Lon[i].Value
		east := metreDegree * math.Cos(lat*math.Pi/180)
		metresFrom := func(j int) (x, y float64) {
			return math.Remainder(m.Lon[j].Value-lon, 360) * east, (m.Lat[j].Value - lat) * metreDegree
		}
		sumX, sumY, n := 0.0, 0.0, 0.0
		last, out := i, 0
		for j := i; j < len(m.T); j++ {
			if j > i && math.IsNaN(m.step[j]) {
				if m.has(j) || m.broken(j) {
					break
				}
				continue
			}
			x, y := metresFrom(j)
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
			x, y := metresFrom(j)
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

// gone reports whether sample j is further than so many metres north or south, or west or east, of sample i.
func (m *motion) gone(i, j int, far float64) bool {
	if j >= len(m.T) || !m.has(j) {
		return false
	}
	north, east := math.Abs(m.Lat[j].Value-m.Lat[i].Value)*metreDegree, math.Abs(m.Lon[j].Value-m.Lon[i].Value)
	return north > far || east < 180 && east*metreDegree*math.Cos(m.Lat[i].Value*math.Pi/180) > far
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
	if j == i+1 && !math.IsNaN(m.step[j]) {
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
	for i, v := range m.ElevationM {
		if m.height[i] = v.Value; !v.Valid {
			m.height[i] = math.NaN()
		}
	}
	m.coarse = coarse(m.height)
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
		early(e[i].Value-e[i-1].Value, max(nearHeightM, m.coarse), m.climb, float64(m.T[i]-m.T[i-1])) > 0
}

// coarse returns the least change of elevations that come in steps of some metres, as from contour lines or a barometer
// of whole hectopascals; 0 of others.
func coarse(heights []float64) float64 {
	const leastM, mostM, standing = 4, 40, 4
	least, changes, all, last := math.Inf(1), 0, 0, math.NaN()
	for _, h := range heights {
		if math.IsNaN(h) {
			continue
		}
		if d := math.Abs(h - last); d > 0 {
			if least = min(least, d); least < leastM {
				return 0
			}
			changes++
		}
		all, last = all+1, h
	}
	if least > mostM || standing*changes > all {
		return 0
	}
	return least
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
