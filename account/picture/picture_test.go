package picture_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// drawing is a picture of a white left half and a black right one.
func drawing(width, height int) *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.Draw(p, p.Rect, image.Black, image.Point{}, draw.Src)
	draw.Draw(p, image.Rect(0, 0, width/2, height), image.White, image.Point{}, draw.Src)
	return p
}

func encodedJPEG(tb testing.TB, p image.Image) []byte {
	var file bytes.Buffer
	must(tb, jpeg.Encode(&file, p, nil))
	return file.Bytes()
}

func encodedPNG(tb testing.TB, p image.Image) []byte {
	var file bytes.Buffer
	must(tb, (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&file, p))
	return file.Bytes()
}

// webpWithoutLoss has 75 by 100 pixels.
var webpWithoutLoss = func() []byte {
	file, err := base64.StdEncoding.DecodeString(webpFile)
	if err != nil {
		panic(err)
	}
	return file
}()

// progressive makes a progressive JPEG of a baseline one: so many scans of a few bytes that say "nothing more" for
// 16,384 blocks at a time, each as long to decode as the whole picture.
func progressive(file []byte, scans int) []byte {
	file = bytes.Clone(file)
	frame, scan := bytes.Index(file, []byte{0xff, 0xc0}), bytes.Index(file, []byte{0xff, 0xda})
	file[frame+1] = 0xc2
	codes := append([]byte{0xff, 0xc4, 0, 20, 0x10, 1}, append(make([]byte, 15), 0xe0)...) // 0 is the end of a band
	empty := append([]byte{0xff, 0xda, 0, 8, 1, 1, 0x00, 1, 63, 0}, make([]byte, 40)...)
	return bytes.Join([][]byte{file[:scan], codes, bytes.Repeat(empty, scans), {0xff, 0xd9}}, nil)
}

// What decoding takes was reckoned before: within the memory that a container of 128 MiB has for it.
func TestMemoryIsReckonedBeforeAnythingIsDecoded(t *testing.T) {
	const container = 80 << 20 // what the heap is kept within there
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(container))
	const most = container / 5 * 2
	photo := encodedJPEG(t, drawing(4000, 3000))
	files := map[string][]byte{
		"photo":             photo,
		"progressive":       progressive(photo, 1),
		"small progressive": progressive(encodedJPEG(t, drawing(1000, 800)), 8),
		"gray":              encodedJPEG(t, image.NewGray(image.Rect(0, 0, 4000, 3000))),
		"PNG":               encodedPNG(t, drawing(4000, 3000)),
		"small PNG":         encodedPNG(t, drawing(2000, 1500)),
		"16 bits":           encodedPNG(t, image.NewNRGBA64(image.Rect(0, 0, 2200, 2000))),
		"palette": encodedPNG(t, image.NewPaletted(image.Rect(0, 0, 4000, 3000),
			color.Palette{color.White, color.Black})),
		"WebP": webpWithoutLoss,
	}
	decoded := 0
	for name, file := range files {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		square, err := picture.NewDesk().Square(t.Context(), file, 256)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > most {
			t.Errorf("%s takes %d bytes", name, taken)
		}
		switch {
		case err == nil && square.Rect.Dx() != 256 && name != "WebP":
			t.Errorf("%s becomes a square of %d", name, square.Rect.Dx())
		case err == nil:
			decoded++
		case !errors.Is(err, picture.ErrTooLarge):
			t.Errorf("%s: %v", name, err)
		}
	}
	same(t, fmt.Sprintf("%d were decoded; the PNG, the progressive one and that of 16 bits are too large", len(files)),
		decoded, len(files)-3)
}

// A file of a few kilobytes with many scans of many pixels is refused at once.
func TestScansAreCountedWithTheirPixels(t *testing.T) {
	for name, c := range map[string]struct {
		width, height, scans int
		refused              bool
	}{
		"of a camera":          {4000, 3000, 10, false},
		"large, many":          {4000, 3000, 90, true},
		"small, more":          {500, 500, 90, false},
		"small, far too many":  {1000, 1000, 300, true},
		"restart marker first": {300, 200, 0, false},
	} {
		file := encodedJPEG(t, drawing(c.width, c.height))
		if c.scans > 0 {
			file = progressive(file, c.scans)
		} else {
			file = append([]byte{0xff, 0xd8, 0xff, 0xd0}, file[2:]...)
		}
		start := time.Now()
		_, err := picture.NewDesk().Square(t.Context(), file, 256)
		if refused := errors.Is(err, picture.ErrInvalid); refused != c.refused {
			t.Errorf("%s: %v after %s", name, err, time.Since(start))
		}
	}
}

// A photo is upright, on white, and as sharp as its pixels; a small one keeps its size.
func TestSquareIsTheMiddleUpright(t *testing.T) {
	const white, black = "white", "black"
	photo := encodedJPEG(t, drawing(1200, 600))
	for name, c := range map[string]struct {
		file        []byte
		side        int
		left, above string // the colours in the middle of two edges
	}{
		"JPEG":             {photo, 256, white, ""},
		"turned right":     {withExif(photo, 6), 256, "", white},
		"upside down":      {withExif(photo, 3), 256, black, ""},
		"turned left":      {withExif(photo, 8), 256, "", black},
		"by its own":       {withExif(photo, 0), 256, white, ""},
		"of little endian": {withLittleEndianExif(photo, 6), 256, "", white},
		"transparent":      {append(encodedPNG(t, image.NewRGBA(image.Rect(0, 0, 40, 30))), "<script>"...), 30, white, white},
		"odd":              {encodedPNG(t, drawing(517, 700)), 256, white, ""},
		"WebP":             {webpWithoutLoss, 75, "", ""},
	} {
		got, err := picture.NewDesk().Square(t.Context(), c.file, 256)
		if err != nil || got.Rect.Dx() != c.side && name != "WebP" || got.Rect.Dx() != got.Rect.Dy() {
			t.Errorf("%s: %v, %v", name, err, got)
			continue
		}
		colour := func(x, y int) string {
			if got.RGBAAt(x, y).R > 0xc0 {
				return white
			}
			return black
		}
		if left, above := colour(2, c.side/2), colour(c.side/2, 2); c.left != "" && left != c.left || c.above != "" && above != c.above {
			t.Errorf("%s: %s on the left, %s above", name, left, above)
		}
	}
}

// withExif puts the metadata of a camera after the start of a JPEG: an orientation and a place.
func withExif(file []byte, orientation byte) []byte {
	exif := append([]byte("Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x02\x01\x0f\x00\x02\x00\x00\x00\x04GPS\x00\x01\x12\x00\x03\x00\x00\x00\x01\x00"), orientation, 0, 0)
	return withSegment(file, exif)
}

func withLittleEndianExif(file []byte, orientation byte) []byte {
	return withSegment(file, append([]byte("Exif\x00\x00II\x2a\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"), orientation, 0, 0, 0))
}

func withSegment(file, exif []byte) []byte {
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(exif)+2))
	return bytes.Join([][]byte{file[:2], append(segment, exif...), file[2:]}, nil)
}

// What is no picture, or would be large when it is decoded, is refused before it is decoded.
func TestWhatIsNoPictureIsRefused(t *testing.T) {
	small := encodedPNG(t, drawing(8, 8))
	var animated bytes.Buffer
	must(t, gif.Encode(&animated, image.NewGray(image.Rect(0, 0, 2, 2)), nil))
	bomb := bytes.Clone(small) // its header says 60,000 by 60,000
	binary.BigEndian.PutUint32(bomb[16:], 60_000)
	binary.BigEndian.PutUint32(bomb[20:], 60_000)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	frame := encodedJPEG(t, drawing(8, 8))
	twice := bytes.Clone(frame)
	sof := bytes.Index(frame, []byte{0xff, 0xc0})
	twice = bytes.Join([][]byte{twice[:sof], twice[sof : sof+19], twice[sof:]}, nil)
	flat := bytes.Clone(frame)
	copy(flat[sof+5:], []byte{0, 0})
	copy(frame[sof+5:], []byte{0xff, 0xff, 0xff, 0xff})
	for name, file := range map[string][]byte{
		"GIF": animated.Bytes(), "empty": nil, "text": []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"),
		"PNG bomb": bomb, "JPEG bomb": frame, "two frames": twice, "of no height": flat,
		"too large": append(small, make([]byte, picture.MaxFile)...), "cut": small[:40], "one byte": {0xff},
		"WebP bomb": append([]byte("RIFF\x28\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00VP8L\x06\x00\x00\x00\x2f"), 0xff, 0xff, 0xff, 0x0f, 0),
	} {
		if _, err := picture.NewDesk().Square(t.Context(), file, 256); !errors.Is(err, picture.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nobody has two files in memory, all together have a few, and who waits for others does so for two seconds in all.
func TestUploadsWaitForOthersOnlyForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(80 << 20))
		d := picture.NewDesk()
		enter := func(owner string) (leave func()) {
			leave, err := d.Enter(t.Context(), owner)
			if err != nil {
				t.Fatalf("%s: %v", owner, err)
			}
			return leave
		}
		leave := enter("ada")
		start := time.Now()
		if _, err := d.Enter(t.Context(), "ada"); !errors.Is(err, picture.ErrUnderWay) || time.Since(start) != 0 {
			t.Errorf("a second file of one person: %v after %s", err, time.Since(start))
		}
		for n := range 3 {
			enter(fmt.Sprint(n))
		}
		if _, err := d.Enter(t.Context(), "bob"); !errors.Is(err, picture.ErrBusy) || time.Since(start) != time.Second {
			t.Errorf("a fifth file: %v after %s", err, time.Since(start))
		}
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, hangUp)
		if _, err := d.Enter(ctx, "bob"); !errors.Is(err, context.Canceled) {
			t.Errorf("who hung up: %v", err)
		}
		time.AfterFunc(time.Second/2, leave)
		enter("bob")()
		enter("ada")()
	})
}

// Whatever somebody uploads ends in a picture or a refusal.
func FuzzSquare(f *testing.F) {
	f.Add(withExif(encodedJPEG(f, drawing(32, 24)), 6))
	f.Add(progressive(encodedJPEG(f, drawing(32, 24)), 2))
	f.Add(encodedPNG(f, drawing(16, 16)))
	f.Add(webpWithoutLoss)
	f.Add([]byte{0xff, 0xd8, 0xff, 0xd0, 0, 0})
	d := picture.NewDesk()
	f.Fuzz(func(t *testing.T, file []byte) {
		square, err := d.Square(t.Context(), file, 64)
		if err != nil && !errors.Is(err, picture.ErrInvalid) && !errors.Is(err, picture.ErrTooLarge) {
			t.Fatal(err)
		}
		if err == nil && (square.Rect.Dx() < 1 || square.Rect.Dx() > 64 || square.Rect.Dx() != square.Rect.Dy()) {
			t.Fatal(square.Rect)
		}
	})
}

// webpFile is a line drawing, of the tests of golang.org/x/image.
const webpFile = "UklGRrIBAABXRUJQVlA4TKUBAAAvSsAYAA8w//M///MfeJAkbXvaSG7m8Q3GfYSBJekwQztm/IcZlgwnmWImn2BK7aFmBtnVir6q//8VOkFE/x" +
	"m4baTIu8c48ArEo6+B3zFKYln3pqClSCKX0begFTAXFOLXHSyF8cCNcZEG4OywuA4KVVfJCiArU7GAgJI8+lJP/OKMT/fBAjevg1cYB7YVkFuW" +
	"ga2lyPi5I0HFy5YTpWIHg0RZpkniRVW9odHAKOwosWuOGdxIyn2OvaCDvhg/we6TwadPBPbqBV58MsLmMJ8yZnOWk8SRz4N+QoyPL+MnamzMvc" +
	"E1rHNEr91F9GKZPVUcS9w7PhhH36suB9qPeYb/oLk6cuTiJ0wOK3m5h1cKjW6EVZCYMK7dxcKCBdgP9HkKr9gkAO2P8GKZGWVdIAatQa+1IDpt" +
	"6qyorVwdy01xdW8Jkfk6xjEXmVQQ+HQdFr6OKhIN34dXWq0+0qr6EJSCeeVLH9+gvGTLyqM65PQ44ihzlTXxQKjKbAvshXgir7Lil9w4L2bvMy" +
	"cmjQcqXaMCO6BlY28i+FOLzbfI1vEqxAhotocAAA=="

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
