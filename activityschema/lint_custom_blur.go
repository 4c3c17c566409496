package activityschema

import "slices"

// hides tells whether the value just read shows, in positions, what the activity
// does not: any at all if it is no_gps, otherwise one that the cut track does not show,
// or where the track began or ended before it was cut.
func (s *customSearch) hides(all []reading) bool {
	if s.privacy != PrivacyBlurStart {
		return len(all) > 0
	}
	return slices.ContainsFunc(all, s.beyond) || len(all) == 1 && s.statesUncutEnd(all[0]) || len(all) >= leastLine && s.uncutLine(all)
}

// beyond tells whether r is a position that the cut track does not show,
// whatever r means. A rounded position may lie beside the track by what the
// rounding moved it.
func (s *customSearch) beyond(r reading) bool {
	if s.privacy != PrivacyBlurStart {
		return false
	}
	if s.grid == nil {
		s.grid = s.track.grid()
	}
	position := false
	for p, roundedM := range r.meanings {
		if s.left <= 0 {
			return true
		}
		if s.grid.near(s.track, p, blurM+roundedM, &s.left) {
			return false
		}
		i := s.track.passes(p, blurM+roundedM, s.sample)
		if i >= s.sample {
			s.left -= i - s.sample
		} else {
			s.left -= s.track.last - s.track.first + 1
		}
		if i >= 0 {
			s.sample = i
			return false
		}
		position = true
	}
	return position
}

// A course may pass the door at which it began. A position there is on the track, and
// tells nothing, unless something says that it is the door: a name, or that a line
// begins there. Whoever cuts 200 m is by uncutM away at most from where he began.
const (
	uncutM    = 300
	leastLine = 10 // positions of a line, rather than some places
)

// endsOfTrack are the samples at which the track, followed from either end, has gone
// uncutM away from that end for the first time.
type endsOfTrack struct{ left, back int }

func (s *customSearch) ends() endsOfTrack {
	if s.around == nil {
		t := s.track
		first, last := t.at(t.first), t.at(t.last)
		e := endsOfTrack{t.first, t.last}
		for e.left < t.last && (!t.has(e.left) || first.within(uncutM, t.at(e.left))) {
			e.left++
		}
		for e.back > t.first && (!t.has(e.back) || last.within(uncutM, t.at(e.back))) {
			e.back--
		}
		s.around = &e
	}
	return *s.around
}

// statesUncutEnd tells whether r stands under a name that says that the activity
// began or ended there while the track, as it is cut, does not.
func (s *customSearch) statesUncutEnd(r reading) bool {
	named := namedEnd(s.path)
	t := s.track
	if t.first < 0 || !named.begin && !named.end {
		return false
	}
	first, last, e := t.at(t.first), t.at(t.last), s.ends()
	uncut := false
	for p, roundedM := range r.meanings {
		near := blurM + roundedM
		if roundedM > blurM || named.begin && p.within(near, first) || named.end && p.within(near, last) {
			return false
		}
		if s.left -= e.left - t.first + t.last - e.back; s.left <= 0 {
			return true
		}
		// Something else that begins, a climb, may begin as the track leaves its own begin.
		began := named.begin && p.within(uncutM, first) && t.passesBetween(p, near, t.first, e.left) < 0
		ended := named.end && p.within(uncutM, last) && t.passesBetween(p, near, e.back, t.last) < 0
		uncut = uncut || named.whole || began || ended
	}
	return uncut
}

// uncutLine tells whether all, which are on the track, begin or end near the end of
// the track but not there, and do not follow it: they are then of
// the way before it was cut, and on it only as the course came by again.
func (s *customSearch) uncutLine(all []reading) bool {
	if s.track.first < 0 || !s.besideEnd(all[0]) && !s.besideEnd(all[len(all)-1]) {
		return false
	}
	if s.followed(all) {
		return false
	}
	slices.Reverse(all)
	defer slices.Reverse(all)
	return !s.followed(all)
}

// besideEnd tells whether r lies near the begin or the end of the track, but is
// neither.
func (s *customSearch) besideEnd(r reading) bool {
	first, last := s.track.at(s.track.first), s.track.at(s.track.last)
	beside := false
	for p, roundedM := range r.meanings {
		if near := blurM + roundedM; roundedM > blurM || p.within(near, first) || p.within(near, last) {
			return false
		}
		beside = beside || p.within(uncutM, first) || p.within(uncutM, last)
	}
	return beside
}

// followed tells whether the track comes by all, one after another.
func (s *customSearch) followed(all []reading) bool {
	t := s.track
	i, before := t.first, -1
	for _, r := range all {
		for !t.comesBy(r, before, i) {
			before = i
			for i++; i <= t.last && !t.has(i); i++ {
			}
			if s.left -= i - before; i > t.last || s.left <= 0 {
				return false
			}
		}
	}
	return true
}

// comesBy tells whether r, whatever it means, is at sample i or on the way there from
// the sample before, which is -1 if there is none.
func (t *track) comesBy(r reading, before, i int) bool {
	q := t.at(i)
	for p, roundedM := range r.meanings {
		near := blurM + roundedM
		if p.within(near, q) || before >= 0 && p.withinLine(near, t.at(before), q) && t.at(before).within(gapM, q) {
			return true
		}
	}
	return false
}
