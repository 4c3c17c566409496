package publish

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// checked returns the document of a file's only recording, which must be valid and make sense.
func checked(t testing.TB, f *File) *activityschema.Detail {
	t.Helper()
	d, err := f.Detail(0)
	must(t, err)
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
// FIT has the altitude 0 as -500 m.
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
		"out of reach": func(l []string) {
			for _, i := range []int{0, 100, 299} { // where the device was switched off last, and errors
				l[first+i] = strings.Replace(l[first+i], `lat="47`, `lat="-33`, 1)
			}
		},
		"no altitude": func(l []string) {
			l[first+50] = strings.Replace(l[first+50], "<ele>4", "<ele>-500.0</ele><ele-was>4", 1)
			l[first+50] = strings.Replace(l[first+50], "</ele><time>", "</ele-was><time>", 1)
		},
		"not a time": func(l []string) { l[first+50] = strings.Replace(l[first+50], "2026-", "20x6-", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			d := change(edit)
			about(t, "distance", *d.DistanceM, r.metres(), 2*rideMS)
			about(t, "duration", float64(*d.DurationS), 299, 1)
			about(t, "gain", *d.ElevationGainM, 100, 7) // nothing is added across a break
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
			same(t, "a packed file is not the same recording", whole.Hash, read(t, data).Hash)
			if f := read(t, append(bytes.Clone(packed.Bytes()), make([]byte, 512)...)); f.Warnings != nil {
				t.Errorf("of zeros behind a packed file: %q", f.Warnings)
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

// A wheel measures from the start, satellites are found in the middle.
func TestPositionsThatComeLateDoNotRaiseTheSpeed(t *testing.T) {
	r := newRide(600)
	part := strings.SplitAfter(string(r.tcx()), "</Trackpoint>\n")
	for i := range part {
		part[i] = strings.ReplaceAll(part[i], "<ns3:Watts>", "<ns3:Speed>5</ns3:Speed><ns3:Watts>")
		part[i] = strings.ReplaceAll(part[i], "<Track>", fmt.Sprintf("<DistanceMeters>%.1f</DistanceMeters><Track>", r.metres()))
		if i < 300 {
			part[i] = regexp.MustCompile(`<Position>.*?</Position>`).ReplaceAllString(part[i], "")
		}
	}
	d, err := read(t, []byte(strings.Join(part, ""))).Detail(0)
	must(t, err)
	if *d.MovingTimeS < 598 || *d.AvgSpeedKmh > 18.1 {
		t.Errorf("moved for %d s at %v km/h, want 598 and 18", *d.MovingTimeS, *d.AvgSpeedKmh)
	}
}

// Some programs write numbers as their users do.
func TestDecimalCommaIsRead(t *testing.T) {
	r := newRide(60)
	commas := regexp.MustCompile(`(lat|lon)="(-?\d+)\.(\d+)"`).ReplaceAll(r.gpx(), []byte(`$1="$2,$3"`))
	d, err := read(t, commas).Detail(0)
	must(t, err)
	if d.DistanceM == nil || math.Abs(*d.DistanceM-r.metres()) > 1 {
		t.Errorf("distance %v, want %v", d.DistanceM, r.metres())
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	racetest.Skip(t)
	ride := newRide(10)
	many := strings.Repeat("<a>", 100)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(ride.fit())
	_, _ = z.Write(make([]byte, 100<<20))
	_ = z.Close()
	// A small file of 16 MB.
	packed := func(begin, part string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, begin)
		_, _ = io.WriteString(z, strings.Repeat(part, 16<<20/len(part)))
		_ = z.Close()
		return b.String()
	}
	var noRecords fitWriter
	noRecords.message(fitFileID, fitUint{0, 1, 0, fitFileActivity})
	var manyRecords fitWriter
	manyRecords.message(fitRecord, fitUint{fitTimestamp, 4, 0x86, 1e9})
	for i := range maxSamples {
		manyRecords.Write(append([]byte{0}, binary.LittleEndian.AppendUint32(nil, uint32(1e9+1+i))...))
	}
	var manyRests fitWriter
	for i := range 20_000 {
		manyRests.message(fitLap, fitUint{2, 4, 0x86, uint64(1e8 + i*90_000)})
	}
	for i := range 20_000 {
		manyRests.message(fitRecord, fitUint{fitTimestamp, 4, 0x86, uint64(1e8 + i/2*90_000 + i%2)})
	}
	const training = "<TrainingCenterDatabase><Activities>"
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
		"deep":            {"<gpx>" + many, "64 deep"},
		"deeper":          {deep.String(), "64 deep"},
		"long tag":        {wide.String(), "more than 1 MB"},
		"encoding":        {"\x4c\x6f\xa7\x94\x93\x40", "not a GPX, TCX or FIT file"}, // <?xml in EBCDIC
		"gzip bomb":       {bomb.String(), "larger than 64 MB"},
		"many samples":    {string(manyRecords.file()), "500000 samples"},
		"empty tracks":    {packed("<gpx>", "<trk/>"), "1000 activities"},
		"empty sports":    {packed(training, "<Activity/>"), "1000 activities"},
		"empty laps":      {packed(training+"<Activity>", "<Lap/>"), "50000 laps"},
		"many rests":      {string(manyRests.file()), "1000 activities"},
		"chained FIT":     {packed("", string(noRecords.file())), "1000 activities"},
		"attributes":      {"<gpx " + strings.Repeat("a='' ", 10<<20) + ">", "more than 1 MB"},
		"comment":         {"<gpx><!--" + strings.Repeat("x", 10<<20), "more than 1 MB"},
		"not gzip":        {"\x1f\x8b\x00\x00", "gzip"},
		"FIT's head only": {string(size[:14]), "no recorded activity"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := peak(func() {
				_, err := Read(strings.NewReader(file.data))
				if err == nil || !strings.Contains(err.Error(), file.want) {
					t.Errorf("error %v, want one about %q", err, file.want)
				}
			})
			t.Logf("%d MB", memory>>20)
			if memory > 200<<20 {
				t.Errorf("took %d MB", memory>>20)
			}
		})
	}
	// A false size of data alone loses nothing.
	same(t, "samples", len(read(t, size).Recordings[0].Samples), 10)
}

// peak returns how much memory a function needs, at its most.
func peak(do func()) (most uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	debug.FreeOSMemory()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	before := heap[0].Value.Uint64()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for {
		metrics.Read(heap)
		most = max(most, heap[0].Value.Uint64())
		select {
		case <-done:
			return most - min(most, before)
		case <-time.After(time.Millisecond):
		}
	}
}

// The documents of the recordings that the FIT library ships are valid, make sense, and
// agree with the devices.
func TestSampleFilesMakeGoodDocuments(t *testing.T) {
	racetest.Skip(t)
	made := 0
	for _, path := range sampleFiles(t) {
		r, err := os.Open(path)
		must(t, err)
		for _, privacy := range []activityschema.Privacy{activityschema.PrivacyPublic, activityschema.PrivacyNoGPS} {
			_, _ = r.Seek(0, io.SeekStart)
			f, err := Read(r)
			if err != nil {
				break // workouts, settings
			}
			balanced(t, f)
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
				if totals.MovingS > 0 {
					about(t, path+": moving time", float64(*d.MovingTimeS), totals.MovingS, max(1, totals.MovingS/50))
				}
				if totals.AvgHR > 0 {
					about(t, path+": heart rate", float64(*d.AvgHRBpm), totals.AvgHR, totals.AvgHR/100)
				}
				if totals.AvgPower > 0 {
					about(t, path+": power", float64(*d.AvgPowerW), totals.AvgPower, totals.AvgPower/100)
				}
				if totals.AscentM > 0 {
					about(t, path+": gain", *d.ElevationGainM, totals.AscentM, totals.AscentM/10)
				}
				made++
				if privacy == activityschema.PrivacyPublic {
					computed(t, fmt.Sprint(filepath.Base(path), " ", n), d, totals)
				}
			}
		}
		_ = r.Close()
	}
	if made < 40 {
		t.Errorf("only %d documents", made)
	}
}

// unlikeDevice are recordings of which the samples give other values than the device, and why.
var unlikeDevice = map[string]string{
	"big_activity.fit 0":            "generated: the position never changes",
	"HrmPluginTestActivity.fit 0":   "a walk indoors, whose positions wander by 240 m",
	"triathlon_summary_first.fit 0": "under water positions jitter: 6 % more than the device, which filters them",
	"triathlon_summary_first.fit 1": "150 s between sports: the barometer still shows the swim",
	"triathlon_summary_first.fit 3": "70 s between sports",
}

// computed compares what Derive computes from samples alone with the totals of the device.
func computed(t *testing.T, name string, d *activityschema.Detail, device Totals) {
	t.Helper()
	if unlikeDevice[strings.Replace(name, "last", "first", 1)] != "" { // the same triathlon in another order
		return
	}
	if err := Derive(d); err != nil {
		t.Fatal(name, err)
	}
	if d.DistanceM != nil && device.DistanceM > 0 {
		about(t, name+": computed distance", *d.DistanceM, device.DistanceM, device.DistanceM/100)
	}
	if d.ElevationGainM != nil && device.AscentM > 0 {
		about(t, name+": computed gain", *d.ElevationGainM, device.AscentM, device.AscentM/10)
		about(t, name+": computed loss", *d.ElevationLossM, device.DescentM, device.DescentM/10)
	}
}

// A second lap may begin while the first goes on, and a file may have more sessions than one.
func TestSessionsOfATriathlon(t *testing.T) {
	for _, path := range sampleFiles(t) {
		if !strings.HasSuffix(path, "triathlon_summary_last.fit") {
			continue
		}
		data, err := os.ReadFile(path)
		must(t, err)
		f, err := Read(bytes.NewReader(data))
		must(t, err)
		var sports []string
		for n, rec := range f.Recordings {
			d, err := f.Detail(n)
			must(t, err)
			sports = append(sports, string(rec.Sport))
			if d.StartedAt.Before(time.Date(2023, 9, 2, 0, 0, 0, 0, time.UTC)) || len(d.Laps) == 0 ||
				d.Laps[0].Index != 0 {
				t.Errorf("session %d: %s with %d laps", n, d.StartedAt, len(d.Laps))
			}
		}
		same(t, "sports", strings.Join(sports, " "), "swimming other cycling other running")
		return
	}
	t.Error("no triathlon among the samples")
}

func TestNamesOfSports(t *testing.T) {
	for name, want := range map[string]string{
		"Biking": "cycling", "Ride": "cycling", "VirtualRide": "cycling indoor", "virtual_ride": "cycling indoor",
		"MountainBikeRide": "cycling mountain", "e_bike_mountain": "cycling mountain", "TrailRun": "running trail",
		"GravelRide": "cycling gravel", "EBikeRide": "cycling", "Radfahren": "cycling", "Rad": "cycling",
		"Mountainbiken": "cycling mountain", "Rennrad": "cycling road", "Laufen": "running", "Trailrunning": "running trail",
		"Wandern": "hiking", "Spaziergang": "walking", "Schwimmen": "swimming", "Vélo": "cycling", "VTT": "cycling mountain",
		"Course à pied": "running", "Randonnée": "hiking", "Marche": "walking", "Natation": "swimming", "Ciclismo": "cycling",
		"Carrera": "running", "Senderismo": "hiking", "Caminata": "walking", "Natación": "swimming", "Skilanglauf": "other",
		"Motorrad": "other", "NordicWalking": "walking", "Snowboard": "other", "HorsebackRiding": "other",
		"VirtualRun": "running indoor", "gravel_cycling": "cycling gravel", "mountain biking": "cycling mountain",
		"Trail Run": "running trail", "9": "running", "Hike": "hiking", "lap_swimming": "swimming indoor",
		"open_water_swimming": "swimming", "motorcycling": "other", "kitesurfing": "other", "": "other",
		"Corsa": "running", "Giro in bici": "cycling", "Escursione": "hiking", "Camminata": "walking", "Nuoto": "swimming",
		"Hardlopen": "running", "Fietsen": "cycling", "Wandelen": "hiking", "Lopen": "walking", "Zwemmen": "swimming",
		"Bieg": "running", "Jazda na rowerze": "cycling", "Wędrówka": "hiking", "Spacer": "walking", "Pływanie": "swimming",
		"Corrida": "running", "Pedalada": "cycling", "Caminhada": "walking", "Natação": "swimming", "Narty": "other",
	} {
		sport, sub := sportNamed(name)
		same(t, name, strings.TrimSpace(string(sport)+" "+string(sub)), want)
	}
	if sport, sub := fitSportOf(13, 9); sport != activityschema.SportOther || sub != "" {
		t.Errorf("downhill skiing is %s %s", sport, sub)
	}
}

// Recordings of one ride by several devices, and rides that are like it.
func TestOneRideOnSeveralDevices(t *testing.T) {
	dir := t.TempDir()
	first, late, far, after := newRide(900), newRide(900), newRide(900), newRide(900)
	late.start, late.lat = late.start.Add(97*time.Second), late.lat+0.0004 // 44 m beside
	far.lon = 9
	after.start = after.start.Add(16 * time.Minute)
	indoors := regexp.MustCompile(`(?s)<Position>.*?</Position>`).ReplaceAll(late.tcx(), nil)
	for _, privacy := range []activityschema.Privacy{activityschema.PrivacyPublic, activityschema.PrivacyNoGPS} {
		im := Import{Dir: filepath.Join(dir, string(privacy)), Policy: Policy{Privacy: privacy}}
		ids := map[string]string{}
		run := func(name string, data []byte) string {
			file := filepath.Join(dir, name)
			must(t, os.WriteFile(file, data, 0o600))
			other := "failed"
			err := im.Run(t.Context(), FindSources([]string{file}).List, func(r Result) {
				if r.Error == "" {
					ids[name], other = r.Activities[0].ID, r.Activities[0].DuplicateOf
				}
			})
			if err != nil {
				t.Error(err)
			}
			return other
		}
		same(t, fmt.Sprintf("%s: the first is a duplicate", privacy), run("first.fit", first.fit()), "")
		for name, data := range map[string][]byte{"late.gpx": late.gpx(), "chest strap.tcx": indoors} {
			same(t, fmt.Sprintf("%s: %s is a duplicate", privacy, name), run(name, data), ids["first.fit"])
		}
		same(t, fmt.Sprintf("%s: the ride afterwards is a duplicate", privacy), run("after.gpx", after.gpx()), "")
		// Of a no_gps activity the folder has no positions, and nobody rides twice at once.
		if of := run("far.gpx", far.gpx()); (of == "") != (privacy == activityschema.PrivacyPublic) {
			t.Errorf("%s: the ride elsewhere is a duplicate of %q", privacy, of)
		}
	}
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
		balanced(t, file)
		for n, r := range file.Recordings {
			d, err := file.Detail(n)
			if err != nil {
				continue
			}
			d.Privacy = activityschema.PrivacyPublic
			if _, err := d.MarshalJSON(); err != nil {
				t.Error(err)
			}
			for _, finding := range activityschema.Lint(&activityschema.Document{Detail: d}) {
				if finding.Severity == activityschema.SeverityError || len(file.Warnings)+len(r.Warnings) == 0 {
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
				must(b, err)
			}
		})
	}
}
