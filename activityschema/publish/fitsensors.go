package publish

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

// What FIT files have beside the fields of the profile: fields of developers, and the beats of heart
// rate straps that were under water.

// fitSampleMessages are the messages of the profile that have samples and are not read.
var fitSampleMessages = map[uint16]string{
	55: "monitoring", 78: "hrv", 164: "gyroscope_data", 165: "accelerometer_data", 174: "obdii_data",
	177: "nmea_sentence", 178: "aviation_attitude", 208: "magnetometer_data", 209: "barometer_data",
	211: "monitoring_hr_data", 225: "set", 227: "stress_level", 269: "spo2_data", 285: "jump", 290: "beat_intervals",
	297: "respiration_rate", 302: "hsa_accelerometer_data", 304: "hsa_step_data", 305: "hsa_spo2_data",
	308: "hsa_heart_rate_data", 319: "tank_update", 372: "raw_bbi",
}

// unread counts a message with samples that are not read.
func (x *fitFormat) unread(m fitMessage) {
	if kind := fitSampleMessages[m.message]; kind != "" {
		x.file.skip("messages", kind)
	}
}

// beat reads a message hr, or counts it if its time is unknown.
func (x *fitFormat) beat(m fitMessage, now int64) error {
	before := len(x.beats.list)
	err := x.beats.add(m, now)
	if len(x.beats.list) == before {
		x.file.skip("messages", "hr")
	}
	return err
}

// A span is a time, in Unix milliseconds.
type span struct{ from, until int64 }

// length reads a length of a pool. In an idle one nobody swam.
func (x *fitFormat) length(m fitMessage) {
	const idle, timer, elapsed = 0, 4, 3
	if from := m.at(2); from != 0 && m.number(12) == idle && len(x.rec.idle) < maxLaps {
		if s := m.first(timer, elapsed) / 1000; s > 0 {
			x.rec.idle = append(x.rec.idle, span{from, from + int64(s*1000)})
		}
	}
}

// swim takes the rests between the lengths of a pool from the time of the timer, which goes on. A watch that writes no
// lengths knows of them in its average speed.
func (r *Recording) swim() {
	t := &r.Totals
	end := t.Start + int64(cmp.Or(t.ElapsedS, t.MovingS)*1000)
	for _, s := range r.idle {
		if s.from >= t.Start-1000 && s.from < end {
			t.MovingS -= float64(min(s.until, end)-s.from) / 1000
		}
	}
	if r.Sport == activityschema.SportSwimming && r.idle == nil && t.DistanceM > 0 && t.AvgSpeed > 0 &&
		!slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.hasPosition() }) {
		t.MovingS = min(t.MovingS, math.Round(t.DistanceM/t.AvgSpeed))
	}
}

// fitDeveloperField returns the number of the field of a record that a field of a developer has the
// values of, by its description; 0 if it is another one.
func fitDeveloperField(m fitMessage) byte {
	name, units := letters(m.text(3)), strings.ToLower(m.text(8))
	if native := m.number(15); native >= 3 && native <= 7 && !(m.number(14) != fitRecord) {
		return byte(native)
	}
	for _, other := range []string{
		"avg", "average", "max", "min", "lap", "form", "air", "target", "zone", "norm", "left", "right", "critical",
		"ratio",
	} {
		if strings.Contains(name, other) {
			return 0
		}
	}
	switch {
	case strings.HasSuffix(name, "power") && strings.HasPrefix(units, "w"):
		return 7
	case (strings.Contains(name, "heartrate") || name == "hr") && strings.HasPrefix(units, "b"):
		return 3
	case strings.HasSuffix(name, "cadence") && strings.HasSuffix(units, "pm"):
		return 4
	case name == "speed" && units == "m/s":
		return 6
	case name == "distance" && strings.HasPrefix(units, "m"):
		return 5
	}
	return 0
}

// developers sets values of a sample that only fields of developers have.
func (m fitMessage) developers(s *Sample) {
	at, o := 0, newSample()
	for i, f := range m.fields {
		from := at
		if at += int(f.size); i < m.own || at > len(m.data) {
			continue
		}
		v := m.value(m.data[from:at], f.base)
		switch f.number {
		case 3:
			o.HRBpm = wholeOf(v)
		case 4:
			o.CadenceRpm = wholeOf(v)
		case 5:
			o.DistanceM = v
		case 6:
			o.SpeedMS = v
		case 7:
			o.PowerW = wholeOf(v)
		}
	}
	s.merge(&o)
}

// fitBeats are the heart rates that a strap kept while no radio reached the watch, and sent afterwards.
type fitBeats struct {
	list  []fitBeat
	epoch float64 // Unix time, in milliseconds, of time 0 of the strap
	ticks int64   // time of the strap at the last beat, in 1/1024 s
}

type fitBeat struct {
	at  int64 // Unix time in milliseconds
	bpm int32
}

// add reads a message hr. The first gives a time of the watch for a time of the strap. Those that follow
// give the 12 low bits of each time of the strap, three in two bytes with the low bits first.
func (b *fitBeats) add(m fitMessage, now int64) error {
	const perSecond, low = 1024.0, 1<<12 - 1
	rates, _ := m.find(6)
	var times []int64
	if whole, _ := m.find(9); len(whole) >= 4 {
		for ; len(whole) >= 4; whole = whole[4:] {
			times = append(times, int64(m.order.Uint32(whole)))
		}
		b.ticks = times[len(times)-1]
		if now != 0 {
			fraction := m.number(0)
			if math.IsNaN(fraction) {
				fraction = 0
			}
			b.epoch = float64(now) + fraction/32768*1000 - float64(times[0])/perSecond*1000
		}
	} else if packed, _ := m.find(10); b.epoch != 0 {
		for i := 0; i+2 < len(packed); i += 3 {
			for _, v := range [2]int64{
				int64(packed[i]) | int64(packed[i+1]&0xf)<<8, int64(packed[i+1]>>4) | int64(packed[i+2])<<4,
			} {
				b.ticks += (v - b.ticks) & low
				times = append(times, b.ticks)
			}
		}
	}
	if len(b.list)+len(times) > 2*maxSamples {
		return errTooMany
	}
	for i := range min(len(rates), len(times)) {
		if rates[i] != 0 && rates[i] != 0xff && b.epoch != 0 {
			b.list = append(b.list, fitBeat{int64(b.epoch + float64(times[i])/perSecond*1000), int32(rates[i])})
		}
	}
	return nil
}

// mergeBeats gives the samples without a heart rate that of the beat before, if it is not long ago.
func (r *Recording) mergeBeats() {
	const longMS = 5000
	next, _ := slices.BinarySearchFunc(r.beats, r.Samples[0].At-longMS, func(b fitBeat, at int64) int {
		return cmp.Compare(b.at, at)
	})
	for i := range r.Samples {
		s := &r.Samples[i]
		for next < len(r.beats) && r.beats[next].at <= s.At+500 {
			next++
		}
		if next > 0 && s.HRBpm < 0 && s.At-r.beats[next-1].at <= longMS {
			s.HRBpm = r.beats[next-1].bpm
		}
	}
}
