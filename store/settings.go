package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/seal"
)

// Settings implements account.Store. Settings that an older version did not store have their
// defaults.
func (s *Store) Settings(ctx context.Context) (account.Settings, error) {
	v, err := settingsOf(s.conn(ctx))
	return v, fail("read settings", err)
}

// storedSettings adds to Settings what the API and the command line do not show.
type storedSettings struct {
	account.Settings

	NextSteps bool `json:"next_steps,omitempty"`
}

func settingsOf(db *gorm.DB) (account.Settings, error) {
	var row struct {
		Value      string
		Hs256Until int64
		Logo       string
		DarkLogo   string
	}
	found := db.Raw(`SELECT value, hs256_until, coalesce((SELECT hash FROM logo WHERE id = 1), '') AS logo,
			coalesce((SELECT hash FROM client_logos WHERE client_id = ?), '') AS dark_logo
		FROM settings WHERE id = 1`, darkLogo).Find(&row)
	if err := expect(found, account.ErrNotInitialized); err != nil {
		return account.Settings{}, err
	}
	stored := storedSettings{Settings: account.DefaultSettings()}
	described := stored.FlagDescriptions
	stored.FlagDescriptions = nil // Unmarshal would keep those of removed flags
	if err := json.Unmarshal([]byte(row.Value), &stored); err != nil {
		return account.Settings{}, fmt.Errorf("decode settings: %w", err)
	}
	out := stored.Settings
	if out.FlagDescriptions == nil {
		out.FlagDescriptions = described
	}
	out.NextSteps = stored.NextSteps
	out.HS256Until, out.Logo, out.DarkLogo = fromUnix(row.Hs256Until), row.Logo, row.DarkLogo
	return out, nil
}

// AmendSettings implements account.Store.
func (s *Store) AmendSettings(
	ctx context.Context, change func(*account.Settings) (string, error), a account.Audit,
) (account.Settings, error) {
	var v account.Settings
	var refused error // of change: not a failure of the database
	err := s.actOnMany(ctx, "amend settings", a, func(tx *engine.Tx) {
		refused = nil
		v = amendSettings(tx, func(v *account.Settings) (changed string, err error) {
			changed, refused = change(v)
			return changed, refused
		}, a)
	})
	if refused != nil {
		return v, fmt.Errorf("amend settings: %w", refused)
	}
	return v, err
}

func amendSettings(
	tx *engine.Tx, change func(*account.Settings) (string, error), a account.Audit,
) account.Settings {
	// The row is locked before it is read.
	tx.Expect(tx.Exec("UPDATE settings SET value = value WHERE id = 1"), account.ErrNotInitialized)
	v, err := settingsOf(tx.DB)
	if tx.Refuse(err); tx.Failed() {
		return v
	}
	second := slices.Clone(v.SecondFactorFlags)
	before, err := json.Marshal(v)
	tx.Refuse(err)
	a.Detail, err = change(&v)
	if tx.Refuse(err); a.Detail == "" {
		return v
	}
	value, err := json.Marshal(storedSettings{v, v.NextSteps})
	tx.Refuse(err)
	a.Former, err = former(before, value)
	tx.Refuse(err)
	tx.Exec("UPDATE settings SET value = ? WHERE id = 1", string(value))
	insertAudit(tx, a)
	added := slices.Clone(v.SecondFactorFlags)
	added = slices.DeleteFunc(added, func(f string) bool { return slices.Contains(second, f) })
	if len(added) > 0 {
		const holders = "g.sub IN (SELECT h.sub FROM user_flags h WHERE h.flag IN @added)"
		revoke(tx, revokeUnfit(tx, fromUnix(tx.Now()), holders, map[string]any{"added": added}))
	}
	return v
}

// former returns those members of a JSON object that another one has not, or not with the same value.
func former(before, after []byte) (string, error) {
	var old, now map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(before, &old), json.Unmarshal(after, &now)); err != nil {
		return "", fmt.Errorf("compare settings: %w", err)
	}
	maps.DeleteFunc(old, func(name string, value json.RawMessage) bool { return bytes.Equal(value, now[name]) })
	if len(old) == 0 {
		return "", nil
	}
	text, err := json.Marshal(old)
	return string(text), err
}

// Logo implements account.Store.
func (s *Store) Logo(ctx context.Context) ([]byte, error) {
	var row struct{ PNG []byte }
	err := s.conn(ctx).Raw("SELECT png FROM logo WHERE id = 1").Find(&row).Error
	return row.PNG, fail("read logo", err)
}

// darkLogo is the row of the picture for the dark scheme among the logos of applications: the table of the other
// has one row, and no application has an empty ID.
const darkLogo = ""

// SetLogo implements account.Store.
func (s *Store) SetLogo(ctx context.Context, dark bool, png []byte, hash string, a account.Audit) error {
	return s.act(ctx, "set logo", a, func(tx *engine.Tx) {
		tx.Expect(tx.Exec("UPDATE settings SET value = value WHERE id = 1"), account.ErrNotInitialized)
		if dark || len(png) == 0 {
			tx.Exec("DELETE FROM client_logos WHERE client_id = ?", darkLogo)
		}
		if !dark {
			tx.Exec("DELETE FROM logo")
		}
		switch {
		case len(png) == 0:
		case dark:
			tx.Exec("INSERT INTO client_logos (client_id, hash, image) VALUES (?, ?, ?)", darkLogo, hash, png)
		default:
			tx.Exec(`INSERT INTO logo (id, png, hash, changed_at)
				VALUES (1, ?, ?, ?)`, png, hash, toUnix(a.At))
		}
		insertAudit(tx, a)
	})
}

// Secret returns a secret stored by Initialize (SecretJWT, SecretInstallation). account.ErrNotInitialized.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	if invalidKey(name) {
		return nil, account.ErrNotInitialized
	}
	var row struct{ Value []byte }
	found := s.conn(ctx).Raw("SELECT value FROM secrets WHERE name = ?", name).Find(&row)
	if err := expect(found, account.ErrNotInitialized); err != nil {
		return nil, fail("read secret", err)
	}
	value, err := s.sealer.Open(seal.StoredSecret, name, string(row.Value))
	return []byte(value), fail("read secret", err)
}

// Initialize implements account.Store. With a data key a new installation is sealed.
func (s *Store) Initialize(ctx context.Context, v account.Settings, secrets map[string][]byte) (bool, error) {
	value, err := json.Marshal(storedSettings{v, v.NextSteps})
	if err != nil {
		return false, fmt.Errorf("encode settings: %w", err)
	}
	var stored int64
	err = s.write(ctx, "initialize", func(tx *engine.Tx) {
		stored = tx.Exec("INSERT INTO settings (id, value) VALUES (1, ?) ON CONFLICT (id) DO NOTHING", string(value))
		if stored > 0 && s.sealer.Configured() {
			s.sealer.Mark(tx)
		}
		k := s.sealer.In(tx)
		for _, name := range slices.Sorted(maps.Keys(secrets)) {
			value := []byte(k.Seal(seal.StoredSecret, name, string(secrets[name])))
			stored += tx.Exec(`INSERT INTO secrets (name, value) VALUES (?, ?)
				ON CONFLICT (name) DO NOTHING`, name, value)
		}
	})
	return err == nil && stored > 0, err
}
