package activityschema

import "math"

// earthM is the mean radius of the Earth in metres (IUGG).
const earthM = 6371008.8

// metresPerDegree of latitude.
const metresPerDegree = earthM * math.Pi / 180

// A position is a point on the Earth in degrees.
type position struct{ lat, lon float64 }

// onEarth reports whether p is a point on the Earth. It is false for NaN.
func (p position) onEarth() bool {
	return math.Abs(p.lat) <= 90 && math.Abs(p.lon) <= 180
}

// exchanged returns the position if its longitude was written first.
func (p position) exchanged() position { return position{p.lon, p.lat} }

// likely reports whether two numbers are a position, of which either may be the latitude: they lie on the Earth and
// differ by at least a degree, as two measurements of one quantity do not.
func (p position) likely() bool {
	return math.Abs(p.lat-p.lon) >= 1 && (p.onEarth() || p.exchanged().onEarth())
}

// metresTo returns the distance on the sphere by the haversine formula, which works at the poles
// and across the antimeridian.
func (p position) metresTo(q position) float64 {
	const radian, near, polar = math.Pi / 180, 0.01, 85
	if n, e := q.lat-p.lat, q.lon-p.lon; math.Abs(n) < near && math.Abs(e) < near && math.Abs(p.lat) < polar {
		e *= math.Cos((p.lat + q.lat) / 2 * radian) // flat, to within a millimetre
		return metresPerDegree * math.Sqrt(n*n+e*e)
	}
	north, east := math.Sin((q.lat-p.lat)*radian/2), math.Sin((q.lon-p.lon)*radian/2)
	h := north*north + math.Cos(p.lat*radian)*math.Cos(q.lat*radian)*east*east
	return 2 * earthM * math.Asin(math.Sqrt(min(h, 1)))
}

// within reports whether q is at most metres away. For most points of a track the latitude alone
// decides.
func (p position) within(metres float64, q position) bool {
	return math.Abs(q.lat-p.lat)*metresPerDegree <= metres*1.001 && p.metresTo(q) <= metres
}

// A track is the samples of the columns lat and lon that have both values and lie on the Earth.
// newTrack makes one.
type track struct {
	lat, lon    Column[float64]
	first, last int // indexes; -1 if no sample has a position
	// beforeS and afterS are the seconds without a position before first and after last.
	beforeS, afterS float64
	// south to east are the least and greatest values as written.
	south, north, west, east float64
	// crosses reports whether the track crosses the antimeridian. If it does, unrolledWest and
	// unrolledEast bound it in longitudes that continue beyond 180 degrees.
	crosses                    bool
	unrolledWest, unrolledEast float64
}

func newTrack(s *Timeseries) *track {
	t := &track{lat: s.Lat, lon: s.Lon, first: -1, last: -1}
	turn := 0.0
	for i := range min(len(s.Lat), len(s.Lon)) {
		if !s.Lat[i].Valid || !s.Lon[i].Valid {
			continue
		}
		p := t.at(i)
		if !p.onEarth() {
			continue
		}
		if t.first < 0 {
			t.first = i
			t.south, t.north, t.west, t.east = p.lat, p.lat, p.lon, p.lon
			t.unrolledWest, t.unrolledEast = p.lon, p.lon
		} else if step := p.lon - t.lon[t.last].Value; step > 180 || step < -180 {
			turn -= math.Copysign(360, step)
			t.crosses = true
		}
		t.last = i
		t.south, t.north = min(t.south, p.lat), max(t.north, p.lat)
		t.west, t.east = min(t.west, p.lon), max(t.east, p.lon)
		t.unrolledWest, t.unrolledEast = min(t.unrolledWest, p.lon+turn), max(t.unrolledEast, p.lon+turn)
	}
	if n := len(s.T); t.first >= 0 && t.last < n {
		t.beforeS = max(0, float64(s.T[t.first])-float64(s.T[0]))
		t.afterS = max(0, float64(s.T[n-1])-float64(s.T[t.last]))
	}
	return t
}

// at returns the position of sample i, which must have one.
func (t *track) at(i int) position { return position{t.lat[i].Value, t.lon[i].Value} }

func (t *track) has(i int) bool {
	return t.lat[i].Valid && t.lon[i].Valid && t.at(i).onEarth()
}

// length returns the length of the track in metres, in straight lines from position to position.
func (t *track) length() float64 {
	sum, before := 0.0, t.first
	for i := t.first; i >= 0 && i <= t.last; i++ {
		if t.has(i) {
			sum += t.at(before).metresTo(t.at(i))
			before = i
		}
	}
	return sum
}

// boxSlack, in degrees, is about a metre: writers round bounds to five decimals.
const boxSlack = 1e-5

// exchanged returns the intended box if b was written with latitudes before longitudes.
func exchanged(b BBox) BBox { return BBox{b[1], b[0], b[3], b[2]} }

func (t *track) outside(b BBox) int {
	if b[0] <= b[2] && b[0] <= t.west && t.east <= b[2] && b[1] <= t.south && t.north <= b[3] {
		return 0
	}
	n := 0
	for i := t.first; i <= t.last; i++ {
		if t.has(i) && !holds(b, t.at(i)) {
			n++
		}
	}
	return n
}

func holds(b BBox, p position) bool {
	east, west := p.lon >= b[0]-boxSlack, p.lon <= b[2]+boxSlack
	return (east && west || b[0] > b[2] && (east || west)) && p.lat >= b[1]-boxSlack && p.lat <= b[3]+boxSlack
}
