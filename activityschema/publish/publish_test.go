package publish

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// checked returns the document of a file's only recording, which must be valid and make sense.
func checked(t testing.TB, f *File) *activityschema.Detail {
	t.Helper()
	d, err := f.Detail(0)
	if err != nil {
		t.Fatal(err)
	}
	d.Privacy = activityschema.PrivacyPublic
	if _, err := d.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	for _, finding := range activityschema.Lint(&activityschema.Document{Detail: d}) {
		t.Errorf("%+v", finding)
	}
	return d
}

func about(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestThreeFormatsOfOneRideSayTheSame(t *testing.T) {
	r := newRide(1201)
	r.pauseAt, r.lapEvery = 700, 300
	for name, data := range r.formats() {
		t.Run(name, func(t *testing.T) {
			d := checked(t, read(t, data))
			if d.Sport != activityschema.SportCycling || !d.StartedAt.Time.Equal(rideStart) {
				t.Errorf("%s at %s", d.Sport, d.StartedAt)
			}
			if d.Device == nil || *d.Device != "Garmin Edge 530" {
				t.Errorf("device %v", d.Device)
			}
			about(t, "distance", *d.DistanceM, r.metres(), r.metres()/200)
			about(t, "duration", float64(*d.DurationS), 1500, 0)
			about(t, "moving time", float64(*d.MovingTimeS), 1199, 1)
			about(t, "gain", *d.ElevationGainM, 100, 3)
			about(t, "loss", *d.ElevationLossM, 100, 3)
			about(t, "average speed", *d.AvgSpeedKmh, 18, 0.2)
			about(t, "maximal speed", *d.MaxSpeedKmh, 18, 0.5)
			about(t, "heart rate", float64(*d.AvgHRBpm), 130, 1)
			about(t, "maximal heart rate", float64(*d.MaxHRBpm), 139, 0)
			about(t, "cadence", float64(*d.AvgCadenceRpm), 85, 0)
			about(t, "power", float64(*d.AvgPowerW), 210, 0)
			about(t, "start", d.StartLatLng[1], 8, 1e-5)
			if name != "gpx" { // which has no laps
				if len(d.Laps) < 4 {
					t.Fatalf("%d laps", len(d.Laps))
				}
				about(t, "second lap's distance", *d.Laps[1].DistanceM, 300*rideMS, 2*rideMS)
				about(t, "third lap's distance, with the pause", *d.Laps[2].DistanceM, 299*rideMS, 2*rideMS)
			}
			data, _ := d.MarshalJSON()
			r.hidden(t, data)
		})
	}
}

func TestRideAcrossTheAntimeridian(t *testing.T) {
	r := newRide(600)
	r.lat, r.lon = -17, 179.99
	for name, data := range r.formats() {
		d := checked(t, read(t, data))
		about(t, name+": distance", *d.DistanceM, r.metres(), r.metres()/200)
		if b := d.BBox; b[0] < 179 || b[2] > -179 {
			t.Errorf("%s: box %v", name, b)
		}
	}
}

// What devices do to times: the same second twice, one back, one years ahead, a clock set at the start.
func TestClockOfADevice(t *testing.T) {
	r := newRide(300)
	lines := strings.SplitAfter(string(r.gpx()), "\n")
	first := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "<trkpt") {
			first = i
			break
		}
	}
	change := func(edit func(lines []string)) *activityschema.Detail {
		changed := append([]string{}, lines...)
		edit(changed)
		f := read(t, []byte(strings.Join(changed, "")))
		return checked(t, f)
	}
	for name, edit := range map[string]func(lines []string){
		"twice":        func(l []string) { l[first+9] += l[first+9] },
		"backward":     func(l []string) { l[first+200] = l[first+20] },
		"far ahead":    func(l []string) { l[first+50] = strings.Replace(l[first+50], "2026-", "2031-", 1) },
		"wrong before": func(l []string) { l[first] = strings.Replace(l[first], "2026-", "1990-", 1) },
		"not a time":   func(l []string) { l[first+50] = strings.Replace(l[first+50], "2026-", "20x6-", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			d := change(edit)
			about(t, "distance", *d.DistanceM, r.metres(), 2*rideMS)
			about(t, "duration", float64(*d.DurationS), 299, 1)
		})
	}
}

func TestFileCutShortGivesWhatItRecorded(t *testing.T) {
	r := newRide(600)
	for name, data := range r.formats() {
		f := read(t, data[:len(data)*3/4])
		if len(f.Warnings) == 0 {
			t.Errorf("%s: no warning", name)
		}
		d := checked(t, f)
		about(t, name+": distance", *d.DistanceM, r.metres()*3/4, r.metres()/20)
		if name == "gpx" {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(data)
			_ = z.Close()
			whole := read(t, packed.Bytes())
			if whole.Hash != read(t, data).Hash {
				t.Error("a packed file is not the same recording")
			}
			cut := read(t, packed.Bytes()[:packed.Len()*3/4])
			if n := len(cut.Recordings[0].Samples); len(cut.Warnings) == 0 || n < 300 || n == 600 {
				t.Errorf("of a packed file that is cut: %d samples, %q", n, cut.Warnings)
			}
		}
	}
	// A device that lost its power has not written the size.
	data := r.fit()
	copy(data[4:], []byte{0, 0, 0, 0})
	about(t, "distance", *checked(t, read(t, data[:len(data)-2])).DistanceM, r.metres(), r.metres()/100)
}

func TestFilesThatAreRefused(t *testing.T) {
	ride := newRide(10)
	many := strings.Repeat("<a>", 100)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(ride.fit())
	_, _ = z.Write(make([]byte, 100<<20))
	_ = z.Close()
	var deep, wide bytes.Buffer
	deep.WriteString("<gpx>" + strings.Repeat("<trk>", 1<<20))
	wide.WriteString("<gpx creator='" + strings.Repeat("x", 32<<20) + "'>")
	size := ride.fit()
	copy(size[4:], []byte{0xff, 0xff, 0xff, 0x7f})
	for name, file := range map[string]struct{ data, want string }{
		"empty":           {"", "not a GPX, TCX or FIT file"},
		"text":            {"hello\n", "not a GPX, TCX or FIT file"},
		"other XML":       {"<kml></kml>", "not a GPX, TCX or FIT file"},
		"route":           {"<gpx><rte><rtept lat='1' lon='2'/></rte></gpx>", "no recorded track"},
		"planned":         {"<gpx><trk><trkseg><trkpt lat='1' lon='2'/></trkseg></trk></gpx>", "no usable times"},
		"course":          {"<TrainingCenterDatabase><Course/></TrainingCenterDatabase>", "no recorded track"},
		"document type":   {`<!DOCTYPE gpx [<!ENTITY a "aa">]><gpx>&a;</gpx>`, "document type"},
		"entity":          {"<gpx><trk><name>&a;</name></trk></gpx>", "document type or entities"},
		"deep":            {"<gpx>" + many, "64 deep"},
		"deeper":          {deep.String(), "64 deep"},
		"long tag":        {wide.String(), "more than 1 MB"},
		"encoding":        {`<?xml version="1.0" encoding="EBCDIC"?><gpx/>`, "UTF-8"},
		"gzip bomb":       {bomb.String(), "larger than 64 MB"},
		"not gzip":        {"\x1f\x8b\x00\x00", "gzip"},
		"FIT's head only": {string(size[:14]), "no recorded activity"},
	} {
		t.Run(name, func(t *testing.T) {
			most := peak(func() {
				_, err := Read(strings.NewReader(file.data))
				if err == nil || !strings.Contains(err.Error(), file.want) {
					t.Errorf("error %v, want one about %q", err, file.want)
				}
			})
			if most > 200<<20 {
				t.Errorf("took %d MB", most>>20)
			}
		})
	}
	// A false size of data alone loses nothing.
	if f := read(t, size); len(f.Recordings[0].Samples) != 10 {
		t.Errorf("%d samples", len(f.Recordings[0].Samples))
	}
}

// peak returns how much more memory a function allocated.
func peak(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The documents of the recordings that the FIT library ships are valid, make sense, and
// agree with the devices.
func TestSampleFilesMakeGoodDocuments(t *testing.T) {
	made := 0
	for _, path := range sampleFiles(t) {
		r, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, privacy := range []activityschema.Privacy{activityschema.PrivacyPublic, activityschema.PrivacyNoGPS} {
			_, _ = r.Seek(0, io.SeekStart)
			f, err := Read(r)
			if err != nil {
				break // workouts, settings
			}
			for n, rec := range f.Recordings {
				totals := rec.Totals
				d, err := f.Detail(n)
				if err == nil {
					d, err = Policy{Privacy: privacy}.apply(d)
				}
				if err != nil {
					t.Fatal(path, err)
				}
				if _, err := d.MarshalJSON(); err != nil {
					t.Error(path, err)
				}
				for _, finding := range activityschema.Lint(&activityschema.Document{Detail: d}) {
					t.Errorf("%s, %d: %+v", path, n, finding)
				}
				if totals.DistanceM > 0 {
					about(t, path+": distance", *d.DistanceM, totals.DistanceM, totals.DistanceM/100)
				}
				if totals.AscentM > 0 {
					about(t, path+": gain", *d.ElevationGainM, totals.AscentM, totals.AscentM/10)
				}
				made++
			}
		}
		_ = r.Close()
	}
	if made < 40 {
		t.Errorf("only %d documents", made)
	}
}

// A second lap may begin while the first goes on, and a file may have more sessions than one.
func TestSessionsOfATriathlon(t *testing.T) {
	for _, path := range sampleFiles(t) {
		if !strings.HasSuffix(path, "triathlon_summary_last.fit") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		var sports []string
		for n, rec := range f.Recordings {
			d, err := f.Detail(n)
			if err != nil {
				t.Fatal(err)
			}
			sports = append(sports, string(rec.Sport))
			if d.StartedAt.Before(time.Date(2023, 9, 2, 0, 0, 0, 0, time.UTC)) || len(d.Laps) == 0 || d.Laps[0].Index != 0 {
				t.Errorf("session %d: %s with %d laps", n, d.StartedAt, len(d.Laps))
			}
		}
		if got := strings.Join(sports, " "); got != "swimming other cycling other running" {
			t.Error(got)
		}
		return
	}
	t.Error("no triathlon among the samples")
}

func fuzz(f *testing.F, seeds ...[]byte) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		for n := range file.Recordings {
			d, err := file.Detail(n)
			if err != nil {
				continue
			}
			d.Privacy = activityschema.PrivacyPublic
			if _, err := d.MarshalJSON(); err != nil {
				t.Error(err)
			}
			for _, finding := range activityschema.Lint(&activityschema.Document{Detail: d}) {
				if finding.Severity == activityschema.SeverityError {
					t.Errorf("%+v", finding)
				}
			}
		}
	})
}

func FuzzGPX(f *testing.F) { fuzz(f, newRide(4).gpx(), []byte("<gpx><trk><trkseg>")) }
func FuzzTCX(f *testing.F) { fuzz(f, newRide(4).tcx(), []byte("<TrainingCenterDatabase><Activities>")) }
func FuzzFIT(f *testing.F) {
	r := newRide(4)
	r.pauseAt = 2
	fuzz(f, r.fit(), r.fit()[:60], append(r.fit(), r.fit()...))
}

func BenchmarkDocument(b *testing.B) {
	r := newRide(100_000)
	for name, data := range r.formats() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := read(b, data).Detail(0)
				if err == nil {
					_, err = d.MarshalJSON()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
