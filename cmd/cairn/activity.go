package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cairn-id/cairn/activityschema"
)

type activityCommand struct {
	Validate validateCommand `cmd:"" help:"Check documents against the activity schema."`
	Schema   schemaCommand   `cmd:"" help:"Print the JSON Schema."`
}

type validateCommand struct {
	Format string   `name:"output" short:"o" enum:"text,json" default:"text" help:"text or json."`
	Quiet  bool     `short:"q" help:"Say nothing; the exit code tells."`
	Files  []string `arg:"" name:"file" help:"Index or activity documents; - is standard input."`
}

// Exit codes of validate.
const (
	exitInvalid    = 1
	exitUnreadable = 2
)

type fileResult struct {
	File     string                   `json:"file"`
	Valid    bool                     `json:"valid"`
	Problems []activityschema.Problem `json:"problems"`
}

// Run checks each file: 0 all valid, 1 some invalid, 2 some unreadable.
func (c *validateCommand) Run(p *program) error {
	code := exitDone
	results := make([]fileResult, 0, len(c.Files))
	for _, name := range c.Files {
		problems, err := c.check(p, name)
		if p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(p.stderr, "cairn: %s: %s\n", name, err)
			code = exitUnreadable
			continue
		}
		if len(problems) > 0 && code == exitDone {
			code = exitInvalid
		}
		if problems == nil {
			problems = []activityschema.Problem{}
		}
		results = append(results, fileResult{File: name, Valid: len(problems) == 0, Problems: problems})
	}
	if err := c.report(p.stdout, results); err != nil {
		return err
	}
	if code != exitDone {
		return exitError(code)
	}
	return nil
}

func (c *validateCommand) check(p *program, name string) ([]activityschema.Problem, error) {
	r := p.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			var pathErr *os.PathError
			if errors.As(err, &pathErr) {
				err = pathErr.Err // the name is printed already
			}
			return nil, err
		}
		defer func() { _ = f.Close() }()
		r = f
	}
	return activityschema.Validate(p.ctx, r)
}

// report prints one line a problem.
func (c *validateCommand) report(w io.Writer, results []fileResult) error {
	if c.Quiet {
		return nil
	}
	if c.Format == "json" {
		return writeJSON(w, results)
	}
	for _, r := range results {
		if r.Valid {
			fmt.Fprintf(w, "%s: valid\n", r.File)
		}
		for _, problem := range r.Problems {
			fmt.Fprintf(w, "%s: %q: %s (%s)\n", r.File, problem.Pointer, problem.Message, problem.Keyword)
		}
	}
	return nil
}

type schemaCommand struct{}

// Run prints the embedded schema.
func (schemaCommand) Run(p *program) error {
	_, err := p.stdout.Write(activityschema.Schema())
	return err
}
