package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"image"
	"image/jpeg"
	"strings"
	"time"

	"golang.org/x/image/draw"

	"github.com/cairn-id/cairn/account/web"
)

// What the picture of a person may be.
const (
	MaxPhoto       = 4 << 20    // bytes of the file
	maxPhotoPixels = 12_500_000 // a file of a few bytes can stand for a picture that fills the memory
	maxPhotoScans  = 100        // of a progressive JPEG; each of a few bytes takes as long as a whole picture
	photoSide      = 256        // pixels of what is stored
)

// ErrInvalidPhoto is for everything that is not a picture of that size.
var ErrInvalidPhoto = web.ForField(400, "invalid_picture", "/picture",
	"The picture has to be a PNG, JPEG or WebP of at most 4 MiB and 12 megapixels. Nothing was changed.")

// Photo is the picture of a person as it is stored: a square JPEG, and the hash by which it is served.
type Photo struct {
	Hash string
	JPEG []byte
}

// photoSlot has room for one picture: a large one takes up to 200 MB while it is decoded.
var photoSlot = make(chan struct{}, 1)

// photoPatience is how long a picture waits for others, whose files are kept in memory meanwhile. The server
// cannot answer much later.
const photoPatience = 15 * time.Second

// NewPhoto encodes the middle of a picture anew, so that nothing is kept of the file but its pixels:
// neither the place where it was taken nor what a reader of another format would find in it. The hash
// depends on the sub, so that the address cannot be found out from the picture. ErrInvalidPhoto;
// context.DeadlineExceeded while too many others wait.
func NewPhoto(ctx context.Context, sub string, file []byte) (Photo, error) {
	size, format, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || len(file) > MaxPhoto || format != "png" && format != "jpeg" && format != "webp" ||
		size.Width < 1 || size.Height < 1 || size.Width > maxPhotoPixels/size.Height ||
		format == "jpeg" && bytes.Count(file, []byte{0xff, 0xda}) > maxPhotoScans {
		return Photo{}, ErrInvalidPhoto
	}
	wait, stop := context.WithTimeout(ctx, photoPatience)
	defer stop()
	select {
	case photoSlot <- struct{}{}:
		defer func() { <-photoSlot }()
	case <-wait.Done():
		return Photo{}, wait.Err()
	}
	decoded, _, err := image.Decode(bytes.NewReader(file))
	if err != nil || decoded.Bounds().Empty() {
		return Photo{}, ErrInvalidPhoto
	}
	b := decoded.Bounds()
	side := min(b.Dx(), b.Dy())
	corner := b.Min.Add(image.Pt((b.Dx()-side)/2, (b.Dy()-side)/2))
	small := image.NewRGBA(image.Rect(0, 0, min(side, photoSide), min(side, photoSide)))
	draw.Draw(small, small.Rect, image.White, image.Point{}, draw.Src) // behind what is transparent
	draw.CatmullRom.Scale(small, small.Rect, decoded, image.Rectangle{corner, corner.Add(image.Pt(side, side))},
		draw.Over, nil)
	var out bytes.Buffer
	if err := jpeg.Encode(&out, turned(small, orientation(file)), &jpeg.Options{Quality: 85}); err != nil {
		return Photo{}, ErrInvalidPhoto
	}
	sum := sha256.Sum256(append([]byte(sub+"\n"), out.Bytes()...))
	return Photo{Hash: hex.EncodeToString(sum[:16]), JPEG: out.Bytes()}, nil
}

// orientation returns the orientation of a JPEG by its Exif, 1 to 8: cameras do not turn the pixels.
func orientation(file []byte) int {
	for len(file) > 4 && file[0] == 0xff {
		if file[1] == 0xd8 { // the start of the image has no length
			file = file[2:]
			continue
		}
		n := 2 + int(binary.BigEndian.Uint16(file[2:]))
		if file[1] == 0xda || n > len(file) {
			break
		}
		tiff, found := bytes.CutPrefix(file[4:n], []byte("Exif\x00\x00"))
		if file = file[n:]; !found || len(tiff) < 8 {
			continue
		}
		var order binary.ByteOrder = binary.BigEndian
		if tiff[0] == 'I' {
			order = binary.LittleEndian
		}
		at := int64(order.Uint32(tiff[4:]))
		if at+2 > int64(len(tiff)) {
			break
		}
		entries := tiff[at+2:]
		for range order.Uint16(tiff[at:]) {
			if len(entries) < 12 {
				break
			}
			if value := int(order.Uint16(entries[8:])); order.Uint16(entries) == 0x0112 && value >= 1 && value <= 8 {
				return value
			}
			entries = entries[12:]
		}
	}
	return 1
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

const photoPath = "/picture/"

// PhotoOf returns the hash of the user's uploaded picture, or "".
func (s *Service) PhotoOf(u User) string {
	name, uploaded := strings.CutPrefix(u.Profile.Picture, s.site.URL(photoPath))
	if hash, ok := strings.CutSuffix(name, ".jpg"); uploaded && ok {
		return hash
	}
	return ""
}

// SetPicture replaces the picture of the caller by a file: the claim picture is its address.
func (s *Service) SetPicture(ctx context.Context, c Caller, file []byte) error {
	row, err := s.begin(ctx, c, SetPicture, "")
	if err != nil {
		return err
	}
	photo, err := NewPhoto(ctx, c.User.Sub, file)
	if err != nil {
		return err
	}
	_, err = s.store.ChangeUser(ctx, c.User.Sub, func(u *User) error {
		u.Profile.Picture, u.Photo = s.site.URL(photoPath+photo.Hash+".jpg"), photo
		return nil
	}, s.Now(), &row)
	return web.Noted(ctx, "picture_set", err)
}

// RemovePicture removes the picture of the caller.
func (s *Service) RemovePicture(ctx context.Context, c Caller) error {
	row, err := s.begin(ctx, c, RemovePicture, "")
	if err != nil {
		return err
	}
	_, err = s.store.ChangeUser(ctx, c.User.Sub, func(u *User) error {
		u.Profile.Picture = ""
		return nil
	}, s.Now(), &row)
	return web.Noted(ctx, "picture_removed", err)
}
