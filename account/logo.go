package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image/png"
	"net/http"
	"time"

	"github.com/gorilla/mux"

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
func (s *Service) SetLogo(ctx context.Context, by Actor, picture []byte) error {
	a := s.Administration()
	var out bytes.Buffer
	hash, detail := "", "removed"
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
		hash, detail = hex.EncodeToString(sum[:8]), "replaced"
	}
	err := a.store.SetLogo(ctx, out.Bytes(), hash, by.Audit(a.Now(), "settings.logo", "settings", detail))
	if err == nil {
		s.settings.Drop("")
	}
	return web.Noted(ctx, "logo_changed", err)
}

// serveLogo answers with the picture of that hash, for browsers to keep; any other is
// none of ours.
func (s *Service) serveLogo(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	picture, err := s.store.Logo(r.Context())
	if err != nil {
		return err
	}
	if v.Logo == "" || mux.Vars(r)["hash"] != v.Logo || picture == nil {
		return web.NewProblem(http.StatusNotFound, "not_found", "There is nothing at this address.")
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(picture))
	return nil
}
