package activityschema

import "slices"

// A Severity says what a Finding is worth.
type Severity string

// The severities. An error shows what the owner chose not to show, and should
// keep a document from being published; a warning says that a value makes no
// sense, that two values contradict one another, or that a text may show a place.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Codes of the findings about one document, which Lint returns.
const (
	CodeNotLinted          = "not-linted"   // by NotLinted
	CodeIDFileName         = "id-file-name" // by Library, too
	CodeNegativeValue      = "negative-value"
	CodeIntegerPrecision   = "integer-precision"
	CodeDurationMismatch   = "duration-mismatch"
	CodeMovingOverDuration = "moving-over-duration"
	CodeDistanceMismatch   = "distance-mismatch"
	CodeAverageOverMaximum = "average-over-maximum"
	CodeBBoxRange          = "bbox-range"
	CodeBBoxOrder          = "bbox-order"
	CodeBBoxOutside        = "bbox-outside"
	CodeStartEndMismatch   = "start-end-mismatch"
	CodeLapsNumbered       = "laps-numbered"
	CodeLapOrder           = "lap-order"
	CodeLapOutside         = "lap-outside"
	CodeTNegative          = "t-negative"
	CodeTNotRising         = "t-not-rising"
	CodeColumnLength       = "column-length"
	CodeLatLonUnpaired     = "lat-lon-unpaired"
	CodeCoordinateRange    = "coordinate-range"
	CodeSourceHashForm     = "source-hash-form"
	CodeDuplicateOf        = "duplicate-of" // by Library, too
	CodeGeneratedAt        = "generated-at"
	CodeIDDuplicate        = "id-duplicate" // by Library, too
	CodeDetailURL          = "detail-url"   // by Library, too
)

// Codes of the findings about documents against one another, which only
// Library returns.
const (
	CodeSummaryMismatch = "summary-mismatch"
	CodeDetailMissing   = "detail-missing"
	CodeDetailUnlisted  = "detail-unlisted"
	CodeShardMissing    = "shard-missing"
	CodeShardCount      = "shard-count"
	CodeShardYear       = "shard-year"
)

// Codes of the findings about privacy.
const (
	CodePrivacyNoGPS            = "privacy-no-gps"
	CodePrivacyBlurStart        = "privacy-blur-start"
	CodePrivacyCustom           = "privacy-custom"
	CodePrivacyText             = "privacy-text"
	CodePrivacyPrivateLink      = "privacy-private-link"
	CodePrivacyMismatch         = "privacy-mismatch"          // by Library
	CodePrivacyPrivatePublished = "privacy-private-published" // by Library
	CodePrivacyBlurUncut        = "privacy-blur-uncut"
	CodePrivacyBlurUnproven     = "privacy-blur-unproven" // by Library
)

// A Code describes one kind of finding.
type Code struct {
	// Code is the name of the kind, in kebab case. It stays the same from
	// version to version.
	Code string `json:"code"`
	// Severity is that of every finding of the kind.
	Severity Severity `json:"severity"`
	// Explanation says in one line what holds of a document without the finding.
	Explanation string `json:"explanation"`
}

// Some codes of privacy are warnings. Those of a text and of a cut are guesses: a
// text may look like a position, and who always leaves by the same road has cut tracks
// which begin at one place, too. privacy-private-published may be on purpose: a host
// that asks who is reading may serve the owner's folder.
var codes = []Code{
	{CodeNotLinted, SeverityWarning, "A document is not larger than is looked through for findings: 16 MiB, unpacked."},
	{CodeIDFileName, SeverityWarning, "The detail of an activity is the file activities/{id}.json: the id has to be a file name, and the file's own."},
	{CodeNegativeValue, SeverityWarning, "Distances, durations, climbs, speeds, heart rates, cadences and powers are never below zero."},
	{CodeIntegerPrecision, SeverityWarning, "Integers beyond 2^53 become others in readers that hold numbers as doubles (RFC 7493, section 2.2)."},
	{CodeDurationMismatch, SeverityWarning, "duration_s runs from start to end, so the samples cannot last longer."},
	{CodeMovingOverDuration, SeverityWarning, "moving_time_s is a part of duration_s."},
	{CodeDistanceMismatch, SeverityWarning, "distance_m is no less than the laps together, nor than the straight line between the ends of the track."},
	{CodeAverageOverMaximum, SeverityWarning, "An average is never above the maximum."},
	{CodeBBoxRange, SeverityWarning, "bbox is [min_lon, min_lat, max_lon, max_lat] in degrees: longitudes to 180, latitudes to 90."},
	{CodeBBoxOrder, SeverityWarning, "bbox is [min_lon, min_lat, max_lon, max_lat]; only a track across the antimeridian has min_lon above max_lon."},
	{CodeBBoxOutside, SeverityWarning, "bbox holds the whole track."},
	{CodeStartEndMismatch, SeverityWarning, "start_latlng and end_latlng, as [latitude, longitude], are where the track begins and ends."},
	{CodeLapsNumbered, SeverityWarning, "Laps are numbered 0, 1, 2, ... in their order."},
	{CodeLapOrder, SeverityWarning, "Laps are listed in the order in which they start."},
	{CodeLapOutside, SeverityWarning, "Laps start within the activity and together last no longer than it."},
	{CodeTNegative, SeverityWarning, "t is in seconds since the start, so never below zero."},
	{CodeTNotRising, SeverityWarning, "t rises from sample to sample: at most one sample a second."},
	{CodeColumnLength, SeverityWarning, "Item i of every column belongs to item i of t, so all columns are as long as t."},
	{CodeLatLonUnpaired, SeverityWarning, "A latitude without a longitude is no position: both are there or both are null."},
	{CodeCoordinateRange, SeverityWarning, "Latitudes lie between -90 and 90 degrees, longitudes between -180 and 180."},
	{CodeSourceHashForm, SeverityWarning, "source_hash is sha256: and 64 hexadecimal digits."},
	{CodeDuplicateOf, SeverityWarning, "duplicate_of names the other record of the same activity, and one of the two is private."},
	{CodeGeneratedAt, SeverityWarning, "An index is not older than the newest activity in it."},
	{CodeIDDuplicate, SeverityWarning, "An id belongs to one activity."},
	{CodeDetailURL, SeverityWarning, "detail_url is the address of activities/{id}.json, within the published folder if it is relative."},
	{CodeSummaryMismatch, SeverityWarning, "What a summary says is what the detail says."},
	{CodeDetailMissing, SeverityWarning, "The detail that an index names is in the folder."},
	{CodeDetailUnlisted, SeverityWarning, "Every detail is listed by an index; nobody finds it otherwise."},
	{CodeShardMissing, SeverityWarning, "The shard that an index names is in the folder."},
	{CodeShardCount, SeverityWarning, "count is the number of activities in the shard."},
	{CodeShardYear, SeverityWarning, "The activities in a shard started in its year."},
	{CodePrivacyNoGPS, SeverityError, "A no_gps activity shows no position: no lat, lon, bbox, start_latlng, end_latlng, and no link to its track."},
	{CodePrivacyBlurStart, SeverityError, "A blur_start activity shows nothing beyond its cut track: not where it started or ended, not in bbox either."},
	{CodePrivacyCustom, SeverityError, "custom of a no_gps or blur_start activity has no position that the cut track does not show, no serial number and no address, as far as names of members tell."},
	{CodePrivacyText, SeverityWarning, "The texts of a no_gps or blur_start activity have nothing that looks like a position or the address of a map."},
	{CodePrivacyPrivateLink, SeverityError, "An index does not link to the detail or the track of a private activity."},
	{CodePrivacyMismatch, SeverityError, "An activity has one privacy: if index and detail differ, one of them may show too much."},
	{CodePrivacyPrivatePublished, SeverityWarning, "A private activity lies in the published folder, where whoever knows its address reads it unless the host forbids."},
	{CodePrivacyBlurUncut, SeverityWarning, "A blur_start track does not begin at 0 seconds and go on for all of distance_m, as if its ends had not been cut."},
	{CodePrivacyBlurUnproven, SeverityWarning, "A blur_start track begins or ends where several other activities do, as if its ends had not been cut."},
}

// Codes returns all kinds of findings: first those about one document, then
// those about documents against one another, then those about privacy. The
// slice is a copy that the caller may change.
func Codes() []Code { return slices.Clone(codes) }

func severityOf(code string) Severity {
	i := slices.IndexFunc(codes, func(c Code) bool { return c.Code == code })
	return codes[i].Severity
}
