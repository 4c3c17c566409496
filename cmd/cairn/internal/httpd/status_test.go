package httpd

import (
	"compress/zlib"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
)

// statusBit fetches the list that a session token names and returns its bit.
func statusBit(t *testing.T, b *browser, token string, header ...string) (bit int, answer response) {
	t.Helper()
	ref := jwtPayload(t, token)["status"].(map[string]any)["status_list"].(map[string]any)
	answer = b.get(ref["uri"].(string), header...)
	if answer.StatusCode != http.StatusOK {
		return -1, answer
	}
	if typ := jwtHeader(t, answer.Text)["typ"]; typ != "statuslist+jwt" || answer.Header.Get("Content-Type") != "application/statuslist+jwt" {
		t.Fatalf("typ %v, Content-Type %q", typ, answer.Header.Get("Content-Type"))
	}
	payload := jwtPayload(t, answer.Text)
	if payload["sub"] != ref["uri"] || payload["ttl"] == nil || payload["exp"] == nil {
		t.Errorf("payload %v", payload)
	}
	packed, err := base64.RawURLEncoding.DecodeString(payload["status_list"].(map[string]any)["lst"].(string))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zlib.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		t.Fatal(err)
	}
	bits, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	index := int(ref["idx"].(float64))
	return int(bits[index/8]>>(index%8)) & 1, answer
}

// What verifiers learn of a session that was taken back, in both schemes: at
// the next request, and without a new signature for each one that asks.
func TestEndedSessionIsNeverMissingInTheStatusList(t *testing.T) {
	for name, hs := range map[string]bool{"HS256": true, "RS256": false} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, serviceOptions{HS256: hs})
			s.addUser("ada")
			s.addUser("bob")
			ada, bob, stranger := s.browser(), s.browser(), s.browser()
			ada.signIn("ada")
			bob.signIn("bob")
			token, other := ada.cookie("cairn_session"), bob.cookie("cairn_session")
			bit, first := statusBit(t, stranger, token)
			if bit != 0 || first.Header.Get("ETag") == "" {
				t.Fatalf("live session: bit %d, ETag %q", bit, first.Header.Get("ETag"))
			}
			if _, again := statusBit(t, stranger, token, "If-None-Match", first.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || again.Text != "" {
				t.Errorf("conditional request: %d", again.StatusCode)
			}
			if _, again := statusBit(t, stranger, token); again.Text != first.Text {
				t.Error("an unchanged list was signed again")
			}
			ada.api("POST", "/api/auth/logout", nil)
			bit, changed := statusBit(t, stranger, token, "If-None-Match", first.Header.Get("ETag"))
			if bit != 1 || changed.Header.Get("ETag") == first.Header.Get("ETag") {
				t.Errorf("ended session: %d, bit %d", changed.StatusCode, bit)
			}
			if bit, _ := statusBit(t, stranger, other); bit != 0 {
				t.Error("a bystander's session is marked")
			}
			if got := stranger.get("/oauth2/status/99"); got.StatusCode != http.StatusNotFound {
				t.Errorf("a list that never was: %d", got.StatusCode)
			}
		})
	}
}
