package activityschema

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// A comparison of all documents of a folder.
type comparison struct {
	files   map[string]record
	names   []string                 // of files, sorted
	details map[string]*detailRecord // by id
	listed  map[string]listing       // by id
	reports map[string]*linter       // by file
	indexed bool                     // there is an index at all
	partial bool                     // there are indexes that are not in the folder or cannot be read
	shards  map[namedShard]bool      // that have been looked at
}

// A listing is where an activity is listed first.
type listing struct {
	file    string
	summary *summaryRecord
}

// in returns what collects the findings about a file.
func (c *comparison) in(file string) *linter {
	if c.reports[file] == nil {
		c.reports[file] = new(linter)
	}
	return c.reports[file]
}

func (c *comparison) compare() {
	for _, file := range c.names {
		switch r := c.files[file]; {
		case r.detail != nil:
			c.identify(file, r.detail)
		case r.index != nil:
			c.indexed = true
			for i := range r.index.activities {
				c.list(file, i, &r.index.activities[i])
			}
		case !strings.HasPrefix(file, "activities/"):
			c.partial = true
		}
	}
	for _, file := range c.names {
		if x := c.files[file].index; x != nil {
			c.index(file, x)
		}
	}
	for _, file := range c.names {
		if d := c.files[file].detail; d != nil {
			c.detail(file, d)
		}
	}
	c.unblurred()
}

// identify notes the id of a detail.
func (c *comparison) identify(file string, d *detailRecord) {
	if path := detailPath(d.id); file != path && usableID(d.id) {
		c.in(file).add(CodeIDFileName, "/id", "the detail of this id is the file %q", path)
	}
	if c.details[d.id] != nil {
		c.in(file).add(CodeIDDuplicate, "/id", "another detail in the folder has this id")
		return
	}
	c.details[d.id] = d
}

// list notes the id of a summary. An activity may be listed both in index.json
// and in a shard; Lint looks at one that is twice in one index.
func (c *comparison) list(file string, i int, s *summaryRecord) {
	first, ok := c.listed[s.id]
	if !ok {
		c.listed[s.id] = listing{file, s}
		return
	}
	if first.file == file {
		return
	}
	at := spot{"/activities", i}
	if !sameInstant(first.summary.startedAt, s.startedAt) {
		c.in(file).add(CodeIDDuplicate, at.member("id"), "%q lists an activity of this id with another start", first.file)
	}
	if first.summary.privacy != s.privacy {
		c.in(file).add(CodePrivacyMismatch, at.member("privacy"), "%s here, %s in %q", s.privacy.Value(), first.summary.privacy.Value(), first.file)
	}
}

func (c *comparison) index(file string, x *indexRecord) {
	for i := range x.shards {
		c.shard(file, spot{"/shards", i}, &x.shards[i])
	}
	for i := range x.activities {
		c.summary(file, spot{"/activities", i}, &x.activities[i])
	}
}

func (c *comparison) detail(file string, d *detailRecord) {
	l := c.in(file)
	if _, ok := c.listed[d.id]; !ok && c.indexed && !c.partial && d.duplicateOf == "" && !d.is(PrivacyPrivate) {
		l.add(CodeDetailUnlisted, "/id", "no index in the folder lists this activity")
	}
	c.duplicate(l, d)
	if d.is(PrivacyPrivate) {
		l.add(CodePrivacyPrivatePublished, "/privacy", "private, and in the folder that is published")
	}
}

// duplicate looks at the other record of the same activity.
func (c *comparison) duplicate(l *linter, d *detailRecord) {
	if d.duplicateOf == "" || d.duplicateOf == d.id {
		return
	}
	other, known := c.details[d.duplicateOf]
	listed, isListed := c.listed[d.duplicateOf]
	switch {
	case !known && !isListed:
		l.add(CodeDuplicateOf, "/duplicate_of", "no document in the folder knows an activity of this id")
	case known && other.duplicateOf == d.id:
		l.add(CodeDuplicateOf, "/duplicate_of", "each of the two activities is said to duplicate the other")
	case d.is(PrivacyPrivate) || known && other.is(PrivacyPrivate) || isListed && listed.summary.is(PrivacyPrivate):
	default:
		l.add(CodeDuplicateOf, "/duplicate_of", "both records of the activity are shown: make one of them private")
	}
}

func (c *comparison) summary(file string, at spot, s *summaryRecord) {
	l := c.in(file)
	if d := c.details[s.id]; d != nil {
		mismatches(l, at, s, d)
	}
	if s.is(PrivacyPrivate) {
		l.add(CodePrivacyPrivatePublished, at.member("privacy"), "private, and listed in the folder that is published")
	}
	if s.detailURL != "" && leadsToDetail(s.detailURL, s.id) {
		c.detailAddress(l, at, file, s)
	}
}

// mismatches compares a summary with its detail. A summary that leaves a
// member out contradicts nothing.
func mismatches(l *linter, at spot, s *summaryRecord, d *detailRecord) {
	differs := func(name, here, there string) {
		l.add(CodeSummaryMismatch, at.member(name), "%s here, %s in the detail", here, there)
	}
	if s.title != d.title {
		l.add(CodeSummaryMismatch, at.member("title"), "not the title in the detail")
	}
	if s.sport != d.sport {
		differs("sport", s.sport.Value(), d.sport.Value())
	}
	if s.subSport != d.subSport && s.subSport.Value() != "" {
		differs("sub_sport", s.subSport.Value(), orNull(d.subSport.Value()))
	}
	if !sameInstant(s.startedAt, d.startedAt) {
		differs("started_at", s.startedAt.Format(time.RFC3339), d.startedAt.Format(time.RFC3339))
	}
	for i, name := range numberNames {
		if here, there := s.numbers[i], d.numbers[i]; !math.IsNaN(here) && !sameNumber(here, there) {
			differs(name, shortest(here), orNull(strings.TrimPrefix(shortest(there), "NaN")))
		}
	}
	if s.source != d.source && s.source.Value() != "" {
		differs("source", s.source.Value(), orNull(d.source.Value()))
	}
	if s.privacy != d.privacy {
		l.add(CodePrivacyMismatch, at.member("privacy"), "%s here, %s in the detail: give both the stricter one", s.privacy.Value(), d.privacy.Value())
	}
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

func shortest(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sameInstant lets a writer leave out the fraction of the second.
func sameInstant(a, b time.Time) bool { return a.Sub(b).Abs() < time.Second }

// sameNumber tells whether two numbers are the same or one is the other with
// decimals rounded or cut off. It is false if one is NaN.
func sameNumber(a, b float64) bool {
	decimals := func(v float64) int {
		_, digits, _ := strings.Cut(shortest(v), ".")
		return len(digits)
	}
	return a == b || math.Abs(a-b) < 0.999*math.Pow10(-min(decimals(a), decimals(b)))
}
