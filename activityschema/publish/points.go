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
	alone:      "points on their own are left out: %d",
	noActivity: "samples from parts of the file that are not an activity are left out: %d",
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
	key := unit + " of an unsupported kind: " + name
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
	s, without := r.Samples, 0
	if !slices.ContainsFunc(s, func(s Sample) bool { return s.At <= 0 }) {
		return nil
	}
	var at []int      // samples with a position
	var way []float64 // to each of them, in metres
	for i := range s {
		if s[i].At <= 0 {
			without++
		}
		if !s[i].hasPosition() {
			continue
		}
		far := 0.0
		if n := len(at); n > 0 {
			if far = way[n-1]; !s[i].Break {
				far += s[at[n-1]].metresTo(&s[i])
			}
		}
		at, way = append(at, i), append(way, far)
	}
	if len(at) == 0 {
		return nil
	}
	lost, derived, since := 0.0, 0, -1 // since is the last one with a time
	for n := 0; n <= len(at); n++ {
		if n < len(at) && s[at[n]].At <= 0 {
			continue
		}
		switch run := n - since - 1; {
		case run == 0:
		case since >= 0 && n < len(at) && r.between(at[since:n+1], way[since:n+1]):
			derived += run
		default:
			lost += way[min(n, len(at)-1)] - way[max(since, 0)]
		}
		since = n
	}
	const most, mostM = 0.01, 100
	if lost > max(mostM, most*way[len(way)-1]) {
		return fmt.Errorf("%d points have no usable time%s, and %.0f m of the track would be missing: "+
			"correct their times, or remove these points", without, r.badTime, lost)
	}
	if derived > 0 {
		r.warn("points without a time: %d, whose times are worked out from their distances", derived)
	}
	return nil
}

// between shares the time between the first and the last of some samples out to those between them, if nobody had to
// hurry. way says how far it is to each.
func (r *Recording) between(at []int, way []float64) bool {
	s, last := r.Samples, len(at)-1
	from, length := s[at[0]].At, way[last]-way[0]
	seconds := float64(s[at[last]].At-from) / 1000
	if seconds <= 0 || early(length, nearM, paceOf(r.Sport).top, seconds) > 0 {
		return false
	}
	for n := 1; n < last; n++ {
		part := float64(n) / float64(last)
		if length > 0 {
			part = (way[n] - way[0]) / length
		}
		s[at[n]].At = from + int64(math.Round(part*seconds*1000))
	}
	r.derived = append(r.derived, [2]int64{s[at[1]].At, s[at[last-1]].At})
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
	for a, b := range legs(r.Samples) {
		steps++
		if m, ms := a.metresTo(b), b.At-a.At; m >= leastM && ms > 0 && a.At > 0 {
			speeds = append(speeds, m*1000/float64(ms))
		}
	}
	if len(speeds) < least || 2*len(speeds) < steps {
		return false
	}
	slices.SortFunc(speeds, cmp.Compare[float64])
	return speeds[len(speeds)/2] < slowMS
}
