package site

import (
	"bytes"
	"net/http"
	"time"

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
	if picture == nil {
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
