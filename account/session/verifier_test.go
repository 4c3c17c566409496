package session_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func TestGenuineTokensVerify(t *testing.T) {
	want := session.Claims{
		Issuer: issuer, Subject: "u_7Q", Audience: "activity",
		IssuedAt: clock, ExpiresAt: clock.Add(30 * 24 * time.Hour), AuthTime: clock.Add(-time.Minute),
		ID: "t_1", SessionID: "s_1", Handle: "ada", Name: "Ada L.", Groups: []string{"activity", "admin"},
		Status: &session.StatusRef{Index: 7, URI: issuer + "/oauth2/status/1"},
	}
	minimal := good()
	for _, name := range []string{"auth_time", "preferred_username", "name", "groups", "status"} {
		delete(minimal, name)
	}
	wantMinimal := want
	wantMinimal.AuthTime, wantMinimal.Handle, wantMinimal.Name, wantMinimal.Groups, wantMinimal.Status = time.Time{}, "", "", nil, nil
	noGroups := want
	noGroups.Groups = nil
	noStatus := want
	noStatus.Status = nil
	oddName := want
	oddName.Name = `a"}\\,{"é` + "\n\U0001F6B4"

	for _, tt := range []struct {
		name, token string
		want        session.Claims
	}{
		{"HS256", hsToken(good()), want},
		{"RS256", rsToken(good()), want},
		{"aud as an array of one", rsToken(with("aud", []string{"activity"})), want},
		{"no typ", forge(map[string]any{"alg": "HS256"}, good(), byHMAC(secret)), want},
		{"typ in small letters", forge(map[string]any{"alg": "HS256", "typ": "jwt"}, good(), byHMAC(secret)), want},
		{"HS256 with a kid", forge(map[string]any{"alg": "HS256", "kid": kid}, good(), byHMAC(secret)), want},
		{"a header parameter nobody knows", forge(map[string]any{"alg": "HS256", "x": "y"}, good(), byHMAC(secret)), want},
		{"a claim nobody knows", hsToken(with("x", map[string]any{"y": []any{1, nil}})), want},
		{"only the required claims", hsToken(minimal), wantMinimal},
		{"null groups", hsToken(with("groups", []string(nil))), noGroups},
		{"a name full of punctuation", rsToken(with("name", oddName.Name)), oddName},
		{"white space everywhere", hsToken(" " + strings.NewReplacer(",", " ,\r\n\t", ":{", "\t: {\n", "}", " }\n").Replace(toJSON(good()))), want},
		{"a status of another kind", hsToken(with("status", map[string]any{"other": 1})), noStatus},
		{"clock of the issuer 30 s ahead", hsToken(with("iat", clock.Add(30*time.Second).Unix())), func() session.Claims {
			c := want
			c.IssuedAt = clock.Add(30 * time.Second)
			return c
		}()},
		{"nbf now", hsToken(with("nbf", clock.Unix())), want},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := verifier().Verify(t.Context(), tt.token)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Algorithm = algOf(t, tt.token)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// algOf returns the alg of a token.
func algOf(t *testing.T, token string) string {
	t.Helper()
	first, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	var h struct{ Alg string }
	if err != nil || json.Unmarshal(text, &h) != nil {
		t.Fatalf("header %q: %v", text, err)
	}
	return h.Alg
}

func TestTokensOfOrdinarySignersVerify(t *testing.T) {
	for name, key := range map[string]jose.SigningKey{
		"HS256": {Algorithm: jose.HS256, Key: secret},
		"RS256": {Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: rsaKey(), KeyID: kid, Algorithm: "RS256", Use: "sig"}},
	} {
		signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
		if err != nil {
			t.Fatal(err)
		}
		jws, err := signer.Sign([]byte(toJSON(good())))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jws.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifier().Verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHasGroupComparesWholeNames(t *testing.T) {
	c := session.Claims{Groups: []string{"activity"}}
	for name, want := range map[string]bool{"activity": true, "Activity": false, "act": false, "": false, "admin": false} {
		if got := c.HasGroup(name); got != want {
			t.Errorf("HasGroup(%q) = %t", name, got)
		}
	}
}

func TestMisconfiguredVerifierBelievesNothing(t *testing.T) {
	keys := session.NewStaticKeySet(publicJWK(rsaKey(), kid))
	for name, v := range map[string]*session.Verifier{
		"no issuer":              {Secret: secret, Keys: keys},
		"neither secret nor key": {Issuer: issuer},
		"short secret":           {Issuer: issuer, Secret: secret[:31]},
		"blank secret":           {Issuer: issuer, Secret: []byte(""), Keys: keys},
		"public key as secret":   {Issuer: issuer, Secret: []byte("\n-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n")},
	} {
		t.Run(name, func(t *testing.T) {
			v.Now = func() time.Time { return clock }
			err := v.Check()
			if err == nil {
				t.Fatal("Check found nothing")
			}
			if len(v.Secret) > 0 && strings.Contains(err.Error(), string(v.Secret)) {
				t.Error("the error holds the secret")
			}
			token := forge(hsHeader(), good(), byHMAC(v.Secret))
			if _, got := v.Verify(t.Context(), token); got == nil || errors.Is(got, session.ErrInvalid) || got.Error() != err.Error() {
				t.Errorf("Verify: %v, want Check's error", got)
			}
		})
	}
	if err := verifier().Check(); err != nil {
		t.Errorf("a good verifier: %v", err)
	}
}

func TestAlgorithmWithoutItsKeyIsRefused(t *testing.T) {
	v := verifier()
	v.Secret = nil
	mustRefuse(t, v, hsToken(good()))
	v = verifier()
	v.Keys = nil
	mustRefuse(t, v, rsToken(good()))
}

func TestExpiredTokenIsNeverASession(t *testing.T) {
	exp := clock.Add(session.Lifetime)
	for _, tt := range []struct {
		leeway time.Duration
		now    time.Time
		good   bool
	}{
		{0, exp.Add(30*time.Second - 1), true},
		{0, exp.Add(30 * time.Second), false},
		{-1, exp.Add(-1), true},
		{-1, exp, false},
		{time.Minute, exp.Add(time.Minute - 1), true},
		{time.Minute, exp.Add(time.Minute), false},
		{0, exp.AddDate(100, 0, 0), false},
	} {
		v := verifier()
		v.Leeway, v.Now = tt.leeway, func() time.Time { return tt.now }
		for _, token := range []string{hsToken(good()), rsToken(good())} {
			if tt.good {
				if _, err := v.Verify(t.Context(), token); err != nil {
					t.Errorf("leeway %v at %v: %v", tt.leeway, tt.now, err)
				}
				continue
			}
			if err := mustRefuse(t, v, token); !errors.Is(err, session.ErrExpired) {
				t.Errorf("leeway %v at %v: %v is not ErrExpired", tt.leeway, tt.now, err)
			}
		}
	}
}

func TestTokenFromTheFutureIsNeverASession(t *testing.T) {
	for _, claim := range []string{"iat", "nbf", "auth_time"} {
		v := verifier()
		mustRefuse(t, v, hsToken(with(claim, clock.Add(31*time.Second).Unix())))
		v.Leeway = -1
		mustRefuse(t, v, hsToken(with(claim, clock.Add(time.Second).Unix())))
	}
	v := verifier() // the clock of the application jumps back
	v.Now = func() time.Time { return clock.Add(-time.Hour) }
	mustRefuse(t, v, hsToken(good()))
}

func TestAnotherAudienceIsAskedForByName(t *testing.T) {
	v := verifier()
	v.Audience = "maps"
	mustRefuse(t, v, hsToken(good()))
	if _, err := v.Verify(t.Context(), hsToken(with("aud", "maps"))); err != nil {
		t.Error(err)
	}
}
