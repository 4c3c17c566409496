// Package picture turns the file that somebody uploads as their picture into a small square one. It owns
// what decoding may cost: a file within its limits of size can stand for hundreds of megabytes or for
// seconds of work, so both are reckoned from its headers before anything is decoded.
package picture

import (
	"bytes"
	"context"
	"errors"
	"image"
	_ "image/jpeg" // a format that DecodeConfig and Decode know, as the next two
	_ "image/png"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"
)

const (
	// MaxFile is the size of a file, in bytes.
	MaxFile = 4 << 20

	maxPixels = 12_500_000
	// maxScanned is the number of pixels times that of the scans of a JPEG: a scan of a few bytes takes as
	// long as one of megabytes. A camera's progressive picture has ten.
	maxScanned = 16 * maxPixels

	// leastMemory and mostMemory are the bounds of what decoding one picture may take, in bytes.
	leastMemory, mostMemory = 16 << 20, 256 << 20

	// patience is how long an upload waits for those of others to be read, and again to be decoded.
	patience = time.Second
)

// What a file can be refused for. ErrBusy says that too many others upload a picture now, ErrUnderWay that the
// same person does.
var (
	ErrInvalid  = errors.New("no PNG, JPEG or WebP of at most 4 MiB and 12 megapixels")
	ErrTooLarge = errors.New("decoding the picture would take more memory than the service has for it")
	ErrBusy     = errors.New("other pictures are being uploaded")
	ErrUnderWay = errors.New("another picture of the person is being uploaded")
)

// memory returns what decoding one picture may take, in bytes: two fifths of what the runtime keeps the heap
// within. In a container of 128 MiB that is 32 MiB, enough for a photo of 12 megapixels from a telephone.
func memory() int {
	return int(min(max(debug.SetMemoryLimit(-1)/5*2, leastMemory), mostMemory))
}

// A Desk lets pictures through: one is decoded at a time, a few files are in memory meanwhile, and nobody has
// two under way.
type Desk struct {
	mu      sync.Mutex
	owners  map[string]bool
	reading chan struct{}
	decode  chan struct{}
}

// NewDesk returns a desk that keeps as many files in memory as half the memory of decoding one has room for.
func NewDesk() *Desk {
	return &Desk{
		owners:  map[string]bool{},
		reading: make(chan struct{}, max(2, memory()/2/MaxFile)),
		decode:  make(chan struct{}, 1),
	}
}

// Enter is called before the file of an owner is read; leave when it has been dealt with. ErrBusy, ErrUnderWay.
func (d *Desk) Enter(ctx context.Context, owner string) (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners[owner] {
		return nil, ErrUnderWay
	}
	d.owners[owner] = true
	d.mu.Unlock()
	err = take(ctx, d.reading)
	d.mu.Lock()
	if err != nil {
		delete(d.owners, owner)
		return nil, err
	}
	return func() {
		<-d.reading
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.owners, owner)
	}, nil
}

// take takes a place, for which it waits no longer than patience. ErrBusy, or why the context has ended.
func take(ctx context.Context, places chan struct{}) error {
	wait, stop := context.WithTimeoutCause(ctx, patience, ErrBusy)
	defer stop()
	select {
	case places <- struct{}{}:
		return nil
	case <-wait.Done():
		return context.Cause(wait)
	}
}

// Square returns the middle of a picture as a square of at most side pixels, upright, on white.
// ErrInvalid, ErrTooLarge, ErrBusy.
func (d *Desk) Square(ctx context.Context, file []byte, side int) (*image.RGBA, error) {
	turn, err := check(file)
	if err != nil {
		return nil, err
	}
	if err := take(ctx, d.decode); err != nil {
		return nil, err
	}
	defer func() { <-d.decode }()
	decoded, _, err := image.Decode(bytes.NewReader(file))
	if err != nil || decoded.Bounds().Empty() {
		return nil, ErrInvalid
	}
	return turned(middle(decoded, side), turn), nil
}

// check reckons what a file would cost and returns the orientation of its pixels, 1 to 8.
func check(file []byte) (turn int, err error) {
	if len(file) > MaxFile {
		return 0, ErrInvalid
	}
	size, format, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || size.Width < 1 || size.Height < 1 || size.Width > maxPixels/size.Height {
		return 0, ErrInvalid
	}
	pixels, cost := size.Width*size.Height, 0
	turn = 1
	switch format {
	case "png":
		cost = pngMemory(file, pixels)
	case "webp":
		cost = webpMemory(file, pixels)
	case "jpeg":
		j := readJPEG(file)
		if j.frames != 1 || j.scans*pixels > maxScanned {
			return 0, ErrInvalid
		}
		cost, turn = j.memory, j.orientation
	default:
		return 0, ErrInvalid
	}
	const ofScaling = 6 << 20
	if cost+ofScaling > memory() {
		return 0, ErrTooLarge
	}
	return turn, nil
}

// middle scales the middle of a picture. A large one is averaged to less than twice the side first, a band of
// rows at a time, as the scaler's own memory grows with the height of what it is given.
func middle(from image.Image, side int) *image.RGBA {
	b := from.Bounds()
	length := min(b.Dx(), b.Dy())
	corner := b.Min.Add(image.Pt((b.Dx()-length)/2, (b.Dy()-length)/2))
	to := max(1, length/max(1, length/side))
	factor := length / to
	averaged := image.NewRGBA(image.Rect(0, 0, to, to))
	band := image.NewRGBA(image.Rect(0, 0, to*factor, factor))
	for y := range to {
		draw.Draw(band, band.Rect, image.White, image.Point{}, draw.Src) // behind what is transparent
		draw.Draw(band, band.Rect, from, corner.Add(image.Pt(0, y*factor)), draw.Over)
		average(averaged.Pix[y*averaged.Stride:], band, factor)
	}
	if to <= side {
		return averaged
	}
	small := image.NewRGBA(image.Rect(0, 0, side, side))
	draw.CatmullRom.Scale(small, small.Rect, averaged, averaged.Rect, draw.Src, nil)
	return small
}

// average writes the pixels of one row, each the average of factor by factor pixels of the band.
func average(row []byte, band *image.RGBA, factor int) {
	for x := range band.Rect.Dx() / factor {
		var sum [4]int
		for dy := range factor {
			at := dy*band.Stride + 4*x*factor
			for i, value := range band.Pix[at : at+4*factor] {
				sum[i%4] += int(value)
			}
		}
		for i := range sum {
			row[4*x+i] = byte(sum[i] / (factor * factor))
		}
	}
}

// turned returns a square picture as its Exif orientation says.
func turned(from *image.RGBA, orientation int) *image.RGBA {
	to, last := image.NewRGBA(from.Rect), from.Rect.Dx()-1
	for y := range from.Rect.Dy() {
		for x := range from.Rect.Dx() {
			fromX, fromY := x, y
			if orientation >= 5 {
				fromX, fromY = y, x
			}
			if strings.ContainsRune("2378", rune('0'+orientation)) {
				fromX = last - fromX
			}
			if strings.ContainsRune("3467", rune('0'+orientation)) {
				fromY = last - fromY
			}
			to.SetRGBA(x, y, from.RGBAAt(fromX, fromY))
		}
	}
	return to
}
