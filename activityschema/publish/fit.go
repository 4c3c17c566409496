package publish

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muktihari/fit/decoder"

	"github.com/cairn-id/cairn/activityschema"
)

// Numbers of the FIT profile: messages, the type of an activity file, and the field timestamp.
const (
	fitFileID           = 0
	fitSport            = 12
	fitSession          = 18
	fitLap              = 19
	fitRecord           = 20
	fitEvent            = 21
	fitDeviceInfo       = 23
	fitActivity         = 34
	fitLength           = 101
	fitHR               = 132
	fitFieldDescription = 206

	fitFileActivity = 4
	fitTimestamp    = 253
)

// fitEpochS is the Unix time of the epoch of FIT, 1989-12-31.
const fitEpochS = 631065600

var errNoActivity = errors.New("a FIT file of settings, a course or a workout, but no recorded activity")

// A fitFormat reads FIT. The library's raw decoder splits the file into messages. Its full decoder
// has tables of the whole profile, 2.6 MB of the program, and few messages are needed here.
type fitFormat struct {
	file  *File
	defs  [16]fitDefinition
	sum   uint16 // the CRC of what was read
	ended bool   // between two sequences
	other bool   // there is a sequence of another type than an activity
	fitSequence
}

// A fitSequence is one FIT file of those that may be chained in a file.
type fitSequence struct {
	skip     bool // not an activity
	rec      Recording
	sessions []*Recording // without samples
	stops    []int64      // when the timer stopped, in Unix milliseconds
	last     uint32       // timestamp, which compressed ones refer to
	maker    float64
	product  float64
	name     string // of the product
	zone     *time.Location
	fields   map[[2]byte]fitField // of developers, by index of the developer and number
	beats    fitBeats
}

// A fitDefinition is the layout of the messages of a local number.
type fitDefinition struct {
	message uint16
	order   binary.ByteOrder
	fields  []fitField
	own     int // how many are of the profile; those of developers follow
}

type fitField struct{ number, size, base byte }

func readFIT(r *bufio.Reader, f *File) error {
	x := &fitFormat{file: f}
	x.begin()
	in := io.Reader(r)
	if begin, err := r.Peek(12); err == nil && binary.LittleEndian.Uint32(begin[4:]) == 0 {
		// The device lost power before it wrote the size.
		begin = bytes.Clone(begin)
		binary.LittleEndian.PutUint32(begin[4:], math.MaxUint32)
		_, _ = r.Discard(len(begin))
		in = io.MultiReader(bytes.NewReader(begin), r)
	}
	x.ended = false
	_, err := decoder.NewRaw().Decode(in, x.segment)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		return err
	}
	for _, limit := range []error{errTooMany, errTooLarge, errRecordings, errLaps} {
		if errors.Is(err, limit) {
			return err
		}
	}
	if err != nil && !x.ended { // what follows a whole recording is none
		f.warn(warnCut)
		if err := x.end(); err != nil {
			return err
		}
	}
	if len(f.Recordings) == 0 && x.other {
		return errNoActivity
	}
	return nil
}

func (x *fitFormat) begin() {
	x.fitSequence = fitSequence{maker: unknown, product: unknown, fields: map[[2]byte]fitField{}}
	x.rec = Recording{Source: activityschema.SourceFITFile, Sport: activityschema.SportOther, Totals: newTotals()}
	x.defs = [16]fitDefinition{}
	x.sum = 0
}

// segment handles a part of the file as the raw decoder splits it.
func (x *fitFormat) segment(flag decoder.RawFlag, b []byte) error {
	switch flag {
	case decoder.RawFlagFileHeader:
		x.begin()
		x.ended = false
	case decoder.RawFlagMesgDef:
		x.define(b)
	case decoder.RawFlagMesgData:
		if err := x.message(b); err != nil {
			return err
		}
	case decoder.RawFlagCRC:
		if binary.LittleEndian.Uint16(b) != x.sum {
			x.file.warn(warnChecksum)
		}
		x.ended = true
		return x.end()
	}
	for _, c := range b {
		x.sum = x.sum>>8 ^ crcTable[byte(x.sum)^c]
	}
	return nil
}

// crcTable has the CRC-16 of each byte. The library's goes by half bytes, which takes twice as long.
var crcTable = func() (table [256]uint16) {
	const polynomial = 0xa001
	for i := range table {
		table[i] = uint16(i)
		for range 8 {
			table[i] = table[i]>>1 ^ table[i]&1*polynomial
		}
	}
	return table
}()

func (x *fitFormat) define(b []byte) {
	d := &x.defs[b[0]&0xf]
	d.order = binary.ByteOrder(binary.LittleEndian)
	if b[2] == 1 {
		d.order = binary.BigEndian
	}
	d.message = d.order.Uint16(b[3:])
	d.fields = d.fields[:0]
	end := 6 + 3*int(b[5])
	for i := 6; i < end; i += 3 {
		d.fields = append(d.fields, fitField{b[i], b[i+1], b[i+2]})
	}
	d.own = len(d.fields)
	for i := end + 1; b[0]&0x20 != 0 && i+2 < len(b); i += 3 {
		field := x.fields[[2]byte{b[i+2], b[i]}] // unknown ones have the invalid base 0 and the number 0
		d.fields = append(d.fields, fitField{field.number, b[i+1], field.base})
	}
}

// A fitMessage is a data message. Fields of developers come last.
type fitMessage struct {
	*fitDefinition
	data []byte
}

// find returns the value of a field, or nil.
func (m fitMessage) find(number byte) (data []byte, base byte) {
	at := 0
	for _, f := range m.fields[:m.own] {
		if f.number == number {
			return m.data[at : at+int(f.size)], f.base
		}
		at += int(f.size)
	}
	return nil, 0
}

// number returns a value of any numeric base type, or NaN for a missing or invalid one. Of an array it is the first.
func (m fitMessage) number(field byte) float64 {
	b, base := m.find(field)
	return m.value(b, base)
}

func (m fitMessage) value(b []byte, base byte) float64 {
	base &= 0x1f
	var raw uint64
	size := 0
	if int(base) < len(fitSizes) {
		size = fitSizes[base]
	}
	if size > len(b) {
		return unknown
	}
	switch size {
	case 1:
		raw = uint64(b[0])
	case 2:
		raw = uint64(m.order.Uint16(b))
	case 4:
		raw = uint64(m.order.Uint32(b))
	case 8:
		raw = m.order.Uint64(b)
	default:
		return unknown
	}
	ones := ^uint64(0) >> (64 - 8*size)
	switch base {
	case 0, 2, 4, 6, 13, 15: // enum, unsigned, byte
		if raw == ones {
			return unknown
		}
		return float64(raw)
	case 10, 11, 12, 16: // unsigned, 0 is invalid
		if raw == 0 {
			return unknown
		}
		return float64(raw)
	case 1, 3, 5, 14: // signed
		if raw == ones>>1 {
			return unknown
		}
		return float64(int64(raw<<(64-8*size)) >> (64 - 8*size))
	case 8:
		return float64(math.Float32frombits(uint32(raw)))
	case 9:
		return math.Float64frombits(raw)
	}
	return unknown
}

// fitSizes are the sizes of the numeric base types; 7 is a string.
var fitSizes = [...]int{1, 1, 1, 2, 2, 4, 4, 0, 4, 8, 1, 2, 4, 1, 8, 8, 8}

// first returns the first of the fields that has a value: an enhanced field is more precise than the original.
func (m fitMessage) first(fields ...byte) float64 {
	for _, field := range fields {
		if v := m.number(field); !math.IsNaN(v) {
			return v
		}
	}
	return unknown
}

func (m fitMessage) text(field byte) string {
	b, base := m.find(field)
	if base&0x1f != 7 {
		return ""
	}
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "")
}

// at returns a time in Unix milliseconds, or 0.
func (m fitMessage) at(field byte) int64 {
	if v := m.number(field); v > 0 {
		return int64(v+fitEpochS) * 1000
	}
	return 0
}

func (x *fitFormat) message(b []byte) error {
	local, compressed := b[0]&0xf, b[0]&0x80 != 0
	if compressed {
		local = b[0] >> 5 & 3
	}
	m := fitMessage{&x.defs[local], b[1:]}
	if m.fields == nil {
		return nil
	}
	now := m.at(fitTimestamp)
	if compressed {
		x.last += (uint32(b[0]) - x.last) & 0x1f
		now = (int64(x.last) + fitEpochS) * 1000
	} else if now != 0 {
		x.last = uint32(now/1000 - fitEpochS)
	}
	switch m.message {
	case fitFileID:
		kind := m.number(0)
		x.skip = !math.IsNaN(kind) && kind != fitFileActivity
		x.other = x.other || x.skip
		x.maker, x.product, x.name = m.number(1), m.number(2), m.text(8)
	case fitDeviceInfo:
		if m.number(0) == 0 && x.name == "" { // the recording device, not a sensor
			x.name = m.text(27)
		}
	case fitSport:
		x.rec.Sport, x.rec.SubSport = fitSportOf(m.number(0), m.number(1))
	case fitActivity:
		const mostS = 14 * 3600
		if local := m.at(5); local != 0 && now != 0 {
			offset := int(math.Round(float64(local-now)/1000/900)) * 900
			if offset != 0 && offset >= -mostS && offset <= mostS {
				x.zone = time.FixedZone("", offset)
			}
		}
	case fitFieldDescription:
		index, number := m.number(0), m.number(1)
		if to := fitDeveloperField(m); to != 0 && index < 255 && number < 255 {
			x.fields[[2]byte{byte(index), byte(number)}] = fitField{number: to, base: byte(m.number(2))}
		}
	case fitHR:
		return x.beat(m, now)
	case fitEvent:
		if m.number(0) == 0 && len(x.stops) < maxSamples { // the timer
			switch m.number(1) {
			case 1, 4, 8, 9: // stop, stop_all, stop_disable, stop_disable_all
				x.stops = append(x.stops, now)
			}
		}
	case fitSession:
		s := &Recording{Totals: m.totals(now), Source: x.rec.Source}
		s.Sport, s.SubSport = fitSportOf(m.number(5), m.number(6))
		s.Totals.AvgSpeed, s.Totals.MaxSpeed = m.first(124, 14)/1000, m.first(125, 15)/1000
		s.Totals.AvgHR, s.Totals.MaxHR, s.Totals.AvgCadence = m.number(16), m.number(17), m.number(18)
		s.Totals.AvgPower, s.Totals.MaxPower = m.number(20), m.number(21)
		s.Totals.AscentM, s.Totals.DescentM = m.number(22), m.number(23)
		if s.Totals.Start != 0 && len(x.sessions) < 100 {
			x.sessions = append(x.sessions, s)
		}
	case fitLap:
		l := m.totals(now)
		l.AvgSpeed, l.AvgHR, l.AvgPower, l.AscentM = m.first(110, 13)/1000, m.number(15), m.number(19), m.number(21)
		if !x.skip && l.Start != 0 {
			return x.file.addLap(&x.rec, &l)
		}
	case fitRecord:
		if x.skip {
			x.file.outside()
			return nil
		}
		return x.file.add(&x.rec, m.sample(now))
	case fitLength:
		x.length(m)
	default:
		x.unread(m)
	}
	return nil
}

// totals returns the fields that have the same numbers in a session and a lap, which ends now.
func (m fitMessage) totals(now int64) Totals {
	t := newTotals()
	t.Start = m.at(2)
	t.ElapsedS, t.MovingS, t.DistanceM = m.number(7)/1000, m.number(8)/1000, m.number(9)/100
	if t.Start == 0 && now != 0 && t.ElapsedS > 0 {
		t.Start = now - int64(t.ElapsedS*1000)
	}
	return t
}

func (m fitMessage) sample(now int64) Sample {
	const semicircle = 180.0 / (1 << 31)
	s := newSample()
	s.At = now
	s.Lat, s.Lon = m.number(0)*semicircle, m.number(1)*semicircle
	s.ElevationM = m.first(78, 2)/5 - 500
	s.DistanceM = m.number(5) / 100
	s.SpeedMS = m.first(73, 6) / 1000
	s.TempC = m.number(13)
	s.HRBpm, s.CadenceRpm, s.PowerW = wholeOf(m.number(3)), wholeOf(m.number(4)), wholeOf(m.number(7))
	if len(m.fields) > m.own {
		m.developers(&s)
	}
	return s
}

// end makes recordings of a sequence, one for each session.
func (x *fitFormat) end() error {
	defer x.begin()
	if x.skip {
		return nil
	}
	x.rec.Device, x.rec.zone = x.device(), x.zone
	x.rec.beats = x.beats.list
	slices.SortStableFunc(x.rec.beats, func(a, b fitBeat) int { return cmp.Compare(a.at, b.at) })
	slices.Sort(x.stops)
	for i, next := 0, 0; i < len(x.rec.Samples) && next < len(x.stops); i++ {
		for ; next < len(x.stops) && x.stops[next] < x.rec.Samples[i].At; next++ {
			x.rec.Samples[i].Break = i > 0
		}
	}
	if len(x.sessions) == 0 {
		rec := x.rec
		return x.file.begin(&rec)
	}
	slices.SortStableFunc(x.sessions, func(a, b *Recording) int {
		return cmp.Compare(a.Totals.Start, b.Totals.Start)
	})
	x.sessions = slices.CompactFunc(x.sessions, func(a, b *Recording) bool { // some devices write one twice
		return a.Totals.Start == b.Totals.Start
	})
	for i, s := range x.sessions {
		s.Device, s.zone, s.beats, s.idle = x.rec.Device, x.zone, x.rec.beats, x.rec.idle
		during := func(at int64) bool {
			begun, last := i == 0 || at >= s.Totals.Start, i+1 == len(x.sessions)
			return begun && (last || at < x.sessions[i+1].Totals.Start)
		}
		s.Laps = slices.DeleteFunc(slices.Clone(x.rec.Laps), func(l *Totals) bool { return !during(l.Start) })
		if len(x.sessions) == 1 {
			s.Samples = x.rec.Samples
		} else {
			for _, sample := range x.rec.Samples {
				if during(sample.At) {
					s.Samples = append(s.Samples, sample)
				}
			}
		}
		s.swim()
		if err := x.file.begin(s); err != nil {
			return err
		}
	}
	return nil
}

// fitMakers are the manufacturers of the profile that are in makers.
var fitMakers = map[float64]string{
	1: "Garmin", 23: "Suunto", 32: "Wahoo", 69: "Stages", 70: "Sigma", 89: "Tacx", 107: "Magene", 115: "iGPSPORT",
	123: "Polar", 258: "Lezyne", 260: "Zwift", 265: "Strava", 267: "Bryton", 289: "Hammerhead", 294: "Coros",
	310: "Decathlon",
}

// garminProducts are common products of Garmin, whose files have a number instead of a name.
var garminProducts = map[float64]string{
	1018: "Forerunner 310XT", 1036: "Edge 500", 1169: "Edge 800", 1328: "Forerunner 910XT", 1551: "fenix",
	1561: "Edge 510", 1567: "Edge 810", 1623: "Forerunner 620", 1765: "Forerunner 920XT", 1836: "Edge 1000",
	2050: "fenix 3", 2067: "Edge 520", 2153: "Forerunner 225", 2156: "Forerunner 630", 2157: "Forerunner 230",
	2158: "Forerunner 735XT", 2413: "fenix 3 HR", 2431: "Forerunner 235", 2530: "Edge 820", 2604: "fenix 5X",
	2691: "Forerunner 935", 2697: "fenix 5", 2713: "Edge 1030", 2886: "Forerunner 645", 2909: "Edge 130",
	3011: "Edge Explore", 3076: "Forerunner 245", 3110: "fenix 5 Plus", 3112: "Edge 520 Plus",
	3113: "Forerunner 945", 3121: "Edge 530", 3122: "Edge 830", 3226: "Venu", 3282: "Forerunner 45",
	3290: "fenix 6", 3291: "fenix 6X", 3558: "Edge 130 Plus", 3570: "Edge 1030 Plus", 3589: "Forerunner 745",
	3703: "Venu 2", 3843: "Edge 1040", 3869: "Forerunner 55", 3888: "Instinct 2", 3906: "fenix 7",
	3907: "fenix 7X", 3943: "epix", 3992: "Forerunner 255", 4024: "Forerunner 955", 4061: "Edge 540",
	4062: "Edge 840", 4257: "Forerunner 265", 4260: "Venu 3", 4315: "Forerunner 965", 4375: "fenix 7 Pro",
	4432: "Forerunner 165", 4440: "Edge 1050", 4536: "fenix 8",
}

// device returns the name of the recording product, or "" if the maker is unknown.
func (x *fitFormat) device() string {
	maker := fitMakers[x.maker]
	if maker == "" {
		return ""
	}
	name := x.name
	if maker == "Garmin" {
		name = cmp.Or(garminProducts[x.product], name)
	}
	if !strings.HasPrefix(strings.ToLower(name), strings.ToLower(maker)) {
		name = maker + " " + name
	}
	return productName(name)
}
