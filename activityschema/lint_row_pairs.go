package activityschema

import "math"

// How far apart, in degrees, positions of one recording are that follow one another: some
// kilometres, or one if they have so few decimals that other measurements look alike.
const (
	nearStep   = 0.05
	coarseStep = 0.01
)

// How long the way is at most that the rows of a recording show: twice that of the
// activity, if that is known, or that of who drives a car; and more for the noise of a
// receiver at each row. In degrees of the Earth, a temperature that rises by one has come
// 111 km.
const (
	longerTimes  = 2
	longestMPerS = 30
	noiseM       = 2
)

// longestWay returns that of d in metres.
func longestWay(d *Detail) float64 {
	t := d.Timeseries.T
	switch {
	case d.DistanceM != nil && *d.DistanceM > 0:
		return longerTimes * *d.DistanceM
	case d.DurationS != nil && *d.DurationS >= 0:
		return longestMPerS * float64(*d.DurationS)
	case len(t) > 0:
		return longestMPerS * (float64(t[len(t)-1]) - float64(t[0]))
	}
	return math.Inf(1)
}

// A columnPair is what two columns beside one another in a list of rows, such as
// [[0, 47.37129, 8.54211], [1, 47.37131, 8.54215]], have in common with latitudes
// and longitudes.
type columnPair struct {
	rows          int        // that have numbers in both
	halves        int        // that have a number in one of them only
	off           bool       // a row is no position
	small         int        // rows within a degree of zero
	apart         int        // rows of which the two are more than a degree apart
	fine, coarse  int        // rows of five decimals and more, of four and more
	moved         int        // rows other than the one before
	near, nearest int        // those of them that are less than nearStep, coarseStep, from that
	rising        [2]int     // rows in which a column is greater than in the one before
	pathM         [2]float64 // how long the way is from row to row; the other if longitudes come first
	first, last   reading
}

// add looks at the two numbers of a row.
func (c *columnPair) add(r reading) {
	if r.zero() {
		return
	}
	c.rows++
	c.off = c.off || !r.inDegrees()
	lat, lon := r.lat.value, r.lon.value
	count(&c.small, math.Abs(lat) < 1 && math.Abs(lon) < 1)
	count(&c.apart, math.Abs(lat-lon) > 1)
	count(&c.fine, r.decimals() >= 5)
	count(&c.coarse, r.decimals() >= 4)
	if c.rows == 1 {
		c.first, c.last = r, r
		return
	}
	north, east := lat-c.last.lat.value, lon-c.last.lon.value
	count(&c.rising[0], north > 0)
	count(&c.rising[1], east > 0)
	step := max(math.Abs(math.Remainder(north, 360)), math.Abs(math.Remainder(east, 360)))
	count(&c.moved, step > 0)
	count(&c.near, step > 0 && step < nearStep)
	count(&c.nearest, step > 0 && step < coarseStep)
	c.pathM[0] += flatM(north, east, lat)
	c.pathM[1] += flatM(east, north, lon)
	c.last = r
}

// flatM is about how many metres a step is, given in degrees, near a latitude. It is good
// for short steps.
func flatM(north, east, lat float64) float64 {
	return metresPerDegree * math.Hypot(math.Remainder(north, 360), math.Remainder(east, 360)*math.Cos(lat*math.Pi/180))
}

func count(n *int, more bool) {
	if more {
		*n++
	}
}

// tooLong tells whether the way from row to row is longer than so many metres, and noise.
func (c *columnPair) tooLong(longestM float64) bool {
	return min(c.pathM[0], c.pathM[1]) > longestM+noiseM*float64(c.rows+50)
}

// positions tells whether the columns are latitudes and longitudes of a way that is no
// longer than so many metres.
func (c *columnPair) positions(longestM float64) bool {
	// Time and distance count from nothing, and in small steps if in hours or
	// thousands of kilometres.
	counts := func(rising int, first float64) bool {
		return c.rows > 3 && 10*rising >= 9*(c.rows-1) && math.Abs(first) < 0.05
	}
	switch {
	case c.rows < 2 || c.off || c.small == c.rows || 8*c.halves > c.rows || c.tooLong(longestM):
		return false
	case counts(c.rising[0], c.first.lat.value) || counts(c.rising[1], c.first.lon.value):
		return false
	case 2*c.fine > c.rows:
		return 4*c.near >= 3*c.moved
	default:
		return 2*c.coarse > c.rows && c.moved > 0 && 4*c.nearest >= 3*c.moved
	}
}

// leastRows are the rows of a list under a name that says nothing from which on it must
// show somebody's way. Fewer may be places.
const leastRows = 4

// maybeWay tells whether all, the pairs of a value whose name says nothing, may be
// positions as far as they follow one another: pairs of a heart rate and a speed have the
// digits of a position, but go round the Earth in a minute.
func (s *customSearch) maybeWay(all []reading) bool {
	if len(all) < 2 {
		return true
	}
	var c columnPair
	for _, r := range all {
		c.add(r)
	}
	if len(all) >= leastRows {
		return c.positions(s.longestM)
	}
	return c.coarse > 0 || !c.tooLong(s.longestM)
}
