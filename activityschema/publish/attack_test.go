package publish

import (
	"encoding/base64"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// trackEnds are where the published tracks begin and end, in metres, and the distinct places of these.
type trackEnds struct{ all, distinct [][2]float64 }

// simple are attackers without a map.
var simple = map[string]func(e trackEnds) (x, y float64){
	"circle through the ends":   func(e trackEnds) (x, y float64) { return circle(e.distinct) },
	"circle, weighted":          func(e trackEnds) (x, y float64) { return circle(e.all) },
	"mean of the ends":          func(e trackEnds) (x, y float64) { return middle(e.all) },
	"mean of the places":        func(e trackEnds) (x, y float64) { return middle(e.distinct) },
	"median of the ends":        func(e trackEnds) (x, y float64) { return median(e.all) },
	"where more ends are":       func(e trackEnds) (x, y float64) { return beyond(2, e) },
	"a little where more are":   func(e trackEnds) (x, y float64) { return beyond(1.5, e) },
	"middle of the box of ends": func(e trackEnds) (x, y float64) { return box(e.all) },
}

func middle(points [][2]float64) (x, y float64) {
	for _, p := range points {
		x, y = x+p[0]/float64(len(points)), y+p[1]/float64(len(points))
	}
	return x, y
}

// circle fits a circle through points by least squares and returns its centre.
func circle(points [][2]float64) (x, y float64) {
	mx, my := middle(points)
	var uu, vv, uv, u3, v3 float64
	for _, p := range points {
		u, v := p[0]-mx, p[1]-my
		uu, vv, uv = uu+u*u, vv+v*v, uv+u*v
		u3, v3 = u3+u*(u*u+v*v)/2, v3+v*(u*u+v*v)/2
	}
	det := uu*vv - uv*uv
	if math.Abs(det) < 1 {
		return mx, my
	}
	return mx + (u3*vv-v3*uv)/det, my + (v3*uu-u3*uv)/det
}

// beyond goes from the centre of the circle on through the mean: with ways in all directions the mean
// of the ends is half way from the centre to the home.
func beyond(times float64, e trackEnds) (x, y float64) {
	cx, cy := circle(e.distinct)
	mx, my := middle(e.all)
	return cx + times*(mx-cx), cy + times*(my-cy)
}

func axes(points [][2]float64) (xs, ys []float64) {
	for _, p := range points {
		xs, ys = append(xs, p[0]), append(ys, p[1])
	}
	return xs, ys
}

func median(points [][2]float64) (x, y float64) {
	xs, ys := axes(points)
	return middleOf(xs), middleOf(ys)
}

func box(points [][2]float64) (x, y float64) {
	xs, ys := axes(points)
	return (slices.Min(xs) + slices.Max(xs)) / 2, (slices.Min(ys) + slices.Max(ys)) / 2
}

// A way is one out of the zone as a track shows it: the crossing where it is first seen, and where it goes.
type way struct{ exit, goal int }

// A house is on the street between two crossings.
type house struct {
	x, y   float64
	a, b   int
	toA    float64 // what the way to a costs
	toB    float64
	chance float64 // that it is the home
}

// A mapped attacker has a street map and knows how people choose their ways, the centre of the zone and its radius,
// and how far a home may be from the centre. For each house and goal he computes how likely each way out is: people
// take a detour with a chance of exp(-detour/45 m), and now and then any way.
type mapped struct {
	*town
	cx, cy     float64
	exits      []int           // all crossings on the edge of the zone
	houses     []house         // all that may be the home
	fromCorner map[int][]int32 // costs from the crossings beside them
	fromGoal   map[int][]int32
	likely     map[int][]float64
}

const (
	detourM = 45
	anyWay  = 0.03
	// asOne is the weight of a way, since a person's ways resemble each other.
	asOne = 0.7
)

func newMapped(w *town, z zone) *mapped {
	m := &mapped{town: w, fromCorner: map[int][]int32{}, fromGoal: map[int][]int32{}, likely: map[int][]float64{}}
	m.cx, m.cy = inMetres(z.lat, z.lon)
	away := func(c int) float64 { x, y := w.at(c); return math.Hypot(x-m.cx, y-m.cy) }
	for c := range w.right {
		if far := away(c); far >= z.radius && far < z.radius+2*countryGap {
			edge := false
			w.neighbours(w.right, w.up, c, func(to int, _ int32) { edge = edge || away(to) < z.radius })
			if edge {
				m.exits = append(m.exits, c)
			}
		}
		if away(c) > offsetM+blockM {
			continue
		}
		x, y := w.at(c)
		for k, cost := range []int32{w.right[c], w.up[c]} {
			if cost < blockM { // no street, or a main road where nobody lives
				continue
			}
			to, dx, dy := c+1, 1.0, 0.0
			if k == 1 {
				to, dx, dy = c+len(w.lines), 0.0, 1.0
			}
			for along := 10.0; along < blockM; along += 20 {
				h := house{x: x + along*dx, y: y + along*dy, a: c, b: to, toA: along, toB: blockM - along}
				if math.Hypot(h.x-m.cx, h.y-m.cy) > offsetM {
					continue
				}
				m.houses = append(m.houses, h)
				for _, corner := range []int{c, to} {
					if m.fromCorner[corner] == nil {
						m.fromCorner[corner] = w.costs(w.right, w.up, z.radius+offsetM+blockM, start{corner, 0})
					}
				}
			}
		}
	}
	return m
}

// leave returns for each house how likely its way leads to an exit, but for a factor.
func (m *mapped) leave(exit int) []float64 {
	if m.likely[exit] == nil {
		m.likely[exit] = make([]float64, len(m.houses))
		for i := range m.houses {
			h := &m.houses[i]
			cost := min(h.toA+float64(m.fromCorner[h.a][exit]), h.toB+float64(m.fromCorner[h.b][exit]))
			m.likely[exit][i] = math.Exp(-cost / detourM)
		}
	}
	return m.likely[exit]
}

// learn updates the chances of the houses by a way.
func (m *mapped) learn(seen way) {
	if m.fromGoal[seen.goal] == nil {
		m.fromGoal[seen.goal] = m.costs(m.right, m.up, math.Inf(1), start{seen.goal, 0})
	}
	fromGoal := m.fromGoal[seen.goal]
	least := slices.MinFunc(m.exits, func(a, b int) int { return int(fromGoal[a]) - int(fromGoal[b]) })
	rest := func(exit int) float64 { return math.Exp(-float64(fromGoal[exit]-fromGoal[least]) / detourM) }
	all := make([]float64, len(m.houses))
	for _, exit := range m.exits {
		if r := rest(exit); r > 1e-40 {
			for i, l := range m.leave(exit) {
				all[i] += l * r
			}
		}
	}
	r := rest(seen.exit)
	for i, l := range m.leave(seen.exit) {
		chance := (1-anyWay)*l*r/(all[i]+1e-300) + anyWay/float64(len(m.exits))
		m.houses[i].chance += asOne * math.Log(chance)
	}
}

// find returns whether the home is where most chance lies within 50 m and 100 m, and how many houses are as likely.
func (m *mapped) find() (found [2]bool, possible int) {
	top := slices.MaxFunc(m.houses, func(a, b house) int { return int(math.Copysign(1, a.chance-b.chance)) }).chance
	home, atHome := math.Inf(1), 0.0
	for _, h := range m.houses {
		if far := math.Hypot(h.x-m.hx, h.y-m.hy); far < home {
			home, atHome = far, h.chance
		}
	}
	for _, h := range m.houses {
		if h.chance >= atHome {
			possible++
		}
	}
	for k, within := range []float64{50, 100} {
		most := -1.0
		for _, h := range m.houses {
			if h.chance < top-10 {
				continue
			}
			sum := 0.0
			for _, o := range m.houses {
				if o.chance > top-10 && math.Hypot(h.x-o.x, h.y-o.y) <= within {
					sum += math.Exp(o.chance - top)
				}
			}
			if sum > most {
				most, found[k] = sum, math.Hypot(h.x-m.hx, h.y-m.hy) <= within
			}
		}
	}
	return found, possible
}

const mostActivities = 50

// foundAtMost are the greatest shares of towns, in percent, in which the home may be found to within 50 and 100 metres
// with the usual radius and 6, 12 and 50 activities. In 100 towns it was found in 5 and 14, 14 and 27, and 22 and 45 of
// them; of 30 towns, as they are tried here, the share is within 15 points of that.
var foundAtMost = [3][2]float64{{20, 29}, {29, 42}, {37, 60}}

// An outcome is what the attackers get in a town.
type outcome struct {
	found    [3][2]bool // with 6, 12 and 50 activities, within 50 and 100 metres
	possible [3]int
	misses   map[string]float64
	ride     []float64 // shares that rides of about 25 km show
	run      []float64 // and runs of about 8 km
}

// attackTown publishes 50 activities of a home and attacks it.
func attackTown(t *testing.T, w *town, radius float64) (o outcome) {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(w.Uint32())
	}
	places := &Places{Key: base64.StdEncoding.EncodeToString(key)}
	lat, lon := degrees(w.hx, w.hy)
	if err := places.Add(Place{Name: "home", Lat: lat, Lon: lon, RadiusM: radius}); err != nil {
		t.Error(err)
		return o
	}
	m := newMapped(w, places.zones[0])
	var e trackEnds
	for n := 0; n < mostActivities; {
		out := w.outing(n)
		track, shown := newMotion(&out.Detail.Timeseries, "other", nil), 0.0
		for _, p := range longEnough(track, shownPieces(track.Timeseries, places)) {
			shown += track.sumOver(p.from, p.to).metres
		}
		all := track.sumOver(0, len(track.T)).metres
		switch {
		case all > 22_000 && all < 28_000:
			o.ride = append(o.ride, shown/all)
		case all > 7_000 && all < 9_000:
			o.run = append(o.run, shown/all)
		}
		d, err := Blur(out.Detail, places, false)
		if err != nil {
			continue // too little is left
		}
		n++
		if *d.DistanceM > shown+1 {
			t.Errorf("a track of %.0f m says that it is %.0f m long", shown, *d.DistanceM)
		}
		for _, p := range []int{0, len(d.Timeseries.T) - 1} {
			x, y := inMetres(d.Timeseries.Lat[p].Value, d.Timeseries.Lon[p].Value)
			end := [2]float64{x, y}
			e.all = append(e.all, end)
			if !slices.ContainsFunc(e.distinct, func(q [2]float64) bool { return math.Hypot(q[0]-x, q[1]-y) < 15 }) {
				e.distinct = append(e.distinct, end)
			}
		}
		for _, seen := range w.ways(d, out) {
			m.learn(seen)
		}
		if k := slices.Index([]int{6, 12, mostActivities}, n); k >= 0 {
			o.found[k], o.possible[k] = m.find()
		}
	}
	o.misses = map[string]float64{}
	for name, attack := range simple {
		x, y := attack(e)
		o.misses[name] = math.Hypot(x-w.hx, y-w.hy)
	}
	return o
}

// Somebody who has all published activities of a member, and knows everything but the key and the home, finds it no
// more often than the member is told; without a street map, hardly ever. ATTACK_TOWNS, ATTACK_SEED and ATTACK_RADIUS
// try others. The table of docs/publish.md is of 100 towns with seeds from 3000 on.
func TestAttackerWithAStreetMap(t *testing.T) {
	racetest.Skip(t)
	towns, seed, radius := 30, 1, DefaultRadiusM
	for name, to := range map[string]*int{"ATTACK_TOWNS": &towns, "ATTACK_SEED": &seed, "ATTACK_RADIUS": &radius} {
		if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
			*to = v
		}
	}
	for _, mainRoads := range []bool{false, true} {
		outcomes := make([]outcome, towns)
		slots, done := make(chan struct{}, workers()), make(chan struct{})
		for n := range towns {
			go func() {
				slots <- struct{}{}
				defer func() { <-slots; done <- struct{}{} }()
				outcomes[n] = attackTown(t, newTown(uint64(seed+n), mainRoads), float64(radius))
			}()
		}
		for range towns {
			<-done
		}
		report(t, mainRoads, float64(radius), outcomes)
	}
}

func report(t *testing.T, mainRoads bool, radius float64, outcomes []outcome) {
	kind := "equal streets"
	if mainRoads {
		kind = "main roads"
	}
	percent := func(n int) float64 { return 100 * float64(n) / float64(len(outcomes)) }
	var ride, run []float64
	near := map[string]*[2]int{}
	for name := range simple {
		near[name] = new([2]int)
	}
	for _, o := range outcomes {
		ride, run = append(ride, o.ride...), append(run, o.run...)
		for name, miss := range o.misses {
			if miss <= 50 {
				near[name][0]++
			}
			if miss <= 100 {
				near[name][1]++
			}
		}
	}
	shownRide, shownRun := 100*middleOf(ride), 100*middleOf(run)
	t.Logf("%s, radius %.0f m: a ride of 25 km shows %.0f %%, a run of 8 km %.0f %%", kind, radius, shownRide, shownRun)
	if radius == DefaultRadiusM && (shownRide < 75 || shownRun < 35) {
		t.Error("the usual radius hides too much")
	}
	for k, activities := range []int{6, 12, mostActivities} {
		var found [2]int
		var possible []float64
		for _, o := range outcomes {
			possible = append(possible, float64(o.possible[k]))
			for i, yes := range o.found[k] {
				if yes {
					found[i]++
				}
			}
		}
		t.Logf("%s, radius %.0f m, %2d activities: within 50 m in %.0f %%, within 100 m in %.0f %%; %.0f houses as likely",
			kind, radius, activities, percent(found[0]), percent(found[1]), middleOf(possible))
		most := foundAtMost[k]
		if radius == DefaultRadiusM && (percent(found[0]) > most[0] || percent(found[1]) > most[1]) {
			t.Errorf("the home is found more often than in %.0f and %.0f %%", most[0], most[1])
		}
	}
	for name, n := range near {
		t.Logf("%s, %s: within 50 m in %.0f %%, within 100 m in %.0f %%", kind, name, percent(n[0]), percent(n[1]))
		if percent(n[0]) > 5 || percent(n[1]) > 20 {
			t.Errorf("the attacker by the %s finds the home", name)
		}
	}
}
