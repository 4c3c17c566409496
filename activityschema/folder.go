package activityschema

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Library holds the documents of one published folder against one another:
// the index documents, which are index.json and its shards, and the details.
// It keeps a small record of each document and not the document: an activity
// with its summary and its detail takes about a kilobyte.
//
// What is wrong with a document by itself is found by Lint; a Library does not
// say it again. Its methods may be called concurrently.
type Library struct {
	mu    sync.Mutex
	files map[string]record // by path
}

// A FileFinding is a finding about a document of a folder.
type FileFinding struct {
	// File is the path of the document as it was added, cleaned. Quote it
	// (%q) before it reaches a terminal.
	File string `json:"file"`
	Finding
}

// A record is what is kept of a file: one of the two, or none of a file that
// cannot be read.
type record struct {
	index  *indexRecord
	detail *detailRecord
}

type indexRecord struct {
	shards     []Shard
	activities []facts
}

type detailRecord struct {
	facts
	duplicateOf string
	own, shown  []position // where the activity begins and ends: see endsOf
}

// facts are what a summary and a detail both say.
type facts struct {
	id, sport, subSport, source, detailURL string
	title                                  uint64 // hash
	privacy                                Privacy
	startedAt                              time.Time
	figures                                [10]float64 // of figureNames, NaN for null
}

var figureNames = func() (names []string) {
	for _, f := range figuresOfSummary(new(Summary)) {
		names = append(names, f.name)
	}
	return names
}()

// titles is the seed of the titles' hashes.
var titles = maphash.MakeSeed()

func orEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return strings.Clone(string(*s))
}

func recordOfIndex(x *Index) *indexRecord {
	r := &indexRecord{activities: make([]facts, len(x.Activities))}
	for _, shard := range x.Shards {
		r.shards = append(r.shards, Shard{Year: shard.Year, URL: strings.Clone(shard.URL), Count: shard.Count})
	}
	for i := range x.Activities {
		s := &x.Activities[i]
		r.activities[i] = facts{
			id: strings.Clone(s.ID), title: maphash.String(titles, s.Title), sport: strings.Clone(string(s.Sport)), subSport: orEmpty(s.SubSport),
			source: orEmpty(s.Source), detailURL: orEmpty(s.DetailURL), privacy: Privacy(strings.Clone(string(s.Privacy))), startedAt: s.StartedAt.Time,
		}
		r.activities[i].setFigures(figuresOfSummary(s))
	}
	return r
}

func recordOfDetail(d *Detail) *detailRecord {
	r := &detailRecord{
		facts: facts{
			id: strings.Clone(d.ID), title: maphash.String(titles, d.Title), sport: strings.Clone(string(d.Sport)), subSport: orEmpty(d.SubSport),
			source: orEmpty(d.Source), privacy: Privacy(strings.Clone(string(d.Privacy))), startedAt: d.StartedAt.Time,
		},
		duplicateOf: orEmpty(d.DuplicateOf),
	}
	r.setFigures(figuresOf(d))
	r.own, r.shown = endsOf(d)
	return r
}

func (f *facts) setFigures(all []figure) {
	for i := range f.figures {
		f.figures[i] = all[i].value()
	}
}

// NewLibrary returns a Library without documents.
func NewLibrary() *Library { return &Library{files: map[string]record{}} }

// Add adds the document that lies at a path relative to the published folder,
// with slashes: index.json, activities/{id}.json, or that of a shard. A second
// document of one path takes the place of the first. A nil doc stands for a
// file that is there and cannot be read, so that it is not said to be missing.
func (l *Library) Add(file string, doc *Document) {
	var r record
	switch {
	case doc == nil:
	case doc.Detail != nil:
		r.detail = recordOfDetail(doc.Detail)
	case doc.Index != nil:
		r.index = recordOfIndex(doc.Index)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[path.Clean(file)] = r
}

// Findings returns where the documents added so far contradict one another, by
// file; nil means nowhere. The limits of Lint hold for each file.
func (l *Library) Findings() []FileFinding {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := comparison{
		files: l.files, names: slices.Sorted(maps.Keys(l.files)), details: map[string]*detailRecord{}, listed: map[string]listing{},
		reports: map[string]*linter{}, shards: map[Shard]bool{},
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

// A comparison of all documents of a folder.
type comparison struct {
	files   map[string]record
	names   []string                 // of files, sorted
	details map[string]*detailRecord // by id
	listed  map[string]listing       // by id
	reports map[string]*linter       // by file
	indexed bool                     // there is an index at all
	partial bool                     // there are indexes that are not in the folder or cannot be read
	shards  map[Shard]bool           // files and years that have been looked at
}

// A listing is where an activity is listed first.
type listing struct {
	file    string
	summary *facts
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
				c.list(file, spot{"/activities", i}, &r.index.activities[i])
			}
		case !strings.HasPrefix(file, "activities/"):
			c.partial = true
		}
	}
	for _, file := range c.names {
		if x := c.files[file].index; x != nil {
			for i := range x.shards {
				c.shard(file, spot{"/shards", i}, x.shards[i])
			}
			for i := range x.activities {
				c.summary(file, spot{"/activities", i}, &x.activities[i])
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

// identify notes the id of a detail.
func (c *comparison) identify(file string, d *detailRecord) {
	if p := detailPath(d.id); file != p && usableID(d.id) {
		c.in(file).add(CodeIDFileName, "/id", "the detail of this id is the file %q", p)
	}
	if c.details[d.id] != nil {
		c.in(file).add(CodeIDDuplicate, "/id", "another detail in the folder has this id")
		return
	}
	c.details[d.id] = d
}

// list notes the id of a summary. An activity may be listed both in index.json
// and in a shard; Lint looks at one that is twice in one index.
func (c *comparison) list(file string, at spot, s *facts) {
	first, ok := c.listed[s.id]
	if !ok {
		c.listed[s.id] = listing{file, s}
		return
	}
	if first.file == file {
		return
	}
	if !sameInstant(first.summary.startedAt, s.startedAt) {
		c.in(file).add(CodeIDDuplicate, at.member("id"), "%q lists an activity of this id with another start", first.file)
	}
	if first.summary.privacy != s.privacy {
		c.in(file).add(CodePrivacyMismatch, at.member("privacy"), "%s here, %s in %q", s.privacy, first.summary.privacy, first.file)
	}
}

func (c *comparison) detail(l *linter, d *detailRecord) {
	if _, ok := c.listed[d.id]; !ok && c.indexed && !c.partial && d.duplicateOf == "" && d.privacy != PrivacyPrivate {
		l.add(CodeDetailUnlisted, "/id", "no index in the folder lists this activity")
	}
	c.duplicate(l, d)
	if d.privacy == PrivacyPrivate {
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
	case d.privacy == PrivacyPrivate || known && other.privacy == PrivacyPrivate || isListed && listed.summary.privacy == PrivacyPrivate:
	default:
		l.add(CodeDuplicateOf, "/duplicate_of", "both records of the activity are shown: make one of them private")
	}
}

func (c *comparison) summary(file string, at spot, s *facts) {
	l := c.in(file)
	if d := c.details[s.id]; d != nil {
		mismatches(l, at, s, d)
	}
	if s.privacy == PrivacyPrivate {
		l.add(CodePrivacyPrivatePublished, at.member("privacy"), "private, and listed in the folder that is published")
	}
	if s.detailURL == "" || !leadsToDetail(s.detailURL, s.id) {
		return
	}
	found, elsewhere := c.resolve(file, s.detailURL)
	_, inFolder := c.files[detailPath(s.id)]
	switch {
	case found != "" && !elsewhere || elsewhere && (inFolder || len(c.details) == 0):
	case !elsewhere && strings.HasPrefix(path.Join(path.Dir(file), s.detailURL), "../"):
		l.add(CodeDetailURL, at.member("detail_url"), "leads out of the published folder")
	default:
		l.add(CodeDetailMissing, at.member("detail_url"), "there is no %q in the folder", detailPath(s.id))
	}
}

// mismatches compares a summary with its detail. A summary that leaves a
// member out contradicts nothing.
func mismatches(l *linter, at spot, s *facts, d *detailRecord) {
	differs := func(name, here, there string) {
		if there == "" {
			there = "null"
		}
		l.add(CodeSummaryMismatch, at.member(name), "%s here, %s in the detail", here, there)
	}
	if s.title != d.title {
		l.add(CodeSummaryMismatch, at.member("title"), "not the title in the detail")
	}
	for _, text := range [...]struct{ name, here, there string }{
		{"sport", s.sport, d.sport}, {"sub_sport", s.subSport, d.subSport}, {"source", s.source, d.source},
	} {
		if text.here != "" && text.here != text.there {
			differs(text.name, text.here, text.there)
		}
	}
	if !sameInstant(s.startedAt, d.startedAt) {
		differs("started_at", s.startedAt.Format(time.RFC3339), d.startedAt.Format(time.RFC3339))
	}
	for i, name := range figureNames {
		if here, there := s.figures[i], d.figures[i]; !math.IsNaN(here) && !sameNumber(here, there) {
			differs(name, shortest(here), strings.TrimPrefix(shortest(there), "NaN"))
		}
	}
	if s.privacy != d.privacy {
		l.add(CodePrivacyMismatch, at.member("privacy"), "%s here, %s in the detail: give both the stricter one", s.privacy, d.privacy)
	}
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

// shard looks at a shard that an index names.
func (c *comparison) shard(file string, at spot, shard Shard) {
	target, elsewhere := c.resolve(file, shard.URL)
	x := c.files[target].index
	if x == nil {
		c.partial = true
		switch {
		case target == "" && !elsewhere:
			c.in(file).add(CodeShardMissing, at.member("url"), "there is no such file in the folder")
		case c.files[target].detail != nil:
			c.in(file).add(CodeShardMissing, at.member("url"), "%q is not an index document", target)
		}
		return
	}
	if n := len(x.activities); int64(n) != shard.Count {
		c.in(file).add(CodeShardCount, at.member("count"), "%d here, but %q has %d activities", shard.Count, target, n)
	}
	// Each shard may name all the others.
	if named := (Shard{URL: target, Year: shard.Year}); !c.shards[named] {
		c.shards[named] = true
		for i := range x.activities {
			// Whoever made the shard may have counted in either zone.
			if at := x.activities[i].startedAt; int64(at.Year()) != shard.Year && int64(at.UTC().Year()) != shard.Year {
				c.in(target).add(CodeShardYear, spot{"/activities", i}.member("started_at"), "%d, in the shard of %d", at.Year(), shard.Year)
			}
		}
	}
}

// resolve returns the file of the folder that an address in an index leads to, or "".
// elsewhere is set for one that may lead to another host.
func (c *comparison) resolve(file, address string) (found string, elsewhere bool) {
	names, elsewhere := FolderPaths(file, address)
	for _, name := range names {
		if _, ok := c.files[name]; ok {
			return name, elsewhere
		}
	}
	return "", elsewhere
}

// FolderPaths returns the paths in a published folder that an address in its document
// file may mean: relative to the document (RFC 3986), or to the folder, as some
// writers have it, or the end of the path of an address with a host, for which
// elsewhere is set: it may lead to another host.
func FolderPaths(file, address string) (names []string, elsewhere bool) {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.Path == "" {
		return nil, false
	}
	if u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/") {
		for rest, more := strings.TrimPrefix(path.Clean(u.Path), "/"), true; more && rest != ""; _, rest, more = strings.Cut(rest, "/") {
			names = append(names, rest)
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

// A blurred track is cut by its first and last 200 m, for which nobody on foot
// or on a bicycle takes less than 20 seconds; between the first and last position that
// it shows it is faster than where it began, but not by so much that less than hiddenM
// went by unseen.
const (
	cutM    = 200
	cutS    = 20
	hiddenM = 150
)

// seenAlike is the number of other activities that make a place look like one
// where the owner lives or works.
const seenAlike = 2

// endsOf returns where an activity shows its begin and its end: own are those that are held
// against others, the ends of its track and start_latlng and end_latlng; shown are
// those that others are held against, without an end of a blur_start track of which
// the samples tell that it has been cut.
func endsOf(d *Detail) (own, shown []position) {
	t, s := newTrack(&d.Timeseries), d.Timeseries.T
	for _, p := range [...]*LatLng{d.StartLatLng, d.EndLatLng} {
		if p != nil && (position{p[0], p[1]}).onEarth() {
			own = append(own, position{p[0], p[1]})
		}
	}
	if d.Privacy != PrivacyBlurStart || t.first < 0 {
		shown = slices.Clone(own)
	}
	if t.first < 0 {
		return own, shown
	}
	own = append(own, t.at(t.first), t.at(t.last))
	cutFirst, cutLast := false, false
	if d.Privacy == PrivacyBlurStart && t.last < len(s) {
		first, last, speed := float64(s[t.first]), float64(s[t.last]), t.length()
		if speed /= last - first; last <= first {
			speed = 0
		}
		hides := func(seconds float64) bool { return seconds >= cutS && seconds*speed >= hiddenM }
		cutFirst, cutLast = hides(first), hides(t.afterS)
		if d.DurationS != nil {
			duration := float64(*d.DurationS)
			cutLast = cutLast || hides(duration-last)
			cutFirst = cutFirst || hides((duration-(last-first))/2) // t may count from the cut
		}
	}
	if !cutFirst {
		shown = append(shown, t.at(t.first))
	}
	if !cutLast {
		shown = append(shown, t.at(t.last))
	}
	return own, shown
}

// An end is where an activity is seen to begin or to end.
type end struct {
	position
	of *detailRecord
}

// unblurred reports the blur_start activities that begin or end where several
// others do.
func (c *comparison) unblurred() {
	var ends []end
	for _, d := range c.details {
		for _, p := range d.shown {
			ends = append(ends, end{p, d})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.lat, b.lat) })
	for _, file := range c.names {
		d := c.files[file].detail
		if d == nil || d.privacy != PrivacyBlurStart {
			continue
		}
		if slices.ContainsFunc(d.own, func(p position) bool { return seenBy(ends, p, d) >= seenAlike }) {
			c.in(file).add(CodePrivacyBlurUnproven, "/timeseries/lat", "the track begins or ends within %d m of where other activities do, as if it had not been cut", cutM)
		}
	}
}

// seenBy counts, up to seenAlike, the other activities that begin or end near
// p. Another record of the same activity is no other activity.
func seenBy(ends []end, p position, self *detailRecord) int {
	const degrees = cutM / metresPerDegree * 1.001
	from, _ := slices.BinarySearchFunc(ends, p.lat-degrees, func(e end, lat float64) int { return cmp.Compare(e.lat, lat) })
	var others []*detailRecord
	for _, e := range ends[from:] {
		if e.lat > p.lat+degrees || len(others) == seenAlike {
			break
		}
		same := e.of == self || e.of.duplicateOf != "" || e.of.id == self.duplicateOf
		if !same && !slices.Contains(others, e.of) && p.within(cutM, e.position) {
			others = append(others, e.of)
		}
	}
	return len(others)
}
