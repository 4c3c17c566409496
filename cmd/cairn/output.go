package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
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

// listing prints a list as it is read, page by page: the ids alone, one JSON array, or
// a table. The columns of a table are as wide as the page needs.
type listing struct {
	output
	w       *bufio.Writer
	table   *tabwriter.Writer
	printed int
}

func (o output) list(w io.Writer, head ...string) *listing {
	l := &listing{output: o, w: bufio.NewWriter(w)}
	if !o.Quiet && o.Format != "json" {
		l.table = tabwriter.NewWriter(l.w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(l.table, strings.Join(head, "\t"))
	}
	return l
}

// add prints one entry.
func (l *listing) add(id string, document any, row []string) error {
	switch {
	case l.table != nil:
		fmt.Fprintln(l.table, strings.Join(row, "\t"))
	case l.Quiet:
		fmt.Fprintln(l.w, id)
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetIndent("  ", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(document); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		fmt.Fprint(l.w, map[bool]string{true: "[\n  ", false: ",\n  "}[l.printed == 0], strings.TrimSuffix(b.String(), "\n"))
	}
	l.printed++
	return nil
}

// flush prints what was added, at the end of a page: after a failure to write nothing
// more needs to be read.
func (l *listing) flush() error {
	var err error
	if l.table != nil {
		err = l.table.Flush()
	}
	return errors.Join(err, l.w.Flush())
}

// end completes the list.
func (l *listing) end() error {
	if l.table == nil && !l.Quiet {
		fmt.Fprintln(l.w, map[bool]string{true: "[]", false: "\n]"}[l.printed == 0])
	}
	return l.flush()
}
