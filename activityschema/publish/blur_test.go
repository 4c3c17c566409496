package publish

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

const homeLat, homeLon = 47.0, 8.0

func homePlaces(t *testing.T) *Places {
	t.Helper()
	p := &Places{Key: base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))}
	must(t, p.Add(Place{Name: "home", Lat: homeLat, Lon: homeLon, RadiusM: DefaultRadiusM}))
	return p
}

// passing is a track from home to the west, back past home to the east, and home again, at 5 m/s. inside may
// change the samples that the places hide, and idle is for how long it stands at home at first.
func passing(
	t *testing.T, places *Places, idle int64, inside func(s *activityschema.Timeseries, row int),
) *activityschema.Detail {
	t.Helper()
	d := &activityschema.Detail{Version: activityschema.Version}
	d.ID, d.Sport, d.Privacy = "2026-05-03-aaaa", activityschema.SportRunning, activityschema.PrivacyPublic
	d.StartedAt.Time = rideStart.Add(-time.Duration(idle) * time.Second)
	text, km := "ten kilometres", 1000.0
	d.Description, d.SourceFile, d.SourceHash, d.StravaID = &text, &text, &text, &text
	s := &d.Timeseries
	now := int64(0)
	at := func(east float64) {
		s.T = append(s.T, now)
		s.Lat = append(s.Lat, activityschema.Some(homeLat))
		s.Lon = append(s.Lon,
			activityschema.Some(math.Round((homeLon+east/(metreDegree*math.Cos(homeLat*math.Pi/180)))*1e6)/1e6))
		s.ElevationM = append(s.ElevationM, activityschema.Some(400+math.Abs(east)/50))
		s.HRBpm = append(s.HRBpm, activityschema.Some(int64(130+len(s.T)%9)))
		s.SpeedKmh = append(s.SpeedKmh, activityschema.Some(18.0))
		s.TemperatureC = append(s.TemperatureC, activityschema.Some(math.Round(10+11*math.Exp(-float64(now)/480))))
		if row := len(s.T) - 1; places.hides(homeLat, s.Lon[row].Value) {
			s.HRBpm[row] = activityschema.Some[int64](140)
			inside(s, row)
		}
		now++
	}
	for range idle {
		at(0)
	}
	for _, leg := range [][2]float64{{0, -3000}, {-3000, 4000}, {4000, 0}} {
		seconds := int(math.Abs(leg[1]-leg[0]) / 5)
		for i := range seconds {
			s.HRBpm = s.HRBpm[:len(s.T)]
			at(leg[0] + float64(i)*5*math.Copysign(1, leg[1]-leg[0]))
		}
	}
	for i := range s.HRBpm { // outside it depends on the place alone
		if s.HRBpm[i].Value != 140 {
			s.HRBpm[i].Value = 150 + int64(math.Abs(s.Lon[i].Value-homeLon)*1000)%20
		}
	}
	for start := int64(0); start < now; start += 200 {
		length := int64(200)
		d.Laps = append(d.Laps, activityschema.Lap{
			Index: start / 200, StartedAt: activityschema.Time{Time: d.StartedAt.Add(time.Duration(start) * time.Second)}, DurationS: &length, DistanceM: &km,
		})
	}
	must(t, Derive(d))
	return d
}

func blurred(t *testing.T, d *activityschema.Detail, places *Places) (*activityschema.Detail, string) {
	t.Helper()
	before, err := d.MarshalJSON()
	must(t, err)
	out, err := Blur(d, places, false)
	must(t, err)
	data, err := out.MarshalJSON()
	must(t, err)
	if after, _ := d.MarshalJSON(); !bytes.Equal(before, after) {
		t.Error("Blur changed what it was given")
	}
	for _, leak := range Leaks(out, places) {
		t.Error(leak)
	}
	for _, f := range activityschema.Lint(&activityschema.Document{Detail: out}) {
		t.Errorf("%+v", f)
	}
	return out, string(data)
}

// What happens at home, in whatever way, and for how long, changes no byte.
func TestBlurShowsNothingOfWhatIsHidden(t *testing.T) {
	places := homePlaces(t)
	plain := passing(t, places, 0, func(*activityschema.Timeseries, int) {})
	d, want := blurred(t, plain, places)
	told := passing(t, places, 0, func(*activityschema.Timeseries, int) {})
	text := "Round our house, 12 Elm Street"
	told.Description, told.SourceFile, told.SourceHash, told.StravaID = &text, &text, &text, &text
	told.Custom = map[string]jsontext.Value{"route": jsontext.Value(`{"start":[47.1,8.1]}`)}
	for name, other := range map[string]*activityschema.Detail{
		"what may name the place": told,
		"a wait at the door":      passing(t, places, 240, func(*activityschema.Timeseries, int) {}),
		"other values": passing(t, places, 0, func(s *activityschema.Timeseries, row int) {
			s.ElevationM[row], s.SpeedKmh[row] = activityschema.Some(900.0), activityschema.Some(60.0)
			if places.hides(homeLat+0.0005, s.Lon[row].Value) {
				s.Lat[row] = activityschema.Some(homeLat + 0.0005)
			}
		}),
		"no position at the door": passing(t, places, 60, func(s *activityschema.Timeseries, row int) {
			if row < 50 {
				s.Lat[row] = activityschema.Null[float64]{}
			}
		}),
	} {
		if _, got := blurred(t, other, places); got != want {
			t.Errorf("%s shows", name)
		}
	}
	_, again := blurred(t, d, places)
	same(t, "what is blurred is changed by blurring it again", again, want)
	// The passage in the middle has no length and no time.
	for i := 1; i < len(d.Timeseries.T); i++ {
		if d.Timeseries.T[i]-d.Timeseries.T[i-1] != 1 {
			t.Fatalf("t goes from %d to %d", d.Timeseries.T[i-1], d.Timeseries.T[i])
		}
	}
	if breaks := strings.Count(want, "null"); breaks == 0 {
		t.Error("the track goes on across what was cut")
	}
	if d.Timeseries.TemperatureC != nil {
		t.Error("the temperature tells how long ago the home was left: to within 40 s, for a device from a warm room")
	}
	if len(d.Laps) != 0 || d.StartedAt.Minute()%15 != 0 || *d.DistanceM > *plain.DistanceM-4*hiddenLeast ||
		d.Description != nil || d.SourceHash != nil {
		t.Errorf("%.300s", want)
	}
	if hidden, err := Blur(plain, places, true); err != nil ||
		!hidden.StartedAt.Time.Equal(rideStart.Truncate(24*time.Hour)) {
		t.Errorf("with the day alone: %v %v", hidden.StartedAt, err)
	}
}

// hiddenLeast is what is hidden on each side of a home for certain.
const hiddenLeast = DefaultRadiusM - offsetM

func TestBlurRefusesWhatIsNearHomeOnly(t *testing.T) {
	places := homePlaces(t)
	d := passing(t, places, 0, func(*activityschema.Timeseries, int) {})
	for i := range d.Timeseries.Lon {
		d.Timeseries.Lon[i].Value = homeLon + (d.Timeseries.Lon[i].Value-homeLon)/8
	}
	if _, err := Blur(d, places, false); !errors.Is(err, errTooLittle) {
		t.Errorf("%v", err)
	}
	if _, err := Blur(d, NewPlaces(), false); err == nil {
		t.Error("blurred without a place")
	}
	d.Timeseries.Lat, d.Timeseries.Lon = nil, nil
	if out, err := Blur(d, places, false); err != nil || out.BBox != nil || out.StartLatLng != nil ||
		out.EndLatLng != nil || out.DistanceM != nil {
		t.Errorf("a summary of positions that are gone: %v", err)
	}
	d.BBox, d.StartLatLng, d.EndLatLng = nil, nil, nil
	if out, err := Blur(d, places, false); err != nil || out.DistanceM == nil || out.SourceHash != nil ||
		out.Timeseries.ElevationM != nil {
		t.Errorf("an activity without positions: %v", err)
	}
	d.Timeseries.ElevationM = append(d.Timeseries.ElevationM, activityschema.Some(1.0))
	if _, err := Blur(d, places, false); err == nil {
		t.Error("a column that is too long was accepted")
	}
}

// Whoever loses the positions at home and finds them again on the same road was somewhere in between.
func TestTimeWithoutPositionsIsCut(t *testing.T) {
	places := homePlaces(t)
	d := passing(t, places, 0, func(*activityschema.Timeseries, int) {})
	s := &d.Timeseries
	const lost, found = 600, 1000 // three kilometres from home
	for i := lost; i < len(s.T); i++ {
		s.Lat[i], s.Lon[i] = activityschema.Null[float64]{}, activityschema.Null[float64]{}
		if back := lost - 1 - (i - found); i >= found && back > 0 {
			s.Lat[i], s.Lon[i] = s.Lat[back], s.Lon[back]
		}
	}
	out, err := Blur(d, places, false)
	must(t, err)
	silent := 0
	for i := range out.Timeseries.T {
		if !out.Timeseries.Lat[i].Valid {
			silent++
		}
	}
	if silent > 1 {
		t.Errorf("%d samples without a position are left", silent)
	}
}

// Two samples on the two sides of a zone are not joined by a line through it.
func TestBlurBreaksALineThroughAPlace(t *testing.T) {
	d := passing(t, homePlaces(t), 0, func(*activityschema.Timeseries, int) {})
	var sparse activityschema.Timeseries
	for i, lon := range d.Timeseries.Lon {
		if east := math.Abs(lon.Value-homeLon) * metreDegree; east > 2500 {
			sparse.T, sparse.Lon = append(sparse.T, int64(i)), append(sparse.Lon, lon)
			sparse.Lat = append(sparse.Lat, d.Timeseries.Lat[i])
		}
	}
	d.Timeseries = sparse
	_, data := blurred(t, d, homePlaces(t))
	has(t, "the line goes through the place", data, "null")
}

func TestZoneIsTheSameInEveryRun(t *testing.T) {
	places := homePlaces(t)
	file := filepath.Join(t.TempDir(), "places.yaml")
	must(t, places.Save(file))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of places has the mode %v, %v", info.Mode(), err)
	}
	again, err := LoadPlaces(file)
	if err != nil || again.zones[0] != places.zones[0] {
		t.Errorf("%v", err)
	}
	other := &Places{Key: NewPlaces().Key}
	if err := other.Add(places.Places[0]); err != nil || other.zones[0] == places.zones[0] {
		t.Error("the zone does not depend on the key")
	}
	must(t, os.Chmod(file, 0o644))
	if _, err := LoadPlaces(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
	for bearing := range 360 { // the place itself is always well inside
		north, east := hiddenLeast*math.Cos(float64(bearing)), hiddenLeast*math.Sin(float64(bearing))
		if !places.hides(homeLat+north/metreDegree*0.99,
			homeLon+east/(metreDegree*math.Cos(homeLat*math.Pi/180))*0.99) {
			t.Fatal("a position near the place is shown")
		}
	}
	must(t, os.WriteFile(file, []byte("key: x\nplaces: [{latitude: 47.123}]\n"), 0o600))
	if _, err := LoadPlaces(file); err == nil || strings.Contains(err.Error(), "47.1") {
		t.Errorf("a damaged file: %v", err)
	}
}

// Zones of several radii around one place have one centre: the home does not lie on a line through two of them.
func TestAnotherRadiusTellsNoMore(t *testing.T) {
	with := func(place Place) zone {
		place.Name, place.Lat, place.Lon = "home", homeLat, homeLon
		p := &Places{Key: homePlaces(t).Key}
		must(t, p.Add(place))
		return p.zones[0]
	}
	small, large := with(Place{RadiusM: MinRadiusM}), with(Place{RadiusM: 2 * DefaultRadiusM})
	if small.lat != large.lat || small.lon != large.lon || small.metresTo(homeLat, homeLon) < 100 {
		t.Errorf("centres %v and %v, with the home at %v", small, large, homeLat)
	}
}

// Devices begin with where they were last switched off.
func TestPlaceIsTheMedianOfTheFirstMinute(t *testing.T) {
	at := func(stale int, away float64) *Recording {
		r := &Recording{}
		for i := range 90 {
			s := Sample{At: int64(1000 * (i + 1)), Lat: homeLat + float64(i)*3/metreDegree, Lon: homeLon}
			if i < stale {
				s.Lat += away / metreDegree
			}
			r.Samples = append(r.Samples, s)
		}
		return r
	}
	for _, r := range []*Recording{at(0, 0), at(20, 300)} {
		if lat, lon, err := r.Begin(); err != nil || metres(lat, lon, homeLat, homeLon) > 200 {
			t.Errorf("%f %f %v", lat, lon, err)
		}
	}
	if _, _, err := at(3, 5000).Begin(); !errors.Is(err, ErrUnsteady) {
		t.Errorf("three positions that are five kilometres off: %v", err)
	}
	if _, _, err := new(Recording).Begin(); !errors.Is(err, ErrNoPosition) {
		t.Errorf("no samples: %v", err)
	}
}

func TestCommonStartIsNoticed(t *testing.T) {
	var starts, scattered []Start
	for i := range 6 {
		starts = append(starts, Start{"a.fit", homeLat + float64(i)*1e-4, homeLon})
		scattered = append(scattered, Start{"a.fit", float64(i), homeLon})
	}
	for what, c := range map[string]struct {
		places *Places
		starts []Start
		want   bool
	}{
		"one start, no places": {nil, starts, true},
		"four activities":      {nil, starts[:4], false},
		"at a place":           {homePlaces(t), starts, false},
		"scattered":            {nil, scattered, false},
	} {
		if file, got := c.places.CommonStart(c.starts); got != c.want || got && file != "a.fit" {
			t.Errorf("%s: %q %v", what, file, got)
		}
	}
}

// A document that was published in the time of its place stays in it when it is blurred, and on its day.
func TestBlurKeepsTheDayAndTheZone(t *testing.T) {
	places := homePlaces(t)
	plain := passing(t, places, 0, func(*activityschema.Timeseries, int) {})
	for _, c := range []struct{ at, want, day string }{ // of the first 200 seconds nothing is shown
		{"2026-05-03T00:20:00+10:00", "2026-05-03T00:30:00+10:00", "2026-05-03T00:00:00Z"},
		{"2026-05-03T20:36:00-07:00", "2026-05-03T20:45:00-07:00", "2026-05-03T00:00:00Z"},
		{"2026-05-03T23:58:00+02:00", "2026-05-03T23:45:00+02:00", "2026-05-03T00:00:00Z"},
		{"2026-05-03T02:00:00+02:00", "2026-05-03T02:00:00+02:00", "2026-05-03T00:00:00Z"},
	} {
		d := *plain
		must(t, d.StartedAt.UnmarshalJSON([]byte(`"`+c.at+`"`)))
		once, _ := blurred(t, &d, places)
		twice, _ := blurred(t, once, places)
		if once.StartedAt.String() != c.want || twice.StartedAt.String() != c.want {
			t.Errorf("%s: blurred %s, and again %s, want %s", c.at, once.StartedAt, twice.StartedAt, c.want)
		}
		if hidden, err := Blur(&d, places, true); err != nil || hidden.StartedAt.String() != c.day {
			t.Errorf("%s: without the time %s, %v", c.at, hidden.StartedAt, err)
		}
	}
}

// Near a border of time zones, the offset of a blurred start is that of the zone's centre: where the track began would
// tell on which side of the border the home is.
func TestBlurredOffsetIsThatOfTheCentre(t *testing.T) {
	places := homePlaces(t)
	places.zones[0].lat, places.zones[0].lon = 47, 8 // no edge of a zone is so far from its centre
	places.zones[0].radius = 3e6
	data := asGPX("cycling", change(steady(), func(_ int, r *row) { r.lon = 30 }))
	for o, want := range map[Options]string{
		{}: "2025-06-01T11:00:00+03:00", {hide: places}: "2025-06-01T10:00:00+02:00",
		{Zone: time.UTC, hide: places}: "2025-06-01T08:00:00Z",
	} {
		f, err := o.Read(strings.NewReader(data))
		must(t, err)
		if d, err := f.Detail(0); err != nil || d.StartedAt.String() != want {
			t.Errorf("%v, %v, want %s", d.StartedAt, err, want)
		}
	}
}

// Pieces under 200 m, and tracks of which less than 500 m is left, tell where a home is: they are not shown.
func TestShortPiecesAndShortTracksAreNotShown(t *testing.T) {
	s := &activityschema.Timeseries{}
	for i := range 200 { // 10 m in two seconds
		s.T = append(s.T, int64(2*i))
		s.Lat = append(s.Lat, activityschema.Some(homeLat+float64(i)*10/metreDegree))
		s.Lon = append(s.Lon, activityschema.Some(homeLon))
	}
	m := newMotion(s, "other", nil)
	m.moveAll()
	short, long, longer := piece{0, 20}, piece{30, 53}, piece{60, 92} // 190, 220 and 310 m
	for name, c := range map[string]struct{ pieces, want []piece }{
		"a short piece":        {[]piece{short, long, longer}, []piece{long, longer}},
		"a short track":        {[]piece{short, longer}, nil},
		"two pieces that fall": {[]piece{long, long}, nil},
	} {
		sameList(t, name, longEnough(m, c.pieces), c.want)
	}
}

var has, must = assert.Has, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }
