package httpd

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// plainWriter is a response whose body is dropped: httptest.ResponseRecorder would cost more
// than what is measured.
type plainWriter struct {
	header http.Header
	status int
	bytes  int
}

func (w *plainWriter) Header() http.Header  { return w.header }
func (w *plainWriter) WriteHeader(code int) { w.status = code }
func (w *plainWriter) Write(b []byte) (int, error) {
	w.bytes += len(b)
	return len(b), nil
}

// benchHandler is the handler that serve runs, whose limits are counted and never reached.
func benchHandler(b *testing.B, log io.Writer) *Handler {
	b.Helper()
	must := func(err error) {
		if b.Helper(); err != nil {
			b.Fatal(err)
		}
	}
	st := storetest.New(b)
	secret := bytes.Repeat([]byte("s"), 48)
	_, err := st.Initialize(b.Context(), account.DefaultSettings(),
		map[string][]byte{account.SecretJWT: secret, account.SecretInstallation: secret})
	must(err)
	settings := config.Defaults()
	settings.Issuer, settings.PrivateKeyFile = "http://localhost:4040", sharedKey()
	settings.RateLimits = []string{"all=1000000/1s"}
	checked, err := settings.Check()
	must(err)
	keys, err := config.LoadSigningKeys(settings.PrivateKeyFile, nil)
	must(err)
	hasher, err := passwords.NewTestHasher()
	must(err)
	h, err := New(b.Context(), Options{Config: checked, Store: st, Secret: secret, Keys: keys, Hasher: hasher,
		Log: slog.New(slog.NewJSONHandler(log, nil))})
	must(err)
	return h
}

// BenchmarkHandler measures the cost of each request in this program, without net/http's server and
// without the write of the log line.
func BenchmarkHandler(b *testing.B) {
	h := benchHandler(b, io.Discard)
	for _, of := range []struct {
		name, path, encoding string
		status               int
	}{
		{"discovery", "/.well-known/openid-configuration", "", 200},
		{"discovery-gzip", "/.well-known/openid-configuration", "gzip", 200},
		{"jwks", "/.well-known/jwks.json", "", 200},
		{"health", "/healthz", "", 200},
		{"openapi-gzip", "/openapi.yaml", "gzip", 200},
		{"userinfo-refused", "/oauth2/userinfo", "", 401},
		{"login-page", "/login/", "", 200},
	} {
		b.Run(of.name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, of.path, nil)
			agent, encoding := []string{"Go-http-client/1.1"}, []string{of.encoding}
			b.ReportAllocs()
			for b.Loop() {
				r.Header = http.Header{"User-Agent": agent}
				if of.encoding != "" {
					r.Header["Accept-Encoding"] = encoding
				}
				w := plainWriter{header: make(http.Header)}
				h.ServeHTTP(&w, r)
				if w.status != of.status && !(w.status == 0 && of.status == 200) {
					b.Fatalf("%d", w.status)
				}
			}
		})
	}
}
