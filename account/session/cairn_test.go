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
	s := &standIn{httptest.NewServer(mux), string(secret)}
	mux.HandleFunc("GET /oauth2/status/1", func(w http.ResponseWriter, r *http.Request) {
		bits := make([]byte, listSize/8)
		bits[revokedIndex/8] = 1 << (revokedIndex % 8)
		now := time.Now()
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		_, _ = w.Write([]byte(rsList(map[string]any{
			"sub": s.URL + r.URL.Path, "iat": now.Unix(), "exp": now.Add(12 * time.Hour).Unix(), "ttl": 60,
			"status_list": map[string]any{"bits": 1, "lst": packed(bits)},
		})))
	})
	return s
}

// revokedIndex is the place of the session that was taken back.
const revokedIndex = 1234

func (s *standIn) payload(handle string) map[string]any {
	p, now := good(), time.Now()
	p["iss"], p["preferred_username"] = s.URL, handle
	p["status"] = map[string]any{"status_list": map[string]any{"idx": 7, "uri": s.URL + "/oauth2/status/1"}}
	p["iat"], p["auth_time"], p["exp"] = now.Unix(), now.Unix(), now.Add(session.Lifetime).Unix()
	return p
}

func (s *standIn) CookieRS256(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: rsToken(s.payload(handle))}
}

func (s *standIn) CookieHS256(handle string) *http.Cookie {
	return &http.Cookie{Name: "cairn_session", Value: hsToken(s.payload(handle))}
}

// RevokedCookie is a genuine one whose session was taken back.
func (s *standIn) RevokedCookie(handle string) *http.Cookie {
	p := s.payload(handle)
	p["status"] = map[string]any{"status_list": map[string]any{"idx": revokedIndex, "uri": s.URL + "/oauth2/status/1"}}
	return &http.Cookie{Name: "cairn_session", Value: rsToken(p)}
}
