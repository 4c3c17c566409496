package main

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strings"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/activityschema"
)

// maxUpload is the size of a document that the service checks, in bytes.
const maxUpload = 1 << 20

// mountActivity registers the validator for signed-in users.
func mountActivity(m *mux.Router, a *account.Service, limits *account.Limits) {
	slots := make(chan struct{}, runtime.GOMAXPROCS(0)) // the work is the processor's
	c := &checker{options: activityschema.Options{Engine: activityschema.EngineFast}, lint: true}
	a.Handle(m, "/api/activity/validate", account.Methods{"POST": a.RequireSession(func(w http.ResponseWriter, r *http.Request) {
		wait, err := limits.Take(r.Context(), account.LimitActivity, account.IdentityFrom(r.Context()).User.Sub)
		if wait > 0 {
			err = account.RateLimited(wait)
		}
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		data, err := readDocument(w, r)
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			a.Fail(w, r, r.Context().Err())
			return
		}
		// Whatever the body is, the answer is about it: only a request that
		// brings no document is an error.
		said, _, err := c.checkBytes(r.Context(), data)
		if err != nil {
			a.Fail(w, r, err)
			return
		}
		account.WriteJSON(w, http.StatusOK, said)
	})})
}

// readDocument reads a body of any JSON. account.ReadJSON reads requests, which
// are smaller and of a known form.
func readDocument(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, account.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the document without content encoding.")
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, account.NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", "Send the document with Content-Type: application/json.")
	}
	tooLarge := account.NewProblem(http.StatusRequestEntityTooLarge, "too_large", "The document is larger than 1 MiB. The command cairn activity validate checks larger ones.")
	if r.ContentLength > maxUpload {
		return nil, tooLarge // before the client has sent it
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpload))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, tooLarge
	case err != nil:
		return nil, account.NewProblem(http.StatusBadRequest, "invalid_request", "The body could not be read.")
	}
	return body, nil
}
