package account_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// withExif puts the metadata of a camera after the start of a JPEG: an orientation and a place.
func withExif(file []byte, orientation byte) []byte {
	exif := append([]byte("Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x02\x01\x0f\x00\x02\x00\x00\x00\x04GPS\x00\x01\x12\x00\x03\x00\x00\x00\x01\x00"), orientation, 0, 0)
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(exif)+2))
	return bytes.Join([][]byte{file[:2], append(segment, exif...), file[2:]}, nil)
}

// The picture of a person is a square JPEG of 256 pixels, upright, with nothing of the file but its pixels.
func TestPictureOfAPersonIsEncodedAnew(t *testing.T) {
	wide := image.NewRGBA(image.Rect(0, 0, 1200, 600)) // the left of the middle is red, the right of it blue
	for y := range 600 {
		for x := range 1200 {
			wide.Set(x, y, color.RGBA{0, 0, 255, 255})
			if x < 600 {
				wide.Set(x, y, color.RGBA{255, 0, 0, 255})
			}
		}
	}
	var photo, drawing bytes.Buffer
	if err := errors.Join(jpeg.Encode(&photo, wide, nil), png.Encode(&drawing, image.NewRGBA(image.Rect(0, 0, 40, 30)))); err != nil {
		t.Fatal(err)
	}
	webp, err := base64.StdEncoding.DecodeString(webpFile)
	if err != nil {
		t.Fatal(err)
	}
	const red, blue, white = "red", "blue", "white"
	seen := map[string]bool{}
	for name, c := range map[string]struct {
		file        []byte
		side        int
		left, above string // the colours in the middle of two edges
	}{
		"JPEG":         {photo.Bytes(), 256, red, ""},
		"turned right": {withExif(photo.Bytes(), 6), 256, "", red},
		"upside down":  {withExif(photo.Bytes(), 3), 256, blue, ""},
		"turned left":  {withExif(photo.Bytes(), 8), 256, "", blue},
		"transparent":  {append(drawing.Bytes(), "<script>"...), 30, white, white},
		"WebP":         {webp, 75, "", ""},
	} {
		p, err := account.NewPhoto(t.Context(), "sub", c.file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := jpeg.Decode(bytes.NewReader(p.JPEG))
		if err != nil || got.Bounds() != image.Rect(0, 0, c.side, c.side) && name != "WebP" || len(p.JPEG) > 64<<10 || len(p.Hash) != 32 {
			t.Errorf("%s: %v, %v, %d bytes", name, err, got.Bounds(), len(p.JPEG))
		}
		if bytes.Contains(p.JPEG, []byte("GPS")) || bytes.Contains(p.JPEG, []byte("Exif")) || bytes.Contains(p.JPEG, []byte("<script>")) || seen[p.Hash] {
			t.Errorf("%s: something of the file is left, or its hash is that of another", name)
		}
		seen[p.Hash] = true
		colour := func(x, y int) string {
			r, _, b, _ := got.At(x, y).RGBA()
			switch {
			case r > 0xc000 && b > 0xc000:
				return white
			case r > 0xc000:
				return red
			}
			return blue
		}
		if left, above := colour(2, c.side/2), colour(c.side/2, 2); c.left != "" && left != c.left || c.above != "" && above != c.above {
			t.Errorf("%s: %s on the left, %s above", name, left, above)
		}
	}
	if a, err := account.NewPhoto(t.Context(), "another", photo.Bytes()); err != nil || seen[a.Hash] {
		t.Errorf("the address of a picture follows from the picture: %v", err)
	}
}

// What is no picture, or would be large when it is decoded, is refused before it is decoded.
func TestWhatIsNoPictureOfAPersonIsRefused(t *testing.T) {
	var animated, small, huge, scan bytes.Buffer
	if err := errors.Join(gif.Encode(&animated, image.NewGray(image.Rect(0, 0, 2, 2)), nil), png.Encode(&small, image.NewGray(image.Rect(0, 0, 8, 8))), jpeg.Encode(&huge, image.NewGray(image.Rect(0, 0, 8, 8)), nil), jpeg.Encode(&scan, image.NewGray(image.Rect(0, 0, 8, 8)), nil)); err != nil {
		t.Fatal(err)
	}
	bomb := bytes.Clone(small.Bytes()) // its header says 60,000 by 60,000
	binary.BigEndian.PutUint32(bomb[16:], 60_000)
	binary.BigEndian.PutUint32(bomb[20:], 60_000)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	frame := huge.Bytes()
	copy(frame[bytes.Index(frame, []byte{0xff, 0xc0})+5:], []byte{0xff, 0xff, 0xff, 0xff})
	scans := append(scan.Bytes(), bytes.Repeat([]byte{0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0}, 101)...)
	for name, file := range map[string][]byte{
		"scans": scans, "GIF": animated.Bytes(), "empty": nil, "text": []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), "PNG bomb": bomb, "JPEG bomb": frame,
		"too large": append(small.Bytes(), make([]byte, account.MaxPhoto)...), "cut": small.Bytes()[:40],
		"WebP bomb": append([]byte("RIFF\x28\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00VP8L\x06\x00\x00\x00\x2f"), 0xff, 0xff, 0xff, 0x0f, 0),
	} {
		if _, err := account.NewPhoto(t.Context(), "sub", file); !errors.Is(err, account.ErrInvalidPhoto) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever waits for the pictures of others does so until they hang up, and not longer than the server can answer.
func TestPictureWaitsForOthersOnlyForAWhile(t *testing.T) {
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		defer account.BlockPhotos()()
		_, err := account.NewPhoto(t.Context(), "sub", file.Bytes())
		if p, _ := web.ProblemOf(err); !errors.Is(err, context.DeadlineExceeded) || p.Status != 503 {
			t.Errorf("after a while: %v", err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hangUp)
		start := time.Now()
		if _, err := account.NewPhoto(ctx, "sub", file.Bytes()); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("hung up: %v after %s", err, time.Since(start))
		}
	})
}
