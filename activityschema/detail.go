package activityschema

import "encoding/json"

// A Detail is the detail document of one activity, the file
// activities/{id}.json.
//
// In this type and the types within it, a field that is not marked as required
// may be left out of a document. A nil pointer stands for a member that is
// absent and for one that is null, which the format does not tell apart in
// meaning; it is left out when written.
type Detail struct {
	// Version is required: the constant Version.
	Version string `json:"bas_version"`
	// ID is required and never empty; it names the document's file.
	ID string `json:"id"`
	// Title is required, for people to read; it may be empty.
	Title string `json:"title"`
	// Description is for people to read; it may be null.
	Description *string `json:"description,omitzero"`
	// Sport is required.
	Sport Sport `json:"sport"`
	// SubSport may be null.
	SubSport *SubSport `json:"sub_sport,omitzero"`
	// StartedAt is required.
	StartedAt Time `json:"started_at"`
	// DistanceM is in metres; it may be null.
	DistanceM *float64 `json:"distance_m,omitzero"`
	// DurationS is from start to end in whole seconds; it may be null.
	DurationS *int64 `json:"duration_s,omitzero"`
	// MovingTimeS is in whole seconds; it may be null.
	MovingTimeS *int64 `json:"moving_time_s,omitzero"`
	// ElevationGainM is the sum of the climbs in metres; it may be null.
	ElevationGainM *float64 `json:"elevation_gain_m,omitzero"`
	// ElevationLossM is the sum of the descents in metres; it may be null.
	ElevationLossM *float64 `json:"elevation_loss_m,omitzero"`
	// AvgSpeedKmh is in kilometres per hour; it may be null.
	AvgSpeedKmh *float64 `json:"avg_speed_kmh,omitzero"`
	// MaxSpeedKmh is in kilometres per hour; it may be null.
	MaxSpeedKmh *float64 `json:"max_speed_kmh,omitzero"`
	// AvgHRBpm is the heart rate in beats per minute; it may be null.
	AvgHRBpm *int64 `json:"avg_hr_bpm,omitzero"`
	// MaxHRBpm is the heart rate in beats per minute; it may be null.
	MaxHRBpm *int64 `json:"max_hr_bpm,omitzero"`
	// AvgCadenceRpm is in revolutions per minute; it may be null.
	AvgCadenceRpm *int64 `json:"avg_cadence_rpm,omitzero"`
	// AvgPowerW is in watts; it may be null.
	AvgPowerW *int64 `json:"avg_power_w,omitzero"`
	// MaxPowerW is in watts; it may be null.
	MaxPowerW *int64 `json:"max_power_w,omitzero"`
	// Gear is what was used; it may be null.
	Gear *string `json:"gear,omitzero"`
	// Device is what recorded the activity; it may be null.
	Device *string `json:"device,omitzero"`
	// BBox is the box around the track; it may be null.
	BBox *BBox `json:"bbox,omitzero"`
	// StartLatLng is the position at the start; it may be null.
	StartLatLng *LatLng `json:"start_latlng,omitzero"`
	// EndLatLng is the position at the end; it may be null.
	EndLatLng *LatLng `json:"end_latlng,omitzero"`
	// Laps is required and never null: nil is written as an empty list.
	Laps []Lap `json:"laps"`
	// Timeseries is required, the recorded samples.
	Timeseries Timeseries `json:"timeseries"`
	// Source may be null.
	Source *Source `json:"source,omitzero"`
	// SourceFile is the name of the file that the recording came from; it may
	// be null.
	SourceFile *string `json:"source_file,omitzero"`
	// SourceHash is the hash of that file; it may be null.
	SourceHash *string `json:"source_hash,omitzero"`
	// StravaID is the activity's identifier at Strava; it may be null.
	StravaID *string `json:"strava_id,omitzero"`
	// DuplicateOf names the activity that this one duplicates; it may be null.
	DuplicateOf *string `json:"duplicate_of,omitzero"`
	// Privacy is required.
	Privacy Privacy `json:"privacy"`
	// Custom is required: free-form members, each JSON as it was read, without
	// meaning in version 1.0. Nil is written as an empty object, a nil value
	// as null.
	Custom map[string]json.RawMessage `json:"custom"`
}

// A Lap is one lap of an activity.
type Lap struct {
	// Index is required, the number of the lap; never negative.
	Index int64 `json:"index"`
	// StartedAt is required.
	StartedAt Time `json:"started_at"`
	// DurationS is required, in whole seconds; nil is written as null.
	DurationS *int64 `json:"duration_s"`
	// DistanceM is in metres; it may be null.
	DistanceM *float64 `json:"distance_m,omitzero"`
	// ElevationGainM is the sum of the climbs in metres; it may be null.
	ElevationGainM *float64 `json:"elevation_gain_m,omitzero"`
	// AvgSpeedKmh is in kilometres per hour; it may be null.
	AvgSpeedKmh *float64 `json:"avg_speed_kmh,omitzero"`
	// AvgHRBpm is the heart rate in beats per minute; it may be null.
	AvgHRBpm *int64 `json:"avg_hr_bpm,omitzero"`
	// AvgPowerW is in watts; it may be null.
	AvgPowerW *int64 `json:"avg_power_w,omitzero"`
}

// A BBox is a bounding box in degrees: min_lon, min_lat, max_lon, max_lat.
type BBox [4]float64

// A LatLng is a position in degrees. Version 1.0 states the order of its two
// numbers only by the name: latitude, longitude.
type LatLng [2]float64
