package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/ory/fosite"
	"gorm.io/gorm"
)

// assertionKey is how the id of a client assertion (RFC 7523 section 3, jti) is
// kept: whatever its length and characters.
func assertionKey(jti string) []byte {
	h := sha256.Sum256([]byte(jti))
	return h[:]
}

// anyClient is where an id is kept of which the client is not known.
const anyClient = ""

// SpendAssertion implements provider.Assertions.
func (s *Store) SpendAssertion(ctx context.Context, clientID, jti string, expires time.Time) error {
	if odd(clientID) {
		return fail("keep client assertion", errNoClient)
	}
	return s.spendAssertion(ctx, clientID, jti, expires)
}

func (s *Store) spendAssertion(ctx context.Context, clientID, jti string, expires time.Time) error {
	return s.writeOne(ctx, "keep client assertion", func(db *gorm.DB) error {
		return expect(db.Exec(`INSERT INTO client_assertions (client_id, jti_hash, expires_at) VALUES (?, ?, ?)
			ON CONFLICT (client_id, jti_hash) DO UPDATE SET expires_at = excluded.expires_at WHERE client_assertions.expires_at <= ?`,
			clientID, assertionKey(jti), seconds(expires), s.now()), fosite.ErrJTIKnown)
	})
}

// ClientAssertionJWTValid implements fosite.ClientManager: fosite.ErrJTIKnown
// for an id that was used and has not expired.
func (s *Store) ClientAssertionJWTValid(ctx context.Context, jti string) error {
	var known int64
	err := s.conn(ctx).Raw("SELECT count(*) FROM client_assertions WHERE client_id = ? AND jti_hash = ? AND expires_at > ?", anyClient, assertionKey(jti), s.now()).Find(&known).Error
	if err == nil && known > 0 {
		err = fosite.ErrJTIKnown
	}
	return fail("check client assertion", err)
}

// SetClientAssertionJWT implements fosite.ClientManager. Of several uses at
// once one succeeds, the others get fosite.ErrJTIKnown.
func (s *Store) SetClientAssertionJWT(ctx context.Context, jti string, exp time.Time) error {
	return s.spendAssertion(ctx, anyClient, jti, exp)
}
