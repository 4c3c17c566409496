package activityschema

import "slices"

// A Severity is how serious a Finding is.
type Severity string

// The severities. An error means that the document shows what the owner chose not to show, and
// should not be published. A warning means that a value makes no sense, that two values contradict
// each other, or that a text may show a place.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Codes of the findings. They are stable across versions; docs/activity.md gives the rule behind
// each. Library reports the codes that compare documents.
const (
	CodeNotLinted               = "not-linted"
	CodeIDFileName              = "id-file-name"
	CodeNegativeValue           = "negative-value"
	CodeIntegerPrecision        = "integer-precision"
	CodeDurationMismatch        = "duration-mismatch"
	CodeMovingOverDuration      = "moving-over-duration"
	CodeDistanceMismatch        = "distance-mismatch"
	CodeAverageOverMaximum      = "average-over-maximum"
	CodeImplausible             = "implausible"
	CodeBBoxRange               = "bbox-range"
	CodeBBoxOrder               = "bbox-order"
	CodeBBoxOutside             = "bbox-outside"
	CodeStartEndMismatch        = "start-end-mismatch"
	CodeLapsNumbered            = "laps-numbered"
	CodeLapOrder                = "lap-order"
	CodeLapOutside              = "lap-outside"
	CodeTNegative               = "t-negative"
	CodeTNotRising              = "t-not-rising"
	CodeColumnLength            = "column-length"
	CodeLatLonUnpaired          = "lat-lon-unpaired"
	CodeCoordinateRange         = "coordinate-range"
	CodeSourceHashForm          = "source-hash-form"
	CodeDuplicateOf             = "duplicate-of"
	CodeGeneratedAt             = "generated-at"
	CodeIDDuplicate             = "id-duplicate"
	CodeDetailURL               = "detail-url"
	CodeSummaryMismatch         = "summary-mismatch"
	CodeDetailMissing           = "detail-missing"
	CodeDetailUnlisted          = "detail-unlisted"
	CodeShardMissing            = "shard-missing"
	CodeShardCount              = "shard-count"
	CodeShardYear               = "shard-year"
	CodePrivacyNoGPS            = "privacy-no-gps"
	CodePrivacyBlurStart        = "privacy-blur-start"
	CodePrivacyCustom           = "privacy-custom"
	CodePrivacyCustomName       = "privacy-custom-name"
	CodePrivacyText             = "privacy-text"
	CodePrivacyPrivateLink      = "privacy-private-link"
	CodePrivacyMismatch         = "privacy-mismatch"
	CodePrivacyPrivatePublished = "privacy-private-published"
	CodePrivacyBlurLength       = "privacy-blur-length"
	CodePrivacyBlurSource       = "privacy-blur-source"
	CodePrivacyBlurUnproven     = "privacy-blur-unproven"
)

// Codes returns the codes of all findings: first those about one document, then those that
// compare documents, then those about privacy.
func Codes() []string {
	return []string{
		CodeNotLinted, CodeIDFileName, CodeNegativeValue, CodeIntegerPrecision, CodeDurationMismatch,
		CodeMovingOverDuration, CodeDistanceMismatch, CodeAverageOverMaximum, CodeImplausible, CodeBBoxRange,
		CodeBBoxOrder, CodeBBoxOutside, CodeStartEndMismatch, CodeLapsNumbered, CodeLapOrder, CodeLapOutside,
		CodeTNegative, CodeTNotRising, CodeColumnLength, CodeLatLonUnpaired, CodeCoordinateRange, CodeSourceHashForm,
		CodeDuplicateOf, CodeGeneratedAt,
		CodeIDDuplicate, CodeDetailURL, CodeSummaryMismatch, CodeDetailMissing, CodeDetailUnlisted,
		CodeShardMissing, CodeShardCount, CodeShardYear,
		CodePrivacyNoGPS, CodePrivacyBlurStart, CodePrivacyCustom, CodePrivacyCustomName, CodePrivacyText,
		CodePrivacyPrivateLink, CodePrivacyMismatch, CodePrivacyPrivatePublished, CodePrivacyBlurLength,
		CodePrivacyBlurSource, CodePrivacyBlurUnproven,
	}
}

// errorCodes lists the codes of errors. The other privacy codes are warnings because they are
// guesses: a text may merely look like a position, and cut tracks of an owner who always leaves
// by the same road begin at one place too. privacy-private-published may be intended: a host with
// access control may serve the owner's folder.
var errorCodes = []string{
	CodePrivacyNoGPS, CodePrivacyBlurStart, CodePrivacyCustom, CodePrivacyPrivateLink, CodePrivacyMismatch,
	CodePrivacyBlurLength,
}

// SeverityOf returns the severity of the findings of a code.
func SeverityOf(code string) Severity {
	if slices.Contains(errorCodes, code) {
		return SeverityError
	}
	return SeverityWarning
}
