package roster

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// ReadImportCSV reads the rows of a CSV file, whose cells are separated by a comma, a semicolon or a tab. Its first
// line names the columns, handle among them. If columns are given, these are the only ones: then the first line may
// name some of them, and otherwise all lines have them in their order, as many as each needs. The error is a
// *Problem if columns are given.
func ReadImportCSV(r *bufio.Reader, columns ...string) (rows []ImportRow, err error) {
	in := csv.NewReader(r)
	line, _ := r.Peek(4096)
	switch first, _, _ := strings.Cut(string(line), "\n"); {
	case strings.Contains(first, "\t"): // copied from a spreadsheet
		in.Comma = '\t'
	case !strings.Contains(first, ",") && strings.Contains(first, ";"):
		in.Comma = ';' // for spreadsheets in a locale with a decimal comma
	}
	if columns != nil {
		in.FieldsPerRecord, in.LazyQuotes, in.TrimLeadingSpace = -1, true, in.Comma != '\t'
	}
	head, err := in.Read()
	if columns == nil {
		err = checkHead(head, err)
	}
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number, _ := in.FieldPos(0)
	if columns != nil {
		head = withoutEmptyEnd(head)
	}
	first := [][]string{}
	if columns != nil && !namesColumns(head, columns) {
		first, head = [][]string{head}, columns
	}
	for {
		record, err := head, error(nil)
		if len(first) > 0 {
			record, first = first[0], nil
		} else {
			record, err = in.Read()
			if errors.Is(err, io.EOF) {
				return rows, nil
			}
			if err != nil {
				return nil, err
			}
			number, _ = in.FieldPos(0)
		}
		if columns != nil {
			record = withoutEmptyEnd(record)
		}
		if len(record) > len(head) {
			return nil, errTooManyCells.With(tooManyCells, "line", number, "cells", len(record), "most", len(head))
		}
		row := ImportRow{Row: number, Members: make(map[string]string, len(head))}
		for i, cell := range record {
			if !utf8.ValidString(cell) {
				return nil, fmt.Errorf("line %d is not UTF-8: save the file as CSV UTF-8", number)
			}
			row.Members[head[i]] = web.UnguardCell(cell)
		}
		rows = append(rows, row)
	}
}

// withoutEmptyEnd removes the empty cells that spreadsheets write at the end of a line.
func withoutEmptyEnd(record []string) []string {
	for len(record) > 0 && strings.TrimSpace(record[len(record)-1]) == "" {
		record = record[:len(record)-1]
	}
	return record
}

const tooManyCells templates.Text = "Line {line} has {cells} cells, but there are only {most} columns."

var errTooManyCells = web.NewProblem(400, "too_many_cells", tooManyCells)

// checkHead checks the line that names the columns, and puts the names into lower case.
func checkHead(head []string, err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty: its first line names the columns, handle among them")
	}
	if err != nil {
		return err
	}
	for i, name := range head {
		head[i] = strings.ToLower(strings.TrimSpace(name))
		if err := CheckImportMember(head[i]); err != nil {
			return fmt.Errorf("column %w", err)
		}
		if slices.Contains(head[:i], head[i]) {
			return fmt.Errorf("the column %s occurs twice", head[i])
		}
	}
	if !slices.Contains(head, "handle") {
		return errors.New("there is no column handle: the first line names the columns")
	}
	return nil
}

// namesColumns reports whether a line names columns, each once, and puts the names into lower case.
func namesColumns(line, columns []string) bool {
	var names []string
	for _, cell := range line {
		name := strings.ToLower(strings.TrimSpace(cell))
		if !slices.Contains(columns, name) || slices.Contains(names, name) {
			return false
		}
		names = append(names, name)
	}
	copy(line, names)
	return len(names) > 0
}

// CheckImportMember returns an error for an unknown member: a misspelt column would be lost.
func CheckImportMember(name string) error {
	if name == "password" {
		return errors.New("password: plain-text passwords are not accepted: give password_hash, " +
			"or neither and --reset-codes FILE")
	}
	if members := ImportMembers(); !slices.Contains(members, name) &&
		!strings.HasPrefix(name, account.AttributePrefix) { // settings declare which there are
		return fmt.Errorf("%q is unknown: the names are %s", name, strings.Join(members, ", "))
	}
	return nil
}
