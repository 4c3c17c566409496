package session_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

func TestUnsignedTokenIsNeverASession(t *testing.T) {
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "none ", "", "\u006eone"} {
		for _, k := range []string{"", kid} {
			header := map[string]any{"alg": alg, "typ": "JWT"}
			if k != "" {
				header["kid"] = k
			}
			input := b64(toJSON(header)) + "." + b64(toJSON(good()))
			for _, token := range []string{input + ".", input, input + ".e30", forge(header, good(), byHMAC(secret)), forge(header, good(), byHMAC(nil))} {
				mustRefuse(t, verifier(), token)
			}
		}
	}
}

func TestStrippedOrForeignSignatureIsRefused(t *testing.T) {
	other := newRSA(2048)
	for _, token := range []string{hsToken(good()), rsToken(good())} {
		input := token[:strings.LastIndex(token, ".")]
		sig := token[len(input)+1:]
		raw, err := base64.RawURLEncoding.DecodeString(sig)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"", "AA", sig[:len(sig)-1], sig[:len(sig)/2], sig + "A", sig + sig, b64(strings.Repeat("\x00", len(raw))), b64(string(raw) + "\x00"), b64("\x00" + string(raw))} {
			mustRefuse(t, verifier(), input+"."+s)
		}
	}
	mustRefuse(t, verifier(), forge(rsHeader(), good(), byRSA(other)))
	mustRefuse(t, verifier(), forge(hsHeader(), good(), byHMAC([]byte(strings.ToUpper(string(secret))))))
}

func TestChangedClaimsUnderOldSignatureAreRefused(t *testing.T) {
	for _, token := range []string{hsToken(good()), rsToken(good())} {
		parts := strings.Split(token, ".")
		for name, value := range map[string]any{"sub": "u_1", "groups": []string{"admin"}, "exp": clock.AddDate(1, 0, 0).Unix(), "x": 1} {
			mustRefuse(t, verifier(), parts[0]+"."+b64(toJSON(with(name, value)))+"."+parts[2])
		}
		mustRefuse(t, verifier(), b64(`{"typ":"JWT","kid":"key-1","alg":"RS256" }`)+"."+parts[1]+"."+parts[2])
	}
}

// The public key is no secret, so a token that it "signs" as HMAC key is anybody's.
func TestPublicKeyIsNeverAnHMACSecret(t *testing.T) {
	pub := &rsaKey().PublicKey
	pkix, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PublicKey(pub)
	jwk, err := publicJWK(rsaKey(), kid).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	pemPKIX := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	pemPKCS1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1})
	n := pub.N.Bytes()
	encodings := map[string][]byte{
		"PEM PKIX": pemPKIX, "PEM PKIX without line end": []byte(strings.TrimSpace(string(pemPKIX))),
		"PEM PKCS1": pemPKCS1, "PEM PKCS1 without line end": []byte(strings.TrimSpace(string(pemPKCS1))),
		"PEM with CRLF": []byte(strings.ReplaceAll(string(pemPKIX), "\n", "\r\n")),
		"DER PKIX":      pkix, "DER PKCS1": pkcs1, "base64 DER": []byte(base64.StdEncoding.EncodeToString(pkix)),
		"modulus": n, "JWK n": []byte(base64.RawURLEncoding.EncodeToString(n)), "JWK": jwk, "JWK set": []byte(`{"keys":[` + string(jwk) + `]}`),
		"decimal modulus": []byte(pub.N.String()), "kid": []byte(kid), "blank": {}, "zero": {0},
	}
	rsOnly := verifier()
	rsOnly.Secret = nil
	for name, key := range encodings {
		t.Run(name, func(t *testing.T) {
			sign512 := func(input string) []byte {
				m := hmac.New(sha512.New, key)
				m.Write([]byte(input))
				return m.Sum(nil)
			}
			for _, v := range []*session.Verifier{rsOnly, verifier()} {
				for _, alg := range []string{"HS256", "RS256", "HS384", "HS512"} {
					header := map[string]any{"alg": alg, "typ": "JWT", "kid": kid}
					mustRefuse(t, v, forge(header, good(), byHMAC(key)))
					mustRefuse(t, v, forge(header, good(), sign512))
				}
			}
		})
	}
}

func TestGuessableSecretsAreRefused(t *testing.T) {
	for _, key := range []string{"", "secret", "changeme", "password", "your-256-bit-secret", strings.Repeat("\x00", 32), strings.Repeat("a", 32), string(secret[:32]), string(secret) + "\n"} {
		mustRefuse(t, verifier(), forge(hsHeader(), good(), byHMAC([]byte(key))))
	}
}

func TestOnlyHS256AndRS256AreInUse(t *testing.T) {
	rs512 := func(input string) []byte {
		sum := sha512.Sum512([]byte(input))
		sig, err := rsa.SignPKCS1v15(nil, rsaKey(), crypto.SHA512, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
	ps256 := func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		sig, err := rsa.SignPSS(rand.Reader, rsaKey(), crypto.SHA256, sum[:], nil)
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
	hs512 := func(input string) []byte {
		m := hmac.New(sha512.New, secret)
		m.Write([]byte(input))
		return m.Sum(nil)
	}
	signs := []func(string) []byte{rs512, ps256, hs512, byHMAC(secret), byRSA(rsaKey())}
	for _, alg := range []string{"RS384", "RS512", "PS256", "PS384", "PS512", "HS384", "HS512", "ES256", "EdDSA", "dir", "A128KW", "RSA-OAEP", "rs256", "hs256", "Hs256", " HS256", "RS256 "} {
		for _, sign := range signs {
			mustRefuse(t, verifier(), forge(map[string]any{"alg": alg, "kid": kid}, good(), sign))
		}
	}
	for _, header := range []string{`{"typ":"JWT"}`, `{"alg":null}`, `{"alg":256}`, `{"alg":["HS256"]}`, `{"ALG":"HS256"}`, `{"Alg":"HS256"}`, `{"alg":{"HS256":1}}`} {
		mustRefuse(t, verifier(), forge(header, good(), byHMAC(secret)))
	}
}

func TestHeaderNeverChoosesItsOwnKey(t *testing.T) {
	evil := newRSA(2048)
	jwk, err := publicJWK(evil, kid).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	extras := []string{
		`"jwk":` + string(jwk), `"jwk":null`, `"jku":"https://evil.example/jwks.json"`, `"x5u":"https://evil.example/c.pem"`, `"x5c":["MIIB"]`, `"x5c":[]`,
		`"x5t":"AA"`, `"x5t#S256":"AA"`, `"crit":["exp"]`, `"crit":["b64"],"b64":false`, `"crit":[]`, `"b64":true`, `"b64":false`, `"zip":"DEF"`, `"enc":"A256GCM"`,
	}
	for _, extra := range extras {
		mustRefuse(t, verifier(), forge(`{"alg":"RS256","kid":"key-1",`+extra+`}`, good(), byRSA(evil)))
		// Refused under a good signature too: what is not obeyed must not be ignored.
		mustRefuse(t, verifier(), forge(`{"alg":"RS256","kid":"key-1",`+extra+`}`, good(), byRSA(rsaKey())))
		mustRefuse(t, verifier(), forge(`{"alg":"HS256",`+extra+`}`, good(), byHMAC(secret)))
	}
}

func TestStrangeKeyIDsNeverReachTheKeySet(t *testing.T) {
	v := verifier()
	v.Keys = &countingKeySet{KeySet: v.Keys}
	for _, id := range []any{"", "../../../../dev/null", "/etc/passwd", "' OR 1=1 --", "https://evil.example/k", "key-1\x00", "key 1", "ключ", strings.Repeat("a", 129), nil, 1, true, []string{kid}, map[string]any{"kid": kid}} {
		mustRefuse(t, v, forge(map[string]any{"alg": "RS256", "kid": id}, good(), byRSA(rsaKey())))
	}
	mustRefuse(t, v, forge(map[string]any{"alg": "RS256"}, good(), byRSA(rsaKey())))
	mustRefuse(t, v, forge(map[string]any{"alg": "RS256", "KID": kid}, good(), byRSA(rsaKey())))
	if n := v.Keys.(*countingKeySet).asked; n != 0 {
		t.Errorf("the key set was asked %d times", n)
	}
}

func TestTokensOfOtherTypesAreNeverSessions(t *testing.T) {
	for _, typ := range []any{"statuslist+jwt", "logout+jwt", "at+jwt", "application/at+jwt", "dpop+jwt", "JWS", "JOSE", "JWT ", "", nil, 1, []string{"JWT"}} {
		for _, base := range []map[string]any{hsHeader(), rsHeader()} {
			header := maps.Clone(base)
			header["typ"] = typ
			mustRefuse(t, verifier(), forge(header, good(), byHMAC(secret)))
			mustRefuse(t, verifier(), forge(header, good(), byRSA(rsaKey())))
		}
	}
}

func TestWeakOrForeignKeysOfTheSetAreRefused(t *testing.T) {
	weak, strong := newRSA(1024), rsaKey()
	usable := publicJWK(newRSA(2048), "key-9") // without one Check says so
	for name, jwk := range map[string]jose.JSONWebKey{
		"1024 bits":           {Key: &weak.PublicKey, KeyID: kid},
		"for encryption":      {Key: &strong.PublicKey, KeyID: kid, Use: "enc"},
		"for PS256":           {Key: &strong.PublicKey, KeyID: kid, Algorithm: "PS256"},
		"for RS512":           {Key: &strong.PublicKey, KeyID: kid, Algorithm: "RS512"},
		"symmetric":           {Key: secret, KeyID: kid},
		"under another kid":   {Key: &strong.PublicKey, KeyID: "key-2"},
		"private and foreign": {Key: strong, KeyID: kid + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			signer := strong
			if name == "1024 bits" {
				signer = weak
			}
			token := forge(rsHeader(), good(), byRSA(signer))
			v := verifier()
			v.Keys = session.NewStaticKeySet(jwk, usable)
			mustRefuse(t, v, token)
			v.Keys = singleKey{jwk}
			mustRefuse(t, v, token)
			mustRefuse(t, v, forge(rsHeader(), good(), byHMAC(secret)))
		})
	}
}
