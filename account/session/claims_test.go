package session_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
)

func TestRequiredClaimsOfWrongTypeAreRefused(t *testing.T) {
	wrong := []string{`null`, `true`, `[]`, `{}`, `""`, `["x"]`, `{"x":1}`}
	numbers := []string{`"1893456000"`, `-1`, `-0`, `1e10`, `1e400`, `1.5`, `253402300800`, `9223372036854775808`, `99999999999999999999999999`, `0`}
	texts := []string{`1`, `0`, `1.5`}
	for _, name := range []string{"iss", "sub", "aud", "jti", "sid", "iat", "exp"} {
		mustRefuse(t, verifier(), hsToken(with(name, nil)))
		values := append(append([]string{}, wrong...), texts...)
		if name == "iat" || name == "exp" {
			values = append(append([]string{}, wrong...), numbers...)
		}
		for _, value := range values {
			t.Run(name+" "+value, func(t *testing.T) {
				mustRefuse(t, verifier(), hsToken(with(name, json.RawMessage(value))))
				mustRefuse(t, verifier(), rsToken(with(name, json.RawMessage(value))))
			})
		}
	}
}

func TestOptionalClaimsOfWrongTypeAreRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"auth_time":          {`null`, `"1"`, `-1`, `1.5`, `1e3`, `[]`, `{}`, `true`},
		"nbf":                {`null`, `"1"`, `-1`, `1.5`, `1e3`, `[]`, `{}`, `true`, `99999999999999999999`},
		"preferred_username": {`1`, `[]`, `{}`, `true`},
		"name":               {`1`, `[]`, `{}`, `true`},
		"groups":             {`"admin"`, `1`, `{}`, `[1]`, `[null]`, `[["admin"]]`, `true`},
		"status": {`1`, `"x"`, `[]`, `{"status_list":null}`, `{"status_list":[]}`, `{"status_list":{}}`, `{"status_list":{"idx":1}}`,
			`{"status_list":{"idx":"1","uri":"u"}}`, `{"status_list":{"idx":-1,"uri":"u"}}`, `{"status_list":{"idx":1.0,"uri":"u"}}`,
			`{"status_list":{"idx":2147483648,"uri":"u"}}`, `{"status_list":{"idx":1,"uri":""}}`, `{"status_list":{"idx":1,"uri":1}}`},
	} {
		for _, value := range values {
			t.Run(name+" "+value, func(t *testing.T) {
				mustRefuse(t, verifier(), hsToken(with(name, json.RawMessage(value))))
			})
		}
	}
}

func TestForeignIssuersAndAudiencesAreRefused(t *testing.T) {
	for name, values := range map[string][]any{
		"iss": {"https://evil.example", issuer + "/", "HTTPS://id.example.org", "http://id.example.org", issuer + "\x00", []string{issuer}},
		// A client's ID token has the client's id as aud.
		"aud": {"client-1", "Activity", "activity ", "", []string{}, []string{"activity", "client-1"}, []string{"client-1", "activity"}, []string{"activity", "activity"}, [][]string{{"activity"}}, map[string]any{"activity": 1}, issuer},
	} {
		for _, value := range values {
			mustRefuse(t, verifier(), hsToken(with(name, value)))
			mustRefuse(t, verifier(), rsToken(with(name, value)))
		}
	}
}

func TestTokensOfClientsAreNeverSessions(t *testing.T) {
	idToken := map[string]any{
		"iss": issuer, "sub": "u_7Q", "aud": []string{"client-1"}, "azp": "client-1", "nonce": "n", "at_hash": "h", "sid": "s_1",
		"jti": "t_1", "iat": clock.Unix(), "exp": clock.Unix() + 3600, "auth_time": clock.Unix(),
	}
	mustRefuse(t, verifier(), rsToken(idToken))
	for _, opaque := range []string{"ory_at_Zm9v.YmFy", "ory_rt_Zm9v.YmFy", "ory_ac_Zm9v.YmFy", "Zm9vYmFy", strings.Repeat("A", 43)} {
		mustRefuse(t, verifier(), opaque)
	}
}

func TestLongerLivedTokenIsNotASessionToken(t *testing.T) {
	life := int64(session.Lifetime.Seconds())
	for _, tt := range []struct {
		seconds int64
		good    bool
	}{{life, true}, {life + 30, true}, {life + 31, false}, {life * 100, false}, {1, true}, {0, false}, {-1, false}} {
		token := hsToken(with("exp", clock.Unix()+tt.seconds))
		if !tt.good {
			mustRefuse(t, verifier(), token)
		} else if _, err := verifier().Verify(t.Context(), token); err != nil {
			t.Errorf("%d s: %v", tt.seconds, err)
		}
	}
}

func TestRepeatedMembersAreRefused(t *testing.T) {
	payload := toJSON(good())
	for _, extra := range []string{
		`"sub":"u_1"`, `"exp":4102444800`, `"aud":"client-1"`, `"x":1,"x":1`, `"\u0073ub":"u_1"`, `"":1,"":2`,
		`"x":{"y":1,"y":1}`, `"x":[{"y":1,"y":2}]`, `"x":[[{"y":{"z":1,"z":2}}]]`,
	} {
		mustRefuse(t, verifier(), hsToken(strings.TrimSuffix(payload, "}")+","+extra+"}"))
		mustRefuse(t, verifier(), hsToken("{"+extra+","+payload[1:]))
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
		for _, other := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			p := with(name, nil)
			p[other] = good()[name]
			mustRefuse(t, verifier(), hsToken(p))
		}
	}
	p := good()
	p["EXP"], p["Sub"], p["GROUPS"] = 1, "u_1", []string{"root"}
	c, err := verifier().Verify(t.Context(), hsToken(p))
	if err != nil || c.Subject != "u_7Q" || c.HasGroup("root") || c.ExpiresAt != clock.Add(session.Lifetime) {
		t.Errorf("other cases of known names changed the claims: %+v, %v", c, err)
	}
	p = good()
	p["ſub"], p["ſid"] = "u_1", "s_2" // U+017F folds to s
	if c, err := verifier().Verify(t.Context(), hsToken(p)); err != nil || c.Subject != "u_7Q" || c.SessionID != "s_1" {
		t.Errorf("folded names changed the claims: %+v, %v", c, err)
	}
}

func TestMalformedPayloadsAreRefused(t *testing.T) {
	payload := toJSON(good())
	for _, p := range []string{
		`null`, `[]`, `1`, `"x"`, `{`, `}`, `[` + payload + `]`, payload + payload, payload + `x`, payload + `]`, payload[:len(payload)-1], "\ufeff" + payload,
		strings.Replace(payload, "Ada", "A\xffda", 1), strings.Replace(payload, `"name"`, `name`, 1), strings.Replace(payload, `,`, `,,`, 1), `{"iss":` + strings.Repeat("[", 500),
		strings.TrimSuffix(payload, "}") + `,"x":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + "}",
		strings.TrimSuffix(payload, "}") + `,"x":` + strings.Repeat(`{"a":`, 400) + "1" + strings.Repeat("}", 400) + "}",
	} {
		mustRefuse(t, verifier(), hsToken(p))
	}
	for _, h := range []string{`null`, `[]`, `{}`, `{"alg":"HS256"`, `{"alg":"HS256"}{}`, `{"alg":"HS256"} x`, "\xff", strings.Repeat(`{"a":`, 500), strings.Repeat(`[`, 2500)} {
		mustRefuse(t, verifier(), forge(h, good(), byHMAC(secret)))
	}
}

// One token has one spelling: whoever bans or counts tokens by their text must not be
// fooled by a second one.
func TestOtherSpellingsOfAGenuineTokenAreRefused(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, token := range []string{hsToken(good()), rsToken(good())} {
		parts := strings.Split(token, ".")
		for _, other := range []string{
			token + "\n", "\n" + token, " " + token, token + " ", token + "=", token + ".", "." + token, token + ".e30", token + "\x00", "Bearer " + token, `"` + token + `"`,
			parts[0] + "=." + parts[1] + "." + parts[2], parts[0] + "." + parts[1] + "." + parts[2][:8] + "\n" + parts[2][8:], parts[0] + "." + parts[1] + "." + parts[2] + "==",
			strings.ToUpper(token), strings.ReplaceAll(strings.ReplaceAll(token, "-", "+"), "_", "/") + "+",
		} {
			mustRefuse(t, verifier(), other)
		}
		for i := range parts {
			raw, err := base64.RawURLEncoding.DecodeString(parts[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range alphabet { // the unused bits of the last character
				changed := parts[i][:len(parts[i])-1] + string(c)
				if got, err := base64.RawURLEncoding.DecodeString(changed); changed != parts[i] && err == nil && string(got) == string(raw) {
					p := append([]string{}, parts...)
					p[i] = changed
					mustRefuse(t, verifier(), strings.Join(p, "."))
				}
			}
		}
	}
}

func TestOtherSerializationsAreRefused(t *testing.T) {
	p := strings.Split(hsToken(good()), ".")
	for _, token := range []string{
		fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, p[0], p[1], p[2]),
		fmt.Sprintf(`{"payload":%q,"signatures":[{"protected":%q,"signature":%q}]}`, p[1], p[0], p[2]),
		p[0] + ".." + p[2], p[0] + "." + p[1], p[0], "", ".", "..", "...", "....", strings.Repeat(".", 4096), strings.Repeat(".", 1<<20), p[0] + "." + p[1] + "." + p[2] + "." + p[0] + "." + p[1],
	} {
		mustRefuse(t, verifier(), token)
	}
}

func TestTokenOver4096BytesIsRefusedUnread(t *testing.T) {
	size := func(n int) string { return hsToken(with("x", strings.Repeat("x", n))) }
	n := 1
	for len(size(n+1)) <= 4096 {
		n++
	}
	if _, err := verifier().Verify(t.Context(), size(n)); err != nil {
		t.Errorf("%d bytes: %v", len(size(n)), err)
	}
	for _, more := range []int{1, 100, 1 << 20} {
		if err := mustRefuse(t, verifier(), size(n+more)); errors.Is(err, session.ErrExpired) {
			t.Error(err)
		}
	}
}
