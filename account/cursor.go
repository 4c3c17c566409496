package account

import (
	"encoding/base64"
	"net/http"
	"net/url"

	"github.com/cairn-id/cairn/account/web"
)

// maxCursor is more than any key: a word that an email address may have, and a handle.
// A word is kept as it reads, which may be six times as long as it was written.
const maxCursor = 2048

// Cursor makes the opaque cursor of the page after key.
func Cursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// ReadCursor returns the key of the parameter cursor; "" means the first page. What
// this service never made is refused: a client that got the first page again would
// loop for ever.
func ReadCursor(q url.Values) (key string, err error) {
	c := q.Get("cursor")
	if len(q["cursor"]) > 1 {
		return "", web.NewProblem(http.StatusBadRequest, "invalid_request", "The parameter cursor is given more than once.")
	}
	k, err := base64.RawURLEncoding.Strict().DecodeString(c)
	if err != nil || len(k) > maxCursor || Cursor(string(k)) != c { // the decoder skips line breaks
		return "", ErrInvalidCursor
	}
	return string(k), nil
}
