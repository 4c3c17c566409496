package activityschema

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
