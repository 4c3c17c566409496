// Package recordings has the commands of cairn activity. They work on files alone: no database, no service.
package recordings

import (
	"errors"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type Command struct {
	Validate validateCommand `cmd:""`
	Import   importCommand   `cmd:""`
	Blur     blurCommand     `cmd:""`
	Place    placeCommand    `cmd:""`
	Index    indexCommand    `cmd:""`
	Preview  previewCommand  `cmd:""`
	Schema   schemaCommand   `cmd:""`
}

type schemaCommand struct{}

// Run prints the embedded schema.
func (schemaCommand) Run(p *cli.Program) error {
	if _, err := p.Stdout.Write(activityschema.Schema()); err != nil {
		return errors.New("the schema could not be written")
	}
	return nil
}
