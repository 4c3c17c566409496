package activityschema

import (
	"cmp"
	"slices"
)

// A blurred track is cut by its first and last 200 m, for which nobody on foot
// or on a bicycle takes less than 20 seconds. Between the first and last position that
// it shows it is faster than where it began, but not by so much that less than hiddenM
// went by unseen.
const (
	cutM    = 200
	cutS    = 20
	hiddenM = 150
)

// seenAlike is the number of other activities that make a place look like one
// where the owner lives or works.
const seenAlike = 2

// endsOf returns where an activity shows its begin and its end: own are those that are held
// against others, the ends of its track and start_latlng and end_latlng; shown are
// those that others are held against, without an end of a blur_start track of which
// the samples tell that it has been cut.
func endsOf(d *Detail) (own, shown []position) {
	t, s := newTrack(&d.Timeseries), d.Timeseries.T
	for _, p := range [...]*LatLng{d.StartLatLng, d.EndLatLng} {
		if p != nil && (position{p[0], p[1]}).onEarth() {
			own = append(own, position{p[0], p[1]})
		}
	}
	if d.Privacy != PrivacyBlurStart || t.first < 0 {
		shown = slices.Clone(own)
	}
	if t.first < 0 {
		return own, shown
	}
	own = append(own, t.at(t.first), t.at(t.last))
	cutFirst, cutLast := false, false
	if d.Privacy == PrivacyBlurStart && t.last < len(s) {
		first, last, speed := float64(s[t.first]), float64(s[t.last]), t.length()
		if speed /= last - first; last <= first {
			speed = 0
		}
		hides := func(seconds float64) bool { return seconds >= cutS && seconds*speed >= hiddenM }
		cutFirst, cutLast = hides(first), hides(t.afterS)
		if d.DurationS != nil {
			duration := float64(*d.DurationS)
			cutLast = cutLast || hides(duration-last)
			cutFirst = cutFirst || hides((duration-(last-first))/2) // t may count from the cut
		}
	}
	if !cutFirst {
		shown = append(shown, t.at(t.first))
	}
	if !cutLast {
		shown = append(shown, t.at(t.last))
	}
	return own, shown
}

// An end is where an activity is seen to begin or to end.
type end struct {
	position
	of *detailRecord
}

// unblurred reports the blur_start activities that begin or end where several
// others do.
func (c *comparison) unblurred() {
	var ends []end
	for _, d := range c.details {
		for _, p := range d.shown {
			ends = append(ends, end{p, d})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.lat, b.lat) })
	for _, file := range c.names {
		d := c.files[file].detail
		if d == nil || !d.is(PrivacyBlurStart) {
			continue
		}
		for _, p := range d.own {
			if seenBy(ends, p, d) >= seenAlike {
				c.in(file).add(CodePrivacyBlurUnproven, "/timeseries/lat", "the track begins or ends within %d m of where other activities do, as if it had not been cut", cutM)
				break
			}
		}
	}
}

// seenBy counts, up to seenAlike, the other activities that begin or end near
// p. Another record of the same activity is no other activity.
func seenBy(ends []end, p position, self *detailRecord) int {
	const degrees = cutM / metresPerDegree * 1.001
	from, _ := slices.BinarySearchFunc(ends, p.lat-degrees, func(e end, lat float64) int { return cmp.Compare(e.lat, lat) })
	var others []*detailRecord
	for _, e := range ends[from:] {
		if e.lat > p.lat+degrees || len(others) == seenAlike {
			break
		}
		same := e.of == self || e.of.duplicateOf != "" || e.of.id == self.duplicateOf
		if !same && !slices.Contains(others, e.of) && p.within(cutM, e.position) {
			others = append(others, e.of)
		}
	}
	return len(others)
}
