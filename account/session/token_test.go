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
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

func TestGenuineTokensVerify(t *testing.T) {
	want := session.Claims{
		Issuer: issuer, Subject: "u_7Q", Audience: "activity", Algorithm: "HS256",
		IssuedAt: clock, ExpiresAt: clock.Add(30 * 24 * time.Hour), AuthTime: clock.Add(-time.Minute),
		AMR: []string{"pwd", "otp", "mfa"}, ACR: "2",
		ID: "t_1", SessionID: "s_1", Handle: "ada", Name: "Ada L.", Groups: []string{"activity", "admin"},
		Status: &session.StatusRef{Index: 7, URI: issuer + "/oauth2/status/1"},
	}
	same := func(*session.Claims) {}
	minimal := good()
	for _, name := range []string{"auth_time", "amr", "acr", "preferred_username", "name", "groups", "status"} {
		delete(minimal, name)
	}
	oddName := `a"}\\,{"é` + "\n\U0001F6B4"
	header := func(h map[string]any) string { return forge(h, good(), byHMAC(secret)) }
	for name, tt := range map[string]struct {
		token  string
		change func(*session.Claims)
	}{
		"HS256":                       {hsToken(good()), same},
		"RS256":                       {rsToken(good()), func(c *session.Claims) { c.Algorithm = "RS256" }},
		"aud as an array of one":      {hsToken(with("aud", []string{"activity"})), same},
		"no typ":                      {header(map[string]any{"alg": "HS256"}), same},
		"typ in small letters":        {header(map[string]any{"alg": "HS256", "typ": "jwt"}), same},
		"HS256 with a kid":            {header(map[string]any{"alg": "HS256", "kid": kid}), same},
		"an unknown header parameter": {header(map[string]any{"alg": "HS256", "x": "y"}), same},
		"an unknown claim":            {hsToken(with("x", map[string]any{"y": []any{1, nil}})), same},
		"null groups":                 {hsToken(with("groups", []string(nil))), func(c *session.Claims) { c.Groups = nil }},
		"a name full of punctuation":  {hsToken(with("name", oddName)), func(c *session.Claims) { c.Name = oddName }},
		"white space everywhere":      {hsToken(" " + strings.NewReplacer(",", " ,\r\n\t", ":{", "\t: {\n", "}", " }\n").Replace(toJSON(good()))), same},
		"a status of another kind":    {hsToken(with("status", map[string]any{"other": 1})), func(c *session.Claims) { c.Status = nil }},
		"clock of the issuer ahead":   {hsToken(with("iat", clock.Unix()+30)), func(c *session.Claims) { c.IssuedAt = clock.Add(30 * time.Second) }},
		"nbf now":                     {hsToken(with("nbf", clock.Unix())), same},
		"only the required claims": {hsToken(minimal), func(c *session.Claims) {
			c.AuthTime, c.AMR, c.ACR, c.Handle, c.Name, c.Groups, c.Status = time.Time{}, nil, "", "", "", nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := want
			tt.change(&c)
			equal(t, "claims", mustVerify(t, verifier(), tt.token), c)
		})
	}
	for name, yes := range map[string]bool{"activity": true, "Activity": false, "act": false, "": false} {
		if want.HasGroup(name) != yes {
			t.Errorf("HasGroup(%q) is %t", name, !yes)
		}
	}
}

func TestUnsignedTokenIsNotASession(t *testing.T) {
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "none ", ""} {
		header := map[string]any{"alg": alg, "typ": "JWT", "kid": kid}
		input := b64(toJSON(header)) + "." + b64(toJSON(good()))
		for _, token := range []string{input + ".", input, input + ".e30", forge(header, good(), byHMAC(secret)), forge(header, good(), byHMAC(nil))} {
			mustRefuse(t, verifier(), token)
		}
	}
}

func TestWrongSignatureIsRefused(t *testing.T) {
	for _, token := range []string{hsToken(good()), rsToken(good())} {
		parts := strings.Split(token, ".")
		raw, err := base64.RawURLEncoding.DecodeString(parts[2])
		must(t, err)
		for _, sig := range []string{"", "AA", parts[2][:len(parts[2])-1], parts[2] + "A", parts[2] + parts[2], b64(strings.Repeat("\x00", len(raw))), b64(string(raw) + "\x00"), b64("\x00" + string(raw))} {
			mustRefuse(t, verifier(), parts[0]+"."+parts[1]+"."+sig)
		}
		for name, value := range map[string]any{"sub": "u_1", "groups": []string{"admin"}, "exp": clock.AddDate(1, 0, 0).Unix(), "x": 1} {
			mustRefuse(t, verifier(), parts[0]+"."+b64(toJSON(with(name, value)))+"."+parts[2])
		}
		mustRefuse(t, verifier(), b64(`{"typ":"JWT","kid":"key-1","alg":"RS256" }`)+"."+parts[1]+"."+parts[2])
	}
	mustRefuse(t, verifier(), forge(rsHeader(), good(), byRSA(otherKey())))
	for _, key := range []string{"", "secret", "your-256-bit-secret", strings.Repeat("\x00", 32), string(secret[:32]), string(secret) + "\n", strings.ToUpper(string(secret))} {
		mustRefuse(t, verifier(), forge(hsHeader(), good(), byHMAC([]byte(key))))
	}
}

// The public key is no secret, so a token that it "signs" as HMAC key can come from any client.
func TestPublicKeyIsNoHMACSecret(t *testing.T) {
	pub := &rsaKey().PublicKey
	pkix, err := x509.MarshalPKIXPublicKey(pub)
	must(t, err)
	jwk, err := publicJWK(rsaKey(), kid).MarshalJSON()
	must(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	rsOnly := verifier()
	rsOnly.Secret = nil
	for name, key := range map[string][]byte{
		"PEM PKIX": text, "without line end": []byte(strings.TrimSpace(string(text))), "DER PKIX": pkix, "modulus": pub.N.Bytes(),
		"PEM PKCS1": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(pub)}),
		"JWK":       jwk, "JWK set": []byte(`{"keys":[` + string(jwk) + `]}`), "JWK n": []byte(b64(string(pub.N.Bytes()))), "kid": []byte(kid), "blank": {},
	} {
		for _, v := range []*session.Verifier{rsOnly, verifier()} {
			for _, alg := range []string{"HS256", "RS256", "HS512"} {
				t.Run(name+" "+alg, func(t *testing.T) {
					mustRefuse(t, v, forge(map[string]any{"alg": alg, "typ": "JWT", "kid": kid}, good(), byHMAC(key)))
				})
			}
		}
	}
}

func TestOnlyHS256AndRS256AreInUse(t *testing.T) {
	rs512 := func(input string) []byte {
		sum := sha512.Sum512([]byte(input))
		sig, _ := rsa.SignPKCS1v15(nil, rsaKey(), crypto.SHA512, sum[:])
		return sig
	}
	ps256 := func(input string) []byte {
		sum := sha256.Sum256([]byte(input))
		sig, _ := rsa.SignPSS(rand.Reader, rsaKey(), crypto.SHA256, sum[:], nil)
		return sig
	}
	hs512 := func(input string) []byte {
		m := hmac.New(sha512.New, secret)
		m.Write([]byte(input))
		return m.Sum(nil)
	}
	for _, alg := range []string{"RS512", "PS256", "HS384", "HS512", "ES256", "EdDSA", "dir", "rs256", "Hs256", " HS256", "RS256 "} {
		for _, sign := range []func(string) []byte{rs512, ps256, hs512, byHMAC(secret), byRSA(rsaKey())} {
			mustRefuse(t, verifier(), forge(map[string]any{"alg": alg, "kid": kid}, good(), sign))
		}
	}
	for _, header := range []string{`{"typ":"JWT"}`, `{"alg":null}`, `{"alg":256}`, `{"alg":["HS256"]}`, `{"ALG":"HS256"}`, `{"Alg":"HS256"}`, `{"alg":{"HS256":1}}`} {
		mustRefuse(t, verifier(), forge(header, good(), byHMAC(secret)))
	}
	v := verifier()
	v.Secret = nil
	mustRefuse(t, v, hsToken(good()))
	v = verifier()
	v.Keys = nil
	mustRefuse(t, v, rsToken(good()))
}

func TestHeaderCannotBringItsOwnKey(t *testing.T) {
	jwk, err := publicJWK(otherKey(), kid).MarshalJSON()
	must(t, err)
	for _, extra := range []string{
		`"jwk":` + string(jwk), `"jwk":null`, `"jku":"https://evil.example/jwks.json"`, `"x5u":"https://evil.example/c.pem"`, `"x5c":["MIIB"]`, `"x5c":[]`, `"x5t":"AA"`,
		`"x5t#S256":"AA"`, `"crit":["exp"]`, `"crit":["b64"],"b64":false`, `"crit":[]`, `"b64":true`, `"b64":false`, `"zip":"DEF"`, `"enc":"A256GCM"`,
	} {
		mustRefuse(t, verifier(), forge(`{"alg":"RS256","kid":"key-1",`+extra+`}`, good(), byRSA(otherKey())))
		// Refused under a good signature too: what is not obeyed must not be ignored.
		mustRefuse(t, verifier(), forge(`{"alg":"RS256","kid":"key-1",`+extra+`}`, good(), byRSA(rsaKey())))
		mustRefuse(t, verifier(), forge(`{"alg":"HS256",`+extra+`}`, good(), byHMAC(secret)))
	}
}

func TestInvalidKeyIDsDoNotReachTheKeySet(t *testing.T) {
	v := verifier()
	keys := &countingKeySet{KeySet: v.Keys}
	v.Keys = keys
	for _, id := range []any{"", "../../../../dev/null", "' OR 1=1 --", "https://evil.example/k", "key-1\x00", "key 1", "ключ", strings.Repeat("a", 129), nil, 1, true, []string{kid}, map[string]any{"kid": kid}} {
		mustRefuse(t, v, forge(map[string]any{"alg": "RS256", "kid": id}, good(), byRSA(rsaKey())))
	}
	mustRefuse(t, v, forge(map[string]any{"alg": "RS256", "KID": kid}, good(), byRSA(rsaKey())))
	same(t, "questions to the key set", keys.asked, 0)
}

func TestTokensOfOtherKindsAreNotSessions(t *testing.T) {
	for _, typ := range []any{"statuslist+jwt", "logout+jwt", "at+jwt", "application/at+jwt", "JWS", "JWT ", "", nil, 1, []string{"JWT"}} {
		for _, base := range []map[string]any{hsHeader(), rsHeader()} {
			base["typ"] = typ
			mustRefuse(t, verifier(), forge(base, good(), byHMAC(secret)))
			mustRefuse(t, verifier(), forge(base, good(), byRSA(rsaKey())))
		}
	}
	mustRefuse(t, verifier(), rsToken(map[string]any{
		"iss": issuer, "sub": "u_7Q", "aud": []string{"client-1"}, "azp": "client-1", "nonce": "n", "at_hash": "h", "sid": "s_1",
		"jti": "t_1", "iat": clock.Unix(), "exp": clock.Unix() + 3600, "auth_time": clock.Unix(),
	}))
	for _, opaque := range []string{"ory_at_Zm9v.YmFy", "Zm9vYmFy", strings.Repeat("A", 43)} {
		mustRefuse(t, verifier(), opaque)
	}
}

func TestClaimsOfWrongTypeAreRefused(t *testing.T) {
	notText := []string{`null`, `true`, `[]`, `{}`, `""`, `["x"]`, `{"x":1}`, `1`}
	notTime := []string{`null`, `true`, `[]`, `{}`, `""`, `"1893456000"`, `-1`, `1e400`, `1.5`, `253402300800`, `99999999999999999999999999`}
	notList := []string{`1`, `"x"`, `[]`, `{"status_list":null}`, `{"status_list":[]}`, `{"status_list":{"idx":1}}`, `{"status_list":{"uri":"u"}}`,
		`{"status_list":{"idx":"1","uri":"u"}}`, `{"status_list":{"idx":-1,"uri":"u"}}`, `{"status_list":{"idx":1.5,"uri":"u"}}`,
		`{"status_list":{"idx":2147483648,"uri":"u"}}`, `{"status_list":{"idx":1,"uri":""}}`, `{"status_list":{"idx":1,"uri":1}}`}
	optional := []string{`1`, `[]`, `{}`, `true`}
	optionalList := []string{`"admin"`, `1`, `{}`, `[1]`, `[null]`, `[["admin"]]`, `true`}
	for name, values := range map[string][]string{
		"iss": notText, "sub": notText, "aud": notText, "jti": notText, "sid": notText, "iat": append(notTime, "0"), "exp": append(notTime, "0"), "auth_time": notTime, "nbf": notTime,
		"preferred_username": optional, "name": optional, "acr": optional,
		"groups": optionalList, "amr": optionalList, "status": notList,
	} {
		if len(name) == 3 && name != "nbf" && name != "acr" && name != "amr" {
			mustRefuse(t, verifier(), hsToken(with(name, nil)))
		}
		for _, value := range values {
			t.Run(name+" "+value, func(t *testing.T) { mustRefuse(t, verifier(), hsToken(with(name, json.RawMessage(value)))) })
		}
	}
}

func TestAudienceIsTheOneThatIsSet(t *testing.T) {
	v := verifier()
	v.Audience = "maps"
	mustRefuse(t, v, hsToken(good()))
	mustVerify(t, v, hsToken(with("aud", "maps")))
}

func TestTimesOfATokenCount(t *testing.T) {
	exp := clock.Add(session.Lifetime)
	for _, tt := range []struct {
		leeway time.Duration
		now    time.Time
		good   bool
	}{
		{0, exp.Add(30*time.Second - 1), true}, {0, exp.Add(30 * time.Second), false}, {-1, exp.Add(-1), true}, {-1, exp, false},
		{time.Minute, exp.Add(time.Minute - 1), true}, {time.Minute, exp.Add(time.Minute), false}, {0, exp.AddDate(100, 0, 0), false},
	} {
		v := verifier()
		v.Leeway, v.Now = tt.leeway, func() time.Time { return tt.now }
		if tt.good {
			mustVerify(t, v, rsToken(good()))
		} else if err := mustRefuse(t, v, rsToken(good())); !errors.Is(err, session.ErrExpired) {
			t.Errorf("leeway %v at %v: %v is not ErrExpired", tt.leeway, tt.now, err)
		}
	}
	for _, claim := range []string{"iat", "nbf", "auth_time"} {
		v := verifier()
		mustRefuse(t, v, hsToken(with(claim, clock.Unix()+31)))
		v.Leeway = -1
		mustRefuse(t, v, hsToken(with(claim, clock.Unix()+1)))
	}
	life := int64(session.Lifetime.Seconds())
	for seconds, good := range map[int64]bool{life: true, life + 30: true, life + 31: false, 1: true,
		0: false, -1: false} {
		if token := hsToken(with("exp", clock.Unix()+seconds)); good {
			mustVerify(t, verifier(), token)
		} else {
			mustRefuse(t, verifier(), token)
		}
	}
}

func TestRepeatedMembersAreRefused(t *testing.T) {
	text := toJSON(good())
	for _, extra := range []string{`"sub":"u_1"`, `"exp":4102444800`, `"x":1,"x":1`, `"\u0073ub":"u_1"`, `"":1,"":2`, `"x":{"y":1,"y":1}`, `"x":[[{"y":{"z":1,"z":2}}]]`} {
		mustRefuse(t, verifier(), hsToken(strings.TrimSuffix(text, "}")+","+extra+"}"))
		mustRefuse(t, verifier(), hsToken("{"+extra+","+text[1:]))
	}
	for _, header := range []string{
		`{"alg":"HS256","alg":"HS256"}`, `{"alg":"none","alg":"HS256"}`, `{"alg":"HS256","alg":"none"}`, `{"alg":"HS256","kid":"a","kid":"b"}`,
		`{"alg":"HS256","typ":"JWT","typ":"at+jwt"}`, `{"alg":"HS256","\u0061lg":"HS256"}`, `{"alg":"HS256","x":{"y":1,"y":1}}`,
	} {
		mustRefuse(t, verifier(), forge(header, good(), byHMAC(secret)))
	}
}

func TestMemberNamesCountInTheirExactCaseOnly(t *testing.T) {
	for _, name := range []string{"iss", "sub", "aud", "jti", "sid", "iat", "exp"} {
		mustRefuse(t, verifier(), hsToken(changed(with(name, nil), strings.ToUpper(name), good()[name])))
	}
	p := good()
	p["EXP"], p["Sub"], p["GROUPS"], p["ſub"], p["ſid"] = 1, "u_1", []string{"root"}, "u_1", "s_2" // U+017F folds to s
	c := mustVerify(t, verifier(), hsToken(p))
	if c.Subject != "u_7Q" || c.SessionID != "s_1" || c.HasGroup("root") || c.ExpiresAt != clock.Add(session.Lifetime) {
		t.Errorf("other cases of known names changed the claims: %+v", c)
	}
}

func TestMalformedTokensAreRefused(t *testing.T) {
	text := toJSON(good())
	for _, p := range []string{
		`null`, `[]`, `1`, `"x"`, `{`, `[` + text + `]`, text + text, text + `x`, text[:len(text)-1], "\ufeff" + text, strings.Replace(text, "Ada", "A\xffda", 1),
		strings.Replace(text, `"name"`, `name`, 1), strings.Replace(text, `,`, `,,`, 1), `{"iss":` + strings.Repeat("[", 500),
	} {
		mustRefuse(t, verifier(), hsToken(p))
	}
	for _, h := range []string{`null`, `[]`, `{}`, `{"alg":"HS256"`, `{"alg":"HS256"}{}`, `{"alg":"HS256"} x`, "\xff", strings.Repeat(`{"a":`, 500), strings.Repeat(`[`, 2500)} {
		mustRefuse(t, verifier(), forge(h, good(), byHMAC(secret)))
	}
	p := strings.Split(hsToken(good()), ".")
	for _, token := range []string{
		fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, p[0], p[1], p[2]), p[0] + ".." + p[2], p[0] + "." + p[1], p[0], "", ".", "..", "...", strings.Repeat(".", 4096),
		strings.Repeat(".", 1<<20), p[0] + "." + p[1] + "." + p[2] + "." + p[0] + "." + p[1],
	} {
		mustRefuse(t, verifier(), token)
	}
	size := func(n int) string { return hsToken(with("x", strings.Repeat("x", n))) }
	n := 1
	for len(size(n+1)) <= 4096 {
		n++
	}
	mustVerify(t, verifier(), size(n))
	mustRefuse(t, verifier(), size(n+1))
	mustRefuse(t, verifier(), size(1<<20))
}

// One token has one spelling: an application that bans or counts tokens by their text must not be
// fooled by a second one.
func TestOtherSpellingsOfAGenuineTokenAreRefused(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, token := range []string{hsToken(good()), rsToken(good())} {
		parts := strings.Split(token, ".")
		for _, other := range []string{
			token + "\n", "\n" + token, " " + token, token + "=", token + ".", "." + token, token + ".e30", token + "\x00", "Bearer " + token, `"` + token + `"`,
			parts[0] + "=." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + "." + parts[2][:8] + "\n" + parts[2][8:],
		} {
			mustRefuse(t, verifier(), other)
		}
		for i := range parts {
			raw, _ := base64.RawURLEncoding.DecodeString(parts[i])
			for _, c := range alphabet { // the unused bits of the last character
				p := append([]string{}, parts...)
				p[i] = parts[i][:len(parts[i])-1] + string(c)
				if got, err := base64.RawURLEncoding.DecodeString(p[i]); p[i] != parts[i] && err == nil &&
					string(got) == string(raw) {
					mustRefuse(t, verifier(), strings.Join(p, "."))
				}
			}
		}
	}
}

func TestSecretCeasesToCountAtItsEnd(t *testing.T) {
	v := verifier()
	v.SecretUntil = clock.Add(time.Second)
	mustVerify(t, v, hsToken(good()))
	v.SecretUntil = clock
	mustRefuse(t, v, hsToken(good()))
	mustVerify(t, v, rsToken(good()))
}

// The cases of testdata/wrong_claims.json, which verifiers in other languages refuse too. Of a text, ISSUER,
// ELSEWHERE and CAPITALS stand for an address and now+N for a time; none is a claim that is missing.
func TestWrongClaimsAreRefused(t *testing.T) {
	inBubble(t, "time of the list", func(t *testing.T) {
		now := time.Now()
		text, err := os.ReadFile("testdata/wrong_claims.json")
		must(t, err)
		filled := strings.NewReplacer("ISSUER", issuer, "ELSEWHERE", "https://evil.example", "CAPITALS", strings.ToUpper(issuer)).Replace(string(text))
		filled = regexp.MustCompile(`"now([^"]*)"`).ReplaceAllStringFunc(filled, func(m string) string {
			d, _ := strconv.ParseFloat(m[4:len(m)-1], 64)
			return strconv.FormatFloat(float64(now.Unix())+d, 'f', -1, 64)
		})
		var cases map[string]map[string]any
		must(t, json.Unmarshal([]byte(filled), &cases))
		s := newServer(500)
		v := &session.Verifier{Issuer: issuer, Secret: secret, Keys: session.NewStaticKeySet(publicJWK(rsaKey(), kid)),
			Status: s.lists()}
		mustVerify(t, v, hsToken(payload(issuer, now, 7)))
		for name, wrong := range cases {
			p := payload(issuer, now, 7)
			maps.Copy(p, wrong)
			maps.DeleteFunc(p, func(_ string, v any) bool { return v == "none" })
			for _, token := range []string{hsToken(p), rsToken(p)} {
				if c, err := v.Verify(t.Context(), token); !errors.Is(err, session.ErrInvalid) &&
					!errors.Is(err, session.ErrRevoked) {
					t.Errorf("%s: %+v, %v", name, c, err)
				}
			}
		}
		mustRefuse(t, v, hsToken(changed(payload(issuer, now, 7), "status", statusClaim(7, issuer+"/oauth2/status/4294967297"))))
		s.wantRequests(t, 1, 1)
		_ = v.Status.(*session.RemoteStatusList).Close()
	})
}

var equal, fails, must = assert.Equal, assert.Fails, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
