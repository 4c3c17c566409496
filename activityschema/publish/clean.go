package publish

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// A pace is what is possible in a sport, and what counts as standing, in metres a second.
type pace struct {
	top   float64 // faster than anybody
	climb float64 // up or down
	still float64 // slower than this is standing
}

func paceOf(sport activityschema.Sport) pace {
	switch sport {
	case activityschema.SportCycling:
		return pace{36, 8, 0.4}
	case activityschema.SportRunning:
		return pace{12.5, 5, 0.4}
	case activityschema.SportSwimming:
		return pace{6, 5, 0.2}
	case activityschema.SportWalking, activityschema.SportHiking:
		return pace{12.5, 5, 0.2}
	}
	return pace{350, 30, 0.2} // airliners are among other sports
}

const (
	// nearM and nearHeightM are how far, in metres, a good position or elevation is off.
	nearM, nearHeightM = 30, 10
	// tunnelS is the longest time, in seconds, for which a position is repeated while somebody moves.
	tunnelS = 180
	// awayS is the time, in seconds, after which somebody may have gone by car, or further.
	awayS, vehicleMS = 60, 350
	// earlyWeight is how many seconds of values are left out rather than to believe that somebody was
	// one second faster than possible.
	earlyWeight = 4
	// endWeight raises the cost of leaving out the beginning or the end, from where nothing returns.
	endWeight = 3
	// mostDropped is the largest part that may be left out. If more is out of reach, the sport is wrong.
	mostDropped = 0.4
	// restMS is the longest rest within one activity.
	restMS = 24 * 60 * 60 * 1000
)

// early returns how many seconds too early somebody was so many metres away.
func early(away, near, speed, seconds float64) float64 {
	return max(0, (math.Abs(away)-near)/speed-seconds)
}

// parts returns the recording, or several if there is a rest of more than a day in it. If the clock jumped instead, it
// returns the longest part: then the device counted no such time, or the others are short and of another month.
func (f *File) parts(r *Recording) []*Recording {
	all, pause := len(r.Samples), false
	timed := r.Samples[:0]
	for _, s := range r.Samples {
		pause = pause || s.Break
		if s.At > 0 {
			s.Break, pause = pause && len(timed) > 0, false
			timed = append(timed, s)
		}
	}
	r.Samples = timed
	f.leave(r, all-len(r.Samples), noTime)
	r.turn()
	all = len(r.Samples)
	r.Samples = ordered(r.Samples)
	f.leave(r, all-len(r.Samples), backwards)
	var pieces [][]Sample
	for i, begin := 0, 0; i < len(r.Samples); i++ {
		if i+1 == len(r.Samples) || r.Samples[i+1].At-r.Samples[i].At > restMS {
			pieces = append(pieces, r.Samples[begin:i+1:i+1])
			begin = i + 1
		}
	}
	if len(pieces) < 2 {
		return []*Recording{r}
	}
	size := func(s []Sample) int {
		if time.UnixMilli(s[0].At).Year() < firstYear { // of the clock before a fix
			return len(s) - maxSamples
		}
		return len(s)
	}
	longest := slices.MaxFunc(pieces, func(a, b []Sample) int { return cmp.Compare(size(a), size(b)) })
	oneClock := r.Source == activityschema.SourceFITFile && r.Totals.ElapsedS < restMS/1000
	var parts []*Recording
	dropped := 0
	for _, piece := range pieces {
		const short, longMS = 20, 30 * restMS
		n, away := len(piece), piece[0].At-longest[0].At
		if far := away > longMS || away < -longMS; n < 2 ||
			away != 0 && (oneClock || size(piece) <= 0 || far && n < len(longest)/short) {
			dropped += n
			continue
		}
		part := *r
		part.Samples, part.Warnings, part.counts = piece, nil, [causes]int{}
		part.Laps = slices.DeleteFunc(slices.Clone(r.Laps), func(l *Totals) bool {
			return l.Start < piece[0].At-restMS || l.Start > piece[n-1].At
		})
		if parts = append(parts, &part); len(parts) > maxRecordings {
			break // Read refuses it
		}
	}
	if len(parts) == 0 {
		f.leave(nil, dropped, jumped)
		return nil
	}
	parts[0].Warnings, parts[0].counts = r.Warnings, r.counts
	f.leave(parts[0], dropped, jumped)
	if len(parts) > 1 {
		parts[0].warn("a rest of more than a day: imported as %d activities", len(parts))
	}
	return parts
}

// turn adds a day from a midnight on at which the date of a program did not turn, until it does.
func (r *Recording) turn() {
	const dayMS, mostMS = 86_400_000, 3_600_000
	zone, n, late, last := cmp.Or(r.zone, time.UTC), 0, int64(0), newSample()
	day := func(s *Sample) int { return time.UnixMilli(s.At).In(zone).YearDay() }
	for i := range r.Samples {
		s := &r.Samples[i]
		if step := s.At - last.At; i > 0 && (step < 0 || step >= dayMS) && (step+dayMS)%dayMS <= mostMS &&
			!(early(last.metresTo(s), nearM, paceOf(r.Sport).top, float64((step+dayMS)%dayMS)/1000) > 0) {
			if step < 0 && day(s) == day(&last) {
				late += dayMS
			} else if step > 0 {
				late = max(0, late-dayMS)
			}
		}
		last = *s
		if s.At += late; late > 0 {
			n++
		}
	}
	if n > 0 {
		r.warn("the date does not turn at midnight: samples that are taken as a day later: %d", n)
	}
}

// ordered returns the samples in the order of their times. A program may write parts of a track in another order, more
// than once or backwards, or sensors in a list of their own: sorted by time, the track gets no longer. Else the clock
// went back, and the samples that do are left out.
func ordered(all []Sample) []Sample {
	byTime := func(a, b Sample) int { return cmp.Compare(a.At, b.At) }
	if slices.IsSortedFunc(all, byTime) {
		return all
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, byTime)
	if far := wayOf(all); far == 0 || wayOf(sorted) > far+nearM {
		return rising(all)
	}
	for i := range sorted {
		if s := &sorted[i]; !s.hasPosition() {
			s.Break = false
		}
	}
	return sorted
}

// legs returns the pairs of neighbours among the samples that have a position.
func legs(samples []Sample) iter.Seq2[*Sample, *Sample] {
	return func(yield func(a, b *Sample) bool) {
		var last *Sample
		for i := range samples {
			if s := &samples[i]; s.hasPosition() {
				if last != nil && !yield(last, s) {
					return
				}
				last = s
			}
		}
	}
}

func (s *Sample) metresTo(o *Sample) float64 { return metres(s.Lat, s.Lon, o.Lat, o.Lon) }

// wayOf returns how far it is along the positions, in metres.
func wayOf(samples []Sample) (far float64) {
	for a, b := range legs(samples) {
		far += a.metresTo(b)
	}
	return far
}

func (r *Recording) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// drop records that n samples, or values of so many, are left out.
func (r *Recording) drop(n int, format string) {
	if n > 0 {
		r.warn(format, n)
		r.Dropped += n
	}
}

// clean sorts out what devices get wrong. Afterwards there is at most one sample a second, and
// implausible values are unknown. It drops as few samples as possible.
func (f *File) clean(r *Recording) {
	if len(r.Samples) == 0 {
		return
	}
	start, kept, pause := r.Samples[0].At/1000, r.Samples[:1], false
	for _, s := range r.Samples[1:] {
		pause = pause || s.Break
		if last := &kept[len(kept)-1]; last.At/1000 != s.At/1000 {
			s.Break, pause = pause, false
			kept = append(kept, s)
		} else if again := s.Lat == last.Lat && s.Lon == last.Lon; again || !pause {
			pause = pause && !again
			f.merge(r, last, &s)
		} else {
			f.leave(r, 1, sameSecond)
		}
	}
	r.Samples = kept
	if !r.planned {
		r.mergeBeats()
		r.reach()
		r.cumulate()
		r.speeds()
	}
	r.plausible()
	if r.planned || r.Totals.Start == 0 || math.Abs(float64(r.Totals.Start/1000-start)) > restMS/1000 {
		r.Totals.Start = start * 1000
	}
	first, last := min(r.Totals.Start, start*1000), kept[len(kept)-1].At
	r.Laps = slices.DeleteFunc(r.Laps, func(l *Totals) bool { return l.Start < first-1000 || l.Start > last })
	slices.SortStableFunc(r.Laps, func(a, b *Totals) int { return cmp.Compare(a.Start, b.Start) })
	r.Laps = slices.CompactFunc(r.Laps, func(a, b *Totals) bool { return a.Start/1000 == b.Start/1000 })
}

// plausible makes values unknown that no recording of a person has.
func (r *Recording) plausible() {
	var odd [7]int
	top := paceOf(r.Sport).top
	for i := range r.Samples {
		s := &r.Samples[i]
		if !s.hasPosition() {
			s.Lat, s.Lon = unknown, unknown
		}
		if s.ElevationM == -500 { // the raw value 0 of FIT, of a device without an altitude
			s.ElevationM = unknown
		}
		odd[0] += within(&s.ElevationM, -499, 20_000, unknown)
		odd[1] += within(&s.TempC, -60, 80, unknown)
		odd[2] += within(&s.DistanceM, 0, 1e8, unknown)
		odd[3] += within(&s.SpeedMS, 0, top, unknown)
		if s.HRBpm == 0 { // no contact
			s.HRBpm = -1
		}
		odd[4] += within(&s.HRBpm, -1, 250, -1)
		odd[5] += within(&s.CadenceRpm, -1, 254, -1)
		odd[6] += within(&s.PowerW, -1, 3000, -1)
	}
	var list []string
	for i, name := range [...]string{"elevation", "temperature", "distance", "speed", "heart rate",
		"cadence", "power"} {
		if odd[i] > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, odd[i]))
		}
	}
	if list != nil {
		r.warn("impossible body values are left out: %s", strings.Join(list, ", "))
	}
	r.strides()
}

// within makes a value unknown that is out of its bounds, and returns how many it made so.
func within[T int32 | float64](v *T, least, most, unknown T) int {
	if *v < least || *v > most {
		*v = unknown
		return 1
	}
	return 0
}

// strides halves a cadence that counts the steps of both legs, as some programs write it.
func (r *Recording) strides() {
	const mostStrides = 120 // a minute; nobody keeps up more
	if paceOf(r.Sport).top != paceOf(activityschema.SportRunning).top {
		return // not on foot
	}
	above, all := 0, 0
	for i := range r.Samples {
		if c := r.Samples[i].CadenceRpm; c > 0 {
			all++
			if c > mostStrides {
				above++
			}
		}
	}
	if 2*above <= all {
		return
	}
	for i := range r.Samples {
		if c := &r.Samples[i].CadenceRpm; *c > 0 {
			*c = (*c + 1) / 2
		}
	}
	r.Totals.AvgCadence /= 2
}

// cumulate sums up the distances of a program that writes each from the point before, such as OpenTracks.
func (r *Recording) cumulate() {
	const factor = 1.3
	if r.Source != activityschema.SourceGPXFile {
		return
	}
	sum, way, summed := 0.0, wayOf(r.Samples), slices.Clone(r.Samples)
	for i := range summed {
		if v := &summed[i].DistanceM; *v > 0 {
			sum += *v
			*v = sum
		}
	}
	if way/factor < sum && sum < way*factor && odometer(r.Samples, paceOf(r.Sport).top) < sum/2 {
		r.Samples = summed
	}
}

// speeds forgets speeds that are not metres a second, as the positions tell. Where neither positions nor
// a sensor give speeds, the distances of the device do.
func (r *Recording) speeds() {
	track, speed := 0.0, 0.0
	positions, sensor := false, false
	for i := range r.Samples {
		b := &r.Samples[i]
		positions, sensor = positions || b.hasPosition(), sensor || !math.IsNaN(b.SpeedMS)
		if i == 0 || b.Break || math.IsNaN(b.SpeedMS) {
			continue
		}
		a, seconds := &r.Samples[i-1], float64(b.At-r.Samples[i-1].At)/1000
		switch {
		case seconds > shortestGapS:
		case a.hasPosition() && b.hasPosition():
			track += metres(a.Lat, a.Lon, b.Lat, b.Lon)
			speed += b.SpeedMS * seconds
		case b.DistanceM >= a.DistanceM:
			track += b.DistanceM - a.DistanceM
			speed += b.SpeedMS * seconds
		}
	}
	const leastM, most, least = 200, 1.5, 0.5
	wrong := track > leastM && (speed > most*track || speed < least*track)
	if wrong {
		r.warn("the speeds in the file do not match distances and times in metres per second: they are recalculated")
	}
	for i := range r.Samples {
		switch b := &r.Samples[i]; {
		case wrong:
			b.SpeedMS = unknown
		case !positions && !sensor && i > 0 && !b.Break:
			a := &r.Samples[i-1]
			b.SpeedMS = max(0, (b.DistanceM-a.DistanceM)*1000/float64(b.At-a.At))
		}
	}
}

// reach makes positions and elevations unknown that cannot be reached from those before and after.
// At the start, devices may show where they were switched off last, or sea level.
func (r *Recording) reach() {
	limits := paceOf(r.Sport)
	s := r.Samples
	seconds := func(i, j int) float64 { return float64(s[j].At-s[i].At) / 1000 }
	var at []int // samples with a position other than the one before: devices repeat them
	invalid := 0
	for i := range s {
		switch p := &s[i]; {
		case !p.hasPosition():
			if math.Abs(p.Lat)+math.Abs(p.Lon) > 0 {
				invalid++
			}
			p.Lat, p.Lon = unknown, unknown
		case len(at) == 0 || s[at[len(at)-1]].Lat != p.Lat || s[at[len(at)-1]].Lon != p.Lon:
			at = append(at, i)
		}
	}
	r.tunnels(at)
	if len(at) > 10 {
		// Most of a recording is far from the limit of the sport.
		speeds := make([]float64, len(at)-1)
		for n := range speeds {
			a, b := &s[at[n]], &s[at[n+1]]
			speeds[n] = metres(a.Lat, a.Lon, b.Lat, b.Lon) / max(seconds(at[n], at[n+1]), 1)
		}
		slices.Sort(speeds)
		const usually, leastMS = 4, 12
		limits.top = min(limits.top, max(leastMS, usually*speeds[len(speeds)*9/10]))
	}
	defer r.carried(paceOf(r.Sport).top)
	n := r.outOfReach(at, func(i, j int) float64 {
		a, b, speed := &s[i], &s[j], limits.top
		if b.Break || seconds(i, j) > awayS {
			speed = vehicleMS
		}
		return early(metres(a.Lat, a.Lon, b.Lat, b.Lon), nearM, speed, seconds(i, j))
	}, func(i int) bool {
		known := s[i].hasPosition()
		s[i].Lat, s[i].Lon = unknown, unknown
		return known
	})
	r.drop(n+invalid, "impossible positions are left out: %d")
	heights := make([]float64, len(s))
	at = at[:0]
	for i := range s {
		if heights[i] = s[i].ElevationM; !math.IsNaN(heights[i]) {
			at = append(at, i)
		}
	}
	near := max(nearHeightM, coarse(heights))
	early := func(i, j int) float64 {
		return early(s[j].ElevationM-s[i].ElevationM, near, limits.climb, seconds(i, j))
	}
	forget := func(i int) bool {
		known := !math.IsNaN(s[i].ElevationM)
		s[i].ElevationM = unknown
		return known
	}
	n = 0
	zero, zeros, leap := func(i int) bool { return s[i].ElevationM == 0 }, 0, false
	for k, i := range at {
		if zero(i) {
			zeros++
		}
		leap = leap || k > 0 && zero(i) != zero(at[k-1]) && early(at[k-1], i) > 0
	}
	if leap && 10*zeros < 9*len(at) { // they stand for no value
		at = slices.DeleteFunc(at, func(i int) bool { return zero(i) && forget(i) })
		n = zeros
	}
	n += r.outOfReach(at, early, forget)
	r.drop(n, "impossible elevations are left out: %d")
}

// tunnels puts samples on the line to the next position where a device repeated the last for a while, and the next is
// out of reach from there. at are the samples with a new position.
func (r *Recording) tunnels(at []int) {
	s, limits := r.Samples, paceOf(r.Sport)
	seconds := func(i, j int) float64 { return float64(s[j].At-s[i].At) / 1000 }
	late := func(i, j, until int) bool {
		return early(s[i].metresTo(&s[j]), nearM, limits.top, seconds(until, j)) > 0
	}
	for n := 1; n+1 < len(at); n++ {
		from, to, next := at[n-1], at[n], at[n+1]
		if to-from > 1 && seconds(from, to) <= tunnelS && late(from, to, to-1) && !late(from, to, from) &&
			!late(to, next, to) && s[from].metresTo(&s[to]) >= limits.still*seconds(from, to) {
			r.line(from, to)
		}
	}
}

// carried marks as a pause where somebody came further than the sport allows while nothing was recorded: by car, or
// with a ferry.
func (r *Recording) carried(top float64) {
	for a, b := range legs(r.Samples) {
		seconds := float64(b.At-a.At) / 1000
		b.Break = b.Break || seconds > awayS && early(a.metresTo(b), nearM, top, seconds) > 0
	}
}

// outOfReach forgets the values that cost least to leave out, and returns how many. To leave out a value costs the
// seconds until the next, to keep it the seconds by which it comes too early after the last one that is kept. at are
// the samples with a new value; early returns how many seconds too early a sample comes after another.
func (r *Recording) outOfReach(at []int, early func(i, j int) float64, forget func(i int) bool) (n int) {
	var from []int // the first of at of each piece, within which all can be reached
	odd := false
	for n, i := range at {
		far := n > 0 && early(at[n-1], i) > 0
		odd = odd || far
		if n == 0 || far || r.Samples[i].Break || r.Samples[i].At-r.Samples[at[n-1]].At > awayS*1000 {
			from = append(from, n)
		}
	}
	if !odd {
		return 0
	}
	pieces := len(from)
	from = append(from, len(at))
	at = append(at, len(r.Samples))
	before := make([]float64, pieces+1) // seconds of the pieces before
	for k := range pieces {
		end := r.Samples[len(r.Samples)-1].At + 1000
		if to := at[from[k+1]]; to < len(r.Samples) {
			end = r.Samples[to].At
		}
		before[k+1] = before[k] + float64(min(end-r.Samples[at[from[k]]].At, int64(from[k+1]-from[k])*awayS*1000))/1000
	}
	cost, previous := make([]float64, pieces), make([]int, pieces)
	last, least := 0, math.Inf(1)
	for k := range pieces {
		cost[k], previous[k] = endWeight*before[k], -1
		for j := max(0, k-200); j < k; j++ {
			c := cost[j] + before[k] - before[j+1]
			if c >= cost[k] {
				continue
			}
			if c += earlyWeight * early(at[from[j+1]-1], at[from[k]]); c < cost[k] {
				cost[k], previous[k] = c, j
			}
		}
		if c := cost[k] + endWeight*(before[pieces]-before[k+1]); c < least {
			last, least = k, c
		}
	}
	keep := make([]bool, pieces)
	kept := 0.0
	for k := last; k >= 0; k = previous[k] {
		keep[k] = true
		kept += before[k+1] - before[k]
	}
	if kept < (1-mostDropped)*before[pieces] {
		return 0
	}
	for k := range pieces {
		for i := at[from[k]]; !keep[k] && i < at[from[k+1]]; i++ {
			if forget(i) {
				n++
			}
		}
	}
	return n
}

// rising returns a longest subsequence of the samples whose times do not descend (patience sorting).
func rising(all []Sample) []Sample {
	before := make([]int32, len(all))
	var ends []int32 // ends[n] is the sample with the least time that ends a subsequence of n+1
	for i := range all {
		n, _ := slices.BinarySearchFunc(ends, all[i].At, func(e int32, at int64) int {
			if all[e].At <= at {
				return -1
			}
			return 1
		})
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, int32(i))
		} else {
			ends[n] = int32(i)
		}
	}
	kept := make([]Sample, len(ends))
	for n, i := len(ends)-1, ends[len(ends)-1]; n >= 0; n, i = n-1, before[i] {
		kept[n] = all[i]
		if n > 0 && before[i] != i-1 {
			kept[n].Break = true
		}
	}
	return kept
}
