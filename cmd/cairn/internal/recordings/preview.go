package recordings

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/renameio/v2"

	"github.com/cairn-id/cairn/activityschema/publish"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type previewCommand struct {
	Out string `default:"preview.html" placeholder:"FILE" help:"File to write, - for standard output (preview.html)."`
	Dir string `arg:"" help:"Published folder, with its index.json."`
}

// Run writes a page of what visitors see: 1 if a document could not be read.
func (c *previewCommand) Run(p *cli.Program) error {
	var page bytes.Buffer
	n, bad, err := publish.Preview(p.Ctx, &page, c.Dir)
	if errors.Is(err, publish.ErrNoOwner) {
		return cli.UsageError(fmt.Sprintf("%s has no index.json: write it by cairn activity index", cli.Shown(c.Dir)))
	}
	if err != nil {
		return err
	}
	if c.Out == "-" {
		_, err = p.Stdout.Write(page.Bytes())
	} else if err = renameio.WriteFile(c.Out, page.Bytes(), 0o644, renameio.WithStaticPermissions(0o644)); err == nil {
		fmt.Fprintf(p.Stdout, "%s shows %s: open it in a browser\n", cli.Shown(c.Out), activitiesOf(n))
	}
	if err == nil && reportBad(p, c.Dir, bad) {
		err = cli.ExitError(1)
	}
	return err
}

func activitiesOf(n int) string {
	if n == 1 {
		return "1 activity"
	}
	return fmt.Sprintf("%d activities", n)
}
