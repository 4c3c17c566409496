package activityschema

import "math"

// blurM is how near a position must be to the cut track, in metres, to count
// as one that the track shows. A cut is of 200 m.
const blurM = 20

// noGPS reports every member that shows where a no_gps activity was. A column
// of nulls shows nothing.
func (l *linter) noGPS(d *Detail) {
	if d.Privacy != PrivacyNoGPS {
		return
	}
	for _, shown := range []struct {
		at  string
		set bool
	}{
		{"/bbox", d.BBox != nil},
		{"/start_latlng", d.StartLatLng != nil},
		{"/end_latlng", d.EndLatLng != nil},
		{"/timeseries/lat", holdsValue(d.Timeseries.Lat)},
		{"/timeseries/lon", holdsValue(d.Timeseries.Lon)},
	} {
		if shown.set {
			l.add(CodePrivacyNoGPS, shown.at, "shows where the activity was, which is no_gps: leave it out")
		}
	}
}

func holdsValue(c Column[float64]) bool {
	for _, v := range c {
		if v.Valid {
			return true
		}
	}
	return false
}

// showsEndpoint tells whether the stated end, read either way round, is where
// the end of the track lies that has its last position at sample. Anywhere
// else on the track would not do: a loop may pass the door at which it began,
// but only the endpoint says that it is the door.
func (t *track) showsEndpoint(sample int, stated, reversed position) bool {
	return sample >= 0 && (t.at(sample).within(blurM, stated) || t.at(sample).within(blurM, reversed))
}

// showsBox tells whether b reaches no further than the track.
func (t *track) showsBox(b BBox) bool {
	if t.first < 0 {
		return false
	}
	const northward = blurM / metresPerDegree
	widest := max(math.Abs(t.south), math.Abs(t.north))
	eastward := northward / max(math.Cos(widest*math.Pi/180), 1e-4)
	west, east, right := t.west, t.east, b[2]
	if b[0] > b[2] { // across the antimeridian
		turns := 360 * math.Round((b[0]-t.unrolledWest)/360)
		west, east, right = t.unrolledWest+turns, t.unrolledEast+turns, b[2]+360
	}
	return b[0] >= west-eastward && right <= east+eastward &&
		min(b[1], b[3]) >= t.south-northward && max(b[1], b[3]) <= t.north+northward
}

// links reports a summary that leads to what its privacy says is not shown.
func (l *linter) links(at spot, s *Summary) {
	track, detail := s.TrackURL != nil && *s.TrackURL != "", s.DetailURL != nil && *s.DetailURL != ""
	switch s.Privacy {
	case PrivacyNoGPS:
		if track {
			l.add(CodePrivacyNoGPS, at.member("track_url"), "a link to the track of an activity that is no_gps: null it")
		}
	case PrivacyPrivate:
		if detail {
			l.add(CodePrivacyPrivateLink, at.member("detail_url"), "a link to the detail of a private activity: null it")
		}
		if track {
			l.add(CodePrivacyPrivateLink, at.member("track_url"), "a link to the track of a private activity: null it")
		}
	}
}
