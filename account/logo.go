package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image"
	"image/color"
	"image/png"

	"github.com/cairn-id/cairn/account/web"
)

// What a logo may be.
const (
	MaxLogo     = 64 << 10 // bytes, of the file and of what is stored
	maxLogoSide = 1024     // pixels
)

// ErrInvalidLogo is for everything that is not a picture of that size.
var ErrInvalidLogo = web.ForField(400, "invalid_logo", "/logo",
	"The picture must be a PNG or WebP of at most 64 KiB and 1024 pixels per side. Nothing was changed.")

// Picture is a logo as it is stored: a PNG, and the hash by which it is served.
type Picture struct {
	Hash string // empty: there is none
	PNG  []byte // nil where only the hash was read
}

// NewPicture encodes a picture anew, so that nothing is kept of the file but its pixels, and
// makes it smaller until it fits. Its size is read first: a few bytes can stand for a picture
// that fills the memory. ErrInvalidLogo.
func NewPicture(file []byte) (Picture, error) {
	size, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || len(file) > MaxLogo || size.Width > maxLogoSide || size.Height > maxLogoSide {
		return Picture{}, ErrInvalidLogo
	}
	decoded, format, err := image.Decode(bytes.NewReader(file))
	if err != nil || format != "png" && format != "webp" || decoded.Bounds().Empty() {
		return Picture{}, ErrInvalidLogo
	}
	for {
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, decoded); err != nil {
			return Picture{}, ErrInvalidLogo
		}
		if out.Len() <= MaxLogo {
			sum := sha256.Sum256(out.Bytes())
			return Picture{Hash: hex.EncodeToString(sum[:8]), PNG: out.Bytes()}, nil
		}
		decoded = halved(decoded)
	}
}

// halved returns the picture at half its width and height: each pixel is the average of four.
func halved(picture image.Image) image.Image {
	b := picture.Bounds()
	half := image.NewRGBA(image.Rect(0, 0, (b.Dx()+1)/2, (b.Dy()+1)/2))
	for y := range half.Rect.Dy() {
		for x := range half.Rect.Dx() {
			var sum [4]uint32
			for i := range 4 {
				r, g, b, a := picture.At(min(b.Min.X+2*x+i%2, b.Max.X-1), min(b.Min.Y+2*y+i/2, b.Max.Y-1)).RGBA()
				sum[0], sum[1], sum[2], sum[3] = sum[0]+r, sum[1]+g, sum[2]+b, sum[3]+a
			}
			half.Set(x, y,
				color.RGBA64{R: uint16(sum[0] / 4), G: uint16(sum[1] / 4), B: uint16(sum[2] / 4),
					A: uint16(sum[3] / 4)})
		}
	}
	return half
}

// SetLogo replaces the picture on every page, or that for the dark scheme; nil removes it.
func (s *Service) SetLogo(ctx context.Context, by Caller, dark bool, file []byte) error {
	row, err := s.Begin(ctx, by, SetLogo, User{Handle: "settings"}, "removed")
	if err != nil {
		return err
	}
	var picture Picture
	if file != nil {
		if picture, err = NewPicture(file); err != nil {
			return err
		}
		row.Detail = "replaced"
	}
	err = s.store.SetLogo(ctx, dark, picture.PNG, picture.Hash, row)
	if err == nil {
		s.settings.Drop("")
	}
	return web.Noted(ctx, "logo_changed", err)
}
