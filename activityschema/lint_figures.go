package activityschema

import (
	"strconv"
	"strings"
	"unicode"
)

// Up to mostExact a double holds every integer exactly; beyond is imprecise.
const (
	mostExact = 1 << 53
	imprecise = "beyond 2^53, where a reader that holds numbers as doubles sees another integer"
)

// A spot is an object of a document: the zero spot is the document itself,
// any other an item of a list.
type spot struct {
	list string // pointer to the list
	item int
}

func (s spot) member(name string) string {
	if s.list == "" {
		return "/" + name
	}
	return s.list + "/" + strconv.Itoa(s.item) + "/" + name
}

// figures are the numbers that a summary, a detail or a lap gives of the whole
// of it; nil is a number that is not given.
type figures struct {
	distanceM                           *float64
	durationS, movingTimeS              *int64
	elevationGainM, elevationLossM      *float64
	avgSpeedKmh, maxSpeedKmh            *float64
	avgHRBpm, maxHRBpm                  *int64
	avgCadenceRpm, avgPowerW, maxPowerW *int64
}

func figuresOf(d *Detail) figures {
	return figures{
		distanceM:      d.DistanceM,
		durationS:      d.DurationS,
		movingTimeS:    d.MovingTimeS,
		elevationGainM: d.ElevationGainM,
		elevationLossM: d.ElevationLossM,
		avgSpeedKmh:    d.AvgSpeedKmh,
		maxSpeedKmh:    d.MaxSpeedKmh,
		avgHRBpm:       d.AvgHRBpm,
		maxHRBpm:       d.MaxHRBpm,
		avgCadenceRpm:  d.AvgCadenceRpm,
		avgPowerW:      d.AvgPowerW,
		maxPowerW:      d.MaxPowerW,
	}
}

func figuresOfSummary(s *Summary) figures {
	return figures{
		distanceM:      s.DistanceM,
		durationS:      s.DurationS,
		movingTimeS:    s.MovingTimeS,
		elevationGainM: s.ElevationGainM,
		avgSpeedKmh:    s.AvgSpeedKmh,
		maxSpeedKmh:    s.MaxSpeedKmh,
		avgHRBpm:       s.AvgHRBpm,
		maxHRBpm:       s.MaxHRBpm,
		avgCadenceRpm:  s.AvgCadenceRpm,
		avgPowerW:      s.AvgPowerW,
	}
}

func figuresOfLap(p *Lap) figures {
	return figures{
		durationS:      p.DurationS,
		distanceM:      p.DistanceM,
		elevationGainM: p.ElevationGainM,
		avgSpeedKmh:    p.AvgSpeedKmh,
		avgHRBpm:       p.AvgHRBpm,
		avgPowerW:      p.AvgPowerW,
	}
}

// Slack between numbers that a writer has rounded each by itself.
const (
	roundingS   = 1   // seconds, between two times in whole seconds
	roundingKmh = 0.1 // between an average and a maximum of few decimals
)

func (l *linter) figures(at spot, f figures) {
	figure(l, at, "distance_m", f.distanceM)
	figure(l, at, "duration_s", f.durationS)
	figure(l, at, "moving_time_s", f.movingTimeS)
	if f.movingTimeS != nil && f.durationS != nil && *f.movingTimeS-roundingS > *f.durationS {
		l.add(CodeMovingOverDuration, at.member("moving_time_s"), "%d seconds of moving in %d seconds", *f.movingTimeS, *f.durationS)
	}
	figure(l, at, "elevation_gain_m", f.elevationGainM)
	figure(l, at, "elevation_loss_m", f.elevationLossM)
	figure(l, at, "avg_speed_kmh", f.avgSpeedKmh)
	average(l, at, "avg_speed_kmh", f.avgSpeedKmh, f.maxSpeedKmh, roundingKmh)
	figure(l, at, "max_speed_kmh", f.maxSpeedKmh)
	figure(l, at, "avg_hr_bpm", f.avgHRBpm)
	average(l, at, "avg_hr_bpm", f.avgHRBpm, f.maxHRBpm, 0)
	figure(l, at, "max_hr_bpm", f.maxHRBpm)
	figure(l, at, "avg_cadence_rpm", f.avgCadenceRpm)
	figure(l, at, "avg_power_w", f.avgPowerW)
	average(l, at, "avg_power_w", f.avgPowerW, f.maxPowerW, 0)
	figure(l, at, "max_power_w", f.maxPowerW)
}

// figure looks at one number by itself.
func figure[T int64 | float64](l *linter, at spot, name string, v *T) {
	if v == nil {
		return
	}
	if *v < 0 {
		l.add(CodeNegativeValue, at.member(name), "%v is below zero", *v)
	}
	if n, ok := any(*v).(int64); ok && (n > mostExact || n < -mostExact) {
		l.add(CodeIntegerPrecision, at.member(name), imprecise)
	}
}

func average[T int64 | float64](l *linter, at spot, name string, avg, highest *T, slack T) {
	if avg != nil && highest != nil && *avg > *highest+slack {
		l.add(CodeAverageOverMaximum, at.member(name), "the average %v is above the maximum %v", *avg, *highest)
	}
}

// recordedTime compares the duration with the time that the samples span. It
// is not an error if they span less: a track may be cut, and a device may be
// switched off late.
func (l *linter) recordedTime(d *Detail) {
	t := d.Timeseries.T
	if d.DurationS == nil || *d.DurationS < 0 || len(t) == 0 {
		return
	}
	// Devices go on writing after the stop, and some leave short stops out of
	// the time they call elapsed. One percent is for a duration that was taken
	// from another clock than t.
	const late, drift = 30, 0.01
	duration := float64(*d.DurationS)
	if span := float64(t[len(t)-1]) - float64(t[0]); span > duration*(1+drift)+late {
		l.add(CodeDurationMismatch, "/duration_s", "the samples span %.0f seconds, the duration is %d", span, *d.DurationS)
	}
}

// longestFileName is that of common file systems, in bytes.
const longestFileName = 255

// id reports an id that cannot be the name of activities/{id}.json.
func (l *linter) id(at spot, id string) {
	if !usableID(id) {
		l.add(CodeIDFileName, at.member("id"), "cannot name the file activities/{id}.json: it has a slash, backslash or control character, or is longer than %d bytes",
			longestFileName-len(".json"))
	}
}

func usableID(id string) bool {
	return !strings.ContainsAny(id, `/\`) && !strings.ContainsFunc(id, unicode.IsControl) && len(id)+len(".json") <= longestFileName
}

// provenance looks at where the recording comes from.
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
