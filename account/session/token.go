package session

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// Audience is the fixed aud of session tokens. Cairn refuses it as a client_id,
// so no client's ID token carries it.
const Audience = "activity"

// Lifetime is the time between iat and exp of a session token.
const Lifetime = 30 * 24 * time.Hour

// Claims are the claims of a verified session token. Times are UTC, in whole seconds.
type Claims struct {
	Issuer    string    // iss
	Subject   string    // sub: the stable, opaque id of the user; the key to store things under
	Audience  string    // aud
	IssuedAt  time.Time // iat
	ExpiresAt time.Time // exp
	AuthTime  time.Time // auth_time: when the user proved who they are; zero if the token has none

	AMR []string // amr: the methods of the sign-in (RFC 8176); nil if the token has none
	ACR string   // acr: the class of the sign-in; "" if the token has none. Compare with SatisfiesACR

	Algorithm string // alg of the signature that was checked: "HS256" or "RS256"

	ID        string // jti
	SessionID string // sid: the session at Cairn; stays the same if its token is renewed

	Handle string   // preferred_username: to show and to link, never to store things under
	Name   string   // name: to show; may be blank
	Groups []string // groups: the access flags that were on when the token was issued

	// Status is the session's place in the issuer's status list; nil if the token has none.
	Status *StatusRef
}

// StatusRef is a reference into a Token Status List: the claim status.status_list.
type StatusRef struct {
	Index int    `json:"idx"` // which entry, from 0
	URI   string `json:"uri"` // where the list is
}

// HasGroup reports whether the access flag name was on when the token was issued.
func (c Claims) HasGroup(name string) bool {
	return slices.Contains(c.Groups, name)
}

// Authentication context classes (acr) of sign-ins, weakest first.
const (
	ACRPassword          = "1"   // the password alone
	ACRTwoFactors        = "2"   // more than one factor
	ACRPhishingResistant = "phr" // a passkey (OpenID EAP ACR Values, section 2)
)

// acrClasses are in order: each satisfies those before it.
var acrClasses = []string{ACRPassword, ACRTwoFactors, ACRPhishingResistant}

// SatisfiesACR reports whether the sign-in was of the required class or a stronger one. A token
// without a known acr, which earlier versions of Cairn made, counts as ACRPassword. Every sign-in
// satisfies "", none an unknown class.
func (c Claims) SatisfiesACR(required string) bool {
	if required == "" {
		return true
	}
	at := slices.Index(acrClasses, required)
	return at >= 0 && max(slices.Index(acrClasses, c.ACR), 0) >= at
}

const (
	maxToken  = 4096 // bytes of a token, and of the header of a status list; browsers keep no longer cookie
	maxKeyID  = 128  // bytes of a kid; Cairn's are RFC 7638 thumbprints of 43
	tokenType = "JWT"
)

// verifySignature returns the payload of a token of this type, with at most longest bytes, that the
// issuer has signed.
func (v *Verifier) verifySignature(
	ctx context.Context, token, typ string, longest int,
) (payload map[string]any, alg jose.SignatureAlgorithm, err error) {
	if len(token) > longest {
		return nil, "", invalid("too long")
	}
	alg, kid, err := readHeader(token, typ)
	if err != nil {
		return nil, "", err
	}
	key, err := v.key(ctx, alg, kid)
	if err != nil {
		return nil, "", err
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{alg})
	if err != nil { // the error may quote the token
		return nil, "", invalid("not a signed token")
	}
	signed, err := jws.Verify(key)
	if err != nil {
		return nil, "", invalid("the signature does not match")
	}
	if payload, err = readObject(signed); err != nil {
		return nil, "", invalid("the claims are " + err.Error())
	}
	return payload, alg, nil
}

// foreign are the header parameters that bring a key, refer to one, or change what is signed. Cairn
// writes none of them, and they must be neither obeyed nor ignored. Others are ignored, as RFC 7515
// section 4 requires.
var foreign = []string{"b64", "crit", "enc", "jku", "jwk", "x5c", "x5t", "x5t#S256", "x5u", "zip"}

// readHeader decides whether a token is worth a signature check, before go-jose parses it and
// before any key is looked up.
func readHeader(token, want string) (alg jose.SignatureAlgorithm, kid string, err error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return "", "", invalid("not in compact serialization")
	}
	var header []byte
	for i, part := range parts {
		data, ok := canonical(part)
		if !ok || i == 0 && len(data) > maxToken {
			return "", "", invalid("not base64url")
		} else if i == 0 {
			header = data
		}
	}
	m, err := readObject(header)
	if err != nil {
		return "", "", invalid("the header is " + err.Error())
	}
	for _, name := range foreign {
		if _, there := m[name]; there {
			return "", "", invalid("a header parameter that no token of the issuer has")
		}
	}
	// Tokens of other kinds (at+jwt, logout+jwt, statuslist+jwt) share the keys. Session tokens may be
	// without a type; case does not matter (RFC 7515 section 4.1.9).
	value, there := m["typ"]
	typ, _ := value.(string)
	typ = strings.ToLower(typ)
	if want == accessTokenType {
		typ = strings.TrimPrefix(typ, "application/") // RFC 9068 section 4
	}
	if !strings.EqualFold(typ, want) && (there || want != tokenType) {
		return "", "", invalid("another type of token")
	}
	if value, there = m["kid"]; there {
		if kid, _ = value.(string); !isKeyID(kid) {
			return "", "", invalid("kid is not a key id")
		}
	}
	name, _ := m["alg"].(string)
	alg = jose.SignatureAlgorithm(name)
	if !slices.Contains(algorithms(want), alg) {
		return "", "", invalid("another algorithm")
	}
	if kid == "" && alg != jose.HS256 {
		return "", "", invalid("no kid")
	}
	return alg, kid, nil
}

// algorithms returns those that sign a type of token. The secret, which other applications have,
// signs no access token.
func algorithms(typ string) []jose.SignatureAlgorithm {
	if typ == accessTokenType {
		return []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}
	}
	return []jose.SignatureAlgorithm{jose.HS256, jose.RS256}
}

// key returns the only key that may verify a token with this header. Only here does the algorithm
// decide the type of the key: otherwise a public key could be used as an HMAC secret.
func (v *Verifier) key(ctx context.Context, alg jose.SignatureAlgorithm, kid string) (any, error) {
	if alg == jose.HS256 {
		if v.Secret == nil {
			return nil, invalid("HS256 is not in use")
		}
		if !v.SecretUntil.IsZero() && !v.now().Before(v.SecretUntil) {
			return nil, invalid("HS256 is no longer in use")
		}
		return v.Secret, nil
	}
	if v.Keys == nil {
		return nil, invalid("public keys are not in use")
	}
	k, err := v.Keys.Key(ctx, kid)
	switch {
	case errors.Is(err, ErrUnknownKey), err == nil && (k == nil || k.KeyID != kid):
		return nil, fmt.Errorf("%w: %w", ErrInvalid, ErrUnknownKey)
	case errors.Is(err, ErrKeysUnavailable):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, err)
	}
	pub, of := signingKey(k)
	if of != alg {
		return nil, invalid("the key of this kid is not a strong key of this algorithm")
	}
	return pub, nil
}

// canonical decodes unpadded base64url in its one spelling. The decoder skips line ends and, unless
// strict, ignores the last unused bits, so that one token would have many spellings.
func canonical(part string) ([]byte, bool) {
	if strings.ContainsAny(part, "\r\n") {
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return data, err == nil
}

// isKeyID refuses paths, addresses and query text before a key set sees them.
func isKeyID(kid string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
	return kid != "" && len(kid) <= maxKeyID && strings.Trim(kid, allowed) == ""
}

// readObject reads one JSON object with exact member names. Unlike encoding/json, the package of
// go-jose refuses repeated members at any depth.
func readObject(data []byte) (m map[string]any, err error) {
	if !utf8.Valid(data) || json.Unmarshal(data, &m) != nil {
		return nil, errors.New("not one JSON object with distinct members")
	}
	return m, nil
}

// integer returns a number from 0 to limit without a fraction. Fractions are legal in
// a NumericDate (RFC 7519 section 2), but Cairn writes whole seconds.
func integer(value any, limit float64) (int64, bool) {
	f, ok := value.(float64)
	if !ok || f != math.Trunc(f) || f < 0 || f > limit {
		return 0, false
	}
	return int64(f), true
}

// stringList reads an array of strings; nil where there is none.
func stringList(value any) (list []string, ok bool) {
	items, ok := value.([]any)
	if !ok {
		return nil, value == nil
	}
	for _, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, false
		}
		list = append(list, text)
	}
	return list, true
}

// latestSecond is the end of the year 9999, the last one of RFC 3339.
const latestSecond = 253402300799

func instant(value any) (time.Time, bool) {
	seconds, ok := integer(value, latestSecond)
	return time.Unix(seconds, 0).UTC(), ok
}

// claims reads the payload of a verified token and decides whether it is a valid session token for
// this verifier.
func (v *Verifier) claims(m map[string]any) (Claims, error) {
	c, err := v.commonClaims(m)
	if err != nil {
		return Claims{}, err
	}
	if c.SessionID == "" {
		return Claims{}, invalid("sid is missing or not a string")
	}
	c.Audience = cmp.Or(v.Audience, Audience)
	// A string or an array of one (RFC 7519 section 4.1.3). A token for several audiences is
	// not a session token.
	aud := m["aud"]
	if list, ok := aud.([]any); ok && len(list) == 1 {
		aud = list[0]
	}
	if aud != c.Audience {
		return Claims{}, invalid("another audience")
	}
	return v.inForce(c, m)
}

// commonClaims reads the claims that every token of the issuer may have, except the times.
func (v *Verifier) commonClaims(m map[string]any) (Claims, error) {
	var c Claims
	for _, f := range []struct {
		name     string
		to       *string
		required bool
	}{
		{"iss", &c.Issuer, true}, {"sub", &c.Subject, true}, {"jti", &c.ID, true}, {"sid", &c.SessionID, false},
		{"preferred_username", &c.Handle, false}, {"name", &c.Name, false}, {"acr", &c.ACR, false},
	} {
		var ok bool
		if *f.to, ok = m[f.name].(string); f.required && *f.to == "" || !ok && m[f.name] != nil {
			return Claims{}, invalid(f.name + " is missing or not a string")
		}
	}
	if c.Issuer != v.Issuer {
		return Claims{}, invalid("another issuer")
	}
	var ok bool
	if c.Groups, ok = stringList(m["groups"]); !ok {
		return Claims{}, invalid("groups is not an array of strings")
	}
	if c.AMR, ok = stringList(m["amr"]); !ok {
		return Claims{}, invalid("amr is not an array of strings")
	}
	if c.Status, ok = readStatus(m["status"]); !ok {
		return Claims{}, invalid("status is not a reference into a status list")
	}
	return c, nil
}

// inForce reads the token's times and compares them with the clock.
func (v *Verifier) inForce(c Claims, m map[string]any) (Claims, error) {
	now, leeway := v.now(), v.leeway()
	var notBefore time.Time
	for _, f := range []struct {
		name     string
		to       *time.Time
		required bool
	}{{"exp", &c.ExpiresAt, true}, {"iat", &c.IssuedAt, true}, {"nbf", &notBefore, false},
		{"auth_time", &c.AuthTime, false}} {
		value, there := m[f.name]
		if !there && !f.required {
			continue
		}
		var ok bool
		if *f.to, ok = instant(value); !ok {
			return Claims{}, invalid(f.name + " is missing or not a time")
		}
		if f.name != "exp" && f.to.After(now.Add(leeway)) {
			return Claims{}, invalid(f.name + " is in the future")
		}
	}
	switch {
	case !c.ExpiresAt.After(c.IssuedAt):
		return Claims{}, invalid("exp is not after iat")
	case c.ExpiresAt.Sub(c.IssuedAt) > Lifetime+leeway:
		return Claims{}, invalid("longer lived than a session token")
	case !now.Before(c.ExpiresAt.Add(leeway)):
		return Claims{}, ErrExpired
	}
	return c, nil
}

// readStatus reads {"status_list":{"idx":N,"uri":"..."}}. A status of another kind is nil, as if
// there were none.
func readStatus(value any) (*StatusRef, bool) {
	status, ok := value.(map[string]any)
	if !ok {
		return nil, value == nil
	}
	if _, there := status["status_list"]; !there {
		return nil, true
	}
	list, _ := status["status_list"].(map[string]any)
	index, ok := integer(list["idx"], math.MaxInt32)
	uri, _ := list["uri"].(string)
	return &StatusRef{Index: int(index), URI: uri}, ok && uri != ""
}
