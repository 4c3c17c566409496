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
	"unicode"
)

// output are the flags of a command that prints what it did or found.
type output struct {
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print ids only."`
}

// pairs are labels and values.
type pairs [][2]string

// print prints one object: its id alone, a document, or labels with values.
func (o output) print(p *program, id string, document any, labels pairs) error {
	switch {
	case o.Quiet:
		fmt.Fprintln(p.stdout, id)
		return nil
	case o.Format == "json":
		return writeJSON(p.stdout, document)
	}
	return writePairs(p.stdout, labels)
}

// encodeJSON indents a document, its lines after the first by prefix, too.
func encodeJSON(document any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent(prefix, "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	return b.Bytes(), nil
}

// writeJSON prints an indented document.
func writeJSON(w io.Writer, document any) error {
	b, err := encodeJSON(document, "")
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// newTable aligns columns that tabs separate.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// writePairs prints labels and values below one another, without the empty ones.
func writePairs(w io.Writer, labels pairs) error {
	t := newTable(w)
	for _, p := range labels {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], p[1])
		}
	}
	return t.Flush()
}

// printable is what a file, a proxy or a database said, as one line that gives a terminal
// no command.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// list prints entries as they are read: the ids alone, one JSON array, or a table.
type list struct {
	output
	w       *bufio.Writer
	table   *tabwriter.Writer
	printed int
}

// pageSize is how many entries are read at once; the columns of a table are as wide as
// such a page needs.
const pageSize = 500

// list begins a list with the heads of the table's columns.
func (o output) list(p *program, heads ...string) *list {
	l := &list{output: o, w: bufio.NewWriter(p.stdout)}
	if !o.Quiet && o.Format != "json" {
		l.table = newTable(l.w)
		fmt.Fprintln(l.table, strings.Join(heads, "\t"))
	}
	return l
}

// add prints one entry. After a failure to write nothing more needs to be read.
func (l *list) add(id string, document any, columns ...string) error {
	switch {
	case l.Quiet:
		fmt.Fprintln(l.w, id)
	case l.table != nil:
		fmt.Fprintln(l.table, strings.Join(columns, "\t"))
	default:
		b, err := encodeJSON(document, "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(l.w, "%s\n  %s", map[bool]string{true: "[", false: ","}[l.printed == 0], bytes.TrimSuffix(b, []byte("\n")))
	}
	if l.printed++; l.printed%pageSize == 0 {
		return l.flush()
	}
	return nil
}

func (l *list) flush() (err error) {
	if l.table != nil {
		err = l.table.Flush()
	}
	if err = errors.Join(err, l.w.Flush()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// end completes the list.
func (l *list) end() error {
	if l.table == nil && !l.Quiet {
		fmt.Fprintln(l.w, map[bool]string{true: "[]", false: "\n]"}[l.printed == 0])
	}
	return l.flush()
}

// listed makes an empty list of nothing, so that JSON has [] and not null.
func listed[T any](s []T) []T { return append([]T{}, s...) }
