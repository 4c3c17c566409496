// Command generate writes zones.bin, the map of the time zones, from the boundaries of tzf-rel-lite, which are those of
// timezone-boundary-builder, made of OpenStreetMap (ODbL 1.0). It has a module of its own: the program needs none of
// these. Run it in its folder: go run . ../zones.bin
package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the zones of the program that is built

	tzfrellite "github.com/ringsaturn/tzf-rel-lite"
	tzf "github.com/ringsaturn/tzf/gen/go/tzf/v1"
	"google.golang.org/protobuf/proto"
)

// perDegree is how many cells of the map a degree has.
const perDegree = 48

const columns, rows = 360 * perDegree, 180 * perDegree

// firstYear is the first year of which zones that are merged have the same offsets.
const firstYear = 1995

func main() {
	log.SetFlags(0)
	var all tzf.Timezones
	if err := proto.Unmarshal(tzfrellite.LiteData, &all); err != nil {
		log.Fatal(err)
	}
	// Zones of the sea go first: what overlaps them wins.
	slices.SortStableFunc(all.Timezones, func(a, b *tzf.Timezone) int { return onLand(a) - onLand(b) })
	zones, cells := merged(all.Timezones)
	data := pack(zones, cells)
	if err := os.WriteFile(os.Args[1], data, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d zones as %d, %d bytes\n", all.Version, len(all.Timezones), len(zones), len(data))
}

func onLand(z *tzf.Timezone) int {
	if strings.HasPrefix(z.Name, "Etc/") {
		return 0
	}
	return 1
}

// merged draws a map of the zones by their offsets, with the names of the zones in it.
func merged(all []*tzf.Timezone) (zones []string, cells [][]byte) {
	cells = make([][]byte, rows)
	for y := range cells {
		cells[y] = make([]byte, columns)
	}
	known := map[string]byte{}
	for _, z := range all {
		signature, err := offsets(z.Name)
		if err != nil {
			log.Fatal(err)
		}
		n, ok := known[signature]
		if !ok {
			n = byte(len(zones))
			known[signature] = n
			zones = append(zones, z.Name)
		}
		for _, p := range z.Polygons {
			draw(p, func(y, from, to int) {
				for x := from; x < to; x++ {
					cells[y][x] = n
				}
			})
		}
	}
	return zones, cells
}

// offsets returns the offsets of a zone since firstYear, with their times.
func offsets(name string) (string, error) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for at := time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC).In(zone); at.Year() < 2040; {
		_, offset := at.Zone()
		fmt.Fprintf(&text, "%d ", offset)
		_, end := at.ZoneBounds()
		if end.IsZero() {
			break
		}
		fmt.Fprintf(&text, "until %d ", end.Unix())
		at = end
	}
	return text.String(), nil
}

// draw calls fill for each row of cells whose centres are in a polygon, from one column until before another.
func draw(p *tzf.Polygon, fill func(y, from, to int)) {
	crossings := map[int][]float64{} // columns by row
	ring := func(points []*tzf.Point) {
		for i := range points {
			a, b := points[i], points[(i+1)%len(points)]
			if a.Lat == b.Lat {
				continue
			}
			ax, ay := float64(a.Lng+180)*perDegree-0.5, (90-float64(a.Lat))*perDegree-0.5
			bx, by := float64(b.Lng+180)*perDegree-0.5, (90-float64(b.Lat))*perDegree-0.5
			if ay > by {
				ax, ay, bx, by = bx, by, ax, ay
			}
			for y := max(0, int(math.Ceil(ay))); float64(y) < by && y < rows; y++ {
				crossings[y] = append(crossings[y], ax+(float64(y)-ay)/(by-ay)*(bx-ax))
			}
		}
	}
	ring(p.Points)
	for _, hole := range p.Holes {
		ring(hole.Points)
	}
	for _, y := range slices.Sorted(maps.Keys(crossings)) {
		xs := crossings[y]
		slices.Sort(xs)
		for i := 0; i+1 < len(xs); i += 2 {
			from, to := max(0, int(math.Ceil(xs[i]))), min(columns, int(math.Floor(xs[i+1]))+1)
			if from < to {
				fill(y, from, to)
			}
		}
	}
}

// pack writes the names of the zones, and the rows from the north: each of runs of a zone. What timezone.read says.
func pack(zones []string, cells [][]byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		log.Fatal(err)
	}
	put := func(data []byte) {
		if _, err := w.Write(data); err != nil {
			log.Fatal(err)
		}
	}
	put([]byte(strings.Join(zones, " ") + "\n"))
	// Streams of alike values are packed better: whether a row is like the one before, the zones, and the ends.
	var kinds, names, ends []byte
	var before []run
	for _, row := range cells {
		runs := runsOf(row)
		same := slices.EqualFunc(runs, before, func(a, b run) bool { return a.zone == b.zone })
		if same {
			kinds = append(kinds, 1)
		} else {
			kinds = append(kinds, 0)
			names = binary.AppendUvarint(names, uint64(len(runs)))
			for _, r := range runs {
				names = append(names, r.zone)
			}
		}
		for i, r := range runs[:len(runs)-1] {
			if same {
				ends = binary.AppendVarint(ends, int64(r.end-before[i].end))
			} else {
				from := 0
				if i > 0 {
					from = runs[i-1].end
				}
				ends = binary.AppendVarint(ends, int64(r.end-from))
			}
		}
		before = runs
	}
	put(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(names))), uint64(len(ends))))
	put(kinds)
	put(names)
	put(ends)
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

type run struct {
	zone byte
	end  int // the column after
}

func runsOf(row []byte) (runs []run) {
	for x := range row {
		if x+1 == len(row) || row[x+1] != row[x] {
			runs = append(runs, run{row[x], x + 1})
		}
	}
	return runs
}
