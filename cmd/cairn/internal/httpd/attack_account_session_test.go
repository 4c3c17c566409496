package httpd

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func encode64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// forge makes a JWT with any header and claims.
func forge(t *testing.T, header, claims any, sign func(input []byte) []byte) string {
	t.Helper()
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	c, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	input := encode64(h) + "." + encode64(c)
	return input + "." + encode64(sign([]byte(input)))
}

func hmacWith(newHash func() hash.Hash, key []byte) func([]byte) []byte {
	return func(input []byte) []byte {
		m := hmac.New(newHash, key)
		m.Write(input)
		return m.Sum(nil)
	}
}

func changed(claims map[string]any, pairs ...any) map[string]any {
	c := maps.Clone(claims)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			delete(c, pairs[i].(string))
			continue
		}
		c[pairs[i].(string)] = pairs[i+1]
	}
	return c
}

// as asks who a cookie is.
func (s *service) as(token string) response {
	return s.visitor().do("GET", "/api/me", "", "", "Cookie", "cairn_session="+token)
}

// Attacks 64 to 71: nothing but what the service has signed, for a session that
// it knows, is a session; in either scheme, on either database.
func TestForgedTokenIsNeverASession(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		s.addUser(s.prefix() + "ada")
		admin := s.addUser(s.prefix()+"keeper", "admin")
		b := s.signedIn(s.prefix() + "ada")
		good := b.cookie("cairn_session")
		header, claims := jwtHeader(t, good), jwtPayload(t, good)
		parts := strings.Split(good, ".")
		if got := s.as(good); got.StatusCode != http.StatusOK {
			t.Fatalf("the genuine one: %d", got.StatusCode)
		}
		nothing, bySecret := func([]byte) []byte { return nil }, hmacWith(sha256.New, s.secret)
		hs := map[string]any{"alg": "HS256", "typ": "JWT"}
		forged := map[string]string{
			"stripped signature": parts[0] + "." + parts[1] + ".", "two parts": parts[0] + "." + parts[1], "changed claims": parts[0] + "." + encode64([]byte(strings.Replace(mustJSON(t, claims), "ada", "eve", 1))) + "." + parts[2],
			"half a signature": good[:len(good)-20], "longer signature": good + "AA", "other user, own session": forge(t, hs, changed(claims, "sub", admin.Sub), bySecret),
			"other jti": forge(t, hs, changed(claims, "jti", "AAAAAAAAAAAAAAAAAAAAAAAAAA"), bySecret), "no jti": forge(t, hs, changed(claims, "jti", nil), bySecret), "unknown sid": forge(t, hs, changed(claims, "sid", "00000000-0000-0000-0000-000000000000"), bySecret),
			"no sid": forge(t, hs, changed(claims, "sid", nil), bySecret), "blank sid": forge(t, hs, changed(claims, "sid", ""), bySecret), "NUL in sid": forge(t, hs, changed(claims, "sid", "\x00"), bySecret),
			"minted without a row": forge(t, hs, changed(claims, "sid", "11111111-2222-4333-8444-555555555555", "jti", "x", "sub", admin.Sub, "groups", []string{"admin"}), bySecret),
			"expired":              forge(t, hs, changed(claims, "exp", time.Now().Add(-time.Hour).Unix(), "iat", time.Now().Add(-2*time.Hour).Unix()), bySecret), "no exp": forge(t, hs, changed(claims, "exp", nil), bySecret),
			"exp as text": forge(t, hs, changed(claims, "exp", "9999999999"), bySecret), "exp null": forge(t, hs, changed(claims, "exp", json.RawMessage("null")), bySecret), "exp in 100 years": forge(t, hs, changed(claims, "exp", 4_000_000_000), bySecret),
			"iat in future": forge(t, hs, changed(claims, "iat", time.Now().Add(time.Hour).Unix()), bySecret), "nbf in future": forge(t, hs, changed(claims, "nbf", time.Now().Add(time.Hour).Unix()), bySecret), "no iat": forge(t, hs, changed(claims, "iat", nil), bySecret),
			"other iss": forge(t, hs, changed(claims, "iss", "https://evil.example"), bySecret), "iss with slash": forge(t, hs, changed(claims, "iss", s.URL+"/"), bySecret), "other aud": forge(t, hs, changed(claims, "aud", "app"), bySecret),
			"aud list": forge(t, hs, changed(claims, "aud", []string{"app", "activity"}), bySecret), "no aud": forge(t, hs, changed(claims, "aud", nil), bySecret),
			"HS512": forge(t, map[string]any{"alg": "HS512", "typ": "JWT"}, claims, hmacWith(sha512.New, s.secret)), "typ of an access token": forge(t, map[string]any{"alg": "HS256", "typ": "at+jwt"}, claims, bySecret),
			"crit": forge(t, map[string]any{"alg": "HS256", "crit": []string{"exp"}}, claims, bySecret), "b64": forge(t, map[string]any{"alg": "HS256", "b64": false, "crit": []string{"b64"}}, claims, bySecret),
			"too long": forge(t, hs, changed(claims, "x", strings.Repeat("x", 4500)), bySecret), "JSON": `{"payload":"` + parts[1] + `"}`,
		}
		for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "HS0"} {
			forged["alg "+alg] = forge(t, map[string]any{"alg": alg, "typ": "JWT"}, claims, nothing)
			forged["alg "+alg+" with the old signature"] = encode64([]byte(`{"alg":"`+alg+`"}`)) + "." + parts[1] + "." + parts[2]
		}
		for _, key := range []string{"", " ", "\x00", "secret", "changeme", "activity", "cairn", s.URL, strings.Repeat("0", 32), strings.Repeat("\x00", 32), "SERVICE_AUTH_JWT_SECRET", string(s.secret)[:len(s.secret)-1], string(s.secret) + "\n", encode64(s.secret)} {
			forged[fmt.Sprintf("key %.10q", key)] = forge(t, hs, claims, hmacWith(sha256.New, []byte(key)))
		}
		mine, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		byMine := func(input []byte) []byte {
			sum := sha256.Sum256(input)
			sig, _ := rsa.SignPKCS1v15(rand.Reader, mine, crypto.SHA256, sum[:])
			return sig
		}
		jwk := map[string]any{"kty": "RSA", "n": encode64(mine.N.Bytes()), "e": "AQAB"}
		for _, with := range []map[string]any{
			{"kid": header["kid"]}, {"jwk": jwk}, {"jwk": jwk, "kid": header["kid"]}, {"jku": "http://127.0.0.1:1/keys"}, {"x5u": "http://127.0.0.1:1/cert"}, {"x5c": []string{encode64(mine.N.Bytes())}},
			{"kid": "../../../../dev/null"}, {"kid": "' OR 1=1 --"}, {"kid": "http://127.0.0.1:1/"}, {"kid": ""}, {"kid": 7}, {},
		} {
			for _, alg := range []string{"RS256", "PS256", "RS512", "ES256"} {
				forged[fmt.Sprintf("%s %.60v", alg, with)] = forge(t, changed(with, "alg", alg, "typ", "JWT"), claims, byMine)
			}
		}
		for name, key := range publicEncodings(t, s.key) {
			forged["HS256 with the public key as "+name] = forge(t, changed(header, "alg", "HS256"), claims, hmacWith(sha256.New, key))
			forged["HS512 with the public key as "+name] = forge(t, changed(header, "alg", "HS512"), claims, hmacWith(sha512.New, key))
		}
		for name, token := range forged {
			if got := s.as(token); got.StatusCode != http.StatusUnauthorized || strings.Contains(got.Text, "ada") {
				t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
			}
		}
		if got := s.as(good); got.StatusCode != http.StatusOK {
			t.Errorf("the genuine one afterwards: %d", got.StatusCode)
		}
		// What an honest holder of the secret signs again says nothing new.
		again := forge(t, hs, changed(claims, "groups", []string{"admin"}, "preferred_username", "keeper"), bySecret)
		if got := s.visitor().do("GET", "/api/admin/users", "", "", "Cookie", "cairn_session="+again); got.StatusCode == http.StatusOK {
			t.Error("groups of the token opened the administration")
		}
	})
}

// publicEncodings are the forms in which somebody could use the public key as
// an HMAC key; none without a key.
func publicEncodings(t *testing.T, file string) map[string][]byte {
	t.Helper()
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	public := &key.(*rsa.PrivateKey).PublicKey
	pkix, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PublicKey(public)
	spki := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	return map[string][]byte{
		"PEM": spki, "PEM without line break": []byte(strings.TrimSpace(string(spki))), "PKCS1 PEM": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}),
		"DER": pkix, "PKCS1 DER": pkcs1, "n": public.N.Bytes(), "n in base64url": []byte(encode64(public.N.Bytes())), "JWK": []byte(`{"kty":"RSA","n":"` + encode64(public.N.Bytes()) + `","e":"AQAB"}`),
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Attacks 60, 62, 63 and 76: what the cookie is like, and that it is worth
// nothing after the sign-out, wherever a copy is.
func TestCookieNeverOutlivesTheSignOut(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		s.addUser(s.prefix() + "ada")
		b := s.visitor()
		got := b.login(s.prefix()+"ada", password)
		token := b.cookie("cairn_session")
		set := got.Header.Values("Set-Cookie")
		if len(set) != 1 || strings.TrimPrefix(set[0], "cairn_session="+token) != "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax" || len(set[0]) > 4096 {
			t.Errorf("Set-Cookie: %v", set)
		}
		if strings.Contains(got.Text, token) || got.Header.Get("Cache-Control") != "no-store" {
			t.Error("the token is in the body, or the answer can be kept")
		}
		for _, bad := range []string{password, "argon2", string(s.secret)} {
			if strings.Contains(mustJSON(t, jwtPayload(t, token)), bad) {
				t.Errorf("the token says %q", bad)
			}
		}
		// Attack 80: only a POST ends it.
		for _, path := range []string{"/logout/", "/logout", "/api/auth/logout"} {
			b.get(path)
		}
		if s.as(token).StatusCode != http.StatusOK {
			t.Error("a GET has signed out")
		}
		other := s.signedIn(s.prefix() + "ada")
		out := b.api("POST", "/api/auth/logout", nil)
		if cleared := out.Header.Values("Set-Cookie"); len(cleared) != 1 || cleared[0] != "cairn_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax" {
			t.Errorf("cleared with %v", cleared)
		}
		wantProblem(t, "a copy of the cookie", s.as(token), http.StatusUnauthorized, "not_authenticated")
		if other.api("GET", "/api/me", nil).StatusCode != http.StatusOK {
			t.Error("signing out here has signed out there")
		}
	})
}

// Attacks 61 and 118: a session that somebody has planted never becomes the one
// of who signs in or registers over it.
func TestPlantedSessionNeverBecomesTheVictims(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("eve")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		for name, becomes := range map[string]func(b *browser) response{
			"sign-in":      func(b *browser) response { return b.login("ada", password) },
			"registration": func(b *browser) response { return b.register(keeper.invite(), "grace") },
		} {
			victim := s.signedIn("eve")
			planted := victim.cookie("cairn_session")
			if got := becomes(victim); got.StatusCode > 201 {
				t.Fatalf("%s: %d %s", name, got.StatusCode, got.Text)
			}
			if victim.cookie("cairn_session") == planted || victim.api("GET", "/api/me", nil).JSON(t)["handle"] == "eve" {
				t.Errorf("%s: the planted session goes on", name)
			}
			if s.as(planted).StatusCode == http.StatusOK {
				t.Errorf("%s: the session that the browser had is still good", name)
			}
		}
	})
}

// Attack 72: cookies in any number and shape neither break the request nor hide
// the genuine one.
func TestFloodOfCookiesNeverHidesTheSession(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		good := s.signedIn("ada").cookie("cairn_session")
		var many, fakes strings.Builder
		for i := range 300 {
			fmt.Fprintf(&many, "c%d=%d; ", i, i)
		}
		for i := range 60 {
			fmt.Fprintf(&fakes, "cairn_session=e30.%d.x; ", i)
		}
		for name, c := range map[string]struct {
			header string
			want   int
		}{
			"300 others": {many.String() + "cairn_session=" + good, 200}, "after a planted one": {"cairn_session=x; cairn_session=" + good, 200}, "before a planted one": {"cairn_session=" + good + "; cairn_session=x", 200},
			"after 60 planted ones": {fakes.String() + "cairn_session=" + good, 200}, "huge": {"cairn_session=" + strings.Repeat("a", 20_000), 401}, "binary": {"cairn_session=\xff\xfe\x01", 401},
			"blank": {"cairn_session=", 401}, "no name": {"=" + good, 401}, "quoted": {`cairn_session="x"`, 401}, "dots": {"cairn_session=" + strings.Repeat(".", 15_000), 401},
		} {
			if got := exchangeBytes(t, s, "GET /api/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: "+c.header+"\r\n\r\n"); !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.want)) && !(c.want == 401 && strings.HasPrefix(got, "HTTP/1.1 400")) {
				t.Errorf("%s: %.60q", name, got)
			}
		}
	})
}
