package store

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/provider"
)

// UpdateClient implements provider.ClientStore.
func (s *Store) UpdateClient(ctx context.Context, c *provider.Client) error {
	if odd(c.ID) {
		return provider.ErrClientNotFound
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("update client: %w", err)
	}
	row := rowOf(c)
	return s.writeOne(ctx, "update client", func(db *gorm.DB) error {
		// Select("*") writes zero values too.
		return expect(db.Table("clients").Where("id = ? AND removed_at = 0", c.ID).Select("*").Omit("id", "created_at").Updates(&row), provider.ErrClientNotFound)
	})
}

// RotateClientSecret implements provider.ClientStore. An earlier end of a
// secret is not put off.
func (s *Store) RotateClientSecret(ctx context.Context, id string, hash []byte, now, until time.Time) error {
	if odd(id) {
		return provider.ErrClientNotFound
	}
	end := max(seconds(now), seconds(until))
	return s.write(ctx, "rotate client secret", func(tx *gorm.DB) error {
		// Two rotations at once come one after the other.
		if err := expect(tx.Exec("UPDATE clients SET name = name WHERE id = ? AND removed_at = 0", id), provider.ErrClientNotFound); err != nil {
			return err
		}
		if err := tx.Exec("UPDATE client_secrets SET expires_at = ? WHERE client_id = ? AND (expires_at = 0 OR expires_at > ?)", end, id, end).Error; err != nil {
			return err
		}
		return tx.Exec("INSERT INTO client_secrets (client_id, hash, created_at) VALUES (?, ?, ?)", id, hash, seconds(now)).Error
	})
}

// RemoveClient implements provider.ClientStore. The client is unknown at once.
// What is stored of it goes in batches; should this end before, the sweep goes on.
func (s *Store) RemoveClient(ctx context.Context, id string) error {
	if odd(id) {
		return provider.ErrClientNotFound
	}
	err := s.write(ctx, "remove client", func(tx *gorm.DB) error {
		if err := expect(tx.Exec("UPDATE clients SET removed_at = ? WHERE id = ? AND removed_at = 0", s.now(), id), provider.ErrClientNotFound); err != nil {
			return err
		}
		return tx.Exec("DELETE FROM client_secrets WHERE client_id = ?", id).Error
	})
	if err != nil {
		return err
	}
	return s.purgeClient(ctx, id)
}

// purgeClient deletes what is stored of a removed client, its own row last. The rest
// would go with that (ON DELETE CASCADE), but all at once.
func (s *Store) purgeClient(ctx context.Context, id string) error {
	of, ofIt := removedClient{s, id}, []string{id}
	for _, step := range []func() error{
		func() error { return deleteOf[string](ctx, of, "consents", "sub", "client_id", ofIt, nil) },
		func() error {
			return deleteOf(ctx, of, "grants", "id", "client_id", ofIt, func(grants []string) error {
				return deleteOf[string](ctx, of, "tokens", "sig", "grant_id", grants, nil)
			})
		},
		func() error { return deleteOf[string](ctx, of, "client_tokens", "sig", "client_id", ofIt, nil) },
		func() error { return deleteOf[int64](ctx, of, "logout_outbox", "id", "client_id", ofIt, nil) },
		func() error {
			return s.writeOne(ctx, "remove client", func(db *gorm.DB) error {
				return db.Exec("DELETE FROM clients WHERE id = ? AND removed_at > 0", id).Error
			})
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// sweepClients deletes what is left of removed clients.
func (s *Store) sweepClients(ctx context.Context, count *int64) error {
	var ids []string
	if err := s.conn(ctx).Raw("SELECT id FROM clients WHERE removed_at > 0 ORDER BY id").Find(&ids).Error; err != nil {
		return fail("sweep clients", err)
	}
	for _, id := range ids {
		if err := s.purgeClient(ctx, id); err != nil {
			return err
		}
		*count++
	}
	return nil
}

// removedClient is one whose rows go.
type removedClient struct {
	store *Store
	id    string
}

// deleteOf deletes the rows of owners in batches, in the order of a key, as long as the
// client is a removed one: another process may finish the work meanwhile, and the id be
// registered again. before, which may be nil, comes before each.
func deleteOf[K string | int64](ctx context.Context, of removedClient, table, key, owner string, owners []string, before func(keys []K) error) error {
	doing := "delete " + table
	var last K
	return of.store.batches(ctx, doing, func(b *batch) (bool, error) {
		var keys []K
		err := of.store.conn(ctx).Raw("SELECT DISTINCT "+key+" FROM "+table+" WHERE "+owner+" IN ? AND "+key+" > ? ORDER BY "+key+" LIMIT ?", owners, last, b.rows).Find(&keys).Error
		if err != nil || len(keys) == 0 {
			return false, fail(doing, err)
		}
		last = keys[len(keys)-1]
		if before != nil {
			if err := before(keys); err != nil {
				return false, err
			}
		}
		return len(keys) == b.rows, b.write(func(tx *gorm.DB) error {
			return tx.Exec("DELETE FROM "+table+" WHERE "+key+" IN ? AND "+owner+" IN ? AND EXISTS (SELECT 1 FROM clients k WHERE k.id = ? AND k.removed_at > 0)", keys, owners, of.id).Error
		})
	})
}
