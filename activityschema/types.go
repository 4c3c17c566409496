package activityschema

import (
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the format, the only value of bas_version.
const Version = "1.0"

// A Sport is the kind of sport of an activity.
type Sport string

// All sports of version 1.0.
const (
	SportCycling  Sport = "cycling"
	SportRunning  Sport = "running"
	SportHiking   Sport = "hiking"
	SportWalking  Sport = "walking"
	SportSwimming Sport = "swimming"
	SportOther    Sport = "other"
)

// A SubSport is the variety of a sport. The format lets any of them stand
// beside any sport.
type SubSport string

// All sub-sports of version 1.0.
const (
	SubSportRoad     SubSport = "road"
	SubSportMountain SubSport = "mountain"
	SubSportGravel   SubSport = "gravel"
	SubSportIndoor   SubSport = "indoor"
	SubSportTrail    SubSport = "trail"
	SubSportTrack    SubSport = "track"
)

// A Privacy classifies an activity by what may be shown of it. The
// specification names the classes and leaves their meaning to the names.
type Privacy string

// All privacy classes of version 1.0.
const (
	PrivacyPublic    Privacy = "public"
	PrivacyBlurStart Privacy = "blur_start"
	PrivacyNoGPS     Privacy = "no_gps"
	PrivacyPrivate   Privacy = "private"
)

// A Source is the service, file format or hand that a recording came from.
type Source string

// All sources of version 1.0.
const (
	SourceStravaExport  Source = "strava_export"
	SourceGarminConnect Source = "garmin_connect"
	SourceWahoo         Source = "wahoo"
	SourceKomoot        Source = "komoot"
	SourceGPXFile       Source = "gpx_file"
	SourceFITFile       Source = "fit_file"
	SourceTCXFile       Source = "tcx_file"
	SourceKaroo         Source = "karoo"
	SourceManual        Source = "manual"
)

// An Index is the index document, the file index.json: summaries of an
// owner's activities.
//
// In this type and the types within it, a field that is not marked as required
// may be left out of a document. A nil pointer stands for a member that is
// absent and for one that is null, which the format does not tell apart in
// meaning; it is left out when written.
type Index struct {
	// Version is required: the constant Version.
	Version string `json:"bas_version"`
	// Owner is required.
	Owner Owner `json:"owner"`
	// GeneratedAt is required: when the document was written.
	GeneratedAt Time `json:"generated_at"`
	// Shards are further files of summaries. Nil is left out, an empty list
	// is written as one; a document cannot say null.
	Shards []Shard `json:"shards,omitzero"`
	// Activities is required and never null: nil is written as an empty list.
	Activities []Summary `json:"activities"`
}

// An Owner is the person whose activities an index lists.
type Owner struct {
	// Handle is required, the owner's short name; never empty.
	Handle string `json:"handle"`
	// DisplayName is required, for people to read; it may be empty.
	DisplayName string `json:"display_name"`
	// AvatarURL is the address of a picture of the owner; it may be null.
	AvatarURL *string `json:"avatar_url,omitzero"`
}

// A Shard is a further file of summaries, for one year.
type Shard struct {
	// Year is required.
	Year int64 `json:"year"`
	// URL is required, the address of the file.
	URL string `json:"url"`
	// Count is required, the number of activities in the file.
	Count int64 `json:"count"`
}

// A Summary is one activity as an index lists it.
type Summary struct {
	// ID is required and never empty; the activity's detail document is the
	// file activities/{id}.json.
	ID string `json:"id"`
	// Title is required, for people to read; it may be empty.
	Title string `json:"title"`
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
	// Source may be null.
	Source *Source `json:"source,omitzero"`
	// Privacy is required.
	Privacy Privacy `json:"privacy"`
	// DetailURL is the address of the detail document; it may be null.
	DetailURL *string `json:"detail_url,omitzero"`
	// TrackURL is the address of the recorded track; it may be null.
	TrackURL *string `json:"track_url,omitzero"`
}

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
	Custom map[string]jsontext.Value `json:"custom"`
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

// A Timeseries holds the recorded samples as columns, item i of each belonging
// to item i of T. The format intends that and does not enforce it: columns of
// unlike length are valid.
//
// A nil column is one that is absent, or null where a document may say so; it
// is left out when written. A column that is empty and not nil is written as
// an empty list.
type Timeseries struct {
	// T is required and never null: nil is written as an empty list. Version
	// 1.0 does not state its unit and origin.
	T Integers `json:"t"`
	// Lat is in degrees; items, and the whole column, may be null.
	Lat Column[float64] `json:"lat,omitzero"`
	// Lon is in degrees; items, and the whole column, may be null.
	Lon Column[float64] `json:"lon,omitzero"`
	// ElevationM is in metres; items may be null.
	ElevationM Column[float64] `json:"elevation_m,omitzero"`
	// SpeedKmh is in kilometres per hour; items may be null.
	SpeedKmh Column[float64] `json:"speed_kmh,omitzero"`
	// HRBpm is in beats per minute; items may be null.
	HRBpm Column[int64] `json:"hr_bpm,omitzero"`
	// CadenceRpm is in revolutions per minute; items may be null.
	CadenceRpm Column[int64] `json:"cadence_rpm,omitzero"`
	// PowerW is in watts; items may be null.
	PowerW Column[int64] `json:"power_w,omitzero"`
	// TemperatureC is in degrees Celsius; items may be null.
	TemperatureC Column[float64] `json:"temperature_c,omitzero"`
}

// Integers is a column without nulls.
type Integers []int64

// A Column is a list of values that may each be null.
type Column[T int64 | float64] []Null[T]

// A Null is a value, or null where Valid is false; Value then means nothing.
type Null[T int64 | float64] struct {
	Value T
	Valid bool
}

// Some returns a Null that is not null.
func Some[T int64 | float64](value T) Null[T] { return Null[T]{Value: value, Valid: true} }

// A Document is a document of either form: exactly one of Index and Detail is set.
type Document struct {
	Index  *Index
	Detail *Detail
}
