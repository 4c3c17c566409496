package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/config"
)

// A key that was forgotten at a restart would sign everybody out, and the
// service would only have said so in its log.
func TestServeNeverForgetsItsKey(t *testing.T) {
	database := initializedDatabase(t)
	withoutKey := func() (code int, errs string) {
		var log bytes.Buffer
		code = run(t.Context(), []string{"serve", "--listen", "nowhere.invalid:0", "--database", database}, nil, strings.NewReader(""), &log, &log)
		return code, log.String()
	}
	if _, errs := withoutKey(); !strings.Contains(errs, "--listen") { // as far as it gets
		t.Fatalf("before there was a key: %s", errs)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if _, err := config.GenerateKey(key, config.MinKeyBits); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "--database", database, "--private-key-file", key)
	body := `{"handle":"keeper","password":"` + password + `"}`
	got, err := http.Post("http://"+p.address+"/api/auth/login", "application/json", strings.NewReader(body))
	if err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("sign in: %v %v", got, err)
	}
	_ = got.Body.Close()
	p.stop()
	<-p.code
	code, errs := withoutKey()
	if code != exitFailed || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"--private-key-file", "SERVICE_OIDC_PRIVATE_KEY_FILE", filepath.Base(database), "RS256", "cairn.yaml", "--no-oidc"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q does not name %s", errs, want)
		}
	}
	p = startProcess(t, "--database", database, "--no-oidc", "--private-key-file", key)
	got, err = http.Get("http://" + p.address + "/.well-known/jwks.json")
	if err != nil || got.StatusCode != http.StatusNotFound {
		t.Errorf("with --no-oidc: %v %v", got, err)
	}
	_ = got.Body.Close()
	p.stop()
	<-p.code
}
