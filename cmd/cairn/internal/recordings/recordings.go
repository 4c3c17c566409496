// Package recordings has the commands of cairn activity. They work on files alone: no database, no service.
package recordings

import (
	"errors"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type Command struct {
	Validate validateCommand `cmd:"" help:"Check documents against the activity schema, and lint them."`
	Import   importCommand   `cmd:"" help:"Convert recordings (GPX, TCX, FIT), by default without positions."`
	Blur     blurCommand     `cmd:"" help:"Hide your places in published documents, or check that they are hidden."`
	Place    placeCommand    `cmd:"" help:"Keep the places that blurred activities hide."`
	Index    indexCommand    `cmd:"" help:"Write the index of a folder from its documents."`
	Preview  previewCommand  `cmd:"" help:"Write a page of what visitors of a published folder see."`
	Schema   schemaCommand   `cmd:"" help:"Print the JSON Schema."`
}

type schemaCommand struct{}

// Run prints the embedded schema.
func (schemaCommand) Run(p *cli.Program) error {
	if _, err := p.Stdout.Write(activityschema.Schema()); err != nil {
		return errors.New("the schema could not be written")
	}
	return nil
}
