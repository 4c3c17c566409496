package publish

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cairn-id/cairn/activityschema"
)

// Limits of one file. maxFileBytes holds before and after decompression.
const (
	maxFileBytes = 64 << 20
	maxSamples   = 500_000

	// beginBytes are read to find the format and encoding of a file.
	beginBytes = 4096

	maxRecordings = 1_000
	maxLaps       = 50_000
)

var (
	errTooLarge    = fmt.Errorf("larger than %d MB uncompressed: split the recording", maxFileBytes>>20)
	errTooMany     = fmt.Errorf("more than %d samples: split the recording", maxSamples)
	errRecordings  = fmt.Errorf("more than %d activities in one file: split it", maxRecordings)
	errLaps        = fmt.Errorf("more than %d laps: split the recording", maxLaps)
	errUnknownFile = errors.New("not a GPX, TCX or FIT file")
	errEmpty       = errors.New("no recorded activity in this file")
)

const (
	warnCut      = "the file is cut short or damaged: what was recorded before is imported"
	warnChecksum = "the checksum of the file is wrong: values may be damaged"
)

// A File is the content of one file.
type File struct {
	Hash       string // SHA-256 of the uncompressed file, in hexadecimal
	Recordings []*Recording
	Warnings   []string // about damaged or missing parts

	options       Options
	ledger        ledger
	samples, laps int // of all recordings
}

// Options say how recordings are read. The zero value takes each as its file has it.
type Options struct {
	// Zone is the time zone of all recordings; nil is that of the file, or of the place.
	Zone *time.Location
	// Home is the time zone of a recording whose file does not say it and that has no positions; nil is UTC.
	Home *time.Location
	// Planned imports tracks that were planned and not recorded, without a duration.
	Planned bool

	hide *Places // whose zones stand for what is in them
}

// A Recording is one activity as a device or a program recorded it.
type Recording struct {
	Source   activityschema.Source
	Sport    activityschema.Sport
	SubSport activityschema.SubSport // empty if unknown
	Device   string                  // product name; empty if unknown
	Samples  []Sample                // in ascending order of time
	Laps     []*Totals               // their Start is known
	Totals   Totals                  // as the device counted them
	Warnings []string

	planned bool       // and not recorded
	badTime string     // how an invalid time is written, after a blank
	derived [][2]int64 // from and until when times are derived, in Unix milliseconds
	counts  [causes]int
	idle    []span // in a pool

	beats []fitBeat      // heart rates that a strap sent afterwards
	zone  *time.Location // of the place where it began; nil if the file does not say

	Dropped int // samples that are left out, or of which a position or elevation is
}

// A Sample is a record of the sensors at one time. NaN and -1 mean unknown.
type Sample struct {
	At         int64 // Unix time in milliseconds
	Lat, Lon   float64
	ElevationM float64
	DistanceM  float64 // since the start, as the device counts it
	SpeedMS    float64
	TempC      float64

	HRBpm, CadenceRpm, PowerW int32

	// Break reports whether the recording was paused before this sample.
	Break bool
}

// Totals are the values that a device computed for an activity or a lap. NaN means unknown.
type Totals struct {
	Start              int64 // Unix time in milliseconds; 0 if unknown
	ElapsedS, MovingS  float64
	DistanceM          float64
	AscentM, DescentM  float64
	AvgSpeed, MaxSpeed float64 // m/s
	AvgHR, MaxHR       float64
	AvgCadence         float64
	AvgPower, MaxPower float64
}

var unknown = math.NaN()

func newSample() Sample {
	return Sample{
		Lat: unknown, Lon: unknown, ElevationM: unknown, DistanceM: unknown, SpeedMS: unknown, TempC: unknown,
		HRBpm: -1, CadenceRpm: -1, PowerW: -1,
	}
}

func newTotals() Totals {
	return Totals{
		ElapsedS: unknown, MovingS: unknown, DistanceM: unknown, AscentM: unknown, DescentM: unknown,
		AvgSpeed: unknown, MaxSpeed: unknown, AvgHR: unknown, MaxHR: unknown, AvgCadence: unknown,
		AvgPower: unknown, MaxPower: unknown,
	}
}

// hasPosition reports whether the sample has a valid position. Devices without a fix write 0, 0.
func (s *Sample) hasPosition() bool {
	return math.Abs(s.Lat) <= 90 && math.Abs(s.Lon) <= 180 && (s.Lat != 0 || s.Lon != 0)
}

// Read parses a GPX, TCX or FIT file, which may be compressed with gzip. It detects the format by
// the content. From a truncated file it returns what was recorded, with a warning.
func Read(r io.Reader) (*File, error) { return Options{}.Read(r) }

// Read does what the function Read does, with options.
func (o Options) Read(r io.Reader) (*File, error) {
	plain, err := uncompressed(r)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	content := bufio.NewReaderSize(io.TeeReader(plain, hash), 1<<16)
	f := &File{options: o}
	begin, err := content.Peek(beginBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readError(err)
	}
	switch {
	case len(begin) >= 12 && string(begin[8:12]) == ".FIT":
		err = readFIT(content, f)
	case bytes.HasPrefix(ascii(begin), []byte("<")): // after blanks and byte order marks, too
		err = readXML(content, f)
	default:
		return nil, errUnknownFile
	}
	if err != nil {
		return nil, readError(err)
	}
	// The hash covers what follows the last message or element too.
	if _, err := io.Copy(io.Discard, content); err != nil {
		if !cutShort(err) {
			return nil, readError(err)
		}
		f.warn(warnCut)
	}
	f.Hash = hex.EncodeToString(hash.Sum(nil))
	if err := f.tidy(); err != nil {
		return nil, err
	}
	return f, nil
}

// tidy makes activities of what was read.
func (f *File) tidy() error {
	var kept []*Recording
	var refused error // why the last track was not recorded by anybody
	for _, rec := range f.Recordings {
		err := rec.shareTimes()
		if rec.planned = err == nil && rec.isPlan(); rec.planned && !f.options.Planned {
			err = errPlan
		}
		if err != nil {
			refused = err
			f.leave(nil, len(rec.Samples), noActivity)
			continue
		}
		parts := []*Recording{rec}
		if !rec.planned {
			parts = f.parts(rec)
		}
		for _, part := range parts {
			f.clean(part)
			if len(part.Samples) > 1 {
				kept = append(kept, part)
				continue
			}
			if part.counts[sameSecond] > 1 {
				refused = errSameTime
			}
			f.leave(nil, len(part.Samples), alone)
			// Pool swims and activities entered by hand may have no samples.
			if part.Samples = nil; part.Totals.Start != 0 && part.Totals.ElapsedS > 0 {
				kept = append(kept, part)
			}
		}
	}
	if len(kept) > maxRecordings {
		return errRecordings
	}
	if f.Recordings = kept; len(kept) == 0 {
		return cmp.Or(refused, errEmpty)
	}
	f.say()
	return nil
}

// uncompressed returns the content of a file that may be compressed with gzip.
func uncompressed(r io.Reader) (io.Reader, error) {
	file := bufio.NewReader(&capped{r: r, left: maxFileBytes})
	if begin, _ := file.Peek(2); !bytes.Equal(begin, []byte{0x1f, 0x8b}) { // RFC 1952 section 2.3.1
		return file, nil
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.New("not a gzip file, or a damaged one")
	}
	return &capped{r: z, left: maxFileBytes}, nil
}

// hashOf returns the Hash of a File without parsing it.
func hashOf(r io.Reader) (string, error) {
	content, err := uncompressed(r)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil && !cutShort(err) {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (f *File) warn(text string) {
	if !slices.Contains(f.Warnings, text) {
		f.Warnings = append(f.Warnings, text)
	}
}

// cutShort reports whether err means a truncated or damaged file: what came before it is good.
func cutShort(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zip.ErrChecksum)
}

// readError explains errors of libraries.
func readError(err error) error {
	if cutShort(err) {
		return errors.New("cut short or damaged before anything was recorded")
	}
	return err
}

// A capped reader fails with errTooLarge after so many bytes. A small gzip file may expand to gigabytes.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if errors.Is(err, gzip.ErrHeader) {
		err = io.EOF // what follows a whole file is not another
	}
	if c.left -= int64(n); c.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// begin appends an empty recording. A small gzip file may hold millions of them.
func (f *File) begin(r *Recording) error {
	if len(f.Recordings) >= maxRecordings {
		return errRecordings
	}
	f.Recordings = append(f.Recordings, r)
	return nil
}

// add appends a sample to a recording, or merges it with the last one if both have the same
// time: some devices write the position and the sensors of a second separately.
func (f *File) add(r *Recording, s Sample) error {
	f.ledger.points++
	if s.Lon > 180 && s.Lon <= 360 { // counted eastwards
		s.Lon -= 360
	}
	if n := len(r.Samples); n > 0 && r.Samples[n-1].At == s.At && !s.Break && s.At > 0 {
		f.merge(r, &r.Samples[n-1], &s)
		return nil
	}
	if f.samples++; f.samples > maxSamples {
		return errTooMany
	}
	if f.samples == 1 {
		const hour = 4000
		r.Samples = make([]Sample, 0, hour)
	}
	r.Samples = append(r.Samples, s)
	return nil
}

func (f *File) addLap(r *Recording, l *Totals) error {
	if f.laps++; f.laps > maxLaps {
		return errLaps
	}
	r.Laps = append(r.Laps, l)
	return nil
}

// merge merges a sample of a recording into another one of the same second.
func (f *File) merge(r *Recording, into, s *Sample) {
	why := merged
	if into.hasPosition() && s.hasPosition() && (into.Lat != s.Lat || into.Lon != s.Lon) {
		why = sameSecond
	}
	into.merge(s)
	f.leave(r, 1, why)
}

// merge sets the unknown values of s to those of o.
func (s *Sample) merge(o *Sample) {
	if !s.hasPosition() && o.hasPosition() {
		s.Lat, s.Lon = o.Lat, o.Lon
	}
	for i, to := range [...]*float64{&s.ElevationM, &s.DistanceM, &s.SpeedMS, &s.TempC} {
		if math.IsNaN(*to) {
			*to = [...]float64{o.ElevationM, o.DistanceM, o.SpeedMS, o.TempC}[i]
		}
	}
	for i, to := range [...]*int32{&s.HRBpm, &s.CadenceRpm, &s.PowerW} {
		if *to < 0 {
			*to = [...]int32{o.HRBpm, o.CadenceRpm, o.PowerW}[i]
		}
	}
}

// makers are the first words of product names that may be published. Any other name may be that of a person.
var makers = []string{
	"Apple", "Bryton", "Coros", "Decathlon", "Fitbit", "Garmin", "Google", "Hammerhead", "Huawei", "iGPSPORT",
	"Karoo", "komoot", "Lezyne", "Magene", "Polar", "Samsung", "Sigma", "Stages", "Strava", "Suunto", "Tacx",
	"Wahoo", "Xiaomi", "Zepp", "Zwift",
}

// productName returns the publishable part of a product's name, or "". Its first word must be in
// makers; it ends before a word that may be a serial number.
func productName(name string) string {
	words := strings.Fields(name)
	if len(words) == 0 || !slices.ContainsFunc(makers, func(m string) bool { return strings.EqualFold(words[0], m) }) {
		return ""
	}
	serial := func(word string) bool {
		digits := 0
		for _, c := range word {
			if unicode.IsDigit(c) {
				digits++
			}
			if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("+-.()/", c) {
				return true
			}
		}
		return digits >= 5 || len(word) > 20
	}
	if i := slices.IndexFunc(words, serial); i >= 0 {
		words = words[:i]
	}
	return strings.Join(words[:min(len(words), 5)], " ")
}
