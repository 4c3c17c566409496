package recordings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/publish"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type blurCommand struct {
	placesFlag
	Check    bool     `help:"Change nothing: list the documents that reveal a place, and exit with 1 if any do."`
	Public   bool     `help:"Blur the public documents of a folder that show positions near a place, too."`
	HideTime bool     `help:"Publish the day of an activity, not the quarter of an hour of its start."`
	Paths    []string `arg:"" name:"path" help:"Published folders or documents. They are replaced: keep recordings."`
}

// Run blurs documents that give a place away: 1 if some could not be, or with --check if there are any.
func (c *blurCommand) Run(p *cli.Program) error {
	found := 0
	for _, path := range c.Paths {
		n, err := c.path(p, path)
		if err != nil {
			return err
		}
		found += n
	}
	if found > 0 {
		return cli.ExitError(1)
	}
	return nil
}

// path blurs or checks a document or a folder, and returns how many documents still give something away.
func (c *blurCommand) path(p *cli.Program, path string) (left int, err error) {
	dir, files, err := documentsAt(path)
	if err != nil {
		return 0, err
	}
	places, err := c.toHide(dir, false)
	if err != nil {
		return 0, err
	}
	changed := 0
	report := func(file, privacy string, leaks []string) {
		for _, leak := range leaks {
			fmt.Fprintf(p.Stdout, "%s: %s: %s\n", cli.Shown(file), privacy, cli.Printable(leak))
		}
		if len(leaks) > 0 {
			left++
		}
	}
	for _, file := range files {
		d, err := publish.ReadDetail(file)
		if err != nil {
			fmt.Fprintf(p.Stderr, "cairn: %s: %s\n", cli.Shown(file), cli.Printable(err.Error()))
			left++
			continue
		}
		if d.Privacy == activityschema.PrivacyPrivate {
			continue
		}
		leaks := publish.Leaks(d, places)
		named := file == path && d.Privacy != activityschema.PrivacyBlurStart
		if len(leaks) == 0 && !named {
			continue
		}
		unasked := d.Privacy == activityschema.PrivacyPublic && !named && !c.Public
		if c.Check || d.Privacy == activityschema.PrivacyNoGPS || unasked {
			report(file, string(d.Privacy), leaks)
			continue
		}
		blurred, err := publish.Blur(d, places, c.HideTime)
		if err == nil {
			err = publish.WriteDetail(file, blurred)
		}
		if err != nil {
			fmt.Fprintf(p.Stderr, "cairn: %s: %s\n", cli.Shown(file), cli.Printable(err.Error()))
			left++
			continue
		}
		changed++
	}
	if c.Check {
		leaks, err := publish.IndexLeaks(p.Ctx, dir)
		report(filepath.Join(dir, indexFile), "blur_start", leaks)
		return left, err
	}
	fmt.Fprintf(p.Stdout, "%s: %s blurred\n", cli.Shown(path), cli.Count(changed, "document"))
	if changed > 0 {
		warnOfCopies(p, dir)
	}
	fmt.Fprint(p.Stdout, mapNote)
	if _, err := os.Stat(filepath.Join(dir, indexFile)); err != nil {
		return left, nil
	}
	_, bad, err := publish.WriteIndex(p.Ctx, dir, activityschema.Owner{}, time.Now())
	if err == nil && reportBad(p, dir, bad) {
		left++
	}
	return left, err
}

// documentsAt returns the documents of a published folder, or the one that path names, and their folder.
func documentsAt(path string) (dir string, files []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, cli.UsageError(fmt.Sprintf("%s: %s", cli.Shown(path), plainError(err)))
	}
	if !info.IsDir() {
		if dir = filepath.Dir(path); filepath.Base(dir) == detailsFolder {
			dir = filepath.Dir(dir)
		}
		return dir, []string{path}, nil
	}
	files, err = filepath.Glob(filepath.Join(globbed(path), detailsFolder, "*.json"))
	if err == nil && len(files) == 0 {
		what := fmt.Sprintf("%s has no documents in %s: name a published folder", cli.Shown(path), detailsFolder)
		err = cli.UsageError(what)
	}
	return path, files, err
}

// warnOfCopies warns that what was made of the documents before shows what they hide now.
func warnOfCopies(p *cli.Program, dir string) {
	for _, file := range []string{"preview.html", filepath.Join(dir, "preview.html")} {
		if _, err := os.Stat(file); err == nil {
			fmt.Fprintf(p.Stderr, "cairn: warning: %s was made before and shows what is hidden now: "+
				"cairn activity preview %s writes it again\n", cli.Shown(file), cli.Shown(dir))
		}
	}
	fmt.Fprintln(p.Stderr, "cairn: copies that others have of these documents show what is hidden now")
}

// globbed quotes what a pattern of filepath.Glob would take for itself.
func globbed(path string) string {
	var out []byte
	for i := range len(path) {
		if slices.Contains([]byte(`*?[\`), path[i]) {
			out = append(out, '\\')
		}
		out = append(out, path[i])
	}
	return string(out)
}

// warnOfCommonStart warns where most activities begin at one place that nothing hides.
func warnOfCommonStart(p *cli.Program, places *publish.Places, starts []publish.Start) {
	if file, found := places.CommonStart(starts); found {
		fmt.Fprintf(p.Stderr, "cairn: warning: most of these activities begin within 300 metres of each other, "+
			"probably at a home, and show where. Hide it: cairn activity place add home --near %s, "+
			"then cairn activity blur --public on the folder\n", cli.Shown(file))
	}
}
