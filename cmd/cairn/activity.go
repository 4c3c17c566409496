package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

type activityCommand struct {
	Validate validateCommand `cmd:"" help:"Check documents against the activity schema, and whether they make sense and keep privacy."`
	Schema   schemaCommand   `cmd:"" help:"Print the JSON Schema."`
}

type validateCommand struct {
	Format       string   `name:"format" short:"o" enum:"text,json,sarif,junit" default:"text" help:"Form of the report: text, json, sarif or junit."`
	Quiet        bool     `short:"q" help:"Say nothing; the exit code tells."`
	NoLint       bool     `name:"no-lint" help:"Ask only the schema: neither privacy nor sense, nor documents against one another."`
	AllowPrivacy bool     `help:"Take what breaks an activity's privacy as a warning."`
	Strict       bool     `help:"Take warnings as errors."`
	Engine       string   `enum:"fast,qri,both" default:"fast" help:"Implementation of the schema: fast, qri, or both held against one another."`
	MaxProblems  int      `default:"100" placeholder:"N" help:"Problems reported of one document at most, 1 to 1000 (100)."`
	Jobs         int      `placeholder:"N" help:"Documents checked at once; the processor's cores unless given."`
	Paths        []string `arg:"" name:"path" help:"Index or activity documents (also .gz), folders with index.json and activities/, or - for standard input."`
}

// Exit codes of validate.
const (
	exitInvalid    = 1
	exitUnreadable = 2 // also for a wrong use, and when stopped before the end
)

// maxProblems is the greatest value of --max-problems.
const maxProblems = 1000

// Run checks the documents: 0 all valid, 1 some invalid, 2 some unreadable.
func (c *validateCommand) Run(p *program) error {
	v, err := c.validation()
	if err != nil {
		return err
	}
	bar := c.progress(p, v)
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.run(p.ctx, p, c.Paths)
	}()
	select {
	case <-done:
	case <-p.ctx.Done():
	}
	bar.stop()
	if p.ctx.Err() != nil {
		fmt.Fprintln(p.stderr, "cairn: stopped before all documents were checked: run again")
		return exitError(exitUnreadable)
	}
	return c.finish(p, v)
}

// validation returns what the flags ask for.
func (c *validateCommand) validation() (*validation, error) {
	switch {
	case c.MaxProblems < 1 || c.MaxProblems > maxProblems:
		return nil, usageError{fmt.Sprintf("--max-problems is from 1 to %d", maxProblems)}
	case c.Jobs < 0:
		return nil, usageError{"--jobs is at least 1"}
	}
	if i := slices.Index(c.Paths, "-"); i >= 0 && slices.Contains(c.Paths[i+1:], "-") {
		return nil, usageError{"standard input (-) can be read only once"}
	}
	jobs := c.Jobs
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	return &validation{
		checker: &checker{
			options: activityschema.Options{Engine: activityschema.Engine(c.Engine), MaxProblems: c.MaxProblems},
			lint:    !c.NoLint, allowPrivacy: c.AllowPrivacy, strict: c.Strict, large: make(chan struct{}, 1),
		},
		slots: make(chan struct{}, jobs),
	}, nil
}

// finish prints the report, and the exit code that it comes to.
func (c *validateCommand) finish(p *program, v *validation) error {
	code := exitDone
	for _, r := range v.results {
		switch {
		case r.err != nil:
			fmt.Fprintf(p.stderr, "cairn: %s: %s\n", shown(r.source.name), r.err)
			code = exitUnreadable
		case !v.passes(r.answer) && code == exitDone:
			code = exitInvalid
		}
	}
	if err := c.report(p, v); err != nil {
		// Not 1, which says that there is a report to read.
		fmt.Fprintf(p.stderr, "cairn: %s\n", err)
		return exitError(exitUnreadable)
	}
	if code != exitDone {
		return exitError(code)
	}
	return nil
}

func (c *validateCommand) report(p *program, v *validation) error {
	if c.Quiet {
		return nil
	}
	if n := v.passedOver(); n > 0 && c.Format != "text" {
		fmt.Fprintf(p.stderr, "cairn: %s passed over\n", count(n, "other file"))
	}
	switch c.Format {
	case "json":
		return reportJSON(p.stdout, v)
	case "sarif":
		return reportSARIF(p.stdout, v)
	case "junit":
		return reportJUnit(p.stdout, v)
	}
	return reportText(p.stdout, v)
}

type schemaCommand struct{}

// Run prints the embedded schema.
func (schemaCommand) Run(p *program) error {
	if _, err := p.stdout.Write(activityschema.Schema()); err != nil {
		return errors.New("the schema could not be written")
	}
	return nil
}
