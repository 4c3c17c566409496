package httpd

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"log/slog"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/config"
)

var update = flag.Bool("update", false, "accept the present wire formats as the golden files")

// golden compares a wire format with its file in testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden file: %v (run with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

func jwtHeader(t *testing.T, token string) map[string]any { return jwtPart(t, token, 0) }

func jwtPayload(t *testing.T, token string) map[string]any { return jwtPart(t, token, 1) }

func jwtPart(t *testing.T, token string, i int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %d parts", len(parts))
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[i])
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// restartAt starts a service with a key on the address and database of one
// that was closed.
func restartAt(t *testing.T, old *service, address string) *service {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+u.Port())
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, URL: address, store: old.store, log: &logBuffer{}, key: sharedKey(), hasher: old.hasher, secret: old.secret}
	settings := config.Defaults()
	settings.Issuer, settings.PrivateKeyFile = address, s.key
	checked, err := settings.Check()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := config.LoadSigningKeys(s.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Options{Config: checked, Store: s.store, Secret: s.secret, Keys: keys, Hasher: s.hasher, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.server = &httptest.Server{Listener: l, Config: NewServer(h, slog.New(slog.DiscardHandler))}
	s.server.Start()
	t.Cleanup(s.server.Close)
	return s
}
