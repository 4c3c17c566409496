// Command verify is a small application that knows who is signed in at Cairn by
// the session cookie alone, without a call to Cairn for each request.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

func main() {
	issuer := flag.String("issuer", "http://localhost:4040", "issuer of Cairn")
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	// The public keys, for RS256 cookies: fetched in the background and kept.
	keys := session.NewRemoteKeySet(*issuer+"/.well-known/jwks.json", session.RemoteOptions{})
	verifier := &session.Verifier{
		Issuer: *issuer,
		Keys:   keys,
		// Which sessions were revoked: known within a second, without a call per request.
		Status: session.NewRemoteStatusList(session.RemoteStatusOptions{
			Issuer: *issuer, Keys: keys, Wait: 25 * time.Second,
		}),
	}
	// For HS256 cookies, give both of them the Secret that cairn show-secret prints.
	if err := verifier.Check(); err != nil {
		log.Fatal(err)
	}

	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := session.FromContext(r.Context())
		fmt.Fprintf(w, "Hello %s (%s)\n", claims.Name, claims.Subject)
	})
	http.Handle("/", session.Middleware(verifier, nil)(hello))
	log.Fatal(http.ListenAndServe(*listen, nil))
}
