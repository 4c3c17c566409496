package activityschema

import "slices"

// A Severity says what a Finding is worth.
type Severity string

// The severities. An error shows what the owner chose not to show, and should
// keep a document from being published; a warning says that a value makes no
// sense or that two values contradict one another.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Codes of the findings about one document, which Lint returns.
const (
	CodeIDFileName         = "id-file-name"         // an id that cannot name a file; by Library, a file that its id does not name
	CodeNegativeValue      = "negative-value"       // a distance, duration, speed, ... below zero
	CodeIntegerPrecision   = "integer-precision"    // an integer that a double cannot hold exactly
	CodeDurationMismatch   = "duration-mismatch"    // samples over a longer time than the duration
	CodeMovingOverDuration = "moving-over-duration" // more time moving than in all
	CodeAverageOverMaximum = "average-over-maximum" // an average above its own maximum
	CodeBBoxRange          = "bbox-range"           // a bound that is no longitude or latitude
	CodeBBoxOrder          = "bbox-order"           // a least bound above the greatest
	CodeBBoxOutside        = "bbox-outside"         // positions of the track outside bbox
	CodeStartEndMismatch   = "start-end-mismatch"   // start_latlng or end_latlng away from the track's ends
	CodeLapsNumbered       = "laps-numbered"        // laps not numbered 0, 1, 2, ...
	CodeLapOrder           = "lap-order"            // a lap that starts before the one before it
	CodeLapOutside         = "lap-outside"          // laps beyond the time of the activity
	CodeTNegative          = "t-negative"           // a sample before the start
	CodeTNotRising         = "t-not-rising"         // a sample not after the one before it
	CodeColumnLength       = "column-length"        // a column of another length than t
	CodeLatLonUnpaired     = "lat-lon-unpaired"     // latitude without longitude or the reverse
	CodeCoordinateRange    = "coordinate-range"     // a latitude beyond 90 or a longitude beyond 180 degrees
	CodeSourceHashForm     = "source-hash-form"     // source_hash is not sha256:hex
	CodeDuplicateOf        = "duplicate-of"         // duplicate_of names no other activity, or both are shown
	CodeGeneratedAt        = "generated-at"         // an index older than an activity in it
	CodeIDDuplicate        = "id-duplicate"         // one id for two activities
	CodeDetailURL          = "detail-url"           // detail_url is not the address of activities/{id}.json
	CodeLoneSurrogate      = "lone-surrogate"       // a text with half a surrogate pair
)

// Codes of the findings about documents against one another, which only
// Library returns. It also returns CodeIDFileName, CodeIDDuplicate,
// CodeDetailURL and CodeDuplicateOf.
const (
	CodeSummaryMismatch = "summary-mismatch" // a summary contradicts its detail
	CodeDetailMissing   = "detail-missing"   // an index names a detail that is not there
	CodeDetailUnlisted  = "detail-unlisted"  // a detail that no index lists
	CodeShardMissing    = "shard-missing"    // an index names a shard that is not there
	CodeShardCount      = "shard-count"      // a shard of another number of activities than said
	CodeShardYear       = "shard-year"       // an activity of another year than its shard
)

// Codes of the findings about privacy.
const (
	CodePrivacyNoGPS            = "privacy-no-gps"            // a no_gps activity with a position or a link to its track
	CodePrivacyBlurStart        = "privacy-blur-start"        // a blur_start activity that shows more than its cut track
	CodePrivacyCustom           = "privacy-custom"            // positions hidden in custom or in a text
	CodePrivacyPrivateLink      = "privacy-private-link"      // an index that links to what is private
	CodePrivacyMismatch         = "privacy-mismatch"          // another privacy in the index than in the detail; by Library
	CodePrivacyPrivatePublished = "privacy-private-published" // a private activity in the published folder; by Library
	CodePrivacyBlurUnproven     = "privacy-blur-unproven"     // a blur_start track that begins where others do; by Library
)

// A Code describes one kind of finding.
type Code struct {
	// Code is the name of the kind, in kebab case. It stays the same from
	// version to version.
	Code string `json:"code"`
	// Severity is that of every finding of the kind.
	Severity Severity `json:"severity"`
	// Explanation says in one line what is wrong and why it matters.
	Explanation string `json:"explanation"`
}

// Two codes of privacy are warnings. privacy-blur-unproven is a guess: who
// always leaves by the same road has cut tracks which begin at one place, too.
// privacy-private-published may be on purpose: a host that asks who is reading
// may serve the owner's folder, and the original of a duplicate is private.
var codes = []Code{
	{CodeIDFileName, SeverityWarning, "The detail of an activity is the file activities/{id}.json: the id has to be a file name, and the file's own."},
	{CodeNegativeValue, SeverityWarning, "Distances, durations, climbs, speeds, heart rates, cadences and powers are never below zero."},
	{CodeIntegerPrecision, SeverityWarning, "Integers beyond 2^53 become others in readers that hold numbers as doubles (RFC 7493, section 2.2)."},
	{CodeDurationMismatch, SeverityWarning, "duration_s runs from start to end, so the samples cannot last longer."},
	{CodeMovingOverDuration, SeverityWarning, "moving_time_s is a part of duration_s."},
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
	{CodeLoneSurrogate, SeverityWarning, "Half a surrogate pair is no character: readers replace it or refuse the document (RFC 7493, section 2.1)."},
	{CodeSummaryMismatch, SeverityWarning, "What a summary says is what the detail says."},
	{CodeDetailMissing, SeverityWarning, "The detail that an index names is in the folder."},
	{CodeDetailUnlisted, SeverityWarning, "Every detail is listed by an index; nobody finds it otherwise."},
	{CodeShardMissing, SeverityWarning, "The shard that an index names is in the folder."},
	{CodeShardCount, SeverityWarning, "count is the number of activities in the shard."},
	{CodeShardYear, SeverityWarning, "The activities in a shard started in its year."},
	{CodePrivacyNoGPS, SeverityError, "A no_gps activity shows no position: no lat, lon, bbox, start_latlng, end_latlng, and no link to its track."},
	{CodePrivacyBlurStart, SeverityError, "A blur_start activity shows nothing beyond its cut track: not where it started or ended, not in bbox either."},
	{CodePrivacyCustom, SeverityError, "custom and the texts hold no position of a no_gps activity, and none beyond the cut track of a blur_start activity, nor where it truly began or ended."},
	{CodePrivacyPrivateLink, SeverityError, "An index does not link to the detail or the track of a private activity."},
	{CodePrivacyMismatch, SeverityError, "An activity has one privacy: if index and detail differ, one of them may show too much."},
	{CodePrivacyPrivatePublished, SeverityWarning, "A private activity lies in the published folder, where whoever knows its address reads it unless the host forbids."},
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
