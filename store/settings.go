package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// Settings implements account.Store. What an older version did not store has
// its default.
func (s *Store) Settings(ctx context.Context) (account.Settings, error) {
	var row struct {
		Value      string
		Hs256Until int64
	}
	if err := expect(s.conn(ctx).Raw("SELECT value, hs256_until FROM settings WHERE id = 1").Find(&row), account.ErrNotInitialized); err != nil {
		return account.Settings{}, fail("read settings", err)
	}
	out := account.DefaultSettings()
	if err := json.Unmarshal([]byte(row.Value), &out); err != nil {
		return account.Settings{}, fail("decode settings", err)
	}
	out.HS256Until = moment(row.Hs256Until)
	return out, nil
}

// SaveSettings implements account.Store.
func (s *Store) SaveSettings(ctx context.Context, v account.Settings, a account.Audit) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	return s.write(ctx, "save settings", func(tx *gorm.DB) error {
		if err := expect(tx.Exec("UPDATE settings SET value = ? WHERE id = 1", string(value)), account.ErrNotInitialized); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// Secret implements account.Store.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	if odd(name) {
		return nil, account.ErrNotInitialized
	}
	var row struct{ Value []byte }
	if err := expect(s.conn(ctx).Raw("SELECT value FROM secrets WHERE name = ?", name).Find(&row), account.ErrNotInitialized); err != nil {
		return nil, fail("read secret", err)
	}
	return row.Value, nil
}

// Initialize implements account.Store.
func (s *Store) Initialize(ctx context.Context, v account.Settings, secrets map[string][]byte) (bool, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return false, fmt.Errorf("encode settings: %w", err)
	}
	var stored int64
	err = s.write(ctx, "initialize", func(tx *gorm.DB) error {
		res := tx.Exec("INSERT INTO settings (id, value) VALUES (1, ?) ON CONFLICT (id) DO NOTHING", string(value))
		if res.Error != nil {
			return res.Error
		}
		stored = res.RowsAffected
		for _, name := range slices.Sorted(maps.Keys(secrets)) {
			res := tx.Exec("INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", name, secrets[name])
			if res.Error != nil {
				return res.Error
			}
			stored += res.RowsAffected
		}
		return nil
	})
	return err == nil && stored > 0, err
}
