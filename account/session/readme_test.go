package session_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
)

// The program that the README shows.
func Example() {
	verifier := &session.Verifier{
		Issuer: "https://id.example.org",
		// RS256: the public keys, fetched in the background and kept.
		Keys: session.NewRemoteKeySet("https://id.example.org/.well-known/jwks.json", session.RemoteOptions{}),
		// HS256 cookies from before there was a key; leave it out if there never were any.
		Secret:     []byte(os.Getenv("SERVICE_AUTH_JWT_SECRET")),
		CookieName: "__Host-cairn_session",
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
