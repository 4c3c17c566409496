package publish

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// Leaks returns what a published document reveals of the places, as sentences without positions. Blur repairs it.
func Leaks(d *activityschema.Detail, places *Places) []string {
	var leaks []string
	near := 0
	m := motion{Timeseries: &d.Timeseries}
	for i := range d.Timeseries.T {
		if m.has(i) && places.hides(d.Timeseries.Lat[i].Value, d.Timeseries.Lon[i].Value) {
			near++
		}
	}
	shown := []*activityschema.LatLng{d.StartLatLng, d.EndLatLng}
	if b := d.BBox; b != nil && len(d.Timeseries.Lat) == 0 {
		shown = append(shown, &activityschema.LatLng{b[1], b[0]}, &activityschema.LatLng{b[3], b[2]})
	}
	if near > 0 {
		leaks = append(leaks, fmt.Sprintf("shows %d positions near your places", near))
	} else if slices.ContainsFunc(shown, func(p *activityschema.LatLng) bool {
		return p != nil && places.hides(p[0], p[1])
	}) {
		leaks = append(leaks, "start_latlng, end_latlng or bbox is near your places")
	}
	if d.Privacy != activityschema.PrivacyBlurStart {
		return leaks
	}
	if start := d.StartedAt.UTC(); !start.Equal(start.Truncate(blurredTime)) {
		leaks = append(leaks, fmt.Sprintf("started_at is not rounded to %d minutes", blurredTime/time.Minute))
	}
	if d.SourceHash != nil {
		leaks = append(leaks, "source_hash says which recording it is")
	}
	if len(d.Timeseries.Lat) > 0 && d.Timeseries.TemperatureC != nil {
		leaks = append(leaks, "has temperatures: they tell how long ago a warm room was left")
	}
	if len(d.Laps) > 0 {
		leaks = append(leaks, "has laps: those of an even length tell how much was cut")
	}
	for _, f := range activityschema.Lint(&activityschema.Document{Detail: d}) {
		if strings.HasPrefix(string(f.Code), "privacy-") {
			leaks = append(leaks, f.Pointer+": "+f.Message)
		}
	}
	return leaks
}

// IndexLeaks returns what the index of a folder and its shards reveal of blurred activities beyond
// their documents. WriteIndex repairs it.
func IndexLeaks(ctx context.Context, dir string) ([]string, error) {
	entries, _, err := scan(ctx, dir)
	if err != nil {
		return nil, err
	}
	documents := map[string]activityschema.Activity{}
	for _, e := range entries {
		documents[e.ID] = e.Activity
	}
	var leaks []string
	err = eachIndex(dir, func(name string, s activityschema.Summary) {
		d, there := documents[s.ID]
		if !there || d.Privacy != activityschema.PrivacyBlurStart {
			return
		}
		d.StartedAt = activityschema.Time{Time: d.StartedAt.UTC()}
		s.StartedAt = activityschema.Time{Time: s.StartedAt.UTC()}
		if s.TrackURL != nil || !reflect.DeepEqual(d, s.Activity) {
			const format = "%s says more about %q than its document: cairn activity index writes it again"
			leaks = append(leaks, fmt.Sprintf(format, name, s.ID))
		}
	})
	return leaks, err
}

// eachIndex calls f with each activity that the index of a folder and its shards list.
func eachIndex(dir string, f func(name string, s activityschema.Summary)) error {
	names, err := fs.Glob(os.DirFS(dir), "index*.json")
	if err != nil {
		return err
	}
	for _, name := range names {
		x, _, err := readIndex(dir, name)
		if err != nil || x == nil {
			return err
		}
		for _, s := range x.Activities {
			f(name, s)
		}
	}
	return nil
}
