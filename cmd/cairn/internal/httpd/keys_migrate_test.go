package httpd

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// The operator's way from HS256 to RS256, with a service that runs.
func TestMigrationNeverRefusesACookieTooEarlyNorWithoutAPublishedKey(t *testing.T) {
	database := filepath.Join(t.TempDir(), "cairn.db")
	hs := startService(t, serviceOptions{HS256: true, Store: storetest.Open(t, database)})
	hs.addUser("ada")
	old := hs.browser()
	old.signIn("ada")
	migrate := func(want int, args ...string) string {
		t.Helper()
		all := append([]string{"keys", "migrate", "--database", database, "--issuer", hs.URL, "--private-key-file", sharedKey()}, args...)
		out, errs := cairn(t, want, all...)
		return out + errs
	}
	if got := migrate(exitFailed, "--until", "now"); !strings.Contains(got, "without one it answers 404") {
		t.Errorf("the service has no key: %s", got)
	}
	hs.server.Close()
	if got := migrate(exitFailed, "--until", "now"); !strings.Contains(got, "cannot be read") || !strings.Contains(got, "nothing was changed") {
		t.Errorf("the service is down: %s", got)
	}

	rs := restartAt(t, hs, hs.URL)
	other := filepath.Join(t.TempDir(), "other.pem")
	if _, err := config.GenerateKey(other, 2048); err != nil {
		t.Fatal(err)
	}
	if got := migrate(exitFailed, "--until", "now", "--private-key-file", other); !strings.Contains(got, "does not have the key") {
		t.Errorf("another key: %s", got)
	}
	if got := migrate(exitFailed, "--until", "now", "--private-key-file", ""); !strings.Contains(got, "cairn keys generate") {
		t.Errorf("no key: %s", got)
	}
	for _, when := range []string{"soon", "2020-01-01", "2020-01-01T00:00:00Z", "-1d", "d", "3651d", "99999d", "1w", "2101-01-01", "9999-12-31T23:59:59-14:00"} {
		if got := migrate(exitUsage, "--until", when); !strings.Contains(got, "--until: ") {
			t.Errorf("%s: %s", when, got)
		}
	}
	type hs256State struct {
		Kid      string     `json:"kid"`
		Sessions int        `json:"hs256_sessions"`
		Ended    int        `json:"ended"`
		Last     *time.Time `json:"last_expires_at"`
		Until    *time.Time `json:"hs256_until"`
	}
	state := func(args ...string) (s hs256State) {
		t.Helper()
		if err := json.Unmarshal([]byte(migrate(exitDone, append(args, "-o", "json")...)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := state(); got.Sessions != 1 || got.Last == nil || got.Until != nil || got.Kid == "" {
		t.Errorf("at first: %+v", got)
	}
	fresh := rs.browser()
	fresh.signIn("ada")
	if got := state("--until", "14d"); got.Sessions != 1 || got.Until == nil || time.Until(*got.Until) < 13*24*time.Hour {
		t.Errorf("with a date to come: %+v", got)
	}
	if got := old.api("GET", "/api/me", nil); got.StatusCode != http.StatusOK {
		t.Errorf("before the date: %d", got.StatusCode)
	}
	last := state("--until", "3650d").Last
	if got := migrate(exitDone); !strings.Contains(got, "application after "+last.Format(time.RFC3339)) {
		t.Errorf("no cookie lives until then: %s", got)
	}
	if got := state("--until", "never"); got.Until != nil || got.Ended != 0 {
		t.Errorf("never: %+v", got)
	}
	uri, etag := listOf(t, fresh)
	if got := migrate(exitDone, "--until", "now"); !strings.Contains(got, "refused from 2") || !strings.Contains(got, rs.URL+"/.well-known/jwks.json") {
		t.Errorf("at the end: %s", got)
	}
	if got := fresh.get(uri, "If-None-Match", etag); got.StatusCode != http.StatusOK {
		t.Errorf("other applications do not hear of it: %d", got.StatusCode)
	}
	if got := state("--until", "now"); got.Sessions != 0 || got.Ended != 0 {
		t.Errorf("again: %+v", got)
	}
	// The running service reads its settings every other second.
	for tick := time.NewTicker(100 * time.Millisecond); old.api("GET", "/api/me", nil).StatusCode != http.StatusUnauthorized; <-tick.C {
		if t.Context().Err() != nil {
			t.Fatal("the HS256 cookie is still accepted")
		}
	}
	if got := fresh.api("GET", "/api/me", nil); got.StatusCode != http.StatusOK {
		t.Errorf("the RS256 cookie: %d", got.StatusCode)
	}
	// Whoever holds the shared secret can sign the claims of a newer token with it.
	// A start reads the settings at once.
	rs.server.Close()
	rs = restartAt(t, rs, rs.URL)
	genuine := fresh.cookie("cairn_session")
	parts := strings.Split(genuine, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + parts[1]
	forged += "." + base64.RawURLEncoding.EncodeToString(hmacWith(sha256.New, rs.secret)([]byte(forged)))
	for cookies, want := range map[string]int{"cairn_session=" + forged: http.StatusUnauthorized, "cairn_session=" + forged + "; cairn_session=" + genuine: http.StatusOK} {
		if got := rs.browser().api("GET", "/api/me", nil, "Cookie", cookies); got.StatusCode != want {
			t.Errorf("an RS256 session's token signed with HS256: %d, want %d", got.StatusCode, want)
		}
	}
	old.signIn("ada")
	if got := old.api("GET", "/api/me", nil); got.StatusCode != http.StatusOK || jwtHeader(t, old.cookie("cairn_session"))["alg"] != "RS256" {
		t.Errorf("signed in again: %d", got.StatusCode)
	}
}
