package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// output are the flags of a command that prints what it did or found.
type output struct {
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print ids only."`
}

// writeJSON prints an indented document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// writePairs prints labels and values below one another.
func writePairs(w io.Writer, pairs [][2]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], p[1])
		}
	}
	return t.Flush()
}

// writeTable prints rows under a head.
func writeTable(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// done prints what a deed did: the id alone, a document, or labels with values.
func (o output) done(p *program, id string, document any, pairs [][2]string) error {
	switch {
	case o.Quiet:
		fmt.Fprintln(p.stdout, id)
		return nil
	case o.Format == "json":
		return writeJSON(p.stdout, document)
	}
	return writePairs(p.stdout, pairs)
}
