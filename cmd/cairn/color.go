package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/cairn-id/cairn/config"
)

// The colors, as in ECMA-48.
const (
	red    = "1;31"
	yellow = "33"
	green  = "32"
	cyan   = "36"
	faint  = "2"
)

func painted(color, text string) string { return fmt.Sprintf("\x1b[%sm%s\x1b[0m", color, text) }

// showsColors reports whether a writer is a terminal whose user wants colors (no-color.org).
func showsColors(w io.Writer, env *config.Environment) bool {
	noColor, _ := env.Lookup("NO_COLOR")
	kind, _ := env.Lookup("TERM")
	return isTerminal(w) && noColor == "" && kind != "dumb"
}

// painter colors words by what they match. Of a table that is done after its columns are aligned, which would
// count the sequences as letters.
type painter struct {
	words  *regexp.Regexp
	colors map[string]string
}

func (p painter) paint(text []byte) []byte {
	return p.words.ReplaceAllFunc(text, func(word []byte) []byte {
		return []byte(painted(p.colors[string(bytes.TrimSpace(word))], string(word)))
	})
}

// colorTerminal is a terminal that shows warnings and errors in color.
type colorTerminal struct{ *os.File }

var warnings = painter{regexp.MustCompile(`(?m)^cairn: warning:`), map[string]string{"cairn: warning:": yellow}}

func (c colorTerminal) Write(text []byte) (int, error) {
	if _, err := c.File.Write(warnings.paint(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// withColors returns w, in color if it is a terminal that shows them.
func withColors(w io.Writer, env *config.Environment) io.Writer {
	if f, ok := w.(*os.File); ok && showsColors(f, env) {
		return colorTerminal{f}
	}
	return w
}
