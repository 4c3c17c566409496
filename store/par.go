package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// SavePushedRequest implements provider.Storage.
func (s *Store) SavePushedRequest(ctx context.Context, hash []byte, clientID, query string, expires time.Time) error {
	return s.writeOne(ctx, "save pushed request", func(db *gorm.DB) error {
		if invalidKey(query) {
			return account.ErrUnavailable
		}
		return db.Exec(`INSERT INTO pushed_requests (client_id, hash, query, expires_at)
			VALUES (?, ?, ?, ?)`, clientID, hash, query, toUnix(expires)).Error
	})
}

// PushedRequest implements provider.Storage.
func (s *Store) PushedRequest(ctx context.Context, hash []byte, clientID string, now time.Time) (string, error) {
	if invalidKey(clientID) {
		return "", provider.ErrNotFound
	}
	var query string
	err := expect(s.conn(ctx).Raw(`SELECT query FROM pushed_requests
		WHERE hash = ? AND client_id = ? AND expires_at > ?`, hash, clientID, toUnix(now)).Find(&query),
		provider.ErrNotFound)
	return query, fail("find pushed request", err)
}

// SpendAssertion implements provider.Storage. It stores a hash of the id, which may have any length
// and characters.
func (s *Store) SpendAssertion(ctx context.Context, clientID, jti string, expires time.Time) error {
	return s.writeOne(ctx, "keep client assertion", func(db *gorm.DB) error {
		if invalidKey(clientID) {
			return account.ErrUnavailable
		}
		return expect(db.Exec(`INSERT INTO client_assertions (client_id, jti_hash, expires_at) VALUES (?, ?, ?)
			ON CONFLICT (client_id, jti_hash) DO UPDATE SET expires_at = excluded.expires_at
			WHERE client_assertions.expires_at <= ?`,
			clientID, account.HashSecret(jti), toUnix(expires), s.Now()), provider.ErrSpent)
	})
}
