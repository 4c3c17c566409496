//go:build js && wasm

// Command publish-wasm is the program of the page /account/publish/: what "cairn activity place" and "cairn activity
// import" do, in a browser. The worker that runs it (templates/static/publish-worker.js) gives it a file system in
// memory, with the chosen recordings in it, and no network. It is built by .ci/build.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall/js"
	"time"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/activityschema/publish"
)

// The files of the worker.
const (
	recordings  = "recordings"
	placesFile  = "places.yaml"
	site        = "site" // what is packed, with nothing in it but
	folder      = site + "/public"
	folderZip   = "public.zip"
	previewFile = "preview.html"
)

// memoryLimit keeps the garbage collector ahead of the browser's limit for a page.
const memoryLimit = 200 << 20

func main() {
	debug.SetMemoryLimit(memoryLimit)
	js.Global().Set("cairn", js.FuncOf(func(_ js.Value, args []js.Value) any {
		asked, answer := args[0].String(), args[1]
		go func() { // the event loop must go on: it completes the calls of the file system
			reply := func(v any) {
				text, err := json.Marshal(v)
				if err != nil {
					panic(err)
				}
				answer.Invoke(string(text))
			}
			var ask request
			err := json.Unmarshal([]byte(asked), &ask)
			var out any
			if err == nil {
				out, err = ask.do(reply)
			}
			if err != nil {
				out = failure{Code: codeOf(err), Error: err.Error()}
			}
			reply(out)
		}()
		return nil
	}))
	select {}
}

// A request names what to do, with what it needs.
type request struct {
	Do string `json:"do"` // list, add, remove or import

	Name      string  `json:"name"`      // of a place
	Near      string  `json:"near"`      // LAT,LON, or
	Recording int     `json:"recording"` // the index of a recording that begins there
	Radius    float64 `json:"radius"`

	Privacy     activityschema.Privacy `json:"privacy"`
	HideTime    bool                   `json:"hide_time"`
	Titles      bool                   `json:"titles"`
	Handle      string                 `json:"handle"`
	DisplayName string                 `json:"display_name"`
	Zone        string                 `json:"zone"` // of recordings that do not say where they are
}

// A failure has a code if the page has words of its own for it.
type failure struct {
	Code  string `json:"code,omitempty"`
	Error string `json:"error"`
}

var (
	errNotDegrees = errors.New("not a latitude and a longitude in degrees")
	errNoPlaces   = errors.New("no place to hide")
)

func codeOf(err error) string {
	for code, known := range map[string]error{
		"exists": publish.ErrPlaceExists, "unsteady": publish.ErrUnsteady, "no-position": publish.ErrNoPosition,
		"degrees": errNotDegrees, "no-place": errNoPlaces,
	} {
		if errors.Is(err, known) {
			return code
		}
	}
	return ""
}

func (r *request) do(progress func(any)) (any, error) {
	switch r.Do {
	case "import":
		return r.publish(progress)
	case "list":
		sources := publish.FindSources([]string{recordings})
		defer func() { _ = sources.Close() }()
		names := []string{}
		for _, s := range sources.List {
			names = append(names, strings.TrimPrefix(s.Name, recordings+"/"))
		}
		return map[string]any{"recordings": names}, nil
	}
	places, err := publish.LoadPlaces(placesFile)
	if errors.Is(err, fs.ErrNotExist) {
		places, err = publish.NewPlaces(), nil
	}
	if err == nil && r.Do != "places" {
		if err = r.change(places); err == nil {
			err = places.Save(placesFile)
		}
	}
	if err != nil {
		return nil, err
	}
	named := []map[string]any{} // where they are stays in the file
	for _, p := range places.Places {
		named = append(named, map[string]any{"name": p.Name, "radius": p.RadiusM})
	}
	return map[string]any{"places": named, "changed": r.Do != "places"}, nil
}

// change adds or removes a place.
func (r *request) change(places *publish.Places) error {
	if r.Do == "remove" {
		return places.Remove(r.Name)
	}
	lat, lon, err := r.position()
	if err != nil {
		return err
	}
	return places.Add(publish.Place{Name: r.Name, Lat: lat, Lon: lon, RadiusM: r.Radius})
}

func (r *request) position() (lat, lon float64, err error) {
	if r.Near != "" {
		north, east, _ := strings.Cut(r.Near, ",")
		lat, latErr := strconv.ParseFloat(strings.TrimSpace(north), 64)
		lon, lonErr := strconv.ParseFloat(strings.TrimSpace(east), 64)
		if latErr != nil || lonErr != nil || !(math.Abs(lat) <= 90 && math.Abs(lon) <= 180) {
			return 0, 0, errNotDegrees
		}
		return lat, lon, nil
	}
	sources := publish.FindSources([]string{recordings})
	defer func() { _ = sources.Close() }()
	if r.Recording < 0 || r.Recording >= len(sources.List) {
		return 0, 0, publish.ErrNoPosition
	}
	return sources.List[r.Recording].Begin()
}

type message struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// An outcome is what an import did.
type outcome struct {
	publish.Tally
	Listed       int
	Tracks, Near int    // how many have positions, and come near a place
	Common       string // the recording that begins where most do
	Messages     []message
}

// publish does what "cairn activity import" does with a new folder, and packs it.
func (r *request) publish(progress func(any)) (any, error) {
	policy := publish.Policy{Privacy: r.Privacy, HideTime: r.HideTime}
	places, err := publish.LoadPlaces(placesFile)
	switch {
	case err == nil:
		policy.Places = places // also for the names of documents
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	blur := r.Privacy == activityschema.PrivacyBlurStart
	if blur && (places == nil || len(places.Places) == 0) {
		return nil, errNoPlaces
	}
	sources := publish.FindSources([]string{recordings})
	defer func() { _ = sources.Close() }()
	home, err := time.LoadLocation(r.Zone)
	if err != nil {
		home = nil // a browser may know zones that the program does not
	}
	out, done := outcome{Messages: []message{}}, 0
	run := publish.Import{Dir: folder, Policy: policy, Options: publish.Options{Home: home}, Titles: r.Titles}
	err = run.Run(context.Background(), sources.List, func(result publish.Result) {
		file := strings.TrimPrefix(result.File, recordings+"/")
		if result.Error != "" {
			out.Messages = append(out.Messages, message{file, result.Error})
		}
		for _, w := range result.Warnings {
			out.Messages = append(out.Messages, message{file, w})
		}
		done++
		progress(map[string]int{"done": done, "all": len(sources.List)})
	})
	if err != nil {
		return nil, err
	}
	out.Tally, out.Tracks, out.Near = run.Tally, len(run.Starts), run.Hidden
	if blur {
		out.Common, _ = places.CommonStart(run.Starts)
	} else if r.Privacy == activityschema.PrivacyPublic {
		out.Common, _ = (*publish.Places)(nil).CommonStart(run.Starts)
	}
	out.Common = strings.TrimPrefix(out.Common, recordings+"/")
	owner := activityschema.Owner{Handle: r.Handle, DisplayName: r.DisplayName}
	counts, _, err := publish.WriteIndex(context.Background(), folder, owner, time.Now())
	if err != nil {
		return nil, err
	}
	out.Listed = counts.Listed
	var page bytes.Buffer
	if _, _, err := publish.Preview(context.Background(), &page, folder); err != nil {
		return nil, err
	}
	if err := os.WriteFile(previewFile, page.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return out, pack()
}

// pack writes the folder as a zip archive.
func pack() error {
	f, err := os.Create(folderZip)
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	return cmp.Or(z.AddFS(os.DirFS(site)), z.Close(), f.Close())
}
