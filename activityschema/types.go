package activityschema

import "github.com/go-json-experiment/json/jsontext"

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

// A SubSport is a variety of a sport. The format allows any of them with any sport.
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

// A Privacy classifies an activity by what may be shown of it. The specification only names the
// classes.
type Privacy string

// All privacy classes of version 1.0.
const (
	PrivacyPublic    Privacy = "public"
	PrivacyBlurStart Privacy = "blur_start"
	PrivacyNoGPS     Privacy = "no_gps"
	PrivacyPrivate   Privacy = "private"
)

// A Source is the service or file format that a recording came from, or manual.
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

// An Index is the index document, the file index.json: summaries of an owner's activities.
//
// In all types of a document, a pointer is a member that may be absent or null, which mean the
// same: nil is omitted when written. All other members are required unless their comment says
// otherwise. The end of a name is its unit, as in JSON: metres (M), whole seconds (S), kilometres
// per hour (Kmh), beats per minute (Bpm), revolutions per minute (Rpm), watts (W), degrees
// Celsius (C).
type Index struct {
	Version     string    `json:"bas_version"` // the constant Version
	Owner       Owner     `json:"owner"`
	GeneratedAt Time      `json:"generated_at"`    // when the document was written
	Shards      []Shard   `json:"shards,omitzero"` // further files; nil is omitted, an empty list is written
	Activities  []Summary `json:"activities"`      // nil is written as an empty list
}

// An Owner is the person whose activities an index lists.
type Owner struct {
	Handle      string  `json:"handle"` // the short name; never empty
	DisplayName string  `json:"display_name"`
	AvatarURL   *string `json:"avatar_url,omitzero"` // the address of a picture
}

// A Shard is a further file of summaries, for one year.
type Shard struct {
	Year  int64  `json:"year"`
	URL   string `json:"url"`
	Count int64  `json:"count"` // of the activities in the file
}

// An Activity has the members that a summary and a detail share.
type Activity struct {
	ID        string    `json:"id"`    // never empty; the detail is the file activities/{id}.json
	Title     string    `json:"title"` // may be empty
	Sport     Sport     `json:"sport"`
	SubSport  *SubSport `json:"sub_sport,omitzero"`
	StartedAt Time      `json:"started_at"`
	Source    *Source   `json:"source,omitzero"`
	Privacy   Privacy   `json:"privacy"`

	DistanceM      *float64 `json:"distance_m,omitzero"`
	DurationS      *int64   `json:"duration_s,omitzero"` // from start to end
	MovingTimeS    *int64   `json:"moving_time_s,omitzero"`
	ElevationGainM *float64 `json:"elevation_gain_m,omitzero"` // the sum of the climbs
	AvgSpeedKmh    *float64 `json:"avg_speed_kmh,omitzero"`
	MaxSpeedKmh    *float64 `json:"max_speed_kmh,omitzero"`
	AvgHRBpm       *int64   `json:"avg_hr_bpm,omitzero"` // heart rate
	MaxHRBpm       *int64   `json:"max_hr_bpm,omitzero"`
	AvgCadenceRpm  *int64   `json:"avg_cadence_rpm,omitzero"`
	AvgPowerW      *int64   `json:"avg_power_w,omitzero"`
}

// A Summary is one activity in an index.
type Summary struct {
	Activity
	DetailURL *string `json:"detail_url,omitzero"` // the address of the detail document
	TrackURL  *string `json:"track_url,omitzero"`  // the address of the recorded track
}

// A Detail is the detail document of one activity, the file activities/{id}.json. The rules of
// Index for nil and units apply.
type Detail struct {
	Version string `json:"bas_version"` // the constant Version
	Activity
	Description    *string  `json:"description,omitzero"`
	ElevationLossM *float64 `json:"elevation_loss_m,omitzero"` // the sum of the descents
	MaxPowerW      *int64   `json:"max_power_w,omitzero"`
	Gear           *string  `json:"gear,omitzero"`   // what was used
	Device         *string  `json:"device,omitzero"` // what recorded the activity
	BBox           *BBox    `json:"bbox,omitzero"`   // the box around the track
	StartLatLng    *LatLng  `json:"start_latlng,omitzero"`
	EndLatLng      *LatLng  `json:"end_latlng,omitzero"`
	SourceFile     *string  `json:"source_file,omitzero"`  // the name of the file that the recording came from
	SourceHash     *string  `json:"source_hash,omitzero"`  // the hash of that file
	StravaID       *string  `json:"strava_id,omitzero"`    // the identifier at Strava
	DuplicateOf    *string  `json:"duplicate_of,omitzero"` // the id of the activity that this one duplicates

	Laps       []Lap      `json:"laps"` // nil is written as an empty list
	Timeseries Timeseries `json:"timeseries"`
	// Custom has free-form members, each as JSON as it was read, without meaning in version 1.0.
	// A nil map is written as an empty object, a nil value as null.
	Custom map[string]jsontext.Value `json:"custom"`
}

// A Lap is one lap of an activity.
type Lap struct {
	Index          int64    `json:"index"` // its number; never negative
	StartedAt      Time     `json:"started_at"`
	DurationS      *int64   `json:"duration_s"` // required: nil is written as null
	DistanceM      *float64 `json:"distance_m,omitzero"`
	ElevationGainM *float64 `json:"elevation_gain_m,omitzero"`
	AvgSpeedKmh    *float64 `json:"avg_speed_kmh,omitzero"`
	AvgHRBpm       *int64   `json:"avg_hr_bpm,omitzero"`
	AvgPowerW      *int64   `json:"avg_power_w,omitzero"`
}

// A BBox is a bounding box in degrees: min_lon, min_lat, max_lon, max_lat.
type BBox [4]float64

// A LatLng is a position in degrees. Version 1.0 implies the order of its numbers only by the
// name: latitude, longitude.
type LatLng [2]float64

// A Timeseries holds the recorded samples as columns: item i of each belongs to item i of T. The
// format intends but does not enforce this: columns of different lengths are valid.
//
// A nil column is absent, or null where a document allows it; it is omitted when written. An
// empty, non-nil column is written as an empty list.
type Timeseries struct {
	// T is required: nil is written as an empty list. Version 1.0 does not state its unit and origin.
	T            Integers        `json:"t"`
	Lat          Column[float64] `json:"lat,omitzero"` // in degrees, as Lon
	Lon          Column[float64] `json:"lon,omitzero"`
	ElevationM   Column[float64] `json:"elevation_m,omitzero"`
	SpeedKmh     Column[float64] `json:"speed_kmh,omitzero"`
	HRBpm        Column[int64]   `json:"hr_bpm,omitzero"`
	CadenceRpm   Column[int64]   `json:"cadence_rpm,omitzero"`
	PowerW       Column[int64]   `json:"power_w,omitzero"`
	TemperatureC Column[float64] `json:"temperature_c,omitzero"`
}

// Integers is a column without nulls.
type Integers []int64

// A Column is a list of values that may each be null.
type Column[T int64 | float64] []Null[T]

// A Null is a value, or null if Valid is false. Value is then meaningless.
type Null[T int64 | float64] struct {
	Value T
	Valid bool
}

// Some returns a valid Null.
func Some[T int64 | float64](value T) Null[T] { return Null[T]{Value: value, Valid: true} }

// A Document is a document of either form: exactly one of Index and Detail is set.
type Document struct {
	Index  *Index
	Detail *Detail
}
