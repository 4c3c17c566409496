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
	Add    placeAddCommand    `cmd:"" help:"Hide a place, such as your home, in blurred activities."`
	List   placeListCommand   `cmd:"" help:"List the names of the places, not where they are."`
	Remove placeRemoveCommand `cmd:"" help:"Stop hiding a place. Documents that hide it already stay as they are."`
}

// placesFlag names the file of places.
type placesFlag struct {
	Places string `default:"places.yaml" placeholder:"FILE" help:"File of the places: beside the published folder, never in it (places.yaml in the working folder)."`
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
	Near   string  `required:"" placeholder:"FILE|LAT,LON" help:"Where it is: a recording that begins there, or a latitude and a longitude in degrees, as --near=-33.9,18.4."`
	Radius float64 `default:"2000" placeholder:"METRES" help:"How much to hide, 1500 to 15000 metres (2000). A larger radius hides the place better and costs more of each track."`
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
	c.compare(p, places)
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

// compare prints what each radius shows of the recordings beside the one that was given, and who finds the place.
func (c *placeAddCommand) compare(p *cli.Program, places *publish.Places) {
	if info, err := os.Stat(c.Near); err != nil || info.IsDir() {
		return // LAT,LON
	}
	near, metres, costs := places.Costs(places.Places[len(places.Places)-1], filepath.Dir(c.Near))
	if near == 0 {
		return
	}
	fmt.Fprintf(p.Stdout, "of %s beside it, %.0f km:\n", activitiesOf(near), metres/1000)
	for _, o := range costs {
		fmt.Fprintf(p.Stdout, "  --radius %.0f shows %.0f km (%.0f %%) and hides %d as too short. %s\n", o.RadiusM,
			o.ShownM/1000, 100*o.ShownM/metres, o.TooShort, chanceOf(o.RadiusM, o.WaysOut))
	}
	if best := publish.Proposed(metres, costs); best != c.Radius {
		fmt.Fprintf(p.Stdout, "proposed: --radius %.0f (cairn activity place remove %s, then add it again)\n",
			best, cli.Shown(c.Name))
	}
}

// chanceOf says who finds a place of which so many activities show ways out.
func chanceOf(radius float64, activities int) string {
	found := publish.ChanceOf(radius, activities)
	return fmt.Sprintf("Somebody with a street map finds such a home in %s %d of 100 towns "+
		"to within 50 m, in %d to within 100 m", bound(found, activities), found.Within50M, found.Within100M)
}

// bound says on which side of a chance the truth is: of more activities than were measured it is worse.
func bound(c publish.Chance, activities int) string {
	if activities > c.Activities {
		return "more than"
	}
	return "up to"
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
		if err := l.Add(place.Name, document, cli.Shown(place.Name), fmt.Sprintf("%.0f m", place.RadiusM)); err != nil {
			return err
		}
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

// printWays prints how many documents of a folder show ways out of the places, and who finds these.
func printWays(p *cli.Program, dir string, ways []publish.Ways) {
	for _, w := range ways {
		name := cli.Shown(w.Place.Name)
		if w.Within > 0 {
			fmt.Fprintf(p.Stderr, "cairn: warning: %s: shown in %s nearer than its radius: cairn activity blur %s\n",
				name, activitiesOf(w.Within), cli.Shown(dir))
		}
		if w.Out == 0 {
			continue
		}
		fmt.Fprintf(p.Stdout, "%s: ways out in %s. %s", name, activitiesOf(w.Out), chanceOf(w.Place.RadiusM, w.Out))
		if c := publish.ChanceOf(publish.MaxRadiusM, w.Out); c.RadiusM > w.Place.RadiusM {
			const other = "; with --radius %.0f in %s %d and %d"
			fmt.Fprintf(p.Stdout, other, c.RadiusM, bound(c, w.Out), c.Within50M, c.Within100M)
		}
		fmt.Fprintln(p.Stdout)
	}
}

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
