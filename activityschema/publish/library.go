package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

// An Import converts recordings to documents of a folder.
type Import struct {
	Dir     string // the published folder
	Policy  Policy
	Options Options
	Titles  bool    // take the titles of the sources
	Starts  []Start // of new activities, before anything was hidden
	Hidden  int     // how many of them come near a place of the policy
	Tally   Tally   // of the results
	entries []entry // of the folder, and of this run
	traces  map[string]*trace
	listed  map[string]activityschema.Privacy // by id, as the index says before this run
}

// A Result is the outcome for one file.
type Result struct {
	File       string     `json:"file"`
	Activities []Imported `json:"activities"`
	Warnings   []string   `json:"warnings,omitempty"`
	Dropped    int        `json:"dropped,omitempty"` // samples that are left out, or of which a value is
	Error      string     `json:"error,omitempty"`   // nothing of the file was imported
	// NoActivity reports whether an archive has the file for another purpose, such as a day's steps.
	NoActivity bool `json:"no_activity,omitempty"`
}

// An Imported is an activity of a file. Its ID names the document.
type Imported struct {
	ID          string               `json:"id"`
	New         bool                 `json:"new"` // false: the document exists and is unchanged
	Sport       activityschema.Sport `json:"sport,omitempty"`
	Start       *activityschema.Time `json:"started_at,omitempty"`
	DistanceM   *float64             `json:"distance_m,omitempty"`
	DuplicateOf string               `json:"duplicate_of,omitempty"`
	Cut         bool                 `json:"cut,omitempty"` // the policy hides a part of the track
}

// A Tally counts results: files, but for activities, duplicates among them, tracks that were cut, samples, and
// warnings.
type Tally struct{ New, Unchanged, Duplicates, Cut, Failed, Others, Warned, Dropped, Warnings int }

func (t *Tally) add(r Result) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	count(&t.Failed, r.Error != "")
	count(&t.Others, r.NoActivity)
	count(&t.Warned, len(r.Warnings) > 0)
	t.Dropped += r.Dropped
	t.Warnings += len(r.Warnings)
	for _, a := range r.Activities {
		count(&t.New, a.New)
		count(&t.Unchanged, !a.New)
		count(&t.Duplicates, a.New && a.DuplicateOf != "")
		count(&t.Cut, a.New && a.Cut)
	}
}

// workers returns how many files are read at once. Each may take a hundred megabytes.
func workers() int { return min(runtime.GOMAXPROCS(0), 4) }

// A prepared is a file whose documents are ready to be written.
type prepared struct {
	Result
	details []*activityschema.Detail
	data    [][]byte
	traces  []*trace
}

// Run imports sources, several at once, and reports each in their order. It never overwrites a
// document. It does not write the index.
func (im *Import) Run(ctx context.Context, sources []Source, report func(Result)) error {
	err := os.MkdirAll(filepath.Dir(filepath.Clean(im.Dir)), 0o755)
	for _, dir := range []string{im.Dir, filepath.Join(im.Dir, detailsFolder)} {
		// A new folder is for publishing, whatever the umask.
		if mkErr := os.Mkdir(dir, 0o755); mkErr == nil {
			err = cmp.Or(err, os.Chmod(dir, 0o755))
		} else if !errors.Is(mkErr, fs.ErrExist) {
			err = cmp.Or(err, mkErr)
		}
	}
	if err != nil {
		return err
	}
	unlock, err := lock(im.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if im.entries, _, err = scan(ctx, im.Dir); err != nil {
		return err
	}
	im.listed = map[string]activityschema.Privacy{}
	if err := eachIndex(im.Dir, func(_ string, s activityschema.Summary) { im.listed[s.ID] = s.Privacy }); err != nil {
		return err
	}
	im.traces = map[string]*trace{}
	known := map[string]string{} // ids by their suffix, which depends on the file alone
	for _, e := range im.entries {
		if i := strings.LastIndexByte(e.ID, '-'); i >= 0 {
			known[e.ID[i+1:]] = e.ID
		}
	}
	// The queue keeps the order of files and limits how many documents are in memory.
	queue := make(chan chan *prepared, workers())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(queue)
		slots := make(chan struct{}, workers())
		for _, source := range sources {
			done := make(chan *prepared, 1)
			select {
			case queue <- done:
			case <-ctx.Done():
				return
			}
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				done <- im.prepare(source, known)
			}()
		}
	}()
	for done := range queue {
		p := <-done
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := im.commit(p); err != nil {
			return err
		}
		im.Tally.add(p.Result)
		report(p.Result)
	}
	return ctx.Err()
}

// prepare parses a file and makes its documents.
func (im *Import) prepare(source Source, known map[string]string) *prepared {
	p := &prepared{Result: Result{File: source.Name, Activities: []Imported{}}}
	if err := p.read(source, known, im); err != nil {
		*p = prepared{Result: Result{File: source.Name, Activities: []Imported{}}}
		if source.entry != nil && (errors.Is(err, errNoActivity) || errors.Is(err, errEmpty)) {
			p.NoActivity = true
		} else {
			p.Error = err.Error()
		}
	}
	return p
}

func (p *prepared) read(source Source, known map[string]string, im *Import) error {
	f, err := source.open()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if p.known(f, known, im.Policy.Places) {
		return nil
	}
	again, err := source.open()
	if err != nil {
		return err
	}
	defer func() { _ = again.Close() }()
	options := im.Options
	if im.Policy.Privacy == activityschema.PrivacyBlurStart {
		options.hide = im.Policy.Places
	}
	file, err := options.Read(again)
	if err != nil {
		return plain(err)
	}
	p.Warnings = file.Warnings
	for n, r := range file.Recordings {
		d, err := file.Detail(n)
		if err != nil {
			return err
		}
		p.Warnings = append(p.Warnings, r.Warnings...)
		if im.Titles && source.Title != "" && len(file.Recordings) == 1 {
			d.Title = source.Title
		}
		p.Dropped += r.Dropped
		t, whole := traceOf(d), filled(d.Timeseries.Lat)
		if d, err = im.Policy.apply(d); err != nil {
			return err
		}
		if im.Policy.Privacy == activityschema.PrivacyBlurStart {
			if before := im.listed[d.ID]; before != "" {
				p.Warnings = append(p.Warnings, fmt.Sprintf("it was published as %s: an old copy of %s.json tells "+
					"what is hidden now, or how long it is, which leads to your places. If anybody has one, import "+
					"it as no_gps", before, d.ID))
			}
			d.ID = im.Policy.Places.id(d.ID)
		}
		p.Warnings = append(p.Warnings, doubts(d)...)
		data, err := d.MarshalJSON()
		if err != nil {
			return err
		}
		start := d.StartedAt // a pointer into the document would keep all of it in memory
		p.Activities = append(p.Activities, Imported{
			ID: d.ID, New: true, Sport: d.Sport, Start: &start, DistanceM: d.DistanceM,
			Cut: d.Privacy == activityschema.PrivacyBlurStart && filled(d.Timeseries.Lat) < whole,
		})
		p.details, p.data, p.traces = append(p.details, d), append(p.data, data), append(p.traces, t)
	}
	return nil
}

// doubts returns what the linter finds in a document: whoever imports it knows as much as who validates it.
func doubts(d *activityschema.Detail) (texts []string) {
	for _, f := range activityschema.Lint(&activityschema.Document{Detail: d}) {
		texts = append(texts, fmt.Sprintf("%s: %s", f.Pointer, f.Message))
	}
	return texts
}

// known reports whether the documents of a file exist, by its hash: parsing it again is slow.
func (p *prepared) known(f io.Reader, known map[string]string, places *Places) bool {
	if len(known) == 0 {
		return false
	}
	hash, err := hashOf(f)
	for n := 0; err == nil; n++ {
		suffix := idSuffix(hash, n)
		id, ok := known[suffix]
		if !ok && places != nil {
			id, ok = known[places.idSuffix(suffix)]
		}
		if !ok {
			break
		}
		p.Activities = append(p.Activities, Imported{ID: id})
	}
	return len(p.Activities) > 0
}

// commit writes the documents of a file. The first comes last: if it exists, known reports the file as complete.
func (im *Import) commit(p *prepared) error {
	for i := len(p.details) - 1; i >= 0; i-- {
		d := p.details[i]
		if slices.ContainsFunc(im.entries, func(e entry) bool { return e.ID == d.ID }) {
			p.Activities[i] = Imported{ID: d.ID} // another file has the same content
			continue
		}
		mode := fs.FileMode(0o644)
		if other := im.duplicate(p.traces[i]); other != "" {
			d.DuplicateOf, d.Privacy = &other, activityschema.PrivacyPrivate
			p.Activities[i].DuplicateOf = other
			var err error
			if p.data[i], err = d.MarshalJSON(); err != nil {
				return err
			}
		}
		if d.Privacy == activityschema.PrivacyPrivate {
			mode = 0o600
		}
		file := filepath.Join(im.Dir, detailsFolder, d.ID+".json")
		if err := write(file, append(p.data[i], '\n'), mode); err != nil {
			return err
		}
		im.entries = append(im.entries, entryOf(d))
		im.traces[d.ID] = p.traces[i]
		if points := p.traces[i].points; len(points) > 0 {
			im.Starts = append(im.Starts, Start{p.File, points[0].lat, points[0].lon})
			near := func(q point) bool { return im.Policy.Places != nil && im.Policy.Places.hides(q.lat, q.lon) }
			if slices.ContainsFunc(points, near) {
				im.Hidden++
			}
		}
	}
	return nil
}

// A trace is when and where an activity was.
type trace struct {
	start, end int64 // Unix time
	points     []point
}

type point struct{ lat, lon float64 }

// tracePoints is about how many points of a track are compared.
const tracePoints = 400

func traceOf(d *activityschema.Detail) *trace {
	t := &trace{start: d.StartedAt.Unix()}
	t.end = t.start
	if d.DurationS != nil {
		t.end += *d.DurationS
	}
	s := &d.Timeseries
	n := min(len(s.Lat), len(s.Lon))
	for i := 0; i < n; i += max(1, n/tracePoints) {
		if s.Lat[i].Valid && s.Lon[i].Valid {
			t.points = append(t.points, point{s.Lat[i].Value, s.Lon[i].Value})
		}
	}
	return t
}

// Two recordings are of one activity if they overlap in time by most of the shorter and some of the longer one, and if
// most positions are near each other, where both have them. Devices differ, and one may have been started late.
const (
	sameTime    = 0.8
	samePlaceM  = 300
	samePlaces  = 0.7
	blurClockS  = 15 * 60
	metreDegree = 111_195.0
)

// duplicate returns the id of the activity whose other recording the trace is of, or "".
func (im *Import) duplicate(t *trace) string {
	for i := range im.entries {
		e := &im.entries[i]
		if e.duplicateOf != "" || e.DurationS == nil {
			continue
		}
		start, slack := e.StartedAt.Unix(), int64(0)
		if e.Privacy == activityschema.PrivacyBlurStart {
			slack = blurClockS
		}
		o := im.traces[e.ID]
		end := start + *e.DurationS
		if o != nil { // from before the policy hid anything
			start, end, slack = o.start, o.end, 0
		}
		shorter, longer := min(end-start, t.end-t.start), max(end-start, t.end-t.start)
		together := float64(min(end, t.end) - max(start, t.start) + slack)
		if shorter <= 0 || together < sameTime*float64(shorter) || together < sameTime/2*float64(longer) {
			continue
		}
		if o == nil {
			o = im.load(e.ID)
		}
		if t.near(o) {
			return e.ID
		}
	}
	return ""
}

// load returns the trace of an activity in the folder.
func (im *Import) load(id string) *trace {
	t := &trace{}
	if d, err := ReadDetail(filepath.Join(im.Dir, detailsFolder, id+".json")); err == nil {
		t = traceOf(d)
	}
	im.traces[id] = t
	return t
}

// near reports whether the shorter track follows the other. If one has no positions, time alone
// decides: nobody does two activities at once.
func (t *trace) near(o *trace) bool {
	a, b := t.points, o.points
	if len(a) == 0 || len(b) == 0 {
		return true
	}
	if t.end-t.start > o.end-o.start {
		a, b = b, a
	}
	close, tried := 0, 0
	for i := 0; i < len(a); i += max(1, len(a)/20) {
		tried++
		p := a[i]
		if slices.ContainsFunc(b, func(q point) bool { return metres(q.lat, q.lon, p.lat, p.lon) <= samePlaceM }) {
			close++
		}
	}
	return float64(close) >= samePlaces*float64(tried)
}

// ReadDetail reads an activity document.
func ReadDetail(file string) (*activityschema.Detail, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, plain(err)
	}
	d := new(activityschema.Detail)
	if err := d.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("not a valid activity document: %w", err)
	}
	return d, nil
}

// WriteDetail replaces an activity document as a whole.
func WriteDetail(file string, d *activityschema.Detail) error {
	data, err := d.MarshalJSON()
	if err != nil {
		return err
	}
	return write(file, append(data, '\n'), 0o644)
}
