package person

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"image/jpeg"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/account/web"
)

// photoSide is the number of pixels a side of what is stored.
const photoSide = 256

var errLargePhoto = web.ForField(400, "invalid_picture", "/picture", "This picture needs more memory than the "+
	"service has for one. Make it smaller, for example 2,000 pixels wide. Nothing was changed.")

// readPhoto encodes the middle of a picture anew, so that nothing is kept of the file but its pixels: neither
// the place where it was taken nor what a reader of another format would find in it. read gives the file, once
// there is room for it. The hash depends on the sub, so that the address cannot be found out from the picture.
// ErrInvalidPhoto, errLargePhoto; web.ErrRateLimited while another picture of the person is under way, and web.ErrBusy
// while too many of others are.
func (s *Service) readPhoto(ctx context.Context, sub string, read func() ([]byte, error)) (account.Photo, error) {
	leave, err := s.pictures.Enter(ctx, sub)
	if err != nil {
		return account.Photo{}, photoRefused(err)
	}
	defer leave()
	file, err := read()
	if err != nil {
		return account.Photo{}, err
	}
	square, err := s.pictures.Square(ctx, file, photoSide)
	if err != nil {
		return account.Photo{}, photoRefused(err)
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, square, &jpeg.Options{Quality: 85}); err != nil {
		return account.Photo{}, err
	}
	sum := sha256.Sum256(append([]byte(sub+"\n"), out.Bytes()...))
	return account.Photo{Hash: hex.EncodeToString(sum[:16]), JPEG: out.Bytes()}, nil
}

func photoRefused(err error) error {
	switch {
	case errors.Is(err, picture.ErrInvalid):
		return account.ErrInvalidPhoto
	case errors.Is(err, picture.ErrTooLarge):
		return errLargePhoto
	case errors.Is(err, picture.ErrUnderWay):
		return web.RateLimited(2 * time.Second)
	case errors.Is(err, picture.ErrBusy):
		return web.Busy(2 * time.Second)
	}
	return err
}

const photoPath = "/picture/"

// PhotoOf returns the hash of the user's uploaded picture, or "".
func (s *Service) PhotoOf(u account.User) string {
	name, uploaded := strings.CutPrefix(u.Profile.Picture, s.site.URL(photoPath))
	if hash, ok := strings.CutSuffix(name, ".jpg"); uploaded && ok {
		return hash
	}
	return ""
}

// SetPicture replaces the picture of the caller by a file (see ReadPhoto): the claim picture is its address.
func (s *Service) SetPicture(ctx context.Context, c account.Caller, read func() ([]byte, error)) error {
	row, err := s.begin(ctx, c, account.SetPicture, "")
	if err != nil {
		return err
	}
	photo, err := s.readPhoto(ctx, c.User.Sub, read)
	if err != nil {
		return err
	}
	_, err = s.Store().ChangeUser(ctx, c.User.Sub, func(u *account.User) error {
		u.Profile.Picture, u.Photo = s.site.URL(photoPath+photo.Hash+".jpg"), photo
		return nil
	}, s.Now(), &row)
	return web.Noted(ctx, "picture_set", err)
}

// RemovePicture removes the picture of the caller.
func (s *Service) RemovePicture(ctx context.Context, c account.Caller) error {
	row, err := s.begin(ctx, c, account.RemovePicture, "")
	if err != nil {
		return err
	}
	_, err = s.Store().ChangeUser(ctx, c.User.Sub, func(u *account.User) error {
		u.Profile.Picture = ""
		return nil
	}, s.Now(), &row)
	return web.Noted(ctx, "picture_removed", err)
}
