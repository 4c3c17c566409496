package recordings

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/activityschema/publish"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type placeCommand struct {
	Add    placeAddCommand    `cmd:""`
	List   placeListCommand   `cmd:""`
	Remove placeRemoveCommand `cmd:""`
}

// placesFlag names the file of places.
type placesFlag struct {
	Places string `default:"places.yaml" placeholder:"FILE"`
}

// load reads the places; none and a new key if there is no file yet.
func (f placesFlag) load() (places *publish.Places, isNew bool, err error) {
	places, err = publish.LoadPlaces(f.Places)
	if errors.Is(err, fs.ErrNotExist) {
		return publish.NewPlaces(), true, nil
	}
	return places, false, err
}

type placeAddCommand struct {
	placesFlag
	Name   string  `arg:"" help:"Name, for you alone."`
	Near   string  `required:"" placeholder:"FILE|LAT,LON"`
	Radius float64 `default:"2000" placeholder:"METRES"`
}

// Run adds a place to the file.
func (c *placeAddCommand) Run(p *cli.Program) error {
	if err := notPublished(c.Places, filepath.Dir(c.Places), false); err != nil {
		return err
	}
	lat, lon, err := c.position()
	if err != nil {
		return err
	}
	places, isNew, err := c.load()
	if err != nil {
		return err
	}
	err = places.Add(publish.Place{Name: c.Name, Lat: lat, Lon: lon, RadiusM: c.Radius})
	if errors.Is(err, publish.ErrPlaceExists) {
		return cli.UsageError(fmt.Sprintf("there is a place %s in %s: remove it first, or choose another name",
			cli.Shown(c.Name), cli.Shown(c.Places)))
	}
	if err != nil {
		return cli.UsageError(err.Error())
	}
	if err := places.Save(c.Places); err != nil {
		return err
	}
	least, most := publish.HiddenM(c.Radius)
	fmt.Fprintf(p.Stdout, "%s is hidden: blurred tracks begin and end between %.0f and %.0f metres from it\n",
		cli.Shown(c.Name), least, most)
	if isNew {
		const advice = "%s has the places and their key: keep it, back it up, and never publish it\n"
		fmt.Fprintf(p.Stdout, advice, cli.Shown(c.Places))
	}
	return nil
}

// position returns where the place is.
func (c *placeAddCommand) position() (lat, lon float64, err error) {
	if north, east, ok := strings.Cut(c.Near, ","); ok {
		lat, latErr := strconv.ParseFloat(strings.TrimSpace(north), 64)
		lon, lonErr := strconv.ParseFloat(strings.TrimSpace(east), 64)
		if latErr == nil && lonErr == nil && math.Abs(lat) <= 90 && math.Abs(lon) <= 180 {
			return lat, lon, nil
		}
	}
	if _, err := os.Stat(c.Near); err != nil {
		const what = "--near is neither a recording that can be read nor LAT,LON in degrees, as 47.0000,8.0000"
		return 0, 0, cli.UsageError(what)
	}
	source := publish.Source{Path: c.Near}
	lat, lon, err = source.Begin()
	switch {
	case errors.Is(err, publish.ErrNoPosition), errors.Is(err, publish.ErrUnsteady):
		return 0, 0, cli.UsageError(fmt.Sprintf("%s: %s: choose another recording that begins at the place, "+
			"or give its LAT,LON", cli.Shown(c.Near), err))
	case err != nil:
		return 0, 0, fmt.Errorf("%s: %w", cli.Shown(c.Near), err)
	}
	return lat, lon, nil
}

type placeListCommand struct {
	cli.Output
	placesFlag
}

// Run lists the places by name.
func (c *placeListCommand) Run(p *cli.Program) error {
	places, _, err := c.load()
	if err != nil {
		return err
	}
	l := c.List(p, "NAME", "RADIUS")
	for _, place := range places.Places {
		document := map[string]any{"name": place.Name, "radius_m": place.RadiusM}
		l.Add(place.Name, document, cli.Shown(place.Name), fmt.Sprintf("%.0f m", place.RadiusM))
	}
	return l.End()
}

type placeRemoveCommand struct {
	placesFlag
	Name string `arg:"" help:"Name of the place."`
}

// Run removes a place from the file.
func (c *placeRemoveCommand) Run(p *cli.Program) error {
	places, _, err := c.load()
	if err == nil {
		err = places.Remove(c.Name)
	}
	if errors.Is(err, publish.ErrNoPlace) {
		return fmt.Errorf("there is no place %s in %s: cairn activity place list shows them",
			cli.Shown(c.Name), cli.Shown(c.Places))
	}
	if err == nil {
		err = places.Save(c.Places)
	}
	return err
}

// toHide returns the places that blurred activities hide, or what to type if there are none. published
// reports whether dir is certainly a folder for publishing.
func (f placesFlag) toHide(dir string, published bool) (*publish.Places, error) {
	if err := notPublished(f.Places, dir, published); err != nil {
		return nil, err
	}
	places, _, err := f.load()
	if err == nil && len(places.Places) == 0 {
		err = cli.UsageError(fmt.Sprintf("no place to hide in %s: "+
			"cairn activity place add home --near RECORDING adds the place where one begins", cli.Shown(f.Places)))
	}
	return places, err
}

// mapNote says what blurring does not do.
const mapNote = "with a street map, and many activities, a home may still be found: docs/publish.md says how often\n"

// notPublished refuses a file of places, or a recording, in a folder that is published: surely, or if it
// looks like one.
func notPublished(file, dir string, surely bool) error {
	full, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	_, indexErr := os.Stat(filepath.Join(dir, indexFile))
	_, detailsErr := os.Stat(filepath.Join(dir, detailsFolder))
	inside := strings.HasPrefix(full, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
	if inside && (surely || indexErr == nil || detailsErr == nil) {
		return cli.UsageError(fmt.Sprintf("%s would be published with the folder %s: "+
			"keep it beside the folder (places are named by --places)", cli.Shown(file), cli.Shown(dir)))
	}
	return nil
}
