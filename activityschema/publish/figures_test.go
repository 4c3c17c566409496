package publish

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"github.com/cairn-id/cairn/activityschema"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// A row is a sample of a recording of these tests. Zero values of ele, hr, cad and power are not written.
type row struct {
	t, lat, lon, ele float64
	hr, cad, power   int
	metres           float64 // as a device counts them
	pause            bool    // before it
}

// rows are n samples a second apart at so many metres a second to the north, from 47 N 8 E.
func rows(n int, speed float64) []row {
	list := make([]row, n)
	for i := range list {
		list[i] = row{t: float64(i), lat: 47 + speed*float64(i)/111195, lon: 8, ele: 450, metres: speed * float64(i)}
	}
	return list
}

// steady are 601 samples: 3000 m in 600 s, 18 km/h.
func steady() []row { return rows(601, 5) }

func change(list []row, edit func(i int, r *row)) []row {
	for i := range list {
		edit(i, &list[i])
	}
	return list
}

var begun = time.Date(2025, 6, 1, 8, 0, 0, 0, time.UTC)

func (r row) at() time.Time { return begun.Add(time.Duration(r.t*1000) * time.Millisecond) }

func asGPX(sport string, list []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<gpx><trk><name>N</name><type>%s</type><trkseg>\n", sport)
	for _, r := range list {
		if r.pause {
			b.WriteString("</trkseg><trkseg>\n")
		}
		fmt.Fprintf(&b, `<trkpt lat="%.7f" lon="%.7f"><ele>%.1f</ele><time>%s</time><extensions>`,
			r.lat, r.lon, r.ele, r.at().Format("2006-01-02T15:04:05.999Z"))
		for name, v := range map[string]int{"hr": r.hr, "cad": r.cad, "power": r.power} {
			if v != 0 || name == "power" && r.hr > 0 {
				fmt.Fprintf(&b, "<%s>%d</%s>", name, v, name)
			}
		}
		b.WriteString("</extensions></trkpt>\n")
	}
	return b.String() + "</trkseg></trk></gpx>\n"
}

func asTCX(sport string, list []row, lapMetres float64, laps int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<TrainingCenterDatabase><Activities><Activity Sport="%s">`+"\n", sport)
	for n := range laps {
		part := list[len(list)*n/laps : len(list)*(n+1)/laps]
		seconds := (list[len(list)-1].t - list[0].t) / float64(laps)
		fmt.Fprintf(&b, `<Lap StartTime="%s"><TotalTimeSeconds>%v</TotalTimeSeconds><DistanceMeters>%v</DistanceMeters><Track>`+"\n",
			part[0].at().Format(time.RFC3339), seconds, lapMetres/float64(laps))
		for _, r := range part {
			fmt.Fprintf(&b, `<Trackpoint><Time>%s</Time>`, r.at().Format(time.RFC3339))
			if r.lat != 0 {
				fmt.Fprintf(&b, `<Position><LatitudeDegrees>%.7f</LatitudeDegrees><LongitudeDegrees>%.7f</LongitudeDegrees></Position>`, r.lat, r.lon)
			}
			fmt.Fprintf(&b, "<DistanceMeters>%v</DistanceMeters></Trackpoint>\n", r.metres)
		}
		b.WriteString("</Track></Lap>\n")
	}
	return b.String() + "</Activity></Activities></TrainingCenterDatabase>"
}

// asFIT writes a session first, of so many seconds and metres, and what else is given before the records.
func asFIT(sport uint64, list []row, seconds, metres float64, before ...func(w *fitWriter)) string {
	var w fitWriter
	w.message(fitFileID, fitUint{0, 1, 0, fitFileActivity}, fitUint{1, 2, 0x84, 1}, fitUint{2, 2, 0x84, 3121})
	w.message(fitSession, fitUint{fitTimestamp, 4, 0x86, fitTime(begun)}, fitUint{2, 4, 0x86, fitTime(begun)},
		fitUint{5, 1, 0, sport},
		fitUint{7, 4, 0x86, uint64(seconds * 1000)}, fitUint{8, 4, 0x86, uint64(seconds * 1000)}, fitUint{9, 4, 0x86,
			uint64(metres * 100)})
	for _, f := range before {
		f(&w)
	}
	semicircles := func(v float64) uint64 { return uint64(uint32(int32(v / 180 * (1 << 31)))) }
	for i, r := range list {
		if r.pause {
			w.message(fitEvent, fitUint{fitTimestamp, 4, 0x86, fitTime(list[i-1].at())}, fitUint{0, 1, 0, 0},
				fitUint{1, 1, 0, 4})
		}
		fields := []fitUint{{fitTimestamp, 4, 0x86, fitTime(r.at())}, {0, 4, 0x85, semicircles(r.lat)},
			{1, 4, 0x85, semicircles(r.lon)},
			{5, 4, 0x86, uint64(r.metres * 100)}, {2, 2, 0x84, uint64(math.Round((r.ele + 500) * 5))}, {7, 2, 0x84, uint64(r.power)}}
		if r.hr > 0 {
			fields = append(fields, fitUint{3, 1, 2, uint64(r.hr)})
		}
		w.message(fitRecord, fields...)
	}
	return string(w.file())
}

func utf16LE(text string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}

// What devices and programs get wrong, each with the figures of what was really done.
func TestFiguresAreThoseOfWhatWasDone(t *testing.T) {
	base, noise := asGPX("cycling", steady()), rand.New(rand.NewPCG(1, 2))
	wandering, wander := rows(3600, 5), 0.0
	for i := range wandering {
		wander += -wander/50 + noise.NormFloat64() // deviates by 5 m
		wandering[i].ele += wander
	}
	off := func(north float64, at ...int) []row {
		list := steady()
		for _, i := range at {
			list[i].lat += north / 111195
		}
		return list
	}
	heights := func(v float64, which func(i int) bool) string {
		return asGPX("running", change(rows(601, 3), func(i int, r *row) {
			if which(i) {
				r.ele = v
			}
		}))
	}
	every := func(n int) string { // positions that are renewed every n seconds
		return asGPX("cycling", change(steady(), func(i int, r *row) { r.lat = 47 + 5*float64(i-i%n)/111195 }))
	}
	gaps := []row{}
	for i, r := range rows(3590, 3) {
		if i%60 < 10 {
			gaps = append(gaps, r)
		}
	}
	rest := func(hours float64) []row {
		return change(steady(), func(i int, r *row) {
			if i >= 400 {
				r.t += hours * 3600
			}
		})
	}
	pausing := change(rows(600, 5), func(i int, r *row) {
		r.t += float64(i / 60 * 240)
		r.pause = i > 0 && i%60 == 0
		if r.power = 250; i%60 < 3 {
			r.power = 0
		}
		if r.hr = 140; i%60 == 0 {
			r.hr = 60
		}
	})
	fit := asFIT(2, steady(), 600, 3000)
	backwards := steady()
	slices.Reverse(backwards)
	midnight := strings.ReplaceAll(asGPX("cycling", change(steady(), func(_ int, r *row) { r.t -= 8*3600 + 300 })), "2025-06-01T", "2025-05-31T")
	indoors := change(steady(), func(_ int, r *row) { r.lat, r.lon = 0, 0 })
	for _, c := range []struct {
		name, data                   string
		metres, moving, km, gain, hr float64
		warning                      string // "": none
	}{
		{"nothing", base, 3000, 600, 18, 0, 0, ""},
		{"UTF8", strings.Replace(base, "UTF-8", "UTF8", 1), 3000, 600, 18, 0, 0, ""},
		{"UTF-16", utf16LE(base), 3000, 600, 18, 0, 0, ""},
		{"UTF-16 without a mark", utf16LE(base)[2:], 3000, 600, 18, 0, 0, ""},
		{"mark and blanks", "\ufeff   " + base, 3000, 600, 18, 0, 0, ""},
		{"line ends first", strings.Repeat("\r\n", 20) + base, 3000, 600, 18, 0, 0, ""},
		{"Latin-1", strings.Replace(base, ">N<", ">Z\xfcrich<", 1), 3000, 600, 18, 0, 0, ""},
		{"characters of names", strings.Replace(base, ">N<", ">Tom & Jerry, a\xc3\xb1o &ntilde; \x00\x0b\x1b<", 1), 3000, 600, 18, 0, 0, ""},
		{"XML 1.1", strings.Replace(base, `"1.0"`, `"1.1"`, 1), 3000, 600, 18, 0, 0, ""},
		{"times with a blank", strings.NewReplacer("T08", " 08", "Z</time>", "</time>").Replace(base), 3000, 600, 18, 0, 0, ""},
		{"less than in a name", strings.Replace(base, ">N<", ">I <3 N, 5 < 6<", 1), 3000, 600, 18, 0, 0, ""},
		{"hyphens in a comment", strings.Replace(base, "<trk>", "<!-- a -- b ---><trk>", 1), 3000, 600, 18, 0, 0, ""},
		{"offsets of hours", strings.ReplaceAll(base, "Z</time>", "+00</time>"), 3000, 600, 18, 0, 0, ""},
		{"no segment", strings.NewReplacer("<trkseg>", "", "</trkseg>", "").Replace(base), 3000, 600, 18, 0, 0, ""},
		{"a segment for each point", asGPX("cycling", change(rows(121, 25), func(i int, r *row) { r.t, r.pause = r.t*5, i > 0 })), 3000, 600, 18, 0, 0, ""},
		{"the last point first", asGPX("cycling", backwards), 3000, 600, 18, 0, 0, ""},
		{"parts in another order", asGPX("cycling", slices.Concat(steady()[200:400], steady()[:200], steady()[400:])), 3000, 600, 18, 0, 0, ""},
		{"parts more than once", asGPX("cycling", slices.Concat(steady()[:200], steady()[:400], steady())), 3000, 600, 18, 0, 0, ""},
		{"a plan beside it", strings.Replace(base, "<trk>", `<trk><trkseg><trkpt lat="47" lon="8"/><trkpt lat="48" lon="8"/></trkseg></trk><trk>`, 1), 3000, 600, 18, 0, 0, "left out: 2"},
		{"a tail", base + "\x00\x00\x00", 3000, 600, 18, 0, 0, ""},
		{"300 m off", asGPX("cycling", off(300, 300)), 3000, 600, 18, 0, 0, "left out: 1"},
		{"300 m off, no sport", asGPX("", off(300, 300)), 3000, 600, 18, 0, 0, "left out: 1"},
		{"20 km off, twice", asGPX("cycling", off(20_000, 200, 300)), 3000, 600, 18, 0, 0, "left out: 2"},
		{"20 km off for a minute", asGPX("cycling", change(steady(), func(i int, r *row) {
			if i >= 200 && i < 260 {
				r.lat += 0.2
			}
		})), 3000, 600, 18, 0, 0, "left out: 60"},
		{"stale at the start", asGPX("cycling", off(5000, 0, 1, 2)), 2985, 597, 18, 0, 0, "left out: 3"},
		{"stale at the end", asGPX("running", off(-5000, 599, 600)), 2990, 598, 18, 0, 0, "left out: 2"},
		{"near 0, 0", asGPX("cycling", change(steady(), func(i int, r *row) {
			if i > 10 && i < 14 {
				r.lat, r.lon = 0.0000005, 0
			}
		})), 3000, 600, 18, 0, 0, "left out: 3"},
		{"300 m off after a pause", asGPX("cycling", change(off(300, 300), func(i int, r *row) { r.pause = i == 300 })), 2990, 598, 18, 0, 0, "left out: 1"},
		{"here and there", asGPX("running", change(off(20_000, 300), func(i int, r *row) {
			if i == 301 {
				r.lon += 0.1
			}
		})), 3000, 600, 18, 0, 0, "left out: 2"},
		{"300 m off, every 10 s", asGPX("hiking", change(rows(361, 10), func(i int, r *row) {
			if r.t *= 10; i == 100 {
				r.lon += 0.004
			}
		})), 3600, 3600, 3.6, 0, 0, "left out: 1"},
		{"no fix at first", asGPX("cycling", change(steady(), func(i int, r *row) {
			if i < 10 {
				r.lat, r.lon = 0, 0
			}
		})), 2950, 590, 18, 0, 0, ""},
		{"a jump that stays", asGPX("cycling", change(steady(), func(i int, r *row) {
			if i >= 300 {
				r.lon += 0.002 // 152 m
			}
		})), 2995, 599, 18, 0, 0, "impossibly fast are not counted: 1, of 0.2 km"},
		{"zeros at the start", heights(0, func(i int) bool { return i < 90 }), 1800, 600, 10.8, 0, 0, "left out: 90"},
		{"a zero now and then", heights(0, func(i int) bool { return i%100 == 50 }), 1800, 600, 10.8, 0, 0, "left out: 6"},
		{"a height now and then", heights(700, func(i int) bool { return i%100 < 2 }), 1800, 600, 10.8, 0, 0, "left out: 13"},
		{"zeros for most of the time", heights(0, func(i int) bool { return i < 300 }), 1800, 600, 10.8, 0, 0, "left out: 300"},
		{"a zero every other second", asGPX("running", change(rows(601, 3), func(i int, r *row) { r.ele = float64(i%2) * (500 - math.Abs(float64(i)-300)/3) })),
			1800, 600, 10.8, 100, 0, "left out: 301"},
		{"repeated in a tunnel", asGPX("cycling", change(steady(), func(i int, r *row) {
			if i > 190 && i < 260 {
				r.lat = 47 + 5*190/metreDegree
			}
		})), 3000, 600, 18, 0, 0, ""},
		{"longitudes counted eastwards", strings.ReplaceAll(base, `lon="8.0`, `lon="288.0`), 3000, 600, 18, 0, 0, ""},
		{"latitudes beyond a pole", strings.Replace(base, `lat="47.0`, `lat="147.0`, 1), 2995, 599, 18, 0, 0, "impossible positions are left out: 1"},
		{"the clock before a fix", asGPX("cycling", change(steady(), func(i int, r *row) {
			if i < 100 {
				r.t -= 20000 * 86400
			}
		})), 2500, 500, 18, 0, 0,
			"samples on the other side are left out: 100"},
		{"heights in steps of 20 m", asGPX("hiking", change(rows(1201, 1.2), func(i int, r *row) { r.ele = math.Round((500-math.Abs(float64(i)/3-200))/20) * 20 })),
			1440, 1200, 4.32, 200, 0, ""},
		{"on the edge of a step", asGPX("running", change(rows(601, 3), func(i int, r *row) { r.ele = 500 + 20*math.Round(0.5+math.Sin(float64(i)/10)/9) })),
			1800, 600, 10.8, 0, 0, ""},
		{"dates that do not turn", midnight, 3000, 600, 18, 0, 0, "at midnight: samples that are taken as a day later: 301"},
		{"dates that turn late", regexp.MustCompile("2025-05-31(T00:0[3-5])").ReplaceAllString(midnight, "2025-06-01$1"), 3000, 600, 18, 0, 0, "a day later: 180"},
		{"distances from point to point", strings.ReplaceAll(base, "<extensions>", "<extensions><opentracks:distance>5</opentracks:distance>"), 3000, 600, 18, 0, 0, ""},
		{"heights that wander", asGPX("cycling", wandering), 17995, 3599, 18, 60, 0, ""},
		{"renewed every 2 s", every(2), 3000, 600, 18, 0, 0, ""},
		{"renewed every 5 s", every(5), 3000, 600, 18, 0, 0, ""},
		{"renewed every 15 s", every(15), 3000, 600, 18, 0, 0, ""},
		{"slowly uphill", asGPX("hiking", rows(601, 0.35)), 210, 600, 1.26, 0, 0, ""},
		{"gaps", asGPX("running", gaps), 10647, 3549, 10.8, 0, 0, ""},
		{"standing", asGPX("cycling", change(rows(1201, 5), func(i int, r *row) {
			r.lat = 47 + 5*float64(min(i, 300)+max(0, i-900))/111195 + noise.NormFloat64()*3e-6
		})), 3000, 600, 18, 0, 0, ""},
		{"sparse", asGPX("hiking", change(rows(61, 1.2), func(i int, r *row) {
			r.t *= 60
			r.lat = 47 + 1.2*r.t/111195
		})), 4320, 3600, 4.32, 0, 0, ""},
		{"power after pauses", asFIT(2, pausing, 600, 2995), 2995, 600, 18, 0, 138.7, ""},
		{"power after pauses, GPX", asGPX("cycling", pausing), 2950, 590, 18, 0, 138.7, ""},
		{"distance three times the track", asTCX("Biking", steady(), 9000, 1), 3000, 600, 18, 0, 0, "9.0 km"},
		{"distance thirty times the track", asFIT(2, change(steady(), func(_ int, r *row) { r.metres *= 30 }), 600, 90_000), 3000, 600, 18, 0, 0, "90.0 km"},
		{"half a TCX", asTCX("Biking", steady(), 3000, 1)[:len(asTCX("Biking", steady(), 3000, 1))/2], 1495, 299, 18, 0, 0, "cut short"},
		{"half a FIT", fit[:len(fit)/2], 1497, 300, 18, 0, 0, "cut short"},
		{"a tail of FIT", fit + "garbage that is no file", 3000, 600, 18, 0, 0, ""},
		{"a clock that jumped", asFIT(2, change(steady(), func(i int, r *row) {
			if i >= 120 {
				r.t += 21 * 24 * 3600
			}
		}), 600, 3000), 2400, 480, 18, 0, 0, "clock"},
		{"a rest", asGPX("cycling", rest(25)), 1995, 399, 18, 0, 0, "2 activities"},
		{"a night", asGPX("cycling", rest(12)), 2995, 599, 18, 0, 0, ""},
		{"trailing blanks", strings.ReplaceAll(asTCX("Running", indoors, 3000, 2), `Z">`, `Z ">`), 3000, 600, 18, 0, 0, ""},
		{"a foot pod on the spot", asTCX("Running", change(steady(), func(_ int, r *row) { r.lat = 47 }), 3000, 1), 3000, 600, 18, 0, 0, ""},
		{"speeds in km/h", strings.ReplaceAll(base, "<extensions>", "<extensions><speed>18</speed>"), 3000, 600, 18, 0, 0, "metres per second"},
		{"values of no person", asGPX("cycling", change(steady(), func(_ int, r *row) { r.hr, r.cad, r.power = 255, 255, 65535 })), 3000, 600, 18, 0, 0,
			"heart rate 601, cadence 601, power 601"},
		{"the year 2087", strings.ReplaceAll(base, "2025-", "2087-"), 3000, 600, 18, 0, 0, "2087"},
		{"the year 1989", strings.ReplaceAll(base, "2025-", "1989-"), 3000, 600, 18, 0, 0, "1989"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(c.data))
			must(t, err)
			d := checked(t, f)
			about(t, "distance", *d.DistanceM, c.metres, c.metres/100)
			about(t, "moving time", float64(*d.MovingTimeS), c.moving, c.moving/50)
			about(t, "average speed", *d.AvgSpeedKmh, c.km, c.km/50)
			about(t, "maximal speed", *d.MaxSpeedKmh, c.km, max(0.1, c.km/18))
			if d.ElevationGainM != nil {
				about(t, "gain", *d.ElevationGainM, c.gain, max(5, c.gain))
			}
			if c.hr > 0 {
				about(t, "heart rate", float64(*d.AvgHRBpm), c.hr, 0.5)
				about(t, "power", float64(*d.AvgPowerW), 237.5, 0.5)
			} else if d.AvgHRBpm != nil || d.AvgCadenceRpm != nil {
				t.Errorf("heart rate %v, cadence %v", d.AvgHRBpm, d.AvgCadenceRpm)
			}
			warnings := strings.Join(append(f.Warnings, f.Recordings[0].Warnings...), "\n")
			if (c.warning == "") != (warnings == "") || !strings.Contains(warnings, c.warning) {
				t.Errorf("warnings %q, want %q", warnings, c.warning)
			}
			for i, l := range d.Laps {
				if l.AvgSpeedKmh == nil || math.Abs(*l.AvgSpeedKmh-18) > 0.4 || strings.HasPrefix(c.name, "trailing") && len(d.Laps) != 2 {
					t.Errorf("lap %d of %d: %+v", i, len(d.Laps), l)
				}
			}
		})
	}
}

// Where a speed of a sample, a heart rate or a power is, depends on who made the device.
func TestSensorsOfOtherMakersAreRead(t *testing.T) {
	text := func(number byte, s string) fitText { return fitText{number, s} }
	developer := func(name, units string, value func(i int) float32) string {
		var w fitWriter
		w.message(fitFileID, fitUint{0, 1, 0, fitFileActivity})
		w.texts(fitFieldDescription, []fitUint{{0, 1, 2, 0}, {1, 1, 2, 7}, {2, 1, 2, 0x88}},
			text(3, name), text(8, units))
		w.Write([]byte{0x60, 0, 0, fitRecord, 0, 1, fitTimestamp, 4, 0x86, 1, 7, 4, 0})
		for i := range 601 {
			w.WriteByte(0)
			w.Write(binary.LittleEndian.AppendUint32(nil, uint32(fitTime(begun))+uint32(i)))
			w.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(value(i))))
		}
		return string(w.file())
	}
	constant := func(v float32) func(int) float32 { return func(int) float32 { return v } }
	beats := asFIT(5, steady(), 600, 3000, func(w *fitWriter) {
		w.message(fitHR, fitUint{fitTimestamp, 4, 0x86, fitTime(begun)}, fitUint{6, 1, 2, 120},
			fitUint{9, 4, 0x86, 2048})
		w.Write([]byte{0x40, 0, 0, fitHR, 0, 2, 6, 8, 2, 10, 12, 13})
		for i := 0; i < 600; i += 8 { // a beat a second, three bytes for two times of 12 bits
			w.WriteByte(0)
			w.Write(bytes.Repeat([]byte{120}, 8))
			for k := 1; k <= 8; k += 2 {
				a, b := (2048+1024*(i+k))&0xfff, (2048+1024*(i+k+1))&0xfff
				w.Write([]byte{byte(a), byte(a>>8) | byte(b<<4), byte(b >> 4)})
			}
		}
	})
	track := asTCX("Biking", steady(), 3000, 1)
	list := strings.ReplaceAll(regexp.MustCompile(`(?s)<Position>.*?</DistanceMeters>`).ReplaceAllString(
		regexp.MustCompile(`(?s)<Track>.*</Track>`).FindString(track), "<HeartRateBpm><Value>120</Value></HeartRateBpm>"), "\n", "")
	for _, c := range []struct {
		name, data       string
		hr, power, speed int64 // 0: none
	}{
		{"Stryd", developer("Power", "Watts", constant(300)), 0, 300, 0},
		{"Garmin Running Power", developer("RP_Power", "watts", constant(300)), 0, 300, 0},
		{"power of the legs", developer("Form Power", "Watts", constant(60)), 0, 0, 0},
		{"heart rate", developer("Swim Heart Rate", "bpm", constant(120)), 120, 0, 0},
		{"speed", developer("Speed", "m/s", constant(5)), 0, 0, 18},
		{"beats of a strap", beats, 120, 0, 18},
		{"Suunto", strings.ReplaceAll(asGPX("cycling", steady()), "<extensions>", "<extensions><gpxdata:bikepower>300</gpxdata:bikepower>"), 0, 300, 18},
		{"a list beside the track", strings.Replace(track, "</Track>", "</Track>"+list, 1), 120, 0, 18},
	} {
		d, err := read(t, []byte(c.data)).Detail(0)
		if err != nil {
			t.Fatal(c.name, err)
		}
		for i, v := range []*int64{d.AvgHRBpm, d.AvgPowerW} {
			if want := [2]int64{c.hr, c.power}[i]; want > 0 && (v == nil || *v != want) ||
				want == 0 && v != nil && *v > 0 {
				t.Errorf("%s: heart rate %v, power %v, want %d and %d", c.name, d.AvgHRBpm, d.AvgPowerW, c.hr, c.power)
			}
		}
		if c.speed > 0 && (d.MaxSpeedKmh == nil || math.Abs(*d.MaxSpeedKmh-float64(c.speed)) > 0.5) {
			t.Errorf("%s: speed %v, want %d", c.name, d.MaxSpeedKmh, c.speed)
		}
		if n := filled(d.Timeseries.HRBpm); c.hr > 0 && n < 590 {
			t.Errorf("%s: %d heart rates", c.name, n)
		}
	}
}

// Programs write the steps of both legs, or of one, as FIT has them.
func TestCadenceOfRunnersIsOfOneLeg(t *testing.T) {
	for sport, want := range map[string]int64{"running": 85, "cycling": 170} {
		list := change(steady(), func(_ int, r *row) { r.cad, r.hr = 170, 140 })
		if d, err := read(t, []byte(asGPX(sport, list))).Detail(0); err != nil || *d.AvgCadenceRpm != want {
			t.Errorf("%s: %v, want %d, %v", sport, *d.AvgCadenceRpm, want, err)
		}
	}
}

// An evening in the west and a morning in the east are another day in Greenwich.
func TestDayIsThatOfThePlace(t *testing.T) {
	at := func(lon, hours float64, offset string) string {
		list := change(steady(), func(_ int, r *row) { r.lon, r.t = lon, r.t+(hours-8)*3600 })
		return strings.ReplaceAll(asGPX("cycling", list), "Z</time>", offset+"</time>")
	}
	local := asFIT(2, change(steady(), func(_ int, r *row) { r.t += 15 * 3600 }), 600, 3000, func(w *fitWriter) {
		w.message(fitActivity, fitUint{fitTimestamp, 4, 0x86, fitTime(begun)},
			fitUint{5, 4, 0x86, fitTime(begun) + 5*3600 + 1800})
	})
	for _, c := range []struct{ name, data, day, start string }{
		{"Zurich", at(8, 8, "Z"), "2025-06-01", "2025-06-01T10:00:00+02:00"},
		{"Los Angeles", at(-118, 26, "Z"), "2025-06-01", "2025-06-01T19:00:00-07:00"},
		{"Khabarovsk", at(136, -2, "Z"), "2025-06-01", "2025-06-01T08:00:00+10:00"},
		{"the file says", at(8, 23, "+05:30"), "2025-06-01", "2025-06-01T23:00:00+05:30"},
		{"the watch says", local, "2025-06-02", "2025-06-02T04:30:00+05:30"},
		{"France, near the meridian of Greenwich", at(0.1, 23, "Z"), "2025-06-02", "2025-06-02T01:00:00+02:00"},
	} {
		d, err := read(t, []byte(c.data)).Detail(0)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if d.ID[:10] != c.day || d.StartedAt.String() != c.start {
			t.Errorf("%s: %s at %s, want %s at %s", c.name, d.ID, d.StartedAt, c.day, c.start)
		}
		if when := previewOf(&d.Activity).When; !strings.HasPrefix(when, d.StartedAt.Format("2 January 2006")) {
			t.Errorf("%s: the preview says %s", c.name, when)
		}
		places := homePlaces(t)
		for _, hide := range []bool{false, true} {
			copied := *d
			out, err := Policy{Privacy: activityschema.PrivacyBlurStart, Places: places, HideTime: hide}.apply(&copied)
			if err != nil || out.StartedAt.Format(time.DateOnly) != c.day {
				t.Errorf("%s: blurred %v, %v", c.name, out.StartedAt, err)
			}
		}
	}
}

// A lap begins after each of ten pauses, with the heart rate of a rest in its first second.
func TestLapsWeighSamplesAsTheWholeDoes(t *testing.T) {
	list := change(rows(600, 5), func(i int, r *row) {
		r.t += float64(i / 60 * 240)
		r.pause = i > 0 && i%60 == 0
		if r.hr = 140; i%60 == 0 {
			r.hr = 60
		}
	})
	d := checked(t, read(t, []byte(asFIT(2, list, 600, 2995, func(w *fitWriter) {
		for n := range 10 {
			start := fitTime(list[60*n].at())
			w.message(fitLap, fitUint{fitTimestamp, 4, 0x86, start + 60}, fitUint{2, 4, 0x86, start},
				fitUint{7, 4, 0x86, 60_000}, fitUint{8, 4, 0x86, 60_000})
		}
	}))))
	if len(d.Laps) != 10 {
		t.Fatalf("%d laps", len(d.Laps))
	}
	for i, l := range d.Laps {
		about(t, fmt.Sprint("lap ", i, ": distance"), *l.DistanceM, 295, 5)
		about(t, fmt.Sprint("lap ", i, ": heart rate"), float64(*l.AvgHRBpm), 139, 0)
	}
	about(t, "heart rate", float64(*d.AvgHRBpm), 139, 0)
}

func TestRestOfMoreThanADayMakesTwoActivities(t *testing.T) {
	list := change(steady(), func(i int, r *row) {
		if i >= 400 {
			r.t += 25 * 3600
		}
	})
	f, err := Read(strings.NewReader(asGPX("cycling", list)))
	if err != nil || len(f.Recordings) != 2 {
		t.Fatal(len(f.Recordings), err)
	}
	for n, want := range []float64{1995, 1000} {
		d, err := f.Detail(n)
		must(t, err)
		about(t, d.ID, *d.DistanceM, want, 2)
		about(t, d.ID+": speed", *d.AvgSpeedKmh, 18, 0.1)
	}
}

// An activity that was entered by hand, or made by a script, has no track, and its session may not say when it began.
func TestTotalsWithoutATrack(t *testing.T) {
	var w fitWriter
	w.message(fitFileID, fitUint{0, 1, 0, fitFileActivity})
	w.message(fitSession, fitUint{fitTimestamp, 4, 0x86, fitTime(begun) + 1800}, fitUint{5, 1, 0, 1},
		fitUint{7, 4, 0x86, 1_800_000},
		fitUint{8, 4, 0x86, 1_800_000}, fitUint{9, 4, 0x86, 500_000})
	point := strings.Replace(asTCX("Running", rows(1, 0), 5000, 1), "Seconds>0<", "Seconds>1800<", 1)
	for _, data := range []string{point, string(w.file())} {
		d := checked(t, read(t, []byte(data)))
		if d.Sport != activityschema.SportRunning || !d.StartedAt.Time.Equal(begun) || orZero(d.DistanceM) != 5000 ||
			orZero(d.MovingTimeS) != 1800 {
			t.Errorf("%s at %s: %v m in %v s", d.Sport, d.StartedAt, orZero(d.DistanceM), orZero(d.MovingTimeS))
		}
	}
}

func TestMessagesAboutDamagedFilesAreNotThoseOfALibrary(t *testing.T) {
	for data, want := range map[string]string{
		"<gpx><trk><trkseg>\n<trkpt lat='1' lon='2'><ele</trkpt>": "damaged on line 2, before anything was recorded",
		"<gpx></trk>":                            "damaged on line 1, before anything was recorded",
		"<!DOCTYPE gpx [<!ENTITY a 'b'>]><gpx/>": "the XML has a document type or entities: export the file again without them",
	} {
		if _, err := Read(strings.NewReader(data)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", data, err)
		}
	}
}
