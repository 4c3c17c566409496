package activityschema

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Library compares the documents of one published folder: the index documents, which are
// index.json and its shards, and the details. Of a detail it keeps the members of the summary and
// the positions of its ends but not the samples. An activity with its summary takes one or two
// kilobytes.
//
// Lint reports problems within one document; a Library does not repeat them. Its methods are safe
// for concurrent use.
type Library struct {
	mu    sync.Mutex
	files map[string]record // by path
}

// A FileFinding is a finding about a document of a folder.
type FileFinding struct {
	// File is the cleaned path of the document as it was added. Quote it (%q) before it reaches a
	// terminal.
	File string `json:"file"`
	Finding
}

// A record is the kept part of a file. Both fields are nil for a file that cannot be read.
type record struct {
	index  *Index
	detail *detailRecord
}

type detailRecord struct {
	Activity
	duplicateOf string
	ends        []position // see endsOf
	extent      *extent    // of a cut track
}

func orEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// NewLibrary returns a Library without documents.
func NewLibrary() *Library { return &Library{files: map[string]record{}} }

// Add adds the document at a path relative to the published folder, with slashes: index.json,
// activities/{id}.json, or that of a shard. It replaces an earlier document with the same path. A
// nil doc is a file that exists but cannot be read, so that it is not reported as missing.
func (l *Library) Add(file string, doc *Document) {
	var r record
	switch {
	case doc == nil:
	case doc.Detail != nil:
		r.detail = &detailRecord{Activity: doc.Detail.Activity, duplicateOf: orEmpty(doc.Detail.DuplicateOf)}
		t := newTrack(&doc.Detail.Timeseries)
		r.detail.ends, r.detail.extent = endsOf(doc.Detail, t), extentOf(doc.Detail, t)
	case doc.Index != nil:
		r.index = doc.Index
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[path.Clean(file)] = r
}

// Findings returns the contradictions between the documents added so far, by file; nil means
// none. The limits of Lint apply to each file.
func (l *Library) Findings() []FileFinding {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := comparison{
		files: l.files, names: slices.Sorted(maps.Keys(l.files)), details: map[string]*detailRecord{},
		listed: map[string]listing{}, reports: map[string]*linter{}, shards: map[Shard]bool{},
	}
	c.compare()
	var all []FileFinding
	for _, file := range c.names {
		if report := c.reports[file]; report != nil {
			for _, f := range report.result() {
				all = append(all, FileFinding{file, f})
			}
		}
	}
	return all
}

// A comparison compares all documents of a folder.
type comparison struct {
	files   map[string]record
	names   []string                 // of files, sorted
	details map[string]*detailRecord // by id
	listed  map[string]listing       // by id
	reports map[string]*linter       // by file
	indexed bool                     // there is an index
	partial bool                     // some indexes are missing or cannot be read
	shards  map[Shard]bool           // files and years already checked
}

// A listing is the first summary of an activity.
type listing struct {
	file    string
	summary *Summary
}

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
			for i := range r.index.Activities {
				c.list(file, item("/activities", i), &r.index.Activities[i])
			}
		case !strings.HasPrefix(file, "activities/"):
			c.partial = true
		}
	}
	for _, file := range c.names {
		if x := c.files[file].index; x != nil {
			for i := range x.Shards {
				c.shard(file, item("/shards", i), x.Shards[i])
			}
			for i := range x.Activities {
				c.summary(file, item("/activities", i), &x.Activities[i])
			}
		}
	}
	for _, file := range c.names {
		if d := c.files[file].detail; d != nil {
			c.detail(c.in(file), d)
		}
	}
	c.unblurred()
}

func (c *comparison) identify(file string, d *detailRecord) {
	if p := detailPath(d.ID); file != p && usableID(d.ID) {
		c.in(file).add(CodeIDFileName, "/id", "the detail of this id is the file %q", p)
	}
	if c.details[d.ID] != nil {
		c.in(file).add(CodeIDDuplicate, "/id", "another detail in the folder has this id")
		return
	}
	c.details[d.ID] = d
}

// list records the id of a summary. An activity may be listed both in index.json and in a shard;
// Lint reports one that is listed twice in one index.
func (c *comparison) list(file string, at string, s *Summary) {
	first, ok := c.listed[s.ID]
	if !ok {
		c.listed[s.ID] = listing{file, s}
		return
	}
	if first.file == file {
		return
	}
	if !sameInstant(first.summary.StartedAt, s.StartedAt) {
		c.in(file).add(CodeIDDuplicate, at+"/id", "%q lists an activity of this id with another start", first.file)
	}
	if first.summary.Privacy != s.Privacy {
		l, there := c.in(file), first.summary.Privacy
		l.add(CodePrivacyMismatch, at+"/privacy", "%s here, %s in %q", s.Privacy, there, first.file)
	}
}

func (c *comparison) detail(l *linter, d *detailRecord) {
	_, isListed := c.listed[d.ID]
	if !isListed && c.indexed && !c.partial && d.duplicateOf == "" && d.Privacy != PrivacyPrivate {
		l.add(CodeDetailUnlisted, "/id", "no index in the folder lists this activity")
	}
	c.duplicate(l, d)
	if d.Privacy == PrivacyPrivate {
		l.add(CodePrivacyPrivatePublished, "/privacy", "private, and in the folder that is published")
	}
}

func (c *comparison) duplicate(l *linter, d *detailRecord) {
	if d.duplicateOf == "" || d.duplicateOf == d.ID {
		return
	}
	other, known := c.details[d.duplicateOf]
	listed, isListed := c.listed[d.duplicateOf]
	switch {
	case !known && !isListed:
		l.add(CodeDuplicateOf, "/duplicate_of", "no document in the folder knows an activity of this id")
	case known && other.duplicateOf == d.ID:
		l.add(CodeDuplicateOf, "/duplicate_of", "each of the two activities is said to duplicate the other")
	case d.Privacy == PrivacyPrivate,
		known && other.Privacy == PrivacyPrivate, isListed && listed.summary.Privacy == PrivacyPrivate:
	default:
		l.add(CodeDuplicateOf, "/duplicate_of", "both records of the activity are shown: make one of them private")
	}
}

func (c *comparison) summary(file string, at string, s *Summary) {
	l := c.in(file)
	if d := c.details[s.ID]; d != nil {
		mismatches(l, at, &s.Activity, &d.Activity)
		if d.extent != nil {
			l.beyond(at, &s.Activity, d.extent)
			if s.StartedAt.Sub(d.StartedAt.Time).Abs().Seconds() > timeSlackS {
				l.add(CodePrivacyBlurLength, at+"/started_at",
					"not the start in the detail, which tells how much was cut: give both the later one")
			}
		}
	}
	if s.Privacy == PrivacyPrivate {
		l.add(CodePrivacyPrivatePublished, at+"/privacy", "private, and listed in the folder that is published")
	}
	if s.DetailURL == nil || !leadsToDetail(*s.DetailURL, s.ID) {
		return
	}
	found, elsewhere := c.resolve(file, *s.DetailURL)
	_, inFolder := c.files[detailPath(s.ID)]
	switch {
	case found != "" && !elsewhere || elsewhere && (inFolder || len(c.details) == 0):
	case !elsewhere && strings.HasPrefix(path.Join(path.Dir(file), *s.DetailURL), "../"):
		l.add(CodeDetailURL, at+"/detail_url", "leads out of the published folder")
	default:
		l.add(CodeDetailMissing, at+"/detail_url", "there is no %q in the folder", detailPath(s.ID))
	}
}

// mismatches compares a summary with its detail. A member that the summary leaves out contradicts
// nothing.
func mismatches(l *linter, at string, s, d *Activity) {
	differs := func(name, here, there string) {
		l.add(CodeSummaryMismatch, at+"/"+name, "%s here, %s in the detail", here, cmp.Or(there, "null"))
	}
	if s.Title != d.Title {
		l.add(CodeSummaryMismatch, at+"/title", "not the title in the detail")
	}
	for _, text := range [...]struct{ name, here, there string }{
		{"sport", string(s.Sport), string(d.Sport)},
		{"sub_sport", orEmpty(s.SubSport), orEmpty(d.SubSport)},
		{"source", orEmpty(s.Source), orEmpty(d.Source)},
	} {
		if text.here != "" && text.here != text.there {
			differs(text.name, text.here, text.there)
		}
	}
	if !sameInstant(s.StartedAt, d.StartedAt) {
		differs("started_at", s.StartedAt.Format(time.RFC3339), d.StartedAt.Format(time.RFC3339))
	}
	there := map[string]float64{}
	for _, f := range figuresOf(reflect.ValueOf(d).Elem()) {
		there[f.name] = f.value
	}
	for _, f := range figuresOf(reflect.ValueOf(s).Elem()) {
		if v, ok := there[f.name]; !ok {
			differs(f.name, shortest(f.value), "")
		} else if !sameNumber(f.value, v) {
			differs(f.name, shortest(f.value), shortest(v))
		}
	}
	if s.Privacy != d.Privacy {
		l.add(CodePrivacyMismatch, at+"/privacy", "%s here, %s in the detail: give both the stricter one",
			s.Privacy, d.Privacy)
	}
}

func shortest(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sameInstant ignores fractions of a second, which a writer may leave out.
func sameInstant(a, b Time) bool { return a.Sub(b.Time).Abs() < time.Second }

// sameNumber reports whether two numbers are equal, or one is the other with rounded or truncated
// decimals.
func sameNumber(a, b float64) bool {
	decimals := func(v float64) int {
		_, digits, _ := strings.Cut(shortest(v), ".")
		return len(digits)
	}
	return a == b || math.Abs(a-b) < 0.999*math.Pow10(-min(decimals(a), decimals(b)))
}

func (c *comparison) shard(file string, at string, shard Shard) {
	target, elsewhere := c.resolve(file, shard.URL)
	x := c.files[target].index
	if x == nil {
		c.partial = true
		switch {
		case target == "" && !elsewhere:
			c.in(file).add(CodeShardMissing, at+"/url", "there is no such file in the folder")
		case c.files[target].detail != nil:
			c.in(file).add(CodeShardMissing, at+"/url", "%q is not an index document", target)
		}
		return
	}
	if n := len(x.Activities); int64(n) != shard.Count {
		c.in(file).add(CodeShardCount, at+"/count", "%d here, but %q has %d activities", shard.Count, target, n)
	}
	// Each shard may name all others, so check each once.
	if named := (Shard{URL: target, Year: shard.Year}); !c.shards[named] {
		c.shards[named] = true
		for i := range x.Activities {
			// The year may be in the zone of the activity or in UTC.
			at := x.Activities[i].StartedAt
			if int64(at.Year()) != shard.Year && int64(at.UTC().Year()) != shard.Year {
				c.in(target).add(CodeShardYear, item("/activities", i)+"/started_at",
					"%d, in the shard of %d", at.Year(), shard.Year)
			}
		}
	}
}

// resolve returns the file of the folder that an address in an index leads to, or "". elsewhere
// reports whether the address may lead to another host.
func (c *comparison) resolve(file, address string) (found string, elsewhere bool) {
	names, elsewhere := FolderPaths(file, address)
	for _, name := range names {
		if _, ok := c.files[name]; ok {
			return name, elsewhere
		}
	}
	return "", elsewhere
}

// FolderPaths returns the paths in a published folder that an address in its document file may
// mean: relative to the document (RFC 3986), relative to the folder, as some writers do, or the
// end of the path of an address with a host. In the last case elsewhere is true, because the
// address may lead to another host.
func FolderPaths(file, address string) (names []string, elsewhere bool) {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.Path == "" {
		return nil, false
	}
	if u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/") {
		rest, more := strings.TrimPrefix(path.Clean(u.Path), "/"), true
		for more && rest != "" {
			names = append(names, rest)
			_, rest, more = strings.Cut(rest, "/")
		}
		return names, true
	}
	for _, from := range [...]string{path.Dir(file), "."} {
		if p := path.Join(from, u.Path); p != "." && p != ".." && !strings.HasPrefix(p, "../") {
			names = append(names, p)
		}
	}
	return names, false
}

// cutM is the distance, in metres, within which activities count as beginning at one place.
const cutM = 200

// seenAlike is the number of other activities that make a place look like the owner's home or work.
const seenAlike = 2

// endsOf returns where an activity shows its begin and end: the ends of its track, start_latlng
// and end_latlng.
func endsOf(d *Detail, t *track) (ends []position) {
	for _, p := range [...]*LatLng{d.StartLatLng, d.EndLatLng} {
		if p != nil && (position{p[0], p[1]}).onEarth() {
			ends = append(ends, position{p[0], p[1]})
		}
	}
	if t.first >= 0 {
		ends = append(ends, t.at(t.first), t.at(t.last))
	}
	return ends
}

// unblurred reports the blur_start activities that begin or end where several others do. Other
// records of the same activity do not count.
func (c *comparison) unblurred() {
	all := slices.Collect(maps.Values(c.details))
	for _, file := range c.names {
		d := c.files[file].detail
		if d == nil || d.Privacy != PrivacyBlurStart {
			continue
		}
		if slices.ContainsFunc(d.ends, func(p position) bool {
			others := 0
			for _, o := range all {
				same := o == d || o.duplicateOf != "" || o.ID == d.duplicateOf
				if !same && slices.ContainsFunc(o.ends, func(q position) bool { return p.within(cutM, q) }) {
					others++
				}
			}
			return others >= seenAlike
		}) {
			c.in(file).add(CodePrivacyBlurUnproven, "/timeseries/lat",
				"the track begins or ends within %d m of where other activities do, as if it had not been cut", cutM)
		}
	}
}
