// Command bench measures the service: load drives the program cairn through each kind of request and checks every
// answer, fill makes a large installation. It is no part of what is released.
//
// What counts is how many operations a server does per second of its own processor time, and the ratio to another
// version that is measured in the same run: rates by the wall clock are those of a machine that the driver shares.
// The program is installed and run by its commands alone, so that earlier versions are measured too.
package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var cli struct {
		Fill fillCommand `cmd:"" help:"Add generated users to a new installation."`
		Load loadCommand `cmd:"" help:"Measure how many requests cairn serves per second of its processor time."`
	}
	command := kong.Parse(&cli, kong.Name("bench"), kong.Description("Measure cairn, on this machine alone."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	command.FatalIfErrorf(command.Run())
}

// printJSON prints an indented document.
func printJSON(document any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(document)
}
