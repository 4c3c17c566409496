package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/cairn-id/cairn/activityschema"
)

// passedOver is the number of files in the folders that are no documents.
func (v *validation) passedOver() int {
	n := 0
	for _, f := range v.folders {
		n += len(f.others)
	}
	return n
}

// totals are the numbers of a report.
type totals struct{ documents, invalid, private, warnings, unreadable int }

func (v *validation) totals() totals {
	var t totals
	for _, r := range v.results {
		if r.err != nil {
			t.unreadable++
			continue
		}
		t.documents++
		if !r.Valid {
			t.invalid++
		}
		private := false
		for _, f := range r.Findings {
			if f.Severity == activityschema.SeverityError {
				private = true
			} else {
				t.warnings++
			}
		}
		if private {
			t.private++
		}
	}
	return t
}

// count writes a number with its noun, in the plural but for one.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// summary says in words what the totals are, of what was looked at.
func (v *validation) summary() string {
	t := v.totals()
	parts := []string{count(t.documents, "document"), strconv.Itoa(t.invalid) + " invalid"}
	if v.lint {
		parts = append(parts, strconv.Itoa(t.private)+" with privacy errors", count(t.warnings, "warning"))
	}
	if t.unreadable > 0 {
		parts = append(parts, strconv.Itoa(t.unreadable)+" unreadable")
	}
	if n := v.passedOver(); n > 0 {
		parts = append(parts, count(n, "other file")+" passed over")
	}
	return strings.Join(parts, ", ")
}

// shown is a path or a pointer as it is, or quoted if it would not be one word
// of printable characters: names in a document may hold what steers a terminal.
func shown(s string) string {
	if s == "" || s[0] == '"' || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(s)
	}
	return s
}

// at is the place as compilers write it, or the file alone if it is not known.
func at(file string, line, column int) string {
	if line == 0 {
		return shown(file)
	}
	return fmt.Sprintf("%s:%d:%d", shown(file), line, column)
}

// problemLine is a problem for people.
func problemLine(file string, p locatedProblem) string {
	return fmt.Sprintf("%s: %s: %s (%s)", at(file, p.Line, p.Column), shown(p.Pointer), p.Message, p.Keyword)
}

// findingLine is a finding for people.
func findingLine(file string, f locatedFinding) string {
	code := f.Code
	if f.Severity == activityschema.SeverityWarning {
		code += ", warning"
	}
	return fmt.Sprintf("%s: %s: %s (%s)", at(file, f.Line, f.Column), shown(f.Pointer), f.Message, code)
}

// lines are what is said about a document, each for people.
func (r *result) lines() []string {
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, problemLine(r.source.name, p))
	}
	for _, f := range r.Findings {
		lines = append(lines, findingLine(r.source.name, f))
	}
	return lines
}

// reportText prints one line for each thing that was found, and how many there
// were of what.
func reportText(w io.Writer, v *validation) error {
	b := bufio.NewWriter(w)
	for _, r := range v.results {
		if r.err != nil {
			continue
		}
		lines := r.lines()
		for _, line := range lines {
			fmt.Fprintln(b, line)
		}
		// Who names a file wants to hear about it; of a folder, what is wrong.
		if len(lines) == 0 && r.source.folder == nil {
			fmt.Fprintf(b, "%s: valid\n", shown(r.source.name))
		}
	}
	fmt.Fprintln(b, v.summary())
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// fileReport is what the JSON report says about one file.
type fileReport struct {
	File string `json:"file"`
	answer
	Error string `json:"error,omitempty"` // why it could not be read
}

// reportJSON prints a list of files.
func reportJSON(w io.Writer, v *validation) error {
	files := make([]fileReport, 0, len(v.results))
	for _, r := range v.results {
		f := fileReport{File: r.source.name, answer: r.answer}
		if r.err != nil {
			f.Error = r.err.Error()
			f.answer = answer{Problems: []locatedProblem{}, Findings: []locatedFinding{}}
		}
		files = append(files, f)
	}
	return writeJSON(w, files)
}
