//go:build unix

package httpd

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

// schemes are the ways in which an application may be set up, with the
// algorithms that it then believes.
var schemes = map[string][]jose.SignatureAlgorithm{"keys": {jose.RS256}, "secret": {jose.HS256}, "both": {jose.RS256, jose.HS256}}

func (f *evilIssuer) settings(scheme string) verifierSettings {
	s := verifierSettings{Issuer: f.URL, RS256: scheme != "secret"}
	if scheme != "keys" {
		s.Secret = new(string(f.secret))
	}
	return s
}

func (f *evilIssuer) keyOf(alg jose.SignatureAlgorithm) any {
	if alg == jose.HS256 {
		return f.secret
	}
	return f.key
}

// warm makes a verifier that holds its copies of the keys and of list 1, so that
// whatever it asks for afterwards a token made it ask for.
func (f *evilIssuer) warm(p *verifierProgram, name, scheme string) *verifier {
	f.t.Helper()
	alg := schemes[scheme][0]
	f.answer("/oauth2/status/1", text(f.sign(alg, f.keyOf(alg), "statuslist+jwt", f.listClaims(1, []int{500}, nil), nil)))
	v := p.verifier(f.t, name, f.settings(scheme))
	v.want("a good cookie", "accepted", f.now, f.sign(alg, f.keyOf(alg), "JWT", f.claims(nil), nil))
	return v
}

// wrongClaims spoil a cookie that has a good signature.
func wrongClaims(f, elsewhere *evilIssuer) map[string]func(map[string]any) {
	set := func(name string, value any) func(map[string]any) { return func(c map[string]any) { c[name] = value } }
	uri := func(uri any) func(map[string]any) {
		return set("status", map[string]any{"status_list": map[string]any{"idx": 7, "uri": uri}})
	}
	now := f.now.Unix()
	cases := map[string]func(map[string]any){
		"another audience": set("aud", "photos"), "two audiences": set("aud", []string{"activity", "photos"}), "an audience in capitals": set("aud", "Activity"),
		"another issuer": set("iss", elsewhere.URL), "issuer with a slash": set("iss", f.URL+"/"), "issuer cut short": set("iss", f.URL[:4]), "list of issuers": set("iss", []string{f.URL}),
		"expired": func(c map[string]any) { c["iat"], c["exp"] = now-30*86400-40, now-40 }, "exp before iat": func(c map[string]any) { c["iat"], c["exp"] = now+20, now+10 },
		"issued in the future": func(c map[string]any) { c["iat"], c["exp"] = now+40, now+86400 }, "not yet valid": set("nbf", now+40),
		"lives longer than 30 days": set("exp", now-60+30*86400+1), "issued in 1970": set("iat", 0), "exp beyond all times": set("exp", 1e300), "exp between two seconds": set("exp", float64(now)+1000.5), "exp in quotes": set("exp", "9999999999"), "exp true": set("exp", true), "iat in quotes": set("iat", "1"),
		"subject of a number": set("sub", 7), "blank subject": set("sub", ""), "blank session": set("sid", ""), "jti of a number": set("jti", 7),
		"status a string": set("status", "valid"), "status of another kind": set("status", map[string]any{"identifier_list": map[string]any{"id": "7"}}), "status list null": set("status", map[string]any{"status_list": nil}),
		"index out of range": set("status", f.place(1, 1024)), "index beyond 32 bits": set("status", f.place(1, int64(1)<<32+7)), "index beyond 53 bits": set("status", f.place(1, 1e18)),
		"negative index": set("status", f.place(1, -1)), "index in quotes": set("status", f.place(1, "7")), "half an index": set("status", f.place(1, 7.5)), "index true": set("status", f.place(1, true)),
		"ended":                  set("status", f.place(1, 500)),
		"list of another origin": uri(elsewhere.URL + "/oauth2/status/1"), "issuer as user name": uri(f.URL + "@" + strings.TrimPrefix(elsewhere.URL, "http://") + "/oauth2/status/1"), "issuer as beginning of a host": uri(f.URL + "9/oauth2/status/1"),
		"list of another path": uri(f.URL + "/lists/1"), "no list": uri(f.URL + "/oauth2/status/"), "list 0": uri(f.URL + "/oauth2/status/0"), "list 01": uri(f.URL + "/oauth2/status/01"), "list -1": uri(f.URL + "/oauth2/status/-1"), "list +1": uri(f.URL + "/oauth2/status/+1"), "list ١": uri(f.URL + "/oauth2/status/١"),
		"query behind the list": uri(f.URL + "/oauth2/status/1?x=1"), "fragment behind the list": uri(f.URL + "/oauth2/status/1#x"), "path behind the list": uri(f.URL + "/oauth2/status/1/../2"), "blank behind the list": uri(f.URL + "/oauth2/status/1 "), "line end behind the list": uri(f.URL + "/oauth2/status/1\n"),
		"list of 300 digits": uri(f.URL + "/oauth2/status/" + strings.Repeat("1", 300)), "capitals in the origin": uri(strings.Replace(f.URL, "http", "HTTP", 1) + "/oauth2/status/1"), "list in a list": uri([]string{f.URL + "/oauth2/status/1"}), "file": uri("file:///etc/passwd"),
	}
	for _, name := range []string{"iss", "aud", "exp", "iat", "sub", "sid", "jti", "status"} {
		cases["no "+name] = func(c map[string]any) { delete(c, name) }
		cases[name+" null"] = set(name, nil)
	}
	return cases
}

// A good signature makes no cookie, and no cookie sends the application to an
// address that it does not know.
func TestRPVerifyNeverAcceptsWrongClaims(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		for scheme, algorithms := range schemes {
			f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
			v := f.warm(p, scheme, scheme)
			before := f.requests()
			for _, alg := range algorithms {
				for name, change := range wrongClaims(f, elsewhere) {
					v.want(string(alg)+", "+name, "refused", f.now, f.sign(alg, f.keyOf(alg), "JWT", f.claims(change), nil))
				}
				for name, payload := range map[string]string{"no object": `["activity"]`, "no JSON": `{"iss":`, "nothing": ``, "nested": strings.Repeat("[", 2500), "null": "null"} {
					v.want(string(alg)+", payload: "+name, "refused", f.now, f.sign(alg, f.keyOf(alg), "JWT", []byte(payload), nil))
				}
				for name, change := range map[string]func(map[string]any){
					"20 s after its end":      func(c map[string]any) { c["iat"], c["exp"] = f.now.Unix()-86400, f.now.Unix()-20 },
					"20 s before its issue":   func(c map[string]any) { c["iat"], c["exp"] = f.now.Unix()+20, f.now.Unix()+20+30*86400 },
					"the bit before an ended": func(c map[string]any) { c["status"] = f.place(1, 499) }, "the bit after an ended": func(c map[string]any) { c["status"] = f.place(1, 501) },
					"the last bit": func(c map[string]any) { c["status"] = f.place(1, 1023) },
				} {
					v.want(string(alg)+", "+name, "accepted", f.now, f.sign(alg, f.keyOf(alg), "JWT", f.claims(change), nil))
				}
			}
			if diff := cmp.Diff(before, f.requests()); diff != "" {
				t.Errorf("%s: the tokens caused requests: %s", scheme, diff)
			}
			if asked := elsewhere.requests(); len(asked) > 0 {
				t.Errorf("%s: another origin was asked: %v", scheme, asked)
			}
		}
	})
}

// The header chooses between what the application has set up, and nothing more.
func TestRPVerifyNeverLetsATokenChooseItsKey(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		for scheme, algorithms := range schemes {
			f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
			elsewhere.answer("/.well-known/jwks.json", elsewhere.publish(f.other))
			v := f.warm(p, scheme, scheme)
			good := f.claims(nil)
			public, err := x509.MarshalPKIXPublicKey(&f.key.Key.(*rsa.PrivateKey).PublicKey)
			if err != nil {
				t.Fatal(err)
			}
			publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
			kid := map[jose.HeaderKey]any{"kid": f.key.KeyID}
			sameKid := jose.JSONWebKey{Key: f.other.Key, KeyID: f.key.KeyID}
			attacker := f.other.Public()
			rs := f.sign(jose.RS256, f.key, "JWT", good, nil)
			header, payload, _ := strings.Cut(strings.TrimSuffix(rs, rs[strings.LastIndex(rs, "."):]), ".")
			cases := map[string]string{
				"HS256 with the public key":        f.sign(jose.HS256, publicPEM, "JWT", good, kid),
				"HS256 with the DER of it":         f.sign(jose.HS256, public, "JWT", good, kid),
				"HS256 with an empty secret":       hs256(`{"alg":"HS256","typ":"JWT"}`, payload, nil),
				"HS256 with another secret":        f.sign(jose.HS256, []byte(strings.Repeat("x", 40)), "JWT", good, nil),
				"HS512 with the secret":            f.sign(jose.HS512, []byte(strings.Repeat(string(f.secret), 2)), "JWT", good, nil),
				"RS256 of another key":             f.sign(jose.RS256, f.other, "JWT", good, nil),
				"RS256 of another key, known kid":  f.sign(jose.RS256, sameKid, "JWT", good, nil),
				"RS256 without a kid":              f.sign(jose.RS256, f.key.Key, "JWT", good, nil),
				"RS256 with a kid of 3,000 bytes":  f.sign(jose.RS256, jose.JSONWebKey{Key: f.key.Key, KeyID: strings.Repeat("k", 3000)}, "JWT", good, nil),
				"RS384 of the key":                 f.sign(jose.RS384, jose.JSONWebKey{Key: f.key.Key, KeyID: f.key.KeyID}, "JWT", good, nil),
				"PS256 of the key":                 f.sign(jose.PS256, jose.JSONWebKey{Key: f.key.Key, KeyID: f.key.KeyID}, "JWT", good, nil),
				"a key of its own in jwk":          f.sign(jose.RS256, f.other.Key, "JWT", good, map[jose.HeaderKey]any{"jwk": attacker}),
				"a key of its own at jku":          f.sign(jose.RS256, f.other, "JWT", good, map[jose.HeaderKey]any{"jku": elsewhere.URL + "/.well-known/jwks.json"}),
				"RS256 header, HS256 signature":    hs256(`{"alg":"RS256","typ":"JWT","kid":"`+f.key.KeyID+`"}`, payload, publicPEM),
				"no signature":                     header + "." + payload + ".",
				"half a signature":                 rs[:len(rs)-20],
				"another payload":                  header + "." + payload[:len(payload)-8] + "AAAAAAAA" + rs[strings.LastIndex(rs, "."):],
				"alg in small letters":             reheaded(rs, `{"alg":"rs256","typ":"JWT","kid":"`+f.key.KeyID+`"}`),
				"alg a list":                       reheaded(rs, `{"alg":["RS256"],"typ":"JWT","kid":"`+f.key.KeyID+`"}`),
				"kid a number":                     reheaded(rs, `{"alg":"RS256","typ":"JWT","kid":7}`),
				"kid an object":                    reheaded(rs, `{"alg":"RS256","typ":"JWT","kid":{"a":1}}`),
				"kid of the prototype":             reheaded(rs, `{"alg":"RS256","typ":"JWT","kid":"__proto__"}`),
				"header nested":                    reheaded(rs, `{"alg":"RS256","typ":"JWT","x":`+strings.Repeat("[", 2500)),
				"header a list":                    reheaded(rs, `[]`),
				"header nothing":                   "." + payload + ".",
				"header not base64":                "%%%." + payload + ".AAAA",
				"empty":                            "",
				"a dot":                            ".",
				"four parts":                       rs + ".AAAA",
				"two parts":                        header + "." + payload,
				"five parts, as encrypted":         "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0....",
				"JSON serialization":               `{"payload":"` + payload + `","protected":"` + header + `","signature":"AAAA"}`,
				"letters outside base64url":        strings.Replace(rs, ".", ".\u00e9", 1),
				"half a surrogate pair":            "\xed\xa0\x80" + rs,
				"5 kB":                             f.sign(jose.RS256, f.key, "JWT", f.claims(func(c map[string]any) { c["name"] = strings.Repeat("x", 5000) }), nil),
				"1 MB":                             strings.Repeat("A", 1<<20),
				"a status list of the same signer": f.sign(algorithms[0], f.keyOf(algorithms[0]), "statuslist+jwt", f.listClaims(1, nil, nil), nil),
			}
			for _, none := range []string{"none", "None", "NONE", ""} {
				cases["alg "+none] = reheaded(header+"."+payload+".", `{"alg":"`+none+`","typ":"JWT"}`)
				cases["alg "+none+" with a signature"] = reheaded(rs, `{"alg":"`+none+`","typ":"JWT","kid":"`+f.key.KeyID+`"}`)
			}
			for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.HS256} {
				for _, typ := range []string{"", "at+jwt", "logout+jwt", "statuslist+jwt", "JWS", "JWT "} {
					cases[string(alg)+" with the typ "+typ] = f.sign(alg, f.keyOf(alg), typ, good, nil)
				}
				cases[string(alg)+" with an extension"] = f.sign(alg, f.keyOf(alg), "JWT", good, map[jose.HeaderKey]any{"crit": []string{"exp"}, "exp": 1})
			}
			switch scheme {
			case "keys":
				cases["HS256 of the secret"] = f.sign(jose.HS256, f.secret, "JWT", good, nil)
			case "secret":
				cases["RS256 of the key"] = rs
			}
			before := f.requests()
			for name, token := range cases {
				v.want(name, "refused", f.now, token)
			}
			if diff := cmp.Diff(before, f.requests()); diff != "" {
				t.Errorf("%s: the tokens caused requests: %s", scheme, diff)
			}
			if asked := elsewhere.requests(); len(asked) > 0 {
				t.Errorf("%s: another origin was asked: %v", scheme, asked)
			}
		}
	})
}

// hs256 signs with any secret, also one that go-jose would not take.
func hs256(header, payload string, secret []byte) string {
	token := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + payload
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(token))
	return token + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// An empty variable of the environment must not become a secret that everybody
// knows.
func TestRPVerifyNeverStartsWithAWeakSetting(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f := startEvilIssuer(t)
		for name, settings := range map[string]verifierSettings{
			"neither":                  {Issuer: f.URL},
			"blank secret":             {Issuer: f.URL, Secret: new(""), RS256: true},
			"blank secret, no keys":    {Issuer: f.URL, Secret: new("")},
			"short secret beside keys": {Issuer: f.URL, Secret: new("short"), RS256: true},
			"secret of 31 bytes":       {Issuer: f.URL, Secret: new(strings.Repeat("s", 31))},
		} {
			if got := p.verifier(t, name, settings).at(f.now, "x")[0]; got.Setting == nil {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}
