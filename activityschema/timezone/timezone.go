// Package timezone knows the time zone of a place, without a network. Its map is in the program: 254 kB, made by the
// command in generate from the boundaries of timezone-boundary-builder (release 2025b, as tzf-rel-lite v0.0.2025-b2
// simplifies them), which are made of OpenStreetMap: © OpenStreetMap contributors, Open Database License 1.0.
package timezone

import (
	"bytes"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"io"
	"math"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a browser and some machines have none
)

//go:embed zones.bin
var packed []byte

// The map has a cell for a 48th of a degree: at most 2.3 km.
const (
	perDegree = 48
	columns   = 360 * perDegree
	rows      = 180 * perDegree
)

// At returns the time zone of a place, given in degrees, or false if there is no such place. Zones whose offsets have
// been the same since 1995 are one, so that its name may be that of another country. Within 2 km of a border it may be
// the zone on the other side, and at sea it is a whole hour.
func At(lat, lon float64) (*time.Location, bool) {
	if !(math.Abs(lat) <= 90 && math.Abs(lon) <= 180) {
		return nil, false
	}
	m := read()
	y, x := min(int((90-lat)*perDegree), rows-1), min(int((lon+180)*perDegree), columns-1)
	for i := m.row[y]; ; i++ {
		if x < int(m.end[i]) {
			zone := m.zones[m.zone[i]]
			return zone, zone != nil
		}
	}
}

// A zoneMap is the runs of cells of one zone, from the north and from the west.
type zoneMap struct {
	zones []*time.Location
	row   []int32  // the first run of each row
	zone  []byte   // of each run
	end   []uint16 // the column after each run
}

// read unpacks the map, once: 5 ms and 2 MB.
var read = sync.OnceValue(func() *zoneMap {
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	names, data, _ := bytes.Cut(data, []byte("\n"))
	if err != nil {
		panic("timezone: zones.bin is damaged: " + err.Error())
	}
	m := &zoneMap{row: make([]int32, 0, rows)}
	for name := range strings.FieldsSeq(string(names)) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			zone = nil // a time zone database that is older than the map
		}
		m.zones = append(m.zones, zone)
	}
	number := func() int {
		n, size := binary.Uvarint(data)
		data = data[size:]
		return int(n)
	}
	length, _ := number(), number() // of the zones, and of the ends that follow them
	kinds, zones, ends := data[:rows], data[rows:rows+length], data[rows+length:]
	end := func() int {
		n, size := binary.Varint(ends)
		ends = ends[size:]
		return int(n)
	}
	from := 0
	for y, kind := range kinds {
		before := from
		from = len(m.zone)
		m.row = append(m.row, int32(from))
		runs := from - before
		alike := kind == 1 // the zones of the row before
		if alike {
			m.zone = append(m.zone, m.zone[before:from]...)
		} else {
			count, size := binary.Uvarint(zones)
			runs = int(count)
			m.zone, zones = append(m.zone, zones[size:size+runs]...), zones[size+runs:]
		}
		at := 0
		for i := range runs {
			switch {
			case i+1 == runs:
				at = columns
			case alike && y > 0:
				at = int(m.end[before+i]) + end()
			default:
				at += end()
			}
			m.end = append(m.end, uint16(at))
		}
	}
	return m
})
