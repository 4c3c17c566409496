package session

import (
	"encoding/json"
	"math"
	"time"
)

// claims reads the payload of a token whose signature is good and decides whether
// it is a session token of this verifier that is in force.
func (v *Verifier) claims(payload []byte) (Claims, error) {
	m, err := members(payload)
	if err != nil {
		return Claims{}, invalid("the claims are " + err.Error())
	}
	c, err := readClaims(m)
	if err != nil {
		return Claims{}, err
	}
	if c.Issuer != v.Issuer {
		return Claims{}, invalid("another issuer")
	}
	if c.Audience != v.audience() {
		return Claims{}, invalid("another audience")
	}
	return c, v.inForce(c, m["nbf"])
}

// inForce holds the token's times against the clock.
func (v *Verifier) inForce(c Claims, nbf json.RawMessage) error {
	now, leeway := v.now(), v.leeway()
	latest := now.Add(leeway)
	if c.IssuedAt.After(latest) {
		return invalid("iat is in the future")
	}
	if c.AuthTime.After(latest) {
		return invalid("auth_time is in the future")
	}
	if nbf != nil {
		seconds, ok := integer(nbf, latestSecond)
		if !ok {
			return invalid("nbf is not a time")
		}
		if time.Unix(seconds, 0).After(latest) {
			return invalid("nbf is in the future")
		}
	}
	if !c.ExpiresAt.After(c.IssuedAt) {
		return invalid("exp is not after iat")
	}
	if c.ExpiresAt.Sub(c.IssuedAt) > Lifetime+leeway {
		return invalid("longer lived than a session token")
	}
	if !now.Before(c.ExpiresAt.Add(leeway)) {
		return ErrExpired
	}
	return nil
}

func readClaims(m map[string]json.RawMessage) (Claims, error) {
	var c Claims
	for _, f := range []struct {
		name string
		to   *string
	}{{"iss", &c.Issuer}, {"sub", &c.Subject}, {"jti", &c.ID}, {"sid", &c.SessionID}} {
		s, ok := text(m[f.name])
		if !ok || s == "" {
			return Claims{}, invalid(f.name + " is missing or not a string")
		}
		*f.to = s
	}

	var ok bool
	if c.Audience, ok = onlyAudience(m["aud"]); !ok {
		return Claims{}, invalid("aud is missing or not a single string")
	}

	for _, f := range []struct {
		name     string
		to       *time.Time
		required bool
	}{{"iat", &c.IssuedAt, true}, {"exp", &c.ExpiresAt, true}, {"auth_time", &c.AuthTime, false}} {
		value := m[f.name]
		if value == nil && !f.required {
			continue
		}
		seconds, ok := integer(value, latestSecond)
		if !ok {
			return Claims{}, invalid(f.name + " is missing or not a time")
		}
		*f.to = time.Unix(seconds, 0).UTC()
	}

	for _, f := range []struct {
		name string
		to   *string
	}{{"preferred_username", &c.Handle}, {"name", &c.Name}} {
		if value := m[f.name]; !absent(value) {
			if *f.to, ok = text(value); !ok {
				return Claims{}, invalid(f.name + " is not a string")
			}
		}
	}
	if value := m["groups"]; !absent(value) {
		if c.Groups, ok = texts(value); !ok {
			return Claims{}, invalid("groups is not an array of strings")
		}
	}
	if c.Status, ok = readStatus(m["status"]); !ok {
		return Claims{}, invalid("status is not a reference into a status list")
	}
	return c, nil
}

// onlyAudience reads aud as a string or as an array of exactly one (RFC 7519 section
// 4.1.3 allows both). A token for several audiences is not a session token.
func onlyAudience(value json.RawMessage) (string, bool) {
	if list, ok := texts(value); ok {
		if len(list) != 1 {
			return "", false
		}
		return list[0], true
	}
	return text(value)
}

// readStatus reads {"status_list":{"idx":N,"uri":"..."}}. A status of another kind
// is nil: it is no reference that this package knows.
func readStatus(value json.RawMessage) (*StatusRef, bool) {
	if absent(value) {
		return nil, true
	}
	status, err := members(value)
	if err != nil {
		return nil, false
	}
	if status["status_list"] == nil {
		return nil, true
	}
	list, err := members(status["status_list"])
	if err != nil {
		return nil, false
	}
	index, ok := integer(list["idx"], math.MaxInt32)
	if !ok {
		return nil, false
	}
	uri, ok := text(list["uri"])
	if !ok || uri == "" {
		return nil, false
	}
	return &StatusRef{Index: int(index), URI: uri}, true
}
