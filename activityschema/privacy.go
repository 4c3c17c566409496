package activityschema

import (
	"math"
	"slices"
)

// blurM is the distance, in metres, within which a position counts as shown by the cut track. A
// cut is 200 m.
const blurM = 20

// noGPS reports every member that shows where a no_gps activity was. A column of nulls shows
// nothing.
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

// showsEndpoint reports whether the stated end, in either order of its numbers, is near the end
// of the track at sample. Being near another part of the track is not enough: a loop may pass the
// door where it began, but only the endpoint reveals that it is the door.
func (t *track) showsEndpoint(sample int, stated, reversed position) bool {
	return sample >= 0 && (t.at(sample).within(blurM, stated) || t.at(sample).within(blurM, reversed))
}

// showsBox reports whether b extends no further than the track.
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

// blurEast returns blurM in degrees of longitude, at the latitude of the track where these are
// shortest.
func (t *track) blurEast() float64 {
	widest := max(math.Abs(t.south), math.Abs(t.north))
	return blurNorth / max(math.Cos(widest*math.Pi/180), 1e-4)
}

// showsLat reports whether a latitude is no further out than the track.
func (t *track) showsLat(lat float64) bool {
	return t.first >= 0 && lat >= t.south-blurNorth && lat <= t.north+blurNorth
}

// showsLon reports whether a longitude is no further out than the track.
func (t *track) showsLon(lon float64) bool {
	west, east := t.unrolledWest-t.blurEast(), t.unrolledEast+t.blurEast()
	return t.first >= 0 && lon+360*math.Ceil((west-lon)/360) <= east
}

// halves reports latitudes and longitudes beyond the cut track whose other half is missing or off
// the Earth. If only one column was cut, the other still shows the way to the door.
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
			l.addItem(CodePrivacyBlurStart, at, i,
				"half of a position, more than %d m beyond the cut track: null it", blurM)
		}
	}
}

// Tolerance between a cut track and the figures of its document: writers round, and compute climbs
// from smoothed elevations.
const (
	lengthSlackM            = 30
	speedSlack              = 1.02
	timeSlackS              = 5
	climbSlack, climbSlackM = 1.05, 10
)

// longest returns the greatest length of the track by any usual formula for distances. The
// ellipsoid and a sphere with the radius of the equator exceed the mean sphere by 0.12 % at the
// equator and by 0.46 % at the poles.
func (t *track) longest() float64 {
	north := math.Sin(max(math.Abs(t.south), math.Abs(t.north)) * math.Pi / 180)
	return t.length() * (1.0012 + 0.0034*north*north)
}

// extent is the maximum of the figures of a blur_start activity, from its cut track. Knowing how
// much was cut and a map of the streets is enough to find where the activity began.
type extent struct {
	metres, seconds float64
	climb, descent  float64 // infinite without elevations, as seconds are without t
}

// extentOf returns nil for an activity that is not cut or has no track.
func extentOf(d *Detail, t *track) *extent {
	s := &d.Timeseries
	if d.Privacy != PrivacyBlurStart || t.first < 0 {
		return nil
	}
	e := &extent{metres: t.longest() + lengthSlackM, seconds: math.Inf(1), climb: math.Inf(1), descent: math.Inf(1)}
	if t.last < len(s.T) {
		e.seconds = float64(s.T[t.last]) - float64(s.T[t.first]) + timeSlackS
	}
	up, down, before := 0.0, 0.0, math.NaN()
	for _, v := range s.ElevationM[min(t.first, len(s.ElevationM)):min(t.last+1, len(s.ElevationM))] {
		if !v.Valid {
			continue
		}
		if step := v.Value - before; step > 0 {
			up += step
		} else if step < 0 {
			down -= step
		}
		before = v.Value
		e.climb, e.descent = up*climbSlack+climbSlackM, down*climbSlack+climbSlackM
	}
	return e
}

// beyond reports figures of an activity that exceed its cut track.
func (l *linter) beyond(at string, a *Activity, e *extent) {
	l.above(at+"/distance_m", orZero(a.DistanceM), e.metres)
	l.above(at+"/duration_s", float64(orZero(a.DurationS)), e.seconds)
	l.above(at+"/moving_time_s", float64(orZero(a.MovingTimeS)), e.seconds)
	l.above(at+"/elevation_gain_m", orZero(a.ElevationGainM), e.climb)
	metres := orZero(a.AvgSpeedKmh) / 3.6 * float64(orZero(a.MovingTimeS))
	l.above(at+"/avg_speed_kmh", metres, e.metres*speedSlack)
}

// above reports a figure without its number, which would reveal how much is hidden.
func (l *linter) above(at string, value, most float64) {
	if value > most {
		l.add(CodePrivacyBlurLength, at,
			"more than the cut track shows, which tells how much was cut: compute it from what is shown")
	}
}

func orZero[T int64 | float64](v *T) T {
	if v == nil {
		return 0
	}
	return *v
}

// hidden reports what a blur_start activity reveals of the part that was cut: its length,
// elevation and speed, and where the whole track is.
func (l *linter) hidden(d *Detail, t *track) {
	if d.Privacy != PrivacyBlurStart {
		return
	}
	if orEmpty(d.SourceFile) != "" {
		l.add(CodePrivacyBlurSource, "/source_file", "names the file of the whole track: leave it out")
	}
	if orEmpty(d.StravaID) != "" {
		l.add(CodePrivacyBlurSource, "/strava_id", "leads to the whole track, as far as Strava shows it: leave it out")
	}
	e := extentOf(d, t)
	if e == nil {
		return
	}
	l.beyond("", &d.Activity, e)
	l.above("/elevation_loss_m", orZero(d.ElevationLossM), e.descent)
	metres, climb := 0.0, 0.0
	for i := range d.Laps {
		metres += orZero(d.Laps[i].DistanceM)
		climb += orZero(d.Laps[i].ElevationGainM)
	}
	if metres > e.metres || climb > e.climb {
		l.add(CodePrivacyBlurLength, "/laps", lapsUncut)
	}
	s := &d.Timeseries
	if t.first < len(s.T) && max(float64(s.T[t.first]), t.beforeS, t.afterS) > timeSlackS {
		l.add(CodePrivacyBlurLength, "/timeseries/t", "goes on where no position is shown, "+
			"which tells how much was cut: cut all columns, and let t begin at 0 with the track")
	}
	longest := max(len(s.ElevationM), len(s.SpeedKmh), len(s.HRBpm),
		len(s.CadenceRpm), len(s.PowerW), len(s.TemperatureC))
	if longest > max(len(s.T), t.last+1) {
		l.add(CodePrivacyBlurLength, "/timeseries",
			"a column is longer than t and the cut track, which tells how much was cut: cut all columns")
	}
	for _, column := range []struct {
		at     string
		values Column[float64]
	}{{"/timeseries/elevation_m", s.ElevationM}, {"/timeseries/speed_kmh", s.SpeedKmh}} {
		c := column.values
		if holdsValue(c[:min(t.first, len(c))]) || holdsValue(c[min(t.last+1, len(c)):]) {
			l.add(CodePrivacyBlurLength, column.at,
				"has values where the track was cut, which tell how it went on: cut all columns")
		}
	}
}

const lapsUncut = "beyond the cut track, which tells how much was cut: cut the laps too"

// links reports a summary that links to, or names, what its privacy hides.
func (l *linter) links(at string, s *Summary) {
	track, detail := s.TrackURL != nil && *s.TrackURL != "", s.DetailURL != nil && *s.DetailURL != ""
	switch s.Privacy {
	case PrivacyNoGPS:
		l.texts = 0
		l.text(at+"/title", s.Title)
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
