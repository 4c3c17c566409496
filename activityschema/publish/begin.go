package publish

import (
	"cmp"
	"errors"
	"slices"
)

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
