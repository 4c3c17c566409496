package publish

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairn-id/cairn/activityschema"
)

//go:embed preview.html
var previewText string

// The most activities in full, and points of a line, that a preview shows.
const (
	previewActivities = 100
	previewPoints     = 500
	chartPoints       = 200
)

type previewActivity struct {
	ID, Title, When, Privacy, Distance string
	Sport                              []string
	Shown                              bool // with its details
	Figures                            [][2]string
	Track                              *previewTrack
	Charts                             []previewChart
	Laps                               []previewLap
}

type previewTrack struct {
	Width, Height int
	Path          string
}

type previewChart struct{ Caption, Path string }

type previewLap struct {
	Number                           int64
	Time, Distance, Speed, HeartRate string
}

// Preview writes a page that shows what visitors of a folder see: one HTML file that loads nothing. It shows
// the newest 100 activities in full and lists the others. Documents that cannot be read are left out and returned.
func Preview(ctx context.Context, w io.Writer, dir string) (shown int, bad []*FileError, err error) {
	owner, err := OwnerOf(dir, activityschema.Owner{})
	if err != nil {
		return 0, nil, err
	}
	entries, bad, err := scan(ctx, dir)
	if err != nil {
		return 0, nil, err
	}
	entries = listed(entries)
	details := make([]*activityschema.Detail, len(entries))
	for i, e := range entries {
		details[i] = &activityschema.Detail{Activity: e.Activity}
		if i < previewActivities {
			file := filepath.Join(dir, detailsFolder, e.ID+".json")
			if details[i], err = ReadDetail(file); err != nil {
				return 0, nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return len(entries), bad, WritePreview(w, owner.DisplayName, "This is what a visitor can see.", details)
}

// WritePreview writes the page of Preview for these activities, the first 100 with all details. The
// note is a sentence about them.
func WritePreview(w io.Writer, owner, note string, details []*activityschema.Detail) error {
	page, err := template.New("preview").Parse(previewText)
	if err != nil {
		return err
	}
	activities := make([]previewActivity, len(details))
	total := 0.0
	for i, d := range details {
		if d.DistanceM != nil {
			total += *d.DistanceM
		}
		if activities[i] = previewOf(&d.Activity); i < previewActivities {
			activities[i].details(d)
		}
	}
	count := fmt.Sprintf("%d activities, %.0f km", len(details), total/1000)
	if len(details) == 1 {
		count = strings.Replace(count, "activities", "activity", 1)
	}
	return page.Execute(w, map[string]any{"Owner": owner, "Count": count, "Note": note, "Activities": activities})
}

func previewOf(a *activityschema.Activity) previewActivity {
	p := previewActivity{ID: a.ID, Title: cmp.Or(a.Title, titles[a.Sport], "Activity")}
	p.Sport = []string{string(a.Sport)}
	start := a.StartedAt.Time
	layout := "2 January 2006, 15:04 MST"
	if start.UTC().Equal(start.UTC().Truncate(24 * time.Hour)) {
		layout = "2 January 2006" // the day alone
	}
	p.When = start.Format(layout)
	if _, offset := start.Zone(); offset != 0 {
		p.When = strings.TrimSuffix(start.Format(strings.TrimSuffix(layout, " MST")), " ")
	}
	if a.SubSport != nil {
		p.Sport = append(p.Sport, string(*a.SubSport))
	}
	p.Privacy = map[activityschema.Privacy]string{
		activityschema.PrivacyPublic: "public", activityschema.PrivacyBlurStart: "places hidden",
		activityschema.PrivacyNoGPS: "no positions", activityschema.PrivacyPrivate: "private",
	}[a.Privacy]
	p.Distance = kilometres(a.DistanceM)
	add := func(name, value string) {
		if value != "" {
			p.Figures = append(p.Figures, [2]string{name, value})
		}
	}
	add("Distance", p.Distance)
	add("Duration", clock(a.DurationS))
	add("Moving", clock(a.MovingTimeS))
	add("Climb", withUnit(a.ElevationGainM, "%.0f m"))
	add("Average speed", withUnit(a.AvgSpeedKmh, "%.1f km/h"))
	add("Highest speed", withUnit(a.MaxSpeedKmh, "%.1f km/h"))
	add("Average heart rate", withUnit(a.AvgHRBpm, "%d bpm"))
	add("Highest heart rate", withUnit(a.MaxHRBpm, "%d bpm"))
	add("Average power", withUnit(a.AvgPowerW, "%d W"))
	add("Average cadence", withUnit(a.AvgCadenceRpm, "%d rpm"))
	return p
}

// details adds what the detail document shows beside the summary.
func (p *previewActivity) details(d *activityschema.Detail) {
	p.Shown = true
	s := &d.Timeseries
	p.Track = trackOf(s)
	p.Charts = append(chartOf(s.T, s.ElevationM, "Elevation, %.0f to %.0f m"),
		chartOf(s.T, s.HRBpm, "Heart rate, %.0f to %.0f bpm")...)
	if len(d.Laps) < 2 {
		return
	}
	for _, l := range d.Laps {
		p.Laps = append(p.Laps, previewLap{
			l.Index + 1, clock(l.DurationS), kilometres(l.DistanceM),
			withUnit(l.AvgSpeedKmh, "%.1f km/h"), withUnit(l.AvgHRBpm, "%d bpm"),
		})
	}
}

func withUnit[T int64 | float64](v *T, format string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

func kilometres(metres *float64) string {
	if metres == nil {
		return ""
	}
	return fmt.Sprintf("%.1f km", *metres/1000)
}

func clock(seconds *int64) string {
	if seconds == nil {
		return ""
	}
	return fmt.Sprintf("%d:%02d:%02d", *seconds/3600, *seconds/60%60, *seconds%60)
}

// trackOf draws the positions in a box of 600 units; nil without any.
func trackOf(s *activityschema.Timeseries) *previewTrack {
	m := motion{Timeseries: s}
	box, _, _ := m.box()
	if box == nil {
		return nil
	}
	narrow := max(math.Cos((box[1]+box[3])/2*math.Pi/180), 0.01)
	wide, high := math.Mod(box[2]-box[0]+360, 360)*narrow, box[3]-box[1]
	scale := 600 / max(wide, high, 1e-4)
	const margin = 10
	at := func(i int) (x, y float64, ok bool) {
		if !m.has(i) {
			return 0, 0, false
		}
		x = margin + math.Mod(s.Lon[i].Value-box[0]+360, 360)*narrow*scale
		y = margin + (box[3]-s.Lat[i].Value)*scale
		return x, y, true
	}
	return &previewTrack{int(wide*scale) + 2*margin, int(high*scale) + 2*margin, lineOf(len(s.T), previewPoints, at)}
}

// lineOf returns n points, reduced to a maximum, as an SVG path, with a break for a missing point.
func lineOf(n, most int, at func(i int) (x, y float64, ok bool)) string {
	var path strings.Builder
	every, since, broken := max(1, (n+most-1)/most), 0, true
	for i := range n {
		x, y, ok := at(i)
		if !ok {
			broken = true
			continue
		}
		_, _, goesOn := at(min(i+1, n-1))
		if since++; !broken && since < every && goesOn && i < n-1 {
			continue
		}
		step := 'L'
		if broken {
			step = 'M'
		}
		fmt.Fprintf(&path, "%c%.1f %.1f", step, x, y)
		since, broken = 0, false
	}
	return path.String()
}

// chartOf draws a column over time in a box of 400 by 80 units; none without values. Its caption has the bounds.
func chartOf[T int64 | float64](t activityschema.Integers, c activityschema.Column[T], caption string) []previewChart {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range c {
		if v.Valid {
			low, high = min(low, float64(v.Value)), max(high, float64(v.Value))
		}
	}
	n := min(len(t), len(c))
	if n < 2 || low > high {
		return nil
	}
	begin, seconds, height := float64(t[0]), max(float64(t[n-1]-t[0]), 1), max(high-low, 1)
	path := lineOf(n, chartPoints, func(i int) (x, y float64, ok bool) {
		return (float64(t[i]) - begin) / seconds * 400, 76 - (float64(c[i].Value)-low)/height*72, c[i].Valid
	})
	return []previewChart{{fmt.Sprintf(caption, low, high), path}}
}
