package account_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// A picture is stored as a small PNG, whatever it came as, and nothing that is large when it is decoded is decoded.
func TestPictureBecomesASmallPNG(t *testing.T) {
	racetest.Skip(t)
	// One bit a pixel takes less than 64 KiB in the file; as eight bits it takes more.
	noise := image.NewPaletted(image.Rect(0, 0, 700, 700), color.Palette{color.Black, color.White})
	for i := range noise.Pix {
		noise.Pix[i] = byte(rand.IntN(2))
	}
	var bits, wide, tall, animated bytes.Buffer
	for _, err := range []error{
		png.Encode(&bits, noise), png.Encode(&wide, image.NewGray(image.Rect(0, 0, 1025, 1))),
		png.Encode(&tall, image.NewGray(image.Rect(0, 0, 1, 1025))),
		gif.Encode(&animated, image.NewGray(image.Rect(0, 0, 2, 2)), nil),
	} {
		must(t, err)
	}
	gray := bits.Bytes()
	gray[25] = 0 // its colour type: greys and no palette
	binary.BigEndian.PutUint32(gray[29:], crc32.ChecksumIEEE(gray[12:29]))
	palette := bytes.Index(gray, []byte("PLTE")) - 4
	gray = slices.Delete(gray, palette, palette+12+6)
	webp, err := base64.StdEncoding.DecodeString(webpFile)
	must(t, err)
	for name, file := range map[string][]byte{"bits": gray, "WebP": webp} {
		p, err := account.NewPicture(append(file, "<script>"...))
		if err != nil || len(p.PNG) > account.MaxLogo || len(p.Hash) != 16 || bytes.Contains(p.PNG, []byte("<script>")) {
			t.Errorf("%s: %v, %d bytes", name, err, len(p.PNG))
		}
		if picture, err := png.Decode(bytes.NewReader(p.PNG)); err != nil || picture.Bounds().Dx() >= 700 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The header of the container says 1 by 1, that of the picture in it 16384 by 16384.
	bomb := append([]byte("RIFF\x28\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00VP8L\x06\x00\x00\x00\x2f"), 0xff, 0xff, 0xff, 0x0f, 0)
	for name, file := range map[string][]byte{
		"wide": wide.Bytes(), "tall": tall.Bytes(), "GIF": animated.Bytes(), "empty": {}, "large": append(webp, make([]byte, account.MaxLogo)...), "bomb": bomb, "cut": webp[:200],
	} {
		if _, err := account.NewPicture(file); !errors.Is(err, account.ErrInvalidLogo) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// webpFile is a line drawing, of the tests of golang.org/x/image.
const webpFile = "UklGRrIBAABXRUJQVlA4TKUBAAAvSsAYAA8w//M///MfeJAkbXvaSG7m8Q3GfYSBJekwQztm/IcZlgwnmWImn2BK7aFmBtnVir6q//8VOkFE/x" +
	"m4baTIu8c48ArEo6+B3zFKYln3pqClSCKX0begFTAXFOLXHSyF8cCNcZEG4OywuA4KVVfJCiArU7GAgJI8+lJP/OKMT/fBAjevg1cYB7YVkFuW" +
	"ga2lyPi5I0HFy5YTpWIHg0RZpkniRVW9odHAKOwosWuOGdxIyn2OvaCDvhg/we6TwadPBPbqBV58MsLmMJ8yZnOWk8SRz4N+QoyPL+MnamzMvc" +
	"E1rHNEr91F9GKZPVUcS9w7PhhH36suB9qPeYb/oLk6cuTiJ0wOK3m5h1cKjW6EVZCYMK7dxcKCBdgP9HkKr9gkAO2P8GKZGWVdIAatQa+1IDpt" +
	"6qyorVwdy01xdW8Jkfk6xjEXmVQQ+HQdFr6OKhIN34dXWq0+0qr6EJSCeeVLH9+gvGTLyqM65PQ44ihzlTXxQKjKbAvshXgir7Lil9w4L2bvMy" +
	"cmjQcqXaMCO6BlY28i+FOLzbfI1vEqxAhotocAAA=="
