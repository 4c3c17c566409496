package site

import (
	"bytes"
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/account/web"
	"github.com/gorilla/mux"
)

// serveLogo serves the picture with that hash, which browsers may cache; 404 for any other hash.
func (s *Site) serveLogo(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	hash, picture := mux.Vars(r)["hash"], []byte(nil)
	if hash == v.Logo {
		picture, err = s.Store().Logo(r.Context())
	} else {
		picture, err = s.Store().ClientLogo(r.Context(), hash)
	}
	if err != nil {
		return err
	}
	return servePicture(w, r, picture, "image/png", "public, max-age=31536000, immutable")
}

// serveUserPicture serves the picture of a person to whoever has its address. Caches keep it for a
// day, because it may be removed.
func (s *Site) serveUserPicture(w http.ResponseWriter, r *http.Request) error {
	photo, err := s.Store().UserPicture(r.Context(), mux.Vars(r)["hash"])
	if err != nil {
		return err
	}
	return servePicture(w, r, photo, "image/jpeg", "public, max-age=86400")
}

// servePicture answers with a picture, or 404 if it is nil.
func servePicture(w http.ResponseWriter, r *http.Request, picture []byte, kind, cached string) error {
	if picture == nil {
		return web.NewProblem(http.StatusNotFound, "not_found", "There is nothing at this address.")
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", cached)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(picture))
	return nil
}

// pictureForm is the only form of the account with a file. A refusal shows the page.
func (s *Site) pictureForm(w http.ResponseWriter, r *http.Request) error {
	err := s.SetPicture(r.Context(), s.Caller(r), func() ([]byte, error) {
		return web.ReadFile(w, r, "picture", picture.MaxFile, account.ErrInvalidPhoto)
	})
	if err != nil {
		return s.accountRefused(w, r, "profile", "photo", err)
	}
	return s.Redirect(w, r, "/account/profile?notice=picture-set#photo")
}

func (s *Site) removePicture(_ http.ResponseWriter, r *http.Request) error {
	return s.RemovePicture(r.Context(), s.Caller(r))
}
