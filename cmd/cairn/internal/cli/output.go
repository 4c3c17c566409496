package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Count formats a number with its noun, which is in the plural unless n is 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Shown returns a path or a pointer unchanged if all of its characters are printable, and quoted
// otherwise: names in a document may contain control sequences for a terminal.
func Shown(s string) string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if s == "" || s[0] == '"' || strings.ContainsFunc(s, unprintable) {
		return strconv.Quote(s)
	}
	return s
}

// Output holds the flags that select the output of a command.
type Output struct {
	Format string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Quiet  bool   `short:"q" help:"Print only ids."`
}

// Pairs are labels and values.
type Pairs [][2]string

// output is a standard output that keeps its first error.
type output struct {
	io.Writer
	failed *error
}

// Write implements io.Writer.
func (o output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if *o.failed == nil {
		*o.failed = err
	}
	return n, err
}

// Fd implements what [IsTerminal] asks for.
func (o output) Fd() uintptr {
	if f, ok := o.Writer.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// Print prints one object as its id, as a JSON document, or as labels with values.
func (o Output) Print(p *Program, id string, document any, labels Pairs) error {
	switch {
	case o.Quiet:
		fmt.Fprintln(p.Stdout, id)
		return nil
	case o.Format == "json":
		return WriteJSON(p.Stdout, document)
	}
	return WritePairs(p.Stdout, labels)
}

// encodeJSON encodes a document with indentation. prefix begins each line after the first.
func encodeJSON(document any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent(prefix, "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(document)
	return b.Bytes(), err
}

// WriteJSON prints an indented document.
func WriteJSON(w io.Writer, document any) error {
	b, err := encodeJSON(document, "")
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// NewTable returns a writer that aligns tab-separated columns.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// WritePairs prints a line for each label whose value is not empty.
func WritePairs(w io.Writer, labels Pairs) error {
	t := NewTable(w)
	for _, p := range labels {
		if p[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", p[0], p[1])
		}
	}
	return t.Flush()
}

// Printable replaces the control characters in text from a file, a proxy or a database, so that it
// is one line and cannot control a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// List prints entries as they are read: as ids, as one JSON array, or as a table.
type list struct {
	Output
	w       *bufio.Writer
	table   *tabwriter.Writer
	Printed int
	Err     error // the first; from then on nothing is printed
}

// PageSize is the number of entries that are read at once. A table is aligned page by page.
const PageSize = 500

// List begins a list with the headings of the table's columns.
func (o Output) List(p *Program, headings ...string) *list {
	l := &list{Output: o, w: bufio.NewWriter(p.Stdout)}
	if !o.Quiet && o.Format != "json" {
		l.table = NewTable(l.w)
		fmt.Fprintln(l.table, strings.Join(headings, "\t"))
	}
	return l
}

// Add prints one entry. Whoever reads entries as they are printed should stop where Err is set.
func (l *list) Add(id string, document any, columns ...string) {
	switch {
	case l.Err != nil:
		return
	case l.Quiet:
		fmt.Fprintln(l.w, id)
	case l.table != nil:
		fmt.Fprintln(l.table, strings.Join(columns, "\t"))
	default:
		var b []byte
		separator := ","
		if b, l.Err = encodeJSON(document, "  "); l.Printed == 0 {
			separator = "["
		}
		fmt.Fprintf(l.w, "%s\n  %s", separator, bytes.TrimSuffix(b, []byte("\n")))
	}
	if l.Printed++; l.Printed%PageSize == 0 {
		l.flush()
	}
}

func (l *list) flush() {
	if l.table != nil {
		l.Err = errors.Join(l.Err, l.table.Flush())
	}
	l.Err = errors.Join(l.Err, l.w.Flush())
}

// End completes the list, unless it failed.
func (l *list) End() error {
	switch {
	case l.Err != nil:
		return fmt.Errorf("write: %w", l.Err)
	case l.table != nil || l.Quiet:
	case l.Printed == 0:
		fmt.Fprintln(l.w, "[]")
	default:
		fmt.Fprintln(l.w, "\n]")
	}
	if l.flush(); l.Err != nil {
		return fmt.Errorf("write: %w", l.Err)
	}
	return nil
}

// Listed replaces a nil slice by an empty one, so that JSON has [] and not null.
func Listed[T any](s []T) []T { return append([]T{}, s...) }

// OnlyNow returns a secret with a note that it is not shown again.
func OnlyNow(secret string) string {
	if secret == "" {
		return ""
	}
	return secret + "   (shown only now)"
}

// DateOrNever formats a time, in UTC; zero is never.
func DateOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}
