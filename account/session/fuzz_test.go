package session_test

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

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

// payloadSeeds are payloads of genuine tokens in unusual spellings, and some that must fail.
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
	if n, m := len(payloadSeeds()), len(statusSeeds()); n != 12 || m != 21 {
		t.Errorf("%d payloads, %d lists", n, m)
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

// FuzzClaims signs any payload: what verifies has all that a session
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
			IssuedAt: c.IssuedAt, ExpiresAt: c.ExpiresAt, AuthTime: c.AuthTime, Groups: c.Groups, AMR: c.AMR, Status: c.Status,
		}
		want.ACR, _ = m["acr"].(string)
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

// statusSeeds are byte arrays that a list may hold, packed, and others that are none.
func statusSeeds() []string {
	one := packed([]byte{0b1000_0001, 0, 7})
	return []string{
		one, packed(make([]byte, listSize/8)), packed([]byte{255}), packed(nil), one + "x", one + one, one[:len(one)-1], one[:3], "", "x", "\x78\x9c", "\x78\xbb\x00\x00\x00\x01",
		packed(make([]byte, 1<<20)), packed(make([]byte, 1<<20+1)),
		toJSON(listPayload(issuer+"/oauth2/status/1", clock, 60, 7)), `{}`, `[]`, `{"sub":1}`, `{"sub":"` + issuer + `/oauth2/status/1","iat":1,"status_list":{"bits":8,"lst":"eJxjYGBgAAAABAAB"}}`,
		hsList(listPayload(issuer+"/oauth2/status/1", clock, 60)), hsToken(good()),
	}
}

// FuzzStatusList serves data as a list token, as the payload of a signed one, and as the packed
// list of a genuine one. The first is believed only if it is one; the last exactly when
// the standard library unpacks it to the end, with the same bits.
func FuzzStatusList(f *testing.F) {
	for _, seed := range statusSeeds() {
		f.Add([]byte(seed))
	}
	genuine := hsList(listPayload(issuer+"/oauth2/status/1", clock, 60))
	f.Fuzz(func(t *testing.T, data []byte) {
		known := answers(t, string(data), 0, 7, listSize)
		if strings.TrimSpace(string(data)) != genuine && known[0].err == nil {
			t.Errorf("believed: %q", data)
		}
		if len(data) > 0 {
			answers(t, hsList(string(data)), 0, 7, listSize, 1<<30)
		}

		p := listPayload(issuer+"/oauth2/status/1", clock, 60)
		p["status_list"] = map[string]any{"bits": 1, "lst": b64(string(data))}
		bits, ok := unpacked(data)
		indices := []int{0, 1, 7, 8, 8*len(bits) - 1, 8 * len(bits)}
		for i, got := range answers(t, hsList(p), indices...) {
			index := indices[i]
			switch {
			case !ok:
				if !errors.Is(got.err, session.ErrStatusUnavailable) {
					t.Errorf("%x: %d: %t, %v", data, index, got.revoked, got.err)
				}
			case index < 0 || index >= 8*len(bits):
				if !errors.Is(got.err, session.ErrInvalid) {
					t.Errorf("%x: %d: %t, %v", data, index, got.revoked, got.err)
				}
			case got.err != nil || got.revoked != (bits[index/8]>>(index%8)&1 == 1):
				t.Errorf("%x: %d: %t, %v", data, index, got.revoked, got.err)
			}
		}
	})
}

type statusAnswer struct {
	revoked bool
	err     error
}

// answers asks an application for the statuses of sessions, when Cairn's answer is body.
func answers(t *testing.T, body string, indices ...int) []statusAnswer {
	s := newServer()
	s.fail(answeringList(body))
	o := s.options()
	o.Now = func() time.Time { return clock }
	lists := session.NewRemoteStatusList(o)
	defer func() { _ = lists.Close() }()
	out := make([]statusAnswer, len(indices))
	for i, index := range indices {
		revoked, err := lists.Revoked(t.Context(), place(index))
		if err != nil &&
			(revoked || errors.Is(err, session.ErrStatusUnavailable) == errors.Is(err, session.ErrInvalid)) {
			t.Errorf("%d: %t, %v", index, revoked, err)
		}
		out[i] = statusAnswer{revoked, err}
	}
	return out
}

// unpacked is what the standard library makes of a packed list, if it is one that may be believed.
func unpacked(data []byte) ([]byte, bool) {
	const most = 1 << 20
	from := bytes.NewReader(data)
	z, err := zlib.NewReader(from)
	if err != nil || len(data) > most/2 {
		return nil, false
	}
	bits, err := io.ReadAll(io.LimitReader(z, most+1))
	return bits, err == nil && len(bits) > 0 && len(bits) <= most && from.Len() == 0
}
