package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
)

type preferenceRow struct{ Sub, Name, Value string }

func preferencesOf(db *gorm.DB, sub string) (map[string]string, error) {
	out := map[string]string{}
	if odd(sub) {
		return out, nil
	}
	var rows []preferenceRow
	if err := db.Raw("SELECT name, value FROM preferences WHERE sub = ?", sub).Find(&rows).Error; err != nil {
		return nil, err
	}
	for _, r := range rows {
		out[r.Name] = r.Value
	}
	return out, nil
}

// Preferences implements account.Store.
func (s *Store) Preferences(ctx context.Context, sub string) (map[string]string, error) {
	out, err := preferencesOf(s.conn(ctx), sub)
	return out, fail("read preferences", err)
}

// MergePreferences implements account.Store. ErrInvalidPreference also for text
// that only one of the databases would take.
func (s *Store) MergePreferences(ctx context.Context, sub string, change map[string]*string, max int) (map[string]string, error) {
	var set []preferenceRow
	var remove []string
	for name, value := range change {
		switch {
		case odd(name):
			return nil, account.ErrInvalidPreference
		case value == nil:
			remove = append(remove, name)
		case strings.ContainsRune(*value, 0) || !utf8.ValidString(*value):
			return nil, account.ErrInvalidPreference
		default:
			set = append(set, preferenceRow{sub, name, *value})
		}
	}
	var after map[string]string
	err := s.write(ctx, "merge preferences", func(tx *gorm.DB) error {
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		if len(remove) > 0 {
			if err := tx.Exec("DELETE FROM preferences WHERE sub = ? AND name IN ?", sub, remove).Error; err != nil {
				return err
			}
		}
		if len(set) > 0 {
			replace := clause.OnConflict{Columns: []clause.Column{{Name: "sub"}, {Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"value"})}
			if err := tx.Table("preferences").Clauses(replace).Create(&set).Error; err != nil {
				return err
			}
		}
		var err error
		if after, err = preferencesOf(tx, sub); err != nil {
			return err
		}
		if len(after) > max {
			return account.ErrInvalidPreference
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}
