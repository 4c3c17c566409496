package main

import (
	"io"
	"math"
	"time"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/publish"
)

// demoLat and demoLon are where the demo's activities begin, a place in the hills of the Jura.
const demoLat, demoLon = 47.2, 7.3

// demoActivities returns the page of three sample activities: a public one, one that hides its
// start, and a private one, which only its owner sees.
func demoActivities(owner string) (func(w io.Writer, isOwner bool) error, error) {
	ride := demoActivity("sample-ride", "Ride over the ridge", activityschema.SportCycling, 7.0, 2600, 0)
	run := demoActivity("sample-run", "Morning run", activityschema.SportRunning, 3.2, 4200, 2)
	walk := demoActivity("sample-walk", "Walk with a friend", activityschema.SportWalking, 1.5, 2700, 4)
	walk.Privacy = activityschema.PrivacyPrivate
	places := publish.NewPlaces()
	home := publish.Place{Name: "home", Lat: demoLat, Lon: demoLon, RadiusM: publish.MinRadiusM}
	if err := places.Add(home); err != nil {
		return nil, err
	}
	for _, d := range []*activityschema.Detail{ride, run, walk} {
		if err := publish.Derive(d); err != nil {
			return nil, err
		}
	}
	run, err := publish.Blur(run, places, false)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer, isOwner bool) error {
		details := []*activityschema.Detail{ride, run}
		if isOwner {
			const note = "You see the private one because it is yours."
			return publish.WritePreview(w, owner, note, append(details, walk))
		}
		return publish.WritePreview(w, owner, "There may be private ones, which only the owner sees.", details)
	}, nil
}

// demoActivity returns a round trip at a speed in metres per second.
func demoActivity(
	id, title string, sport activityschema.Sport, speed float64, seconds int64, bearing float64,
) *activityschema.Detail {
	d := &activityschema.Detail{Version: activityschema.Version}
	d.ID, d.Title, d.Sport, d.Privacy = id, title, sport, activityschema.PrivacyPublic
	d.StartedAt.Time = time.Date(2026, 5, 7-int(bearing), 6, 40, 0, 0, time.UTC)
	const metresPerDegree = 111195.0
	s := &d.Timeseries
	radius := speed * float64(seconds) / (2 * math.Pi)
	for t := int64(0); t <= seconds; t += 5 {
		turn := 2 * math.Pi * float64(t) / float64(seconds)
		wiggle := 1 + 0.12*math.Sin(5*turn)*math.Sin(turn/2)
		north := radius * wiggle * (math.Cos(turn+bearing) - math.Cos(bearing))
		east := radius * wiggle * (math.Sin(turn+bearing) - math.Sin(bearing))
		lat := demoLat + north/metresPerDegree
		lon := demoLon + east/metresPerDegree/math.Cos(demoLat*math.Pi/180)
		elevation := 640 + 90*math.Sin(turn/2) + 15*math.Sin(4*turn)
		s.T = append(s.T, t)
		s.Lat = append(s.Lat, activityschema.Some(math.Round(lat*1e6)/1e6))
		s.Lon = append(s.Lon, activityschema.Some(math.Round(lon*1e6)/1e6))
		s.ElevationM = append(s.ElevationM, activityschema.Some(math.Round(10*elevation)/10))
		s.HRBpm = append(s.HRBpm, activityschema.Some(int64(128+18*math.Sin(turn*2)+6*math.Sin(turn*9))))
	}
	return d
}
