package publish

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

// archive packs files, whose names and contents alternate.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		must(t, err)
	}
	must(t, z.Close())
	return b.Bytes()
}

// An export of an account is imported as it comes, with its titles where they are wanted.
func TestExportOfAnAccount(t *testing.T) {
	first, second, third := newRide(120), newRide(130), newRide(140)
	second.start, third.start = rideStart.Add(24*time.Hour), rideStart.Add(48*time.Hour)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(first.fit())
	_ = z.Close()
	var steps fitWriter
	steps.message(fitFileID, fitUint{0, 1, 0, 32})
	export := archive(t,
		"activities.csv", "Aktivitäts-ID,Aktivitätsdatum,Name der Aktivität,Beschreibung,Dateiname\n"+
			"1,2026,\"Over the\n pass\u202e, twice\",\"secret, \"\"words\"\"\",activities/1.fit.gz\n2,2026,"+strings.Repeat("é", 300)+",,activities/2.gpx\n3,2026,By hand,,\n",
		"activities/1.fit.gz", packed.String(), "activities/2.gpx", string(second.gpx()), "activities/steps.fit", string(steps.file()),
		"activities/broken.tcx", "hello", "media/1.jpg", "x", "__MACOSX/activities/._2.gpx", "x", ".hidden/3.gpx", string(third.gpx()),
		"inner.zip", string(archive(t, "3.fit", string(third.fit()), "deep.zip", "")), "../../3.tcx", string(third.tcx()))
	dir := t.TempDir()
	file := filepath.Join(dir, "export.zip")
	must(t, os.WriteFile(file, export, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "damaged.zip"), export[:len(export)-30], 0o600))
	for _, titles := range []bool{false, true} {
		sources := FindSources([]string{dir, file})
		im := Import{Dir: filepath.Join(dir, fmt.Sprint("pub", titles)), Policy: Policy{Privacy: activityschema.PrivacyPublic}, Titles: titles}
		var got []string
		shown := map[string]string{}
		err := im.Run(t.Context(), sources.List, func(r Result) {
			got = append(got, fmt.Sprintf("%s: %d %t %s", strings.TrimPrefix(filepath.ToSlash(r.File),
				filepath.ToSlash(dir)+"/"), len(r.Activities), r.NoActivity, r.Error))
			for _, a := range r.Activities {
				d, err := ReadDetail(filepath.Join(im.Dir, detailsFolder, a.ID+".json"))
				must(t, err)
				shown[filepath.Base(r.File)] = d.Title
			}
		})
		if err != nil || sources.Close() != nil {
			t.Fatal(err)
		}
		want := `damaged.zip: 0 false zip: not a valid zip file
export.zip/../../3.tcx: 1 false 
export.zip/activities/1.fit.gz: 1 false 
export.zip/activities/2.gpx: 1 false 
export.zip/activities/broken.tcx: 0 false not a GPX, TCX or FIT file
export.zip/activities/steps.fit: 0 true 
export.zip/inner.zip/3.fit: 1 false 
export.zip/inner.zip/deep.zip: 0 false the archives are nested too deeply: unpack the outer ones, and import the folder`
		same(t, "got", strings.Join(got, "\n"), want)
		if a, b := shown["1.fit.gz"], shown["2.gpx"]; titles && (a != "Over the pass , twice" || b != strings.Repeat("é", 100)) || !titles && a+b != "RideRide" {
			t.Errorf("titles %t: %q", titles, shown)
		}
	}
}
