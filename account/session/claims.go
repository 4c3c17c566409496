package session

import (
	"slices"
	"time"
)

// Audience is the fixed aud of session tokens. Cairn refuses it as a client_id,
// so no client's ID token carries it.
const Audience = "activity"

// Lifetime is the time between iat and exp of a session token.
const Lifetime = 30 * 24 * time.Hour

// Claims are what a verified session token says. Times are UTC, in whole seconds.
type Claims struct {
	Issuer    string    // iss
	Subject   string    // sub: the stable, opaque id of the user; the key to store things under
	Audience  string    // aud
	IssuedAt  time.Time // iat
	ExpiresAt time.Time // exp
	AuthTime  time.Time // auth_time: when the user proved who they are; zero if the token has none

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
