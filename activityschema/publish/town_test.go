package publish

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// A town is a net of streets in 100 m blocks with a home near its middle, and the country around it, where roads are
// further apart. In a town with main roads, people prefer these, and few others lead out.
type town struct {
	*rand.Rand
	lines     []float64 // where streets run, in metres, in both directions
	right, up []int32   // what a street from a crossing costs; 0: there is none
	days      [12]day
	from, to  int // the street of the home, which is part of the way along it
	part      float64
	hx, hy    float64
	goals     []int // of earlier outings
}

// A day has the costs of the streets as people like them on it, and those from the home.
type day struct {
	right, up, far []int32
}

const (
	blockM     = 100
	townM      = 4000 // from the middle of the town to its edge
	countryM   = 16_000
	countryGap = 500
	missing    = 0.12 // of the streets
	// Of the town with main roads.
	mainGap  = 10  // blocks from one to the next
	mainCost = 0.5 // of a metre
	closed   = 0.6 // of the streets do not lead into a main road
	noRoad   = 0.7 // of the streets do not lead on into the country
	// Of people.
	moods   = 0.3  // the most by which a street costs more on a day
	parts   = 0.15 // and the part of one from crossing to crossing
	repeat  = 0.7  // of the outings go where an earlier one went
	townLat = 48.0
)

func newTown(seed uint64, mainRoads bool) *town {
	t := &town{Rand: rand.New(rand.NewPCG(seed, 7))}
	for at := -countryM; at <= countryM; {
		t.lines = append(t.lines, float64(at))
		if at < -townM || at >= townM {
			at += countryGap
		} else {
			at += blockM
		}
	}
	n := len(t.lines)
	t.right, t.up = make([]int32, n*n), make([]int32, n*n)
	main, shift := func(line int) bool { return false }, t.IntN(mainGap)
	if mainRoads {
		main = func(line int) bool {
			at := int(t.lines[line])
			if at < -townM || at > townM {
				return at%1000 == 0
			}
			return (at/blockM+100+shift)%mainGap == 0
		}
	}
	cost := func(line, across, beyond int, length float64) int32 {
		inTown := math.Abs(t.lines[line]) <= townM && math.Abs(t.lines[across]) <= townM
		switch {
		case main(line):
			return int32(length * mainCost)
		case mainRoads && !inTown && t.Float64() < noRoad, t.Float64() < missing, (main(across) || main(beyond)) &&
			t.Float64() < closed:
			return 0
		}
		return int32(length)
	}
	for y := range n {
		for x := range n {
			if x+1 < n {
				t.right[y*n+x] = cost(y, x, x+1, t.lines[x+1]-t.lines[x])
			}
			if y+1 < n {
				t.up[y*n+x] = cost(x, y, y+1, t.lines[y+1]-t.lines[y])
			}
		}
	}
	for t.from == 0 || t.right[t.from] == 0 || mainRoads && main(t.from/n) {
		t.from = (n/2+t.IntN(9)-4)*n + n/2 + t.IntN(9) - 4
	}
	t.to, t.part = t.from+1, t.Float64()
	x, y := t.at(t.from)
	t.hx, t.hy = x+t.part*blockM, y
	for i := range t.days {
		t.days[i] = t.day()
		c := float64(t.right[t.from])
		t.days[i].far = t.costs(t.days[i].right, t.days[i].up, math.Inf(1), start{t.from, int32(t.part * c)},
			start{t.to, int32((1 - t.part) * c)})
	}
	return t
}

// day returns the costs of a day, on which some streets, and some parts of each, are liked less than others.
func (t *town) day() (d day) {
	n := len(t.lines)
	d.right, d.up = slices.Clone(t.right), slices.Clone(t.up)
	liked := make([]float64, 2*n)
	for i := range liked {
		liked[i] = moods * t.Float64()
	}
	for c := range d.right {
		d.right[c] += int32(float64(d.right[c]) * (liked[c/n] + parts*t.Float64()))
		d.up[c] += int32(float64(d.up[c]) * (liked[n+c%n] + parts*t.Float64()))
	}
	return d
}

// at returns a crossing in metres from the middle.
func (t *town) at(crossing int) (x, y float64) {
	return t.lines[crossing%len(t.lines)], t.lines[crossing/len(t.lines)]
}

// crossing returns the nearest one.
func (t *town) crossing(x, y float64) int {
	near := func(v float64) int {
		i, _ := slices.BinarySearch(t.lines, v)
		i = min(i, len(t.lines)-1)
		if i > 0 && v-t.lines[i-1] < t.lines[i]-v {
			i--
		}
		return i
	}
	return near(y)*len(t.lines) + near(x)
}

// neighbours calls f with each crossing that a street leads to.
func (t *town) neighbours(right, up []int32, c int, f func(to int, cost int32)) {
	n := len(t.lines)
	if right[c] > 0 {
		f(c+1, right[c])
	}
	if up[c] > 0 {
		f(c+n, up[c])
	}
	if c > 0 && right[c-1] > 0 {
		f(c-1, right[c-1])
	}
	if c >= n && up[c-n] > 0 {
		f(c-n, up[c-n])
	}
}

type start struct {
	crossing int
	cost     int32
}

const unreached = math.MaxInt32

// costs returns the least costs from the starts to the crossings within so many metres of the middle, by Dial's
// algorithm.
func (t *town) costs(right, up []int32, within float64, starts ...start) []int32 {
	const ring = 4096 // more than a street costs
	var buckets [ring][]int32
	far := make([]int32, len(t.right))
	for i := range far {
		far[i] = unreached
	}
	queued := 0
	push := func(c int, cost int32) {
		if cost < far[c] {
			far[c] = cost
			buckets[cost%ring] = append(buckets[cost%ring], int32(c))
			queued++
		}
	}
	for _, s := range starts {
		push(s.crossing, s.cost)
	}
	for cost := int32(0); queued > 0; cost++ {
		b := &buckets[cost%ring]
		for i := 0; i < len(*b); i++ {
			queued--
			c := int((*b)[i])
			if far[c] != cost {
				continue
			}
			if x, y := t.at(c); math.Abs(x) > within || math.Abs(y) > within {
				continue
			}
			t.neighbours(right, up, c, func(to int, street int32) { push(to, cost+street) })
		}
		*b = (*b)[:0]
	}
	return far
}

// down appends the way from a crossing to where far is 0 or the home begins.
func (t *town) down(way []int, right, up, far []int32, from int) []int {
	for c := from; ; {
		way = append(way, c)
		next := -1
		t.neighbours(right, up, c, func(to int, cost int32) {
			if next < 0 && far[to] == far[c]-cost {
				next = to
			}
		})
		if next < 0 {
			return way
		}
		c = next
	}
}

// An outing is a recorded activity of the home, with the goals of its first and last way.
type outing struct {
	*activityschema.Detail
	out, back int // -1: it does not begin, or end, at the home
}

// outing makes an activity: half are rides of 15 to 40 km and half runs of 5 to 12 km; most go somewhere and back, some
// around, some one way.
func (t *town) outing(n int) outing {
	length, speed, sport := 15_000+25_000*t.Float64(), 6.0, activityschema.SportCycling
	if t.IntN(2) == 0 {
		length, speed, sport = 5_000+7_000*t.Float64(), 3.0, activityschema.SportRunning
	}
	today, other := &t.days[t.IntN(len(t.days))], &t.days[t.IntN(len(t.days))]
	const winding = 1.27 // of a way in a net of streets
	bearing := 2 * math.Pi * t.Float64()
	repeats := t.Float64() < repeat
	goal := func(bearing, metres float64) int {
		if repeats { // where an earlier one of that length went
			for _, c := range t.goals {
				if x, y := t.at(c); math.Abs(math.Hypot(x-t.hx, y-t.hy)/metres-1) < 0.15 {
					return c
				}
			}
		}
		for {
			c := t.crossing(t.hx+metres*math.Cos(bearing), t.hy+metres*math.Sin(bearing))
			if today.far[c] < unreached && other.far[c] < unreached {
				t.goals = append(t.goals, c)
				t.Shuffle(len(t.goals), func(i, j int) { t.goals[i], t.goals[j] = t.goals[j], t.goals[i] })
				return c
			}
			bearing += 0.05
		}
	}
	o := outing{out: -1, back: -1}
	home := [2]float64{t.hx, t.hy}
	var way [][2]float64
	points := func(crossings []int) {
		for _, c := range crossings {
			x, y := t.at(c)
			way = append(way, [2]float64{x, y})
		}
	}
	reversed := func(w []int) []int { slices.Reverse(w); return w }
	there := func(g int) {
		way = append(way, home)
		points(reversed(t.down(nil, today.right, today.up, today.far, g)))
	}
	back := func(g int) { points(t.down(nil, other.right, other.up, other.far, g)); way = append(way, home) }
	switch kind := t.Float64(); {
	case kind < 0.15: // one way
		g := goal(bearing, min(length, 19_000)/winding)
		if t.IntN(2) == 0 {
			o.out = g
			there(g)
		} else {
			o.back = g
			back(g)
		}
	case kind < 0.4: // around
		side := length / 3 / winding
		o.out, o.back = goal(bearing, side), goal(bearing+math.Pi/3, side)
		there(o.out)
		between := t.costs(today.right, today.up, math.Inf(1), start{o.back, 0})
		if w := t.down(nil, today.right, today.up, between, o.out); len(w) > 2 {
			points(w[1 : len(w)-1])
		}
		back(o.back)
	default:
		g := goal(bearing, length/2/winding)
		o.out, o.back = g, g
		there(g)
		way = way[:len(way)-1]
		back(g)
	}
	d := &activityschema.Detail{Version: activityschema.Version}
	d.ID, d.Privacy, d.Sport = fmt.Sprintf("outing-%d", n), activityschema.PrivacyPublic, sport
	d.StartedAt.Time = rideStart.AddDate(0, 0, n).Add(time.Duration(t.IntN(36000)) * time.Second)
	s, along := &d.Timeseries, 0.0
	for i := range way {
		x, y, length := way[i][0], way[i][1], 0.0
		dx, dy := 0.0, 0.0
		if i+1 < len(way) {
			dx, dy = way[i+1][0]-x, way[i+1][1]-y
			length = math.Hypot(dx, dy)
		}
		for done := 0.0; done < max(length, 1); done += 25 {
			at := int64((along + done) / speed)
			if n := len(s.T); n > 0 && at <= s.T[n-1] {
				at = s.T[n-1] + 1
			}
			s.T = append(s.T, at)
			lat, lon := degrees(x+done/max(length, 1)*dx, y+done/max(length, 1)*dy)
			s.Lat, s.Lon = append(s.Lat, activityschema.Some(lat)), append(s.Lon, activityschema.Some(lon))
		}
		along += length
	}
	o.Detail = d
	return o
}

// ways returns the ways out that a blurred outing shows.
func (t *town) ways(d *activityschema.Detail, o outing) (seen []way) {
	s := &d.Timeseries
	from, to := 0, 0 // the longest piece, which leads to the goals
	for i, begin := 0, 0; i <= len(s.T); i++ {
		if i == len(s.T) || !s.Lat[i].Valid {
			if i-begin > to-from {
				from, to = begin, i
			}
			begin = i + 1
		}
	}
	add := func(goal, i, step int) {
		for ; goal >= 0 && i >= from && i < to; i += step {
			x, y := inMetres(s.Lat[i].Value, s.Lon[i].Value)
			c := t.crossing(x, y)
			if cx, cy := t.at(c); math.Hypot(cx-x, cy-y) < 1 {
				seen = append(seen, way{c, goal})
				return
			}
		}
	}
	add(o.out, from, 1)
	add(o.back, to-1, -1)
	return seen
}

var townEast = metreDegree * math.Cos(townLat*math.Pi/180)

// degrees returns the position of a point in metres from the middle of the town, and inMetres the reverse.
func degrees(x, y float64) (lat, lon float64) { return townLat + y/metreDegree, x / townEast }

func inMetres(lat, lon float64) (x, y float64) { return lon * townEast, (lat - townLat) * metreDegree }
