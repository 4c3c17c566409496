package publish

import (
	"bufio"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muktihari/fit/decoder"
	"github.com/muktihari/fit/profile/mesgdef"
	"github.com/muktihari/fit/profile/untyped/mesgnum"

	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// sampleFiles are the recordings that the FIT library ships, read where the module is.
func sampleFiles(t testing.TB) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/muktihari/fit")
	out, err := list.Output()
	must(t, err)
	var files []string
	dir := filepath.Join(strings.TrimSpace(string(out)), "testdata")
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".fit") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// The full decoder of the library has the tables of the whole profile. Ours has those of few
// messages, and must read the same from them.
func TestFITValuesAreThoseOfTheFullDecoder(t *testing.T) {
	racetest.Skip(t)
	read := 0
	for _, file := range sampleFiles(t) {
		f, err := os.Open(file)
		must(t, err)
		got := &File{}
		err = readFIT(bufio.NewReader(f), got)
		_, _ = f.Seek(0, 0)
		var want []Sample
		add := func(s Sample) {
			if n := len(want); n > 0 && want[n-1].At == s.At && s.At > 0 {
				want[n-1].merge(&s)
			} else {
				want = append(want, s)
			}
		}
		d, activity := decoder.New(f), true
		for d.Next() {
			id, idErr := d.PeekFileId()
			activity = idErr == nil && id.Type == fitFileActivity
			full, decodeErr := d.Decode()
			if decodeErr != nil {
				break
			}
			for i := range full.Messages {
				if activity && full.Messages[i].Num == mesgnum.Record {
					add(fullSample(mesgdef.NewRecord(&full.Messages[i])))
				}
			}
			if len(want) > 0 {
				want = append(want, Sample{At: -1}) // the next sequence joins nothing
			}
		}
		// The library cuts a digit of speeds where it copies them to the field of more bits.
		var have []Sample
		for _, rec := range got.Recordings {
			have = append(have, rec.Samples...)
		}
		n := 0
		for _, w := range want {
			if w.At < 0 {
				continue
			}
			if n >= len(have) {
				break
			}
			h := have[n]
			n++
			if h.At != w.At || !alike(h.Lat, w.Lat) || !alike(h.Lon, w.Lon) || !alike(h.ElevationM, w.ElevationM) ||
				!alike(h.DistanceM, w.DistanceM) || math.Abs(h.SpeedMS-w.SpeedMS) > 0.0011 ||
				!alike(h.TempC, w.TempC) ||
				h.HRBpm != w.HRBpm || h.CadenceRpm != w.CadenceRpm || h.PowerW != w.PowerW {
				t.Fatalf("%s: sample %d is %+v, the library has %+v", file, n-1, h, w)
			}
		}
		if activity && n != len(have) && !errors.Is(err, errNoActivity) && len(got.Warnings) == 0 {
			t.Errorf("%s: %d samples, the library has %d", file, len(have), n)
		}
		read += n
		_ = f.Close()
		t.Logf("%s: %d recordings, %d samples, %v %q",
			filepath.Base(file), len(got.Recordings), len(have), err, got.Warnings)
	}
	if read < 50_000 {
		t.Errorf("compared %d samples only", read)
	}
}

func alike(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-6
}

func fullSample(r *mesgdef.Record) Sample {
	s := newSample()
	s.At = max(0, r.Timestamp.UnixMilli()) // the zero time if there is none
	s.Lat, s.Lon = r.PositionLatDegrees(), r.PositionLongDegrees()
	s.ElevationM, s.DistanceM, s.SpeedMS = r.EnhancedAltitudeScaled(), r.DistanceScaled(), r.EnhancedSpeedScaled()
	if math.IsNaN(s.ElevationM) {
		s.ElevationM = r.AltitudeScaled()
	}
	if math.IsNaN(s.SpeedMS) {
		s.SpeedMS = r.SpeedScaled()
	}
	if r.Temperature != 0x7f {
		s.TempC = float64(r.Temperature)
	}
	if r.HeartRate != 0xff {
		s.HRBpm = int32(r.HeartRate)
	}
	if r.Cadence != 0xff {
		s.CadenceRpm = int32(r.Cadence)
	}
	if r.Power != 0xffff {
		s.PowerW = int32(r.Power)
	}
	return s
}
