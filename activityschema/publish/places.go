package publish

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Place is hidden in blurred tracks, such as a home. Its position is never printed.
type Place struct {
	Name    string  `yaml:"name"`
	Lat     float64 `yaml:"latitude"`
	Lon     float64 `yaml:"longitude"`
	RadiusM float64 `yaml:"hidden_m"`
}

// Bounds of a place's radius, in metres.
const (
	MinRadiusM     = 1500
	maxRadiusM     = 15_000
	DefaultRadiusM = 2000
)

// offsetM is the greatest distance of a place from the centre of its zone, in metres. It is less than every radius,
// and does not depend on it: zones of two radii around one place have one centre, so that publishing both tells no
// more than publishing the smaller.
const offsetM = 1000

// Places are the places of a person, with the key from which their zones are derived. They are stored
// in a file that is never published.
type Places struct {
	Key    string  `yaml:"key"` // 32 random bytes in base64
	Places []Place `yaml:"places"`

	key   []byte
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
	p.key, p.zones = key, nil
	for _, place := range p.Places {
		switch {
		case place.Name == "" || len(place.Name) > 60:
			return errors.New("a place needs a name of 1 to 60 bytes")
		case !(math.Abs(place.Lat) <= 90 && math.Abs(place.Lon) <= 180):
			return fmt.Errorf("the place %q is not on Earth: -90 to 90 and -180 to 180 degrees", place.Name)
		case !(place.RadiusM >= MinRadiusM && place.RadiusM <= maxRadiusM):
			return fmt.Errorf("the radius of %q is not %d to %d metres", place.Name, MinRadiusM, maxRadiusM)
		}
		p.zones = append(p.zones, p.zone(place))
	}
	return nil
}

// hides reports whether a position is in the zone of a place.
func (p *Places) hides(lat, lon float64) bool {
	return slices.ContainsFunc(p.zones, func(z zone) bool { return z.metresTo(lat, lon) < z.radius })
}

// centre returns the centre of the zone that hides a position, or the position if none does.
func (p *Places) centre(lat, lon float64) (float64, float64) {
	if p != nil {
		for _, z := range p.zones {
			if z.metresTo(lat, lon) < z.radius {
				return z.lat, z.lon
			}
		}
	}
	return lat, lon
}

// HiddenM returns the distances from a place, in metres, up to which positions are always hidden and
// beyond which they never are.
func HiddenM(radiusM float64) (least, most float64) { return radiusM - offsetM, radiusM + offsetM }

// A zone is the hidden disc around a place. It is the same in every activity and every run, so that many activities
// reveal only its edge. Its centre is secret for those without a street map: with a fixed one, a circle through the
// ends of the tracks would find the place.
type zone struct {
	lat, lon float64 // the centre, which is not the place
	east     float64 // metres in a degree of longitude
	radius   float64
}

// zone derives the zone of a place from the key and the place's name, so that a place whose position is measured
// again keeps it. The place lies anywhere within offsetM of the centre, with equal chance.
func (p *Places) zone(place Place) zone {
	draw := func(n int) float64 { // from 0 to 1
		sum := p.mac(fmt.Sprintf("zone %d %s", n, place.Name))
		return float64(binary.BigEndian.Uint64(sum)>>11) / (1 << 53)
	}
	bearing, offset := 2*math.Pi*draw(0), math.Sqrt(draw(1))*offsetM
	z := zone{east: metreDegree * max(math.Cos(place.Lat*math.Pi/180), 0.01), radius: place.RadiusM}
	z.lat = place.Lat + offset*math.Cos(bearing)/metreDegree
	z.lon = place.Lon + offset*math.Sin(bearing)/z.east
	return z
}

// metresTo returns the distance of a position from the centre.
func (z zone) metresTo(lat, lon float64) float64 {
	return math.Hypot((lat-z.lat)*metreDegree, math.Remainder(lon-z.lon, 360)*z.east)
}

// id returns the id of a blurred document, from that of the recording. Who has a copy that was published with another
// privacy cannot compute it.
func (p *Places) id(id string) string {
	i := strings.LastIndexByte(id, '-') + 1
	return id[:i] + p.idSuffix(id[i:])
}

func (p *Places) idSuffix(of string) string { return hex.EncodeToString(p.mac("id " + of)[:5]) }

func (p *Places) mac(text string) []byte {
	h := hmac.New(sha256.New, p.key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
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
