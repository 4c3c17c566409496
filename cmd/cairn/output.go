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

// output holds the flags that select the output of a command.
type output struct {
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print only ids."`
}

// pairs are labels and values.
type pairs [][2]string

// print prints one object as its id, as a JSON document, or as labels with values.
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

// encodeJSON encodes a document with indentation. prefix begins each line after the first.
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

// newTable returns a writer that aligns tab-separated columns.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// writePairs prints a line for each label whose value is not empty.
func writePairs(w io.Writer, labels pairs) error {
	t := newTable(w)
	for _, p := range labels {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], p[1])
		}
	}
	return t.Flush()
}

// printable replaces the control characters in text from a file, a proxy or a database, so that it
// is one line and cannot control a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// list prints entries as they are read: as ids, as one JSON array, or as a table.
type list struct {
	output
	w       *bufio.Writer
	table   *tabwriter.Writer
	printed int
}

// pageSize is the number of entries that are read at once. A table is aligned page by page.
const pageSize = 500

// list begins a list with the headings of the table's columns.
func (o output) list(p *program, headings ...string) *list {
	l := &list{output: o, w: bufio.NewWriter(p.stdout)}
	if !o.Quiet && o.Format != "json" {
		l.table = newTable(l.w)
		fmt.Fprintln(l.table, strings.Join(headings, "\t"))
	}
	return l
}

// add prints one entry. The caller should stop reading entries if it fails.
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
		separator := ","
		if l.printed == 0 {
			separator = "["
		}
		fmt.Fprintf(l.w, "%s\n  %s", separator, bytes.TrimSuffix(b, []byte("\n")))
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
	switch {
	case l.table != nil || l.Quiet:
	case l.printed == 0:
		fmt.Fprintln(l.w, "[]")
	default:
		fmt.Fprintln(l.w, "\n]")
	}
	return l.flush()
}

// listed replaces a nil slice by an empty one, so that JSON has [] and not null.
func listed[T any](s []T) []T { return append([]T{}, s...) }
