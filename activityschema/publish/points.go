package publish

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A cause is why a point of a file is no sample of a document.
type cause int

const (
	noTime     cause = iota // it has none, and none follows from those around it
	backwards               // it goes back in time
	jumped                  // it is on the other side of a jump of the clock
	sameSecond              // it has another position than the sample of its second
	merged                  // its values are those of the sample of its second
	alone                   // its recording has nothing else
	noActivity              // it is in a part of the file that is no activity
	causes
)

// causeTexts are the warnings. What was merged is not lost.
var causeTexts = [causes]string{
	noTime:     "points without a time are left out: %d",
	backwards:  "samples that go back in time are left out: %d",
	jumped:     "the clock jumped by more than a day: samples on the other side are left out: %d",
	sameSecond: "positions within the same second as another are left out: %d",
	alone:      "points with nothing before or after them are left out: %d",
	noActivity: "samples of a part of the file that is no activity are left out: %d",
}

// A ledger counts the points of a file. Each is a sample in the end, or is left for a cause.
type ledger struct {
	points int
	left   [causes]int
	unread map[string]int // what was not read, by its kind
}

// leave counts points that are left for a cause.
func (f *File) leave(r *Recording, n int, why cause) {
	if n <= 0 {
		return
	}
	f.ledger.left[why] += n
	if text := causeTexts[why]; text != "" && r != nil {
		r.counts[why] += n
	}
}

// outside counts a point in a part of the file that is no activity.
func (f *File) outside() {
	f.ledger.points++
	f.leave(nil, 1, noActivity)
}

// skip counts values or messages of a kind that is not read.
func (f *File) skip(unit, kind string) {
	name := strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, kind[:min(len(kind), 32)])
	const mostKinds = 200 // of a malicious file
	key := unit + " of a kind that is not read: " + name
	if f.ledger.unread[key] > 0 || len(f.ledger.unread) < mostKinds {
		if f.ledger.unread == nil {
			f.ledger.unread = map[string]int{}
		}
		f.ledger.unread[key]++
	}
}

// say makes warnings of what was counted.
func (f *File) say() {
	shown := 0
	for _, kind := range slices.Sorted(maps.Keys(f.ledger.unread)) {
		const most = 8
		if shown++; shown > most {
			f.warn(fmt.Sprintf("further kinds that are not read: %d", len(f.ledger.unread)-most))
			break
		}
		f.warn(fmt.Sprintf("%d %s", f.ledger.unread[kind], kind))
	}
	for _, r := range f.Recordings {
		for why, n := range r.counts {
			r.drop(n, causeTexts[why])
		}
	}
	for _, why := range []cause{alone, noActivity} {
		if n := f.ledger.left[why]; n > 0 {
			f.warn(fmt.Sprintf(causeTexts[why], n))
		}
	}
}

// shareTimes gives the points without a time, between two others, the times that follow from the distances between
// them. What cannot be told so is left without a time. An error says that this is much of the track.
func (r *Recording) shareTimes() error {
	s := r.Samples
	if !slices.ContainsFunc(s, func(s Sample) bool { return s.At <= 0 }) {
		return nil
	}
	step := func(i, j int) float64 {
		if s[j].Break {
			return 0
		}
		return metres(s[i].Lat, s[i].Lon, s[j].Lat, s[j].Lon)
	}
	before := -1 // the last point with a position
	var run []int
	all, lost, derived, without := 0.0, 0.0, 0, 0
	length, since := 0.0, -1 // of the run, with the way to what follows; and the point with a time before it
	for i := range s {
		if s[i].At <= 0 {
			without++
		}
		if !s[i].hasPosition() {
			continue
		}
		if before >= 0 {
			length += step(before, i)
			all += step(before, i)
		}
		before = i
		if s[i].At <= 0 {
			run = append(run, i)
			continue
		}
		if len(run) > 0 {
			if since >= 0 && r.between(since, i, run, length) {
				derived += len(run)
			} else {
				lost += length
			}
		}
		run, length, since = run[:0], 0, i
	}
	if len(run) > 0 {
		lost += length
	}
	const most, mostM = 0.01, 100
	if lost > max(mostM, most*all) {
		return fmt.Errorf("%d points have no usable time%s, and %.0f m of the track would be missing: "+
			"correct their times, or remove these points", without, r.badTime, lost)
	}
	if derived > 0 {
		r.warn("points without a time: %d, whose times follow from their distances", derived)
	}
	return nil
}

// between shares the time between two points out to those between them, if nobody had to hurry.
func (r *Recording) between(a, b int, run []int, length float64) bool {
	s := r.Samples
	from, seconds := s[a].At, float64(s[b].At-s[a].At)/1000
	if seconds <= 0 || early(length, nearM, paceOf(r.Sport).top, seconds) > 0 {
		return false
	}
	way, last := 0.0, a
	for n, i := range run {
		if !s[i].Break {
			way += metres(s[last].Lat, s[last].Lon, s[i].Lat, s[i].Lon)
		}
		part := float64(n+1) / float64(len(run)+1)
		if length > 0 {
			part = way / length
		}
		s[i].At = from + int64(math.Round(part*seconds*1000))
		last = i
	}
	r.derived = append(r.derived, [2]int64{s[run[0]].At, s[run[len(run)-1]].At})
	return true
}

// errSameTime and errPlan are returned for tracks that nobody recorded.
var (
	errSameTime = errors.New("all points have the same time: the track was planned and not recorded")
	errPlan     = errors.New("it is a plan: its times cannot be those of a recording. " +
		"--planned imports it, without a duration")
)

// isPlan reports whether the times are not those of a recording: most steps are slower than anybody moves.
func (r *Recording) isPlan() bool {
	const least, leastM, slowMS = 10, 50, 0.05
	var speeds []float64
	var steps int
	last := -1
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.At <= 0 || !s.hasPosition() {
			continue
		}
		if last >= 0 {
			steps++
			before := &r.Samples[last]
			if m, ms := metres(before.Lat, before.Lon, s.Lat, s.Lon), s.At-before.At; m >= leastM && ms > 0 {
				speeds = append(speeds, m*1000/float64(ms))
			}
		}
		last = i
	}
	if len(speeds) < least || 2*len(speeds) < steps {
		return false
	}
	slices.SortFunc(speeds, cmp.Compare[float64])
	return speeds[len(speeds)/2] < slowMS
}
