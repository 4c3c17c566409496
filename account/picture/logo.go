package picture

import (
	"bytes"
	"image"
	"image/png"

	"golang.org/x/image/draw"
)

// What a logo may be.
const (
	MaxLogo     = 64 << 10 // bytes, of the file and of what is stored
	maxLogoSide = 1024     // pixels
)

// Logo encodes a picture anew as a PNG, so that nothing is kept of the file but its pixels, and halves its sides
// until it fits. Its size is read first: a few bytes can stand for a picture that fills the memory. ErrInvalid.
func Logo(file []byte) ([]byte, error) {
	size, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || len(file) > MaxLogo || size.Width > maxLogoSide || size.Height > maxLogoSide {
		return nil, ErrInvalid
	}
	decoded, format, err := image.Decode(bytes.NewReader(file))
	if err != nil || format != "png" && format != "webp" || decoded.Bounds().Empty() {
		return nil, ErrInvalid
	}
	for {
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, decoded); err != nil {
			return nil, ErrInvalid
		}
		if out.Len() <= MaxLogo {
			return out.Bytes(), nil
		}
		b := decoded.Bounds()
		half := image.NewRGBA(image.Rect(0, 0, (b.Dx()+1)/2, (b.Dy()+1)/2))
		draw.CatmullRom.Scale(half, half.Rect, decoded, b, draw.Src, nil)
		decoded = half
	}
}
