package session_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
	"github.com/google/go-cmp/cmp"
)

// fuzzSeeds are genuine tokens, then near misses of every kind. Their number is held in
// the test below, so that none gets lost unnoticed.
func fuzzSeeds() (genuine, wrong []string) {
	genuine = []string{hsToken(good()), rsToken(good())}
	for _, token := range genuine {
		p := strings.Split(token, ".")
		wrong = append(wrong, p[0], p[0]+"."+p[1], p[0]+"."+p[1]+".", "."+p[1]+"."+p[2], p[0]+".."+p[2], token+"A", token[:len(token)-1], token+"=", token+"\n",
			b64(`{"alg":"none"}`)+"."+p[1]+".", b64(`{"alg":"HS256"}`)+"."+p[1]+"."+p[2], p[0]+"."+b64("{}")+"."+p[2])
	}
	for _, header := range []string{`{"alg":"HS256","alg":"none"}`, `{"alg":"HS256","crit":["b64"],"b64":false}`, `{"alg":"HS256","typ":"at+jwt"}`, `{"alg":"HS256","jwk":{}}`, `[]`, `{"alg":`, strings.Repeat(`{"a":`, 40)} {
		wrong = append(wrong, forge(header, good(), byHMAC(secret)))
	}
	for _, payload := range []any{`{}`, `null`, with("exp", nil), with("exp", -1), with("aud", "client-1"), with("groups", 1), with("status", "x"), `{"iss":1,"iss":2}`} {
		wrong = append(wrong, hsToken(payload))
	}
	return genuine, append(wrong, "", ".", "..", "...", "\x00", strings.Repeat("A", 5000))
}

// payloadSeeds are payloads of genuine tokens in odd spellings, and some that must fail.
func payloadSeeds() []string {
	return []string{
		toJSON(good()), toJSON(with("aud", []string{"activity"})), toJSON(with("status", nil)), toJSON(with("name", "a\"}\\,{é")), "", "{}", `{"iss":"` + issuer + `"}`,
		strings.ReplaceAll(toJSON(good()), ",", " ,\r\n\t"), strings.Replace(toJSON(good()), `"sub"`, `"\u0073ub"`, 1), strings.TrimSuffix(toJSON(good()), "}") + `,"x":[[],{},[{"y":[1,-2.5e3,true,null,""]}]]}`,
		strings.TrimSuffix(toJSON(good()), "}") + `,"sub":"u_1"}`, strings.TrimSuffix(toJSON(good()), "}") + `,"x":{"\\":1,"\u005c":2}}`,
	}
}

func TestFuzzSeedsAreAllThere(t *testing.T) {
	genuine, wrong := fuzzSeeds()
	if len(genuine) != 2 || len(wrong) != 45 {
		t.Errorf("%d genuine and %d wrong tokens", len(genuine), len(wrong))
	}
	if n := len(payloadSeeds()); n != 12 {
		t.Errorf("%d payloads", n)
	}
}

// FuzzVerify holds that nothing a stranger sends panics or verifies: only the tokens
// that the keys' owner made do, byte for byte.
func FuzzVerify(f *testing.F) {
	genuine, wrong := fuzzSeeds()
	for _, token := range append(genuine, wrong...) {
		f.Add(token)
	}
	v := verifier()
	f.Fuzz(func(t *testing.T, token string) {
		c, err := v.Verify(t.Context(), token)
		known := token == genuine[0] || token == genuine[1]
		switch {
		case known && err != nil:
			t.Fatal(err)
		case !known && err == nil:
			t.Fatalf("%q verified as %+v", token, c)
		case !known && (!errors.Is(err, session.ErrInvalid) || c.Subject != ""):
			t.Fatalf("%q: %+v, %v", token, c, err)
		}
	})
}

// FuzzClaims signs whatever payload it is given: what verifies has all that a session
// token must have, and the standard library, reading member by member, finds the
// same claims in it and no member twice.
func FuzzClaims(f *testing.F) {
	for _, payload := range payloadSeeds() {
		f.Add(payload)
	}
	v := verifier()
	f.Fuzz(func(t *testing.T, payload string) {
		if payload == "" {
			return
		}
		c, err := v.Verify(t.Context(), hsToken(payload))
		if err != nil {
			if !errors.Is(err, session.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		m := standardMembers(t, payload)
		want := session.Claims{
			Algorithm: "HS256", Issuer: issuer, Audience: session.Audience, Subject: m["sub"].(string), ID: m["jti"].(string), SessionID: m["sid"].(string),
			IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt, AuthTime: c.AuthTime, Groups: c.Groups, Status: c.Status,
		}
		want.Handle, _ = m["preferred_username"].(string)
		want.Name, _ = m["name"].(string)
		if diff := cmp.Diff(want, c); diff != "" || want.Subject == "" || want.ID == "" || want.SessionID == "" {
			t.Fatalf("%q (-want +got):\n%s", payload, diff)
		}
		if m["iat"] != float64(c.IssuedAt.Unix()) || m["exp"] != float64(c.ExpiresAt.Unix()) {
			t.Fatalf("%q: iat %v, exp %v", payload, c.IssuedAt, c.ExpiresAt)
		}
	})
}

func standardMembers(t *testing.T, object string) map[string]any {
	dec := json.NewDecoder(strings.NewReader(object))
	if _, err := dec.Token(); err != nil {
		t.Fatalf("%q: %v", object, err)
	}
	m := map[string]any{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			t.Fatalf("%q: %v", object, err)
		}
		if _, again := m[name.(string)]; again {
			t.Fatalf("%q has %q twice", object, name)
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			t.Fatalf("%q: %v", object, err)
		}
		m[name.(string)] = value
	}
	return m
}
