package publish

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits of an XML document. A token is a tag with its attributes, a text or a comment.
const (
	maxDepth      = 64
	maxTokenBytes = 1 << 20
)

var (
	errDepth      = fmt.Errorf("XML elements are nested more than %d deep", maxDepth)
	errToken      = fmt.Errorf("an XML tag or text of more than %d MB", maxTokenBytes>>20)
	errDTD        = errors.New("the XML has a document type or entities: export the file again without them")
	errUnbalanced = errors.New("an XML element ends that did not begin")
	errNoTrack    = errors.New("a route, course or waypoints, but no recorded track")
)

// An asciiReader reads the ASCII characters of a text in whatever encoding, also UTF-16, without control
// characters. It fails when a token is too long. Names and comments have other characters, often
// not in the encoding that is declared, but no value that matters has. Nor has any a reference to
// an entity, so that ampersands, which programs forget to escape in names, are left out too, as are signs of less
// before anything else than a tag, and hyphens that may not stand in a comment.
type asciiReader struct {
	r          *bufio.Reader
	unit, low  int // bytes of a character, and which of them has ASCII
	left, line int
	last       [2]byte // characters before
}

// ascii returns the printable ASCII characters of the beginning of a file, without blanks.
func ascii(begin []byte) []byte {
	return bytes.Map(func(c rune) rune {
		if c <= ' ' || c >= 0x7f {
			return -1
		}
		return c
	}, begin)
}

// newASCIIReader returns a reader of what follows the XML declaration: its version and encoding are often wrong.
func newASCIIReader(r *bufio.Reader) *asciiReader {
	a := &asciiReader{r: r, unit: 1, left: maxTokenBytes, line: 1}
	begin, _ := r.Peek(beginBytes)
	if nul := bytes.IndexByte(begin, 0); nul >= 0 && bytes.Count(begin, []byte{0}) > len(begin)/4 {
		a.unit, a.low = 2, 1-nul%2
	}
	if bytes.HasPrefix(ascii(begin), []byte("<?xml")) {
		_, _ = r.Discard(bytes.IndexByte(begin, '>') + a.unit - a.low)
	}
	return a
}

func (a *asciiReader) ReadByte() (byte, error) {
	for {
		var unit [2]byte
		for i := range a.unit {
			if a.left--; a.left < 0 {
				return 0, errToken
			}
			var err error
			if unit[i], err = a.r.ReadByte(); err != nil {
				return 0, err
			}
		}
		c := unit[a.low]
		switch {
		case a.unit == 2 && unit[1-a.low] != 0, c >= 0x7f, c == '&', c < ' ' && c != '\t' && c != '\n' && c != '\r',
			c == '<' && !a.tag(), c == '-' && a.last[1] == '-' && a.last[0] != '!' && a.next() != '>':
			continue
		case c == '\n':
			a.line++
		}
		a.last = [2]byte{a.last[1], c}
		return c, nil
	}
}

// next returns the character that follows, 0 at the end.
func (a *asciiReader) next() byte {
	unit, err := a.r.Peek(a.unit)
	if err != nil {
		return 0
	}
	return unit[a.low]
}

// tag reports whether a tag, a comment or the like begins with what follows.
func (a *asciiReader) tag() bool {
	c := a.next()
	return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '/' || c == '!' || c == '?' || c == '_'
}

// Read implements io.Reader.
func (a *asciiReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var err error
	if p[0], err = a.ReadByte(); err != nil {
		return 0, err
	}
	return 1, nil
}

// A format handles the elements of one kind of XML document. Names have no prefixes.
type format interface {
	start(path []string, attrs []xml.Attr) error
	end(path []string, text string) error
	finish() error
}

// readXML parses GPX or TCX, depending on the root element.
func readXML(r *bufio.Reader, f *File) error {
	in := newASCIIReader(r)
	d := xml.NewDecoder(in)
	var to format
	var path []string
	var text []byte
	err := func() error {
		for {
			in.left = maxTokenBytes
			token, err := d.RawToken()
			if err != nil {
				return err
			}
			switch token := token.(type) {
			case xml.StartElement:
				name := token.Name.Local
				if len(path) == 0 {
					switch {
					case to != nil:
						return errors.New("more than one XML document")
					case name == "gpx":
						to = &gpx{file: f, device: productName(attribute(token.Attr, "creator"))}
					case name == "TrainingCenterDatabase":
						to = &tcx{file: f}
					default:
						return errUnknownFile
					}
				}
				if path = append(path, name); len(path) > maxDepth {
					return errDepth
				}
				text = text[:0]
				if err := to.start(path, token.Attr); err != nil {
					return err
				}
			case xml.EndElement:
				if len(path) == 0 || path[len(path)-1] != token.Name.Local {
					return errUnbalanced
				}
				if err := to.end(path, strings.TrimSpace(string(text))); err != nil {
					return err
				}
				path, text = path[:len(path)-1], text[:0]
			case xml.CharData:
				if len(text) < 256 {
					text = append(text, token[:min(len(token), 256)]...)
				}
			case xml.Directive:
				return errDTD
			}
		}
	}()
	_, damaged := errors.AsType[*xml.SyntaxError](err)
	damaged = damaged || errors.Is(err, errUnbalanced)
	switch {
	case to == nil && (damaged || errors.Is(err, io.EOF)):
		return errUnknownFile
	case errors.Is(err, io.EOF) && len(path) == 0:
		return to.finish()
	case damaged || cutShort(err):
		if to.finish() != nil {
			return fmt.Errorf("damaged on line %d, before anything was recorded", in.line)
		}
		f.warn(warnCut)
		return nil
	}
	return err
}

// decimal returns a number, or NaN. Some programs write a decimal comma.
func decimal(text string) float64 {
	v, err := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
	if err != nil || math.IsInf(v, 0) {
		return unknown
	}
	return v
}

// whole returns a number rounded to an integer, or -1.
func whole(text string) int32 { return wholeOf(decimal(text)) }

func wholeOf(v float64) int32 {
	if !(v >= 0 && v < 1e6) {
		return -1
	}
	return int32(math.Round(v))
}

// timeOf parses an xsd:dateTime and what programs write instead, or returns false. Without a zone it
// is UTC. The zone of the result is nil if the text has none but UTC.
func timeOf(text string) (at int64, zone *time.Location, ok bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + strings.ReplaceAll(text[11:], " ", "")
	}
	if before, utc := strings.CutSuffix(text, "UTC"); utc {
		text = before + "Z"
	}
	for _, layout := range [...]string{
		time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
		"2006-01-02T15:04:05Z07", "20060102T150405Z0700", "2006/01/02T15:04:05Z07:00", "2006/01/02T15:04:05",
	} {
		if at, err := time.Parse(layout, text); err == nil {
			if _, offset := at.Zone(); offset != 0 {
				zone = at.Location()
			}
			return at.UnixMilli(), zone, true
		}
	}
	return 0, nil, false
}

// timed returns a time as timeOf does, or 0, and notes the zone of the recording.
func (r *Recording) timed(text string) int64 {
	at, zone, ok := timeOf(text)
	if !ok && r != nil && r.badTime == "" && text != "" {
		r.badTime = fmt.Sprintf(" (%.30q)", text)
	}
	if zone != nil && r != nil && r.zone == nil {
		r.zone = zone
	}
	return at
}

func attribute(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// sensor sets a value from an element that extensions of GPX and TCX share, whatever its prefix, or returns false.
func (s *Sample) sensor(name, text string) bool {
	switch strings.ToLower(name) {
	case "hr", "heartrate":
		s.HRBpm = whole(text)
	case "cad", "cadence", "runcadence":
		s.CadenceRpm = whole(text)
	case "power", "watts", "powerinwatts", "bikepower":
		s.PowerW = whole(text)
	case "atemp", "temp", "temperature":
		s.TempC = decimal(text)
	case "speed":
		s.SpeedMS = decimal(text)
	case "distance":
		s.DistanceM = decimal(text)
	default:
		return false
	}
	return true
}
