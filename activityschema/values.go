package activityschema

import (
	"math"
	"net/url"
	"reflect"
	"strings"
	"unicode"
)

// A double represents every integer up to mostExact exactly.
const (
	mostExact = 1 << 53
	imprecise = "beyond 2^53, where a reader that holds numbers as doubles sees another integer"
)

// Tolerance between numbers that a writer rounded separately.
const (
	roundingS   = 1   // seconds, between two times in whole seconds
	roundingKmh = 0.1 // between an average and a maximum of few decimals
)

// A figure is a number about a whole activity, lap or shard.
type figure struct {
	name    string
	value   float64
	integer int64 // the exact value of an integer, else 0
}

func figuresOf(of reflect.Value) (all []figure) {
	for field, v := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch n := v.Interface().(type) {
		case Activity:
			all = append(all, figuresOf(v)...)
		case int64:
			all = append(all, figure{name, float64(n), n})
		case *int64:
			if n != nil {
				all = append(all, figure{name, float64(*n), *n})
			}
		case *float64:
			if n != nil {
				all = append(all, figure{name, *n, 0})
			}
		}
	}
	return all
}

// figures checks the figures of a value, alone and against each other, and returns them by name.
func (l *linter) figures(at string, of any) map[string]float64 {
	values := map[string]float64{}
	for _, f := range figuresOf(reflect.ValueOf(of).Elem()) {
		values[f.name] = f.value
		if f.value < 0 {
			l.add(CodeNegativeValue, at+"/"+f.name, "%v is below zero", f.value)
		}
		if f.integer > mostExact || f.integer < -mostExact {
			l.add(CodeIntegerPrecision, at+"/"+f.name, imprecise)
		}
	}
	above := func(name, highest string, slack float64) bool {
		v, ok := values[name]
		most, known := values[highest]
		return ok && known && v > most+slack
	}
	if above("moving_time_s", "duration_s", roundingS) {
		l.add(CodeMovingOverDuration, at+"/moving_time_s", "%.0f seconds of moving in %.0f seconds",
			values["moving_time_s"], values["duration_s"])
	}
	for _, of := range []struct {
		name  string
		slack float64
	}{{"speed_kmh", roundingKmh}, {"hr_bpm", 0}, {"power_w", 0}} {
		average, maximum := "avg_"+of.name, "max_"+of.name
		if above(average, maximum, of.slack) {
			l.add(CodeAverageOverMaximum, at+"/"+average, "the average %v is above the maximum %v",
				values[average], values[maximum])
		}
	}
	return values
}

// recordedTime compares the duration with the time that the samples span. A shorter span is not
// an error: a track may be cut, and a device may be switched off late.
func (l *linter) recordedTime(d *Detail) {
	t := d.Timeseries.T
	if d.DurationS == nil || *d.DurationS < 0 || len(t) == 0 {
		return
	}
	// Devices continue to write after the stop, and some exclude short stops from the elapsed time.
	// One percent allows for a duration measured by another clock than t.
	const late, drift = 30, 0.01
	duration := float64(*d.DurationS)
	if span := float64(t[len(t)-1]) - float64(t[0]); span > duration*(1+drift)+late {
		l.add(CodeDurationMismatch, "/duration_s", "the samples span %.0f seconds, the duration is %d",
			span, *d.DurationS)
	}
}

// longestFileName is the limit of common file systems, in bytes.
const longestFileName = 255

// id reports an id that cannot name the file activities/{id}.json.
func (l *linter) id(at string, id string) {
	if !usableID(id) {
		l.add(CodeIDFileName, at+"/id", "cannot name the file activities/{id}.json: it has a slash, backslash "+
			"or control character, or is longer than %d bytes", longestFileName-len(".json"))
	}
}

func usableID(id string) bool {
	return !strings.ContainsAny(id, `/\`) && !strings.ContainsFunc(id, unicode.IsControl) &&
		len(id)+len(".json") <= longestFileName
}

func (l *linter) provenance(d *Detail) {
	if d.SourceHash != nil && !isSHA256(*d.SourceHash) {
		l.add(CodeSourceHashForm, "/source_hash", "not sha256: and 64 hexadecimal digits")
	}
	if d.DuplicateOf != nil && *d.DuplicateOf == d.ID {
		l.add(CodeDuplicateOf, "/duplicate_of", "the activity is said to duplicate itself")
	}
}

func isSHA256(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// distance compares the distance with the laps and the track. Writers round, and measure the laps
// and the whole by different sensors.
func (l *linter) distance(d *Detail, t *track) {
	if d.DistanceM == nil || *d.DistanceM < 0 {
		return
	}
	const slack, slackM = 1.05, 200
	most, laps := *d.DistanceM*slack+slackM, 0.0
	for i := range d.Laps {
		if m := d.Laps[i].DistanceM; m != nil {
			laps += *m
		}
	}
	switch {
	case laps > most:
		l.add(CodeDistanceMismatch, "/distance_m", "the laps are %.0f m together, the distance is %.0f",
			laps, *d.DistanceM)
	case t.first >= 0 && t.apart(d) > most:
		l.add(CodeDistanceMismatch, "/distance_m", "the ends of the track are %.1f km apart, the distance is %.1f",
			t.apart(d)/1000, *d.DistanceM/1000)
	}
}

// apart returns how far the ends of the track are from each other, in metres, less the ways over its pauses: there
// somebody may have gone by car or ferry.
func (t *track) apart(d *Detail) float64 {
	metres, before := t.at(t.first).metresTo(t.at(t.last)), t.first
	for i := t.first + 1; i <= t.last; i++ {
		if t.has(i) {
			if t.paused(d, before, i) {
				metres -= t.at(before).metresTo(t.at(i))
			}
			before = i
		}
	}
	return metres
}

// paused reports whether the recording was paused between two samples with a position: there is a row without any
// value.
func (t *track) paused(d *Detail, a, b int) bool {
	s := &d.Timeseries
	for i := a + 1; i < b; i++ {
		if !(known(s.ElevationM, i) || known(s.SpeedKmh, i) || known(s.TemperatureC, i) || known(s.HRBpm, i) ||
			known(s.CadenceRpm, i) || known(s.PowerW, i)) {
			return true
		}
	}
	return false
}

func known[T int64 | float64](c Column[T], i int) bool { return i < len(c) && c[i].Valid }

// laps compares the laps with each other and with the activity. Short overlaps and gaps between
// laps are common and ignored.
func (l *linter) laps(d *Detail, t *track) {
	duration := -1.0 // -1 if unknown
	if d.DurationS != nil {
		duration = float64(*d.DurationS)
	}
	end := max(0, duration)
	cut, rounding := d.Privacy == PrivacyBlurStart && t.first >= 0, float64(roundingS)
	if t := d.Timeseries.T; len(t) > 0 {
		end = max(end, float64(t[len(t)-1])) // within the samples, the duration is wrong and reported elsewhere
		if cut {                             // the document must show nothing beyond the samples
			duration = float64(t[len(t)-1])
			end, rounding = duration, timeSlackS
		}
	}
	// The clock may stop between laps, and the duration may exclude these pauses.
	lapEnd, pauses := -1.0, 0.0 // lapEnd is the end of the previous lap, -1 if unknown
	next, together, reported := int64(0), 0.0, false
	outside := func(at, format string, args ...any) {
		reported = true
		if cut {
			l.add(CodePrivacyBlurLength, at, lapsUncut)
		} else {
			l.add(CodeLapOutside, at, format, args...)
		}
	}
	for i := range d.Laps {
		lap := &d.Laps[i]
		at := item("/laps", i)
		if lap.Index != next {
			l.add(CodeLapsNumbered, at+"/index", "lap %d where %d comes next", lap.Index, next)
		}
		next = lap.Index + 1 // a single finding for laps counted from 1

		if i > 0 && lap.StartedAt.Sub(d.Laps[i-1].StartedAt.Time).Seconds() < -roundingS {
			l.add(CodeLapOrder, at+"/started_at", "starts before the lap before it")
		}
		// Sub saturates at 292 years.
		after := lap.StartedAt.Sub(d.StartedAt.Time).Seconds()
		if lapEnd >= 0 {
			pauses += max(0, after-lapEnd)
		}
		lapEnd = -1
		if lap.DurationS != nil {
			lapEnd = after + float64(*lap.DurationS)
		}
		switch {
		case after < -rounding:
			outside(at+"/started_at", "starts before the activity")
		case duration < 0:
		case after > end+rounding:
			outside(at+"/started_at", "starts after the end of the activity")
		case lapEnd > end+pauses+2*rounding:
			outside(at+"/duration_s", "ends %.0f seconds after the activity", lapEnd-end)
		}
		l.figures(at, lap)
		if lap.DurationS != nil {
			together += float64(*lap.DurationS)
		}
	}
	slack := roundingS * float64(len(d.Laps)+1)
	if duration >= 0 && together > duration+slack && !reported {
		outside("/laps", "the laps last %.0f seconds together, the activity %.0f", together, duration)
	}
}

// timeseries checks the columns, in one pass each and without allocating for good samples.
func (l *linter) timeseries(s *Timeseries) {
	for i, v := range s.T {
		if v < 0 {
			l.addItem(CodeTNegative, "/timeseries/t", i, "%d seconds after the start", v)
		}
		if i > 0 && v <= s.T[i-1] {
			l.addItem(CodeTNotRising, "/timeseries/t", i, "%d does not come after %d", v, s.T[i-1])
		}
		if v > mostExact || v < -mostExact {
			l.addItem(CodeIntegerPrecision, "/timeseries/t", i, imprecise)
		}
	}
	if (s.Lat == nil) != (s.Lon == nil) {
		alone := "/timeseries/lat"
		if s.Lat == nil {
			alone = "/timeseries/lon"
		}
		l.add(CodeLatLonUnpaired, alone, "latitudes and longitudes are both there or both null")
	}
	const signed = true
	n := len(s.T)
	column(l, "/timeseries/lat", s.Lat, n, signed)
	l.degrees("/timeseries/lat", s.Lat, s.Lon, 90)
	column(l, "/timeseries/lon", s.Lon, n, signed)
	l.degrees("/timeseries/lon", s.Lon, s.Lat, 180)
	column(l, "/timeseries/elevation_m", s.ElevationM, n, signed)
	column(l, "/timeseries/speed_kmh", s.SpeedKmh, n, !signed)
	column(l, "/timeseries/hr_bpm", s.HRBpm, n, !signed)
	column(l, "/timeseries/cadence_rpm", s.CadenceRpm, n, !signed)
	column(l, "/timeseries/power_w", s.PowerW, n, !signed)
	column(l, "/timeseries/temperature_c", s.TemperatureC, n, signed)
}

// column checks the length of a column, where n is the length of t, and its values.
func column[T int64 | float64](l *linter, at string, c Column[T], n int, signed bool) {
	if c != nil && len(c) != n {
		l.add(CodeColumnLength, at, "%d values beside the %d of t", len(c), n)
	}
	if signed {
		return
	}
	for i, v := range c {
		if v.Valid && v.Value < 0 {
			l.addItem(CodeNegativeValue, at, i, "%v is below zero", v.Value)
		}
		if n, ok := any(v.Value).(int64); ok && v.Valid && (n > mostExact || n < -mostExact) {
			l.addItem(CodeIntegerPrecision, at, i, imprecise)
		}
	}
}

// degrees checks the latitudes or the longitudes. Of an incomplete pair the null is reported.
func (l *linter) degrees(at string, c, other Column[float64], most float64) {
	for i, v := range c {
		switch {
		case v.Valid && !(v.Value >= -most && v.Value <= most):
			l.addItem(CodeCoordinateRange, at, i, "not between %v and %v degrees", -most, most)
		case !v.Valid && i < len(other) && other[i].Valid:
			l.addItem(CodeLatLonUnpaired, at, i, "null, but the other half of the position is there")
		}
	}
}

func (l *linter) bbox(d *Detail, t *track) {
	if d.BBox == nil {
		return
	}
	b, sound := *d.BBox, true
	for i, limit := range [4]float64{180, 90, 180, 90} {
		if !(math.Abs(b[i]) <= limit) {
			l.addItem(CodeBBoxRange, "/bbox", i,
				"not between %v and %v degrees; the order is [min_lon, min_lat, max_lon, max_lat]", -limit, limit)
			sound = false
		}
	}
	if b[1] > b[3] {
		l.add(CodeBBoxOrder, "/bbox", "min_lat is above max_lat")
		sound = false
	}
	// RFC 7946 section 5.2: west above east means a box across the antimeridian.
	if b[0] > b[2] && !t.crosses {
		l.add(CodeBBoxOrder, "/bbox", "min_lon is above max_lon, but the track does not cross the antimeridian")
		sound = false
	}
	if d.Privacy == PrivacyBlurStart && !t.showsBox(b) && !t.showsBox(exchanged(b)) {
		l.add(CodePrivacyBlurStart, "/bbox",
			"reaches more than %d m beyond the cut track: make it the box of the track that is shown", blurM)
	}
	if !sound || t.first < 0 {
		return
	}
	if outside := t.outside(b); outside > 0 {
		hint := ""
		if t.outside(exchanged(b)) == 0 {
			hint = "; none do if latitudes and longitudes change places"
		}
		l.add(CodeBBoxOutside, "/bbox", "%d positions of the track lie outside%s", outside, hint)
	}
}

// Tolerated distance of start_latlng and end_latlng from the track. A fast rider moves half a
// kilometre between two samples a minute apart, and a device may find its position late.
const (
	endpointM     = 500
	endpointMPerS = 30
)

// endpoint checks start_latlng or end_latlng, given at a pointer. sample is the first or last
// sample with a position, or -1, and unseenS is the time in seconds beyond it.
func (l *linter) endpoint(at string, stated *LatLng, sample int, unseenS float64, t *track, privacy Privacy) {
	if stated == nil {
		return
	}
	p := position{stated[0], stated[1]}
	reversed := p.exchanged()
	near, hint := endpointM+endpointMPerS*unseenS, ""
	switch {
	case privacy == PrivacyBlurStart && !t.showsEndpoint(sample, p, reversed):
		l.add(CodePrivacyBlurStart, at, "more than %d m from that end of the cut track: null it, "+
			"or set it to where the track that is shown begins or ends", blurM)
	case !p.onEarth():
		if reversed.onEarth() {
			hint = "; the order is [latitude, longitude]"
		}
		l.add(CodeCoordinateRange, at, "not a latitude up to 90 and a longitude up to 180 degrees%s", hint)
	case sample >= 0 && !p.within(near, t.at(sample)):
		if reversed.onEarth() && reversed.within(near, t.at(sample)) {
			hint = "; it would be there with latitude and longitude exchanged, the order being [latitude, longitude]"
		}
		l.add(CodeStartEndMismatch, at, "%.1f km from that end of the track%s", p.metresTo(t.at(sample))/1000, hint)
	}
}

func (l *linter) index(x *Index) {
	for i := range x.Shards {
		l.figures(item("/shards", i), &x.Shards[i])
	}
	first := make(map[string]int, len(x.Activities))
	newest := -1
	for i := range x.Activities {
		s, at := &x.Activities[i], item("/activities", i)
		l.id(at, s.ID)
		if j, ok := first[s.ID]; ok {
			l.add(CodeIDDuplicate, at+"/id", "activity %d of this index has this id, too", j)
		} else {
			first[s.ID] = i
		}
		l.figures(at, s)
		if s.DetailURL != nil && !leadsToDetail(*s.DetailURL, s.ID) {
			l.add(CodeDetailURL, at+"/detail_url",
				"not the address of activities/{id}.json for the id of this activity")
		}
		l.links(at, s)
		if newest < 0 || s.StartedAt.After(x.Activities[newest].StartedAt.Time) {
			newest = i
		}
	}
	if newest >= 0 && x.Activities[newest].StartedAt.After(x.GeneratedAt.Time) {
		l.add(CodeGeneratedAt, "/generated_at", "before the start of activity %d", newest)
	}
}

// detailPath returns the path of a detail document in the published folder.
func detailPath(id string) string { return "activities/" + id + ".json" }

// leadsToDetail reports whether address, relative or absolute, ends in activities/{id}.json.
func leadsToDetail(address, id string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Opaque == "" && (u.Scheme == "" || u.Scheme == "https" || u.Scheme == "http") &&
		strings.HasSuffix("/"+u.Path, "/"+detailPath(id))
}
