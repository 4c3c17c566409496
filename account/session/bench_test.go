package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// BenchmarkVerify is the cost of a request at an application that has the keys and the list; with RS256
// it is to stay under 100 microseconds.
func BenchmarkVerify(b *testing.B) {
	s, now := newServer(1), time.Now()
	keys := s.keySet()
	v := &session.Verifier{Issuer: issuer, Secret: secret, Keys: keys}
	lists := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: issuer, Keys: keys,
		Client: &http.Client{Transport: s}})
	defer lists.Close()
	verify := func(token string, good bool) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(b.Context(), token); (err == nil) != good {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("HS256", verify(hsToken(payload(issuer, now, 7)), true))
	b.Run("RS256", verify(rsToken(payload(issuer, now, 7)), true))
	b.Run("unsigned", verify(b64(`{"alg":"none"}`)+"."+b64(toJSON(good()))+".e30", false))
	v.Status = lists
	b.Run("RS256 and list", verify(rsToken(payload(issuer, now, 7)), true))
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if revoked, err := lists.Revoked(b.Context(), place(5)); revoked || err != nil {
				b.Fatal(err)
			}
		}
	})
}
