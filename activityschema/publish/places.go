package publish

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A Place is hidden in blurred tracks, such as a home. Its position is never printed.
type Place struct {
	Name    string  `yaml:"name"`
	Lat     float64 `yaml:"latitude"`
	Lon     float64 `yaml:"longitude"`
	RadiusM float64 `yaml:"radius_m"`
}

// Bounds of a place's radius, in metres.
const (
	MinRadiusM     = 200
	MaxRadiusM     = 5000
	DefaultRadiusM = 400
)

// Places are the places of a person, with the key from which their zones are derived. They are stored
// in a file that is never published.
type Places struct {
	Key    string  `yaml:"key"` // 32 random bytes in base64
	Places []Place `yaml:"places"`

	zones []zone
}

// placesHeader begins the file.
const placesHeader = `# Places that blurred activities do not show. Keep this file secret and do not lose it: with
# another key, the same tracks would be cut elsewhere, and both cuts together reveal more than one.
`

// LoadPlaces reads a file of places. It returns fs.ErrNotExist if there is none, and refuses a file
// that others may read.
func LoadPlaces(file string) (*Places, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read %s, which tells where you live: chmod 600 %s", file, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p := new(Places)
	in := yaml.NewDecoder(bytes.NewReader(data))
	in.KnownFields(true)
	if err := in.Decode(p); err != nil {
		// err may quote a position.
		return nil, fmt.Errorf("%s is not a file of places: repair it or restore a copy", file)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// NewPlaces returns no places, with a new key.
func NewPlaces() *Places {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &Places{Key: base64.StdEncoding.EncodeToString(key)}
}

// Save writes the file as a whole, for its owner alone.
func (p *Places) Save(file string) error {
	data, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return write(file, append([]byte(placesHeader), data...), 0o600)
}

// ErrPlaceExists and ErrNoPlace are returned by Add and Remove.
var (
	ErrPlaceExists = errors.New("there is a place of that name")
	ErrNoPlace     = errors.New("there is no place of that name")
)

// Add adds a place.
func (p *Places) Add(place Place) error {
	if slices.ContainsFunc(p.Places, func(other Place) bool { return other.Name == place.Name }) {
		return ErrPlaceExists
	}
	with := &Places{Key: p.Key, Places: append(slices.Clone(p.Places), place)}
	if err := with.check(); err != nil {
		return err
	}
	*p = *with
	return nil
}

// Remove removes a place.
func (p *Places) Remove(name string) error {
	i := slices.IndexFunc(p.Places, func(place Place) bool { return place.Name == name })
	if i < 0 {
		return ErrNoPlace
	}
	p.Places = slices.Delete(p.Places, i, i+1)
	return p.check()
}

// check validates the places and makes their zones.
func (p *Places) check() error {
	key, err := base64.StdEncoding.DecodeString(p.Key)
	if err != nil || len(key) < 32 {
		return errors.New("the key is not 32 bytes in base64: restore a copy of the file")
	}
	p.zones = nil
	for _, place := range p.Places {
		switch {
		case place.Name == "" || len(place.Name) > 60:
			return errors.New("a place needs a name of 1 to 60 bytes")
		case !(math.Abs(place.Lat) <= 90 && math.Abs(place.Lon) <= 180):
			return fmt.Errorf("the place %q is not on Earth: -90 to 90 and -180 to 180 degrees", place.Name)
		case !(place.RadiusM >= MinRadiusM && place.RadiusM <= MaxRadiusM):
			return fmt.Errorf("the radius of %q is not %d to %d metres", place.Name, MinRadiusM, MaxRadiusM)
		}
		p.zones = append(p.zones, newZone(key, place))
	}
	return nil
}

// hides reports whether a position is in the zone of a place.
func (p *Places) hides(lat, lon float64) bool {
	return slices.ContainsFunc(p.zones, func(z zone) bool { return z.has(lat, lon) })
}

// The shape of a zone, in radii of its place. The place lies anywhere within offsetMax of the centre, with
// equal chance, and the edge of each sector somewhere from edgeMin to edgeMax. Nothing nearer to
// the place than edgeMin-offsetMax is shown. The ends of tracks lie on no circle, and their mean
// and median are far from the place (TestAttackerDoesNotFindTheHome).
const (
	offsetMax = 1.35
	edgeMin   = 2.0
	edgeMax   = 2.9
	sectors   = 4
)

// HiddenM returns the distances from a place, in metres, up to which positions are always hidden and
// beyond which they never are.
func HiddenM(radiusM float64) (least, most float64) {
	return (edgeMin - offsetMax) * radiusM, (edgeMax + offsetMax) * radiusM
}

// A zone is the hidden area around a place. It is the same in every activity and every run, so that
// many activities reveal only its edge.
type zone struct {
	lat, lon float64 // the centre, which is not the place
	east     float64 // metres in a degree of longitude
	turn     float64 // where the first sector begins, in radians
	edges    [sectors]float64
}

// newZone derives the zone of a place from the key and the place's name, so that a place whose
// position is measured again keeps it.
func newZone(key []byte, place Place) zone {
	drawn := 0
	draw := func() float64 { // from 0 to 1
		h := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(h, "zone %d %s", drawn, place.Name)
		drawn++
		return float64(binary.BigEndian.Uint64(h.Sum(nil))>>11) / (1 << 53)
	}
	bearing, offset := 2*math.Pi*draw(), math.Sqrt(draw())*offsetMax*place.RadiusM
	z := zone{east: metreDegree * max(math.Cos(place.Lat*math.Pi/180), 0.01), turn: 2 * math.Pi * draw()}
	z.lat = place.Lat + offset*math.Cos(bearing)/metreDegree
	z.lon = place.Lon + offset*math.Sin(bearing)/z.east
	for i := range z.edges {
		z.edges[i] = (edgeMin + (edgeMax-edgeMin)*draw()) * place.RadiusM
	}
	return z
}

func (z zone) has(lat, lon float64) bool {
	north, east := (lat-z.lat)*metreDegree, math.Remainder(lon-z.lon, 360)*z.east
	away := math.Hypot(north, east)
	if away >= slices.Max(z.edges[:]) {
		return false
	}
	turned := math.Mod(math.Atan2(east, north)+z.turn+2*math.Pi, 2*math.Pi)
	sector := min(int(turned/(2*math.Pi)*sectors), sectors-1)
	return away < z.edges[sector]
}

// commonM is the distance, in metres, within which activities seem to begin at the same place.
const commonM = 300

// A Start is where a recording begins.
type Start struct {
	File     string
	Lat, Lon float64
}

// CommonStart returns the file of an activity that begins, outside the places, where most of at least
// five activities begin: probably a home. p may be nil.
func (p *Places) CommonStart(starts []Start) (file string, found bool) {
	if len(starts) < 5 {
		return "", false
	}
	for _, a := range starts {
		if p != nil && p.hides(a.Lat, a.Lon) {
			continue
		}
		near := 0
		for _, b := range starts {
			if metres(a.Lat, a.Lon, b.Lat, b.Lon) <= commonM {
				near++
			}
		}
		if 2*near > len(starts) {
			return a.File, true
		}
	}
	return "", false
}
