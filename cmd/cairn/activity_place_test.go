package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/cairn-id/cairn/activityschema"
)

func TestLineAndColumnNeverDependOnHowTheFileIsRead(t *testing.T) {
	text := "é\n\nab\r\n日本語 x\n" + strings.Repeat("long ", 40_000) + "\nend"
	var offsets []int64
	for i := range text {
		if i < 40 || i > len(text)-10 || i%9973 == 0 {
			offsets = append(offsets, int64(i))
		}
	}
	offsets = append(offsets, int64(len(text)))
	for name, r := range map[string]func() *offsetReader{
		"whole":      func() *offsetReader { return &offsetReader{strings.NewReader(text)} },
		"bit by bit": func() *offsetReader { return &offsetReader{iotest.HalfReader(strings.NewReader(text))} },
		"with error": func() *offsetReader { return &offsetReader{iotest.DataErrReader(strings.NewReader(text))} },
	} {
		problems := make([]locatedProblem, len(offsets))
		for i, at := range offsets {
			problems[len(offsets)-1-i].Offset = at // in no order
		}
		if err := placeProblems(r(), problems); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range problems {
			before := text[:p.Offset]
			line := strings.Count(before, "\n") + 1
			column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
			if p.Line != line || p.Column != column {
				t.Errorf("%s: offset %d at %d:%d, want %d:%d", name, p.Offset, p.Line, p.Column, line, column)
			}
		}
	}
}

// An offsetReader hides every method but Read.
type offsetReader struct {
	r interface{ Read([]byte) (int, error) }
}

func (o *offsetReader) Read(p []byte) (int, error) { return o.r.Read(p) }

func TestFindingIsNeverShownAtAnotherPlace(t *testing.T) {
	document := "{\n \"skipped\": {\"b\": [\"}\", {\"c\": 1}]},\n \"custom\": {\"a/b\": [[1, 2],\n  {\"x~\": \"\\\"\", \"y\": 3}]}\n}"
	for _, c := range []struct {
		pointer, want string
		line, column  int
	}{
		{"", "{\n", 1, 1},
		{"/custom", `{"a/b"`, 3, 12},
		{"/custom/a~1b/0/1", "2]", 3, 25},
		{"/custom/a~1b/1/y", "3}", 4, 21},
		{"/custom/a~1b/1/x~0", `"\""`, 4, 10},
		{"/custom/a~1b/7", "[[1", 3, 20}, // not there: the nearest that is
		{"/nothing/0", "{\n", 1, 1},
	} {
		for _, mark := range []string{"", "\xef\xbb\xbf"} {
			data := []byte(mark + document)
			f := []locatedFinding{{Finding: activityschema.Finding{Pointer: c.pointer}}}
			placeFindings(data, f)
			column := c.column
			if c.line == 1 {
				column += utf8.RuneCountInString(mark)
			}
			if !bytes.HasPrefix(data[f[0].Offset:], []byte(c.want)) || f[0].Line != c.line || f[0].Column != column {
				t.Errorf("%q at %d, %d:%d", c.pointer, f[0].Offset, f[0].Line, f[0].Column)
			}
		}
	}
}
