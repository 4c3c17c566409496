package session_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// BenchmarkVerifyRS256 is the cost of a request at an application that has the keys; it
// is to stay under 100 microseconds.
func BenchmarkVerifyRS256(b *testing.B) {
	set := toJSON(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{publicJWK(rsaKey(), kid)}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(set)) }))
	defer server.Close()
	v := verifier()
	v.Keys = session.NewRemoteKeySet(server.URL, session.RemoteOptions{Now: func() time.Time { return clock }})
	benchmark(b, v, rsToken(good()))
}

func BenchmarkVerifyHS256(b *testing.B) { benchmark(b, verifier(), hsToken(good())) }

func BenchmarkRefuseUnsigned(b *testing.B) {
	v, token := verifier(), b64(`{"alg":"none"}`)+"."+b64(toJSON(good()))+".e30"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err == nil {
			b.Fatal("verified")
		}
	}
}

func benchmark(b *testing.B, v *session.Verifier, token string) {
	if _, err := v.Verify(b.Context(), token); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyWarm is the same with the status list: no network, and still under 100
// microseconds.
func BenchmarkVerifyWarm(b *testing.B) {
	l := &lister{publisher: &publisher{time: clock}, tb: b, revoked: []int{7}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.handler(w, r) }))
	defer l.Close()
	l.serve()
	benchmark(b, l.verifier(l.lists()), l.token(5))
}

// BenchmarkRevokedWarm is what the status list adds to that.
func BenchmarkRevokedWarm(b *testing.B) {
	lists := newStatusServer().lists()
	ref := place(5)
	b.ReportAllocs()
	for b.Loop() {
		if revoked, err := lists.Revoked(b.Context(), ref); revoked || err != nil {
			b.Fatal(err)
		}
	}
}
