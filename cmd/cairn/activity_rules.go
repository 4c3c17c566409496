package main

import (
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

// A rule is what a problem or a finding breaks, for reports that describe them.
type rule struct {
	id          string // keyword or code
	severity    activityschema.Severity
	explanation string
}

// keywordRules explain the keywords of problems: those of the schema, then those
// of I-JSON.
var keywordRules = []rule{
	{"type", activityschema.SeverityError, "The value is of a type that the format lists for the member."},
	{"const", activityschema.SeverityError, "The value is the one that the format has there: bas_version is 1.0."},
	{"enum", activityschema.SeverityError, "The value is one of those that the format lists."},
	{"format", activityschema.SeverityError, "Times are RFC 3339 with a zone, such as 2026-05-17T06:30:12Z."},
	{"minLength", activityschema.SeverityError, "A text that names something is not empty."},
	{"minimum", activityschema.SeverityError, "The number is not below the least one that the format allows."},
	{"minItems", activityschema.SeverityError, "The list has at least as many items as the format says."},
	{"maxItems", activityschema.SeverityError, "The list has at most as many items as the format says."},
	{"required", activityschema.SeverityError, "Every member that the format requires is there."},
	{"additionalProperties", activityschema.SeverityError, "No object but custom has members that the format does not list."},
	{"oneOf", activityschema.SeverityError, "A document is an index or the detail of one activity."},
	{activityschema.KeywordSize, activityschema.SeverityError, "A document is not larger than is read: 256 MiB, unpacked."},
	{activityschema.KeywordBOM, activityschema.SeverityError, "JSON does not begin with a byte order mark (RFC 8259, section 8.1)."},
	{activityschema.KeywordUTF8, activityschema.SeverityError, "JSON is UTF-8 (RFC 8259, section 8.1)."},
	{activityschema.KeywordDepth, activityschema.SeverityError, "Objects and arrays lie at most 64 deep in one another."},
	{activityschema.KeywordSyntax, activityschema.SeverityError, "A document is JSON (RFC 8259)."},
	{activityschema.KeywordTrailingData, activityschema.SeverityError, "Nothing follows the JSON value."},
	{activityschema.KeywordDuplicate, activityschema.SeverityError, "No object has a member twice (RFC 7493, section 2.3)."},
	{activityschema.KeywordNumber, activityschema.SeverityError, "Numbers lie within the range of a double (RFC 7493, section 2.2)."},
}

// rules are all that a report may name. With allowPrivacy nothing but the
// schema makes errors.
func (c *checker) rules() []rule {
	all := slices.Clone(keywordRules)
	if !c.lint {
		return all
	}
	for _, code := range activityschema.Codes() {
		severity := code.Severity
		if c.allowPrivacy {
			severity = activityschema.SeverityWarning
		}
		all = append(all, rule{code.Code, severity, code.Explanation})
	}
	return all
}
