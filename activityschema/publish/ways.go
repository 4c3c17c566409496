package publish

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/cairn-id/cairn/activityschema"
)

// Ways says how many blurred activities of a folder show a way out of a place, which is what somebody with a street
// map needs to find it.
type Ways struct {
	Place  Place
	Out    int // begin or end at the edge of the zone
	Within int // begin or end in the zone: they were cut around a smaller one
}

// edgeM is how far from the edge of a zone, in metres, a track that was cut there may begin: some devices record a
// position every hundred metres.
const edgeM = 500

// WaysOut returns the ways out of each place that the documents of a folder show.
func (p *Places) WaysOut(ctx context.Context, dir string) ([]Ways, error) {
	entries, _, err := scan(ctx, dir)
	return p.waysOut(entries), err
}

// WaysOut returns the ways out of each place of the policy that the folder shows after Run.
func (im *Import) WaysOut() []Ways { return im.Policy.Places.waysOut(im.entries) }

func (p *Places) waysOut(entries []entry) []Ways {
	all := make([]Ways, len(p.Places))
	for i, z := range p.zones {
		all[i].Place = p.Places[i]
		for _, e := range entries {
			nearest := math.Inf(1)
			for _, end := range e.ends {
				if end != nil && e.Privacy == activityschema.PrivacyBlurStart {
					nearest = min(nearest, z.metresTo(end[0], end[1]))
				}
			}
			switch {
			case nearest < z.radius-1: // positions are rounded
				all[i].Within++
			case nearest < z.radius+edgeM:
				all[i].Out++
			}
		}
	}
	return all
}

// A Chance is in how many of a hundred towns somebody with a street map finds a home, by the radius of its zone and how
// many activities show ways out.
type Chance struct {
	RadiusM               float64
	Activities            int
	Within50M, Within100M int
}

const mostActivities = 50 // of more, it is only known that the chances are greater

// chances are what TestAttackerWithAStreetMap measures in 100 towns: the greater of towns of equal streets and of towns
// with main roads.
var chances = []Chance{
	{1500, 6, 9, 21}, {1500, 12, 19, 32}, {1500, mostActivities, 35, 68},
	{2000, 6, 5, 14}, {2000, 12, 14, 27}, {2000, mostActivities, 22, 45},
	{3000, 6, 4, 9}, {3000, 12, 8, 15}, {3000, mostActivities, 8, 15},
}

// ChanceOf returns the chance for so many activities, with the greatest known radius that is not greater. Of more
// activities than its own it is the least.
func ChanceOf(radiusM float64, activities int) (found Chance) {
	for _, c := range slices.Backward(chances) {
		if c.RadiusM <= radiusM && c.RadiusM >= found.RadiusM && min(activities, mostActivities) <= c.Activities {
			found = c
		}
	}
	return found
}

// A Cost says what a radius shows of recordings.
type Cost struct {
	RadiusM, ShownM float64
	TooShort        int // of which nothing would be shown
	// WaysOut is how many activities would show ways out, also of the recordings that were not read.
	WaysOut int
	places  *Places
}

// compared is the most recordings that are read to compare radii.
const compared = 60

// Costs compares the known radii for a place, by those recordings in a folder that come near it with the greatest.
func (p *Places) Costs(place Place, dir string) (near int, metres float64, costs []Cost) {
	for _, c := range chances {
		if c.Activities == mostActivities {
			place.RadiusM = c.RadiusM
			only := &Places{Key: p.Key, key: p.key, Places: []Place{place}}
			only.zones = []zone{only.zone(place)}
			costs = append(costs, Cost{RadiusM: c.RadiusM, places: only})
		}
	}
	files, _ := os.ReadDir(dir)
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool { return f.IsDir() || !isRecording(f.Name()) })
	each := 1 + len(files)/compared // recordings for one that is read
	for i := 0; i < len(files); i += each {
		source := Source{Path: filepath.Join(dir, files[i].Name())}
		for _, d := range source.details() {
			shown, all := costs[len(costs)-1].places.ShownM(d)
			if shown > all-leastPieceM {
				continue // it does not come near
			}
			near, metres = near+1, metres+all
			for k := range costs {
				shown, _ = costs[k].places.ShownM(d)
				if costs[k].ShownM += shown; shown == 0 {
					costs[k].TooShort++
				} else {
					costs[k].WaysOut += each
				}
			}
		}
	}
	return near, metres, costs
}

// details returns the activities of a recording, none if it cannot be read.
func (s *Source) details() (all []*activityschema.Detail) {
	r, err := s.open()
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }()
	f, err := Read(r)
	if err != nil {
		return nil
	}
	for n := range f.Recordings {
		if d, err := f.Detail(n); err == nil {
			all = append(all, d)
		}
	}
	return all
}

// Proposed returns the least radius, from the usual one on, with which a home is rarely found, or else the greatest
// that shows a third of what was recorded.
func Proposed(metres float64, costs []Cost) float64 {
	best := float64(DefaultRadiusM)
	for _, c := range costs {
		if c.RadiusM >= best && c.ShownM >= metres/3 {
			best = c.RadiusM
			if found := ChanceOf(c.RadiusM, c.WaysOut); found.Within50M <= 5 && found.Within100M <= 20 {
				break
			}
		}
	}
	return best
}

// Begin returns where a recording begins: the median of the positions of its first minute. Before a device has found
// itself, it may record where it was last switched off. ErrUnsteady means that it did.
func (r *Recording) Begin() (lat, lon float64, err error) {
	var lats, lons []float64
	first := int64(0)
	for i := range r.Samples {
		s := &r.Samples[i]
		if !s.hasPosition() {
			continue
		}
		if first = cmp.Or(first, s.At); s.At-first > 60_000 {
			break
		}
		lats, lons = append(lats, s.Lat), append(lons, s.Lon)
	}
	if len(lats) == 0 {
		return 0, 0, ErrNoPosition
	}
	lat, lon = middleOf(lats), middleOf(lons)
	for i := range lats {
		if metres(lat, lon, lats[i], lons[i]) > steadyM {
			return 0, 0, ErrUnsteady
		}
	}
	return lat, lon, nil
}

// Begin returns where the first activity of a source begins: see Recording.Begin.
func (s *Source) Begin() (lat, lon float64, err error) {
	r, err := s.open()
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = r.Close() }()
	file, err := Read(r)
	if err != nil {
		return 0, 0, plain(err)
	}
	return file.Recordings[0].Begin()
}

// steadyM is further than a cyclist gets from the median of a minute, in metres.
const steadyM = 500

// ErrNoPosition and ErrUnsteady are returned by Begin.
var (
	ErrNoPosition = errors.New("no position is known")
	ErrUnsteady   = errors.New("the positions of the first minute are far from each other: " +
		"the device did not know yet where it was")
)

func middleOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
