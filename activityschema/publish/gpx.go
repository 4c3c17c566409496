package publish

import (
	"encoding/xml"

	"github.com/cairn-id/cairn/activityschema"
)

// gpx handles GPX 1.0 and 1.1. Each track is an activity; between its segments it was paused.
type gpx struct {
	file     *File
	device   string
	rec      *Recording // of the current track, or nil
	sample   *Sample    // of the current point, or nil
	current  Sample
	depth    int // of the current point
	pause    bool
	segments int  // of the current track
	other    bool // there are routes or waypoints
	timed    int  // points with a time
}

func (g *gpx) start(path []string, attrs []xml.Attr) error {
	switch name := path[len(path)-1]; {
	case len(path) == 2 && name == "trk":
		g.rec = &Recording{Source: activityschema.SourceGPXFile, Device: g.device, Totals: newTotals()}
		g.rec.Sport, g.segments = activityschema.SportOther, 0
		return g.file.begin(g.rec)
	case len(path) == 2 && (name == "rte" || name == "wpt"):
		g.other = true
	case len(path) == 3 && g.rec != nil && name == "trkseg":
		g.pause = len(g.rec.Samples) > 0
		g.segments++
	case g.rec != nil && g.sample == nil && name == "trkpt":
		g.current, g.depth = newSample(), len(path)
		g.sample = &g.current
		g.sample.Lat, g.sample.Lon = decimal(attribute(attrs, "lat")), decimal(attribute(attrs, "lon"))
	}
	return nil
}

func (g *gpx) end(path []string, text string) error {
	name := path[len(path)-1]
	switch {
	case len(path) == 2 && name == "trk":
		if 2*g.segments > len(g.rec.Samples) { // one for each point
			for i := range g.rec.Samples {
				g.rec.Samples[i].Break = false
			}
		}
		g.rec = nil
	case g.sample == nil:
		if g.rec != nil && len(path) == 3 && name == "type" {
			g.rec.Sport, g.rec.SubSport = sportNamed(text)
		}
	case len(path) == g.depth:
		s := *g.sample
		g.sample = nil
		s.Break, g.pause = g.pause, false
		if s.At > 0 { // else it was planned, drawn by hand, or with a broken clock
			g.timed++
		}
		return g.file.add(g.rec, s)
	case len(path) == g.depth+1 && name == "ele":
		g.sample.ElevationM = decimal(text)
	case len(path) == g.depth+1 && name == "time":
		g.sample.At = g.rec.timed(text)
	case !g.sample.sensor(name, text) && len(path) > g.depth+1 && text != "":
		g.file.skip("values", name)
	}
	return nil
}

func (g *gpx) finish() error {
	switch {
	case len(g.file.Recordings) == 0 && g.other:
		return errNoTrack
	case g.timed == 0:
		return errNoTimes
	}
	return nil
}
