package httpd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/config"
)

// Who cannot read the database learns nothing at the path of the probe, not even that there is something.
func TestProbeAnswersTheOperatorAlone(t *testing.T) {
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.TrustedProxies = []string{"127.0.0.0/8"} }})
	now := time.Now()
	secret, err := s.store.Secret(t.Context(), account.SecretInstallation)
	noError(t, err)
	seal := func(secret []byte, purpose string, at time.Time, v any) string {
		t.Helper()
		sealer, err := web.NewSealer(secret, map[string]time.Duration{purpose: time.Hour},
			func() time.Time { return at })
		noError(t, err)
		sealed, err := sealer.Seal(purpose, v)
		noError(t, err)
		return sealed
	}
	send := func(method, path, question string) (*http.Response, map[string]any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		noError(t, err)
		r.Header.Set("X-Forwarded-For", "203.0.113.9, 127.0.0.1")
		if question != "" {
			r.Header.Set(probeHeader, question)
		}
		res, err := http.DefaultClient.Do(r)
		noError(t, err)
		defer func() { _ = res.Body.Close() }()
		var body map[string]any
		noError(t, json.NewDecoder(res.Body).Decode(&body))
		delete(body, "request_id")
		return res, body
	}
	get := func(path, question string) (*http.Response, map[string]any) {
		t.Helper()
		return send(http.MethodGet, path, question)
	}
	_, nothing := get("/nothing", "")
	good := seal(secret, sealProbe, now, "nonce")
	shared, err := s.store.Secret(t.Context(), account.SecretJWT)
	noError(t, err)
	for name, question := range map[string]string{
		"none": "", "junk": "x.y", "another secret": seal([]byte(strings.Repeat("x", 48)), sealProbe, now, "nonce"), "the shared secret": seal(shared, sealProbe, now, "nonce"),
		"an old one": seal(secret, sealProbe, now.Add(-61*time.Second), "nonce"), "one of tomorrow": seal(secret, sealProbe, now.Add(24*time.Hour), "nonce"),
		"an answer": seal(secret, sealSeen, now, Seen{Nonce: "nonce"}), "of a sign-in": seal(secret, "signin", now, "nonce"), "altered": "x" + good[1:], "no text": seal(secret, sealProbe, now, 7),
	} {
		res, body := get(probePath, question)
		if diff := cmp.Diff(nothing, body); diff != "" || res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s %s", name, res.Status, diff)
		}
	}
	if res, body := send(http.MethodPut, probePath, ""); res.StatusCode != http.StatusNotFound || res.Header.Get("Allow") != "" {
		t.Errorf("another method: %s %v", res.Status, body)
	}
	res, body := get(probePath, good)
	if res.StatusCode != http.StatusOK || res.Header.Get("Cache-Control") != "no-store" || len(res.Cookies()) > 0 {
		t.Errorf("%s %v %v", res.Status, res.Header, body)
	}
	// An answer to another question, and that of another installation, count for nothing.
	seen, err := AskSeen(t.Context(), http.DefaultClient, s.URL, secret, http.Header{"X-Forwarded-For": {"203.0.113.9, 127.0.0.1"}})
	loopback := netip.MustParseAddr("127.0.0.1")
	if err != nil || seen.Peer != loopback || seen.Client != netip.MustParseAddr("203.0.113.9") || !seen.Trusted || len(seen.ForwardedFor) != 2 {
		t.Errorf("%+v %v", seen, err)
	}
	replay := func(w http.ResponseWriter, _ *http.Request) { noError(t, json.NewEncoder(w).Encode(body)) }
	replayed := httptest.NewServer(http.HandlerFunc(replay))
	defer replayed.Close()
	if seen, err := AskSeen(t.Context(), http.DefaultClient, replayed.URL, secret, nil); err == nil ||
		!strings.Contains(err.Error(), ErrOtherService.Error()) || seen.Nonce != "" {
		t.Errorf("%+v %v", seen, err)
	}
	if _, err := AskSeen(t.Context(), http.DefaultClient, s.URL, []byte(strings.Repeat("x", 48)), nil); err == nil {
		t.Error("the answer of another installation counts")
	}
	// The answer is as long as the header lets it be, and no longer.
	long := http.Header{"X-Forwarded-For": {strings.Repeat("203.0.113.9, ", 500) + strings.Repeat("x", 1000)}}
	if seen, err = AskSeen(t.Context(), http.DefaultClient, s.URL, secret, long); err != nil ||
		len(seen.ForwardedFor) != maxHops {
		t.Errorf("%d %v", len(seen.ForwardedFor), err)
	}
}
