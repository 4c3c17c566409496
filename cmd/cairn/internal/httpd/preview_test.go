package httpd

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/chromedp/cdproto/emulation"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/publish"
)

// sampleActivities writes the page of a public activity, with all that one can have, and of a private one for its owner.
func sampleActivities(w io.Writer, isOwner bool) error {
	ride := &activityschema.Detail{}
	ride.ID, ride.Title, ride.Sport, ride.Privacy = "public-ride", "Ride", activityschema.SportCycling, activityschema.PrivacyPublic
	ride.StartedAt.Time = time.Date(2026, 5, 3, 7, 30, 0, 0, time.UTC)
	s := &ride.Timeseries
	for i := range int64(1000) {
		s.T, s.Lat = append(s.T, i), append(s.Lat, activityschema.Some(47+float64(i)*1e-5))
		s.Lon = append(s.Lon, activityschema.Some(8+math.Sin(float64(i)/100)/100))
		s.ElevationM = append(s.ElevationM, activityschema.Some(400+float64(i%50)))
		s.HRBpm = append(s.HRBpm, activityschema.Some(120+i%40))
	}
	for i := range int64(2) {
		seconds := int64(500)
		start := activityschema.Time{Time: ride.StartedAt.Add(time.Duration(i*seconds) * time.Second)}
		ride.Laps = append(ride.Laps, activityschema.Lap{Index: i, StartedAt: start, DurationS: &seconds})
	}
	if err := publish.Derive(ride); err != nil {
		return err
	}
	details := []*activityschema.Detail{ride}
	if isOwner {
		walk := &activityschema.Detail{Activity: ride.Activity}
		walk.ID, walk.Title, walk.Privacy = "private-walk", "Walk", activityschema.PrivacyPrivate
		details = append(details, walk)
	}
	return publish.WritePreview(w, "Grace", "A note.", details)
}

// The preview has no fault that axe finds, light and dark, and fits a small phone.
func TestPreviewOfActivitiesIsAccessible(t *testing.T) {
	thirdParty(t)
	axe, err := os.ReadFile(filepath.Join(relyingPartyHome(), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no axe-core here: run cmd/cairn/internal/httpd/testdata/rp/install")
	}
	sample := func(w http.ResponseWriter, _ *http.Request) { _ = sampleActivities(w, true) }
	server := httptest.NewServer(http.HandlerFunc(sample))
	t.Cleanup(server.Close)
	tab := chromium(t)
	script := cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: string(axe)}
	if _, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument, script); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		mustDo(t, tab, scheme, chromedp.EmulateViewport(320, 640), chromedp.Navigate(server.URL), chromedp.WaitVisible(id("private-walk")))
		for _, v := range axeViolations(t, tab, "") {
			t.Errorf("%s: %s", scheme, v)
		}
		if wide, err := chromedp.Run(tab, chromedp.Evaluate[int64]("document.documentElement.scrollWidth")); err != nil || wide > 320 {
			t.Errorf("%d pixels wide: %v", wide, err)
		}
		shot(t, tab, "preview-"+scheme)
	}
}

// axeViolations returns the faults that axe finds on the page, which has it.
func axeViolations(t *testing.T, tab context.Context, rules string) []string {
	t.Helper()
	found, err := chromedp.Run(tab, chromedp.Evaluate[[]string](fmt.Sprintf(`axe.run({%s}).then(r => r.violations.map(v =>
		v.id + ": " + v.nodes.map(n => n.target.join(" ") + " " + n.failureSummary).join("; ")))`, rules), chromedp.EvalAwaitPromise))
	noError(t, err)
	return found
}
