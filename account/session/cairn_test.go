package session_test

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// standIn is a server with Cairn's key set, and the cookies Cairn would set, for the
// examples. It runs on plain http, hence the plain cookie name.
type standIn struct {
	*httptest.Server
	SharedSecret string
}

func startCairn() *standIn {
	keys := toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		_, _ = w.Write([]byte(keys))
	})
	return &standIn{httptest.NewServer(mux), string(secret)}
}

func (s *standIn) payload(handle string) map[string]any {
	p, now := good(), time.Now()
	p["iss"], p["preferred_username"] = s.URL, handle
	p["iat"], p["auth_time"], p["exp"] = now.Unix(), now.Unix(), now.Add(session.Lifetime).Unix()
	return p
}

func (s *standIn) CookieRS256(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: rsToken(s.payload(handle))}
}

func (s *standIn) CookieHS256(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: hsToken(s.payload(handle))}
}
