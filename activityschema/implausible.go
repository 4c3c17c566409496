package activityschema

import (
	"cmp"
	"math"
)

// limits are what nobody exceeds in a sport, in km/h: over a whole activity, and for a moment with a
// sensor that is not broken. Airliners are among other sports.
var limits = map[Sport]struct{ average, maximum float64 }{
	SportCycling: {65, 130}, SportRunning: {30, 45}, SportHiking: {20, 45}, SportWalking: {20, 45},
	SportSwimming: {10, 22}, SportOther: {1100, 1260},
}

// Limits of people in any sport.
const (
	mostAvgHR, mostHR           = 220, 250
	mostAvgPower, mostPower     = 1000, 3000
	mostAvgCadence              = 254
	slackPart, slackKmh, slackM = 0.1, 1, 500
)

// MostSpeed returns what nobody exceeds in a sport, in km/h: over a whole activity, and for a moment.
func MostSpeed(s Sport) (average, highest float64) { return limits[s].average, limits[s].maximum }

// implausible reports figures that no human reaches in the sport, and totals that contradict each other.
func (l *linter) implausible(d *Detail, values map[string]float64) {
	most := limits[d.Sport]
	for _, f := range [...]struct {
		name string
		most float64
		unit string
	}{
		{"avg_speed_kmh", most.average, "km/h"}, {"max_speed_kmh", most.maximum, "km/h"},
		{"avg_hr_bpm", mostAvgHR, "bpm"},
		{"max_hr_bpm", mostHR, "bpm"}, {"avg_power_w", mostAvgPower, "W"}, {"max_power_w", mostPower, "W"},
		{"avg_cadence_rpm", mostAvgCadence, "rpm"},
	} {
		if v := values[f.name]; v > f.most && v < mostExact { // beyond, it is reported as imprecise
			l.add(CodeImplausible, "/"+f.name, "%.0f %s is more than anybody reaches in %s", v, f.unit, d.Sport)
		}
	}
	metres, seconds := values["distance_m"], cmp.Or(values["moving_time_s"], values["duration_s"])
	if metres <= 0 || seconds <= 0 {
		return
	}
	speed := metres / seconds * 3.6
	switch v, known := values["avg_speed_kmh"]; {
	case !known && speed > most.average:
		l.add(CodeImplausible, "/distance_m", "%.0f m in %.0f seconds are %.0f km/h: more than anybody reaches in %s",
			metres, seconds, speed, d.Sport)
	case known && d.MovingTimeS != nil && math.Abs(v-speed) > slackPart*speed+slackKmh:
		l.add(CodeImplausible, "/avg_speed_kmh", "the average is %.1f km/h, but %.0f m in %.0f seconds are %.1f", v,
			metres, seconds, speed)
	}
}

// implausibleDistance reports a distance far above the track, if the track is whole.
func (l *linter) implausibleDistance(d *Detail, t *track) {
	if d.DistanceM == nil || t.first < 0 {
		return
	}
	const factor, whole, longS, indoorsM = 1.5, 0.9, 120, 50
	shown, last := 0, t.first
	for i := t.first; i <= t.last && i < len(d.Timeseries.T); i++ {
		if !t.has(i) {
			continue
		}
		if d.Timeseries.T[i]-d.Timeseries.T[last] <= longS {
			shown++
		}
		last = i
	}
	if rows := len(d.Timeseries.T); float64(shown) < whole*float64(rows) || t.beforeS+t.afterS > longS {
		return
	}
	// Indoors a position wanders in one place.
	if (position{t.south, t.unrolledWest}).metresTo(position{t.north, t.unrolledEast}) <= indoorsM {
		return
	}
	if length := t.length(); *d.DistanceM > factor*length+slackM {
		l.add(CodeImplausible, "/distance_m", "%.1f km, but the track is %.1f km long", *d.DistanceM/1000, length/1000)
	}
}
