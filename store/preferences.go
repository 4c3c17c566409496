package store

import (
	"context"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

type preferenceRow struct{ Sub, Name, Value string }

func preferencesOf(db *gorm.DB, sub string) (map[string]string, error) {
	out := map[string]string{}
	var rows []preferenceRow
	err := db.Raw("SELECT name, value FROM preferences WHERE sub = ?", sub).Find(&rows).Error
	for _, r := range rows {
		out[r.Name] = r.Value
	}
	return out, err
}

// Preferences implements account.Store.
func (s *Store) Preferences(ctx context.Context, sub string) (map[string]string, error) {
	out, err := preferencesOf(s.conn(ctx), sub)
	return out, fail("read preferences", err)
}

// MergePreferences implements account.Store. ErrInvalidPreference also for text that only one of
// the databases would accept.
func (s *Store) MergePreferences(
	ctx context.Context, sub string, change map[string]*string, max int, a account.Audit,
) (map[string]string, error) {
	var set []preferenceRow
	var remove []string
	for name, value := range change {
		switch {
		case invalidKey(name):
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
	err := s.act(ctx, "merge preferences", a, func(tx *engine.Tx) {
		lockUser(tx, sub)
		if len(remove) > 0 {
			tx.Exec("DELETE FROM preferences WHERE sub = ? AND name IN ?", sub, remove)
		}
		if len(set) > 0 {
			key := []clause.Column{{Name: "sub"}, {Name: "name"}}
			replace := clause.OnConflict{Columns: key, DoUpdates: clause.AssignmentColumns([]string{"value"})}
			tx.Ran(tx.Table("preferences").Clauses(replace).Create(&set))
		}
		var err error
		after, err = preferencesOf(tx.DB, sub)
		if tx.Refuse(err); len(after) > max {
			tx.Refuse(account.ErrInvalidPreference)
		}
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}
