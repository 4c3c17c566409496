package activityschema

import "math"

// boxSlack in degrees, a metre: writers round bounds to five decimals.
const boxSlack = 1e-5

// bbox looks at the bounding box, by itself and around the track.
func (l *linter) bbox(d *Detail, t *track) {
	if d.BBox == nil {
		return
	}
	b, sound := *d.BBox, true
	for i, limit := range [4]float64{180, 90, 180, 90} {
		if !(math.Abs(b[i]) <= limit) {
			l.addItem(CodeBBoxRange, "/bbox", i, "not between %v and %v degrees; the order is [min_lon, min_lat, max_lon, max_lat]", -limit, limit)
			sound = false
		}
	}
	if b[1] > b[3] {
		l.add(CodeBBoxOrder, "/bbox", "min_lat is above max_lat")
		sound = false
	}
	// RFC 7946, section 5.2: west above east means a box across the
	// antimeridian.
	if b[0] > b[2] && !t.crosses {
		l.add(CodeBBoxOrder, "/bbox", "min_lon is above max_lon, but the track does not cross the antimeridian")
		sound = false
	}
	if d.Privacy == PrivacyBlurStart {
		if !t.showsBox(b) && !t.showsBox(exchanged(b)) {
			l.add(CodePrivacyBlurStart, "/bbox", "reaches more than %d m beyond the cut track: make it the box of the track that is shown", blurM)
		}
	}
	if !sound || t.first < 0 {
		return
	}
	if outside := t.outside(b); outside > 0 {
		hint := ""
		if t.outside(exchanged(b)) == 0 {
			hint = "; none do if latitudes and longitudes change places"
		}
		l.add(CodeBBoxOutside, "/bbox", "%d positions of the track lie outside%s", outside, hint)
	}
}

// exchanged returns the box that was meant if b was written with the latitudes
// before the longitudes.
func exchanged(b BBox) BBox { return BBox{b[1], b[0], b[3], b[2]} }

// outside counts the positions that lie outside b.
func (t *track) outside(b BBox) int {
	if b[0] <= b[2] && b[0] <= t.west && t.east <= b[2] && b[1] <= t.south && t.north <= b[3] {
		return 0
	}
	n := 0
	for i := t.first; i <= t.last; i++ {
		if t.has(i) && !holds(b, t.at(i)) {
			n++
		}
	}
	return n
}

func holds(b BBox, p position) bool {
	east, west := p.lon >= b[0]-boxSlack, p.lon <= b[2]+boxSlack
	if b[0] > b[2] {
		return (east || west) && p.lat >= b[1]-boxSlack && p.lat <= b[3]+boxSlack
	}
	return east && west && p.lat >= b[1]-boxSlack && p.lat <= b[3]+boxSlack
}

// What start_latlng and end_latlng may be away from the track: a fast rider
// who is sampled once a minute is half a kilometre on, and a device that finds
// its position late has gone on meanwhile.
const (
	endpointM     = 500
	endpointMPerS = 30
)

// An endpoint is one end of the track and what the document says of it.
type endpoint struct {
	at      string  // pointer to start_latlng or end_latlng
	stated  *LatLng // nil if not stated
	sample  int     // first or last with a position, -1 if there is none
	unseenS float64 // seconds without a position beyond that sample
}

func (l *linter) endpoint(e endpoint, t *track, privacy Privacy) {
	if e.stated == nil {
		return
	}
	p, reversed := position{e.stated[0], e.stated[1]}, position{e.stated[1], e.stated[0]}
	if privacy == PrivacyBlurStart && !t.showsEndpoint(e.sample, p, reversed) {
		l.add(CodePrivacyBlurStart, e.at, "more than %d m from that end of the cut track: null it, or set it to where the track that is shown begins or ends", blurM)
		return
	}
	if !p.onEarth() {
		hint := ""
		if reversed.onEarth() {
			hint = "; the order is [latitude, longitude]"
		}
		l.add(CodeCoordinateRange, e.at, "not a latitude up to 90 and a longitude up to 180 degrees%s", hint)
		return
	}
	if e.sample < 0 {
		return
	}
	end, near := t.at(e.sample), endpointM+endpointMPerS*e.unseenS
	if p.within(near, end) {
		return
	}
	hint := ""
	if reversed.onEarth() && reversed.within(near, end) {
		hint = "; it would be there with latitude and longitude exchanged, the order being [latitude, longitude]"
	}
	l.add(CodeStartEndMismatch, e.at, "%.1f km from that end of the track%s", p.metresTo(end)/1000, hint)
}
