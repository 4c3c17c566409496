package account

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/account/web"
)

// What the picture of a person may be refused for.
var (
	ErrInvalidPhoto = web.ForField(400, "invalid_picture", "/picture",
		"The picture must be a PNG, JPEG or WebP of at most 4 MiB and 12 megapixels. Nothing was changed.")
)

// Photo is the picture of a person as it is stored: a square JPEG, and the hash by which it is served.
type Photo struct {
	Hash string
	JPEG []byte
}

// MaxLogo is the size of the file of a logo, and of what is stored, in bytes.
const MaxLogo = picture.MaxLogo

// ErrInvalidLogo is for everything that is not a picture of that size.
var ErrInvalidLogo = web.ForField(400, "invalid_logo", "/logo",
	"The picture must be a PNG or WebP of at most 64 KiB and 1024 pixels per side. Nothing was changed.")

// Picture is a logo as it is stored: a PNG, and the hash by which it is served.
type Picture struct {
	Hash string // empty: there is none
	PNG  []byte // nil where only the hash was read
}

// NewPicture encodes a picture anew and makes it smaller until it fits: see picture.Logo. ErrInvalidLogo.
func NewPicture(file []byte) (Picture, error) {
	encoded, err := picture.Logo(file)
	if err != nil {
		return Picture{}, ErrInvalidLogo
	}
	sum := sha256.Sum256(encoded)
	return Picture{Hash: hex.EncodeToString(sum[:8]), PNG: encoded}, nil
}
