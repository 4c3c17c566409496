package store

import (
	"context"
	"time"

	"github.com/ory/fosite"
	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// SavePushedRequest implements provider.PushedRequests.
func (s *Store) SavePushedRequest(ctx context.Context, hash []byte, clientID, query string, expires time.Time) error {
	return s.writeOne(ctx, "save pushed request", func(db *gorm.DB) error {
		if len(hash) == 0 || odd(clientID) || odd(query) {
			return account.ErrUnavailable
		}
		return db.Exec("INSERT INTO pushed_requests (client_id, hash, query, expires_at) VALUES (?, ?, ?, ?)", clientID, hash, query, seconds(expires)).Error
	})
}

// TakePushedRequest implements provider.PushedRequests. Of several at once one
// gets it. An attempt of another client leaves it to its owner.
func (s *Store) TakePushedRequest(ctx context.Context, hash []byte, clientID string, now time.Time) (string, error) {
	if len(hash) == 0 || odd(clientID) {
		return "", fosite.ErrNotFound
	}
	var query string
	err := s.writeOne(ctx, "take pushed request", func(db *gorm.DB) error {
		return expect(db.Raw("DELETE FROM pushed_requests WHERE hash = ? AND client_id = ? AND expires_at > ? RETURNING query", hash, clientID, seconds(now)).Find(&query),
			fosite.ErrNotFound)
	})
	return query, err
}
