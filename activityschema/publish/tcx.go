package publish

import (
	"encoding/xml"
	"errors"
	"math"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

var errNoTimes = errors.New("the track has no usable times: it was planned and not recorded")

// tcx handles Garmin's Training Center Database. Each Activity is one, also within a multisport
// session. Between the Tracks of a Lap it was paused.
type tcx struct {
	file    *File
	rec     *Recording // of the current Activity, or nil
	lap     *Totals    // of the current Lap, or nil
	sample  *Sample    // of the current Trackpoint, or nil
	current Sample
	tracks  int // so far in the lap
	pause   bool
	courses bool
}

func (t *tcx) start(path []string, attrs []xml.Attr) error {
	switch name := path[len(path)-1]; {
	case name == "Course" || name == "Workout":
		t.courses = true
	case name == "Activity" && slices.Contains(path, "Activities"):
		t.rec = &Recording{Source: activityschema.SourceTCXFile, Totals: newTotals()}
		t.rec.Sport, t.rec.SubSport = sportNamed(attribute(attrs, "Sport"))
		return t.file.begin(t.rec)
	case t.rec == nil:
		if name == "Trackpoint" { // of a course, or of a transition
			t.file.outside()
		}
	case name == "Lap":
		lap := newTotals()
		lap.Start = t.rec.timed(attribute(attrs, "StartTime"))
		if err := t.file.addLap(t.rec, &lap); err != nil {
			return err
		}
		t.lap, t.tracks = &lap, 0
		if len(t.rec.Laps) == 1 {
			t.rec.Totals.Start = lap.Start
		}
	case name == "Track" && t.lap != nil:
		t.tracks++
		t.pause = t.tracks > 1 && len(t.rec.Samples) > 0
	case name == "Trackpoint" && t.lap != nil:
		t.current = newSample()
		t.sample = &t.current
	}
	return nil
}

func (t *tcx) end(path []string, text string) error {
	name := path[len(path)-1]
	if t.rec == nil || len(path) < 2 {
		return nil
	}
	within := path[len(path)-2]
	switch {
	case t.sample != nil:
		return t.point(within, name, text)
	case name == "Activity":
		t.rec.total()
		t.rec, t.lap = nil, nil
	case name == "Lap":
		t.lap = nil
	case within == "Creator" && name == "Name":
		t.rec.Device = productName(text)
	case t.lap == nil:
	case within == "Lap" && name == "TotalTimeSeconds": // without pauses
		t.lap.MovingS = decimal(text)
	case within == "Lap" && name == "DistanceMeters":
		t.lap.DistanceM = decimal(text)
	case within == "AverageHeartRateBpm" && name == "Value":
		t.lap.AvgHR = decimal(text)
	case within == "MaximumHeartRateBpm" && name == "Value":
		t.lap.MaxHR = decimal(text)
	case name == "AvgWatts":
		t.lap.AvgPower = decimal(text)
	}
	return nil
}

// point handles the end of a Trackpoint or of an element in it.
func (t *tcx) point(within, name, text string) error {
	s := t.sample
	switch name {
	case "Trackpoint":
		t.sample = nil
		s.Break, t.pause = t.pause, false
		return t.file.add(t.rec, *s)
	case "Time":
		s.At = t.rec.timed(text)
	case "LatitudeDegrees":
		s.Lat = decimal(text)
	case "LongitudeDegrees":
		s.Lon = decimal(text)
	case "AltitudeMeters":
		s.ElevationM = decimal(text)
	case "DistanceMeters":
		s.DistanceM = decimal(text)
	case "Value":
		if within == "HeartRateBpm" {
			s.HRBpm = whole(text)
		}
	default:
		if !s.sensor(name, text) && text != "" && (within == "TPX" || within == "Extensions") {
			t.file.skip("values", name)
		}
	}
	return nil
}

// total computes the totals from the laps: TCX has none for the whole activity.
func (r *Recording) total() {
	t := &r.Totals
	if len(r.Laps) == 0 {
		return
	}
	t.ElapsedS, t.MovingS, t.DistanceM = 0, 0, 0
	for _, lap := range r.Laps {
		t.MovingS += lap.MovingS
		t.DistanceM += lap.DistanceM
		if lap.MaxHR > t.MaxHR || math.IsNaN(t.MaxHR) {
			t.MaxHR = lap.MaxHR
		}
	}
	last := r.Laps[len(r.Laps)-1]
	t.ElapsedS = float64(last.Start-r.Laps[0].Start)/1000 + last.MovingS
}

func (t *tcx) finish() error {
	if len(t.file.Recordings) == 0 && t.courses {
		return errNoTrack
	}
	if t.rec != nil { // cut short
		t.rec.total()
	}
	return nil
}
