package cli

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
	Red    = "1;31"
	Yellow = "33"
	Green  = "32"
	Cyan   = "36"
	Faint  = "2"
)

func painted(color, text string) string { return fmt.Sprintf("\x1b[%sm%s\x1b[0m", color, text) }

// ShowsColors reports whether a writer is a terminal whose user wants colors (no-color.org).
func ShowsColors(w io.Writer, env *config.Environment) bool {
	noColor, _ := env.Lookup("NO_COLOR")
	kind, _ := env.Lookup("TERM")
	return IsTerminal(w) && noColor == "" && kind != "dumb"
}

// painter colors words by what they match. Of a table that is done after its columns are aligned, which would
// count the sequences as letters.
type painter struct {
	words  *regexp.Regexp
	colors map[string]string
}

// NewPainter returns a painter of what a regular expression matches, in the color of the word without its spaces.
func NewPainter(words string, colors map[string]string) painter {
	return painter{regexp.MustCompile(words), colors}
}

// Paint returns the text in its colors.
func (p painter) Paint(text []byte) []byte {
	return p.words.ReplaceAllFunc(text, func(word []byte) []byte {
		return []byte(painted(p.colors[string(bytes.TrimSpace(word))], string(word)))
	})
}

// colorTerminal is a terminal that shows warnings and errors in color.
type colorTerminal struct{ *os.File }

var warnings = NewPainter(`(?m)^cairn: warning:`, map[string]string{"cairn: warning:": Yellow})

func (c colorTerminal) Write(text []byte) (int, error) {
	if _, err := c.File.Write(warnings.Paint(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// withColors returns w, in color if it is a terminal that shows them.
func withColors(w io.Writer, env *config.Environment) io.Writer {
	if f, ok := w.(*os.File); ok && ShowsColors(f, env) {
		return colorTerminal{f}
	}
	return w
}
