package session_test

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// The program that the README shows.
func Example() {
	const issuer = "https://id.example.org"
	// RS256: the public keys, fetched in the background and kept.
	keys := session.NewRemoteKeySet(issuer+"/.well-known/jwks.json", session.RemoteOptions{})
	verifier := &session.Verifier{
		Issuer: issuer, Keys: keys, CookieName: "__Host-cairn_session",
		// Which sessions were taken back: known within a second, without a call per request.
		Status: session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: issuer, Keys: keys, Wait: 25 * time.Second}),
	}
	// For HS256 cookies, from before there was a key, give both the secret that cairn show-secret prints.
	if err := verifier.Check(); err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := session.FromContext(r.Context())
		fmt.Fprintf(w, "Hello %s\n", claims.Name)
	})
	http.Handle("/", session.Middleware(verifier, nil)(hello))
	// Output:
}

func TestReadmeNeverShowsOtherCodeThanTheExample(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, _ = strings.Cut(body, "\t// Output:\n")
	for line := range strings.Lines(body) {
		if !strings.Contains(string(readme), strings.TrimPrefix(line, "\t")) {
			t.Errorf("the README lacks the example's line %q", line)
		}
	}
}
