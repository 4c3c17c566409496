package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/renameio/v2"

	"github.com/cairn-id/cairn/activityschema/publish"
)

type previewCommand struct {
	Out string `default:"preview.html" placeholder:"FILE" help:"File to write, - for standard output (preview.html)."`
	Dir string `arg:"" help:"Published folder, with its index.json."`
}

// Run writes a page of what visitors see: 1 if a document could not be read.
func (c *previewCommand) Run(p *program) error {
	var page bytes.Buffer
	n, bad, err := publish.Preview(p.ctx, &page, c.Dir)
	if errors.Is(err, publish.ErrNoOwner) {
		return usageError{fmt.Sprintf("%s has no index.json: write it by cairn activity index", shown(c.Dir))}
	}
	if err != nil {
		return err
	}
	if c.Out == "-" {
		_, err = p.stdout.Write(page.Bytes())
	} else if err = renameio.WriteFile(c.Out, page.Bytes(), 0o644, renameio.WithStaticPermissions(0o644)); err == nil {
		fmt.Fprintf(p.stdout, "%s shows %s: open it in a browser\n", shown(c.Out), activitiesOf(n))
	}
	if err == nil && reportBad(p, c.Dir, bad) {
		err = exitError(1)
	}
	return err
}

func activitiesOf(n int) string {
	if n == 1 {
		return "1 activity"
	}
	return fmt.Sprintf("%d activities", n)
}
