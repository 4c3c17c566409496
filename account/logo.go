package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image/png"

	"github.com/cairn-id/cairn/account/web"
)

// What a logo may be.
const (
	MaxLogo     = 64 << 10 // bytes
	maxLogoSide = 1024     // pixels
)

// ErrInvalidLogo is for everything that is not a PNG of that size.
var ErrInvalidLogo = web.ForField(400, "invalid_logo", "/logo", "The picture has to be a PNG of at most 64 KiB and 1024 pixels a side. Nothing was changed.")

// SetLogo replaces the picture on every page; nil removes it. A PNG is encoded anew, so
// that nothing is kept of it but its pixels. Its size is read first: a few bytes can
// stand for a picture that fills the memory.
func (s *Service) SetLogo(ctx context.Context, by Caller, picture []byte) error {
	a := s.Administration()
	row, err := a.begin(ctx, by, "settings.logo", User{Handle: "settings"}, "removed")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	hash := ""
	if picture != nil {
		size, err := png.DecodeConfig(bytes.NewReader(picture))
		if err != nil || len(picture) > MaxLogo || size.Width > maxLogoSide || size.Height > maxLogoSide {
			return ErrInvalidLogo
		}
		decoded, err := png.Decode(bytes.NewReader(picture))
		if err != nil {
			return ErrInvalidLogo
		}
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, decoded); err != nil || out.Len() > 4*MaxLogo {
			return ErrInvalidLogo
		}
		sum := sha256.Sum256(out.Bytes())
		hash, row.Detail = hex.EncodeToString(sum[:8]), "replaced"
	}
	err = a.store.SetLogo(ctx, out.Bytes(), hash, row)
	if err == nil {
		s.settings.Drop("")
	}
	return web.Noted(ctx, "logo_changed", err)
}
