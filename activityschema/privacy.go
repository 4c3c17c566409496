package activityschema

import (
	"math"
	"slices"
)

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
	return slices.ContainsFunc(c, func(v Null[float64]) bool { return v.Valid })
}

// showsEndpoint tells whether the stated end, read either way round, is where
// the end of the track is whose last position is at sample. Anywhere
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
	west, east, right := t.west, t.east, b[2]
	if b[0] > b[2] { // across the antimeridian
		turns := 360 * math.Round((b[0]-t.unrolledWest)/360)
		west, east, right = t.unrolledWest+turns, t.unrolledEast+turns, b[2]+360
	}
	return b[0] >= west-t.blurEast() && right <= east+t.blurEast() && t.showsLat(b[1]) && t.showsLat(b[3])
}

// blurNorth is blurM in degrees of latitude.
const blurNorth = blurM / metresPerDegree

// blurEast returns blurM in degrees of longitude, where these are the shortest along
// the track.
func (t *track) blurEast() float64 {
	widest := max(math.Abs(t.south), math.Abs(t.north))
	return blurNorth / max(math.Cos(widest*math.Pi/180), 1e-4)
}

// showsLat tells whether a latitude reaches no further than the track.
func (t *track) showsLat(lat float64) bool {
	return t.first >= 0 && lat >= t.south-blurNorth && lat <= t.north+blurNorth
}

// showsLon tells whether a longitude reaches no further than the track.
func (t *track) showsLon(lon float64) bool {
	west, east := t.unrolledWest-t.blurEast(), t.unrolledEast+t.blurEast()
	return t.first >= 0 && lon+360*math.Ceil((west-lon)/360) <= east
}

// halves reports latitudes and longitudes beyond the cut track that are no part
// of it because their other half is missing or off the Earth: a cut of one
// column only leaves the way to the door in the other.
func (l *linter) halves(d *Detail, t *track) {
	if d.Privacy != PrivacyBlurStart {
		return
	}
	l.halvesOf("/timeseries/lat", t, d.Timeseries.Lat, 90, t.showsLat)
	l.halvesOf("/timeseries/lon", t, d.Timeseries.Lon, 180, t.showsLon)
}

func (l *linter) halvesOf(at string, t *track, c Column[float64], most float64, shows func(degrees float64) bool) {
	paired := min(len(t.lat), len(t.lon))
	for i, v := range c {
		if v.Valid && math.Abs(v.Value) <= most && !(i < paired && t.has(i)) && !shows(v.Value) {
			l.addItem(CodePrivacyBlurStart, at, i, "half of a position, more than %d m beyond the cut track: null it", blurM)
		}
	}
}

// uncut warns of a blur_start track that begins at its first second and is as long
// as the distance says: nothing of it seems to have been cut.
func (l *linter) uncut(d *Detail, t *track) {
	if d.Privacy != PrivacyBlurStart || t.first < 0 || d.DistanceM == nil || t.first >= len(d.Timeseries.T) || d.Timeseries.T[t.first] != 0 {
		return
	}
	const hiddenM = 100 // less than any cut
	if length := t.length(); length > 0 && length >= *d.DistanceM-hiddenM {
		l.add(CodePrivacyBlurUncut, "/timeseries/lat", "the track begins at 0 seconds and is as long as distance_m: nothing of it has been cut")
	}
}

// links reports a summary that leads to, or names, what its privacy says is not
// shown.
func (l *linter) links(at string, s *Summary) {
	track, detail := s.TrackURL != nil && *s.TrackURL != "", s.DetailURL != nil && *s.DetailURL != ""
	switch s.Privacy {
	case PrivacyNoGPS:
		(&search{l: l}).text(at+"/title", s.Title)
		if track {
			l.add(CodePrivacyNoGPS, at+"/track_url", "a link to the track of an activity that is no_gps: null it")
		}
	case PrivacyPrivate:
		if detail {
			l.add(CodePrivacyPrivateLink, at+"/detail_url", "a link to the detail of a private activity: null it")
		}
		if track {
			l.add(CodePrivacyPrivateLink, at+"/track_url", "a link to the track of a private activity: null it")
		}
	}
}
