package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// A locatedProblem is a problem with its place for people.
type locatedProblem struct {
	activityschema.Problem
	Line   int `json:"line"`   // from 1
	Column int `json:"column"` // from 1, in characters
}

// A locatedFinding is a finding with its place.
type locatedFinding struct {
	activityschema.Finding
	Offset int64 `json:"offset"` // of the value, in bytes from 0
	Line   int   `json:"line"`
	Column int   `json:"column"`
}

// An offset asks for the line and the column of a byte.
type offset struct {
	at           int64
	line, column *int
}

// countLines reads r as far as the offsets go and sets their lines and columns.
// Those beyond the end get the place of the end.
func countLines(r io.Reader, offsets []offset) error {
	slices.SortStableFunc(offsets, func(a, b offset) int { return cmp.Compare(a.at, b.at) })
	line, column, read := 1, 1, int64(0)
	advance := func(block []byte) {
		read += int64(len(block))
		if n := bytes.Count(block, []byte{'\n'}); n > 0 {
			line, column = line+n, 1
			block = block[bytes.LastIndexByte(block, '\n')+1:]
		}
		for _, c := range block {
			if c&0xC0 != 0x80 { // not the rest of a character
				column++
			}
		}
	}
	buf := make([]byte, 64<<10)
	for len(offsets) > 0 {
		n, err := r.Read(buf)
		block := buf[:n]
		for len(offsets) > 0 && (offsets[0].at <= read+int64(len(block)) || err != nil) {
			part := min(max(offsets[0].at-read, 0), int64(len(block)))
			advance(block[:part])
			block = block[part:]
			*offsets[0].line, *offsets[0].column = line, column
			offsets = offsets[1:]
		}
		advance(block)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// placeProblems sets the lines and columns of problems of the document in r.
func placeProblems(r io.Reader, problems []locatedProblem) error {
	offsets := make([]offset, len(problems))
	for i := range problems {
		p := &problems[i]
		offsets[i] = offset{p.Offset, &p.Line, &p.Column}
	}
	return countLines(r, offsets)
}

// placeFindings sets the offsets, lines and columns of findings about the
// document in data, which is valid but for what --fix repairs.
func placeFindings(data []byte, findings []locatedFinding) {
	if len(findings) == 0 {
		return
	}
	root := newPlace()
	for _, f := range findings {
		root.place(f.Pointer)
	}
	document := bytes.TrimPrefix(data, byteOrderMark)
	walkJSON(document, root)
	skipped := int64(len(data) - len(document))
	offsets := make([]offset, len(findings))
	for i := range findings {
		f := &findings[i]
		f.Offset = skipped + max(0, root.offset(f.Pointer))
		offsets[i] = offset{f.Offset, &f.Line, &f.Column}
	}
	_ = countLines(bytes.NewReader(data), offsets) // memory does not fail
}

// inOrder sorts findings by their place, as problems are.
func inOrder(findings []locatedFinding) {
	slices.SortStableFunc(findings, func(a, b locatedFinding) int { return cmp.Compare(a.Offset, b.Offset) })
}
