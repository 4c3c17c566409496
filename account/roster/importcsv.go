package roster

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// ReadList reads people from what spreadsheets save as text or copy: see listText. Cells are separated by commas,
// semicolons or tabs, whichever fits; dates are as the language writes them. The first line names the columns
// (columnNamed), handle among them. If columns are given, these are the only ones: then the first line may name some
// of them, and otherwise all lines have them in their order, as many as each needs. Titles may stand above the first
// line. Rows have the numbers of their
// lines. The error is a *Problem if the list can be of a page.
func ReadList(data []byte, l *templates.Language, columns ...string) (rows []ImportRow, err error) {
	text, err := listText(data)
	if err != nil {
		return nil, err
	}
	separator, skipped := separatorLine(&text)
	if separator == 0 {
		separator = separatorOf(text)
	}
	records, numbers, err := readRecords(text, separator, skipped)
	if err != nil {
		return nil, err
	}
	for i, record := range records {
		if broken := damaged.FindString(strings.Join(record, " ")); broken != "" {
			return nil, errDamaged.With(damagedLine, "line", numbers[i], "text", broken)
		}
	}
	titles := titleLines(records)
	records, numbers = records[titles:], numbers[titles:]
	var head []string
	switch {
	case len(records) == 0 && columns == nil:
		return nil, errors.New("the file is empty: its first line names the columns, handle among them")
	case len(records) == 0:
		return nil, nil
	case columns != nil && !namesColumns(records[0]):
		head = columns
	default:
		if head, err = readHead(records[0], columns); err != nil {
			return nil, err
		}
		records, numbers = records[1:], numbers[1:]
	}
	for i, record := range records {
		if len(record) > len(head) {
			return nil, errTooManyCells.With(tooManyCells, "line", numbers[i], "cells", len(record), "most", len(head))
		}
		row := ImportRow{Row: numbers[i], Members: make(map[string]string, len(record))}
		for j, cell := range record {
			row.Members[head[j]] = cleanCell(l, head[j], cell)
		}
		rows = append(rows, row.named())
	}
	return rows, nil
}

// mostTitles is how many lines may stand above the names of the columns.
const mostTitles = 5

// titleLines returns how many lines of a single cell stand above one that names columns, 0 where none does.
func titleLines(records [][]string) int {
	for i, record := range records[:min(len(records), mostTitles+1)] {
		filled := 0
		for _, cell := range record {
			if strings.TrimSpace(cell) != "" {
				filled++
			}
		}
		switch {
		case filled > 1 && namesColumns(record):
			return i
		case filled > 1 || strings.Contains(record[len(record)-1], "@"):
			return 0
		}
	}
	return 0
}

// readRecords returns the lines that have any text, without the empty cells that spreadsheets write at their end,
// and the numbers of these lines. A quotation mark within a cell is one.
func readRecords(text string, separator rune, skipped int) (records [][]string, numbers []int, err error) {
	for _, lazy := range []bool{false, true} {
		in := csv.NewReader(strings.NewReader(text))
		in.Comma, in.FieldsPerRecord, in.LazyQuotes, in.TrimLeadingSpace = separator, -1, lazy, separator != '\t'
		in.ReuseRecord, records, numbers = true, nil, nil
		for end := int64(0); ; end = in.InputOffset() {
			var record []string
			if record, err = in.Read(); err != nil {
				break
			}
			for len(record) > 0 && strings.TrimSpace(record[len(record)-1]) == "" {
				record = record[:len(record)-1]
			}
			if len(record) > 0 {
				number, _ := in.FieldPos(0)
				if err = CheckImportSize(len(records)-1, int(in.InputOffset()-end)); err != nil {
					return nil, nil, fmt.Errorf("line %d: %w", number+skipped, err)
				}
				records, numbers = append(records, slices.Clone(record)), append(numbers, number+skipped)
			}
		}
		if !errors.Is(err, csv.ErrBareQuote) {
			break
		}
	}
	if bad, ok := errors.AsType[*csv.ParseError](err); ok { // otherwise io.EOF
		return nil, nil, errQuotes.With(openQuotes, "line", bad.StartLine+skipped)
	}
	return records, numbers, nil
}

const (
	tooManyCells  templates.Text = "Line {line} has {cells} cells, but there are only {most} columns."
	openQuotes    templates.Text = "Line {line}: a quotation mark does not end with its cell. Remove it."
	unknownColumn templates.Text = "The column {column} is unknown. Remove it, or rename it to one of: {names}"
	damagedLine   templates.Text = "Line {line}: “{text}” is a letter that another program has damaged. Take the " +
		"original list, and save it as CSV UTF-8."
	columnTwice templates.Text = "The column {column} is there twice. Remove one of them."
)

var (
	errTooManyCells = web.NewProblem(400, "too_many_cells", tooManyCells)
	errQuotes       = web.NewProblem(400, "invalid_list", openQuotes)
	errDamaged      = web.NewProblem(400, "invalid_list", damagedLine)
	errColumn       = web.NewProblem(400, "invalid_list", unknownColumn)
)

// namesColumns reports whether a line names columns rather than a person.
func namesColumns(line []string) bool {
	known := 0
	for _, cell := range line {
		if strings.Contains(cell, "@") {
			return false
		}
		if columnNamed(cell) != "" {
			known++
		}
	}
	return known == len(line) || known > 1 || slices.ContainsFunc(line, func(cell string) bool {
		return columnNamed(cell) == "email" || columnNamed(cell) == "handle"
	})
}

// readHead returns the members that the line names. columns are those that a list may have, nil for all.
func readHead(line, columns []string) (head []string, err error) {
	for _, cell := range line {
		name := columnNamed(cell)
		if name == "" {
			name = strings.ToLower(strings.TrimSpace(cell))
		}
		if err = CheckImportMember(name); columns == nil && err != nil {
			return nil, fmt.Errorf("column %w", err)
		}
		if columns != nil && !slices.Contains(columns, name) && !slices.Contains(nameParts, name) {
			return nil, errColumn.With(unknownColumn, "column", templates.Shortened(cell, 40),
				"names", strings.Join(columns, ", "))
		}
		head = append(head, name)
	}
	// Of two columns, such as Vorname and Name, the one is the family's, or the other the person's own.
	if at := slices.Index(head, "display_name"); at >= 0 && !strings.EqualFold(line[at], "display_name") {
		given, family := slices.Contains(head, "given_name"), slices.Contains(head, "family_name")
		switch {
		case given && !family:
			head[at] = "family_name"
		case family && !given:
			head[at] = "given_name"
		}
	}
	for i, name := range head {
		if slices.Contains(head[:i], name) {
			return nil, errColumn.With(columnTwice, "column", templates.Shortened(line[i], 40))
		}
	}
	if columns == nil && !slices.Contains(head, "handle") {
		return nil, errors.New("there is no column handle, that of the user names: add it to the first line, " +
			"or paste the list on the page Add many people, which proposes user names")
	}
	return head, nil
}

// CheckImportSize returns an error for a row of so many bytes after so many others that an import does not read. A
// pasted list has no such row.
func CheckImportSize(rows, size int) error {
	switch {
	case size > 2*web.MaxBody:
		return errors.New("this is longer than 128 KiB, and no person: correct it")
	case rows >= 200_000:
		return errors.New("an import takes at most 200,000 people: import the list in several parts")
	}
	return nil
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
