package httpd

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/activitycheck"
)

const (
	// maxUpload is the maximum size of a document that the service checks, in bytes, both compressed and
	// decompressed.
	maxUpload = 8 << 20
	// patience is how long a document waits for that of another person, and its sender after a refusal.
	patience = 2 * time.Second
)

var (
	errTooLarge = web.NewProblem(http.StatusRequestEntityTooLarge, "too_large",
		"The document is larger than 8 MiB. Use the command cairn activity validate for larger ones.")
	errEncoding = web.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"Send the document with Content-Encoding: gzip or without content encoding.")
	errMediaType = web.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type",
		"Send the document with Content-Type: application/json.")
)

// mountActivity registers the validator for signed-in users. One document of a person is under way, and one of all is
// checked, which takes many times its size.
func mountActivity(m *mux.Router, a *site.Site, limits *web.Limits) {
	desk := picture.NewDesk() // of documents, which are as large as pictures
	checking := make(chan struct{}, 1)
	c := &activitycheck.Checker{Lint: true}
	check := func(w http.ResponseWriter, r *http.Request) (answer activitycheck.Answer, err error) {
		user := web.LimitKey{Name: web.LimitActivity, Key: site.IdentityFrom(r.Context()).User.Sub}
		if err := limits.Count(r.Context(), user); err != nil {
			return answer, err
		}
		leave, err := desk.Enter(r.Context(), user.Key) // before the document is in memory
		if errors.Is(err, picture.ErrUnderWay) {
			return answer, web.RateLimited(patience)
		}
		if errors.Is(err, picture.ErrBusy) {
			return answer, web.Busy(patience)
		}
		if err != nil {
			return answer, err
		}
		defer leave()
		data, err := readDocument(w, r)
		if err != nil {
			return answer, err
		}
		select {
		case checking <- struct{}{}:
			defer func() { <-checking }()
		case <-time.After(patience):
			return answer, web.Busy(patience)
		case <-r.Context().Done():
			return answer, r.Context().Err()
		}
		if r.Header.Get("Content-Encoding") == "gzip" {
			if data, err = unzip(data); err != nil {
				return answer, err
			}
		}
		answer, _, err = c.Check(r.Context(), bytes.NewReader(data))
		return answer, err
	}
	validate := func(w http.ResponseWriter, r *http.Request) error {
		answer, err := check(w, r)
		if err != nil {
			return err
		}
		// An invalid document is an answer, not an error.
		return web.WriteJSON(w, http.StatusOK, answer)
	}
	a.Handle(m, "/api/activity/validate", web.Methods{"POST": a.RequireSession(a.Do(validate))})
}

// readDocument reads a body with any JSON, which may be compressed. web.ReadJSON is for requests,
// which are smaller and have known members.
func readDocument(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" && coding != "gzip" {
		return nil, errEncoding
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, errMediaType
	}
	if r.ContentLength > maxUpload {
		return nil, errTooLarge // before the client has sent it
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpload))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, errTooLarge
	case err != nil:
		return nil, web.NewProblem(http.StatusBadRequest, "invalid_request", "The body could not be read.")
	}
	return body, nil
}

func unzip(packed []byte) (data []byte, err error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(z, maxUpload+1))
	}
	switch {
	case err != nil:
		return nil, web.NewProblem(http.StatusBadRequest, "invalid_request", "The body is not a complete gzip file.")
	case len(data) > maxUpload:
		return nil, errTooLarge
	}
	return data, nil
}
