package activityschema

import (
	"cmp"
	"slices"
)

// A blurred track is cut by its first and last 200 m, for which nobody on foot
// or on a bicycle takes less than 20 seconds.
const (
	cutM = 200
	cutS = 20
)

// seenAlike is the number of other activities that make a place look like one
// where the owner lives or works.
const seenAlike = 2

// endsOf returns where an activity is seen to begin and to end: the ends of its
// track, or without one start_latlng and end_latlng. An end of a blur_start
// track is none if the samples tell that it has been cut: it lies well after
// the start of the activity, or well before its end.
func endsOf(d *Detail) []position {
	t, s := newTrack(&d.Timeseries), d.Timeseries.T
	if t.first < 0 || t.last >= len(s) {
		var ends []position
		for _, p := range [...]*LatLng{d.StartLatLng, d.EndLatLng} {
			if p != nil && (position{p[0], p[1]}).onEarth() {
				ends = append(ends, position{p[0], p[1]})
			}
		}
		return ends
	}
	cutFirst, cutLast := s[t.first] >= cutS, t.afterS >= cutS
	if d.DurationS != nil {
		first, last, duration := float64(s[t.first]), float64(s[t.last]), float64(*d.DurationS)
		cutLast = cutLast || duration-last >= cutS
		cutFirst = cutFirst || duration-(last-first) >= 2*cutS // t may count from the cut
	}
	var ends []position
	if d.Privacy != PrivacyBlurStart || !cutFirst {
		ends = append(ends, t.at(t.first))
	}
	if d.Privacy != PrivacyBlurStart || !cutLast {
		ends = append(ends, t.at(t.last))
	}
	return ends
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
		for _, p := range d.ends {
			ends = append(ends, end{p, d})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.lat, b.lat) })
	for _, file := range c.names {
		d := c.files[file].detail
		if d == nil || !d.is(PrivacyBlurStart) {
			continue
		}
		for _, p := range d.ends {
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
