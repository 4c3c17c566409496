package recordings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/publish"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// ownerFlags are required for a folder that has no index yet.
type ownerFlags struct {
	Handle string `help:"Owner's handle; that of index.json unless given."`
	Name   string `help:"Owner's name as the index shows it; that of index.json unless given."`
}

// owner returns the owner from the flags and index.json.
func (f ownerFlags) owner(dir string) (activityschema.Owner, error) {
	owner, err := publish.OwnerOf(dir, activityschema.Owner{Handle: f.Handle, DisplayName: f.Name})
	if errors.Is(err, publish.ErrNoOwner) {
		err = cli.UsageError(fmt.Sprintf("%s has no index.json that names its owner: add --handle and --name",
			cli.Shown(dir)))
	}
	return owner, err
}

type importCommand struct {
	cli.Output
	ownerFlags
	placesFlag
	Into          string   `required:"" placeholder:"DIR" help:"Folder to publish; made if it does not exist."`
	Privacy       string   `enum:"no_gps,blur_start,public,private" default:"no_gps"`
	HideTime      bool     `help:"Publish the day of a blur_start activity, not the quarter of an hour of its start."`
	KeepElevation bool     `help:"Keep the elevations of no_gps activities. They may show where."`
	Zone          string   `placeholder:"NAME"`
	Planned       bool     `help:"Import tracks that were planned and not recorded, without a duration."`
	Titles        bool     `help:"Take the titles of a Strava export. They may say where and with whom."`
	Verbose       bool     `short:"v" help:"List each new document, not only duplicates."`
	Paths         []string `arg:"" name:"path"`
}

// Run imports recordings and writes the index: 1 if a file could not be imported.
func (c *importCommand) Run(p *cli.Program) error {
	owner, err := c.owner(c.Into)
	if err != nil {
		return err
	}
	privacy := activityschema.Privacy(c.Privacy)
	policy := publish.Policy{Privacy: privacy, HideTime: c.HideTime, KeepElevation: c.KeepElevation}
	if policy.Privacy == activityschema.PrivacyBlurStart {
		if policy.Places, err = c.toHide(c.Into, true); err != nil {
			return err
		}
	} else {
		places, isNew, err := c.load()
		if err != nil { // a second document beside the blurred one would show the places
			return err
		}
		if !isNew {
			policy.Places = places // for the names of documents that were blurred
		}
	}
	options := publish.Options{Planned: c.Planned}
	if c.Zone != "" {
		if options.Zone, err = time.LoadLocation(c.Zone); err != nil || c.Zone == "Local" {
			return cli.UsageError("--zone is not the name of a time zone, such as Europe/Zurich: " + cli.Shown(c.Zone))
		}
	}
	sources := publish.FindSources(c.Paths)
	defer func() { _ = sources.Close() }()
	if len(sources.List) == 0 {
		return cli.UsageError("no .gpx, .tcx or .fit files (also .gz) in " + cli.Shown(strings.Join(c.Paths, " ")))
	}
	for _, s := range sources.List {
		if err := notPublished(s.Path, c.Into, true); err != nil {
			return err
		}
	}
	bar := newProgress(p.Stderr, len(sources.List))
	results := []publish.Result{}
	run := publish.Import{Dir: c.Into, Policy: policy, Options: options, Titles: c.Titles}
	err = run.Run(p.Ctx, sources.List, func(r publish.Result) {
		results = append(results, r)
		bar.clear()
		if r.Error != "" {
			fmt.Fprintf(p.Stderr, "cairn: %s: %s\n", cli.Shown(r.File), cli.Printable(r.Error))
		}
		for _, w := range r.Warnings {
			fmt.Fprintf(p.Stderr, "cairn: %s: warning: %s\n", cli.Shown(r.File), cli.Printable(w))
		}
		bar.step()
	})
	bar.clear()
	if p.Ctx.Err() != nil {
		fmt.Fprintln(p.Stderr, "cairn: stopped: run the same command again to continue")
		return cli.ExitError(1)
	}
	if err != nil {
		return err
	}
	switch privacy {
	case activityschema.PrivacyPublic:
		warnOfCommonStart(p, nil, run.Starts)
	case activityschema.PrivacyBlurStart:
		warnOfCommonStart(p, policy.Places, run.Starts)
		if !c.Quiet && c.Format != "json" {
			if tracks := len(run.Starts); tracks > 0 {
				fmt.Fprintf(p.Stdout, "%d of %s come near your places\n", run.Hidden, cli.Count(tracks, "track"))
			}
			fmt.Fprint(p.Stdout, mapNote)
		}
	}
	counts, bad, err := publish.WriteIndex(p.Ctx, c.Into, owner, time.Now())
	if err != nil {
		return err
	}
	return c.finish(p, results, run.Tally, counts, bad)
}

// finish prints what was imported.
func (c *importCommand) finish(
	p *cli.Program, results []publish.Result, tally publish.Tally, counts publish.Counts, bad []*publish.FileError,
) error {
	var added []publish.Imported // those that are listed
	files := map[string]string{}
	for _, r := range results {
		for _, a := range r.Activities {
			if a.New && (c.Quiet || c.Verbose || a.DuplicateOf != "") {
				added = append(added, a)
				files[a.ID] = r.File
			}
		}
	}
	var err error
	switch {
	case c.Format == "json" && !c.Quiet:
		err = cli.WriteJSON(p.Stdout, struct {
			Files []publish.Result `json:"files"`
			Index publish.Counts   `json:"index"`
		}{results, counts})
	case c.Quiet || len(added) > 0:
		l := c.List(p, "ID", "SPORT", "KM", "FILE", "")
		for _, a := range added {
			distance, note := "", ""
			if a.DistanceM != nil {
				distance = fmt.Sprintf("%.1f", *a.DistanceM/1000)
			}
			if a.DuplicateOf != "" {
				note = "duplicate of " + cli.Shown(a.DuplicateOf)
			}
			l.Add(a.ID, nil, a.ID, string(a.Sport), distance, cli.Shown(files[a.ID]), note)
		}
		err = l.End()
	}
	if err != nil {
		return err
	}
	if !c.Quiet && c.Format != "json" {
		parts := []string{cli.Count(tally.New, "new document")}
		if tally.Unchanged > 0 {
			parts = append(parts, fmt.Sprintf("%d unchanged", tally.Unchanged))
		}
		if tally.Duplicates > 0 {
			parts = append(parts, cli.Count(tally.Duplicates, "duplicate")+", private")
		}
		if tally.Others > 0 {
			parts = append(parts, cli.Count(tally.Others, "file")+" without an activity")
		}
		if tally.Failed > 0 {
			parts = append(parts, cli.Count(tally.Failed, "file")+" failed")
		}
		fmt.Fprintf(p.Stdout, "%s; %s\n", strings.Join(parts, ", "), listedIn(c.Into, counts))
		var notes []string
		if tally.Cut > 0 {
			notes = append(notes, cli.Count(tally.Cut, "track")+" cut at your places")
		}
		if tally.Warned > 0 {
			notes = append(notes, cli.Count(tally.Warnings, "warning")+" about "+cli.Count(tally.Warned, "file"))
		}
		if tally.Dropped > 0 {
			notes = append(notes, cli.Count(tally.Dropped, "sample")+" left out")
		}
		if notes != nil {
			fmt.Fprintln(p.Stdout, strings.Join(notes, ", "))
		}
	}
	if reportBad(p, c.Into, bad) || tally.Failed > 0 {
		return cli.ExitError(1)
	}
	return nil
}

// listedIn returns how many activities the index of a folder lists.
func listedIn(dir string, n publish.Counts) string {
	text := fmt.Sprintf("%s lists %d", cli.Shown(filepath.Join(dir, "index.json")), n.Listed)
	if n.Shards > 0 {
		text += fmt.Sprintf(" in %s", cli.Count(n.Shards, "shard"))
	}
	if n.Private > 0 {
		text += fmt.Sprintf(", without %d private", n.Private)
	}
	return text
}

// reportBad prints the documents that are not in the index because they cannot be read.
func reportBad(p *cli.Program, dir string, bad []*publish.FileError) bool {
	for _, b := range bad {
		file := filepath.Join(dir, b.File)
		fmt.Fprintf(p.Stderr, "cairn: %s: not listed: %s\n", cli.Shown(file), cli.Printable(b.Err.Error()))
	}
	return len(bad) > 0
}

type indexCommand struct {
	cli.Output
	ownerFlags
	Dir string `arg:"" help:"Published folder, with its documents in activities/."`
}

// Run writes index.json and its shards: 1 if a document could not be read.
func (c *indexCommand) Run(p *cli.Program) error {
	if info, err := os.Stat(c.Dir); err != nil || !info.IsDir() {
		return cli.UsageError(fmt.Sprintf("%s is not a folder", cli.Shown(c.Dir)))
	}
	owner, err := c.owner(c.Dir)
	if err != nil {
		return err
	}
	counts, bad, err := publish.WriteIndex(p.Ctx, c.Dir, owner, time.Now())
	if err != nil {
		return err
	}
	switch {
	case c.Quiet:
	case c.Format == "json":
		err = cli.WriteJSON(p.Stdout, counts)
	default:
		text := listedIn(c.Dir, counts)
		if !counts.Changed {
			text += ": unchanged"
		}
		_, err = fmt.Fprintln(p.Stdout, text)
	}
	if err == nil && reportBad(p, c.Dir, bad) {
		err = cli.ExitError(1)
	}
	return err
}

// A progress is a progress bar on a terminal. Elsewhere it is a line every ten seconds.
type progress struct {
	w          io.Writer
	terminal   bool
	done, all  int
	last       time.Time
	incomplete bool // the cursor is on the line of the bar
}

func newProgress(w io.Writer, all int) *progress {
	b := &progress{w: w, all: all, last: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.terminal, b.last = true, time.Time{}
	}
	return b
}

func (b *progress) step() {
	b.done++
	if !b.terminal {
		if time.Since(b.last) >= 10*time.Second {
			fmt.Fprintf(b.w, "cairn: %d of %d files\n", b.done, b.all)
			b.last = time.Now()
		}
		return
	}
	if time.Since(b.last) < 100*time.Millisecond && b.done < b.all {
		return
	}
	const width = 30
	n := width * b.done / b.all
	fmt.Fprintf(b.w, "\r[%s%s] %d of %d files", strings.Repeat("=", n), strings.Repeat(" ", width-n), b.done, b.all)
	b.last, b.incomplete = time.Now(), true
}

func (b *progress) clear() {
	if b.incomplete {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.incomplete = false
	}
}
