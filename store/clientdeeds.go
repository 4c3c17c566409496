package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/provider"
)

// UpdateClient implements provider.ClientManagement.
func (s *Store) UpdateClient(ctx context.Context, c *provider.Client) error {
	if odd(c.ID) {
		return provider.ErrClientNotFound
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("update client: %w", err)
	}
	row := rowOf(c)
	err := s.writeOne(ctx, "update client", func(db *gorm.DB) error {
		// Select("*") writes zero values too.
		return expect(db.Table("clients").Where("id = ?", c.ID).Select("*").Omit("id", "created_at").Updates(&row), provider.ErrClientNotFound)
	})
	s.clients.forget(c.ID)
	return err
}

// RotateClientSecret implements provider.ClientManagement. An earlier end of a
// secret is not put off.
func (s *Store) RotateClientSecret(ctx context.Context, id string, hash []byte, now, until time.Time) error {
	if odd(id) {
		return provider.ErrClientNotFound
	}
	end := max(seconds(now), seconds(until))
	err := s.write(ctx, "rotate client secret", func(tx *gorm.DB) error {
		// Two rotations at once come one after the other.
		if err := expect(tx.Exec("UPDATE clients SET name = name WHERE id = ?", id), provider.ErrClientNotFound); err != nil {
			return err
		}
		if err := tx.Exec("UPDATE client_secrets SET expires_at = ? WHERE client_id = ? AND (expires_at = 0 OR expires_at > ?)", end, id, end).Error; err != nil {
			return err
		}
		return tx.Exec("INSERT INTO client_secrets (client_id, hash, created_at) VALUES (?, ?, ?)", id, hash, seconds(now)).Error
	})
	s.clients.forget(id)
	return err
}

// RemoveClient implements provider.ClientManagement.
func (s *Store) RemoveClient(ctx context.Context, id string) error {
	if odd(id) {
		return provider.ErrClientNotFound
	}
	err := s.write(ctx, "remove client", func(tx *gorm.DB) error {
		// The rest would go with its row (ON DELETE CASCADE), but then the client
		// would be locked first, and everybody else locks it last.
		for _, statement := range []string{
			"DELETE FROM consents WHERE client_id = ?",
			"DELETE FROM tokens WHERE grant_id IN (SELECT id FROM grants WHERE client_id = ?)",
			"DELETE FROM grants WHERE client_id = ?",
			"DELETE FROM logout_outbox WHERE client_id = ?",
		} {
			if err := tx.Exec(statement, id).Error; err != nil {
				return err
			}
		}
		return expect(tx.Exec("DELETE FROM clients WHERE id = ?", id), provider.ErrClientNotFound)
	})
	s.clients.forget(id)
	return err
}
