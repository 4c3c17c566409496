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

// ClientAssertionJWTValid implements fosite.ClientManager: fosite.ErrJTIKnown
// for an id that was used and has not expired.
func (s *Store) ClientAssertionJWTValid(ctx context.Context, jti string) error {
	var known int64
	err := s.conn(ctx).Raw("SELECT count(*) FROM client_assertions WHERE jti_hash = ? AND expires_at > ?", assertionKey(jti), s.now()).Scan(&known).Error
	if err == nil && known > 0 {
		err = fosite.ErrJTIKnown
	}
	return fail("check client assertion", err)
}

// SetClientAssertionJWT implements fosite.ClientManager. Of several uses at
// once one succeeds, the others get fosite.ErrJTIKnown.
func (s *Store) SetClientAssertionJWT(ctx context.Context, jti string, exp time.Time) error {
	return s.writeOne(ctx, "keep client assertion", func(db *gorm.DB) error {
		// GORM takes a []byte right after a parenthesis for a list of values.
		return expect(db.Exec(`INSERT INTO client_assertions (expires_at, jti_hash) VALUES (?, ?)
			ON CONFLICT (jti_hash) DO UPDATE SET expires_at = excluded.expires_at WHERE client_assertions.expires_at <= ?`,
			seconds(exp), assertionKey(jti), s.now()), fosite.ErrJTIKnown)
	})
}
