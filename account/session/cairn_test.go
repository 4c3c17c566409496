package session_test

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// standIn is a server with Cairn's key set and status list, and the cookies Cairn would set, for the
// examples. It runs on plain http, hence the plain cookie name.
type standIn struct {
	*httptest.Server
	SharedSecret string
}

// revokedIndex is the place of the session that was revoked.
const revokedIndex = 1234

func startCairn() *standIn {
	s := newServer(revokedIndex)
	web := httptest.NewServer(s)
	s.issuer = web.URL
	return &standIn{web, string(secret)}
}

func (s *standIn) payload(handle string, index int) map[string]any {
	return changed(payload(s.URL, time.Now(), index), "preferred_username", handle)
}

func (s *standIn) CookieRS256(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: rsToken(s.payload(handle, 7))}
}

func (s *standIn) CookieHS256(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: hsToken(s.payload(handle, 7))}
}

// PasswordCookie is that of a sign-in without a second factor.
func (s *standIn) PasswordCookie(handle string) *http.Cookie {
	p := changed(changed(s.payload(handle, 7), "amr", []string{"pwd"}), "acr", "1")
	return &http.Cookie{Name: "cairn_session", Value: rsToken(p)}
}

// RevokedCookie is a genuine one whose session was revoked.
func (s *standIn) RevokedCookie(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: rsToken(s.payload(handle, revokedIndex))}
}

// AccessToken is one for https://api.example.org.
func (s *standIn) AccessToken(scope string) string {
	p := changed(changed(s.payload("ada", 7), "aud", api), "scope", scope)
	return sign(jose.RS256, rsaKey(), kid, "at+jwt", changed(p, "client_id", "app"))
}
