package templates

import (
	"fmt"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// qrMargin is the number of white modules around the code (ISO/IEC 18004 section 5.3.8).
const qrMargin = 4

// qrCode is a QR code as the path of an inline SVG image. Its text, which may be a secret, appears in
// no URL and no image is stored.
type qrCode struct {
	Size int    // of the image, in modules
	Path string // of the dark modules
}

// newQR draws a text; the empty text draws nothing.
func newQR(text string) (*qrCode, error) {
	if text == "" {
		return nil, nil
	}
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return nil, fmt.Errorf("draw QR code: %w", err)
	}
	bounds := code.Bounds()
	dark := func(x, y int) bool {
		if x >= bounds.Dx() {
			return false
		}
		r, _, _, _ := code.At(x, y).RGBA()
		return r == 0
	}
	var path strings.Builder
	for y := range bounds.Dy() {
		for x := 0; x < bounds.Dx(); x++ {
			begin := x
			for dark(x, y) {
				x++
			}
			if x > begin {
				fmt.Fprintf(&path, "M%d %dh%dv1H%dz", begin+qrMargin, y+qrMargin, x-begin, begin+qrMargin)
			}
		}
	}
	return &qrCode{Size: bounds.Dx() + 2*qrMargin, Path: path.String()}, nil
}
