package publish

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// Limits of an XML document. A token is a tag with its attributes, a text or a comment.
const (
	maxDepth      = 64
	maxTokenBytes = 1 << 20
)

var (
	errDepth   = fmt.Errorf("XML elements are nested more than %d deep", maxDepth)
	errToken   = fmt.Errorf("an XML tag or text of more than %d MB", maxTokenBytes>>20)
	errDTD     = errors.New("the XML has a document type or entities: export the file again without them")
	errNoTrack = errors.New("a route, course or waypoints, but no recorded track")
)

// A tokenReader fails when a token is too long.
type tokenReader struct {
	*bufio.Reader
	left int
}

func (t *tokenReader) ReadByte() (byte, error) {
	if t.left--; t.left < 0 {
		return 0, errToken
	}
	return t.Reader.ReadByte()
}

// A latin reader replaces all but ASCII in one-byte encodings: no value that matters has more.
type latin struct{ io.ByteReader }

func (l latin) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := l.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

func (l latin) ReadByte() (byte, error) {
	b, err := l.ByteReader.ReadByte()
	if b >= 0x80 {
		b = '?'
	}
	return b, err
}

// A format handles the elements of one kind of XML document. Names have no prefixes.
type format interface {
	start(path []string, attrs []xml.Attr) error
	end(path []string, text string) error
	finish() error
}

// readXML parses GPX or TCX, depending on the root element.
func readXML(r *bufio.Reader, f *File) error {
	in := &tokenReader{r, maxTokenBytes}
	d := xml.NewDecoder(in)
	d.CharsetReader = func(charset string, input io.Reader) (io.Reader, error) {
		switch strings.ToLower(charset) {
		case "iso-8859-1", "iso-8859-15", "windows-1252", "us-ascii", "ascii":
			return latin{in}, nil
		}
		return nil, fmt.Errorf("XML in the encoding %.20q: save it as UTF-8", charset)
	}
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
						to = newGPX(f, token.Attr)
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
					return fmt.Errorf("not well-formed XML: </%.40q> ends nothing that began", token.Name.Local)
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
	syntax, isSyntax := errors.AsType[*xml.SyntaxError](err)
	switch {
	case isSyntax && strings.Contains(syntax.Msg, "entity"):
		return errDTD
	case to == nil && (isSyntax || errors.Is(err, io.EOF)):
		return errUnknownFile
	case errors.Is(err, io.EOF) && len(path) == 0:
		return to.finish()
	case cutShort(err) || isSyntax:
		if finishErr := to.finish(); finishErr != nil {
			return fmt.Errorf("not well-formed XML: %w", err)
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

// unixMilli parses an xsd:dateTime, or returns 0. Without a zone it is UTC.
func unixMilli(text string) int64 {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04:05Z0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UnixMilli()
		}
	}
	return 0
}

func attribute(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// sensor sets a value from an element that extensions of GPX and TCX share, whatever its prefix.
func (s *Sample) sensor(name, text string) {
	switch strings.ToLower(name) {
	case "hr", "heartrate":
		s.HRBpm = whole(text)
	case "cad", "cadence", "runcadence":
		s.CadenceRpm = whole(text)
	case "power", "watts", "powerinwatts":
		s.PowerW = whole(text)
	case "atemp", "temp", "temperature":
		s.TempC = decimal(text)
	case "speed":
		s.SpeedMS = decimal(text)
	case "distance":
		s.DistanceM = decimal(text)
	}
}

// sportWords are parts of the names of sports that programs write. The first match counts.
var sportWords = []struct {
	word  string
	sport activityschema.Sport
	sub   activityschema.SubSport
}{
	{"virtualride", activityschema.SportCycling, activityschema.SubSportIndoor},
	{"virtual_ride", activityschema.SportCycling, activityschema.SubSportIndoor},
	{"virtualrun", activityschema.SportRunning, activityschema.SubSportIndoor},
	{"virtual_run", activityschema.SportRunning, activityschema.SubSportIndoor},
	{"indoor_run", activityschema.SportRunning, activityschema.SubSportIndoor},
	{"indoor_cycling", activityschema.SportCycling, activityschema.SubSportIndoor},
	{"mountain_bik", activityschema.SportCycling, activityschema.SubSportMountain},
	{"mtb", activityschema.SportCycling, activityschema.SubSportMountain},
	{"gravel", activityschema.SportCycling, activityschema.SubSportGravel},
	{"road_bik", activityschema.SportCycling, activityschema.SubSportRoad},
	{"racebike", activityschema.SportCycling, activityschema.SubSportRoad},
	{"motor", activityschema.SportOther, ""},
	{"cycl", activityschema.SportCycling, ""},
	{"bik", activityschema.SportCycling, ""},
	{"ride", activityschema.SportCycling, ""},
	{"trail_run", activityschema.SportRunning, activityschema.SubSportTrail},
	{"treadmill", activityschema.SportRunning, activityschema.SubSportIndoor},
	{"track_run", activityschema.SportRunning, activityschema.SubSportTrack},
	{"run", activityschema.SportRunning, ""},
	{"jog", activityschema.SportRunning, ""},
	{"hik", activityschema.SportHiking, ""},
	{"mountaineering", activityschema.SportHiking, ""},
	{"walk", activityschema.SportWalking, ""},
	{"lap_swim", activityschema.SportSwimming, activityschema.SubSportIndoor},
	{"swim", activityschema.SportSwimming, ""},
}

// stravaTypes are the numbers that older GPX files of Strava have instead of names.
var stravaTypes = map[string]activityschema.Sport{
	"1": activityschema.SportCycling, "4": activityschema.SportHiking, "9": activityschema.SportRunning,
	"10": activityschema.SportWalking, "16": activityschema.SportSwimming,
}

// sportNamed returns the sport for a name, or SportOther.
func sportNamed(name string) (activityschema.Sport, activityschema.SubSport) {
	name = strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(name))
	if sport, ok := stravaTypes[name]; ok {
		return sport, ""
	}
	for _, s := range sportWords {
		if strings.Contains(name, s.word) {
			return s.sport, s.sub
		}
	}
	return activityschema.SportOther, ""
}

func inside(path []string, name string) bool { return slices.Contains(path[:len(path)-1], name) }
