package provider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// An accepted proof of possession is signed by the key whose thumbprint it gives.
func FuzzProof(f *testing.F) {
	p, k := assertionProvider(f)
	proof := func(claims string) string {
		options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k.ec}, options)
		must(f, err)
		signed, err := signer.Sign([]byte(claims))
		must(f, err)
		out, err := signed.CompactSerialize()
		must(f, err)
		return out
	}
	claims, err := json.Marshal(map[string]any{"jti": "1", "iat": noon.Unix(), "htm": "POST", "htu": testIssuer + "/oauth2/token"})
	must(f, err)
	genuine := proof(string(claims))
	parts := strings.Split(genuine, ".")
	for _, seed := range []string{genuine, proof("{}"), proof("[]"), parts[0] + ".e30." + parts[2], "eyJhbGciOiJub25lIn0." + parts[1] + ".", genuine[:len(genuine)-2]} {
		f.Add(seed)
	}
	payload := func(token string) string {
		b, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		return string(b)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r := httptest.NewRequest("POST", "/oauth2/token", nil)
		r.Header["Dpop"] = []string{in}
		switch got, err := p.readProof(r, ""); {
		case err != nil && !errors.Is(err, errInvalidProof):
			t.Fatal(err)
		case err == nil && payload(in) != payload(genuine):
			t.Fatalf("%q is taken: %+v", in, got)
		}
	})
}

// A description that anybody publishes makes a client that may be one, with a name that says whose it is.
func FuzzMetadataDocument(f *testing.F) {
	const id = "https://app.example/client"
	_, k := assertionProvider(f)
	for _, seed := range []string{
		`{"client_id":"` + id + `","client_name":"App","redirect_uris":["https://app.example/cb","http://127.0.0.1/cb"]}`,
		`{"client_id":"` + id + `","redirect_uris":["https://app.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks":` +
			string(keySet(f, jose.JSONWebKey{Key: &k.ec.PublicKey, KeyID: "e"})) + `}`,
		`{"client_id":"` + id + `","redirect_uris":null,"client_secret":"x"}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := readDocument(id, body, noon)
		if err != nil {
			return
		}
		if c.ID != id || !strings.HasPrefix(c.Name, "app.example") || c.Check() != nil || len(c.RedirectURIs) == 0 || c.AuthMethod == AuthJWT && len(c.JWKS) == 0 {
			t.Fatalf("%s: %+v, %v", body, c, c.Check())
		}
	})
}
