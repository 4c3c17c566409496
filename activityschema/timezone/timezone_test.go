package timezone

import (
	"testing"
	"time"

	"github.com/cairn-id/cairn/store/storetest/assert"
)

// Offsets are those of the day: with summer time, half hours, and beyond the hour that follows from the longitude.
func TestOffsetIsThatOfThePlace(t *testing.T) {
	for _, c := range []struct {
		name     string
		lat, lon float64
		at       string
	}{
		{"Berlin", 52.5, 13.4, "2022-06-25T16:58:37+02:00"},
		{"Galicia", 43.36, -8.41, "2022-06-26T01:10:00+02:00"},
		{"Delhi", 28.6, 77.2, "2022-06-25T06:30:00+05:30"},
		{"Kathmandu", 27.7, 85.3, "2022-06-25T06:30:00+05:45"},
		{"Adelaide", -34.93, 138.6, "2022-01-25T06:30:00+10:30"},
		{"Phoenix", 33.45, -112.07, "2022-06-25T06:30:00-07:00"},
		{"Los Angeles", 34.05, -118.24, "2022-06-25T06:30:00-07:00"},
		{"Reykjavik", 64.14, -21.94, "2022-06-25T06:30:00Z"},
		{"Apia", -13.83, -171.76, "2022-06-25T06:30:00+13:00"},
		{"Samoa before it crossed the date line", -13.83, -171.76, "2011-07-25T06:30:00-11:00"},
		{"Ürümqi", 43.8, 87.6, "2022-06-25T06:30:00+06:00"},
		{"Longyearbyen", 78.22, 15.65, "2022-06-25T06:30:00+02:00"},
		{"in the middle of the Atlantic", 30, -40, "2022-06-25T06:30:00-03:00"},
		{"the date line", 0, 180, "2022-06-25T06:30:00+12:00"},
		{"the north pole", 90, 0, "2022-06-25T06:30:00Z"},
		{"near the south pole", -89.99, 0.1, "2022-06-25T06:30:00+12:00"},
		{"null island", 0, 0, "2022-06-25T06:30:00Z"},
	} {
		zone, ok := At(c.lat, c.lon)
		if !ok {
			t.Errorf("%s has no zone", c.name)
			continue
		}
		at, err := time.Parse(time.RFC3339, c.at)
		must(t, err)
		if got := at.In(zone).Format(time.RFC3339); got != c.at {
			t.Errorf("%s: %s for %s, in %s", c.name, got, c.at, zone)
		}
	}
	if _, ok := At(91, 0); ok {
		t.Error("91 degrees north has a zone")
	}
}

var must = assert.Must
