package activityschema

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
