package provider

import (
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/token/jwt"
)

// GrantSession is what a grant knows beyond fosite's request: who, in which
// session, when authenticated. Plain values; the store keeps them in columns.
// It implements openid.Session.
type GrantSession struct {
	Subject     string // sub of the user
	SessionID   string // sid of the browser's session
	AuthTime    time.Time
	RequestedAt time.Time // first arrival of the authorization request
	ACR         string
	// Claims is the claims request parameter (OpenID Connect Core section 5.5)
	// as far as it is honoured: compact JSON of names, or empty.
	Claims string

	CodeExpires    time.Time
	AccessExpires  time.Time
	RefreshExpires time.Time

	atHash jwt.IDTokenClaims // fosite writes at_hash here
}

var _ openid.Session = (*GrantSession)(nil)

// SetExpiresAt implements fosite.Session. Times are whole seconds.
func (s *GrantSession) SetExpiresAt(key fosite.TokenType, exp time.Time) {
	exp = exp.UTC().Truncate(time.Second)
	switch key {
	case fosite.AuthorizeCode:
		s.CodeExpires = exp
	case fosite.AccessToken:
		s.AccessExpires = exp
	case fosite.RefreshToken:
		s.RefreshExpires = exp
	}
}

// GetExpiresAt implements fosite.Session.
func (s *GrantSession) GetExpiresAt(key fosite.TokenType) time.Time {
	switch key {
	case fosite.AuthorizeCode:
		return s.CodeExpires
	case fosite.AccessToken:
		return s.AccessExpires
	case fosite.RefreshToken:
		return s.RefreshExpires
	}
	return time.Time{}
}

// GetUsername implements fosite.Session; the handle is read where it is needed.
func (s *GrantSession) GetUsername() string { return "" }

// GetSubject implements fosite.Session.
func (s *GrantSession) GetSubject() string { return s.Subject }

// Clone implements fosite.Session: a copy of plain values.
func (s *GrantSession) Clone() fosite.Session {
	c := *s
	return &c
}

// IDTokenHeaders implements openid.Session; our strategy sets its own.
func (s *GrantSession) IDTokenHeaders() *jwt.Headers { return &jwt.Headers{} }

// IDTokenClaims implements openid.Session. fosite requires a subject there and
// leaves the at_hash; the rest of the ID token is made by idtoken.go.
func (s *GrantSession) IDTokenClaims() *jwt.IDTokenClaims {
	s.atHash.Subject = s.Subject
	s.atHash.AuthTime = s.AuthTime
	s.atHash.RequestedAt = s.RequestedAt
	return &s.atHash
}
