package publish

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/muktihari/fit/kit/hash/crc16"
)

// A ride is a recording with known truth, which gpx, tcx and fit write: so many samples a second
// apart, at a steady speed on a circle of latitude, over one hill.
type ride struct {
	samples  int
	lat, lon float64
	climbM   float64 // up in the first half, down in the second
	start    time.Time
	pauseAt  int // sample before which it paused for five minutes; 0: none
	lapEvery int // samples; 0: one lap
	secret   string
}

const rideMS = 5.0

var rideStart = time.Date(2026, 5, 3, 7, 30, 0, 0, time.UTC)

func newRide(samples int) ride {
	return ride{samples: samples, lat: 47, lon: 8, climbM: 100, start: rideStart, secret: "Anna Example 3987654321"}
}

func (r ride) sample(i int) (at time.Time, lat, lon, ele float64) {
	at = r.start.Add(time.Duration(i) * time.Second)
	if r.pauseAt > 0 && i >= r.pauseAt {
		at = at.Add(300 * time.Second)
	}
	east := rideMS * float64(i) / (metres(r.lat, 0, r.lat, 0.001) * 1000)
	ele = 400 + r.climbM*(1-math.Abs(2*float64(i)/float64(r.samples-1)-1))
	return at, r.lat, math.Remainder(r.lon+east, 360), ele
}

func (r ride) metres() float64 {
	steps := r.samples - 1
	if r.pauseAt > 0 {
		steps--
	}
	return rideMS * float64(steps)
}

func (r ride) gpx() []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<gpx creator="Garmin Edge 530 3987654321" version="1.1" xmlns="http://www.topografix.com/GPX/1/1"
 xmlns:ns3="http://www.garmin.com/xmlschemas/TrackPointExtension/v1">
<metadata><name>` + r.secret + `</name><author><name>` + r.secret + `</name></author></metadata>
<wpt lat="1.5" lon="2.5"><name>` + r.secret + `</name></wpt>
<trk><name>` + r.secret + `</name><cmt>` + r.secret + `</cmt><type>cycling</type><trkseg>` + "\n")
	for i := range r.samples {
		if i > 0 && i == r.pauseAt {
			b.WriteString("</trkseg><trkseg>\n")
		}
		at, lat, lon, ele := r.sample(i)
		fmt.Fprintf(&b, `<trkpt lat="%.7f" lon="%.7f"><ele>%.1f</ele><time>%s</time><extensions><power>210</power>`+
			`<ns3:TrackPointExtension><ns3:atemp>21</ns3:atemp><ns3:hr>%d</ns3:hr><ns3:cad>85</ns3:cad>`+
			`</ns3:TrackPointExtension></extensions></trkpt>`+"\n", lat, lon, ele, at.Format(time.RFC3339), 120+i%20)
	}
	b.WriteString("</trkseg></trk></gpx>\n")
	return b.Bytes()
}

func (r ride) tcx() []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0"?>
<TrainingCenterDatabase xmlns="http://www.garmin.com/xmlschemas/TrainingCenterDatabase/v2">
<Activities><Activity Sport="Biking">
<Id>` + r.start.Format(time.RFC3339) + "</Id><Notes>" + r.secret + "</Notes>\n")
	every := r.lapEvery
	if every == 0 {
		every = r.samples
	}
	for i := range r.samples {
		at, lat, lon, ele := r.sample(i)
		if i%every == 0 {
			if i > 0 {
				b.WriteString("</Track></Lap>\n")
			}
			fmt.Fprintf(&b, `<Lap StartTime="%s"><TotalTimeSeconds>%d</TotalTimeSeconds><Track>`+"\n",
				at.Format(time.RFC3339), min(every, r.samples-1-i))
		} else if i == r.pauseAt {
			b.WriteString("</Track><Track>\n")
		}
		fmt.Fprintf(&b, `<Trackpoint><Time>%s</Time><Position><LatitudeDegrees>%.7f</LatitudeDegrees>`+
			`<LongitudeDegrees>%.7f</LongitudeDegrees></Position>`+
			`<AltitudeMeters>%.1f</AltitudeMeters><HeartRateBpm><Value>%d</Value></HeartRateBpm><Cadence>85</Cadence>`+
			`<Extensions><ns3:TPX><ns3:Watts>210</ns3:Watts></ns3:TPX></Extensions></Trackpoint>`+"\n",
			at.Format("2006-01-02T15:04:05.000Z"), lat, lon, ele, 120+i%20)
	}
	b.WriteString(`</Track></Lap><Creator><Name>Garmin Edge 530</Name><UnitId>3987654321</UnitId></Creator>` +
		`</Activity></Activities></TrainingCenterDatabase>`)
	return b.Bytes()
}

// A fitWriter writes messages, each with its definition before it.
type fitWriter struct{ bytes.Buffer }

// fitUint is a field of an unsigned or signed type of so many bytes.
type fitUint struct {
	number, size, base byte
	value              uint64
}

func (w *fitWriter) message(number uint16, fields ...fitUint) {
	w.Write([]byte{0x40, 0, 0, byte(number), byte(number >> 8), byte(len(fields))})
	for _, f := range fields {
		w.Write([]byte{f.number, f.size, f.base})
	}
	w.WriteByte(0)
	for _, f := range fields {
		w.Write(binary.LittleEndian.AppendUint64(nil, f.value)[:f.size])
	}
}

func (w *fitWriter) file() []byte {
	out := append([]byte{12, 0x20, 0, 0}, binary.LittleEndian.AppendUint32(nil, uint32(w.Len()))...)
	out = append(append(out, ".FIT"...), w.Bytes()...)
	sum := crc16.New()
	_, _ = sum.Write(out)
	return binary.LittleEndian.AppendUint16(out, sum.Sum16())
}

func fitTime(at time.Time) uint64 { return uint64(at.Unix() - fitEpochS) }

func (r ride) fit() []byte {
	var w fitWriter
	serial := fitUint{3, 4, 0x8c, 3987654321}
	w.message(fitFileID, fitUint{0, 1, 0, fitFileActivity}, fitUint{1, 2, 0x84, 1}, fitUint{2, 2, 0x84, 3121}, serial)
	begin := 0
	for i := range r.samples {
		at, lat, lon, ele := r.sample(i)
		if i > 0 && i == r.pauseAt {
			stop, _, _, _ := r.sample(i - 1)
			w.message(fitEvent, fitUint{fitTimestamp, 4, 0x86, fitTime(stop)}, fitUint{0, 1, 0, 0}, fitUint{1, 1, 0, 4})
			w.message(fitEvent, fitUint{fitTimestamp, 4, 0x86, fitTime(at)}, fitUint{0, 1, 0, 0}, fitUint{1, 1, 0, 0})
		}
		semicircles := func(v float64) uint64 { return uint64(uint32(int32(v / 180 * (1 << 31)))) }
		w.message(fitRecord, fitUint{fitTimestamp, 4, 0x86, fitTime(at)},
			fitUint{0, 4, 0x85, semicircles(lat)}, fitUint{1, 4, 0x85, semicircles(lon)},
			fitUint{2, 2, 0x84, uint64(math.Round((ele + 500) * 5))}, fitUint{3, 1, 2, uint64(120 + i%20)},
			fitUint{4, 1, 2, 85}, fitUint{7, 2, 0x84, 210})
		if end := i + 1; r.lapEvery > 0 && end%r.lapEvery == 0 || end == r.samples {
			from, _, _, _ := r.sample(begin)
			w.message(fitLap, fitUint{fitTimestamp, 4, 0x86, fitTime(at)}, fitUint{2, 4, 0x86, fitTime(from)},
				fitUint{7, 4, 0x86, uint64(at.Sub(from).Milliseconds())})
			begin = end
		}
	}
	end, _, _, _ := r.sample(r.samples - 1)
	w.message(fitSession, fitUint{fitTimestamp, 4, 0x86, fitTime(end)}, fitUint{2, 4, 0x86, fitTime(r.start)},
		fitUint{5, 1, 0, 2}, fitUint{6, 1, 0, 7}, fitUint{7, 4, 0x86, uint64(end.Sub(r.start).Milliseconds())})
	return w.file()
}

// formats are the three files of a ride.
func (r ride) formats() map[string][]byte {
	return map[string][]byte{"gpx": r.gpx(), "tcx": r.tcx(), "fit": r.fit()}
}

// read reads a file that has one recording.
func read(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Read(bytes.NewReader(data))
	must(t, err)
	if len(f.Recordings) != 1 {
		t.Fatalf("%d recordings", len(f.Recordings))
	}
	return f
}

// hidden reports what of a ride's secrets a document shows.
func (r ride) hidden(t *testing.T, document []byte) {
	t.Helper()
	for _, word := range append(strings.Fields(r.secret), "3987654321") {
		if bytes.Contains(document, []byte(word)) {
			t.Errorf("the document shows %q", word)
		}
	}
}

// A fitText is a field of text.
type fitText struct {
	number byte
	text   string
}

// texts writes a message with texts after its numbers.
func (w *fitWriter) texts(number uint16, numbers []fitUint, texts ...fitText) {
	w.Write([]byte{0x40, 0, 0, byte(number), byte(number >> 8), byte(len(numbers) + len(texts))})
	for _, f := range numbers {
		w.Write([]byte{f.number, f.size, f.base})
	}
	for _, f := range texts {
		w.Write([]byte{f.number, byte(len(f.text) + 1), 7})
	}
	w.WriteByte(0)
	for _, f := range numbers {
		w.Write(binary.LittleEndian.AppendUint64(nil, f.value)[:f.size])
	}
	for _, f := range texts {
		w.WriteString(f.text + "\x00")
	}
}
